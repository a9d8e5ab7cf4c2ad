#include "engine/train/rank_threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/device/gpu.h"

struct rank_threads {
    const struct config *config;
    rank_threads_live *live;
    void *user;
    struct comm_group *group;
    struct gpu *gpu; /* NULL: none */
};

struct rank_thread {
    const struct rank_threads *all;
    pthread_t thread;
    int number, status;
    struct error err;
};

static int open_rank(struct rank_thread *rank, struct comm **comm, struct gpu_rank **gpu)
{
    const struct rank_threads *all = rank->all;
    int status = comm_open_thread(comm, all->group, rank->number, &rank->err);
    if (!status && all->gpu) status = gpu_rank_open(gpu, all->gpu, rank->number, &rank->err);
    if (!status || !*comm) return status;
    comm_abort(*comm, &rank->err); /* of several reasons the first stands, and is everyone's */
    status = comm_check(*comm, &rank->err);
    comm_close(*comm);
    return status;
}

static void *run_rank(void *user)
{
    struct rank_thread *rank = user;
    const struct rank_threads *all = rank->all;
    struct comm *comm = NULL;
    struct gpu_rank *gpu = NULL;
    rank->status = open_rank(rank, &comm, &gpu);
    if (!rank->status) rank->status = all->live(all->user, comm, gpu, &rank->err);
    if (rank->status) gpu_give_up(all->gpu);
    gpu_rank_close(gpu);
    return NULL;
}

/* Those that wait for a rank that could not be started would wait for ever. */
static void start(struct rank_thread *rank)
{
    if (pthread_create(&rank->thread, NULL, run_rank, rank) == 0) return;
    fprintf(stderr, "zerolab: cannot start thread %d of %d ranks\n", rank->number, rank->all->config->topology.ranks);
    _exit(STATUS_RUN);
}

static int run_ranks(const struct rank_threads *all, struct error *err)
{
    const int count = all->config->topology.ranks;
    struct rank_thread *ranks = calloc((size_t)count, sizeof *ranks);
    if (!ranks) return error_set(err, STATUS_RUN, "no memory for %d ranks", count);
    int status = STATUS_OK;
    for (int r = 0; r < count; r++) {
        ranks[r].all = all;
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

int rank_threads_run(const struct config *config, rank_threads_live *live, void *user, struct error *err)
{
    struct rank_threads all = {.config = config, .live = live, .user = user};
    int status = comm_group_create(&all.group, config->topology.ranks, config->topology.ranks_per_node, err);
    if (!status && config->topology.backend == BACKEND_CUDA) status = gpu_open(&all.gpu, config, err);
    if (!status) status = run_ranks(&all, err);
    gpu_close(all.gpu);
    if (all.group) comm_group_free(all.group);
    return status;
}
