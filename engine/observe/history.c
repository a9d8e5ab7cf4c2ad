/* Creates the history, keeps steps and gaps, and passes other records on: history_spans.c (operations),
 * history_memory.c. history_sums.c keeps sums of dropped details. */
#include <stdlib.h>
#include <string.h>

#include "engine/observe/history_parts.h"

enum { STEPS_SHARE = 16, GRID_SHIFT = 20 };

struct history *history_new(size_t bytes)
{
    struct history *history = calloc(1, sizeof *history);
    if (!history) return NULL;
    history->bytes = history->left.bytes = bytes ? bytes : HISTORY_BYTES;
    history->grid.shift = GRID_SHIFT;
    ring_init(&history->steps, sizeof(struct history_entry),
              (int64_t)(history->bytes / STEPS_SHARE / sizeof(struct history_entry)));
    return history;
}

void history_free(struct history *history)
{
    if (!history) return;
    for (int rank = 0; rank < history->rank_room; rank++) {
        struct history_rank *from = history->ranks[rank];
        if (!from) continue;
        for (int lane = 0; lane < LANES; lane++) {
            ring_release(&from->lane[lane].spans);
            ring_release(&from->lane[lane].io);
            free(from->lane[lane].sums);
        }
        for (int tier = 0; tier < TIERS; tier++) {
            ring_release(&from->tier[tier].blocks);
            free(from->tier[tier].sums);
        }
        free(from);
    }
    ring_release(&history->steps);
    free(history->ranks);
    free(history);
}

void *history_alloc(struct history *history, size_t bytes)
{
    void *memory = bytes <= history->left.bytes ? calloc(1, bytes) : NULL;
    if (memory) history->left.bytes -= bytes;
    return memory;
}

void history_dropped_before(struct history *history, uint64_t time_ns)
{
    if (time_ns > history->whole_from_ns) history->whole_from_ns = time_ns;
}

/* ---- steps, over all ranks; one that was retried after it ran out of memory has an entry for each attempt ---- */

static struct history_entry *entry_at(const struct history *history, int64_t number)
{
    return ring_at(&history->steps, number);
}

/* A rank joins the newest entry, unless it has already begun that one (then this is another attempt). Steps before the
 * last whose ends were lost are over too. */
static void begin_step(struct history *history, struct history_rank *rank, const struct trace_record *record)
{
    const struct trace_of_step_begin *from = &record->step_begin;
    int64_t newest = ring_end(&history->steps) - 1;
    struct history_entry *entry = entry_at(history, newest);
    if (!entry || entry->step.step != from->step || rank->step == newest) {
        if (entry && record->time_ns < entry->step.begun_ns) return; /* not in order of time: not to be trusted */
        struct history_entry *before = entry_at(history, newest - 1);
        if (before && !before->step.ended_ns && before->last_end_ns) before->step.ended_ns = before->last_end_ns;
        entry = ring_push(&history->steps, &history->left);
        if (!entry) return;
        *entry =
            (struct history_entry){.step = {from->step, from->schedule, run_stage_of(from->stage), record->time_ns, 0}};
        newest = ring_end(&history->steps) - 1;
    }
    entry->begun++;
    rank->step = newest;
}

static void end_step(struct history *history, struct history_rank *rank, const struct run_model *model,
                     const struct trace_record *record)
{
    struct history_entry *entry = entry_at(history, rank->step);
    if (!entry || entry->step.step != record->step_end.step || entry->step.ended_ns) return;
    if (record->time_ns > entry->last_end_ns) entry->last_end_ns = record->time_ns;
    if (++entry->ended + model->header.missing >= model->ranks) entry->step.ended_ns = entry->last_end_ns;
}

int history_step_count(const struct history *history)
{
    return (int)history->steps.count;
}

const struct history_step *history_step(const struct history *history, int number)
{
    const struct history_entry *entry = entry_at(history, history->steps.first + number);
    return entry ? &entry->step : NULL;
}

const struct history_step *history_step_at(const struct history *history, uint64_t time_ns)
{
    const uint64_t after_ns = time_ns + (time_ns < UINT64_MAX);
    const struct history_entry *entry =
        entry_at(history, ring_find(&history->steps, offsetof(struct history_entry, step.begun_ns), after_ns) - 1);
    return entry ? &entry->step : NULL;
}

/* Newest attempt first. Step numbers increase, except where a run resumed from an earlier step. */
const struct history_step *history_step_numbered(const struct history *history, uint32_t step)
{
    for (int i = history_step_count(history) - 1; i >= 0; i--)
        if (history_step(history, i)->step == step) return history_step(history, i);
    return NULL;
}

/* ---- gaps of lost records ---- */

void history_gap_add(struct history *history, uint16_t rank, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns < history->first_ns) from_ns = history->first_ns;
    if (to_ns < from_ns) return;
    struct history_gap *newest = history->gaps ? &history->gap[history->gaps - 1] : NULL;
    if (newest && newest->rank == rank && from_ns <= newest->to_ns && from_ns >= newest->from_ns) {
        if (to_ns > newest->to_ns) newest->to_ns = to_ns;
        return;
    }
    if (history->gaps ==
        GAPS_KEPT) { /* the two oldest become one, of all ranks: rather too much unknown than too little */
        history->gap[1].rank = TRACE_RANK_ALL;
        if (history->gap[0].from_ns < history->gap[1].from_ns) history->gap[1].from_ns = history->gap[0].from_ns;
        if (history->gap[0].to_ns > history->gap[1].to_ns) history->gap[1].to_ns = history->gap[0].to_ns;
        for (int i = 1; i < GAPS_KEPT; i++) history->gap[i - 1] = history->gap[i];
        history->gaps--;
    }
    history->gap[history->gaps++] = (struct history_gap){rank, from_ns, to_ns};
}

bool history_has_gap(const struct history *history, int rank, uint64_t from_ns, uint64_t to_ns)
{
    for (int i = 0; i < history->gaps; i++) {
        const struct history_gap *gap = &history->gap[i];
        bool concerns = rank < 0 || gap->rank == TRACE_RANK_ALL || gap->rank == rank;
        if (concerns && gap->from_ns < to_ns && gap->to_ns > from_ns) return true;
    }
    return false;
}

bool history_step_is_whole(const struct history *history, const struct history_step *step)
{
    return step->ended_ns && step->begun_ns >= history_whole_from(history) &&
           !history_has_gap(history, -1, step->begun_ns, step->ended_ns);
}

/* ---- records ---- */

void history_begin(struct history *history, uint64_t first_ns, uint64_t from_ns)
{
    history->first_ns = history->grid.origin_ns = first_ns;
    history_gap_add(history, TRACE_RANK_ALL, first_ns, from_ns);
    history_dropped_before(history, from_ns);
}

static bool know_ranks(struct history *history, int ranks)
{
    if (ranks <= history->rank_room) return true;
    size_t more = (size_t)(ranks - history->rank_room) * sizeof *history->ranks;
    struct history_rank **larger = more <= history->left.bytes ? realloc(history->ranks, (size_t)ranks * sizeof *larger) : NULL;
    if (!larger) return false;
    memset(larger + history->rank_room, 0, more);
    history->left.bytes -= more;
    history->ranks = larger;
    history->rank_room = ranks;
    return true;
}

/* The rank that a record is about, added if new; NULL: none, or no memory. */
static struct history_rank *rank_of(struct history *history, const struct run_model *model, unsigned rank)
{
    if ((int)rank >= model->ranks) return NULL;
    struct history_rank *known = history_rank_at(history, (int)rank);
    if (history->parts && history->part[history->parts - 1].ranks < model->ranks)
        history->part[history->parts - 1].ranks = model->ranks; /* no header said how many there are */
    if (known || !know_ranks(history, model->ranks)) return known;
    history->ranks[rank] = history_alloc(history, sizeof **history->ranks);
    if (!history->ranks[rank]) history_dropped_before(history, UINT64_MAX); /* nothing of it is kept */
    else history->ranks[rank]->step = -1;
    return history->ranks[rank];
}

/* If the model has come to another one. The ranks before have ended, and hold nothing more. */
static void begin_part(struct history *history, const struct run_model *model)
{
    const struct run_part *part = run_present_part(model);
    if (!part || part->number + 1 == history->part_number) return;
    for (int rank = 0; history->part_number && rank < history->rank_room; rank++)
        if (history->ranks[rank]) history_memory_ends(history, history->ranks[rank], history->rank_room, part->begun_ns);
    struct history_part *parts = history->part;
    if (history->parts == RUN_PARTS_MAX) { /* the oldest two become one, with as many ranks as either */
        parts[1].begun_ns = parts[0].begun_ns;
        if (parts[1].ranks < parts[0].ranks) parts[1].ranks = parts[0].ranks;
        memmove(parts, parts + 1, (size_t)--history->parts * sizeof *parts);
    }
    parts[history->parts++] = (struct history_part){part->begun_ns, model->ranks};
    history->part_number = part->number + 1;
}

void history_fold(struct history *history, const struct run_model *model, const struct trace_record *record)
{
    if (!history->first_ns) history->first_ns = history->grid.origin_ns = record->time_ns;
    if (record->time_ns > history->last_ns) history->last_ns = record->time_ns;
    if (record->kind == TRACE_GAP) history_gap_add(history, record->rank, record->gap.since_ns, record->time_ns);
    begin_part(history, model);
    struct history_rank *rank = rank_of(history, model, record->rank); /* NULL: of all ranks */
    if (!rank) return;
    switch (record->kind) {
    case TRACE_STEP_BEGIN: begin_step(history, rank, record); break;
    case TRACE_STEP_END: end_step(history, rank, model, record); break;
    case TRACE_OP_BEGIN: history_op_begin(history, rank, model, record); break;
    case TRACE_OP_END: history_op_end(history, rank, model, record); break;
    case TRACE_IO: history_io_add(history, rank, model, record); break;
    case TRACE_MEMORY: history_memory(history, rank, model->ranks, record); break;
    default: break;
    }
}

/* Records before the first header belong to its part. */
int history_ranks(const struct history *history, uint64_t from_ns, uint64_t to_ns)
{
    int most = 0;
    if (!history->parts) return history->rank_room;
    for (int i = 0; i < history->parts; i++) {
        bool begins = i == 0 || history->part[i].begun_ns < to_ns;
        bool ends = i + 1 < history->parts && history->part[i + 1].begun_ns <= from_ns;
        if (begins && !ends && history->part[i].ranks > most) most = history->part[i].ranks;
    }
    return most < history->rank_room ? most : history->rank_room;
}

uint64_t history_first_ns(const struct history *history)
{
    return history->first_ns;
}

uint64_t history_last_ns(const struct history *history)
{
    return history->last_ns;
}

uint64_t history_whole_from(const struct history *history)
{
    return history->whole_from_ns > history->first_ns ? history->whole_from_ns : history->first_ns;
}

/* ---- rings ---- */

enum { ROOM_AT_FIRST = 32 };

void ring_init(struct ring *ring, size_t item_bytes, int64_t most)
{
    *ring = (struct ring){.item_bytes = item_bytes, .most = most > 1 ? most : 1};
}

void ring_release(struct ring *ring)
{
    free(ring->items);
    ring->items = NULL;
    ring->room = ring->count = 0;
}

/* A ring grows only while it is full and has never dropped anything, so its items lie in order from place 0. */
static void ring_grow(struct ring *ring, struct allowance *allowance)
{
    int64_t room = ring->room ? 2 * ring->room : ROOM_AT_FIRST;
    if (room > ring->most) room = ring->most;
    size_t more_bytes = (size_t)(room - ring->room) * ring->item_bytes;
    char *items = more_bytes <= allowance->bytes ? realloc(ring->items, (size_t)room * ring->item_bytes) : NULL;
    if (!items) {
        ring->most = ring->room; /* this is all it gets */
        return;
    }
    allowance->bytes -= more_bytes;
    ring->items = items;
    ring->room = room;
}

void *ring_push(struct ring *ring, struct allowance *allowance)
{
    if (ring->count == ring->room && ring->room < ring->most) ring_grow(ring, allowance);
    if (ring->room == 0) return NULL;
    if (ring->count == ring->room) {
        ring->first++;
        ring->count--;
        if (++ring->head == ring->room) ring->head = 0;
    }
    ring->count++;
    return ring_item(ring, ring_end(ring) - 1);
}

int64_t ring_find(const struct ring *ring, size_t offset, uint64_t least)
{
    int64_t low = ring->first, high = ring_end(ring);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const uint64_t *field = (const void *)((const char *)ring_item(ring, middle) + offset);
        if (*field < least) low = middle + 1;
        else high = middle;
    }
    return low;
}
