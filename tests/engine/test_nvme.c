/* States and parameters on NVMe: the same bits as on the device, every byte as planned, live switches of tier, and what becomes
 * of a disk that fails or is full. Ranks are threads. */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/memory/storage.h"
#include "engine/zero/internal.h"
#include "tests/support/zero_runs.h"

static char folder[64], folder_set[160], folder_of_parameters[96], parameters_set[192];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zerolab-test-nvme-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(folder_set, sizeof folder_set, "zero_optimization.offload_optimizer.nvme_path=%s", folder);
    snprintf(folder_of_parameters, sizeof folder_of_parameters, "%s-parameters", folder);
    snprintf(parameters_set, sizeof parameters_set, "zero_optimization.offload_param.nvme_path=%s",
             folder_of_parameters);
    return mkdir(folder_of_parameters, 0700);
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder) | rmdir(folder_of_parameters); /* fails when a file was left there */
}

enum { SETS = 6 };

static const struct setup {
    const char *name, *sets[SETS];
} setups[] = {
#define OPTIMIZER(where) "zero_optimization.offload_optimizer.device=" where
#define PARAM(where)     "zero_optimization.offload_param.device=" where
#define READ_AHEAD       "zero_optimization.offload_optimizer.pipeline_read=true"
#define WRITE_BEHIND     "zero_optimization.offload_optimizer.pipeline_write=true"
#define NONE_IN_CPU      "zero_optimization.offload_param.max_in_cpu=0"
#define SOME_IN_CPU      "zero_optimization.offload_param.max_in_cpu=12000"
#define HALF             "zero_optimization.offload_optimizer.ratio=0.5"
    {"optimizer", {OPTIMIZER("nvme")}},
    {"optimizer, read ahead", {OPTIMIZER("nvme"), READ_AHEAD}},
    {"optimizer, written behind", {OPTIMIZER("nvme"), WRITE_BEHIND}},
    {"optimizer, both", {OPTIMIZER("nvme"), READ_AHEAD, WRITE_BEHIND}},
    {"parameters", {PARAM("nvme"), NONE_IN_CPU}},
    {"some parameters", {PARAM("nvme"), SOME_IN_CPU}},
    {"parameters, optimizer in host memory", {PARAM("nvme"), NONE_IN_CPU, OPTIMIZER("cpu")}},
    {"some parameters, optimizer in host memory", {PARAM("nvme"), SOME_IN_CPU, OPTIMIZER("cpu")}},
    {"optimizer, parameters in host memory", {PARAM("cpu"), OPTIMIZER("nvme"), READ_AHEAD}},
    {"all", {PARAM("nvme"), NONE_IN_CPU, OPTIMIZER("nvme"), READ_AHEAD, WRITE_BEHIND}},
    {"all but some parameters", {PARAM("nvme"), SOME_IN_CPU, OPTIMIZER("nvme"), WRITE_BEHIND}},
    {"all, in two folders", {PARAM("nvme"), NONE_IN_CPU, OPTIMIZER("nvme"), READ_AHEAD, parameters_set}},
    {"half of the optimizer", {OPTIMIZER("nvme"), HALF, READ_AHEAD}},
    {"half of the optimizer, parameters in host memory", {OPTIMIZER("nvme"), HALF, PARAM("cpu"), WRITE_BEHIND}},
    {"half of the optimizer, all parameters", {OPTIMIZER("nvme"), HALF, PARAM("nvme"), NONE_IN_CPU}},
    {"half of the optimizer in host memory, parameters", {OPTIMIZER("cpu"), HALF, PARAM("nvme"), NONE_IN_CPU}},
};
enum { SETUPS = sizeof setups / sizeof *setups, ALL = 9, EXTRAS = 6 };

static struct plan_of_run plan_with(const struct setup *setup, int steps, const char *ranks,
                                    const char *const extras[EXTRAS])
{
    struct plan_of_run plan = {.steps = steps, .rescue_stage = -1};
    set(&plan, ranks);
    set(&plan, setup ? stage_sets[3] : stage_sets[0]);
    set(&plan, "gradient_clipping=0.5");
    for (int i = 0; i < EXTRAS && extras && extras[i]; i++) set(&plan, extras[i]);
    if (!setup) return plan;
    set(&plan, folder_set);
    for (int i = 0; i < SETS && setup->sets[i]; i++) set(&plan, setup->sets[i]);
    return plan;
}

static int names_in(const char *path)
{
    DIR *listing = opendir(path);
    int count = -2; /* "." and ".." */
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

/* Every `stride`-th of the list, from `first` on. */
static void all_the_same(int first, int stride, int steps, const char *ranks, const char *const extras[EXTRAS])
{
    struct plan_of_run plan = plan_with(NULL, steps, ranks, extras);
    struct outcome_of_run want = run(&plan);
    for (int s = first; s < SETUPS; s += stride) {
        plan = plan_with(&setups[s], steps, ranks, extras);
        struct outcome_of_run got = run(&plan);
        expect_same(&want, &got, steps, setups[s].name);
        assert_true(got.memory.tier[TIER_NVME].peak_bytes > 0);
        assert_int_equal(names_in(folder) + names_in(folder_of_parameters), 0);
    }
}

/* bf16 has every setup where bytes are counted, below; fp32 has all with FULL=1. */
static void test_same_bits_fp32(void **state)
{
    (void)state;
    all_the_same(0, effort(3, 2, 1), 4, "topology.ranks=4", NULL);
}

/* The first scales overflow: those steps are dropped, and with them what would have been read and written. */
static void test_same_bits_fp16(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"fp16.enabled=true", "fp16.initial_scale_power=20", "fp16.hysteresis=1"};
    all_the_same(2, 3, 6, "topology.ranks=2", extras);
}

static void test_knobs_do_not_change_learning(void **state)
{
    (void)state;
    static const char *const extras[][EXTRAS] = {
        {"bf16.enabled=true", "zero_optimization.sub_group_size=3000", "aio.block_size=4096", "aio.queue_depth=2",
         "zero_optimization.stage3_param_persistence_threshold=1280", "aio.overlap_events=false"},
        {"model.vocabulary=263", "zero_optimization.stage3_prefetch_bucket_size=0",
         "zero_optimization.overlap_comm=false", "zero_optimization.offload_param.buffer_count=1",
         "schedule.update_tile=5000", "aio.intra_op_parallelism=2"},
        {"bf16.enabled=true", "zero_optimization.stage3_prefetch_bucket_size=100000000",
         "zero_optimization.offload_param.buffer_size=15000", "zero_optimization.offload_param.buffer_count=7",
         "gradient_accumulation_steps=2", "optimizer.type=Lion"},
    };
    for (int k = 0; k < 2; k++) all_the_same(k, 3, 4, k ? "topology.ranks=3" : "topology.ranks=4", extras[k]);
    struct plan_of_run plan = plan_with(NULL, 4, "topology.ranks=2", extras[2]);
    plan.sets[1] = stage_sets[3]; /* micro-steps are reduced one by one there */
    struct outcome_of_run want = run(&plan);
    plan = plan_with(&setups[ALL], 4, "topology.ranks=2", extras[2]);
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, 4, "accumulation");
}

/* ---- memory and traffic ---- */

static uint64_t moved_bytes[RANKS_MAX][STEPS_MAX + 1][AIO_DIRECTIONS];

static void note_flows(struct zero *zero, int rank, int step)
{
    for (int d = 0; d < AIO_DIRECTIONS; d++) moved_bytes[rank][step][d] = aio_flow(storage_aio(zero->storage, d)).bytes;
}

static void test_bf16_bytes_as_planned_and_same_bits(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {
        "bf16.enabled=true", "zero_optimization.stage3_param_persistence_threshold=1280", "schedule.update_tile=5000"};
    static const enum traffic traffic[AIO_DIRECTIONS] = {TRAFFIC_NVME_READ, TRAFFIC_NVME_WRITE};
    struct plan_of_run plan = plan_with(NULL, 4, "topology.ranks=4", extras);
    struct outcome_of_run want = run(&plan);
    for (int s = 0; s < SETUPS; s++) {
        plan = plan_with(&setups[s], 4, "topology.ranks=4", extras);
        plan.before_step = note_flows;
        struct outcome_of_run out = run(&plan);
        expect_same(&want, &out, 4, setups[s].name);
        for (int tier = 0; tier < TIERS; tier++) {
            const int64_t measured = (int64_t)out.memory.tier[tier].peak_bytes,
                          planned = out.footprint.peak_bytes[tier];
            if (measured > planned || (tier == TIER_NVME && measured < planned))
                fail_msg("%s: %s peak %lld of %lld planned", setups[s].name, tier_name((enum tier)tier),
                         (long long)measured, (long long)planned);
            assert_int_equal(out.memory.tier[tier].live_bytes, out.footprint.resting_bytes[tier]);
        }
        const bool some = strstr(setups[s].name, "some parameters"); /* on NVMe, and some in host memory */
        if (some) assert_true(out.footprint.category[TIER_HOST][CATEGORY_PARAMETERS].peak_bytes > 0);
        if (some) assert_true(out.footprint.category[TIER_NVME][CATEGORY_PARAMETERS].peak_bytes > 0);
        for (int r = 0; r < 4; r++)
            for (int d = 0; d < AIO_DIRECTIONS; d++)
                assert_int_equal(moved_bytes[r][3][d] - moved_bytes[r][2][d], out.traffic[traffic[d]].sent_bytes);
    }
}

/* Beyond the states themselves a step holds as many tiles in host memory as the pipeline needs. */
static void test_staging_follows_the_pipeline(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"bf16.enabled=true", "schedule.update_tile=4096"};
    static const struct {
        int setup, tiles;
    } cases[] = {{0, 1}, {1, 2}, {2, 2}, {3, 3}};
    const int64_t tile_bytes = 3 * 4096 * 4, traveling_bytes = 2 * 4096 * 2;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct plan_of_run plan = plan_with(&setups[cases[c].setup], 1, "topology.ranks=4", extras);
        const int64_t staging = run(&plan).footprint.category[TIER_HOST][CATEGORY_STAGING].peak_bytes;
        assert_in_range(staging, cases[c].tiles * tile_bytes, cases[c].tiles * tile_bytes + traveling_bytes);
    }
}

/* ---- live switches of tier ---- */

static void states_to_nvme(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_NVME;
}

static void all_to_nvme(struct config_zero *knobs)
{
    knobs->offload_optimizer = knobs->offload_param = OFFLOAD_NVME;
    knobs->max_in_cpu_elems = 0;
}

static void some_to_nvme(struct config_zero *knobs)
{
    knobs->offload_optimizer = OFFLOAD_CPU;
    knobs->offload_param = OFFLOAD_NVME;
    knobs->max_in_cpu_elems = 25000;
}

static void all_to_host(struct config_zero *knobs)
{
    knobs->offload_optimizer = knobs->offload_param = OFFLOAD_CPU;
}

static void switching(const char *precision)
{
    static const struct {
        int stage;
        void (*change)(struct config_zero *);
    } path[SWITCHES_MAX] = {{3, all_to_nvme}, {3, states_to_nvme}, {0, NULL},         {3, some_to_nvme},
                            {3, all_to_host}, {3, all_to_nvme},    {3, some_to_nvme}, {1, NULL}};
    const int steps = 18;
    const char *const extras[EXTRAS] = {precision};
    struct plan_of_run plan = plan_with(NULL, steps, "topology.ranks=4", extras);
    struct outcome_of_run want = run(&plan);
    set(&plan, folder_set);
    for (int s = 0; s < SWITCHES_MAX; s++) {
        plan.switches[s].before_step = 2 + 2 * s;
        plan.switches[s].stage = path[s].stage;
        plan.switches[s].change = path[s].change;
    }
    plan.switch_count = SWITCHES_MAX;
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, steps, "switching tiers");
    assert_int_equal(got.memory.tier[TIER_NVME].live_bytes, 0);
    assert_int_equal(got.memory.tier[TIER_NVME].reserved_bytes, 0); /* blocks have gone back */
}

static void test_switching_fp32(void **state)
{
    (void)state;
    switching(NULL);
}

static void test_switching_bf16(void **state)
{
    (void)state;
    switching("bf16.enabled=true");
}

/* ---- faults ---- */

static _Atomic bool broken;

static struct aio_fault fault;
static int faulty_rank = 1;
static enum aio_direction faulty;

static void break_disk(struct zero *zero, int rank, int step)
{
    if (rank == faulty_rank && step == 3 && !atomic_exchange(&broken, true))
        aio_inject(storage_aio(zero->storage, faulty), fault);
}

/* With one fault on one rank, in its third step. */
static struct outcome_of_run run_broken(struct plan_of_run *plan, enum aio_direction direction, struct aio_fault what)
{
    plan->before_step = break_disk;
    broken = false;
    faulty = direction;
    fault = what;
    struct outcome_of_run out = run(plan);
    assert_true(broken);
    return out;
}

/* A read that fails in forward, and again when it is tried again, gives up the step on all ranks; the step is taken again. */
static void test_read_error_keeps_the_boundary(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_with(NULL, 6, "topology.ranks=4", NULL);
    struct outcome_of_run want = run(&plan);
    plan = plan_with(&setups[6], 6, "topology.ranks=4", NULL);
    plan.rescue_stage = 3; /* as it was */
    struct outcome_of_run got = run_broken(&plan, AIO_READ, (struct aio_fault){2, EIO, 2});
    assert_int_equal(got.shortages, 1);
    assert_int_equal(got.shortage.rank, 1);
    assert_int_equal(got.shortage.tier, TIER_NVME);
    assert_non_null(strstr(got.shortage.text, "Input/output error; the disk may be failing"));
    expect_same(&want, &got, 6, "after a read error");
}

/* One that works then changes nothing: a read in forward, one in an update, a write. */
static void test_transfers_are_tried_again(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_with(NULL, 6, "topology.ranks=4", NULL);
    struct outcome_of_run want = run(&plan);
    for (int i = 0; i < 3; i++) {
        plan = plan_with(&setups[i ? 0 : 6], 6, "topology.ranks=4", NULL);
        struct outcome_of_run got = run_broken(&plan, i < 2 ? AIO_READ : AIO_WRITE, (struct aio_fault){2, EIO, 0});
        assert_int_equal(got.shortages, 0);
        expect_same(&want, &got, 6, "a transfer that was tried again");
    }
}

/* A disk that is full in the midst of an update, because it writes elsewhere what is overwritten: until there is room. */
static void test_update_waits_for_room(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_with(NULL, 6, "topology.ranks=4", NULL);
    struct outcome_of_run want = run(&plan);
    plan = plan_with(&setups[3], 6, "topology.ranks=4", NULL);
    struct outcome_of_run got = run_broken(&plan, AIO_WRITE, (struct aio_fault){2, ENOSPC, 18});
    assert_int_equal(got.shortages, 0);
    expect_same(&want, &got, 6, "an update that waited");
}

/* One rank, whose disk is full in its first update for good. */
struct full {
    struct config config;
    struct data *data;
    struct comm_group *group;
    struct comm *comm;
    struct zero *zero;
    struct gate gate;
    struct trace_ring *ring;
    void (*then)(struct full *full); /* done when it has said that it waits */
    bool waited;
};

static bool says_that_it_waits(const struct trace_record *record)
{
    static const char text[] = "the update waits until there is room";
    return record->kind == TRACE_LOG && memmem(record->log.text.at, record->log.text.bytes, text, strlen(text));
}

static void *watch(void *argument)
{
    struct full *full = argument;
    static char bytes[TOLD_BYTES];
    struct trace_record record;
    while (!full->waited) {
        size_t got = trace_ring_drain(full->ring, bytes, sizeof bytes), at = 0, length;
        for (; at < got && (length = trace_decode(bytes + at, got - at, &record)); at += length)
            full->waited |= says_that_it_waits(&record);
        sched_yield();
    }
    if (full->then) full->then(full);
    return NULL;
}

static void run_on_full_disk(struct full *full, bool has_gate, struct error *err)
{
    static _Alignas(64) char memory[TOLD_BYTES];
    struct plan_of_run plan = plan_with(&setups[3], 1, "topology.ranks=1", NULL);
    struct zero_result result;
    pthread_t watcher;
    assert_int_equal(load_plan(&full->config, &plan, err), 0);
    assert_int_equal(data_open(&full->data, &full->config, err), 0);
    assert_int_equal(comm_group_create(&full->group, 1, 0, err), 0);
    assert_int_equal(comm_open_thread(&full->comm, full->group, 0, err), 0);
    full->gate.limit = GATE_OPEN;
    full->ring = trace_ring_init(memory, sizeof memory);
    const struct zero_options options = {.config = &full->config,
                                         .comm = full->comm,
                                         .data = full->data,
                                         .gate = has_gate ? &full->gate : NULL,
                                         .rings = {[LANE_NVME_WRITE] = full->ring}};
    if (zero_open(&full->zero, &options, &result.shortage, err)) fail_msg("%s", err->text);
    aio_inject(storage_aio(full->zero->storage, AIO_WRITE), (struct aio_fault){2, ENOSPC, UINT64_MAX});
    assert_int_equal(pthread_create(&watcher, NULL, watch, full), 0);
    assert_int_equal(zero_step(full->zero, &result, err), STATUS_RUN);
    pthread_join(watcher, NULL);
    comm_close(full->comm);
    zero_close(full->zero);
    comm_group_free(full->group);
    data_close(full->data);
    config_release(&full->config);
}

static void tell_to_end(struct full *full)
{
    gate_hurry(&full->gate);
}

static void fail_elsewhere(struct full *full)
{
    comm_abort(full->comm, &(struct error){STATUS_RUN, "gone"});
}

/* The wait for room ends when the run is to end, when another rank has ended it, and by itself where nobody could end it. */
static void test_nobody_waits_for_room_for_ever(void **state)
{
    (void)state;
    static void (*const ends[])(struct full *) = {tell_to_end, fail_elsewhere, NULL};
    for (int i = 0; i < 3; i++) {
        struct full full = {.then = ends[i]};
        struct error err = {0};
        run_on_full_disk(&full, ends[i], &err);
        assert_true(full.waited);
        assert_non_null(strstr(err.text, "whose state is lost: the NVMe tier in"));
        assert_non_null(strstr(err.text, "No space left on device"));
    }
}

/* For good in an update: the run ends, and says what is lost. */
static void test_failing_for_good_in_an_update(void **state)
{
    (void)state;
    for (int d = 0; d < AIO_DIRECTIONS; d++) {
        struct plan_of_run plan = plan_with(&setups[3], 6, "topology.ranks=1", NULL);
        plan.fails_with = "step 3, in the midst of the update, whose state is lost: the NVMe tier in";
        faulty_rank = 0;
        run_broken(&plan, (enum aio_direction)d, (struct aio_fault){2, EIO, UINT64_MAX});
        faulty_rank = 1;
    }
}

/* ---- a host budget that suffices up to the update ---- */

static uint64_t tight_bytes;

static void tighten(struct zero *zero, int rank, int step)
{
    (void)rank;
    if (step == 3 && tight_bytes) assert_int_equal(zero_set_budget(zero, TIER_HOST, tight_bytes, NULL), 0);
}

static void widen(struct config_zero *knobs)
{
    knobs->pipeline_read = knobs->pipeline_write = false; /* one tile at a time is enough */
}

/* It is foreseen before anything is written: the step can be taken again, with the bits of a run that never failed. */
static void test_update_is_foreseen(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"bf16.enabled=true", "schedule.update_tile=4096"};
    const int both = 3; /* read ahead, written behind: three tiles */
    struct plan_of_run plan = plan_with(NULL, 6, "topology.ranks=4", extras);
    struct outcome_of_run want = run(&plan);
    plan = plan_with(&setups[both], 6, "topology.ranks=4", extras);
    tight_bytes = 0;
    const uint64_t peak = (uint64_t)run(&plan).footprint.peak_bytes[TIER_HOST];
    plan.before_step = tighten;
    plan.rescue_stage = 3;
    plan.rescue = widen;
    tight_bytes = peak - 4096;
    struct outcome_of_run got = run(&plan);
    assert_int_equal(got.shortages, 1);
    assert_int_equal(got.shortage.tier, TIER_HOST);
    assert_non_null(strstr(got.shortage.text, "of the update will ask for"));
    expect_same(&want, &got, 6, "a budget too small for the update");
    tight_bytes = peak;
    assert_int_equal(run(&plan).shortages, 0);
}

/* Budget 16 KiB less than needed: out of memory of the NVMe tier before anything is trained, and a stage without it goes on. */
static void test_budget(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"memory.nvme_budget=256KiB"};
    struct plan_of_run plan = plan_with(&setups[0], 4, "topology.ranks=4", extras);
    plan.fails_with = "out of nvme memory: optimizer asks for";
    run(&plan);
}

static void to_lost_folder(struct config_zero *knobs)
{
    states_to_nvme(knobs);
}

static void test_switch_to_a_folder_that_is_gone(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_with(NULL, 4, "topology.ranks=4", NULL);
    struct outcome_of_run want = run(&plan);
    plan.sets[1] = stage_sets[3];
    set(&plan, "zero_optimization.offload_optimizer.nvme_path=/tmp/zerolab-there-is-no-such-folder");
    plan.switches[0].before_step = 2;
    plan.switches[0].stage = 3;
    plan.switches[0].change = to_lost_folder;
    plan.switch_count = 1;
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, 4, "a switch that was refused");
    assert_int_equal(got.memory.tier[TIER_NVME].peak_bytes, 0);
}

/* The folder of parameters is wrong, which only matters when parameters go there: then the switch is refused. */
static void test_folder_that_nobody_uses(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_with(NULL, 4, "topology.ranks=4", NULL);
    struct outcome_of_run want = run(&plan);
    plan = plan_with(&setups[0], 4, "topology.ranks=4", NULL);
    set(&plan, "zero_optimization.offload_param.nvme_path=/tmp/zerolab-there-is-no-such-folder");
    plan.switches[0].before_step = 3;
    plan.switches[0].stage = 3;
    plan.switches[0].change = all_to_nvme;
    plan.switch_count = 1;
    struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, 4, "with a folder that nobody uses");
    assert_int_equal(got.footprint.category[TIER_NVME][CATEGORY_PARAMETERS].peak_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_fp32),
        cmocka_unit_test(test_same_bits_fp16),
        cmocka_unit_test(test_knobs_do_not_change_learning),
        cmocka_unit_test(test_bf16_bytes_as_planned_and_same_bits),
        cmocka_unit_test(test_staging_follows_the_pipeline),
        cmocka_unit_test(test_switching_fp32),
        cmocka_unit_test(test_switching_bf16),
        cmocka_unit_test(test_read_error_keeps_the_boundary),
        cmocka_unit_test(test_transfers_are_tried_again),
        cmocka_unit_test(test_update_waits_for_room),
        cmocka_unit_test(test_nobody_waits_for_room_for_ever),
        cmocka_unit_test(test_failing_for_good_in_an_update),
        cmocka_unit_test(test_update_is_foreseen),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_switch_to_a_folder_that_is_gone),
        cmocka_unit_test(test_folder_that_nobody_uses),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
