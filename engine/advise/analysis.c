/* Reads a trace once: each step is totalled when all ranks have ended it, and added to the section of its schedule. */
#include "engine/advise/analysis.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/trace/source.h"

enum { PROGRESS_EVERY = 1 << 16 };

static void section_release(struct analysis_section *section)
{
    free(section->rank);
    free(section->peak);
    free(section->losses);
}

void analysis_release(struct analysis *analysis)
{
    for (int i = 0; i < analysis->section_count; i++) section_release(&analysis->sections[i]);
    free(analysis->sections);
    run_model_free(analysis->model);
    history_free(analysis->history);
    free(analysis->path);
    *analysis = (struct analysis){0};
}

/* ---- sections ---- */

/* What was planned; taken when the section begins, since a long run forgets its oldest plans. */
static void section_plan(struct analysis_section *section, const struct run_model *model)
{
    const struct run_schedule *schedule = run_schedule_numbered(model, section->schedule);
    if (!schedule) return;
    section->has_knobs = schedule->has_ops && !schedule_is_observed(&schedule->ops);
    if (section->has_knobs) section->knobs = schedule->ops.knobs;
    section->theory_bytes = schedule->theory_bytes;
    memcpy(section->tier, schedule->tier, sizeof section->tier);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++) {
            const struct run_traffic *from = &schedule->traffic[kind][link];
            if (from->ranks > section->planned[kind].ranks) section->planned[kind].ranks = from->ranks;
            section->planned[kind].count += from->count;
            section->planned[kind].sent_bytes += from->sent_bytes;
        }
}

/* The last section if it is of this schedule, else a new one. NULL: no memory. */
static struct analysis_section *section_of(struct analysis *analysis, const struct run_step *step)
{
    struct analysis_section *last = analysis->section_count ? &analysis->sections[analysis->section_count - 1] : NULL;
    if (last && last->schedule == step->schedule) return last;
    struct analysis_section *larger =
        realloc(analysis->sections, (size_t)(analysis->section_count + 1) * sizeof *larger);
    if (!larger) return NULL;
    analysis->sections = larger;
    struct analysis_section *section = &larger[analysis->section_count];
    *section = (struct analysis_section){.schedule = step->schedule,
                                         .stage = step->stage,
                                         .ranks = analysis->model->ranks,
                                         .missing = analysis->model->header.missing,
                                         .first_step = step->step,
                                         .rank = calloc((size_t)analysis->model->ranks, sizeof *section->rank),
                                         .peak = calloc((size_t)analysis->model->ranks, sizeof *section->peak)};
    if (!section->rank || !section->peak) {
        section_release(section);
        return NULL;
    }
    section_plan(section, analysis->model);
    analysis->section_count++;
    return section;
}

/* ---- steps ---- */

static void add_peaks(struct analysis_section *section, const struct analysis *analysis,
                      const struct history_step *when)
{
    for (int rank = 0; rank < section->ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) {
            struct analysis_peak *peak = &section->peak[rank][tier];
            struct run_instant fullest =
                history_fullest(analysis->history, rank, (enum tier)tier, when->begun_ns, when->ended_ns, NULL);
            if (!fullest.known || (peak->instant.known && peak->instant.live_bytes >= fullest.live_bytes)) continue;
            *peak = (struct analysis_peak){fullest, when->step};
        }
}

static void add_totals(struct analysis_section *section, const struct analysis *analysis,
                       const struct history_step *when)
{
    struct totals one;
    struct critical path;
    if (!history_step_is_whole(analysis->history, when)) return;
    for (int rank = 0; rank < section->ranks; rank++) {
        totals_of(&one, analysis->history, analysis->model, rank, when->begun_ns, when->ended_ns, when->step);
        totals_add(&section->rank[rank], &one);
    }
    if (critical_path_of(&path, analysis->history, when)) sums_add(&section->critical, &path, sizeof path);
    section->timed++;
}

static bool add_step(struct analysis *analysis, const struct history_step *when)
{
    const struct run_step *step = run_step_numbered(analysis->model, when->step);
    struct analysis_section *section = step ? section_of(analysis, step) : NULL;
    if (!section) return !step;
    add_peaks(section, analysis, when);
    section->last_step = step->step;
    if (step->skipped) {
        section->skipped++;
        return true;
    }
    struct analysis_loss *loss = array_add(section->losses, section->loss_count, section->loss_room);
    if (!loss) return false;
    *loss = (struct analysis_loss){step->step, step->loss};
    if (!section->steps) section->first_loss = step->loss;
    section->last_loss = step->loss;
    section->steps++;
    section->total_ns += step->total_ns;
    section->tokens += step->tokens;
    add_totals(section, analysis, when);
    return true;
}

/* ---- reading ---- */

/* False: no memory. */
static bool fold(struct analysis *analysis, const struct analysis_options *options, const struct trace_record *record)
{
    run_model_fold(analysis->model, record);
    history_fold(analysis->history, analysis->model, record);
    if (++analysis->records % PROGRESS_EVERY == 0 && options->progress) {
        const struct run_step *last = run_last_step(analysis->model);
        options->progress(options->user, analysis->records, last ? last->step : 0);
    }
    if (record->kind != TRACE_STEP_END || record->step_end.step < options->from_step) return true;
    if (options->to_step && record->step_end.step > options->to_step) return true;
    const struct history_step *when = history_step_numbered(analysis->history, record->step_end.step);
    if (!when || !when->ended_ns || when->begun_ns <= analysis->added_ns) return true;
    analysis->added_ns = when->begun_ns;
    return add_step(analysis, when);
}

/* What came before the damage is good: each chunk was checked. */
static void note_defect(struct analysis *analysis, const struct source *source, enum source_result result)
{
    const char *defect = "";
    if (result == SOURCE_BAD) defect = source_error(source);
    else if (source_torn(source)) defect = "cut off inside a chunk; all before it is whole";
    else if (!analysis->model->ended) defect = "no end record: the run was killed, or still goes on";
    snprintf(analysis->defect, sizeof analysis->defect, "%s", defect);
}

int analysis_begin(struct analysis *analysis, const char *path, struct error *err)
{
    *analysis = (struct analysis){.path = strdup(path),
                                  .model = run_model_new(&(struct run_model_options){.steps = 256, .notices = 256}),
                                  .history = history_new(0)};
    if (analysis->path && analysis->model && analysis->history) return STATUS_OK;
    analysis_release(analysis);
    return error_set(err, STATUS_RUN, "no memory to analyze %s", path);
}

int analysis_take(struct analysis *analysis, struct source *source, const struct analysis_options *options,
                  struct error *err)
{
    struct trace_record record;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_RECORD)
        if (!fold(analysis, options, &record)) return error_set(err, STATUS_RUN, "no memory to analyze the trace");
    note_defect(analysis, source, result);
    if (analysis->section_count || result == SOURCE_WAIT) return STATUS_OK;
    if (result == SOURCE_BAD) return error_set(err, STATUS_INPUT, "%s", source_error(source));
    return error_set(err, STATUS_INPUT, "%s: no whole step %s", analysis->path,
                     options->from_step || options->to_step ? "in that window" : "in this trace");
}

int analysis_read(struct analysis *analysis, const char *path, const struct analysis_options *options,
                  struct error *err)
{
    struct source *source;
    *analysis = (struct analysis){0};
    int status = source_open_file(&source, path, err);
    if (status) return status;
    status = analysis_begin(analysis, path, err);
    if (!status) status = analysis_take(analysis, source, options, err);
    source_close(source);
    if (status) analysis_release(analysis);
    return status;
}

bool analysis_has_rank(const struct analysis_section *section, int rank)
{
    return !section->missing || section->rank[rank].temporal.window_ns > 0;
}

double analysis_sum(struct totals *sum, const struct analysis_section *section, int rank)
{
    const int first = rank < 0 ? 0 : rank, end = rank < 0 ? section->ranks : rank + 1;
    *sum = (struct totals){.rank = rank, .known = section->timed > 0};
    int there = 0; /* of another program's trace ranks may be missing */
    for (int r = first; r < end; r++) {
        totals_add(sum, &section->rank[r]);
        there += analysis_has_rank(section, r);
    }
    return (double)section->timed * there;
}
