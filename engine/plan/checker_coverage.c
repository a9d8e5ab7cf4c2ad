/* What a step must do once and wholly: reduce every gradient, copy it where it is awaited, refresh every parameter, update every
 * element and put it where it is used. */
#include <stdlib.h>

#include "engine/plan/checker_parts.h"

/* ---- moves: of every unit, all elements, each once -------------------------------------------------------------------- */

struct move {
    int micro_step, op;
    const struct piece *piece;
};

/* The kinds of operations that share in moving something. */
struct moving {
    enum op_kind kind, other;
    const char *what;
    bool among_replicas;
};

static int by_place(const void *left, const void *right)
{
    const struct move *a = left, *b = right;
    if (a->micro_step != b->micro_step) return a->micro_step < b->micro_step ? -1 : 1;
    if (a->piece->unit != b->piece->unit) return a->piece->unit < b->piece->unit ? -1 : 1;
    return (a->piece->first > b->piece->first) - (a->piece->first < b->piece->first);
}

static int list_moves(struct move *moves, const struct schedule *schedule, const struct moving *moving)
{
    int count = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind != moving->kind && op->kind != moving->other) continue;
        if ((op->group == GROUP_REPLICAS) != moving->among_replicas || op->group == GROUP_NODE) continue;
        for (int p = 0; p < op->piece_count; p++)
            moves[count++] = (struct move){op->micro_step, i, &schedule->pieces[op->first_piece + p]};
    }
    if (count) qsort(moves, (size_t)count, sizeof *moves, by_place);
    return count;
}

static int64_t elems_of_all(const struct checker *checker)
{
    int64_t elems = 0;
    for (int u = 0; u < checker->model->unit_count; u++)
        elems += schedule_padded_elems(checker->schedule, checker->model, u);
    return elems;
}

/* Of the units whose own part of the gradients waits for the update in the host tier. Lasting buffers are in the order of units. */
static int64_t elems_on_host(const struct checker *checker)
{
    int64_t elems = 0;
    for (int b = 0, counted = -1; b < checker->schedule->lasting_count; b++) {
        const struct buffer *buffer = &checker->schedule->buffers[b];
        if (buffer->tier != TIER_HOST || buffer->category != CATEGORY_GRADIENTS || buffer->unit == counted) continue;
        counted = buffer->unit;
        elems += schedule_padded_elems(checker->schedule, checker->model, counted);
    }
    return elems;
}

/* One micro-step's, which begin at *at; they are as many elements as there are, and none of them is moved twice. */
static int check_micro_step(const struct checker *checker, const struct moving *moving, int micro_step, int64_t wanted,
                            const struct move *moves, int count, int *at)
{
    int64_t covered = 0;
    while (*at < count && moves[*at].micro_step < micro_step) ++*at;
    for (int first = *at; *at < count && moves[*at].micro_step == micro_step; ++*at) {
        const struct move *move = &moves[*at];
        if (*at > first && move[-1].piece->unit == move->piece->unit &&
            move->piece->first < move[-1].piece->first + move[-1].piece->elems)
            return checker_fail(checker, move->op, "moves an element for the second time", moving->what);
        covered += move->piece->elems;
    }
    return covered == wanted ? STATUS_OK
                             : error_set(checker->err, STATUS_CHECK, "schedule: %s covers %lld of %lld elements",
                                         moving->what, (long long)covered, (long long)wanted);
}

/* In micro-steps [from, end). */
static int check_moves(const struct checker *checker, const struct moving *moving, int from, int end)
{
    struct move *moves = malloc(((size_t)checker->schedule->piece_count + 1) * sizeof *moves);
    if (!moves) return error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    const int64_t all = elems_of_all(checker), on_host = elems_on_host(checker);
    int count = list_moves(moves, checker->schedule, moving), at = 0, status = STATUS_OK;
    for (int m = from; m < end && status == STATUS_OK; m++) {
        /* replicas add up what stays on the device once, after the last micro-step; what leaves for the host, each time */
        const bool is_early = moving->among_replicas && m < checker->schedule->micro_steps - 1,
                   only_host = moving->kind == OP_GRAD_D2H || is_early;
        status = check_micro_step(checker, moving, m, only_host ? on_host : all, moves, count, &at);
    }
    free(moves);
    return status;
}

/* ---- updates ----------------------------------------------------------------------------------------------------------- */

static bool same_part(const struct op *a, const struct op *b)
{
    return a->unit == b->unit && a->tile == b->tile && a->extent == b->extent;
}

/* In fp32 parameters are the master weights, and go to NVMe as those. */
static bool writes_parameters(const struct schedule *schedule, const struct op *op, int b)
{
    const struct unit_layout *layout = &schedule->layout[op->unit];
    return op->kind == OP_SWAP_OUT &&
           (op->buffer[ROLE_PARAMETERS] == b || (op->buffer[ROLE_MASTER] == b && layout->master == layout->parameters));
}

/* By operation: the next one on the same unit, or op_count. NULL: no memory. */
static int *next_on_unit(const struct schedule *schedule, int units)
{
    int *next = malloc((size_t)(schedule->op_count + units) * sizeof *next), *newest = next + schedule->op_count;
    for (int u = 0; next && u < units; u++) newest[u] = schedule->op_count;
    for (int i = schedule->op_count - 1; next && i >= 0; i--) {
        const int u = schedule->ops[i].unit;
        const bool is_known = u >= 0 && u < units;
        next[i] = is_known ? newest[u] : schedule->op_count;
        if (is_known) newest[u] = i;
    }
    return next;
}

/* Parameters that operation i leaves in buffer b are in their place there, or go on from there and get to it. Of a delayed update
 * they go on as master weights, which are read again when it is time for them. */
static bool arrives(const struct schedule *schedule, const int *next, int i, int b)
{
    bool away = false;
    if (schedule->buffers[b].category == CATEGORY_PARAMETERS) return true;
    for (int k = next[i]; k < schedule->op_count; k = next[k]) {
        const struct op *op = &schedule->ops[k];
        if (!same_part(op, &schedule->ops[i])) continue;
        if (writes_parameters(schedule, op, b)) return true;
        away |= op->kind == OP_SWAP_OUT && op->buffer[ROLE_MASTER] == b;
        if (away && op->kind == OP_SWAP_IN && op->buffer[ROLE_MASTER] >= 0)
            return arrives(schedule, next, k, op->buffer[ROLE_MASTER]);
        if (op->buffer[ROLE_SOURCE] != b) continue;
        if (op->kind == OP_UPLOAD || op->kind == OP_STORE) return arrives(schedule, next, k, op->buffer[ROLE_OUTPUT]);
        if (op->kind == OP_HOST_CAST) return arrives(schedule, next, k, op->buffer[ROLE_PARAMETERS]);
    }
    return false;
}

/* Above the update or below it, mostly near. */
static bool is_swapped(const struct schedule *schedule, enum op_kind kind, int by, int i, enum role role)
{
    const struct op *update = &schedule->ops[i];
    for (int k = i + by; k >= 0 && k < schedule->op_count; k += by)
        if (schedule->ops[k].kind == kind && same_part(&schedule->ops[k], update) &&
            schedule->ops[k].buffer[role] == update->buffer[role])
            return true;
    return false;
}

/* States that an update does not find in their place were read for it, and are written after it. */
static bool states_return(const struct schedule *schedule, int i)
{
    static const enum role roles[] = {ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        const int b = schedule->ops[i].buffer[roles[r]];
        if (b < 0 || schedule->buffers[b].lasting) continue;
        if (!is_swapped(schedule, OP_SWAP_IN, -1, i, roles[r]) || !is_swapped(schedule, OP_SWAP_OUT, 1, i, roles[r]))
            return false;
    }
    return true;
}

/* The updates of a unit follow each other over all that the rank updates of it: whole, or its shard. */
static int check_update(struct checker *checker, const int *next, int i, int64_t *at)
{
    const struct op *op = &checker->schedule->ops[i];
    const int last = checker->schedule->ranks - 1;
    int64_t first, end, whole_first, whole_end;
    extent_range(checker->schedule, checker->model, op->unit, op->extent, last, &whole_first, &whole_end);
    update_range(checker->schedule, checker->model, op, last, &first, &end);
    if (first != (*at ? *at : whole_first) || first >= end || end > whole_end)
        return checker_fail(checker, i, "does not update what comes next", checker->model->units[op->unit].name);
    if (!states_return(checker->schedule, i))
        return checker_fail(checker, i, "works on states that are not read from NVMe or not written back",
                            checker->model->units[op->unit].name);
    if (!arrives(checker->schedule, next, i, op->buffer[ROLE_PARAMETERS]))
        return checker_fail(checker, i, "leaves parameters where no operation reads them",
                            checker->model->units[op->unit].name);
    *at = end;
    return STATUS_OK;
}

/* at: by unit, how far it has been updated. */
static int check_updates_to(struct checker *checker, const int *next, int64_t *at)
{
    const struct schedule *schedule = checker->schedule;
    for (int i = 0; i < schedule->op_count; i++)
        if (op_is_update(schedule->ops[i].kind) && check_update(checker, next, i, &at[schedule->ops[i].unit]))
            return STATUS_CHECK;
    for (int u = 0; u < checker->model->unit_count; u++)
        if (at[u] != schedule_padded_elems(schedule, checker->model, u))
            return error_set(checker->err, STATUS_CHECK, "schedule: %s is not updated, or not wholly",
                             checker->model->units[u].name);
    return STATUS_OK;
}

static int check_updates(struct checker *checker)
{
    int64_t *at = calloc((size_t)checker->model->unit_count, sizeof *at);
    int *next = next_on_unit(checker->schedule, checker->model->unit_count);
    int status = at && next ? check_updates_to(checker, next, at)
                            : error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    free(at);
    free(next);
    return status;
}

/* ---- groups ---------------------------------------------------------------------------------------------------------- */

/* The ranks that take part are those that hold, or receive, the parts of what moves. */
static bool in_right_group(const struct checker *checker, const struct op *op)
{
    const struct schedule *schedule = checker->schedule;
    const enum group shards =
        schedule->stage > 0 && schedule_shard_ranks(schedule) < schedule->ranks ? GROUP_SHARDS : GROUP_WORLD;
    const bool hops = schedule->stage > 0 && schedule->knobs.hierarchical && schedule->node_ranks > 1 &&
                      schedule_shard_ranks(schedule) > schedule->node_ranks;
    const struct piece *piece = op->piece_count ? &schedule->pieces[op->first_piece] : NULL;
    switch (op->kind) {
    case OP_GATHER:
        if (piece && schedule->buffers[piece->source].extent == EXTENT_SECONDARY) return op->group == GROUP_PARTITION;
        return hops ? op->group == GROUP_ACROSS || op->group == GROUP_NODE : op->group == shards;
    case OP_REFRESH: return hops ? op->group == GROUP_ACROSS || op->group == GROUP_NODE : op->group == shards;
    case OP_REDUCE_SCATTER:
        if (piece && (dtype_is_quantized(schedule->buffers[piece->source].dtype) ||
                      (hops && shards == GROUP_WORLD && !schedule->knobs.rank_order)))
            return op->group ==
                   (schedule->buffers[piece->destination].extent == EXTENT_NODE_PIECE ? GROUP_NODE : GROUP_ACROSS);
        return op->group == (schedule->knobs.rank_order ? GROUP_WORLD : shards);
    case OP_ALL_REDUCE:
        return op->group == (schedule->stage == 0 || schedule->knobs.rank_order ? GROUP_WORLD : GROUP_REPLICAS);
    default: return op->group == GROUP_WORLD;
    }
}

/* Whether the operation goes on, in place, with what another has left there. */
static bool goes_on(const struct schedule *schedule, const struct op *op, const struct op *from)
{
    bool same = from->piece_count == op->piece_count && from->micro_step == op->micro_step;
    for (int p = 0; same && p < op->piece_count; p++) {
        const struct piece *made = &schedule->pieces[from->first_piece + p],
                           *read = &schedule->pieces[op->first_piece + p];
        same = made->destination == read->source && read->source == read->destination && made->unit == read->unit &&
               made->first == read->first && made->elems == read->elems;
    }
    return same;
}

static bool is_hop(const struct op *op, enum group group)
{
    return (op->kind == OP_GATHER || op->kind == OP_REFRESH) && op->group == group;
}

/* Replicas add up what their shard groups have just reduced to them. Ranks of a node take from each other what they have
 * just received from other nodes, each time that they have. NULL: in order. */
static const char *wrong_sequence(const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i], *before = op - 1;
    const bool adds = op->group == GROUP_REPLICAS, takes = is_hop(op, GROUP_NODE);
    if (is_hop(op, GROUP_ACROSS) && (i + 1 == schedule->op_count || !is_hop(op + 1, GROUP_NODE)))
        return "is not followed by its hop within the node";
    if (!adds && !takes) return NULL;
    if (i > 0 && before->kind == (adds ? OP_REDUCE_SCATTER : op->kind) &&
        before->group == (adds ? GROUP_SHARDS : GROUP_ACROSS) && goes_on(schedule, op, before))
        return NULL;
    return adds ? "does not follow the reduction whose result it adds up"
                : "does not follow the hop across nodes whose result it takes";
}

int check_groups(struct checker *checker)
{
    for (int i = 0; i < checker->schedule->op_count; i++) {
        if (!in_right_group(checker, &checker->schedule->ops[i]))
            return checker_fail(checker, i, "is among the wrong ranks", NULL);
        const char *const wrong = wrong_sequence(checker->schedule, i);
        if (wrong) return checker_fail(checker, i, wrong, NULL);
    }
    return STATUS_OK;
}

int check_coverage(struct checker *checker)
{
    static const struct moving reduction = {OP_REDUCE_SCATTER, OP_ALL_REDUCE, "gradient reduction", false},
                               replicas = {OP_ALL_REDUCE, OP_ALL_REDUCE, "reduction among replicas", true},
                               copy = {OP_GRAD_D2H, OP_GRAD_D2H, "copy of gradients to the host", false},
                               refresh = {OP_REFRESH, OP_REFRESH, "refresh of parameters", false};
    const struct schedule *schedule = checker->schedule;
    if (schedule->purpose != PURPOSE_TRAIN) return STATUS_OK;
    const bool every_time = schedule->stage >= 2 && !schedule->knobs.no_sync;
    const int from = every_time ? 0 : schedule->micro_steps - 1;
    if (check_moves(checker, &reduction, from, schedule->micro_steps) ||
        check_moves(checker, &copy, from, schedule->micro_steps))
        return STATUS_CHECK;
    if (schedule_shard_ranks(schedule) < schedule->ranks && !schedule->knobs.rank_order &&
        check_moves(checker, &replicas, from, schedule->micro_steps))
        return STATUS_CHECK;
    if (schedule->nothing_pending && schedule->knobs.delayed_update) return STATUS_OK;
    if ((schedule->stage == 1 || schedule->stage == 2) && check_moves(checker, &refresh, -1, 0)) return STATUS_CHECK;
    return check_updates(checker);
}
