/* Moments of a run from which one can begin to fold: the state before each step, or before every so many of them. When they
 * take more room than allowed, every other one goes and half as many are taken from then on. */
#ifndef TUI_APP_KEYFRAMES_H
#define TUI_APP_KEYFRAMES_H

#include "engine/observe/snapshot.h"

struct keyframe {
    uint32_t step;    /* that was about to begin: the next record is its first STEP_BEGIN ... */
    uint64_t time_ns; /* ... of this time */
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

/* `model` is about to fold the first STEP_BEGIN of this step. Without memory it is left out. */
void keyframes_put(struct keyframes *keyframes, uint32_t step, uint64_t time_ns, struct run_model *model);

/* The last that is not after it; the first that is not before it. NULL: none. */
const struct keyframe *keyframe_before_step(const struct keyframes *keyframes, uint32_t step);
const struct keyframe *keyframe_before_time(const struct keyframes *keyframes, uint64_t time_ns);
const struct keyframe *keyframe_from_step(const struct keyframes *keyframes, uint32_t step);

#endif
