/* One rank's NVMe tier: one file in each folder of nvme_path that is used. The file has no name (at most for an instant), so
 * nothing is left behind however the process ends. Categories with the same folder share its file; their ranges lie one after
 * another in it. The plan says where a buffer lies in its range, as in the other tiers. Taking memory reserves blocks on the
 * disk (memory.h calls storage_reserve()), so a full disk is found there, where running out of memory is expected, and not
 * while a step writes.
 *
 *     file   |  parameters  |  optimizer                    |
 *              ^ offset in the category's range, multiple of 4096
 *
 * Each direction has its own struct aio (aio.h), so one thread may read while another writes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/tier.h"
#include "engine/memory/aio.h"

struct storage;

/* The folder of a category (NULL: it is never on NVMe), and the bytes of its range, which cost nothing until reserved. */
struct storage_range { const char *folder; uint64_t bytes; };

/* Assigns each category its file and range; touches no folder yet. STATUS_RUN: asynchronous I/O is refused; the text says what
 * to do. */
int storage_open(struct storage **out, const struct storage_range ranges[CATEGORIES], const struct aio_options *options, struct error *err);
void storage_close(struct storage *storage);

/* Must be called before the first byte of a category is reserved: makes the file in its folder, if there is none yet. So a wrong
 * folder matters only when it is used. STATUS_USAGE: the path is missing, not a folder, or not writable. STATUS_RUN: another
 * reason, such as a full disk. The text says what to do. *buffered_because (may be NULL): why a file made now goes through the
 * page cache (a line for the log, owned by storage); NULL: it is read and written directly, or it was there already. */
int storage_use(struct storage *storage, enum category category, const char **buffered_because, struct error *err);

/* Whether all of these spans bypass the page cache. */
bool storage_is_direct(const struct storage *storage, const struct aio_span *spans, int count);

/* Reserves, or gives back, blocks on the disk for [first, end) of a category's range; both are multiples of 4096. Bytes that were
 * given back and reserved again read as zero only where the file system can punch holes; elsewhere they keep the old data.
 * STATUS_RUN: the disk is full. Where the file system cannot reserve, this succeeds, and a write may find the disk full. */
int storage_reserve(struct storage *storage, enum category category, uint64_t first, uint64_t end, struct error *err);
void storage_discard(struct storage *storage, enum category category, uint64_t first, uint64_t end);

/* The span that moves `bytes` bytes at `offset` of a category's range to or from `memory`. */
struct aio_span storage_span(const struct storage *storage, enum category category, uint64_t offset, void *memory, uint64_t bytes);

/* Moves all spans and returns when they have arrived; addresses, offsets and bytes are multiples of 4096. STATUS_RUN: see
 * aio_move(). One thread at a time for each direction. */
int storage_move(struct storage *storage, enum aio_direction direction, const struct aio_span *spans, int count, struct error *err);

/* Whether the last storage_move() in that direction found the disk full, so that it may be tried again when there is room. That
 * happens only if the file system cannot reserve blocks, or writes overwritten data to new blocks. Only from the thread that moved. */
bool storage_was_full(const struct storage *storage, enum aio_direction direction);

/* The struct aio of a direction, to read its counts (aio_flow()). */
struct aio *storage_aio(const struct storage *storage, enum aio_direction direction);
