/* The loss scale of fp16 training: a state machine with the transitions of DeepSpeed's DynamicLossScaler (of its static LossScaler
 * if loss_scale is given). The loss is multiplied by `scale` before backward, so that small gradients do not vanish in fp16. A step
 * with a gradient that overflows is skipped. */
#pragma once

#include "engine/config/config.h"

struct loss_scaler {
    const struct config_fp16 *options;
    double scale;
    int64_t iteration, last_overflow; /* iteration: steps so far with a dynamic scale; last_overflow: of the last overflow, -1: none yet */
    int hysteresis;                   /* overflows until the scale is halved; 1: the next one halves it */
};

enum loss_scale_event {
    LOSS_SCALE_KEPT,
    LOSS_SCALE_RAISED,
    LOSS_SCALE_HELD,    /* an overflow that changed no scale: it used up hysteresis, the scale is static, or fp16 is off */
    LOSS_SCALE_LOWERED,
    LOSS_SCALE_AT_END,  /* an overflow at the smallest scale: DeepSpeed ends the run then */
};

/* Keeps a reference to options. Unless fp16 is enabled, the scale is 1 for ever and updates give only KEPT or, if skipped, HELD. */
void loss_scaler_init(struct loss_scaler *scaler, const struct config_fp16 *options);

/* Whether the scale is dynamic and can still fall. Then an overflow says nothing about the model yet. */
bool loss_scaler_searches(const struct loss_scaler *scaler);

/* After a step: overflow says whether its gradients overflowed, so that it was skipped. Sets the scale of the next step. */
enum loss_scale_event loss_scaler_update(struct loss_scaler *scaler, bool overflow);
