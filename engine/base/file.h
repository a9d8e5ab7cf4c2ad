/* Opens files for writing and reads whole ones, safely in folders that other users can write.
 *
 * Another user of such a folder may plant a link under a name that can be foreseen; writing through it would overwrite the
 * file that it points to. So a file that the program names is always made anew, in place of what has the name. A file that
 * the user names may be a link, a device or a pipe; a link is followed only if it belongs to this user or to root.
 *
 * No pipe makes the caller wait for ever: a pipe without a reader or writer is an error after FILE_PIPE_PATIENCE_MS.
 *
 * Descriptors are closed on exec; the caller owns what is returned. Errors are -1 or NULL, with errno set. */
#ifndef ENGINE_BASE_FILE_H
#define ENGINE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/base/error.h"

enum { FILE_PIPE_PATIENCE_MS = 5000 };

/* A new file under a name that the program chose: unlinks what has the name, follows no link. `flags` are added to
 * O_WRONLY. */
int file_create(const char *path, int flags);
FILE *file_create_stream(const char *path);

/* The folders that a path goes through, where they are not there. What cannot be made, opening the path will say. */
void file_make_folders(char *path);
/* A file of this text, and a newline where it lacks one, in place of what has the name; and the folders above it. It is
 * written beside that and moved, so that a crash leaves the old one or the new one. False: errno says why not. */
bool file_replace(char *path, const char *text);
/* NAME where the program keeps what a user has done: $XDG_STATE_HOME/zerolab, else ~/.local/state/zerolab. Returns as snprintf(); -1:
 * there is no home folder. */
int file_state_path(char *path, size_t room, const char *name);

/* A file that the user named. `flags` as for open(). ELOOP: it is a link of another
 * user; ENXIO: it is a pipe that nobody reads. */
int file_open_named(const char *path, int flags);
FILE *file_open_named_stream(const char *path, int flags);

/* A file without a name in that folder, to read and write; it is gone when it is closed. */
FILE *file_unnamed(const char *folder);

/* Whether a name in a folder ends so, and is not one that is hidden. */
bool file_ends_in(const char *name, const char *ending);

/* What errno says of file_open_named(). */
const char *file_why(int cause);

/* All bytes of a file, ended by a zero that is not counted; the caller frees. `pipes`: a pipe or a device will do, too (for
 * what a shell makes of <(command)). STATUS_INPUT: it cannot be read, is no file, or is longer than `most` bytes; the text
 * is a clause without the path. STATUS_RUN: no memory. Of nothing but errors *text is NULL. */
int file_read(char **text, size_t *length, const char *path, size_t most, bool pipes, struct error *err);

#endif
