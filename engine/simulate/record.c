#include "engine/simulate/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/trace/file.h"
#include "engine/zero/plan_records.h"

enum { SCHEDULE_NUMBER = 1 };

/* A recorded rank: its times, and what it holds. */
struct recorded {
    const struct op_time *times;
    int64_t (*sent)[LINKS]; /* by operation */
    struct memory_snapshot memory;
    uint64_t told_peak_bytes[TIERS];
};

/* A begin or an end of an operation; of number op_count: the end of the step. */
struct moment {
    uint64_t time_ns;
    int rank, op;
    bool is_end;
};

struct recorder {
    const struct config *config;
    const struct setup *setup;
    const struct simulation *simulation;
    const struct simulation_input *input; /* of it */
    const struct schedule *schedule;
    struct trace_file *file;
    struct recorded *ranks;
    int64_t (*sent)[LINKS]; /* of all recorded ranks */
    struct moment *moments;
    uint64_t now_ns, begin_ns; /* of the step */
    uint32_t step;
    int status;
    struct error *err;
};

/* ---- writing ---- */

static void put(struct recorder *recorder, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = recorder->now_ns;
    if (!recorder->status) recorder->status = trace_file_put(recorder->file, &record, recorder->err);
}

#define PUT(recorder, rank, ID, name, ...)                                                                             \
    put(recorder, rank, (struct trace_record){.kind = TRACE_##ID, .name = {__VA_ARGS__}})

struct taking {
    struct recorder *recorder;
    int rank;
};

static void take(void *user, struct trace_record *record)
{
    const struct taking *taking = user;
    put(taking->recorder, taking->rank, *record);
}

/* ---- the head of the trace ---- */

static void put_header(struct recorder *recorder)
{
    const struct run_place place = {.ranks = recorder->input->recorded,
                                    .ranks_per_node = recorder->input->cost.per_node,
                                    .isa = recorder->input->cost.hardware->name,
                                    .simulated_ranks = recorder->schedule->ranks};
    char *json = run_header_json(recorder->config, &recorder->setup->model, NULL, &place);
    if (json) PUT(recorder, TRACE_RANK_ALL, RUN, run, TEXT_OF(json));
    else recorder->status = error_set(recorder->err, STATUS_RUN, "no memory for the header of a trace");
    free(json);
}

static void put_plan(struct recorder *recorder)
{
    const struct cost_input *cost = &recorder->input->cost;
    const struct planned_step planned = {recorder->schedule, cost->model, SCHEDULE_NUMBER};
    struct taking taking = {recorder, 0};
    const struct record_output taker = {take, &taking};
    records_of_schedule(&planned, &taker);
    records_of_memory(&planned, &taker);
    for (; taking.rank < recorder->input->recorded; taking.rank++) {
        records_of_traffic(&planned, taking.rank, cost->per_node, &taker);
        for (int tier = 0; tier < TIERS; tier++) {
            const uint64_t budget = recorder->config->budget_bytes[tier],
                           most = budget || tier != TIER_DEVICE ? budget : cost->hardware->memory_bytes;
            PUT(recorder, taking.rank, BUDGET, budget, (uint8_t)tier, most);
        }
    }
    PUT(recorder, TRACE_RANK_ALL, STATE, state, 0, RUN_RUNNING, TEXT_OF(""));
}

/* ---- memory ---- */

static void add_bytes(struct memory_count *count, uint64_t bytes)
{
    count->live_bytes += bytes;
    if (count->live_bytes > count->peak_bytes) count->peak_bytes = count->live_bytes;
}

static void change(struct recorded *of, const struct buffer *buffer, bool takes)
{
    const uint64_t bytes = takes ? (uint64_t)buffer->bytes : -(uint64_t)buffer->bytes;
    struct memory_count *tier = &of->memory.tier[buffer->tier];
    const uint64_t peak_bytes = tier->peak_bytes;
    add_bytes(&of->memory.category[buffer->tier][buffer->category], bytes);
    add_bytes(tier, bytes);
    for (int c = 0; c < CATEGORIES && tier->peak_bytes > peak_bytes; c++)
        of->memory.at_peak_bytes[buffer->tier][c] = of->memory.category[buffer->tier][c].live_bytes;
}

/* The pool is as the plan lays it out: from its first to its last address. */
static void reserve(struct recorded *of, const struct footprint *footprint)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++) {
            const uint64_t bytes = (uint64_t)footprint->category[tier][c].extent_bytes;
            of->memory.category[tier][c].reserved_bytes = bytes;
            of->memory.tier[tier].reserved_bytes += bytes;
        }
}

static void put_level(struct recorder *recorder, int rank, int tier, int category)
{
    const struct memory_count *count = &recorder->ranks[rank].memory.category[tier][category];
    PUT(recorder, rank, MEMORY, memory, (uint8_t)tier, (uint8_t)category, count->live_bytes, count->reserved_bytes,
        count->peak_bytes);
}

static void put_holdings(struct recorder *recorder, int rank)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++)
            if (recorder->ranks[rank].memory.category[tier][c].reserved_bytes) put_level(recorder, rank, tier, c);
}

static void put_effects(struct recorder *recorder, int rank, int first, int count, bool takes)
{
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &recorder->schedule->buffers[recorder->schedule->effects[e]];
        change(&recorder->ranks[rank], buffer, takes);
        put_level(recorder, rank, (int)buffer->tier, (int)buffer->category);
    }
}

/* ---- a step ---- */

static void put_traffic(const struct recorder *recorder, int rank, const struct record_output *taker)
{
    const struct recorded *of = &recorder->ranks[rank];
    struct step_traffic sums[TRAFFIC_KINDS + 1] = {0};
    for (int o = 0; o < recorder->schedule->op_count; o++) {
        const struct op_time *time = &of->times[o];
        struct step_traffic *sum = &sums[op_traffic(recorder->schedule->ops[o].kind)];
        sum->count++;
        sum->busy_ns += time->ended_ns - time->started_ns;
        for (int link = 0; link < LINKS; link++) {
            sum->sent_bytes[link == LINK_INTER] += (uint64_t)of->sent[o][link];
            if (of->sent[o][link]) sum->link_ns[link] += time->ended_ns - time->started_ns - time->peers_ns;
        }
    }
    records_of_sent(sums, recorder->step, taker);
}

static void put_step_end(struct recorder *recorder, int rank)
{
    const struct schedule *schedule = recorder->schedule;
    const uint64_t tokens =
        (uint64_t)schedule->B * (uint64_t)schedule->T * (uint64_t)schedule->micro_steps * (uint64_t)schedule->ranks;
    struct taking taking = {recorder, rank};
    const struct record_output taker = {take, &taking};
    put_traffic(recorder, rank, &taker);
    put_holdings(recorder, rank);
    records_of_peaks(&recorder->ranks[rank].memory, recorder->ranks[rank].told_peak_bytes, &taker);
    PUT(recorder, rank, STEP_END, step_end, .step = recorder->step, .schedule = SCHEDULE_NUMBER,
        .stage = (uint8_t)schedule->stage, .loss = NAN, .grad_norm = NAN, .learning_rate = NAN, .loss_scale = NAN,
        .tokens = tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX, .micro_steps = (uint32_t)schedule->micro_steps,
        .total_ns = recorder->now_ns - recorder->begin_ns);
}

static void put_moment(struct recorder *recorder, const struct moment *moment)
{
    const int rank = moment->rank, number = moment->op;
    const struct recorded *of = &recorder->ranks[rank];
    recorder->now_ns = moment->time_ns;
    if (number == recorder->schedule->op_count) {
        put_step_end(recorder, rank);
        return;
    }
    const struct op *op = &recorder->schedule->ops[number];
    const struct op_time *time = &of->times[number];
    const int64_t *sent = of->sent[number];
    if (!moment->is_end) {
        put_effects(recorder, rank, op->first_take, op->take_count, true);
        PUT(recorder, rank, OP_BEGIN, op_begin, SCHEDULE_NUMBER, recorder->step, (uint32_t)number, time->issued_ns);
        return;
    }
    PUT(recorder, rank, OP_END, op_end, .schedule = SCHEDULE_NUMBER, .step = recorder->step, .op = (uint32_t)number,
        .issued_ns = time->issued_ns, .ready_ns = time->started_ns, .started_ns = time->started_ns,
        .waited_on = time->waited_on, .peers_ns = time->peers_ns,
        .sent_bytes = (uint64_t)(sent[LINK_INTRA] + sent[LINK_INTER] + sent[LINK_PCIE] + sent[LINK_NVME]));
    put_effects(recorder, rank, op->first_give, op->give_count, false);
}

/* At one instant in the order of the list: an operation waits only for those before it, so their ends come before its begin. */
static int by_time(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    if (a->is_end != b->is_end) return a->is_end ? 1 : -1;
    return a->rank - b->rank;
}

int recorder_step(struct recorder *recorder, uint32_t step, uint64_t begin_ns, struct error *err)
{
    const int ops = recorder->schedule->op_count;
    size_t count = 0;
    recorder->err = err;
    recorder->now_ns = recorder->begin_ns = begin_ns;
    recorder->step = step;
    for (int rank = 0; rank < recorder->input->recorded; rank++) {
        const struct op_time *times = recorder->ranks[rank].times;
        PUT(recorder, rank, STEP_BEGIN, step_begin, step, SCHEDULE_NUMBER, (uint8_t)recorder->schedule->stage);
        put_holdings(recorder, rank);
        for (int o = 0; o < ops; o++) {
            recorder->moments[count++] = (struct moment){times[o].started_ns, rank, o, false};
            recorder->moments[count++] = (struct moment){times[o].ended_ns, rank, o, true};
        }
        recorder->moments[count++] =
            (struct moment){simulation_ended_ns(recorder->simulation, rank), rank, ops, true};
    }
    qsort(recorder->moments, count, sizeof *recorder->moments, by_time);
    for (size_t i = 0; i < count && !recorder->status; i++) put_moment(recorder, &recorder->moments[i]);
    return recorder->status;
}

/* ---- begin and end ---- */

static bool make_room(struct recorder *recorder)
{
    const struct schedule *schedule = recorder->schedule;
    const struct simulation_input *input = recorder->input;
    const size_t ops = (size_t)schedule->op_count, recorded = (size_t)input->recorded;
    recorder->ranks = calloc(recorded, sizeof *recorder->ranks);
    recorder->sent = malloc(recorded * ops * sizeof *recorder->sent);
    recorder->moments = malloc(recorded * (2 * ops + 1) * sizeof *recorder->moments);
    if (!recorder->ranks || !recorder->sent || !recorder->moments) return false;
    for (int rank = 0; rank < input->recorded; rank++) {
        struct recorded *of = &recorder->ranks[rank];
        of->times = simulation_times(recorder->simulation, rank);
        of->sent = recorder->sent + (size_t)rank * ops;
        for (size_t o = 0; o < ops; o++)
            op_link_bytes(of->sent[o], schedule, input->cost.model, &schedule->ops[o], rank, input->cost.per_node);
        reserve(of, &recorder->setup->footprint);
        for (int b = 0; b < schedule->lasting_count; b++) change(of, &schedule->buffers[b], true);
    }
    return true;
}

static void release(struct recorder *recorder)
{
    free(recorder->ranks);
    free(recorder->sent);
    free(recorder->moments);
    free(recorder);
}

int recorder_open(struct recorder **out, const char *path, const struct config *config, const struct setup *setup,
                  const struct simulation *simulation, struct error *err)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder) return error_set(err, STATUS_RUN, "no memory to record a simulation");
    *recorder = (struct recorder){config, setup, simulation, simulation_input_of(simulation), &setup->schedule,
                                  .now_ns = RECORDED_FROM_NS, .err = err};
    int status = make_room(recorder) ? trace_file_create(&recorder->file, path, err)
                                     : error_set(err, STATUS_RUN, "no memory to record a simulation");
    if (status) return release(recorder), status;
    put_header(recorder);
    put_plan(recorder);
    *out = recorder;
    return STATUS_OK; /* a failed write ends the first step */
}

int recorder_close(struct recorder *recorder, struct error *err)
{
    recorder->err = err;
    PUT(recorder, TRACE_RANK_ALL, STATE, state, 0, RUN_ENDED, TEXT_OF(""));
    PUT(recorder, TRACE_RANK_ALL, END, end, OUTCOME_FINISHED, TEXT_OF(""));
    int status = recorder->status, closed = trace_file_close(recorder->file, status ? NULL : err);
    release(recorder);
    return status ? status : closed;
}
