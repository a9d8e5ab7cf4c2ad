#include "engine/train/rank_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/gpu.h"

struct crew {
    const struct config *config;
    crew_live *live;
    void *user;
    struct comm_group *group;
    struct gpu *gpu; /* NULL: none */
};

struct crew_rank {
    const struct crew *crew;
    pthread_t thread;
    int number, status;
    struct error err;
};

static int open_rank(struct crew_rank *rank, struct comm **comm, struct gpu_rank **gpu)
{
    const struct crew *crew = rank->crew;
    int status = comm_open_thread(comm, crew->group, rank->number, &rank->err);
    if (!status && crew->gpu) status = gpu_rank_open(gpu, crew->gpu, rank->number, &rank->err);
    if (!status || !*comm) return status;
    comm_abort(*comm, &rank->err); /* of several reasons the first stands, and is everyone's */
    status = comm_check(*comm, &rank->err);
    comm_close(*comm);
    return status;
}

static void *run_rank(void *user)
{
    struct crew_rank *rank = user;
    const struct crew *crew = rank->crew;
    struct comm *comm = NULL;
    struct gpu_rank *gpu = NULL;
    rank->status = open_rank(rank, &comm, &gpu);
    if (!rank->status) rank->status = crew->live(crew->user, comm, gpu, &rank->err);
    if (rank->status) gpu_give_up(crew->gpu);
    gpu_rank_close(gpu);
    return NULL;
}

/* Those that wait for a rank that could not be started would wait for ever. */
static void start(struct crew_rank *rank)
{
    if (pthread_create(&rank->thread, NULL, run_rank, rank) == 0) return;
    fprintf(stderr, "zerolab: cannot start thread %d of %d ranks\n", rank->number, rank->crew->config->topology.ranks);
    _exit(STATUS_RUN);
}

static int run_ranks(const struct crew *crew, struct error *err)
{
    const int count = crew->config->topology.ranks;
    struct crew_rank *ranks = calloc((size_t)count, sizeof *ranks);
    if (!ranks) return error_set(err, STATUS_RUN, "no memory for %d ranks", count);
    int status = STATUS_OK;
    for (int r = 0; r < count; r++) {
        ranks[r].crew = crew;
        ranks[r].number = r;
        start(&ranks[r]);
    }
    for (int r = 0; r < count; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (ranks[r].status && !status) status = ranks[r].status, *err = ranks[r].err;
    }
    free(ranks);
    return status;
}

int crew_run(const struct config *config, crew_live *live, void *user, struct error *err)
{
    struct crew crew = {.config = config, .live = live, .user = user};
    int status = comm_group_create(&crew.group, config->topology.ranks, config->topology.ranks_per_node, err);
    if (!status && config->topology.backend == BACKEND_CUDA) status = gpu_open(&crew.gpu, config, err);
    if (!status) status = run_ranks(&crew, err);
    gpu_close(crew.gpu);
    if (crew.group) comm_group_free(crew.group);
    return status;
}
