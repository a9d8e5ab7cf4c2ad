/* The five schedules, 10,000 steps each, against DeepSpeed's own classes (runtime/lr_schedules.py of 0.19.8 with PyTorch's
 * AdamW at lr 2e-3): every value to ten digits by a checksum of their printed text, and samples in full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/optim/learning_rate.h"

enum { STEPS = 10000, SAMPLES = 6 };

/* FNV-1a over "%.9e %.9e\n" of learning rate and first beta, step by step; {step from 0, learning rate, first beta}. */
static const struct {
    const char *type, *params;
    uint64_t checksum;
    struct {
        int step;
        double rate, beta1;
    } sample[SAMPLES];
} schedules[] = {
    {"WarmupLR",
     "warmup_min_lr=1e-5 warmup_max_lr=3e-3 warmup_num_steps=1000",
     0x7565179d5e6f1172,
     {{0, 1e-05, 0.9},
      {1, 1e-05, 0.9},
      {2, 0.0003100265623451013, 0.9},
      {500, 0.002699973437654899, 0.9},
      {4000, 0.003, 0.9},
      {9999, 0.003, 0.9}}},
    {"WarmupLR",
     "warmup_num_steps=777 warmup_type=linear",
     0x39b659653b5d2a69,
     {{0, 0.0, 0.9},
      {1, 0.0, 0.9},
      {2, 2.5740025740025738e-06, 0.9},
      {500, 0.0012844272844272843, 0.9},
      {4000, 0.002, 0.9},
      {9999, 0.002, 0.9}}},
    {"WarmupDecayLR",
     "total_num_steps=9000 warmup_min_lr=1e-6 warmup_max_lr=2e-4 warmup_num_steps=500",
     0xbc4d850778d9ba61,
     {{0, 1e-06, 0.9},
      {1, 1e-06, 0.9},
      {2, 2.3195492740153537e-05, 0.9},
      {500, 0.0002, 0.9},
      {4000, 0.00011808223529411766, 0.9},
      {9999, 1e-06, 0.9}}},
    {"WarmupDecayLR",
     "total_num_steps=9000 warmup_num_steps=1 warmup_type=linear",
     0xd151cd1527f0f5db,
     {{0, 0.0, 0.9},
      {1, 0.0, 0.9},
      {2, 0.0005, 0.9},
      {500, 0.0009447655034452101, 0.9},
      {4000, 0.0005557901755945765, 0.9},
      {9999, 0.0, 0.9}}},
    {"WarmupCosineLR",
     "total_num_steps=9500 warmup_min_ratio=0.1 warmup_num_steps=300 cos_min_ratio=0.01",
     0x32ad5ff496765f34,
     {{0, 0.0, 0.9},
      {1, 0.0002, 0.9},
      {2, 0.0004187434269367198, 0.9},
      {500, 0.001997692081498634, 0.9},
      {4000, 0.001309489405372265, 0.9},
      {9999, 2e-05, 0.9}}},
    {"WarmupCosineLR",
     "total_num_steps=7001 warmup_num_steps=1000 warmup_type=linear",
     0x28269e334483556a,
     {{0, 0.0, 0.9},
      {1, 0.0, 0.9},
      {2, 2e-06, 0.9},
      {500, 0.000998, 0.9},
      {4000, 0.0010003617295832742, 0.9},
      {9999, 2.0000000000000002e-07, 0.9}}},
    {"OneCycle",
     "cycle_min_lr=1e-4 cycle_max_lr=1e-2 decay_lr_rate=0.25 cycle_first_step_size=1500 cycle_second_step_size=2500 "
     "decay_step_size=300 decay_mom_rate=0.001",
     0x55a982d569acdc9c,
     {{0, 0.0001, 0.8},
      {1, 0.00010660000000000221, 0.8999333333333334},
      {2, 0.00011319999999999855, 0.8998666666666667},
      {500, 0.0034, 0.8666666666666667},
      {4000, 0.0001, 0.9},
      {9999, 1.66689818030282e-05, 0.9179970000000001}}},
    {"OneCycle",
     "cycle_min_lr=1e-4 cycle_max_lr=1e-2 cycle_first_stair_count=7 cycle_second_stair_count=3 cycle_min_mom=0.85 "
     "cycle_max_mom=0.95",
     0x23be41a86f886ef0,
     {{0, 0.0001, 0.85},
      {1, 0.0001, 0.95},
      {2, 0.0001, 0.95},
      {500, 0.0015142857142857143, 0.9357142857142857},
      {4000, 0.0001, 0.95},
      {9999, 0.0001, 0.95}}},
    {"LRRangeTest",
     "lr_range_test_min_lr=1e-4 lr_range_test_step_size=300 lr_range_test_step_rate=1.7",
     0xbab328a71f7bbfd2,
     {{0, 0.0001, 0.9},
      {1, 0.00010056666666666668, 0.9},
      {2, 0.00010113333333333334, 0.9},
      {500, 0.00038333333333333334, 0.9},
      {4000, 0.002366666666666667, 0.9},
      {9999, 0.0057661, 0.9}}},
    {"LRRangeTest",
     "lr_range_test_staircase=true lr_range_test_step_size=500",
     0x1c17d63493f89add,
     {{0, 0.001, 0.9},
      {1, 0.001, 0.9},
      {2, 0.001, 0.9},
      {500, 0.002, 0.9},
      {4000, 0.009000000000000001, 0.9},
      {9999, 0.02, 0.9}}},
};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static struct config config_with(const char *type, const char *params)
{
    char text[16][96] = {"optimizer.params.lr=2e-3"}, list[512];
    const char *sets[16] = {text[0], text[1]};
    int count = 2;
    struct config config;
    struct error err;
    snprintf(text[1], sizeof text[1], "scheduler.type=%s", type);
    snprintf(list, sizeof list, "%s", params);
    for (char *word = strtok(list, " "); word; word = strtok(NULL, " "), count++) {
        snprintf(text[count], sizeof text[count], "scheduler.params.%s", word);
        sets[count] = text[count];
    }
    if (config_load(&config, "configs/nano.json", sets, count, &err)) fail_msg("%s", err.text);
    return config;
}

static bool near(double found, double expected)
{
    return fabs(found - expected) <= 4e-16 * fabs(expected);
}

static void ten_thousand_steps_are_deepspeeds(void **state)
{
    (void)state;
    for (int s = 0; s < SCHEDULES; s++) {
        struct config config = config_with(schedules[s].type, schedules[s].params);
        uint64_t checksum = 0xcbf29ce484222325u;
        for (int step = 0; step < STEPS; step++) {
            char text[64];
            const struct learning_rate now = learning_rate_at(&config, step);
            snprintf(text, sizeof text, "%.9e %.9e\n", now.rate, now.beta1);
            for (const char *c = text; *c; c++) checksum = (checksum ^ (uint8_t)*c) * 0x100000001b3u;
            for (int i = 0; i < SAMPLES; i++)
                if (schedules[s].sample[i].step == step &&
                    (!near(now.rate, schedules[s].sample[i].rate) || !near(now.beta1, schedules[s].sample[i].beta1)))
                    fail_msg("%s %s, step %d: %.17g and %.17g, not %.17g and %.17g", schedules[s].type,
                             schedules[s].params, step, now.rate, now.beta1, schedules[s].sample[i].rate,
                             schedules[s].sample[i].beta1);
        }
        if (checksum != schedules[s].checksum)
            fail_msg("%s %s: another value somewhere", schedules[s].type, schedules[s].params);
        config_release(&config);
    }
}

static void only_optimizers_with_betas_cycle_them(void **state)
{
    (void)state;
    struct config config = config_with("OneCycle", "cycle_min_lr=1 cycle_max_lr=2");
    assert_true(learning_rate_at(&config, 1).beta2 == 0.99);
    config.optimizer.rule = OPTIMIZER_MOMENTUM;
    assert_true(learning_rate_at(&config, 1).beta2 == config.optimizer.beta2);
    config.optimizer.rule = OPTIMIZER_ADAM;
    config.scheduler.cycle_momentum = false;
    assert_true(learning_rate_at(&config, 1).beta2 == config.optimizer.beta2);
    config_release(&config);
}

static void without_a_scheduler_it_is_constant(void **state)
{
    (void)state;
    struct config config = config_with("", "");
    assert_true(learning_rate_at(&config, 0).rate == 2e-3 && learning_rate_at(&config, 12345).rate == 2e-3);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_steps_are_deepspeeds),
        cmocka_unit_test(only_optimizers_with_betas_cycle_them),
        cmocka_unit_test(without_a_scheduler_it_is_constant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
