/* The lasting state of a run as those outside the engine see it: arrays of fp32 values, unit by unit, neither sharded nor
 * padded. Initial values, checkpoints and files of other programs all come in this way, and all go out this way. */
#ifndef ENGINE_ZERO_STATE_H
#define ENGINE_ZERO_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/optim/loss_scale.h"

/* What there is of each unit: the weights in fp32 (master weights, or in fp32 training the weights themselves), and as many
 * states as the optimizer keeps (optimizers.def). 16-bit parameters are the weights rounded, always. With delayed updates
 * (zero_progress.pending) also the gradients with which the next step will update. */
enum state_array { STATE_WEIGHTS, STATE_1, STATE_2, STATE_PENDING, STATE_ARRAYS };

/* How far a run is. With the arrays and the configuration this is all that the next step depends on: samples are drawn by
 * their number, and random numbers are functions of their place. */
struct zero_progress {
    int64_t steps_done;
    int64_t updates; /* steps that were not skipped: place in the schedule of the learning rate, bias correction */
    int64_t samples; /* that these steps have read: the place in the data, however large their batches were */
    bool pending;         /* STATE_PENDING is there; its update is counted in `updates` already */
    float pending_factor; /* multiplies it: clipping, unscaling */
    struct { double scale; int64_t iteration, last_overflow; int hysteresis; } scaler; /* struct loss_scaler; scale 0: as a run begins */
    int skips; /* the last so many steps were skipped (schedule.max_skips) */
};

/* What whoever reads or writes the state through a file is lent for its buffers, at a multiple of 4096: by a rank out of its
 * host memory (zero_buffers_take()), by a program without ranks out of an allocator of its own. Nobody has buffers that
 * nobody lent, so all are counted. */
enum { STATE_BUFFERS_BYTES = 2 << 20 };

/* Where a rank's state comes from when it starts. */
struct state_source {
    void *user;
    /* Elements [first, first + elems) of an array of a unit. Each rank asks for its own shards only, from its own thread,
     * by unit, then array, then in ascending pieces. A source without states leaves zeros. */
    int (*read)(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);
    struct zero_progress progress;
    /* Lends it STATE_BUFFERS_BYTES before the first read; takes them back with NULL. NULL: it needs none. */
    void (*lend)(void *user, void *buffers);
};

#endif
