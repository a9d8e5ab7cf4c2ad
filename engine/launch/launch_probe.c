#include "engine/launch/launch_probe.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/launch/launch.h"
#include "engine/launch/supervise.h"

enum { RANKS = 2 };

/* Each rank sends its number to all others, and prints hello only when it has heard from every rank. */
static int say_hello(struct comm *comm, struct error *err)
{
    int everybody[64] = {0};
    const struct comm_layout *layout = comm_layout(comm);
    int status = comm_exchange(comm, &layout->rank, everybody, sizeof *everybody, NULL, err);
    for (int r = 0; !status && r < layout->ranks; r++)
        if (everybody[r] != r) status = error_set(err, STATUS_RUN, "rank %d calls itself %d", r, everybody[r]);
    if (!status) printf("hello from rank %d of %d\n", layout->rank, layout->ranks), fflush(stdout);
    comm_close(comm);
    return status;
}

/* Makes a file for the others to look for, in `dir` or, before that is made, in the nearest folder above it; "": it cannot. */
static void make_probe(char *probe, size_t room, const char *dir)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", dir);
    while (access(folder, F_OK) != 0) {
        char *slash = strrchr(folder, '/');
        if (!slash) strcpy(folder, ".");
        else slash[slash == folder] = '\0';
    }
    snprintf(probe, room, "%s/.zerolab-probe-XXXXXX", folder);
    const int fd = mkostemp(probe, O_CLOEXEC);
    if (fd >= 0) close(fd);
    else *probe = '\0';
}

int launch_probe_folder(struct comm *comm, const char *dir, char *sees, struct error *err)
{
    char probe[4096 + 32] = "";
    const bool first = comm_layout(comm)->rank == 0;
    if (first) make_probe(probe, sizeof probe, dir);
    int status = comm_broadcast_control(comm, probe, sizeof probe, err);
    const char mine = *probe && access(probe, F_OK) == 0;
    if (!status) status = comm_exchange(comm, &mine, sees, sizeof mine, NULL, err);
    if (first && *probe) unlink(probe);
    return status;
}

static int tell(int status, const struct error *err)
{
    if (status) fprintf(stderr, "zerolab: %s\n", err->text);
    return status;
}

static int probe_supervised(void *user, struct comm_group *group, int rank)
{
    (void)user;
    struct error err;
    struct comm *comm;
    int status = comm_open_process(&comm, group, rank, &err);
    if (!status) status = say_hello(comm, &err);
    comm_group_free(group);
    return tell(status, &err);
}

int launch_probe_process(const char *launcher)
{
    struct error err;
    struct comm *comm;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(launcher, launcher_mpirun.name) != 0)
        return tell(supervise(RANKS, 0, probe_supervised, NULL, &err), &err);
    int status = comm_open_mpi(&comm, 0, &err);
    if (!status) status = say_hello(comm, &err);
    return tell(status, &err);
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

int launch_try(const struct launch_trial *trial, char **printed, struct error *err)
{
    const struct run_spec spec = {.hosts = trial->hosts, .agent = trial->agent};
    const struct config config = {.topology = {.ranks = trial->ranks, .threads_per_rank = 1}};
    struct capture_log log = {0};
    struct engine *engine;
    struct rundir dir;
    *printed = NULL;
    int status = rundir_create(&dir, false, err);
    if (status) return status;
    const struct launch_order order = {trial->launcher, "--worker-hello", trial->hello, &dir, &spec, &config};
    status = engine_launch(&engine, &order, &log, err);
    if (!status) {
        const bool ended = engine_wait(engine, trial->timeout_ms);
        status = engine_end(engine, 0, printed, err);
        if (!ended) status = error_set(err, STATUS_RUN, "%d ranks did not meet in time", trial->ranks);
    }
    rundir_close(&dir, true);
    return status;
}

int launch_probe(const struct launcher *launcher, int timeout_ms, double *seconds, struct error *err)
{
    const uint64_t began_ns = clock_ns();
    const struct launch_trial trial = {
        .launcher = launcher, .ranks = RANKS, .hello = launcher->name, .timeout_ms = timeout_ms};
    char *text;
    int status = launch_try(&trial, &text, err);
    *seconds = (double)(clock_ns() - began_ns) * 1e-9;
    if (!status && (!text || count_of(text, "hello from rank") != RANKS))
        status = error_set(err, STATUS_RUN, "%s said nothing", launcher->name);
    free(text);
    return status;
}
