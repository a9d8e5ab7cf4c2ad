#include "engine/checkpoint/convert.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/checkpoint/folder.h"

/* ---- origins ---- */

static int open_weights(struct origin *origin, const char *path, int heads, struct error *err)
{
    int status = weights_open(&origin->file, path, err);
    if (status) return status;
    const struct weights_info *info = weights_info(origin->file);
    struct config_model shape = info->shape;
    if (!shape.heads) shape.heads = heads;
    if (!shape.heads)
        return error_set(err, STATUS_USAGE,
                         "%.300s does not say how many attention heads it has; give --set model.heads=N", path);
    if (heads && shape.heads != heads)
        return error_set(err, STATUS_USAGE, "%.300s has %d attention heads, model.heads says %d", path, shape.heads,
                         heads);
    if (shape.hidden % shape.heads)
        return error_set(err, STATUS_USAGE, "model.heads = %d: must divide the hidden size of %.300s, which is %d",
                         heads, path, shape.hidden);
    status = model_init(&origin->model, &shape, info->dtype, err);
    return status ? status : weights_source(&origin->source, origin->file, &origin->model, err);
}

static int open_checkpoint(struct origin *origin, const char *path, const char *tag, struct error *err)
{
    int status = checkpoint_open(&origin->checkpoint, path, tag, err);
    if (status) return status;
    const struct checkpoint_info *info = checkpoint_info(origin->checkpoint);
    status = model_init_tiled(&origin->model, &info->model.shape, info->model.mlp_tiles, info->model.dtype, err);
    origin->model.optimizer = info->model.optimizer;
    const bool whole = info->has[STATE_1] || !optimizer_table[info->model.optimizer].states;
    return status ? status : checkpoint_source(&origin->source, origin->checkpoint, &origin->model, !whole, err);
}

int origin_open(struct origin *origin, const char *path, const char *tag, int heads, void *buffers, struct error *err)
{
    *origin = (struct origin){0};
    const bool weights = weights_is(path);
    if (weights && tag)
        return error_set(err, STATUS_USAGE, "--tag %.64s: %.300s is a file of weights, which has no tags", tag, path);
    int status = weights ? open_weights(origin, path, heads, err) : open_checkpoint(origin, path, tag, err);
    if (status) return origin_release(origin), status;
    origin->source.lend(origin->source.user, buffers);
    return STATUS_OK;
}

void origin_release(struct origin *origin)
{
    checkpoint_close(origin->checkpoint);
    weights_close(origin->file);
    model_release(&origin->model);
    free(origin->config_json);
    *origin = (struct origin){0};
}

/* ---- to a checkpoint ---- */

struct conversion {
    const struct origin *origin;
    bool has[STATE_ARRAYS];
    uint64_t done_bytes, all_bytes;
    weights_progress *progress;
    void *user;
};

/* The elements of a unit in shard `shard` of `shards`. */
static int64_t own(const struct unit *unit, int shard, int shards, int64_t *first)
{
    const int64_t share = shard_elems(unit->elems, shards);
    *first = shard * share;
    return *first >= unit->elems ? 0 : unit->elems - *first < share ? unit->elems - *first : share;
}

static uint64_t bytes_of_shard(const struct conversion *conversion, int shard, int shards)
{
    const struct model *model = &conversion->origin->model;
    uint64_t elems = 0;
    int arrays = 0;
    int64_t first;
    for (int array = 0; array < STATE_ARRAYS; array++) arrays += conversion->has[array];
    for (int u = 0; u < model->unit_count; u++) elems += (uint64_t)own(&model->units[u], shard, shards, &first);
    return elems * (uint64_t)arrays * sizeof(float);
}

static int write_shard(struct conversion *conversion, const struct checkpoint_target *target, int shard,
                       struct error *err)
{
    const struct origin *origin = conversion->origin;
    struct checkpoint_writer *writer;
    int status = checkpoint_writer_open(&writer, target, shard, bytes_of_shard(conversion, shard, target->shards), err);
    if (status) return status;
    for (int u = 0; u < origin->model.unit_count && !status; u++) {
        int64_t first, count = own(&origin->model.units[u], shard, target->shards, &first);
        for (int array = 0; array < STATE_ARRAYS && count && !status; array++) {
            if (!conversion->has[array]) continue;
            status = checkpoint_writer_take(writer, u, (enum state_array)array, first, count, &origin->source, err);
            conversion->done_bytes += (uint64_t)count * sizeof(float);
            if (!status && conversion->progress &&
                conversion->progress(conversion->user, conversion->done_bytes, conversion->all_bytes))
                status = error_set(err, STATUS_RUN, "stopped while it was written");
        }
    }
    if (!status) status = checkpoint_writer_end(writer, err);
    checkpoint_writer_close(writer);
    return status;
}

/* The manifest's fields about the run that saved. A file of weights has no such run. */
static struct checkpoint_info describe(const struct origin *origin, int shards)
{
    if (origin->checkpoint) return *checkpoint_info(origin->checkpoint);
    return (struct checkpoint_info){.config_json = origin->config_json,
                                    .ranks = shards,
                                    .threads = 1,
                                    .isa = CONVERTED_ISA,
                                    .progress.scaler = {.scale = 1, .last_overflow = -1, .hysteresis = 1}};
}

int convert_to_checkpoint(const struct origin *origin, const struct checkpoint_target *target,
                          weights_progress *progress, void *user, struct error *err)
{
    char tag[CHECKPOINT_TAG_BYTES];
    const struct checkpoint_info info = describe(origin, target->shards);
    struct checkpoint_target to = *target;
    struct conversion conversion = {.origin = origin, .progress = progress, .user = user};
    struct checkpoint_save *save;
    for (int a = 0; a < STATE_ARRAYS; a++) {
        conversion.has[a] = a == STATE_WEIGHTS || info.has[a];
        if (conversion.has[a]) conversion.all_bytes += (uint64_t)origin->model.elems * sizeof(float);
    }
    checkpoint_step_tag(tag, info.progress.steps_done);
    to.fresh = true;
    if (!to.tag) to.tag = *info.tag ? info.tag : tag;
    int status = checkpoint_begin(&save, &to, err);
    if (status) return status;
    for (int shard = 0; shard < to.shards && !status; shard++) status = write_shard(&conversion, &to, shard, err);
    if (!status) status = checkpoint_gather(save, NULL, NULL, err);
    if (!status) status = checkpoint_commit(save, &info, err);
    checkpoint_end(save);
    return status;
}

/* ---- weights beside a checkpoint ---- */

static int write_config(const char *folder, const struct model *model, struct error *err)
{
    char path[PATH_BYTES];
    char *json = weights_config_json(&model->shape, model->dtype);
    snprintf(path, sizeof path, "%.4200s/config.json", folder);
    int status = json ? folder_write(path, json, err) : error_set(err, STATUS_RUN, "no memory for config.json");
    free(json);
    return status;
}

int convert_beside(const char *dir, const char *tag, const struct convert_buffers *buffers, struct error *err)
{
    struct origin origin;
    char path[PATH_BYTES];
    int status = origin_open(&origin, dir, tag, 0, buffers->in, err);
    if (status) return status;
    const char *folder = checkpoint_info(origin.checkpoint)->folder;
    snprintf(path, sizeof path, "%.4200s/model.safetensors", folder);
    status = write_config(folder, &origin.model, err);
    if (!status)
        status = weights_write(&(struct weights_target){path, WEIGHTS_SAFETENSORS, origin.model.dtype, buffers->out},
                               &origin.model, &origin.source, NULL, NULL, err);
    origin_release(&origin);
    return status;
}

/* ---- buffers ---- */

int io_buffers_open(struct io_buffers *buffers, int count, struct error *err)
{
    static const uint64_t unlimited[TIERS] = {0};
    struct memory_ranges ranges = {0};
    *buffers = (struct io_buffers){0};
    ranges.bytes[TIER_HOST][CATEGORY_STAGING] = (uint64_t)count * STATE_BUFFERS_BYTES;
    int status = memory_create(&buffers->memory, &ranges, unlimited, NULL, err);
    for (; buffers->count < count && !status; buffers->count += !status) {
        const uint64_t offset = (uint64_t)buffers->count * STATE_BUFFERS_BYTES;
        status = memory_take(buffers->memory, TIER_HOST, CATEGORY_STAGING, offset, STATE_BUFFERS_BYTES, err);
        if (!status) buffers->lot[buffers->count] = memory_at(buffers->memory, TIER_HOST, CATEGORY_STAGING, offset);
    }
    if (status) io_buffers_close(buffers);
    return status;
}

void io_buffers_close(struct io_buffers *buffers)
{
    for (int i = 0; i < buffers->count; i++)
        memory_give(buffers->memory, TIER_HOST, CATEGORY_STAGING, (uint64_t)i * STATE_BUFFERS_BYTES, STATE_BUFFERS_BYTES);
    memory_destroy(buffers->memory);
    *buffers = (struct io_buffers){0};
}

uint64_t io_buffers_peak_bytes(const struct io_buffers *buffers)
{
    struct memory_snapshot snapshot;
    memory_snapshot(buffers->memory, &snapshot);
    return snapshot.tier[TIER_HOST].peak_bytes;
}
