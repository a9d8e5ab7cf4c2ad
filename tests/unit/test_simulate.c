/* Simulated times against times computed by hand: lanes and dependencies, stragglers, jitter; that classes of ranks change nothing; and the
 * trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/simulate/record.h"
#include "engine/trace/source.h"
#include "tests/support/simulated.h"

/* ---- tiny schedules ---- */

enum { BYTES = 100 };

/* A load computes for BYTES ns. A gather of n ranks moves n - 1 chunks of 1,000 bytes. */
struct tiny {
    struct op ops[5];
    struct buffer tokens;
    struct schedule schedule;
    struct model model;
    struct simulation *simulation;
    uint64_t wake_ns;
};

static void add(struct tiny *tiny, enum op_kind kind, enum group group, int members, int after)
{
    struct op *op = &tiny->ops[tiny->schedule.op_count++];
    *op = (struct op){.kind = kind, .lane = op_lane(kind), .group = group, .unit = -1, .bucket = -1, .micro_step = -1};
    for (int role = 0; role < ROLES; role++) op->buffer[role] = -1;
    if (kind == OP_LOAD) op->buffer[ROLE_TOKENS] = 0;
    else op->sent_bytes = 1000 * (members - 1) * (kind == OP_ALL_REDUCE ? 2 : 1);
    if (after >= 0) op->dependency[op->dependency_count++] = (struct dependency){after, WAIT_DATA};
}

static void begin(struct tiny *tiny, int ranks, int shard_ranks)
{
    *tiny = (struct tiny){.tokens = {.bytes = BYTES}, .schedule = {.stage = 3, .ranks = ranks}};
    tiny->schedule.knobs.shard_ranks = shard_ranks;
    tiny->schedule.ops = tiny->ops;
    tiny->schedule.buffers = &tiny->tokens;
    tiny->schedule.buffer_count = 1;
}

/* Bytes are said, not planned, so they are passed on: directly each rank's own would be counted. */
static const struct op_time *run(struct tiny *tiny, const struct slow_rank *slow, int slow_count, int rank)
{
    struct error err;
    static struct hardware hardware;
    hardware = plain, hardware.way = WAY_RING, hardware.wake_ns = tiny->wake_ns;
    const struct simulation_input input = {
        .cost = {&tiny->schedule, &tiny->model, &hardware, tiny->schedule.ranks},
        .recorded = tiny->schedule.ranks,
        .slow = slow,
        .slow_count = slow_count,
    };
    if (!tiny->simulation && simulation_open(&tiny->simulation, &input, &err)) fail_msg("%s", err.text);
    simulation_step(tiny->simulation, 1, 1000);
    return simulation_times(tiny->simulation, rank);
}

static void assert_time(const struct op_time *time, uint64_t issued, uint64_t started, uint64_t ended, int waited_on)
{
    assert_int_equal(time->issued_ns, 1000 + issued);
    assert_int_equal(time->started_ns, 1000 + started);
    assert_int_equal(time->ended_ns, 1000 + ended);
    assert_int_equal(time->waited_on, waited_on);
}

/* load, gather (beside it), load, which waits for the gather; a second gather waits for its lane alone. */
static void lanes_are_in_order_and_wait_for_dependencies(void **state)
{
    (void)state;
    struct tiny tiny;
    begin(&tiny, 2, 0);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, -1);
    add(&tiny, OP_GATHER, GROUP_WORLD, 2, -1);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, 1);
    add(&tiny, OP_ALL_REDUCE, GROUP_WORLD, 2, 0);
    const struct op_time *times = run(&tiny, NULL, 0, 1);
    assert_time(&times[0], 0, 0, 100, -1);
    assert_time(&times[1], 0, 0, 1010, -1);
    assert_time(&times[2], 100, 1010, 1110, 1);
    assert_time(&times[3], 1010, 1010, 3030, -1); /* its dependency ended long ago; an all-reduce is two ways */
    assert_int_equal(simulation_ended_ns(tiny.simulation, 0), 4030);
    assert_int_equal(simulation_classes(tiny.simulation), 1);
    simulation_free(tiny.simulation);
}

/* The gather and the second load wait for an operation on the other lane, and sleep meanwhile. */
static void a_lane_that_slept_is_woken(void **state)
{
    (void)state;
    struct tiny tiny;
    begin(&tiny, 2, 0);
    tiny.wake_ns = 7;
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, -1);
    add(&tiny, OP_GATHER, GROUP_WORLD, 2, 0);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, 1);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, 1);
    const struct op_time *times = run(&tiny, NULL, 0, 1);
    assert_time(&times[1], 0, 107, 1117, 0);
    assert_time(&times[2], 100, 1124, 1224, 1);
    assert_time(&times[3], 1224, 1224, 1324, -1); /* what it waits for ended before the lane came to it */
    simulation_free(tiny.simulation);
}

/* Two operations wait for the first load, one of them behind others that are waited for, too. */
static void an_end_is_kept_until_all_have_waited(void **state)
{
    (void)state;
    struct tiny tiny;
    begin(&tiny, 2, 0);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, -1);
    add(&tiny, OP_GATHER, GROUP_WORLD, 2, 0);
    add(&tiny, OP_GATHER, GROUP_WORLD, 2, -1);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, 0);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, 2);
    const struct op_time *times = run(&tiny, NULL, 0, 0);
    assert_time(&times[1], 0, 100, 1110, 0);
    assert_time(&times[2], 1110, 1110, 2120, -1);
    assert_time(&times[3], 100, 100, 200, -1);
    assert_time(&times[4], 200, 2120, 2220, 2);
    simulation_free(tiny.simulation);
}

/* Eight ranks in shard groups of four; rank 5 takes twice as long, so its group, and no other, is late by its excess. */
static void a_straggler_delays_its_group_by_its_excess(void **state)
{
    (void)state;
    const struct slow_rank slow = {5, 2000};
    struct tiny tiny;
    begin(&tiny, 8, 4);
    add(&tiny, OP_LOAD, GROUP_WORLD, 0, -1);
    add(&tiny, OP_GATHER, GROUP_SHARDS, 4, 0);
    for (int rank = 0; rank < 8; rank++) {
        const struct op_time *gather = &run(&tiny, &slow, 1, rank)[1];
        const uint64_t late = rank < 4 ? 0 : BYTES;
        assert_int_equal(gather->ended_ns, 1000 + BYTES + late + 3 * (10 + 1000));
        assert_int_equal(gather->peers_ns, rank == 5 ? 0 : late);
    }
    assert_int_equal(simulation_classes(tiny.simulation), 3);
    simulation_free(tiny.simulation);
}

static void a_slow_rank_must_exist(void **state)
{
    (void)state;
    const struct slow_rank slow = {2, 2000};
    struct simulation *simulation;
    struct tiny tiny;
    struct error err;
    begin(&tiny, 2, 0);
    const struct simulation_input input = {
        .cost = {&tiny.schedule, &tiny.model, &plain, 2}, .slow = &slow, .slow_count = 1};
    assert_int_equal(simulation_open(&simulation, &input, &err), STATUS_USAGE);
}
/* ---- real schedules ---- */

/* Each rank by itself (jitter of 0) has the times that its class has. */
static void classes_change_nothing(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks=16", "topology.ranks_per_node=4", "zero_optimization.stage=3",
                          "zero_optimization.mics_shard_size=8", "zero_optimization.offload_optimizer.device=cpu"};
    const struct slow_rank slow[] = {{6, 1300}, {13, 2500}};
    struct hardware hardware = plain;
    struct config config;
    struct setup setup;
    struct error err;
    struct simulation *sim[2];
    hardware.pcie_rate = hardware.host_rate = 1000000000;
    hardware.way = WAY_FASTEST;
    load(&setup, &config, sets, 5);
    for (int each = 0; each < 2; each++) {
        const struct simulation_input input = {
            .cost = {&setup.schedule, &setup.model, &hardware, 4},
            .recorded = 16,
            .jitters = each,
            .slow = slow,
            .slow_count = 2,
        };
        if (simulation_open(&sim[each], &input, &err)) fail_msg("%s", err.text);
    }
    assert_int_equal(simulation_classes(sim[1]), 16);
    assert_true(simulation_classes(sim[0]) < 16);
    assert_int_equal(simulation_step(sim[0], 1, 1), simulation_step(sim[1], 1, 1));
    for (int rank = 0; rank < 16; rank++)
        assert_memory_equal(simulation_times(sim[0], rank), simulation_times(sim[1], rank),
                            (size_t)setup.schedule.op_count * sizeof(struct op_time));
    simulation_free(sim[0]);
    simulation_free(sim[1]);
    setup_release(&setup);
    config_release(&config);
}

/* ---- the trace ---- */

enum { RECORDED = 12, RANKS = 16, NODE = 4 };

/* What the trace says of each rank. */
struct told {
    int64_t sent[RECORDED][TRAFFIC_KINDS][LINKS];
    uint64_t op_sent[RECORDED];
    uint64_t category[RECORDED][TIERS][CATEGORIES], tier[RECORDED][TIERS];
    int begins, ends;
};

static void note(struct told *told, const struct trace_record *record)
{
    const int rank = record->rank;
    switch ((unsigned)record->kind) {
    case TRACE_TRAFFIC:
        told->sent[rank][record->traffic.traffic][record->traffic.link] += (int64_t)record->traffic.sent_bytes;
        break;
    case TRACE_OP_BEGIN: told->begins++; break;
    case TRACE_OP_END:
        told->ends++;
        told->op_sent[rank] += record->op_end.sent_bytes;
        break;
    case TRACE_MEMORY:
        told->category[rank][record->memory.tier][record->memory.category] = record->memory.peak_bytes;
        break;
    case TRACE_TIER_PEAK: told->tier[rank][record->tier_peak.tier] = record->tier_peak.peak_bytes; break;
    }
}

static void record(struct told *told, const struct config *config, const struct setup *setup,
                   const struct hardware *hardware)
{
    struct error err;
    struct simulation *simulation;
    struct recorder *recorder;
    struct source *source = NULL;
    struct trace_record from;
    char path[] = "/tmp/zerolab-simulated-XXXXXX";
    const struct simulation_input input = {.cost = {&setup->schedule, &setup->model, hardware, NODE},
                                           .recorded = RECORDED};
    if (simulation_open(&simulation, &input, &err)) fail_msg("%s", err.text);
    close(mkstemp(path));
    if (recorder_open(&recorder, path, config, setup, simulation, &err)) fail_msg("%s", err.text);
    simulation_step(simulation, 1, RECORDED_FROM_NS);
    if (recorder_step(recorder, 1, RECORDED_FROM_NS, &err) || recorder_close(recorder, &err) ||
        source_open_file(&source, path, &err))
        fail_msg("%s", err.text);
    remove(path);
    while (source_next(source, &from) == SOURCE_RECORD) note(told, &from);
    source_close(source);
    simulation_free(simulation);
}

/* Of every recorded rank: bytes of each kind by link, and peaks that the plan reaches in its own order. */
static void assert_as_planned(const struct told *told, const struct setup *setup)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    for (int rank = 0; rank < RECORDED; rank++) {
        uint64_t all = 0;
        traffic_of(sums, &setup->schedule, &setup->model, rank, NODE);
        for (int kind = 0; kind < TRAFFIC_CONTROL; kind++) {
            const enum link link = traffic_link((enum traffic)kind);
            assert_int_equal(told->sent[rank][kind][link], sums[kind].sent_bytes - sums[kind].across_bytes);
            assert_int_equal(told->sent[rank][kind][LINK_INTER], sums[kind].across_bytes);
            all += (uint64_t)sums[kind].sent_bytes;
        }
        assert_int_equal(told->op_sent[rank], all);
        for (int tier = 0; tier < TIERS; tier++) {
            assert_true(told->tier[rank][tier] <= (uint64_t)setup->footprint.peak_bytes[tier]);
            for (int c = 0; c < CATEGORIES; c++)
                assert_true(told->category[rank][tier][c] <= (uint64_t)setup->footprint.category[tier][c].peak_bytes);
        }
        assert_true(told->tier[rank][TIER_DEVICE] > (uint64_t)setup->footprint.resting_bytes[TIER_DEVICE]);
    }
    assert_int_equal(told->begins, RECORDED * setup->schedule.op_count);
    assert_int_equal(told->ends, told->begins);
}

static void a_trace_has_the_bytes_and_peaks_of_the_plan(void **state)
{
    (void)state;
    static const char *const variants[][3] = {
        {"zero_optimization.stage=0"},
        {"zero_optimization.stage=1"},
        {"zero_optimization.stage=2", "gradient_accumulation_steps=2"},
        {"zero_optimization.stage=3", "zero_optimization.stage3_param_persistence_threshold=600"},
        {"zero_optimization.stage=3", "zero_optimization.mics_shard_size=8"},
        {"zero_optimization.stage=3", "zero_optimization.zero_hpz_partition_size=4", "model.recompute=full"},
        {"zero_optimization.stage=3", "zero_optimization.zero_quantized_gradients=true",
         "zero_optimization.zero_quantized_weights=true"},
        {"zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=cpu",
         "zero_optimization.offload_param.device=cpu"},
        {"zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=nvme",
         "zero_optimization.offload_optimizer.nvme_path=."},
    };
    struct hardware hardware;
    struct error err;
    assert_int_equal(hardware_load(&hardware, "a100", &err), STATUS_OK);
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        const char *sets[6] = {"topology.ranks=16", "topology.ranks_per_node=4", "bf16.enabled=true"};
        int count = 3;
        for (int i = 0; i < 3 && variants[v][i]; i++) sets[count++] = variants[v][i];
        struct told *told = calloc(1, sizeof *told);
        struct config config;
        struct setup setup;
        load(&setup, &config, sets, count);
        record(told, &config, &setup, &hardware);
        assert_as_planned(told, &setup);
        free(told);
        setup_release(&setup);
        config_release(&config);
    }
}
/* ---- jitter ---- */

static void the_seed_decides_the_jitter(void **state)
{
    (void)state;
    struct hardware hardware = plain;
    struct config config;
    struct setup setup;
    hardware.jitter = 100;
    load(&setup, &config, NULL, 0);
    const uint64_t none = ended(&setup, &hardware, false, 0), one = ended(&setup, &hardware, true, 1);
    assert_int_equal(ended(&setup, &hardware, true, 1), one);
    assert_int_not_equal(ended(&setup, &hardware, true, 2), one);
    assert_true(one > none * 9 / 10 && one < none * 12 / 10);
    setup_release(&setup);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_in_order_and_wait_for_dependencies),
        cmocka_unit_test(a_lane_that_slept_is_woken),
        cmocka_unit_test(an_end_is_kept_until_all_have_waited),
        cmocka_unit_test(a_straggler_delays_its_group_by_its_excess),
        cmocka_unit_test(a_slow_rank_must_exist),
        cmocka_unit_test(classes_change_nothing),
        cmocka_unit_test(a_trace_has_the_bytes_and_peaks_of_the_plan),
        cmocka_unit_test(the_seed_decides_the_jitter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
