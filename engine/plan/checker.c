/* The checks of a schedule, and those that look at one operation at a time. checker_access.c and
 * checker_coverage.c have those that compare operations with each other. */
#include "engine/plan/checker_parts.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/model.h"

int checker_fail(const struct checker *checker, int op, const char *what, const char *detail)
{
    return error_set(checker->err, STATUS_CHECK, "schedule, operation %d (%s): %s%s%s", op,
                     op_name(checker->schedule->ops[op].kind, checker->schedule->ops[op].use), what, detail ? ": " : "",
                     detail ? detail : "");
}

/* For certain. op_count, as an earlier one, is the end of the step: before nothing. */
static bool ended_before(const struct checker *checker, int earlier, int op)
{
    if (earlier < 0 || earlier == checker->schedule->op_count) return false;
    return checker->past[op].done[checker->schedule->ops[earlier].lane] >= earlier;
}

bool checker_all_before(const struct checker *checker, const struct latest *latest, int op)
{
    for (int lane = 0; lane < LANES; lane++)
        if (latest->op[lane] >= 0 && !ended_before(checker, latest->op[lane], op)) return false;
    return true;
}

static int check_order(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    int last[LANES];
    for (int lane = 0; lane < LANES; lane++) last[lane] = -1;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        struct lanes_done *past = &checker->past[i];
        for (int lane = 0; lane < LANES; lane++)
            past->done[lane] = last[op->lane] < 0 ? -1 : checker->past[last[op->lane]].done[lane];
        past->done[op->lane] = last[op->lane];
        for (int d = 0; d < op->dependency_count; d++) {
            int on = op->dependency[d].op;
            if (on < 0 || on >= i)
                return checker_fail(checker, i, "depends on an operation that does not stand above it", NULL);
            for (int lane = 0; lane < LANES; lane++) {
                int known = lane == (int)schedule->ops[on].lane ? on : checker->past[on].done[lane];
                if (known > past->done[lane]) past->done[lane] = known;
            }
        }
        last[op->lane] = i;
    }
    return STATUS_OK;
}

static int check_lives(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    for (int b = 0; b < schedule->buffer_count; b++) {
        checker->taken_by[b] = b < schedule->lasting_count ? -1 : -2; /* -2: not yet */
        checker->given_by[b] = schedule->op_count;
    }
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++) {
            int b = schedule->effects[op->first_take + t];
            if (checker->taken_by[b] != -2)
                return checker_fail(checker, i, "takes a buffer for the second time", schedule->buffers[b].name);
            checker->taken_by[b] = i;
        }
        for (int g = 0; g < op->give_count; g++) {
            int b = schedule->effects[op->first_give + g];
            if (checker->taken_by[b] < 0 || checker->given_by[b] != schedule->op_count)
                return checker_fail(checker, i, "gives back a buffer that is not held", schedule->buffers[b].name);
            checker->given_by[b] = i;
        }
    }
    for (int b = schedule->lasting_count; b < schedule->buffer_count; b++)
        if (checker->taken_by[b] < 0 || checker->given_by[b] == schedule->op_count)
            return error_set(checker->err, STATUS_CHECK, "schedule: buffer %d (%s) is never %s", b,
                             schedule->buffers[b].name, checker->taken_by[b] < 0 ? "taken" : "given back");
    return STATUS_OK;
}

/* Operation i uses buffer b: it must be held, for certain, from i's start to i's end. */
static int check_use(struct checker *checker, int i, int b)
{
    if (b < 0 || checker->schedule->buffers[b].lasting) return STATUS_OK;
    int taker = checker->taken_by[b], giver = checker->given_by[b];
    if (taker != i && !ended_before(checker, taker, i))
        return checker_fail(checker, i, "uses a buffer before it is taken and filled",
                            checker->schedule->buffers[b].name);
    if (giver != i && !ended_before(checker, i, giver))
        return checker_fail(checker, i, "uses a buffer that may be given back meanwhile",
                            checker->schedule->buffers[b].name);
    return STATUS_OK;
}

static int check_uses(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int role = 0; role < ROLES; role++)
            if (check_use(checker, i, op->buffer[role])) return STATUS_CHECK;
        for (int p = 0; p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            if (check_use(checker, i, piece->source) || check_use(checker, i, piece->destination)) return STATUS_CHECK;
        }
    }
    return STATUS_OK;
}

/* In the chain of outputs; a copy of an output has the place of its unit's own use. */
static int place_of(const struct checker *checker, const struct op *op)
{
    return op->use ? model_place(checker->model, op->use, op->unit) : checker->model->units[op->unit].place;
}

/* A checkpoint that is copied between tiers is what its unit put out, or the copy of that. */
static int check_copy(const struct checker *checker, int i)
{
    const struct op *op = &checker->schedule->ops[i];
    if (op->kind != OP_OFFLOAD && op->kind != OP_FETCH) return STATUS_OK;
    const int source = op->buffer[ROLE_SOURCE], taker = source < 0 ? -1 : checker->taken_by[source];
    const struct op *maker = taker < 0 ? NULL : &checker->schedule->ops[taker]; /* a lasting buffer has no taker */
    if (maker && maker->unit >= 0 && maker->micro_step == op->micro_step &&
        op->unit == model_unit_at(checker->model, place_of(checker, maker)) &&
        maker->buffer[ROLE_OUTPUT] == op->buffer[ROLE_SOURCE] && (maker->kind == OP_OFFLOAD) == (op->kind == OP_FETCH))
        return STATUS_OK;
    return checker_fail(checker, i, "copies what its unit did not put out", NULL);
}

/* Whether `maker` made for `op` what stands in its buffer of a role. A tile of an MLP reads what its block saved, and adds to the
 * output and the gradient that another tile began. */
static bool made_for(const struct checker *checker, const struct op *maker, const struct op *op, enum role role)
{
    const struct unit *unit = &checker->model->units[op->unit];
    const bool reads_block = model_is_tile(checker->model, op->unit) && role == ROLE_INPUT;
    const enum role made_as = reads_block ? ROLE_ACTIVATION : role == ROLE_INPUT ? ROLE_OUTPUT : role;
    if (maker->micro_step != op->micro_step || maker->unit < 0 || maker->buffer[made_as] != op->buffer[role])
        return false;
    if (reads_block) return maker->unit == model_block(checker->model, unit->block);
    const int behind = place_of(checker, op) - place_of(checker, maker);
    if (role == ROLE_OUTPUT || role == ROLE_NORMED) return behind == 0;
    return role == ROLE_INPUT ? behind == 1 : maker->unit == op->unit;
}

/* What a use reads was made for it: its input is the output of the use before, what was saved was saved by the forward of
 * the same unit, first or again, and all in the same micro-step. */
static int check_activations(struct checker *checker)
{
    static const enum role roles[] = {ROLE_INPUT, ROLE_ATTENTION, ROLE_ACTIVATION, ROLE_OUTPUT, ROLE_NORMED};
    for (int i = 0; i < checker->schedule->op_count; i++) {
        const struct op *op = &checker->schedule->ops[i];
        if (check_copy(checker, i)) return STATUS_CHECK;
        for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
            const int b = op->buffer[roles[r]];
            if (b < 0 || checker->schedule->buffers[b].lasting) continue;
            if (checker->taken_by[b] == i && roles[r] != ROLE_INPUT) continue; /* it makes it itself */
            if (!made_for(checker, &checker->schedule->ops[checker->taken_by[b]], op, roles[r]))
                return checker_fail(checker, i, "uses what was not made for it", checker->schedule->buffers[b].name);
        }
    }
    return STATUS_OK;
}

/* Every take waits for every give to its tier above it: it is enough to look at the last giver of each lane. */
static int check_take(const struct checker *checker, int i, const int last_giver[LANES])
{
    for (int lane = 0; lane < LANES; lane++)
        if (last_giver[lane] >= 0 && !ended_before(checker, last_giver[lane], i))
            return checker_fail(
                checker, i, "takes memory before an operation above has given back its own",
                op_name(checker->schedule->ops[last_giver[lane]].kind, checker->schedule->ops[last_giver[lane]].use));
    return STATUS_OK;
}

static int check_memory_order(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    int last_giver[TIERS][LANES];
    memset(last_giver, -1, sizeof last_giver);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++)
            if (check_take(checker, i, last_giver[schedule->buffers[schedule->effects[op->first_take + t]].tier]))
                return STATUS_CHECK;
        for (int g = 0; g < op->give_count; g++)
            last_giver[schedule->buffers[schedule->effects[op->first_give + g]].tier][op->lane] = i;
    }
    return STATUS_OK;
}

/* ---- secondary copies ---- */

static const struct piece *only_piece(const struct checker *checker, const struct op *op)
{
    return op->piece_count == 1 ? &checker->schedule->pieces[op->first_piece] : NULL;
}

static const struct op *maker_of(const struct checker *checker, int buffer)
{
    return checker->taken_by[buffer] < 0 ? NULL : &checker->schedule->ops[checker->taken_by[buffer]];
}

/* `made` holds what `wanted` reads: of the same unit, as much of it. */
static bool covers(const struct piece *made, const struct piece *wanted)
{
    return made && wanted && made->unit == wanted->unit && made->first <= wanted->first &&
           made->first + made->elems >= wanted->first + wanted->elems;
}

/* A gather from a secondary copy finds there what an earlier gather of the same unit from all ranks brought; and no update of the step
 * has made that old. */
static int check_secondary(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    bool updated = false;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        updated |= op_is_update(op->kind) && !schedule->knobs.delayed_update;
        if (op->group != GROUP_PARTITION) continue;
        const struct piece *read = only_piece(checker, op);
        const struct op *kept = read ? maker_of(checker, read->source) : NULL;
        const struct piece *keeps = kept && kept->kind == OP_SECONDARY ? only_piece(checker, kept) : NULL;
        const struct op *gathered = keeps ? maker_of(checker, keeps->source) : NULL;
        const bool brings = gathered && (gathered->kind == OP_GATHER || gathered->kind == OP_DEQUANTIZE);
        const struct piece *brought = brings ? only_piece(checker, gathered) : NULL;
        if (updated || !covers(keeps, read) || !covers(brought, keeps) || gathered->group == GROUP_PARTITION)
            return checker_fail(checker, i, "gathers from a secondary copy that does not hold the unit", NULL);
    }
    return STATUS_OK;
}

/* ---- quantized arrays ---- */

/* Whether what a piece reads was made from the same elements by an operation of this kind. */
static const struct op *made_by(const struct checker *checker, const struct piece *read, enum op_kind kind)
{
    const struct op *maker = read && read->source >= 0 ? maker_of(checker, read->source) : NULL;
    for (int p = 0; maker && maker->kind == kind && p < maker->piece_count; p++) {
        const struct piece *made = &checker->schedule->pieces[maker->first_piece + p];
        if (made->destination == read->source && made->unit == read->unit && made->first == read->first &&
            made->elems == read->elems)
            return maker;
    }
    return NULL;
}

/* Blocks that are unpacked were gathered, and those quantized, of the same elements; so were blocks, or sums of a node, that are
 * summed up. */
static bool has_blocks(const struct checker *checker, const struct op *op, const struct piece *piece)
{
    if (op->kind == OP_DEQUANTIZE) {
        const struct op *gathered = made_by(checker, piece, OP_GATHER);
        return gathered && made_by(checker, only_piece(checker, gathered), OP_QUANTIZE);
    }
    if (op->group == GROUP_NODE || checker->schedule->node_ranks == 1) return made_by(checker, piece, OP_QUANTIZE);
    return made_by(checker, piece, OP_REDUCE_SCATTER);
}

static int check_quantized(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int p = 0; p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            const struct buffer *source = &schedule->buffers[piece->source];
            if (op->kind == OP_GATHER || (!dtype_is_quantized(source->dtype) && source->extent != EXTENT_NODE_PIECE))
                continue;
            if (!has_blocks(checker, op, piece))
                return checker_fail(checker, i, "reads blocks that were not made of the same elements", NULL);
        }
    }
    return STATUS_OK;
}

/* ---- limits and lanes ---- */

static bool communicates(const struct op *op)
{
    return op->kind == OP_GATHER || op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE ||
           op->kind == OP_REFRESH || op->kind == OP_AGREE;
}

static bool single_tensor(const struct checker *checker, const struct op *op)
{
    const struct piece *piece = &checker->schedule->pieces[op->first_piece];
    const struct unit *unit = &checker->model->units[piece->unit];
    int touched = 0;
    for (int t = 0; t < unit->tensor_count; t++)
        touched += unit->tensors[t].offset < piece->first + piece->elems &&
                   piece->first < unit->tensors[t].offset + unit->tensors[t].elems;
    return op->piece_count == 1 && touched == 1;
}

static int check_limits(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    int64_t gathered = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        int64_t elems = 0;
        if (communicates(op) != (op->lane == LANE_COMM))
            return checker_fail(checker, i, "stands on the wrong lane", lane_name(op->lane));
        for (int p = 0; p < op->piece_count; p++) elems += schedule->pieces[op->first_piece + p].elems;
        if ((op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE) &&
            elems > schedule->knobs.reduce_bucket_elems && !single_tensor(checker, op))
            return checker_fail(checker, i, "is larger than reduce_bucket_size", NULL);
        if (op->kind == OP_GATHER && op->group != GROUP_NODE) gathered += elems; /* no second hop */
        if (op->prefetch && op->kind == OP_GATHER && gathered > schedule->knobs.max_live_parameters)
            return checker_fail(checker, i, "prefetches beyond stage3_max_live_parameters", NULL);
        for (int g = 0; g < op->give_count; g++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_give + g]];
            if (buffer->category == CATEGORY_GATHERED) gathered -= buffer->bytes / dtype_bytes(buffer->dtype);
        }
    }
    return STATUS_OK;
}

int schedule_check(const struct schedule *schedule, const struct model *model, struct error *err)
{
    struct checker checker = {.schedule = schedule, .model = model, .err = err};
    checker.past = calloc((size_t)schedule->op_count, sizeof *checker.past);
    checker.taken_by = calloc((size_t)schedule->buffer_count, sizeof *checker.taken_by);
    checker.given_by = calloc((size_t)schedule->buffer_count, sizeof *checker.given_by);
    static int (*const checks[])(struct checker *) = {
        check_order,     check_lives,     check_uses,      check_activations, check_access,   check_memory_order,
        check_addresses, check_secondary, check_quantized, check_groups,      check_coverage, check_limits};
    int status = checker.past && checker.taken_by && checker.given_by
                     ? STATUS_OK
                     : error_set(err, STATUS_RUN, "no memory to check a schedule");
    for (size_t c = 0; status == STATUS_OK && c < sizeof checks / sizeof *checks; c++) status = checks[c](&checker);
    free(checker.past);
    free(checker.taken_by);
    free(checker.given_by);
    return status;
}
