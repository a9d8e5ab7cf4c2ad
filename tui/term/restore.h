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

/* END stays. CONTINUED: after a stop, when the screen may show something else. RESIZED: the size changed, if only for a moment: cells may be
 * lost. */
enum restore_flag { RESTORE_END, RESTORE_STOP, RESTORE_CONTINUED, RESTORE_RESIZED, RESTORE_FLAGS };

void restore_arm(void);              /* listens, too */
void restore_disarm(void);           /* no longer listens, either */
void restore_signals(sigset_t *set); /* those that set a flag */
void restore_listen(bool listens);   /* unblocks those signals, which the program may block elsewhere to read them; or restores the mask from before */
void restore_watch_size(void);       /* call after ncurses has started; ends with restore_disarm() */

bool restore_pending(void); /* a flag is set */
bool restore_asked(enum restore_flag flag);
bool restore_taken(enum restore_flag flag); /* and clears it */

/* Call before ncurses changes the modes: stores the modes, and the bytes that leave the screen. */
void restore_remember(const char *leave_screen);
void restore_screen_entered(void); /* call after ncurses has changed the modes */
void restore_screen_left(void);    /* call after ncurses has set them back: from then on there is nothing to restore */

bool restore_in_background(void); /* another process group has the terminal */
bool restore_is_entered(void);

/* Leaves the screen and sets the modes back, without waiting: output that the terminal has not taken is dropped. In the
 * background it sets back only modes that this program had set; other modes belong to the shell. Async-signal-safe. */
void restore_at_once(void);
void restore_stop_here(void); /* stops this process as SIGTSTP does by default; returns after SIGCONT */

void stderr_keep(void); /* later writes to standard error are kept in memory */
void stderr_show(void); /* writes what was kept to standard error; async-signal-safe */
