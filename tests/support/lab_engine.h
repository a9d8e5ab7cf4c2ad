/* Stands in for the engine where a lab is to be seen and not to be measured: it answers commands with the records that an
 * engine's trace would hold, of steps that follow the real schedule in made-up time. What the plan knows (bytes, counts,
 * traffic, peaks, running out of memory) comes out as in life; times and losses are round figures, equal on every machine. */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/config/command.h"
#include "engine/observe/history.h"
#include "engine/plan/schedule_io.h"
#include "engine/simulate/simulate.h"
#include "engine/train/relaunch_config.h"
#include "engine/zero/plan_records.h"
#include "tests/support/op_uses.h"

struct lab_engine {
    struct run_model *model;
    struct history *history;
    struct config config;
    struct setup setup;
    uint64_t time_ns;
    uint32_t schedule, steps_done;
    int part, pauses;
    struct relaunch_config next; /* how it would be started again */
    struct { char tag[32]; uint32_t steps_done; } saved[4]; /* checkpoints; they outlive a run */
    int saved_count;
    double loss_scale;
    uint64_t live[TIERS][CATEGORIES], peak[TIERS][CATEGORIES], tier_live[TIERS], tier_peak[TIERS];
};

static inline struct trace_text le_text(const char *text)
{
    return (struct trace_text){text, strlen(text)};
}

static inline void le_put(struct lab_engine *engine, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = engine->time_ns;
    run_model_fold(engine->model, &record);
    history_fold(engine->history, engine->model, &record);
}

static inline void le_state(struct lab_engine *engine, enum run_state state, const char *reason)
{
    le_put(engine, TRACE_RANK_ALL,
           (struct trace_record){.kind = TRACE_STATE, .state = {engine->steps_done, (uint8_t)state, le_text(reason)}});
}

static inline void le_pause(struct lab_engine *engine, const char *why)
{
    char reason[64]; /* never the same twice, as in life, where it names the step */
    snprintf(reason, sizeof reason, "%s (%d)", why, ++engine->pauses);
    le_state(engine, RUN_PAUSED, reason);
}

static inline void le_command(struct lab_engine *engine, const char *line, const char *refusal)
{
    char text[1024];
    snprintf(text, sizeof text, refusal ? "%s\t%s" : "%s", line, refusal);
    le_put(engine, TRACE_RANK_ALL,
           (struct trace_record){.kind = TRACE_COMMAND, .command = {engine->steps_done + 1, !refusal, le_text(text)}});
}

static inline void le_event(struct lab_engine *engine, const char *json)
{
    le_put(engine, TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {engine->steps_done + 1, le_text(json)}});
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static inline void le_hold(struct lab_engine *engine, const struct buffer *buffer, int64_t bytes)
{
    uint64_t *live = &engine->live[buffer->tier][buffer->category], *peak = &engine->peak[buffer->tier][buffer->category];
    *live += (uint64_t)bytes;
    engine->tier_live[buffer->tier] += (uint64_t)bytes;
    if (*live > *peak) *peak = *live;
    if (engine->tier_live[buffer->tier] > engine->tier_peak[buffer->tier])
        engine->tier_peak[buffer->tier] = engine->tier_live[buffer->tier];
    for (int rank = 0; rank < engine->config.topology.ranks; rank++)
        le_put(engine, rank,
               (struct trace_record){.kind = TRACE_MEMORY,
                                     .memory = {(uint8_t)buffer->tier, (uint8_t)buffer->category, *live, *live, *peak}});
}

/* What every step begins with: all that is known of memory is said again. */
static inline void le_keyframe(struct lab_engine *engine)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int category = 0; category < CATEGORIES; category++)
            if (engine->peak[tier][category] || tier == TIER_DEVICE)
                le_hold(engine, &(struct buffer){.tier = (enum tier)tier, .category = (enum category)category}, 0);
}

static inline void le_hold_lasting(struct lab_engine *engine)
{
    const struct schedule *schedule = &engine->setup.schedule;
    memset(engine->live, 0, sizeof engine->live);
    memset(engine->tier_live, 0, sizeof engine->tier_live);
    le_keyframe(engine);
    for (int b = 0; b < schedule->lasting_count; b++) le_hold(engine, &schedule->buffers[b], schedule->buffers[b].bytes);
}

/* ---- the plan ------------------------------------------------------------------------------------------------------ */

static inline void le_predict(struct lab_engine *engine, int tier, int category, int64_t peak, int64_t at_peak, int64_t resting)
{
    if (!peak && !resting) return;
    le_put(engine, TRACE_RANK_ALL,
           (struct trace_record){.kind = TRACE_PREDICTED,
                                 .predicted = {engine->schedule, (uint8_t)tier, (uint8_t)category, (uint64_t)peak,
                                               (uint64_t)at_peak, (uint64_t)resting}});
}

static inline void le_tell_traffic(struct lab_engine *engine, bool planned, uint32_t step)
{
    const double theory = traffic_theory_bytes(&engine->setup.model, &engine->setup.schedule);
    for (int rank = 0; rank < engine->config.topology.ranks; rank++) {
        struct traffic_sum sums[TRAFFIC_KINDS];
        bool first = true;
        traffic_of(sums, &engine->setup.schedule, &engine->setup.model, rank, engine->config.topology.ranks_per_node);
        for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
            struct trace_record record = {.kind = planned ? TRACE_THEORY : TRACE_TRAFFIC};
            for (uint8_t link = LINK_INTRA; sums[kind].count && link <= (sums[kind].across_bytes ? LINK_INTER : LINK_INTRA);
                 link++) {
                const uint64_t sent =
                    (uint64_t)(link == LINK_INTER ? sums[kind].across_bytes : sums[kind].sent_bytes - sums[kind].across_bytes);
                const uint32_t count = link == LINK_INTER ? 0 : (uint32_t)sums[kind].count;
                if (planned)
                    record.theory = (struct trace_of_theory){
                        engine->schedule, (uint8_t)kind, link, count, sent, first ? (uint64_t)theory : 0};
                else record.traffic = (struct trace_of_traffic){step, (uint8_t)kind, link, count, sent, 1000000};
                le_put(engine, rank, record);
                first = false;
            }
        }
    }
}

static inline void le_plan(struct lab_engine *engine)
{
    const struct footprint *footprint = &engine->setup.footprint;
    char *json = schedule_to_json(&engine->setup.schedule);
    engine->schedule++;
    le_put(engine, TRACE_RANK_ALL,
           (struct trace_record){.kind = TRACE_SCHEDULE,
                                 .schedule = {engine->schedule, PURPOSE_TRAIN, (uint8_t)engine->setup.schedule.stage, le_text(json)}});
    free(json);
    for (int tier = 0; tier < TIERS; tier++) {
        for (int category = 0; category < CATEGORIES; category++)
            le_predict(engine, tier, category, footprint->category[tier][category].peak_bytes,
                       footprint->category[tier][category].at_peak_bytes, footprint->category[tier][category].resting_bytes);
        le_predict(engine, tier, 255, footprint->peak_bytes[tier], footprint->peak_bytes[tier], footprint->resting_bytes[tier]);
    }
    le_tell_traffic(engine, true, 0);
    memset(engine->peak, 0, sizeof engine->peak);
    memset(engine->tier_peak, 0, sizeof engine->tier_peak);
    le_hold_lasting(engine);
}

static inline void le_tell_budgets(struct lab_engine *engine)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int rank = 0; rank < engine->config.topology.ranks; rank++)
            le_put(engine, rank, (struct trace_record){.kind = TRACE_BUDGET, .budget = {(uint8_t)tier, engine->config.budget_bytes[tier]}});
}

/* ---- a step -------------------------------------------------------------------------------------------------------- */

struct le_moment { uint64_t time_ns; int op; bool ends; };

static inline int le_by_time(const void *a, const void *b)
{
    const struct le_moment *x = a, *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    if (x->ends != y->ends) return x->ends ? -1 : 1;
    return x->op - y->op;
}

/* A block's forward takes 2 ms and its backward 4, links have 300 MB/s; or what they are paced to. */
static inline uint64_t le_duration(const struct lab_engine *engine, const struct op *op)
{
    const double slow = fmax(engine->config.topology.slow_motion, 1), moved = (double)(op->sent_bytes > 0 ? op->sent_bytes : op->bytes);
    const double own_s = moved > 0 ? moved / 3e8 : op_is(op, OP_FORWARD, USE_BLOCK) ? 2e-3 : op_is(op, OP_BACKWARD, USE_BLOCK) ? 4e-3 : 2e-4;
    struct hardware paces;
    const struct cost_input cost = cost_of(&engine->setup, &engine->config, &paces);
    const struct process_group group = schedule_group(&engine->setup.schedule, op->group, 0);
    const struct group_shape shape = group_shape_of(&group, cost.per_node);
    hardware_of_paces(&paces, &engine->config);
    return (uint64_t)fmax(own_s * slow * 1e9, (double)op_ns(&cost, op, &shape)) + 1000;
}

static inline void le_op(struct lab_engine *engine, uint32_t step, const struct le_moment *at, const uint64_t times[3], int waited_on)
{
    const struct op *op = &engine->setup.schedule.ops[at->op];
    for (int rank = 0; rank < engine->config.topology.ranks; rank++) {
        struct trace_record record = {.kind = at->ends ? TRACE_OP_END : TRACE_OP_BEGIN};
        if (at->ends)
            record.op_end = (struct trace_of_op_end){engine->schedule, step, (uint32_t)at->op, times[0], times[1], times[1],
                                                     waited_on, 0, 0, (uint64_t)op->sent_bytes};
        else record.op_begin = (struct trace_of_op_begin){engine->schedule, step, (uint32_t)at->op, times[0]};
        le_put(engine, rank, record);
    }
}

static inline void le_effects(struct lab_engine *engine, int first, int count, int sign)
{
    const struct schedule *schedule = &engine->setup.schedule;
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &schedule->buffers[schedule->effects[e]];
        le_hold(engine, buffer, sign * buffer->bytes);
    }
}

static inline void le_run_ops(struct lab_engine *engine, uint32_t step)
{
    const struct schedule *schedule = &engine->setup.schedule;
    const int count = schedule->op_count;
    struct le_moment *moments = calloc((size_t)count * 2, sizeof *moments);
    uint64_t (*times)[3] = calloc((size_t)count, sizeof *times); /* issued, started, ended */
    int *waited_on = calloc((size_t)count, sizeof *waited_on);
    uint64_t lane_free[LANES];
    assert_true(moments && times && waited_on);
    for (int lane = 0; lane < LANES; lane++) lane_free[lane] = engine->time_ns;
    for (int o = 0; o < count; o++) {
        const struct op *op = &schedule->ops[o];
        times[o][0] = times[o][1] = lane_free[op->lane];
        waited_on[o] = -1;
        for (int d = 0; d < op->dependency_count; d++) {
            int on = op->dependency[d].op;
            if (on < 0 || on >= o || times[on][2] <= times[o][1]) continue;
            times[o][1] = times[on][2];
            waited_on[o] = on;
        }
        times[o][2] = lane_free[op->lane] = times[o][1] + le_duration(engine, op);
        moments[2 * o] = (struct le_moment){times[o][1], o, false};
        moments[2 * o + 1] = (struct le_moment){times[o][2], o, true};
    }
    qsort(moments, (size_t)count * 2, sizeof *moments, le_by_time);
    for (int m = 0; m < 2 * count; m++) {
        const struct le_moment *at = &moments[m];
        const struct op *op = &schedule->ops[at->op];
        engine->time_ns = at->time_ns;
        if (!at->ends) le_effects(engine, op->first_take, op->take_count, 1);
        le_op(engine, step, at, times[at->op], waited_on[at->op]);
        if (at->ends) le_effects(engine, op->first_give, op->give_count, -1);
    }
    free(waited_on);
    free(times);
    free(moments);
}

static inline void le_end_step(struct lab_engine *engine, uint32_t step, uint64_t begun_ns, bool skipped)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int rank = 0; rank < engine->config.topology.ranks; rank++)
            le_put(engine, rank,
                   (struct trace_record){.kind = TRACE_TIER_PEAK,
                                         .tier_peak = {(uint8_t)tier, engine->tier_live[tier], engine->tier_live[tier],
                                                       engine->tier_peak[tier], engine->tier_peak[tier]}});
    le_tell_traffic(engine, false, step);
    for (int rank = 0; rank < engine->config.topology.ranks; rank++)
        le_put(engine, rank,
               (struct trace_record){.kind = TRACE_STEP_END,
                                     .step_end = {step, engine->schedule, (uint8_t)engine->setup.schedule.stage, skipped,
                                                  5.5f - 0.01f * (float)step, 1.5f, 0.0003f, (float)engine->loss_scale, 1024, 1,
                                                  engine->time_ns - begun_ns, 0}});
}

/* The first take, in the order of the list, that finds no room; false: all of it fits. */
static inline bool le_is_short(const struct lab_engine *engine, const struct op **at, const struct buffer **wanted)
{
    const struct schedule *schedule = &engine->setup.schedule;
    uint64_t budget = engine->config.budget_bytes[TIER_DEVICE], live = engine->tier_live[TIER_DEVICE];
    for (int o = 0; budget && o < schedule->op_count; o++) {
        const struct op *op = *at = &schedule->ops[o];
        for (int e = op->first_take; e < op->first_take + op->take_count; e++) {
            *wanted = &schedule->buffers[schedule->effects[e]];
            if ((*wanted)->tier != TIER_DEVICE) continue;
            live += (uint64_t)(*wanted)->bytes;
            if (live > budget) return true;
        }
        for (int e = op->first_give; e < op->first_give + op->give_count; e++) {
            const struct buffer *given = &schedule->buffers[schedule->effects[e]];
            if (given->tier == TIER_DEVICE) live -= (uint64_t)given->bytes;
        }
    }
    return false;
}

static inline void le_tell_shortage(struct lab_engine *engine, const struct op *at, const struct buffer *wanted)
{
    char json[1024], what[64];
    op_describe(what, sizeof what, at, &engine->setup.model);
    snprintf(json, sizeof json,
             "{\"kind\": \"oom\", \"detail\": {\"rank\": 0, \"tier\": \"device\", \"category\": \"%s\", \"op\": \"%s\", \"wanted_bytes\": %lld, "
             "\"budget_bytes\": %llu, \"text\": \"rank 0 cannot hold %s\", \"held_bytes\": {\"parameters\": %llu, \"optimizer\": %llu}, "
             "\"knobs\": {\"parameters\": \"zero_optimization.stage\", \"optimizer\": \"zero_optimization.stage\"}, \"fits\": "
             "[{\"command\": \"stage=3\", \"peak_bytes\": 8537216}]}}",
             category_name(wanted->category), what, (long long)wanted->bytes, (unsigned long long)engine->config.budget_bytes[TIER_DEVICE],
             wanted->name, (unsigned long long)engine->live[TIER_DEVICE][CATEGORY_PARAMETERS],
             (unsigned long long)engine->live[TIER_DEVICE][CATEGORY_OPTIMIZER]);
    le_event(engine, json);
    le_state(engine, RUN_OUT_OF_MEMORY, "rank 0 is out of memory");
}

static inline void le_step(struct lab_engine *engine)
{
    const uint32_t step = engine->steps_done + 1;
    const uint64_t begun_ns = engine->time_ns += 1000;
    const struct op *at = NULL;
    const struct buffer *wanted = NULL;
    const bool is_short = le_is_short(engine, &at, &wanted);
    const bool overflows = !is_short && engine->loss_scale > 65536;
    for (int rank = 0; rank < engine->config.topology.ranks; rank++)
        le_put(engine, rank,
               (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {step, engine->schedule, (uint8_t)engine->setup.schedule.stage}});
    le_keyframe(engine);
    engine->time_ns += 1000; /* what rests is there to be seen before the first operation takes anything */
    if (!is_short) le_run_ops(engine, step);
    le_end_step(engine, step, begun_ns, is_short || overflows);
    if (overflows) engine->loss_scale /= 2;
    if (is_short) {
        le_tell_shortage(engine, at, wanted);
        return;
    }
    engine->steps_done = step;
    le_pause(engine, "one step was trained");
}

/* ---- from outside -------------------------------------------------------------------------------------------------- */

static inline void le_stop(struct lab_engine *engine)
{
    if (!engine->model) return;
    run_model_free(engine->model);
    history_free(engine->history);
    setup_release(&engine->setup);
    config_release(&engine->config);
    text_list_release(&engine->next.sets);
    engine->model = NULL;
}

static inline void le_introduce(struct lab_engine *engine)
{
    struct data *data;
    struct error err = {0};
    if (data_open(&data, &engine->config, &err)) fail_msg("%s", err.text);
    const struct run_place place = {engine->part++, engine->config.topology.ranks, engine->config.topology.ranks, 0, engine->steps_done, "avx2", NULL, 0};
    char *json = run_header_json(&engine->config, &engine->setup.model, data, &place);
    le_put(engine, TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_RUN, .run = {le_text(json)}});
    free(json);
    data_close(data);
    le_tell_budgets(engine);
    le_plan(engine);
}

/* resume: the checkpoint to go on from; NULL: none. */
static inline void le_start(struct lab_engine *engine, const struct text_list *sets, const char *resume)
{
    struct error err = {0};
    struct lab_engine before = *engine;
    le_stop(engine);
    *engine = (struct lab_engine){.time_ns = 1000000000, .saved_count = before.saved_count};
    memcpy(engine->saved, before.saved, sizeof engine->saved);
    for (int s = 0; s < engine->saved_count && resume; s++)
        if (strcmp(engine->saved[s].tag, resume) == 0) engine->steps_done = engine->saved[s].steps_done;
    engine->model = run_model_new(&(struct run_model_options){0});
    engine->history = history_new(0);
    relaunch_config_init(&engine->next, sets);
    if (config_load(&engine->config, "configs/nano.json", sets->at, sets->count, &err)) fail_msg("%s", err.text);
    if (setup_init(&engine->setup, &engine->config, &err)) fail_msg("%s", err.text);
    engine->loss_scale = engine->config.dtype == DTYPE_F16 ? ldexp(1, engine->config.fp16.initial_scale_power) : 1;
    le_introduce(engine);
    le_pause(engine, "before the first step");
}

/* What only a new start can change. */
static inline int le_load_again(struct lab_engine *engine, const char *key, const char *value, struct error *err)
{
    struct config config;
    relaunch_config_change(&engine->next, &engine->config, key, value);
    const struct text_list sets = engine->next.sets;
    int status = config_load(&config, "configs/nano.json", sets.at, sets.count, err);
    if (status) return status;
    config_release(&engine->config);
    engine->config = config;
    return STATUS_OK;
}

/* What changes the run: a key, or what stands for one. */
static inline void le_change(struct lab_engine *engine, const struct command *command, const char *line)
{
    char before[128], now[128], path[CONFIG_PATH_MAX], json[512];
    const bool stage = command->id == COMMAND_STAGE, budget = command->id == COMMAND_BUDGET, ranks = command_class(command) == COMMAND_CLASS_RESTART;
    const char *key = stage ? "zero_optimization.stage" : budget ? "memory.device_budget" : command->id == COMMAND_RANKS ? "topology.ranks" : command->key;
    struct setup setup;
    struct error err = {0};
    config_path(path, key);
    config_show(&engine->config, path, before, sizeof before);
    const bool already = stage && engine->config.zero.stage == atoi(command->value);
    int status = already ? error_set(&err, STATUS_USAGE, "this is the stage already")
               : ranks ? le_load_again(engine, key, command->value, &err) : config_set(&engine->config, key, command->value, &err);
    if (!ranks) relaunch_config_set(&engine->next, key, command->value);
    if (!status) status = setup_init(&setup, &engine->config, &err);
    if (status) {
        le_command(engine, line, err.text);
        return;
    }
    setup_release(&engine->setup);
    engine->setup = setup;
    config_show(&engine->config, path, now, sizeof now);
    le_command(engine, line, NULL);
    if (ranks) le_introduce(engine), le_pause(engine, "started again");
    else le_tell_budgets(engine), le_plan(engine);
    if (stage || budget)
        snprintf(json, sizeof json, "{\"kind\": \"%s\", \"detail\": {\"from\": %s, \"to\": %s}}", stage ? "stage" : "budget", stage ? before : "0",
                 stage ? now : "1");
    else
        snprintf(json, sizeof json, "{\"kind\": \"%s\", \"detail\": {\"key\": \"%s\", \"from\": \"%s\", \"to\": \"%s\"}}", ranks ? "ranks" : "set", path,
                 before, now);
    le_event(engine, json);
    if (engine->model->state == RUN_OUT_OF_MEMORY) le_pause(engine, "something has changed");
}

/* The state in fp32: weights, and what the optimizer keeps. */
static inline void le_save(struct lab_engine *engine, const struct command *command, const char *line)
{
    char json[256];
    const double bytes = 4.0 * (1 + optimizer_table[engine->setup.model.optimizer].states) * (double)engine->setup.model.elems;
    int slot = engine->saved_count < 4 ? engine->saved_count++ : 3;
    snprintf(engine->saved[slot].tag, sizeof engine->saved[slot].tag, "%.31s", command->value);
    engine->saved[slot].steps_done = engine->steps_done;
    le_command(engine, line, NULL);
    snprintf(json, sizeof json, "{\"kind\": \"checkpoint\", \"detail\": {\"state\": \"saved\", \"tag\": \"%s\", \"folder\": \"\", \"bytes\": %.0f}}",
             command->value, bytes);
    le_event(engine, json);
}

static inline void le_hear(struct lab_engine *engine, const char *line)
{
    struct command command;
    struct error err = {0};
    engine->time_ns += 1000;
    if (command_parse(&command, line, &err)) fail_msg("%s: %s", line, err.text);
    switch (command.id) {
    case COMMAND_STAGE:
    case COMMAND_BUDGET:
    case COMMAND_RANKS:
    case COMMAND_SET: le_change(engine, &command, line); break;
    case COMMAND_STEP: le_step(engine); break;
    case COMMAND_PAUSE: /* it waits all the time */
    case COMMAND_RESUME:
    case COMMAND_TOGGLE: break;
    case COMMAND_OP: le_pause(engine, "within a step"); break;
    case COMMAND_CHECKPOINT: le_save(engine, &command, line); break;
    default: le_command(engine, line, NULL);
    }
}
