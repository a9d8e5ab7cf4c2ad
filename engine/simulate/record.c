#include "engine/simulate/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/trace/file.h"
#include "engine/train/records.h"
#include "engine/zero/plan_records.h"

enum { SCHEDULE_NUMBER = 1 };

struct level {
    uint64_t live_bytes, peak_bytes, at_peak_bytes;
};

/* Recorded ranks with the same times, and what they hold. */
struct likes {
    const struct op_time *times;
    int first, count; /* in `member` */
    struct level category[TIERS][CATEGORIES], tier[TIERS];
    uint64_t told_peak_bytes[TIERS];
};

/* A begin or an end of an operation; of number op_count: the end of the step. */
struct moment {
    uint64_t time_ns;
    int likes, op;
    bool is_end;
};

struct recorder {
    struct recorder_input input;
    struct trace_file *file;
    struct likes *likes;
    int likes_count;
    int *member;            /* recorded ranks, those that are alike beside each other */
    int64_t (*sent)[LINKS]; /* [recorded][ops] */
    struct moment *moments;
    uint64_t now_ns;
    int status;
    struct error *err;
};

static const struct schedule *schedule_of(const struct recorder *recorder)
{
    return &recorder->input.setup->schedule;
}

/* ---- writing ---- */

static void put(struct recorder *recorder, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = recorder->now_ns;
    if (!recorder->status) recorder->status = trace_file_put(recorder->file, &record, recorder->err);
}

struct taking {
    struct recorder *recorder;
    int rank;
};

static void take(void *user, struct trace_record *record)
{
    const struct taking *taking = user;
    put(taking->recorder, taking->rank, *record);
}

static struct trace_text text_of(const char *text)
{
    return (struct trace_text){text, strlen(text)};
}

static void put_state(struct recorder *recorder, enum run_state state, const char *reason)
{
    put(recorder, TRACE_RANK_ALL,
        (struct trace_record){.kind = TRACE_STATE, .state = {.state = (uint8_t)state, .reason = text_of(reason)}});
}

/* ---- the head of the trace ---- */

static void put_header(struct recorder *recorder)
{
    const struct recorder_input *input = &recorder->input;
    const struct run_place place = {.ranks = input->recorded,
                                    .ranks_per_node = input->per_node,
                                    .isa = input->hardware->name,
                                    .simulated_ranks = schedule_of(recorder)->ranks};
    char *json = run_header_json(input->config, &input->setup->model, NULL, &place);
    if (json) put(recorder, TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_RUN, .run.json = text_of(json)});
    else recorder->status = error_set(recorder->err, STATUS_RUN, "no memory for the header of a trace");
    free(json);
}

static void put_plan(struct recorder *recorder)
{
    const struct recorder_input *input = &recorder->input;
    const struct planned_step planned = {schedule_of(recorder), &input->setup->model, SCHEDULE_NUMBER};
    struct taking taking = {recorder, 0};
    const struct record_taker taker = {take, &taking};
    records_of_schedule(&planned, &taker);
    records_of_memory(&planned, &taker);
    for (; taking.rank < input->recorded; taking.rank++) {
        records_of_traffic(&planned, taking.rank, input->per_node, &taker);
        for (int tier = 0; tier < TIERS; tier++) {
            const uint64_t budget = input->config->budget_bytes[tier],
                           most = budget || tier != TIER_DEVICE ? budget : input->hardware->memory_bytes;
            put(recorder, taking.rank, (struct trace_record){.kind = TRACE_BUDGET, .budget = {(uint8_t)tier, most}});
        }
    }
}

/* ---- memory ---- */

static void change(struct likes *likes, const struct buffer *buffer, bool takes)
{
    struct level *category = &likes->category[buffer->tier][buffer->category], *tier = &likes->tier[buffer->tier];
    const uint64_t bytes = takes ? (uint64_t)buffer->bytes : -(uint64_t)buffer->bytes;
    category->live_bytes += bytes;
    tier->live_bytes += bytes;
    if (category->live_bytes > category->peak_bytes) category->peak_bytes = category->live_bytes;
    if (tier->live_bytes <= tier->peak_bytes) return;
    tier->peak_bytes = tier->live_bytes;
    for (int c = 0; c < CATEGORIES; c++)
        likes->category[buffer->tier][c].at_peak_bytes = likes->category[buffer->tier][c].live_bytes;
}

/* The pool is as the plan lays it out: from its first to its last address. */
static void put_level(struct recorder *recorder, const struct likes *likes, int rank, int tier, int category)
{
    const struct level *level = &likes->category[tier][category];
    const uint64_t reserved = recorder->input.setup->footprint.category[tier][category].extent_bytes;
    put(recorder, rank,
        (struct trace_record){
            .kind = TRACE_MEMORY,
            .memory = {(uint8_t)tier, (uint8_t)category, level->live_bytes, reserved, level->peak_bytes}});
}

static void put_holdings(struct recorder *recorder, const struct likes *likes, int rank)
{
    for (int tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++)
            if (recorder->input.setup->footprint.category[tier][c].peak_bytes)
                put_level(recorder, likes, rank, tier, c);
}

static void put_effects(struct recorder *recorder, struct likes *likes, int first, int count, bool takes)
{
    const struct schedule *schedule = schedule_of(recorder);
    for (int e = first; e < first + count; e++) {
        const struct buffer *buffer = &schedule->buffers[schedule->effects[e]];
        change(likes, buffer, takes);
        for (int m = 0; m < likes->count; m++)
            put_level(recorder, likes, recorder->member[likes->first + m], (int)buffer->tier, (int)buffer->category);
    }
}

static void put_peaks(struct recorder *recorder, const struct likes *likes, int rank)
{
    put_holdings(recorder, likes, rank);
    for (int tier = 0; tier < TIERS; tier++) {
        const struct level *level = &likes->tier[tier];
        uint64_t reserved = 0;
        if (!level->peak_bytes) continue;
        for (int c = 0; c < CATEGORIES; c++)
            reserved += recorder->input.setup->footprint.category[tier][c].extent_bytes;
        put(recorder, rank,
            (struct trace_record){
                .kind = TRACE_TIER_PEAK,
                .tier_peak = {(uint8_t)tier, level->live_bytes, reserved, level->peak_bytes, reserved}});
        for (int c = 0; c < CATEGORIES && level->peak_bytes != likes->told_peak_bytes[tier]; c++)
            put(recorder, rank,
                (struct trace_record){.kind = TRACE_TENANT,
                                      .tenant = {(uint8_t)tier, (uint8_t)c, likes->category[tier][c].at_peak_bytes}});
    }
}

/* ---- a step ---- */

static void put_traffic(struct recorder *recorder, const struct likes *likes, int rank, uint32_t step)
{
    const struct schedule *schedule = schedule_of(recorder);
    struct {
        uint32_t count;
        uint64_t busy_ns, sent_bytes[LINKS], link_ns[LINKS];
    } sums[TRAFFIC_KINDS + 1] = {0};
    for (int o = 0; o < schedule->op_count; o++) {
        const struct op_time *time = &likes->times[o];
        const int64_t *sent = recorder->sent[(size_t)rank * (size_t)schedule->op_count + (size_t)o];
        const enum traffic kind = op_traffic(schedule->ops[o].kind);
        sums[kind].count++;
        sums[kind].busy_ns += time->ended_ns - time->started_ns;
        for (int link = 0; link < LINKS; link++) {
            sums[kind].sent_bytes[link] += (uint64_t)sent[link];
            if (sent[link]) sums[kind].link_ns[link] += time->ended_ns - time->started_ns - time->peers_ns;
        }
    }
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        const enum link first = traffic_link((enum traffic)kind);
        for (enum link link = first; sums[kind].count && link <= (first == LINK_INTRA ? LINK_INTER : first); link++) {
            if (link == LINK_INTER && !sums[kind].sent_bytes[link]) continue;
            put(recorder, rank,
                (struct trace_record){.kind = TRACE_TRAFFIC,
                                      .traffic = {step, (uint8_t)kind, (uint8_t)link, sums[kind].count,
                                                  sums[kind].sent_bytes[link],
                                                  link == first ? sums[kind].busy_ns : 0}});
            put(recorder, rank,
                (struct trace_record){.kind = TRACE_LINK,
                                      .link = {step, (uint8_t)kind, (uint8_t)link, sums[kind].link_ns[link]}});
        }
    }
}

static void put_step_begin(struct recorder *recorder, const struct likes *likes, int rank, uint32_t step)
{
    put(recorder, rank,
        (struct trace_record){.kind = TRACE_STEP_BEGIN,
                              .step_begin = {step, SCHEDULE_NUMBER, (uint8_t)schedule_of(recorder)->stage}});
    put_holdings(recorder, likes, rank);
}

static void put_step_end(struct recorder *recorder, struct likes *likes, uint32_t step, uint64_t begin_ns)
{
    const struct schedule *schedule = schedule_of(recorder);
    const uint64_t tokens =
        (uint64_t)schedule->B * (uint64_t)schedule->T * (uint64_t)schedule->micro_steps * (uint64_t)schedule->ranks;
    struct trace_record record = {.kind = TRACE_STEP_END};
    record.step_end = (struct trace_of_step_end){.step = step,
                                                 .schedule = SCHEDULE_NUMBER,
                                                 .stage = (uint8_t)schedule->stage,
                                                 .loss = NAN,
                                                 .grad_norm = NAN,
                                                 .learning_rate = NAN,
                                                 .loss_scale = NAN,
                                                 .tokens = tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX,
                                                 .micro_steps = (uint32_t)schedule->micro_steps,
                                                 .total_ns = recorder->now_ns - begin_ns};
    for (int m = 0; m < likes->count; m++) {
        const int rank = recorder->member[likes->first + m];
        put_traffic(recorder, likes, rank, step);
        put_peaks(recorder, likes, rank);
        put(recorder, rank, record);
    }
    for (int tier = 0; tier < TIERS; tier++) likes->told_peak_bytes[tier] = likes->tier[tier].peak_bytes;
}

static void put_op(struct recorder *recorder, const struct likes *likes, uint32_t step, const struct moment *moment)
{
    const struct op_time *time = &likes->times[moment->op];
    for (int m = 0; m < likes->count; m++) {
        const int rank = recorder->member[likes->first + m];
        struct trace_record record = {.kind = moment->is_end ? TRACE_OP_END : TRACE_OP_BEGIN};
        if (moment->is_end) {
            const int64_t *sent =
                recorder->sent[(size_t)rank * (size_t)schedule_of(recorder)->op_count + (size_t)moment->op];
            record.op_end = (struct trace_of_op_end){
                .schedule = SCHEDULE_NUMBER,
                .step = step,
                .op = (uint32_t)moment->op,
                .issued_ns = time->issued_ns,
                .ready_ns = time->started_ns,
                .started_ns = time->started_ns,
                .waited_on = time->waited_on,
                .peers_ns = time->peers_ns,
                .sent_bytes = (uint64_t)(sent[LINK_INTRA] + sent[LINK_INTER] + sent[LINK_PCIE] + sent[LINK_NVME])};
        } else {
            record.op_begin = (struct trace_of_op_begin){SCHEDULE_NUMBER, step, (uint32_t)moment->op, time->issued_ns};
        }
        put(recorder, rank, record);
    }
}

static void put_moment(struct recorder *recorder, uint32_t step, uint64_t begin_ns, const struct moment *moment)
{
    const struct schedule *schedule = schedule_of(recorder);
    struct likes *likes = &recorder->likes[moment->likes];
    recorder->now_ns = moment->time_ns;
    if (moment->op == schedule->op_count) {
        put_step_end(recorder, likes, step, begin_ns);
        return;
    }
    const struct op *op = &schedule->ops[moment->op];
    if (!moment->is_end) put_effects(recorder, likes, op->first_take, op->take_count, true);
    put_op(recorder, likes, step, moment);
    if (moment->is_end) put_effects(recorder, likes, op->first_give, op->give_count, false);
}

/* At one instant in the order of the list: an operation waits only for those before it, so their ends come before its begin. */
static int by_time(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    if (a->is_end != b->is_end) return a->is_end ? 1 : -1;
    return (a->likes > b->likes) - (a->likes < b->likes);
}

int recorder_step(struct recorder *recorder, uint32_t step, uint64_t begin_ns, struct error *err)
{
    const int ops = schedule_of(recorder)->op_count;
    size_t count = 0;
    recorder->err = err;
    recorder->now_ns = begin_ns;
    for (int i = 0; i < recorder->likes_count; i++) {
        const struct likes *likes = &recorder->likes[i];
        for (int m = 0; m < likes->count; m++)
            put_step_begin(recorder, likes, recorder->member[likes->first + m], step);
        for (int o = 0; o < ops; o++) {
            recorder->moments[count++] = (struct moment){likes->times[o].started_ns, i, o, false};
            recorder->moments[count++] = (struct moment){likes->times[o].ended_ns, i, o, true};
        }
        const uint64_t ended_ns = simulation_ended_ns(recorder->input.simulation, recorder->member[likes->first]);
        recorder->moments[count++] = (struct moment){ended_ns, i, ops, true};
    }
    qsort(recorder->moments, count, sizeof *recorder->moments, by_time);
    for (size_t i = 0; i < count && !recorder->status; i++) put_moment(recorder, step, begin_ns, &recorder->moments[i]);
    return recorder->status;
}

/* ---- begin and end ---- */

static bool find_likes(struct recorder *recorder)
{
    const struct recorder_input *input = &recorder->input;
    const struct schedule *schedule = schedule_of(recorder);
    int room = 0, members = 0;
    recorder->member = malloc((size_t)input->recorded * sizeof *recorder->member);
    for (int rank = 0; recorder->member && rank < input->recorded; rank++) {
        const struct op_time *times = simulation_times(input->simulation, rank);
        int i = 0;
        while (i < recorder->likes_count && recorder->likes[i].times != times) i++;
        if (i < recorder->likes_count) continue;
        if (!array_grow((void **)&recorder->likes, i, &room, sizeof *recorder->likes)) return false;
        struct likes *likes = &recorder->likes[recorder->likes_count++];
        *likes = (struct likes){.times = times, .first = members};
        for (int other = rank; other < input->recorded; other++)
            if (simulation_times(input->simulation, other) == times) recorder->member[members++] = other;
        likes->count = members - likes->first;
        for (int b = 0; b < schedule->lasting_count; b++) change(likes, &schedule->buffers[b], true);
    }
    return recorder->member != NULL;
}

static bool make_room(struct recorder *recorder)
{
    const struct schedule *schedule = schedule_of(recorder);
    const size_t ops = (size_t)schedule->op_count, recorded = (size_t)recorder->input.recorded;
    if (!find_likes(recorder)) return false;
    recorder->sent = malloc(recorded * ops * sizeof *recorder->sent);
    recorder->moments = malloc((size_t)recorder->likes_count * (2 * ops + 1) * sizeof *recorder->moments);
    if (!recorder->sent || !recorder->moments) return false;
    for (size_t rank = 0; rank < recorded; rank++)
        for (size_t o = 0; o < ops; o++)
            op_link_bytes(recorder->sent[rank * ops + o], schedule, &recorder->input.setup->model, &schedule->ops[o],
                          (int)rank, recorder->input.per_node);
    return true;
}

static void release(struct recorder *recorder)
{
    free(recorder->likes);
    free(recorder->member);
    free(recorder->sent);
    free(recorder->moments);
    free(recorder);
}

int recorder_open(struct recorder **out, const char *path, const struct recorder_input *input, struct error *err)
{
    struct recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder) return error_set(err, STATUS_RUN, "no memory to record a simulation");
    recorder->input = *input;
    recorder->err = err;
    int status = make_room(recorder) ? trace_file_create(&recorder->file, path, err)
                                     : error_set(err, STATUS_RUN, "no memory to record a simulation");
    if (status) return release(recorder), status;
    recorder->now_ns = RECORDED_FROM_NS;
    put_header(recorder);
    put_plan(recorder);
    put_state(recorder, RUN_RUNNING, "");
    *out = recorder;
    return STATUS_OK; /* a failed write ends the first step */
}

int recorder_close(struct recorder *recorder, struct error *err)
{
    recorder->err = err;
    put_state(recorder, RUN_ENDED, "");
    put(recorder, TRACE_RANK_ALL,
        (struct trace_record){.kind = TRACE_END, .end = {.outcome = OUTCOME_FINISHED, .error = text_of("")}});
    int status = recorder->status, closed = trace_file_close(recorder->file, status ? NULL : err);
    release(recorder);
    return status ? status : closed;
}
