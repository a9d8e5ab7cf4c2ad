#include "engine/run/worker.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/run/crew.h"
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

static int live(void *user, struct comm *comm, struct gpu_rank *gpu, struct error *err)
{
    const struct workplace *place = user;
    struct rank rank = {
        .dir = &place->dir, .spec = &place->spec, .signal_fd = place->signal_fd, .comm = comm, .gpu = gpu};
    return rank_live(&rank, err);
}

int worker_threads(const char *folder)
{
    struct workplace place = {0};
    struct error err;
    sigset_t signals;
    place.signal_fd = take_signals(&signals);
    int status = enter(&place, folder, &err);
    if (!status) status = crew_run(&place.config, live, &place, &err);
    return leave(&place, status, &err);
}
