#include "engine/train/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/device/gpu.h"
#include "engine/launch/launcher.h"
#include "engine/launch/supervise.h"
#include "engine/train/rank.h"

/* What every rank of a process shares. */
struct workplace {
    struct rundir dir;
    struct run_spec spec;
    struct config config;
    int signal_fd;
};

static sigset_t stop_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    return signals;
}

/* Rank 0 reads SIGINT and SIGTERM from a descriptor, between two steps. They are blocked before any thread is
 * made, so that no library's thread gets them. */
static void block_signals(void)
{
    const sigset_t signals = stop_signals();
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of the write */
}

static int open_signals(void)
{
    const sigset_t signals = stop_signals();
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* CUDA cannot be used after a fork, so nothing here may start it: the supervisor of ranks has still to fork. */
static int load(struct workplace *place, struct error *err)
{
    const int status = spec_load_config(&place->spec, &place->config, err);
    if (!status) gpu_environment(&place->config);
    return status;
}

static int enter(struct workplace *place, const char *folder, struct error *err)
{
    int status = rundir_join(&place->dir, folder, err);
    if (!status) status = spec_read(&place->spec, &place->dir, SPEC_FILE, err);
    return status ? status : load(place, err);
}

/* err NULL: the reason is not printed. */
static int leave(struct workplace *place, int status, const struct error *err)
{
    if (status && err) fprintf(stderr, "zerolab: %s\n", err->text);
    config_release(&place->config);
    spec_release(&place->spec);
    rundir_close(&place->dir, false);
    if (place->signal_fd >= 0) close(place->signal_fd);
    return status;
}

/* gpu NULL: none. */
static int run_one(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err)
{
    const struct workplace *place = user;
    struct rank rank = {
        .dir = &place->dir, .spec = &place->spec, .rank0.signal_fd = place->signal_fd, .comm = comm, .gpu = gpu};
    return rank_run(&rank, err);
}

/* The first of several errors becomes the error of all ranks. */
static int close_failed(struct comm *comm, struct error *err)
{
    comm_abort(comm, err);
    const int status = comm_check(comm, err);
    comm_close(comm);
    return status;
}

static int open_gpu(struct workplace *place, struct comm *comm, struct gpu **gpu, struct gpu_rank **own, struct error *err)
{
    if (place->config.topology.backend != BACKEND_CUDA) return STATUS_OK;
    gpu_settle(&place->config);
    int status = gpu_open(gpu, &place->config, comm, err);
    if (!status) status = gpu_rank_open(own, *gpu, comm_layout(comm)->rank, err);
    if (!status) return STATUS_OK;
    status = close_failed(comm, err);
    gpu_close(*gpu);
    return status;
}

/* A rank that is a process. */
static int run_process_rank(struct workplace *place, struct comm *comm, struct error *err)
{
    struct gpu *gpu = NULL;
    struct gpu_rank *own = NULL;
    const sigset_t signals = stop_signals();
    if (comm_layout(comm)->rank == 0) place->signal_fd = open_signals();
    else if (!place->spec.external)
        sigprocmask(SIG_UNBLOCK, &signals, NULL); /* else rank 0's front end stops the run */
    int status = open_gpu(place, comm, &gpu, &own, err);
    if (status) return status;
    status = run_one(place, comm, own, err);
    if (status) gpu_give_up(gpu);
    gpu_rank_close(own);
    gpu_close(gpu);
    return status;
}

/* Gives rank 0's order to the ranks that cannot read the run's folder. */
static int receive_spec(struct workplace *place, struct comm *comm, struct error *err)
{
    const bool first = comm_layout(comm)->rank == 0;
    char *text = first && place->spec.storage ? spec_text(&place->spec) : NULL;
    uint64_t bytes = text ? strlen(text) + 1 : 0;
    int status = comm_broadcast_control(comm, &bytes, sizeof bytes, err);
    if (!status && !first) text = bytes ? malloc(bytes) : NULL;
    if (!status && !text)
        status = error_set(err, STATUS_RUN,
                           "rank 0 has no order to the engine; it must be on the host where zerolab is started");
    if (!status) status = comm_broadcast_control(comm, text, bytes, err);
    if (!status && !place->spec.storage && !(status = spec_parse(&place->spec, text, err))) status = load(place, err);
    free(text);
    return status;
}

/* wanted: the number of ranks that MPI should have started. Another MPI than this program's starts processes that do not meet. */
static int meet(struct workplace *place, struct comm *comm, int wanted, struct error *err)
{
    const int ranks = comm_layout(comm)->ranks;
    int status = STATUS_OK;
    if (ranks != wanted)
        status =
            error_set(err, STATUS_RUN,
                      "MPI has started %d rank%s, not %d; start zerolab with the mpirun of the Open MPI that it is "
                      "built with",
                      ranks, ranks == 1 ? "" : "s", wanted);
    if (!status) status = receive_spec(place, comm, err);
    if (status) comm_abort(comm, err), comm_close(comm);
    return status;
}

/* folder NULL: a rank of a launcher that is not ours. It prints nothing about a run that fails, because rank 0's front end does,
 * and it stays until that is done: a launcher ends all processes once one of them has failed. */
int worker_process(const char *folder)
{
    enum { STAYS_S = 2 };
    struct workplace place = {.signal_fd = -1, .dir.lock_fd = -1};
    struct launcher_outer outer = {0};
    struct error err;
    struct comm *comm;
    const bool is_here = folder && access(folder, F_OK) == 0; /* else the front end is on another machine */
    prctl(PR_SET_PDEATHSIG, SIGKILL);                         /* when mpirun has ended in any way, no rank stays */
    block_signals();
    launcher_outer(&outer);
    int status = is_here ? enter(&place, folder, &err) : STATUS_OK;
    if (!status) status = comm_open_mpi(&comm, is_here ? place.config.topology.ranks_per_node : 0, &err);
    if (!status) status = meet(&place, comm, is_here ? place.config.topology.ranks : outer.ranks, &err);
    const bool has_met = !status;
    if (has_met) status = run_process_rank(&place, comm, &err);
    const bool is_ours = folder && !place.spec.external;
    if (status && is_ours && comm_left_mpi()) fprintf(stderr, RANK_FAILED "%d: %s\n", status, err.text), status = STATUS_OK;
    if (status && has_met && !folder) sleep(STAYS_S);
    return leave(&place, status, folder || !has_met ? &err : NULL);
}

/* In a child of the supervisor. */
static int run_supervised_rank(void *user, struct comm_group *group, int number)
{
    struct workplace *place = user;
    struct error err;
    struct comm *comm;
    int status = comm_open_process(&comm, group, number, &err);
    if (!status) status = run_process_rank(place, comm, &err);
    comm_group_free(group);
    return leave(place, status, &err);
}

int worker_ranks(const char *folder)
{
    struct workplace place = {.signal_fd = -1};
    struct error err;
    block_signals();
    int status = enter(&place, folder, &err);
    const struct config *config = &place.config;
    if (!status)
        status = supervise(config->topology.ranks, config->topology.ranks_per_node, run_supervised_rank, &place, &err);
    return leave(&place, status, &err);
}

/* ---- ranks as threads ---- */

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
    return status && *comm ? close_failed(*comm, &rank->err) : status;
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

/* Ends the process if the thread cannot be started: the other ranks would wait for it for ever. */
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
    if (!status && config->topology.backend == BACKEND_CUDA) status = gpu_open(&all.gpu, config, NULL, err);
    if (!status) status = run_ranks(&all, err);
    gpu_close(all.gpu);
    if (all.group) comm_group_free(all.group);
    return status;
}

int worker_threads(const char *folder)
{
    struct workplace place = {0};
    struct error err;
    block_signals();
    place.signal_fd = open_signals();
    int status = enter(&place, folder, &err);
    if (!status) gpu_settle(&place.config);
    if (!status) status = rank_threads_run(&place.config, run_one, &place, &err);
    return leave(&place, status, &err);
}
