/* The past of a run in bounded memory: its life, and which part each record belongs to. The parts are history_spans.c
 * (operations), history_memory.c, history_steps.c (steps and gaps) and history_sums.c (what is left of what was dropped). */
#include "engine/observe/history_parts.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_SHARE = 16, GRID_SHIFT = 20 };

struct tape *tape_new(size_t bytes)
{
    struct tape *tape = calloc(1, sizeof *tape);
    if (!tape) return NULL;
    tape->bytes = tape->left.bytes = bytes ? bytes : TAPE_BYTES;
    tape->grid.shift = GRID_SHIFT;
    ring_init(&tape->steps, sizeof(struct tape_entry),
              (int64_t)(tape->bytes / STEPS_SHARE / sizeof(struct tape_entry)));
    return tape;
}

void tape_free(struct tape *tape)
{
    if (!tape) return;
    for (int rank = 0; rank < tape->rank_room; rank++) {
        struct tape_rank *from = tape->ranks[rank];
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
    ring_release(&tape->steps);
    free(tape->ranks);
    free(tape);
}

void *tape_alloc(struct tape *tape, size_t bytes)
{
    void *memory = bytes <= tape->left.bytes ? calloc(1, bytes) : NULL;
    if (memory) tape->left.bytes -= bytes;
    return memory;
}

void tape_dropped_before(struct tape *tape, uint64_t time_ns)
{
    if (time_ns > tape->whole_from_ns) tape->whole_from_ns = time_ns;
}

static bool know_ranks(struct tape *tape, int ranks)
{
    if (ranks <= tape->rank_room) return true;
    size_t more = (size_t)(ranks - tape->rank_room) * sizeof *tape->ranks;
    struct tape_rank **larger = more <= tape->left.bytes ? realloc(tape->ranks, (size_t)ranks * sizeof *larger) : NULL;
    if (!larger) return false;
    memset(larger + tape->rank_room, 0, more);
    tape->left.bytes -= more;
    tape->ranks = larger;
    tape->rank_room = ranks;
    return true;
}

/* The rank a record is about, made known if need be; NULL: none, or no memory for it. */
static struct tape_rank *rank_of(struct tape *tape, const struct run_model *model, unsigned rank)
{
    if ((int)rank >= model->ranks) return NULL;
    struct tape_rank *known = tape_rank_at(tape, (int)rank);
    if (tape->parts && tape->part[tape->parts - 1].ranks < model->ranks)
        tape->part[tape->parts - 1].ranks = model->ranks; /* no header said how many there are */
    if (known || !know_ranks(tape, model->ranks)) return known;
    tape->ranks[rank] = tape_alloc(tape, sizeof **tape->ranks);
    if (!tape->ranks[rank]) tape_dropped_before(tape, UINT64_MAX); /* nothing of it is kept */
    else tape->ranks[rank]->step = -1;
    return tape->ranks[rank];
}

/* The oldest two become one, if there are too many: with as many ranks as either. */
static void add_part(struct tape *tape, const struct tape_part *part)
{
    if (tape->parts == RUN_PARTS_MAX) {
        tape->part[1].begun_ns = tape->part[0].begun_ns;
        if (tape->part[1].ranks < tape->part[0].ranks) tape->part[1].ranks = tape->part[0].ranks;
        memmove(tape->part, tape->part + 1, (size_t)--tape->parts * sizeof *tape->part);
    }
    tape->part[tape->parts++] = *part;
}

/* If the model has come to another one. The ranks before have ended, and hold nothing more. */
static void begin_part(struct tape *tape, const struct run_model *model)
{
    const struct run_part *part = run_present_part(model);
    if (!part || part->number + 1 == tape->part_number) return;
    for (int rank = 0; tape->part_number && rank < tape->rank_room; rank++)
        if (tape->ranks[rank]) tape_memory_ends(tape, tape->ranks[rank], tape->rank_room, part->begun_ns);
    add_part(tape, &(struct tape_part){part->begun_ns, model->ranks});
    tape->part_number = part->number + 1;
}

static void fold_gap(struct tape *tape, const struct trace_record *record)
{
    tape_gap_add(tape, record->rank, record->gap.since_ns, record->time_ns);
}

void tape_fold(struct tape *tape, const struct run_model *model, const struct trace_record *record)
{
    if (!tape->first_ns) tape->first_ns = tape->grid.origin_ns = record->time_ns;
    if (record->time_ns > tape->last_ns) tape->last_ns = record->time_ns;
    if (record->kind == TRACE_GAP) fold_gap(tape, record);
    begin_part(tape, model);
    if (record->kind != TRACE_IO && (record->kind < TRACE_STEP_BEGIN || record->kind > TRACE_MEMORY)) return;
    struct tape_rank *rank = rank_of(tape, model, record->rank);
    if (!rank) return;
    switch (record->kind) {
    case TRACE_STEP_BEGIN: tape_step_begin(tape, rank, record); break;
    case TRACE_STEP_END: tape_step_end(tape, rank, model, record); break;
    case TRACE_OP_BEGIN: tape_op_begin(tape, rank, model, record); break;
    case TRACE_OP_END: tape_op_end(tape, rank, model, record); break;
    case TRACE_IO: tape_io_add(tape, rank, model, record); break;
    case TRACE_MEMORY: tape_memory(tape, rank, model->ranks, record); break;
    default: break;
    }
}

/* What was before the first header is of its part. */
int tape_ranks(const struct tape *tape, uint64_t from_ns, uint64_t to_ns)
{
    int most = 0;
    if (!tape->parts) return tape->rank_room;
    for (int i = 0; i < tape->parts; i++) {
        bool begins = i == 0 || tape->part[i].begun_ns < to_ns;
        bool ends = i + 1 < tape->parts && tape->part[i + 1].begun_ns <= from_ns;
        if (begins && !ends && tape->part[i].ranks > most) most = tape->part[i].ranks;
    }
    return most < tape->rank_room ? most : tape->rank_room;
}

uint64_t tape_first_ns(const struct tape *tape)
{
    return tape->first_ns;
}

uint64_t tape_last_ns(const struct tape *tape)
{
    return tape->last_ns;
}

uint64_t tape_whole_from(const struct tape *tape)
{
    return tape->whole_from_ns > tape->first_ns ? tape->whole_from_ns : tape->first_ns;
}
