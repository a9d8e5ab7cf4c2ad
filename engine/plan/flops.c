#include "engine/plan/flops.h"

/* y [N, out] = x [N, in] w^T */
static double product(double N, double out, double in)
{
    return 2 * N * out * in;
}

double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op)
{
    const double N = (double)schedule->B * schedule->T, C = model->shape.hidden;
    const double scores = N * (schedule->T + 1.0) * C; /* one product of attention: row t of T meets t + 1 keys */
    const double F = (double)activation_hidden(model);
    const double attention = product(N, 3 * C, C) + 2 * scores, last = product(N, C, F), mlp = product(N, F, C) + last;
    const double block = attention + product(N, C, C) + (model_tiled(model) ? 0 : mlp);
    const double head = product(N, model->shape.vocabulary, C);
    switch (op->kind) {
    case OP_BLOCK_FORWARD: return block;
    case OP_BLOCK_RECOMPUTE: return op->buffer[ROLE_OUTPUT] < 0 && !model_tiled(model) ? block - last : block;
    case OP_MLP_FORWARD: return mlp;
    case OP_MLP_RECOMPUTE: return op->buffer[ROLE_OUTPUT] < 0 ? mlp - last : mlp;
    case OP_MLP_BACKWARD: return 2 * mlp;
    case OP_ATTENTION_RECOMPUTE: return attention;
    case OP_BLOCK_BACKWARD: return 2 * (block - 2 * scores) + 5 * scores; /* scores, dv, dp, dq, dk */
    case OP_HEAD_FORWARD: return head;
    case OP_HEAD_BACKWARD: return 2 * head;
    default: return 0;
    }
}

void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model)
{
    *flops = (struct flops){0};
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const bool again =
            op->kind == OP_BLOCK_RECOMPUTE || op->kind == OP_ATTENTION_RECOMPUTE || op->kind == OP_MLP_RECOMPUTE;
        double *sum = again ? &flops->recomputed : op->phase == PHASE_FORWARD ? &flops->forward : &flops->backward;
        *sum += op_flops(schedule, model, op);
    }
}
