/* Takes all that the engine's processes print (mpirun's banners, a sanitizer's report) off the screen: a thread reads
 * their pipe into a bounded buffer, first part and last part kept, and into a file if one is wanted. The pipe ends when
 * the last process that could write to it has ended, so waiting for its end is waiting for all of them. */
#ifndef ENGINE_LAUNCH_CAPTURE_H
#define ENGINE_LAUNCH_CAPTURE_H

#include <stdbool.h>

#include "engine/base/error.h"

struct capture;

/* A file that everything is added to. cause: the errno of the first write that failed, known after capture_finish(); 0: none. */
struct capture_log { const char *path; int cause; };

/* Takes read_fd. log: outlives the capture; path NULL: no file (STATUS_USAGE if it cannot be made). */
int capture_start(struct capture **out, int read_fd, struct capture_log *log, struct error *err);

/* True if the pipe has ended within timeout_ms. */
bool capture_wait(struct capture *capture, int timeout_ms);

/* Stops, also if the pipe has not ended, and returns what was printed (NUL-terminated; caller frees; NULL: no memory). */
char *capture_finish(struct capture *capture);

#endif
