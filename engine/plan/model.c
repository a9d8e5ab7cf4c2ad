#include "engine/plan/model.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/plan/gpt2.h"

const struct architecture *const architectures[] = {&architecture_gpt2, NULL};

/* How many tensors of an untiled unit stand before `id` in it, and how many elements they are. */
struct place {
    int tensors;
    int64_t elems;
};

static struct place place_in(const struct model *model, const struct use *use, int id)
{
    const struct architecture *of = model->architecture;
    struct place place = {0};
    int64_t rows, columns;
    for (int before = 0; before < id; before++) {
        if (of->tensors[before].use != use->number) continue;
        of->tensor_shape(before, &model->shape, &rows, &columns);
        place.tensors += rows * columns > 0;
        place.elems += rows * columns;
    }
    return place;
}

/* ... and how many of the whole model. */
static struct place place_of(const struct model *model, int id, int block)
{
    const struct architecture *of = model->architecture;
    const struct use *own = &of->uses[of->tensors[id].use];
    struct place place = place_in(model, own, id);
    for (const struct use *use = of->uses; use <= own; use++) {
        const struct place each = place_in(model, use, of->tensor_count);
        const int times = use < own ? model_repeats(model, use) : use->repeat == REPEAT_BLOCK ? block : 0;
        place.tensors += times * each.tensors;
        place.elems += times * each.elems;
    }
    return place;
}

/* Whether the use has a unit of its own at this shape. */
static bool has_unit(const struct model *model, const struct use *use)
{
    return place_in(model, use, model->architecture->tensor_count).elems > 0;
}

static bool belongs(const struct model *model, const struct unit *unit, int id)
{
    const struct tensor_row *row = &model->architecture->tensors[id];
    int64_t rows, columns;
    model->architecture->tensor_shape(id, &model->shape, &rows, &columns);
    if (rows * columns == 0) return false;
    if (unit->tile < 0) return row->use == unit->use->number && !(model_tiled(model) && row->cut != CUT_STAYS);
    return row->cut == CUT_ROWS || row->cut == CUT_COLUMNS || (row->cut == CUT_FIRST && unit->tile == 0);
}

static void unit_add(const struct model *model, struct unit *unit, int id)
{
    const struct tensor_row *row = &model->architecture->tensors[id];
    const struct place place = place_of(model, id, unit->block);
    struct tensor *tensor = &unit->tensors[unit->tensor_count++];
    *tensor = (struct tensor){.id = id,
                              .name = row->name,
                              .offset = unit->elems,
                              .global = place.tensors,
                              .canonical = place.elems,
                              .init = row->init,
                              .decay = row->decay};
    model->architecture->tensor_shape(id, &model->shape, &tensor->rows, &tensor->columns);
    tensor->whole_columns = tensor->columns;
    if (unit->tile >= 0 && row->cut == CUT_ROWS) {
        tensor->rows /= model->mlp_tiles;
        tensor->row = unit->tile * tensor->rows;
    }
    if (unit->tile >= 0 && row->cut == CUT_COLUMNS) {
        tensor->columns /= model->mlp_tiles;
        tensor->column = unit->tile * tensor->columns;
    }
    tensor->elems = tensor->rows * tensor->columns;
    unit->elems += tensor->elems;
}

/* A unit without tensors. */
static struct unit *unit_begin(struct model *model, const struct use *use, int block, int tile)
{
    struct unit *unit = &model->units[model->unit_count++];
    *unit = (struct unit){.use = use, .place = model->places, .block = block, .tile = tile};
    if (tile >= 0) snprintf(unit->name, sizeof unit->name, "%s %d.%d", use->unit, block, tile);
    else if (block >= 0) snprintf(unit->name, sizeof unit->name, "%s %d", use->unit, block);
    else snprintf(unit->name, sizeof unit->name, "%s", use->unit);
    return unit;
}

static void unit_init(struct model *model, const struct use *use, int block, int tile)
{
    struct unit *unit = unit_begin(model, use, block, tile);
    for (int id = 0; id < model->architecture->tensor_count; id++)
        if (belongs(model, unit, id)) unit_add(model, unit, id);
    model->elems += unit->elems;
}

/* A unit of a later block: the tensors are the first block's, and stand after those of the blocks between in the whole model. */
static void unit_repeat(struct model *model, const struct unit *first, int block, struct place of_block)
{
    struct unit *unit = unit_begin(model, first->use, block, first->tile);
    unit->elems = first->elems;
    unit->tensor_count = first->tensor_count;
    for (int t = 0; t < unit->tensor_count; t++) {
        unit->tensors[t] = first->tensors[t];
        unit->tensors[t].global += block * of_block.tensors;
        unit->tensors[t].canonical += block * of_block.elems;
    }
    model->elems += unit->elems;
}

static void blocks_init(struct model *model, const struct use *use)
{
    const struct place of_block = place_in(model, use, model->architecture->tensor_count);
    const int first = model->unit_count, tiles = model_tiled(model) ? model->mlp_tiles : 0;
    unit_init(model, use, 0, -1);
    for (int tile = 0; tile < tiles; tile++) unit_init(model, use + 1, 0, tile);
    model->places++;
    for (int block = 1; block < model->shape.layers; block++, model->places++)
        for (int u = 0; u < 1 + tiles; u++) unit_repeat(model, &model->units[first + u], block, of_block);
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
    const struct architecture *of = architectures[0];
    int units = 0;
    *model = (struct model){.architecture = of,
                            .shape = *shape,
                            .dtype = dtype,
                            .gradient = dtype,
                            .wire = dtype,
                            .mlp_tiles = mlp_tiles > 1 ? mlp_tiles : 1};
    for (const struct use *use = of->uses; use < of->uses + of->use_count; use++) units += model_repeats(model, use);
    model->units = calloc((size_t)units, sizeof *model->units);
    if (!model->units) return error_set(err, STATUS_RUN, "no memory for a table of %d units", units);
    for (const struct use *use = of->uses; use < of->uses + of->use_count; use++) {
        const bool single = use->repeat == REPEAT_ONCE || use->repeat == REPEAT_TIED,
                   own = single && has_unit(model, use);
        if (own) unit_init(model, use, -1, -1);
        if (use->repeat == REPEAT_BLOCK) model->first = model->unit_count, blocks_init(model, use);
        if (use->repeat == REPEAT_TIED) model->tied = !own;
        model->places += own || use->repeat == REPEAT_TIED;
    }
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

int model_repeats(const struct model *model, const struct use *use)
{
    switch (use->repeat) {
    case REPEAT_BLOCK: return model->shape.layers;
    case REPEAT_TILE: return model_tiled(model) ? model->shape.layers * model->mlp_tiles : 0;
    case REPEAT_HALF: return 0;
    case REPEAT_ONCE: return has_unit(model, use);
    default: return 1;
    }
}

int model_place(const struct model *model, const struct use *use, int unit)
{
    return use->repeat == REPEAT_TIED ? model->places - 1 : model->units[unit].place;
}

int model_unit_at(const struct model *model, int place)
{
    int unit = model->unit_count - 1;
    while (unit > 0 && (model->units[unit].place != place || model_is_tile(model, unit))) unit--;
    return unit;
}

int64_t activation_aligned(int64_t bytes)
{
    return (bytes + ACTIVATION_ALIGN - 1) / ACTIVATION_ALIGN * ACTIVATION_ALIGN;
}

int64_t activation_output_bytes(const struct model *model, int B, int T)
{
    return activation_aligned((int64_t)B * T * model->shape.hidden * dtype_bytes(model->dtype));
}

bool model_tiled(const struct model *model)
{
    return model->mlp_tiles > 1;
}

bool model_is_tile(const struct model *model, int unit)
{
    return model->units[unit].tile >= 0;
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
    return model->first + block * (model_tiled(model) ? 1 + model->mlp_tiles : 1);
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
