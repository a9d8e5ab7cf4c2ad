/* Our side of the formulas of papers and programs (conventions.def): it is what the plan says elsewhere. It is left out where the
 * quantities are not those of the setup. */
#include <stdio.h>

#include "engine/advise/print.h"
#include "engine/plan/formula.h"
#include "tests/support/conventions_fixture.h"

static double ours(const char *name, const struct config *config, int section)
{
    cJSON *answer = answer_of(name, config, NULL);
    const double value = sum_of(answer, section, "engine");
    cJSON_Delete(answer);
    return value;
}

static double our_line(const char *name, const struct config *config, int section, const char *label)
{
    cJSON *answer = answer_of(name, config, NULL);
    const double value = line_of(answer, section, label, "engine");
    cJSON_Delete(answer);
    return value;
}

static double at_peak(const struct setup *setup, enum category category)
{
    return (double)setup->footprint.category[TIER_DEVICE][category].at_peak_bytes;
}

static void memory_is_the_plan(const struct config *config, const struct setup *setup)
{
    const bool offloads = config->zero.offload_optimizer;
    const double resting = (double)setup->footprint.resting_bytes[TIER_DEVICE], L = at_peak(setup, CATEGORY_GATHERED),
                 B = at_peak(setup, CATEGORY_BUCKETS), host = (double)setup->footprint.resting_bytes[TIER_HOST];
    static const char *const estimators[] = {"ds-zero2", "ds-zero2-old", "ds-zero3"};
    const double tails = (double)setup->footprint.category[TIER_DEVICE][CATEGORY_GATHERED].resting_bytes;
    double all = 0;
    for (int tier = 0; tier < TIERS; tier++) all += (double)setup->footprint.resting_bytes[tier];
    near(ours("zero-states", config, 0),
         resting + (double)setup->footprint.category[TIER_DEVICE][CATEGORY_SECONDARY].peak_bytes);
    near(ours("ds-allocated", config, 0), resting + L - tails + B);
    if (offloads) near(ours("ds-allocated", config, 1), host);
    for (int k = 0; k < 3; k++) {
        near(ours(estimators[k], config, 0), (double)setup->footprint.peak_bytes[TIER_DEVICE]);
        near(ours(estimators[k], config, 1), 2 * host); /* two ranks a node */
    }
    near(our_line("inf-memory", config, 0, "states"), config->topology.ranks * all);
    near(our_line("inf-memory", config, 2, "MSWM"), L - tails + B);
}

static void activations_are_the_plan(const struct config *config, const struct setup *setup)
{
    struct activation_terms terms;
    double live = 0, outside = 0;
    activation_terms_of(&terms, &setup->model, &config->zero, setup->schedule.B, setup->schedule.T);
    near(ours("megatron-activations", config, 0), (double)terms.kept);
    near(our_line("inf-memory", config, 1, "without"), (double)terms.kept);
    if (config->zero.recompute == RECOMPUTE_FULL)
        near(our_line("inf-memory", config, 1, "checkpoints"), (double)terms.kept);
    /* tokens, the last block's output, the norm's and the head's: what is taken besides the layers' before backward */
    for (int b = setup->schedule.lasting_count; b < setup->schedule.buffer_count; b++) {
        const struct buffer *buffer = &setup->schedule.buffers[b];
        const bool once = strcmp(buffer->name, "logits") == 0 || strncmp(buffer->name, "norm", 4) == 0 ||
                          strcmp(buffer->name, "tokens") == 0;
        if (once) live += (double)buffer->bytes;
    }
    live /= setup->schedule.micro_steps;
    live += (double)activation_output_bytes(&setup->model, setup->schedule.B, setup->schedule.T);
    outside = ours("megatron-activations", config, 1);
    near(outside, live);
}

static void work_is_the_plan(const struct config *config, const struct setup *setup)
{
    struct flops flops;
    flops_of(&flops, &setup->schedule, &setup->model);
    const double all = flops.forward + flops.backward + flops.recomputed;
    near(ours("megatron-flops", config, 0), all);
    near(our_line("inf-efficiency", config, 3, "FLOP"), all / setup->schedule.micro_steps);
    near(ours("megatron-parameters", config, 0), (double)setup->model.elems);
    near(our_line("inf-memory", config, 0, "parameters"), (double)setup->model.elems);
}

/* Mean over the ranks; reductions are rank 0's, which differ by some bytes of blocks. */
static void about(double a, double b)
{
    if (!(fabs(a - b) <= 1e-4 * fabs(b))) fail_msg("%.17g, not about %.17g", a, b);
}

static void traffic_is_the_plan(const struct config *config, const struct setup *setup)
{
    const int ranks = config->topology.ranks;
    double sent = 0, out = 0;
    struct traffic_sum sums[TRAFFIC_KINDS];
    for (int rank = 0; rank < ranks; rank++) {
        traffic_of(sums, &setup->schedule, &setup->model, rank, config->topology.ranks_per_node);
        out += (double)traffic_between_ranks(sums).across_bytes / ranks;
        sent += (double)setup_sent_bytes(setup, rank) / ranks;
    }
    about(ours("zero-volume", config, 0), sent);
    about(ours("hybrid-volume", config, 0) + (config->zero.shard_ranks == 2 ? ours("hybrid-volume", config, 1) : 0),
          sent);
    if (config->zero.stage < 3) return;
    about(ours("zeropp-volume", config, 0), out);
    about(ours("zeropp-volume", config, 1), sent - out);
}

/* Every sum of our figures is the plan's own figure, whatever the setup. */
static void our_side_is_the_plan(void **state)
{
    (void)state;
    static const char *const more[][3] = {
        {"bf16.enabled=true", "model.recompute=none"},
        {"bf16.enabled=true", "model.recompute=full"},
        {"bf16.enabled=true", "model.recompute=attention", "gradient_accumulation_steps=2"},
        {"bf16.enabled=true", "data_types.grad_accum_dtype=fp32"},
        {"bf16.enabled=true", "zero_optimization.offload_optimizer.device=cpu"},
        {"bf16.enabled=true", "zero_optimization.offload_optimizer.device=cpu",
         "zero_optimization.offload_param.device=cpu"},
        {"bf16.enabled=true", "zero_optimization.mics_shard_size=2"},
        {"bf16.enabled=true", "zero_optimization.stage3_max_reuse_distance=10000000"},
        {"bf16.enabled=true", "zero_optimization.zero_hpz_partition_size=2"},
        {"bf16.enabled=true", "zero_optimization.zero_quantized_weights=true",
         "zero_optimization.zero_quantized_gradients=true"},
        {"bf16.enabled=true", "zero_optimization.zero_quantized_weights=true",
         "zero_optimization.zero_hpz_partition_size=2"},
        {"bf16.enabled=false", "zero_optimization.stage3_param_persistence_threshold=200"},
    };
    int planned = 0;
    for (int stage = 0; stage < 4; stage++)
        for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
            char set[40];
            snprintf(set, sizeof set, "zero_optimization.stage=%d", stage);
            const char *const sets[] = {set,        "topology.ranks=4", "topology.ranks_per_node=2",
                                        more[k][0], more[k][1],         more[k][2] ? more[k][2] : set};
            struct config config;
            struct setup setup;
            struct error err;
            if (config_load(&config, "configs/nano.json", sets, 6, &err)) continue; /* not at this stage */
            assert_int_equal(setup_init(&setup, &config, &err), 0);
            memory_is_the_plan(&config, &setup);
            activations_are_the_plan(&config, &setup);
            work_is_the_plan(&config, &setup);
            traffic_is_the_plan(&config, &setup);
            setup_release(&setup);
            config_release(&config);
            planned++;
        }
    assert_true(planned >= 26);
}

/* A given quantity makes a formula one of another setup: ours is not beside it. The setup's own value changes nothing. */
static void given_quantities(void **state)
{
    (void)state;
    struct error err;
    struct config config = config_of(NULL, 0);
    cJSON *answer = answer_of("zero-states", &config, "tp=1,N=4");
    assert_false(isnan(sum_of(answer, 0, "engine")));
    assert_true(cJSON_IsTrue(json_get(case_of(answer, 0), "this")) &&
                cJSON_IsFalse(json_get(case_of(answer, 1), "this")));
    cJSON_Delete(answer);
    answer = asked("zeropp-volume", "n=4,N=12"); /* n is as in the setup, and stays where N changes */
    const cJSON *quantity;
    double nodes = NAN;
    cJSON_ArrayForEach(quantity, json_get(answer, "quantities")) if (!strcmp(json_get_text(quantity, "name"), "nodes"))
        nodes = number_of(quantity, "value");
    near(nodes, 3);
    cJSON_Delete(answer);
    answer = answer_of("zero-states", &config, "tp=2");
    assert_true(isnan(sum_of(answer, 0, "engine")));
    cJSON_Delete(answer);
    answer = answer_of("zero-states", &config, "L=7"); /* psi follows from the sizes */
    assert_true(isnan(sum_of(answer, 0, "engine")));
    near(sum_of(answer, 0, "accounting"),
         16. * (7 * (12. * 128 * 128 + 13 * 128) + (config.model.vocabulary + config.model.context + 2) * 128.));
    cJSON_Delete(answer);
    static const struct {
        const char *with, *error;
    } wrong[] = {
        {"tp", "give NAME=NUMBER"}, {"tpp=2", "did you mean tp?"}, {"our_psi=2", "no such quantity"},
        {"tp=0", "from 1 to"},      {"tp=x y", "from 1 to"},       {"algbw=3", "has no algbw; it has psi"},
        {"N=-2", "from 1 to"},      {"stage=4", "from 0 to 3"},
    };
    const struct convention_row *convention;
    assert_int_equal(convention_find(&convention, "zero-states", &err), 0);
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct text_list list = {1, {wrong[w].with}};
        assert_null(convention_facts(convention, &config, &list, &err));
        assert_int_equal(err.status, STATUS_USAGE);
        if (!strstr(err.text, wrong[w].error)) fail_msg("%s: %s", wrong[w].with, err.text);
    }
    assert_int_equal(convention_find(&convention, "zero-stats", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "did you mean zero-states?"));
    assert_int_equal(convention_find(&convention, "paper61", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "did you mean paper16?"));
    config_release(&config);
}

/* `zerolab plan` says what model.recompute attention is not, and what the other would keep. */
static void selective_is_named(void **state)
{
    (void)state;
    for (int r = 0; r < 2; r++) {
        const char *const sets[] = {r ? "model.recompute=attention" : "model.recompute=full", "bf16.enabled=true"};
        struct config config = config_of(sets, 2);
        struct error err;
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        assert_int_equal(plan_print(out, false, &config, false, &err), 0);
        fclose(out);
        assert_int_equal(strstr(text, "is not Megatron's selective recomputation") != NULL, r);
        free(text);
        config_release(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_side_is_the_plan),
        cmocka_unit_test(given_quantities),
        cmocka_unit_test(selective_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
