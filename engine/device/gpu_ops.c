/* The device operations of collectives (engine/comm/comm.h) on one or several GPUs: each is enqueued on the
 * communication lane's stream, and meetings are events. */
#include <stdio.h>
#include <unistd.h>

#include "engine/device/gpu_parts.h"
#include "kernels/kernels.h"

static int reduce(void *user, enum dtype dtype, enum dtype to, void *destination, const void *const *sources, int count,
                  const struct reduce_factors *factors, int64_t elems, bool accumulate, struct error *err)
{
    const struct gpu_rank *rank = user;
    return device_reduce(rank->lanes[LANE_COMM].stream, dtype, to, destination, sources, count, factors, elems,
                         accumulate, err);
}

static int pass(void *user, const struct transfer *transfers, int count, struct error *err)
{
    const struct gpu_rank *rank = user;
    return communicator_pass(rank->communicator, transfers, count, err);
}

static void give_up(void *user)
{
    const struct gpu_rank *rank = user;
    gpu_give_up(rank->gpu);
}

/* A stream that waits for a broken GPU may wait for ever, and so may the threads that wait for the stream. */
static void stranded(void *user, const struct error *why)
{
    const struct gpu_rank *rank = user;
    if (atomic_flag_test_and_set(&rank->gpu->is_told)) return;
    fprintf(stderr, "zerolab: %s\n", why->text);
    _exit(why->status);
}

/* Looks for a peer that NCCL has lost. */
static int look(void *user, struct error *err)
{
    const struct gpu_rank *rank = user;
    return clique_look(rank->gpu->clique, err);
}

/* ---- meetings ---- */

static int come(void *user, int meeting, struct error *err)
{
    const struct gpu_rank *rank = user;
    return device_event_record(rank->meetings[meeting].came, rank->lanes[LANE_COMM].stream, err);
}

static int meet(void *user, int meeting, struct error *err)
{
    const struct gpu_rank *rank = user;
    struct device_stream *stream = rank->lanes[LANE_COMM].stream;
    int status = rank->gpu->comm ? communicator_meet(rank->communicator, err) : STATUS_OK;
    for (int r = 0; r < rank->gpu->rank_count && !status; r++)
        if (r != rank->number && rank->gpu->rank[r])
            status = device_stream_await(stream, rank->gpu->rank[r]->meetings[meeting].came, err);
    return status ? status : device_event_record(rank->meetings[meeting].met, stream, err);
}

static int waited(void *user, int meeting, uint64_t *ns, struct error *err)
{
    const struct gpu_rank *rank = user;
    return device_event_between(rank->meetings[meeting].came, rank->meetings[meeting].met, ns, err);
}

static int open_meetings(struct gpu_rank *rank, struct error *err)
{
    int status = STATUS_OK;
    for (int m = 0; m < COMM_MEETINGS && !status; m++) {
        status = device_event_create(&rank->meetings[m].came, rank->on, err);
        if (!status) status = device_event_create(&rank->meetings[m].met, rank->on, err);
    }
    return status;
}

/* ---- open and close ---- */

int gpu_ops_open(struct gpu_rank *rank, struct error *err)
{
    struct clique *clique = rank->gpu->clique;
    rank->device_ops = (struct comm_device_ops){.mover = &rank->lanes[LANE_COMM].mover,
                                      .user = rank,
                                      .come = come,
                                      .meet = meet,
                                      .waited = waited,
                                      .stranded = stranded,
                                      .reduce = reduce};
    rank->device.device_ops = &rank->device_ops;
    int status = open_meetings(rank, err);
    if (status || !clique) return status;
    rank->device_ops.pass = pass;
    rank->device_ops.give_up = give_up;
    rank->device_ops.adds = rank->gpu->adds;
    if (rank->gpu->comm) {
        rank->device_ops.look = look;
        comm_use(rank->gpu->comm, &rank->device_ops); /* so that a rank that fails ends the wait of communicator_open() */
    }
    return communicator_open(&rank->communicator, clique, rank->number, rank->lanes[LANE_COMM].stream, err);
}

void gpu_ops_close(struct gpu_rank *rank)
{
    communicator_close(rank->communicator);
    for (int m = 0; m < COMM_MEETINGS; m++) {
        device_event_destroy(rank->meetings[m].came);
        device_event_destroy(rank->meetings[m].met);
    }
}
