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

#include "tests/far_device.h"
#include "tests/zero_runs.h"

enum { STEPS = 6 };

static struct far_device devices[RANKS_MAX];

static const struct zero_device *device_of(int rank)
{
    return &devices[rank].device;
}

static struct outcome_of_run run_far(struct plan_of_run plan)
{
    plan.device = device_of;
    for (int r = 0; r < RANKS_MAX; r++) assert_int_equal(far_open(&devices[r], 1, NULL), STATUS_OK);
    struct outcome_of_run out = run(&plan);
    for (int r = 0; r < RANKS_MAX; r++) far_close(&devices[r]);
    return out;
}

static void same_everything(const struct plan_of_run *plan, const char *what)
{
    struct outcome_of_run near = run(plan), far = run_far(*plan);
    expect_same(&near, &far, STEPS, what);
    for (int tier = 0; tier < TIERS; tier++) {
        assert_int_equal(near.memory.tier[tier].live_bytes, far.memory.tier[tier].live_bytes);
        assert_true(far.memory.tier[tier].peak_bytes <= (uint64_t)far.footprint.peak_bytes[tier]);
    }
    assert_memory_equal(near.traffic, far.traffic, sizeof near.traffic);
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
    struct plan_of_run plan = base(STEPS, "topology.ranks=3", stage_sets[0], true);
    plan.switch_count = 5;
    for (int s = 0; s < 5; s++)
        plan.switches[s].before_step = 2 + s, plan.switches[s].stage = (int[]){3, 1, 2, 0, 3}[s];
    same_everything(&plan, "switching");
}

static void test_out_of_memory_and_back(void **state)
{
    (void)state;
    struct plan_of_run plan = base(STEPS, "topology.ranks=4", stage_sets[3], true);
    struct outcome_of_run reference = run_far(plan);
    plan = base(STEPS, "topology.ranks=4", stage_sets[0], true);
    plan.rescue_stage = 3;
    plan.budget_bytes = 16 * (uint64_t)reference.model_elems + 500000; /* the state fits, the step does not */
    struct outcome_of_run rescued = run_far(plan);
    assert_int_equal(rescued.shortages, 1);
    expect_same(&reference, &rescued, STEPS, "rescued in a step");
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
    assert_int_equal(memory_symmetric_fd(memory), -1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_reach), /* first: it puts the device out of reach */
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_offload),
        cmocka_unit_test(test_out_of_memory_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
