/* The terminal; only tui/term uses ncurses. Shows surfaces, sending the differences in one write, and reads keys.
 * However the program ends, the terminal gets its screen, cursor and modes back. Until then standard error is
 * buffered; it is printed at the end. One terminal at a time, because ncurses and signal handlers have global state. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "engine/base/error.h"
#include "tui/draw/surface.h"
#include "tui/input/keys.h"

enum pointing { POINTING_CLICK, POINTING_WHEEL_UP, POINTING_WHEEL_DOWN };

/* The public fields of an open terminal. */
struct terminal {
    bool has_colour;
    enum depth depth;
    struct { enum pointing what; int x, y; } pointing; /* the event of the last INPUT_MOUSE */
    int64_t frames, bytes;                             /* frames shown, and bytes sent to the terminal for them */
};

/* False, with the reason: not a terminal, or TERM is dumb or unknown. Changes nothing. */
bool terminal_fits(struct error *err);

/* Waits until the program is in the foreground. *out is NULL with STATUS_OK when a signal asked to end before that.
 * STATUS_USAGE: no usable terminal; STATUS_RUN: no memory. */
int terminal_open(struct terminal **out, bool no_colour, bool mouse, struct error *err);
void terminal_close(struct terminal *terminal);

/* listens false: restores the signal mask from before terminal_open(), for times in which no loop reads keys; true: unblocks signals
 * again. */
void terminal_listen(bool listens);

bool terminal_is_utf8(void);
void terminal_size(int *columns, int *rows);
void terminal_show(struct terminal *terminal, const struct surface *surface);
void terminal_forget(struct terminal *terminal); /* the next terminal_show() sends every cell */

void terminal_suspend(struct terminal *terminal); /* stops the program as Ctrl-Z does; returns after fg */

/* ppoll() that also returns for a signal that terminal_key() reports, even one that came just before. wait NULL: no
 * limit. */
int terminal_poll(struct pollfd *fds, nfds_t count, const struct timespec *wait);

/* The next key; INPUT_NONE: no key is waiting; INPUT_RESIZE: the size changed or the program continued after a stop;
 * INPUT_GONE: a signal asked to end (SIGINT, SIGTERM, SIGHUP). SIGTSTP stops the program within this call. */
uint32_t terminal_key(struct terminal *terminal);
