/* Internals of engine/device/gpu.h: gpu.c opens GPUs and ranks, gpu_lanes.c implements a rank's lanes with streams,
 * gpu_ops.c implements the device operations of collectives, gpu_pages.c the memory,
 * gpu_share.c maps the GPU memory of other processes. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/un.h>

#include "engine/base/tier.h"
#include "engine/device/gpu.h"
#include "engine/memory/mover.h"
#include "engine/memory/pages.h"
#include "engine/zero/lane_stream.h"
#include "kernels/cuda/clique.h"
#include "kernels/cuda/device.h"

/* A rank's GPU memory: the pages of its device tier, and the pinned pieces of its host tier. The allocator gets both through `pages`
 * (engine/memory/pages.h).
 *
 * Do not move an open struct gpu_pages: the allocator keeps a pointer to `pages`, and calls it under its own lock. Errors are
 * STATUS_RUN. */
struct gpu_piece { unsigned char *at; uint64_t bytes; };

struct gpu_share;
struct gpu_pages {
    struct device *device;
    struct gpu_share *share;               /* gpu_share_note() notes committed and returned pages there */
    struct device_range range[CATEGORIES]; /* one for all symmetric categories together, one for each of the others; base NULL: free */
    pthread_mutex_t lock;                  /* lanes copy while the allocator pins */
    struct gpu_piece *pinned;              /* sorted by address */
    int pinned_count;
    struct pages pages;
};

void gpu_pages_open(struct gpu_pages *pages, struct device *device, struct gpu_share *share);
void gpu_pages_close(struct gpu_pages *pages); /* after the allocator has returned all memory; accepts a zeroed struct */

/* How many of `bytes` at that address one copy may take. CUDA refuses copies across the border of pinned memory and
 * across the border between two pinned pieces. */
uint64_t gpu_pages_stretch(struct gpu_pages *pages, const void *at, uint64_t bytes);
struct device_range *gpu_pages_range(struct gpu_pages *pages, const void *base); /* the range that begins at `base`; NULL: none */

/* For ranks that are processes and read each other's GPU memory in place (gpu_share.c). Memory of a segment is committed in pieces, each of
 * which has a number. */
struct gpu_table { _Atomic uint64_t changes; _Atomic uint32_t number[]; /* by page: number of its piece; 0: none */ };
struct gpu_peer {
    struct sockaddr_un door;
    struct gpu_table *table;
    struct device_range range; /* the peer's segment, as far as it is mapped here */
    uint32_t *number;          /* by page: number of the piece that is mapped here; 0: none */
    uint64_t seen_changes;
};
struct gpu_share {
    struct device_range *range; /* the own symmetric segment; NULL: not attached, or gone */
    struct gpu_table *table;
    uint64_t table_bytes;
    uint32_t last_number;
    int table_fd, door;
    bool answers;
    pthread_mutex_t lock; /* the allocator changes the pieces of the own segment while `thread` answers peers */
    pthread_t thread;
    struct gpu_peer *peers; /* by rank */
};

struct gpu {
    struct device *devices[DEVICES_MOST]; /* by number; NULL: not used by this process */
    struct gpu_rank **rank;  /* by number; gpu_rank_open() sets each, before the rank's first collective; NULL: of another process */
    struct gpu_place *place; /* by rank; info is not set */
    int rank_count, gpus;    /* of the run */
    struct comm *comm;       /* of the one rank of this process; NULL: all ranks are its threads */
    struct clique *clique;   /* NULL: ranks read each other's memory */
    bool adds;               /* the clique also computes the sums of reductions */
    bool fused_gelu;         /* topology.fused_gelu */
    atomic_flag is_told;   /* stranded() (gpu_ops.c) has printed why the process ends */
};

struct gpu_lane {
    struct gpu_rank *rank;
    struct device_stream *stream;
    struct mover mover;
    struct lane_stream ahead;
    struct device_event *marks[LANE_MARKS];
};

/* Two events of the communication lane at a device barrier: its stream arrived; its stream went on. */
struct gpu_meeting { struct device_event *came, *met; };

struct gpu_rank {
    struct gpu *gpu;
    int number;
    struct gpu_place place;
    struct device *on;
    struct sensors *sensors; /* open on the GPU's first rank only; NULL: another rank, or no sensors */
    struct communicator *communicator;
    struct gpu_pages pages;
    struct gpu_lane lanes[LANES];
    struct gpu_meeting meetings[COMM_MEETINGS];
    struct kernels *kernels;
    struct gpu_share share;
    struct comm_device_ops device_ops;
    struct zero_device device;
};

/* Both open functions set their fields of rank->device. After an error, gpu_rank_close() also closes a half-opened part. */
int gpu_lanes_open(struct gpu_rank *rank, struct error *err);
void gpu_lanes_close(struct gpu_rank *rank);
int gpu_ops_open(struct gpu_rank *rank, struct error *err);
void gpu_ops_close(struct gpu_rank *rank);

/* After gpu_ops_open(): sets the fields `attach`, `reach` and `come` of rank->device_ops where ranks are processes without NCCL. */
void gpu_share_open(struct gpu_rank *rank);
void gpu_share_close(struct gpu_rank *rank);
/* Updates the table after pages of a range, in the bytes [first, end), were committed or returned. Once the table is there, the caller
 * takes share->lock before it commits or returns pages, and keeps it until this returns. */
void gpu_share_note(struct gpu_share *share, const struct device_range *range, uint64_t first, uint64_t end);
