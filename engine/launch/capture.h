/* Captures what the engine's processes print (mpirun's banners, a sanitizer's report): a thread reads their pipe into
 * a bounded buffer, which keeps the first and the last part, and into a file if one is wanted. The pipe ends when the
 * last process that could write to it has ended, so waiting for the end of the pipe waits for all of them. */
#pragma once

#include <stdbool.h>

#include "engine/base/error.h"

struct capture;

/* The log file, to which all output is appended. cause: the errno of the first write that failed, complete after
 * capture_finish(); 0: none. */
struct capture_log { const char *path; int cause; };

/* Owns read_fd from now on, also if it fails. log: borrowed until capture_finish(); path NULL: no file.
 * STATUS_USAGE: the file cannot be opened; STATUS_RUN. */
int capture_start(struct capture **out, int read_fd, struct capture_log *log, struct error *err);

/* True if the pipe has ended within timeout_ms. */
bool capture_wait(struct capture *capture, int timeout_ms);

/* Stops, even if the pipe has not ended, and frees the capture. Returns the text (the caller frees it; NULL: no
 * memory). */
char *capture_finish(struct capture *capture);
