/* The logs of DeepSpeed's keys: every figure against totals.h, a count of its own, or a number that is known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/advise/logs_parts.h"
#include "engine/observe/totals.h"
#include "tests/support/past_fixture.h"

enum { US = 1000, RANKS = 3, STEPS = 2, STEP_US = 1000 };

/* A step at stage 3 with one block: gather, forward, backward, reduction, norm, update, refresh. */
static const struct past_op plan[] = {
    {OP_GATHER, 1, 3000, false, -1, WAIT_DATA},     {OP_FORWARD, 1, 0, false, 0, WAIT_DATA},
    {OP_BACKWARD, 1, 0, false, 1, WAIT_DATA}, {OP_REDUCE_SCATTER, 1, 6000, false, 2, WAIT_DATA},
    {OP_GRAD_NORM, 1, 0, false, 3, WAIT_DATA},      {OP_AGREE, -1, 0, false, 4, WAIT_DATA},
    {OP_UPDATE, 1, 0, false, 5, WAIT_DATA},         {OP_REFRESH, 1, 3000, false, 6, WAIT_DATA},
};
enum { OPS = sizeof plan / sizeof *plan };

/* When each operation starts and ends, in us of its step; rank r is 7 r us slower in collectives. */
static const struct {
    int started, ended;
} when[OPS] = {
    {10, 90}, {100, 250}, {260, 560}, {570, 640}, {650, 660}, {665, 700}, {710, 750}, {760, 840},
};

static uint64_t at_us(int step, int us)
{
    return (uint64_t)(step * STEP_US + us) * US;
}

static int slower(int rank, int op)
{
    bool collective = plan[op].kind == OP_GATHER || plan[op].kind == OP_REDUCE_SCATTER || plan[op].kind == OP_REFRESH;
    return collective ? 7 * rank : 0;
}

static void run_step(struct record_buffer *past, int step)
{
    for (int rank = 0; rank < RANKS; rank++) past_step(past, rank, (uint32_t)step, at_us(step, rank));
    for (int op = 0; op < OPS; op++)
        for (int rank = 0; rank < RANKS; rank++)
            past_op(past, rank, (uint32_t)step, (uint32_t)op, at_us(step, when[op].started - 5),
                    at_us(step, when[op].started), at_us(step, when[op].ended + slower(rank, op)), plan[op].after);
    for (int rank = 0; rank < RANKS; rank++)
        past_fold(past, rank, at_us(step, 900 + rank),
                  (struct trace_record){.kind = TRACE_STEP_END,
                                        .step_end = {.step = (uint32_t)step,
                                                     .schedule = 1,
                                                     .stage = 3,
                                                     .micro_steps = 1,
                                                     .tokens = 96,
                                                     .total_ns = 900 * US}});
}

static struct record_buffer run_of(int steps)
{
    struct record_buffer past;
    past_start(&past, 0, RANKS, at_us(1, -100));
    past_plan(&past, 1, RANKS, PURPOSE_TRAIN, plan, OPS, at_us(1, -90));
    for (int step = 1; step <= steps; step++) run_step(&past, step);
    return past;
}

/* ---- wall_clock_breakdown ---- */

static void parts_of_a_step(void **state)
{
    (void)state;
    struct record_buffer past = run_of(STEPS);
    struct log_clock clock = {0};
    for (int i = 0; i < STEPS; i++) assert_true(log_clock_add(&clock, past.history, past.model, history_step(past.history, i)));
    const uint64_t parts = (uint64_t)RANKS * STEPS * US;
    assert_int_equal(clock.forward,
                     250 * parts); /* from the first rank's beginning, the wait for the gather included */
    assert_int_equal(clock.inner, 310 * parts);
    assert_int_equal(clock.reduce, 90 * parts); /* 560 to 650: the norm waits for the reduction */
    assert_int_equal(clock.gradients, 60 * parts);
    assert_int_equal(clock.update, 40 * parts);
    assert_int_equal(clock.allgather, 152 * parts); /* to the end of the slowest rank */
    uint64_t window_ns = 0;
    for (int i = 0; i < STEPS; i++) window_ns += history_step(past.history, i)->ended_ns - history_step(past.history, i)->begun_ns;
    assert_int_equal(clock.forward + clock.inner + clock.reduce + clock.gradients + clock.update + clock.allgather,
                     window_ns * RANKS);
    past_end(&past);
}

static void lost_records_leave_a_step_out(void **state)
{
    (void)state;
    struct record_buffer past = run_of(1);
    struct log_clock clock = {0};
    struct log_comms comms = {0};
    past_step(&past, 0, 2, at_us(2, 0));
    past_fold(&past, 0, at_us(2, 500), (struct trace_record){.kind = TRACE_GAP, .gap = {12, at_us(2, 100)}});
    for (int rank = 1; rank < RANKS; rank++) past_step(&past, rank, 2, at_us(2, 500));
    for (int rank = 0; rank < RANKS; rank++) past_step_end(&past, rank, 2, at_us(2, 900));
    const struct history_step *step = history_step_numbered(past.history, 2);
    assert_false(log_clock_add(&clock, past.history, past.model, step));
    assert_int_equal(clock.steps, 0);
    log_comms_add(&comms, past.history, past.model, step, NULL);
    assert_int_equal(comms.lost_steps, 1);
    assert_int_equal(comms.rows, 0);
    struct log_moment moments[8];
    assert_int_equal(log_moments(moments, 8, past.history, step, 0, TIER_DEVICE), 0);
    log_comms_release(&comms);
    past_end(&past);
}

/* ---- memory_breakdown ---- */

static void peaks_between_the_phases(void **state)
{
    (void)state;
    struct record_buffer past;
    static const struct {
        int us;
        uint64_t bytes;
    } held[] = {{2, 100},   {120, 700}, {200, 400}, {300, 900}, {520, 300},
                {600, 350}, {645, 120}, {730, 160}, {755, 100}};
    past_start(&past, 0, 1, at_us(1, -100));
    past_plan(&past, 1, 1, PURPOSE_TRAIN, plan, OPS, at_us(1, -90));
    past_step(&past, 0, 1, at_us(1, 0));
    unsigned next = 0;
    for (int op = 0; op < OPS; op++) {
        for (; next < sizeof held / sizeof *held && held[next].us < when[op].ended; next++)
            past_hold(&past, 0, CATEGORY_ACTIVATIONS, held[next].bytes, at_us(1, held[next].us));
        past_op(&past, 0, 1, (uint32_t)op, at_us(1, when[op].started - 5), at_us(1, when[op].started),
                at_us(1, when[op].ended), plan[op].after);
    }
    past_step_end(&past, 0, 1, at_us(1, 900));

    static const struct {
        const char *name;
        uint64_t now, most;
    } expected[] = {{"before forward", 100, 100},
                    {"after forward", 400, 700},
                    {"after backward", 350, 900},
                    {"before step", 120, 350},
                    {"after step", 100, 160}};
    struct log_moment moments[8];
    assert_int_equal(log_moments(moments, 8, past.history, history_step(past.history, 0), 0, TIER_DEVICE), 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(moments[i].name, expected[i].name);
        assert_int_equal(moments[i].now.live_bytes, expected[i].now);
        assert_int_equal(moments[i].most_bytes, expected[i].most);
    }
    past_end(&past);
}

/* ---- comms_logger ---- */

static void collectives_against_totals(void **state)
{
    (void)state;
    struct record_buffer past = run_of(STEPS);
    struct log_comms comms = {0};
    struct totals totals;
    for (int i = 0; i < STEPS; i++) log_comms_add(&comms, past.history, past.model, history_step(past.history, i), NULL);
    totals_of(&totals, past.history, past.model, -1, history_step(past.history, 0)->begun_ns,
              history_step(past.history, STEPS - 1)->ended_ns, 0);
    assert_true(totals.known);
    assert_int_equal(comms.rows, 2); /* gather and refresh are the same collective of the same size */
    for (int i = 0; i < comms.rows; i++) {
        const struct log_comm *row = &comms.row[i];
        const struct collective_totals *sum = &totals.traffic[row->kind];
        const double each_ns = (double)row->latency_ns / RANKS;
        assert_int_equal(row->count, sum->count);
        assert_int_equal(row->count * row->bytes, sum->bytes);
        assert_int_equal(row->latency_ns, sum->busy_ns * RANKS);
        double algbw = (double)(row->count * row->bytes) * 1e9 / each_ns, factor = (RANKS - 1.0) / RANKS;
        assert_true(fabs(algbw / per_second(sum->bytes, sum->busy_ns) - 1) < 1e-9);
        assert_true(fabs(algbw * factor / per_second(sum->bus_bytes, sum->busy_ns) - 1) < 1e-9);
        assert_int_equal(row->latency_ns - row->fastest_ns, row->count * (7 + 14) * US); /* the slower ranks' share */
    }
    log_comms_release(&comms);
    past_end(&past);
}

/* The same size among all ranks and within groups: rows of their own, since their busbw differ. */
static void collectives_of_groups(void **state)
{
    (void)state;
    static const struct past_op ops[] = {{OP_GATHER, 0, 8000, false, -1, WAIT_DATA},
                                         {OP_GATHER, 1, 8000, false, -1, WAIT_DATA}};
    static const enum group groups[] = {GROUP_SHARDS, GROUP_WORLD};
    struct record_buffer past;
    struct log_comms comms = {0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    past_start(&past, 0, 4, at_us(1, -100));
    past_plan_in_groups(&past, 1, 4, PURPOSE_TRAIN, ops, groups, 2, at_us(1, -90));
    for (int rank = 0; rank < 4; rank++) {
        past_step(&past, rank, 1, at_us(1, 0));
        for (int op = 0; op < 2; op++)
            past_op(&past, rank, 1, (uint32_t)op, at_us(1, 10 * op), at_us(1, 10 * op), at_us(1, 10 * op + 8), -1);
        past_step_end(&past, rank, 1, at_us(1, 20));
    }
    log_comms_add(&comms, past.history, past.model, history_step(past.history, 0), NULL);
    log_comms_print(&comms, out);
    fclose(out);
    assert_int_equal(comms.rows, 2);
    assert_int_equal(comms.row[0].members, 2);
    assert_int_equal(comms.row[1].members, 4);
    assert_non_null(strstr(text, "all_gather (4 ranks in groups of 2)\n"));
    assert_non_null(strstr(text, "              8.00              4.00\n")); /* Gbps: 8,000 bytes in 8 us, and half of it */
    assert_non_null(strstr(text, "all_gather (4 ranks)\n"));
    assert_non_null(strstr(text, "              8.00              6.00\n"));
    free(text);
    log_comms_release(&comms);
    past_end(&past);
}

static void collectives_that_are_asked_for(void **state)
{
    (void)state;
    struct record_buffer past = run_of(1);
    static const struct {
        const char *only;
        bool by_op;
        int rows;
    } cases[] = {{NULL, false, 2},
                 {NULL, true, 3},
                 {"all_gather\n", false, 1},
                 {"all_gather_into_tensor\n", true, 2},
                 {"barrier\nreduce_scatter_tensor\n", false, 1},
                 {"reduce\nall_gathers\n", false, 0},
                 {"", false, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log_comms comms = {.only = cases[i].only, .by_op = cases[i].by_op};
        log_comms_add(&comms, past.history, past.model, history_step(past.history, 0), NULL);
        assert_int_equal(comms.rows, cases[i].rows);
        log_comms_release(&comms);
    }
    past_end(&past);
}

/* ---- flops_profiler ---- */

static void flops_by_the_formula(void **state)
{
    (void)state;
    const struct config_model small = {.layers = 3, .hidden = 64, .vocabulary = 1000};
    const struct config_model gpt3 = {.layers = 96, .hidden = 12288, .vocabulary = 51200};
    assert_true(log_model_flops(&small, 16, 128) == 3202351104.0);
    /* Table 1 of Narayanan et al., 174.6 B parameters: 1,536 sequences of 2,048 on 1,024 GPUs at 140 TFLOP/s each, with
     * recomputation (4 passes of 3), is some 28 to 32 s an iteration. */
    double seconds = log_model_flops(&gpt3, 1536, 2048) * 4 / 3 / (1024 * 140e12);
    assert_true(seconds > 28 && seconds < 32);
}

/* ---- the keys ---- */

static void names_are_read_as_a_list(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    const char *sets[] = {"comms_logger.prof_ops=[\"all_gather\", \"broadcast\"]"};
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, &err), STATUS_OK);
    assert_string_equal(config.logs.comms.prof_ops, "all_gather\nbroadcast\n");
    char *json = config_to_json(&config);
    assert_non_null(strstr(json, "\"prof_ops\":[\"all_gather\",\"broadcast\"]"));
    config_release(&config);
    assert_int_equal(config_load_text(&config, json, NULL, 0, &err), STATUS_OK);
    assert_string_equal(config.logs.comms.prof_ops, "all_gather\nbroadcast\n");
    config_release(&config);
    free(json);
    sets[0] = "comms_logger.prof_ops=[1]";
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "a list of names"));
}

static void nothing_is_asked_for(void **state)
{
    (void)state;
    struct config config;
    const char *sets[] = {"comms_logger.verbose=true"}; /* without enabled it says nothing */
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, NULL), STATUS_OK);
    assert_null(logs_new(&config));
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_step),
        cmocka_unit_test(lost_records_leave_a_step_out),
        cmocka_unit_test(peaks_between_the_phases),
        cmocka_unit_test(collectives_against_totals),
        cmocka_unit_test(collectives_of_groups),
        cmocka_unit_test(collectives_that_are_asked_for),
        cmocka_unit_test(flops_by_the_formula),
        cmocka_unit_test(names_are_read_as_a_list),
        cmocka_unit_test(nothing_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
