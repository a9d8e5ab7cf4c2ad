/* The loss scale of fp16 training, as a state machine of its own: DeepSpeed's DynamicLossScaler event by event (its static
 * one where loss_scale is given). The loss is multiplied by `scale` before backward, so that small gradients do not vanish
 * in fp16; one that overflows costs its step. */
#ifndef ENGINE_OPTIM_LOSS_SCALE_H
#define ENGINE_OPTIM_LOSS_SCALE_H

#include "engine/config/config.h"

struct loss_scaler {
    const struct config_fp16 *options;
    double scale;
    int64_t iteration, last_overflow; /* -1: none yet */
    int hysteresis;                   /* overflows to go until one halves the scale; 1: the next one does */
};

enum loss_scale_event {
    LOSS_SCALE_KEPT,
    LOSS_SCALE_RAISED,
    LOSS_SCALE_HELD,    /* an overflow that only used up hysteresis, or met a static scale */
    LOSS_SCALE_LOWERED,
    LOSS_SCALE_AT_END,  /* an overflow at the smallest scale: DeepSpeed ends the run here */
};

/* Scale 1 and never an event, unless fp16 is enabled. */
void loss_scaler_init(struct loss_scaler *scaler, const struct config_fp16 *options);

/* Whether the scale is dynamic and can still fall: an overflow says nothing about the model yet. */
bool loss_scaler_searches(const struct loss_scaler *scaler);

/* After a step: whether its gradients overflowed (then it was skipped). The scale is that of the next step. */
enum loss_scale_event loss_scaler_update(struct loss_scaler *scaler, bool overflow);

#endif
