#include "tui/term/restore.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

static volatile sig_atomic_t flags[RESTORE_FLAGS], entered, has_modes;
static struct termios modes, our_modes;
static char leave[256];
static struct sigaction before[_NSIG], before_resizing;
static bool replaced[_NSIG], listens;
static sigset_t unheard;
static volatile sig_atomic_t kept_stderr = -1, real_stderr = -1;

/* What a signal does: it sets a flag, or is left alone, or, of all others, ends the program. */
enum { FATAL, LEFT_ALONE, FLAGS };
static const unsigned char effects[_NSIG] = {[SIGINT] = FLAGS + RESTORE_END,
                                             [SIGTERM] = FLAGS + RESTORE_END,
                                             [SIGHUP] = FLAGS + RESTORE_END,
                                             [SIGTSTP] = FLAGS + RESTORE_STOP,
                                             [SIGCONT] = FLAGS + RESTORE_CONTINUED,
                                             [SIGKILL] = LEFT_ALONE,
                                             [SIGSTOP] = LEFT_ALONE,
                                             [SIGTTIN] = LEFT_ALONE,
                                             [SIGTTOU] = LEFT_ALONE,
                                             [SIGCHLD] = LEFT_ALONE,
                                             [SIGURG] = LEFT_ALONE,
                                             [SIGWINCH] = LEFT_ALONE};

/* ---- handlers ---- */

/* The program may still print while the shell has the terminal; SIGTTOU must not stop it then. */
static void on_flagged(int number)
{
    flags[effects[number] - FLAGS] = 1;
    if (flags[RESTORE_END]) signal(SIGTTOU, SIG_IGN);
}

/* ncurses has one of its own, which looks only for another size. */
static void on_resizing(int number)
{
    flags[RESTORE_RESIZED] = 1;
    if (before_resizing.sa_handler != SIG_DFL && before_resizing.sa_handler != SIG_IGN)
        before_resizing.sa_handler(number);
}

/* All other signals are blocked in here, SIGTTOU too. Then the previous action follows: the default, or the handler
 * of a sanitizer or of UCX (a library of Open MPI 5), which prints more. A fault that was not sent (si_code > 0) comes
 * again by itself, with its address; the terminal's SIGQUIT has such a code, too, and does not. */
static void on_fatal(int number, siginfo_t *info, void *context)
{
    (void)context;
    restore_at_once();
    stderr_show();
    sigaction(number, &before[number], NULL);
    const bool fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
    if (info->si_code <= 0 || !fault) raise(number);
}

/* What is ignored stays ignored. Libraries have handlers before main(), such as UCX for faults and SIGHUP. */
static void replace(int number)
{
    struct sigaction flag = {.sa_handler = on_flagged},
                     fatal = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigfillset(&fatal.sa_mask);
    sigdelset(&fatal.sa_mask, number);
    replaced[number] = effects[number] != LEFT_ALONE && sigaction(number, NULL, &before[number]) == 0 &&
                       before[number].sa_handler != SIG_IGN;
    if (replaced[number]) sigaction(number, effects[number] == FATAL ? &fatal : &flag, NULL);
}

void restore_arm(void)
{
    flags[RESTORE_END] = flags[RESTORE_STOP] = flags[RESTORE_CONTINUED] = 0;
    for (int number = 1; number < _NSIG; number++) replace(number);
    restore_listen(true);
}

void restore_disarm(void)
{
    restore_listen(false);
    for (int number = 1; number < _NSIG; number++)
        if (replaced[number]) sigaction(number, &before[number], NULL);
    sigaction(SIGWINCH, &before_resizing, NULL);
    has_modes = 0;
}

void restore_signals(sigset_t *set)
{
    sigemptyset(set);
    for (int number = 1; number < _NSIG; number++)
        if (replaced[number] && effects[number] != FATAL) sigaddset(set, number);
    sigaddset(set, SIGWINCH);
}

void restore_listen(bool wanted)
{
    sigset_t flagged;
    restore_signals(&flagged);
    if (wanted && !listens) sigprocmask(SIG_UNBLOCK, &flagged, &unheard);
    if (!wanted && listens) sigprocmask(SIG_SETMASK, &unheard, NULL);
    listens = wanted;
}

void restore_watch_size(void)
{
    sigaction(SIGWINCH, NULL, &before_resizing);
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resizing}, NULL);
}

bool restore_pending(void)
{
    bool pending = false;
    for (int flag = 0; flag < RESTORE_FLAGS; flag++) pending |= flags[flag];
    return pending;
}

bool restore_asked(enum restore_flag flag)
{
    return flags[flag];
}

bool restore_taken(enum restore_flag flag)
{
    const bool was = flags[flag];
    flags[flag] = 0;
    return was;
}

/* ---- screen and modes ---- */

void restore_remember(const char *leave_screen)
{
    snprintf(leave, sizeof leave, "%s", leave_screen);
    has_modes = tcgetattr(STDIN_FILENO, &modes) == 0;
    our_modes = modes;
    entered = 1; /* a fatal signal may come before ncurses is done */
}

void restore_screen_entered(void)
{
    tcgetattr(STDIN_FILENO, &our_modes);
    entered = 1;
}

void restore_screen_left(void)
{
    entered = 0;
}

bool restore_is_entered(void)
{
    return entered;
}

bool restore_in_background(void)
{
    const pid_t group = tcgetpgrp(STDIN_FILENO);
    return group >= 0 && group != getpgrp();
}

static bool modes_are_ours(void)
{
    struct termios now;
    return tcgetattr(STDIN_FILENO, &now) == 0 && now.c_iflag == our_modes.c_iflag && now.c_oflag == our_modes.c_oflag &&
           now.c_lflag == our_modes.c_lflag && memcmp(now.c_cc, our_modes.c_cc, sizeof now.c_cc) == 0;
}

void restore_at_once(void)
{
    struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (!entered) return;
    entered = 0;
    const bool background = restore_in_background(), sets_modes = has_modes && (!background || modes_are_ours());
    if (!background) tcflush(STDOUT_FILENO, TCOFLUSH);
    tcflow(STDOUT_FILENO, TCOON); /* it may have been stopped by Ctrl-S */
    if (poll(&room, 1, 0) > 0 && write(STDOUT_FILENO, leave, strlen(leave)) < 0) entered = 0; /* the terminal is gone */
    if (sets_modes) tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

/* By default SIGTSTP does nothing to a process whose group no shell looks after. */
void restore_stop_here(void)
{
    struct sigaction ours;
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = SIG_DFL}, &ours);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
}

/* ---- standard error ---- */

void stderr_keep(void)
{
    kept_stderr = memfd_create("zerolab-stderr", MFD_CLOEXEC);
    real_stderr = kept_stderr >= 0 ? dup(STDERR_FILENO) : -1;
    if (real_stderr >= 0) dup2(kept_stderr, STDERR_FILENO);
}

void stderr_show(void)
{
    char bytes[4096];
    ssize_t count;
    if (real_stderr >= 0) {
        dup2(real_stderr, STDERR_FILENO);
        close(real_stderr);
    }
    if (kept_stderr < 0) return;
    lseek(kept_stderr, 0, SEEK_SET);
    while ((count = read(kept_stderr, bytes, sizeof bytes)) > 0)
        if (write(STDERR_FILENO, bytes, (size_t)count) < 0) break;
    close(kept_stderr);
    kept_stderr = real_stderr = -1;
}
