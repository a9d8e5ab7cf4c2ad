/* Ends a command between two pieces of its work, so that it can remove what it has written in part. SIGINT, SIGTERM and
 * SIGHUP only set a flag, which is the process's; a second one ends it at once. */
#ifndef ENGINE_CLI_INTERRUPT_H
#define ENGINE_CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_watch(void);
bool interrupt_asked(void);

/* After the command has cleaned up: ends the process by the signal that asked for it. Returns if none did. */
void interrupt_end(void);

#endif
