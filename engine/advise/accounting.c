#include "engine/advise/accounting.h"

#include <string.h>

#include "engine/base/nearest.h"

const struct accounting accounting_table[ACCOUNTINGS] = {
#define ACCOUNTING(ID, name, stages, who, why) {name, stages, who, why},
#define PART(ID, category, array, bytes, stages, cut)
#include "engine/advise/accountings.def"
#undef ACCOUNTING
#undef PART
};

static const struct accounting_part parts[] = {
#define ACCOUNTING(ID, name, stages, who, why)
#define PART(ID, category, array, bytes, stages, cut) {ACCOUNTING_##ID, CATEGORY_##category, array, bytes, stages, cut},
#include "engine/advise/accountings.def"
#undef ACCOUNTING
#undef PART
};
enum { PARTS = sizeof parts / sizeof *parts };

int accounting_find(const struct accounting **out, const char *name, struct error *err)
{
    const char *names[ACCOUNTINGS];
    for (int a = 0; a < ACCOUNTINGS; a++) {
        names[a] = accounting_table[a].name;
        if (strcmp(names[a], name) == 0) return *out = &accounting_table[a], STATUS_OK;
    }
    const char *nearest = nearest_name(name, names, ACCOUNTINGS);
    if (nearest) return error_set(err, STATUS_USAGE, "no accounting %.40s; did you mean %s?", name, nearest);
    return error_set(err, STATUS_USAGE, "no accounting %.40s; zerolab plan --accounting list shows them", name);
}

static bool is_of(const char *stages, int stage)
{
    return strchr(stages, '0' + stage) != NULL;
}

bool accounting_speaks_of(const struct accounting *accounting, int stage)
{
    return is_of(accounting->stages, stage);
}

/* Its next part that counts at this stage, after `part`; PARTS: there is none. Begin with -1. */
static int next_part(const struct accounting *accounting, int stage, int part)
{
    do part++;
    while (part < PARTS &&
           (&accounting_table[parts[part].accounting] != accounting || !is_of(parts[part].stages, stage)));
    return part;
}

struct accounting_sum accounting_sum_of(const struct accounting *accounting, int stage)
{
    struct accounting_sum sum = {0};
    for (int p = next_part(accounting, stage, -1); p < PARTS; p = next_part(accounting, stage, p))
        *(stage >= parts[p].cut_from ? &sum.cut : &sum.whole) += parts[p].bytes;
    return sum;
}

double accounting_bytes(const struct accounting *accounting, int stage, int ranks)
{
    const struct accounting_sum sum = accounting_sum_of(accounting, stage);
    return sum.whole + (double)sum.cut / ranks;
}

/* ---- both sides ---------------------------------------------------------------------------------------------------- */

static struct accounting_line *append(struct accounting_held *held, enum category category, const char *array)
{
    if (held->count == ACCOUNTING_LINES_MAX) return NULL;
    struct accounting_line *line = &held->line[held->count++];
    *line = (struct accounting_line){.category = category, .array = array};
    return line;
}

/* The line of an array of this type; one that we have with another extent is another array. */
static struct accounting_line *line_of(struct accounting_held *held, const struct buffer *buffer, int bytes, bool cut)
{
    for (int l = 0; l < held->count; l++) {
        struct accounting_line *line = &held->line[l];
        const int theirs = line->theirs.bytes, ours = line->ours.bytes;
        if (line->category != buffer->category || strcmp(line->array, buffer->name) != 0) continue;
        if ((theirs && theirs != bytes) || (ours && (ours != bytes || line->ours.cut != cut))) continue;
        return line;
    }
    return append(held, buffer->category, buffer->name);
}

static void count_ours(struct accounting_held *held, const struct setup *setup)
{
    const struct schedule *schedule = &setup->schedule;
    const double psi = (double)setup->model.elems;
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        const bool cut = buffer->extent == EXTENT_SHARD;
        const int bytes = dtype_bytes(buffer->dtype);
        struct accounting_line *line = line_of(held, buffer, bytes, cut);
        if (!line) continue;
        double unpadded = (double)buffer->bytes;
        if (buffer->extent != EXTENT_TAIL)
            unpadded = (double)setup->model.units[buffer->unit].elems * bytes / (cut ? schedule->ranks : 1);
        line->ours.bytes = bytes;
        line->ours.cut = cut;
        line->ours.held += unpadded / psi;
        held->ours += (double)buffer->bytes / psi;
        held->padding += ((double)buffer->bytes - unpadded) / psi;
    }
}

static void sort_by_category(struct accounting_held *held)
{
    struct accounting_held sorted = *held;
    sorted.count = 0;
    for (enum category category = 0; category < CATEGORIES; category++)
        for (int l = 0; l < held->count; l++)
            if (held->line[l].category == category) sorted.line[sorted.count++] = held->line[l];
    *held = sorted;
}

void accounting_hold(struct accounting_held *held, const struct accounting *accounting, const struct setup *setup)
{
    const int stage = setup->schedule.stage, ranks = setup->schedule.ranks;
    *held = (struct accounting_held){0};
    for (int p = next_part(accounting, stage, -1); p < PARTS; p = next_part(accounting, stage, p)) {
        struct accounting_line *line = append(held, parts[p].category, parts[p].array);
        const bool cut = stage >= parts[p].cut_from;
        line->theirs = (struct accounting_side){parts[p].bytes, cut, (double)parts[p].bytes / (cut ? ranks : 1)};
        held->theirs += line->theirs.held;
    }
    count_ours(held, setup);
    sort_by_category(held);
}
