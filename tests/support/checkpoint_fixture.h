/* A checkpoint of made-up values, written by so many shards: for tests of the format. A value says where it stands. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "tests/support/lent.h"

static inline float made_up(int unit, enum state_array array, int64_t i)
{
    return (float)(unit * 10 + (int)array) + (float)(i % 99991) * 1e-5f;
}

static inline int read_made_up(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                               struct error *err)
{
    (void)user, (void)err;
    for (int64_t i = 0; i < elems; i++) out[i] = made_up(unit, array, first + i);
    return STATUS_OK;
}

static const struct state_source made_up_source = {.read = read_made_up};

static inline int write_shard(const struct checkpoint_target *target, const struct model *model, int shard, int states,
                              struct error *err)
{
    struct checkpoint_writer *writer;
    int status = checkpoint_writer_open(
        &writer, target, shard, (uint64_t)model->elems / (uint64_t)target->shards * sizeof(float) * (uint64_t)(states + 1), err);
    if (status) return status;
    for (int u = 0; u < model->unit_count && !status; u++) {
        const int64_t elems = model->units[u].elems, share = shard_elems(elems, target->shards), first = shard * share;
        const int64_t count = first >= elems ? 0 : elems - first < share ? elems - first : share;
        for (int a = 0; a <= states && count && !status; a++)
            status = checkpoint_writer_take(writer, u, (enum state_array)a, first, count, &made_up_source, err);
    }
    if (!status) status = checkpoint_writer_end(writer, err);
    checkpoint_writer_close(writer);
    return status;
}

static inline struct checkpoint_info info_of(const struct config *config, char *json, int64_t step)
{
    struct checkpoint_info info = {
        .config_json = json,
        .ranks = config->topology.ranks,
        .stage = config->zero.stage,
        .threads = config->topology.threads_per_rank,
        .isa = "avx2",
        .progress = {.steps_done = step, .updates = step, .samples = step * 16, .scaler = {NULL, 65536, 7, -1, 2}},
    };
    return info;
}

/* states: how many of the optimizer's are written. */
static inline int write_checkpoint(const char *dir, const char *tag, int shards, int keep, const struct config *config,
                                   int states, struct error *err)
{
    struct model model;
    struct checkpoint_save *save = NULL;
    struct checkpoint_target target = {.dir = dir, .tag = tag, .shards = shards, .keep = keep, .buffers = lent(0)};
    int status = model_of(&model, config, err);
    if (!status) status = checkpoint_begin(&save, &target, err);
    for (int s = 0; s < shards && !status; s++) status = write_shard(&target, &model, s, states, err);
    if (!status) status = checkpoint_gather(save, NULL, NULL, err);
    char *json = config_to_json(config);
    struct checkpoint_info info = info_of(config, json, strncmp(tag, "step-", 5) == 0 ? atoll(tag + 5) : 1);
    if (!status) status = checkpoint_commit(save, &info, err);
    checkpoint_end(save);
    free(json);
    model_release(&model);
    return status;
}

static inline int remove_one(const char *path, const struct stat *found, int type, struct FTW *place)
{
    (void)found, (void)type, (void)place;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
