/* Moves bytes between memory and files, many blocks at a time (libaio).
 *
 * aio_move() is given a list of spans, cuts them into blocks, keeps up to queue_depth blocks in flight on each of `threads`
 * threads (the caller's is one of them), and returns when all have arrived. It blocks, because its callers are lanes, and a
 * lane is a thread that may block: overlap comes from two lanes that run at the same time. So the lane that reads and the
 * lane that writes have a struct aio each and share only the file.
 *
 *     spans:  |------- master -------|------ moments ------|     cut by block_bytes; the last block of a span is shorter
 *     thread 0:  [0] [1]     [4] ...                             each thread takes the next free block,
 *     thread 1:          [2] [3] ...                             so a slow block does not hold up the other threads
 *
 * Files are read and written directly (O_DIRECT) where that is possible, so addresses, offsets and lengths are multiples
 * of AIO_ALIGN_BYTES: the code that lays out a file pads to it. Not thread safe, except aio_flow(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

enum { AIO_ALIGN_BYTES = 4096 };
enum aio_direction { AIO_READ, AIO_WRITE, AIO_DIRECTIONS };

struct aio_options {
    int64_t block_bytes;  /* bytes of one I/O request; rounded up to AIO_ALIGN_BYTES */
    int queue_depth;      /* blocks in flight of each thread */
    int threads;          /* aio.intra_op_parallelism; 1: only the caller's thread */
    bool single_submit;   /* one io_submit() for each block, not one for all ready blocks */
    bool overlap_events;  /* submit again as soon as one block has arrived; false: submit queue_depth blocks, wait for all */
};

struct aio_span { int fd; void *memory; uint64_t offset, bytes; }; /* fd: the file, which stays the caller's */

/* Totals of the blocks moved, and the blocks in flight now. A block's latency is the time from its submission to its arrival.
 * latency_ns is the sum of all latencies, so latency_ns / busy_ns is the mean number of blocks in flight. */
struct aio_flow { uint64_t bytes, blocks, latency_ns, longest_ns, busy_ns; uint32_t in_flight, deepest; };

struct aio;

/* STATUS_RUN: no memory, no thread, or the system refuses; the text says which limit to raise or which key to lower. */
int aio_open(struct aio **out, const struct aio_options *options, struct error *err);
void aio_close(struct aio *aio);

/* Moves all spans; bytes beyond the end of the file read as zero. STATUS_RUN: a block could not be moved. No block is in flight
 * then, and memory or file holds a part of the new bytes. *failure (may be NULL) gets errno and file; errno 0: all went well. */
struct aio_failure { int error_number, fd; };
int aio_move(struct aio *aio, enum aio_direction direction, const struct aio_span *spans, int count, struct aio_failure *failure, struct error *err);

/* Totals since aio_open() or aio_restart_flow(). From any thread. */
struct aio_flow aio_flow(struct aio *aio);
/* The last aio_move() alone. Only from the thread that called it. */
struct aio_flow aio_last_flow(const struct aio *aio);
void aio_restart_flow(struct aio *aio); /* counts from 0 again; no aio_move() may be running */

/* For tests: the block-th block to arrive from now on (1: the next; 0: off), and `more` blocks after it, fail with
 * error_number. error_number 0: they move only a part of their bytes. */
struct aio_fault { uint64_t block; int error_number; uint64_t more; };
void aio_inject(struct aio *aio, struct aio_fault fault);
