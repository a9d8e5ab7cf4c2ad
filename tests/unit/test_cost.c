/* What an operation costs on given hardware, against figures computed by hand: formulas of collectives, shared links and cores, FLOPs and
 * bytes, paces; and the profiles that are built in. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/simulated.h"

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

/* ---- operations ---- */

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

static uint64_t sum_of_operations(const struct setup *setup, int ranks)
{
    const struct cost_input cost = {&setup->schedule, &setup->model, &plain, ranks};
    const struct group_shape node = {ranks, 1, ranks};
    uint64_t sum = 0;
    for (int o = 0; o < setup->schedule.op_count; o++) sum += op_ns(&cost, &setup->schedule.ops[o], &node);
    return sum;
}

/* Where each rank has one core for all its lanes, nothing is gained by working beside each other. A second core for each rank takes the
 * other lanes; with half of it, half of the gain is lost. */
static void lanes_share_cores(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks=4", "zero_optimization.stage=3"};
    struct hardware shared = plain;
    struct config config;
    struct setup setup;
    load(&setup, &config, sets, 2);
    const uint64_t beside = ended(&setup, &plain, false, 0), in_turn = 1 + sum_of_operations(&setup, 4);
    assert_true(beside < in_turn);
    shared.node_cores = 4;
    assert_int_equal(ended(&setup, &shared, false, 0), in_turn);
    shared.node_cores = 8;
    assert_int_equal(ended(&setup, &shared, false, 0), beside);
    shared.node_cores = 6;
    const uint64_t half = ended(&setup, &shared, false, 0), lost = (in_turn - beside) / 2;
    assert_true(half > beside + lost * 9 / 10 && half < beside + lost * 11 / 10);
    setup_release(&setup);
    config_release(&config);
}

/* A single rank copies what it gathers and reduces to other buffers. Where lanes share cores, on the thread that computes. */
static void a_single_rank_copies_in_turn(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks=1", "zero_optimization.stage=3"};
    struct hardware shared = plain;
    struct config config;
    struct setup setup;
    load(&setup, &config, sets, 2);
    const struct cost_input cost = {&setup.schedule, &setup.model, &plain, 1};
    const struct group_shape alone = {1, 1, 1};
    int copies = 0;
    for (int o = 0; o < setup.schedule.op_count; o++) {
        const struct op *op = &setup.schedule.ops[o];
        if (op->kind != OP_GATHER && op->kind != OP_REDUCE_SCATTER) continue;
        assert_int_equal(op_ns(&cost, op, &alone), op->bytes); /* one ns a byte */
        copies++;
    }
    assert_true(copies > 0);
    const uint64_t in_turn = 1 + sum_of_operations(&setup, 1);
    assert_true(ended(&setup, &plain, false, 0) < in_turn);
    shared.node_cores = 64;
    assert_int_equal(ended(&setup, &shared, false, 0), in_turn);
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
        cmocka_unit_test(operations_cost_flops_and_bytes),
        cmocka_unit_test(lanes_share_cores),
        cmocka_unit_test(a_single_rank_copies_in_turn),
        cmocka_unit_test(the_busiest_rank_decides),
        cmocka_unit_test(ranks_of_a_node_share_its_network),
        cmocka_unit_test(pace_is_what_the_executor_waits_for),
        cmocka_unit_test(without_pace_a_step_takes_no_time),
        cmocka_unit_test(built_in_profiles_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
