/* One rank's whole model in plain memory, for tests and the benchmark: no stages, no shards, one micro-step at a time.
 * Buffers come with guard bytes behind them, so that a test can tell when code wrote further than the plan said. */
#ifndef TESTS_GPT_FIXTURE_H
#define TESTS_GPT_FIXTURE_H

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
    struct guarded parts[PART_KINDS][FIXTURE_USES_MAX]; /* by place (the head behind all), but PART_HIDDEN by unit */
    struct guarded residual, normed, scratch[USES];
};

static inline bool fixture_has(const struct fixture *f, enum activation_part part, int use)
{
    const int layers = f->model.shape.layers;
    switch (part) {
    case PART_NORM: return use == layers + 1;
    case PART_HEAD: return use == layers + 2;
    case PART_HIDDEN: return use < f->model.unit_count && f->model.units[use].kind == UNIT_MLP;
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
    for (int part = 0; part < PART_KINDS; part++)
        for (int use = 0; use < units + 1; use++) {
            struct activation_layout layout;
            activation_layout(&layout, &f->model, (enum activation_part)part, B, T);
            if (fixture_has(f, (enum activation_part)part, use)) f->parts[part][use] = guarded_new(layout.bytes);
        }
    f->residual = guarded_new((int64_t)B * T * shape->hidden * element);
    f->normed = guarded_new((int64_t)B * T * shape->hidden * element);
    for (int use = 0; use < USES; use++) f->scratch[use] = guarded_new(scratch_bytes(&f->model, (enum use)use, B, T, threads));
}

static inline void fixture_open(struct fixture *f, const struct config_model *shape, enum dtype dtype, int B, int T, int threads, const char *isa)
{
    fixture_open_tiled(f, shape, 1, dtype, B, T, threads, isa);
}

static inline void fixture_close(struct fixture *f)
{
    for (int u = 0; u < FIXTURE_UNITS_MAX; u++) free(f->parameters[u].at), free(f->gradients[u].at);
    for (int u = 0; u < FIXTURE_USES_MAX; u++) free(f->outputs[u].at);
    for (int p = 0; p < PART_KINDS; p++)
        for (int u = 0; u < FIXTURE_USES_MAX; u++) free(f->parts[p][u].at);
    for (int u = 0; u < USES; u++) free(f->scratch[u].at);
    free(f->residual.at), free(f->normed.at);
    kernels_free(f->kernels);
    model_release(&f->model);
}

static inline void *fixture_slot(struct fixture *f, int use, enum activation_part part, int slot)
{
    struct activation_layout layout;
    activation_layout(&layout, &f->model, part, f->gpt.B, f->gpt.T);
    return f->parts[part][use].at + layout.offset[slot];
}

static inline struct gpt_saved fixture_saved(struct fixture *f, int use)
{
    struct gpt_saved saved = {{0}};
    for (int part = 0; part < PART_KINDS; part++) saved.part[part] = f->parts[part][use].at;
    return saved;
}

static inline struct gpt_saved fixture_saved_mlp(struct fixture *f, int block, int tile)
{
    struct gpt_saved saved = fixture_saved(f, block + 1);
    saved.part[PART_HIDDEN] = f->parts[PART_HIDDEN][model_mlp(&f->model, block, tile)].at;
    return saved;
}

static inline int fixture_block_forward(struct fixture *f, int block)
{
    const struct gpt_saved saved = fixture_saved(f, block + 1);
    const int tiles = model_tiled(&f->model) ? f->model.mlp_tiles : 0;
    void *output = f->outputs[block + 1].at;
    int failed = gpt_block_forward(&f->gpt, &f->weights[model_block(&f->model, block)], f->outputs[block].at, &saved,
                                   tiles ? NULL : output, f->scratch[USE_BLOCK_FORWARD].at, NULL);
    for (int t = 0; t < tiles && !failed; t++) {
        const struct gpt_saved tile = fixture_saved_mlp(f, block, t);
        failed = gpt_mlp_forward(&f->gpt, &f->weights[model_mlp(&f->model, block, t)], &tile, output, NULL);
    }
    return failed;
}

static inline int fixture_block_backward(struct fixture *f, int block, bool accumulate)
{
    const struct gpt_saved saved = fixture_saved(f, block + 1);
    const int unit = model_block(&f->model, block), tiles = model_tiled(&f->model) ? f->model.mlp_tiles : 0;
    int failed = 0;
    for (int t = tiles - 1; t >= 0 && !failed; t--) {
        const struct gpt_saved tile = fixture_saved_mlp(f, block, t);
        const int mlp = model_mlp(&f->model, block, t);
        failed = gpt_mlp_backward(&f->gpt, &f->weights[mlp], &f->gradient[mlp], accumulate, &tile, f->residual.at, f->normed.at,
                                  t < tiles - 1, NULL);
    }
    return failed ? failed
                  : gpt_block_backward(&f->gpt, &f->weights[unit], &f->gradient[unit], accumulate, f->outputs[block].at, &saved,
                                       f->residual.at, f->normed.at, f->scratch[USE_BLOCK_BACKWARD].at, NULL);
}

static inline float fixture_forward(struct fixture *f, const int32_t *tokens, const int32_t *targets, float loss_scale)
{
    const int layers = f->model.shape.layers, last = f->model.unit_count - 1;
    float loss = 0;
    int failed = gpt_embed_forward(&f->gpt, &f->weights[0], tokens, f->outputs[0].at, NULL);
    for (int block = 0; block < layers && !failed; block++) failed = fixture_block_forward(f, block);
    const struct gpt_saved norm = fixture_saved(f, layers + 1), head = fixture_saved(f, layers + 2);
    if (!failed) failed = gpt_norm_forward(&f->gpt, &f->weights[last], f->outputs[layers].at, &norm, f->outputs[layers + 1].at, NULL);
    if (!failed)
        failed = gpt_head_forward(&f->gpt, &f->weights[0], f->outputs[layers + 1].at, targets, loss_scale, &head, &loss, NULL);
    if (failed) abort();
    return loss;
}

static inline void fixture_backward(struct fixture *f, const int32_t *tokens, bool accumulate)
{
    const int layers = f->model.shape.layers, last = f->model.unit_count - 1;
    void *residual = f->residual.at;
    const struct gpt_saved norm = fixture_saved(f, layers + 1), head = fixture_saved(f, layers + 2);
    int failed = gpt_head_backward(&f->gpt, &f->weights[0], &f->gradient[0], accumulate, f->outputs[layers + 1].at, &head, residual,
                                   f->scratch[USE_HEAD_BACKWARD].at, NULL);
    if (!failed)
        failed = gpt_norm_backward(&f->gpt, &f->weights[last], &f->gradient[last], accumulate, f->outputs[layers].at, &norm,
                                   residual, f->scratch[USE_NORM_BACKWARD].at, NULL);
    for (int block = layers - 1; block >= 0 && !failed; block--) failed = fixture_block_backward(f, block, accumulate);
    if (!failed) failed = gpt_embed_backward(&f->gpt, &f->gradient[0], accumulate, tokens, residual, f->scratch[USE_EMBED_BACKWARD].at, NULL);
    if (failed) abort();
}

#endif
