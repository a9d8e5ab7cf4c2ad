#include "engine/observe/states.h"

#include <stdlib.h>
#include <string.h>

#include "engine/observe/fold.h"
#include "engine/trace/file.h"

enum {
    VERSION = 1,
    SPACING_RECORDS = 50000, /* takes about 5 ms to fold */
    SPACING_STATES = 4,      /* of the records' bytes, at most a quarter is added, before compression */
    MARGIN_STEPS = 2,        /* views show the step before, too */
    OPEN_STEPS = 2,          /* may still change after a state; those before do not (snapshot.c) */
};

/* ---- numbers, as they lie in memory: one function for each struct, which writes or reads ---- */

struct coder {
    struct bytes *out; /* NULL: reads */
    const uint8_t *at;
    size_t left;
    bool failed;
};

static void code(struct coder *coder, void *value, size_t bytes)
{
    if (coder->out) coder->failed |= !bytes_append(coder->out, value, bytes);
    else if ((coder->failed |= bytes > coder->left)) memset(value, 0, bytes);
    else memcpy(value, coder->at, bytes), coder->at += bytes, coder->left -= bytes;
}

#define CODE(value) code(coder, &(value), sizeof(value))

/* A damaged or foreign file may hold anything: a bool must be one, and a count or index in [0, most]. */
static void truth(bool *value)
{
    uint8_t byte;
    memcpy(&byte, value, sizeof byte);
    *value = byte != 0;
}

static void bound(struct coder *coder, int64_t value, int64_t most)
{
    coder->failed |= value < 0 || value > most;
}

/* All but the GPU, which a standing record says. */
static void code_rank(struct coder *coder, struct run_rank *rank)
{
    struct run_flows *flows = &rank->flows;
    const struct run_gpu gpu = rank->gpu;
    CODE(*rank);
    rank->gpu = gpu;
    for (struct run_tier *tier = rank->tier; tier < rank->tier + TIERS; tier++) {
        for (int i = 0; i < CATEGORY_CODES; i++) truth(&tier->category[i].known), truth(&tier->category[i].has_at_peak);
        truth(&tier->now.known), truth(&tier->step_peak.known), truth(&tier->open_peak.known);
        truth(&tier->has_total), truth(&tier->has_budget);
    }
    for (int lane = 0; lane < LANES; lane++) truth(&rank->lane[lane].busy);
    truth(&flows->known), truth(&flows->open_pace.known), truth(&flows->pace.known);
    for (int flow = 0; flow < FLOWS; flow++)
        truth(&flows->step[flow].buffered), truth(&flows->open[flow].buffered), truth(&flows->total[flow].buffered);
    truth(&rank->process.known), truth(&rank->outside.known), truth(&rank->sensors.known);
    truth(&rank->open.begun), truth(&rank->open.computed), truth(&rank->open.lost), truth(&rank->open.unplaced);
    bound(coder, rank->marks, RUN_MARKS);
}

/* What the fold of steps, operations, memory and traffic has left in the model, but for its steps. */
static void code_model(struct coder *coder, struct run_model *model)
{
    const struct run_curve *curves[] = {&model->loss, &model->number, &model->tokens_per_s, &model->grad_norm,
                                        &model->learning_rate};
    CODE(model->pace);
    CODE(model->reason);
    CODE(model->training_schedule);
    CODE(model->has_training);
    code(coder, &model->steps_dropped, offsetof(struct run_model, notices) - offsetof(struct run_model, steps_dropped));
    code(coder, &model->traffic_doubt, sizeof *model - offsetof(struct run_model, traffic_doubt));
    for (int i = 0; i < model->header.unit_count; i++) CODE(model->header.units[i].quantized);
    for (int rank = 0; rank < model->ranks; rank++) code_rank(coder, &model->rank[rank]);
    truth(&model->pace.known), truth(&model->has_training), truth(&model->traffic_doubt), truth(&model->traffic_gap);
    for (int i = 0; i < 5; i++) bound(coder, curves[i]->count, RUN_CURVE_POINTS - 1);
    model->reason[sizeof model->reason - 1] = model->problem[sizeof model->problem - 1] = '\0';
}

static void code_step(struct coder *coder, struct run_step *step)
{
    uint64_t *sent_bytes = step->sent_bytes;
    uint8_t sent = sent_bytes != NULL;
    step->sent_bytes = NULL; /* no address in a file */
    CODE(*step);
    CODE(sent);
    bound(coder, step->ranks, RUN_RANKS_MAX);
    if (!coder->out && sent && !coder->failed) sent_bytes = calloc((size_t)step->ranks + 1, sizeof *sent_bytes);
    step->sent_bytes = sent_bytes;
    if (sent_bytes) code(coder, sent_bytes, (size_t)step->ranks * sizeof *sent_bytes);
    coder->failed |= sent && !sent_bytes;
    truth(&step->skipped), truth(&step->lost), truth(&step->pace.known);
    for (int tier = 0; tier < TIERS; tier++) truth(&step->memory[tier].known);
}

/* What must be equal for the numbers to mean the same. In another order of bytes it is not. */
static void code_layout(struct coder *coder, const struct run_model *model)
{
    uint64_t layout[] = {sizeof *model, sizeof *model->rank, sizeof *model->steps, (uint64_t)model->options.steps,
                         (uint64_t)model->options.notices, (uint64_t)model->header.unit_count, VERSION}, found[7];
    memcpy(found, layout, sizeof found);
    CODE(found);
    coder->failed |= memcmp(found, layout, sizeof found) != 0;
}

/* ---- writing ---- */

struct past {
    struct run_model *model;
    struct trace_states states;
    struct bytes news, raw;
    uint64_t records, bytes;  /* since the last state */
    uint64_t steps, state_bytes; /* written until it; its length */
    uint32_t step, newest;    /* of the last state; of the last step begun */
};

static bool put(struct past *past, const struct trace_record *begin, unsigned flag, uint64_t first, struct bytes *raw)
{
    const struct chunk_head head = {
        .flags = CHUNK_INDEX | flag, .step = begin->step_begin.step, .first_ns = first, .last_ns = first};
    return trace_states_put(&past->states, &head, raw);
}

/* The state before a step begins. False: no memory, or steps that are needed are no longer kept. */
static bool take(struct past *past, const struct trace_record *begin)
{
    struct run_model *model = past->model;
    struct coder writes = {.out = &past->raw}, *coder = &writes;
    int ranks = model->ranks, open = model->step_count < OPEN_STEPS ? model->step_count : OPEN_STEPS;
    uint64_t closed = model->steps_dropped + (uint64_t)(model->step_count - open);
    if (past->steps < model->steps_dropped || !put(past, begin, CHUNK_NEWS, begin->time_ns, &past->news)) return false;
    for (uint64_t i = past->steps; i < closed; i++) code_step(coder, &model->steps[i - model->steps_dropped]);
    if (coder->failed || !put(past, begin, CHUNK_STEPS, closed, &past->raw)) return false;
    code_layout(coder, model);
    CODE(ranks);
    code_model(coder, model);
    CODE(open);
    for (int i = model->step_count - open; i < model->step_count; i++) code_step(coder, &model->steps[i]);
    past->state_bytes = past->raw.count;
    past->records = past->bytes = 0;
    past->steps = closed;
    past->step = begin->step_begin.step;
    return !coder->failed && put(past, begin, CHUNK_STATE, begin->time_ns, &past->raw);
}

static bool is_due(const struct past *past, uint32_t step)
{
    const uint64_t steps = past->model->steps_dropped + (uint64_t)past->model->step_count - past->steps;
    const bool far = past->records >= SPACING_RECORDS && past->bytes >= SPACING_STATES * past->state_bytes;
    return step > past->step + MARGIN_STEPS && (far || steps >= RUN_STEPS_KEPT);
}

static bool pass(struct past *past, const struct trace_record *record, const void *encoded)
{
    const size_t bytes = trace_peek(encoded).bytes;
    bool good = true;
    if (record->kind == TRACE_STEP_BEGIN && record->step_begin.step > past->newest) {
        past->newest = record->step_begin.step;
        if (is_due(past, past->newest)) good = take(past, record);
    }
    if (trace_kind_traits(record->kind) & (TRACE_STANDING | TRACE_NEWS) || record->kind == TRACE_LESSON)
        good &= bytes_append(&past->news, encoded, bytes);
    past->records++;
    past->bytes += bytes;
    run_model_fold(past->model, record);
    return good;
}

int run_states_write(const char *path, uint64_t most_bytes, struct error *err)
{
    struct past past = {.model = run_model_new(
                            &(struct run_model_options){.steps = RUN_STEPS_KEPT, .notices = RUN_NOTICES_KEPT})};
    struct source *source = NULL;
    struct trace_record record;
    struct trace_state *had = NULL;
    enum source_result result = SOURCE_BAD;
    int status = past.model ? source_open_file(&source, path, err) : error_set(err, STATUS_RUN, "no memory for a run");
    bool good = !status && source_states(source, &had) == 0;
    while (good && (result = source_next(source, &record)) == SOURCE_RECORD)
        good = pass(&past, &record, source_encoded(source));
    const bool whole = good && result == SOURCE_END && !source_torn(source) && past.model->ended;
    if (whole && past.states.entries.count) status = trace_file_add_states(path, &past.states, most_bytes, err);
    free(had);
    source_close(source);
    trace_states_release(&past.states);
    bytes_release(&past.news);
    bytes_release(&past.raw);
    run_model_free(past.model);
    return status;
}

/* ---- reading ---- */

/* The index in `all` of the last state that is so many steps before `step` and not after time_ns; -1: none. */
static int last_before(const struct trace_state *all, int count, uint32_t steps, uint32_t step, uint64_t time_ns)
{
    int i = count - 1;
    while (i >= 0 && !(all[i].flags & CHUNK_STATE && all[i].time_ns <= time_ns && (uint64_t)all[i].step + steps <= step)) i--;
    return i;
}

/* The last but one that is early enough: between them lie more operations than any view adds up by default. */
static int choose(const struct trace_state *all, int count, uint32_t step, uint64_t time_ns)
{
    int near = last_before(all, count, 0, step, time_ns);
    if (near >= 0 && (time_ns != UINT64_MAX || step == UINT32_MAX)) step = all[near].step; /* the step then, or an earlier one */
    near = last_before(all, near + 1, MARGIN_STEPS, step, time_ns);
    return near < 0 ? near : last_before(all, near, 0, step, time_ns);
}

static bool fold_news(struct run_model *model, struct source *source, const struct trace_state *news)
{
    struct trace_record record;
    size_t bytes, size;
    const uint8_t *records = source_state(source, news, &bytes);
    for (size_t at = 0; records && at < bytes; at += size) {
        if (!(size = trace_decode(records + at, bytes - at, &record))) return false;
        run_model_fold(model, &record);
    }
    return records;
}

static void add_step(struct run_model *model, struct coder *coder, bool kept)
{
    struct run_step step = {0};
    code_step(coder, &step);
    const bool takes = kept && !coder->failed;
    struct run_step *place = takes ? array_add(model->steps, model->step_count, model->step_room) : NULL;
    if (place) *place = step;
    else free(step.sent_bytes);
}

/* Steps that the model had dropped are skipped. *seen: how many there are so far, those included. */
static bool add_steps(struct run_model *model, struct source *source, const struct trace_state *steps, uint64_t *seen)
{
    struct coder coder = {0};
    const uint64_t begin = *seen;
    *seen = steps->time_ns;
    if (*seen <= model->steps_dropped) return true;
    if (!(coder.at = source_state(source, steps, &coder.left))) return false;
    for (uint64_t i = begin; i < *seen && !coder.failed; i++) add_step(model, &coder, i >= model->steps_dropped);
    return !coder.failed;
}

static bool load(struct run_model *model, struct source *source, const struct trace_state *all, int chosen)
{
    struct bytes state = {0};
    struct coder reads = {0}, *coder = &reads;
    uint64_t seen = 0;
    int ranks = 0, open = 0;
    bool good = true;
    for (int i = 0; i < chosen && good; i++)
        if (all[i].flags & CHUNK_NEWS) good = fold_news(model, source, &all[i]);
    const uint8_t *numbers = good ? source_state(source, &all[chosen], &reads.left) : NULL;
    if (!numbers || !bytes_append(&state, numbers, reads.left)) return bytes_release(&state), false;
    coder->at = state.at;
    code_layout(coder, model);
    CODE(ranks);
    good = !coder->failed && ranks >= model->ranks && ranks <= RUN_RANKS_MAX &&
           (ranks == model->ranks || model_rank(model, (unsigned)ranks - 1));
    if (good) code_model(coder, model);
    for (int i = 0; i < chosen && good && !coder->failed; i++)
        if (all[i].flags & CHUNK_STEPS) good = add_steps(model, source, &all[i], &seen);
    CODE(open);
    bound(coder, open, OPEN_STEPS);
    for (int i = 0; i < open && good && !coder->failed; i++) add_step(model, coder, true);
    bytes_release(&state);
    return good && !coder->failed && (uint64_t)model->step_count + model->steps_dropped == seen + (uint64_t)open;
}

bool run_state_load(struct run_model *model, struct source *source, uint64_t after_ns, uint32_t step, uint64_t time_ns,
                    uint32_t *from_step)
{
    struct trace_state *all;
    const int count = source_states(source, &all), chosen = choose(all, count, step, time_ns);
    const bool good = chosen >= 0 && all[chosen].time_ns > after_ns && load(model, source, all, chosen);
    if (good) *from_step = all[chosen].step;
    free(all);
    return good;
}
