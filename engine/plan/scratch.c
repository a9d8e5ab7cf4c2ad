/* What each use needs beside its inputs and outputs. Backward writes activation gradients over activations that are no
 * longer needed (gpt/block_backward.c), so scratch is only what the kernels themselves work in. */
#include "engine/plan/scratch.h"

#include "engine/plan/activation.h"

static int64_t whole_lines(int64_t bytes)
{
    return (bytes + ACTIVATION_ALIGN - 1) / ACTIVATION_ALIGN * ACTIVATION_ALIGN;
}

int64_t scratch_qkv_bytes(const struct model *model, int B, int T)
{
    const int64_t elems = (int64_t)B * T * 3 * model->shape.hidden;
    return model_tiled(model) ? whole_lines(elems * dtype_bytes(model->dtype)) : 0;
}

/* A GPU's kernels share the scratch of the whole call. */
static int64_t cuda_scratch_bytes(const struct model *model, enum use use, int B, int T)
{
    switch (use) {
    case USE_BLOCK_BACKWARD:
        return scratch_qkv_bytes(model, B, T) +
               whole_lines(attention_backward_scratch_cuda_bytes(B, T, model->shape.heads));
    case USE_EMBED_BACKWARD: return whole_lines(embed_scratch_cuda_bytes((int64_t)B * T));
    default: return 0;
    }
}

int64_t scratch_bytes(const struct model *model, enum use use, int B, int T, int threads)
{
    const int64_t head_size = model->shape.hidden / model->shape.heads;
    if (model->backend == BACKEND_CUDA) return cuda_scratch_bytes(model, use, B, T);
    switch (use) {
    case USE_BLOCK_FORWARD:
    case USE_BLOCK_RECOMPUTE:
    case USE_ATTENTION_RECOMPUTE: return threads * attention_forward_scratch_bytes(head_size);
    case USE_BLOCK_BACKWARD:
        return scratch_qkv_bytes(model, B, T) + threads * attention_backward_scratch_bytes(T, head_size);
    case USE_EMBED_BACKWARD: return whole_lines(embed_scratch_bytes((int64_t)B * T));
    default: return 0;
    }
}
