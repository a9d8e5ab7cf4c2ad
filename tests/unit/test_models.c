/* Models that are only planned: parameters by each family's own sum, the chain of units, what is kept and computed, and sizes that are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/advise/print.h"
#include "engine/config/config.h"
#include "engine/plan/checker.h"
#include "engine/plan/formula.h"
#include "engine/plan/gpt2.h"
#include "engine/plan/setup.h"

enum { SETS_MAX = 16 };

static int load(struct config *config, const char *const *sets, struct error *err)
{
    int count = 0;
    while (sets[count]) count++;
    return config_load_text(config, "{\"train_micro_batch_size_per_gpu\": 1}", sets, count, err);
}

static struct config loaded(const char *const *sets)
{
    struct config config;
    struct error err = {.text = ""};
    if (load(&config, sets, &err)) fail_msg("%s: %s", sets[0], err.text);
    return config;
}

/* ---- parameters: layer by layer, as the papers and the published modules add them up ---- */

static int64_t linear(int64_t in, int64_t out, bool bias)
{
    return in * out + (bias ? out : 0);
}

static int64_t gpt2_parameters(int64_t L, int64_t d, int64_t V, int64_t positions)
{
    const int64_t norm = 2 * d;
    const int64_t block =
        norm + linear(d, 3 * d, true) + linear(d, d, true) + norm + linear(d, 4 * d, true) + linear(4 * d, d, true);
    return V * d + positions * d + L * block + norm;
}

static int64_t llama_parameters(int64_t L, int64_t d, int64_t V, int64_t kv, int64_t f, bool qkv_bias, bool tied)
{
    const int64_t block =
        d + linear(d, d, qkv_bias) + 2 * linear(d, kv, qkv_bias) + linear(d, d, false) + d + 3 * linear(d, f, false);
    return V * d + L * block + d + (tied ? 0 : V * d);
}

static int64_t bloom_parameters(int64_t L, int64_t d, int64_t V)
{
    return gpt2_parameters(L, d, V, 0) + 2 * d;
}

static int64_t named_parameters(const char *name)
{
    char set[64];
    struct model model;
    snprintf(set, sizeof set, "model.name=%s", name);
    struct config config = loaded((const char *const[]){set, NULL});
    assert_int_equal(model_of(&model, &config, NULL), STATUS_OK);
    assert_string_equal(config.model.name, name);
    const int64_t elems = model.elems;
    model_release(&model);
    config_release(&config);
    return elems;
}

static void test_parameters_of_named_models(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t sum, published; /* 0: published rounded only */
    } models[] = {
        {"gpt2", gpt2_parameters(12, 768, 50257, 1024), 124439808},
        {"gpt2-xl", gpt2_parameters(48, 1600, 50257, 1024), 1557611200},
        {"gpt3-125m", gpt2_parameters(12, 768, 50257, 2048), 0},
        {"gpt3-350m", gpt2_parameters(24, 1024, 50257, 2048), 0},
        {"gpt3-760m", gpt2_parameters(24, 1536, 50257, 2048), 0},
        {"gpt3-1.3b", gpt2_parameters(24, 2048, 50257, 2048), 0},
        {"gpt3-2.7b", gpt2_parameters(32, 2560, 50257, 2048), 0},
        {"gpt3-6.7b", gpt2_parameters(32, 4096, 50257, 2048), 0},
        {"gpt3-13b", gpt2_parameters(40, 5120, 50257, 2048), 0},
        {"gpt3-175b", gpt2_parameters(96, 12288, 50257, 2048), 174604259328},
        {"gpt-1t", gpt2_parameters(128, 25600, 50257, 1024), 0},
        {"llama-7b", llama_parameters(32, 4096, 32000, 4096, 11008, false, false), 6738415616},
        {"llama-13b", llama_parameters(40, 5120, 32000, 5120, 13824, false, false), 13015864320},
        {"llama-30b", llama_parameters(60, 6656, 32000, 6656, 17920, false, false), 32528943616},
        {"llama-65b", llama_parameters(80, 8192, 32000, 8192, 22016, false, false), 65285660672},
        {"llama-2-7b", llama_parameters(32, 4096, 32000, 4096, 11008, false, false), 6738415616},
        {"llama-2-13b", llama_parameters(40, 5120, 32000, 5120, 13824, false, false), 13015864320},
        {"llama-2-70b", llama_parameters(80, 8192, 32000, 1024, 28672, false, false), 68976648192},
        {"llama-3-8b", llama_parameters(32, 4096, 128256, 1024, 14336, false, false), 8030261248},
        {"llama-3-70b", llama_parameters(80, 8192, 128256, 1024, 28672, false, false), 70553706496},
        {"mistral-7b", llama_parameters(32, 4096, 32000, 1024, 14336, false, false), 7241732096},
        {"opt-66b", gpt2_parameters(64, 9216, 50272, 2050), 65719701504},
        {"opt-175b", gpt2_parameters(96, 12288, 50272, 2050), 0},
        {"bloom-176b", bloom_parameters(70, 14336, 250880), 176247271424},
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        const int64_t elems = named_parameters(models[m].name);
        if (elems != models[m].sum)
            fail_msg("%s: %lld, by hand %lld", models[m].name, (long long)elems, (long long)models[m].sum);
        if (models[m].published) assert_int_equal(elems, models[m].published);
    }
}

static void test_parameters_of_sizes(void **state)
{
    (void)state;
    static const char *const qwen[] = {"model.name=custom",
                                       "model.architecture=qwen2",
                                       "model.layers=24",
                                       "model.hidden=896",
                                       "model.heads=14",
                                       "model.kv_heads=2",
                                       "model.ffn=4864",
                                       "model.context=32768",
                                       "model.vocabulary=151936",
                                       "model.tied=true",
                                       NULL};
    struct config config = loaded(qwen);
    struct model model;
    assert_int_equal(model_of(&model, &config, NULL), STATUS_OK);
    assert_int_equal(model.elems, 494032768); /* Qwen2-0.5B, as published */
    assert_int_equal(model.elems, llama_parameters(24, 896, 151936, 128, 4864, true, true));
    model_release(&model);
    config_release(&config);
}

/* ---- the chain ---- */

static void assert_units(const char *const *sets, const char *const *names, bool tied)
{
    struct config config = loaded(sets);
    struct model model;
    int64_t canonical = 0;
    int global = 0;
    assert_int_equal(model_of(&model, &config, NULL), STATUS_OK);
    for (int u = 0; u < model.unit_count; u++) {
        assert_string_equal(model.units[u].name, names[u]);
        for (int t = 0; t < model.units[u].tensor_count; t++) {
            const struct tensor *tensor = &model.units[u].tensors[t];
            assert_int_equal(tensor->canonical, canonical);
            assert_int_equal(tensor->global, global++);
            canonical += tensor->elems;
        }
    }
    assert_null(names[model.unit_count]);
    assert_int_equal(canonical, model.elems);
    assert_int_equal(model.tied, tied);
    assert_string_equal(model.units[model_block(&model, 0)].name, "block 0");
    assert_int_equal(model_unit_at(&model, model.places - 1), tied ? 0 : model.unit_count - 1);
    model_release(&model);
    config_release(&config);
}

#define SMALL                                                                                                          \
    "model.name=custom", "model.layers=2", "model.hidden=64", "model.heads=8", "model.context=32",                     \
        "model.vocabulary=256"

static void test_units(void **state)
{
    (void)state;
    assert_units((const char *const[]){SMALL, NULL}, (const char *const[]){"embed", "block 0", "block 1", "norm", NULL},
                 true);
    assert_units((const char *const[]){SMALL, "model.architecture=llama", NULL},
                 (const char *const[]){"embed", "block 0", "block 1", "norm", "head", NULL}, false);
    assert_units((const char *const[]){SMALL, "model.tied=false", NULL},
                 (const char *const[]){"embed", "block 0", "block 1", "norm", "head", NULL}, false);
    assert_units((const char *const[]){SMALL, "model.architecture=bloom", NULL},
                 (const char *const[]){"embed", "embnorm", "block 0", "block 1", "norm", NULL}, true);
}

/* Every kind at every stage and every way to recompute: the checker proves the schedule. */
static void test_schedules(void **state)
{
    (void)state;
    static const char *const kinds[] = {"gpt2", "llama", "qwen2", "opt", "bloom"}, *const recompute[] = {"none", "full",
                                                                                                         "attention"};
    static const char *const more[] = {"model.kv_heads=2",
                                       "model.mlp_tiles=2",
                                       "gradient_accumulation_steps=2",
                                       "model.tied=false",
                                       "activation_checkpointing.cpu_checkpointing=true",
                                       "model.checkpoint_every=2"};
    enum { MORE = sizeof more / sizeof *more };
    for (int n = 0; n < 5 * 3 * 4 * MORE; n++) {
        char kind[64], remade[64], stage[64];
        snprintf(kind, sizeof kind, "model.architecture=%s", kinds[n % 5]);
        snprintf(remade, sizeof remade, "model.recompute=%s", recompute[n / 5 % 3]);
        snprintf(stage, sizeof stage, "zero_optimization.stage=%d", n / 15 % 4);
        struct config config =
            loaded((const char *const[]){SMALL, "model.layers=5", "model.ffn=192", kind, remade, stage,
                                         more[n / 60 % MORE], more[(n / 60 + n) % MORE], NULL});
        struct setup setup;
        struct error err = {.text = ""};
        if (setup_init(&setup, &config, &err) || schedule_check(&setup.schedule, &setup.model, &err))
            fail_msg("%s %s %s %s: %s", kind, remade, stage, more[n / 60 % MORE], err.text);
        setup_release(&setup);
        config_release(&config);
    }
}

/* ---- what is kept and computed ---- */

/* LLaMA with fewer keys, by hand: elements of each row that backward needs, and two operations to a multiply-add. */
static void test_activations_and_flops(void **state)
{
    (void)state;
    static const char *const sets[] = {
        SMALL, "model.architecture=llama", "model.kv_heads=2", "model.ffn=192", "bf16.enabled=true", "topology.ranks=1",
        NULL};
    struct config config = loaded(sets);
    struct setup setup;
    struct activation_layout attention, mlp;
    struct flops flops;
    const int64_t N = 32, C = 64, K = 16, F = 192, heads = 8, L = 2, V = 256, T = 32;
    assert_int_equal(setup_init(&setup, &config, NULL), STATUS_OK);
    architecture_gpt2.layout(&attention, &setup.model, SAVED_ATTENTION, 1, 32);
    architecture_gpt2.layout(&mlp, &setup.model, SAVED_MLP, 1, 32);
    assert_int_equal(attention.bytes,
                     2 * N * (C + C + 2 * K + C) + 4 * N * (1 + heads)); /* norm, q k v, attention; rstd, log-sum-exp */
    assert_int_equal(mlp.bytes, 2 * N * (C + C + 3 * F) + 4 * N);        /* residual, norm, three products; rstd */
    flops_of(&flops, &setup.schedule, &setup.model);
    const int64_t weights = L * (C * (C + 2 * K) + C * C + 3 * C * F) + V * C, scores = N * (T + 1) * C;
    assert_true(flops.forward == (double)(2 * N * weights + L * 2 * scores));
    assert_true(flops.backward == (double)(4 * N * weights + L * 5 * scores));
    setup_release(&setup);
    config_release(&config);
}

/* A GPU has rows of logits begin on whole lines of its caches, and the plan counts what lies between them. */
static void test_rows_of_logits(void **state)
{
    (void)state;
    struct model model;
    struct activation_layout cpu, gpu;
    const struct config_model *gpt2 = config_model_named("gpt2");
    assert_int_equal(model_init(&model, gpt2, DTYPE_BF16, NULL), 0);
    assert_int_equal(logits_row(&model), 50257);
    architecture_gpt2.layout(&cpu, &model, SAVED_HEAD, 4, 1024);
    model.backend = BACKEND_CUDA;
    assert_int_equal(logits_row(&model), 50304);
    architecture_gpt2.layout(&gpu, &model, SAVED_HEAD, 4, 1024);
    assert_int_equal(gpu.bytes - cpu.bytes, 4 * 1024 * 47 * 2);
    const struct formula_sizes sizes = formula_sizes_of(&model, 4, 1024);
    assert_int_equal(formula_value(formula_of("logits")->bytes, &sizes), gpu.bytes);
    model_release(&model);
}

/* ---- refused ---- */

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"model.heads=7", "model.heads = 7: must divide model.hidden, which is 64"},
        {"model.kv_heads=3", "model.kv_heads = 3: must divide model.heads, which is 8"},
        {"model.kv_heads=16", "model.kv_heads = 16: must divide model.heads"},
        {"model.kv_heads=-1", "model.kv_heads = -1: must be an integer 0.."},
        {"model.ffn=-1", "model.ffn = -1"},
        {"model.ffn=1e30", "model.ffn = 1e30"},
        {"model.ffn=NaN", "model.ffn = \"NaN\""},
        {"model.ffn=0.5", "model.ffn = 0.5"},
        {"model.hidden=0", "model.hidden = 0"},
        {"model.hidden=1e30", "model.hidden = 1e30"},
        {"model.layers=8193", "model.layers = 8193"},
        {"model.tied=maybe", "model.tied = \"maybe\": must be true or false"},
        {"model.architecture=mamba", "model.architecture = \"mamba\""},
        {"topology.ranks=65537", "topology.ranks = 65537: must be an integer 1..65536"},
        {"topology.ranks=nan", "topology.ranks = \"nan\""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct config config;
        struct error err = {.text = ""};
        assert_int_equal(load(&config, (const char *const[]){SMALL, cases[c].set, NULL}, &err), STATUS_USAGE);
        if (!strstr(err.text, cases[c].says) || strchr(err.text, '\n')) fail_msg("%s: \"%s\"", cases[c].set, err.text);
    }
}

/* The largest of all sizes: one line each, or figures without a wrap. */
static void test_extremes(void **state)
{
    (void)state;
    static const char *const kinds[] = {"model.architecture=gpt2", "model.architecture=llama",
                                        "model.architecture=bloom"};
    static const char *const cases[][6] = {
        {"model.hidden=1048576", "model.heads=1", "model.layers=8192"},
        {"model.hidden=1048576", "model.heads=65536", "model.ffn=16777216", "topology.ranks=65536"},
        {"model.vocabulary=10000000", "model.hidden=1048576", "topology.ranks=65536"},
        {"model.context=1073741824", "data.sequence_length=1", "model.hidden=65536", "topology.ranks=65536"},
        {"model.layers=8192", "model.hidden=4096", "topology.ranks=65536", "data.sequence_length=1"},
        {"model.context=1073741824", "topology.ranks=1"},
    };
    for (size_t c = 0; c < 3 * sizeof cases / sizeof *cases; c++) {
        const char *const *of = cases[c / 3];
        struct config config;
        struct setup setup;
        struct error err = {.text = ""};
        int status = load(&config, (const char *const[]){SMALL, kinds[c % 3], of[0], of[1], of[2], of[3], NULL}, &err);
        if (status) {
            assert_int_equal(status, STATUS_USAGE);
            assert_null(strchr(err.text, '\n'));
            continue;
        }
        assert_int_equal(setup_init(&setup, &config, &err), STATUS_OK);
        assert_true(setup.model.elems > 0 &&
                    setup.footprint.peak_bytes[TIER_DEVICE] > setup.model.elems / config.topology.ranks);
        assert_true(setup_sent_bytes(&setup, config.topology.ranks - 1) >= 0);
        setup_release(&setup);
        config_release(&config);
    }
}

static void test_what_runs_refuse(void **state)
{
    (void)state;
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"topology.ranks=65", "topology.ranks = 65: a run has at most 64 ranks"},
        {"model.architecture=llama", "model.architecture = llama: runs train GPT-2 only"},
        {"model.kv_heads=4", "model.kv_heads = 4: runs train GPT-2 only"},
        {"model.ffn=128", "model.ffn = 128: runs train GPT-2 only"},
        {"model.tied=false", "model.tied = false: runs train GPT-2 only"},
        {"model.ffn=256", NULL},
        {"model.kv_heads=8", NULL},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct error err = {.text = ""};
        struct config config = loaded((const char *const[]){SMALL, cases[c].set, NULL});
        assert_int_equal(config_check_run(&config, &err), cases[c].says ? STATUS_USAGE : STATUS_OK);
        if (cases[c].says && !strstr(err.text, cases[c].says)) fail_msg("%s: \"%s\"", cases[c].set, err.text);
        config_release(&config);
    }
}

/* What a trace or a checkpoint holds of a configuration leads to the same model. */
static void test_a_configuration_comes_back(void **state)
{
    (void)state;
    static const char *const names[] = {"model.name=llama-2-70b", "model.name=bloom-176b", "model.name=gpt2"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct config config = loaded((const char *const[]){names[n], "model.layers=3", NULL}), back;
        struct error err = {.text = ""};
        char *json = config_to_json(&config);
        if (config_load_text(&back, json, NULL, 0, &err)) fail_msg("%s", err.text);
        assert_string_equal(config.model.name, back.model.name);
        assert_memory_equal(&config.model.layers, &back.model.layers,
                            sizeof config.model - offsetof(struct config_model, layers));
        free(json);
        config_release(&config);
        config_release(&back);
    }
}

/* ---- a number of parameters alone ---- */

static void test_psi(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t psi; /* 0: refused */
    } cases[] = {
        {"7e9", 7000000000},
        {"7B", 7000000000},
        {"1.3b", 1300000000},
        {"350M", 350000000},
        {"1t", 1000000000000},
        {"7,241,732,096", 7241732096},
        {"12", 12},
        {"72057594037927936", INT64_C(1) << 56},
        {"72057594037927937", 0},
        {"0", 0},
        {"-7e9", 0},
        {"NaN", 0},
        {"inf", 0},
        {"1e30", 0},
        {"7e9B", 0},
        {"7,24", 0},
        {",123", 0},
        {"7,2417", 0},
        {"0.5", 0},
        {"B", 0},
        {"", 0},
        {"7 B", 0},
        {"0x10", 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t psi = 0;
        struct error err = {.text = ""};
        const int status = psi_read(&psi, cases[c].text, &err);
        if (status != (cases[c].psi ? STATUS_OK : STATUS_USAGE) || psi != cases[c].psi || strchr(err.text, '\n'))
            fail_msg("%s: %lld, \"%s\"", cases[c].text, (long long)psi, err.text);
    }
}

static void test_psi_figures(void **state)
{
    (void)state;
    static const char *const says[] = {"115,867,713,536",
                                       "30,324,753,152",
                                       "16,067,593,088",
                                       "1,810,433,024",
                                       "stage 2  2 x 2 Psi (N-1)/N = 28,514,320,128",
                                       "stage 3  2 x 3 Psi (N-1)/N = 42,771,480,192"};
    char *page = NULL;
    size_t length;
    FILE *out = open_memstream(&page, &length);
    struct config config = loaded((const char *const[]){"bf16.enabled=true", "topology.ranks=64", NULL});
    assert_int_equal(psi_print(out, false, &config, 7241732096, NULL), STATUS_OK);
    fclose(out);
    for (size_t s = 0; s < sizeof says / sizeof *says; s++)
        if (!strstr(page, says[s])) fail_msg("no %s in %s", says[s], page);
    free(page);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_of_named_models),
        cmocka_unit_test(test_parameters_of_sizes),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_activations_and_flops),
        cmocka_unit_test(test_rows_of_logits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_what_runs_refuse),
        cmocka_unit_test(test_a_configuration_comes_back),
        cmocka_unit_test(test_psi),
        cmocka_unit_test(test_psi_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
