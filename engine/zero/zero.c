/* Training steps, evaluation, sampling, and switches of layout or budget between steps. */
#include "engine/zero/zero.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/zero/internal.h"

/* ---- delayed updates ----
 * One-step delayed parameter update (ZeRO-Offload, section 5.2): the gradients of a step stay in the host tier, with the factor
 * that clips and unscales them, and the host updates with them while the next step computes. Gradients and factor are part of
 * the state, so a checkpoint and a switch of stage keep them.
 *
 * Where no update may stay pending, it runs at once, between two steps, with the schedule's own operations in the order of the
 * list: before a switch to updates without delay, and after a step that ran out of memory, which may have done a part of it. */

bool zero_is_delayed(const struct zero *zero)
{
    return zero->plan.schedules[PURPOSE_TRAIN].knobs.delayed_update;
}

static bool delay_is_due(const struct zero *zero)
{
    return zero->ready && zero->plan.knobs.delayed_update && !zero_is_delayed(zero) &&
           zero->progress.steps_done >= zero->plan.knobs.delayed_update_after;
}

static void note_pending(struct zero *zero, bool updates)
{
    zero->progress.pending = updates;
    zero->progress.pending_factor = updates ? zero->step.gradient_factor : 0;
    zero->pending.update = (struct update_of){zero->step.gradient_factor, zero->step.rate, zero->progress.updates};
}

/* Whether an operation before the agreement belongs to the update: it updates, or reads or writes states for it. All operations
 * after the agreement belong to it. */
static bool is_part(const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    return op_is_update(op->kind) || (op_swaps(op->kind) && op->buffer[ROLE_SOURCE] < 0);
}

/* The operation with which a part is complete: states on NVMe must have been written back. */
static int done_with(const struct schedule *schedule, int i)
{
    const struct op *op = &schedule->ops[i];
    for (int k = i; k < schedule->op_count && schedule->ops[k].kind != OP_AGREE; k++) {
        const struct op *other = &schedule->ops[k];
        if (other->kind == OP_SWAP_OUT && other->unit == op->unit && other->tile == op->tile) return k;
    }
    return i;
}

int zero_apply_pending(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    const int agreement = schedule_agreement(schedule);
    int status = STATUS_OK;
    zero->step.applies_pending = true;
    for (int i = 0; i < schedule->op_count && status == STATUS_OK; i++) {
        if (i == agreement || (i < agreement && !is_part(schedule, i))) continue;
        if (i < agreement && zero->pending.done && zero->pending.done[done_with(schedule, i)]) continue;
        status = zero_run_alone(zero, schedule, &schedule->ops[i], err);
    }
    zero->step.applies_pending = zero->progress.pending = false;
    return status;
}

/* ---- running a schedule ---- */

/* Slow motion applies to training only; evaluation and sampling run at full speed. True: the run is slowed. */
static bool set_slow_motion(struct zero *zero, enum purpose purpose)
{
    const double straggler = zero->config->topology.slow_rank == zero->rank ? SLOW_RANK_FACTOR : 1;
    const double slow = zero->config->topology.slow_motion;
    const double least_s = slow >= SLOW_MOTION_EYE ? SLOW_MOTION_EYE_SECONDS : 0;
    const bool slowed = purpose == PURPOSE_TRAIN && slow * straggler > 1;
    if (slowed) executor_slow(zero->executor, slow * straggler, (uint64_t)(least_s * 1e9));
    else executor_slow(zero->executor, 1, 0);
    return slowed;
}

static int schedule_for(const struct zero *zero, enum purpose purpose)
{
    return purpose == PURPOSE_TRAIN && zero_is_delayed(zero) && !zero->progress.pending ? SCHEDULE_NOTHING_PENDING
                                                                                     : (int)purpose;
}

static int run(struct zero *zero, enum purpose purpose, bool *failed, struct zero_shortage *shortage, struct error *err)
{
    struct executor_result result = {0};
    const int which = schedule_for(zero, purpose);
    const bool slowed = set_slow_motion(zero, purpose);
    zero->step.purpose = purpose;
    zero->step.spoiled_blocks = false;
    zero->step.swap_failure.failed = zero->step.update_failure.failed = false;
    zero_clean_mailbox(zero);
    int status =
        executor_run(zero->executor, &zero->plan.schedules[which], zero->plan.number + (uint32_t)which,
                     (uint32_t)zero->progress.steps_done + 1, !slowed && zero_runs_ahead(zero, which), &result, err);
    *failed = result.failed;
    zero->step.gate_ns = result.gate_ns;
    if (status || !result.failed) return status;
    const struct zero_shortage none = {.op = -1}, *mine = zero->step.swap_failure.failed     ? &zero->step.swap_failure
                                                         : zero->step.update_failure.failed ? &zero->step.update_failure
                                                         : result.take.failed               ? &result.take
                                                                                            : &none;
    return zero_agree_on_failure(zero, mine, failed, shortage, err);
}

/* Notes the gradients that the step leaves pending. After a step that ran out of memory, finishes its pending update at once. */
static int settle_pending(struct zero *zero, const struct zero_result *result, struct error *err)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    int status = STATUS_OK;
    if (!zero_is_delayed(zero)) return STATUS_OK;
    if (result->outcome != ZERO_OUT_OF_MEMORY) note_pending(zero, result->outcome == ZERO_DONE && !result->skipped);
    else if (zero->progress.pending) status = zero_apply_pending(zero, schedule, err);
    memset(zero->pending.done, 0, (size_t)schedule->op_count);
    return status;
}

static int lone_rank(const struct zero *zero)
{
    int found = -1, count = 0;
    for (int r = 0; r < zero->ranks; r++)
        if (!isfinite(zero->step.agreed[r].loss)) found = r, count++;
    return count == 1 && zero->ranks > 1 ? found : -1;
}

static void describe(const struct zero *zero, bool failed, struct zero_result *result)
{
    const bool finite = !zero->step.concluded.not_finite;
    result->outcome = failed ? ZERO_OUT_OF_MEMORY : finite || zero_skips(zero) ? ZERO_DONE : ZERO_DIVERGED;
    result->skipped = result->outcome == ZERO_DONE && !finite;
    result->lone_rank = finite || failed ? -1 : lone_rank(zero);
    result->step = zero->progress.steps_done + 1;
    result->loss = (float)zero->step.concluded.loss;
    result->grad_norm = (float)zero->step.concluded.grad_norm;
    result->learning_rate = (float)zero->step.rate.rate;
    result->loss_scale = result->next_loss_scale = zero->progress.scaler.scale;
}

/* Counts a step that was done or skipped. True: the run should give up. */
static bool count_step(struct zero *zero, struct zero_result *result)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const bool gives_up = zero_count_skips(zero, result->skipped);
    const enum loss_scale_event event = loss_scaler_update(&zero->progress.scaler, result->skipped);
    result->next_loss_scale = zero->progress.scaler.scale;
    zero->progress.steps_done++;
    zero->progress.samples += (int64_t)schedule->micro_steps * schedule->ranks * schedule->B;
    zero->progress.updates += !result->skipped;
    return gives_up || event == LOSS_SCALE_AT_END;
}

int zero_step(struct zero *zero, struct zero_result *result, struct error *err)
{
    bool failed;
    const uint64_t begin_ns = clock_ns();
    if (delay_is_due(zero)) { /* the layout switches as at any other switch */
        const struct config_zero knobs = zero->plan.knobs;
        result->step = zero->progress.steps_done + 1;
        int switched = zero_switch(zero, &knobs, result, err);
        if (switched || result->outcome != ZERO_DONE) return switched;
    }
    memset(zero->trace.traffic, 0, sizeof zero->trace.traffic);
    if (zero->plan.errors_since < 0) zero->plan.errors_since = zero->progress.steps_done;
    zero->step.rate = learning_rate_at(zero->config, zero->progress.updates);
    const uint32_t number = zero->plan.number + (uint32_t)schedule_for(zero, PURPOSE_TRAIN);
    zero_record_step_begin(zero, number);
    int status = run(zero, PURPOSE_TRAIN, &failed, &result->shortage, err);
    if (status) return status;
    describe(zero, failed, result);
    if (result->outcome != ZERO_DONE || result->skipped) zero->plan.errors_since = -1; /* what it left is of no update */
    result->total_ns = clock_ns() - begin_ns - zero->step.gate_ns;
    zero->step.waited_ns += zero->step.gate_ns;
    const bool gives_up = result->outcome == ZERO_DONE && count_step(zero, result);
    zero_record_step_end(zero, result, number, zero->step.waited_ns);
    zero->step.waited_ns = 0;
    status = settle_pending(zero, result, err);
    if (gives_up) result->outcome = ZERO_DIVERGED;
    return status || result->outcome != ZERO_DIVERGED ? status : zero_explain_divergence(zero, result, err);
}

void zero_waited(struct zero *zero, uint64_t ns)
{
    zero->step.waited_ns += ns;
}

int zero_evaluate(struct zero *zero, int64_t samples, float *loss, int64_t *tokens, struct error *err)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_EVALUATE];
    const int64_t held_out = data_validation_samples(zero->data, schedule->T),
                  batch = (int64_t)schedule->B * zero->ranks;
    int64_t runs = (samples < held_out ? samples : held_out) / batch;
    double sum = 0;
    struct zero_shortage shortage;
    if (runs == 0)
        return error_set(
            err, STATUS_USAGE,
            "the held-out slice has %lld samples, a batch of all ranks is %lld; raise data.validation_fraction",
            (long long)held_out, (long long)batch);
    for (int64_t i = 0; i < runs; i++) {
        bool failed;
        zero->step.first_sample = i * batch;
        int status = run(zero, PURPOSE_EVALUATE, &failed, &shortage, err);
        if (status) return status;
        if (failed) return error_set(err, STATUS_RUN, "no memory to evaluate: %.400s", shortage.text);
        sum += zero->step.concluded.loss;
    }
    *loss = (float)(sum / (double)runs);
    *tokens = runs * batch * schedule->T;
    return STATUS_OK;
}

/* The first token of a text is the end-of-text token; if the tokenizer has none, a line end; if it cannot encode that, token 0. */
static int begin_sample(struct zero *zero, struct error *err)
{
    struct bytes line_end = {0};
    const struct tokenizer *tokenizer = data_tokenizer(zero->data);
    const int32_t between = tokenizer_end_of_text(tokenizer);
    const bool good = between >= 0 || tokenizer_encode(tokenizer, "\n", 1, true, &line_end) >= 0;
    zero->sampler.tokens[0] = between >= 0 ? between : 0;
    if (line_end.count) memcpy(zero->sampler.tokens, line_end.at, sizeof between);
    bytes_release(&line_end);
    return good ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a sample");
}

int zero_sample(struct zero *zero, int count, float temperature, struct bytes *text, struct error *err)
{
    struct sampler *sampler = &zero->sampler;
    const struct tokenizer *tokenizer = data_tokenizer(zero->data);
    const int T = zero->plan.schedules[PURPOSE_SAMPLE].T;
    struct zero_shortage shortage;
    int length = 1, status = begin_sample(zero, err);
    sampler->temperature = temperature;
    sampler->draw = 0;
    for (int i = 0; i < count && !status; i++) {
        bool failed;
        sampler->position = length - 1;
        status = run(zero, PURPOSE_SAMPLE, &failed, &shortage, err);
        if (status) return status;
        if (failed) return error_set(err, STATUS_RUN, "no memory to sample: %.400s", shortage.text);
        if (!tokenizer_decode(tokenizer, sampler->next, text))
            status = error_set(err, STATUS_RUN, "no memory for a sample");
        if (length == T) memmove(sampler->tokens, sampler->tokens + 1, (size_t)--length * sizeof *sampler->tokens);
        sampler->tokens[length++] = sampler->next;
    }
    return status;
}

/* ---- between steps ---- */

/* A schedule with arrays on NVMe may need files that do not exist yet. Unless all ranks can make theirs, none switches. */
static int agree_on_storage(struct zero *zero, const struct schedule *schedule, bool *failed,
                            struct zero_shortage *shortage, struct error *err)
{
    const struct buffer all = {.tier = TIER_NVME, .category = CATEGORY_OPTIMIZER};
    struct zero_shortage refused = {.op = -1};
    struct error why;
    if (!zero_needs_storage(schedule)) return STATUS_OK; /* the same on all ranks */
    if (zero_use_storage(zero, schedule, &why)) refused = take_failure_of(zero->memory, -1, &all, &why);
    return zero_agree_on_failure(zero, &refused, failed, shortage, err);
}

int zero_switch(struct zero *zero, const struct config_zero *knobs, struct zero_result *result, struct error *err)
{
    struct schedule schedules[SCHEDULES];
    bool failed = false;
    result->outcome = ZERO_DONE;
    int status = zero_plan(zero, knobs, schedules, err);
    if (status) return status;
    status = zero_check_switch(zero, &schedules[PURPOSE_TRAIN], err);
    if (status == STATUS_OK) status = zero_make_room(zero, schedules, err);
    if (status == STATUS_OK) zero_pin_host(zero, knobs);
    if (status == STATUS_OK)
        status = agree_on_storage(zero, &schedules[PURPOSE_TRAIN], &failed, &result->shortage, err);
    if (status == STATUS_OK && !failed && zero->ready)
        status = zero_reshard(zero, &schedules[PURPOSE_TRAIN], &failed, &result->shortage, err);
    if (status || failed) {
        zero_release_schedules(schedules);
        zero_pin_host(zero, &zero->plan.knobs); /* nothing has changed */
        result->outcome = ZERO_OUT_OF_MEMORY;
        return status;
    }
    status = zero_make_pending(zero, &schedules[PURPOSE_TRAIN], err);
    zero_adopt(zero, knobs, schedules);
    memset(zero->trace.peak_bytes, 0, sizeof zero->trace.peak_bytes);
    if (status == STATUS_OK && !zero->ready) status = zero_make_state(zero, &failed, &result->shortage, err);
    if (failed) result->outcome = ZERO_OUT_OF_MEMORY;
    return status;
}

int zero_set_budget(struct zero *zero, enum tier tier, uint64_t bytes, struct error *err)
{
    int status = memory_set_budget(zero->memory, tier, bytes, err);
    memset(&zero->plan.ahead, 0, sizeof zero->plan.ahead);
    zero_record_budgets(zero);
    return status;
}

void zero_spoil(struct zero *zero)
{
    zero->spoils = true;
}

bool zero_ready(const struct zero *zero)
{
    return zero->ready;
}

int64_t zero_steps_done(const struct zero *zero)
{
    return zero->progress.steps_done;
}

const struct schedule *zero_schedule(const struct zero *zero)
{
    return &zero->plan.schedules[PURPOSE_TRAIN];
}

const struct memory *zero_memory(const struct zero *zero)
{
    return zero->memory;
}
