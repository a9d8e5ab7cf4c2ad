/* The terminal: the only place that knows ncurses. It shows surfaces, sending in one piece what changed, and reads keys.
 * However the program ends, the terminal gets its screen, cursor and modes back; standard error is buffered meanwhile and printed
 * then. One terminal at a time (ncurses and signals know no more). */
#ifndef TUI_TERM_TERM_H
#define TUI_TERM_TERM_H

#include <poll.h>
#include <time.h>

#include "engine/base/error.h"
#include "tui/draw/surface.h"
#include "tui/input/keys.h"

struct terminal;

/* False, with the reason: not a terminal, or TERM is dumb or unknown. Changes nothing. */
bool terminal_fits(struct error *err);

/* Waits for the foreground first. *out is NULL with STATUS_OK when a signal asked to end before that. STATUS_USAGE: no usable
 * terminal; STATUS_RUN: no memory. */
int terminal_open(struct terminal **out, bool no_colour, bool mouse, struct error *err);
void terminal_close(struct terminal *terminal);

/* False: signals are blocked again, as before terminal_open(), for a time in which no loop reads keys. */
void terminal_listen(struct terminal *terminal, bool listens);

bool terminal_has_colour(const struct terminal *terminal);
bool terminal_is_utf8(void);
void terminal_size(const struct terminal *terminal, int *columns, int *rows);
void terminal_show(struct terminal *terminal, const struct surface *surface);
void terminal_forget(struct terminal *terminal); /* the next terminal_show() sends every cell */

void terminal_suspend(struct terminal *terminal); /* as Ctrl-Z does elsewhere; returns after fg */

/* Frames shown, and bytes that went to the terminal for them. */
struct terminal_cost { int64_t frames, bytes; };
struct terminal_cost terminal_cost(const struct terminal *terminal);

int terminal_fd(const struct terminal *terminal);

/* ppoll() that also returns for a signal that terminal_key() tells of, even one that came just before. NULL: for ever. */
int terminal_poll(struct pollfd *fds, nfds_t count, const struct timespec *wait);

/* The next key, INPUT_NONE where none waits, INPUT_RESIZE after the size changed or the program came back from a stop, INPUT_GONE
 * when a signal asked to end (SIGINT, SIGTERM, SIGHUP). SIGTSTP suspends in here. */
uint32_t terminal_key(struct terminal *terminal);

/* What INPUT_MOUSE was about. */
enum pointing { POINTING_CLICK, POINTING_WHEEL_UP, POINTING_WHEEL_DOWN };
struct terminal_pointing { enum pointing what; int x, y; };
struct terminal_pointing terminal_pointing(const struct terminal *terminal);

#endif
