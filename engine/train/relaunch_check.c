/* Checks whether a change that needs a relaunch would work, while the run still continues: a refusal costs nothing. */
#include <linux/magic.h>
#include <sys/vfs.h>

#include "engine/base/grouped.h"
#include "engine/device/gpu.h"
#include "engine/launch/capacity.h"
#include "engine/launch/launcher.h"
#include "engine/train/relaunch.h"

static int check_state_fits(const struct rank *rank, const struct config *changed, struct error *err)
{
    struct model model;
    int status = model_of(&model, changed, err);
    if (status) return status;
    int sizes[2];
    if (model_difference(&rank->model.shape, &model.shape, sizes))
        status = error_set(err, STATUS_USAGE, "this would be another model; start another run");
    else if (rank->model.dtype != model.dtype || rank->model.optimizer != model.optimizer)
        status = error_set(err, STATUS_USAGE,
                           "precision and optimizer stay what the state was trained with; start another run");
    model_release(&model);
    return status;
}

/* The capacity after the present ranks have freed their memory. */
static struct capacity room_after(const struct rank *rank, const struct config *changed)
{
    struct memory_snapshot memory;
    struct capacity room = capacity_beside(changed, rank->gpu);
    memory_snapshot(zero_memory(rank->zero), &memory);
    const uint64_t device_bytes = memory.tier[TIER_DEVICE].reserved_bytes;
    const uint64_t held_bytes = memory.tier[TIER_HOST].reserved_bytes + (rank->gpu ? 0 : device_bytes);
    if (room.memory_bytes < UINT64_MAX - held_bytes * (uint64_t)rank->ranks)
        room.memory_bytes += held_bytes * (uint64_t)rank->ranks;
    if (room.gpu_bytes != UINT64_MAX) room.gpu_bytes += device_bytes * (uint64_t)room.ranks_on_gpu;
    if (room.on_gpu) room.ranks_on_gpu = gpu_ranks_each(changed);
    return room;
}

/* Checks room in the run's folder, which may lie in memory, and memory for the next ranks. */
static int check_room(const struct rank *rank, const struct config *changed, struct error *err)
{
    struct statfs folder;
    struct capacity room = room_after(rank, changed);
    const int states = optimizer_table[rank->model.optimizer].states;
    const uint64_t wanted_bytes = (uint64_t)rank->model.elems * 4 * (uint64_t)(1 + states);
    if (statfs(rank->dir->path, &folder) == 0) {
        uint64_t there_bytes = (uint64_t)folder.f_bavail * (uint64_t)folder.f_bsize;
        if (there_bytes < wanted_bytes + wanted_bytes / 16)
            return error_set(err, STATUS_RUN,
                             "saving takes %.2f GiB in %s, where %.2f GiB are free; start with XDG_RUNTIME_DIR at a "
                             "folder with more room",
                             gib(wanted_bytes), rank->dir->path, gib(there_bytes));
        if (folder.f_type == TMPFS_MAGIC)
            room.memory_bytes -= room.memory_bytes < wanted_bytes ? room.memory_bytes : wanted_bytes;
    }
    return capacity_check(changed, &room, err);
}

int relaunch_check(struct rank *rank, const char *key, const char *value, struct error *err)
{
    struct config changed;
    struct relaunch_config next;
    struct data *data = NULL;
    if (rank->spec->external || rank_count_here(rank) < rank->ranks)
        return error_set(
            err, STATUS_USAGE,
            "%s: ranks on several hosts, or of another launcher, cannot be started again; save a checkpoint, "
            "stop, and go on from it with --resume",
            key);
    relaunch_config_init(&next, &rank->relaunch.next.sets);
    relaunch_config_change(&next, &rank->config, key, value);
    struct run_spec spec = *rank->spec;
    spec.sets = next.sets;
    int status = next.full || rank->relaunch.next.full
                     ? error_set(err, STATUS_USAGE, "more settings were changed than can be taken along")
                     : spec_load_config(&spec, &changed, err);
    text_list_release(&next.sets);
    if (status) return status;
    gpu_settle(&changed);
    status = gpu_check(&changed, err);
    if (!status) status = check_state_fits(rank, &changed, err);
    if (!status && launcher_of(rank->spec, &changed)->check) status = launcher_of(rank->spec, &changed)->check(err);
    if (!status) status = data_open(&data, &changed, err); /* once, as the next engine would */
    data_close(data);
    if (!status) status = check_room(rank, &changed, err);
    rank->relaunch.batch = changed.train_batch_size;
    rank->relaunch.micro_batch = changed.micro_batch_size;
    config_release(&changed);
    return status;
}
