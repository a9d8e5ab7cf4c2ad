/* A run that never was: the records that an engine of a few ranks would write, with round figures, so that tests of the
 * model and of screens know what must come out. Deterministic; no clock. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/schedule.h"
#include "engine/plan/schedule_io.h"
#include "engine/trace/record.h"
#include "tests/support/op_uses.h"

typedef void synthetic_emit(void *user, const struct trace_record *record);

struct synthetic {
    synthetic_emit *emit;
    void *user;
    int ranks, layers;
    uint64_t parameters, time_ns, budget_bytes;
    uint32_t schedule, steps_done;
    int stage, part;
    uint64_t live[64][CATEGORIES], peak[64][CATEGORIES], tier_peak[64];
    uint64_t at_peak[64][CATEGORIES];
};

static inline struct trace_text synthetic_text(const char *text)
{
    return (struct trace_text){text, strlen(text)};
}

static inline void synthetic_put(struct synthetic *run, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = run->time_ns;
    run->emit(run->user, &record);
}

enum { SYNTHETIC_US = 1000, SYNTHETIC_ALL = TRACE_RANK_ALL };

static inline void synthetic_header(struct synthetic *run)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"version\": \"0.1\", \"part\": %d, \"steps_done\": %u, \"model\": {\"name\": \"nano\", \"parameters\": %llu, \"layers\": %d, \"hidden\": 128, \"heads\": 4, "
             "\"context\": 64, \"vocabulary\": 256, \"units\": [{\"name\": \"embed\", \"elems\": 40960}]}, \"precision\": \"fp32\", "
             "\"ranks\": %d, \"ranks_per_node\": %d, \"threads_per_rank\": 1, \"backend\": \"cpu\", \"isa\": \"avx512\", "
             "\"micro_batch\": 4, \"sequence_length\": 64, \"accumulation_steps\": 1, \"config\": {\"steps\": 12}}",
             run->part, run->steps_done, (unsigned long long)run->parameters, run->layers, run->ranks, run->ranks);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_RUN, .run = {synthetic_text(json)}});
}

static inline void synthetic_state(struct synthetic *run, uint32_t step, enum run_state state, const char *reason)
{
    synthetic_put(run, SYNTHETIC_ALL,
                  (struct trace_record){.kind = TRACE_STATE, .state = {step, (uint8_t)state, synthetic_text(reason)}});
}

/* Bytes of a category on one rank between steps, fp32: 4 + 4 + 12 bytes per parameter. */
static inline uint64_t synthetic_resting(const struct synthetic *run, int category, int stage)
{
    uint64_t psi = run->parameters, ranks = (uint64_t)run->ranks;
    switch (category) {
    case CATEGORY_PARAMETERS: return 4 * psi / (stage >= 3 ? ranks : 1);
    case CATEGORY_OPTIMIZER: return 8 * psi / (stage >= 1 ? ranks : 1);
    default: return 0;
    }
}

static inline uint64_t synthetic_peak(const struct synthetic *run, int category, int stage)
{
    uint64_t psi = run->parameters, ranks = (uint64_t)run->ranks;
    switch (category) {
    case CATEGORY_GRADIENTS: return 4 * psi / (stage >= 2 ? ranks : 1);
    case CATEGORY_ACTIVATIONS: return 2500000;
    case CATEGORY_BUCKETS: return stage == 0 ? 0 : 800000;
    case CATEGORY_GATHERED: return stage == 3 ? 1600000 : 0;
    case CATEGORY_WORKSPACE: return 300000;
    default: return synthetic_resting(run, category, stage);
    }
}

/* The operations of a step, in order, with their lanes taken from ops.def. */
struct synthetic_op { enum op_kind kind; int waits_for; uint64_t us; };

static inline int synthetic_ops(const struct synthetic *run, int stage, struct synthetic_op ops[64])
{
    int count = 0;
    if (stage == 3) ops[count++] = (struct synthetic_op){OP_GATHER, -1, 400};
    for (int layer = 0; layer < run->layers; layer++) {
        ops[count] = (struct synthetic_op){OP_FORWARD, stage == 3 ? count - 1 : -1, 2000};
        count++;
        if (stage == 3) ops[count++] = (struct synthetic_op){OP_GATHER, -1, 600};
    }
    for (int layer = 0; layer < run->layers; layer++) {
        ops[count] = (struct synthetic_op){OP_BACKWARD, stage == 3 ? count - 1 : -1, 4000};
        count++;
        ops[count] = (struct synthetic_op){stage == 0 || stage == 1 ? OP_ALL_REDUCE : OP_REDUCE_SCATTER, count - 1, 900};
        count++;
    }
    ops[count] = (struct synthetic_op){OP_AGREE, -1, 50};
    ops[count + 1] = (struct synthetic_op){OP_UPDATE, count, stage ? 600 : 1800};
    count += 2;
    if (stage == 1 || stage == 2) {
        ops[count] = (struct synthetic_op){OP_REFRESH, count - 1, 1100};
        count++;
    }
    return count;
}

/* A schedule of these operations, with no buffers: enough for whoever asks only for lanes and phases. */
static inline char *synthetic_schedule_json(const struct synthetic *run, int stage)
{
    struct synthetic_op ops[64];
    struct op list[64];
    int count = synthetic_ops(run, stage, ops);
    memset(list, 0, sizeof list);
    for (int i = 0; i < count; i++) {
        list[i] = (struct op){.kind = ops[i].kind, .use = use_made_up(ops[i].kind), .lane = op_lane(ops[i].kind), .phase = op_usual_phase(ops[i].kind),
                              .unit = -1, .bucket = -1};
        for (int role = 0; role < ROLES; role++) list[i].buffer[role] = -1;
    }
    struct schedule schedule = {.purpose = PURPOSE_TRAIN, .stage = stage, .ranks = run->ranks, .micro_steps = 1, .B = 4, .T = 64,
                                .op_count = count, .ops = list};
    return schedule_to_json(&schedule);
}

static inline double synthetic_share(const struct synthetic *run)
{
    return (double)(run->ranks - 1) / run->ranks;
}

static inline uint64_t synthetic_theory(const struct synthetic *run, int stage)
{
    return (uint64_t)((stage == 3 ? 3 : 2) * 4.0 * (double)run->parameters * synthetic_share(run));
}

/* What one rank sends by a kind of collective; a little less than the paper says, as in life. */
static inline uint64_t synthetic_sent(const struct synthetic *run, int stage, int kind)
{
    double volume = 4.0 * (double)run->parameters * synthetic_share(run);
    switch (kind) {
    case TRAFFIC_ALL_REDUCE: return stage < 2 ? (uint64_t)(stage == 0 ? 2 * volume : volume) : 0;
    case TRAFFIC_REDUCE_SCATTER: return stage >= 2 ? (uint64_t)volume : 0;
    case TRAFFIC_ALL_GATHER: return stage == 3 ? (uint64_t)(1.95 * volume) : stage ? (uint64_t)volume : 0;
    case TRAFFIC_CONTROL: return 96;
    default: return 0;
    }
}

static inline int synthetic_count(const struct synthetic *run, int stage, int kind)
{
    struct synthetic_op ops[64];
    int found = 0, count = synthetic_ops(run, stage, ops);
    for (int i = 0; i < count; i++)
        switch (ops[i].kind) {
        case OP_GATHER:
        case OP_REFRESH: found += kind == TRAFFIC_ALL_GATHER; break;
        case OP_REDUCE_SCATTER: found += kind == TRAFFIC_REDUCE_SCATTER; break;
        case OP_ALL_REDUCE: found += kind == TRAFFIC_ALL_REDUCE; break;
        case OP_AGREE: found += kind == TRAFFIC_CONTROL; break;
        default: break;
        }
    return found;
}

static inline void synthetic_predict(struct synthetic *run, int category, uint64_t peak, uint64_t resting)
{
    synthetic_put(run, SYNTHETIC_ALL,
                  (struct trace_record){.kind = TRACE_PREDICTED,
                                        .predicted = {run->schedule, TIER_DEVICE, (uint8_t)category, peak, peak, resting}});
}

/* Announces the schedule of a stage with its predictions. */
static inline void synthetic_plan(struct synthetic *run, int stage)
{
    char *json = synthetic_schedule_json(run, stage);
    uint64_t sum = 0, resting = 0;
    run->stage = stage;
    run->schedule++;
    synthetic_put(run, SYNTHETIC_ALL,
                  (struct trace_record){.kind = TRACE_SCHEDULE,
                                        .schedule = {run->schedule, PURPOSE_TRAIN, (uint8_t)stage, synthetic_text(json)}});
    free(json);
    for (int category = 0; category < CATEGORIES; category++) {
        synthetic_predict(run, category, synthetic_peak(run, category, stage), synthetic_resting(run, category, stage));
        sum += synthetic_peak(run, category, stage);
        resting += synthetic_resting(run, category, stage);
    }
    synthetic_predict(run, 255, sum, resting);
    for (int rank = 0; rank < run->ranks; rank++)
        for (int kind = 0, first = 1; kind < TRAFFIC_KINDS; kind++) {
            if (!synthetic_sent(run, stage, kind)) continue;
            synthetic_put(run, rank,
                          (struct trace_record){.kind = TRACE_THEORY,
                                                .theory = {run->schedule, (uint8_t)kind, LINK_INTRA,
                                                           (uint32_t)synthetic_count(run, stage, kind), synthetic_sent(run, stage, kind),
                                                           first ? synthetic_theory(run, stage) : 0}});
            first = 0;
        }
}

static inline void synthetic_hold(struct synthetic *run, int rank, int category, uint64_t bytes)
{
    uint64_t sum = 0;
    run->live[rank][category] = bytes;
    if (bytes > run->peak[rank][category]) run->peak[rank][category] = bytes;
    for (int i = 0; i < CATEGORIES; i++) sum += run->live[rank][i];
    if (sum > run->tier_peak[rank]) {
        run->tier_peak[rank] = sum;
        memcpy(run->at_peak[rank], run->live[rank], sizeof run->at_peak[rank]);
    }
    synthetic_put(run, rank,
                  (struct trace_record){.kind = TRACE_MEMORY,
                                        .memory = {TIER_DEVICE, (uint8_t)category, bytes, bytes + bytes / 16, run->peak[rank][category]}});
}

/* Ranks differ a little, so that "the fullest" is one of them. */
static inline uint64_t synthetic_uneven(uint64_t bytes, int category, int rank)
{
    return category == CATEGORY_ACTIVATIONS && bytes ? bytes - 1000u * (uint64_t)rank : bytes;
}

static inline void synthetic_hold_all(struct synthetic *run, uint64_t (*bytes)(const struct synthetic *, int, int))
{
    for (int rank = 0; rank < run->ranks; rank++)
        for (int category = 0; category < CATEGORIES; category++)
            synthetic_hold(run, rank, category, synthetic_uneven(bytes(run, category, run->stage), category, rank));
}

static inline void synthetic_reset_peaks(struct synthetic *run)
{
    memset(run->peak, 0, sizeof run->peak);
    memset(run->tier_peak, 0, sizeof run->tier_peak);
}

static inline void synthetic_tier_peaks(struct synthetic *run)
{
    for (int rank = 0; rank < run->ranks; rank++) {
        uint64_t live = 0;
        for (int category = 0; category < CATEGORIES; category++) {
            live += run->live[rank][category];
            synthetic_put(run, rank,
                          (struct trace_record){.kind = TRACE_TENANT,
                                                .tenant = {TIER_DEVICE, (uint8_t)category, run->at_peak[rank][category]}});
        }
        synthetic_put(run, rank,
                      (struct trace_record){.kind = TRACE_TIER_PEAK,
                                            .tier_peak = {TIER_DEVICE, live, live, run->tier_peak[rank], run->tier_peak[rank]}});
    }
}

static inline int synthetic_by_time(const void *a, const void *b)
{
    const struct trace_record *x = a, *y = b;
    return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/* Runs the operations on two lanes from time_ns on, all ranks alike; emits their records; returns when the last ended. */
static inline uint64_t synthetic_run_ops(struct synthetic *run, uint32_t step)
{
    struct synthetic_op ops[64];
    struct trace_record records[128];
    uint64_t cursor[LANES], end[64], last = run->time_ns;
    int count = synthetic_ops(run, run->stage, ops), made = 0;
    for (int lane = 0; lane < LANES; lane++) cursor[lane] = run->time_ns;
    for (int i = 0; i < count; i++) {
        enum lane lane = op_lane(ops[i].kind);
        uint64_t issued = cursor[lane], ready = issued;
        int64_t waited_on = -1;
        if (ops[i].waits_for >= 0 && end[ops[i].waits_for] > issued) ready = end[waited_on = ops[i].waits_for];
        end[i] = cursor[lane] = ready + ops[i].us * SYNTHETIC_US;
        if (end[i] > last) last = end[i];
        records[made++] = (struct trace_record){.kind = TRACE_OP_BEGIN, .time_ns = ready, .op_begin = {run->schedule, step, (uint32_t)i, issued}};
        records[made++] = (struct trace_record){
            .kind = TRACE_OP_END, .time_ns = end[i], .op_end = {run->schedule, step, (uint32_t)i, issued, ready, ready, waited_on, 0, 0, 0}};
    }
    qsort(records, (size_t)made, sizeof records[0], synthetic_by_time);
    for (int i = 0; i < made; i++)
        for (int rank = 0; rank < run->ranks; rank++) {
            records[i].rank = (uint16_t)rank;
            run->emit(run->user, &records[i]);
        }
    return last;
}

static inline float synthetic_loss(uint32_t step)
{
    return 2.25f + 3.3f / (1.0f + 0.25f * (float)step) + 0.04f * (float)((step * 7) % 5);
}

static inline void synthetic_end_step(struct synthetic *run, uint32_t step, uint64_t begun_ns, bool skipped)
{
    synthetic_tier_peaks(run);
    for (int rank = 0; rank < run->ranks; rank++) {
        for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
            if (synthetic_sent(run, run->stage, kind))
                synthetic_put(run, rank,
                              (struct trace_record){.kind = TRACE_TRAFFIC,
                                                    .traffic = {step, (uint8_t)kind, LINK_INTRA, (uint32_t)synthetic_count(run, run->stage, kind),
                                                                synthetic_sent(run, run->stage, kind), 1300000}});
        struct trace_of_step_end end = {step, run->schedule, (uint8_t)run->stage, skipped, synthetic_loss(step), 1.5f / (float)step,
                                        0.0003f, 1.0f, (uint32_t)run->ranks * 256, 1, run->time_ns - begun_ns, 0};
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_STEP_END, .step_end = end});
    }
}

static inline void synthetic_step(struct synthetic *run, uint32_t step)
{
    uint64_t begun = run->time_ns;
    for (int rank = 0; rank < run->ranks; rank++)
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {step, run->schedule, (uint8_t)run->stage}});
    synthetic_hold_all(run, synthetic_resting);
    synthetic_hold_all(run, synthetic_peak);
    run->time_ns = synthetic_run_ops(run, step) + 200 * SYNTHETIC_US;
    synthetic_hold_all(run, synthetic_resting);
    synthetic_end_step(run, step, begun, false);
}

/* A step whose takes fail half way. */
static inline void synthetic_shortage(struct synthetic *run, uint32_t step)
{
    char json[1024];
    uint64_t begun = run->time_ns;
    for (int rank = 0; rank < run->ranks; rank++)
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {step, run->schedule, (uint8_t)run->stage}});
    run->time_ns += 9000 * SYNTHETIC_US;
    for (int rank = 0; rank < run->ranks; rank++) {
        synthetic_hold(run, rank, CATEGORY_ACTIVATIONS, 1900000);
        synthetic_hold(run, rank, CATEGORY_WORKSPACE, 300000);
    }
    snprintf(json, sizeof json,
             "{\"kind\": \"oom\", \"detail\": {\"rank\": 2, \"tier\": \"device\", \"category\": \"gradients\", \"op\": \"block'\", "
             "\"wanted_bytes\": 793088, \"budget_bytes\": %llu, \"text\": \"rank 2 cannot hold the gradient of block 3\", \"held_bytes\": "
             "{\"parameters\": %llu, \"gradients\": 0, \"optimizer\": %llu, \"activations\": 1900000, \"buckets\": 0, \"gathered\": 0, "
             "\"staging\": 0, \"workspace\": 300000, \"secondary\": 0}, "
             "\"knobs\": {\"parameters\": \"zero_optimization.stage\", \"gradients\": \"zero_optimization.stage\", \"optimizer\": \"zero_optimization.stage\", "
             "\"activations\": \"train_micro_batch_size_per_gpu\", \"workspace\": \"train_micro_batch_size_per_gpu\"}, \"fits\": [{\"command\": \"stage=1\", \"peak_bytes\": 11943616}, "
             "{\"command\": \"stage=3\", \"peak_bytes\": 8537216}]}}",
             (unsigned long long)run->budget_bytes, (unsigned long long)synthetic_resting(run, CATEGORY_PARAMETERS, run->stage),
             (unsigned long long)synthetic_resting(run, CATEGORY_OPTIMIZER, run->stage));
    synthetic_hold_all(run, synthetic_resting);
    synthetic_end_step(run, step, begun, true);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {step, synthetic_text(json)}});
    synthetic_state(run, step - 1, RUN_OUT_OF_MEMORY, "rank 2 cannot hold the gradient of block 3");
}

static inline void synthetic_switch(struct synthetic *run, uint32_t before, int stage)
{
    char command[32], json[128];
    snprintf(command, sizeof command, "stage=%d", stage);
    snprintf(json, sizeof json, "{\"kind\": \"stage\", \"detail\": {\"from\": %d, \"to\": %d, \"seconds\": 0.012}}", run->stage, stage);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_COMMAND, .command = {before, 1, synthetic_text(command)}});
    synthetic_plan(run, stage);
    synthetic_hold_all(run, synthetic_resting);
    synthetic_reset_peaks(run);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {before, synthetic_text(json)}});
}

/* The run is to go on with other ranks: asked for, and saving. */
static inline void synthetic_leave(struct synthetic *run, uint32_t done, int ranks)
{
    char command[32];
    snprintf(command, sizeof command, "ranks=%d", ranks);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_COMMAND, .command = {done + 1, 1, synthetic_text(command)}});
    run->time_ns += 200000 * SYNTHETIC_US;
    synthetic_state(run, done, RUN_RELAUNCHING, "saving 35 %");
}

/* ... the old ranks have ended, the new ones are there. */
static inline void synthetic_return(struct synthetic *run, uint32_t done, int ranks)
{
    char text[96];
    int before = run->ranks;
    run->time_ns += 300000 * SYNTHETIC_US;
    snprintf(text, sizeof text, "starting %d ranks", ranks);
    synthetic_state(run, done, RUN_RELAUNCHING, text);
    run->time_ns += 500000 * SYNTHETIC_US;
    run->ranks = ranks;
    run->part++;
    run->steps_done = done;
    memset(run->live, 0, sizeof run->live);
    synthetic_reset_peaks(run);
    synthetic_header(run);
    synthetic_state(run, done, RUN_RELAUNCHING, "loading 0 %");
    for (int rank = 0; rank < ranks; rank++)
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_BUDGET, .budget = {TIER_DEVICE, run->budget_bytes}});
    synthetic_plan(run, run->stage);
    synthetic_hold_all(run, synthetic_resting);
    snprintf(text, sizeof text, "{\"kind\": \"ranks\", \"detail\": {\"from\": %d, \"to\": %d, \"seconds\": 1}}", before, ranks);
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {done + 1, synthetic_text(text)}});
    synthetic_state(run, done, RUN_RUNNING, "");
}

/* What comes before the first step; stage -1: the run is still starting. */
static inline void synthetic_start(struct synthetic *run, int ranks, int stage, uint64_t budget_bytes, synthetic_emit *emit, void *user)
{
    memset(run, 0, sizeof *run);
    run->emit = emit;
    run->user = user;
    run->ranks = ranks;
    run->layers = 4;
    run->parameters = 834304;
    run->time_ns = 1000000000u;
    run->budget_bytes = budget_bytes;
    synthetic_header(run);
    synthetic_state(run, 0, RUN_STARTING, "reading the text");
    for (int rank = 0; rank < ranks; rank++) {
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_BUDGET, .budget = {TIER_DEVICE, budget_bytes}});
        const struct trace_of_process process = {.pid = 1000u + (uint32_t)rank, .rss_bytes = 90000000, .peak_rss_bytes = 95000000};
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_PROCESS, .process = process});
    }
    if (stage < 0) return;
    run->time_ns += 1500000 * SYNTHETIC_US;
    synthetic_plan(run, stage);
    synthetic_state(run, 0, RUN_RUNNING, "");
}

/* The story that the screens are tested with: stage 0 from a generous budget, 1, 2, 3, a smaller budget and stage 0 again,
 * which does not fit; stage 3 goes on. `until`: how far the story is told. */
enum synthetic_place {
    STORY_STARTING, STORY_STAGE0, STORY_STAGE3, STORY_PAUSED, STORY_SHORTAGE, STORY_ENDED,
    STORY_LEAVES,  /* instead of what follows stage 3: on the way to two ranks */
    STORY_RETURNS, /* ... there; and after some steps to three */
};

static inline void synthetic_budget(struct synthetic *run, uint64_t bytes)
{
    run->budget_bytes = bytes;
    for (int rank = 0; rank < run->ranks; rank++)
        synthetic_put(run, rank, (struct trace_record){.kind = TRACE_BUDGET, .budget = {TIER_DEVICE, bytes}});
}

static inline void synthetic_close(struct synthetic *run, uint32_t step)
{
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_STATE_HASH, .state_hash = {step, 0x1234abcd5678ef90u}});
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_END, .end = {OUTCOME_FINISHED, synthetic_text("")}});
}

static inline void synthetic_story(struct synthetic *run, int ranks, enum synthetic_place until, synthetic_emit *emit, void *user)
{
    uint32_t step = 0;
    synthetic_start(run, ranks, until == STORY_STARTING ? -1 : 0, 20000000, emit, user);
    if (until == STORY_STARTING) return;
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_LOG, .log = {0, synthetic_text("text: 301,203 bytes, 95 % to learn from")}});
    while (step < 6) synthetic_step(run, ++step);
    if (until == STORY_STAGE0) return;
    for (int stage = 1; stage <= 3; stage++) {
        synthetic_switch(run, step + 1, stage);
        for (int i = 0; i < 5; i++) synthetic_step(run, ++step);
    }
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_VALIDATION, .validation = {step, 2.9876f, 16384}});
    synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_SAMPLE, .sample = {step, synthetic_text("The schedule of a step\nis a list, and the rank that owns a shard \xc3\xa4 \xff\x01 keeps it.")}});
    if (until == STORY_STAGE3) return;
    if (until == STORY_LEAVES || until == STORY_RETURNS) {
        synthetic_leave(run, step, 2);
        if (until == STORY_LEAVES) return;
        synthetic_return(run, step, 2);
        for (int i = 0; i < 5; i++) synthetic_step(run, ++step);
        synthetic_leave(run, step, 3);
        synthetic_return(run, step, 3);
        for (int i = 0; i < 4; i++) synthetic_step(run, ++step);
        synthetic_close(run, step);
        return;
    }
    if (until == STORY_PAUSED) {
        synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_COMMAND, .command = {step + 1, 0, synthetic_text("stage=7\tstage is 0, 1, 2 or 3")}});
        synthetic_state(run, step, RUN_PAUSED, "by command");
        synthetic_put(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {step + 1, synthetic_text("{\"kind\":\"pause\",\"detail\":{\"text\":\"by command\"}}")}});
        return;
    }
    synthetic_budget(run, 12500000);
    synthetic_switch(run, step + 1, 0);
    synthetic_shortage(run, step + 1);
    if (until == STORY_SHORTAGE) return;
    synthetic_switch(run, step + 1, 3);
    synthetic_state(run, step, RUN_RUNNING, "");
    for (int i = 0; i < 4; i++) synthetic_step(run, ++step);
    synthetic_close(run, step);
}
