#include "engine/run/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/run/gpu.h"
#include "engine/run/rank.h"

/* What every rank of a process shares. */
struct workplace {
    struct rundir dir;
    struct run_spec spec;
    struct config config;
    int signal_fd;
};

/* SIGINT and SIGTERM are taken from a descriptor, between two steps, by rank 0. They are blocked before any thread is
 * made, so that no library's thread gets them. */
static int take_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    sigprocmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of the write */
    return signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int enter(struct workplace *place, const char *folder, struct error *err)
{
    int status = rundir_join(&place->dir, folder, err);
    if (!status) status = spec_read(&place->spec, &place->dir, SPEC_FILE, err);
    if (!status) status = spec_load_config(&place->spec, &place->config, err);
    if (!status) gpu_settle(&place->config);
    return status;
}

static int leave(struct workplace *place, int status, const struct error *err)
{
    if (status) fprintf(stderr, "zerolab: %s\n", err->text);
    config_release(&place->config);
    spec_release(&place->spec);
    rundir_close(&place->dir, false);
    if (place->signal_fd >= 0) close(place->signal_fd);
    return status;
}

int worker_process(const char *folder)
{
    struct workplace place = {0};
    struct error err;
    sigset_t signals;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* mpirun gone, however it went: no rank stays */
    place.signal_fd = take_signals(&signals);
    int status = enter(&place, folder, &err);
    struct rank rank = {.dir = &place.dir, .spec = &place.spec, .signal_fd = place.signal_fd};
    if (!status) status = comm_open_mpi(&rank.comm, place.config.topology.ranks_per_node, &err);
    if (!status && comm_layout(rank.comm)->rank != 0) sigprocmask(SIG_UNBLOCK, &signals, NULL);
    if (!status) status = rank_live(&rank, &err);
    if (rank.comm) comm_close(rank.comm);
    return leave(&place, status, &err);
}

struct rank_thread {
    pthread_t thread;
    struct comm_group *group;
    struct gpu *gpu; /* shared; NULL: none */
    struct rank rank;
    int number, status;
    struct error err;
};

static void *run_rank(void *user)
{
    struct rank_thread *self = user;
    self->status = comm_open_thread(&self->rank.comm, self->group, self->number, &self->err);
    if (!self->status && self->gpu) self->status = gpu_rank_open(&self->rank.gpu, self->gpu, self->number, &self->err);
    if (self->status && self->rank.comm) {
        comm_abort(self->rank.comm, &self->err); /* of several reasons the first stands, and is everyone's */
        self->status = comm_check(self->rank.comm, &self->err);
    }
    if (self->status) gpu_give_up(self->gpu);
    if (!self->status) self->status = rank_live(&self->rank, &self->err);
    if (self->rank.comm) comm_close(self->rank.comm);
    gpu_rank_close(self->rank.gpu);
    return NULL;
}

static int run_threads(struct workplace *place, struct comm_group *group, struct gpu *gpu, int ranks, struct error *err)
{
    struct rank_thread *threads = calloc((size_t)ranks, sizeof *threads);
    if (!threads) return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    int started = 0, status = STATUS_OK;
    for (; started < ranks; started++) {
        struct rank_thread *self = &threads[started];
        *self = (struct rank_thread){.group = group,
                                     .gpu = gpu,
                                     .number = started,
                                     .rank = {.dir = &place->dir, .spec = &place->spec, .signal_fd = place->signal_fd}};
        if (pthread_create(&self->thread, NULL, run_rank, self) != 0) break;
    }
    /* Those that wait for a rank that could not be started would wait for ever. */
    if (started < ranks)
        fprintf(stderr, "zerolab: cannot start thread %d of %d ranks\n", started, ranks), _exit(STATUS_RUN);
    for (int r = 0; r < ranks; r++) {
        pthread_join(threads[r].thread, NULL);
        if (threads[r].status && !status) status = threads[r].status, *err = threads[r].err;
    }
    free(threads);
    return status;
}

int worker_threads(const char *folder)
{
    struct workplace place = {0};
    struct comm_group *group = NULL;
    struct gpu *gpu = NULL;
    struct error err;
    sigset_t signals;
    place.signal_fd = take_signals(&signals);
    int status = enter(&place, folder, &err);
    int ranks = place.config.topology.ranks;
    if (!status) status = comm_group_create(&group, ranks, place.config.topology.ranks_per_node, &err);
    if (!status && place.config.topology.backend == BACKEND_CUDA) status = gpu_open(&gpu, &place.config, &err);
    if (!status) status = run_threads(&place, group, gpu, ranks, &err);
    gpu_close(gpu);
    if (group) comm_group_free(group);
    return leave(&place, status, &err);
}
