/* --detach: a process of its own stays with the engine, writes the report and cleans up. For a report it watches the run from the
 * beginning and folds the records as they come, so nothing is written to disk for it. It never drives: the first viewer that attaches
 * does. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/cli/session.h"
#include "engine/trace/source.h"

/* Returns once the engine has greeted: it sends every record after that. */
static int watch(struct source **watched, const struct session *session, struct error *err)
{
    enum { PATIENCE_MS = 30000 };
    char path[96];
    rundir_path(&session->dir, "socket", path, sizeof path);
    int status = source_open_socket(watched, path, true, err);
    if (status || source_want_all(*watched, err)) return STATUS_RUN;
    struct pollfd greeted = {.fd = source_fd(*watched), .events = POLLIN};
    if (poll(&greeted, 1, PATIENCE_MS) == 1) return STATUS_OK;
    return error_set(err, STATUS_RUN, "the engine did not answer within %d seconds", PATIENCE_MS / 1000);
}

/* The engine calls and waits until the call is closed; so the watch sees the run from its first step. */
static int wait_for_call(struct session *session, struct source **watched, struct error *err)
{
    int fd, status = session_start(session, err);
    if (!status) status = engine_call(session->relauncher.engine, session->signal_fd, &fd, err);
    if (status) return status;
    if (fd < 0) {
        session_call_off(session);
        return error_set(err, STATUS_RUN, "stopped before the run began");
    }
    if (*session->report) status = watch(watched, session, err);
    close(fd);
    if (status) relauncher_kill(&session->relauncher);
    return status;
}

/* Folds the records that have arrived. False: the run has closed the connection, or there is none. */
static bool fold_watched(struct source *watched, struct run_model *model)
{
    struct trace_record record;
    enum source_result result = SOURCE_END;
    while (watched && (result = source_next(watched, &record)) == SOURCE_RECORD) run_model_fold(model, &record);
    return result == SOURCE_WAIT;
}

static bool is_signalled(const struct session *session)
{
    struct signalfd_siginfo info;
    return read(session->signal_fd, &info, sizeof info) == sizeof info;
}

enum { TICK_MS = 500 };

/* Reads on until the run has closed the connection: a command from a viewer that has already left may not be heard. */
static void stay_connected(struct session *session, struct source *source, struct source *watched)
{
    struct trace_record record;
    for (enum source_result result;
         (result = source_next(source, &record)) == SOURCE_RECORD || result == SOURCE_WAIT;) {
        if (result == SOURCE_WAIT && !fold_watched(watched, session->model)) watched = NULL;
        if (result == SOURCE_WAIT) session_wait(session, source, watched, TICK_MS);
        bool refused = result == SOURCE_RECORD && !source_drives(source);
        if (refused || is_signalled(session)) {
            relauncher_kill(&session->relauncher);
            return;
        }
    }
}

/* The number that the user knows is this process's, so SIGTERM arrives here: it stops the run. Asking is possible unless a
 * viewer drives. */
static void stop_run(struct session *session, struct source *watched)
{
    char path[96];
    struct source *source;
    rundir_path(&session->dir, "socket", path, sizeof path);
    if (source_open_socket(&source, path, false, NULL)) {
        relauncher_kill(&session->relauncher);
        return;
    }
    if (source_send(source, "stop", NULL) == STATUS_OK) stay_connected(session, source, watched);
    source_close(source);
}

static void wait_for_end(struct session *session, struct source *watched)
{
    while (fold_watched(watched, session->model)) {
        if (is_signalled(session)) stop_run(session, watched);
        else session_wait(session, NULL, watched, TICK_MS);
    }
    while (!relauncher_is_over(&session->relauncher, TICK_MS))
        if (is_signalled(session)) stop_run(session, NULL);
}

/* Tells the parent through up_fd that the run is up (status 0), or why it could not start. */
static int stay(struct session *session, int up_fd)
{
    struct error up = {0};
    struct source *watched = NULL;
    setsid();
    session_take_signals(session, NULL);
    up.status = wait_for_call(session, &watched, &up);
    struct error err = up;
    int status = up.status;
    if (!status) {
        if (write(up_fd, &up, sizeof up) != sizeof up) return STATUS_RUN;
        close(up_fd);
        const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) dup2(null_fd, fd); /* the terminal may close */
        close(null_fd);
        wait_for_end(session, watched);
    }
    source_close(watched);
    status = session_end(session, status, &err);
    rundir_close(&session->dir, true);
    err.status = status;
    if (up.status && write(up_fd, &err, sizeof err) != sizeof err) return STATUS_RUN;
    return status;
}

int session_detach(struct session *session, struct error *err)
{
    int pipe_fd[2];
    struct error up;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) return error_set(err, STATUS_RUN, "cannot make a pipe");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) close(pipe_fd[0]), _exit(stay(session, pipe_fd[1]));
    close(pipe_fd[1]);
    ssize_t got = pid > 0 ? read(pipe_fd[0], &up, sizeof up) : 0;
    close(pipe_fd[0]);
    if (got != sizeof up) return error_set(err, STATUS_RUN, "the run could not be left alone");
    if (up.status) return *err = up, up.status;
    fprintf(session->out, "run %d goes on; watch it with: zerolab attach %d, end it with: kill %d\n", (int)pid,
            (int)pid, (int)pid);
    return STATUS_OK;
}
