/* What a command reads is not what it writes: a file that were both would be lost, whatever came of the command. Files are told
 * apart by device and inode, so links and other spellings of a path do not hide it. */
#ifndef ENGINE_CLI_FILES_H
#define ENGINE_CLI_FILES_H

#include <stdbool.h>

#include "engine/base/error.h"

enum file_use_kind { FILE_NONE, FILE_READ, FILE_READ_ALL, FILE_WRITTEN }; /* READ_ALL: of a folder, every file */

/* path NULL, "" or "-": none. What is no plain file (a folder, a pipe, /dev/null) may be used as often as one likes. */
struct file_use { enum file_use_kind kind; const char *name, *path; };

/* STATUS_USAGE: two uses are of one file, at least one of which writes it; the text names both. */
int files_check(const struct file_use *uses, int count, struct error *err);

#endif
