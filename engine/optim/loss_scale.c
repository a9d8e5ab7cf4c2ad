/* The loss scale of fp16: static, or DeepSpeed's dynamic one. */
#include "engine/optim/loss_scale.h"

#include <math.h>

void loss_scaler_init(struct loss_scaler *scaler, const struct config_fp16 *options)
{
    *scaler = (struct loss_scaler){.options = options, .last_overflow = -1, .hysteresis = options->hysteresis};
    scaler->scale = !options->enabled         ? 1
                    : options->loss_scale > 0 ? options->loss_scale
                                              : ldexp(1, options->initial_scale_power);
}

bool loss_scaler_searches(const struct loss_scaler *scaler)
{
    const struct config_fp16 *options = scaler->options;
    return options->enabled && options->loss_scale == 0 && scaler->scale > options->min_loss_scale;
}

static enum loss_scale_event overflowed(struct loss_scaler *scaler)
{
    const double smallest = scaler->options->min_loss_scale;
    scaler->last_overflow = scaler->iteration;
    if (scaler->hysteresis > 1) {
        scaler->hysteresis--;
        return LOSS_SCALE_HELD;
    }
    if (scaler->scale == smallest) return LOSS_SCALE_AT_END;
    scaler->scale = fmax(scaler->scale / 2, smallest);
    return LOSS_SCALE_LOWERED;
}

/* The scale is raised window + 1 clean steps after an overflow or the start, then after every further window. */
static enum loss_scale_event went_well(struct loss_scaler *scaler)
{
    const struct config_fp16 *options = scaler->options;
    const int64_t stable = scaler->iteration - scaler->last_overflow - 1;
    const bool raise = stable > 0 && stable % options->loss_scale_window == 0;
    if (raise || options->consecutive_hysteresis) scaler->hysteresis = options->hysteresis;
    if (!raise) return LOSS_SCALE_KEPT;
    scaler->scale *= 2;
    return LOSS_SCALE_RAISED;
}

enum loss_scale_event loss_scaler_update(struct loss_scaler *scaler, bool overflow)
{
    if (!scaler->options->enabled || scaler->options->loss_scale > 0)
        return overflow ? LOSS_SCALE_HELD : LOSS_SCALE_KEPT;
    const enum loss_scale_event event = overflow ? overflowed(scaler) : went_well(scaler);
    scaler->iteration++;
    return event;
}
