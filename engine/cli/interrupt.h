/* Lets a command stop between two pieces of its work, so that it can remove partly written files. SIGINT, SIGTERM and
 * SIGHUP only set a flag of the process; a second signal ends the process at once. */
#ifndef ENGINE_CLI_INTERRUPT_H
#define ENGINE_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_watch(void);
bool interrupt_asked(void);

/* Called after the cleanup: ends the process with the signal that was received. Returns if there was none. */
void interrupt_end(void);

#endif
