/* Reads the terminal's description. Separate from term.c because <term.h> defines macros named `columns`, `lines` and
 * hundreds more. */
#ifndef TUI_TERM_TERMINFO_H
#define TUI_TERM_TERMINFO_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes that restore the terminal's screen from before; mouse: they also turn the mouse off. False: TERM is not
 * known here. */
bool terminfo_leave(char *out, size_t room, bool mouse);

/* How many colours TERM has; -1: TERM is not known here. */
int terminfo_colours(void);

#endif
