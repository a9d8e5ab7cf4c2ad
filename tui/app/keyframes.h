/* Keyframes: snapshots of the model before each step, or before every `spacing` steps, from which folding can begin.
 * When they take more than bytes_max, every other one is dropped, and half as many are taken from then on. */
#ifndef TUI_APP_KEYFRAMES_H
#define TUI_APP_KEYFRAMES_H

#include "engine/observe/snapshot.h"

struct keyframe {
    uint32_t step;    /* the step about to begin: the next record is its first STEP_BEGIN */
    uint64_t time_ns; /* time of that record */
    struct run_snapshot *snapshot;
};

struct keyframes {
    struct keyframe *at; /* oldest first */
    int count, room;
    uint32_t spacing;    /* steps between two */
    size_t bytes, bytes_max;
};

void keyframes_init(struct keyframes *keyframes, size_t bytes_max);
void keyframes_release(struct keyframes *keyframes);

/* Call before `model` folds the first STEP_BEGIN of this step. If memory is short, the keyframe is left out. */
void keyframes_put(struct keyframes *keyframes, uint32_t step, uint64_t time_ns, struct run_model *model);

/* keyframe_before_*(): the last keyframe at or before it; keyframe_from_step(): the first from it on. NULL: none. */
const struct keyframe *keyframe_before_step(const struct keyframes *keyframes, uint32_t step);
const struct keyframe *keyframe_before_time(const struct keyframes *keyframes, uint64_t time_ns);
const struct keyframe *keyframe_from_step(const struct keyframes *keyframes, uint32_t step);

#endif
