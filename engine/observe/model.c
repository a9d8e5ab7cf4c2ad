/* Creates and frees a run model, passes each record on (fold.h), and folds those of memory and machines. */
#include "engine/observe/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/observe/fold.h"

struct run_model *run_model_new(const struct run_model_options *options)
{
    struct run_model *model = calloc(1, sizeof *model);
    if (!model) return NULL;
    model->options = *options;
    model->header.parameters = RUN_UNKNOWN;
    return model;
}

void run_model_free(struct run_model *model)
{
    if (!model) return;
    header_release(&model->header);
    plans_release(model);
    steps_release(model);
    notices_release(model);
    free(model->sample.text);
    free(model->lesson.text);
    free(model->rank);
    free(model);
}

void model_problem(struct run_model *model, const char *format, ...)
{
    FORMAT_ARGUMENTS(model->problem, sizeof model->problem, format);
}

char *text_copy(struct trace_text text)
{
    char *copy = malloc(text.bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text.bytes ? text.at : "", text.bytes);
    copy[text.bytes] = '\0';
    return copy;
}

void text_into(char *out, size_t room, struct trace_text text)
{
    size_t bytes = text.bytes < room ? text.bytes : room - 1;
    memcpy(out, bytes ? text.at : "", bytes);
    out[bytes] = '\0';
}

/* The header gives the number of ranks; without one (a trace that lost its head) it is the highest that a record named.
 * A damaged trace must not cause allocations for impossible ranks. */
struct run_rank *model_rank(struct run_model *model, unsigned rank)
{
    if (rank == TRACE_RANK_ALL) return NULL;
    if ((int)rank < model->ranks) return &model->rank[rank];
    if (model->header.known && model->header.ranks > 0 && model->ranks == model->header.ranks) {
        model_problem(model, "a record of rank %u in a run of %d ranks", rank, model->ranks);
        return NULL;
    }
    if (rank >= RUN_RANKS_MAX) {
        model_problem(model, "a record of rank %u; at most %d ranks are shown", rank, RUN_RANKS_MAX);
        return NULL;
    }
    struct run_rank *larger = realloc(model->rank, (rank + 1) * sizeof *larger);
    if (!larger) {
        model_problem(model, "no memory for rank %u", rank);
        return NULL;
    }
    memset(larger + model->ranks, 0, (rank + 1 - (unsigned)model->ranks) * sizeof *larger);
    model->rank = larger;
    model->ranks = (int)rank + 1;
    steps_of_more_ranks(model);
    return &model->rank[rank];
}

/* ---- memory now: records have absolute bytes per category, so a tier is their sum. The fullest instant of a step is
 * kept with its categories. Screens show it instead of a random instant: it is steady, and it decides what fits. ---- */

static struct run_tier *tier_of(struct run_model *model, const struct trace_record *record, unsigned tier)
{
    struct run_rank *rank = model_rank(model, record->rank);
    return rank && tier < TIERS ? &rank->tier[tier] : NULL;
}

void fold_memory(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_memory *from = &record->memory;
    struct run_tier *tier = tier_of(model, record, from->tier);
    if (!tier || from->category >= CATEGORY_CODES) return;
    struct run_memory *memory = &tier->category[from->category];
    tier->now.known = memory->known = true;
    tier->now.live_bytes += from->live_bytes - memory->live_bytes;
    tier->now.reserved_bytes += from->reserved_bytes - memory->reserved_bytes;
    if (from->category < CATEGORIES) tier->now.held_bytes[from->category] = from->live_bytes;
    memory->live_bytes = from->live_bytes;
    memory->reserved_bytes = from->reserved_bytes;
    memory->peak_bytes = from->peak_bytes;
    if (!tier->open_peak.known || tier->now.live_bytes > tier->open_peak.live_bytes) tier->open_peak = tier->now;
    if (tier->now.live_bytes > tier->highest_bytes) tier->highest_bytes = tier->now.live_bytes;
}

void holdings_begin_step(struct run_rank *rank)
{
    for (int tier = 0; tier < TIERS; tier++) {
        rank->tier[tier].open_peak = rank->tier[tier].now;
        rank->tier[tier].began_bytes = rank->tier[tier].now.live_bytes;
    }
}

void holdings_end_step(struct run_rank *rank, uint32_t step)
{
    rank->peak_step = step;
    for (int tier = 0; tier < TIERS; tier++) rank->tier[tier].step_peak = rank->tier[tier].open_peak;
}

void fold_budget(struct run_model *model, const struct trace_record *record)
{
    struct run_tier *tier = tier_of(model, record, record->budget.tier);
    if (!tier) return;
    tier->has_budget = true;
    tier->budget_bytes = record->budget.bytes;
}

void fold_tier_peak(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_tier_peak *from = &record->tier_peak;
    struct run_tier *tier = tier_of(model, record, from->tier);
    if (!tier) return;
    tier->has_total = true;
    tier->live_bytes = from->live_bytes;
    tier->reserved_bytes = from->reserved_bytes;
    tier->peak_bytes = from->peak_bytes;
}

void fold_tenant(struct run_model *model, const struct trace_record *record)
{
    struct run_tier *tier = tier_of(model, record, record->tenant.tier);
    if (!tier || record->tenant.category >= CATEGORIES) return;
    tier->category[record->tenant.category].has_at_peak = true;
    tier->category[record->tenant.category].at_peak_bytes = record->tenant.bytes;
}

/* ---- processes, GPUs, hosts, texts ---- */

void fold_process(struct run_model *model, const struct trace_record *record)
{
    struct run_rank *rank = model_rank(model, record->rank);
    if (!rank) return;
    rank->process.known = true;
    rank->process.pid = record->process.pid;
    rank->process.rss_bytes = record->process.rss_bytes;
    rank->process.peak_rss_bytes = record->process.peak_rss_bytes;
    if (record->process.pss_bytes == 0) return;
    const int place = rank->marks < RUN_MARKS ? rank->marks++ : RUN_MARKS - 1;
    rank->mark[place] = (struct run_mark){record->process.step, record->process.rss_bytes, record->process.pss_bytes,
                                          record->process.live_bytes, record->process.reserved_bytes};
}

void fold_gpu(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_gpu *from = &record->gpu;
    struct run_rank *rank = model_rank(model, record->rank);
    if (!rank || from->gpu > INT_MAX || from->first_rank > record->rank || from->ranks > RUN_RANKS_MAX) return;
    rank->gpu = (struct run_gpu){true, (int)from->gpu, (int)from->first_rank, (int)from->ranks, from->total_bytes, ""};
    snprintf(rank->gpu.name, sizeof rank->gpu.name, "%.*s", (int)from->name.bytes, from->name.at);
}

void fold_outside(struct run_model *model, const struct trace_record *record)
{
    struct run_rank *rank = model_rank(model, record->rank);
    if (!rank) return;
    const uint64_t bytes = record->outside.bytes, most_bytes = rank->outside.most_bytes;
    rank->outside =
        (struct run_outside){true, bytes, record->outside.free_bytes, bytes > most_bytes ? bytes : most_bytes};
}

void fold_sensors(struct run_model *model, const struct trace_record *record)
{
    struct run_rank *rank = model_rank(model, record->rank);
    const struct trace_of_sensors *from = &record->sensors;
    if (rank) rank->sensors = (struct run_sensors){true, from->power_mw, from->clock_mhz, from->slowed_by};
}

void fold_host(struct run_model *model, const struct trace_record *record)
{
    trace_machines_note(&model->machines, record);
}

void fold_clock(struct run_model *model, const struct trace_record *record)
{
    trace_machines_note(&model->machines, record);
}

void fold_quantized(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_quantized *from = &record->quantized;
    if (from->unit >= (uint32_t)model->header.unit_count) return;
    struct run_quantized *to = &model->header.units[from->unit].quantized[from->gradient != 0];
    if (to->step != from->step) *to = (struct run_quantized){.step = from->step};
    run_quantized_add(to, &(struct run_quantized){from->step, from->elems, from->not_finite, from->largest,
                                                  from->squares, from->of_squares});
}

/* Replaces *kept by a copy. False, and nothing done: no memory. */
static bool keep_text(char **kept, struct trace_text text)
{
    char *copy = text_copy(text);
    if (!copy) return false;
    free(*kept);
    *kept = copy;
    return true;
}

void fold_sample(struct run_model *model, const struct trace_record *record)
{
    if (!keep_text(&model->sample.text, record->sample.text)) return;
    model->sample.bytes = record->sample.text.bytes;
    model->sample.step = record->sample.step;
}

void fold_lesson(struct run_model *model, const struct trace_record *record)
{
    if (!keep_text(&model->lesson.text, record->lesson.json)) return;
    model->lesson.bytes = record->lesson.json.bytes;
    model->lesson.time_ns = record->time_ns;
}

void fold_state_hash(struct run_model *model, const struct trace_record *record)
{
    model->state_hash.known = true;
    model->state_hash.step = record->state_hash.step;
    model->state_hash.hash = record->state_hash.hash;
}

static void (*const folds[])(struct run_model *model, const struct trace_record *record) = {
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) [number] = fold_##name,
#include "engine/trace/kinds.def"
#undef TRACE_KIND
};

void run_model_fold(struct run_model *model, const struct trace_record *record)
{
    if (!model->first_ns) model->first_ns = record->time_ns;
    if (record->time_ns > model->now_ns) model->now_ns = record->time_ns;
    model->revision++;
    const unsigned kind = record->kind;
    if (kind >= sizeof folds / sizeof *folds || !folds[kind]) return; /* a kind of a later version */
    folds[kind](model, record);
}
