/* Simulated times against times computed by hand: the formulas of collectives, shared links, lanes and dependencies,
 * stragglers; and that classes of ranks change nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/plan/setup.h"
#include "engine/simulate/record.h"
#include "engine/trace/source.h"

/* One ns a byte in memory and within a node, two between nodes. */
static const struct hardware plain = {
    .name = "plain",
    .way = WAY_DIRECT,
    .flops_fp32 = 1000000000,
    .product_efficiency = 1000,
    .memory_efficiency = 1000,
    .link_efficiency = 1000,
    .memory_bytes = 1,
    .memory_rate = 1000000000,
    .node_devices = 2,
    .intra_rate = 1000000000,
    .intra_ns = 10,
    .inter_rate = 500000000,
    .inter_ns = 100,
};

static uint64_t way(enum way which, int ranks, int nodes, int most, int per_node, uint64_t chunk)
{
    const struct group_shape shape = {ranks, nodes, most};
    return way_ns(&plain, which, &shape, per_node, chunk);
}

static void within_a_node_messages_take_alpha_and_bytes(void **state)
{
    (void)state;
    assert_int_equal(way(WAY_RING, 4, 1, 4, 4, 1000), 3 * (10 + 1000));
    assert_int_equal(way(WAY_TREE, 4, 1, 4, 4, 1000), (10 + 1000) + (10 + 2000));
    assert_int_equal(way(WAY_TREE, 6, 1, 6, 6, 1000),
                     (10 + 1000) + (10 + 2000) + (10 + 2000)); /* 1, 2, then the last 2 */
    assert_int_equal(way(WAY_HIERARCHICAL, 4, 1, 4, 4, 1000), way(WAY_RING, 4, 1, 4, 4, 1000));
}

/* Two nodes of two: a ring crosses once each way, a tree's second level crosses for both ranks of a node. */
static void between_nodes_the_network_is_shared(void **state)
{
    (void)state;
    assert_int_equal(way(WAY_RING, 4, 2, 2, 2, 1000), 3 * (100 + 2000));
    assert_int_equal(way(WAY_TREE, 4, 2, 2, 2, 1000), (10 + 1000) + (100 + 2 * 2 * 2000));
    assert_int_equal(way(WAY_HIERARCHICAL, 4, 2, 2, 2, 1000), (100 + 2 * 2000) + (10 + 2000));
    assert_int_equal(way(WAY_FASTEST, 4, 2, 2, 2, 1000), 6110);
}

/* Four rings of one rank a node each: every one gets a quarter of the network. */
static void groups_of_a_node_share_its_network(void **state)
{
    (void)state;
    assert_int_equal(way(WAY_RING, 2, 2, 1, 1, 1000), 100 + 2000);
    assert_int_equal(way(WAY_RING, 2, 2, 1, 4, 1000), 100 + 4 * 2000);
}

static void a_group_lies_on_nodes(void **state)
{
    (void)state;
    const struct process_group spread = group_spread(GROUP_REPLICAS, 1, 4, 16),
                               row = group_consecutive(GROUP_SHARDS, 5, 4);
    struct group_shape shape = group_shape_of(&spread, 8);
    assert_true(shape.ranks == 4 && shape.nodes == 2 && shape.most == 2);
    shape = group_shape_of(&row, 6);
    assert_true(shape.ranks == 4 && shape.nodes == 2 && shape.most == 2);
    const struct process_group uneven = group_consecutive(GROUP_SHARDS, 0, 4);
    shape = group_shape_of(&uneven, 3);
    assert_true(shape.nodes == 2 && shape.most == 3);
}

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

static void load(struct setup *setup, struct config *config, const char *const *sets, int count)
{
    struct error err;
    if (config_load(config, "configs/nano.json", sets, count, &err) || setup_init(setup, config, &err))
        fail_msg("%s", err.text);
}

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

/* ---- jitter and costs ---- */

static uint64_t ended(const struct setup *setup, const struct hardware *hardware, bool jitters, uint64_t seed)
{
    struct simulation *simulation;
    struct error err;
    const struct simulation_input input = {
        .cost = {&setup->schedule, &setup->model, hardware, 4}, .recorded = 1, .jitters = jitters, .seed = seed};
    if (simulation_open(&simulation, &input, &err)) fail_msg("%s", err.text);
    const uint64_t end_ns = simulation_step(simulation, 1, 1);
    simulation_free(simulation);
    return end_ns;
}

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

/* On one rank nothing overlaps at stage 0, so the step is the sum of its operations: their FLOPs and their bytes. Kernels between
 * products may be slower than memory, and attention than other products: here half as fast. */
static void operations_cost_flops_and_bytes(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks=1"};
    struct config config;
    struct setup setup;
    load(&setup, &config, sets, 1);
    const struct cost_input cost = {&setup.schedule, &setup.model, &plain, 1};
    struct hardware slower = plain, attends = plain;
    uint64_t sum = 0, updated = 0, between = 0;
    slower.kernel_rate = plain.memory_rate / 2;
    attends.attention_efficiency = plain.product_efficiency / 2;
    for (int o = 0; o < setup.schedule.op_count; o++) {
        const struct op *op = &setup.schedule.ops[o];
        if (op->lane == LANE_COMM) continue;
        sum += (uint64_t)op_flops(&setup.schedule, &setup.model, op) + op_touched_bytes(&cost, op);
        if (op_flops(&setup.schedule, &setup.model, op) > 0) between += op_touched_bytes(&cost, op);
        if (op->kind == OP_UPDATE) updated += op_touched_bytes(&cost, op);
    }
    assert_int_equal(ended(&setup, &plain, false, 0), 1 + sum);
    assert_true(between > 0 && between < sum);
    assert_int_equal(ended(&setup, &slower, false, 0), 1 + sum + between);
    const uint64_t T = (uint64_t)setup.schedule.T, tokens = (uint64_t)setup.schedule.B * T; /* two products forward, five backward */
    const uint64_t attention = 7 * tokens * (T + 1) * (uint64_t)setup.model.shape.hidden * (uint64_t)setup.model.shape.layers;
    assert_int_equal(ended(&setup, &attends, false, 0), 1 + sum + attention * (uint64_t)setup.schedule.micro_steps);
    int64_t padded = 0;
    for (int u = 0; u < setup.model.unit_count; u++) padded += shard_elems(setup.model.units[u].elems, 1);
    assert_int_equal(updated, 7 * 4 * padded); /* fp32: gradient read; weights and two moments read and written */
    setup_release(&setup);
    config_release(&config);
}

/* Bytes of the rank that sends most, of all collectives one after the other. */
static double most_sent(const struct setup *setup)
{
    double sum = 0;
    for (int o = 0; o < setup->schedule.op_count; o++) {
        int64_t most = 0;
        for (int rank = 0; rank < setup->schedule.ranks && setup->schedule.ops[o].lane == LANE_COMM; rank++) {
            int64_t bytes[LINKS];
            op_link_bytes(bytes, &setup->schedule, &setup->model, &setup->schedule.ops[o], rank, 0);
            if (bytes[LINK_INTRA] > most) most = bytes[LINK_INTRA];
        }
        sum += (double)most;
    }
    return sum;
}

/* Where only links within a node take time and each rank sends its parts itself, the rank that sends most decides, whether all ranks
 * are looked at or some. */
static void the_busiest_rank_decides(void **state)
{
    (void)state;
    static const char *const ranks[] = {"topology.ranks=3", "topology.ranks=8", "topology.ranks=64", "topology.ranks=96"};
    struct hardware hardware = plain;
    hardware.flops_fp32 = hardware.memory_rate = INT64_MAX, hardware.intra_ns = 0;
    for (int r = 0; r < 4; r++)
        for (char stage = '0'; stage <= '3'; stage++) {
            char at[32];
            const char *sets[] = {ranks[r], at};
            struct config config;
            struct setup setup;
            struct error err;
            double step_s;
            snprintf(at, sizeof at, "zero_optimization.stage=%c", stage);
            load(&setup, &config, sets, 2);
            const struct cost_input cost = cost_of(&setup, &config, &hardware);
            assert_int_equal(simulate_once(&step_s, NULL, &cost, &err), 0);
            assert_true(fabs(step_s / (1e-9 * most_sent(&setup)) - 1) < 1e-3);
            setup_release(&setup);
            config_release(&config);
        }
}

/* Directly, the ranks of a node share its network; an agreement is a message, too. */
static void ranks_of_a_node_share_its_network(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks=4", "topology.ranks_per_node=2", "zero_optimization.stage=0"};
    struct hardware hardware = plain;
    struct config config;
    struct setup setup;
    int seen = 0;
    hardware.way = WAY_DIRECT;
    load(&setup, &config, sets, 3);
    const struct cost_input cost = cost_of(&setup, &config, &hardware);
    const struct group_shape shape = {4, 2, 2};
    for (int o = 0; o < setup.schedule.op_count; o++) {
        const struct op *op = &setup.schedule.ops[o];
        uint64_t most = 0;
        for (int rank = 0; rank < 4 && op->kind == OP_ALL_REDUCE; rank++) {
            int64_t bytes[LINKS];
            op_link_bytes(bytes, &setup.schedule, &setup.model, op, rank, 2);
            const uint64_t intra = hardware.intra_ns + (uint64_t)bytes[LINK_INTRA] * 1000000000 / hardware.intra_rate,
                           inter = hardware.inter_ns + (uint64_t)bytes[LINK_INTER] * 2 * 1000000000 / hardware.inter_rate;
            if (intra > most) most = intra;
            if (inter > most) most = inter;
        }
        if (op->kind == OP_AGREE) most = hardware.inter_ns + 24 * 2 * 1000000000ull / hardware.inter_rate;
        if (!most) continue;
        assert_true(llabs((long long)(op_ns(&cost, op, &shape) - hardware.call_ns * (uint64_t)op_rounds(&setup.schedule, op) - most)) <= 1);
        seen |= op->kind == OP_AGREE ? 1 : 2;
    }
    assert_int_equal(seen, 3);
    setup_release(&setup);
    config_release(&config);
}

/* ---- by pace ---- */

/* As the executor paces it: the slower of the links that a rank uses, of the rank that needs longest; FLOPs on the compute lane. The
 * operations of a straggler last twice as long. */
static double paced_op_seconds(const struct setup *setup, const struct config *config, const struct op *op)
{
    const double slow = config->topology.slow_motion, flops = config->topology.device_flops,
                 straggler = config->topology.slow_rank >= 0 ? 2 : 1;
    double seconds = 0;
    for (int rank = 0; rank < setup->schedule.ranks; rank++) {
        int64_t bytes[LINKS];
        op_link_bytes(bytes, &setup->schedule, &setup->model, op, rank, config->topology.ranks_per_node);
        for (int link = 0; link < LINKS; link++) {
            const struct config_link *of = &config->topology.links[link];
            const double rate = of->bandwidth_bytes_per_s;
            const double factor = rank == config->topology.slow_rank ? straggler : 1;
            if (bytes[link])
                seconds = fmax(seconds, factor * (of->latency_s + (rate > 0 ? (double)bytes[link] / rate : 0)));
        }
    }
    if (op->lane == LANE_COMPUTE && flops > 0) seconds = straggler * op_flops(&setup->schedule, &setup->model, op) / flops;
    if (slow >= SLOW_MOTION_EYE && op_is_followed(op)) seconds = fmax(seconds, straggler * SLOW_MOTION_EYE_SECONDS);
    return seconds * slow;
}

static double followed_seconds(const struct setup *setup, const struct config *config)
{
    static double ended[20000];
    double free_at[LANES] = {0}, last = 0;
    assert_true(setup->schedule.op_count < 20000);
    for (int o = 0; o < setup->schedule.op_count; o++) {
        const struct op *op = &setup->schedule.ops[o];
        double begins = free_at[op->lane];
        for (int d = 0; d < op->dependency_count; d++) begins = fmax(begins, ended[op->dependency[d].op]);
        last = fmax(last, ended[o] = free_at[op->lane] = begins + paced_op_seconds(setup, config, op));
    }
    return last;
}

#define LINK "topology.links."
#define ZERO "zero_optimization."
static void pace_is_what_the_executor_waits_for(void **state)
{
    (void)state;
    static const char *const variants[][8] = {
        {LINK "intra.bandwidth=1MB"},
        {LINK "intra.latency=3e-4", ZERO "stage=0"},
        {"topology.device_flops=1e9", LINK "intra.bandwidth=1MB", ZERO "stage=3"},
        {LINK "intra.bandwidth=1e9", LINK "inter.bandwidth=1e6", "topology.ranks_per_node=2", ZERO "stage=3"},
        {LINK "inter.bandwidth=1e6", "topology.ranks_per_node=4", "topology.ranks=16", ZERO "stage=1", ZERO "mics_shard_size=8"},
        {LINK "inter.bandwidth=1e6", LINK "inter.latency=1e-3", "topology.ranks_per_node=4", "topology.ranks=16", ZERO "stage=3",
         ZERO "mics_hierarchical_params_gather=true", ZERO "mics_shard_size=8"},
        {LINK "inter.bandwidth=1e6", "topology.ranks_per_node=2", ZERO "stage=3", ZERO "zero_quantized_gradients=true",
         ZERO "zero_quantized_weights=true", ZERO "zero_hpz_partition_size=2", "bf16.enabled=true"},
        {LINK "pcie.bandwidth=1e7", LINK "pcie.latency=1e-5", ZERO "stage=2", ZERO "offload_optimizer.device=cpu"},
        {LINK "nvme.bandwidth=1e7", LINK "nvme.latency=1e-4", ZERO "stage=3", ZERO "offload_optimizer.device=nvme",
         ZERO "offload_optimizer.nvme_path=.", "topology.ranks_per_node=2"},
        {LINK "intra.bandwidth=1MB", "topology.ranks=128", ZERO "stage=1"}, /* ranks from 64 on send most */
        {LINK "inter.bandwidth=1MB", "topology.ranks=128", "topology.ranks_per_node=2", ZERO "stage=3"},
        {"topology.slow_motion=20", ZERO "stage=3"},
        {"topology.slow_motion=1.7", LINK "intra.bandwidth=1MB", "gradient_accumulation_steps=2", ZERO "stage=2"},
        {"topology.slow_rank=1", LINK "intra.bandwidth=1MB", "topology.slow_motion=10"},
        {"topology.slow_rank=3", LINK "intra.bandwidth=20MB", ZERO "stage=2", ZERO "reduce_bucket_size=300000"},
        {"topology.slow_rank=0", LINK "intra.bandwidth=1MB", "topology.ranks=128", ZERO "stage=1"},
        {"topology.slow_motion=12", "topology.ranks=1", "topology.device_flops=1e8"},
    };
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        struct config config;
        struct setup setup;
        int count = 0;
        while (count < 8 && variants[v][count]) count++;
        load(&setup, &config, variants[v], count);
        const double seconds = followed_seconds(&setup, &config);
        assert_true(seconds > 0 && fabs(paced_seconds(&setup, &config) / seconds - 1) < 1e-6);
        setup_release(&setup);
        config_release(&config);
    }
}

static void without_pace_a_step_takes_no_time(void **state)
{
    (void)state;
    const char *sets[] = {"topology.slow_motion=9"}, *slow[] = {LINK "intra.bandwidth=1e-300", LINK "intra.latency=1e9"};
    struct config config;
    struct setup setup;
    load(&setup, &config, sets, 1);
    assert_true(paced_seconds(&setup, &config) == 0);
    setup_release(&setup);
    config_release(&config);
    load(&setup, &config, slow, 2);
    const double seconds = paced_seconds(&setup, &config);
    assert_true(seconds >= 1e9 && seconds < 1e11);
    setup_release(&setup);
    config_release(&config);
}

static void built_in_profiles_are_whole(void **state)
{
    (void)state;
    static const char *const names[] = {"t4", "v100", "a100", "h100", "h200", "b200"};
    struct hardware hardware, again;
    struct error err;
    for (int n = 0; n < 6; n++) {
        if (hardware_load(&hardware, names[n], &err)) fail_msg("%s", err.text);
        assert_true(hardware.flops_fp16 && hardware.inter_rate && hardware.pcie_rate && hardware.nvme_read_rate);
        char path[] = "/tmp/zerolab-hardware-XXXXXX", *text = hardware_text(&hardware, "a test");
        const int fd = mkstemp(path);
        FILE *file = fdopen(fd, "w");
        fputs(text, file);
        fclose(file);
        const int status = hardware_load(&again, path, &err);
        remove(path);
        free(text);
        assert_int_equal(status, STATUS_OK);
        assert_memory_equal(&hardware, &again, sizeof hardware);
    }
    assert_int_equal(hardware_load(&hardware, "a1000", &err), STATUS_USAGE);
    assert_int_equal(hardware_load(&hardware, "./no-such-file", &err), STATUS_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_a_node_messages_take_alpha_and_bytes),
        cmocka_unit_test(between_nodes_the_network_is_shared),
        cmocka_unit_test(groups_of_a_node_share_its_network),
        cmocka_unit_test(a_group_lies_on_nodes),
        cmocka_unit_test(lanes_are_in_order_and_wait_for_dependencies),
        cmocka_unit_test(a_lane_that_slept_is_woken),
        cmocka_unit_test(an_end_is_kept_until_all_have_waited),
        cmocka_unit_test(a_straggler_delays_its_group_by_its_excess),
        cmocka_unit_test(a_slow_rank_must_exist),
        cmocka_unit_test(classes_change_nothing),
        cmocka_unit_test(a_trace_has_the_bytes_and_peaks_of_the_plan),
        cmocka_unit_test(the_seed_decides_the_jitter),
        cmocka_unit_test(operations_cost_flops_and_bytes),
        cmocka_unit_test(the_busiest_rank_decides),
        cmocka_unit_test(ranks_of_a_node_share_its_network),
        cmocka_unit_test(pace_is_what_the_executor_waits_for),
        cmocka_unit_test(without_pace_a_step_takes_no_time),
        cmocka_unit_test(built_in_profiles_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
