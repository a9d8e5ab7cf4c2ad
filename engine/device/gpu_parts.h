/* The inside of engine/device/gpu.h: gpu.c opens GPUs and ranks on them, gpu_lanes.c makes a rank's lanes of streams, gpu_ops.c has
 * ranks work together. */
#ifndef ENGINE_DEVICE_GPU_PARTS_H
#define ENGINE_DEVICE_GPU_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/tier.h"
#include "engine/device/gpu.h"
#include "engine/memory/mover.h"
#include "engine/memory/pages.h"
#include "engine/zero/lane_stream.h"
#include "kernels/cuda/clique.h"
#include "kernels/cuda/device.h"

/* A rank's memory as far as a GPU has to do with it: the pages of its device tier, which lie there, and the pieces of its host
 * tier that are pinned for it. `pages` is what the allocator asks for both (engine/memory/pages.h).
 *
 * What is open must not be moved: the allocator keeps a pointer to `pages`, and calls under its lock. Errors are STATUS_RUN. */
struct gpu_piece { unsigned char *at; uint64_t bytes; };

struct gpu_pages {
    struct device *device;
    struct device_stream *stream;          /* on which what is newly committed is cleared */
    struct device_range range[CATEGORIES]; /* every category has one, the symmetric ones share one; base NULL: free */
    pthread_mutex_t lock;                  /* lanes copy while the allocator pins */
    struct gpu_piece *pinned;              /* by address */
    int pinned_count;
    struct pages pages;
};

int gpu_pages_open(struct gpu_pages *pages, struct device *device, struct error *err);
void gpu_pages_close(struct gpu_pages *pages); /* after the allocator has given all back; also what was never opened, if zeroed */

/* How many of the bytes at that address can be copied at once: a copy must not cross the border of what is pinned (CUDA refuses
 * it), nor that between two pieces of it. */
uint64_t gpu_pages_stretch(struct gpu_pages *pages, const void *at, uint64_t bytes);

struct gpu {
    struct device *devices[DEVICES_MOST];
    int count;              /* one for each rank, or one for all */
    int ranks;              /* on each */
    struct gpu_rank **rank; /* all of them; each enters itself before it meets others */
    int rank_count;
    struct clique *clique; /* NULL: ranks read each other's memory */
    atomic_flag is_told;   /* why the process ends without its ranks */
};

struct gpu_lane {
    struct gpu_rank *rank;
    struct device_stream *stream;
    struct mover mover;
    struct lane_stream ahead;
    struct device_event *marks[LANE_MARKS];
};

/* Where the communication lane has come to a meeting, and where it is past it. */
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

/* Both set what struct zero_device says of their part. What was made before an error is closed as the rest is. */
int gpu_lanes_open(struct gpu_rank *rank, struct error *err);
void gpu_lanes_close(struct gpu_rank *rank);
int gpu_ops_open(struct gpu_rank *rank, struct error *err);
void gpu_ops_close(struct gpu_rank *rank);

#endif
