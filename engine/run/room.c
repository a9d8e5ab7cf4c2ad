#include "engine/run/room.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/plan/footprint.h"

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

/* What a rank will hold at its fullest: its plan, or its budget where that is less. */
static int fullest(const struct config *config, uint64_t *bytes, struct error *err)
{
    struct model model;
    struct schedule schedule;
    struct footprint footprint;
    int status = model_of(&model, config, err);
    if (status) return status;
    struct schedule_input input = schedule_input_of(config, &model, PURPOSE_TRAIN);
    status = schedule_build(&schedule, &input, err);
    if (!status) {
        footprint_of(&footprint, &schedule);
        *bytes = (uint64_t)footprint.peak_bytes[TIER_DEVICE];
        schedule_release(&schedule);
    }
    model_release(&model);
    const uint64_t budget_bytes = config->budget_bytes[TIER_DEVICE];
    if (!status && budget_bytes && budget_bytes < *bytes) *bytes = budget_bytes;
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
                     "(zerolab plan shows what takes the memory)",
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
