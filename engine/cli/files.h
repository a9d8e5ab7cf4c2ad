/* Refuses commands that would write a file which they also read or write otherwise, because that file would be lost.
 * Files are compared by device and inode, so links and other spellings of a path are recognized. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"

enum file_use_kind { FILE_NONE, FILE_READ, FILE_READ_ALL, FILE_WRITTEN }; /* READ_ALL: every file in a folder */

/* path NULL, "" or "-": no file. A path that is not a plain file (a folder, a pipe, /dev/null) may be used any number
 * of times. */
struct file_use { enum file_use_kind kind; const char *name, *path; };

/* STATUS_USAGE: two uses name one file, and at least one of them writes it; the text names both. */
int files_check(const struct file_use *uses, int count, struct error *err);
