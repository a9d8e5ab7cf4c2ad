/* The lasting state of a run outside the engine: arrays of fp32 values, unit by unit, neither sharded nor padded. Initial values,
 * checkpoints and files of other programs enter and leave the engine in this form. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/optim/loss_scale.h"

/* The arrays of each unit: the weights in fp32 (master weights, or in fp32 training the weights themselves), and as many states
 * as the optimizer keeps (optimizers.def). 16-bit parameters are always the weights rounded. With delayed updates
 * (zero_progress.pending) there are also the gradients with which the next step will update. */
enum state_array { STATE_WEIGHTS, STATE_1, STATE_2, STATE_PENDING, STATE_ARRAYS };

/* The progress of a run. The next step depends only on this, the arrays and the configuration: samples are drawn by their number,
 * and each random number is a function of its position. */
struct zero_progress {
    int64_t steps_done;
    int64_t updates; /* steps that were not skipped: for the learning rate schedule and bias correction */
    int64_t samples; /* samples read by these steps: the place in the data, whatever the batch sizes were */
    bool pending;         /* STATE_PENDING is there; its update is counted in `updates` already */
    float pending_factor; /* multiplies STATE_PENDING: clipping, unscaling */
    struct loss_scaler scaler; /* scale 0: as at the start of a run; options: the running rank's */
    int skips; /* how many steps in a row were skipped and count for schedule.max_skips */
};

/* Size of the I/O buffer that a reader or writer of state files borrows; its address is a multiple of 4096. A rank lends it from
 * its host memory (zero_buffers_take()), an offline command from its own allocator. No code allocates I/O buffers outside an
 * allocator, so all are counted. */
enum { STATE_BUFFERS_BYTES = 2 << 20 };

/* A source of state: a rank reads it when it starts, and a checkpoint writer reads a rank through it. */
struct state_source {
    void *user;
    /* Writes elements [first, first + elems) of a unit's array to `out`. Each rank reads only its own shards, from its own thread,
     * by unit, then array, then in ascending pieces. A source without optimizer states writes zeros. */
    int (*read)(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);
    struct zero_progress progress;
    int slice; /* the slice of each unit that a saving rank writes (zero_own()) */
    /* Lends the source STATE_BUFFERS_BYTES before the first read; buffers NULL takes them back. lend NULL: it needs none. */
    void (*lend)(void *user, void *buffers);
};
