/* Moves bytes between memory and files, many blocks at a time (libaio).
 *
 * aio_move() is given a list of spans, cuts them into blocks, keeps up to queue_depth blocks in flight on each of `threads`
 * threads (the caller's is one of them), and returns when all have arrived. It waits, because its callers are lanes: a lane
 * is a thread that may wait, and overlap is what two lanes do at the same time. So a lane that reads and one that writes
 * have a struct aio each, and share nothing but the file.
 *
 *     spans:  |------- master -------|------ moments ------|     cut by block_bytes; the last block of a span is shorter
 *     thread 0:  [0] [1]     [4] ...                             each takes the next block that nobody has,
 *     thread 1:          [2] [3] ...                             so that a slow one does not keep the others waiting
 *
 * Files are read and written directly (O_DIRECT) where that is possible, so addresses, offsets and lengths are multiples
 * of AIO_ALIGN_BYTES: whoever lays out a file pads to that. Not thread safe, but for aio_flow(). */
#ifndef ENGINE_MEMORY_AIO_H
#define ENGINE_MEMORY_AIO_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

enum { AIO_ALIGN_BYTES = 4096, AIO_THREADS_MAX = 64 };
enum aio_direction { AIO_READ, AIO_WRITE, AIO_DIRECTIONS };

struct aio_options {
    int64_t block_bytes;  /* of one request to the system; rounded up to AIO_ALIGN_BYTES */
    int queue_depth;      /* blocks in flight of each thread */
    int threads;          /* aio.intra_op_parallelism: 1 is the caller's alone */
    bool single_submit;   /* one system call a block instead of one for all that are ready */
    bool overlap_events;  /* go on as soon as one block has arrived; false: submit queue_depth, wait for all */
};

struct aio_span { int fd; void *memory; uint64_t offset, bytes; }; /* fd: the file, which stays the caller's */

/* What was moved, and what is on its way now. A latency is from submitting a block to its arrival, so latency_ns, the sum of
 * them, is also the sum over time of how many blocks were in flight: latency_ns / busy_ns is their mean. */
struct aio_flow { uint64_t bytes, blocks, latency_ns, longest_ns, busy_ns; uint32_t in_flight, deepest; };

struct aio;

/* STATUS_RUN when the system refuses, saying which limit to raise. */
int aio_open(struct aio **out, const struct aio_options *options, struct error *err);
void aio_close(struct aio *aio);

/* Moves all spans. What is read beyond the end of the file is zero. STATUS_RUN when a block could not be moved: what was in
 * flight has come to rest, memory or file hold a part of the new bytes; *failure, which may be NULL, says errno and file. */
struct aio_failure { int error_number, fd; };
int aio_move(struct aio *aio, enum aio_direction direction, const struct aio_span *spans, int count, struct aio_failure *failure, struct error *err);

/* Since the start; from any thread. */
struct aio_flow aio_flow(const struct aio *aio);
/* Of the last aio_move() alone; by whoever called it. */
struct aio_flow aio_last_flow(const struct aio *aio);
void aio_restart_flow(struct aio *aio); /* counts from 0 again; nothing is being moved */

/* For tests: the block that arrives n-th from now on (1: the next) has failed with that errno, or, for error_number 0, has
 * moved only a part of its bytes; and so have `more` after it. n 0: off. */
struct aio_fault { uint64_t block; int error_number; uint64_t more; };
void aio_inject(struct aio *aio, struct aio_fault fault);

#endif
