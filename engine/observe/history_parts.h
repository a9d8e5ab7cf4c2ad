/* Internals of the history: its data structures. Only history*.c include this. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/observe/history.h"

/* ---- rings: history.c ---- */

/* A ring of numbered items of one size: it keeps the newest `most` and drops the oldest. It starts small and doubles,
 * so a short run costs little. It grows out of a shared allowance, so many rings together stay within a bound. */

struct ring {
    size_t item_bytes;
    int64_t most, room;   /* items: the limit, and allocated now */
    int64_t first, count; /* number of the oldest item kept; how many are kept */
    int64_t head;         /* index of the oldest item in `items` */
    char *items;
};

/* Bytes that the rings of a group may still allocate. */
struct allowance { size_t bytes; };

void ring_init(struct ring *ring, size_t item_bytes, int64_t most);
void ring_release(struct ring *ring);

/* Returns an uninitialized new item, with number ring_end() - 1; a full ring drops its oldest. NULL: the first item
 * could not be allocated. Pointers into the ring are valid until the next push. */
void *ring_push(struct ring *ring, struct allowance *allowance);

static inline int64_t ring_end(const struct ring *ring) { return ring->first + ring->count; }

/* The item of that number, which is kept. */
static inline void *ring_item(const struct ring *ring, int64_t number)
{
    int64_t place = ring->head + (number - ring->first);
    if (place >= ring->room) place -= ring->room;
    return ring->items + (size_t)place * ring->item_bytes;
}

/* NULL: not kept. */
static inline void *ring_at(const struct ring *ring, int64_t number)
{
    return number >= ring->first && number < ring_end(ring) ? ring_item(ring, number) : NULL;
}

/* Number of the first item whose 64-bit field at `offset`, by which the items are in order, is `least` or more; ring_end(): none is. */
int64_t ring_find(const struct ring *ring, size_t offset, uint64_t least);

static inline void *ring_newest(const struct ring *ring)
{
    return ring->count ? ring_item(ring, ring_end(ring) - 1) : NULL;
}

/* ---- sums over intervals: history_sums.c ---- */

/* All lanes and tiers have the same intervals: `count` of them, 2^shift ns each, from the first record on. When the run
 * has filled them, pairs of neighbours merge. */
struct sum_grid { uint64_t origin_ns; int shift, count; };

struct lane_sum { /* ns; floats, so that many lanes fit */
    float busy[BUSY_KINDS];
    float waited[STALLS];
};
struct tier_sum { uint64_t live_bytes, when_ns; }; /* the fullest instant; 0, 0: nothing known */

/* ---- by rank ---- */

struct history_io_at { uint64_t time_ns; struct trace_of_io io; }; /* time_ns: the record's time, within its span */

struct history_lane {
    struct ring spans; /* struct span */
    struct ring io;    /* struct history_io_at, of lanes to and from NVMe */
    uint64_t ended_ns; /* when its newest ended span ended */
    struct lane_sum *sums;
};

enum { BLOCK_CHANGES = 32 };
struct history_change {
    uint64_t time_ns, live_bytes; /* live_bytes: of the category, after the change */
    uint64_t reserved_bytes;      /* of the whole tier, after the change */
    enum category category;
};
/* A block begins with the tier's whole state. The state of any instant is that of a block plus at most BLOCK_CHANGES changes. */
struct history_block {
    struct run_instant before;
    uint64_t fullest_bytes; /* the highest live bytes; `fullest`: index of the change that led to them */
    int fullest, count;
    struct history_change change[BLOCK_CHANGES];
};
struct history_tier {
    struct ring blocks; /* struct history_block */
    struct run_instant now;
    uint64_t reserved_bytes[CATEGORIES + 1]; /* now */
    uint64_t changed_ns; /* time of the newest change */
    struct tier_sum *sums;
    int summed;          /* interval of the newest change; earlier intervals are complete */
    bool has_before;     /* before_bytes is known */
    uint64_t before_bytes; /* live bytes after the newest change */
};

struct history_rank {
    struct history_lane lane[LANES];
    struct history_tier tier[TIERS];
    int64_t step; /* entry of `steps` for the step that the rank began last; -1: none */
};

struct history_gap { uint16_t rank; uint64_t from_ns, to_ns; };
struct history_entry { struct history_step step; int begun, ended; uint64_t last_end_ns; }; /* how many ranks began it; ended it */

struct history_part { uint64_t begun_ns; int ranks; };

enum { GAPS_KEPT = 256 };

struct history {
    size_t bytes;
    struct allowance left;
    uint64_t first_ns, last_ns, whole_from_ns;
    struct history_rank **ranks; /* NULL: no record of this rank */
    int rank_room;
    struct history_part part[RUN_PARTS_MAX]; /* oldest first */
    int parts, part_number; /* parts: how many are kept; part_number: the newest one's, from 1 on */
    int schedule; /* index, in the model, of the schedule looked up last */
    struct sum_grid grid;
    struct ring steps; /* struct history_entry */
    struct history_gap gap[GAPS_KEPT]; /* oldest first */
    int gaps;
};

/* history.c: memory is taken from the allowance; NULL: none left. */
void *history_alloc(struct history *history, size_t bytes);
/* Moves whole_from_ns to time_ns: spans or changes before it were dropped. */
void history_dropped_before(struct history *history, uint64_t time_ns);
static inline struct history_rank *history_rank_at(const struct history *history, int rank)
{
    return rank >= 0 && rank < history->rank_room ? history->ranks[rank] : NULL;
}

void history_gap_add(struct history *history, uint16_t rank, uint64_t from_ns, uint64_t to_ns); /* history.c */

void history_op_begin(struct history *history, struct history_rank *rank, const struct run_model *model, const struct trace_record *record); /* history_spans.c */
void history_op_end(struct history *history, struct history_rank *rank, const struct run_model *model, const struct trace_record *record);
void history_io_add(struct history *history, struct history_rank *rank, const struct run_model *model, const struct trace_record *record);
uint64_t history_spans_from(const struct history_lane *lane); /* its spans are kept from this time on; 0: all are kept */

void history_memory(struct history *history, struct history_rank *rank, int ranks, const struct trace_record *record); /* history_memory.c */
void history_memory_ends(struct history *history, struct history_rank *rank, int ranks, uint64_t time_ns); /* its end */

/* history_sums.c */
void sums_span(struct history *history, struct history_rank *rank, enum lane lane, int ranks, const struct span *span);
void sums_hold(struct history *history, struct history_tier *tier, int ranks, uint64_t time_ns, uint64_t live_bytes); /* from time_ns on */
struct tier_sum sums_fullest(const struct history *history, const struct history_tier *tier, uint64_t from_ns, uint64_t to_ns);
