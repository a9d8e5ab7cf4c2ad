/* Restores the terminal after any end of the program, and keeps standard error apart while the screen is in use.
 *
 * Signals, while armed (one that was ignored before stays ignored):
 *   INT, TERM, HUP        set the flag END
 *   TSTP, CONT, WINCH     set the flags STOP, CONTINUED, RESIZED
 *   all others that end   restore the terminal in the handler, then take their default action, so that the shell sees the signal
 * Handlers only set flags or make calls that POSIX permits in a handler. */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* END stays set until the next restore_arm(). CONTINUED: the program went on after a stop; the screen may show something else. RESIZED: the
 * size changed, perhaps back again; cells may be lost. */
enum restore_flag { RESTORE_END, RESTORE_STOP, RESTORE_CONTINUED, RESTORE_RESIZED, RESTORE_FLAGS };

void restore_arm(void);              /* installs the handlers and unblocks their signals */
void restore_disarm(void);           /* undoes restore_arm() and restore_watch_size() */
void restore_signals(sigset_t *set); /* sets *set to the signals that set a flag */
void restore_listen(bool listens);   /* true: unblocks those signals, which may be blocked; false: restores the mask from before */
void restore_watch_size(void);       /* call after ncurses has started; ends with restore_disarm() */

bool restore_pending(void); /* a flag is set */
bool restore_asked(enum restore_flag flag);
bool restore_taken(enum restore_flag flag); /* returns the flag and clears it */

/* Call before ncurses changes the modes: stores the modes, and the bytes that leave the screen. */
void restore_remember(const char *leave_screen);
void restore_screen_entered(void); /* call after ncurses has changed the modes */
void restore_screen_left(void);    /* call after ncurses has set them back: nothing is left to restore */

bool restore_in_background(void); /* another process group has the terminal */
bool restore_is_entered(void);

/* Leaves the screen and sets the modes back, without waiting: output that the terminal has not taken is dropped. In the
 * background it sets the modes back only if they are still those of this program; else they are the shell's. Async-signal-safe. */
void restore_at_once(void);
void restore_stop_here(void); /* stops this process as SIGTSTP does by default; returns after SIGCONT */

void stderr_keep(void); /* keeps later writes to standard error in memory until stderr_show() */
void stderr_show(void); /* ends that, and writes what was kept to standard error; async-signal-safe */
