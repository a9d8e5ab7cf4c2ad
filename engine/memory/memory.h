/* The tier allocator. All tensor memory of a rank comes from here, tagged with tier and category and counted.
 *
 * Every category has an address range of its own, reserved when the rank starts and committed as it is used. Where a
 * buffer lies in that range is said by the schedule (a static plan: see docs/design/schedule.md), so taking memory never
 * searches, never fragments, and is the same on every rank. The shared categories (P, G, B) lie one after another in one
 * memfd, the *symmetric segment*: the same offset is the same buffer on every rank, and peers map it through
 * /proc/PID/fd (it leaves no file behind). The others are private memory.
 *
 *     live      bytes taken and not given back
 *     reserved  bytes committed (touched pages), live or not; reserved - live is category F of the views
 *
 * A take fails when live bytes would exceed the budget (0: none): that is "out of memory", an outcome the engine handles,
 * and it depends on the plan's bytes alone. Pages follow: committed ones that nobody uses are returned before the budget
 * is passed, so that reserved stays within it but for the edges of pages. Thread safe: a rank's lanes take and give concurrently. */
#ifndef ENGINE_MEMORY_MEMORY_H
#define ENGINE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/tier.h"

struct memory;
struct pages;
struct storage;

/* Most bytes that each category of the device tier may ever need (the address range; costs nothing until touched). */
struct memory_ranges { uint64_t bytes[TIERS][CATEGORIES]; };

struct memory_count { uint64_t live_bytes, reserved_bytes, peak_bytes; };

/* A snapshot that is consistent: taken under the allocator's lock. */
struct memory_snapshot {
    struct memory_count category[TIERS][CATEGORIES];
    struct memory_count tier[TIERS];               /* all categories together; peak of the sum, not sum of the peaks */
    uint64_t at_peak_bytes[TIERS][CATEGORIES];     /* live of each category at the instant of the tier's peak */
    uint64_t budget_bytes[TIERS];
    uint64_t pinned_bytes[TIERS];                  /* of reserved: locked, so that the system does not move or swap them */
};

/* Called under the lock after each change, to write trace records; may be NULL. when_ns: as memory_take_at() was told; 0: now. */
typedef void memory_observer(void *user, uint64_t when_ns, enum tier tier, enum category category, const struct memory_count *count);

/* device_pages: who gives pages to the device tier, kept by reference; NULL: memory of this machine stands in for it. */
int memory_create(struct memory **out, const struct memory_ranges *ranges, const uint64_t budget_bytes[TIERS],
                  const struct pages *device_pages, struct error *err);
void memory_destroy(struct memory *memory);
void memory_observe(struct memory *memory, memory_observer *observer, void *user);

/* From now on committing bytes of the NVMe tier reserves blocks on the disk (storage.h), and a full disk makes a take fail.
 * The storage stays the caller's and outlives the memory; without one the tier's bytes are only counted. */
void memory_set_storage(struct memory *memory, struct storage *storage);

/* Takes [offset, offset + bytes) of a category's range; offset is a multiple of 64. Newly committed pages read as zero;
 * recycled ones hold old data. STATUS_RUN when the budget does not allow it: the text says tier, category, what was asked
 * and what is left. Overlap with live memory is a bug of the plan: it aborts with a message. */
int memory_take(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
void memory_give(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* The same, of what is counted a little later than it was so (by a device, on clock_ns()); the observer is told. */
int memory_take_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
void memory_give_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* Commits what will be taken there, so that the take cannot fail for pages or for blocks on the disk. What is not taken after
 * all goes back with memory_trim(). */
int memory_reserve(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes, struct error *err);
/* Whether all of it is committed; as long as it is not live, it may go back to make room for others. */
bool memory_is_committed(const struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes);

/* What pages of a category are committed and returned in, and where there is a device pinned: what lies in it takes whole ones. */
uint64_t memory_unit_bytes(const struct memory *memory, enum tier tier, enum category category);

/* Address of an offset; stable for the life of the memory. Only for TIER_DEVICE and TIER_HOST. */
void *memory_at(const struct memory *memory, enum tier tier, enum category category, uint64_t offset);

/* The symmetric segment: descriptor (-1: on a device, near to threads of this process only), whole size, and where a
 * category starts in it (category must be shared). */
int memory_symmetric_fd(const struct memory *memory);
uint64_t memory_symmetric_bytes(const struct memory *memory);
uint64_t memory_symmetric_offset(const struct memory *memory, enum category category);
bool memory_is_symmetric(enum category category);
void *memory_symmetric_base(const struct memory *memory);

void memory_snapshot(const struct memory *memory, struct memory_snapshot *snapshot);

/* Live bytes of a category from an offset on. */
uint64_t memory_live_from(const struct memory *memory, enum tier tier, enum category category, uint64_t offset);

/* From now on pages that a category of the host tier commits are locked, or not. Where the system or a driver refuses, they
 * are used as they are, and so are all after them. */
void memory_pin(struct memory *memory, enum category category, bool pinned);
/* Why the first of them was refused, and what to do; false: none was. */
bool memory_pin_refused(const struct memory *memory, struct error *why);

void memory_reset_peaks(struct memory *memory);
/* Returns committed but unused pages to the system (after a switch of stage). */
void memory_trim(struct memory *memory);
int memory_set_budget(struct memory *memory, enum tier tier, uint64_t bytes, struct error *err); /* STATUS_RUN: more is live already */

/* Makes the n-th next take fail (tests of the out-of-memory paths); 0: off. */
void memory_fail_after(struct memory *memory, uint64_t takes);

#endif
