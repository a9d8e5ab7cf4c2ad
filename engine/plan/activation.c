#include "engine/plan/activation.h"

#include "kernels/scratch.h"

static int64_t align_up(int64_t bytes)
{
    return (bytes + ACTIVATION_ALIGN - 1) / ACTIVATION_ALIGN * ACTIVATION_ALIGN;
}

static void slot_add(struct activation_layout *layout, int64_t elems, int bytes_per_elem)
{
    layout->offset[layout->count++] = layout->bytes;
    layout->bytes += align_up(elems * bytes_per_elem);
}

int64_t logits_row(const struct model *model)
{
    enum { LINE_ELEMS = 128 }; /* 256 bytes in 16 bits */
    const int64_t V = model->shape.vocabulary;
    return model->backend == BACKEND_CUDA ? (V + LINE_ELEMS - 1) / LINE_ELEMS * LINE_ELEMS : V;
}

void activation_layout(struct activation_layout *layout, const struct model *model, enum activation_part part, int B,
                       int T)
{
    const int64_t N = (int64_t)B * T, C = model->shape.hidden, R = logits_row(model), NH = model->shape.heads;
    const int64_t width = activation_hidden(model), H = model_tiled(model) ? 0 : width,
                  F = model_tiled(model) ? width : 0;
    const int element = dtype_bytes(model->dtype);
    *layout = (struct activation_layout){0};
#define SLOT(ID, elems, fp32) slot_add(layout, elems, fp32 ? 4 : element);
    switch (part) {
    case PART_ATTENTION: ATTENTION_SLOTS(SLOT) break;
    case PART_MLP: MLP_SLOTS(SLOT) break;
    case PART_NORM: NORM_SLOTS(SLOT) break;
    case PART_HEAD: HEAD_SLOTS(SLOT) break;
    case PART_HIDDEN: HIDDEN_SLOTS(SLOT) break;
    case PART_KINDS: break;
    }
#undef SLOT
    (void)C, (void)R, (void)NH;
}

int64_t activation_hidden(const struct model *model)
{
    return 4 * (int64_t)model->shape.hidden / model->mlp_tiles;
}

int64_t activation_output_bytes(const struct model *model, int B, int T)
{
    return align_up((int64_t)B * T * model->shape.hidden * dtype_bytes(model->dtype));
}

/* ---- scratch: only what the kernels work in, since backward writes activation gradients over activations it has used ---- */

int64_t scratch_qkv_bytes(const struct model *model, int B, int T)
{
    const int64_t elems = (int64_t)B * T * 3 * model->shape.hidden;
    return model_tiled(model) ? align_up(elems * dtype_bytes(model->dtype)) : 0;
}

/* A GPU's kernels share the scratch of the whole call. */
static int64_t cuda_scratch_bytes(const struct model *model, enum use use, int B, int T)
{
    switch (use) {
    case USE_BLOCK_BACKWARD:
        return scratch_qkv_bytes(model, B, T) +
               align_up(attention_backward_scratch_cuda_bytes(B, T, model->shape.heads));
    case USE_EMBED_BACKWARD: return align_up(embed_scratch_cuda_bytes((int64_t)B * T));
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
    case USE_EMBED_BACKWARD: return align_up(embed_scratch_bytes((int64_t)B * T));
    default: return 0;
    }
}
