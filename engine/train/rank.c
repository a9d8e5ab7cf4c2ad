/* The loop of a rank: takes steps, carries out orders, and records its results at the end. */
#include "engine/train/rank.h"

#include <math.h>
#include <stdio.h>

#include "engine/advise/why.h"
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/checkpoint/weights.h"
#include "engine/train/relaunch.h"
#include "engine/train/save.h"

enum { OUTSIDE_STEPS = 50 }; /* steps between two measurements of GPU memory outside of all tiers */

int rank_short_of_memory(struct rank *rank, const struct zero_shortage *shortage, struct error *err)
{
    int status =
        comm_barrier(rank->comm, err); /* all ranks have given back their buffers: the report shows them alike */
    if (status || rank->rank != 0) return status;
    const struct schedule *schedule = zero_ready(rank->zero) ? zero_schedule(rank->zero) : NULL;
    cJSON *detail = shortage_json(shortage, &rank->config, &rank->model, schedule, rank->ranks);
    record_event(rank->ring, rank->steps_done + 1, "oom", detail);
    director_short_of_memory(rank->rank0.director, shortage->text);
    return STATUS_OK;
}

/* The newest checkpoint that was saved before the last update, which made the state that diverged; false: there is none. */
static bool checkpoint_before(const struct rank *rank, char *path, size_t room)
{
    enum { LOOKED_AT = 64 };
    struct checkpoint_tag tags[LOOKED_AT];
    const char *dir = rank->config.checkpoint.path, *from = rank->spec->part.number ? NULL : rank->spec->resume;
    const int count = *dir && save_claims_has(&rank->rank0.claims, dir) ? checkpoint_tags(dir, tags, LOOKED_AT) : 0;
    for (int t = 0; t < count; t++) {
        long long step;
        if (sscanf(tags[t].tag, "step-%lld", &step) != 1 || step >= rank->updated_at) continue;
        return snprintf(path, room, "%.180s/%.63s", dir, tags[t].tag), true;
    }
    if (!from || weights_is(from) || rank->source.progress.steps_done >= rank->updated_at) return false;
    return snprintf(path, room, "%.250s", from), true;
}

/* The line that the run ends with. */
static void explain_end(const struct rank *rank, struct error *err)
{
    char path[256];
    const bool found = checkpoint_before(rank, path, sizeof path);
    error_set(err, STATUS_RUN, "%s; lower the learning rate, clip gradients or warm up; %s%s", rank->diverged,
              found ? "go on with: zerolab train --resume " : "no checkpoint of an earlier state is there",
              found ? path : "");
}

/* The run ends at this boundary, on every rank alike. */
static void diverged(struct rank *rank, int64_t step, const struct zero_divergence *divergence)
{
    snprintf(rank->diverged, sizeof rank->diverged, "step %lld diverged: %.220s", (long long)step, divergence->text);
    if (rank->rank != 0) return;
    cJSON *detail = json_object(TEXT("text", divergence->text));
    if (*divergence->tensor) json_put(detail, TEXT("tensor", divergence->tensor), TEXT("of", divergence->of));
    record_event(rank->ring, step, "diverged", detail);
}

/* After the broadcast of the order all ranks have left the last step; after the barrier the next one may begin. */
static int close_gate(struct rank *rank, uint32_t operations, struct error *err)
{
    if (rank->rank == 0) gate_close(rank->gate, operations);
    return comm_barrier(rank->comm, err);
}

/* Records overflows and every change of the loss scale. */
static void tell_scale(struct rank *rank, const struct zero_result *result)
{
    if (rank->rank != 0 || (!result->skipped && result->loss_scale == result->next_loss_scale)) return;
    cJSON *detail = json_object(NUMBER("from", result->loss_scale), NUMBER("to", result->next_loss_scale));
    if (result->lone_rank >= 0) json_put(detail, NUMBER("rank", result->lone_rank));
    record_event(rank->ring, result->step, result->skipped ? "overflow" : "loss_scale", detail);
}

/* Whether to save now; not just before the end of the run if that saves anyway. */
static bool is_due(const struct rank *rank)
{
    const int64_t every = rank->config.checkpoint.every;
    const bool is_end = rank->config.checkpoint.at_end && rank->steps_done == rank->spec->steps;
    return *rank->config.checkpoint.path && every > 0 && rank->steps_done % every == 0 && !is_end;
}

/* A failed save is recorded, and training continues. (The broadcast of the next order detects a rank that died
 * meanwhile.) */
static void save(struct rank *rank, bool at_once)
{
    struct error why;
    if (saver_save(rank->saver, &(struct saver_request){.tag = "", .at_once = at_once}, &why))
        saver_failed(rank->saver, "", why.text);
}

/* A monitor that cannot be written is logged; the run continues. */
static void monitor(struct rank *rank, const struct zero_result *result)
{
    struct error why;
    if (rank->rank == 0 && csv_monitor_step(&rank->rank0.monitor, &rank->config, result,
                                            zero_progress(rank->zero).updates, &why))
        record_log(rank->ring, 1, why.text);
}

static int take_step(struct rank *rank, struct error *err)
{
    struct zero_result result = {.outcome = ZERO_DONE};
    int status = STATUS_OK;
    if (!zero_ready(rank->zero))
        status =
            zero_switch(rank->zero, &rank->config.zero, &result, err); /* there was no memory for the state before */
    if (!status && result.outcome == ZERO_DONE) status = zero_step(rank->zero, &result, err);
    if (status) return status;
    rank_close_source(rank);
    if (result.outcome == ZERO_OUT_OF_MEMORY) return rank_short_of_memory(rank, &result.shortage, err);
    rank->steps_done = zero_steps_done(rank->zero);
    relaunch_opened(rank);
    tell_scale(rank, &result);
    monitor(rank, &result);
    if (result.outcome == ZERO_DONE && !result.skipped) rank->updated_at = rank->steps_done;
    if (result.outcome == ZERO_DIVERGED) return diverged(rank, result.step, &result.divergence), STATUS_OK;
    if (rank->rank == 0 && rank->gpu) record_gelu(rank->ring, rank->gpu, &rank->recorded.gelu);
    if (rank->rank == 0) record_pinning(rank->ring, zero_memory(rank->zero), &rank->recorded.pinning);
    const bool begins = rank->steps_done <= rank->spec->part.steps_done + 2;
    record_process(rank->ring, rank->rank, rank->steps_done, zero_memory(rank->zero), &rank->recorded.process, begins);
    if (rank->gpu && (begins || rank->steps_done % OUTSIDE_STEPS == 0))
        record_outside(rank->ring, rank->rank, rank->gpu, &rank->recorded.outside_bytes);
    if (rank->gpu) record_sensors(rank->ring, rank->rank, rank->gpu, &rank->recorded.sensors_ns);
    if (is_due(rank)) save(rank, false);
    return STATUS_OK;
}

static void apply(struct rank *rank, const struct command *command)
{
    struct error err;
    int status = rank_apply(rank, command, &err);
    if (status && rank->rank == 0) director_applied(rank->rank0.director, command, err.text);
}

/* In a pause rank 0 waits here for a command. The other ranks wait for its broadcast, which says how long the wait
 * was. */
static void next_order(struct rank *rank, struct order *order)
{
    const uint64_t since_ns = clock_ns();
    director_next(rank->rank0.director, rank->steps_done, order);
    order->waited_ns = clock_ns() - since_ns;
}

static int follow_orders(struct rank *rank, struct order *order, struct error *err)
{
    for (;;) {
        if (rank->rank == 0) next_order(rank, order);
        int status = comm_broadcast_control(rank->comm, order, sizeof *order, err);
        zero_waited(rank->zero, order->waited_ns);
        if (status || order->kind == ORDER_END) return status;
        if (order->kind == ORDER_COMMAND) apply(rank, &order->command);
        else if (order->operations) status = close_gate(rank, order->operations, err);
        if (!status && order->kind == ORDER_STEP) status = take_step(rank, err);
        if (status || rank->relaunch.leaves || *rank->diverged) return status;
    }
}

/* Checks that the state and the validation loss are finite, because no later step will. A validation that is not
 * possible (no held-out text, no memory) is missing from the report, but is no failure. */
static int check_end(struct rank *rank, enum outcome outcome, struct error *err)
{
    struct zero_divergence found;
    struct error why;
    bool finite;
    float loss = 0;
    int status = zero_check_state(rank->zero, &finite, &found, err);
    if (status || !finite) return status ? status : (diverged(rank, rank->steps_done, &found), STATUS_OK);
    if (outcome != OUTCOME_FINISHED) return STATUS_OK;
    if (rank_validate(rank, NULL, &loss, &why) && rank->rank == 0) record_log(rank->ring, 0, why.text);
    if (!isfinite(loss)) {
        found = (struct zero_divergence){.text = "the validation loss is not finite"};
        diverged(rank, rank->steps_done, &found);
    }
    return STATUS_OK;
}

/* Waits for a save in progress. Then, but for a relaunch, records the results of a run: validation loss and sample if it finished,
 * and the hash of its state. Saves the last checkpoint, unless the run diverged. */
static int conclude(struct rank *rank, enum outcome outcome, struct error *err)
{
    struct error why;
    uint64_t hash;
    bool is_saved;
    const bool leaves = rank->relaunch.leaves;
    if (!leaves)
        record_process(rank->ring, rank->rank, rank->steps_done, zero_memory(rank->zero), &rank->recorded.process, true);
    int status = saver_finish(rank->saver, &is_saved, err);
    if (status) return status;
    if (leaves || !zero_ready(rank->zero)) return comm_barrier(rank->comm, err); /* all have written their records */
    const bool ends_well = !*rank->diverged && (outcome == OUTCOME_FINISHED || outcome == OUTCOME_STOPPED);
    if (ends_well && (status = check_end(rank, outcome, err))) return status;
    const bool saves = *rank->config.checkpoint.path && rank->config.checkpoint.at_end && !is_saved;
    if (saves && !*rank->diverged) save(rank, true);
    if (outcome == OUTCOME_FINISHED && !*rank->diverged && rank->spec->sample_tokens &&
        rank_sample(rank, NULL, rank->spec->sample_tokens, &why) && rank->rank == 0)
        record_log(rank->ring, 1, why.text);
    status = zero_state_hash(rank->zero, &hash, err);
    if (!status && rank->rank == 0)
        record_now(rank->ring, TRACE_RANK_ALL,
                   (struct trace_record){.kind = TRACE_STATE_HASH,
                                         .state_hash = {.step = (uint32_t)rank->steps_done, .hash = hash}});
    return status ? status : comm_barrier(rank->comm, err);
}

int rank_run(struct rank *rank, struct error *err)
{
    struct order order = {.kind = ORDER_STEP};
    int status = rank_open(rank, err);
    rank->rank0.opened = status == STATUS_OK;
    if (!status) status = follow_orders(rank, &order, err);
    if (!status) status = conclude(rank, order.outcome, err);
    if (status) comm_abort(rank->comm, err);
    if (status && *comm_host(rank->comm, rank->rank)) status = comm_check(rank->comm, err); /* which names the host */
    const bool is_diverged = !status && *rank->diverged;
    struct error end = {.text = ""};
    if (is_diverged) explain_end(rank, &end);
    saver_free(rank->saver);
    csv_monitor_close(&rank->rank0.monitor);
    rank_close_trace(rank, status || is_diverged ? OUTCOME_FAILED : order.outcome, status ? err->text : end.text);
    comm_close(rank->comm); /* the rings are in its memory; afterwards no peer reads this rank's */
    rank->comm = NULL;
    zero_close(rank->zero);
    checkpoint_close(rank->from);
    weights_close(rank->weights);
    text_list_release(&rank->relaunch.next.sets);
    text_list_release(&rank->rank0.claims);
    data_close(rank->data);
    model_release(&rank->model);
    config_release(&rank->config);
    return status;
}
