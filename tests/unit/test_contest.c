/* The best of all setups: what is tried, what fits, and how long a step takes by pace alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/lab/expression.h"
#include "engine/plan/footprint.h"
#include "engine/simulate/simulate.h"

static void load(struct config *config, struct setup *setup, const char *const *sets, int count)
{
    struct error err;
    if (config_load(config, "configs/nano.json", sets, count, &err) || setup_init(setup, config, &err)) fail_msg("%s", err.text);
}

static double paced(const char *const *sets, int count)
{
    struct config config;
    struct setup setup;
    load(&config, &setup, sets, count);
    double seconds = paced_seconds(&setup, &config);
    setup_release(&setup);
    config_release(&config);
    return seconds;
}

/* Operations in turns: of each the rank that takes longest, over the slower of its links, at so many bytes a second each; 0: not paced. */
static double busiest(const char *const *sets, int count, const double pace[LINKS])
{
    struct config config;
    struct setup setup;
    double sum = 0;
    load(&config, &setup, sets, count);
    for (int o = 0; o < setup.schedule.op_count; o++) {
        double longest = 0;
        for (int rank = 0; rank < setup.schedule.ranks; rank++) {
            int64_t bytes[LINKS];
            op_link_bytes(bytes, &setup.schedule, &setup.model, &setup.schedule.ops[o], rank, config.topology.ranks_per_node);
            for (int link = 0; link < LINKS; link++)
                if (pace[link] > 0) longest = fmax(longest, (double)bytes[link] / pace[link]);
        }
        sum += longest;
    }
    setup_release(&setup);
    config_release(&config);
    return sum;
}

static void without_pace_a_step_takes_no_time(void **state)
{
    (void)state;
    assert_true(paced(NULL, 0) == 0);
}

/* Stage 0 without overlap: compute, all-reduces and nothing beside each other. */
static void what_takes_turns_adds_up(void **state)
{
    (void)state;
    const char *both[] = {"topology.links.intra.bandwidth=10MB", "topology.device_flops=1e9"};
    const double link = paced(both, 1), device = paced(both + 1, 1), all = paced(both, 2);
    const double mean = 2 * 834304 * 4 * 0.75 / 1e7;
    assert_true(link > mean && link < 1.1 * mean); /* the rank that sends most of a bucket decides */
    assert_float_equal(link, busiest(both, 1, (const double[LINKS]){[LINK_INTRA] = 1e7}), 1e-9);
    assert_float_equal(all, link + device, 1e-9);
}

static void what_overlaps_takes_the_longer_of_both_at_least(void **state)
{
    (void)state;
    const char *sets[] = {"topology.links.intra.bandwidth=10MB", "topology.device_flops=1e9",
                          "zero_optimization.stage=3", "zero_optimization.stage3_prefetch_bucket_size=0"};
    const double apart = paced(sets, 4), ahead = paced(sets, 3), link = paced((const char *[]){sets[0], sets[2]}, 2),
                 device = paced((const char *[]){sets[1], sets[2]}, 2);
    assert_true(ahead < apart);
    assert_true(ahead >= fmax(link, device) - 1e-9);
    assert_true(apart <= link + device + 1e-9);
}

/* Two nodes of two: of the three others that a rank sends to, one is in its node and two are beyond. */
static void nodes_share_the_bytes(void **state)
{
    (void)state;
    const char *sets[] = {"topology.ranks_per_node=2", "topology.links.inter.bandwidth=10MB",
                          "topology.links.intra.bandwidth=10MB"};
    const double both[LINKS] = {[LINK_INTRA] = 1e7, [LINK_INTER] = 1e7}, fast[LINKS] = {[LINK_INTRA] = 1e7, [LINK_INTER] = 1e8};
    int64_t near = 0, far = 0;
    struct config config;
    struct setup setup;
    load(&config, &setup, sets, 1);
    for (int n = 0; n < setup.schedule.op_count * setup.schedule.ranks; n++) {
        int64_t bytes[LINKS];
        op_link_bytes(bytes, &setup.schedule, &setup.model, &setup.schedule.ops[n / 4], n % 4, 2);
        near += bytes[LINK_INTRA], far += bytes[LINK_INTER];
    }
    setup_release(&setup);
    config_release(&config);
    assert_true(near > 0 && far == 2 * near);
    assert_float_equal(paced(sets, 3), busiest(sets, 3, both), 1e-9);
    assert_true(paced(sets, 2) <= paced(sets, 3) && paced(sets, 3) < paced(sets + 2, 1));
    sets[1] = "topology.links.inter.bandwidth=100MB";
    assert_float_equal(paced(sets, 3), busiest(sets, 3, fast), 1e-9);
}

static void slow_motion_stretches_it(void **state)
{
    (void)state;
    const char *sets[] = {"topology.links.intra.bandwidth=10MB", "topology.slow_motion=4"};
    assert_float_equal(paced(sets, 2), 4 * paced(sets, 1), 1e-9);
    assert_true(paced((const char *[]){"topology.slow_motion=10"}, 1) > 1); /* a tenth of a second an operation */
}

static const struct text_list given = {4,
                                       {"bf16.enabled=true", "topology.links.intra.bandwidth=10MB",
                                        "memory.device_budget=7MB", "train_micro_batch_size_per_gpu=1"}};
static const struct lab_tries tries = {
    3,
    {{"stage", 4, {"0", "1", "2", "3"}}, {"offload", 2, {"none", "cpu"}}, {"bucket", 3, {"49568", "198272", "5e8"}}}};

static void the_best_is_the_least_of_those_that_fit(void **state)
{
    (void)state;
    struct contest contest;
    contest_hold(&contest, &tries, &given);
    assert_int_equal(contest.tried, 4 * 2 * 3 - 3); /* stage 0 has nothing to offload */
    int fitting = 0;
    double least = INFINITY;
    for (int s = 0; s < 4; s++)
        for (int o = 0; o < (s ? 2 : 1); o++)
            for (int b = 0; b < 3; b++) {
                char stage[64], offload[80], bucket[80];
                snprintf(stage, sizeof stage, "zero_optimization.stage=%d", s);
                snprintf(offload, sizeof offload, "zero_optimization.offload_optimizer.device=%s", o ? "cpu" : "none");
                snprintf(bucket, sizeof bucket, "zero_optimization.reduce_bucket_size=%s", tries.at[2].values[b]);
                const char *sets[] = {given.at[0], given.at[1], given.at[2], given.at[3], stage, offload, bucket};
                struct config config;
                struct setup setup;
                struct error err;
                if (config_load(&config, "configs/nano.json", sets, 7, &err) || setup_init(&setup, &config, &err))
                    fail_msg("%s", err.text);
                if (setup.footprint.peak_bytes[TIER_DEVICE] <= 7000000) {
                    fitting++;
                    least = fmin(least, paced_seconds(&setup, &config));
                }
                setup_release(&setup);
                config_release(&config);
            }
    assert_true(fitting > 0 && fitting < contest.tried);
    assert_int_equal(contest.fitting, fitting);
    assert_float_equal(contest.best_s, least, 1e-12);
}

static void nothing_is_made_up_where_nothing_fits(void **state)
{
    (void)state;
    const struct text_list sets = {4, {given.at[0], given.at[1], "memory.device_budget=1MB", given.at[3]}};
    struct contest contest;
    contest_hold(&contest, &tries, &sets);
    assert_true(contest.tried > 0);
    assert_int_equal(contest.fitting, 0);
    contest_hold(&contest, NULL, &sets);
    assert_int_equal(contest.tried, 0);
}

static void impossible_values_are_refused(void **state)
{
    (void)state;
    struct error err;
    assert_int_equal(contest_check(&tries, &given, &err), STATUS_OK);
    const struct lab_tries wrong = {1, {{"stage", 2, {"1", "4"}}}};
    assert_int_equal(contest_check(&wrong, &given, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "stage=4"));
    struct lab_tries many = {8, {{0}}};
    for (int t = 0; t < 8; t++) many.at[t] = (struct lab_try){"prefetch", 3, {"0", "1", "2"}};
    assert_int_equal(contest_check(&many, &given, &err), STATUS_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_pace_a_step_takes_no_time),
        cmocka_unit_test(what_takes_turns_adds_up),
        cmocka_unit_test(what_overlaps_takes_the_longer_of_both_at_least),
        cmocka_unit_test(nodes_share_the_bytes),
        cmocka_unit_test(slow_motion_stretches_it),
        cmocka_unit_test(the_best_is_the_least_of_those_that_fit),
        cmocka_unit_test(nothing_is_made_up_where_nothing_fits),
        cmocka_unit_test(impossible_values_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
