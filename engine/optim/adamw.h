/* AdamW (Loshchilov and Hutter 2019), as DeepSpeed and PyTorch compute it, over a flat range of a unit. */
#ifndef ENGINE_OPTIM_ADAMW_H
#define ENGINE_OPTIM_ADAMW_H

#include "engine/plan/model.h"

struct kernels;

struct adamw_step {
    float learning_rate, beta1, beta2, epsilon, weight_decay;
    float gradient_factor; /* multiplies every gradient: clipping, unscaling */
    int64_t step;          /* from 1: bias correction */
};

/* Updates elements [first, first + count) of a unit: master, m, v (fp32) and the parameters in the model's dtype. All
 * pointers are to element `first`. parameters may be the master itself (fp32 training). Which elements decay follows the
 * unit's tensors; padding is left at 0. Same bits however the range is cut. */
void adamw_update(struct kernels *kernels, const struct model *model, int unit, int64_t first, int64_t count,
                  const struct adamw_step *step, const void *gradient, float *master, float *m, float *v, void *parameters);

#endif
