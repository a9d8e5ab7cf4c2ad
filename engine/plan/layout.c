/* Who keeps what between steps. This table is where the stages of ZeRO differ in memory (ZeRO, section 5):
 *
 *               parameters   gradients   optimizer state
 *     stage 0   whole        whole       whole
 *     stage 1   whole        whole       shard
 *     stage 2   whole        shard       shard
 *     stage 3   shard        shard       shard      + the tail of small tensors, kept gathered
 *
 * In fp32 training the parameters are their own master weights; what else is optimizer state says optimizers.def. */
#include "engine/plan/builder.h"

void layout_build(struct builder *builder)
{
    const struct model *model = builder->model;
    const int stage = builder->schedule->stage;
    const enum extent parameters = stage >= 3 ? EXTENT_SHARD : EXTENT_WHOLE;
    const enum extent gradients = stage >= 2 ? EXTENT_SHARD : EXTENT_WHOLE;
    const enum extent optimizer = stage >= 1 ? EXTENT_SHARD : EXTENT_WHOLE;
    const struct optimizer_info *keeps = &optimizer_table[model->optimizer];
    for (int u = 0; u < model->unit_count && !builder->failed; u++) {
        struct unit_layout *layout = &builder->layout[u];
        const struct unit *unit = &model->units[u];
        bool tail = stage >= 3 && persistent_from(model, &builder->schedule->knobs, u) < unit->elems;
        layout->parameters =
            builder_unit_buffer(builder, "parameters", CATEGORY_PARAMETERS, parameters, model->dtype, u, true);
        layout->tail =
            tail ? builder_unit_buffer(builder, "small tensors", CATEGORY_GATHERED, EXTENT_TAIL, model->dtype, u, true)
                 : -1;
        layout->gradient =
            builder_unit_buffer(builder, "gradient", CATEGORY_GRADIENTS, gradients, model->gradient, u, true);
        layout->master = model->dtype == DTYPE_F32 ? layout->parameters
                                                   : builder_unit_buffer(builder, "master", CATEGORY_OPTIMIZER,
                                                                         optimizer, DTYPE_F32, u, true);
        for (int s = 0; s < OPTIMIZER_STATES_MAX; s++)
            layout->state[s] = s < keeps->states ? builder_unit_buffer(builder, keeps->state[s], CATEGORY_OPTIMIZER,
                                                                       optimizer, DTYPE_F32, u, true)
                                                 : -1;
    }
    builder->schedule->lasting_count = builder->schedule->buffer_count;
}
