#include "engine/plan/activation.h"

static int64_t align_up(int64_t bytes)
{
    return (bytes + ACTIVATION_ALIGN - 1) / ACTIVATION_ALIGN * ACTIVATION_ALIGN;
}

static void slot_add(struct activation_layout *layout, int64_t elems, int bytes_per_elem)
{
    layout->offset[layout->count++] = layout->bytes;
    layout->bytes += align_up(elems * bytes_per_elem);
}

void activation_layout(struct activation_layout *layout, const struct model *model, enum use forward_use, int B, int T)
{
    const int64_t N = (int64_t)B * T, C = model->shape.hidden, V = model->shape.vocabulary, NH = model->shape.heads;
    const int element = dtype_bytes(model->dtype);
    *layout = (struct activation_layout){0};
#define SLOT(ID, elems, fp32) slot_add(layout, elems, fp32 ? 4 : element);
    switch (forward_use) {
    case USE_EMBED_FORWARD: EMBED_SLOTS(SLOT) break;
    case USE_BLOCK_FORWARD: BLOCK_SLOTS(SLOT) break;
    case USE_NORM_FORWARD: NORM_SLOTS(SLOT) break;
    case USE_HEAD_FORWARD: HEAD_SLOTS(SLOT) break;
    default: break;
    }
#undef SLOT
    (void)C, (void)V, (void)NH;
}
