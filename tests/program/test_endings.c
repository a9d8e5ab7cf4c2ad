/* Every signal that ends a program, in every state of the terminal: the program in a pseudo-terminal with a small shell that does job
 * control. After each end the terminal must be as before: alternate screen left, cursor shown, mouse reporting and keypad mode off,
 * colours reset, modes as before, nothing drawn after the screen was left. The status must be the signal's, or 0 for INT, TERM and HUP,
 * and the engine's processes must be gone within five seconds.
 *
 * All signals are tried in a replay; runs are tried with some of them. ENDINGS=all tries all signals in all states. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"

enum { WORKERS = 6, ARGS_MAX = 16, PIDS_MAX = 64, TRIES = 3, END_MS = 5000, PATIENCE_MS = 60000 };
enum {
    BACKGROUND = 1,
    STOPS = 2,
    SHELL_KEEPS_MODES = 4,
    CTRL_Z = 8,
    TYPES = 16,
    STARTS = 32,
    REPLAY = 64,
    HEADLESS = 128
};

#define RUN     "train", "--steps", "1000000", "-n", "1", "--set"
#define THREADS RUN, "topology.ranks_as=threads"

static const struct state {
    const char *name, *ready; /* what the terminal shows then */
    int flags;
    const char *args[ARGS_MAX];
} states[] = {
    {"replay", "REPLAY", REPLAY, {"replay", "docs/example.zlt"}},
    {"replay without the mouse", "REPLAY", REPLAY, {"replay", "-M", "docs/example.zlt"}},
    {"live view", "RUNNING", 0, {THREADS}},
    {"live view of process ranks", "RUNNING", 0, {RUN, "topology.ranks_as=processes"}},
    {"a command being typed", "command", TYPES, {THREADS}},
    {"lab", "PAUSED", 0, {"lab", "tour"}},
    {"suspended by Ctrl-Z", "RUNNING", CTRL_Z | BACKGROUND, {THREADS}},
    {"stopped by SIGSTOP", "RUNNING", STOPS | BACKGROUND, {THREADS}},
    {"stopped, and the shell keeps the modes", "RUNNING", STOPS | BACKGROUND | SHELL_KEEPS_MODES, {THREADS}},
    {"begun in the background", "", BACKGROUND, {THREADS}},
    {"an engine starts", "", STARTS, {THREADS}},
    {"headless", "step ", HEADLESS, {THREADS, "--headless"}},
    {"headless, suspended by Ctrl-Z", "step ", HEADLESS | CTRL_Z | BACKGROUND, {THREADS, "--headless"}},
};
enum { STATES = sizeof states / sizeof *states };

static const struct ending {
    const char *name;
    int number;
    bool asks, always; /* 0 is the status; tried in every state */
    const char *typed; /* the key that makes the terminal send it; NULL: kill() does */
} endings[] = {
    {"INT", SIGINT, true, false, NULL}, {"TERM", SIGTERM, true, true, NULL}, {"HUP", SIGHUP, true, false, NULL},
    {"QUIT", SIGQUIT, false, true, NULL}, {"USR1", SIGUSR1, false, false, NULL}, {"USR2", SIGUSR2, false, true, NULL},
    {"XCPU", SIGXCPU, false, false, NULL}, {"XFSZ", SIGXFSZ, false, false, NULL},
    {"SEGV", SIGSEGV, false, true, NULL}, {"ABRT", SIGABRT, false, false, NULL}, {"BUS", SIGBUS, false, false, NULL},
    {"FPE", SIGFPE, false, false, NULL}, {"ILL", SIGILL, false, false, NULL}, {"SYS", SIGSYS, false, false, NULL},
    {"TRAP", SIGTRAP, false, false, NULL}, {"ALRM", SIGALRM, false, false, NULL},
    {"VTALRM", SIGVTALRM, false, false, NULL}, {"PROF", SIGPROF, false, false, NULL},
    {"IO", SIGIO, false, false, NULL}, {"PWR", SIGPWR, false, false, NULL}, {"STKFLT", SIGSTKFLT, false, false, NULL},
    {"PIPE", SIGPIPE, false, false, NULL}, {"RTMIN", 34, false, false, NULL}, {"RTMAX", 64, false, false, NULL},
    {"QUIT of Ctrl-\\", SIGQUIT, false, false, "\034"},
};
enum { ENDINGS = sizeof endings / sizeof *endings };

struct trial {
    char name[96];
    const struct state *state;
    const struct ending *ending;
    char wrong[400]; /* "": as it must be */
};

static struct trial *trials;
static int trial_count;

static const char *program(void)
{
    const char *path = getenv("ZEROLAB");
    return path ? path : "build/release/zerolab";
}

/* ---- what a terminal would do with the bytes ---- */

struct screen {
    char text[1 << 16]; /* the newest */
    size_t length;
    bool alternate, hidden, mouse, pastes, keypad, coloured,
        drawn; /* drawn: the cursor was moved after the screen was left */
    bool entered;
};

static void take_mode(struct screen *screen, int mode, bool on)
{
    if (mode == 1049 || mode == 47 || mode == 1047)
        screen->alternate = on, screen->entered |= on, screen->drawn = false;
    if (mode == 25) screen->hidden = !on;
    if (mode >= 1000 && mode <= 1016) screen->mouse = on; /* ncurses sets and resets all of them at once */
    if (mode == 2004) screen->pastes = on;
    if (mode == 1) screen->keypad = on;
}

/* One control sequence: its parameters and its last byte. */
static void take_sequence(struct screen *screen, const char *parameters, char last)
{
    if (*parameters == '?' && (last == 'h' || last == 'l'))
        for (const char *at = parameters; at; at = strchr(at + 1, ';')) take_mode(screen, atoi(at + 1), last == 'h');
    if (last == 'm') screen->coloured = *parameters && strcmp(parameters, "0") != 0;
    if (last == 'H' && !screen->alternate) screen->drawn = true;
}

static void keep_text(struct screen *screen, char byte)
{
    if (screen->length == sizeof screen->text - 1) {
        memmove(screen->text, screen->text + sizeof screen->text / 2, sizeof screen->text / 2);
        screen->length -= sizeof screen->text / 2;
    }
    screen->text[screen->length++] = byte;
    screen->text[screen->length] = '\0';
}

/* Sequences are never cut between two reads for long: what is cut by a fatal signal is cancelled by the next escape. */
static void take_bytes(struct screen *screen, const char *bytes, ssize_t count)
{
    static __thread char parameters[64];
    static __thread int used = -1; /* -1: no sequence; -2: after an escape; -3: after that and a parenthesis */
    for (ssize_t i = 0; i < count; i++) {
        const char byte = bytes[i];
        if (byte == '\033') used = -2;
        else if (used == -2) used = byte == '[' ? 0 : byte == '(' ? -3 : -1;
        else if (used == -3) used = -1; /* the name of a character set */
        else if (used >= 0 && byte >= 0x40) {
            parameters[used] = '\0';
            take_sequence(screen, parameters, byte);
            used = -1;
        } else if (used >= 0) used += used < (int)sizeof parameters - 1, parameters[used - 1] = byte;
        else keep_text(screen, byte);
    }
}

/* ---- a shell with one job ---- */

struct job {
    pid_t shell, pid;
    int terminal_fd, events_fd; /* of its status, as waitpid() says it */
    struct termios before, shells;
    struct screen screen;
};

static void become_job(const struct trial *trial, int terminal_fd, const char *home)
{
    const char *args[ARGS_MAX + 1] = {"zerolab"};
    for (int a = 0; a < ARGS_MAX && trial->state->args[a]; a++) args[a + 1] = trial->state->args[a];
    setpgid(0, 0);
    if (!(trial->state->flags & BACKGROUND) || *trial->state->ready) tcsetpgrp(terminal_fd, getpid());
    for (int number = 1; number < _NSIG; number++) signal(number, SIG_DFL);
    for (int fd = 0; fd < 3; fd++) dup2(terminal_fd, fd);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setenv("TERM", "xterm-256color", 1);
    setenv("ZEROLAB_TOUR", "no", 1);
    setenv("ZEROLAB_MOUSE", "yes", 1);
    setenv("HOME", home, 1);
    setenv("XDG_RUNTIME_DIR", home, 1);
    execv(program(), (char *const *)args);
    _exit(127);
}

/* As bash does: takes terminal and modes when the job stops, and hands on what becomes of it. */
static void become_shell(const struct trial *trial, int terminal_fd, int events_fd, const struct termios *modes,
                         const char *home)
{
    int status;
    setsid();
    ioctl(terminal_fd, TIOCSCTTY, 0);
    signal(SIGTTOU, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const pid_t job = fork();
    if (job == 0) become_job(trial, terminal_fd, home);
    setpgid(job, job);
    if (write(events_fd, &job, sizeof job) != sizeof job) _exit(1);
    if ((trial->state->flags & BACKGROUND) && !*trial->state->ready) tcsetattr(terminal_fd, TCSANOW, modes);
    while (waitpid(job, &status, WUNTRACED) == job) {
        tcsetpgrp(terminal_fd, getpid());
        if (WIFSTOPPED(status) && !(trial->state->flags & SHELL_KEEPS_MODES)) tcsetattr(terminal_fd, TCSANOW, modes);
        if (write(events_fd, &status, sizeof status) != sizeof status || !WIFSTOPPED(status)) break;
    }
    pause(); /* the terminal stays until it has been looked at */
}

static void job_begin(struct job *job, const struct trial *trial, const char *home)
{
    int events[2], slave_fd;
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    memset(job, 0, sizeof *job);
    if (openpty(&job->terminal_fd, &slave_fd, NULL, NULL, &size) || pipe2(events, O_CLOEXEC)) abort();
    fcntl(job->terminal_fd, F_SETFD, FD_CLOEXEC);
    tcgetattr(slave_fd, &job->before);
    job->shells = job->before;
    job->shells.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* as at a prompt */
    job->shell = fork();
    if (job->shell == 0) become_shell(trial, slave_fd, events[1], &job->shells, home);
    close(slave_fd);
    close(events[1]);
    job->events_fd = events[0];
    if (read(job->events_fd, &job->pid, sizeof job->pid) != sizeof job->pid) abort();
}

static void job_release(struct job *job)
{
    kill(-job->pid, SIGKILL);
    kill(job->shell, SIGKILL);
    waitpid(job->shell, NULL, 0);
    close(job->terminal_fd);
    close(job->events_fd);
}

/* Takes what the terminal gets until `enough`, or an event of the job (then *status has it). False: neither in time. */
static bool follow(struct job *job, const char *enough, int *status, int patience_ms)
{
    const uint64_t end_ns = clock_ns() + (uint64_t)patience_ms * 1000000;
    char bytes[4096];
    while (clock_ns() < end_ns) {
        struct pollfd fds[2] = {{.fd = job->terminal_fd, .events = POLLIN}, {.fd = job->events_fd, .events = POLLIN}};
        if (enough && strstr(job->screen.text, enough)) return true;
        poll(fds, 2, 20);
        if (fds[0].revents & POLLIN) {
            const ssize_t count = read(job->terminal_fd, bytes, sizeof bytes);
            if (count > 0) take_bytes(&job->screen, bytes, count);
        } else if (fds[1].revents) return read(job->events_fd, status, sizeof *status) == sizeof *status;
    }
    return false;
}

/* The kernel hands on what was written to a terminal when it finds time for it: some of it may come after an event. */
static void take_rest(struct job *job)
{
    const struct screen *screen = &job->screen;
    int status;
    follow(job, NULL, &status, 1);
    for (int i = 0;
         i < 50 && (screen->alternate || screen->hidden || screen->mouse || screen->pastes || screen->coloured); i++)
        follow(job, NULL, &status, 40);
}

/* ---- processes ---- */

struct pids {
    int count;
    pid_t at[PIDS_MAX];
};

static void add_children(struct pids *pids, pid_t pid)
{
    char path[64];
    long child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    while (file && pids->count < PIDS_MAX && fscanf(file, "%ld", &child) == 1) {
        pids->at[pids->count++] = (pid_t)child;
        add_children(pids, (pid_t)child);
    }
    if (file) fclose(file);
}

static bool is_gone(pid_t pid)
{
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
    fclose(file);
    return state == 'Z'; /* waits only to be reaped */
}

static bool all_gone(const struct pids *pids, uint64_t end_ns)
{
    for (int p = 0; p < pids->count; p++)
        while (!is_gone(pids->at[p])) {
            if (clock_ns() >= end_ns) return false;
            poll(NULL, 0, 10);
        }
    return true;
}

/* ---- one trial ---- */

static bool wrong(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool wrong(struct trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(trial->wrong, sizeof trial->wrong, format, args);
    va_end(args);
    return false;
}

static bool same_modes(const struct termios *a, const struct termios *b)
{
    return a->c_iflag == b->c_iflag && a->c_oflag == b->c_oflag && a->c_cflag == b->c_cflag &&
           a->c_lflag == b->c_lflag && memcmp(a->c_cc, b->c_cc, sizeof a->c_cc) == 0;
}

/* Into the state; `engine` are the processes that the program has started. */
static bool reach(struct trial *trial, struct job *job, struct pids *engine)
{
    const struct state *state = trial->state;
    const uint64_t end_ns = clock_ns() + PATIENCE_MS * 1000000ull;
    int status = 0;
    if (state->flags & (STARTS | BACKGROUND) && !*state->ready)
        while (engine->count == 0 && clock_ns() < end_ns) add_children(engine, job->pid);
    else if (!follow(job, state->flags & TYPES ? "RUNNING" : state->ready, &status, PATIENCE_MS) || status)
        return wrong(trial, "did not come to its state: %.200s", job->screen.text);
    if (state->flags & TYPES &&
        (write(job->terminal_fd, ":", 1) != 1 || !follow(job, "command", &status, PATIENCE_MS) || status))
        return wrong(trial, "no command line came");
    if (!*state->ready && state->flags & BACKGROUND && follow(job, NULL, &status, 300))
        return wrong(trial, "something became of it in the background: %x", (unsigned)status);
    add_children(engine, job->pid);
    if (state->flags & CTRL_Z && write(job->terminal_fd, "\032", 1) != 1) return wrong(trial, "no Ctrl-Z");
    if (state->flags & STOPS) kill(job->pid, SIGSTOP);
    if (state->flags & (CTRL_Z | STOPS) && (!follow(job, NULL, &status, PATIENCE_MS) || !WIFSTOPPED(status)))
        return wrong(trial, "did not stop");
    if (state->flags & CTRL_Z) take_rest(job);
    if (state->flags & CTRL_Z && (job->screen.alternate || job->screen.hidden || job->screen.mouse))
        return wrong(trial, "suspended, and the screen is not left");
    return true;
}

static bool is_restored(struct trial *trial, const struct job *job)
{
    const struct screen *screen = &job->screen;
    const bool is_shells = trial->state->flags & BACKGROUND && !(trial->state->flags & SHELL_KEEPS_MODES);
    struct termios now;
    tcgetattr(job->terminal_fd, &now);
    if (screen->alternate) return wrong(trial, "the alternate screen is not left");
    if (screen->hidden) return wrong(trial, "the cursor is hidden");
    if (screen->mouse) return wrong(trial, "mouse reporting is on");
    if (screen->keypad) return wrong(trial, "the keypad mode is on");
    if (screen->pastes) return wrong(trial, "bracketed paste is on");
    if (screen->coloured) return wrong(trial, "colours are set");
    if (screen->drawn && !(trial->state->flags & HEADLESS))
        return wrong(trial, "something was drawn after the screen was left");
    if (!same_modes(&now, is_shells ? &job->shells : &job->before)) return wrong(trial, "the modes are not as before");
    return true;
}

static bool has_status(struct trial *trial, int status)
{
    const bool asks = trial->ending->asks,
               may_die = !asks || trial->state->flags & STARTS; /* before there is a run to stop */
    if (asks && WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (may_die && WIFSIGNALED(status) && WTERMSIG(status) == trial->ending->number) return true;
    return wrong(trial,
                 WIFSTOPPED(status)  ? "stopped by signal %d"
                 : WIFEXITED(status) ? "exit status %d"
                                     : "ended by signal %d",
                 WIFSTOPPED(status)  ? WSTOPSIG(status)
                 : WIFEXITED(status) ? WEXITSTATUS(status)
                                     : WTERMSIG(status));
}

static bool end_job(struct trial *trial, struct job *job, const struct pids *engine)
{
    int status = 0;
    const uint64_t begun_ns = clock_ns(), end_ns = begun_ns + END_MS * 1000000ull;
    if (!trial->ending->typed) kill(job->pid, trial->ending->number);
    else if (write(job->terminal_fd, trial->ending->typed, 1) != 1) return wrong(trial, "the key cannot be typed");
    if (trial->state->flags & BACKGROUND) kill(job->pid, SIGCONT); /* as kill %1 does */
    if (!follow(job, NULL, &status, END_MS)) return wrong(trial, "did not end within %d ms", END_MS);
    if (!has_status(trial, status)) return false;
    if (!all_gone(engine, end_ns)) return wrong(trial, "the engine had not ended after %d ms", END_MS);
    take_rest(job);
    return is_restored(trial, job);
}

/* On a busy machine the five seconds count in one of three tries. */
static void try_it(struct trial *trial, const char *home)
{
    for (int t = 0; t < TRIES; t++) {
        static __thread struct job job;
        struct pids engine = {0};
        wrong(trial, "the test itself ended in the middle of it");
        job_begin(&job, trial, home);
        const bool right = reach(trial, &job, &engine) && end_job(trial, &job, &engine);
        job_release(&job);
        for (int p = 0; p < engine.count; p++)
            if (!is_gone(engine.at[p])) kill(engine.at[p], SIGKILL);
        if (right) *trial->wrong = '\0';
        if (right || !strstr(trial->wrong, " ms")) return;
    }
}

/* ---- all of them ---- */

static char folder[] = "/tmp/zerolab-endings-XXXXXX";

static void work(int worker)
{
    char home[64];
    snprintf(home, sizeof home, "%s/%d", folder, worker);
    mkdir(home, 0700);
    for (int t = worker; t < trial_count; t += WORKERS) try_it(&trials[t], home);
    _exit(0);
}

static int try_all(void **state)
{
    pid_t pids[WORKERS];
    (void)state;
    if (!mkdtemp(folder)) return -1;
    for (int w = 0; w < WORKERS; w++)
        if ((pids[w] = fork()) == 0) work(w);
    for (int w = 0; w < WORKERS; w++) waitpid(pids[w], NULL, 0);
    return 0;
}

static int clean_up(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void test_ending(void **state)
{
    const struct trial *trial = *state;
    if (*trial->wrong) fail_msg("%s: %s", trial->name, trial->wrong);
}

static bool is_crash(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGABRT ||
           number == SIGTRAP;
}

static bool is_wanted(const struct state *state, const struct ending *ending)
{
    const char *all = getenv("ENDINGS");
    if (getenv("SHORT") && is_crash(ending->number)) return false;           /* a sanitizer has handlers of its own */
    if (ending->number == SIGPIPE && !(state->flags & REPLAY)) return false; /* a run ignores it */
    if (ending->typed && state->flags & ~REPLAY) return false; /* only a view in the foreground gets it at once */
    return ending->always || state == &states[0] || (all && strcmp(all, "all") == 0);
}

int main(void)
{
    static struct CMUnitTest tests[STATES * ENDINGS];
    trials = mmap(NULL, sizeof *trials * STATES * ENDINGS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int s = 0; s < STATES; s++)
        for (int e = 0; e < ENDINGS; e++) {
            struct trial *trial = &trials[trial_count];
            if (!is_wanted(&states[s], &endings[e])) continue;
            trial->state = &states[s];
            trial->ending = &endings[e];
            snprintf(trial->name, sizeof trial->name, "%s, SIG%s", states[s].name, endings[e].name);
            snprintf(trial->wrong, sizeof trial->wrong, "was not tried");
            tests[trial_count++] = (struct CMUnitTest){trial->name, test_ending, NULL, NULL, trial};
        }
    return _cmocka_run_group_tests("endings", tests, (size_t)trial_count, try_all, clean_up);
}
