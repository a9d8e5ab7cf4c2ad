/* What moves between tiers, against figures worked out by hand: two ranks, a few copies, and what asynchronous I/O says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/observe/flows.h"
#include "engine/observe/history.h"
#include "tests/support/op_uses.h"
#include "tests/support/synthetic.h"

enum { RANKS = 2, US = 1000, MS = 1000000, START = 100 * MS };
enum { BLOCK, OUT, UP, READ, WRITE, OPS }; /* of the schedule */

static const enum op_kind kinds[OPS] = {OP_FORWARD, OP_GRAD_D2H, OP_UPLOAD, OP_SWAP_IN, OP_SWAP_OUT};

struct run {
    struct run_model *model;
    struct history *history;
    uint64_t now_ns;
    uint32_t step;
};

static void put(struct run *run, int rank, struct trace_record record)
{
    record.rank = (uint16_t)rank;
    record.time_ns = run->now_ns;
    run_model_fold(run->model, &record);
    history_fold(run->history, run->model, &record);
}

static void put_schedule(struct run *run, enum purpose purpose, uint32_t number)
{
    struct op ops[OPS];
    for (int i = 0; i < OPS; i++) {
        ops[i] = (struct op){.kind = kinds[i], .use = use_made_up(kinds[i]), .lane = op_lane(kinds[i]), .unit = -1, .bucket = -1};
        for (int role = 0; role < ROLES; role++) ops[i].buffer[role] = -1;
    }
    const struct schedule schedule = {
        .purpose = purpose, .stage = 3, .ranks = RANKS, .micro_steps = 1, .B = 1, .T = 1, .op_count = OPS, .ops = ops};
    char *json = schedule_to_json(&schedule);
    put(run, TRACE_RANK_ALL,
        (struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {number, (uint8_t)purpose, 3, synthetic_text(json)}});
    free(json);
}

/* topology: as of the configuration. */
static struct run begin(const char *topology)
{
    struct run run = {run_model_new(&(struct run_model_options){0}), history_new(0), START, 0};
    char json[512];
    snprintf(json, sizeof json, "{\"ranks\": %d, \"config\": {\"topology\": %s}}", RANKS, topology);
    put(&run, TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_RUN, .run = {synthetic_text(json)}});
    put_schedule(&run, PURPOSE_TRAIN, 1);
    put_schedule(&run, PURPOSE_EVALUATE, 2);
    return run;
}

static void end(struct run *run)
{
    run_model_free(run->model);
    history_free(run->history);
}

static void begin_step(struct run *run)
{
    run->step++;
    for (int rank = 0; rank < RANKS; rank++)
        put(run, rank, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {run->step, 1, 3}});
}

static void end_step(struct run *run)
{
    for (int rank = 0; rank < RANKS; rank++)
        put(run, rank, (struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = run->step, .schedule = 1}});
}

struct inside {
    uint32_t requests, deepest;
    uint64_t busy_us, latency_us, longest_us;
};

/* An operation of `us` microseconds from now on, of which pacing added paced_us; `inside`, which may be NULL: of NVMe. */
static void does(struct run *run, int rank, uint32_t schedule, uint32_t op, uint64_t bytes, uint64_t us,
                 uint64_t paced_us, const struct inside *inside)
{
    const uint64_t started_ns = run->now_ns;
    put(run, rank, (struct trace_record){.kind = TRACE_OP_BEGIN, .op_begin = {schedule, run->step, op, started_ns}});
    run->now_ns += (us - paced_us) * US - 1;
    if (inside)
        put(run, rank,
            (struct trace_record){.kind = TRACE_IO,
                                  .io = {.schedule = schedule,
                                         .step = run->step,
                                         .op = op,
                                         .direct = 1,
                                         .requests = inside->requests,
                                         .bytes = bytes,
                                         .busy_ns = inside->busy_us * US,
                                         .latency_ns = inside->latency_us * US,
                                         .longest_ns = inside->longest_us * US,
                                         .deepest = inside->deepest}});
    run->now_ns += paced_us * US + 1;
    put(run, rank,
        (struct trace_record){.kind = TRACE_OP_END,
                              .op_end = {.schedule = schedule,
                                         .step = run->step,
                                         .op = op,
                                         .issued_ns = started_ns,
                                         .ready_ns = started_ns,
                                         .started_ns = started_ns,
                                         .waited_on = -1,
                                         .paced_ns = paced_us * US,
                                         .sent_bytes = bytes}});
}

static void computes(struct run *run)
{
    for (int rank = 0; rank < RANKS; rank++) does(run, rank, 1, BLOCK, 0, 100, 0, NULL);
}

static void near(double got, double want)
{
    if (got < want * 0.999999 || got > want * 1.000001) fail_msg("%.9g is not %.9g", got, want);
}

static void bytes_and_rates_are_of_the_last_whole_step(void **state)
{
    (void)state;
    struct run run = begin("{}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 1000, 10, 0, NULL); /* 100 MB/s */
    end_step(&run);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 3000, 20, 0, NULL);
    does(&run, 0, 1, OUT, 1000, 60, 0, NULL); /* together 50 MB/s */
    does(&run, 1, 1, OUT, 2000, 20, 0, NULL); /* 100 MB/s */
    end_step(&run);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 77, 1, 0, NULL); /* of a step that goes on */
    struct flow_figures figures = flow_figures_of(run.model, 0, FLOW_D2H, false);
    assert_true(figures.known && !figures.so_far && !figures.has_io);
    near(figures.bytes, 4000);
    near(figures.count, 2);
    near(figures.bytes_per_s, 50e6);
    near(figures.exposed_ns, 80 * US); /* compute was over */
    assert_int_equal(figures.limited_by, FLOW_LIMIT_BEST);
    near(figures.limit_bytes_per_s, 100e6);
    near(figures.share, 0.5);
    figures = flow_figures_of(run.model, -1, FLOW_D2H, false);
    near(figures.bytes, 3000);
    near(figures.bytes_per_s, 60e6);
    near(figures.limit_bytes_per_s, 100e6);
    near(flow_figures_of(run.model, 0, FLOW_D2H, true).bytes, 2500);
    assert_true(flow_figures_of(run.model, 0, FLOW_H2D, false).known); /* that there was nothing */
    near(flow_figures_of(run.model, 0, FLOW_H2D, false).bytes, 0);
    assert_false(flow_is_used(run.model, FLOW_H2D));
    assert_true(flow_is_used(run.model, FLOW_D2H));
    end(&run);
}

static void depth_and_latency_are_those_of_the_requests(void **state)
{
    (void)state;
    struct run run = begin("{}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, READ, 40000, 100, 0, &(struct inside){10, 4, 80, 160, 40});
    does(&run, 0, 1, READ, 20000, 50, 0, &(struct inside){2, 2, 40, 80, 44});
    does(&run, 1, 1, READ, 60000, 50, 0, &(struct inside){4, 3, 60, 60, 30});
    end_step(&run);
    struct flow_figures figures = flow_figures_of(run.model, 0, FLOW_NVME_READ, false);
    assert_true(figures.has_io && !figures.buffered);
    near(figures.requests, 12);
    near(figures.depth, 2); /* 240 us of requests in 120 us */
    near(figures.latency_ns, 20000);
    near(figures.own_bytes_per_s, 500e6); /* of the engine's time */
    near(figures.bytes_per_s, 400e6);     /* of the lane's */
    assert_int_equal(figures.deepest, 4);
    assert_int_equal(figures.longest_ns, 44 * US);
    figures = flow_figures_of(run.model, -1, FLOW_NVME_READ, false);
    near(figures.requests, 8);
    near(figures.depth, 300.0 / 180);
    near(figures.limit_bytes_per_s, 750e6); /* 500 and 1000 */
    int64_t first, last;
    struct trace_of_io io;
    history_spans(run.history, 0, LANE_NVME_READ, 0, UINT64_MAX, &first, &last);
    assert_int_equal(last - first, 2);
    assert_true(history_io(run.history, 0, LANE_NVME_READ, history_span(run.history, 0, LANE_NVME_READ, first + 1), &io));
    assert_int_equal(io.requests, 2);
    assert_int_equal(io.bytes, 20000);
    assert_true(io.direct);
    history_spans(run.history, 0, LANE_COMPUTE, 0, UINT64_MAX, &first, &last);
    assert_false(history_io(run.history, 0, LANE_COMPUTE, history_span(run.history, 0, LANE_COMPUTE, first), &io));
    end(&run);
}

static void a_paced_link_is_the_limit(void **state)
{
    (void)state;
    struct run run = begin("{\"links\": {\"nvme\": {\"bandwidth\": 1e9}}}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, WRITE, 50000, 100, 50, &(struct inside){1, 1, 40, 40, 40});
    does(&run, 0, 1, UP, 1000, 10, 0, NULL);
    end_step(&run);
    struct flow_figures figures = flow_figures_of(run.model, 0, FLOW_NVME_WRITE, false);
    assert_int_equal(figures.limited_by, FLOW_LIMIT_PACED);
    near(figures.bytes_per_s, 500e6);
    near(figures.own_bytes_per_s, 1250e6);
    near(figures.share, 0.5);
    assert_int_equal(flow_figures_of(run.model, 0, FLOW_H2D, false).limited_by, FLOW_LIMIT_BEST); /* another link */
    end(&run);
}

/* What was done before a link was paced, or more slowly, is held against what was then. */
static void a_limit_is_that_of_its_step(void **state)
{
    (void)state;
    static const char set[] = "{\"kind\": \"set\", \"detail\": {\"key\": \"topology.links.pcie.bandwidth\", \"from\": "
                              "\"0\", \"to\": \"1MB\"}}";
    struct run run = begin("{}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 1000, 10, 0, NULL);
    end_step(&run);
    put(&run, TRACE_RANK_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {run.step, synthetic_text(set)}});
    near(run.model->pace.links[LINK_PCIE].bandwidth_bytes_per_s, 1e6);
    assert_int_equal(flow_figures_of(run.model, 0, FLOW_D2H, false).limited_by, FLOW_LIMIT_BEST);
    near(flow_figures_of(run.model, 0, FLOW_D2H, false).share, 1);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 1000, 2000, 1990, NULL);
    end_step(&run);
    assert_int_equal(flow_figures_of(run.model, 0, FLOW_D2H, false).limited_by, FLOW_LIMIT_PACED);
    near(flow_figures_of(run.model, 0, FLOW_D2H, false).share, 0.5);
    end(&run);
}

static void slow_motion_is_taken_out(void **state)
{
    (void)state;
    struct run run = begin("{\"links\": {\"pcie\": {\"bandwidth\": 1e9}}, \"slow_motion\": 10}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 10000, 100, 90, NULL); /* 10 us on the link, ten times as slow */
    end_step(&run);
    const struct flow_figures figures = flow_figures_of(run.model, 0, FLOW_D2H, false);
    near(figures.bytes_per_s, 1e9);
    near(figures.share, 1);
    near(figures.slow_motion, 10);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, READ, 20000, 1000, 900, &(struct inside){1, 1, 40, 40, 40});
    end_step(&run);
    near(flow_figures_of(run.model, 0, FLOW_NVME_READ, false).bytes_per_s, 500e6); /* of a link that is not paced: its own */
    end(&run);
}

/* Slow motion makes what is short last until it can be seen: 10 KB of 10 us for 10 ms, ten times. */
static void what_is_drawn_out_to_be_seen_is_no_slower(void **state)
{
    (void)state;
    struct run run = begin("{\"links\": {\"pcie\": {\"bandwidth\": 1e9, \"latency\": 2e-6}}, \"slow_motion\": 10}");
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, OUT, 10000, 100000, 99995, NULL);
    does(&run, 0, 1, UP, 10000, 100000, 99975, NULL); /* slower by itself than the link */
    end_step(&run);
    near(flow_figures_of(run.model, 0, FLOW_D2H, false).bytes_per_s, 10000 / 12e-6);
    near(flow_figures_of(run.model, 0, FLOW_D2H, false).share, 10.0 / 12);
    near(flow_figures_of(run.model, 0, FLOW_H2D, false).bytes_per_s, 400e6);
    end(&run);
}

static void a_slow_rank_is_no_slower_link(void **state)
{
    (void)state;
    struct run run = begin("{\"links\": {\"pcie\": {\"bandwidth\": 1e9}}, \"slow_rank\": 1}");
    begin_step(&run);
    computes(&run);
    for (int rank = 0; rank < RANKS; rank++) does(&run, rank, 1, OUT, 10000, rank ? 20 : 10, rank ? 10 : 0, NULL);
    end_step(&run);
    for (int rank = 0; rank < RANKS; rank++) {
        const struct flow_figures figures = flow_figures_of(run.model, rank, FLOW_D2H, false);
        near(figures.bytes_per_s, 1e9);
        near(figures.share, 1);
        near(figures.slow_motion, rank ? 2 : 1);
    }
    near(flow_figures_of(run.model, -1, FLOW_D2H, false).bytes_per_s, 1e9);
    end(&run);
}

/* In the first step; in one whose records were lost; of an evaluation; of operations that are no transfer. */
static void what_is_not_known_is_not_shown(void **state)
{
    (void)state;
    struct run run = begin("{}");
    begin_step(&run);
    does(&run, 0, 1, OUT, 1000, 10, 0, NULL);
    struct flow_figures figures = flow_figures_of(run.model, 0, FLOW_D2H, false);
    assert_true(figures.known && figures.so_far);
    assert_int_equal(figures.limited_by, FLOW_LIMIT_UNKNOWN);
    computes(&run);
    put(&run, 0, (struct trace_record){.kind = TRACE_GAP, .gap = {.records = 3, .since_ns = run.now_ns}});
    end_step(&run);
    assert_false(flow_figures_of(run.model, 0, FLOW_D2H, false).known && !flow_figures_of(run.model, 0, FLOW_D2H, false).so_far);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 2, OUT, 5000, 10, 0, NULL); /* evaluation */
    for (uint32_t op = 0; op < OPS + 2; op++)
        put(&run, 0,
            (struct trace_record){.kind = TRACE_IO,
                                  .io = {.schedule = 1, .step = run.step, .op = op == READ ? OPS : op, .bytes = 9}});
    end_step(&run);
    near(flow_figures_of(run.model, 0, FLOW_D2H, false).count, 0);
    near(flow_figures_of(run.model, 0, FLOW_NVME_READ, false).requests, 0);
    begin_step(&run);
    computes(&run);
    does(&run, 0, 1, READ, 5000, 10, 0, NULL); /* in a trace of before there were io records */
    end_step(&run);
    assert_true(flow_figures_of(run.model, 0, FLOW_NVME_READ, false).known &&
                !flow_figures_of(run.model, 0, FLOW_NVME_READ, false).has_io);
    near(flow_figures_of(run.model, 0, FLOW_NVME_READ, false).bytes_per_s, 500e6);
    assert_false(flow_figures_of(run.model, 7, FLOW_D2H, false).known); /* no such rank */
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_rates_are_of_the_last_whole_step),
        cmocka_unit_test(depth_and_latency_are_those_of_the_requests),
        cmocka_unit_test(a_paced_link_is_the_limit),
        cmocka_unit_test(a_limit_is_that_of_its_step),
        cmocka_unit_test(slow_motion_is_taken_out),
        cmocka_unit_test(what_is_drawn_out_to_be_seen_is_no_slower),
        cmocka_unit_test(a_slow_rank_is_no_slower_link),
        cmocka_unit_test(what_is_not_known_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
