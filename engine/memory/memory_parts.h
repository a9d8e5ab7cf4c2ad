/* Internals of the tier allocator, shared by memory.c (live bytes and budgets) and commit.c (the pages under them). */
#pragma once

#include <pthread.h>

#include "engine/memory/memory.h"
#include "engine/memory/pages.h"
#include "engine/memory/runs.h"

struct range {
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
    int symmetric_fd;
    unsigned char *symmetric_base;
    uint64_t symmetric_bytes;
    uint64_t symmetric_offset[CATEGORIES];
    struct storage *storage;
    struct error pin_refused; /* status 0: no page was refused */
    memory_observer *observer;
    void *observer_user;
    uint64_t when_ns; /* of the change in progress, for the observer */
    uint64_t fail_after;
};

/* Readers of a const memory lock it too, so the cast drops const. */
static inline void memory_lock(const struct memory *memory)
{
    pthread_mutex_lock((pthread_mutex_t *)&memory->lock);
}

static inline void memory_unlock(const struct memory *memory)
{
    pthread_mutex_unlock((pthread_mutex_t *)&memory->lock);
}

static inline void memory_notify(struct memory *memory, enum tier tier, enum category category)
{
    if (memory->observer)
        memory->observer(memory->observer_user, memory->when_ns, tier, category, &memory->now.category[tier][category]);
}

/* Under the lock: returns unused pages as far as the budget requires, then commits the uncommitted part of [first, end).
 * may_return: if the commit fails, returns all unused pages, reserved ones too, and tries once more. */
int memory_commit(struct memory *memory, enum tier tier, enum category category, uint64_t first, uint64_t end, bool may_return, struct error *err);
/* Unlocks all pinned pages of a range, before the range is unmapped. */
void memory_unpin(struct memory *memory, enum tier tier, enum category category);
/* Under the lock: returns unused pages until `more` further bytes can be committed under the budget, as far as that is possible. */
void memory_make_room(struct memory *memory, enum tier tier, uint64_t more);
