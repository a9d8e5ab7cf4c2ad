#include "engine/launch/launch_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/launch/launch.h"
#include "engine/launch/supervise.h"

enum { RANKS = 2 };

/* Each rank sends its number to all others, and prints hello only when it has heard from every rank. */
static int say_hello(struct comm *comm, struct error *err)
{
    struct comm_stat stat;
    int everybody[64] = {0};
    const struct comm_layout *layout = comm_layout(comm);
    int status = comm_exchange(comm, &layout->rank, everybody, sizeof *everybody, &stat, err);
    for (int r = 0; !status && r < layout->ranks; r++)
        if (everybody[r] != r) status = error_set(err, STATUS_RUN, "rank %d calls itself %d", r, everybody[r]);
    if (!status) printf("hello from rank %d of %d\n", layout->rank, layout->ranks), fflush(stdout);
    comm_close(comm);
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

static void become_launcher(const struct launch_trial *trial, const struct rundir *dir, int output_fd)
{
    const struct config config = {.topology = {.ranks = trial->ranks, .threads_per_rank = 1}};
    char program[LAUNCH_PROGRAM_ROOM];
    struct launch_args args = {0};
    if (launch_program(program, NULL)) _exit(STATUS_RUN);
    launch_environment(trial->launcher, &config, false, dir->path);
    if (trial->launcher->prefix)
        trial->launcher->prefix(&args, trial->ranks, program, dir->path, trial->hosts, trial->agent);
    launch_add(&args, program);
    launch_add(&args, "--worker-hello");
    launch_add(&args, trial->hello);
    setsid();
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    execvp(args.at[0], (char *const *)args.at);
    _exit(STATUS_RUN);
}

/* Reads until the pipe ends. False: it did not end within timeout_ms. */
static bool read_until_end(int fd, char *text, size_t room, int timeout_ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)timeout_ms * 1000000u;
    size_t used = 0;
    text[0] = '\0';
    for (;;) {
        uint64_t now_ns = clock_ns();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (now_ns >= end_ns || poll(&ready, 1, (int)((end_ns - now_ns) / 1000000u) + 1) == 0) return false;
        char part[512];
        ssize_t length = read(fd, part, sizeof part);
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0) return true;
        size_t kept = used + (size_t)length < room ? (size_t)length : room - 1 - used;
        memcpy(text + used, part, kept);
        text[used += kept] = '\0';
    }
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

int launch_try(const struct launch_trial *trial, char *text, size_t room, struct error *err)
{
    struct rundir dir;
    int output[2], wait_status = 0, status = rundir_create(&dir, err);
    if (status) return status;
    pid_t pid = pipe2(output, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid == 0) become_launcher(trial, &dir, output[1]);
    if (pid > 0) {
        close(output[1]);
        bool ended = read_until_end(output[0], text, room, trial->timeout_ms);
        if (!ended) kill(-pid, SIGKILL);
        waitpid(pid, &wait_status, 0);
        close(output[0]);
        status = ended ? failure_explain(wait_status, text, trial->launcher->name, err)
                       : error_set(err, STATUS_RUN, "%d ranks did not meet in time", trial->ranks);
    } else status = error_set(err, STATUS_RUN, "cannot start a process: %s", strerror(errno));
    rundir_close(&dir, true);
    return status;
}

int launch_probe(const struct launcher *launcher, int timeout_ms, double *seconds, struct error *err)
{
    const uint64_t began_ns = clock_ns();
    const struct launch_trial trial = {
        .launcher = launcher, .ranks = RANKS, .hello = launcher->name, .timeout_ms = timeout_ms};
    char text[4096];
    int status = launch_try(&trial, text, sizeof text, err);
    *seconds = (double)(clock_ns() - began_ns) * 1e-9;
    if (status) return status;
    return count_of(text, "hello from rank") == RANKS ? STATUS_OK
                                                      : error_set(err, STATUS_RUN, "%s said nothing", launcher->name);
}
