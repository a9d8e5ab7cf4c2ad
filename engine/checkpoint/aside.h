/* Large pieces of a file, read or written beside what the caller does meanwhile. Past the page cache (O_DIRECT) where the
 * file system has that, so that a checkpoint does not push out what others need; by libaio where the kernel has that.
 * Elsewhere, and for small pieces, the same calls do the same work at once.
 *
 *     aside_open(&file, ...)       one file after the other; all zero but fd -1 before the first
 *     aside_start(&file, 0, ...)   piece 0 is on its way
 *     ... fill or use the other buffer ...
 *     aside_wait(&file, 0, &err)   piece 0 is done
 *     aside_release(&file)
 *
 * Addresses, lengths and offsets are multiples of ASIDE_ALIGN_BYTES. */
#ifndef ENGINE_CHECKPOINT_ASIDE_H
#define ENGINE_CHECKPOINT_ASIDE_H

#include <libaio.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"

enum { ASIDE_ALIGN_BYTES = 4096, ASIDE_SLOTS = 2 };

struct aside {
    int fd; /* -1: closed */
    bool writes, by_kernel; /* by_kernel: libaio has a context */
    io_context_t context;
    struct {
        bool pending;
        unsigned char *at;
        size_t bytes;
        off_t offset;
        ssize_t result; /* bytes, or a negative errno */
        struct iocb request;
    } slot[ASIDE_SLOTS];
};

/* Opens for reading, or makes a new file for writing (one of that name must not exist). Errors name only the cause. */
int aside_open(struct aside *file, const char *path, bool writes, struct error *err);
void aside_close(struct aside *file); /* waits for what is under way */

/* Closes, and gives back what the kernel keeps. */
void aside_release(struct aside *file);

void aside_start(struct aside *file, int slot, void *at, size_t bytes, off_t offset);
bool aside_is_pending(const struct aside *file, int slot);

/* STATUS_RUN: the system says why; for a read also that the file ended. Nothing pending: done. */
int aside_wait(struct aside *file, int slot, struct error *err);

#endif
