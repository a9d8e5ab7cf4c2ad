/* The history of steps: the last ones in full, the loss of all of them as a curve whose points merge as the run grows, and
 * the traffic of a step. A step that ran out of memory is taken again under the same number; the new attempt replaces it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe/fold.h"
#include "engine/observe/totals.h"

void steps_release(struct run_model *model)
{
    for (int i = 0; i < model->step_count; i++) free(model->steps[i].sent_bytes);
    free(model->steps);
}

/* Only in a part without a header: how many ranks its steps have is found out one by one. */
void steps_of_more_ranks(struct run_model *model)
{
    const struct run_part *part = run_present_part(model);
    for (int i = model->step_count - 1; i >= 0 && (!part || model->steps[i].step > part->steps_done); i--) {
        model->steps[i].ranks = model->ranks;
        free(model->steps[i].sent_bytes); /* too short now: unknown from here on */
        model->steps[i].sent_bytes = NULL;
    }
}

/* With a bound on the history, the older half is dropped when there are twice as many steps: dropping stays cheap. */
static void forget_old(struct run_model *model)
{
    int kept = model->options.steps;
    if (kept <= 0 || model->step_count < 2 * kept) return;
    int dropped = model->step_count - kept;
    for (int i = 0; i < dropped; i++) {
        if (model->options.on_step_dropped) model->options.on_step_dropped(model->options.user, &model->steps[i]);
        free(model->steps[i].sent_bytes);
    }
    memmove(model->steps, model->steps + dropped, (size_t)kept * sizeof *model->steps);
    model->step_count = kept;
    model->steps_dropped += (uint64_t)dropped;
}

static struct run_step *step_at(struct run_model *model, uint32_t number)
{
    for (int i = model->step_count - 1; i >= 0; i--) {
        if (model->steps[i].step == number) return &model->steps[i];
        if (model->steps[i].step < number) break;
        if (i == 0) return NULL; /* older than what is kept */
    }
    forget_old(model);
    struct run_step *step = array_add(model->steps, model->step_count, model->step_room);
    if (step) *step = (struct run_step){.step = number, .ranks = model->ranks, .missing = model->header.missing};
    else model_problem(model, "no memory for step %u", number);
    return step;
}

void fold_step_begin(struct run_model *model, const struct trace_record *record)
{
    struct run_rank *rank = model_rank(model, record->rank);
    struct run_step *step = step_at(model, record->step_begin.step);
    if (!rank || !step) return;
    timing_begin_step(rank, record->step_begin.step, record->time_ns);
    rank->open.lost = model->in_gap;
    holdings_begin_step(rank);
    flows_begin_step(rank, &model->pace);
    if (rank->open.attempt > step->attempt) {
        free(step->sent_bytes);
        *step = (struct run_step){.step = step->step, .ranks = model->ranks, .missing = model->header.missing,
                                  .attempt = rank->open.attempt};
    }
    step->schedule = model->training_schedule = record->step_begin.schedule;
    step->stage = run_stage_of(record->step_begin.stage);
    step->pace = model->pace;
    model->has_training = true;
}

/* The fullest rank represents all; ranks differ at most by the padding of their last shards. */
static void note_fullest(struct run_fullest *memory, const struct run_tier *tier)
{
    const struct run_instant *peak = &tier->step_peak;
    if (!peak->known || (memory->known && peak->live_bytes <= memory->peak_bytes)) return;
    memory->known = true;
    memory->peak_bytes = peak->live_bytes;
    memory->resting_bytes = tier->began_bytes;
    memcpy(memory->at_peak_bytes, peak->held_bytes, sizeof memory->at_peak_bytes);
}

static float mean_of_known(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : (a + b) / 2;
}

/* NaN: the step is missing. A point is the mean of the steps that are known, and NaN where none is. */
static void curve_push(struct run_curve *curve, float value)
{
    if (!curve->stride) curve->stride = 1;
    if (!isnan(value)) curve->pending_sum += value, curve->known++;
    if (++curve->pending < curve->stride) return;
    curve->value[curve->count++] = curve->known ? (float)(curve->pending_sum / curve->known) : NAN;
    curve->pending = curve->known = 0;
    curve->pending_sum = 0;
    if (curve->count < RUN_CURVE_POINTS) return;
    curve->count /= 2;
    for (int i = 0; i < curve->count; i++)
        curve->value[i] = mean_of_known(curve->value[2 * i], curve->value[2 * i + 1]);
    curve->stride *= 2;
}

/* Adds a point to every curve: this step's, or an unknown one for a step that was not seen. */
static void push_step(struct run_model *model, uint32_t number, const struct run_step *step)
{
    const double tokens_per_s = step && step->total_ns ? step->tokens * 1e9 / (double)step->total_ns : 0;
    const float unknown = model->header.simulated || model->header.program[0] ? NAN : 0;
    const float grad_norm = step && isfinite(step->grad_norm) ? step->grad_norm : unknown;
    curve_push(&model->loss, step ? step->loss : NAN);
    curve_push(&model->number, (float)number);
    curve_push(&model->tokens_per_s, step ? (float)tokens_per_s : NAN);
    curve_push(&model->grad_norm, step ? grad_norm : NAN);
    curve_push(&model->learning_rate, step ? step->learning_rate : NAN);
}

static void step_completed(struct run_model *model, const struct run_step *step)
{
    enum { MOST = 1 << 20 };
    const uint32_t last = model->last_ended;
    /* Steps in between were not seen: their records were left out for a slow viewer. */
    for (uint32_t missing = last + 1; last && missing < step->step && missing <= last + MOST; missing++)
        push_step(model, missing, NULL);
    model->last_ended = step->step;
    if (step->skipped) return;
    model->steps_seen++;
    model->tokens_seen += step->tokens;
    model->time_seen_ns += step->total_ns;
    if (isfinite(step->loss) || model->header.simulated || model->header.program[0]) push_step(model, step->step, step);
}

void fold_step_end(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_step_end *from = &record->step_end;
    struct run_rank *rank = model_rank(model, record->rank);
    struct run_step *step = step_at(model, from->step);
    if (!rank || !step || rank->open.attempt < step->attempt) return;
    struct run_split split;
    const bool lost = rank->open.lost, whole = timing_end_step(rank, from->step, &split);
    flows_end_step(rank, whole ? &split : NULL);
    if (whole) {
        sums_add(&step->split, &split, sizeof split);
        step->timed++;
        sums_add(&model->split_total, &split, sizeof split);
        model->split_count++;
    }
    if (!lost) {
        holdings_end_step(rank, from->step);
        for (int tier = 0; tier < TIERS; tier++) note_fullest(&step->memory[tier], &rank->tier[tier]);
    }
    step->schedule = from->schedule;
    step->stage = run_stage_of(from->stage);
    step->skipped = from->skipped;
    if (!step->skipped && model->state == RUN_RUNNING) model->reason[0] = '\0'; /* why it went on is past */
    step->loss = from->loss;
    step->grad_norm = from->grad_norm;
    step->learning_rate = from->learning_rate;
    step->loss_scale = from->loss_scale;
    step->tokens = from->tokens;
    step->micro_steps = from->micro_steps;
    if (from->total_ns > step->total_ns) step->total_ns = from->total_ns;
    if (from->paused_ns > step->paused_ns) step->paused_ns = from->paused_ns;
    if (++step->ended + model->header.missing == step->ranks) step_completed(model, step);
}

/* Of the step that a rank is in, and of the one before, which another may not have ended. Traffic of only some ranks would
 * look like that of a rank which sent nothing. */
void steps_lose(struct run_model *model)
{
    enum { OPEN_STEPS = 2 };
    for (int i = model->step_count - 1; i >= 0 && i >= model->step_count - OPEN_STEPS; i--) {
        struct run_step *step = &model->steps[i];
        if (run_step_is_whole(step)) continue;
        step->lost = true;
        free(step->sent_bytes);
        step->sent_bytes = NULL;
    }
    model->traffic_doubt = model->traffic_gap = true;
}

static void traffic_add(struct run_traffic *sum, const struct trace_of_traffic *from)
{
    sum->ranks++;
    sum->count += from->count;
    sum->sent_bytes += from->sent_bytes;
    sum->busy_ns += from->busy_ns;
}

static void traffic_subtract(struct run_traffic *sum, const struct run_traffic *part)
{
    sum->ranks -= part->ranks;
    sum->count -= part->count;
    sum->sent_bytes -= part->sent_bytes;
    sum->busy_ns -= part->busy_ns;
    sum->link_ns -= part->link_ns;
}

/* A step that only some ranks reported is subtracted from the totals: their means are over steps and ranks. */
static void traffic_begin_step(struct run_model *model, uint32_t step)
{
    for (int kind = 0; kind < TRAFFIC_KINDS && model->traffic_doubt && model->traffic_steps; kind++)
        for (int link = 0; link < LINKS; link++)
            traffic_subtract(&model->traffic_total[kind][link], &model->traffic[kind][link]);
    if (model->traffic_doubt && model->traffic_steps) model->traffic_steps--;
    model->traffic_doubt = model->traffic_gap;
    model->traffic_gap = false;
    memset(model->traffic, 0, sizeof model->traffic);
    model->traffic_step = step;
    model->traffic_steps++;
}

/* Over all links: what a rank sends to other nodes is told apart, after its time. */
static void note_best(struct run_model *model, uint8_t kind)
{
    const struct run_traffic *links = model->traffic[kind];
    uint64_t sent_bytes = 0, busy_ns = 0;
    for (int link = 0; link < LINKS; link++) {
        sent_bytes += links[link].sent_bytes;
        busy_ns += links[link].busy_ns;
    }
    const double busbw = per_second(sent_bytes, busy_ns);
    if (links[LINK_INTRA].ranks == model->ranks && busbw > model->best_busbw[kind]) model->best_busbw[kind] = busbw;
}

void fold_traffic(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_traffic *from = &record->traffic;
    if (!model_rank(model, record->rank) || from->traffic >= TRAFFIC_KINDS || from->link >= LINKS) return;
    if (from->step != model->traffic_step || !model->traffic_steps) traffic_begin_step(model, from->step);
    traffic_add(&model->traffic[from->traffic][from->link], from);
    traffic_add(&model->traffic_total[from->traffic][from->link], from);
    note_best(model, from->traffic);
    struct run_step *step = step_at(model, from->step);
    if (!step || step->lost || from->traffic > TRAFFIC_ALL_TO_ALL || record->rank >= step->ranks) return;
    if (!step->sent_bytes) step->sent_bytes = calloc((size_t)step->ranks, sizeof *step->sent_bytes);
    if (step->sent_bytes) step->sent_bytes[record->rank] += from->sent_bytes;
}

void fold_link(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_link *from = &record->link;
    if (!model_rank(model, record->rank) || from->traffic >= TRAFFIC_KINDS || from->link >= LINKS) return;
    if (from->step != model->traffic_step || !model->traffic_steps) return;
    model->traffic[from->traffic][from->link].link_ns += from->busy_ns;
    model->traffic_total[from->traffic][from->link].link_ns += from->busy_ns;
}
