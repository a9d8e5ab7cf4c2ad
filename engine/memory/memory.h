/* The tier allocator. All tensor memory of a rank comes from here, tagged with tier and category and counted.
 *
 * Every category of a tier has its own address range, reserved when the rank starts and committed as it is used. The
 * schedule says where a buffer lies in its range (a static plan: see docs/design/schedule.md), so taking memory never
 * searches, never fragments, and is the same on every rank. The shared categories (parameters, gradients, buckets, secondary;
 * gathered on demand) lie one after another in one memfd, the *symmetric segment*: the same offset is the same buffer on every rank, and peers map it through
 * /proc/PID/fd (it leaves no file behind). The others are private memory.
 *
 *     live      bytes taken and not given back
 *     reserved  bytes committed (touched pages), live or not; reserved - live is what views call "reserved, free"
 *
 * A take fails when live bytes would exceed the budget (0: none): that is "out of memory", an outcome the engine handles,
 * and it depends on the plan's bytes alone. Committed pages that hold no live bytes are returned before the budget would be
 * passed, so reserved stays within it, except for the edges of pages. Thread safe: a rank's lanes take and give concurrently. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/tier.h"

struct memory;
struct pages;
struct storage;

/* Width of each tier's and category's address range: the most bytes that it may ever need. Costs nothing until committed. */
struct memory_ranges {
    uint64_t bytes[TIERS][CATEGORIES];
    bool shares_gathered; /* peers read gathered units, too */
};

struct memory_count { uint64_t live_bytes, reserved_bytes, peak_bytes; };

/* A consistent snapshot, taken under the allocator's lock. */
struct memory_snapshot {
    struct memory_count category[TIERS][CATEGORIES];
    struct memory_count tier[TIERS];               /* all categories together; peak of the sum, not sum of the peaks */
    uint64_t at_peak_bytes[TIERS][CATEGORIES];     /* live bytes of each category at the instant of the tier's peak */
    uint64_t budget_bytes[TIERS];
    uint64_t pinned_bytes[TIERS];                  /* the part of the reserved bytes that is locked in memory */
};

/* Called under the lock after each change, to write trace records; may be NULL. when_ns: of memory_take_at(); 0: now. */
typedef void memory_observer(void *user, uint64_t when_ns, enum tier tier, enum category category, const struct memory_count *count);

/* device_pages: the source of pages for the device tier, kept by reference; NULL: memory of this machine. STATUS_RUN: no memory
 * or no address space. */
int memory_create(struct memory **out, const struct memory_ranges *ranges, const uint64_t budget_bytes[TIERS],
                  const struct pages *device_pages, struct error *err);
void memory_destroy(struct memory *memory);
void memory_observe(struct memory *memory, memory_observer *observer, void *user);

/* From now on, committing bytes of the NVMe tier reserves blocks on the disk (storage.h), and a full disk makes a take fail.
 * The caller owns the storage and keeps it longer than the memory. Without one the tier's bytes are only counted. */
void memory_set_storage(struct memory *memory, struct storage *storage);

/* Takes [offset, offset + bytes) of a category's range; offset is a multiple of 64. Newly committed pages read as zero (NVMe:
 * see storage_reserve()); recycled ones hold old data. STATUS_RUN: the budget, the machine or the disk has no room; the text
 * says tier, category, bytes wanted and left. A take beyond the range or over live memory is a bug of the plan and aborts. */
int memory_take(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
void memory_give(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* The same, for takes and gives that happened on a device at when_ns (on clock_ns()) and are counted later. */
int memory_take_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
void memory_give_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* Commits the pages (NVMe: blocks on the disk) of a later take, so that they cannot be missing then. STATUS_RUN: no pages are
 * left. memory_trim() returns them if they are not taken. */
int memory_reserve(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
/* Whether the whole range is committed. Pages that are not live may still be returned to make room for others. */
bool memory_is_committed(const struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* Pages of a category are committed, pinned and returned in multiples of this. */
uint64_t memory_unit_bytes(const struct memory *memory, enum tier tier, enum category category);

/* Address of an offset; stable for the life of the memory. Only for TIER_DEVICE and TIER_HOST. */
void *memory_at(const struct memory *memory, enum tier tier, enum category category, uint64_t offset);

/* The symmetric segment, which other ranks read. */
struct memory_symmetric {
    int fd;                      /* -1: device memory, visible to threads of this process only */
    unsigned char *base;
    uint64_t bytes;
    uint64_t offset[CATEGORIES]; /* byte at which each shared category starts */
};
const struct memory_symmetric *memory_symmetric(const struct memory *memory);

void memory_snapshot(const struct memory *memory, struct memory_snapshot *snapshot);

/* Live bytes of a category at or after an offset. */
uint64_t memory_live_from(const struct memory *memory, enum tier tier, enum category category, uint64_t offset);

/* Whether pages that a category of the host tier commits from now on are locked in memory. If the system or a driver refuses to
 * lock one, this page and all later ones are used unlocked. */
void memory_pin(struct memory *memory, enum category category, bool pinned);
/* *why: why the first page was refused, and what to do. False: none was refused. */
bool memory_pin_refused(const struct memory *memory, struct error *why);

void memory_reset_peaks(struct memory *memory);
/* Returns committed pages that hold no live bytes to the system. */
void memory_trim(struct memory *memory);
int memory_set_budget(struct memory *memory, enum tier tier, uint64_t bytes, struct error *err); /* 0: none. STATUS_RUN: more is live already */

/* Makes the n-th next take fail (tests of the out-of-memory paths); 0: off. */
void memory_fail_after(struct memory *memory, uint64_t takes);
