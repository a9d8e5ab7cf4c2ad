/* Opens files for writing and reads whole ones, safely in folders that other users can write.
 *
 * Another user of such a folder may plant a link under a name that can be foreseen; writing through the link would overwrite the
 * file that it points to. So under a name that the program chose, file_create() replaces whatever is there. A path that the
 * user named may be a link, a device or a pipe; file_open_named() follows a link only if it belongs to this user, to root or to /proc.
 *
 * Opening a pipe does not wait for ever: one without a reader or writer is an error after FILE_PIPE_PATIENCE_MS.
 *
 * Descriptors are closed on exec; the caller owns what is returned. Errors are -1, NULL or false with errno set, where nothing else is
 * said. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"

enum { FILE_PIPE_PATIENCE_MS = 5000 };

/* Creates a file under a name that the program chose: unlinks an existing file of that name and follows no link.
 * `flags` are added to O_WRONLY. */
int file_create(const char *path, int flags);
FILE *file_create_stream(const char *path);

/* Makes the missing folders above a path. Errors are not reported here: opening the path will fail then. */
void file_make_folders(char *path);
/* Makes the folders above a path and replaces its file by `text`, ended by a newline. Writes PATH.new and renames it,
 * so that a crash of the program leaves the old file or the new one. False: errno has the reason. */
bool file_replace(char *path, const char *text);
/* The path of `name` in the folder of the user's state: $XDG_STATE_HOME/zerolab, else ~/.local/state/zerolab. Returns
 * the length as snprintf() does; -1 if there is no home folder. */
int file_state_path(char *path, size_t room, const char *name);

/* Opens a file that the user named, with the `flags` of open(). file_open_named_stream() opens it for writing, and creates a
 * missing file. ELOOP: a link of another user; ENXIO: a pipe without a reader. */
int file_open_named(const char *path, int flags);
FILE *file_open_named_stream(const char *path, int flags);

/* Opens a file without a name in a folder, to read and write; closing the file deletes it. */
FILE *file_unnamed(const char *folder);

/* Whether a file name is longer than `ending`, ends with it, and is not hidden (no dot first). */
bool file_ends_in(const char *name, const char *ending);

/* file_get() reads `count` bytes from `offset` on and returns how many it read. Fewer than `count`: errno says why; ENODATA: the file
 * ended. file_put() writes all `count` bytes; false: errno says why. */
size_t file_get(int fd, void *out, size_t count, uint64_t offset);
bool file_put(int fd, const void *bytes, size_t count);

/* Finds the first line that matches `format` (of scanf(), with one SCNu64) and sets *value to its number. False: no line matches. */
bool file_number(const char *path, const char *format, uint64_t *value);

/* Over a connected Unix socket. file_send() sends `count` bytes and a copy of the descriptor `passed` (-1: none). file_receive()
 * receives `count` bytes and sets *passed to a descriptor that the caller owns; -1: none came. passed NULL: none is expected. False:
 * the socket failed, or closed early. */
bool file_send(int to, const void *bytes, size_t count, int passed);
bool file_receive(int from, void *bytes, size_t count, int *passed);

/* The message for an errno of file_open_named(). */
const char *file_why(int cause);

/* Reads all bytes of a file into *text, ended by a zero that *length does not count; the caller frees. `pipes` permits pipes
 * and devices, such as a shell's <(command). STATUS_INPUT: the file cannot be read, is not a file, or is longer than `most`
 * bytes; the error's text is a clause without the path. STATUS_RUN: no memory. *text is NULL only after an error. */
int file_read(char **text, size_t *length, const char *path, size_t most, bool pipes, struct error *err);
