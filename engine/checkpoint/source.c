/* A checkpoint as where a rank's state comes from: does it fit? */
#include <string.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/retile.h"

static int read_all(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                    struct error *err)
{
    return checkpoint_read(user, unit, array, first, elems, out, err);
}

static int read_weights(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                        struct error *err)
{
    if (array == STATE_WEIGHTS) return checkpoint_read(user, unit, array, first, elems, out, err);
    memset(out, 0, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

static void lend(void *user, void *buffers)
{
    checkpoint_lend(user, buffers);
}

static int check_model(const struct checkpoint_info *info, const struct model *model, struct error *err)
{
    int sizes[2];
    const char *key = model_difference(&info->model.shape, &model->shape, sizes);
    if (!key) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "%.200s holds another model (%s): its %s is %d, that of this run is %d",
                     info->folder, info->model.shape.name, key, sizes[0], sizes[1]);
}

static const char *momentum(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_MOMENTUM ? " with momentum" : "";
}

static int check_training(const struct checkpoint_info *info, const struct model *model, struct error *err)
{
    static const char *const or_else = "or take its weights alone with --weights-only";
    if (info->model.dtype != model->dtype)
        return error_set(err, STATUS_USAGE, "%.200s was trained in %s, this run is in %s; use the same, %s",
                         info->folder, dtype_name(info->model.dtype), dtype_name(model->dtype), or_else);
    if (info->model.optimizer != model->optimizer)
        return error_set(err, STATUS_USAGE, "%.200s was trained with %s%s, this run uses %s%s; use the same, %s",
                         info->folder, optimizer_table[info->model.optimizer].name, momentum(info->model.optimizer),
                         optimizer_table[model->optimizer].name, momentum(model->optimizer), or_else);
    if (optimizer_table[model->optimizer].states && !info->has[STATE_1])
        return error_set(err, STATUS_USAGE,
                         "%.200s holds weights and no optimizer states; start from it with --weights-only",
                         info->folder);
    return STATUS_OK;
}

int checkpoint_source(struct state_source *source, struct checkpoint *checkpoint, const struct model *model,
                      bool weights_only, struct error *err)
{
    const struct checkpoint_info *info = checkpoint_info(checkpoint);
    int status = check_model(info, model, err);
    if (!status && !weights_only) status = check_training(info, model, err);
    *source = (struct state_source){.user = checkpoint, .read = weights_only ? read_weights : read_all, .lend = lend};
    if (!weights_only) source->progress = info->progress;
    retile_source(checkpoint_retile(checkpoint), source, &info->model, model);
    return status;
}
