/* Calls the function of a use, finds a unit's tensors, and makes their initial values. */
#include "engine/gpt/gpt.h"

#include "engine/base/rng.h"

int gpt_run(const struct gpt *gpt, const struct gpt_call *call, struct error *err)
{
    const struct model *model = gpt->model;
    struct gpt_pass pass = {gpt,
                            gpt->kernels,
                            model->dtype,
                            &call->parameters,
                            &call->gradient,
                            call->accumulate,
                            (int64_t)gpt->B * gpt->T,
                            model->shape.hidden,
                            activation_hidden(model),
                            .saved = {{0}}};
    for (int kind = 0; kind < SAVED_KINDS; kind++) {
        if (!call->saved.buffer[kind]) continue;
        pass.saved[kind].base = call->saved.buffer[kind];
        architecture_gpt2.layout(&pass.saved[kind].layout, model, kind, gpt->B, gpt->T);
    }
    return (call->kind == OP_BACKWARD ? gpt_backward : gpt_forward)[call->use->number](&pass, call, err);
}

const void *gpt_logits(const struct gpt *gpt, const struct gpt_saved *head, int position)
{
    struct activation_layout layout;
    architecture_gpt2.layout(&layout, gpt->model, SAVED_HEAD, gpt->B, gpt->T);
    return (const char *)head->buffer[SAVED_HEAD] + layout.offset[HEAD_LOGITS] +
           position * logits_row(gpt->model) * dtype_bytes(gpt->model->dtype);
}

void gpt_tensors_of(struct gpt_tensors *tensors, const struct unit *unit, enum dtype dtype, void *flat, int64_t split,
                    void *tail)
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

/* Elements [from, to) of a whole tensor, so that values do not depend on units, tiles or shards. */
static void fill_normal(const struct tensor *tensor, uint64_t seed, double scale, int64_t from, int64_t to,
                        float *values)
{
    for (int64_t pair = from / 2; 2 * pair < to; pair++) {
        double normal[2];
        rng_normal_pair(seed, (uint64_t)tensor->global, (uint64_t)pair, normal);
        for (int half = 0; half < 2; half++)
            if (2 * pair + half >= from && 2 * pair + half < to)
                values[2 * pair + half - from] = (float)(scale * normal[half]);
    }
}

static void fill_run(const struct tensor *tensor, uint64_t seed, int layers, int64_t from, int64_t to, float *values)
{
    switch (tensor->init) {
    case INIT_NORMAL: fill_normal(tensor, seed, 0.02, from, to, values); break;
    case INIT_RESIDUAL: fill_normal(tensor, seed, 0.02 / sqrt(2.0 * layers), from, to, values); break;
    case INIT_ONE:
    case INIT_ZERO:
        for (int64_t i = from; i < to; i++) values[i - from] = tensor->init == INIT_ONE ? 1 : 0;
        break;
    }
}

static void fill(const struct tensor *tensor, uint64_t seed, int layers, int64_t from, int64_t to, float *values)
{
    for (int64_t whole, run; from < to; from += run, values += run) {
        run = tensor_run(tensor, from, to - from, &whole);
        fill_run(tensor, seed, layers, whole, whole + run, values);
    }
}

void gpt_initial_values(const struct model *model, int unit_number, uint64_t seed, int64_t first, int64_t count,
                        float *values)
{
    const struct unit *unit = &model->units[unit_number];
    const int64_t end = first + count;
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t from = tensor->offset > first ? tensor->offset : first;
        const int64_t to = tensor->offset + tensor->elems < end ? tensor->offset + tensor->elems : end;
        if (from < to)
            fill(tensor, seed, model->shape.layers, from - tensor->offset, to - tensor->offset,
                 values + (from - first));
    }
    for (int64_t i = unit->elems > first ? unit->elems : first; i < end; i++) values[i - first] = 0;
}
