/* One update of a flat range of a unit by the configured optimizer, as PyTorch and DeepSpeed compute it: AdamW (Loshchilov
 * and Hutter 2019), Adam with L2, Lion (Chen et al. 2023), Adagrad, SGD. optimizers.def lists the states of each. */
#pragma once

#include "engine/optim/learning_rate.h"
#include "engine/plan/model.h"
#include "kernels/kernels.h"

struct optimizer_step {
    const struct config_optimizer *optimizer;
    struct learning_rate now; /* of this step */
    float gradient_factor;    /* multiplies every gradient: clipping and loss-scale division */
    int64_t step;             /* number of this update from 1, for bias correction; skipped steps do not count */
};

/* Updates elements [first, first + count) of a unit: master weights and states (fp32), and parameters in the model's dtype, from
 * gradients of type `gradient`. All pointers are to element `first`. parameters may equal master: in fp32 training, or in a
 * delayed update, which converts parameters later. The unit's tensors say which elements decay; padding is not written. The
 * bits do not depend on how a unit is cut into ranges. */
void optimizer_update(struct kernels *kernels, const struct model *model, int unit, int64_t first, int64_t count,
                      const struct optimizer_step *step, enum dtype gradient, const struct update_arrays *arrays);
