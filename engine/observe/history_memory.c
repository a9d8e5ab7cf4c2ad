/* Memory by category at any instant: changes lie in blocks, each of which begins with the state before it. Records have
 * absolute values; those that change nothing (most records at a step's begin) take no room. */
#include "engine/observe/history_parts.h"

enum { BLOCKS_SHARE = 6, BLOCKS_LEAST = 4 }; /* a sixth of all bytes */

static void apply(struct run_instant *instant, const struct history_change *change)
{
    instant->known = true;
    instant->live_bytes += change->live_bytes - instant->held_bytes[change->category];
    instant->held_bytes[change->category] = change->live_bytes;
    instant->reserved_bytes = change->reserved_bytes;
}

static uint64_t blocks_from(const struct history_tier *tier)
{
    const struct history_block *oldest = ring_at(&tier->blocks, tier->blocks.first);
    if (tier->blocks.first == 0) return 0;
    return oldest ? oldest->change[0].time_ns : UINT64_MAX;
}

static struct history_block *open_block(struct history *history, struct history_tier *tier, int ranks)
{
    struct history_block *newest = ring_newest(&tier->blocks);
    if (newest && newest->count < BLOCK_CHANGES) return newest;
    if (!tier->blocks.item_bytes) {
        int64_t share = (int64_t)(history->bytes / BLOCKS_SHARE / sizeof(struct history_block)) / (ranks ? ranks : 1);
        ring_init(&tier->blocks, sizeof(struct history_block), share > BLOCKS_LEAST ? share : BLOCKS_LEAST);
    }
    struct history_block *block = ring_push(&tier->blocks, &history->left);
    if (!block) history_dropped_before(history, UINT64_MAX);
    else *block = (struct history_block){.before = tier->now};
    return block;
}

static void block_add(struct history_block *block, const struct history_change *change, uint64_t live_bytes)
{
    if (block->count == 0 || live_bytes > block->fullest_bytes) {
        block->fullest_bytes = live_bytes;
        block->fullest = block->count;
    }
    block->change[block->count++] = *change;
}

void history_memory(struct history *history, struct history_rank *rank, int ranks, const struct trace_record *record)
{
    const struct trace_of_memory *from = &record->memory;
    const int category = from->category == TRACE_UNATTRIBUTED ? CATEGORIES : from->category;
    if (from->tier >= TIERS || category > CATEGORIES) return;
    struct history_tier *tier = &rank->tier[from->tier];
    uint64_t *reserved_bytes = &tier->reserved_bytes[category];
    if (tier->now.known && tier->now.held_bytes[category] == from->live_bytes &&
        *reserved_bytes == from->reserved_bytes)
        return;
    if (record->time_ns > tier->changed_ns) tier->changed_ns = record->time_ns;
    struct history_change change = {.time_ns = tier->changed_ns,
                                 .live_bytes = from->live_bytes,
                                 .reserved_bytes = tier->now.reserved_bytes + from->reserved_bytes - *reserved_bytes,
                                 .category = (enum category)category};
    struct history_block *block = open_block(history, tier, ranks);
    *reserved_bytes = from->reserved_bytes;
    apply(&tier->now, &change);
    if (!block) return;
    block_add(block, &change, tier->now.live_bytes);
    history_dropped_before(history, blocks_from(tier));
    sums_hold(history, tier, ranks, tier->changed_ns, tier->now.live_bytes);
}

void history_memory_ends(struct history *history, struct history_rank *rank, int ranks, uint64_t time_ns)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int category = 0; category <= CATEGORIES; category++) {
            struct trace_record nothing = {.kind = TRACE_MEMORY, .time_ns = time_ns};
            nothing.memory = (struct trace_of_memory){.tier = (uint8_t)tier, .category = category < CATEGORIES ? (uint8_t)category : TRACE_UNATTRIBUTED};
            if (rank->tier[tier].now.known) history_memory(history, rank, ranks, &nothing);
        }
}

/* ---- questions ---- */

static const struct history_tier *tier_at(const struct history *history, int rank, enum tier tier)
{
    const struct history_rank *at = history_rank_at(history, rank);
    return at && tier < TIERS && at->tier[tier].now.known ? &at->tier[tier] : NULL;
}

/* Number of the last block whose first change is before time_ns; first - 1: none. */
static int64_t block_before(const struct history_tier *tier, uint64_t time_ns)
{
    return ring_find(&tier->blocks, offsetof(struct history_block, change[0].time_ns), time_ns) - 1;
}

/* The same, or the first. */
static int64_t block_near(const struct history_tier *tier, uint64_t time_ns)
{
    const int64_t before = block_before(tier, time_ns);
    return before < tier->blocks.first ? tier->blocks.first : before;
}

/* The state after the first `changes` of a block. */
static struct run_instant replay(const struct history_block *block, int changes)
{
    struct run_instant instant = block->before;
    for (int i = 0; i < changes; i++) apply(&instant, &block->change[i]);
    return instant;
}

static int changes_before(const struct history_block *block, uint64_t time_ns)
{
    int count = 0;
    while (count < block->count && block->change[count].time_ns < time_ns) count++;
    return count;
}

struct run_instant history_held(const struct history *history, int rank, enum tier tier, uint64_t time_ns)
{
    const struct history_tier *at = tier_at(history, rank, tier);
    const struct history_block *block = at ? ring_at(&at->blocks, block_before(at, time_ns)) : NULL;
    return block ? replay(block, changes_before(block, time_ns)) : (struct run_instant){0};
}

struct fullest {
    struct run_instant instant;
    uint64_t when_ns;
};

/* Updates *best with the fullest instant among a block's changes in [from_ns, to_ns). */
static void fuller(struct fullest *best, const struct history_block *block, uint64_t from_ns, uint64_t to_ns)
{
    int first = changes_before(block, from_ns), end = changes_before(block, to_ns);
    if (first <= block->fullest && block->fullest < end) first = block->fullest, end = first + 1;
    struct run_instant instant = replay(block, first);
    for (int i = first; i < end; i++) {
        apply(&instant, &block->change[i]);
        if (best->instant.known && instant.live_bytes <= best->instant.live_bytes) continue;
        *best = (struct fullest){instant, block->change[i].time_ns};
    }
}

struct run_instant history_fullest(const struct history *history, int rank, enum tier tier, uint64_t from_ns, uint64_t to_ns,
                                uint64_t *when_ns)
{
    const struct history_tier *at = tier_at(history, rank, tier);
    struct fullest best = {.when_ns = from_ns};
    if (at && from_ns < blocks_from(at)) {
        struct tier_sum sum = sums_fullest(history, at, from_ns, to_ns);
        best.instant = (struct run_instant){.known = sum.when_ns > 0, .live_bytes = sum.live_bytes};
        best.when_ns = sum.when_ns;
    } else if (at) {
        best.instant = history_held(history, rank, tier, from_ns);
        int64_t number = block_near(at, from_ns);
        for (const struct history_block *block;
             (block = ring_at(&at->blocks, number)) && block->change[0].time_ns < to_ns; number++)
            fuller(&best, block, from_ns, to_ns);
    }
    if (when_ns) *when_ns = best.when_ns;
    return best.instant;
}

bool history_most(const struct history *history, int rank, enum tier tier, enum category category, uint64_t from_ns,
               uint64_t to_ns, uint64_t *most_bytes, uint64_t *when_ns)
{
    const struct history_tier *at = tier_at(history, rank, tier);
    if (!at || from_ns < blocks_from(at)) return false;
    *most_bytes = history_held(history, rank, tier, from_ns).held_bytes[category];
    *when_ns = from_ns;
    int64_t number = block_near(at, from_ns);
    for (const struct history_block *block; (block = ring_at(&at->blocks, number)); number++) {
        for (int i = 0; i < block->count; i++) {
            const struct history_change *change = &block->change[i];
            if (change->category != category || change->time_ns < from_ns || change->time_ns >= to_ns) continue;
            if (change->live_bytes <= *most_bytes) continue;
            *most_bytes = change->live_bytes;
            *when_ns = change->time_ns;
        }
    }
    return true;
}
