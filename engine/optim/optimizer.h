/* One update of a flat range of a unit by the configured optimizer, as PyTorch and DeepSpeed compute it: AdamW (Loshchilov
 * and Hutter 2019), Adam with L2, Lion (Chen et al. 2023), Adagrad, SGD. Which states there are says optimizers.def. */
#ifndef ENGINE_OPTIM_OPTIMIZER_H
#define ENGINE_OPTIM_OPTIMIZER_H

#include "engine/optim/learning_rate.h"
#include "engine/plan/model.h"
#include "kernels/kernels.h"

struct optimizer_step {
    const struct config_optimizer *optimizer;
    struct learning_rate now; /* of this step */
    float gradient_factor;    /* multiplies every gradient: clipping, unscaling */
    int64_t step;             /* from 1, skipped steps not counted: bias correction */
};

/* Updates elements [first, first + count) of a unit: master and states (fp32) and the parameters in the model's dtype, from
 * gradients in `gradient`. All pointers are to element `first`. parameters may be the master itself (fp32 training, or nobody wants
 * them yet). Which
 * elements decay follows the unit's tensors; padding is left at 0. Same bits however the range is cut. */
void optimizer_update(struct kernels *kernels, const struct model *model, int unit, int64_t first, int64_t count,
                      const struct optimizer_step *step, enum dtype gradient, const struct update_arrays *arrays);

#endif
