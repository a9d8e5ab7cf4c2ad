/* Pages under the allocator's ranges: commits them for takes, locks them where pinning is on, and returns unused ones when the
 * budget, or a full device or disk, needs room. In the NVMe tier a page is blocks on the disk. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "engine/base/grouped.h"
#include "engine/memory/memory_parts.h"
#include "engine/memory/storage.h"

static void count_reserved(struct memory *memory, enum tier tier, enum category category, uint64_t change)
{
    memory->now.category[tier][category].reserved_bytes += change;
    memory->now.tier[tier].reserved_bytes += change;
}

/* mlock() obeys the limit RLIMIT_MEMLOCK; the text names the limit only where there is one. */
static int lock_by_system(void *at, uint64_t bytes, struct error *err)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    char most[32];
    if (mlock(at, bytes) == 0) return STATUS_OK;
    const char *why = strerror(errno);
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) return error_set(err, STATUS_RUN, "%s; set pin_memory=false", why);
    return error_set(err, STATUS_RUN,
                     "%s; raise the limit of %s bytes with ulimit -l unlimited, or set pin_memory=false", why,
                     grouped(most, (int64_t)limit.rlim_cur));
}

static int lock_pages(const struct memory *memory, void *at, uint64_t bytes, struct error *err)
{
    const struct pages *device = memory->device_pages;
    struct error why;
    if (!device || !device->pin) return lock_by_system(at, bytes, err);
    if (device->pin(device->user, at, bytes, &why) == STATUS_OK) return STATUS_OK;
    return error_set(err, STATUS_RUN, "%.400s; copies of the rest are slower", why.text);
}

static bool unlock_pages(const struct memory *memory, void *at, uint64_t bytes)
{
    const struct pages *device = memory->device_pages;
    return device && device->pin ? device->unpin(device->user, at, bytes) : munlock(at, bytes) == 0;
}

/* A driver can only unlock whole pieces as they were locked, so it gets one unit at a time. */
static uint64_t piece_bytes(const struct memory *memory, const struct range *range, uint64_t bytes)
{
    return memory->device_pages && memory->device_pages->pin ? range->unit_bytes : bytes;
}

static void pin(struct memory *memory, enum tier tier, struct range *range, uint64_t first, uint64_t end)
{
    const uint64_t piece = piece_bytes(memory, range, end - first);
    if (!range->pins || !range->base) return;
    for (uint64_t at = first; at < end && !memory->pin_refused.status; at += piece) {
        if (lock_pages(memory, range->base + at, piece, &memory->pin_refused)) return;
        runs_add(&range->pinned, at, at + piece);
        memory->now.pinned_bytes[tier] += piece;
    }
}

/* Unlocks pages, because locked pages cannot be returned. False: some stay locked. */
static bool unpin(struct memory *memory, enum tier tier, struct range *range, uint64_t first, uint64_t end)
{
    struct run run;
    for (uint64_t at = first; runs_next(&range->pinned, at, end, &run);) {
        const uint64_t piece = piece_bytes(memory, range, run.end - run.first);
        if (!unlock_pages(memory, range->base + run.first, piece)) return false;
        at = run.first + piece;
        runs_remove(&range->pinned, run.first, at);
        memory->now.pinned_bytes[tier] -= piece;
    }
    return true;
}

void memory_unpin(struct memory *memory, enum tier tier, enum category category)
{
    unpin(memory, tier, &memory->range[tier][category], 0, UINT64_MAX);
}

void memory_pin(struct memory *memory, enum category category, bool pinned)
{
    memory_lock(memory);
    memory->range[TIER_HOST][category].pins = pinned;
    memory_unlock(memory);
}

bool memory_pin_refused(const struct memory *memory, struct error *why)
{
    memory_lock(memory);
    *why = memory->pin_refused;
    memory_unlock(memory);
    return why->status != STATUS_OK;
}

static int commit_pages(struct memory *memory, enum tier tier, enum category category, struct run pages,
                        struct error *err)
{
    const struct range *range = &memory->range[tier][category];
    if (range->pages) return range->pages->commit(range->pages->user, range->base, pages.first, pages.end, err);
    if (range->base) return pages_commit(range->base, pages.first, pages.end, err);
    return memory->storage ? storage_reserve(memory->storage, category, pages.first, pages.end, err) : STATUS_OK;
}

/* Returns pages of the idle run, about `wanted` bytes; the result is the run that went back, and the rest stays committed. */
static struct run return_pages(struct memory *memory, enum tier tier, enum category category, struct run idle,
                               uint64_t wanted)
{
    struct range *range = &memory->range[tier][category];
    if (range->pages) return range->pages->give_back(range->pages->user, range->base, idle, wanted);
    if (idle.end - idle.first > wanted) idle.end = idle.first + round_up(wanted, range->unit_bytes);
    if (!unpin(memory, tier, range, idle.first, idle.end)) return (struct run){0};
    if (range->base) pages_return(range->base, idle.first, idle.end, range->shared);
    else if (memory->storage) storage_discard(memory->storage, category, idle.first, idle.end);
    return idle;
}

/* Returns unused pages of one range, about `wanted` bytes at most; the result says how many. A page is in use when any byte
 * of it is live. */
static uint64_t return_unused(struct memory *memory, enum tier tier, enum category category, uint64_t wanted)
{
    struct range *range = &memory->range[tier][category];
    struct run pages, idle;
    uint64_t returned = 0;
    for (uint64_t at = 0; returned < wanted && runs_next(&range->committed, at, UINT64_MAX, &pages);) {
        if (!runs_next_gap(&range->live, pages.first, pages.end, &idle)) {
            at = pages.end;
            continue;
        }
        at = idle.end;
        idle.first = round_up(idle.first, range->unit_bytes);
        idle.end = round_down(idle.end, range->unit_bytes);
        if (idle.first >= idle.end) continue;
        idle = return_pages(memory, tier, category, idle, wanted - returned);
        runs_remove(&range->committed, idle.first, idle.end);
        returned += idle.end - idle.first;
    }
    if (returned) {
        count_reserved(memory, tier, category, -returned);
        memory_notify(memory, tier, category);
    }
    return returned;
}

/* Returns unused pages until `more` further bytes can be committed under the budget, as far as that is possible. */
void memory_make_room(struct memory *memory, enum tier tier, uint64_t more)
{
    uint64_t budget = memory->now.budget_bytes[tier];
    for (int c = 0; budget && c < CATEGORIES; c++) {
        uint64_t after = memory->now.tier[tier].reserved_bytes + more;
        if (after <= budget) return;
        return_unused(memory, tier, c, after - budget);
    }
}

/* False: there were no unused pages. */
static bool return_all_unused(struct memory *memory, enum tier tier)
{
    uint64_t returned = 0;
    for (int c = 0; c < CATEGORIES; c++) returned += return_unused(memory, tier, c, UINT64_MAX);
    return returned > 0;
}

static uint64_t uncommitted_bytes(const struct range *range, uint64_t first, uint64_t end)
{
    struct run gap;
    uint64_t bytes = 0;
    for (uint64_t at = first; runs_next_gap(&range->committed, at, end, &gap); at = gap.end)
        bytes += gap.end - gap.first;
    return bytes;
}

int memory_commit(struct memory *memory, enum tier tier, enum category category, uint64_t first, uint64_t end,
                  bool may_return, struct error *err)
{
    struct range *range = &memory->range[tier][category];
    if (first == end) return 0;
    first = round_down(first, range->unit_bytes);
    end = round_up(end, range->unit_bytes);
    uint64_t more = uncommitted_bytes(range, first, end);
    if (more == 0) return 0;
    memory_make_room(memory, tier, more);
    bool returned = false; /* all unused pages, perhaps also those that this call has committed */
    struct run gap;
    for (uint64_t at = first; runs_next_gap(&range->committed, at, end, &gap); at = gap.end) {
        int status = commit_pages(memory, tier, category, gap, err);
        if (status && may_return && !returned && (returned = return_all_unused(memory, tier))) {
            gap.end = first;
            continue;
        }
        if (status) return status;
        runs_add(&range->committed, gap.first, gap.end);
        pin(memory, tier, range, gap.first, gap.end);
        count_reserved(memory, tier, category, gap.end - gap.first);
    }
    return 0;
}

int memory_reserve(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes,
                   struct error *err)
{
    memory_lock(memory);
    const uint64_t before_bytes = memory->now.category[tier][category].reserved_bytes;
    int status = memory_commit(memory, tier, category, offset, offset + bytes, false, err);
    if (memory->now.category[tier][category].reserved_bytes != before_bytes) memory_notify(memory, tier, category);
    memory_unlock(memory);
    return status;
}

bool memory_is_committed(const struct memory *memory, enum tier tier, enum category category, uint64_t offset,
                         uint64_t bytes)
{
    memory_lock(memory);
    const bool there = uncommitted_bytes(&memory->range[tier][category], offset, offset + bytes) == 0;
    memory_unlock(memory);
    return there;
}

void memory_trim(struct memory *memory)
{
    memory_lock(memory);
    for (int t = 0; t < TIERS; t++) return_all_unused(memory, t);
    memory_unlock(memory);
}
