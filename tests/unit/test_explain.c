/* `zerolab plan --explain`: every key once, those given first, in 80 columns; who said what; figures against the plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "engine/advise/differences.h"
#include "engine/advise/knobs.h"

#define ZERO "zero_optimization."

static struct config config_of(const char *text)
{
    struct config config;
    struct error err = {0};
    if (config_load_text(&config, text, NULL, 0, &err)) fail_msg("%s", err.text);
    return config;
}

struct page {
    struct config config;
    struct setup setup;
    struct explained *list;
    int count;
};

static struct page explained(struct config config)
{
    struct page page = {.config = config};
    struct error err = {0};
    if (setup_init(&page.setup, &page.config, &err)) fail_msg("%s", err.text);
    page.list = explain_keys(&page.config, &page.setup, &page.count);
    assert_non_null(page.list);
    return page;
}

static void page_free(struct page *page)
{
    free(page->list);
    setup_release(&page->setup);
    config_release(&page->config);
}

static const struct explained *find(const struct page *page, const char *path)
{
    for (int i = 0; i < page->count; i++)
        if (!strcmp(page->list[i].knob.key->path, path)) return &page->list[i];
    fail_msg("no key %s", path);
    return NULL;
}

static char *printed(const struct config *config, bool as_json)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(explain_print(out, as_json, config, "x.json", NULL), STATUS_OK);
    fclose(out);
    return text;
}

static const char foreign[] =
    "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 2, \"bfloat16\": {\"enabled\": 1},"
    "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\", \"prefetch_bucket_size\": 500,"
    "\"stage3_param_persistence_threshold\": 0, \"round_robin_gradients\": true, \"zero_hpz_partition_size\": 1},"
    "\"scheduler\": {\"type\": \"WarmupLR\"}, \"wandb\": {\"enabled\": true}}";

static void every_key_stands_there_once_and_given_ones_first(void **state)
{
    (void)state;
    struct page page = explained(config_of(foreign));
    int keys = 0;
    for (int k = 0; k < config_key_count; k++) {
        if (config_keys[k].class == CLASS_ALIAS) continue;
        keys++;
        find(&page, config_keys[k].path);
    }
    assert_int_equal(page.count, keys);
    for (int i = 1; i < page.count; i++) assert_true(page.list[i].part >= page.list[i - 1].part);
    int given = 0;
    while (page.list[given].part == EXPLAIN_GIVEN) given++;
    assert_int_equal(given, 11);
    for (int i = 0; i < page.count; i++) /* and each says something */
        assert_true(page.list[i].knob.effect[0] || page.list[i].why[0]);
    page_free(&page);
}

static void who_said_it(void **state)
{
    (void)state;
    struct page page = explained(config_of(foreign));
    assert_string_equal(knob_source_name(find(&page, ZERO "stage")->knob.source), "file");
    assert_string_equal(knob_source_name(find(&page, "train_batch_size")->knob.source), "auto");
    assert_string_equal(find(&page, "train_batch_size")->knob.value, "8");
    assert_string_equal(find(&page, ZERO "reduce_bucket_size")->note, "\"auto\" is 16384 (h*h, h = hidden)");
    assert_string_equal(find(&page, ZERO "stage3_prefetch_bucket_size")->spelling, ZERO "prefetch_bucket_size");
    assert_string_equal(find(&page, "bf16.enabled")->spelling, "bfloat16");
    assert_string_equal(find(&page, "bf16.enabled")->knob.value, "true");
    assert_string_equal(find(&page, ZERO "stage")->spelling, "");
    assert_string_equal(knob_source_name(find(&page, "gradient_accumulation_steps")->knob.source), "derived");
    assert_string_equal(knob_source_name(find(&page, ZERO "overlap_comm")->knob.source), "derived");
    assert_string_equal(knob_source_name(find(&page, ZERO "sub_group_size")->knob.source), "default");
    page_free(&page);
    const char *const sets[] = {ZERO "max_live_parameters=5"};
    struct config config;
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, NULL), STATUS_OK);
    page = explained(config);
    assert_string_equal(knob_source_name(find(&page, ZERO "stage3_max_live_parameters")->knob.source), "--set");
    assert_string_equal(find(&page, ZERO "stage3_max_live_parameters")->spelling, "");
    page_free(&page);
    page = explained(config_of("{\"train_batch_size\": 4, \"zero_optimization\": true}"));
    assert_string_equal(find(&page, ZERO "stage")->knob.value, "1");
    assert_string_equal(find(&page, ZERO "stage")->spelling, "zero_optimization");
    page_free(&page);
}

static void figures_are_the_plans(void **state)
{
    (void)state;
    struct config config;
    char expected[200];
    const char *const sets[] = {ZERO "stage=3"};
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 1, NULL), STATUS_OK);
    struct page page = explained(config);
    int gathers = 0, ahead = 0, reductions = 0;
    for (int i = 0; i < page.setup.schedule.op_count; i++) {
        const struct op *op = &page.setup.schedule.ops[i];
        gathers += op->kind == OP_GATHER;
        ahead += op->kind == OP_GATHER && op->prefetch;
        reductions += op->kind == OP_REDUCE_SCATTER;
    }
    snprintf(expected, sizeof expected, "%d of %d gathers of a step are issued ahead of their use", ahead, gathers);
    assert_string_equal(find(&page, ZERO "stage3_prefetch_bucket_size")->knob.effect, expected);
    snprintf(expected, sizeof expected, "%d reductions a step, of at most 198,272 elements", reductions);
    assert_string_equal(find(&page, ZERO "reduce_bucket_size")->knob.effect, expected);
    assert_string_equal(find(&page, "model.name")->knob.effect, "834,304 parameters in 6 units");
    assert_non_null(strstr(find(&page, ZERO "stage")->knob.effect, "3,337,216 bytes a rank")); /* 16 Psi / N */
    assert_string_equal(find(&page, "train_batch_size")->knob.effect,
                        "4 samples x 1 micro-step x 4 ranks = 16, which is 1,024 tokens a step");
    assert_int_equal(find(&page, ZERO "stage3_prefetch_bucket_size")->knob.binding.verdict, BINDS);
    assert_non_null(strstr(find(&page, ZERO "stage3_prefetch_bucket_size")->why, "with 0: gathers ahead 0 instead of"));
    assert_int_equal(find(&page, ZERO "stage3_max_live_parameters")->knob.binding.verdict, BINDS_NOT);
    assert_int_equal(find(&page, "optimizer.params.momentum")->knob.binding.verdict, BINDS_NOT);
    assert_string_equal(find(&page, "optimizer.params.momentum")->why, "AdamW has no such parameter");
    assert_string_equal(find(&page, "scheduler.type")->knob.effect, "none: the learning rate is 0.001 at every step");
    assert_string_equal(find(&page, "fp16.hysteresis")->knob.effect, "nothing to act on: fp16 is off");
    page_free(&page);
}

static void knobs_that_have_nothing_to_act_on_say_so(void **state)
{
    (void)state;
    static const struct {
        const char *set, *path, *words;
    } cases[] = {
        {ZERO "stage=2", ZERO "stage3_prefetch_bucket_size", "this is stage 2"},
        {ZERO "stage=2", ZERO "sub_group_size", "stage 2 updates what a rank owns"},
        {ZERO "stage=0", ZERO "allgather_bucket_size", "stage 0 updates every parameter"},
        {ZERO "stage=3", ZERO "allgather_bucket_size", "stage 3 gathers units"},
        {"topology.ranks=2", "schedule.no_sync", "a step is one micro-step"},
        {"gradient_accumulation_steps=3", "schedule.no_sync", "reduced after 1 of 3 micro-steps"},
        {"model.recompute=attention", "model.checkpoint_every", "model.recompute is not full"},
        {"fp16={enabled: true, loss_scale: 8}", "fp16.hysteresis", "the loss scale is static"},
        {"prescale_gradients=true", "gradient_predivide_factor", "prescale_gradients divides"},
        {"data.synthetic=true", "data.path", "makes tokens up"},
        {"topology.ranks=1", "topology.ranks", "sends nothing"},
        {"topology.ranks_per_node=2", "topology.ranks_per_node", "2 virtual nodes of 2 ranks"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct config config;
        struct error err = {0};
        if (config_load(&config, "configs/nano.json", &cases[c].set, 1, &err)) fail_msg("%s", err.text);
        struct page page = explained(config);
        const char *effect = find(&page, cases[c].path)->knob.effect;
        if (!strstr(effect, cases[c].words)) fail_msg("%s: \"%s\" lacks \"%s\"", cases[c].set, effect, cases[c].words);
        page_free(&page);
    }
}

/* An old spelling that is used moves the key that it means, and is no detail of a feature that is off. */
static void an_old_spelling_names_its_key(void **state)
{
    (void)state;
    static const struct { const char *old, *means; } rows[] = {
        {ZERO "cpu_offload", ZERO "offload_optimizer.device"},
        {ZERO "cpu_offload_param", ZERO "offload_param.device"},
        {ZERO "cpu_offload_use_pin_memory", NULL},
    };
    struct page page = explained(config_of("{\"train_batch_size\": 4, \"zero_optimization\": {\"stage\": 3, "
                                           "\"cpu_offload\": true, \"cpu_offload_param\": true}}"));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct knob *knob = &find(&page, rows[i].old)->knob;
        assert_null(strstr(knob->effect, "feature that is not used"));
        assert_non_null(strstr(knob->effect, "offload_"));
        if (!rows[i].means) continue;
        assert_string_equal(find(&page, rows[i].means)->spelling, rows[i].old);
        assert_non_null(strstr(knob->effect, rows[i].means + sizeof ZERO - 1));
    }
    page_free(&page);
}

static void the_page_is_80_columns_wide(void **state)
{
    (void)state;
    static const char *const more[] = {
        foreign, "{\"train_batch_size\": 64, \"topology\": {\"ranks\": 1}}",
        "{\"train_batch_size\": 64, \"model\": {\"name\": \"gpt2-xl\"}, \"data\": {\"path\": "
        "\"a/rather/long/path/that/goes/on/and/on/and/on/until/it/is/too/wide/for/a/line\"}}"};
    for (size_t m = 0; m < sizeof more / sizeof *more; m++) {
        struct config config = config_of(more[m]);
        char *text = printed(&config, false);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            size_t length = strlen(line);
            if (length > 80 && !strstr(line, "a/rather/long")) fail_msg("%zu columns: %s", length, line);
            if (length && line[length - 1] == ' ') fail_msg("ends in a space: \"%s\"", line);
        }
        free(text);
        config_release(&config);
    }
}

static void json_says_the_same(void **state)
{
    (void)state;
    struct page page = explained(config_of(foreign));
    char *text = printed(&page.config, true);
    cJSON *json = cJSON_Parse(text), *keys = cJSON_GetObjectItem(json, "keys");
    assert_int_equal(cJSON_GetArraySize(keys), page.count);
    for (int i = 0; i < page.count; i++) {
        const cJSON *row = cJSON_GetArrayItem(keys, i), *binds = cJSON_GetObjectItem(row, "binds");
        assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(row, "key")), page.list[i].knob.key->path);
        const char *value = cJSON_GetStringValue(cJSON_GetObjectItem(row, "value"));
        assert_string_equal(value ? value : "", page.list[i].knob.value);
        assert_int_equal(cJSON_IsTrue(binds), page.list[i].knob.binding.verdict == BINDS);
        assert_int_equal(binds != NULL,
                         page.list[i].knob.binding.verdict == BINDS || page.list[i].knob.binding.verdict == BINDS_NOT);
    }
    cJSON_Delete(json);
    free(text);
    page_free(&page);
}

/* Rows of a table that names keys name ones that exist, each once. */
static void are_keys(const char *table, const char *const *paths, int count)
{
    for (int p = 0; p < count; p++) {
        if (paths[p] && key_index(paths[p]) < 0) fail_msg("%s: %s is no key", table, paths[p]);
        for (int other = 0; paths[p] && other < p; other++)
            if (paths[other] && !strcmp(paths[p], paths[other])) fail_msg("%s: two rows of %s", table, paths[p]);
    }
}

static void tables_name_keys(void **state)
{
    (void)state;
    static const char *const knobs[] = {
#define KNOB(path, neutral, ...) path,
#include "engine/advise/knobs.def"
    };
    const char *keys[200];
    assert_true(difference_count <= 200);
    for (int d = 0; d < difference_count; d++) keys[d] = differences[d].key;
    are_keys("knobs.def", knobs, sizeof knobs / sizeof *knobs);
    are_keys("differences.def", keys, difference_count);
}

/* "folder/file.py:12" */
static bool is_line(const char *source)
{
    const char *colon = source ? strrchr(source, ':') : NULL;
    return colon && colon > source + 3 && !strncmp(colon - 3, ".py", 3) && atoi(colon + 1) > 0 &&
           strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

static void every_difference_has_its_sources(void **state)
{
    (void)state;
    char text[DIFFERENCE_MAX];
    for (int d = 0; d < difference_count; d++) {
        const struct difference *row = &differences[d];
        const char *who = row->name ? row->name : row->key;
        if (!is_line(row->deepspeed_source)) fail_msg("%s: DeepSpeed's source is no line of a file", who);
        if (row->name && (!row->here || !row->subject || !row->fsdp2 || !is_line(row->fsdp2_source)))
            fail_msg("%s: a named row says what this program and FSDP2 do", who);
        if (row->name && difference_named(row->name) != row) fail_msg("%s: two rows of this name", who);
        difference_say(text, row);
        if (strlen(text) >= DIFFERENCE_MAX - 1) fail_msg("%s: too long", who);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_stands_there_once_and_given_ones_first),
        cmocka_unit_test(who_said_it),
        cmocka_unit_test(figures_are_the_plans),
        cmocka_unit_test(knobs_that_have_nothing_to_act_on_say_so),
        cmocka_unit_test(an_old_spelling_names_its_key),
        cmocka_unit_test(the_page_is_80_columns_wide),
        cmocka_unit_test(json_says_the_same),
        cmocka_unit_test(tables_name_keys),
        cmocka_unit_test(every_difference_has_its_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
