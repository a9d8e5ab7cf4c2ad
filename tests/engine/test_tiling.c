/* Memory-centric tiling: a model whose MLPs are cut into units of their own is the same model. Its elements and their first values
 * are; at every stage, in every tier and however it is recomputed it gives the same bits; it needs less working memory, as planned;
 * and a state that is kept in some tiles is read in any. Ranks are threads. */
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

#include "engine/base/rng.h"
#include "engine/checkpoint/retile.h"
#include "engine/plan/checker.h"
#include "engine/plan/setup.h"
#include "engine/zero/internal.h"
#include "tests/support/zero_runs.h"

static const struct config_model small = {"custom", 2, 24, 3, 20, 61, .kind = KIND_GPT2};
static const int tilings[] = {1, 2, 3, 4, 8, 96};
enum { TILINGS = sizeof tilings / sizeof *tilings };

static struct model small_model(int tiles)
{
    struct model model;
    struct error err;
    assert_int_equal(model_init_tiled(&model, &small, tiles, DTYPE_F32, &err), STATUS_OK);
    return model;
}

/* ---- the model ---- */

static void every_element_is_in_one_tile(void **state)
{
    (void)state;
    for (int t = 0; t < TILINGS; t++) {
        struct model model = small_model(tilings[t]);
        bool *seen = calloc((size_t)model.elems, sizeof *seen);
        int64_t whole, run, found = 0;
        for (int u = 0; u < model.unit_count; u++)
            for (int i = 0; i < model.units[u].tensor_count; i++) {
                const struct tensor *tensor = &model.units[u].tensors[i];
                for (int64_t e = 0; e < tensor->elems; e += run, found += run) {
                    run = tensor_run(tensor, e, tensor->elems - e, &whole);
                    for (int64_t n = tensor->canonical + whole; n < tensor->canonical + whole + run; n++) {
                        assert_true(n >= 0 && n < model.elems && !seen[n]);
                        seen[n] = true;
                    }
                }
            }
        assert_int_equal(found, model.elems);
        assert_int_equal(model.unit_count, tilings[t] == 1 ? 4 : 4 + 2 * tilings[t]);
        for (int b = 0; b < small.layers && tilings[t] > 1; b++) {
            assert_ptr_equal(model.units[model_block(&model, b)].use, &gpt2_uses[USE_BLOCK]);
            assert_int_equal(model.units[model_mlp(&model, b, tilings[t] - 1)].tile, tilings[t] - 1);
        }
        free(seen);
        model_release(&model);
    }
}

/* Numbers made of an element's place in the model: a state in which everybody can find out what he was given. */
static int read_numbers(void *user, int u, enum state_array array, int64_t first, int64_t elems, float *out,
                        struct error *err)
{
    const struct unit *unit = &((const struct model *)user)->units[u];
    (void)err;
    assert_true(first >= 0 && elems > 0 && first + elems <= unit->elems);
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t tensor_end = tensor->offset + tensor->elems,
                      end = first + elems < tensor_end ? first + elems : tensor_end;
        for (int64_t e = first > tensor->offset ? first : tensor->offset, whole; e < end; e++) {
            tensor_run(tensor, e - tensor->offset, 1, &whole);
            out[e - first] = (float)((tensor->canonical + whole) % 9973) + (float)array / 4;
        }
    }
    return STATUS_OK;
}

static void expect_numbers(struct state_source *source, struct model *model, int u, int64_t first, int64_t elems)
{
    float *got = malloc((size_t)elems * sizeof *got), *want = malloc((size_t)elems * sizeof *want);
    assert_int_equal(read_numbers(model, u, STATE_2, first, elems, want, NULL), STATUS_OK);
    assert_int_equal(source->read(source->user, u, STATE_2, first, elems, got, NULL), STATUS_OK);
    assert_memory_equal(got, want, (size_t)elems * sizeof *got);
    free(got), free(want);
}

static void any_tiles_are_read_from_any(void **state)
{
    (void)state;
    struct retile *retile = malloc(sizeof *retile);
    uint64_t draw = 0;
    for (int pair = 0; pair < TILINGS * TILINGS; pair++) {
        struct model kept = small_model(tilings[pair / TILINGS]), wanted = small_model(tilings[pair % TILINGS]);
        struct state_source source = {.user = &kept, .read = read_numbers};
        retile_source(retile, &source, &kept, &wanted);
        for (int u = 0; u < wanted.unit_count; u++) {
            const int64_t all = wanted.units[u].elems;
            expect_numbers(&source, &wanted, u, 0, all);
            for (int n = 0; n < 10; n++, draw += 2) {
                const int64_t first = (int64_t)(rng_u64(3, 1, draw) % (uint64_t)all);
                expect_numbers(&source, &wanted, u, first,
                               1 + (int64_t)(rng_u64(3, 1, draw + 1) % (uint64_t)(all - first)));
            }
        }
        model_release(&kept), model_release(&wanted);
    }
    free(retile);
}

/* Rows that are longer than the strip, on either side. */
static void wide_rows_are_read_one_by_one(void **state)
{
    (void)state;
    static const struct config_model wide = {"custom", 1, RETILE_STRIP_ELEMS / 4 + 8, 1, 4, 8, .kind = KIND_GPT2};
    struct retile *retile = malloc(sizeof *retile);
    struct model models[2];
    for (int m = 0; m < 2; m++)
        assert_int_equal(model_init_tiled(&models[m], &wide, m ? 4 : 1, DTYPE_F32, NULL), STATUS_OK);
    for (int m = 0; m < 2; m++) {
        struct state_source source = {.user = &models[m], .read = read_numbers};
        struct model *wanted = &models[1 - m];
        const int unit = m ? 1 : model_mlp(wanted, 0, 2);
        const struct tensor *proj = &wanted->units[unit].tensors[1];
        assert_int_equal(proj->id, TENSOR_FCPROJ_W);
        retile_source(retile, &source, &models[m], wanted);
        expect_numbers(&source, wanted, unit, proj->offset - 10000, 90000);
    }
    free(retile);
    model_release(&models[0]), model_release(&models[1]);
}

static void first_values_ignore_tiles(void **state)
{
    (void)state;
    struct model whole = small_model(1);
    float *values = malloc((size_t)whole.elems * sizeof *values), *part = malloc((size_t)whole.elems * sizeof *part);
    int64_t at = 0, place;
    for (int u = 0; u < whole.unit_count; at += whole.units[u++].elems)
        gpt_initial_values(&whole, u, 42, 0, whole.units[u].elems, values + at);
    for (int t = 1; t < TILINGS; t++) {
        struct model model = small_model(tilings[t]);
        for (int u = 0; u < model.unit_count; u++) {
            gpt_initial_values(&model, u, 42, 0, model.units[u].elems, part);
            for (int i = 0; i < model.units[u].tensor_count; i++) {
                const struct tensor *tensor = &model.units[u].tensors[i];
                for (int64_t e = 0; e < tensor->elems; e++) {
                    tensor_run(tensor, e, 1, &place);
                    assert_true(part[tensor->offset + e] == values[tensor->canonical + place]);
                }
            }
        }
        model_release(&model);
    }
    free(values), free(part);
    model_release(&whole);
}

/* ---- what a run computes ---- */

enum { STEPS = 3, EXTRAS = 8 };

static char folder_set[128];

static struct plan_of_run plan_of(const char *tiles, int stage, bool bf16, const char *const extras[EXTRAS])
{
    struct plan_of_run plan = base(STEPS, "topology.ranks=4", stage_sets[stage], bf16);
    set(&plan, tiles);
    for (int i = 0; i < EXTRAS && extras && extras[i]; i++) set(&plan, extras[i]);
    return plan;
}

static struct outcome_of_run outcome(const char *tiles, int stage, bool bf16, const char *const extras[EXTRAS])
{
    const struct plan_of_run plan = plan_of(tiles, stage, bf16, extras);
    return run(&plan);
}

static void stages_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const tiles[] = {"model.mlp_tiles=2", "model.mlp_tiles=4"};
    const struct outcome_of_run untiled = outcome("model.mlp_tiles=1", 0, false, NULL);
    for (int t = 0; t < 2; t++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            const struct outcome_of_run want = outcome(tiles[t], 0, bf16, NULL);
            for (int stage = 1; stage < 4; stage++) {
                const struct outcome_of_run got = outcome(tiles[t], stage, bf16, NULL);
                expect_same(&want, &got, STEPS, stage_sets[stage]);
            }
            for (int s = 0; s < STEPS && !bf16; s++)
                assert_true(fabsf(want.loss[s] - untiled.loss[s]) <= 1e-5f * untiled.loss[s]);
        }
}

#define OPTIMIZER(where) "zero_optimization.offload_optimizer.device=" where
#define PARAM(where)     "zero_optimization.offload_param.device=" where
static const struct {
    int stage;
    const char *sets[EXTRAS];
} tiers[] = {
    {1, {OPTIMIZER("cpu")}},
    {2, {OPTIMIZER("cpu"), "schedule.update_tile=5000"}},
    {3, {OPTIMIZER("cpu"), PARAM("cpu")}},
    {3, {PARAM("cpu"), "zero_optimization.sub_group_size=3000"}},
    {3, {OPTIMIZER("nvme"), folder_set, "zero_optimization.offload_optimizer.pipeline_read=true"}},
    {3, {OPTIMIZER("nvme"), PARAM("nvme"), folder_set, "zero_optimization.offload_param.max_in_cpu=0"}},
    {3, {OPTIMIZER("cpu"), "zero_optimization.offload_optimizer.ratio=0.5", PARAM("nvme"), folder_set}},
};

static void tiers_give_the_same_bits(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct outcome_of_run want = outcome("model.mlp_tiles=4", 0, bf16, NULL);
        for (size_t t = 0; t < sizeof tiers / sizeof *tiers; t++) {
            const struct outcome_of_run got = outcome("model.mlp_tiles=4", tiers[t].stage, bf16, tiers[t].sets);
            expect_same(&want, &got, STEPS, tiers[t].sets[0]);
        }
    }
}

/* Delayed updates in one tier and in another. */
static void delayed_updates_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const late[EXTRAS] = {OPTIMIZER("cpu"), "schedule.delayed_update=true",
                                             "schedule.delayed_update_after=1"};
    static const char *const nvme[EXTRAS] = {OPTIMIZER("nvme"), "schedule.delayed_update=true",
                                             "schedule.delayed_update_after=1", folder_set};
    const struct outcome_of_run want = outcome("model.mlp_tiles=2", 2, true, late),
                                host = outcome("model.mlp_tiles=2", 3, true, late),
                                disk = outcome("model.mlp_tiles=2", 3, true, nvme);
    expect_same(&want, &host, STEPS, "stage 3");
    expect_same(&want, &disk, STEPS, "NVMe");
}

static void recomputation_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const ways[][EXTRAS] = {
        {"model.recompute=attention"},
        {"model.recompute=full"},
        {"model.recompute=full", "model.checkpoint_every=3"},
        {"model.recompute=full", "activation_checkpointing.cpu_checkpointing=true"},
        {"model.recompute=full", "model.checkpoint_every=2", "activation_checkpointing.cpu_checkpointing=true"},
    };
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const struct outcome_of_run want = outcome("model.mlp_tiles=4", 0, bf16, NULL);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            const struct outcome_of_run got = outcome("model.mlp_tiles=4", 3, bf16, ways[w]);
            expect_same(&want, &got, STEPS, ways[w][0]);
        }
    }
}

/* Micro-steps are added up, in the model's type and in fp32, with and without overlap. */
static void micro_steps_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const ways[][EXTRAS] = {
        {"gradient_accumulation_steps=2"},
        {"gradient_accumulation_steps=2", "data_types.grad_accum_dtype=fp32", "zero_optimization.overlap_comm=false"},
    };
    for (int w = 0; w < 2; w++)
        for (int pair = 0; pair < 4; pair += 2) {
            const struct outcome_of_run want = outcome("model.mlp_tiles=2", pair, true, ways[w]),
                                        got = outcome("model.mlp_tiles=2", pair + 1, true, ways[w]);
            expect_same(&want, &got, STEPS, ways[w][0]);
        }
}

static void to_host(struct config_zero *knobs)
{
    knobs->offload_optimizer = knobs->offload_param = OFFLOAD_CPU;
}

static void recomputing(struct config_zero *knobs)
{
    knobs->recompute = RECOMPUTE_FULL;
}

static void switches_give_the_same_bits(void **state)
{
    (void)state;
    struct plan_of_run plan = plan_of("model.mlp_tiles=4", 0, true, NULL);
    plan.steps = 6;
    const struct outcome_of_run want = run(&plan);
    plan.switches[0].before_step = 2, plan.switches[0].stage = 3;
    plan.switches[1].before_step = 3, plan.switches[1].stage = 3, plan.switches[1].change = to_host;
    plan.switches[2].before_step = 4, plan.switches[2].stage = 1;
    plan.switches[3].before_step = 5, plan.switches[3].stage = 3, plan.switches[3].change = recomputing;
    plan.switch_count = 4;
    const struct outcome_of_run got = run(&plan);
    expect_same(&want, &got, plan.steps, "switched");
}

/* ---- memory ---- */

static struct setup setup_with(const char *tiles)
{
    const char *sets[] = {tiles,
                          "topology.ranks=4",
                          stage_sets[3],
                          "bf16.enabled=true",
                          "model.recompute=full",
                          "zero_optimization.stage3_prefetch_bucket_size=0",
                          "zero_optimization.reduce_bucket_size=16384"};
    struct setup setup;
    struct config config;
    struct error err = {0};
    if (config_load(&config, "configs/nano.json", sets, sizeof sets / sizeof *sets, &err) ||
        setup_init(&setup, &config, &err))
        fail_msg("%s", err.text);
    assert_int_equal(schedule_check(&setup.schedule, &setup.model, &err), STATUS_OK);
    config_release(&config);
    return setup;
}

static int64_t own_peak(const struct setup *setup, enum category category)
{
    return setup->footprint.category[TIER_DEVICE][category].peak_bytes;
}

/* With k tiles gathered parameters fall to those of the rest of a block, and gradients in flight with them. */
static void planned_working_memory_falls(void **state)
{
    (void)state;
    static const char *const tiles[] = {"model.mlp_tiles=1", "model.mlp_tiles=2", "model.mlp_tiles=4",
                                        "model.mlp_tiles=8"};
    int64_t last = INT64_MAX, gathered = INT64_MAX, resting = -1;
    for (int t = 0; t < 4; t++) {
        struct setup setup = setup_with(tiles[t]);
        const int64_t working = own_peak(&setup, CATEGORY_GATHERED) + own_peak(&setup, CATEGORY_BUCKETS);
        assert_true(working < last);
        assert_true(own_peak(&setup, CATEGORY_GATHERED) <= gathered);
        assert_true(resting < 0 || resting == setup.footprint.resting_bytes[TIER_DEVICE]);
        resting = setup.footprint.resting_bytes[TIER_DEVICE];
        last = working;
        gathered = own_peak(&setup, CATEGORY_GATHERED);
        setup_release(&setup);
    }
}

static void measured_peak_falls_as_planned(void **state)
{
    (void)state;
    static const char *const extras[EXTRAS] = {"model.recompute=full",
                                               "zero_optimization.stage3_prefetch_bucket_size=0",
                                               "zero_optimization.overlap_comm=false",
                                               "zero_optimization.reduce_bucket_size=16384",
                                               "train_micro_batch_size_per_gpu=1",
                                               "topology.ranks=2"};
    static const char *const tiles[] = {"model.mlp_tiles=1", "model.mlp_tiles=4"};
    uint64_t peak[2];
    for (int t = 0; t < 2; t++) {
        const struct outcome_of_run got = outcome(tiles[t], 3, true, extras);
        peak[t] = got.memory.tier[TIER_DEVICE].peak_bytes;
        assert_true(peak[t] <= (uint64_t)got.footprint.peak_bytes[TIER_DEVICE]);
    }
    assert_true(peak[1] < peak[0]);
}

static void tiles_divide_the_width(void **state)
{
    (void)state;
    struct config config;
    struct error err = {0};
    const char *sets[] = {"model.mlp_tiles=3"};
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "model.mlp_tiles = 3: must divide the width of the MLP"));
}

static int make_folder(void **state)
{
    static char folder[64] = "/tmp/zerolab-test-tiling-XXXXXX";
    *state = mkdtemp(folder);
    snprintf(folder_set, sizeof folder_set, "zero_optimization.offload_optimizer.nvme_path=%s", folder);
    return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
    return rmdir(*state); /* fails when a file was left there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_is_in_one_tile),
        cmocka_unit_test(any_tiles_are_read_from_any),
        cmocka_unit_test(wide_rows_are_read_one_by_one),
        cmocka_unit_test(first_values_ignore_tiles),
        cmocka_unit_test(stages_give_the_same_bits),
        cmocka_unit_test(tiers_give_the_same_bits),
        cmocka_unit_test(delayed_updates_give_the_same_bits),
        cmocka_unit_test(recomputation_gives_the_same_bits),
        cmocka_unit_test(micro_steps_give_the_same_bits),
        cmocka_unit_test(switches_give_the_same_bits),
        cmocka_unit_test(planned_working_memory_falls),
        cmocka_unit_test(measured_peak_falls_as_planned),
        cmocka_unit_test(tiles_divide_the_width),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
