/* A unit's tensors and their first values. */
#include "engine/gpt/gpt.h"

#include "engine/base/rng.h"

void gpt_tensors_of(struct gpt_tensors *tensors, const struct unit *unit, enum dtype dtype, void *flat, int64_t split, void *tail)
{
    *tensors = (struct gpt_tensors){0};
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const bool in_flat = tensor->offset < split;
        char *base = in_flat ? flat : tail;
        const int64_t elem = in_flat ? tensor->offset : tensor->offset - split;
        tensors->at[tensor->id] = base ? base + elem * dtype_bytes(dtype) : NULL;
    }
}

/* Element i of a tensor, i counted from its own start, so that neither unit nor shard matters. */
static float initial_value(const struct tensor *tensor, uint64_t seed, int64_t i, double residual_scale)
{
    switch (tensor->init) {
    case INIT_NORMAL: return (float)(0.02 * rng_normal(seed, (uint64_t)tensor->global, (uint64_t)i));
    case INIT_RESIDUAL: return (float)(residual_scale * rng_normal(seed, (uint64_t)tensor->global, (uint64_t)i));
    case INIT_ONE: return 1;
    case INIT_ZERO: return 0;
    }
    return 0;
}

void gpt_initial_values(const struct model *model, int unit_number, uint64_t seed, int64_t first, int64_t count, float *values)
{
    const struct unit *unit = &model->units[unit_number];
    const double residual_scale = 0.02 / sqrt(2.0 * model->shape.layers);
    const int64_t end = first + count;
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t from = tensor->offset > first ? tensor->offset : first;
        const int64_t to = tensor->offset + tensor->elems < end ? tensor->offset + tensor->elems : end;
        for (int64_t i = from; i < to; i++) values[i - first] = initial_value(tensor, seed, i - tensor->offset, residual_scale);
    }
    for (int64_t i = unit->elems > first ? unit->elems : first; i < end; i++) values[i - first] = 0;
}
