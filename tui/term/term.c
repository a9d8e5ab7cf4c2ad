/* The terminal by ncurses. */
#define NCURSES_WIDECHAR 1
#include "tui/term/term.h"

#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curses.h>

#include "tui/term/restore.h"
#include "tui/term/terminfo.h"

struct terminal {
    SCREEN *screen;
    bool has_colour, forget;
    int io_fd; /* /proc/self/io; -1: none */
    struct terminal_cost cost;
    struct terminal_pointing pointing;
    struct surface shown;
    short pair[17][17]; /* number of the pair for foreground and background, 0 last for the default; 0: none yet */
    short pairs;
};

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
    if (!terminfo_leave(leave, sizeof leave)) {
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

static void set_up(struct terminal *terminal, bool no_colour, bool mouse)
{
    enum { BUTTONS = BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED };
    set_escdelay(25);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    if (mouse && mousemask(BUTTONS, NULL)) mouseinterval(0);
    if (no_colour || !has_colors()) return;
    start_color();
    use_default_colors();
    terminal->has_colour = true;
}

int terminal_open(struct terminal **out, bool no_colour, bool mouse, struct error *err)
{
    char leave[256] = "";
    if (!terminal_fits(err)) return STATUS_USAGE;
    struct terminal *terminal = calloc(1, sizeof *terminal);
    if (!terminal) return error_set(err, STATUS_RUN, "no memory for a screen");
    setlocale(LC_CTYPE, "");
    terminfo_leave(leave, sizeof leave);
    restore_arm(leave); /* before the modes change */
    stderr_keep();
    terminal->screen = newterm(NULL, stdout, stdin);
    if (!terminal->screen) {
        restore_disarm();
        stderr_show();
        free(terminal);
        return error_set(err, STATUS_USAGE, "TERM=%s cannot show a screen; use --headless", getenv("TERM"));
    }
    set_up(terminal, no_colour, mouse);
    terminal->io_fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    if (terminal->io_fd < 0) terminal->cost.bytes = -1;
    terminal->forget = true;
    *out = terminal;
    return STATUS_OK;
}

void terminal_close(struct terminal *terminal)
{
    if (!terminal) return;
    move(LINES - 1, 0); /* a terminal without a second screen goes on writing here */
    clrtoeol();
    refresh();
    endwin();
    restore_disarm();
    stderr_show();
    delscreen(terminal->screen);
    surface_release(&terminal->shown);
    if (terminal->io_fd >= 0) close(terminal->io_fd);
    free(terminal);
}

bool terminal_has_colour(const struct terminal *terminal)
{
    return terminal->has_colour;
}

void terminal_size(const struct terminal *terminal, int *columns, int *rows)
{
    (void)terminal;
    getmaxyx(stdscr, *rows, *columns);
}

void terminal_forget(struct terminal *terminal)
{
    terminal->forget = true;
}

int terminal_fd(const struct terminal *terminal)
{
    (void)terminal;
    return STDIN_FILENO;
}

static short terminal_colour(uint8_t colour)
{
    return colour == COLOUR_DEFAULT ? -1 : colour >= 8 && COLORS < 16 ? (short)(colour - 8) : colour;
}

static short pair_of(struct terminal *terminal, struct look look)
{
    short front = terminal_colour(look.foreground), back = terminal_colour(look.background);
    if (!terminal->has_colour || (front < 0 && back < 0)) return 0;
    if (front == back) front = front == 0 ? 7 : 0; /* eight colours: bright ones fell onto their dark ones */
    short *pair = &terminal->pair[front < 0 ? 16 : front][back < 0 ? 16 : back];
    if (!*pair && terminal->pairs + 1 < COLOR_PAIRS && init_pair((short)(terminal->pairs + 1), front, back) == OK)
        *pair = ++terminal->pairs;
    return *pair;
}

static attr_t attributes_of(struct look look)
{
    attr_t attributes = A_NORMAL;
    if (look.attributes & ATTRIBUTE_BOLD) attributes |= A_BOLD;
    if (look.attributes & ATTRIBUTE_UNDERLINE) attributes |= A_UNDERLINE;
    if (look.attributes & ATTRIBUTE_REVERSE) attributes |= A_REVERSE;
    if (look.foreground != COLOUR_DEFAULT && look.foreground >= 8 && COLORS < 16) attributes |= A_BOLD;
    return attributes;
}

static void put_cell(struct terminal *terminal, int x, int y, const struct cell *cell)
{
    cchar_t out;
    wchar_t text[2] = {(wchar_t)cell->character, L'\0'};
    setcchar(&out, text, attributes_of(cell->look), pair_of(terminal, cell->look), NULL);
    mvadd_wch(y, x, &out);
}

static bool same_cell(const struct cell *a, const struct cell *b)
{
    return a->character == b->character && a->look.foreground == b->look.foreground &&
           a->look.background == b->look.background && a->look.attributes == b->look.attributes;
}

/* A copy of what is on the screen, of the surface's size; false if it had to be made anew. */
static bool has_copy(struct terminal *terminal, const struct surface *surface)
{
    if (terminal->shown.cells && terminal->shown.columns == surface->columns && terminal->shown.rows == surface->rows)
        return true;
    surface_release(&terminal->shown);
    surface_init(&terminal->shown, surface->columns, surface->rows, surface->theme, surface->ascii);
    return false;
}

void terminal_suspend(struct terminal *terminal)
{
    def_prog_mode();
    endwin();
    raise(SIGTSTP);
    reset_prog_mode();
    terminal->forget = true;
}

struct terminal_cost terminal_cost(const struct terminal *terminal)
{
    return terminal->cost;
}

/* All that this process has written anywhere; ncurses does not tell what it sends. */
static int64_t written_bytes(const struct terminal *terminal)
{
    char text[256];
    ssize_t count = terminal->io_fd >= 0 ? pread(terminal->io_fd, text, sizeof text - 1, 0) : -1;
    text[count > 0 ? count : 0] = '\0';
    const char *at = strstr(text, "wchar: ");
    return at ? atoll(at + 7) : 0;
}

/* Sends what differs. */
static void update(struct terminal *terminal)
{
    int64_t before = written_bytes(terminal);
    refresh();
    terminal->cost.frames++;
    if (terminal->cost.bytes >= 0) terminal->cost.bytes += written_bytes(terminal) - before;
}

void terminal_show(struct terminal *terminal, const struct surface *surface)
{
    bool all = !has_copy(terminal, surface) || terminal->forget || !terminal->shown.cells;
    if (terminal->forget) clearok(stdscr, TRUE);
    for (int y = 0; y < surface->rows; y++)
        for (int x = 0; x < surface->columns; x++) {
            const struct cell *cell = surface_at(surface, x, y);
            if (all || !same_cell(cell, surface_at(&terminal->shown, x, y))) put_cell(terminal, x, y, cell);
        }
    if (terminal->shown.cells)
        memcpy(terminal->shown.cells, surface->cells,
               (size_t)surface->columns * (size_t)surface->rows * sizeof *surface->cells);
    terminal->forget = false;
    update(terminal);
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
    terminal->pointing = (struct terminal_pointing){what, event.x, event.y};
    return INPUT_MOUSE;
}

struct terminal_pointing terminal_pointing(const struct terminal *terminal)
{
    return terminal->pointing;
}

uint32_t terminal_key(struct terminal *terminal)
{
    wint_t code;
    if (restore_end_asked()) return INPUT_GONE;
    switch (get_wch(&code)) {
    case KEY_CODE_YES: return code == KEY_MOUSE ? take_pointing(terminal) : special_key(code);
    case OK: return code == '\n' ? '\r' : code == 127 || code == 8 ? INPUT_BACKSPACE : (uint32_t)code;
    default: return INPUT_NONE;
    }
}
