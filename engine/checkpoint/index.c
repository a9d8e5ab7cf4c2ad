#include "engine/checkpoint/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranges ---- */

static bool range_is_good(const struct model *model, const struct shard_head *head, const struct shard_range *range)
{
    if (range->unit >= (uint32_t)model->unit_count || range->array >= STATE_ARRAYS) return false;
    const int64_t elems = model->units[range->unit].elems;
    return range->first >= 0 && range->elems > 0 && range->first < elems && range->elems <= elems - range->first &&
           range->offset % sizeof(float) == 0 && range->offset <= head->value_bytes &&
           (uint64_t)range->elems <= (head->value_bytes - range->offset) / sizeof(float);
}

int index_add(struct index *index, const struct model *model, int shard, const struct shard_head *head,
              const uint8_t *table, struct error *err)
{
    if (head->ranges == 0) return STATUS_OK;
    struct index_piece *pieces = realloc(index->pieces, (index->count + head->ranges) * sizeof *pieces);
    if (!pieces) return error_set(err, STATUS_RUN, "no memory for the ranges of a checkpoint");
    index->pieces = pieces;
    for (uint32_t r = 0; r < head->ranges; r++) {
        struct index_piece *piece = &pieces[index->count++];
        piece->shard = shard;
        shard_range_read(&piece->range, table + (size_t)r * RANGE_BYTES);
        if (!range_is_good(model, head, &piece->range))
            return error_set(err, STATUS_INPUT, "a range in its table is not of this model");
    }
    return STATUS_OK;
}

/* ---- order ---- */

static int compare(const struct shard_range *a, uint32_t unit, uint32_t array, int64_t first)
{
    if (a->unit != unit) return a->unit < unit ? -1 : 1;
    if (a->array != array) return a->array < array ? -1 : 1;
    return a->first < first ? -1 : a->first > first;
}

static int by_place(const void *a, const void *b)
{
    const struct shard_range *first = &((const struct index_piece *)a)->range,
                             *second = &((const struct index_piece *)b)->range;
    return compare(first, second->unit, second->array, second->first);
}

/* The last piece that begins at or before an element; -1: none does. */
static ssize_t piece_at(const struct index *index, int unit, enum state_array array, int64_t first)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&index->pieces[middle].range, (uint32_t)unit, array, first) <= 0) low = middle + 1;
        else high = middle;
    }
    return (ssize_t)low - 1;
}

const struct index_piece *index_find(const struct index *index, int unit, enum state_array array, int64_t first)
{
    return &index->pieces[piece_at(index, unit, array, first)];
}

/* ---- is all there? ---- */

static const char *array_name(const struct model *model, enum state_array array)
{
    if (array == STATE_WEIGHTS) return "weights";
    return array == STATE_PENDING ? "pending gradients" : optimizer_table[model->optimizer].state[array - STATE_1];
}

static int check_array(const struct index *index, const struct checkpoint_info *info, int unit, enum state_array array,
                       struct error *err)
{
    const struct unit *of = &info->model.units[unit];
    int64_t next = 0;
    for (size_t p = (size_t)(piece_at(index, unit, array, -1) + 1); next < of->elems; p++) {
        const struct shard_range *range = p < index->count ? &index->pieces[p].range : NULL;
        const bool there = range && range->unit == (uint32_t)unit && range->array == array;
        const bool twice = there && range->first < next;
        if (!there || range->first != next)
            return error_set(err, STATUS_INPUT, "%.300s: element %lld of the %s of %s is in %s", info->folder,
                             (long long)(twice ? range->first : next), array_name(&info->model, array), of->name,
                             twice ? "two shards" : "no shard");
        next += range->elems;
    }
    return STATUS_OK;
}

int index_complete(struct index *index, struct checkpoint_info *info, struct error *err)
{
    const struct optimizer_info *optimizer = &optimizer_table[info->model.optimizer];
    if (index->count) qsort(index->pieces, index->count, sizeof *index->pieces, by_place);
    info->has[STATE_WEIGHTS] = true;
    for (size_t p = 0; p < index->count; p++) info->has[index->pieces[p].range.array] = true;
    for (int a = STATE_1; a < STATE_ARRAYS; a++)
        if (info->has[a] !=
            (a == STATE_PENDING ? info->progress.pending : info->has[STATE_1] && a - STATE_1 < optimizer->states))
            return error_set(err, STATUS_INPUT, "%.300s: its arrays are not those that %s keeps", info->folder,
                             optimizer->name);
    for (int u = 0; u < info->model.unit_count; u++)
        for (int a = 0; a < STATE_ARRAYS; a++) {
            int status = info->has[a] ? check_array(index, info, u, (enum state_array)a, err) : STATUS_OK;
            if (status) return status;
        }
    return STATUS_OK;
}

/* ---- names ---- */

void index_name_block(const struct index *index, const struct model *model, int shard, int64_t block,
                      char text[INDEX_NAME_BYTES])
{
    const uint64_t from = (uint64_t)block * BLOCK_BYTES;
    int found = 0;
    strcpy(text, "nothing but padding");
    for (size_t p = 0; p < index->count && found < 2; p++) {
        const struct shard_range *range = &index->pieces[p].range;
        const uint64_t end = range->offset + (uint64_t)range->elems * sizeof(float);
        if (index->pieces[p].shard != shard || end <= from || range->offset >= from + BLOCK_BYTES) continue;
        if (found++) strcat(text, " and more");
        else
            snprintf(text, INDEX_NAME_BYTES - 10, "%s of %s", array_name(model, (enum state_array)range->array),
                     model->units[range->unit].name);
    }
}
