#include "engine/launch/launch.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/device/gpu.h"

struct engine {
    pid_t pid;
    int home_fd;
    bool reaped;
    int wait_status;
    const struct launcher *launcher;
    bool has_called;         /* rank 0 has called, so ranks were started */
    uint64_t alone_since_ns; /* when the launcher was first seen without ranks; 0: it has some */
    struct capture *capture;
};

/* The OpenMP pool of a rank: as many threads as the run is to record, and no spinning where ranks outnumber the cores. Elsewhere a
 * thread that waits spins for half a millisecond at most; by itself libgomp lets it spin for 14 ms. With that, and another program that
 * kept one of two cores busy, a step of nano took 226 to 743 ms. It takes 41 now, and 6 on an idle machine. */
void launch_environment(const struct launcher *launcher, const struct config *config, const char *folder)
{
    char threads[16];
    snprintf(threads, sizeof threads, "%d", config->topology.threads_per_rank);
    setenv("OMP_NUM_THREADS", threads, 1);
    setenv("OMP_DYNAMIC", "false", 1);
    if ((long)config->topology.ranks * config->topology.threads_per_rank > sysconf(_SC_NPROCESSORS_ONLN))
        setenv("OMP_WAIT_POLICY", "passive", 1);
    else if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "10000", 0);
    if (launcher->environment) launcher->environment(folder);
}

/* In the child: a session of its own (Ctrl-C in the terminal is for the front end), no input, output to the pipe.
 * When the front end dies, the kernel asks the engine to stop, because no other process could. */
static void become_engine(const struct launch_order *order, const char *program, int output_fd, pid_t front)
{
    const struct launcher *launcher = order->launcher;
    const char *folder = order->dir->path;
    struct launch_args args = {0};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != front) _exit(STATUS_RUN);
    launch_environment(launcher, order->config, folder);
    if (launcher->prefix) launcher->prefix(&args, order->config->topology.ranks, program, folder, order->spec);
    launch_add(&args, program);
    launch_add(&args, order->verb);
    launch_add(&args, order->operand);
    setsid();
    int null_fd = open("/dev/null", O_RDONLY);
    dup2(null_fd, STDIN_FILENO);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(args.at[0], (char *const *)args.at);
    fprintf(stderr, "zerolab: cannot start %s: %s\n", args.at[0], strerror(errno));
    _exit(STATUS_RUN);
}

int launch_program(char program[LAUNCH_PROGRAM_ROOM], struct error *err)
{
    const ssize_t length = readlink("/proc/self/exe", program, LAUNCH_PROGRAM_ROOM - 1);
    if (length < 0) return error_set(err, STATUS_RUN, "cannot find this program's file: %s", strerror(errno));
    program[length] = '\0';
    return STATUS_OK;
}

static int fork_engine(struct engine *engine, const struct launch_order *order, struct capture_log *log,
                       struct error *err)
{
    char program[LAUNCH_PROGRAM_ROOM];
    int status = launch_program(program, err);
    if (status) return status;
    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0) return error_set(err, STATUS_RUN, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t front = getpid();
    engine->pid = fork();
    if (engine->pid == 0) become_engine(order, program, output[1], front);
    int fork_errno = errno;
    close(output[1]);
    if (engine->pid > 0) return capture_start(&engine->capture, output[0], log, err);
    close(output[0]);
    return error_set(err, STATUS_RUN, "cannot start the engine: %s", strerror(fork_errno));
}

int engine_start(struct engine **out, const struct rundir *dir, const struct run_spec *spec,
                 const struct config *config, struct capture_log *log, struct error *err)
{
    const struct launcher *launcher = launcher_of(spec, config);
    const struct launch_order order = {launcher, launcher->worker, dir->path, dir, spec, config};
    return engine_launch(out, &order, log, err);
}

int engine_launch(struct engine **out, const struct launch_order *order, struct capture_log *log, struct error *err)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return error_set(err, STATUS_RUN, "no memory to start the engine");
    engine->home_fd = -1;
    engine->launcher = order->launcher;
    int status = home_listen(order->dir, &engine->home_fd, err);
    if (!status) status = fork_engine(engine, order, log, err);
    if (!status) return *out = engine, STATUS_OK;

    if (engine->pid > 0) kill(engine->pid, SIGKILL), waitpid(engine->pid, NULL, 0);
    if (engine->home_fd >= 0) close(engine->home_fd);
    free(engine);
    return status;
}

static bool reap(struct engine *engine, int flags)
{
    if (!engine->reaped) engine->reaped = waitpid(engine->pid, &engine->wait_status, flags) == engine->pid;
    return engine->reaped;
}

int engine_home(const struct engine *engine)
{
    return engine->home_fd;
}

int engine_answer(struct engine *engine)
{
    struct pollfd ready = {.fd = engine->home_fd, .events = POLLIN};
    const int fd = poll(&ready, 1, 0) > 0 ? accept4(engine->home_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
    engine->has_called |= fd >= 0;
    return fd;
}

int engine_call(struct engine *engine, int signal_fd, int *connected_fd, struct error *err)
{
    enum { TICK_MS = 200 }; /* how late the end of an engine that never called may be seen */
    const uint64_t patience_ns = 120000000000u, began_ns = clock_ns();
    struct pollfd ready[2] = {{.fd = engine->home_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    for (;;) {
        poll(ready, 2, TICK_MS);
        if (ready[1].revents) return *connected_fd = -1, STATUS_OK;
        if (ready[0].revents && (*connected_fd = engine_answer(engine)) >= 0) return STATUS_OK;
        if (reap(engine, WNOHANG))
            return error_set(err, STATUS_RUN, "%s ended before the run began", engine->launcher->name);
        if (clock_ns() - began_ns > patience_ns)
            return error_set(err, STATUS_RUN, "the engine was not up after two minutes");
    }
}

/* Whether a process exists and has not ended; a zombie has ended. */
static bool lives(long pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    if (file) fclose(file);
    return state != 'Z' && state != 'X';
}

static bool has_children(pid_t pid)
{
    char path[64];
    long child;
    bool any = false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *children = fopen(path, "re");
    if (!children) return true; /* not known: assume that it has, and wait */
    while (!any && fscanf(children, "%ld", &child) == 1) any = lives(child);
    fclose(children);
    return any;
}

/* A launcher normally ends with its ranks. True if it stays ALONE_MS longer: it is stopped, or waits for others
 * (mpirun listens for connections, and other programs may make some). */
static bool is_alone(struct engine *engine)
{
    enum { ALONE_MS = 1500 };
    if (!engine->launcher->has_children || !engine->has_called || has_children(engine->pid))
        return engine->alone_since_ns = 0, false;
    const uint64_t now_ns = clock_ns();
    if (!engine->alone_since_ns) engine->alone_since_ns = now_ns;
    return now_ns - engine->alone_since_ns > ALONE_MS * 1000000ull;
}

bool engine_wait(struct engine *engine, int timeout_ms)
{
    return capture_wait(engine->capture, timeout_ms) || is_alone(engine);
}

/* Closes the socket first: ranks that are still starting then cannot call and end. mpirun passes SIGTERM on only
 * after seconds, and they would train until then. */
void engine_kill(struct engine *engine)
{
    if (engine->home_fd >= 0) close(engine->home_fd);
    engine->home_fd = -1;
    if (!reap(engine, WNOHANG)) kill(engine->pid, SIGTERM);
}

static void kill_all(struct engine *engine)
{
    enum { KILL_MS = 2000 };
    if (!reap(engine, WNOHANG)) kill(-engine->pid, SIGKILL);
    capture_wait(engine->capture, KILL_MS);
}

/* A launcher hands SIGTERM on to its ranks, and mpirun cleans up after them, so it is asked before it is killed. */
static void force_end(struct engine *engine)
{
    enum { ASK_MS = 3000 };
    engine_kill(engine);
    if (!capture_wait(engine->capture, ASK_MS)) kill_all(engine);
}

/* Ranks whose launcher ended before them have become children of this process. Waits one second for them, then kills
 * the rest. */
static void reap_orphans(void)
{
    enum { TICKS = 100, TICK_NS = 10000000 };
    for (int tick = 0; tick < TICKS; tick++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (pid < 0) return;
        nanosleep(&(struct timespec){.tv_nsec = TICK_NS}, NULL);
    }
    long pid;
    FILE *children = fopen("/proc/thread-self/children", "re");
    while (children && fscanf(children, "%ld", &pid) == 1) kill((pid_t)pid, SIGKILL);
    if (children) fclose(children);
}

/* False: the engine did not end within grace_ms. */
static bool wait_for_end(struct engine *engine, int grace_ms)
{
    enum { TICK_MS = 100 };
    const uint64_t end_ns = clock_ns() + (uint64_t)grace_ms * 1000000u;
    while (!engine_wait(engine, grace_ms < TICK_MS ? grace_ms : TICK_MS))
        if (clock_ns() >= end_ns) return false;
    return true;
}

int engine_end(struct engine *engine, int grace_ms, char **out, struct error *err)
{
    const bool forced = !wait_for_end(engine, grace_ms), left = !forced && !capture_wait(engine->capture, 0);
    if (forced) force_end(engine);
    if (left) kill_all(engine);
    reap(engine, 0);
    reap_orphans();
    char *printed = capture_finish(engine->capture);
    int status = failure_explain(left ? 0 : engine->wait_status, printed, forced ? NULL : engine->launcher->name, err);
    if (out) *out = printed;
    else free(printed);
    if (engine->home_fd >= 0) close(engine->home_fd);
    free(engine);
    return status;
}

/* The text from `at` to the end of its line. */
static int line_length(const char *at)
{
    return (int)strcspn(at, "\r\n");
}

/* "mpirun noticed that process rank 2 with PID 71 on node x exited on signal 9 (Killed)."; the PID is sometimes 0. Open MPI 5 says
 * "prterun noticed ..." and breaks the line where it is full. */
static bool explain_killed_rank(const char *printed, struct error *err)
{
    int rank, pid, number;
    const char *at = strstr(printed, "noticed that process rank ");
    const char *on = at ? strstr(at, "exited") : NULL;
    if (!on || sscanf(at, "noticed that process rank %d with PID %d", &rank, &pid) != 2 ||
        sscanf(on, "exited on signal %d", &number) != 1)
        return false;
    char process[32] = "";
    if (pid > 0) snprintf(process, sizeof process, " (process %d)", pid);
    error_set(err, STATUS_RUN, "rank %d%s was ended by signal %d (%s)", rank, process, number, strsignal(number));
    return true;
}

/* The word that follows `label` in the text after `mark`; false: none. */
static bool word_after(const char *printed, const char *mark, const char *label, char word[256])
{
    const char *at = strstr(printed, mark);
    at = at ? strstr(at, label) : NULL;
    return at && sscanf(at + strlen(label), " %255[^ \r\n]", word) == 1;
}

/* What Open MPI says of another host. Where its connection through the launch agent was not made, 4 gives no name, and 5 says that
 * it was lost. */
static bool explain_host(const char *printed, struct error *err)
{
    static const char lost[] = "lost communication with a remote daemon", no_program[] = "unable to launch the specified application";
    char host[256], program[256];
    const char *remote = strstr(printed, lost), *at = strstr(printed, LAUNCH_ON_LOST); /* of launch_on(), which another failure may follow */
    if (at && strstr(at, "PRTE has lost")) return error_set(err, STATUS_RUN, "%.*s", line_length(at), at);
    if ((remote = remote ? strstr(remote, "Remote daemon") : NULL) && word_after(remote, "Remote", "on node", host))
        return error_set(err, STATUS_RUN, "host %s was lost: its network or the machine itself has failed", host);
    if (word_after(printed, no_program, "Executable:", program) && word_after(printed, no_program, "Node:", host))
        return error_set(err, STATUS_RUN, "host %.100s cannot execute %s; install the same zerolab there", host, program);
    if (!at || !strstr(printed, "unable to reliably start one or more daemons")) return false;
    return error_set(err, STATUS_RUN, "%.*s", line_length(at), at);
}

/* What follows `mark` in the first line that begins with it. */
static const char *line_after(const char *printed, const char *mark)
{
    for (const char *at = printed; (at = strstr(at, mark)); at++)
        if (at == printed || at[-1] == '\n') return at + strlen(mark);
    return NULL;
}

/* The first line that one of our own processes printed, or the first with RANK_FAILED. *stated: the status in it, or 0. */
static const char *own_line(const char *printed, int *stated)
{
    int status = 0, length = 0;
    const char *at = line_after(printed, RANK_FAILED);
    const bool states = at && sscanf(at, "%d: %n", &status, &length) == 1 && length && status > 0 && status <= STATUS_RUN;
    *stated = states ? status : 0;
    return states ? at + length : line_after(printed, "zerolab: ");
}

static const char *sanitizer_line(const char *printed)
{
    const char *at = strstr(printed, "SUMMARY: ");
    return at ? at : strstr(printed, "runtime error: ");
}

/* The last line with letters in it: better than nothing. */
static const char *last_line(const char *printed)
{
    const char *best = NULL;
    for (const char *at = printed; *at; at += line_length(at), at += *at != '\0') {
        bool letters = false;
        for (int i = 0; i < line_length(at); i++) letters |= isalpha((unsigned char)at[i]) != 0;
        if (letters) best = at;
    }
    return best;
}

int failure_explain(int wait_status, const char *printed, const char *launcher, struct error *err)
{
    if (!printed) printed = "";
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0, stated;
    const char *line = own_line(printed, &stated), *broken = sanitizer_line(printed);
    if (explain_host(printed, err) || explain_killed_rank(printed, err)) return STATUS_RUN;
    if (!launcher && line) return error_set(err, STATUS_RUN, "%.*s", line_length(line), line);
    if (!launcher) return error_set(err, STATUS_RUN, "the engine did not end by itself and was ended");
    if (broken) return error_set(err, STATUS_RUN, "%.*s", line_length(broken), broken);
    if (WIFSIGNALED(wait_status))
        return error_set(err, STATUS_RUN, "%s was ended by signal %d (%s)", launcher, WTERMSIG(wait_status),
                         strsignal(WTERMSIG(wait_status)));
    if (code == 0 && !stated) return STATUS_OK;
    int status = stated ? stated : code <= STATUS_RUN ? code : STATUS_RUN;
    if (line) return error_set(err, status, "%.*s", line_length(line), line);
    if ((line = last_line(printed)))
        return error_set(err, STATUS_RUN, "%s ended with status %d: %.*s", launcher, code, line_length(line), line);
    return error_set(err, STATUS_RUN, "%s ended with status %d and said nothing", launcher, code);
}
