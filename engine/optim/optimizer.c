/* Updates tensor by tensor, because only some decay. Neighbours that are alike share one call, because each GPU launch costs time. */
#include "engine/optim/optimizer.h"

#include <math.h>

/* The factors of an update, computed in double from the optimizer's settings, as in PyTorch, and rounded once. */
static struct update_factors factors_of(const struct optimizer_step *step, bool decays)
{
    const struct config_optimizer *optimizer = step->optimizer;
    const double rate = step->now.rate, beta1 = step->now.beta1, beta2 = step->now.beta2;
    const double decay = decays ? optimizer->weight_decay : 0, count = (double)step->step;
    const bool decoupled = optimizer->rule == OPTIMIZER_ADAMW || optimizer->rule == OPTIMIZER_LION;
    struct update_factors factors = {
        .gradient = step->gradient_factor,
        .decay = decoupled ? 0 : (float)decay,
        .keep = decoupled ? (float)(1 - rate * decay) : 1,
        .beta1 = (float)beta1,
        .share1 = (float)(1 - beta1),
        .beta2 = (float)beta2,
        .share2 = (float)(1 - beta2),
        .step_size = (float)rate,
        .second_moment = 1,
        .epsilon = (float)optimizer->epsilon,
    };
    if ((optimizer->rule == OPTIMIZER_ADAMW || optimizer->rule == OPTIMIZER_ADAM) && optimizer->bias_correction) {
        factors.step_size = (float)(rate / (1 - pow(beta1, count)));
        factors.second_moment = (float)(1 / sqrt(1 - pow(beta2, count)));
    }
    if (optimizer->rule == OPTIMIZER_MOMENTUM) { /* the first gradient is not dampened */
        factors.beta1 = (float)optimizer->momentum;
        factors.share1 = step->step == 1 ? 1 : (float)(1 - optimizer->dampening);
        factors.nesterov = optimizer->nesterov;
    }
    return factors;
}

static struct update_arrays arrays_from(const struct update_arrays *arrays, int64_t i, int gradient_bytes,
                                        int parameter_bytes)
{
    struct update_arrays from = {
        .gradient = (const char *)arrays->gradient + i * gradient_bytes,
        .master = arrays->master + i,
        .parameters = (char *)arrays->parameters + i * parameter_bytes,
    };
    if (arrays->parameters == arrays->master) from.parameters = from.master;
    for (int s = 0; s < OPTIMIZER_STATES_MAX; s++)
        if (arrays->state[s]) from.state[s] = arrays->state[s] + i;
    return from;
}

/* The first tensor after t that is not adjacent to its predecessor, or differs from it in weight decay. */
static int alike_end(const struct unit *unit, int t, bool all_decay)
{
    int end = t + 1;
    for (; end < unit->tensor_count; end++) {
        const struct tensor *before = &unit->tensors[end - 1], *tensor = &unit->tensors[end];
        if (tensor->offset != before->offset + before->elems || (!all_decay && tensor->decay != before->decay)) break;
    }
    return end;
}

void optimizer_update(struct kernels *kernels, const struct model *model, int unit_number, int64_t first, int64_t count,
                      const struct optimizer_step *step, enum dtype gradient, const struct update_arrays *arrays)
{
    const struct unit *unit = &model->units[unit_number];
    const struct update_factors decaying = factors_of(step, true), keeping = factors_of(step, false);
    const bool all_decay = step->optimizer->decay_on == DECAY_ON_ALL;
    for (int t = 0, next; t < unit->tensor_count; t = next) {
        next = alike_end(unit, t, all_decay);
        const int64_t begin = unit->tensors[t].offset, end = first + count,
                      tensors_end = unit->tensors[next - 1].offset + unit->tensors[next - 1].elems;
        const int64_t from = begin > first ? begin : first, to = tensors_end < end ? tensors_end : end;
        if (from >= to) continue;
        const struct update_arrays part =
            arrays_from(arrays, from - first, dtype_bytes(gradient), dtype_bytes(model->dtype));
        kernels_update(kernels, step->optimizer->rule, all_decay || unit->tensors[t].decay ? &decaying : &keeping,
                       gradient, model->dtype, &part, to - from);
    }
}
