/* Unix stream sockets: the writer listens, a viewer connects. One that only watches gives its own end a name before it
 * connects, which the writer sees as it accepts: at no moment can it be taken for one that may drive. */
#ifndef ENGINE_TRACE_LISTEN_H
#define ENGINE_TRACE_LISTEN_H

#include <stdbool.h>

#include "engine/base/error.h"

/* Listens at path, which only this user may open (mode 0600 from its first moment). What a killed run left there is
 * replaced; a path at which a run still listens is refused. */
int listen_at(int *fd, const char *path, struct error *err);

/* Closes it and removes its path. fd may be -1: nothing to do. */
void unlisten(int fd);

/* The next that has connected; -1: none, or no descriptor for it (errno). */
int accept_from(int fd, bool *only_watches);

/* STATUS_INPUT: nobody listens, or the run has taken no viewer for two seconds and has no room for another that waits. */
int connect_to(int *fd, const char *path, bool only_watches, struct error *err);

#endif
