/* Internals of engine/device/gpu.h: gpu.c opens GPUs and ranks, gpu_lanes.c implements a rank's lanes with streams,
 * gpu_ops.c implements the device operations of collectives, gpu_pages.c the memory. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/tier.h"
#include "engine/device/gpu.h"
#include "engine/memory/mover.h"
#include "engine/memory/pages.h"
#include "engine/zero/lane_stream.h"
#include "kernels/cuda/clique.h"
#include "kernels/cuda/device.h"

/* A rank's GPU memory: the pages of its device tier, and the pinned pieces of its host tier. The allocator gets both
 * through `pages` (engine/memory/pages.h).
 *
 * Do not move an open struct: the allocator keeps a pointer to `pages`, and calls it under its own lock. Errors are STATUS_RUN. */
struct gpu_piece { unsigned char *at; uint64_t bytes; };

struct gpu_pages {
    struct device *device;
    struct device_range range[CATEGORIES]; /* one for each category, one for all symmetric categories; base NULL: free */
    pthread_mutex_t lock;                  /* lanes copy while the allocator pins */
    struct gpu_piece *pinned;              /* sorted by address */
    int pinned_count;
    struct pages pages;
};

void gpu_pages_open(struct gpu_pages *pages, struct device *device);
void gpu_pages_close(struct gpu_pages *pages); /* after the allocator has returned all memory; accepts a zeroed struct */

/* How many of `bytes` at that address one copy may take. CUDA refuses copies across the border of pinned memory and
 * across the border between two pinned pieces. */
uint64_t gpu_pages_stretch(struct gpu_pages *pages, const void *at, uint64_t bytes);

struct gpu {
    struct device *devices[DEVICES_MOST]; /* by number; NULL: not used by this process */
    struct gpu_rank **rank;  /* by number; gpu_rank_open() sets each, before the rank's first collective; NULL: of another process */
    struct gpu_place *place; /* by rank; info is not set */
    int rank_count, gpus;    /* of the run */
    struct comm *comm;       /* of the one rank of this process; NULL: all ranks are its threads */
    struct clique *clique;   /* NULL: ranks read each other's memory */
    bool adds;               /* the clique adds, too */
    bool fused_gelu;         /* topology.fused_gelu */
    atomic_flag is_told;   /* stranded() has printed why the process ends */
};

struct gpu_lane {
    struct gpu_rank *rank;
    struct device_stream *stream;
    struct mover mover;
    struct lane_stream ahead;
    struct device_event *marks[LANE_MARKS];
};

/* The communication lane's events at a meeting: when its stream arrived, and when it went on. */
struct gpu_meeting { struct device_event *came, *met; };

struct gpu_rank {
    struct gpu *gpu;
    int number;
    struct gpu_place place;
    struct device *on;
    struct communicator *communicator;
    struct gpu_pages pages;
    struct gpu_lane lanes[LANES];
    struct gpu_meeting meetings[COMM_MEETINGS];
    struct kernels *kernels;
    struct comm_device_ops device_ops;
    struct zero_device device;
};

/* Both open functions set their fields of rank->device. After an error, gpu_rank_close() also closes a half-opened part. */
int gpu_lanes_open(struct gpu_rank *rank, struct error *err);
void gpu_lanes_close(struct gpu_rank *rank);
int gpu_ops_open(struct gpu_rank *rank, struct error *err);
void gpu_ops_close(struct gpu_rank *rank);
