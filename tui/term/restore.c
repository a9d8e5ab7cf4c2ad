/* Handlers do next to nothing: they set a flag, or write bytes that were prepared, with calls that are safe in a handler. */
#include "tui/term/restore.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static const int crashing[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { ENDING = sizeof ending / sizeof ending[0], CRASHING = sizeof crashing / sizeof crashing[0] };

static volatile sig_atomic_t end_asked, continued, resized;
static struct termios modes;
static bool has_modes;
static char leave[256];
static struct sigaction before_ending[ENDING], before_continuing, before_resizing, before_crash[CRASHING];
static int kept_stderr = -1, real_stderr = -1;

static void on_ending(int number)
{
    (void)number;
    end_asked = 1;
}

static void on_continuing(int number)
{
    (void)number;
    continued = 1;
}

/* ncurses has one of its own, which looks only for another size. */
static void on_resizing(int number)
{
    resized = 1;
    if (before_resizing.sa_handler != SIG_DFL && before_resizing.sa_handler != SIG_IGN)
        before_resizing.sa_handler(number);
}

static void way_back(void)
{
    if (write(STDOUT_FILENO, leave, strlen(leave)) >= 0 && has_modes) tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

static void on_crash(int number)
{
    way_back();
    raise(number); /* the handler was reset: the default takes its course */
}

/* A sanitizer's own handlers stay: they say more. */
static void watch_crash(int i)
{
    sigaction(crashing[i], NULL, &before_crash[i]);
    if (before_crash[i].sa_handler != SIG_DFL) return;
    sigaction(crashing[i], &(struct sigaction){.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER},
              NULL);
}

void restore_arm(const char *leave_screen)
{
    snprintf(leave, sizeof leave, "%s", leave_screen);
    has_modes = tcgetattr(STDIN_FILENO, &modes) == 0;
    end_asked = 0;
    for (int i = 0; i < ENDING; i++)
        sigaction(ending[i], &(struct sigaction){.sa_handler = on_ending}, &before_ending[i]);
    sigaction(SIGCONT, &(struct sigaction){.sa_handler = on_continuing}, &before_continuing);
    for (int i = 0; i < CRASHING; i++) watch_crash(i);
}

void restore_disarm(void)
{
    for (int i = 0; i < ENDING; i++) sigaction(ending[i], &before_ending[i], NULL);
    sigaction(SIGCONT, &before_continuing, NULL);
    sigaction(SIGWINCH, &before_resizing, NULL);
    for (int i = 0; i < CRASHING; i++) sigaction(crashing[i], &before_crash[i], NULL);
}

void restore_at_once(void)
{
    struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
    tcflush(STDOUT_FILENO, TCOFLUSH);
    if (poll(&room, 1, 0) > 0) way_back();
    else if (has_modes) tcsetattr(STDIN_FILENO, TCSANOW, &modes); /* stopped by Ctrl-S */
}

void restore_watch_size(void)
{
    sigaction(SIGWINCH, NULL, &before_resizing);
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resizing}, NULL);
}

bool restore_resized(void)
{
    const bool was = resized;
    resized = 0;
    return was;
}

bool restore_end_asked(void)
{
    return end_asked;
}

bool restore_continued(void)
{
    bool was = continued;
    continued = 0;
    return was;
}

void stderr_keep(void)
{
    fflush(stderr);
    kept_stderr = memfd_create("zerolab-stderr", MFD_CLOEXEC);
    real_stderr = kept_stderr >= 0 ? dup(STDERR_FILENO) : -1;
    if (real_stderr >= 0) dup2(kept_stderr, STDERR_FILENO);
}

void stderr_show(void)
{
    char bytes[4096];
    ssize_t count;
    fflush(stderr);
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
