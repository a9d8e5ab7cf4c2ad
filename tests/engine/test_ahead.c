/* Lanes that run ahead of a device (engine/zero/ahead.c), of a device that is not there: the order of the schedule on any interleaving,
 * memory against the plan, what the trace is told, and failures on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/plan/footprint.h"
#include "engine/zero/executor.h"
#include "tests/support/pretend_stream.h"

enum { RING_BYTES = 1 << 18 };

struct bench {
    struct config config;
    struct model model;
    struct schedule schedule;
    struct footprint planned;
    struct memory *memory;
    struct executor *executor;
    struct pretend_stream streams[LANES];
    struct trace_ring *rings[LANES];
    struct gate gate;
    uint64_t seed;                      /* of the random delays */
    _Atomic unsigned char *carried_out; /* by operation */
    _Atomic int violations, count, memory_records, memory_disorder;
    _Atomic uint64_t memory_ns;
    int break_at; /* operation that ends the run */
    bool drops_rest;
    _Atomic int waited_for; /* finish() of a stream's lane */
};

static bool is_stream(enum lane lane)
{
    return lane == LANE_COMPUTE || lane == LANE_COMM || lane == LANE_D2H || lane == LANE_H2D;
}

/* On the stream, when it has come there; of other lanes on their thread. */
static void carry_out(void *user, int number)
{
    struct bench *bench = user;
    const struct op *op = &bench->schedule.ops[number];
    for (int d = 0; d < op->dependency_count; d++)
        if (!bench->carried_out[op->dependency[d].op]) bench->violations++;
    bench->carried_out[number] = 1;
    bench->count++;
}

static int run(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat,
               struct error *err)
{
    struct bench *bench = user;
    const int number = (int)(op - schedule->ops);
    stat->moved.healthy = healthy;
    if (is_stream(op->lane) && !op_is_hosts(op->kind))
        pretend_send(&bench->streams[op->lane],
                     (struct pretend_task){.call = carry_out, .user = bench, .argument = number});
    else carry_out(bench, number);
    if (op->lane == LANE_COMM) stat->moved.meeting = (uint64_t)number, stat->moved.meetings = 1;
    if (op->kind == OP_AGREE && bench->drops_rest) executor_drop_rest(bench->executor);
    return number == bench->break_at ? error_set(err, STATUS_RUN, "rank 7 died") : STATUS_OK;
}

/* Only where the lane does not run ahead. */
static int finish(void *user, const struct op *op, struct error *err)
{
    struct bench *bench = user;
    struct pretend_stream *stream = &bench->streams[op->lane];
    (void)err;
    if (!is_stream(op->lane)) return STATUS_OK;
    pthread_mutex_lock(&stream->lock);
    while (stream->done < stream->sent) pthread_cond_wait(&stream->changed, &stream->lock);
    bench->waited_for++;
    pthread_mutex_unlock(&stream->lock);
    return STATUS_OK;
}

/* What comes out is known when the operation is done; more than it took is not possible. */
static int settle(void *user, const struct op *op, struct op_stat *stat, struct error *err)
{
    struct bench *bench = user;
    const int number = (int)(op - bench->schedule.ops);
    (void)err;
    if (stat->moved.meetings == 0) return STATUS_OK;
    if (!bench->carried_out[number] || stat->moved.meeting != (uint64_t)number) bench->violations++;
    stat->moved.peers_ns = number % 2 ? UINT64_MAX : 1;
    return STATUS_OK;
}

static void on_memory(void *user, uint64_t when_ns, enum tier tier, enum category category,
                      const struct memory_count *count)
{
    struct bench *bench = user;
    (void)tier, (void)category, (void)count;
    bench->memory_records++;
    if (when_ns > clock_ns()) bench->memory_disorder++; /* not before it happened */
}

static void lasting(struct bench *bench, bool take)
{
    for (int b = 0; b < bench->schedule.lasting_count; b++) {
        const struct buffer *buffer = &bench->schedule.buffers[b];
        const uint64_t bytes = (uint64_t)buffer->bytes;
        if (!take) memory_give(bench->memory, buffer->tier, buffer->category, buffer->offset, bytes);
        else
            assert_int_equal(memory_take(bench->memory, buffer->tier, buffer->category, buffer->offset, bytes, NULL),
                             0);
    }
}

/* A schedule that has something on every lane but NVMe's. */
static struct bench *bench_open(const char *stage)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct memory_ranges ranges = {0};
    struct error err;
    for (int c = 0; c < CATEGORIES; c++) ranges.bytes[TIER_DEVICE][c] = ranges.bytes[TIER_HOST][c] = 64 << 20;
    const char *const sets[] = {"topology.ranks=2",
                                stage,
                                "gradient_accumulation_steps=2",
                                "model.recompute=full",
                                "activation_checkpointing.cpu_checkpointing=true",
                                "zero_optimization.offload_optimizer.device=cpu"};
    const int count = (int)(sizeof sets / sizeof *sets) - (strstr(stage, "=0") != NULL); /* which offloads nothing */
    if (config_load(&bench->config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
    bench->break_at = -1;
    bench->gate.limit = GATE_OPEN;
    assert_int_equal(model_of(&bench->model, &bench->config, NULL), 0);
    struct schedule_input input = schedule_input_of(&bench->config, &bench->model, PURPOSE_TRAIN);
    assert_int_equal(schedule_build(&bench->schedule, &input, NULL), 0);
    footprint_of(&bench->planned, &bench->schedule);
    assert_int_equal(memory_create(&bench->memory, &ranges, (uint64_t[TIERS]){0}, NULL, NULL), 0);
    memory_observe(bench->memory, on_memory, bench);
    bench->carried_out = calloc((size_t)bench->schedule.op_count, 1);
    static const struct config_link links[LINKS];
    struct executor_host host = {.user = bench,
                                 .memory = bench->memory,
                                 .rings = bench->rings,
                                 .run = run,
                                 .device = {.finish = finish, .settle = settle},
                                 .links = links,
                                 .gate = &bench->gate};
    for (int lane = 0; lane < LANES; lane++) {
        bench->rings[lane] = trace_ring_init(aligned_alloc(64, RING_BYTES), RING_BYTES);
        if (!is_stream((enum lane)lane)) continue;
        pretend_open(&bench->streams[lane]);
        host.device.streams[lane] = &bench->streams[lane].stream;
    }
    assert_int_equal(executor_create(&bench->executor, &host, NULL), 0);
    lasting(bench, true);
    return bench;
}

static void bench_close(struct bench *bench)
{
    executor_free(bench->executor);
    for (int lane = 0; lane < LANES; lane++)
        if (is_stream((enum lane)lane)) pretend_end(&bench->streams[lane]);
    for (int lane = 0; lane < LANES; lane++) {
        if (is_stream((enum lane)lane)) pretend_close(&bench->streams[lane]);
        free(bench->rings[lane]);
    }
    memory_destroy(bench->memory);
    schedule_release(&bench->schedule);
    model_release(&bench->model);
    config_release(&bench->config);
    free((void *)bench->carried_out);
    free(bench);
}

static struct executor_result step(struct bench *bench, bool ahead, int expected, struct error *err)
{
    struct executor_result result = {0};
    struct error unread;
    for (int i = 0; i < bench->schedule.op_count; i++) bench->carried_out[i] = 0;
    bench->violations = bench->count = bench->waited_for = 0;
    for (int lane = 0; lane < LANES; lane++) {
        struct pretend_stream *stream = &bench->streams[lane];
        if (!is_stream((enum lane)lane)) continue;
        pthread_mutex_lock(&stream->lock); /* of a step that broke it may still have to await something */
        stream->seed = bench->seed ? bench->seed + (uint64_t)lane : 0;
        stream->most_ahead = stream->reached_count = 0;
        pthread_mutex_unlock(&stream->lock);
    }
    memory_reset_peaks(bench->memory);
    assert_int_equal(executor_run(bench->executor, &bench->schedule, 1, 1, ahead, &result, err ? err : &unread),
                     expected);
    return result;
}

/* The highest number of bytes by which a tier exceeded its plan. */
static int64_t excess(const struct bench *bench)
{
    struct memory_snapshot now;
    int64_t worst = INT64_MIN;
    memory_snapshot(bench->memory, &now);
    for (int tier = 0; tier <= TIER_HOST; tier++) {
        const int64_t over = (int64_t)now.tier[tier].peak_bytes - bench->planned.peak_bytes[tier];
        if (over > worst) worst = over;
    }
    return worst;
}

static uint64_t live(const struct bench *bench)
{
    struct memory_snapshot now;
    memory_snapshot(bench->memory, &now);
    return now.tier[TIER_DEVICE].live_bytes + now.tier[TIER_HOST].live_bytes;
}

/* ---- what the trace is told ---- */

struct told {
    struct trace_of_op_end end;
    uint64_t ended_ns;
    bool begun;
};

/* Of each lane in order, none beside another of its lane; waits as the word means it: for what ended after the lane was free. */
static void hold_records(struct bench *bench)
{
    static char bytes[RING_BYTES];
    struct told *told = calloc((size_t)bench->schedule.op_count, sizeof *told);
    for (int lane = 0; lane < LANES; lane++) {
        const size_t got = trace_ring_drain(bench->rings[lane], bytes, sizeof bytes);
        struct trace_record record;
        uint64_t since_ns, last_ns = 0;
        assert_int_equal(trace_ring_lost(bench->rings[lane], &since_ns), 0);
        for (size_t at = 0, length; at < got && (length = trace_decode(bytes + at, got - at, &record)); at += length) {
            assert_true(record.time_ns >= last_ns);
            last_ns = record.time_ns;
            if (record.kind == TRACE_OP_BEGIN) told[record.op_begin.op].begun = true;
            if (record.kind != TRACE_OP_END) continue;
            assert_true(told[record.op_end.op].begun);
            told[record.op_end.op].end = record.op_end;
            told[record.op_end.op].ended_ns = record.time_ns;
        }
    }
    for (int i = 0; i < bench->schedule.op_count; i++) {
        const struct op *op = &bench->schedule.ops[i];
        const struct trace_of_op_end *end = &told[i].end;
        if (!told[i].ended_ns) continue;
        assert_true(end->issued_ns <= end->ready_ns && end->ready_ns <= end->started_ns);
        assert_true(end->started_ns <= told[i].ended_ns);
        for (int d = 0; d < op->dependency_count; d++)
            assert_true(told[op->dependency[d].op].ended_ns <= end->started_ns);
        if (op->lane == LANE_COMM) assert_true(end->peers_ns > 0);
        assert_true(end->peers_ns <= told[i].ended_ns - end->started_ns);
        if (!is_stream(op->lane)) continue;
        if (end->waited_on < 0) assert_true(end->ready_ns == end->issued_ns);
        else assert_true(told[end->waited_on].ended_ns == end->ready_ns && end->ready_ns > end->issued_ns);
    }
    free(told);
}

/* ---- tests ---- */

static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                     "zero_optimization.stage=2", "zero_optimization.stage=3"};

static void test_order_and_memory_keep_to_the_plan_on_any_interleaving(void **state)
{
    (void)state;
    for (int s = 0; s < 4; s++) {
        struct bench *bench = bench_open(stages[s]);
        const uint64_t resting = live(bench);
        for (bench->seed = 1; bench->seed <= 8; bench->seed++) {
            const bool ahead = bench->seed != 4; /* one in between is waited for */
            assert_false(step(bench, ahead, STATUS_OK, NULL).failed);
            assert_int_equal(bench->violations, 0);
            assert_int_equal(bench->count, bench->schedule.op_count);
            assert_true(excess(bench) <= 0);
            assert_int_equal(live(bench), resting);
            assert_int_equal(bench->waited_for > 0, !ahead);
            assert_int_equal(bench->streams[LANE_COMPUTE].most_ahead > 6, ahead); /* marks and all */
            if (ahead) hold_records(bench);
            else
                for (int lane = 0; lane < LANES; lane++)
                    trace_ring_drain(bench->rings[lane], (char[RING_BYTES]){0}, RING_BYTES);
        }
        assert_int_equal(bench->memory_disorder, 0);
        bench_close(bench);
    }
}

/* The comparison above must be able to fail: streams that do not await each other are seen. */
static void test_a_forgotten_await_is_seen(void **state)
{
    (void)state;
    struct bench *bench = bench_open(stages[1]);
    int seen = 0;
    for (int lane = 0; lane < LANES; lane++) bench->streams[lane].forgets = true;
    for (bench->seed = 1; bench->seed <= 10; bench->seed++) {
        step(bench, true, STATUS_OK, NULL);
        seen += bench->violations > 0;
    }
    assert_true(seen > 0);
    bench_close(bench);
}

static void test_the_tail_is_dropped_by_both_halves(void **state)
{
    (void)state;
    struct bench *bench = bench_open(stages[0]);
    const uint64_t resting = live(bench);
    bench->drops_rest = true;
    for (bench->seed = 1; bench->seed <= 5; bench->seed++) {
        step(bench, true, STATUS_OK, NULL);
        int kept = 0;
        for (int i = 0; i < bench->schedule.op_count; i++) {
            kept += !bench->schedule.ops[i].droppable;
            if (bench->schedule.ops[i].droppable) assert_false(bench->carried_out[i]);
        }
        assert_int_equal(bench->count, kept);
        assert_int_equal(live(bench), resting);
    }
    bench_close(bench);
}

/* It was foreseen that none fails; where one does all the same, the step is given up as ever. */
static void test_a_failing_take_drains_the_step(void **state)
{
    (void)state;
    struct bench *bench = bench_open(stages[3]);
    const uint64_t resting = live(bench);
    int agreement = schedule_agreement(&bench->schedule), takes = 0;
    for (int i = 0; i < agreement; i++) takes += bench->schedule.ops[i].take_count;
    for (int n = 1; n < takes; n += 7) {
        memory_fail_after(bench->memory, (uint64_t)n);
        struct executor_result result = step(bench, true, STATUS_OK, NULL);
        memory_fail_after(bench->memory, 0);
        assert_true(result.failed && result.take.failed);
        assert_int_equal(live(bench), resting);
    }
    assert_false(step(bench, true, STATUS_OK, NULL).failed);
    bench_close(bench);
}

static void test_a_broken_operation_ends_the_run(void **state)
{
    (void)state;
    struct bench *bench = bench_open(stages[3]);
    const uint64_t resting = live(bench);
    for (bench->break_at = 0; bench->break_at < bench->schedule.op_count; bench->break_at += 11) {
        step(bench, true, STATUS_RUN, NULL);
        assert_int_equal(live(bench), resting);
    }
    bench_close(bench);
}

static void test_a_device_that_breaks_is_named_by_the_operation(void **state)
{
    (void)state;
    struct bench *bench = bench_open(stages[1]);
    const uint64_t resting = live(bench);
    struct error err;
    bench->streams[LANE_COMPUTE].fails_at = 4; /* where the second operation of the lane ends */
    step(bench, true, STATUS_RUN, &err);
    assert_string_equal(err.text, "lane compute, operation 1 (embed) or what was sent after it: the device broke");
    assert_int_equal(live(bench), resting);
    bench_close(bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_memory_keep_to_the_plan_on_any_interleaving),
        cmocka_unit_test(test_a_forgotten_await_is_seen),
        cmocka_unit_test(test_the_tail_is_dropped_by_both_halves),
        cmocka_unit_test(test_a_failing_take_drains_the_step),
        cmocka_unit_test(test_a_broken_operation_ends_the_run),
        cmocka_unit_test(test_a_device_that_breaks_is_named_by_the_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
