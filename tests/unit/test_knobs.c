/* The knobs of a run: value, source, and whether each binds, which is held against schedules that are counted here. */
#include "engine/advise/knobs.h"
#include "engine/advise/present.h"
#include "tests/support/planned_run.h"

static void fold_event(struct run_model *model, const char *json)
{
    struct trace_record record = {.kind = TRACE_EVENT,
                                  .rank = TRACE_RANK_ALL,
                                  .time_ns = model->now_ns + 1000,
                                  .event = {7, {json, strlen(json)}}};
    run_model_fold(model, &record);
}

static const struct knob *find(const struct knobs *knobs, const char *path)
{
    for (int k = 0; k < knobs->count; k++)
        if (!strcmp(knobs->list[k].key->path, path)) return &knobs->list[k];
    fail_msg("no knob %s", path);
    return NULL;
}

static struct binding binding_with(const struct setting *setting, const char *path)
{
    static struct knobs knobs;
    struct config config = config_of(setting);
    struct run_model *model = planned_run(&config, NULL);
    struct error err = {0};
    knobs = (struct knobs){0};
    if (knobs_of(&knobs, model, &err)) fail_msg("%s", err.text);
    struct binding binding = find(&knobs, path)->binding;
    run_model_free(model);
    config_release(&config);
    return binding;
}

static enum verdict binding_at(const struct setting *setting, const char *path)
{
    return binding_with(setting, path).verdict;
}

#define ZERO "zero_optimization."

static void test_what_binds(void **state)
{
    (void)state;
    const struct setting stage0 = {{NULL}}, stage2 = {{ZERO "stage=2"}}, stage3 = {{ZERO "stage=3"}};
    const struct setting wide = {{ZERO "stage=2", ZERO "reduce_bucket_size=500000000"}};
    const struct setting tight = {{ZERO "stage=3", ZERO "stage3_max_live_parameters=200000"}};
    const struct setting kept = {{ZERO "stage=3", ZERO "stage3_max_reuse_distance=1000000000"}};
    const struct setting small = {{ZERO "stage=3", ZERO "stage3_param_persistence_threshold=1280"}};
    assert_int_equal(binding_at(&stage0, ZERO "stage"), BINDS_NOT);
    assert_int_equal(binding_at(&stage2, ZERO "stage"), BINDS);
    assert_int_equal(binding_at(&stage2, ZERO "reduce_bucket_size"), BINDS);
    assert_int_equal(binding_at(&wide, ZERO "reduce_bucket_size"), BINDS_NOT);
    assert_int_equal(binding_at(&stage2, ZERO "allgather_bucket_size"), BINDS);
    assert_int_equal(binding_at(&stage3, ZERO "allgather_bucket_size"), BINDS_NOT);
    assert_int_equal(binding_at(&stage2, ZERO "stage3_prefetch_bucket_size"), BINDS_NOT);
    assert_int_equal(binding_at(&stage3, ZERO "stage3_prefetch_bucket_size"), BINDS);
    assert_int_equal(binding_at(&stage3, ZERO "stage3_max_live_parameters"), BINDS_NOT);
    assert_int_equal(binding_at(&tight, ZERO "stage3_max_live_parameters"), BINDS);
    assert_int_equal(binding_at(&stage3, ZERO "stage3_max_reuse_distance"), BINDS_NOT);
    assert_int_equal(binding_at(&kept, ZERO "stage3_max_reuse_distance"), BINDS);
    assert_int_equal(binding_at(&stage3, ZERO "stage3_param_persistence_threshold"), BINDS_NOT);
    assert_int_equal(binding_at(&small, ZERO "stage3_param_persistence_threshold"), BINDS);
    assert_int_equal(binding_at(&stage3, ZERO "overlap_comm"), BINDS);
}

/* A key at its neutral value: what that means. One that has another value and changes nothing is not off. */
static void test_off(void **state)
{
    (void)state;
    const struct setting stage3 = {{ZERO "stage=3", ZERO "reduce_bucket_size=9223372036854775807"}};
    assert_string_equal(binding_with(&stage3, ZERO "stage3_max_reuse_distance").reason, "off: nothing is kept");
    assert_string_equal(binding_with(&stage3, ZERO "offload_param.device").reason, "off");
    assert_string_equal(binding_with(&stage3, ZERO "reduce_bucket_size").reason, "no limit");
    assert_false(binding_with(&stage3, ZERO "allgather_bucket_size").off);
}

static void test_budgets_and_paces(void **state)
{
    (void)state;
    const struct setting none = {{NULL}}, ample = {{"memory.device_budget=64MiB"}},
                         tight = {{"memory.device_budget=8MiB"}};
    const struct setting paced = {{"topology.links.intra.bandwidth=50MB", "topology.links.nvme.bandwidth=1GB"}};
    assert_int_equal(binding_at(&none, "memory.device_budget"), BINDS_NOT);
    assert_int_equal(binding_at(&ample, "memory.device_budget"), BINDS_NOT);
    assert_int_equal(binding_at(&tight, "memory.device_budget"), BINDS);
    assert_int_equal(binding_at(&none, "topology.links.intra.bandwidth"), BINDS_NOT);
    assert_int_equal(binding_at(&paced, "topology.links.intra.bandwidth"), BINDS);
    assert_int_equal(binding_at(&paced, "topology.links.nvme.bandwidth"), BINDS_NOT);
    assert_int_equal(binding_at(&none, "topology.slow_motion"), BINDS_NOT);
    const struct setting offload = {{"zero_optimization.stage=2", "zero_optimization.offload_optimizer.device=cpu",
                                     "topology.links.pcie.bandwidth=1GB"}};
    assert_int_equal(binding_at(&offload, "topology.links.pcie.bandwidth"), BINDS);
    assert_int_equal(binding_at(&offload, "zero_optimization.offload_optimizer.device"), BINDS);
    assert_int_equal(binding_at(&offload, "zero_optimization.stage"),
                     BINDS); /* against stage 0, which offloads nothing */
    assert_int_equal(binding_at(&none, "zero_optimization.offload_optimizer.device"), BINDS_NOT);
    assert_int_equal(binding_at(&none, "data.seed"), BINDING_NONE);
    assert_int_equal(binding_at(&none, "optimizer.params.momentum"), BINDS_NOT); /* AdamW has none */
}

static void test_sources(void **state)
{
    (void)state;
    static struct knobs knobs;
    const struct setting setting = {{ZERO "stage=2"}};
    struct config config = config_of(&setting);
    struct run_model *model =
        planned_run(&config, "{\"zero_optimization.stage\": {\"from\": \"set\", \"value\": \"2\"}, "
                             "\"optimizer.params.lr\": {\"from\": \"file\", \"value\": \"1e-3\"}, "
                             "\"bf16.enabled\": {\"from\": \"auto\", \"value\": \"auto\"}, "
                             "\"wandb\": {\"from\": \"file\", \"value\": \"{...}\"}}");
    knobs = (struct knobs){0};
    assert_int_equal(knobs_of(&knobs, model, NULL), STATUS_OK);
    assert_int_equal(find(&knobs, ZERO "stage")->source, SOURCE_SET);
    assert_string_equal(find(&knobs, ZERO "stage")->value, "2");
    assert_non_null(
        strstr(find(&knobs, ZERO "stage")->effect, "optimizer states and gradients are sharded over 4 ranks"));
    assert_int_equal(find(&knobs, "optimizer.params.lr")->source, SOURCE_FILE);
    assert_int_equal(find(&knobs, "bf16.enabled")->source, SOURCE_AUTO);
    assert_int_equal(find(&knobs, "data.seed")->source, SOURCE_DEFAULT);
    assert_int_equal(find(&knobs, "train_batch_size")->source, SOURCE_DERIVED);
    assert_int_equal(find(&knobs, "model.layers")->source, SOURCE_DERIVED);
    assert_int_equal(find(&knobs, "wandb")->class, KNOB_WITHOUT_EFFECT);
    assert_string_equal(find(&knobs, "wandb")->value, "{...}");
    assert_string_equal(find(&knobs, ZERO "reduce_bucket_size")->unit, "elements");
    /* a change while it goes on */
    fold_event(model, "{\"kind\":\"set\",\"detail\":{\"key\":\"topology.slow_motion\",\"from\":\"1\",\"to\":\"20\"}}");
    assert_int_equal(knobs_of(&knobs, model, NULL), STATUS_OK);
    assert_int_equal(find(&knobs, "topology.slow_motion")->source, SOURCE_LIVE);
    assert_int_equal(find(&knobs, "topology.slow_motion")->changed_step, 7);
    assert_string_equal(find(&knobs, "topology.slow_motion")->value, "20");
    assert_int_equal(find(&knobs, "topology.slow_motion")->binding.verdict, BINDS);
    run_model_free(model);
    /* older traces do not say */
    model = planned_run(&config, NULL);
    assert_int_equal(knobs_of(&knobs, model, NULL), STATUS_OK);
    assert_int_equal(find(&knobs, "data.seed")->source, SOURCE_UNKNOWN);
    run_model_free(model);
    config_release(&config);
}

/* The present configuration is the one that the schedule was built from, "no limit" and all. */
static void test_present_config(void **state)
{
    (void)state;
    const struct setting setting = {
        {ZERO "stage=3", ZERO "stage3_max_live_parameters=9223372036854775807", "data.seed=18446744073709551615"}};
    struct config config = config_of(&setting), now;
    struct run_model *model = planned_run(&config, NULL);
    struct setup one, other;
    assert_int_equal(present_config(&now, model, NULL), STATUS_OK);
    assert_true(now.data.seed == UINT64_MAX);
    assert_int_equal(setup_init(&one, &config, NULL), STATUS_OK);
    assert_int_equal(setup_init(&other, &now, NULL), STATUS_OK);
    assert_true(schedule_same(&one.schedule, &other.schedule));
    char *a = config_to_json(&config), *b = config_to_json(&now);
    assert_string_equal(a, b);
    free(a), free(b);
    setup_release(&one), setup_release(&other);
    config_release(&now), config_release(&config);
    run_model_free(model);
}

/* What `given` says in the header is what was said. */
static void test_given(void **state)
{
    (void)state;
    const struct setting setting = {{ZERO "prefetch_bucket_size=7", "bf16.enabled=auto"}};
    struct config config = config_of(&setting);
    assert_non_null(
        strstr(config.given, ZERO "stage3_prefetch_bucket_size\tset\t" ZERO "stage3_prefetch_bucket_size\t7\n"));
    assert_non_null(strstr(config.given, "bf16.enabled\tauto\t"));
    assert_non_null(strstr(config.given, "train_micro_batch_size_per_gpu\tfile\ttrain_micro_batch_size_per_gpu\t4\n"));
    assert_null(strstr(config.given, "data.seed"));
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_binds), cmocka_unit_test(test_off), cmocka_unit_test(test_budgets_and_paces),
        cmocka_unit_test(test_sources),    cmocka_unit_test(test_present_config),
        cmocka_unit_test(test_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
