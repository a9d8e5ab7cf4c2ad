/* When each step was, over all ranks, and where records were lost. A step that ran out of memory and was taken again has
 * an entry for each attempt. */
#include "engine/observe/history_parts.h"

/* ---- steps ---- */

static struct tape_entry *entry_at(const struct tape *tape, int64_t number)
{
    return ring_at(&tape->steps, number);
}

/* A rank joins the newest entry, unless it has already begun that one (then this is another attempt). Steps before the last
 * whose ends were lost are over too. */
void tape_step_begin(struct tape *tape, struct tape_rank *rank, const struct trace_record *record)
{
    const struct trace_of_step_begin *from = &record->step_begin;
    int64_t newest = ring_end(&tape->steps) - 1;
    struct tape_entry *entry = entry_at(tape, newest);
    if (!entry || entry->step.step != from->step || rank->step == newest) {
        if (entry && record->time_ns < entry->step.begun_ns) return; /* not in order of time: not to be trusted */
        struct tape_entry *before = entry_at(tape, newest - 1);
        if (before && !before->step.ended_ns && before->last_end_ns) before->step.ended_ns = before->last_end_ns;
        entry = ring_push(&tape->steps, &tape->left);
        if (!entry) return;
        *entry = (struct tape_entry){.step = {from->step, from->schedule, from->stage, record->time_ns, 0}};
        newest = ring_end(&tape->steps) - 1;
    }
    entry->begun++;
    rank->step = newest;
}

void tape_step_end(struct tape *tape, struct tape_rank *rank, const struct run_model *model,
                   const struct trace_record *record)
{
    struct tape_entry *entry = entry_at(tape, rank->step);
    if (!entry || entry->step.step != record->step_end.step || entry->step.ended_ns) return;
    if (record->time_ns > entry->last_end_ns) entry->last_end_ns = record->time_ns;
    if (++entry->ended >= model->ranks) entry->step.ended_ns = entry->last_end_ns;
}

int tape_step_count(const struct tape *tape)
{
    return (int)tape->steps.count;
}

const struct tape_step *tape_step(const struct tape *tape, int number)
{
    const struct tape_entry *entry = entry_at(tape, tape->steps.first + number);
    return entry ? &entry->step : NULL;
}

const struct tape_step *tape_step_at(const struct tape *tape, uint64_t time_ns)
{
    int low = 0, high = tape_step_count(tape); /* the first that begins after time_ns lies in [low, high] */
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (tape_step(tape, middle)->begun_ns <= time_ns) low = middle + 1;
        else high = middle;
    }
    return low ? tape_step(tape, low - 1) : NULL;
}

/* Newest attempt first; steps count up, save where a run was taken up again from an earlier one. */
const struct tape_step *tape_step_numbered(const struct tape *tape, uint32_t step)
{
    for (int i = tape_step_count(tape) - 1; i >= 0; i--)
        if (tape_step(tape, i)->step == step) return tape_step(tape, i);
    return NULL;
}

/* ---- gaps ---- */

void tape_gap_add(struct tape *tape, uint16_t rank, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns < tape->first_ns) from_ns = tape->first_ns;
    if (to_ns < from_ns) return;
    struct tape_gap *newest = tape->gaps ? &tape->gap[tape->gaps - 1] : NULL;
    if (newest && newest->rank == rank && from_ns <= newest->to_ns && from_ns >= newest->from_ns) {
        if (to_ns > newest->to_ns) newest->to_ns = to_ns;
        return;
    }
    if (tape->gaps ==
        GAPS_KEPT) { /* the two oldest become one, of all ranks: rather too much unknown than too little */
        tape->gap[1].rank = TRACE_RANK_ALL;
        if (tape->gap[0].from_ns < tape->gap[1].from_ns) tape->gap[1].from_ns = tape->gap[0].from_ns;
        if (tape->gap[0].to_ns > tape->gap[1].to_ns) tape->gap[1].to_ns = tape->gap[0].to_ns;
        for (int i = 1; i < GAPS_KEPT; i++) tape->gap[i - 1] = tape->gap[i];
        tape->gaps--;
    }
    tape->gap[tape->gaps++] = (struct tape_gap){rank, from_ns, to_ns};
}

bool tape_gap_of(const struct tape *tape, int rank, uint64_t from_ns, uint64_t to_ns)
{
    for (int i = 0; i < tape->gaps; i++) {
        const struct tape_gap *gap = &tape->gap[i];
        bool concerns = rank < 0 || gap->rank == TRACE_RANK_ALL || gap->rank == rank;
        if (concerns && gap->from_ns < to_ns && gap->to_ns > from_ns) return true;
    }
    return false;
}

bool tape_has_gap(const struct tape *tape, uint64_t from_ns, uint64_t to_ns)
{
    return tape_gap_of(tape, -1, from_ns, to_ns);
}
