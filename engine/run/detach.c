/* --detach: a process of its own stays with the engine, so that there is somebody to write the report and to clean up. It
 * watches nothing: the first viewer that attaches drives. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/run/session.h"
#include "engine/trace/source.h"

/* What the child tells its parent when the run is up, or is not. */
struct up {
    int status;
    struct error err;
};

static int wait_for_call(struct session *session, struct error *err)
{
    int fd, status = session_start(session, err);
    if (!status) status = engine_call(session->keeper.engine, session->signal_fd, &fd, err);
    if (status) return status;
    if (fd >= 0) return close(fd), STATUS_OK;
    session_call_off(session);
    return error_set(err, STATUS_RUN, "stopped before the run began");
}

static void fold_file(struct run_model *model, const char *path)
{
    struct source *source;
    struct trace_record record;
    if (source_open_file(&source, path, NULL)) return;
    while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record);
    source_close(source);
}

static void forget_terminal(void)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) dup2(null_fd, fd);
    close(null_fd);
}

static bool is_signalled(const struct session *session)
{
    struct signalfd_siginfo info;
    return read(session->signal_fd, &info, sizeof info) == sizeof info;
}

/* Reads on until the run has closed the connection: a command from a viewer that has already left may not be heard. */
static void stay_connected(struct session *session, struct source *source)
{
    enum { TICK_MS = 500 };
    struct trace_record record;
    for (enum source_result result;
         (result = source_next(source, &record)) == SOURCE_RECORD || result == SOURCE_WAIT;) {
        int soon_ms = keeper_tend(&session->keeper);
        struct pollfd ready[2] = {{.fd = source_fd(source), .events = POLLIN},
                                  {.fd = keeper_fd(&session->keeper), .events = POLLIN}};
        if (result == SOURCE_WAIT) poll(ready, 2, soon_ms >= 0 ? soon_ms : TICK_MS);
        bool refused = result == SOURCE_RECORD && !source_drives(source);
        if (refused || is_signalled(session)) {
            keeper_kill(&session->keeper);
            return;
        }
    }
}

/* The number that the user knows is this process's, so SIGTERM arrives here: it stops the run. Asking is possible unless a
 * viewer drives. */
static void stop_run(struct session *session)
{
    char path[96];
    struct source *source;
    rundir_path(&session->dir, "socket", path, sizeof path);
    if (source_open_socket(&source, path, NULL)) {
        keeper_kill(&session->keeper);
        return;
    }
    if (source_send(source, "stop", NULL) == STATUS_OK) stay_connected(session, source);
    source_close(source);
}

static void wait_for_end(struct session *session)
{
    enum { TICK_MS = 500 };
    while (!keeper_is_over(&session->keeper, TICK_MS))
        if (is_signalled(session)) stop_run(session);
}

static int stay(struct session *session, int up_fd)
{
    struct up up = {0};
    setsid();
    session_take_signals(session, NULL);
    up.status = wait_for_call(session, &up.err);
    struct error err = up.err;
    int status = up.status;
    if (!status) {
        if (write(up_fd, &up, sizeof up) != sizeof up) return STATUS_RUN;
        close(up_fd);
        forget_terminal();
        wait_for_end(session);
        if (session->spec.trace) fold_file(session->model, session->spec.trace);
    }
    if (session->model) status = session_finish(session, status, &err);
    if (session->model) session_find_losses(session);
    if (session->model) session_report(session);
    rundir_close(&session->dir, true);
    if (up.status) {
        up = (struct up){.status = status, .err = err};
        if (write(up_fd, &up, sizeof up) != sizeof up) return STATUS_RUN;
    }
    return status;
}

int session_detach(struct session *session, struct error *err)
{
    int pipe_fd[2];
    struct up up;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) return error_set(err, STATUS_RUN, "cannot make a pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) close(pipe_fd[0]), _exit(stay(session, pipe_fd[1]));
    close(pipe_fd[1]);
    ssize_t got = pid > 0 ? read(pipe_fd[0], &up, sizeof up) : 0;
    close(pipe_fd[0]);
    if (got != sizeof up) return error_set(err, STATUS_RUN, "the run could not be left alone");
    if (up.status) return *err = up.err, up.status;
    fprintf(session->out, "run %d goes on; watch it with: zerolab attach %d, end it with: kill %d\n", (int)pid,
            (int)pid, (int)pid);
    return STATUS_OK;
}
