#include "engine/run/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/comm/comm.h"
#include "engine/run/capture.h"
#include "engine/run/failure.h"
#include "engine/run/gpu.h"
#include "engine/run/home.h"

struct engine {
    pid_t pid;
    int home_fd;
    bool reaped;
    int wait_status;
    const char *launcher;
    struct capture *capture;
};

/* What mpirun is told, and why. */
static const char *const mpirun_options[] = {
    "--oversubscribe", /* more ranks than cores is our normal case */
    "--bind-to",
    "none", /* with one core a rank, four ranks would share core 0 */
    "--mca",
    "plm",
    "isolated", /* this machine only: needs neither ssh nor a network */
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "btl",
    "self,vader",
    "--mca",
    "btl_vader_single_copy_mechanism",
    "none", /* needs ptrace rights that containers lack */
    "--mca",
    "orte_base_help_aggregate",
    "0",
    "--mca",
    "odls_base_sigkill_timeout",
    "2", /* when a rank has died, rank 0 needs a second to end the trace properly */
};

static void add(struct launch_args *args, const char *text)
{
    if (args->count < LAUNCH_ARGS_MAX - 1) args->at[args->count++] = text;
    args->at[args->count] = NULL;
}

static void add_mpirun(struct launch_args *args, const struct config *config, const char *folder, bool root)
{
    add(args, "mpirun");
    if (root) add(args, "--allow-run-as-root");
    for (size_t i = 0; i < sizeof mpirun_options / sizeof *mpirun_options; i++) add(args, mpirun_options[i]);
    /* All that Open MPI leaves in files goes where one removal takes it. */
    add(args, "--mca"), add(args, "orte_tmpdir_base"), add(args, folder);
    add(args, "--mca"), add(args, "btl_vader_backing_directory"), add(args, folder);
    snprintf(args->ranks, sizeof args->ranks, "%d", config->topology.ranks);
    add(args, "-n"), add(args, args->ranks);
}

void launch_arguments(struct launch_args *args, const struct config *config, const char *program, const char *folder,
                      bool root)
{
    args->count = 0;
    bool processes = config->topology.ranks_as == RANKS_AS_PROCESSES;
    if (processes) add_mpirun(args, config, folder, root);
    add(args, program);
    add(args, processes ? "--worker" : "--worker-threads");
    add(args, folder);
}

void launch_hello_arguments(struct launch_args *args, const struct config *config, const char *program,
                            const char *folder, bool root)
{
    args->count = 0;
    add_mpirun(args, config, folder, root);
    add(args, program);
    add(args, "--worker-hello");
}

static bool is_on_path(const char *name)
{
    const char *path = getenv("PATH");
    char copy[4096], file[4200], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path ? path : "");
    for (char *folder; (folder = strsep(&rest, ":"));) {
        snprintf(file, sizeof file, "%s/%s", folder, name);
        if (access(file, X_OK) == 0) return true;
    }
    return false;
}

bool launch_has_mpi(struct error *err)
{
    if (!comm_have_mpi()) return error_set(err, STATUS_RUN, "built without Open MPI"), false;
    if (!is_on_path("mpirun"))
        return error_set(err, STATUS_RUN, "mpirun is not installed (package openmpi-bin)"), false;
    return true;
}

/* The OpenMP pool of a rank: as many threads as the run is to record, and no spinning where ranks outnumber the cores. */
void launch_environment(const struct config *config, bool passes, const char *folder)
{
    char threads[16];
    snprintf(threads, sizeof threads, "%d", config->topology.threads_per_rank);
    setenv("OMP_NUM_THREADS", threads, 1);
    setenv("OMP_DYNAMIC", "false", 1);
    if ((long)config->topology.ranks * config->topology.threads_per_rank > sysconf(_SC_NPROCESSORS_ONLN))
        setenv("OMP_WAIT_POLICY", "passive", 1);
    /* A kernel that is loaded when it is first used may wait for the whole GPU, holding what other GPUs of the process need to begin
     * their part of a collective, which this GPU then waits for. So all are loaded at the start. */
    if (passes && config->topology.ranks > 1) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    /* Its shared-memory store (ds21) can deadlock at start-up: seen in PMIx 4.2.2, once in some forty starts. */
    setenv("PMIX_MCA_gds", "hash", 0);
    if (folder) setenv("PRTE_MCA_prte_tmpdir_base", folder, 1); /* what Open MPI 5 calls orte_tmpdir_base */
#ifdef __SANITIZE_ADDRESS__
    /* Open MPI unloads libraries that still hold memory: leaks without a name, which no list of suppressions can match. */
    if (config->topology.ranks_as == RANKS_AS_PROCESSES) setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
#endif
}

/* In the child: a session of its own (Ctrl-C in the terminal is for the front end), no input, output to the pipe. When the front end
 * dies, however it does, the kernel asks the engine to stop: nobody else is left to end it. */
static void become_engine(const struct launch_args *args, const struct config *config, const char *folder, bool passes,
                          int output_fd, pid_t front)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != front) _exit(STATUS_RUN);
    setsid();
    int null_fd = open("/dev/null", O_RDONLY);
    dup2(null_fd, STDIN_FILENO);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    launch_environment(config, passes, folder);
    execvp(args->at[0], (char *const *)args->at);
    fprintf(stderr, "zerolab: cannot start %s: %s\n", args->at[0], strerror(errno));
    _exit(STATUS_RUN);
}

int launch_program(char program[LAUNCH_PROGRAM_ROOM], struct error *err)
{
    const ssize_t length = readlink("/proc/self/exe", program, LAUNCH_PROGRAM_ROOM - 1);
    if (length < 0) return error_set(err, STATUS_RUN, "cannot find this program's file: %s", strerror(errno));
    program[length] = '\0';
    return STATUS_OK;
}

static int fork_engine(struct engine *engine, const struct rundir *dir, const struct config *config, struct capture_log *log,
                       struct error *err)
{
    char program[LAUNCH_PROGRAM_ROOM];
    struct launch_args args;
    int status = launch_program(program, err);
    if (status) return status;
    launch_arguments(&args, config, program, dir->path, geteuid() == 0);
    const bool passes = gpu_passes(config); /* CUDA cannot be asked after a fork */

    int output[2];
    if (pipe2(output, O_CLOEXEC) != 0) return error_set(err, STATUS_RUN, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t front = getpid();
    engine->pid = fork();
    if (engine->pid == 0) become_engine(&args, config, dir->path, passes, output[1], front);
    int fork_errno = errno;
    close(output[1]);
    if (engine->pid > 0) return capture_start(&engine->capture, output[0], log, err);
    close(output[0]);
    return error_set(err, STATUS_RUN, "cannot start the engine: %s", strerror(fork_errno));
}

int engine_start(struct engine **out, const struct rundir *dir, const struct config *config, struct capture_log *log,
                 struct error *err)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine) return error_set(err, STATUS_RUN, "no memory to start the engine");
    engine->home_fd = -1;
    engine->launcher = config->topology.ranks_as == RANKS_AS_PROCESSES ? "mpirun" : "the engine";
    int status = home_listen(dir, &engine->home_fd, err);
    if (!status) status = fork_engine(engine, dir, config, log, err);
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

int engine_call(struct engine *engine, int signal_fd, int *connected_fd, struct error *err)
{
    enum { TICK_MS = 200 }; /* how late the end of an engine that never called may be seen */
    const uint64_t patience_ns = 120000000000u, began_ns = clock_ns();
    struct pollfd ready[2] = {{.fd = engine->home_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    for (;;) {
        poll(ready, 2, TICK_MS);
        if (ready[1].revents) return *connected_fd = -1, STATUS_OK;
        if (ready[0].revents && (*connected_fd = accept4(engine->home_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
            return STATUS_OK;
        if (reap(engine, WNOHANG)) return error_set(err, STATUS_RUN, "%s ended before the run began", engine->launcher);
        if (clock_ns() - began_ns > patience_ns)
            return error_set(err, STATUS_RUN, "the engine was not up after two minutes");
    }
}

int engine_home(const struct engine *engine)
{
    return engine->home_fd;
}

int engine_answer(struct engine *engine)
{
    struct pollfd ready = {.fd = engine->home_fd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0 ? accept4(engine->home_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
}

bool engine_wait(struct engine *engine, int timeout_ms)
{
    return capture_wait(engine->capture, timeout_ms);
}

/* Ranks that are only starting find nobody to call, and end: mpirun asks them seconds after it is asked, and they would train
 * until then. */
void engine_kill(struct engine *engine)
{
    if (engine->home_fd >= 0) close(engine->home_fd);
    engine->home_fd = -1;
    if (!reap(engine, WNOHANG)) kill(-engine->pid, SIGTERM);
}

/* mpirun hands SIGTERM on to its ranks and cleans up after them, so it is asked before it is killed. */
static void force_end(struct engine *engine)
{
    enum { ASK_MS = 3000, KILL_MS = 2000 };
    engine_kill(engine);
    if (capture_wait(engine->capture, ASK_MS)) return;
    if (!reap(engine, WNOHANG)) kill(-engine->pid, SIGKILL);
    capture_wait(engine->capture, KILL_MS);
}

/* Ranks whose mpirun ended before them have become our children. They are on their way out; who is not is helped. */
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

int engine_end(struct engine *engine, int grace_ms, struct error *err)
{
    bool forced = !capture_wait(engine->capture, grace_ms);
    if (forced) force_end(engine);
    reap(engine, 0);
    reap_orphans();
    char *printed = capture_finish(engine->capture);
    int status = forced ? failure_explain_forced(printed, err)
                        : failure_explain(engine->wait_status, printed, engine->launcher, err);
    free(printed);
    if (engine->home_fd >= 0) close(engine->home_fd);
    free(engine);
    return status;
}
