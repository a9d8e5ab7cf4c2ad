/* The run model against figures worked out by hand from the operations of tests/support/synthetic.h: four blocks, two lanes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/observe/questions.h"
#include "tests/support/synthetic.h"

enum { PSI = 834304, RANKS = 4 };

static void fold(void *model, const struct trace_record *record)
{
    run_model_fold(model, record);
}

static struct run_model *told(struct synthetic *run, enum synthetic_place until, int steps)
{
    struct run_model *model = run_model_new(&(struct run_model_options){.steps = steps});
    synthetic_story(run, RANKS, until, fold, model);
    return model;
}

static void header_is_read(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STARTING, 0);
    (void)state;
    assert_true(model->header.known);
    assert_string_equal(model->header.model_name, "nano");
    assert_string_equal(model->header.precision, "fp32");
    assert_int_equal(model->header.parameters, PSI);
    assert_int_equal(model->header.unit_count, 1);
    assert_int_equal(model->header.units[0].elems, 40960);
    assert_int_equal(model->ranks, RANKS);
    assert_int_equal(model->state, RUN_STARTING);
    assert_string_equal(model->reason, "reading the text");
    assert_string_equal(model->header.config_json, "{\"steps\": 12}");
    assert_null(run_last_step(model));
    assert_null(run_training(model));
    run_model_free(model);
}

static void why_it_went_on_is_said_until_a_step_has_ended(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 0);
    const char *const why = "tries again";
    struct trace_record record = {
        .kind = TRACE_STATE, .rank = TRACE_RANK_ALL, .state = {.state = RUN_RUNNING, .reason = {why, strlen(why)}}};
    (void)state;
    run_model_fold(model, &record);
    assert_string_equal(model->reason, why);
    synthetic_step(&run, 20);
    assert_int_equal(model->state, RUN_RUNNING);
    assert_string_equal(model->reason, "");
    run_model_free(model);
}

static void what_is_not_said_is_unknown(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct trace_record record = {.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .run = {synthetic_text("{\"ranks\": 2}")}};
    double rate;
    uint64_t bytes;
    (void)state;
    run_model_fold(model, &record);
    assert_int_equal(model->header.parameters, RUN_UNKNOWN);
    assert_int_equal(model->header.threads_per_rank, RUN_UNKNOWN);
    assert_null(model->header.config_json);
    assert_false(run_tokens_per_second(model, &rate));
    assert_false(run_predicted_peak(model, TIER_DEVICE, &bytes));
    assert_false(model->rank[1].tier[TIER_DEVICE].now.known);
    assert_false(model->rank[1].tier[TIER_DEVICE].has_budget);
    run_model_free(model);
}

/* Stage 0: blocks follow each other without waiting (4 x 2 ms, 4 x 4 ms); the update (1.8 ms) waits for the last
 * all-reduce (0.9 ms after the last block) and the agreement (0.05 ms). 0.2 ms of the step are nobody's. */
static void split_of_stage_0(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 0);
    const struct run_step *step = run_last_step(model);
    (void)state;
    assert_int_equal(step->step, 6);
    assert_int_equal(step->timed, RANKS);
    assert_int_equal(step->split.phase_ns[PHASE_FORWARD], RANKS * 8000000);
    assert_int_equal(step->split.phase_ns[PHASE_BACKWARD], RANKS * 16000000);
    assert_int_equal(step->split.phase_ns[PHASE_OPTIMIZER], RANKS * 1800000);
    assert_int_equal(step->split.exposed_ns, RANKS * 950000);
    assert_int_equal(step->split.exposed_by_ns[TRAFFIC_ALL_REDUCE], RANKS * 900000);
    assert_int_equal(step->split.exposed_by_ns[TRAFFIC_CONTROL], RANKS * 50000);
    assert_int_equal(step->total_ns, 26950000);
    run_model_free(model);
}

/* Stage 1 and 2 end with a refresh of 1.1 ms that nothing hides: the end of the step. Stage 3 waits for its first gather (0.4 ms) and,
 * in this schedule, for each reduction before the next block goes back (3 x 0.9 ms). */
static void split_of_other_stages(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE3, 0);
    const struct run_step *stage2 = run_step_numbered(model, 16), *stage3 = run_step_numbered(model, 21);
    (void)state;
    assert_int_equal(stage2->stage, 2);
    assert_int_equal(stage2->split.exposed_by_ns[TRAFFIC_ALL_GATHER], RANKS * 1100000);
    assert_int_equal(stage2->split.exposed_by_ns[TRAFFIC_REDUCE_SCATTER], RANKS * 900000);
    assert_int_equal(stage2->split.exposed_ns, RANKS * 2050000);
    assert_int_equal(stage3->stage, 3);
    assert_int_equal(stage3->split.exposed_by_ns[TRAFFIC_ALL_GATHER], RANKS * 400000);
    assert_int_equal(stage3->split.exposed_by_ns[TRAFFIC_REDUCE_SCATTER], RANKS * (3 + 1) * 900000);
    assert_int_equal(stage3->split.exposed_ns, RANKS * 4050000);
    run_model_free(model);
}

/* One figure for all ranks on a GPU; what was never measured is unknown, and a record that cannot be is passed over. */
static void what_lies_outside_is_of_all_ranks_on_a_gpu(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    const struct trace_record gpu[] = {
        {.kind = TRACE_GPU, .rank = 0, .gpu = {0, 0, 2, 1 << 30, synthetic_text("one")}},
        {.kind = TRACE_GPU, .rank = 1, .gpu = {0, 0, 2, 1 << 30, synthetic_text("one")}},
        {.kind = TRACE_GPU, .rank = 2, .gpu = {7, 3, 2, 1 << 30, synthetic_text("measured by one that comes later")}},
    };
    for (int r = 0; r < 3; r++) run_model_fold(model, &gpu[r]);
    assert_null(run_outside_of(model, 1));
    run_model_fold(model, &(struct trace_record){.kind = TRACE_OUTSIDE, .rank = 0, .outside = {500, 100}});
    run_model_fold(model, &(struct trace_record){.kind = TRACE_OUTSIDE, .rank = 0, .outside = {300, 300}});
    assert_non_null(run_outside_of(model, 1));
    assert_int_equal(run_outside_of(model, 1)->bytes, 300);
    assert_int_equal(run_outside_of(model, 1)->most_bytes, 500);
    assert_string_equal(model->rank[1].gpu.name, "one");
    assert_false(model->rank[2].gpu.known);
    assert_null(run_outside_of(model, 2));
    run_model_free(model);
}

/* Of two GPUs the powers add up, the lower clock counts, and every reason; what one does not say is unknown of both. */
static void sensors_are_of_all_gpus_together(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct run_sensors all;
    char text[64];
    assert_false(run_sensors(model, &all));
    for (uint16_t r = 0; r < 3; r++)
        run_model_fold(model, &(struct trace_record){.kind = TRACE_GPU,
                                                     .rank = r,
                                                     .gpu = {r / 2, r / 2 * 2, 2, 1 << 30, synthetic_text("one")}});
    run_model_fold(model, &(struct trace_record){.kind = TRACE_SENSORS, .rank = 0, .sensors = {300000, 1755, 0x4}});
    run_model_fold(model, &(struct trace_record){.kind = TRACE_SENSORS, .rank = 2, .sensors = {200000, 1410, 0x8000}});
    assert_true(run_sensors(model, &all));
    assert_int_equal(all.power_mw, 500000);
    assert_int_equal(all.clock_mhz, 1410);
    run_slowed_text(text, sizeof text, &all);
    assert_string_equal(text, "power cap, other reasons");
    run_model_fold(model,
                   &(struct trace_record){.kind = TRACE_SENSORS, .rank = 2, .sensors = {UINT32_MAX, 1410, UINT64_MAX}});
    assert_true(run_sensors(model, &all));
    assert_int_equal(all.power_mw, UINT32_MAX);
    assert_int_equal(all.clock_mhz, 1410);
    run_slowed_text(text, sizeof text, &all);
    assert_string_equal(text, "");
    run_model_free(model);
}

static void memory_is_the_sum_and_the_fullest_instant(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE3, 0);
    const struct run_tier *tier = &model->rank[0].tier[TIER_DEVICE];
    uint64_t shard = PSI, planned; /* 4 bytes x Psi / 4 ranks */
    (void)state;
    assert_int_equal(tier->now.live_bytes, 3 * shard);
    assert_int_equal(tier->step_peak.held_bytes[CATEGORY_PARAMETERS], shard);
    assert_int_equal(tier->step_peak.held_bytes[CATEGORY_OPTIMIZER], 2 * shard);
    assert_int_equal(tier->step_peak.live_bytes, 4 * shard + 2500000 + 800000 + 1600000 + 300000);
    assert_int_equal(model->rank[3].tier[TIER_DEVICE].step_peak.live_bytes, tier->step_peak.live_bytes - 3000);
    assert_true(run_predicted_peak(model, TIER_DEVICE, &planned));
    assert_int_equal(planned, tier->step_peak.live_bytes);
    assert_int_equal(tier->highest_bytes, 16 * (uint64_t)PSI + 2500000 + 300000); /* of stage 0 */
    assert_int_equal(tier->budget_bytes, 20000000);
    assert_int_equal(tier->category[CATEGORY_GATHERED].at_peak_bytes, 1600000);
    run_model_free(model);
}

static void traffic_is_held_against_the_plan(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE3, 0);
    const struct run_schedule *plan = run_training(model);
    const struct run_traffic *gather = &model->traffic[TRAFFIC_ALL_GATHER][LINK_INTRA];
    uint64_t volume = 4ull * PSI * 3 / 4;
    (void)state;
    assert_int_equal(plan->theory_bytes, 3 * volume);
    assert_int_equal(gather->ranks, RANKS);
    assert_int_equal(gather->count, RANKS * 5);
    assert_int_equal(gather->sent_bytes, RANKS * (uint64_t)(1.95 * (double)volume));
    assert_int_equal(plan->traffic[TRAFFIC_ALL_GATHER][LINK_INTRA].sent_bytes, gather->sent_bytes);
    const struct run_step *step = run_last_step(model);
    assert_int_equal(step->sent_bytes[2], (uint64_t)(1.95 * (double)volume) + volume); /* without control bytes */
    assert_int_equal(model->traffic_steps, 21);
    assert_true(model->best_busbw[TRAFFIC_ALL_GATHER] > 0);
    const double before = model->best_busbw[TRAFFIC_ALL_GATHER];
    struct trace_record fast = {.kind = TRACE_TRAFFIC,
                                .traffic = {99, TRAFFIC_ALL_GATHER, LINK_INTRA, 1, 1000000000, 1}};
    for (uint16_t r = 0; r < RANKS; r++) { /* a step counts when all ranks have told of it */
        assert_true(model->best_busbw[TRAFFIC_ALL_GATHER] == before);
        fast.rank = r;
        run_model_fold(model, &fast);
    }
    assert_true(model->best_busbw[TRAFFIC_ALL_GATHER] > before);
    run_model_free(model);
}

static void shortage_is_taken_apart_and_its_step_taken_again(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_SHORTAGE, 0);
    (void)state;
    assert_int_equal(model->state, RUN_OUT_OF_MEMORY);
    assert_int_equal(model->shortage.rank, 2);
    assert_int_equal(model->shortage.tier, TIER_DEVICE);
    assert_int_equal(model->shortage.category, CATEGORY_GRADIENTS);
    assert_int_equal(model->shortage.wanted_bytes, 793088);
    assert_int_equal(model->shortage.held_bytes[CATEGORY_OPTIMIZER], 8 * PSI);
    assert_int_equal(model->shortage.fit_count, 2);
    assert_string_equal(model->shortage.fits[1].command, "stage=3");
    char text[256];
    run_shortage_text(text, sizeof text, &model->shortage, write_bytes);
    assert_string_equal(text, "out of device memory: gradients asks for 793,088 B, 288,352 B of the budget of "
                              "12,500,000 B are left; refused on rank 2");
    model->shortage.also_ranks = UINT64_C(1) << 3 | UINT64_C(1) << 63;
    run_shortage_text(text, sizeof text, &model->shortage, write_bytes);
    assert_non_null(strstr(text, "; refused on ranks 2-3, 63"));
    assert_true(run_last_step(model)->skipped);
    assert_int_equal(run_last_step(model)->step, 22);
    assert_int_equal(model->steps_seen, 21);
    run_model_free(model);

    model = told(&run, STORY_ENDED, 0);
    const struct run_step *again = run_step_numbered(model, 22);
    assert_int_equal(again->attempt, 1);
    assert_int_equal(again->stage, 3);
    assert_int_equal(again->ended, RANKS);
    assert_false(again->skipped);
    assert_int_equal(model->step_count, 25);
    assert_int_equal(model->steps_seen, 25);
    assert_true(model->ended);
    assert_int_equal(model->outcome, OUTCOME_FINISHED);
    run_model_free(model);
}

/* Plans are only tried where there is a budget, and only the run knows which were. */
static void why_nothing_is_said_to_fit(void **state)
{
    static const struct {
        const char *detail, *words;
    } cases[] = {
        {"\"budget_bytes\": 5, \"fits\": []", "nothing that was tried"},
        {"\"budget_bytes\": 0, \"fits\": []", "no budget"},
        {"\"budget_bytes\": 5", "does not say"},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct run_model *model = run_model_new(&(struct run_model_options){0});
        char json[128];
        snprintf(json, sizeof json, "{\"kind\": \"oom\", \"detail\": {%s}}", cases[c].detail);
        run_model_fold(model, &(struct trace_record){.kind = TRACE_EVENT, .event = {1, synthetic_text(json)}});
        assert_int_equal(model->shortage.fit_count, 0);
        assert_non_null(strstr(run_no_fits(&model->shortage), cases[c].words));
        run_model_free(model);
    }
}

static void rate_is_of_the_last_second(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 0);
    double rate;
    (void)state;
    assert_true(run_tokens_per_second(model, &rate));
    assert_true(fabs(rate - 1024 / 0.02695) < 1e-6 * rate);
    run_model_free(model);
}

static void gaps_make_unknown(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 0);
    struct trace_record begin = {.kind = TRACE_STEP_BEGIN, .step_begin = {7, 1, 0}},
                        end = {.kind = TRACE_STEP_END, .step_end = {.step = 7, .schedule = 1}};
    struct trace_record gap = {.kind = TRACE_GAP, .rank = 1, .gap = {12, 0}};
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) begin.rank = (uint16_t)rank, run_model_fold(model, &begin);
    run_model_fold(model, &gap);
    struct trace_record op = {.kind = TRACE_OP_END,
                              .time_ns = run.time_ns + 5000,
                              .op_end = {.schedule = 1, .step = 7, .started_ns = run.time_ns, .waited_on = -1}};
    for (int rank = 0; rank < RANKS; rank++) op.rank = (uint16_t)rank, run_model_fold(model, &op);
    for (int rank = 0; rank < RANKS; rank++) end.rank = (uint16_t)rank, run_model_fold(model, &end);
    assert_int_equal(run_step_numbered(model, 7)->timed, RANKS - 1);
    assert_int_equal(model->lost_records, 12);
    assert_null(run_step_numbered(model, 7)->sent_bytes);
    assert_int_equal(run_peak_step(model), 6); /* of rank 1; the others hold those of step 7 */
    begin.step_begin.step = end.step_end.step = 8;
    for (int rank = 0; rank < RANKS; rank++) begin.rank = (uint16_t)rank, run_model_fold(model, &begin);
    run_model_fold(model, &gap);
    for (int rank = 0; rank < RANKS; rank++) end.rank = (uint16_t)rank, run_model_fold(model, &end);
    assert_int_equal(run_peak_step(model), 0);
    run_model_free(model);
}

static void fold_gap(struct run_model *model, const struct synthetic *run, uint64_t records, uint64_t since_ns)
{
    run_model_fold(model,
                   &(struct trace_record){
                       .kind = TRACE_GAP, .rank = TRACE_RANK_ALL, .time_ns = run->time_ns, .gap = {records, since_ns}});
}

/* Of a step only what a slow viewer gets. */
static void fold_steps_only(void *model, const struct trace_record *record)
{
    if (record->kind == TRACE_STEP_BEGIN || record->kind == TRACE_STEP_END) run_model_fold(model, record);
}

/* Two steps lie between the beginning of a gap and its end, and one more gap follows. */
static void steps_without_details_are_unknown_and_not_zero(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 0);
    (void)state;
    const int notices = model->notice_count;
    const uint64_t splits = model->split_count, sent = model->traffic_total[TRAFFIC_ALL_REDUCE][LINK_INTRA].sent_bytes;
    const uint32_t steps = model->traffic_steps;
    const uint64_t since_ns = run.time_ns;
    fold_gap(model, &run, 0, since_ns);
    run.emit = fold_steps_only;
    synthetic_step(&run, 7);
    synthetic_step(&run, 8);
    run.emit = fold;
    fold_gap(model, &run, 500, since_ns);
    for (uint32_t step = 7; step <= 8; step++) {
        const struct run_step *thin = run_step_numbered(model, step);
        assert_true(run_step_is_whole(thin) && thin->loss > 0 && thin->total_ns > 0);
        assert_int_equal(thin->timed, 0);
        assert_null(thin->sent_bytes);
        assert_false(thin->memory[TIER_DEVICE].known);
    }
    assert_int_equal(model->split_count, splits);
    assert_int_equal(model->lost_records, 500);
    assert_int_equal(model->steps_seen, 8);
    fold_gap(model, &run, 30, run.time_ns);
    assert_int_equal(model->notice_count, notices + 1); /* gaps that follow each other are one line */
    assert_string_equal(model->notices[notices].text, "530 records are missing: what they said is unknown");
    for (uint32_t step = 9; step <= 10; step++) synthetic_step(&run, step);
    assert_int_equal(run_step_numbered(model, 9)->timed, RANKS);
    assert_true(run_step_numbered(model, 9)->memory[TIER_DEVICE].known && run_step_numbered(model, 9)->sent_bytes);
    const double before = (double)sent / steps,
                 after = (double)model->traffic_total[TRAFFIC_ALL_REDUCE][LINK_INTRA].sent_bytes / model->traffic_steps;
    assert_true(fabs(after - before) < 1e-9 * before); /* the means are of whole steps */
    run_model_free(model);
}

/* A viewer that attaches in mid-step has not seen its beginning: that step has no split, the next one has. */
static void half_a_step_has_no_split(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct synthetic run;
    (void)state;
    synthetic_start(&run, 2, 0, 0, fold, model);
    run_model_fold(model, &(struct trace_record){.kind = TRACE_OP_END,
                                                 .time_ns = 9,
                                                 .op_end = {.schedule = 1, .step = 3, .waited_on = -1}});
    synthetic_end_step(&run, 3, run.time_ns - 1000, false);
    assert_int_equal(run_last_step(model)->timed, 0);
    synthetic_step(&run, 4);
    assert_int_equal(run_last_step(model)->timed, 2);
    run_model_free(model);
}

static void history_is_bounded(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){.steps = 10, .notices = 5});
    struct synthetic run;
    double sum = 0, curve = 0;
    (void)state;
    synthetic_start(&run, 1, 0, 0, fold, model);
    for (uint32_t step = 1; step <= 1024; step++) {
        synthetic_step(&run, step);
        sum += (double)synthetic_loss(step);
        run_model_fold(model, &(struct trace_record){
                                  .kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .log = {0, synthetic_text("a line")}});
        assert_true(model->step_count <= 20 && model->notice_count <= 10);
    }
    assert_int_equal(run_last_step(model)->step, 1024);
    assert_int_equal(model->steps[model->step_count - 10].step, 1015);
    assert_null(run_step_numbered(model, 3));
    assert_int_equal(model->steps_seen, 1024);
    assert_true(model->loss.count < RUN_CURVE_POINTS && model->loss.count >= RUN_CURVE_POINTS / 2);
    for (int i = 0; i < model->loss.count; i++) curve += (double)model->loss.value[i] * model->loss.stride;
    assert_int_equal((int)model->loss.stride * model->loss.count, 1024);
    assert_true(fabs(curve - sum) < 1e-4 * sum);
    run_model_free(model);
}

/* A slow viewer is sent no records of some steps: their place in the curves is unknown, and is not closed up. */
static void missing_steps_are_a_hole_in_the_curves(void **state)
{
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct synthetic run;
    (void)state;
    synthetic_start(&run, 1, 0, 0, fold, model);
    synthetic_step(&run, 3); /* a late viewer: what came before it is no hole */
    synthetic_step(&run, 4);
    synthetic_step(&run, 8);
    assert_int_equal(model->loss.count, 6);
    for (int i = 0; i < 6; i++) {
        const bool seen = i < 2 || i == 5;
        assert_int_equal(model->number.value[i], 3 + i);
        assert_int_equal(!isnan(model->loss.value[i]), seen);
        assert_int_equal(!isnan(model->tokens_per_s.value[i]), seen);
    }
    for (uint32_t step = 9; step <= 6 + RUN_CURVE_POINTS; step++) synthetic_step(&run, step);
    assert_int_equal(model->loss.stride, 2); /* pairs: (3, 4), (5, 6), (7, 8) */
    assert_true(!isnan(model->loss.value[0]) && isnan(model->loss.value[1]));
    assert_float_equal(model->loss.value[2], synthetic_loss(8), 1e-6);
    run_model_free(model);
}

/* Records that no engine writes must not lead outside the arrays. */
static void hostile_records_are_survived(void **state)
{
    struct synthetic run;
    struct run_model *model = told(&run, STORY_STAGE0, 4);
    struct trace_record bad[] = {
        {.kind = TRACE_MEMORY, .memory = {9, 9, 1, 1, 1}},
        {.kind = TRACE_MEMORY, .rank = 77, .memory = {0, 0, 1, 1, 1}},
        {.kind = TRACE_PREDICTED, .predicted = {1, 0, 200, 1, 1, 1}},
        {.kind = TRACE_THEORY, .theory = {1, 99, 99, 1, 1, 1}},
        {.kind = TRACE_TRAFFIC, .traffic = {1, 10, 4, 1, 1, 1}},
        {.kind = TRACE_OP_BEGIN, .op_begin = {1, 1, 4000000000u, 0}},
        {.kind = TRACE_OP_END, .op_end = {.schedule = 1, .op = 4000000000u}},
        {.kind = TRACE_OP_END, .op_end = {.schedule = 1, .op = 0, .started_ns = UINT64_MAX, .waited_on = INT64_MAX}},
        {.kind = TRACE_SCHEDULE, .schedule = {8, 0, 0, synthetic_text("{\"format\": 77}")}},
        {.kind = TRACE_STATE, .state = {1, 250, synthetic_text("")}},
        {.kind = TRACE_END, .end = {250, synthetic_text("")}},
        {.kind = TRACE_EVENT, .event = {1, synthetic_text("not json")}},
        {.kind = TRACE_EVENT,
         .event = {1, synthetic_text(
                          "{\"kind\": \"oom\", \"detail\": {\"rank\": 1e18, \"fits\": "
                          "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25], \"larger\": [1], "
                          "\"also_ranks\": [1, 64, -1, {}, \"2\", 1e300]}}")}},
        {.kind = TRACE_COMMAND, .command = {1, 0, {"", 0}}},
        {.kind = TRACE_SAMPLE, .sample = {1, {"", 0}}},
        {.kind = TRACE_STEP_END, .rank = TRACE_RANK_ALL, .step_end = {.step = 9}},
        {.kind = (enum trace_kind)999},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) run_model_fold(model, &bad[i]);
    assert_int_equal(model->ranks, RANKS);
    assert_int_equal(model->shortage.rank, RUN_UNKNOWN);
    assert_int_equal(model->shortage.fit_count, RUN_FITS_MAX);
    assert_int_equal(model->shortage.larger_count, 0);
    assert_int_equal(model->shortage.also_ranks, 2);
    assert_false(model->ended);
    assert_true(model->problem[0] != '\0');
    run_model_free(model);
}

static void say_event(struct run_model *model, const char *json)
{
    struct trace_record record = {
        .kind = TRACE_EVENT, .rank = TRACE_RANK_ALL, .event = {.step = 3, .json = synthetic_text(json)}};
    run_model_fold(model, &record);
}

static void pace_is_the_header_and_what_was_set_since(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct trace_record header = {
        .kind = TRACE_RUN,
        .rank = TRACE_RANK_ALL,
        .run = {synthetic_text("{\"ranks\": 2, \"config\": {\"topology\": {\"slow_motion\": 5, \"slow_rank\": 1, "
                               "\"links\": {\"intra\": {\"bandwidth\": 5e7, \"latency\": 0.0001}}}}}")}};
    assert_false(model->pace.known);
    run_model_fold(model, &header);
    assert_true(model->pace.known);
    assert_true(model->pace.slow_motion == 5);
    assert_int_equal(model->pace.slow_rank, 1);
    assert_true(model->pace.links[LINK_INTRA].bandwidth_bytes_per_s == 5e7);
    assert_true(model->pace.links[LINK_INTRA].latency_s == 1e-4);
    assert_true(model->pace.links[LINK_INTER].bandwidth_bytes_per_s == 0);
    say_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"topology.slow_motion\",\"from\":\"5\",\"to\":\"20\"}}");
    say_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"topology.slow_rank\",\"to\":\"-1\"}}");
    say_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"topology.links.intra.bandwidth\",\"to\":\"20MB\"}}");
    say_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"topology.links.inter.latency\",\"to\":\"3ms\"}}");
    say_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"memory.device_budget\",\"to\":\"20MB\"}}");
    assert_true(model->pace.slow_motion == 20);
    assert_int_equal(model->pace.slow_rank, -1);
    assert_true(model->pace.links[LINK_INTRA].bandwidth_bytes_per_s == 2e7);
    assert_true(model->pace.links[LINK_INTRA].latency_s == 1e-4);
    assert_true(model->pace.links[LINK_INTER].latency_s == 3e-3);
    run_model_free(model);
}

static void say_save(struct run_model *model, uint32_t step, const char *state)
{
    char json[160];
    snprintf(json, sizeof json, "{\"kind\":\"checkpoint\",\"detail\":{\"state\":\"%s\",\"tag\":\"step-%u\"}}", state,
             step);
    run_model_fold(model, &(struct trace_record){.kind = TRACE_EVENT,
                                                 .rank = TRACE_RANK_ALL,
                                                 .event = {.step = step, .json = synthetic_text(json)}});
}

/* A save in the background may end after a later one failed: the state of the later one is still not saved. */
static void what_was_not_saved_is_known_until_a_later_one_is(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    say_save(model, 5, "saving");
    say_save(model, 10, "failed");
    assert_string_equal(model->save.lost_tag, "step-10");
    say_save(model, 5, "saved");
    assert_string_equal(model->save.saved_tag, "step-5");
    assert_string_equal(model->save.lost_tag, "step-10");
    say_save(model, 12, "saving");
    assert_string_equal(model->save.lost_tag, "step-10");
    say_save(model, 12, "saved");
    assert_string_equal(model->save.lost_tag, "");
    run_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_is_read),
        cmocka_unit_test(why_it_went_on_is_said_until_a_step_has_ended),
        cmocka_unit_test(what_is_not_said_is_unknown),
        cmocka_unit_test(split_of_stage_0),
        cmocka_unit_test(split_of_other_stages),
        cmocka_unit_test(memory_is_the_sum_and_the_fullest_instant),
        cmocka_unit_test(what_lies_outside_is_of_all_ranks_on_a_gpu),
        cmocka_unit_test(sensors_are_of_all_gpus_together),
        cmocka_unit_test(traffic_is_held_against_the_plan),
        cmocka_unit_test(shortage_is_taken_apart_and_its_step_taken_again),
        cmocka_unit_test(why_nothing_is_said_to_fit),
        cmocka_unit_test(rate_is_of_the_last_second),
        cmocka_unit_test(gaps_make_unknown),
        cmocka_unit_test(steps_without_details_are_unknown_and_not_zero),
        cmocka_unit_test(half_a_step_has_no_split),
        cmocka_unit_test(history_is_bounded),
        cmocka_unit_test(missing_steps_are_a_hole_in_the_curves),
        cmocka_unit_test(hostile_records_are_survived),
        cmocka_unit_test(pace_is_the_header_and_what_was_set_since),
        cmocka_unit_test(what_was_not_saved_is_known_until_a_later_one_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
