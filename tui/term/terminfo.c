/* What the terminal's description says. */
#include "tui/term/term.h"

#include <string.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

static const char *capability(const char *name)
{
    const char *text = tigetstr((char *)name);
    return text && text != (char *)-1 ? text : "";
}

static void append(char *out, size_t room, const char *text)
{
    if (text && strlen(out) + strlen(text) < room) strcat(out, text);
}

/* Ends the mouse mode that ncurses begins: XM, or where the terminal has none, xterm's first. */
static void append_mouse_off(char *out, size_t room)
{
    const char *mode = capability("XM");
    if (*mode) append(out, room, tiparm(mode, 0));
    else if (*capability("kmous")) append(out, room, "\033[?1000l");
}

bool terminfo_leave(char *out, size_t room, bool mouse)
{
    static const char *const names[] = {"sgr0", "rmkx", "cnorm", "rmcup"};
    int unknown;
    if (setupterm(NULL, STDOUT_FILENO, &unknown) != OK) return false;
    out[0] = '\0';
    if (mouse) append_mouse_off(out, room);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) append(out, room, capability(names[i]));
    del_curterm(cur_term); /* newterm() reads its own */
    return true;
}

int terminfo_colours(void)
{
    int unknown;
    if (setupterm(NULL, STDOUT_FILENO, &unknown) != OK) return -1;
    int colours = tigetnum((char *)"colors");
    del_curterm(cur_term);
    return colours < 0 ? 0 : colours;
}
