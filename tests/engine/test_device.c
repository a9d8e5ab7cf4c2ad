/* The engine above a device that only kernels and movers reach: the same bits, bytes and traffic as without it, at every stage,
 * with offload, through switches, out of memory and back. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/far_device.h"
#include "tests/support/zero_runs.h"

enum { STEPS = 4 };

static struct far_device devices[RANKS_MAX];

static const struct zero_device *device_of(int rank)
{
    return &devices[rank].device;
}

static struct outcome_of_run run_far(struct plan_of_run plan, bool ahead)
{
    plan.device = device_of;
    for (int r = 0; r < RANKS_MAX; r++)
        assert_int_equal(far_open(&devices[r], devices, RANKS_MAX, 1, ahead, NULL), STATUS_OK);
    struct outcome_of_run out = run(&plan);
    for (int r = 0; r < RANKS_MAX; r++) far_close(&devices[r]);
    return out;
}

static void same_everything(const struct plan_of_run *plan, const char *what)
{
    struct outcome_of_run near = run(plan);
    for (int ahead = 0; ahead < 2; ahead++) {
        struct outcome_of_run far = run_far(*plan, ahead);
        expect_same(&near, &far, plan->steps, what);
        for (int tier = 0; tier < TIERS; tier++) {
            assert_int_equal(near.memory.tier[tier].live_bytes, far.memory.tier[tier].live_bytes);
            assert_true(far.memory.tier[tier].peak_bytes <= (uint64_t)far.footprint.peak_bytes[tier]);
        }
        assert_memory_equal(near.traffic, far.traffic, sizeof near.traffic);
    }
}

static void test_stages(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            struct plan_of_run plan = base(STEPS, "topology.ranks=4", stage_sets[stage], bf16);
            plan.evaluate = true;
            same_everything(&plan, stage_sets[stage]);
        }
}

static void test_offload(void **state)
{
    (void)state;
    static const char *const offload[][2] = {
        {"zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=none"},
        {"zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=cpu"},
        {"zero_optimization.offload_optimizer.device=nvme", "zero_optimization.offload_param.device=nvme"},
    };
    for (int d = 0; d < 3; d++) {
        struct plan_of_run plan = base(STEPS, "topology.ranks=2", stage_sets[3], true);
        set(&plan, offload[d][0]);
        set(&plan, offload[d][1]);
        set(&plan, "zero_optimization.offload_optimizer.nvme_path=/tmp");
        set(&plan, "zero_optimization.offload_param.nvme_path=/tmp");
        same_everything(&plan, offload[d][0]);
    }
}

static void test_switches(void **state)
{
    (void)state;
    struct plan_of_run plan = base(6, "topology.ranks=3", stage_sets[0], true);
    plan.switch_count = 5;
    for (int s = 0; s < 5; s++)
        plan.switches[s].before_step = 2 + s, plan.switches[s].stage = (int[]){3, 1, 2, 0, 3}[s];
    same_everything(&plan, "switching");
}

static void test_out_of_memory_and_back(void **state)
{
    (void)state;
    struct plan_of_run plan = base(STEPS, "topology.ranks=4", stage_sets[3], true);
    struct outcome_of_run reference = run_far(plan, true);
    plan = base(STEPS, "topology.ranks=4", stage_sets[0], true);
    plan.rescue_stage = 3;
    plan.budget_bytes = 16 * (uint64_t)reference.model_elems + 500000; /* the state fits, the step does not */
    struct outcome_of_run rescued = run_far(plan, true);
    assert_int_equal(rescued.shortages, 1);
    expect_same(&reference, &rescued, STEPS, "rescued in a step");
}

/* ---- a device that is full ---- */

static void states_away(struct config_zero *knobs)
{
    knobs->offload_param = OFFLOAD_NONE;
    knobs->offload_optimizer = OFFLOAD_CPU;
}

/* A switch between two layouts that are large in different categories: what leaves goes before what comes is committed. */
static void test_switch_on_a_full_device(void **state)
{
    (void)state;
    struct plan_of_run plan = base(4, "topology.ranks=1", stage_sets[3], true);
    plan.nano = true; /* many of the device's units */
    set(&plan, "zero_optimization.offload_param.device=cpu");
    set(&plan, "model.layers=24");
    set(&plan, "data.sequence_length=16");
    set(&plan, "train_micro_batch_size_per_gpu=1");
    struct outcome_of_run before = run_far(plan, false);
    plan.switches[0].before_step = 3;
    plan.switches[0].stage = 2;
    plan.switches[0].change = states_away;
    plan.switch_count = 1;
    struct outcome_of_run want = run_far(plan, false);
    const struct memory_snapshot *from = &before.memory, *to = &want.memory;
    const uint64_t peak = from->tier[TIER_DEVICE].peak_bytes;
    const uint64_t both =
        from->tier[TIER_DEVICE].live_bytes + to->category[TIER_DEVICE][CATEGORY_PARAMETERS].live_bytes;
    assert_true(to->tier[TIER_DEVICE].peak_bytes < peak && peak + 64 * FAR_UNIT_BYTES < both);
    far_room_bytes = (int64_t)(both - FAR_UNIT_BYTES); /* pages are not full */
    struct outcome_of_run got = run_far(plan, false);
    far_room_bytes = FAR_ROOM_BYTES;
    expect_same(&want, &got, 4, "a switch on a full device");
    assert_int_equal(got.memory.tier[TIER_HOST].live_bytes, to->tier[TIER_HOST].live_bytes); /* it was made */
}

static void foresee_on_full_device(struct zero *zero, int rank, int step)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    (void)rank;
    if (step != 2) return;
    memory_trim(zero->memory); /* what the first step left */
    far_room_bytes = 0;
    assert_false(zero_update_fits(zero, schedule));
    assert_string_equal(zero->step.update_failure.text, "the device is full");
    assert_true(zero->step.update_failure.op > schedule_agreement(schedule));
    far_room_bytes = FAR_ROOM_BYTES;
    assert_true(zero_update_fits(zero, schedule));
}

/* What an update needs is had before it begins. */
static void test_update_on_a_full_device(void **state)
{
    (void)state;
    struct plan_of_run plan = base(3, "topology.ranks=1", stage_sets[3], true);
    plan.nano = true;
    set(&plan, "zero_optimization.offload_param.device=cpu");
    plan.before_step = foresee_on_full_device;
    assert_int_equal(run_far(plan, false).shortages, 0);
}

/* Pages of a device come and go in its own units, and are counted so. */
static void test_pages(void **state)
{
    (void)state;
    struct memory_ranges ranges = {0};
    struct memory *memory;
    struct memory_snapshot now;
    ranges.bytes[TIER_DEVICE][CATEGORY_PARAMETERS] = ranges.bytes[TIER_DEVICE][CATEGORY_WORKSPACE] =
        10 * FAR_UNIT_BYTES;
    assert_int_equal(memory_create(&memory, &ranges, (uint64_t[TIERS]){0}, &far_pages, NULL), STATUS_OK);
    assert_int_equal(memory_symmetric(memory)->fd, -1);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_PARAMETERS, 64, 100, NULL), STATUS_OK);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_WORKSPACE, 0, FAR_UNIT_BYTES + 1, NULL), STATUS_OK);
    memory_snapshot(memory, &now);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, 3 * FAR_UNIT_BYTES);
    assert_int_equal(now.tier[TIER_DEVICE].live_bytes, 100 + FAR_UNIT_BYTES + 1);
    memory_give(memory, TIER_DEVICE, CATEGORY_WORKSPACE, 0, FAR_UNIT_BYTES + 1);
    memory_trim(memory);
    memory_snapshot(memory, &now);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, FAR_UNIT_BYTES);
    memory_destroy(memory);
}

/* Who reaches for the device's memory, and is neither a kernel nor a mover, dies of it. Without this the tests below show less. */
static void test_out_of_reach(void **state)
{
    (void)state;
    int status;
    if (!far_protect()) {
        print_message("no protection keys here: what reaches past the movers goes unnoticed\n");
        skip();
    }
    volatile unsigned char *base = far_reserve(NULL, FAR_UNIT_BYTES, NULL);
    assert_int_equal(far_commit(NULL, (unsigned char *)base, 0, FAR_UNIT_BYTES, NULL), STATUS_OK);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        base[0] = 1;
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    far_unreserve(NULL, (void *)base, FAR_UNIT_BYTES);
}

/* A driver that lets go of pinned memory only in the pieces that it was given, and one that refuses. */
struct driver {
    unsigned char *piece[64];
    uint64_t bytes[64];
    int pieces, pins_left;
    bool refuses_unpin, refuses_pages;
};

static int driver_pin(void *user, void *host, uint64_t bytes, struct error *err)
{
    struct driver *driver = user;
    if (driver->pins_left-- <= 0) return error_set(err, STATUS_RUN, "the driver will not");
    driver->piece[driver->pieces] = host;
    driver->bytes[driver->pieces++] = bytes;
    return STATUS_OK;
}

static bool driver_unpin(void *user, void *host, uint64_t bytes)
{
    struct driver *driver = user;
    if (driver->refuses_unpin) return false;
    for (int p = 0; p < driver->pieces; p++) {
        if (driver->piece[p] != host) continue;
        assert_int_equal(driver->bytes[p], bytes);
        driver->piece[p] = driver->piece[--driver->pieces];
        driver->bytes[p] = driver->bytes[driver->pieces];
        return true;
    }
    fail_msg("a piece that was never pinned");
    return false;
}

/* One unit of what it is asked for, where it refuses. */
static struct run driver_give_back(void *user, unsigned char *base, struct run idle, uint64_t wanted)
{
    const struct driver *driver = user;
    return far_give_back(user, base, idle, driver->refuses_pages ? FAR_UNIT_BYTES : wanted);
}

static struct memory *memory_over(struct pages *pages, uint64_t unit_bytes)
{
    struct memory_ranges ranges = {0};
    struct memory *memory;
    ranges.bytes[TIER_DEVICE][CATEGORY_WORKSPACE] = ranges.bytes[TIER_HOST][CATEGORY_OPTIMIZER] = 20 * unit_bytes;
    assert_int_equal(memory_create(&memory, &ranges, (uint64_t[TIERS]){0}, pages, NULL), STATUS_OK);
    memory_pin(memory, CATEGORY_OPTIMIZER, true);
    return memory;
}

static struct memory_snapshot counts(const struct memory *memory)
{
    struct memory_snapshot now;
    memory_snapshot(memory, &now);
    return now;
}

/* What is pinned is counted, goes by whole pieces and never while a part of one is live; what stays pinned stays counted. */
static void test_pinned_pieces(void **state)
{
    (void)state;
    const uint64_t unit = BLOCK_BYTES;
    struct driver driver = {.pins_left = 3};
    struct pages pages = far_pages;
    pages.user = &driver, pages.pin = driver_pin, pages.unpin = driver_unpin;
    struct memory *memory = memory_over(&pages, unit);
    struct error why;
    assert_int_equal(memory_take(memory, TIER_HOST, CATEGORY_OPTIMIZER, 0, 4096, NULL), STATUS_OK);
    assert_int_equal(memory_take(memory, TIER_HOST, CATEGORY_OPTIMIZER, 4096, unit, NULL), STATUS_OK);
    assert_int_equal(driver.pieces, 2);
    assert_int_equal(counts(memory).pinned_bytes[TIER_HOST], 2 * unit);
    assert_false(memory_pin_refused(memory, &why));
    memory_give(memory, TIER_HOST, CATEGORY_OPTIMIZER, 4096, unit);
    memory_trim(memory); /* the second piece is idle; half of the first is, and it stays whole */
    assert_int_equal(driver.pieces, 1);
    assert_int_equal(counts(memory).pinned_bytes[TIER_HOST], unit);
    assert_int_equal(counts(memory).tier[TIER_HOST].reserved_bytes, unit);
    assert_int_equal(memory_take(memory, TIER_HOST, CATEGORY_OPTIMIZER, 4 * unit, 2 * unit, NULL), STATUS_OK);
    assert_int_equal(driver.pieces, 2); /* the second of the two was refused */
    assert_int_equal(counts(memory).pinned_bytes[TIER_HOST], 2 * unit);
    assert_true(memory_pin_refused(memory, &why));
    assert_string_equal(why.text, "the driver will not; copies of the rest are slower");
    memory_give(memory, TIER_HOST, CATEGORY_OPTIMIZER, 4 * unit, 2 * unit);
    driver.refuses_unpin = true;
    memory_trim(memory);
    assert_int_equal(counts(memory).pinned_bytes[TIER_HOST], 2 * unit);
    assert_int_equal(counts(memory).tier[TIER_HOST].reserved_bytes, 3 * unit);
    driver.refuses_unpin = false;
    memory_destroy(memory); /* lets go of what is pinned before the addresses go */
    assert_int_equal(driver.pieces, 0);
}

/* Pages that a device does not take back are still there, and counted. */
static void test_refused_pages(void **state)
{
    (void)state;
    struct driver driver = {.refuses_pages = true};
    struct pages pages = far_pages;
    pages.user = &driver, pages.give_back = driver_give_back;
    struct memory *memory = memory_over(&pages, FAR_UNIT_BYTES);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_WORKSPACE, 0, 4 * FAR_UNIT_BYTES, NULL), STATUS_OK);
    memory_give(memory, TIER_DEVICE, CATEGORY_WORKSPACE, 0, 4 * FAR_UNIT_BYTES);
    memory_trim(memory);
    assert_int_equal(counts(memory).tier[TIER_DEVICE].reserved_bytes, 3 * FAR_UNIT_BYTES);
    driver.refuses_pages = false;
    memory_trim(memory);
    assert_int_equal(counts(memory).tier[TIER_DEVICE].reserved_bytes, 0);
    memory_destroy(memory);
}

static int pin_gladly(void *user, void *host, uint64_t bytes, struct error *err)
{
    (void)user, (void)host, (void)bytes, (void)err;
    return STATUS_OK;
}

static bool unpin_gladly(void *user, void *host, uint64_t bytes)
{
    (void)user, (void)host, (void)bytes;
    return true;
}

static uint64_t whole_bytes(const struct zero *zero, enum tier tier, uint64_t unit_bytes)
{
    uint64_t bytes = 0;
    for (int c = 0; c < CATEGORIES; c++)
        bytes += round_up(zero->plan.footprint.category[tier][c].extent_bytes, unit_bytes);
    return bytes;
}

/* Where memory is pinned in pieces, a step that runs ahead takes whole ones: a budget that holds just its pages is too small. */
static void test_budget_of_pieces(void **state)
{
    (void)state;
    static struct far_device far;
    struct pages pages = far_pages;
    struct plan_of_run plan = base(1, "topology.ranks=1", stage_sets[2], true);
    plan.nano = true;
    struct config config;
    struct comm_group *group;
    struct comm *comm;
    struct data *data;
    struct zero *zero;
    struct zero_shortage shortage;
    set(&plan, "zero_optimization.offload_optimizer.device=cpu");
    assert_int_equal(load_plan(&config, &plan, NULL), STATUS_OK);
    assert_int_equal(data_open(&data, &config, NULL), STATUS_OK);
    assert_int_equal(comm_group_create(&group, 1, 0, NULL), STATUS_OK);
    assert_int_equal(comm_open_thread(&comm, group, 0, NULL), STATUS_OK);
    assert_int_equal(far_open(&far, &far, 1, 1, true, NULL), STATUS_OK);
    pages.pin = pin_gladly, pages.unpin = unpin_gladly;
    far.device.pages = &pages;
    const struct zero_options options = {.config = &config, .comm = comm, .data = data, .device = &far.device};
    assert_int_equal(zero_open(&zero, &options, &shortage, NULL), STATUS_OK);
    const uint64_t of_pages = whole_bytes(zero, TIER_HOST, PAGE_BYTES),
                   of_pieces = zero->plan.whole_bytes[0][TIER_HOST];
    assert_true(of_pieces >= whole_bytes(zero, TIER_HOST, BLOCK_BYTES) && of_pages + BLOCK_BYTES < of_pieces);
    assert_int_equal(zero->plan.whole_bytes[0][TIER_DEVICE], whole_bytes(zero, TIER_DEVICE, FAR_UNIT_BYTES));
    assert_int_equal(zero_set_budget(zero, TIER_HOST, of_pieces - PAGE_BYTES, NULL), STATUS_OK);
    assert_false(zero_runs_ahead(zero, PURPOSE_TRAIN));
    assert_int_equal(zero_set_budget(zero, TIER_HOST, of_pieces, NULL), STATUS_OK);
    assert_true(zero_runs_ahead(zero, PURPOSE_TRAIN));
    comm_close(comm);
    zero_close(zero);
    far_close(&far);
    comm_group_free(group);
    data_close(data);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_reach), /* first: it puts the device out of reach */
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_pinned_pieces),
        cmocka_unit_test(test_refused_pages),
        cmocka_unit_test(test_budget_of_pieces),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_out_of_memory_and_back),
        cmocka_unit_test(test_switch_on_a_full_device),
        cmocka_unit_test(test_update_on_a_full_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
