/* Unix stream sockets: the writer listens, a viewer connects. A viewer that only watches binds a name to its own end
 * before it connects. The writer sees the name when it accepts, so it never takes such a viewer for a driver. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"

/* Listens at path, which only this user may open (mode 0600 from its creation on). Replaces a socket that a killed run
 * left there. STATUS_USAGE: a run still listens at the path, or the path cannot be used. STATUS_RUN: no socket. */
int listen_at(int *fd, const char *path, struct error *err);

/* Closes a listening socket and removes its path. fd -1: does nothing. */
void unlisten(int fd);

/* Accepts the next viewer and returns its descriptor; -1: none waits, or no descriptor is free (errno). */
int accept_from(int fd, bool *only_watches);

/* STATUS_INPUT: no run listens, or its queue of connections is full and it has accepted none for two seconds. STATUS_RUN: no
 * socket. */
int connect_to(int *fd, const char *path, bool only_watches, struct error *err);
