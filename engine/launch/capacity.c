#include "engine/launch/capacity.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "engine/base/file.h"
#include "engine/base/grouped.h"
#include "engine/device/gpu.h"
#include "engine/plan/setup.h"
#include "kernels/cuda/device.h"

/* The less of the machine's available memory and the rest of this container's limit. */
uint64_t capacity_available_bytes(void)
{
    uint64_t available = UINT64_MAX, kib, limit, used;
    if (file_number("/proc/meminfo", "MemAvailable: %" SCNu64 " kB", &kib)) available = kib * 1024;
    if (file_number("/sys/fs/cgroup/memory.max", "%" SCNu64, &limit) &&
        file_number("/sys/fs/cgroup/memory.current", "%" SCNu64, &used)) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < available) available = left;
    }
    return available;
}

/* ---- what there is ---- */

static struct capacity without_gpu(const struct config *config)
{
    return (struct capacity){.memory_bytes = capacity_available_bytes(),
                         .on_gpu = config->topology.backend == BACKEND_CUDA,
                         .ranks_on_gpu = 1,
                         .gpu_bytes = UINT64_MAX,
                         .gpu_total_bytes = UINT64_MAX};
}

struct capacity capacity_now(const struct config *config, bool loaded)
{
    struct capacity room = without_gpu(config);
    if (!room.on_gpu) return room;
    room.ranks_on_gpu = gpu_ranks_each(config);
    if (!gpu_look(config, loaded, &room.gpu_bytes, &room.gpu_total_bytes))
        room.gpu_bytes = room.gpu_total_bytes = UINT64_MAX;
    return room;
}

struct capacity capacity_beside(const struct config *config, const struct gpu_rank *gpu)
{
    struct capacity room = without_gpu(config);
    uint64_t outside_bytes;
    if (!room.on_gpu || !gpu) return room;
    room.ranks_on_gpu = gpu_rank_place(gpu).ranks;
    if (gpu_rank_outside(gpu, &outside_bytes, &room.gpu_bytes))
        room.gpu_total_bytes = gpu_rank_place(gpu).info->total_bytes;
    else room.gpu_bytes = UINT64_MAX;
    return room;
}

/* ---- what would fit ---- */

/* A given budget limits its tier, even if it was meant for another machine; other tiers are limited by this machine. */
struct fit_question capacity_question(const struct config *config, const struct capacity *room, bool any_model)
{
    const uint64_t *budget = config->budget_bytes, available = room->memory_bytes;
    const uint64_t in_memory = budget[TIER_HOST] + (room->on_gpu ? 0 : budget[TIER_DEVICE]);
    const bool all_given = budget[TIER_HOST] && (room->on_gpu || budget[TIER_DEVICE]);
    const char *folder = config_nvme_path(config, false), *tmp = getenv("TMPDIR");
    struct fit_question question = {.config = config, .any_model = any_model};
    struct fit_limits *limits = &question.limits;
    for (int tier = 0; tier < TIERS; tier++) limits->bytes[tier] = budget[tier];
    limits->folder = folder[0] ? folder : tmp && *tmp ? tmp : "/tmp";
    if (!all_given && available != UINT64_MAX) limits->bytes[FIT_MEMORY] = available;
    struct statvfs disk;
    if (!budget[TIER_NVME]) /* 0: not known */
        limits->bytes[FIT_DISK] = statvfs(limits->folder, &disk) ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
    if (all_given && in_memory * (uint64_t)config->topology.ranks > available) question.machine_bytes = available;
    if (!room->on_gpu) return question;
    question.ranks_on_gpu = room->ranks_on_gpu;
    if (room->gpu_bytes == UINT64_MAX) return question;
    question.gpu_bytes = room->gpu_bytes;
    if (!budget[TIER_DEVICE]) limits->bytes[FIT_DEVICE] = room->gpu_bytes / (uint64_t)room->ranks_on_gpu;
    return question;
}

/* ---- is there room? ---- */

/* The most that a rank will hold of each tier: the planned peak, or the budget if that is less. */
static int fullest(const struct config *config, uint64_t bytes[TIERS], struct error *err)
{
    struct setup setup;
    int status = setup_init(&setup, config, err);
    if (status) return status;
    for (int tier = 0; tier < TIERS; tier++) {
        const uint64_t peak_bytes = (uint64_t)setup.footprint.peak_bytes[tier], budget = config->budget_bytes[tier];
        bytes[tier] = budget && budget < peak_bytes ? budget : peak_bytes;
    }
    setup_release(&setup);
    return status;
}

/* The part of these bytes that lies in the machine's memory. */
static uint64_t in_memory(const uint64_t bytes[TIERS], const struct capacity *room)
{
    return bytes[TIER_HOST] + (room->on_gpu ? 0 : bytes[TIER_DEVICE]);
}

static int check_gpu_budget(const struct config *config, const struct capacity *room, struct error *err)
{
    const uint64_t budget = config->budget_bytes[TIER_DEVICE], total = room->gpu_total_bytes;
    if (total == UINT64_MAX || budget <= total / (uint64_t)room->ranks_on_gpu) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "memory.device_budget is %.2f GiB for each of %d ranks on a GPU that has %.2f GiB in all; give at "
                     "most its part of what is free there, %.2f GiB, or none",
                     gib(budget), room->ranks_on_gpu, gib(total), gib(room->gpu_bytes / (uint64_t)room->ranks_on_gpu));
}

static int check_gpu(const struct config *config, const struct capacity *room, uint64_t bytes, struct error *err)
{
    int status = check_gpu_budget(config, room, err);
    if (status || room->gpu_bytes == UINT64_MAX || bytes <= room->gpu_bytes / (uint64_t)room->ranks_on_gpu)
        return status;
    return error_set(err, STATUS_USAGE,
                     "%d rank%s of %.2f GiB do%s not fit into the %.2f GiB that are free on the GPU; try a smaller "
                     "train_micro_batch_size_per_gpu or model, a higher stage, offload or a memory.device_budget "
                     "(zerolab plan --fit says what would fit)",
                     room->ranks_on_gpu, plural(room->ranks_on_gpu), gib(bytes), room->ranks_on_gpu == 1 ? "es" : "",
                     gib(room->gpu_bytes));
}

int capacity_check(const struct config *config, const struct capacity *room, struct error *err)
{
    uint64_t bytes[TIERS];
    int status = fullest(config, bytes, err);
    if (!status && room->on_gpu) status = check_gpu(config, room, bytes[TIER_DEVICE], err);
    if (status || in_memory(bytes, room) <= room->memory_bytes / (uint64_t)config->topology.ranks) return status;
    return error_set(err, STATUS_USAGE,
                     "%d ranks of %.2f GiB do not fit into the %.2f GiB of memory that are free here; try a smaller "
                     "train_micro_batch_size_per_gpu or model, a higher stage, fewer ranks or a memory.%s_budget "
                     "(zerolab plan --fit says what would fit)",
                     config->topology.ranks, gib(in_memory(bytes, room)), gib(room->memory_bytes),
                     room->on_gpu ? "host" : "device");
}

static int check_more(int ranks, uint64_t peak_bytes, uint64_t held_bytes, uint64_t free_bytes, const char *where,
                      struct error *err)
{
    if (peak_bytes <= held_bytes || peak_bytes - held_bytes <= free_bytes / (uint64_t)ranks) return STATUS_OK;
    return error_set(err, STATUS_RUN, "%d ranks of %.2f GiB would need %.2f GiB more than they hold, and %.2f GiB %s",
                     ranks, gib(peak_bytes), gib((peak_bytes - held_bytes) * (uint64_t)ranks), gib(free_bytes), where);
}

int capacity_check_change(const struct config *config, int ranks, const uint64_t held_bytes[TIERS], const struct capacity *room,
                      struct error *err)
{
    uint64_t bytes[TIERS];
    int status = fullest(config, bytes, err);
    if (status) return status;
    if (room->on_gpu)
        status = check_more(room->ranks_on_gpu, bytes[TIER_DEVICE], held_bytes[TIER_DEVICE], room->gpu_bytes,
                            "are free on the GPU", err);
    return status ? status
                  : check_more(ranks, in_memory(bytes, room), in_memory(held_bytes, room), room->memory_bytes,
                               "of memory are free here", err);
}
