/* The executor with a host that computes nothing: order, memory against the plan on many interleavings, failing takes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/plan/footprint.h"
#include "engine/zero/executor.h"

static const struct config_model nano = {"nano", 4, 128, 4, 64, 256, .kind = KIND_GPT2};

struct bench {
    struct model model;
    struct schedule schedule;
    struct footprint planned;
    struct memory *memory;
    struct executor *executor;
    uint64_t seed; /* of the random delays; 0: none */
    _Atomic int ran[LANES];
    _Atomic unsigned char *done; /* by operation */
    int violations, break_at, unhealthy;
    _Atomic int elsewhere; /* operations that did not run on the caller's thread */
    pthread_t caller;
    struct gate gate;
    uint32_t at_once; /* that the gate lets through each time */
    int stood;
    _Atomic int told[2]; /* how often the rank went on, and was held */
};

static int run(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat,
               struct error *err)
{
    struct bench *bench = user;
    const int number = (int)(op - schedule->ops);
    for (int d = 0; d < op->dependency_count; d++)
        if (!bench->done[op->dependency[d].op]) bench->violations++;
    if (bench->seed && rng_u64(bench->seed, 1, (uint64_t)number) % 3 == 0)
        nanosleep(&(struct timespec){0, (long)(rng_u64(bench->seed, 2, (uint64_t)number) % 300000)}, NULL);
    if (!healthy) bench->unhealthy++;
    stat->moved.healthy = healthy;
    bench->elsewhere += !pthread_equal(pthread_self(), bench->caller);
    bench->ran[op->lane]++;
    bench->done[number] = 1;
    return number == bench->break_at ? error_set(err, STATUS_RUN, "rank 7 died") : STATUS_OK;
}

/* What rank 0 does: all below the limit have run and nothing else has; then it lets some more. */
static void at_gate(void *user, const struct schedule *schedule, uint32_t next)
{
    struct bench *bench = user;
    for (int i = 0; i < schedule->op_count; i++)
        if (bench->done[i] != (i < (int)next)) bench->violations++;
    bench->stood++;
    gate_raise(&bench->gate, next + bench->at_once);
}

static void held(void *user, const struct schedule *schedule, enum lane lane, uint32_t next, bool is_held)
{
    struct bench *bench = user;
    if (schedule->ops[next].lane != lane) bench->violations++;
    bench->told[is_held]++;
}

static void give_or_take_lasting(struct bench *bench, bool take)
{
    for (int b = 0; b < bench->schedule.lasting_count; b++) {
        const struct buffer *buffer = &bench->schedule.buffers[b];
        if (take)
            assert_int_equal(memory_take(bench->memory, buffer->tier, buffer->category, buffer->offset,
                                         (uint64_t)buffer->bytes, NULL),
                             0);
        else memory_give(bench->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes);
    }
}

static struct bench *bench_open(int stage, bool overlap, bool alone)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct config_zero knobs = {.stage = stage,
                                .reduce_bucket_elems = 100000,
                                .allgather_bucket_elems = 100000,
                                .overlap_comm = overlap,
                                .prefetch_bucket_elems = 200000,
                                .max_live_parameters = 1000000000};
    struct memory_ranges ranges = {0};
    for (int c = 0; c < CATEGORIES; c++) ranges.bytes[TIER_DEVICE][c] = 64 << 20;
    uint64_t budgets[TIERS] = {0};
    bench->break_at = -1;
    bench->caller = pthread_self();
    bench->gate.limit = GATE_OPEN;
    assert_int_equal(model_init(&bench->model, &nano, DTYPE_BF16, NULL), 0);
    struct schedule_input input = {&bench->model, &knobs, PURPOSE_TRAIN, 4, 2, 2, 64, 1, false, 0};
    assert_int_equal(schedule_build(&bench->schedule, &input, NULL), 0);
    footprint_of(&bench->planned, &bench->schedule);
    assert_int_equal(memory_create(&bench->memory, &ranges, budgets, NULL, NULL), 0);
    bench->done = calloc((size_t)bench->schedule.op_count, 1);
    static const struct config_link links[LINKS];
    static struct trace_ring *const nobody[LANES];
    struct executor_host host = {.user = bench,
                                 .memory = bench->memory,
                                 .run = run,
                                 .links = links,
                                 .gate = &bench->gate,
                                 .at_gate = at_gate,
                                 .gate_user = bench,
                                 .rings = nobody,
                                 .held = held,
                                 .single_rank = alone};
    assert_int_equal(executor_create(&bench->executor, &host, NULL), 0);
    give_or_take_lasting(bench, true);
    memory_reset_peaks(bench->memory);
    return bench;
}

static void bench_close(struct bench *bench)
{
    executor_free(bench->executor);
    memory_destroy(bench->memory);
    schedule_release(&bench->schedule);
    model_release(&bench->model);
    free((void *)bench->done);
    free(bench);
}

static struct executor_result step(struct bench *bench, int expected)
{
    struct executor_result result = {0};
    struct error err = {0};
    for (int i = 0; i < bench->schedule.op_count; i++) bench->done[i] = 0;
    memset(bench->ran, 0, sizeof bench->ran);
    memory_reset_peaks(bench->memory);
    assert_int_equal(executor_run(bench->executor, &bench->schedule, 1, 1, false, &result, &err), expected);
    return result;
}

/* The highest number of bytes by which a category, or the tier, exceeded its plan. */
static int64_t excess(const struct bench *bench)
{
    struct memory_snapshot snapshot;
    memory_snapshot(bench->memory, &snapshot);
    int64_t worst = (int64_t)snapshot.tier[TIER_DEVICE].peak_bytes - bench->planned.peak_bytes[TIER_DEVICE];
    for (int c = 0; c < CATEGORIES; c++) {
        int64_t over =
            (int64_t)snapshot.category[TIER_DEVICE][c].peak_bytes - bench->planned.category[TIER_DEVICE][c].peak_bytes;
        if (over > worst) worst = over;
    }
    return worst;
}

static uint64_t live(const struct bench *bench)
{
    struct memory_snapshot snapshot;
    memory_snapshot(bench->memory, &snapshot);
    return snapshot.tier[TIER_DEVICE].live_bytes;
}

static void test_peak_keeps_to_the_plan_on_any_interleaving(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int overlap = 0; overlap < 2; overlap++) {
            struct bench *bench = bench_open(stage, overlap, false);
            const uint64_t resting = live(bench);
            for (bench->seed = 1; bench->seed <= 15; bench->seed++) {
                struct executor_result result = step(bench, STATUS_OK);
                assert_false(result.failed);
                assert_int_equal(bench->violations, 0);
                assert_int_equal(bench->ran[LANE_COMPUTE] + bench->ran[LANE_COMM], bench->schedule.op_count);
                assert_true(excess(bench) <= 0);
                assert_int_equal(live(bench), resting);
            }
            bench_close(bench);
        }
}

/* The comparison above must be able to fail: an operation that takes one page more than planned is seen. */
static void test_a_missized_operation_is_seen(void **state)
{
    (void)state;
    int seen = 0, tried = 0;
    for (int place = 0; place < 12; place++) {
        struct bench *bench = bench_open(3, true, false);
        int peak_op = bench->planned.peak_op[TIER_DEVICE];
        const struct op *op = &bench->schedule.ops[peak_op - place];
        if (op->take_count) {
            struct buffer *buffer = &bench->schedule.buffers[bench->schedule.effects[op->first_take]];
            buffer->bytes += 4096;
            buffer->offset += 48 << 20; /* out of its neighbours' way */
            step(bench, STATUS_OK);
            tried++;
            seen += excess(bench) > 0;
        }
        bench_close(bench);
    }
    assert_true(tried >= 4);
    assert_true(seen >= 1); /* where it raises a peak; the operation at the peak always does */
}

static void test_a_failing_take_drains_the_step(void **state)
{
    (void)state;
    struct bench *bench = bench_open(3, true, false);
    const uint64_t resting = live(bench);
    int takes = 0;
    for (int i = 0; i < bench->schedule.op_count; i++) takes += bench->schedule.ops[i].take_count;
    for (int n = 1; n <= takes; n++) {
        memory_fail_after(bench->memory, (uint64_t)n);
        struct executor_result result = step(bench, STATUS_OK);
        memory_fail_after(bench->memory, 0);
        assert_true(result.failed && result.take.failed);
        assert_int_equal(live(bench), resting); /* all that was taken went back */
        int collectives = 0;
        for (int i = 0; i < bench->schedule.op_count; i++) collectives += bench->schedule.ops[i].lane == LANE_COMM;
        assert_int_equal(bench->ran[LANE_COMM], collectives); /* it left none of them */
    }
    assert_true(bench->unhealthy > 0);
    assert_false(step(bench, STATUS_OK).failed); /* and the next step is a good one */
    bench_close(bench);
}

static void test_a_budget_below_the_plan_fails_and_one_at_the_plan_does_not(void **state)
{
    (void)state;
    struct bench *bench = bench_open(2, true, false);
    assert_int_equal(
        memory_set_budget(bench->memory, TIER_DEVICE, (uint64_t)bench->planned.peak_bytes[TIER_DEVICE], NULL), 0);
    for (bench->seed = 1; bench->seed <= 10; bench->seed++) assert_false(step(bench, STATUS_OK).failed);
    assert_int_equal(
        memory_set_budget(bench->memory, TIER_DEVICE, (uint64_t)bench->planned.resting_bytes[TIER_DEVICE] + 1000, NULL),
        0);
    assert_true(step(bench, STATUS_OK).failed);
    bench_close(bench);
}

static void test_a_broken_operation_ends_the_run(void **state)
{
    (void)state;
    struct bench *bench = bench_open(3, true, false);
    const uint64_t resting = live(bench);
    for (bench->break_at = 0; bench->break_at < bench->schedule.op_count; bench->break_at += 5) {
        step(bench, STATUS_RUN);
        assert_int_equal(live(bench), resting);
    }
    bench_close(bench);
}

static uint64_t time_of_step(struct bench *bench)
{
    uint64_t begin_ns = clock_ns();
    step(bench, STATUS_OK);
    return clock_ns() - begin_ns;
}

/* Of a few: a machine that is busy with other things takes longer, never less. */
static uint64_t best_time_of_step(struct bench *bench)
{
    uint64_t best_ns = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        const uint64_t took_ns = time_of_step(bench);
        if (took_ns < best_ns) best_ns = took_ns;
    }
    return best_ns;
}

static void test_slow_motion_stretches_from_the_next_run_on(void **state)
{
    (void)state;
    struct bench *bench = bench_open(0, true, false);
    bench->seed = 3;
    uint64_t plain_ns = best_time_of_step(bench);
    executor_slow(bench->executor, 1000, 0); /* of the time it worked, which is little: the host sleeps */
    uint64_t slow_ns = time_of_step(bench);
    assert_true(slow_ns > 2 * plain_ns);
    gate_hurry(&bench->gate); /* the run is to end: nothing is slowed any more */
    assert_true(best_time_of_step(bench) < slow_ns / 2);
    bench_close(bench);
}

static void test_an_eye_can_follow(void **state)
{
    (void)state;
    struct bench *bench = bench_open(3, true, false);
    uint64_t uses = 0; /* of units: one after the other on the compute lane */
    for (int i = 0; i < bench->schedule.op_count; i++) {
        const struct op *op = &bench->schedule.ops[i];
        uses += op->lane == LANE_COMPUTE && op->unit >= 0 && op->phase != PHASE_OPTIMIZER;
    }
    assert_int_equal(uses, 2 * 14);
    executor_slow(bench->executor, 10, 300000);
    assert_true(time_of_step(bench) > uses * 10 * 300000);
    bench_close(bench);
}

/* With one rank all operations run on the caller's thread, in the order of the list; stepping and failing are as with others. */
static void test_a_rank_that_is_alone_needs_one_thread(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct bench *bench = bench_open(3, true, alone);
        const uint64_t resting = live(bench);
        step(bench, STATUS_OK);
        assert_int_equal(bench->violations, 0);
        assert_int_equal(bench->elsewhere, alone ? 0 : bench->ran[LANE_COMM]);
        assert_int_equal(bench->ran[LANE_COMPUTE] + bench->ran[LANE_COMM], bench->schedule.op_count);
        assert_true(excess(bench) <= 0);
        bench->at_once = 1;
        gate_close(&bench->gate, 1);
        step(bench, STATUS_OK);
        assert_int_equal(bench->stood, bench->schedule.op_count);
        assert_int_equal(bench->violations, 0);
        gate_raise(&bench->gate, GATE_OPEN);
        memory_fail_after(bench->memory, 3);
        assert_true(step(bench, STATUS_OK).failed);
        assert_int_equal(live(bench), resting);
        bench_close(bench);
    }
}

/* ---- the gate ---- */

static void test_a_step_by_operations_runs_them_in_the_order_of_the_list(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        struct bench *bench = bench_open(stage, true, false);
        const int count = bench->schedule.op_count;
        for (int at_once = 1; at_once <= count; at_once = at_once < 3 ? at_once + 1 : at_once * 4) {
            bench->at_once = (uint32_t)at_once;
            bench->seed = (uint64_t)at_once;
            bench->stood = 0;
            gate_close(&bench->gate, bench->at_once);
            struct executor_result result = step(bench, STATUS_OK);
            assert_int_equal(bench->stood, (count + at_once - 1) / at_once - (count % at_once != 0));
            assert_true(result.gate_ns > 0);
            assert_int_equal(bench->violations, 0);
            assert_int_equal(bench->ran[LANE_COMPUTE] + bench->ran[LANE_COMM], count);
            assert_true(excess(bench) <= 0);
            gate_raise(&bench->gate, GATE_OPEN);
        }
        assert_true(step(bench, STATUS_OK).gate_ns == 0);
        bench_close(bench);
    }
}

static void test_a_failure_opens_the_gate(void **state)
{
    (void)state;
    struct bench *bench = bench_open(3, true, false);
    bench->at_once = 1;
    bench->break_at = 5;
    gate_close(&bench->gate, 1);
    step(bench, STATUS_RUN);
    assert_int_equal(gate_limit(&bench->gate), GATE_OPEN);
    assert_int_equal(bench->stood, 5);
    bench_close(bench);
}

/* Waits until the rank stands, sees that nothing runs, and lets it go on; by hurrying if the bench's at_once is set. */
static void *release(void *user)
{
    struct bench *bench = user;
    while (!bench->told[true]) nanosleep(&(struct timespec){0, 1000000}, NULL);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    if (bench->ran[LANE_COMPUTE] + bench->ran[LANE_COMM] || bench->told[false]) bench->violations++;
    if (bench->at_once) gate_hurry(&bench->gate);
    else gate_hold(&bench->gate, -1);
    return NULL;
}

static void test_a_held_rank_starts_nothing_until_it_is_released(void **state)
{
    (void)state;
    struct bench *bench = bench_open(3, true, false);
    gate_hold(&bench->gate, 1); /* another rank */
    step(bench, STATUS_OK);
    assert_int_equal(bench->told[true], 0);
    for (int hurries = 0; hurries < 2; hurries++) {
        pthread_t thread;
        bench->told[true] = bench->told[false] = 0;
        bench->at_once = (uint32_t)hurries;
        memset(bench->ran, 0, sizeof bench->ran);
        gate_hold(&bench->gate, 0);
        assert_int_equal(pthread_create(&thread, NULL, release, bench), 0);
        step(bench, STATUS_OK);
        pthread_join(thread, NULL);
        assert_int_equal(bench->violations, 0);
        assert_int_equal(bench->ran[LANE_COMPUTE] + bench->ran[LANE_COMM], bench->schedule.op_count);
        assert_int_equal(bench->told[true], 1);
        assert_int_equal(bench->told[false], 1);
    }
    bench_close(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak_keeps_to_the_plan_on_any_interleaving),
        cmocka_unit_test(test_a_missized_operation_is_seen),
        cmocka_unit_test(test_a_failing_take_drains_the_step),
        cmocka_unit_test(test_a_budget_below_the_plan_fails_and_one_at_the_plan_does_not),
        cmocka_unit_test(test_a_broken_operation_ends_the_run),
        cmocka_unit_test(test_slow_motion_stretches_from_the_next_run_on),
        cmocka_unit_test(test_an_eye_can_follow),
        cmocka_unit_test(test_a_rank_that_is_alone_needs_one_thread),
        cmocka_unit_test(test_a_step_by_operations_runs_them_in_the_order_of_the_list),
        cmocka_unit_test(test_a_failure_opens_the_gate),
        cmocka_unit_test(test_a_held_rank_starts_nothing_until_it_is_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
