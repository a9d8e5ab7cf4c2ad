/* Runs of the engine with ranks as threads, for tests: what a run does (struct plan_of_run) and what came of it. The model is that of
 * tests/support/small.json. FULL=1, or a plan that says so, takes nano. */
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/zero/internal.h"
#include "tests/support/effort.h"

enum { STEPS_MAX = 40, RANKS_MAX = 8, SWITCHES_MAX = 8 };

struct plan_of_run { /* what a run does */
    const char *sets[24];
    int set_count, steps;
    bool nano; /* the built-in configuration, and not tests/support/small.json */
    struct {
        int before_step, stage;
        void (*change)(struct config_zero *knobs); /* NULL: only the stage */
    } switches[SWITCHES_MAX];
    int switch_count;
    uint64_t budget_bytes; /* 0: none */
    int rescue_stage;      /* switched to when out of memory; -1: none */
    void (*rescue)(struct config_zero *knobs); /* and this changed; may be NULL */
    bool evaluate;
    const char *fails_with; /* NULL: it does not */
    void (*before_step)(struct zero *zero, int rank, int step); /* NULL: nothing */
    const struct zero_device *(*device)(int rank); /* NULL: none */
};

struct outcome_of_run {
    float loss[STEPS_MAX], grad_norm[STEPS_MAX];
    bool skipped[STEPS_MAX];
    double loss_scale[STEPS_MAX];
    uint64_t hash;
    float validation;
    int shortages;
    struct zero_shortage shortage;
    struct memory_snapshot memory;
    struct footprint footprint;
    struct traffic_sum traffic[TRAFFIC_KINDS];
    int64_t model_elems, padded_elems; /* Psi, and with the padding of every unit */
    int hidden;
    int ran[OP_KINDS], coded[OP_CODES_MAX], ahead;          /* operations that rank 0 ran, by its own records; gathers ahead of need */
    int beside;                        /* of them reductions beside which it computed */
    int64_t gathered_bytes;            /* payload of its gathers */
    char error[512];
};

struct rank_thread {
    const struct plan_of_run *plan;
    const struct config *config;
    struct comm_group *group;
    const struct data *data;
    int rank;
    struct trace_ring *rings[LANES]; /* rank 0's */
    struct outcome_of_run out;
};

/* What rank 0 says of its operations, as it says it to a trace. */
enum { TOLD_BYTES = 1 << 18, TOLD_MAX = 4096 };
struct told { uint32_t op; uint64_t started_ns, ended_ns; };

static inline int heard(struct trace_ring *ring, struct told *told)
{
    static char bytes[TOLD_BYTES];
    struct trace_record record;
    int count = 0;
    size_t got = trace_ring_drain(ring, bytes, sizeof bytes), at = 0, length;
    for (; at < got && (length = trace_decode(bytes + at, got - at, &record)); at += length)
        if (record.kind == TRACE_OP_END && count < TOLD_MAX)
            told[count++] = (struct told){record.op_end.op, record.op_end.started_ns, record.time_ns};
    return count;
}

static inline bool overlaps(const struct told *one, const struct told *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i].started_ns < one->ended_ns && one->started_ns < list[i].ended_ns) return true;
    return false;
}

static inline void note_operations(struct outcome_of_run *out, struct trace_ring *const *rings, const struct schedule *schedule)
{
    static struct told compute[TOLD_MAX], other[TOLD_MAX];
    const int computed = heard(rings[LANE_COMPUTE], compute);
    for (int i = 0; i < computed; i++) {
        const struct op *op = &schedule->ops[compute[i].op];
        out->ran[op->kind]++;
        out->coded[op_words(op->kind, op->use)->code]++;
    }
    for (int lane = LANE_COMPUTE + 1; lane < LANES; lane++) {
        const int count = heard(rings[lane], other);
        for (int i = 0; i < count; i++) {
            const struct op *op = &schedule->ops[other[i].op];
            out->ran[op->kind]++;
            out->coded[op_words(op->kind, op->use)->code]++;
            out->ahead += op->kind == OP_GATHER && op->prefetch;
            out->gathered_bytes += op->kind == OP_GATHER ? op->bytes : 0;
            out->beside += op->kind == OP_REDUCE_SCATTER && overlaps(&other[i], compute, computed);
        }
    }
}

/* Of a step that ran out of memory: the next one may have another schedule. */
static inline void forget_operations(struct trace_ring *const *rings)
{
    static struct told forgotten[TOLD_MAX];
    for (int lane = 0; lane < LANES; lane++) heard(rings[lane], forgotten);
}

static inline bool note(struct rank_thread *thread, int status, const struct error *err)
{
    if (status && !thread->out.error[0]) snprintf(thread->out.error, sizeof thread->out.error, "%s", err->text);
    return status != STATUS_OK;
}

static inline bool switch_to(struct rank_thread *thread, struct zero *zero, int stage, void (*change)(struct config_zero *),
                      struct zero_result *result)
{
    struct error err = {0};
    struct config_zero knobs = thread->config->zero;
    knobs.stage = stage;
    if (change) change(&knobs);
    return note(thread, zero_switch(zero, &knobs, result, &err), &err);
}

/* What a step that was not cut short has moved, of every kind: as its schedule says, to the byte. */
static inline void hold_traffic(struct rank_thread *thread, const struct zero *zero, bool was_pending)
{
    const int which = zero_is_delayed(zero) && !was_pending ? SCHEDULE_NOTHING_PENDING : PURPOSE_TRAIN;
    struct traffic_sum planned[TRAFFIC_KINDS];
    traffic_of(planned, &zero->plan.schedules[which], &zero->model, thread->rank, thread->config->topology.ranks_per_node);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const uint64_t moved = zero->trace.traffic[kind].sent_bytes[0] + zero->trace.traffic[kind].sent_bytes[1];
        if (kind == TRAFFIC_CONTROL || thread->out.error[0]) continue;
        if (moved == (uint64_t)planned[kind].sent_bytes &&
            zero->trace.traffic[kind].sent_bytes[LINK_INTER] == (uint64_t)planned[kind].across_bytes)
            continue;
        snprintf(thread->out.error, sizeof thread->out.error,
                 "step %lld moved %llu bytes of kind %d, %llu of them across nodes; %lld were planned, and %lld",
                 (long long)zero->progress.steps_done, (unsigned long long)moved, kind,
                 (unsigned long long)zero->trace.traffic[kind].sent_bytes[LINK_INTER],
                 (long long)planned[kind].sent_bytes, (long long)planned[kind].across_bytes);
    }
}

static inline void train(struct rank_thread *thread, struct zero *zero)
{
    const struct plan_of_run *plan = thread->plan;
    struct error err = {0};
    for (int step = 1; step <= plan->steps;) {
        struct zero_result result = {0};
        for (int s = 0; s < plan->switch_count; s++)
            if (plan->switches[s].before_step == step &&
                switch_to(thread, zero, plan->switches[s].stage, plan->switches[s].change, &result))
                return;
        if (plan->before_step) plan->before_step(zero, thread->rank, step);
        const bool was_pending = zero_progress(zero).pending;
        if (note(thread, zero_step(zero, &result, &err), &err)) return;
        if (result.outcome == ZERO_DIVERGED) {
            snprintf(thread->out.error, sizeof thread->out.error, "step %lld: %s", (long long)result.step,
                     result.divergence.text);
            note(thread, zero_state_hash(zero, &thread->out.hash, &err), &err);
            return;
        }
        if (result.outcome == ZERO_DONE && !result.skipped) hold_traffic(thread, zero, was_pending);
        if (result.outcome == ZERO_OUT_OF_MEMORY) {
            thread->out.shortages++;
            thread->out.shortage = result.shortage;
            if (thread->rank == 0) forget_operations(thread->rings);
            if (plan->rescue_stage < 0 || thread->out.shortages > 1) return;
            if (switch_to(thread, zero, plan->rescue_stage, plan->rescue, &result)) return;
            continue;
        }
        if (thread->rank == 0) note_operations(&thread->out, thread->rings, zero_schedule(zero));
        thread->out.loss[step - 1] = result.loss;
        thread->out.grad_norm[step - 1] = result.grad_norm;
        thread->out.skipped[step - 1] = result.skipped;
        thread->out.loss_scale[step - 1] = result.loss_scale;
        step++;
    }
    int64_t tokens;
    if (plan->evaluate && note(thread, zero_evaluate(zero, 64, &thread->out.validation, &tokens, &err), &err)) return;
    note(thread, zero_state_hash(zero, &thread->out.hash, &err), &err);
}

static inline void *rank_main(void *argument)
{
    struct rank_thread *thread = argument;
    struct error err = {0};
    struct comm *comm;
    struct zero *zero = NULL;
    struct zero_result result = {0};
    if (note(thread, comm_open_thread(&comm, thread->group, thread->rank, &err), &err)) return NULL;
    struct zero_options options = {.config = thread->config, .comm = comm, .data = thread->data};
    if (thread->plan->device) options.device = thread->plan->device(thread->rank);
    static _Alignas(64) char memory[LANES][TOLD_BYTES];
    for (int lane = 0; lane < LANES && thread->rank == 0; lane++)
        options.rings[lane] = thread->rings[lane] = trace_ring_init(memory[lane], TOLD_BYTES);
    int status = zero_open(&zero, &options, &result.shortage, &err);
    if (status && *result.shortage.text && thread->plan->rescue_stage >= 0) {
        thread->out.shortages++;
        thread->out.shortage = result.shortage;
        switch_to(thread, zero, thread->plan->rescue_stage, NULL, &result);
    } else if (note(thread, status, &err)) {
        if (!*result.shortage.text) comm_abort(comm, &err); /* else all ranks are alike */
        comm_close(comm);
        zero_close(zero);
        return NULL;
    }
    train(thread, zero);
    memory_snapshot(zero_memory(zero), &thread->out.memory);
    footprint_of(&thread->out.footprint, zero_schedule(zero));
    struct model model;
    model_of(&model, thread->config, NULL);
    traffic_of(thread->out.traffic, zero_schedule(zero), &model, thread->rank, 0);
    thread->out.model_elems = model.elems;
    thread->out.hidden = model.shape.hidden;
    for (int u = 0; u < model.unit_count; u++)
        thread->out.padded_elems +=
            shard_elems(model.units[u].elems, thread->config->topology.ranks) * thread->config->topology.ranks;
    model_release(&model);
    comm_close(comm);
    zero_close(zero);
    return NULL;
}

static inline int load_plan(struct config *config, const struct plan_of_run *plan, struct error *err)
{
    const bool nano = plan->nano || effort_is_full();
    return config_load(config, nano ? "configs/nano.json" : "tests/support/small.json", plan->sets, plan->set_count,
                       err);
}

/* Runs all ranks and returns rank 0's outcome; ranks must agree on everything. */
static inline struct outcome_of_run run(const struct plan_of_run *plan)
{
    static struct rank_thread threads[RANKS_MAX];
    pthread_t handles[RANKS_MAX];
    struct config config;
    struct error err = {0};
    struct comm_group *group;
    struct data *data;
    if (load_plan(&config, plan, &err)) fail_msg("%s", err.text);
    if (plan->budget_bytes) config.budget_bytes[TIER_DEVICE] = plan->budget_bytes;
    const int ranks = config.topology.ranks;
    if (data_open(&data, &config, &err)) fail_msg("%s", err.text);
    assert_int_equal(comm_group_create(&group, ranks, config.topology.ranks_per_node, &err), 0);
    for (int r = 0; r < ranks; r++) {
        threads[r] = (struct rank_thread){.plan = plan, .config = &config, .group = group, .data = data, .rank = r};
        assert_int_equal(pthread_create(&handles[r], NULL, rank_main, &threads[r]), 0);
    }
    for (int r = 0; r < ranks; r++) pthread_join(handles[r], NULL);
    for (int r = 0; r < ranks; r++) {
        if (plan->fails_with && !strstr(threads[r].out.error, plan->fails_with))
            fail_msg("rank %d: \"%s\", not \"%s\"", r, threads[r].out.error, plan->fails_with);
        if (!plan->fails_with && threads[r].out.error[0]) fail_msg("rank %d: %s", r, threads[r].out.error);
        assert_memory_equal(threads[r].out.loss, threads[0].out.loss, sizeof threads[0].out.loss);
        assert_int_equal(threads[r].out.hash, threads[0].out.hash);
    }
    comm_group_free(group);
    data_close(data);
    config_release(&config);
    return threads[0].out;
}

static inline void set(struct plan_of_run *plan, const char *text)
{
    plan->sets[plan->set_count++] = text;
}

static inline struct plan_of_run base(int steps, const char *ranks, const char *stage, bool bf16)
{
    struct plan_of_run plan = {.steps = steps, .rescue_stage = -1};
    set(&plan, ranks);
    set(&plan, stage);
    set(&plan, bf16 ? "bf16.enabled=true" : "bf16.enabled=false");
    set(&plan, "gradient_clipping=0.5");
    return plan;
}

static const char *const stage_sets[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                         "zero_optimization.stage=2", "zero_optimization.stage=3"};

static inline void expect_same(const struct outcome_of_run *want, const struct outcome_of_run *got, int steps,
                        const char *what)
{
    for (int s = 0; s < steps; s++)
        if (memcmp(&want->loss[s], &got->loss[s], 4))
            fail_msg("%s: step %d: loss %.9g, not %.9g", what, s + 1, (double)got->loss[s], (double)want->loss[s]);
    assert_memory_equal(want->skipped, got->skipped, sizeof want->skipped);
    assert_memory_equal(want->loss_scale, got->loss_scale, sizeof want->loss_scale);
    if (want->hash != got->hash) fail_msg("%s: another state hash", what);
}

/* Bytes of an array, written down anew: a scale of four bytes for 512 elements, and whole words. */
static inline uint64_t array_bytes(int64_t elems, int bits)
{
    const int64_t rest = elems % 512;
    return (uint64_t)(elems / 512 * (4 + 64 * bits) + (rest ? 4 + (rest * bits + 31) / 32 * 4 : 0));
}

/* Of one slice of each unit, over so many ranks. */
static inline uint64_t slices_bytes(int bits, int ranks)
{
    struct config config;
    struct model model;
    struct error err;
    uint64_t bytes = 0;
    assert_int_equal(config_load(&config, "tests/support/small.json", NULL, 0, &err), 0);
    assert_int_equal(model_of(&model, &config, &err), 0);
    for (int u = 0; u < model.unit_count; u++) bytes += array_bytes(shard_elems(model.units[u].elems, ranks), bits);
    model_release(&model);
    config_release(&config);
    return bytes;
}
