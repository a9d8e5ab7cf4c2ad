/* The way back: terminal modes and screen after any end, and standard error set aside while the screen is in use. */
#ifndef TUI_TERM_RESTORE_H
#define TUI_TERM_RESTORE_H

#include <stdbool.h>

/* Remembers how the terminal is, and the bytes that leave the screen; installs handlers: SIGINT, SIGTERM and SIGHUP ask to
 * end, crashes restore the terminal before they take their course. */
void restore_arm(const char *leave_screen);
void restore_disarm(void);
bool restore_end_asked(void);
void restore_at_once(void); /* without waiting for a terminal that takes nothing: what it has not taken is dropped */
void restore_watch_size(void);  /* once ncurses is there; until restore_disarm() */
bool restore_resized(void);     /* since the last call: the terminal was another size, if only for a moment, and may have lost cells */
bool restore_continued(void); /* since the last call: after SIGSTOP or SIGTSTP, when the screen may be another's */

void stderr_keep(void); /* later writes to standard error are kept in memory */
void stderr_show(void); /* ... and now they are shown */

#endif
