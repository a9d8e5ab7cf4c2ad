/* One rank's whole model in plain memory, for tests and the benchmark: no stages, no shards, one micro-step at a time.
 * Buffers come with guard bytes behind them, so that a test can tell when code wrote further than the plan said. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/gpt/gpt.h"
#include "engine/optim/optimizer.h"
#include "kernels/kernels.h"
#include "tests/support/elements.h"

enum { GUARD_BYTES = 64, GUARD_BYTE = 0xa5 };

struct guarded { unsigned char *at; int64_t bytes; };

static inline struct guarded guarded_new(int64_t bytes)
{
    struct guarded g = {.bytes = bytes};
    const size_t huge = 2 << 20, room = ((size_t)bytes + GUARD_BYTES + huge - 1) / huge * huge;
    g.at = room > huge ? aligned_alloc(huge, room) : aligned_alloc(64, ((size_t)bytes + GUARD_BYTES + 63) / 64 * 64);
    if (!g.at) abort();
    if (room > huge) madvise(g.at, room, MADV_HUGEPAGE);
    memset(g.at, 0, (size_t)bytes);
    memset(g.at + bytes, GUARD_BYTE, GUARD_BYTES);
    return g;
}

static inline int guarded_intact(const struct guarded *g)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        if (g->at[g->bytes + i] != GUARD_BYTE) return 0;
    return 1;
}

enum { FIXTURE_UNITS_MAX = 64, FIXTURE_USES_MAX = FIXTURE_UNITS_MAX + 1 };

struct fixture {
    struct model model;
    struct gpt gpt;
    struct kernels *kernels;
    struct guarded parameters[FIXTURE_UNITS_MAX], gradients[FIXTURE_UNITS_MAX];
    struct gpt_tensors weights[FIXTURE_UNITS_MAX], gradient[FIXTURE_UNITS_MAX];
    struct guarded outputs[FIXTURE_USES_MAX]; /* by place: embed, blocks, norm */
    struct guarded saved[SAVED_KINDS][FIXTURE_USES_MAX]; /* by place (the head behind all), but SAVED_HIDDEN by unit */
    struct guarded residual, normed, scratch[USES][USE_KINDS];
};

static inline bool fixture_has(const struct fixture *f, enum saved_buffer kind, int use)
{
    const int layers = f->model.shape.layers;
    switch (kind) {
    case SAVED_NORM: return use == layers + 1;
    case SAVED_HEAD: return use == layers + 2;
    case SAVED_HIDDEN: return use < f->model.unit_count && model_is_tile(&f->model, use);
    default: return use >= 1 && use <= layers;
    }
}

static inline void fixture_open_tiled(struct fixture *f, const struct config_model *shape, int tiles, enum dtype dtype, int B, int T,
                                      int threads, const char *isa)
{
    struct error err = {0};
    memset(f, 0, sizeof *f);
    if (model_init_tiled(&f->model, shape, tiles, dtype, &err) || kernels_create(&f->kernels, threads, isa, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    f->gpt = (struct gpt){&f->model, f->kernels, B, T};
    const int element = dtype_bytes(dtype), units = f->model.unit_count;
    for (int u = 0; u < units; u++) {
        const struct unit *unit = &f->model.units[u];
        f->parameters[u] = guarded_new(unit->elems * element);
        f->gradients[u] = guarded_new(unit->elems * element);
        gpt_tensors_of(&f->weights[u], unit, dtype, f->parameters[u].at, unit->elems, NULL);
        gpt_tensors_of(&f->gradient[u], unit, dtype, f->gradients[u].at, unit->elems, NULL);
    }
    for (int use = 0; use < units + 1; use++) f->outputs[use] = guarded_new(activation_output_bytes(&f->model, B, T));
    for (int s = 0; s < SAVED_KINDS; s++)
        for (int use = 0; use < units + 1; use++) {
            struct activation_layout layout;
            architecture_gpt2.layout(&layout, &f->model, s, B, T);
            if (fixture_has(f, (enum saved_buffer)s, use)) f->saved[s][use] = guarded_new(layout.bytes);
        }
    f->residual = guarded_new((int64_t)B * T * shape->hidden * element);
    f->normed = guarded_new((int64_t)B * T * shape->hidden * element);
    for (int use = 0; use < USES; use++)
        for (enum op_kind kind = 0; kind < USE_KINDS; kind++)
            f->scratch[use][kind] = guarded_new(architecture_gpt2.scratch_bytes(&f->model, kind, &gpt2_uses[use], B, T, threads));
}

static inline void fixture_open(struct fixture *f, const struct config_model *shape, enum dtype dtype, int B, int T, int threads, const char *isa)
{
    fixture_open_tiled(f, shape, 1, dtype, B, T, threads, isa);
}

static inline void fixture_close(struct fixture *f)
{
    for (int u = 0; u < FIXTURE_UNITS_MAX; u++) free(f->parameters[u].at), free(f->gradients[u].at);
    for (int u = 0; u < FIXTURE_USES_MAX; u++) free(f->outputs[u].at);
    for (int p = 0; p < SAVED_KINDS; p++)
        for (int u = 0; u < FIXTURE_USES_MAX; u++) free(f->saved[p][u].at);
    for (int u = 0; u < USES; u++)
        for (int kind = 0; kind < USE_KINDS; kind++) free(f->scratch[u][kind].at);
    free(f->residual.at), free(f->normed.at);
    kernels_free(f->kernels);
    model_release(&f->model);
}

static inline void *fixture_slot(struct fixture *f, int use, enum saved_buffer kind, int slot)
{
    struct activation_layout layout;
    architecture_gpt2.layout(&layout, &f->model, (int)kind, f->gpt.B, f->gpt.T);
    return f->saved[kind][use].at + layout.offset[slot];
}

static inline struct gpt_saved fixture_saved(struct fixture *f, int use)
{
    struct gpt_saved saved = {{0}};
    for (int s = 0; s < SAVED_KINDS; s++) saved.buffer[s] = f->saved[s][use].at;
    return saved;
}

static inline struct gpt_saved fixture_saved_mlp(struct fixture *f, int block, int tile)
{
    struct gpt_saved saved = fixture_saved(f, block + 1);
    saved.buffer[SAVED_HIDDEN] = f->saved[SAVED_HIDDEN][model_mlp(&f->model, block, tile)].at;
    return saved;
}

/* One use of a unit, with what each use gets from the fixture. */
static inline int fixture_use(struct fixture *f, enum op_kind kind, enum gpt2_use use, int unit, struct gpt_call call)
{
    call.kind = kind, call.use = &gpt2_uses[use];
    call.parameters = f->weights[unit], call.gradient = f->gradient[unit];
    call.residual = f->residual.at, call.scratch = f->scratch[use][kind].at;
    return gpt_run(&f->gpt, &call, NULL);
}

static inline int fixture_block_forward(struct fixture *f, int block)
{
    const int tiles = model_tiled(&f->model) ? f->model.mlp_tiles : 0;
    void *output = f->outputs[block + 1].at;
    int failed = fixture_use(f, OP_FORWARD, USE_BLOCK, model_block(&f->model, block),
                             (struct gpt_call){.input = f->outputs[block].at, .saved = fixture_saved(f, block + 1), .output = tiles ? NULL : output});
    for (int t = 0; t < tiles && !failed; t++)
        failed = fixture_use(f, OP_FORWARD, USE_MLP, model_mlp(&f->model, block, t),
                             (struct gpt_call){.saved = fixture_saved_mlp(f, block, t), .output = output});
    return failed;
}

static inline int fixture_block_backward(struct fixture *f, int block, bool accumulate)
{
    const int tiles = model_tiled(&f->model) ? f->model.mlp_tiles : 0;
    int failed = 0;
    for (int t = tiles - 1; t >= 0 && !failed; t--)
        failed = fixture_use(f, OP_BACKWARD, USE_MLP, model_mlp(&f->model, block, t),
                             (struct gpt_call){.accumulate = accumulate, .saved = fixture_saved_mlp(f, block, t), .normed = f->normed.at,
                                               .add = t < tiles - 1});
    return failed ? failed
                  : fixture_use(f, OP_BACKWARD, USE_BLOCK, model_block(&f->model, block),
                                (struct gpt_call){.accumulate = accumulate, .input = f->outputs[block].at,
                                                  .saved = fixture_saved(f, block + 1), .normed = f->normed.at});
}

static inline float fixture_forward(struct fixture *f, const int32_t *tokens, const int32_t *targets, float loss_scale)
{
    const int layers = f->model.shape.layers, last = f->model.unit_count - 1;
    float loss = 0;
    int failed = fixture_use(f, OP_FORWARD, USE_EMBED, 0, (struct gpt_call){.tokens = tokens, .output = f->outputs[0].at});
    for (int block = 0; block < layers && !failed; block++) failed = fixture_block_forward(f, block);
    if (!failed)
        failed = fixture_use(f, OP_FORWARD, USE_NORM, last,
                             (struct gpt_call){.input = f->outputs[layers].at, .saved = fixture_saved(f, layers + 1),
                                               .output = f->outputs[layers + 1].at});
    if (!failed)
        failed = fixture_use(f, OP_FORWARD, USE_HEAD, 0,
                             (struct gpt_call){.input = f->outputs[layers + 1].at, .targets = targets, .loss_scale = loss_scale,
                                               .saved = fixture_saved(f, layers + 2), .mean_loss = &loss});
    if (failed) abort();
    return loss;
}

static inline void fixture_backward(struct fixture *f, const int32_t *tokens, bool accumulate)
{
    const int layers = f->model.shape.layers, last = f->model.unit_count - 1;
    int failed = fixture_use(f, OP_BACKWARD, USE_HEAD, 0,
                             (struct gpt_call){.accumulate = accumulate, .input = f->outputs[layers + 1].at, .saved = fixture_saved(f, layers + 2)});
    if (!failed)
        failed = fixture_use(f, OP_BACKWARD, USE_NORM, last,
                             (struct gpt_call){.accumulate = accumulate, .input = f->outputs[layers].at, .saved = fixture_saved(f, layers + 1)});
    for (int block = layers - 1; block >= 0 && !failed; block--) failed = fixture_block_backward(f, block, accumulate);
    if (!failed) failed = fixture_use(f, OP_BACKWARD, USE_EMBED, 0, (struct gpt_call){.accumulate = accumulate, .tokens = tokens});
    if (failed) abort();
}
