/* What the terminal's description says. */
#include "tui/term/terminfo.h"

#include <string.h>
#include <unistd.h>

#include <curses.h>
#include <term.h>

bool terminfo_leave(char *out, size_t room)
{
    static const char *const names[] = {"sgr0", "rmkx", "cnorm", "rmcup"};
    int unknown;
    if (setupterm(NULL, STDOUT_FILENO, &unknown) != OK) return false;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = tigetstr((char *)names[i]);
        if (text && text != (char *)-1 && strlen(out) + strlen(text) < room) strcat(out, text);
    }
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
