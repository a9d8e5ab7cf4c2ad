/* Metrics of the run, read off the run model and the history: what the trace says, never what a screen shows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/advise/present.h"
#include "engine/lab/expression_parts.h"
#include "engine/observe/totals.h"

static const struct dimension plain = {0, 0}, bytes = {1, 0}, seconds = {0, 1};

/* ---- which step ---------------------------------------------------------------------------------------------------- */

/* Number of a step: 0 the last whole one, -1 the one before it, else itself. 0: there is none. */
static uint32_t step_number(const struct run_model *model, int64_t asked)
{
    const struct run_step *last = run_last_step(model);
    if (asked > 0) return asked <= UINT32_MAX ? (uint32_t)asked : 0;
    return last && (int64_t)last->step + asked > 0 ? (uint32_t)((int64_t)last->step + asked) : 0;
}

static const struct history_step *kept_step(const struct lab_scene *scene, int64_t asked)
{
    uint32_t number = step_number(scene->model, asked);
    const struct history_step *step = number ? history_step_numbered(scene->history, number) : NULL;
    return step && step->ended_ns && step->begun_ns >= history_whole_from(scene->history) ? step : NULL;
}

static bool has_lost(const struct lab_scene *scene, const struct history_step *step)
{
    return history_has_gap(scene->history, -1, step->begun_ns, step->ended_ns);
}

static struct lab_value no_step(const struct lab_scene *scene, int64_t asked)
{
    const struct history_step *step = kept_step(scene, asked);
    if (!run_last_step(scene->model)) return value_unknown("no step has been trained yet");
    if (step && has_lost(scene, step)) return value_unknown("records of step %u were lost", step->step);
    return asked > 0 ? value_unknown("step %lld has not been trained", (long long)asked)
                     : value_unknown("there is no such step");
}

static void at_span(struct lab_where *where, const struct lab_scene *scene, int rank, uint64_t time_ns)
{
    int64_t first, end;
    const struct span *span = NULL;
    history_spans(scene->history, rank, LANE_COMPUTE, time_ns, time_ns + 1, &first, &end);
    if (end > first) span = history_span(scene->history, rank, LANE_COMPUTE, first);
    const struct run_schedule *plan = span ? run_schedule_numbered(scene->model, span->schedule) : NULL;
    const struct history_step *step = history_step_at(scene->history, time_ns);
    *where = (struct lab_where){.known = true, .rank = rank, .step = step ? step->step : 0, .time_ns = time_ns};
    if (!span || !plan) return;
    const char *unit = span->unit >= 0 && span->unit < scene->model->header.unit_count
                           ? scene->model->header.units[span->unit].name
                           : "";
    snprintf(where->what, sizeof where->what, "%s%s%s", op_name(span->kind, span->use), *unit ? " " : "", unit);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* The node's bytes on one rank, and their instant. `step` NULL: the bytes held now. False: unknown. */
static bool held_of(const struct node *node, const struct lab_scene *scene, int rank, const struct history_step *step,
                    uint64_t *held, uint64_t *when_ns)
{
    const struct selection_of *of = &node->of;
    struct run_instant instant;
    if (!step) {
        instant = scene->model->rank[rank].tier[of->tier].now;
        *when_ns = scene->model->now_ns;
    } else if (node->metric == METRIC_RESTING) {
        instant = history_held(scene->history, rank, of->tier, step->begun_ns + 1);
        *when_ns = step->begun_ns;
    } else if (node->metric == METRIC_PEAK && of->category != ANY) {
        return history_most(scene->history, rank, of->tier, (enum category)of->category, step->begun_ns, step->ended_ns,
                            held, when_ns) ||
               of->tier != TIER_DEVICE;
    } else {
        instant = history_fullest(scene->history, rank, of->tier, step->begun_ns, step->ended_ns, when_ns);
    }
    *held = of->category == ANY ? instant.live_bytes : instant.held_bytes[of->category];
    if (node->metric == METRIC_RESERVED) *held = instant.reserved_bytes;
    return instant.known || (of->tier != TIER_DEVICE && node->metric != METRIC_RESERVED);
}

static struct lab_value memory_value(const struct node *node, const struct lab_scene *scene,
                                     const struct history_step *step)
{
    struct lab_value best = value_unknown("nothing is known of this memory yet");
    for (int rank = 0; rank < scene->model->ranks; rank++) {
        uint64_t held = 0, when_ns = 0;
        if (node->of.rank != ANY && node->of.rank != rank) continue;
        if (!held_of(node, scene, rank, step, &held, &when_ns)) continue;
        if (best.known && (double)held <= best.quantity.value) continue;
        best = value_known((double)held, bytes);
        at_span(&best.where, scene, rank, when_ns);
    }
    return best;
}

/* ---- operations ---------------------------------------------------------------------------------------------------- */

static bool is_counted(const struct node *node, const struct span *span, uint32_t step)
{
    const struct selection_of *of = &node->of;
    if (span->step != step || span->purpose != PURPOSE_TRAIN || !span->ended_ns) return false;
    if (of->phase != ANY && of->phase != (int)span->phase) return false;
    const enum traffic traffic = traffic_of_op(span->kind);
    if (node->metric != METRIC_COUNT && of->kind == ANY) return traffic != TRAFFIC_CONTROL && !traffic_is_copy(traffic);
    if (node->metric != METRIC_COUNT) return span->kind != OP_LOAD && (int)traffic == of->kind;
    return (of->op == ANY || of->op == op_words(span->kind, span->use)->code) && (!of->ahead || span->prefetch);
}

static double of_span(const struct node *node, const struct lab_scene *scene, const struct span *span)
{
    const struct op *op = run_op(run_schedule_numbered(scene->model, span->schedule), span->op);
    switch (node->metric) {
    case METRIC_SENT: return (double)span->sent_bytes;
    case METRIC_PAYLOAD: return op ? (double)op->bytes : 0;
    case METRIC_COUNT: return 1;
    default: return (double)span->peers_ns * 1e-9;
    }
}

static double over_spans(const struct node *node, const struct lab_scene *scene, int rank, const struct history_step *step,
                         struct lab_where *where)
{
    double sum = 0;
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        if (node->metric != METRIC_COUNT && lane_kind(lane) == LANE_COMPUTE) continue;
        history_spans(scene->history, rank, lane, step->begun_ns, step->ended_ns, &first, &end);
        for (int64_t s = first; s < end; s++) {
            const struct span *span = history_span(scene->history, rank, lane, s);
            if (!span || !is_counted(node, span, step->step)) continue;
            sum += of_span(node, scene, span);
            if (!where->known)
                *where =
                    (struct lab_where){.known = true, .rank = rank, .step = step->step, .time_ns = span->started_ns};
        }
    }
    return sum;
}

/* The value of one rank, or the mean over ranks. */
static struct lab_value spans_value(const struct node *node, const struct lab_scene *scene,
                                    const struct history_step *step)
{
    struct lab_value value = value_known(0, node->dimension);
    int ranks = 0;
    for (int rank = 0; rank < scene->model->ranks; rank++) {
        if (node->of.rank != ANY && node->of.rank != rank) continue;
        value.quantity.value += over_spans(node, scene, rank, step, &value.where);
        ranks++;
    }
    if (ranks) value.quantity.value /= ranks;
    return value;
}

static struct lab_value slowest_value(const struct node *node, const struct lab_scene *scene,
                                      const struct history_step *step)
{
    struct lab_value best = {0};
    double least = INFINITY, most = 0;
    for (int rank = 0; rank < scene->model->ranks; rank++) {
        struct node one = *node;
        one.of.rank = rank;
        const struct lab_value waits = spans_value(&one, scene, step);
        most = fmax(most, waits.quantity.value);
        if (waits.quantity.value >= least) continue;
        least = waits.quantity.value;
        best = value_known(rank, plain);
        best.where = waits.where;
    }
    return most > 0 ? best : value_unknown("no rank waited for another one");
}

/* ---- times --------------------------------------------------------------------------------------------------------- */

static double of_totals(const struct node *node, const struct totals *totals)
{
    const struct temporal *temporal = &totals->temporal;
    double share;
    switch (node->metric) {
    case METRIC_BUSY: return (double)totals->busy_ns[node->of.lane == ANY ? LANE_COMPUTE : node->of.lane] * 1e-9;
    case METRIC_COMMUNICATING: return (double)temporal->communication_ns * 1e-9;
    case METRIC_EXPOSED:
        if (node->of.kind != ANY) return (double)totals->traffic[node->of.kind].exposed_ns * 1e-9;
        if (node->of.lane == LANE_HOST) return (double)totals->host_exposed_ns * 1e-9;
        return (double)(temporal->communication_ns - temporal->overlapped_ns) * 1e-9;
    case METRIC_OVERLAP:
        return temporal->communication_ns ? (double)temporal->overlapped_ns / (double)temporal->communication_ns : 0;
    case METRIC_STALLED: return (double)totals->prefetch.stalled_ns * 1e-9;
    case METRIC_HIDDEN: share = prefetch_hidden_share(&totals->prefetch); return share < 0 ? 0 : share;
    default: return (double)totals->phase_ns[node->of.phase] * 1e-9;
    }
}

static struct lab_value totals_value(const struct node *node, const struct lab_scene *scene,
                                     const struct history_step *step)
{
    struct totals totals;
    totals_of(&totals, scene->history, scene->model, node->of.rank, step->begun_ns, step->ended_ns, step->step);
    if (!totals.known) return value_unknown("not every rank has told of step %u", step->step);
    struct lab_value value = value_known(of_totals(node, &totals), node->dimension);
    value.where = (struct lab_where){.known = true, .step = step->step, .time_ns = step->begun_ns};
    return value;
}

/* ---- steps and the run --------------------------------------------------------------------------------------------- */

static struct lab_value step_value(const struct node *node, const struct lab_scene *scene, int64_t asked)
{
    uint32_t number = step_number(scene->model, asked);
    const struct run_step *step = number ? run_step_numbered(scene->model, number) : NULL;
    if (!step || step->ended < scene->model->ranks) return no_step(scene, asked);
    double value = node->metric == METRIC_LOSS         ? (double)step->loss
                   : node->metric == METRIC_LOSS_SCALE ? (double)step->loss_scale
                   : node->metric == METRIC_STAGE      ? step->stage
                                                       : (double)step->total_ns * 1e-9;
    if (isnan(value)) return value_unknown("step %u does not say its %s", number, metric_table[node->metric].name);
    struct lab_value result = value_known(value, node->metric == METRIC_TIME ? seconds : plain);
    const struct history_step *when = history_step_numbered(scene->history, number);
    if (when) result.where = (struct lab_where){.known = true, .step = number, .time_ns = when->ended_ns};
    return result;
}

/* While the run waits for memory, its last step is not trained yet: it will be taken again. */
static double trained_steps(const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    const bool again = last && last->skipped && model->state == RUN_OUT_OF_MEMORY;
    return last ? last->step - again : 0;
}

static double dropped_steps(const struct run_model *model)
{
    double dropped = 0;
    for (int i = 0; i < model->step_count; i++)
        dropped += model->steps[i].skipped && model->steps[i].ended == model->ranks;
    return dropped;
}

static double block_elems(const struct run_header *header)
{
    int64_t elems = 0; /* of the first, with the tiles of its MLP */
    for (int u = 0; u < header->unit_count; u++) {
        const char *name = header->units[u].name;
        if (strcmp(name, "block 0") == 0 || strncmp(name, "mlp 0.", 6) == 0) elems += header->units[u].elems;
    }
    return (double)elems;
}

/* As the next step will have it: no step may have run under it yet. */
static struct lab_value knob_value(const char *key, const struct run_model *model)
{
    struct config config;
    if (present_config(&config, model, NULL)) return value_unknown("the run has not said yet what it is");
    struct lab_value value = value_of_key(&config, key);
    config_release(&config);
    return value;
}

static struct lab_value budget_value(const struct node *node, const struct run_model *model)
{
    const struct run_tier *tier = model->ranks ? &model->rank[0].tier[node->of.tier] : NULL;
    return tier && tier->has_budget ? value_known((double)tier->budget_bytes, bytes)
                                    : value_unknown("no budget is known");
}

/* The traffic records of a step have the links; spans do not. */
static struct lab_value across_value(const struct node *node, const struct run_model *model)
{
    double sum = 0;
    if (!model->traffic_step) return value_unknown("no step has reported its traffic yet");
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (node->of.kind == ANY ? kind != TRAFFIC_CONTROL : kind == node->of.kind)
            sum += (double)model->traffic[kind][LINK_INTER].sent_bytes;
    return value_known(sum / model->ranks, bytes);
}

/* Of all units whose blocks were made in the last whole step. */
static struct lab_value quantization_error(const struct node *node, const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    double squares = 0, of_squares = 0;
    if (node->of.category != CATEGORY_PARAMETERS && node->of.category != CATEGORY_GRADIENTS)
        return value_unknown("quantization_error is of parameters or of gradients");
    for (int u = 0; last && u < model->header.unit_count; u++) {
        const struct run_quantized *from = &model->header.units[u].quantized[node->of.category == CATEGORY_GRADIENTS];
        if (from->step != last->step) continue;
        squares += from->squares;
        of_squares += from->of_squares;
    }
    return of_squares > 0 ? value_known(sqrt(squares / of_squares), plain)
                          : value_unknown("no %s were quantized in the last step", category_name(node->of.category));
}

static struct lab_value finished_value(const struct node *node, const struct run_model *model)
{
    uint32_t most = 0;
    if (node->of.rank >= model->ranks) return value_unknown("there is no rank %d", node->of.rank);
    for (int r = 0; r < model->ranks; r++)
        if ((node->of.rank < 0 || node->of.rank == r) && model->rank[r].open.finished > most)
            most = model->rank[r].open.finished;
    return value_known(most, plain);
}

static struct lab_value run_value(const struct node *node, const struct lab_scene *scene)
{
    const struct run_model *model = scene->model;
    struct run_waiting waiting;
    switch (node->metric) {
    case METRIC_ACROSS: return across_value(node, model);
    case METRIC_QUANTIZATION_ERROR: return quantization_error(node, model);
    case METRIC_FINISHED: return finished_value(node, model);
    case METRIC_WAITING:
        return value_known(run_waiting(model, &waiting) ? __builtin_popcountll(waiting.waiting) : 0, plain);
    case METRIC_DROPPED: return value_known(dropped_steps(model), plain);
    case METRIC_STEPS: return value_known(trained_steps(model), plain);
    case METRIC_OUT_OF_MEMORY: return value_known(model->has_state && model->state == RUN_OUT_OF_MEMORY, plain);
    case METRIC_WANTED:
        return model->shortage.known && model->shortage.wanted_bytes >= 0
                   ? value_known((double)model->shortage.wanted_bytes, bytes)
                   : value_unknown("memory has not run out");
    case METRIC_SAVED:
        return model->save.saved_bytes ? value_known((double)model->save.saved_bytes, bytes)
                                       : value_unknown("no checkpoint has been saved yet");
    case METRIC_STAGE: return knob_value("stage", model);
    case METRIC_BUDGET: return budget_value(node, model);
    case METRIC_KNOB: return knob_value(node->of.text, model);
    case METRIC_RANKS: return value_known(model->ranks, plain);
    case METRIC_PSI:
        return model->header.parameters >= 0 ? value_known((double)model->header.parameters, plain)
                                             : value_unknown("the trace does not say how many parameters there are");
    case METRIC_BLOCK: return value_known(block_elems(&model->header), plain);
    case METRIC_LAYERS: return value_known(model->header.layers, plain);
    default: return value_unknown("a run does not say this");
    }
}

/* The best of what the lab tries needs no run. */
static struct lab_value contest_value(const struct node *node, const struct contest *contest)
{
    if (!contest || !contest->tried) return value_unknown("this lab tries nothing (try:)");
    if (node->metric == METRIC_TRIED) return value_known(contest->tried, plain);
    if (node->metric == METRIC_FITTING) return value_known(contest->fitting, plain);
    return contest->fitting ? value_known(contest->best_s, seconds) : value_unknown("no setup fits the budgets");
}

struct lab_value measured_value(const struct node *node, const struct lab_scene *scene, int64_t asked)
{
    const struct metric_row *row = &metric_table[node->metric];
    const struct run_model *model = scene->model;
    enum metric_from from = row->from;
    if (node->metric == METRIC_TIME && node->of.phase != ANY) from = FROM_TOTALS;
    if (node->metric == METRIC_STAGE && !node->of.has_step) from = FROM_RUN;
    if (from == FROM_CONTEST) return contest_value(node, scene->contest);
    if (!model || !scene->history || !model->header.known) return value_unknown("nothing runs yet");
    if (model->header.program[0] && (!(row->where & METRIC_TRACE) || node->of.category != ANY))
        return value_unknown("a trace of another program does not say %s%s", row->name,
                             node->of.category != ANY ? " of a category" : "");
    if (from == FROM_RUN) return run_value(node, scene);
    if (from == FROM_STEP) return step_value(node, scene, asked);
    const bool of_step = node->metric != METRIC_LIVE && node->metric != METRIC_RESERVED;
    const struct history_step *step = of_step ? kept_step(scene, asked) : NULL;
    if (of_step && (!step || has_lost(scene, step))) return no_step(scene, asked); /* sums would be too small */
    if (node->of.rank >= model->ranks) return value_unknown("there is no rank %d", node->of.rank);
    if (from == FROM_MEMORY) return memory_value(node, scene, step);
    if (from == FROM_TOTALS) return totals_value(node, scene, step);
    return node->metric == METRIC_SLOWEST ? slowest_value(node, scene, step) : spans_value(node, scene, step);
}
