/* Who touches what, and in which order for certain: the proof that no lane reads what another is still writing. With it stands
 * that gradients have arrived before they are measured, that a tile is updated before it travels, and that nobody gathers
 * parameters which are on their way; and that buffers which share addresses follow each other. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/plan/checker_parts.h"

enum part { PART_ALL, PART_PIECE, PART_TILE, PARTS };

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

/* A line (elements of a unit, addresses) cut wherever a range of it begins or ends, and what was done to each region between
 * two cuts. With these, a schedule is checked in one pass instead of by pairs of operations. */
struct region {
    struct latest read, written;
};

struct regions {
    int64_t *cut;
    int count, room;
    struct region *at;
    int at_room;
    bool failed;
}; /* begins zeroed */

static void regions_release(struct regions *regions)
{
    free(regions->cut);
    free(regions->at);
}

static void regions_cut(struct regions *regions, int64_t first, int64_t end)
{
    if (!array_grow((void **)&regions->cut, regions->count + 1, &regions->room, sizeof *regions->cut)) {
        regions->failed = true;
        return;
    }
    regions->cut[regions->count++] = first;
    regions->cut[regions->count++] = end;
}

static int ascending(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static bool make_regions(struct regions *regions)
{
    if (regions->count > regions->at_room) {
        free(regions->at);
        regions->at = malloc((size_t)regions->count * sizeof *regions->at);
        regions->at_room = regions->at ? regions->count : 0;
        regions->failed |= !regions->at;
    }
    if (!regions->failed && regions->count) memset(regions->at, -1, (size_t)regions->count * sizeof *regions->at);
    return !regions->failed;
}

/* After the last cut: nothing has been done. False: no memory. */
static bool regions_begin(struct regions *regions)
{
    int kept = 0;
    if (regions->count) qsort(regions->cut, (size_t)regions->count, sizeof *regions->cut, ascending);
    for (int i = 0; i < regions->count; i++)
        if (!kept || regions->cut[i] != regions->cut[kept - 1]) regions->cut[kept++] = regions->cut[i];
    regions->count = kept;
    return make_regions(regions);
}

static int place(const struct regions *regions, int64_t cut)
{
    const int64_t *found = bsearch(&cut, regions->cut, (size_t)regions->count, sizeof cut, ascending);
    return (int)(found - regions->cut);
}

/* A range that was cut. */
static void regions_find(const struct regions *regions, int64_t first, int64_t end, int *from, int *to)
{
    *from = place(regions, first);
    *to = place(regions, end);
}

static void latest_add(struct latest *latest, enum lane lane, int op)
{
    if (op > latest->op[lane]) latest->op[lane] = op;
}

static void add(struct accesses *list, struct access access)
{
    if (access.buffer < 0 || list->failed) return;
    list->failed = !array_grow((void **)&list->at, list->count, &list->room, sizeof *list->at);
    if (!list->failed) list->at[list->count++] = access;
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

/* The other side of a swap: the unit's own arrays on NVMe. Until a pending update has been written it may have to be made again,
 * of the same gradient. */
static void add_swapped(struct accesses *list, const struct schedule *schedule, int i, int agreement)
{
    static const enum role roles[] = {ROLE_PARAMETERS, ROLE_MASTER, ROLE_STATE1, ROLE_STATE2};
    const struct op *op = &schedule->ops[i];
    if (!op_swaps(op->kind) || !schedule->layout) return;
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
        if (op->buffer[roles[r]] >= 0)
            add(list, (struct access){layout_array(&schedule->layout[op->unit], roles[r]), i, op->kind == OP_SWAP_OUT,
                                      PART_TILE, op->tile, op->tile + 1});
    if (i < agreement && op->kind == OP_SWAP_OUT)
        add(list, (struct access){schedule->layout[op->unit].gradient, i, false, PART_ALL, 0, 0});
}

static void add_pieces(struct accesses *list, const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        const int64_t end = piece->first + piece->elems;
        add(list, (struct access){piece->source, i, false, PART_PIECE, piece->first, end});
        add(list, (struct access){piece->destination, i, true, PART_PIECE, piece->first, end});
        if (op->kind == OP_QUANTIZE && op->bucket >= 0 && schedule->layout)
            add(list, (struct access){schedule->layout[piece->unit].errors, i, true, PART_PIECE, piece->first, end});
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

/* What has been done to one buffer: to all of it, to the regions of its pieces and of its tiles, and to any of these. Parts of
 * different kinds are taken to meet. */
struct touched {
    struct region any[PARTS];
    struct regions regions[PARTS]; /* of pieces and of tiles */
};

/* Reads come after writes, writes after both. */
static bool comes_after(const struct checker *checker, const struct access *access, const struct region *region)
{
    return checker_all_before(checker, &region->written, access->op) &&
           (!access->writes || checker_all_before(checker, &region->read, access->op));
}

static void note(const struct checker *checker, const struct access *access, struct region *region)
{
    latest_add(access->writes ? &region->written : &region->read, checker->schedule->ops[access->op].lane, access->op);
}

static bool is_in_order(const struct checker *checker, const struct access *access, const struct touched *touched)
{
    int from, to;
    for (enum part part = 0; part < PARTS; part++)
        if ((part == PART_ALL || part != access->part) && !comes_after(checker, access, &touched->any[part]))
            return false;
    if (access->part == PART_ALL) return true;
    regions_find(&touched->regions[access->part], access->first, access->end, &from, &to);
    for (int r = from; r < to; r++)
        if (!comes_after(checker, access, &touched->regions[access->part].at[r])) return false;
    return true;
}

static void remember(const struct checker *checker, const struct access *access, struct touched *touched)
{
    int from, to;
    note(checker, access, &touched->any[access->part]);
    if (access->part == PART_ALL) return;
    regions_find(&touched->regions[access->part], access->first, access->end, &from, &to);
    for (int r = from; r < to; r++) note(checker, access, &touched->regions[access->part].at[r]);
}

static bool begin_buffer(struct touched *touched, const struct access *access, int count)
{
    memset(touched->any, -1, sizeof touched->any);
    for (enum part part = PART_PIECE; part < PARTS; part++) {
        touched->regions[part].count = 0;
        for (int i = 0; i < count; i++)
            if (access[i].part == part) regions_cut(&touched->regions[part], access[i].first, access[i].end);
        if (!regions_begin(&touched->regions[part])) return false;
    }
    return true;
}

/* An operation may touch a buffer in several ways at a time, so it counts when all of them have been looked at. */
static int check_buffer(const struct checker *checker, struct touched *touched, const struct access *access, int count)
{
    if (!begin_buffer(touched, access, count))
        return error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    for (int first = 0, end; first < count; first = end) {
        for (end = first; end < count && access[end].op == access[first].op; end++)
            if (!is_in_order(checker, &access[end], touched))
                return checker_fail(checker, access[end].op, "touches what an operation above may not be done with",
                                    checker->schedule->buffers[access[end].buffer].name);
        for (int i = first; i < end; i++) remember(checker, &access[i], touched);
    }
    return STATUS_OK;
}

static int check_all(const struct checker *checker, const struct accesses *list, struct touched *touched)
{
    int status = STATUS_OK;
    for (int first = 0, end; first < list->count && status == STATUS_OK; first = end) {
        for (end = first; end < list->count && list->at[end].buffer == list->at[first].buffer;) end++;
        status = check_buffer(checker, touched, &list->at[first], end - first);
    }
    return status;
}

int check_access(struct checker *checker)
{
    const struct schedule *schedule = checker->schedule;
    const int agreement = schedule_agreement(schedule);
    struct accesses list = {0};
    struct touched touched = {0};
    for (int i = 0; i < schedule->op_count; i++) {
        add_roles(&list, schedule, i);
        add_pieces(&list, schedule, i);
        add_swapped(&list, schedule, i, agreement);
        add_norm(&list, schedule, i);
    }
    if (list.count) qsort(list.at, (size_t)list.count, sizeof *list.at, by_buffer);
    int status = list.failed ? error_set(checker->err, STATUS_RUN, "no memory to check a schedule")
                             : check_all(checker, &list, &touched);
    for (enum part part = PART_PIECE; part < PARTS; part++) regions_release(&touched.regions[part]);
    free(list.at);
    return status;
}

/* ---- addresses: buffers of one tier and category that share some follow each other ----
 *
 * An operation that takes a buffer starts after the operations that gave back earlier buffers at these addresses have ended. */

struct stay {
    const struct buffer *buffer;
    int number, taken_by, given_by;
};

static bool same_place(const struct buffer *a, const struct buffer *b)
{
    return a->tier == b->tier && a->category == b->category;
}

static int by_place_and_time(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    if (a->buffer->tier != b->buffer->tier) return a->buffer->tier < b->buffer->tier ? -1 : 1;
    if (a->buffer->category != b->buffer->category) return a->buffer->category < b->buffer->category ? -1 : 1;
    if (a->taken_by != b->taken_by) return a->taken_by < b->taken_by ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static void extent(const struct stay *stay, int64_t *first, int64_t *end)
{
    *first = (int64_t)stay->buffer->offset;
    *end = *first + stay->buffer->bytes;
}

/* In the order in which they are taken. Who gave a region back is its writer; a lasting buffer is given back after the end. */
static int check_place(const struct checker *checker, struct regions *regions, const struct stay *stay, int count)
{
    const struct schedule *schedule = checker->schedule;
    int64_t first, end;
    int from, to;
    regions->count = 0; /* another line: no cuts */
    for (int i = 0; i < count; i++) {
        extent(&stay[i], &first, &end);
        regions_cut(regions, first, end);
    }
    if (!regions_begin(regions)) return error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    for (int i = 0; i < count; i++) {
        const int giver = stay[i].given_by;
        extent(&stay[i], &first, &end);
        regions_find(regions, first, end, &from, &to);
        for (int r = from; r < to; r++) {
            struct latest *given = &regions->at[r].written;
            if (!checker_all_before(checker, given, stay[i].taken_by))
                return error_set(checker->err, STATUS_CHECK,
                                 "schedule: buffer %d (%s) has addresses of one that may still be held", stay[i].number,
                                 stay[i].buffer->name);
            latest_add(given, giver < schedule->op_count ? schedule->ops[giver].lane : 0, giver);
        }
    }
    return STATUS_OK;
}

static int check_places(const struct checker *checker, struct stay *stay, struct regions *regions)
{
    const struct schedule *schedule = checker->schedule;
    const int count = schedule->buffer_count;
    int status = STATUS_OK;
    for (int b = 0; b < count; b++)
        stay[b] = (struct stay){&schedule->buffers[b], b, checker->taken_by[b], checker->given_by[b]};
    qsort(stay, (size_t)count, sizeof *stay, by_place_and_time);
    for (int first = 0, end; first < count && status == STATUS_OK; first = end) {
        for (end = first; end < count && same_place(stay[end].buffer, stay[first].buffer);) end++;
        status = check_place(checker, regions, &stay[first], end - first);
    }
    return status;
}

int check_addresses(struct checker *checker)
{
    struct regions regions = {0};
    struct stay *stay = calloc((size_t)checker->schedule->buffer_count, sizeof *stay);
    int status = stay ? check_places(checker, stay, &regions)
                      : error_set(checker->err, STATUS_RUN, "no memory to check a schedule");
    regions_release(&regions);
    free(stay);
    return status;
}
