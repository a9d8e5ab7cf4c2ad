/* Unix stream sockets: the writer listens, a viewer connects. */
#ifndef ENGINE_TRACE_LISTEN_H
#define ENGINE_TRACE_LISTEN_H

#include "engine/base/error.h"

/* Listens at path, which only this user may open (mode 0600 from its first moment). What a killed run left there is
 * replaced; a path at which a run still listens is refused. */
int listen_at(int *fd, const char *path, struct error *err);

/* Closes it and removes its path. fd may be -1: nothing to do. */
void unlisten(int fd);

int connect_to(int *fd, const char *path, struct error *err);

#endif
