/* AdamW over a flat range of a unit: tensor by tensor, because some decay and others do not. */
#include "engine/optim/adamw.h"

#include <math.h>

#include "kernels/kernels.h"

/* Worked out in double, as PyTorch does, and rounded once. */
static struct adamw_factors factors_of(const struct adamw_step *step)
{
    const double learning_rate = step->learning_rate, count = (double)step->step;
    return (struct adamw_factors){
        .gradient = step->gradient_factor,
        .decay = (float)(1 - learning_rate * step->weight_decay),
        .beta1 = step->beta1,
        .beta2 = step->beta2,
        .step_size = (float)(learning_rate / (1 - pow(step->beta1, count))),
        .second_moment = (float)(1 / sqrt(1 - pow(step->beta2, count))),
        .epsilon = step->epsilon,
    };
}

void adamw_update(struct kernels *kernels, const struct model *model, int unit_number, int64_t first, int64_t count,
                  const struct adamw_step *step, const void *gradient, float *master, float *m, float *v,
                  void *parameters)
{
    const struct unit *unit = &model->units[unit_number];
    const int element = dtype_bytes(model->dtype);
    const struct adamw_factors decaying = factors_of(step);
    struct adamw_factors keeping = decaying;
    keeping.decay = 1;
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t end = first + count, tensor_end = tensor->offset + tensor->elems;
        const int64_t from = tensor->offset > first ? tensor->offset : first, to = tensor_end < end ? tensor_end : end;
        if (from >= to) continue;
        const int64_t i = from - first;
        kernels_adamw(kernels, model->dtype, tensor->decay ? &decaying : &keeping, (const char *)gradient + i * element,
                      master + i, m + i, v + i, (char *)parameters + i * element, to - from);
    }
}
