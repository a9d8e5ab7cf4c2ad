/* The times of each step over all ranks, and the gaps of lost records. A step that was retried after it ran out of
 * memory has an entry for each attempt. */
#include "engine/observe/history_parts.h"

/* ---- steps ---- */

static struct history_entry *entry_at(const struct history *history, int64_t number)
{
    return ring_at(&history->steps, number);
}

/* A rank joins the newest entry, unless it has already begun that one (then this is another attempt). Steps before the last
 * whose ends were lost are over too. */
void history_step_begin(struct history *history, struct history_rank *rank, const struct trace_record *record)
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

void history_step_end(struct history *history, struct history_rank *rank, const struct run_model *model,
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
    int low = 0, high = history_step_count(history); /* the first that begins after time_ns lies in [low, high] */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (history_step(history, middle)->begun_ns <= time_ns) low = middle + 1;
        else high = middle;
    }
    return low ? history_step(history, low - 1) : NULL;
}

/* Newest attempt first. Step numbers increase, except where a run resumed from an earlier step. */
const struct history_step *history_step_numbered(const struct history *history, uint32_t step)
{
    for (int i = history_step_count(history) - 1; i >= 0; i--)
        if (history_step(history, i)->step == step) return history_step(history, i);
    return NULL;
}

/* ---- gaps ---- */

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

bool history_gap_of(const struct history *history, int rank, uint64_t from_ns, uint64_t to_ns)
{
    for (int i = 0; i < history->gaps; i++) {
        const struct history_gap *gap = &history->gap[i];
        bool concerns = rank < 0 || gap->rank == TRACE_RANK_ALL || gap->rank == rank;
        if (concerns && gap->from_ns < to_ns && gap->to_ns > from_ns) return true;
    }
    return false;
}

bool history_has_gap(const struct history *history, uint64_t from_ns, uint64_t to_ns)
{
    return history_gap_of(history, -1, from_ns, to_ns);
}
