/* Totals by the definitions of others, on cases whose figures are known: HTA's for overlap, idle and what is exposed,
 * nccl-tests' for bandwidths; and our own for waits and prefetching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/observe/totals.h"
#include "tests/support/past_fixture.h"

enum { US = 1000 };

/* The trace that HTA was given: layers of one all-gather of 80 us and 100 us of compute that begins 30 us before its end,
 * one every 170 us, four a step, and in every step a copy that runs under the last layer's compute. */
enum { LAYERS = 4, GATHER_US = 80, COMPUTE_US = 100, SHARED_US = 30, PERIOD_US = 170 };

static void hta_case(int steps, uint64_t window_us, uint64_t idle_us)
{
    struct interval compute[32], communication[32], moving[64];
    struct temporal temporal;
    int count = 0, moved = 0;
    for (int layer = steps * LAYERS - 1; layer >= 0; layer--, count++) { /* any order will do */
        uint64_t at = 7000 + (uint64_t)layer * PERIOD_US, begin = at + GATHER_US - SHARED_US;
        moving[moved++] = communication[count] = (struct interval){at * US, (at + GATHER_US) * US};
        compute[count] = (struct interval){begin * US, (begin + COMPUTE_US) * US};
        if (layer % LAYERS == LAYERS - 1) moving[moved++] = (struct interval){(begin + 40) * US, (begin + 60) * US};
    }
    temporal_of(&temporal, (struct intervals){compute, count}, (struct intervals){communication, count},
                (struct intervals){moving, moved});
    assert_int_equal(temporal.window_ns, window_us * US);
    assert_int_equal(temporal.compute_ns, (uint64_t)steps * 400 * US);
    assert_int_equal(temporal.non_compute_ns, (uint64_t)steps * 200 * US);
    assert_int_equal(temporal.idle_ns, idle_us * US);
    assert_true((double)temporal.overlapped_ns / (double)temporal.communication_ns == 0.375); /* 30 / 80 */
}

static void hta_two_steps(void **state)
{
    (void)state;
    hta_case(2, 1340, 140); /* compute 800, non-compute 400 */
}

static void hta_three_steps(void **state)
{
    (void)state;
    hta_case(3, 2020, 220);
}

static void unions_count_once(void **state)
{
    (void)state;
    struct interval compute[] = {{50, 60}, {10, 30}, {20, 40}, {60, 70}}, communication[] = {{35, 55}, {0, 5}, {1, 4}};
    struct interval moving[] = {{35, 55}, {0, 5}, {1, 4}, {3, 8}, {65, 75}}; /* and two copies */
    struct intervals none = {compute, 0};
    struct temporal temporal; /* compute 10..40, 50..70; communication 0..5, 35..55; with copies 0..8, 35..55, 65..75 */
    temporal_of(&temporal, (struct intervals){compute, 4}, (struct intervals){communication, 3},
                (struct intervals){moving, 5});
    assert_int_equal(temporal.window_ns, 75);
    assert_int_equal(temporal.compute_ns, 50);
    assert_int_equal(temporal.communication_ns, 25);
    assert_int_equal(temporal.overlapped_ns, 10);
    assert_int_equal(temporal.non_compute_ns, 23);
    assert_int_equal(temporal.idle_ns, 2);
    temporal_of(&temporal, none, none, none);
    assert_int_equal(temporal.window_ns, 0);
    temporal_of(&temporal, none, (struct intervals){communication, 1}, (struct intervals){moving, 1});
    assert_int_equal(temporal.idle_ns, 0);
}

/* The same as operations of a run: layer l is gather 2 l and block 2 l + 1. */
static struct record_buffer hta_run(int ranks, int steps)
{
    struct record_buffer past;
    struct past_op ops[2 * LAYERS];
    for (int layer = 0; layer < LAYERS; layer++) {
        ops[2 * layer] = (struct past_op){OP_GATHER, layer, 8000, layer > 0, -1, WAIT_DATA};
        ops[2 * layer + 1] = (struct past_op){OP_FORWARD, layer, 0, false, 2 * layer, WAIT_DATA};
    }
    past_start(&past, 0, ranks, 1000 * US);
    past_plan(&past, 1, ranks, PURPOSE_TRAIN, ops, 2 * LAYERS, 1000 * US);
    for (int rank = 0; rank < ranks; rank++)
        for (int i = 0; i < steps * LAYERS; i++) {
            uint64_t at = (7000 + (uint64_t)i * PERIOD_US) * US, begin = at + (GATHER_US - SHARED_US) * US;
            uint32_t step = 1 + (uint32_t)(i / LAYERS), layer = (uint32_t)(i % LAYERS);
            past_op(&past, rank, step, 2 * layer, at, at, at + GATHER_US * US, -1);
            past_op(&past, rank, step, 2 * layer + 1, begin - 10 * US, begin, begin + COMPUTE_US * US, 2 * (int)layer);
        }
    return past;
}

static void hta_case_from_a_history(void **state)
{
    (void)state;
    struct record_buffer past = hta_run(2, 2);
    for (int rank = -1; rank < 2; rank++) {
        struct totals totals;
        totals_of(&totals, past.history, past.model, rank, 1000 * US, 90000 * US, 0);
        assert_true(totals.known);
        assert_int_equal(totals.temporal.window_ns, 1340 * US);
        assert_int_equal(totals.temporal.compute_ns, 800 * US);
        assert_int_equal(totals.temporal.non_compute_ns, 400 * US);
        assert_int_equal(totals.temporal.idle_ns, 140 * US);
        assert_int_equal(totals.phase_ns[PHASE_FORWARD], 800 * US);
        assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].busy_ns, 640 * US);
        assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].exposed_ns, 400 * US);
        assert_int_equal(totals.stall_ns[STALL_GATHER], 80 * US);
        assert_int_equal(totals.stall_count[STALL_GATHER], 8);
        assert_true(prefetch_hidden_share(&totals.prefetch) == 0.375);
        assert_int_equal(totals.prefetch.gathers, 8);
        assert_int_equal(totals.prefetch.prefetched, 6);
        assert_int_equal(totals.prefetch.early_count, 0);
    }
    past_end(&past);
}

static void a_window_clips(void **state)
{
    (void)state;
    struct record_buffer past = hta_run(1, 2);
    struct totals totals; /* from the middle of the first gather to the middle of the second layer's compute */
    totals_of(&totals, past.history, past.model, 0, 7040 * US, (7000 + 170 + 100) * US, 0);
    assert_int_equal(totals.temporal.window_ns, 230 * US);
    assert_int_equal(totals.temporal.compute_ns, 150 * US);
    assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].busy_ns, 120 * US);
    assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].count, 2);
    assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].bytes, 16000);
    assert_int_equal(totals.traffic[TRAFFIC_ALL_GATHER].sent_bytes, 200);
    totals_of(&totals, past.history, past.model, 0, 500000 * US, 600000 * US, 0);
    assert_false(totals.known);
    totals_of(&totals, past.history, past.model, 3, 0, 600000 * US, 0);
    assert_false(totals.known);
    past_end(&past);
}

static double algbw(const struct totals *totals, enum traffic kind)
{
    return per_second(totals->traffic[kind].bytes, totals->traffic[kind].busy_ns);
}

static double busbw(const struct totals *totals, enum traffic kind)
{
    return per_second(totals->traffic[kind].bus_bytes, totals->traffic[kind].busy_ns);
}

/* One operation of each collective over 4 ranks: 8,000 bytes in 80 us are 100 MB/s; the bus figure is 3/4 of it, and of an
 * all-reduce 6/4. */
static void bandwidths_are_those_of_nccl_tests(void **state)
{
    (void)state;
    const struct past_op ops[] = {{OP_GATHER, 0, 8000, false, -1, WAIT_DATA},
                                  {OP_REDUCE_SCATTER, 0, 8000, false, -1, WAIT_DATA},
                                  {OP_ALL_REDUCE, 0, 8000, false, -1, WAIT_DATA},
                                  {OP_AGREE, -1, 0, false, -1, WAIT_DATA}};
    struct record_buffer past;
    struct totals totals;
    past_start(&past, 0, 4, 1000 * US);
    past_plan(&past, 1, 4, PURPOSE_TRAIN, ops, 4, 1000 * US);
    for (uint32_t op = 0; op < 4; op++)
        for (int rank = 0; rank < 4; rank++)
            past_op(&past, rank, 1, op, 2000 * US + op * 100 * US, 2000 * US + op * 100 * US, 2080 * US + op * 100 * US,
                    -1);
    totals_of(&totals, past.history, past.model, -1, 1000 * US, 9000 * US, 0);
    assert_true(totals.known);
    assert_float_equal(algbw(&totals, TRAFFIC_ALL_GATHER), 1e8, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_ALL_GATHER), 0.75e8, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_REDUCE_SCATTER), 0.75e8, 1);
    assert_float_equal(algbw(&totals, TRAFFIC_ALL_REDUCE), 1e8, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_ALL_REDUCE), 1.5e8, 1);
    assert_true(algbw(&totals, TRAFFIC_CONTROL) == 0);
    past_end(&past);
}

/* Rank 0: forward 100 to 300, all-reduce 300 to 700; rank 1: forward 100 to 600, all-reduce 600 to 700, update 750 to 800. So the path is
 * rank 1's: update, idle, the all-reduce since it came, its forward, idle. A collective without a wait keeps the path on its rank. */
static void the_critical_path_goes_by_the_rank_that_came_last(void **state)
{
    (void)state;
    const struct past_op ops[] = {{OP_FORWARD, 0, 0, false, -1, WAIT_DATA},
                                  {OP_ALL_REDUCE, 0, 8000, false, 0, WAIT_DATA},
                                  {OP_UPDATE, 0, 0, false, 1, WAIT_DATA}};
    struct record_buffer past;
    struct critical path;
    past_start(&past, 0, 2, 1000 * US);
    past_plan(&past, 1, 2, PURPOSE_TRAIN, ops, 3, 1000 * US);
    for (int rank = 0; rank < 2; rank++) past_step(&past, rank, 1, 2000 * US);
    past_op(&past, 0, 1, 0, 2100 * US, 2100 * US, 2300 * US, -1);
    past_op(&past, 1, 1, 0, 2100 * US, 2100 * US, 2600 * US, -1);
    past_begin(&past, 0, 1, 1, 2300 * US, 2300 * US);
    past_begin(&past, 1, 1, 1, 2600 * US, 2600 * US);
    past_fold(&past, 0, 2700 * US, (struct trace_record){.kind = TRACE_OP_END, .op_end = {.schedule = 1, .step = 1, .op = 1,
              .issued_ns = 2300 * US, .ready_ns = 2300 * US, .started_ns = 2300 * US, .waited_on = -1, .peers_ns = 300 * US}});
    past_finish(&past, 1, 1, 1, 2600 * US, 2600 * US, 2700 * US, -1);
    past_op(&past, 1, 1, 2, 2750 * US, 2750 * US, 2800 * US, -1);
    assert_false(critical_path_of(&path, past.history, history_step(past.history, 0))); /* it has not ended */
    for (int rank = 0; rank < 2; rank++) past_step_end(&past, rank, 1, 2900 * US);
    assert_true(critical_path_of(&path, past.history, history_step(past.history, 0)));
    assert_int_equal(path.window_ns, 800 * US);
    assert_int_equal(path.phase_ns[PHASE_FORWARD], 500 * US);
    assert_int_equal(path.traffic_ns[TRAFFIC_ALL_REDUCE], 100 * US);
    assert_int_equal(path.phase_ns[PHASE_OPTIMIZER], 50 * US);
    assert_int_equal(path.idle_ns, 150 * US);
    assert_int_equal(path.rank_ns[1], 650 * US);
    assert_int_equal(path.hops, 0);
    past_op(&past, 0, 1, 2, 2850 * US, 2850 * US, 2890 * US, -1); /* now rank 0 ends last: the path comes to rank 1 in the all-reduce */
    assert_true(critical_path_of(&path, past.history, history_step(past.history, 0)));
    assert_int_equal(path.window_ns, 890 * US);
    assert_int_equal(path.phase_ns[PHASE_FORWARD], 500 * US);
    assert_int_equal(path.hops, 1);
    assert_int_equal(path.rank_ns[0], 140 * US); /* its update, and the all-reduce that both were in */
    past_end(&past);
}

/* Of 4 ranks, groups of 2 share a unit and 2 replicas add their gradients: each moves 1/2 of its payload, and the bus figure of two
 * gathers of unlike groups is that of their bytes. */
static void bandwidths_are_of_the_group(void **state)
{
    (void)state;
    const struct past_op ops[] = {{OP_GATHER, 0, 8000, false, -1, WAIT_DATA},
                                  {OP_GATHER, 1, 4000, false, -1, WAIT_DATA},
                                  {OP_REDUCE_SCATTER, 0, 8000, false, -1, WAIT_DATA},
                                  {OP_ALL_REDUCE, 0, 8000, false, -1, WAIT_DATA}};
    const enum group groups[] = {GROUP_SHARDS, GROUP_WORLD, GROUP_SHARDS, GROUP_REPLICAS};
    struct record_buffer past;
    struct totals totals;
    past_start(&past, 0, 4, 1000 * US);
    past_plan_in_groups(&past, 1, 4, PURPOSE_TRAIN, ops, groups, 4, 1000 * US);
    for (uint32_t op = 0; op < 4; op++)
        for (int rank = 0; rank < 4; rank++) past_op(&past, rank, 1, op, (2000 + op * 100) * US, (2000 + op * 100) * US, (2080 + op * 100) * US, -1);
    totals_of(&totals, past.history, past.model, -1, 1000 * US, 9000 * US, 0);
    assert_true(totals.known);
    assert_float_equal(algbw(&totals, TRAFFIC_ALL_GATHER), 12000e9 / 160e3, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_ALL_GATHER), (8000 / 2. + 4000 * 3 / 4.) * 1e9 / 160e3, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_REDUCE_SCATTER), 0.5e8, 1);
    assert_float_equal(algbw(&totals, TRAFFIC_ALL_REDUCE), 1e8, 1);
    assert_float_equal(busbw(&totals, TRAFFIC_ALL_REDUCE), 1e8, 1);
    past_end(&past);
}

static void a_gather_that_is_early_says_how_early(void **state)
{
    (void)state;
    const struct past_op ops[] = {{OP_LOAD, -1, 0, false, -1, WAIT_DATA},
                                  {OP_GATHER, 5, 8000, true, -1, WAIT_DATA},
                                  {OP_FORWARD, 5, 0, false, 1, WAIT_DATA}};
    struct record_buffer past;
    struct totals totals;
    past_start(&past, 0, 1, 1000 * US);
    past_plan(&past, 1, 1, PURPOSE_TRAIN, ops, 3, 1000 * US);
    past_op(&past, 0, 1, 0, 2000 * US, 2000 * US, 2500 * US, -1);
    past_op(&past, 0, 1, 1, 2000 * US, 2000 * US, 2300 * US, -1);
    past_op(&past, 0, 1, 2, 2500 * US, 2500 * US, 2900 * US, -1);
    totals_of(&totals, past.history, past.model, 0, 1000 * US, 9000 * US, 0);
    assert_int_equal(totals.prefetch.prefetched, 1);
    assert_int_equal(totals.prefetch.early_count, 1);
    assert_int_equal(totals.prefetch.early_ns, 200 * US);
    assert_int_equal(totals.prefetch.stalls, 0);
    assert_true(prefetch_hidden_share(&totals.prefetch) == 1);
    past_end(&past);
}

/* Copies between tiers are neither compute nor communication: compute waits for one, and it counts as "other". */
static void copies_are_no_communication(void **state)
{
    (void)state;
    const struct past_op ops[] = {{OP_FETCH, 0, 4000, false, -1, WAIT_DATA},
                                  {OP_BACKWARD, 0, 0, false, 0, WAIT_DATA},
                                  {OP_REDUCE_SCATTER, 0, 8000, false, 1, WAIT_DATA}};
    struct record_buffer past;
    struct totals totals;
    past_start(&past, 0, 1, 1000 * US);
    past_plan(&past, 1, 1, PURPOSE_TRAIN, ops, 3, 1000 * US);
    past_op(&past, 0, 1, 0, 2000 * US, 2000 * US, 2300 * US, -1);
    past_op(&past, 0, 1, 1, 2100 * US, 2300 * US, 2900 * US, 0);
    past_op(&past, 0, 1, 2, 2300 * US, 2900 * US, 3000 * US, 1);
    totals_of(&totals, past.history, past.model, 0, 1000 * US, 9000 * US, 0);
    assert_int_equal(totals.temporal.communication_ns, 100 * US);
    assert_int_equal(totals.temporal.non_compute_ns, 400 * US);
    assert_int_equal(totals.temporal.idle_ns, 0);
    assert_int_equal(totals.traffic[TRAFFIC_H2D].count, 1);
    assert_int_equal(totals.traffic[TRAFFIC_H2D].exposed_ns, 300 * US);
    assert_int_equal(totals.stall_ns[STALL_COPY], 200 * US);
    past_end(&past);
}

static void evaluation_is_not_training(void **state)
{
    (void)state;
    struct record_buffer past = hta_run(1, 1);
    const struct past_op ops[] = {{OP_FORWARD, 0, 0, false, -1, WAIT_DATA}};
    struct totals totals;
    past_plan(&past, 2, 1, PURPOSE_EVALUATE, ops, 1, 8000 * US);
    past_fold(&past, 0, 8100 * US, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {2, 2, 0, 8100 * US}});
    past_fold(
        &past, 0, 8900 * US,
        (struct trace_record){.kind = TRACE_OP_END, .op_end = {2, 2, 0, 8100 * US, 8100 * US, 8100 * US, -1, 0, 0, 0}});
    totals_of(&totals, past.history, past.model, 0, 1000 * US, 9000 * US, 0);
    assert_int_equal(totals.temporal.compute_ns, 400 * US);
    past_end(&past);
}

static void sums_add_and_share(void **state)
{
    (void)state;
    struct record_buffer past = hta_run(1, 2);
    struct totals sum = {0}, one;
    totals_of(&one, past.history, past.model, 0, 1000 * US, 90000 * US, 0);
    totals_add(&sum, &one);
    totals_add(&sum, &one);
    assert_int_equal(sum.temporal.idle_ns, 280 * US);
    assert_int_equal(sum.prefetch.gathers, 16);
    assert_int_equal(sum.traffic[TRAFFIC_ALL_GATHER].busy_ns, 1280 * US);
    assert_int_equal(sum.stall_count[STALL_GATHER], 16);
    totals_share(&sum, 2);
    assert_memory_equal(&sum.temporal, &one.temporal, sizeof one.temporal);
    assert_memory_equal(&sum.traffic, &one.traffic, sizeof one.traffic);
    past_end(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hta_two_steps),
        cmocka_unit_test(hta_three_steps),
        cmocka_unit_test(unions_count_once),
        cmocka_unit_test(hta_case_from_a_history),
        cmocka_unit_test(a_window_clips),
        cmocka_unit_test(bandwidths_are_those_of_nccl_tests),
        cmocka_unit_test(the_critical_path_goes_by_the_rank_that_came_last),
        cmocka_unit_test(bandwidths_are_of_the_group),
        cmocka_unit_test(a_gather_that_is_early_says_how_early),
        cmocka_unit_test(copies_are_no_communication),
        cmocka_unit_test(evaluation_is_not_training),
        cmocka_unit_test(sums_add_and_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
