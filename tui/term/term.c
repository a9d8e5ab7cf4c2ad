/* The terminal: ncurses for its modes, keys, mouse and size, and to enter, clear and leave the screen; painter.h for
 * its cells. A frame is one write, so that neither this process nor the terminal is woken for pieces of it. ncurses itself holds only a
 * blank screen; keys are read through a pad, which ncurses never draws. */
#define NCURSES_WIDECHAR 1
#include "tui/term/term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "engine/base/printable.h"
#include "tui/term/painter.h"
#include "tui/term/restore.h"

/* The terminal, with what is known here alone. */
struct own {
    struct terminal told;
    SCREEN *screen;
    WINDOW *keys;
    bool forget, stuck;
    struct painter painter;
    struct surface shown;
};

static struct own *own_of(struct terminal *terminal)
{
    return (struct own *)terminal;
}

bool terminal_fits(struct error *err)
{
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        error_set(err, STATUS_USAGE,
                  "standard input and output are not a terminal; use --headless, or --frame to print a screen");
        return false;
    }
    if (!name || !name[0] || strcmp(name, "dumb") == 0) {
        error_set(err, STATUS_USAGE, "TERM=%s cannot show a screen; use --headless, or --frame to print one",
                  name ? name : "");
        return false;
    }
    char leave[256];
    if (!terminfo_leave(leave, sizeof leave, false)) {
        error_set(err, STATUS_USAGE, "TERM=%s is not known here; try TERM=xterm, or --headless", name);
        return false;
    }
    return true;
}

bool terminal_is_utf8(void)
{
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static bool set_up(struct own *terminal, bool no_colour, bool mouse)
{
    enum { BUTTONS = BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED };
    set_escdelay(25);
    cbreak();
    noecho();
    nonl();
    terminal->keys = newpad(1, 1);
    if (!terminal->keys) return false;
    keypad(terminal->keys, TRUE);
    nodelay(terminal->keys, TRUE);
    curs_set(0);
    if (mouse && mousemask(BUTTONS, NULL)) mouseinterval(0);
    terminal->told.has_colour = !no_colour && has_colors();
    painter_init(&terminal->painter, terminal->told.has_colour);
    terminal->told.depth = terminal->painter.depth;
    return true;
}

/* In the background the terminal is another program's: nothing is read or drawn. False: asked to end meanwhile. */
static bool comes_to_foreground(void)
{
    enum { LOOKS_AGAIN_MS = 100 };
    while (!restore_asked(RESTORE_END) && restore_in_background()) poll(NULL, 0, LOOKS_AGAIN_MS);
    return !restore_asked(RESTORE_END);
}

int terminal_open(struct terminal **out, bool no_colour, bool mouse, struct error *err)
{
    char leave[256] = "";
    *out = NULL;
    if (!terminal_fits(err)) return STATUS_USAGE;
    struct own *terminal = calloc(1, sizeof *terminal);
    if (!terminal) return error_set(err, STATUS_RUN, "no memory for a screen");
    setlocale(LC_CTYPE, "");
    terminfo_leave(leave, sizeof leave, mouse);
    restore_arm(); /* before ncurses, which leaves handlers that are there */
    if (!comes_to_foreground()) {
        restore_disarm();
        free(terminal);
        return STATUS_OK;
    }
    restore_remember(leave);
    stderr_keep();
    terminal->screen = newterm(NULL, printable_below(stdout), stdin);
    if (!terminal->screen) {
        restore_disarm();
        stderr_show();
        free(terminal);
        return error_set(err, STATUS_USAGE, "TERM=%s cannot show a screen; use --headless", getenv("TERM"));
    }
    restore_watch_size();
    terminal->forget = true;
    if (!set_up(terminal, no_colour, mouse)) {
        terminal_close(&terminal->told);
        return error_set(err, STATUS_RUN, "no memory for a screen");
    }
    restore_screen_entered();
    *out = &terminal->told;
    return STATUS_OK;
}

/* A terminal that takes no bytes blocks this, as it does every program, until a signal asks to end: then `stuck` is
 * set. A write that was interrupted may return a part, and if writes do not block, the signal may come just before
 * the wait. */
static void send_bytes(struct own *terminal)
{
    enum { LOOKS_AGAIN_MS = 500 };
    const uint8_t *at = terminal->painter.out.at;
    size_t left = terminal->painter.out.count;
    while (left > 0) {
        const ssize_t count = write(STDOUT_FILENO, at, left);
        const bool full = count < 0 && errno == EAGAIN;
        if (count < 0 && !full && errno != EINTR) return;
        if (count > 0) at += count, left -= (size_t)count;
        terminal->stuck = left > 0 && restore_asked(RESTORE_END);
        if (terminal->stuck) return;
        if (full) poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, LOOKS_AGAIN_MS);
    }
}

static void leave_screen(struct own *terminal)
{
    const bool at_once = !restore_is_entered() || restore_in_background();
    painter_leave(&terminal->painter, LINES - 1); /* a terminal without a second screen goes on writing here */
    if (!at_once && !terminal->stuck) send_bytes(terminal);
    if (at_once || terminal->stuck) restore_at_once();
    else endwin(); /* waits until all has been taken */
    restore_screen_left();
}

void terminal_close(struct terminal *told)
{
    struct own *terminal = own_of(told);
    if (!terminal) return;
    leave_screen(terminal);
    restore_disarm();
    stderr_show();
    if (terminal->keys) delwin(terminal->keys);
    delscreen(terminal->screen);
    surface_release(&terminal->shown);
    bytes_release(&terminal->painter.out);
    free(terminal);
}

void terminal_listen(bool listens)
{
    restore_listen(listens);
}

void terminal_size(int *columns, int *rows)
{
    getmaxyx(stdscr, *rows, *columns);
}

void terminal_forget(struct terminal *terminal)
{
    own_of(terminal)->forget = true;
}

int terminal_poll(struct pollfd *fds, nfds_t count, const struct timespec *wait)
{
    sigset_t flagged, before;
    restore_signals(&flagged);
    sigprocmask(SIG_BLOCK, &flagged, &before);
    const int ready = restore_pending() ? 0 : ppoll(fds, count, wait, &before);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready;
}

/* A copy of what is on the screen, of the surface's size; false if it had to be made anew. */
static bool has_copy(struct own *terminal, const struct surface *surface)
{
    if (terminal->shown.cells && terminal->shown.columns == surface->columns && terminal->shown.rows == surface->rows)
        return true;
    surface_release(&terminal->shown);
    surface_init(&terminal->shown, surface->columns, surface->rows, surface->theme, surface->ascii);
    return false;
}

/* The next frame enters the screen; ncurses then switches on keypad and mouse, too. */
static void enter_again(struct own *terminal)
{
    if (!comes_to_foreground()) return;
    reset_prog_mode();
    restore_screen_entered();
    terminal->forget = true;
}

void terminal_suspend(struct terminal *terminal)
{
    endwin();
    restore_screen_left();
    restore_stop_here();
    restore_taken(RESTORE_CONTINUED);
    enter_again(own_of(terminal));
}

/* After a stop that left the screen as it was: other programs may have changed it, and the modes. */
static void come_back(struct own *terminal)
{
    if (!comes_to_foreground()) return;
    endwin();
    enter_again(terminal);
}

/* A screen of plain blanks, as ncurses knows how to make it: also after a pause in the background. */
static void clear_screen(struct own *terminal)
{
    clearok(curscr, TRUE);
    refresh();
    terminal->forget = false;
}

void terminal_show(struct terminal *told, const struct surface *surface)
{
    struct own *terminal = own_of(told);
    bool all = !has_copy(terminal, surface) || terminal->forget;
    if (all) clear_screen(terminal);
    terminal->forget =
        !painter_paint(&terminal->painter, all ? NULL : &terminal->shown, surface) || !terminal->shown.cells;
    if (!terminal->forget)
        memcpy(terminal->shown.cells, surface->cells,
               (size_t)surface->columns * (size_t)surface->rows * sizeof *surface->cells);
    send_bytes(terminal);
    told->frames++;
    told->bytes += (int64_t)terminal->painter.out.count;
}

static uint32_t special_key(wint_t code)
{
    static const struct {
        int from;
        uint32_t to;
    } table[] = {
        {KEY_UP, INPUT_UP},         {KEY_DOWN, INPUT_DOWN},
        {KEY_LEFT, INPUT_LEFT},     {KEY_RIGHT, INPUT_RIGHT},
        {KEY_HOME, INPUT_HOME},     {KEY_END, INPUT_END},
        {KEY_PPAGE, INPUT_PAGE_UP}, {KEY_NPAGE, INPUT_PAGE_DOWN},
        {KEY_BTAB, INPUT_BACKTAB},  {KEY_RESIZE, INPUT_RESIZE},
        {KEY_ENTER, '\r'},          {KEY_BACKSPACE, INPUT_BACKSPACE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if ((wint_t)table[i].from == code) return table[i].to;
    if (code >= KEY_F(1) && code <= KEY_F(12)) return INPUT_F0 + (uint32_t)(code - KEY_F0);
    return INPUT_NONE;
}

static uint32_t take_pointing(struct terminal *terminal)
{
    MEVENT event;
    if (getmouse(&event) != OK) return INPUT_NONE;
    enum pointing what = event.bstate & BUTTON4_PRESSED   ? POINTING_WHEEL_UP
                         : event.bstate & BUTTON5_PRESSED ? POINTING_WHEEL_DOWN
                                                          : POINTING_CLICK;
    terminal->pointing.what = what, terminal->pointing.x = event.x, terminal->pointing.y = event.y;
    return INPUT_MOUSE;
}

uint32_t terminal_key(struct terminal *terminal)
{
    wint_t code;
    if (restore_asked(RESTORE_END)) return INPUT_GONE;
    if (restore_taken(RESTORE_STOP)) return terminal_suspend(terminal), INPUT_RESIZE;
    if (restore_taken(RESTORE_CONTINUED)) return come_back(own_of(terminal)), INPUT_RESIZE;
    const bool resized = restore_taken(RESTORE_RESIZED);
    if (resized) terminal_forget(terminal);
    switch (wget_wch(own_of(terminal)->keys, &code)) {
    case KEY_CODE_YES: return code == KEY_MOUSE ? take_pointing(terminal) : special_key(code);
    case OK: return code == '\n' ? '\r' : code == 127 || code == 8 ? INPUT_BACKSPACE : (uint32_t)code;
    default: return resized ? INPUT_RESIZE : INPUT_NONE;
    }
}
