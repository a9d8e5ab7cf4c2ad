/* The tier allocator: live bytes in address ranges whose layout the plan decides, the pages under them, and the budgets.
 *
 * The state is an up-to-date snapshot, one lock, and three sets of runs for each range: live bytes, committed pages and pinned
 * pages. If the budget has room for the live bytes of a take, it has room for the pages too: unused pages of other ranges are
 * returned first. So whether a plan fits depends on its bytes alone, and not on page sizes or on earlier use. */
#include "engine/memory/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/grouped.h"
#include "engine/memory/pages.h"
#include "engine/memory/runs.h"
#include "engine/memory/storage.h"

static const uint64_t ALIGNMENT_BYTES = 64;

struct range {
    enum tier tier;
    enum category category;
    unsigned char *base;       /* NULL: NVMe, or an empty range */
    const struct pages *pages; /* of a device; NULL: memory of this machine */
    uint64_t bytes;
    uint64_t unit_bytes;       /* pages are committed, pinned and returned in multiples of it */
    bool shared;
    bool pins; /* pages are locked when they are committed */
    struct runs live, committed, pinned;
};

struct memory {
    pthread_mutex_t lock;
    struct range range[TIERS][CATEGORIES];
    struct memory_snapshot now;
    const struct pages *device_pages; /* NULL: the device tier is memory of this machine */
    struct memory_symmetric symmetric;
    struct storage *storage;
    struct error pin_refused; /* status 0: no page was refused */
    memory_observer *observer;
    void *observer_user;
    uint64_t when_ns; /* of the change in progress, for the observer */
    uint64_t fail_after;
};

/* Readers of a const memory lock it too, so the cast drops const. */
static void lock(const struct memory *memory)
{
    pthread_mutex_lock((pthread_mutex_t *)&memory->lock);
}

static void unlock(const struct memory *memory)
{
    pthread_mutex_unlock((pthread_mutex_t *)&memory->lock);
}

static void notify(struct memory *memory, const struct range *range)
{
    const struct memory_count *count = &memory->now.category[range->tier][range->category];
    if (memory->observer) memory->observer(memory->observer_user, memory->when_ns, range->tier, range->category, count);
}

/* ---- pages: committed for takes, locked where pinning is on, and returned, if unused, when the budget, or a full device or
 * disk, needs room. In the NVMe tier a page is blocks on the disk. ---- */

static void count_reserved(struct memory *memory, const struct range *range, uint64_t change)
{
    memory->now.category[range->tier][range->category].reserved_bytes += change;
    memory->now.tier[range->tier].reserved_bytes += change;
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

static void pin(struct memory *memory, struct range *range, uint64_t first, uint64_t end)
{
    const uint64_t piece = piece_bytes(memory, range, end - first);
    if (!range->pins || !range->base) return;
    for (uint64_t at = first; at < end && !memory->pin_refused.status; at += piece) {
        if (lock_pages(memory, range->base + at, piece, &memory->pin_refused)) return;
        runs_add(&range->pinned, at, at + piece);
        memory->now.pinned_bytes[range->tier] += piece;
    }
}

/* Unlocks pages, because locked pages cannot be returned. False: some stay locked. */
static bool unpin(struct memory *memory, struct range *range, uint64_t first, uint64_t end)
{
    struct run run;
    for (uint64_t at = first; runs_next(&range->pinned, at, end, &run);) {
        const uint64_t piece = piece_bytes(memory, range, run.end - run.first);
        if (!unlock_pages(memory, range->base + run.first, piece)) return false;
        at = run.first + piece;
        runs_remove(&range->pinned, run.first, at);
        memory->now.pinned_bytes[range->tier] -= piece;
    }
    return true;
}

void memory_pin(struct memory *memory, enum category category, bool pinned)
{
    lock(memory);
    memory->range[TIER_HOST][category].pins = pinned;
    unlock(memory);
}

bool memory_pin_refused(const struct memory *memory, struct error *why)
{
    lock(memory);
    *why = memory->pin_refused;
    unlock(memory);
    return why->status != STATUS_OK;
}

static int commit_pages(struct memory *memory, const struct range *range, struct run pages, struct error *err)
{
    if (range->pages) return range->pages->commit(range->pages->user, range->base, pages.first, pages.end, err);
    if (range->base) return pages_commit(range->base, pages.first, pages.end, err);
    return memory->storage ? storage_reserve(memory->storage, range->category, pages.first, pages.end, err) : STATUS_OK;
}

/* Returns pages of the idle run, about `wanted` bytes; the result is the run that went back, and the rest stays committed. */
static struct run return_pages(struct memory *memory, struct range *range, struct run idle, uint64_t wanted)
{
    if (range->pages) return range->pages->give_back(range->pages->user, range->base, idle, wanted);
    if (idle.end - idle.first > wanted) idle.end = idle.first + round_up(wanted, range->unit_bytes);
    if (!unpin(memory, range, idle.first, idle.end)) return (struct run){0};
    if (range->base) pages_return(range->base, idle.first, idle.end, range->shared);
    else if (memory->storage) storage_discard(memory->storage, range->category, idle.first, idle.end);
    return idle;
}

/* Returns unused pages of one range, about `wanted` bytes at most; the result says how many. A page is in use when any byte
 * of it is live. */
static uint64_t return_unused(struct memory *memory, struct range *range, uint64_t wanted)
{
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
        idle = return_pages(memory, range, idle, wanted - returned);
        runs_remove(&range->committed, idle.first, idle.end);
        returned += idle.end - idle.first;
    }
    if (returned) {
        count_reserved(memory, range, -returned);
        notify(memory, range);
    }
    return returned;
}

/* Returns unused pages until `more` further bytes can be committed under the budget, as far as that is possible. */
static void make_room(struct memory *memory, enum tier tier, uint64_t more)
{
    uint64_t budget = memory->now.budget_bytes[tier];
    for (int c = 0; budget && c < CATEGORIES; c++) {
        uint64_t after = memory->now.tier[tier].reserved_bytes + more;
        if (after <= budget) return;
        return_unused(memory, &memory->range[tier][c], after - budget);
    }
}

/* False: there were no unused pages. */
static bool return_all_unused(struct memory *memory, enum tier tier)
{
    uint64_t returned = 0;
    for (int c = 0; c < CATEGORIES; c++) returned += return_unused(memory, &memory->range[tier][c], UINT64_MAX);
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

/* Makes room under the budget, then commits the uncommitted part of [first, end). may_return: if the commit fails, returns all
 * unused pages, reserved ones too, and tries once more. */
static int commit(struct memory *memory, struct range *range, uint64_t first, uint64_t end, bool may_return,
                  struct error *err)
{
    if (first == end) return 0;
    first = round_down(first, range->unit_bytes);
    end = round_up(end, range->unit_bytes);
    uint64_t more = uncommitted_bytes(range, first, end);
    if (more == 0) return 0;
    make_room(memory, range->tier, more);
    bool returned = false; /* all unused pages, perhaps also those that this call has committed */
    struct run gap;
    for (uint64_t at = first; runs_next_gap(&range->committed, at, end, &gap); at = gap.end) {
        int status = commit_pages(memory, range, gap, err);
        if (status && may_return && !returned && (returned = return_all_unused(memory, range->tier))) {
            gap.end = first;
            continue;
        }
        if (status) return status;
        runs_add(&range->committed, gap.first, gap.end);
        pin(memory, range, gap.first, gap.end);
        count_reserved(memory, range, gap.end - gap.first);
    }
    return 0;
}

int memory_reserve(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes,
                   struct error *err)
{
    lock(memory);
    const uint64_t before_bytes = memory->now.category[tier][category].reserved_bytes;
    int status = commit(memory, &memory->range[tier][category], offset, offset + bytes, false, err);
    if (memory->now.category[tier][category].reserved_bytes != before_bytes)
        notify(memory, &memory->range[tier][category]);
    unlock(memory);
    return status;
}

bool memory_is_committed(const struct memory *memory, enum tier tier, enum category category, uint64_t offset,
                         uint64_t bytes)
{
    lock(memory);
    const bool there = uncommitted_bytes(&memory->range[tier][category], offset, offset + bytes) == 0;
    unlock(memory);
    return there;
}

void memory_trim(struct memory *memory)
{
    lock(memory);
    for (int t = 0; t < TIERS; t++) return_all_unused(memory, t);
    unlock(memory);
}

/* ---- the life of one ---- */

static bool is_symmetric(enum category category)
{
    return category == CATEGORY_PARAMETERS || category == CATEGORY_GRADIENTS || category == CATEGORY_BUCKETS ||
           category == CATEGORY_SECONDARY;
}

static void *reserve(const struct pages *pages, uint64_t bytes, int fd, struct error *err)
{
    return pages ? pages->reserve(pages->user, bytes, err) : pages_reserve(bytes, fd, err);
}

static void unreserve(const struct pages *pages, void *base, uint64_t bytes)
{
    if (!pages) pages_unreserve(base, bytes);
    else if (base) pages->unreserve(pages->user, base, bytes);
}

/* A device's driver unlocks pinned memory only in the pieces in which it was locked, and a copy may still use neighbouring pages.
 * So pages of the host tier are committed and returned in whole pieces there: a 64th of the range, between 2 and 64 MiB. */
static uint64_t unit_of(enum tier tier, uint64_t bytes, const struct pages *device)
{
    enum { PIECES = 64, PIECE_BYTES_MAX = 64 << 20 };
    uint64_t unit = BLOCK_BYTES;
    if (tier == TIER_DEVICE && device) return device->unit_bytes;
    if (tier != TIER_HOST || !device || !device->pin) return PAGE_BYTES;
    while (unit * PIECES < bytes && unit < PIECE_BYTES_MAX) unit *= 2;
    return unit;
}

uint64_t memory_unit_bytes(const struct memory *memory, enum tier tier, enum category category)
{
    return memory->range[tier][category].unit_bytes;
}

/* A device's memory is used by threads of its own process only, so it needs no descriptor. */
static int reserve_symmetric(struct memory *memory, struct error *err)
{
    const uint64_t block = memory->device_pages ? memory->device_pages->unit_bytes : BLOCK_BYTES;
    for (int c = 0; c < CATEGORIES; c++) {
        if (!memory->range[TIER_DEVICE][c].shared) continue;
        memory->symmetric.offset[c] = memory->symmetric.bytes;
        memory->symmetric.bytes += round_up(memory->range[TIER_DEVICE][c].bytes, block);
    }
    if (memory->symmetric.bytes == 0) memory->symmetric.bytes = block; /* so that peers can always map it */
    if (!memory->device_pages) {
        memory->symmetric.fd = pages_file("zerolab-symmetric", memory->symmetric.bytes, err);
        if (memory->symmetric.fd < 0) return STATUS_RUN;
    }
    memory->symmetric.base = reserve(memory->device_pages, memory->symmetric.bytes, memory->symmetric.fd, err);
    if (!memory->symmetric.base) return STATUS_RUN;
    for (int c = 0; c < CATEGORIES; c++)
        if (memory->range[TIER_DEVICE][c].shared)
            memory->range[TIER_DEVICE][c].base = memory->symmetric.base + memory->symmetric.offset[c];
    return 0;
}

static int reserve_private(struct memory *memory, struct error *err)
{
    for (int t = 0; t <= TIER_HOST; t++) {
        for (int c = 0; c < CATEGORIES; c++) {
            struct range *range = &memory->range[t][c];
            if (range->shared || range->bytes == 0) continue;
            range->base = reserve(range->pages, round_up(range->bytes, range->unit_bytes), -1, err);
            if (!range->base) return STATUS_RUN;
        }
    }
    return 0;
}

int memory_create(struct memory **out, const struct memory_ranges *ranges, const uint64_t budget_bytes[TIERS],
                  const struct pages *device_pages, struct error *err)
{
    *out = NULL;
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory) return error_set(err, STATUS_RUN, "no memory for the allocator");
    pthread_mutex_init(&memory->lock, NULL);
    memory->symmetric.fd = -1;
    memcpy(memory->now.budget_bytes, budget_bytes, sizeof memory->now.budget_bytes);
    for (int t = 0; t < TIERS; t++)
        for (int c = 0; c < CATEGORIES; c++)
            memory->range[t][c] = (struct range){
                .tier = t,
                .category = c,
                .bytes = ranges->bytes[t][c],
                .shared = t == TIER_DEVICE && (is_symmetric(c) || (c == CATEGORY_GATHERED && ranges->shares_gathered)),
                .unit_bytes = unit_of(t, ranges->bytes[t][c], device_pages),
                .pages = t == TIER_DEVICE ? device_pages : NULL};
    memory->device_pages = device_pages;
    int status = reserve_symmetric(memory, err);
    if (!status) status = reserve_private(memory, err);
    if (status) memory_destroy(memory);
    else *out = memory;
    return status;
}

void memory_destroy(struct memory *memory)
{
    if (!memory) return;
    for (int t = 0; t < TIERS; t++) {
        for (int c = 0; c < CATEGORIES; c++) {
            struct range *range = &memory->range[t][c];
            unpin(memory, range, 0, UINT64_MAX); /* before it is unmapped */
            if (!range->shared) unreserve(range->pages, range->base, round_up(range->bytes, range->unit_bytes));
            runs_release(&range->live);
            runs_release(&range->committed);
            runs_release(&range->pinned);
        }
    }
    unreserve(memory->device_pages, memory->symmetric.base, memory->symmetric.bytes);
    if (memory->symmetric.fd >= 0) close(memory->symmetric.fd);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

void memory_observe(struct memory *memory, memory_observer *observer, void *user)
{
    lock(memory);
    memory->observer = observer;
    memory->observer_user = user;
    unlock(memory);
}

void memory_set_storage(struct memory *memory, struct storage *storage)
{
    lock(memory);
    memory->storage = storage;
    unlock(memory);
}

static void copy_live(struct memory_snapshot *now, enum tier tier)
{
    for (int c = 0; c < CATEGORIES; c++) now->at_peak_bytes[tier][c] = now->category[tier][c].live_bytes;
}

/* Adds to a category's live bytes (a negative change wraps and is right). */
static void count_live(struct memory *memory, const struct range *range, uint64_t change)
{
    struct memory_snapshot *now = &memory->now;
    struct memory_count *own = &now->category[range->tier][range->category], *all = &now->tier[range->tier];
    own->live_bytes += change;
    all->live_bytes += change;
    if (own->live_bytes > own->peak_bytes) own->peak_bytes = own->live_bytes;
    if (all->live_bytes > all->peak_bytes) {
        all->peak_bytes = all->live_bytes;
        copy_live(now, range->tier);
    }
}

static _Noreturn void plan_bug(const struct range *range, uint64_t offset, uint64_t bytes, const char *what)
{
    fprintf(stderr, "zerolab: bug in the memory plan: %s %s [%llu, %llu) %s\n", tier_name(range->tier),
            category_name(range->category), (unsigned long long)offset, (unsigned long long)(offset + bytes), what);
    abort();
}

static int over_budget(const struct memory *memory, const struct range *range, uint64_t bytes, struct error *err)
{
    const uint64_t budget = memory->now.budget_bytes[range->tier], live = memory->now.tier[range->tier].live_bytes;
    if (budget == 0 || (live <= budget && bytes <= budget - live)) return 0;
    return error_set(err, STATUS_RUN, "out of %s memory: %s asks for %llu bytes, %llu of the budget of %llu are left",
                     tier_name(range->tier), category_name(range->category), (unsigned long long)bytes,
                     (unsigned long long)(live < budget ? budget - live : 0), (unsigned long long)budget);
}

static int take(struct memory *memory, struct range *range, uint64_t offset, uint64_t bytes, struct error *err)
{
    if (offset % ALIGNMENT_BYTES) plan_bug(range, offset, bytes, "is not aligned to 64 bytes");
    if (offset > range->bytes || bytes > range->bytes - offset)
        plan_bug(range, offset, bytes, "is beyond the category's range");
    if (runs_touch(&range->live, offset, offset + bytes)) plan_bug(range, offset, bytes, "overlaps live memory");
    if (memory->fail_after && --memory->fail_after == 0)
        return error_set(err, STATUS_RUN, "out of %s memory: %s asks for %llu bytes (failure injected by a test)",
                         tier_name(range->tier), category_name(range->category), (unsigned long long)bytes);
    int status = over_budget(memory, range, bytes, err);
    if (status) return status;
    runs_add(&range->live, offset, offset + bytes); /* first; else making room could return the pages that this take reuses */
    status = commit(memory, range, offset, offset + bytes, true, err);
    if (status) {
        runs_remove(&range->live, offset, offset + bytes);
        notify(memory, range); /* some pages may have been committed */
        return status;
    }
    count_live(memory, range, bytes);
    notify(memory, range);
    return 0;
}

static void give(struct memory *memory, struct range *range, uint64_t offset, uint64_t bytes)
{
    if (!runs_cover(&range->live, offset, offset + bytes)) plan_bug(range, offset, bytes, "is given back but not live");
    runs_remove(&range->live, offset, offset + bytes);
    count_live(memory, range, -bytes);
    notify(memory, range);
}

int memory_take_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset,
                   uint64_t bytes, struct error *err)
{
    lock(memory);
    memory->when_ns = when_ns;
    int status = take(memory, &memory->range[tier][category], offset, bytes, err);
    memory->when_ns = 0;
    unlock(memory);
    return status;
}

void memory_give_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset,
                    uint64_t bytes)
{
    lock(memory);
    memory->when_ns = when_ns;
    give(memory, &memory->range[tier][category], offset, bytes);
    memory->when_ns = 0;
    unlock(memory);
}

int memory_take(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes,
                struct error *err)
{
    return memory_take_at(memory, 0, tier, category, offset, bytes, err);
}

void memory_give(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes)
{
    memory_give_at(memory, 0, tier, category, offset, bytes);
}

void *memory_at(const struct memory *memory, enum tier tier, enum category category, uint64_t offset)
{
    unsigned char *base = memory->range[tier][category].base;
    return base ? base + offset : NULL;
}

const struct memory_symmetric *memory_symmetric(const struct memory *memory)
{
    return &memory->symmetric;
}

void memory_snapshot(const struct memory *memory, struct memory_snapshot *snapshot)
{
    lock(memory);
    *snapshot = memory->now;
    unlock(memory);
}

uint64_t memory_live_from(const struct memory *memory, enum tier tier, enum category category, uint64_t offset)
{
    struct run run;
    uint64_t bytes = 0;
    lock(memory);
    for (uint64_t at = offset; runs_next(&memory->range[tier][category].live, at, UINT64_MAX, &run); at = run.end)
        bytes += run.end - run.first;
    unlock(memory);
    return bytes;
}

void memory_reset_peaks(struct memory *memory)
{
    lock(memory);
    for (int t = 0; t < TIERS; t++) {
        memory->now.tier[t].peak_bytes = memory->now.tier[t].live_bytes;
        for (int c = 0; c < CATEGORIES; c++)
            memory->now.category[t][c].peak_bytes = memory->now.category[t][c].live_bytes;
        copy_live(&memory->now, t);
    }
    unlock(memory);
}

int memory_set_budget(struct memory *memory, enum tier tier, uint64_t bytes, struct error *err)
{
    lock(memory);
    uint64_t live = memory->now.tier[tier].live_bytes;
    int status = 0;
    if (bytes && live > bytes) {
        status = error_set(err, STATUS_RUN,
                           "a %s budget of %llu bytes is below the %llu in use; free some first, by a higher stage",
                           tier_name(tier), (unsigned long long)bytes, (unsigned long long)live);
    } else {
        memory->now.budget_bytes[tier] = bytes;
        make_room(memory, tier, 0);
    }
    unlock(memory);
    return status;
}

void memory_fail_after(struct memory *memory, uint64_t takes)
{
    lock(memory);
    memory->fail_after = takes;
    unlock(memory);
}
