/* Apart from term.c because <term.h> defines macros named `columns`, `lines` and hundreds more. */
#ifndef TUI_TERM_TERMINFO_H
#define TUI_TERM_TERMINFO_H

#include <stdbool.h>
#include <stddef.h>

/* The bytes that leave the screen as it was before it was used; `mouse`: with the mouse on. False: this terminal is not known. */
bool terminfo_leave(char *out, size_t room, bool mouse);

/* How many colours TERM has; -1: TERM is not known here. */
int terminfo_colours(void);

#endif
