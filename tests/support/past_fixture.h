/* A hand-made past: a plan of a few operations and records with round times, folded into a model and a history. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/observe/history.h"
#include "engine/plan/schedule_io.h"
#include "tests/support/op_uses.h"

struct record_buffer { struct run_model *model; struct history *history; };

enum { PAST_ALL = TRACE_RANK_ALL };

static inline void past_fold(struct record_buffer *past, int rank, uint64_t time_ns, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = time_ns;
    run_model_fold(past->model, &record);
    history_fold(past->history, past->model, &record);
}

/* The first record is at `time_ns`. */
static inline void past_start(struct record_buffer *past, size_t bytes, int ranks, uint64_t time_ns)
{
    char json[64];
    snprintf(json, sizeof json, "{\"ranks\": %d}", ranks);
    past->model = run_model_new(&(struct run_model_options){.steps = 64, .notices = 8});
    past->history = history_new(bytes);
    past_fold(past, PAST_ALL, time_ns, (struct trace_record){.kind = TRACE_RUN, .run = {{json, strlen(json)}}});
}

static inline void past_end(struct record_buffer *past)
{
    run_model_free(past->model);
    history_free(past->history);
}

struct past_op { enum op_kind kind; int unit; int64_t bytes; bool prefetch; int after; enum why_wait why; }; /* after -1: nothing */

/* groups: of each operation, shard groups having two ranks; NULL: all ranks. */
static inline void past_plan_in_groups(struct record_buffer *past, uint32_t number, int ranks, enum purpose purpose, const struct past_op *ops,
                                       const enum group *groups, int count, uint64_t time_ns)
{
    struct op *list = calloc((size_t)count, sizeof *list);
    for (int i = 0; i < count; i++) {
        list[i] = (struct op){.kind = ops[i].kind, .use = use_made_up(ops[i].kind), .lane = op_lane(ops[i].kind), .phase = op_usual_phase(ops[i].kind),
                              .unit = ops[i].unit, .bucket = -1, .bytes = ops[i].bytes, .prefetch = ops[i].prefetch,
                              .group = groups ? groups[i] : GROUP_WORLD,
                              .dependency_count = ops[i].after >= 0, .dependency = {{ops[i].after, ops[i].why}}};
        for (int role = 0; role < ROLES; role++) list[i].buffer[role] = -1;
    }
    struct schedule schedule = {.purpose = purpose, .stage = 3, .ranks = ranks, .micro_steps = 1, .B = 1, .T = 1, .op_count = count, .ops = list};
    if (groups) schedule.knobs.shard_ranks = 2;
    char *json = schedule_to_json(&schedule);
    past_fold(past, 0, time_ns, (struct trace_record){.kind = TRACE_SCHEDULE,
                                                      .schedule = {number, (uint8_t)purpose, 3, {json, strlen(json)}}});
    free(json);
    free(list);
}

static inline void past_plan(struct record_buffer *past, uint32_t number, int ranks, enum purpose purpose, const struct past_op *ops, int count,
                             uint64_t time_ns)
{
    past_plan_in_groups(past, number, ranks, purpose, ops, NULL, count, time_ns);
}

static inline void past_step(struct record_buffer *past, int rank, uint32_t step, uint64_t time_ns)
{
    past_fold(past, rank, time_ns, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {step, 1, 3}});
}

static inline void past_step_end(struct record_buffer *past, int rank, uint32_t step, uint64_t time_ns)
{
    past_fold(past, rank, time_ns, (struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = step, .schedule = 1, .stage = 3}});
}

static inline void past_begin(struct record_buffer *past, int rank, uint32_t step, uint32_t op, uint64_t issued_ns, uint64_t started_ns)
{
    past_fold(past, rank, started_ns, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {1, step, op, issued_ns}});
}

static inline void past_finish(struct record_buffer *past, int rank, uint32_t step, uint32_t op, uint64_t issued_ns, uint64_t started_ns,
                               uint64_t ended_ns, int waited_on)
{
    past_fold(past, rank, ended_ns,
              (struct trace_record){.kind = TRACE_OP_END,
                                    .op_end = {.schedule = 1, .step = step, .op = op, .issued_ns = issued_ns, .ready_ns = started_ns,
                                               .started_ns = started_ns, .waited_on = waited_on, .sent_bytes = 100}});
}

static inline void past_op(struct record_buffer *past, int rank, uint32_t step, uint32_t op, uint64_t issued_ns, uint64_t started_ns, uint64_t ended_ns,
                           int waited_on)
{
    past_begin(past, rank, step, op, issued_ns, started_ns);
    past_finish(past, rank, step, op, issued_ns, started_ns, ended_ns, waited_on);
}

static inline void past_hold(struct record_buffer *past, int rank, enum category category, uint64_t bytes, uint64_t time_ns)
{
    past_fold(past, rank, time_ns, (struct trace_record){.kind = TRACE_MEMORY, .memory = {TIER_DEVICE, (uint8_t)category, bytes, bytes, bytes}});
}
