/* One rank's NVMe tier: in each folder of nvme_path that is used a file that never has a name there for longer than it takes to make it, so
 * that nothing is left behind however the process ends. Categories that have the same folder share its file. Where a buffer
 * lies is said by the plan, as in the other tiers: a category has a range of offsets, one after another in the file. A part
 * of a file has blocks on the disk from the moment its bytes are taken (memory.h calls storage_reserve), so a full disk is
 * met there, where running out of memory is expected, and not while a step writes.
 *
 *     file   |  parameters  |  optimizer                    |
 *              ^ offset in the category's range, multiple of 4096
 *
 * Reading and writing are two streams (aio.h): two threads, one for each direction, use them at the same time. */
#ifndef ENGINE_MEMORY_STORAGE_H
#define ENGINE_MEMORY_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/tier.h"
#include "engine/memory/aio.h"

struct storage;

/* The folder of a category (NULL: nothing of it will be there), and its bytes at most: its range, which costs nothing until it
 * is reserved. */
struct storage_range { const char *folder; uint64_t bytes; };

/* Remembers where all that will be; no folder is looked at. STATUS_RUN when asynchronous I/O is refused; the text says what to do. */
int storage_open(struct storage **out, const struct storage_range ranges[CATEGORIES], const struct aio_options *options, struct error *err);
void storage_close(struct storage *storage);

/* Before the first byte of a category is reserved: makes the file of its folder, if that is not there yet. STATUS_USAGE when the
 * folder is not there or may not be written to; the text says what to do. So a folder that is never used may be wrong.
 * *buffered_because, which may be NULL: of a file that was made now, why it goes through the page cache (a line for the log, the
 * storage's), or NULL: it is read and written directly. */
int storage_use(struct storage *storage, enum category category, const char **buffered_because, struct error *err);

/* Whether all of these spans go past the page cache. */
bool storage_is_direct(const struct storage *storage, const struct aio_span *spans, int count);

/* Blocks on the disk for [first, end) of a category's range, and giving them back; both multiples of 4096. What is reserved
 * anew reads as zero. STATUS_RUN: the disk is full. A file system that cannot reserve lets a write meet the full disk. */
int storage_reserve(struct storage *storage, enum category category, uint64_t first, uint64_t end, struct error *err);
void storage_discard(struct storage *storage, enum category category, uint64_t first, uint64_t end);

/* Bytes of a category's range from `offset` on, and memory that they go to or come from. */
struct aio_span storage_span(const struct storage *storage, enum category category, uint64_t offset, void *memory, uint64_t bytes);

/* Moves spans, all at once; addresses, offsets and bytes are multiples of 4096. Returns when all have arrived. One thread at a
 * time for each direction. */
int storage_move(struct storage *storage, enum aio_direction direction, const struct aio_span *spans, int count, struct error *err);

/* By the thread that moved: the last transfer in that direction found the disk full, and may be tried again when there is room.
 * It can only where the file system reserves nothing, or writes elsewhere what is overwritten. */
bool storage_was_full(const struct storage *storage, enum aio_direction direction);

struct aio_flow storage_flow(const struct storage *storage, enum aio_direction direction); /* from any thread */
struct aio_flow storage_last_flow(const struct storage *storage, enum aio_direction direction); /* of the last storage_move(), by its caller */
void storage_restart_flows(struct storage *storage); /* counts from 0 again; nothing is being moved */
void storage_inject(struct storage *storage, enum aio_direction direction, struct aio_fault fault); /* for tests */

#endif
