/* Reads or writes large pieces of a file in background threads, one thread for each buffer. Pieces bypass the page cache (O_DIRECT)
 * where the file system can, so that a checkpoint does not evict the data of other programs. A small piece is moved at once, by the
 * caller. The kernel's asynchronous I/O is not used, because it takes 30 ms to destroy a context: a tenth of the time to load half
 * a gigabyte.
 *
 *     async_file_open(&file, ...)       one file after the other; all zero but fd -1 before the first
 *     async_file_start(&file, 0, ...)   piece 0 is on its way
 *     ... fill or use the other buffer ...
 *     async_file_wait(&file, 0, &err)   piece 0 is done
 *     async_file_release(&file)
 *
 * Addresses, lengths and offsets are multiples of ASYNC_FILE_ALIGN_BYTES. */
#ifndef ENGINE_CHECKPOINT_ASYNC_FILE_H
#define ENGINE_CHECKPOINT_ASYNC_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"

enum { ASYNC_FILE_ALIGN_BYTES = 4096, ASYNC_FILE_SLOTS = 2 };

struct async_file;

struct async_file_slot {
    struct async_file *file;
    unsigned char *at;
    size_t bytes;
    off_t offset;
    ssize_t result; /* bytes, or a negative errno */
    bool pending;   /* started, and not waited for */
    bool has_thread;
    pthread_t thread;
    _Atomic uint32_t order; /* what the thread is to do (async_file.c) */
};

struct async_file {
    int fd; /* -1: closed */
    bool writes;
    struct async_file_slot slot[ASYNC_FILE_SLOTS];
};

/* Opens for reading, or makes a new file for writing (one of that name must not exist). Errors name only the cause. */
int async_file_open(struct async_file *file, const char *path, bool writes, struct error *err);
void async_file_close(struct async_file *file); /* waits for what is under way */

/* Closes, and ends the threads. */
void async_file_release(struct async_file *file);

void async_file_start(struct async_file *file, int slot, void *at, size_t bytes, off_t offset);

/* STATUS_RUN: the system says why; for a read also that the file ended. Nothing pending: done. */
int async_file_wait(struct async_file *file, int slot, struct error *err);

#endif
