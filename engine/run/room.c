#include "engine/run/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "engine/plan/setup.h"

static bool read_number(const char *path, const char *format, uint64_t *value)
{
    char line[160];
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) found = sscanf(line, format, value) == 1;
    if (file) fclose(file);
    return found;
}

/* The machine's, or what is left to the container we are in, whichever is less. */
uint64_t room_available_bytes(void)
{
    uint64_t available = UINT64_MAX, kib, limit, used;
    if (read_number("/proc/meminfo", "MemAvailable: %" SCNu64 " kB", &kib)) available = kib * 1024;
    if (read_number("/sys/fs/cgroup/memory.max", "%" SCNu64, &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "%" SCNu64, &used)) {
        uint64_t left = limit > used ? limit - used : 0;
        if (left < available) available = left;
    }
    return available;
}

uint64_t room_free_disk_bytes(const char *folder)
{
    struct statvfs disk;
    return statvfs(folder, &disk) ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
}

/* What was given holds, for whatever machine it was meant; what was not is what this one has. */
struct fit_question room_question(const struct config *config, bool any_model)
{
    const uint64_t available = room_available_bytes(), *budget = config->budget_bytes;
    const bool all_given = budget[TIER_DEVICE] && budget[TIER_HOST];
    const char *folder = config_nvme_path(config, false), *tmp = getenv("TMPDIR");
    struct fit_question question = {.config = config, .any_model = any_model};
    struct fit_limits *limits = &question.limits;
    for (int tier = 0; tier < TIERS; tier++) limits->bytes[tier] = budget[tier];
    limits->folder = folder[0] ? folder : tmp && *tmp ? tmp : "/tmp";
    if (!all_given && available != UINT64_MAX) limits->bytes[FIT_MEMORY] = available;
    if (!budget[TIER_NVME]) limits->bytes[FIT_DISK] = room_free_disk_bytes(limits->folder);
    if (all_given && (budget[TIER_DEVICE] + budget[TIER_HOST]) * (uint64_t)config->topology.ranks > available)
        question.machine_bytes = available;
    return question;
}

/* What a rank will hold of this machine's memory at its fullest: of each tier its plan, or its budget where that is less. */
static int fullest(const struct config *config, uint64_t *bytes, struct error *err)
{
    struct setup setup;
    int status = setup_init(&setup, config, err);
    if (status) return status;
    *bytes = 0;
    for (int tier = TIER_DEVICE; tier <= TIER_HOST; tier++) {
        const uint64_t peak_bytes = (uint64_t)setup.footprint.peak_bytes[tier], budget = config->budget_bytes[tier];
        *bytes += budget && budget < peak_bytes ? budget : peak_bytes;
    }
    setup_release(&setup);
    return status;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

int room_check(const struct config *config, uint64_t available_bytes, struct error *err)
{
    uint64_t peak_bytes;
    int status = fullest(config, &peak_bytes, err);
    if (status || peak_bytes <= available_bytes / (uint64_t)config->topology.ranks) return status;
    return error_set(err, STATUS_USAGE,
                     "%d ranks of %.2f GiB do not fit into the %.2f GiB of memory that are free here; try a smaller "
                     "train_micro_batch_size_per_gpu or model, a higher stage, fewer ranks or a memory.device_budget "
                     "(zerolab plan --fit says what would fit)",
                     config->topology.ranks, gib(peak_bytes), gib(available_bytes));
}

int room_check_change(const struct config *config, int ranks, uint64_t held_bytes, uint64_t available_bytes,
                      struct error *err)
{
    uint64_t peak_bytes;
    int status = fullest(config, &peak_bytes, err);
    if (status || peak_bytes <= held_bytes) return status;
    if (peak_bytes - held_bytes <= available_bytes / (uint64_t)ranks) return STATUS_OK;
    return error_set(
        err, STATUS_RUN,
        "%d ranks of %.2f GiB would need %.2f GiB more than they hold, and %.2f GiB of memory are free here", ranks,
        gib(peak_bytes), gib((peak_bytes - held_bytes) * (uint64_t)ranks), gib(available_bytes));
}
