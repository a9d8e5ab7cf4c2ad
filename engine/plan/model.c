#include "engine/plan/model.h"

#include <stdio.h>
#include <stdlib.h>

struct tensor_row {
    const char *name;
    enum unit_kind unit;
    enum tensor_init init;
    bool decay;
};

static const struct tensor_row tensor_rows[TENSOR_IDS] = {
#define TENSOR(ID, name, unit, rows, columns, init, decay) {name, UNIT_##unit, INIT_##init, decay},
#include "engine/plan/tensors.def"
#undef TENSOR
};

static void tensor_shape(enum tensor_id id, const struct config_model *shape, int64_t *rows_out, int64_t *columns_out)
{
    int64_t C = shape->hidden, V = shape->vocabulary, X = shape->context;
    switch (id) {
#define TENSOR(ID, name, unit, rows, columns, init, decay)                                                             \
    case TENSOR_##ID:                                                                                                  \
        *rows_out = rows;                                                                                              \
        *columns_out = columns;                                                                                        \
        return;
#include "engine/plan/tensors.def"
#undef TENSOR
    case TENSOR_IDS: break;
    }
}

static void unit_init(struct unit *unit, enum unit_kind kind, int block, const struct config_model *shape, int *global)
{
    unit->kind = kind;
    unit->block = block;
    unit->elems = 0;
    unit->tensor_count = 0;
    if (kind == UNIT_BLOCK) snprintf(unit->name, sizeof unit->name, "block %d", block);
    else snprintf(unit->name, sizeof unit->name, "%s", kind == UNIT_EMBED ? "embed" : "norm");
    for (int id = 0; id < TENSOR_IDS; id++) {
        if (tensor_rows[id].unit != kind) continue;
        struct tensor *tensor = &unit->tensors[unit->tensor_count++];
        *tensor = (struct tensor){.id = (enum tensor_id)id,
                                  .offset = unit->elems,
                                  .global = (*global)++,
                                  .init = tensor_rows[id].init,
                                  .decay = tensor_rows[id].decay};
        tensor_shape(tensor->id, shape, &tensor->rows, &tensor->columns);
        tensor->elems = tensor->rows * tensor->columns;
        unit->elems += tensor->elems;
    }
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
    *model = (struct model){
        .shape = *shape, .dtype = dtype, .gradient = dtype, .wire = dtype, .unit_count = shape->layers + 2};
    model->units = calloc((size_t)model->unit_count, sizeof *model->units);
    if (!model->units) return error_set(err, STATUS_RUN, "no memory for a table of %d units", model->unit_count);
    int global = 0;
    unit_init(&model->units[0], UNIT_EMBED, -1, shape, &global);
    for (int block = 0; block < shape->layers; block++)
        unit_init(&model->units[1 + block], UNIT_BLOCK, block, shape, &global);
    unit_init(&model->units[shape->layers + 1], UNIT_NORM, -1, shape, &global);
    for (int u = 0; u < model->unit_count; u++) model->elems += model->units[u].elems;
    return STATUS_OK;
}

int model_of(struct model *model, const struct config *config, struct error *err)
{
    int status = model_init(model, &config->model, config->dtype, err);
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
