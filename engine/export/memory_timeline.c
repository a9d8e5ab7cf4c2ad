/* Memory events as torch.profiler's export_memory_timeline() writes them into a .raw.json.gz: a list of [time in ns, action, bytes,
 * category] (torch/profiler/_memory_profiler.py, export_memory_timeline_raw). A file for each rank and tier.
 *
 * Records hold absolute amounts of categories; an event is the difference to the amount before. What a rank holds when its first step
 * begins is PREEXISTING at time -1, as PyTorch has what was there before it looked. */
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
    gzFile out[TIERS];
    uint64_t live[TIERS][CATEGORY_CODES];
};

static void put_event(struct export *export, int number, int tier, int code, int64_t ns, int action, int64_t bytes)
{
    struct memory_rank *rank = export->ranks[number];
    const bool first = !rank->out[tier];
    char name[64];
    snprintf(name, sizeof name, "rank_%d_%s.raw.json.gz", number, tier_name((enum tier)tier));
    if (first) rank->out[tier] = export_open(export, name);
    put(rank->out[tier], "%s[%" PRId64 ", %d, %" PRId64 ", %d]", first ? "[" : ",\n", ns, action, bytes,
        code < CATEGORIES ? torch_category[code] : NO_CATEGORY);
}

static void change(struct export *export, int number, int tier, int code, uint64_t bytes, uint64_t now_ns)
{
    struct memory_rank *rank = export->ranks[number];
    const uint64_t before = rank->live[tier][code];
    rank->live[tier][code] = bytes;
    if (rank->begun && bytes != before)
        put_event(export, number, tier, code, (int64_t)now_ns, bytes > before ? CREATE : DESTROY,
                  (int64_t)(bytes - before));
}

static void take_stock(struct export *export, int number)
{
    struct memory_rank *rank = export->ranks[number];
    for (int i = 0; i < TIERS * CATEGORY_CODES && !rank->begun; i++) {
        const uint64_t bytes = rank->live[i / CATEGORY_CODES][i % CATEGORY_CODES];
        if (bytes) put_event(export, number, i / CATEGORY_CODES, i % CATEGORY_CODES, -1, PREEXISTING, (int64_t)bytes);
    }
    rank->begun = true;
}

static void put_record(struct export *export, const struct trace_record *record)
{
    const struct trace_of_memory *memory = &record->memory;
    const int ranks = record->kind == TRACE_RUN ? export->rank_count : 0;
    /* A relaunch: the processes of the part before have ended, and their memory with them. */
    for (int i = 0; i < ranks * TIERS * CATEGORY_CODES; i++)
        if (export->ranks[i / CATEGORY_CODES / TIERS])
            change(export, i / CATEGORY_CODES / TIERS, i / CATEGORY_CODES % TIERS, i % CATEGORY_CODES, 0,
                   record->time_ns);
    if (record->kind == TRACE_STEP_BEGIN && export_rank(export, record->rank)) take_stock(export, record->rank);
    if (record->kind == TRACE_MEMORY && memory->tier < TIERS && memory->category < CATEGORY_CODES &&
        export_rank(export, record->rank))
        change(export, record->rank, memory->tier, memory->category, memory->live_bytes, record->time_ns);
}

static void end(struct export *export)
{
    for (int number = 0; number < export->rank_count; number++) {
        const struct memory_rank *rank = export->ranks[number];
        if (rank) take_stock(export, number);
        for (int tier = 0; rank && tier < TIERS; tier++) put(rank->out[tier], "]\n");
    }
}

const struct export_format export_memory = {
    .folder = true, .per_rank = true, .rank_bytes = sizeof(struct memory_rank), .put = put_record, .end = end};
