/* The tier allocator: live bytes in address ranges whose layout the plan decides, and the budgets. commit.c has the pages.
 *
 * The state is an up-to-date snapshot, one lock, and three sets of runs for each range: live bytes, committed pages and pinned
 * pages. If the budget has room for the live bytes of a take, it has room for the pages too: unused pages of other ranges are
 * returned first. So whether a plan fits depends on its bytes alone, and not on page sizes or on earlier use. */
#include "engine/memory/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/memory/memory_parts.h"

static const uint64_t ALIGNMENT_BYTES = 64;

bool memory_is_symmetric(enum category category)
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
        memory->symmetric_offset[c] = memory->symmetric_bytes;
        memory->symmetric_bytes += round_up(memory->range[TIER_DEVICE][c].bytes, block);
    }
    if (memory->symmetric_bytes == 0) memory->symmetric_bytes = block; /* so that peers can always map it */
    if (!memory->device_pages) {
        memory->symmetric_fd = pages_file("zerolab-symmetric", memory->symmetric_bytes, err);
        if (memory->symmetric_fd < 0) return STATUS_RUN;
    }
    memory->symmetric_base = reserve(memory->device_pages, memory->symmetric_bytes, memory->symmetric_fd, err);
    if (!memory->symmetric_base) return STATUS_RUN;
    for (int c = 0; c < CATEGORIES; c++)
        if (memory->range[TIER_DEVICE][c].shared)
            memory->range[TIER_DEVICE][c].base = memory->symmetric_base + memory->symmetric_offset[c];
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
    memory->symmetric_fd = -1;
    memcpy(memory->now.budget_bytes, budget_bytes, sizeof memory->now.budget_bytes);
    for (int t = 0; t < TIERS; t++)
        for (int c = 0; c < CATEGORIES; c++)
            memory->range[t][c] = (struct range){.bytes = ranges->bytes[t][c],
                                                 .shared = t == TIER_DEVICE &&
                                                           (memory_is_symmetric(c) ||
                                                            (c == CATEGORY_GATHERED && ranges->shares_gathered)),
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
            memory_unpin(memory, t, c);
            if (!range->shared) unreserve(range->pages, range->base, round_up(range->bytes, range->unit_bytes));
            runs_release(&range->live);
            runs_release(&range->committed);
            runs_release(&range->pinned);
        }
    }
    unreserve(memory->device_pages, memory->symmetric_base, memory->symmetric_bytes);
    if (memory->symmetric_fd >= 0) close(memory->symmetric_fd);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

void memory_observe(struct memory *memory, memory_observer *observer, void *user)
{
    memory_lock(memory);
    memory->observer = observer;
    memory->observer_user = user;
    memory_unlock(memory);
}

void memory_set_storage(struct memory *memory, struct storage *storage)
{
    memory_lock(memory);
    memory->storage = storage;
    memory_unlock(memory);
}

static void copy_live(struct memory_snapshot *now, enum tier tier)
{
    for (int c = 0; c < CATEGORIES; c++) now->at_peak_bytes[tier][c] = now->category[tier][c].live_bytes;
}

/* Adds to a category's live bytes (a negative change wraps and is right). */
static void count_live(struct memory *memory, enum tier tier, enum category category, uint64_t change)
{
    struct memory_snapshot *now = &memory->now;
    struct memory_count *own = &now->category[tier][category], *all = &now->tier[tier];
    own->live_bytes += change;
    all->live_bytes += change;
    if (own->live_bytes > own->peak_bytes) own->peak_bytes = own->live_bytes;
    if (all->live_bytes > all->peak_bytes) {
        all->peak_bytes = all->live_bytes;
        copy_live(now, tier);
    }
}

static _Noreturn void plan_bug(enum tier tier, enum category category, uint64_t offset, uint64_t bytes,
                               const char *what)
{
    fprintf(stderr, "zerolab: bug in the memory plan: %s %s [%llu, %llu) %s\n", tier_name(tier),
            category_name(category), (unsigned long long)offset, (unsigned long long)(offset + bytes), what);
    abort();
}

static int over_budget(const struct memory *memory, enum tier tier, enum category category, uint64_t bytes,
                       struct error *err)
{
    uint64_t budget = memory->now.budget_bytes[tier], live = memory->now.tier[tier].live_bytes;
    if (budget == 0 || (live <= budget && bytes <= budget - live)) return 0;
    return error_set(err, STATUS_RUN, "out of %s memory: %s asks for %llu bytes, %llu of the budget of %llu are left",
                     tier_name(tier), category_name(category), (unsigned long long)bytes,
                     (unsigned long long)(live < budget ? budget - live : 0), (unsigned long long)budget);
}

static int take(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes,
                struct error *err)
{
    struct range *range = &memory->range[tier][category];
    if (offset % ALIGNMENT_BYTES) plan_bug(tier, category, offset, bytes, "is not aligned to 64 bytes");
    if (offset > range->bytes || bytes > range->bytes - offset)
        plan_bug(tier, category, offset, bytes, "is beyond the category's range");
    if (runs_touch(&range->live, offset, offset + bytes))
        plan_bug(tier, category, offset, bytes, "overlaps live memory");
    if (memory->fail_after && --memory->fail_after == 0)
        return error_set(err, STATUS_RUN, "out of %s memory: %s asks for %llu bytes (failure injected by a test)",
                         tier_name(tier), category_name(category), (unsigned long long)bytes);
    int status = over_budget(memory, tier, category, bytes, err);
    if (status) return status;
    runs_add(&range->live, offset, offset + bytes); /* first; else making room could return the pages that this take reuses */
    status = memory_commit(memory, tier, category, offset, offset + bytes, true, err);
    if (status) {
        runs_remove(&range->live, offset, offset + bytes);
        memory_notify(memory, tier, category); /* some pages may have been committed */
        return status;
    }
    count_live(memory, tier, category, bytes);
    memory_notify(memory, tier, category);
    return 0;
}

static void give(struct memory *memory, enum tier tier, enum category category, uint64_t offset, uint64_t bytes)
{
    struct range *range = &memory->range[tier][category];
    if (!runs_cover(&range->live, offset, offset + bytes))
        plan_bug(tier, category, offset, bytes, "is given back but not live");
    runs_remove(&range->live, offset, offset + bytes);
    count_live(memory, tier, category, -bytes);
    memory_notify(memory, tier, category);
}

int memory_take_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset,
                   uint64_t bytes, struct error *err)
{
    memory_lock(memory);
    memory->when_ns = when_ns;
    int status = take(memory, tier, category, offset, bytes, err);
    memory->when_ns = 0;
    memory_unlock(memory);
    return status;
}

void memory_give_at(struct memory *memory, uint64_t when_ns, enum tier tier, enum category category, uint64_t offset,
                    uint64_t bytes)
{
    memory_lock(memory);
    memory->when_ns = when_ns;
    give(memory, tier, category, offset, bytes);
    memory->when_ns = 0;
    memory_unlock(memory);
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

int memory_symmetric_fd(const struct memory *memory)
{
    return memory->symmetric_fd;
}

uint64_t memory_symmetric_bytes(const struct memory *memory)
{
    return memory->symmetric_bytes;
}

uint64_t memory_symmetric_offset(const struct memory *memory, enum category category)
{
    return memory->symmetric_offset[category];
}

void *memory_symmetric_base(const struct memory *memory)
{
    return memory->symmetric_base;
}

void memory_snapshot(const struct memory *memory, struct memory_snapshot *snapshot)
{
    memory_lock(memory);
    *snapshot = memory->now;
    memory_unlock(memory);
}

uint64_t memory_live_from(const struct memory *memory, enum tier tier, enum category category, uint64_t offset)
{
    struct run run;
    uint64_t bytes = 0;
    memory_lock(memory);
    for (uint64_t at = offset; runs_next(&memory->range[tier][category].live, at, UINT64_MAX, &run); at = run.end)
        bytes += run.end - run.first;
    memory_unlock(memory);
    return bytes;
}

void memory_reset_peaks(struct memory *memory)
{
    memory_lock(memory);
    for (int t = 0; t < TIERS; t++) {
        memory->now.tier[t].peak_bytes = memory->now.tier[t].live_bytes;
        for (int c = 0; c < CATEGORIES; c++)
            memory->now.category[t][c].peak_bytes = memory->now.category[t][c].live_bytes;
        copy_live(&memory->now, t);
    }
    memory_unlock(memory);
}

int memory_set_budget(struct memory *memory, enum tier tier, uint64_t bytes, struct error *err)
{
    memory_lock(memory);
    uint64_t live = memory->now.tier[tier].live_bytes;
    int status = 0;
    if (bytes && live > bytes) {
        status = error_set(err, STATUS_RUN,
                           "a %s budget of %llu bytes is below the %llu in use; free some first, by a higher stage",
                           tier_name(tier), (unsigned long long)bytes, (unsigned long long)live);
    } else {
        memory->now.budget_bytes[tier] = bytes;
        memory_make_room(memory, tier, 0);
    }
    memory_unlock(memory);
    return status;
}

void memory_fail_after(struct memory *memory, uint64_t takes)
{
    memory_lock(memory);
    memory->fail_after = takes;
    memory_unlock(memory);
}
