/* A snapshot of an allocator as a job: the memory of each GPU over time, without operations. Each GPU that acted is a rank. */
#include "engine/import/snapshot.h"

#include <stdio.h>

#include "engine/import/job.h"

struct taking {
    struct job *job;
    int rank, files_rank; /* of the device now, -1: none; the first one of this file */
    uint64_t timeless, unknown;
};

static int take_device(void *user, const struct snapshot_device *device)
{
    struct taking *taking = user;
    taking->rank = device->actions ? taking->files_rank++ : -1;
    if (taking->rank < 0) return STATUS_OK;
    struct job_rank *rank = job_rank(taking->job, taking->rank);
    if (!rank) return STATUS_RUN;
    rank->present = true;
    snprintf(rank->lane[LANE_COMPUTE].name, sizeof rank->lane[0].name, "GPU %d", device->device);
    return STATUS_OK;
}

static int take_action(void *user, int device, const struct snapshot_action *action)
{
    struct taking *taking = user;
    (void)device;
    if (taking->rank < 0) return STATUS_OK;
    if (!action->has_time) return taking->timeless++, STATUS_OK;
    if (action->allocated_bytes < 0) return taking->unknown++, STATUS_OK;
    const struct job_memory memory = {action->time_ns, (uint64_t)action->allocated_bytes,
                                      action->reserved_bytes < 0 ? 0 : (uint64_t)action->reserved_bytes};
    return job_memory(taking->job, &taking->job->ranks[taking->rank], &memory) ? STATUS_OK : STATUS_RUN;
}

int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err)
{
    struct pickle *pickle;
    struct taking taking = {.job = job, .files_rank = first_rank};
    const struct snapshot_sink sink = {&taking, take_device, take_action};
    int status = pickle_read(&pickle, path, err);
    if (status) return status;
    status = snapshot_read(pickle, &sink, err);
    if (status == STATUS_RUN && job_failed(job)) error_set(err, STATUS_RUN, "no memory for the snapshot %s", path);
    pickle_free(pickle);
    *changes = 0;
    for (int rank = first_rank; rank < taking.files_rank; rank++) *changes += (uint64_t)job->ranks[rank].memory.count;
    if (!status && !*changes)
        status = error_set(err, STATUS_INPUT, "%s: the snapshot has no change of memory %s", path,
                           taking.timeless  ? "with its time; PyTorch writes times from version 2.1 on"
                           : taking.unknown ? "whose bytes are known"
                                            : "(call torch.cuda.memory._record_memory_history() before the steps)");
    if (!job->program[0]) snprintf(job->program, sizeof job->program, "PyTorch memory snapshot");
    return status;
}
