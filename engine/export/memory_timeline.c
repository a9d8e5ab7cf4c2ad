/* Memory events as torch.profiler's export_memory_timeline() writes them into a .raw.json.gz: a list of [time in ns, action, bytes,
 * category] (torch/profiler/_memory_profiler.py, export_memory_timeline_raw). A file for each rank and tier.
 *
 * Records hold absolute amounts of categories; an event is the difference to the amount before. What a rank holds when its first step
 * begins is PREEXISTING at time -1, as PyTorch has what was there before it looked. */
#include <inttypes.h>

#include "engine/export/parts.h"

enum { PREEXISTING = 1, CREATE = 2, DESTROY = 4 };
enum { PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, NO_CATEGORY };

/* docs/EXPORT.md has the same table. */
static const int torch_category[CATEGORIES] = {
    [CATEGORY_PARAMETERS] = PARAMETER,   [CATEGORY_GRADIENTS] = GRADIENT,  [CATEGORY_OPTIMIZER] = OPTIMIZER_STATE,
    [CATEGORY_ACTIVATIONS] = ACTIVATION, [CATEGORY_BUCKETS] = TEMPORARY,   [CATEGORY_GATHERED] = PARAMETER,
    [CATEGORY_STAGING] = TEMPORARY,      [CATEGORY_WORKSPACE] = TEMPORARY, [CATEGORY_SECONDARY] = PARAMETER};

struct memory_rank {
    bool begun; /* its first step has */
    FILE *out[TIERS];
    uint64_t live[TIERS][CATEGORY_CODES];
};

static void put_event(struct export *export, struct memory_rank *rank, int number, int tier, int code, int64_t ns,
                      int action, int64_t bytes)
{
    const bool first = !rank->out[tier];
    char name[64];
    snprintf(name, sizeof name, "rank_%d_%s.raw.json.gz", number, tier_name((enum tier)tier));
    if (first) rank->out[tier] = export_open(export, name, true);
    fprintf(rank->out[tier], "%s[%" PRId64 ", %d, %" PRId64 ", %d]", first ? "[" : ",\n", ns, action, bytes,
            code < CATEGORIES ? torch_category[code] : NO_CATEGORY);
}

static void change(struct export *export, struct memory_rank *rank, int number, int tier, int code, uint64_t bytes,
                   uint64_t now_ns)
{
    const uint64_t before = rank->live[tier][code];
    rank->live[tier][code] = bytes;
    if (!rank->begun || bytes == before) return;
    put_event(export, rank, number, tier, code, (int64_t)now_ns, bytes > before ? CREATE : DESTROY,
              (int64_t)(bytes - before));
}

static void take_stock(struct export *export, struct memory_rank *rank, int number)
{
    if (rank->begun) return;
    rank->begun = true;
    for (int tier = 0; tier < TIERS; tier++)
        for (int code = 0; code < CATEGORY_CODES; code++)
            if (rank->live[tier][code])
                put_event(export, rank, number, tier, code, -1, PREEXISTING, (int64_t)rank->live[tier][code]);
}

/* A relaunch: the processes of the part before have ended, and their memory with them. */
static void begin_part(struct export *export, uint64_t now_ns)
{
    for (int number = 0; number < export->rank_room; number++) {
        struct memory_rank *rank = export->ranks[number];
        for (int tier = 0; rank && tier < TIERS; tier++)
            for (int code = 0; code < CATEGORY_CODES; code++) change(export, rank, number, tier, code, 0, now_ns);
    }
}

static void put(struct export *export, const struct trace_record *record)
{
    struct memory_rank *rank;
    switch ((unsigned)record->kind) {
    case TRACE_RUN: begin_part(export, record->time_ns); break;
    case TRACE_STEP_BEGIN:
        if ((rank = export_rank(export, record->rank))) take_stock(export, rank, record->rank);
        break;
    case TRACE_MEMORY:
        if (record->memory.tier < TIERS && record->memory.category < CATEGORY_CODES &&
            (rank = export_rank(export, record->rank)))
            change(export, rank, record->rank, record->memory.tier, record->memory.category, record->memory.live_bytes,
                   record->time_ns);
        break;
    }
}

static void end(struct export *export)
{
    for (int number = 0; number < export->rank_room; number++) {
        struct memory_rank *rank = export->ranks[number];
        if (rank) take_stock(export, rank, number);
        for (int tier = 0; rank && tier < TIERS; tier++)
            if (rank->out[tier]) fputs("]\n", rank->out[tier]);
    }
}

const struct export_format export_memory = {
    .folder = true, .per_rank = true, .rank_bytes = sizeof(struct memory_rank), .put = put, .end = end};
