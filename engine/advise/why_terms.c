/* The terms of a category at the plan's peak: its live buffers grouped by name, each group with the formula of its size
 * and the numbers in it. A term's bytes are sums of buffers' bytes, so terms add up to the plan exactly. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/why_parts.h"
#include "engine/base/grouped.h"
#include "engine/base/order.h"
#include "engine/base/words.h"
#include "engine/plan/formula.h"

/* Buffers of one name; those that live for a part of the step are told apart by the kind of unit too. */
struct alike {
    const struct buffer *first;
    int count;
    int64_t bytes, elems, padding;
    const struct use *kind; /* NULL: of no unit, or lasting */
    int first_unit, last_unit; /* the lowest and the highest */
};

/* Which buffers are live at the peak: the canonical order up to and with the takes of the operation that reaches it. */
static bool *live_at(const struct schedule *schedule, int peak_op)
{
    bool *live = calloc((size_t)schedule->buffer_count + 1, sizeof *live);
    for (int b = 0; live && b < schedule->lasting_count; b++) live[b] = true;
    for (int i = 0; live && i <= peak_op && i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++) live[schedule->effects[op->first_take + t]] = true;
        for (int g = 0; i < peak_op && g < op->give_count; g++) live[schedule->effects[op->first_give + g]] = false;
    }
    return live;
}

/* "embed", "block 3", "blocks 1-3", "2 blocks of 1-3", "mlp 3.1", "3 tiles of block 1", "5 tiles of blocks 1-3". */
static void write_units(char *text, size_t room, const struct alike *group, const struct model *model)
{
    const struct unit *first = &model->units[group->first_unit], *last = &model->units[group->last_unit];
    const bool whole_range = last->block - first->block + 1 == group->count;
    if (group->first_unit == group->last_unit) snprintf(text, room, "%s", first->name);
    else if (first->tile >= 0 && first->block == last->block)
        snprintf(text, room, "%d tiles of block %d", group->count, first->block);
    else if (first->tile >= 0)
        snprintf(text, room, "%d tiles of blocks %d-%d", group->count, first->block, last->block);
    else if (whole_range) snprintf(text, room, "blocks %d-%d", first->block, last->block);
    else snprintf(text, room, "%d blocks of %d-%d", group->count, first->block, last->block);
}

/* Elements beside the unit's own that a buffer, of all ranks together where it is a shard, holds. */
static int64_t padding_of(const struct schedule *schedule, const struct model *model, const struct buffer *buffer)
{
    const int64_t elems = model->units[buffer->unit].elems;
    int64_t first, end;
    buffer_range(schedule, model, buffer, 0, &first, &end);
    if (buffer->extent == EXTENT_SHARD) end = (end - first) * schedule_shard_ranks(schedule);
    if (buffer->extent == EXTENT_SECONDARY) end = (end - first) * schedule->knobs.hpz_partition;
    return end > elems ? end - elems : 0;
}

static void group_add(struct alike *group, const struct schedule *schedule, const struct model *model,
                      const struct buffer *buffer)
{
    group->count++;
    group->bytes += buffer->bytes;
    if (buffer->unit < 0) return;
    group->elems += buffer->bytes / dtype_bytes(buffer->dtype);
    group->padding += padding_of(schedule, model, buffer);
    if (group->count == 1 || buffer->unit < group->first_unit) group->first_unit = buffer->unit;
    if (group->count == 1 || buffer->unit > group->last_unit) group->last_unit = buffer->unit;
}

static struct alike *group_of(struct alike *groups, int *count, const struct model *model, const struct buffer *buffer)
{
    const struct use *kind = buffer->unit < 0 || buffer->lasting ? NULL : model->units[buffer->unit].use;
    for (int g = 0; g < *count; g++)
        if (strcmp(groups[g].first->name, buffer->name) == 0 && groups[g].kind == kind) return &groups[g];
    if (*count == WHY_TERMS_MAX) return &groups[*count - 1];
    groups[*count] = (struct alike){.first = buffer, .kind = kind};
    return &groups[(*count)++];
}

/* ---- in words ---- */

static const char *lasting_name(const struct buffer *buffer)
{
    static const char *const names[][2] = {{"gradient", "gradients"},
                                           {"master", "master weights"},
                                           {"moment 1", "first moments"},
                                           {"moment 2", "second moments"},
                                           {"small tensors", "small tensors, kept gathered"}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(buffer->name, names[n][0]) == 0) return names[n][1];
    return buffer->name;
}

static void write_what(struct why_term *term, const struct alike *group, const struct schedule *schedule,
                       const struct model *model)
{
    const struct buffer *first = group->first;
    char units[40];
    if (first->unit < 0) {
        if (group->count == 1) snprintf(term->what, sizeof term->what, "%s", first->name);
        else snprintf(term->what, sizeof term->what, "%d × %s", group->count, first->name);
    } else if (!first->lasting) {
        write_units(units, sizeof units, group, model);
        snprintf(term->what, sizeof term->what, "%s: %s", first->name, units);
    } else if (first->extent == EXTENT_SHARD) {
        snprintf(term->what, sizeof term->what, "%s, 1 shard of %d", lasting_name(first), schedule_shard_ranks(schedule));
    } else {
        snprintf(term->what, sizeof term->what, "%s%s", lasting_name(first),
                 first->extent == EXTENT_WHOLE ? ", whole" : "");
    }
}

static void write_elements(struct why_term *term, const struct alike *group, const struct schedule *schedule)
{
    const size_t room = sizeof term->formula;
    char text[32];
    text_append(term->formula, room, "%d B × %s elements", dtype_bytes(group->first->dtype),
                grouped(text, group->elems));
    if (group->padding == 0) return;
    text_append(term->formula, room, " (%s padding", grouped(text, group->padding));
    if (group->first->extent == EXTENT_SHARD)
        text_append(term->formula, room, " over %d shards", schedule_shard_ranks(schedule));
    text_append(term->formula, room, ")");
}

static void write_formula(struct why_term *term, const struct alike *group, const struct schedule *schedule,
                          const struct model *model)
{
    const struct formula *formula = formula_of(group->first->name);
    const struct formula_sizes sizes = formula_sizes_of(model, schedule->B, schedule->T);
    const size_t room = sizeof term->formula;
    char numbers[96];
    if (group->first->unit >= 0) {
        write_elements(term, group, schedule);
        return;
    }
    if (!formula || !formula->bytes[0]) {
        if (formula && formula->each)
            text_append(term->formula, room, "%" PRId64 " B × ", formula->each == 'e' ? sizes.e : formula->each - '0');
        text_append(term->formula, room, "%s", formula ? formula->note : "");
        return;
    }
    formula_numbers(numbers, sizeof numbers, formula_bytes(formula, model), &sizes);
    const int64_t rounding = group->bytes - group->count * formula_value(formula_bytes(formula, model), &sizes);
    const bool sum = group->count > 1 && strchr(numbers, '+');
    if (group->count > 1) text_append(term->formula, room, "%d×", group->count);
    text_append(term->formula, room, sum ? "(%s)" : "%s", numbers);
    if (rounding) text_append(term->formula, room, " + %" PRId64 " to whole lines", rounding);
}

void why_terms(struct why_tenant *tenant, const struct schedule *schedule, const struct model *model, enum tier tier,
               int peak_op)
{
    struct alike groups[WHY_TERMS_MAX];
    int count = 0;
    bool *live = live_at(schedule, peak_op);
    tenant->term_count = 0;
    for (int b = 0; live && b < schedule->buffer_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        if (!live[b] || buffer->tier != tier || buffer->category != tenant->category) continue;
        group_add(group_of(groups, &count, model, buffer), schedule, model, buffer);
    }
    free(live);
    for (int g = 0; g < count; g++) {
        struct why_term *term = &tenant->terms[tenant->term_count++];
        *term = (struct why_term){.bytes = (uint64_t)groups[g].bytes};
        write_what(term, &groups[g], schedule, model);
        write_formula(term, &groups[g], schedule, model);
    }
    if (tenant->category == CATEGORY_ACTIVATIONS)
        snprintf(tenant->sizes, sizeof tenant->sizes, "%" PRId64 " tokens, width %d",
                 (int64_t)schedule->B * schedule->T, model->shape.hidden);
    qsort(tenant->terms, (size_t)tenant->term_count, sizeof *tenant->terms, descending_u64);
}
