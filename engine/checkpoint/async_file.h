/* Reads or writes large pieces of a file in background threads, one thread for each buffer. Pieces bypass the page
 * cache (O_DIRECT) if the file system supports it, so that a checkpoint does not evict the data of other programs. The
 * caller's thread moves small pieces itself. The kernel's asynchronous I/O is not used, because it takes 30 ms to
 * destroy a context: a tenth of the time to load half a gigabyte.
 *
 *     async_file_open(&file, ...)       one file after another; before the first, zero the struct and set fd to -1
 *     async_file_start(&file, 0, ...)   starts to move piece 0
 *     ... fill or use the other buffer ...
 *     async_file_wait(&file, 0, &err)   waits for piece 0
 *     async_file_release(&file)
 *
 * Addresses, lengths and offsets are multiples of 4096. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/base/error.h"

enum { ASYNC_FILE_SLOTS = 2 };

struct async_file;

struct async_file_slot {
    struct async_file *file;
    unsigned char *at;
    size_t bytes;
    off_t offset;
    ssize_t result; /* bytes, or a negative errno */
    bool pending;   /* started, but not yet waited for */
    bool has_thread;
    pthread_t thread;
    _Atomic uint32_t order; /* the thread's next task (async_file.c) */
};

struct async_file {
    int fd; /* -1: closed */
    bool writes;
    struct async_file_slot slot[ASYNC_FILE_SLOTS];
};

/* Opens a file for reading, or creates one for writing and replaces an existing one. STATUS_RUN:
 * the text names the cause, not the path. */
int async_file_open(struct async_file *file, const char *path, bool writes, struct error *err);
void async_file_close(struct async_file *file); /* waits for pieces in flight */

/* Closes the file and ends the threads. */
void async_file_release(struct async_file *file);

void async_file_start(struct async_file *file, int slot, void *at, size_t bytes, off_t offset);

/* Waits for the slot's piece; returns at once if none is pending. STATUS_RUN: a system error, or the file ended during a read. */
int async_file_wait(struct async_file *file, int slot, struct error *err);
