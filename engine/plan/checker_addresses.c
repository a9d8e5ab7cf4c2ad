/* Buffers of one tier and category that share addresses follow each other: whoever takes one starts after all who gave back an
 * earlier one there have ended. */
#include <stdlib.h>

#include "engine/plan/checker_parts.h"

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
    regions_clear(regions);
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
