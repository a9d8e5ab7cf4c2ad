/* Who touches what, and in which order for certain: the proof that no lane reads what another is still writing. With it stands
 * that gradients have arrived before they are measured, that a tile is updated before it travels, and that nobody gathers
 * parameters which are on their way. */
#include <stdlib.h>

#include "engine/plan/checker_parts.h"

enum part { PART_ALL, PART_PIECE, PART_TILE };

/* Of a buffer: all of it, elements [first, end) of its unit, or the first-th tile of what the rank updates of it. */
struct access {
    int buffer, op;
    bool writes;
    enum part part;
    int64_t first, end;
};

struct accesses {
    struct access *at;
    int count, room;
    bool failed;
};

static void add(struct accesses *list, struct access access)
{
    if (access.buffer < 0 || list->failed) return;
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 1024;
        struct access *larger = realloc(list->at, (size_t)list->room * sizeof *larger);
        list->failed = !larger;
        if (!larger) return;
        list->at = larger;
    }
    list->at[list->count++] = access;
}

static bool writes(const struct op *op, enum role role)
{
    switch (role) {
    case ROLE_PARAMETERS:
        return op_is_update(op->kind) || op->kind == OP_GATHER || op->kind == OP_HOST_CAST || op->kind == OP_SWAP_IN;
    case ROLE_GRADIENT: return !op_is_update(op->kind);
    case ROLE_TOKENS: return op->kind == OP_LOAD;
    case ROLE_TAIL:
    case ROLE_INPUT:
    case ROLE_SOURCE: return false;
    case ROLE_MASTER:
    case ROLE_STATE1:
    case ROLE_STATE2: return op->kind != OP_SWAP_OUT;
    default: return true; /* backward writes over activations, too */
    }
}

/* Copies between tiers and collectives say by their pieces what they touch. */
static void add_roles(struct accesses *list, const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    const bool by_tile = op_is_update(op->kind) || op->kind == OP_HOST_CAST || op->kind == OP_UPLOAD ||
                         op->kind == OP_STORE || (op_swaps(op->kind) && op->buffer[ROLE_SOURCE] < 0);
    for (int role = 0; role < ROLES && op->piece_count == 0; role++)
        add(list, (struct access){op->buffer[role], i, writes(op, (enum role)role), by_tile ? PART_TILE : PART_ALL,
                                  op->tile, op->tile + 1});
}

/* The other side of a swap: the unit's own arrays on NVMe. */
static void add_swapped(struct accesses *list, const struct schedule *schedule, int i)
{
    static const enum role roles[] = {ROLE_PARAMETERS, ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};
    const struct op *op = &schedule->ops[i];
    if (!op_swaps(op->kind) || !schedule->layout) return;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        if (op->buffer[roles[r]] >= 0)
            add(list, (struct access){layout_array(&schedule->layout[op->unit], roles[r]), i, op->kind == OP_SWAP_OUT,
                                      PART_TILE, op->tile, op->tile + 1});
}

static void add_pieces(struct accesses *list, const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        const int64_t end = piece->first + piece->elems;
        add(list, (struct access){piece->source, i, false, PART_PIECE, piece->first, end});
        add(list, (struct access){piece->destination, i, true, PART_PIECE, piece->first, end});
    }
}

static void add_norm(struct accesses *list, const struct schedule *schedule, int i)
{
    const enum op_kind kind = schedule->ops[i].kind;
    if (kind != OP_GRAD_NORM && kind != OP_HOST_NORM) return;
    for (int b = 0; b < schedule->lasting_count; b++)
        if (schedule->buffers[b].category == CATEGORY_GRADIENTS &&
            (schedule->buffers[b].tier == TIER_HOST) == (kind == OP_HOST_NORM))
            add(list, (struct access){b, i, false, PART_ALL, 0, 0});
}

static int by_buffer(const void *left, const void *right)
{
    const struct access *a = left, *b = right;
    return a->buffer != b->buffer ? (a->buffer > b->buffer) - (a->buffer < b->buffer)
                                  : (a->op > b->op) - (a->op < b->op);
}

static bool conflict(const struct access *a, const struct access *b)
{
    if (a->op == b->op || (!a->writes && !b->writes)) return false;
    if (a->part == PART_ALL || a->part != b->part) return true;
    return a->first < b->end && b->first < a->end;
}

static int check_buffer(const struct checker *checker, const struct access *access, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = i + 1; k < count; k++)
            if (conflict(&access[i], &access[k]) && !checker_ended_before(checker, access[i].op, access[k].op))
                return checker_fail(checker, access[k].op, "touches what an operation above may not be done with",
                                    checker->schedule->buffers[access[i].buffer].name);
    return STATUS_OK;
}

int check_access(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    struct accesses list = {0};
    int status = STATUS_OK;
    for (int i = 0; i < schedule->op_count; i++) {
        add_roles(&list, schedule, i);
        add_pieces(&list, schedule, i);
        add_swapped(&list, schedule, i);
        add_norm(&list, schedule, i);
    }
    if (list.failed) status = error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    else if (list.count) qsort(list.at, (size_t)list.count, sizeof *list.at, by_buffer);
    for (int first = 0, end; first < list.count && status == STATUS_OK; first = end) {
        for (end = first; end < list.count && list.at[end].buffer == list.at[first].buffer;) end++;
        status = check_buffer(checker, &list.at[first], end - first);
    }
    free(list.at);
    return status;
}
