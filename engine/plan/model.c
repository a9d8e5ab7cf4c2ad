#include "engine/plan/model.h"

#include <stdio.h>
#include <stdlib.h>

/* What a tile of an MLP has of a tensor. */
enum cut { CUT_STAYS, CUT_ROWS, CUT_COLUMNS, CUT_FIRST };

struct tensor_row {
    const char *name;
    enum unit_kind unit;
    enum tensor_init init;
    bool decay;
    enum cut cut;
};

static const struct tensor_row tensor_rows[TENSOR_IDS] = {
#define TENSOR(ID, name, unit, rows, columns, init, decay, cut) {name, UNIT_##unit, INIT_##init, decay, CUT_##cut},
#include "engine/plan/tensors.def"
#undef TENSOR
};

static void tensor_shape(enum tensor_id id, const struct config_model *shape, int64_t *rows_out, int64_t *columns_out)
{
    int64_t C = shape->hidden, V = shape->vocabulary, X = shape->context;
    switch (id) {
#define TENSOR(ID, name, unit, rows, columns, init, decay, cut)                                                        \
    case TENSOR_##ID:                                                                                                  \
        *rows_out = rows;                                                                                              \
        *columns_out = columns;                                                                                        \
        return;
#include "engine/plan/tensors.def"
#undef TENSOR
    case TENSOR_IDS: break;
    }
}

/* How many tensors of an untiled unit of a kind stand before `id` in it, and how many elements they are. */
struct place {
    int tensors;
    int64_t elems;
};

static struct place place_in(enum unit_kind kind, enum tensor_id id, const struct config_model *shape)
{
    struct place place = {0};
    int64_t rows, columns;
    for (int before = 0; before < (int)id; before++) {
        if (tensor_rows[before].unit != kind) continue;
        tensor_shape((enum tensor_id)before, shape, &rows, &columns);
        place.tensors++;
        place.elems += rows * columns;
    }
    return place;
}

/* ... and how many of the whole model: embed, the blocks, norm. */
static struct place place_of(enum tensor_id id, int block, const struct config_model *shape)
{
    const enum unit_kind kind = tensor_rows[id].unit;
    const struct place embed = place_in(UNIT_EMBED, TENSOR_IDS, shape), each = place_in(UNIT_BLOCK, TENSOR_IDS, shape);
    struct place place = place_in(kind, id, shape);
    const int blocks = kind == UNIT_BLOCK ? block : kind == UNIT_NORM ? shape->layers : 0;
    if (kind != UNIT_EMBED) place.tensors += embed.tensors, place.elems += embed.elems;
    place.tensors += blocks * each.tensors;
    place.elems += blocks * each.elems;
    return place;
}

static bool belongs(const struct unit *unit, enum tensor_id id, bool tiled)
{
    const struct tensor_row *row = &tensor_rows[id];
    if (unit->kind != UNIT_MLP) return row->unit == unit->kind && !(tiled && row->cut != CUT_STAYS);
    return row->cut == CUT_ROWS || row->cut == CUT_COLUMNS || (row->cut == CUT_FIRST && unit->tile == 0);
}

static void unit_add(struct unit *unit, enum tensor_id id, const struct config_model *shape, int tiles)
{
    const struct tensor_row *row = &tensor_rows[id];
    const struct place place = place_of(id, unit->block, shape);
    struct tensor *tensor = &unit->tensors[unit->tensor_count++];
    *tensor = (struct tensor){.id = id,
                              .offset = unit->elems,
                              .global = place.tensors,
                              .canonical = place.elems,
                              .init = row->init,
                              .decay = row->decay};
    tensor_shape(id, shape, &tensor->rows, &tensor->columns);
    tensor->whole_columns = tensor->columns;
    if (unit->kind == UNIT_MLP && row->cut == CUT_ROWS) {
        tensor->rows /= tiles;
        tensor->row = unit->tile * tensor->rows;
    }
    if (unit->kind == UNIT_MLP && row->cut == CUT_COLUMNS) {
        tensor->columns /= tiles;
        tensor->column = unit->tile * tensor->columns;
    }
    tensor->elems = tensor->rows * tensor->columns;
    unit->elems += tensor->elems;
}

static void unit_init(struct model *model, enum unit_kind kind, int block, int tile)
{
    struct unit *unit = &model->units[model->unit_count++];
    *unit = (struct unit){.kind = kind, .block = block, .tile = tile};
    if (kind == UNIT_BLOCK) snprintf(unit->name, sizeof unit->name, "block %d", block);
    else if (kind == UNIT_MLP) snprintf(unit->name, sizeof unit->name, "mlp %d.%d", block, tile);
    else snprintf(unit->name, sizeof unit->name, "%s", kind == UNIT_EMBED ? "embed" : "norm");
    for (int id = 0; id < TENSOR_IDS; id++)
        if (belongs(unit, (enum tensor_id)id, model_tiled(model)))
            unit_add(unit, (enum tensor_id)id, &model->shape, model->mlp_tiles);
    model->elems += unit->elems;
}

const char *model_difference(const struct config_model *one, const struct config_model *other, int sizes[2])
{
    const struct {
        const char *key;
        int of[2];
    } all[] = {
        {"model.layers", {one->layers, other->layers}},
        {"model.hidden", {one->hidden, other->hidden}},
        {"model.heads", {one->heads, other->heads}},
        {"model.context", {one->context, other->context}},
        {"model.vocabulary", {one->vocabulary, other->vocabulary}},
    };
    for (size_t s = 0; s < sizeof all / sizeof *all; s++)
        if (all[s].of[0] && all[s].of[0] != all[s].of[1])
            return sizes[0] = all[s].of[0], sizes[1] = all[s].of[1], all[s].key;
    return NULL;
}

int model_init(struct model *model, const struct config_model *shape, enum dtype dtype, struct error *err)
{
    return model_init_tiled(model, shape, 1, dtype, err);
}

int model_init_tiled(struct model *model, const struct config_model *shape, int mlp_tiles, enum dtype dtype,
                     struct error *err)
{
    const int tiles = mlp_tiles > 1 ? mlp_tiles : 1;
    const int units = 2 + shape->layers * (tiles > 1 ? 1 + tiles : 1);
    *model = (struct model){.shape = *shape, .dtype = dtype, .gradient = dtype, .wire = dtype, .mlp_tiles = tiles};
    model->units = calloc((size_t)units, sizeof *model->units);
    if (!model->units) return error_set(err, STATUS_RUN, "no memory for a table of %d units", units);
    unit_init(model, UNIT_EMBED, -1, -1);
    for (int block = 0; block < shape->layers; block++) {
        unit_init(model, UNIT_BLOCK, block, -1);
        for (int tile = 0; model_tiled(model) && tile < tiles; tile++) unit_init(model, UNIT_MLP, block, tile);
    }
    unit_init(model, UNIT_NORM, -1, -1);
    return STATUS_OK;
}

int model_of(struct model *model, const struct config *config, struct error *err)
{
    int status = model_init_tiled(model, &config->model, config->mlp_tiles, config->dtype, err);
    model->optimizer = config->optimizer.rule;
    model->backend = config->topology.backend;
    model->passes = model->backend == BACKEND_CUDA && config->topology.collectives == COLLECTIVES_NCCL;
    if (config->gradient_type != TYPE_OF_MODEL) model->gradient = config_dtype(config->gradient_type);
    if (config->wire_type != TYPE_OF_MODEL) model->wire = config_dtype(config->wire_type);
    return status;
}

void model_release(struct model *model)
{
    free(model->units);
    model->units = NULL;
}

const char *tensor_name(enum tensor_id id)
{
    return tensor_rows[id].name;
}

bool model_tiled(const struct model *model)
{
    return model->mlp_tiles > 1;
}

bool model_is_tile(const struct model *model, int unit)
{
    return model->units[unit].kind == UNIT_MLP;
}

bool model_is_last_tile(const struct model *model, int unit)
{
    return model_is_tile(model, unit) && model->units[unit].tile == model->mlp_tiles - 1;
}

int64_t model_block_elems(const struct model *model)
{
    int64_t elems = 0;
    for (int u = 0; u < model->unit_count; u++) elems += model->units[u].block == 0 ? model->units[u].elems : 0;
    return elems;
}

int model_block(const struct model *model, int block)
{
    return 1 + block * (model_tiled(model) ? 1 + model->mlp_tiles : 1);
}

int model_mlp(const struct model *model, int block, int tile)
{
    return model_block(model, block) + 1 + tile;
}

int64_t tensor_run(const struct tensor *tensor, int64_t elem, int64_t most, int64_t *whole)
{
    const int64_t row = elem / tensor->columns, column = elem % tensor->columns;
    *whole = (tensor->row + row) * tensor->whole_columns + tensor->column + column;
    const int64_t run = tensor->columns == tensor->whole_columns ? tensor->elems - elem : tensor->columns - column;
    return run < most ? run : most;
}

int64_t shard_elems(int64_t elems, int ranks)
{
    int64_t share = (elems + ranks - 1) / ranks;
    return (share + SHARD_ALIGN_ELEMS - 1) / SHARD_ALIGN_ELEMS * SHARD_ALIGN_ELEMS;
}

int64_t unit_tail_from(const struct unit *unit, int64_t threshold, int64_t most)
{
    int64_t from = unit->elems;
    for (int t = unit->tensor_count - 1; t >= 0; t--) {
        const struct tensor *tensor = &unit->tensors[t];
        if (tensor->elems > threshold || unit->elems - tensor->offset > most) break;
        from = tensor->offset;
    }
    return from;
}

int64_t persistent_from(const struct model *model, const struct config_zero *knobs, int u)
{
    const int64_t threshold = knobs->param_persistence_threshold;
    int64_t left = knobs->model_persistence_threshold;
    for (int before = 0; before < u && left < model->elems; before++) /* more than the model holds never runs out */
        left -= model->units[before].elems - unit_tail_from(&model->units[before], threshold, left);
    return unit_tail_from(&model->units[u], threshold, left);
}
