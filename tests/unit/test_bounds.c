/* Sizes that are too large for 64 bits are refused by the name of their key; what is accepted is planned without a wrap. */
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

#include "engine/config/config.h"
#include "engine/config/keys.h"
#include "engine/plan/footprint.h"
#include "engine/plan/setup.h"

enum { SETS_MAX = 12 };

/* Sets that end with NULL, over a file that gives a micro-batch and no sizes. */
static int load(struct config *config, const char *const *sets, struct error *err)
{
    int count = 0;
    while (sets[count]) count++;
    return config_load_text(config, "{\"train_micro_batch_size_per_gpu\": 4}", sets, count, err);
}

/* ---- what is accepted ---- */

/* Every figure that is printed of a plan. */
static void assert_no_figure_wraps(const struct setup *setup, const struct config *config, const char *what)
{
    struct flops flops;
    bool good = setup->model.elems > 0;
    flops_of(&flops, &setup->schedule, &setup->model);
    good &= flops.forward > 0 && flops.backward > flops.forward && flops.recomputed >= 0;
    for (int tier = 0; tier < TIERS; tier++) {
        good &= setup->footprint.peak_bytes[tier] >= 0;
        for (int c = 0; c < CATEGORIES; c++) good &= setup->footprint.category[tier][c].peak_bytes >= 0;
    }
    for (int rank = 0; rank < config->topology.ranks; rank += 1 + rank / 8) good &= setup_sent_bytes(setup, rank) >= 0;
    for (int i = 0; i < setup->schedule.op_count; i++)
        good &= setup->schedule.ops[i].bytes >= 0 && setup->schedule.ops[i].sent_bytes >= 0;
    if (!good) fail_msg("%s: a figure of the plan has wrapped", what);
}

static void assert_one_line_of_usage(int status, const struct error *err, const char *what)
{
    if (status != STATUS_USAGE || err->status != status || !err->text[0] || strchr(err->text, '\n'))
        fail_msg("%s: status %d, \"%s\"", what, status, err->text);
}

/* Plans, or refuses as a wrong configuration; never anything else. */
static void plan_or_refuse(const struct config *config, const char *what)
{
    struct setup setup;
    struct error err = {.text = ""};
    const int status = setup_init(&setup, config, &err);
    if (status) return assert_one_line_of_usage(status, &err, what);
    assert_no_figure_wraps(&setup, config, what);
    setup_release(&setup);
}

/* ---- one size at a time ---- */

static bool is_size(const struct config_key *key)
{
    return key->class == CLASS_HONOURED &&
           (key->type == KEY_INT || key->type == KEY_INT64 || key->type == KEY_UINT64 || key->type == KEY_BYTES);
}

/* Keys of 64 bits are limits, seeds and numbers of steps: so large a number means "no limit" there. */
static bool may_mean_all(const struct config_key *key)
{
    return key->type != KEY_INT;
}

static void test_every_size_key(void **state)
{
    (void)state;
    static const char *const values[] = {"2147483647",          "2147483648",           "1099511627776", "1e18",
                                         "9223372036854775807", "18446744073709551615", "1e30",          "-1",
                                         "-9223372036854775808"};
    for (int k = 0; k < config_key_count; k++) {
        for (size_t v = 0; is_size(&config_keys[k]) && v < sizeof values / sizeof *values; v++) {
            struct config config;
            struct error err = {.text = ""};
            char set[160];
            snprintf(set, sizeof set, "%s=%s", config_keys[k].path, values[v]);
            const int status = load(&config, (const char *const[]){set, NULL}, &err);
            const bool keyed = strstr(err.text, config_keys[k].path) != NULL;
            if (status) {
                assert_one_line_of_usage(status, &err, set);
                /* optimizer and scheduler keys may be of a kind that is not in force */
                if (!keyed) fail_msg("%s: \"%s\" does not name the key", set, err.text);
                continue;
            }
            if (!may_mean_all(&config_keys[k]) && atof(values[v]) > 1e9 &&
                strncmp(config_keys[k].path, "optimizer.", 10) && strncmp(config_keys[k].path, "scheduler.", 10))
                fail_msg("%s is accepted", set);
            plan_or_refuse(&config, set);
            config_release(&config);
        }
    }
}

/* ---- products ---- */

/* Each size is within its range; the keys that must be named are the first ones. */
static void test_products(void **state)
{
    (void)state;
    static const struct {
        const char *sets[SETS_MAX], *names[4];
    } cases[] = {
        {{"train_micro_batch_size_per_gpu=1000000", "model.context=1048576", "data.sequence_length=1048576"},
         {"train_batch_size", "data.sequence_length"}},
        {{"gradient_accumulation_steps=250000", "data.sequence_length=1048576", "model.context=1048576"},
         {"train_batch_size", "data.sequence_length"}},
        {{"model.layers=8192", "model.mlp_tiles=64", "model.ffn=1024"}, {"model.layers", "model.mlp_tiles"}},
        {{"train_micro_batch_size_per_gpu=500", "model.context=1048576", "data.sequence_length=1048576",
          "model.layers=1000", "model.hidden=65536", "topology.ranks=4"},
         {"model.layers", "model.hidden"}},
        {{"train_micro_batch_size_per_gpu=500", "model.context=1048576", "data.sequence_length=1048576",
          "model.layers=1000", "model.hidden=1024", "model.heads=1024", "topology.ranks=4"},
         {"model.heads", "data.sequence_length"}},
        {{"model.layers=1000", "model.hidden=65536", "topology.ranks=64", "train_micro_batch_size_per_gpu=1",
          "gradient_accumulation_steps=100", "data.sequence_length=1"},
         {"topology.ranks", "gradient_accumulation_steps"}},
        {{"gradient_accumulation_steps=1000000", "data.sequence_length=64", "model.layers=2"},
         {"gradient_accumulation_steps"}},
        {{"schedule.update_tile=1", "model.hidden=8192", "zero_optimization.stage=2",
          "zero_optimization.offload_optimizer.device=cpu"},
         {"schedule.update_tile"}},
        {{"zero_optimization.sub_group_size=1", "model.hidden=8192", "zero_optimization.stage=3"},
         {"zero_optimization.sub_group_size"}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct config config;
        struct setup setup;
        struct error err = {.text = ""};
        int status = load(&config, cases[c].sets, &err);
        if (!status) {
            status = setup_init(&setup, &config, &err);
            if (!status) setup_release(&setup);
            config_release(&config);
        }
        assert_one_line_of_usage(status, &err, cases[c].sets[0]);
        for (int n = 0; n < 4 && cases[c].names[n]; n++)
            if (!strstr(err.text, cases[c].names[n])) fail_msg("\"%s\" lacks %s", err.text, cases[c].names[n]);
    }
}

/* Any few sizes, each of any magnitude within its range. */
static void test_random_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int bits; /* of its largest value */
    } sizes[] = {
        {"train_micro_batch_size_per_gpu", 19},
        {"gradient_accumulation_steps", 10},
        {"model.layers", 12},
        {"model.hidden", 19},
        {"model.context", 29},
        {"model.ffn", 23},
        {"data.sequence_length", 29},
        {"model.vocabulary", 23},
        {"model.mlp_tiles", 4},
        {"topology.ranks", 15},
        {"zero_optimization.stage", 1},
        {"zero_optimization.reduce_bucket_size", 62},
        {"zero_optimization.stage3_prefetch_bucket_size", 62},
        {"zero_optimization.stage3_max_live_parameters", 62},
        {"zero_optimization.stage3_max_reuse_distance", 62},
        {"zero_optimization.stage3_param_persistence_threshold", 62},
        {"zero_optimization.sub_group_size", 62},
        {"model.checkpoint_every", 9},
        {"schedule.keep_last_units", 9},
    };
    enum { SIZES = sizeof sizes / sizeof *sizes, SETS = 5, SEEDS = 400 };
    const char *seeds = getenv("SEEDS");
    uint64_t random = 1;
    for (int seed = 0; seed < (seeds ? atoi(seeds) : SEEDS); seed++) {
        char set[SETS][96], what[SETS * 100] = "";
        const char *sets[SETS + 1] = {0};
        for (int s = 0; s < SETS; s++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const int size = (int)((random >> 40) % SIZES), bits = 1 + (int)((random >> 33) % (unsigned)sizes[size].bits);
            snprintf(set[s], sizeof set[s], "%s=%llu", sizes[size].key,
                     (unsigned long long)((uint64_t)1 << bits) - (random >> 20 & 1));
            strcat(strcat(what, set[s]), " ");
            sets[s] = set[s];
        }
        struct config config;
        struct error err = {.text = ""};
        const int status = load(&config, sets, &err);
        if (status) {
            assert_one_line_of_usage(status, &err, what);
            continue;
        }
        if ((int64_t)config.model.layers * config.mlp_tiles * config.accumulation_steps < 3000)
            plan_or_refuse(&config, what);
        config_release(&config);
    }
}

/* ---- what is large and right ---- */

/* 1e12 parameters in one batch of 6,291,456 tokens (Narayanan et al. 2021, table 1), which once came out negative. */
static void test_flops_of_a_trillion_parameters(void **state)
{
    (void)state;
    const char *const sets[] = {"model.layers=128",     "model.hidden=25600",        "model.heads=160",
                                "model.vocabulary=51200", "model.context=2048",      "data.sequence_length=2048",
                                "topology.ranks=1",     "model.recompute=full",      "train_micro_batch_size_per_gpu=3072",
                                NULL};
    struct config config;
    struct setup setup;
    struct flops flops;
    struct error err;
    assert_int_equal(load(&config, sets, &err), STATUS_OK);
    assert_int_equal(setup_init(&setup, &config, &err), STATUS_OK);
    flops_of(&flops, &setup.schedule, &setup.model);
    const long double N = 3072.0L * 2048, C = 25600, L = 128, V = 51200, scores = N * 2049 * C,
                      block = 24 * N * C * C + 2 * scores, last = 8 * N * C * C;
    assert_true(fabsl(flops.forward / (L * block + 2 * N * V * C) - 1) < 1e-12L);
    assert_true(fabsl(flops.backward / (L * (48 * N * C * C + 5 * scores) + 4 * N * V * C) - 1) < 1e-12L);
    assert_true(fabsl(flops.recomputed / (L * (block - last)) - 1) < 1e-12L);
    assert_no_figure_wraps(&setup, &config, "1e12 parameters");
    setup_release(&setup);
    config_release(&config);
}

/* One bucket that more units end in than an operation once had room for. */
static void test_a_bucket_of_more_than_a_thousand_units(void **state)
{
    (void)state;
    const char *const sets[] = {"model.layers=520", "model.mlp_tiles=2", "model.hidden=16", "model.heads=1",
                                "zero_optimization.stage=2", "zero_optimization.reduce_bucket_size=1e18", NULL};
    struct config config;
    struct setup setup;
    struct error err = {.text = ""};
    assert_int_equal(load(&config, sets, &err), STATUS_OK);
    if (setup_init(&setup, &config, &err)) fail_msg("%s", err.text);
    setup_release(&setup);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size_key),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_random_sizes),
        cmocka_unit_test(test_flops_of_a_trillion_parameters),
        cmocka_unit_test(test_a_bucket_of_more_than_a_thousand_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
