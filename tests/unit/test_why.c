/* "Why": terms add up to the plan, predicted changes are what the plan at that setting is and what a run at it measures, and
 * the sentence says so also where a higher stage takes more. */
#include "engine/advise/present.h"
#include "engine/advise/theory.h"
#include "engine/advise/why.h"
#include "engine/config/keys.h"
#include "engine/plan/formula.h"
#include "tests/support/planned_run.h"
#include "tests/support/synthetic.h"

static void explain_tier(struct why *why, const struct config *config, enum tier tier)
{
    struct run_model *model = planned_run(config, NULL);
    struct error err = {0};
    *why = (struct why){0};
    if (why_peak(why, model, 0, tier, &err)) fail_msg("%s", err.text);
    assert_false(why->other_version);
    run_model_free(model);
}

static void explain(struct why *why, const struct config *config)
{
    explain_tier(why, config, TIER_DEVICE);
}

static void plain_bytes(char out[32], uint64_t bytes)
{
    snprintf(out, 32, "%llu", (unsigned long long)bytes);
}

static const struct setting settings[] = {
    {{NULL}},
    {{"zero_optimization.stage=1"}},
    {{"zero_optimization.stage=2"}},
    {{"zero_optimization.stage=3"}},
    {{"zero_optimization.stage=3", "bf16.enabled=true", "zero_optimization.stage3_param_persistence_threshold=1280"}},
    {{"zero_optimization.stage=2", "bf16.enabled=true", "gradient_accumulation_steps=3", "topology.ranks=3"}},
    {{"zero_optimization.stage=3", "zero_optimization.stage3_max_reuse_distance=1000000000", "topology.ranks=8"}},
    {{"zero_optimization.stage=2", "zero_optimization.reduce_bucket_size=500000000"}},
    {{"zero_optimization.stage=3", "model.name=custom", "model.layers=3", "model.hidden=40", "model.heads=4",
      "model.context=17", "model.vocabulary=301", "data.synthetic=true", "topology.ranks=5", "data.sequence_length=17",
      "topology.threads_per_rank=4"}},
    {{"zero_optimization.stage=2", "model.recompute=full", "model.checkpoint_every=2"}},
    {{"zero_optimization.stage=1", "model.recompute=attention", "bf16.enabled=true"}},
    {{"zero_optimization.stage=3", "model.name=gpt2", "data.synthetic=true", "data.sequence_length=1024"}},
#define OFFLOAD_OPTIMIZER "zero_optimization.offload_optimizer."
#define OFFLOAD_PARAM     "zero_optimization.offload_param."
    {{"zero_optimization.stage=2", "bf16.enabled=true", OFFLOAD_OPTIMIZER "device=cpu"}},
    {{"zero_optimization.stage=3", OFFLOAD_OPTIMIZER "device=cpu", OFFLOAD_PARAM "device=cpu",
      "gradient_accumulation_steps=2"}},
    {{"zero_optimization.stage=3", "model.recompute=full", "activation_checkpointing.cpu_checkpointing=true"}},
    {{"zero_optimization.stage=3", "bf16.enabled=true", OFFLOAD_OPTIMIZER "device=nvme",
      OFFLOAD_OPTIMIZER "nvme_path=.", OFFLOAD_OPTIMIZER "pipeline_read=true", OFFLOAD_PARAM "device=nvme",
      OFFLOAD_PARAM "max_in_cpu=60000", "schedule.update_tile=20000"}},
    {{"zero_optimization.stage=3", OFFLOAD_PARAM "device=nvme", OFFLOAD_PARAM "nvme_path=.",
      OFFLOAD_PARAM "max_in_cpu=0"}},
    {{"zero_optimization.stage=3", "model.mlp_tiles=4"}},
    {{"zero_optimization.stage=2", "bf16.enabled=true", "model.mlp_tiles=2", "model.recompute=full"}},
    {{"zero_optimization.stage=3", "zero_optimization.zero_hpz_partition_size=2", "gradient_accumulation_steps=2"}},
    {{"zero_optimization.stage=3", "zero_optimization.stage3_max_live_parameters=300000"}},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void test_terms_add_up(void **state)
{
    (void)state;
    int tenants[TIERS] = {0};
    for (int n = 0; n < SETTINGS * TIERS; n++) {
        struct config config = config_of(&settings[n / TIERS]);
        struct why why;
        uint64_t sum = 0;
        explain_tier(&why, &config, (enum tier)(n % TIERS));
        tenants[n % TIERS] += why.tenant_count;
        for (int t = 0; t < why.tenant_count; t++) {
            const struct why_tenant *tenant = &why.tenants[t];
            uint64_t terms = 0;
            for (int i = 0; i < tenant->term_count; i++) terms += tenant->terms[i].bytes;
            assert_int_equal(terms, tenant->planned_bytes);
            sum += terms;
        }
        assert_int_equal(sum, why.plan.peak_bytes);
        config_release(&config);
    }
    assert_true(tenants[TIER_DEVICE] >= 5 * SETTINGS - 10 && tenants[TIER_HOST] >= 10 && tenants[TIER_NVME] >= 3);
}

/* The formulas that people read are those that the plan follows: to the byte where rows are whole lines, else up to the
 * rounding of at most sixteen slots. */
static void test_formulas_are_the_plan(void **state)
{
    (void)state;
    int seen = 0;
    for (int s = 0; s < SETTINGS; s++) {
        struct config config = config_of(&settings[s]);
        struct setup setup;
        assert_int_equal(setup_init(&setup, &config, NULL), STATUS_OK);
        const struct formula_sizes sizes = formula_sizes_of(&setup.model, setup.schedule.B, setup.schedule.T);
        for (int b = 0; b < setup.schedule.buffer_count; b++) {
            const struct buffer *buffer = &setup.schedule.buffers[b];
            const struct formula *formula = formula_of(buffer->name);
            assert_non_null(formula);
            if (!formula->bytes[0]) continue;
            int64_t rounding = buffer->bytes - formula_value(formula_bytes(formula, &setup.model), &sizes);
            assert_true(rounding >= 0 && rounding < 16 * 64);
            if (sizes.N % 16 == 0) assert_int_equal(rounding, 0);
            seen++;
        }
        setup_release(&setup);
        config_release(&config);
    }
    assert_true(seen > 50);
}

static void test_formulas_in_numbers(void **state)
{
    (void)state;
    struct formula_sizes sizes = {4, 256, 128, 301, 8, .F = 64};
    char text[96];
    formula_numbers(text, sizeof text, "16 e N C + (4 + heads) 4 N", &sizes);
    assert_string_equal(text, "16×4×256×128 + (4+8)×4×256");
    assert_int_equal(formula_value("16 e N C + (4 + heads) 4 N", &sizes), 16 * 4 * 256 * 128 + 12 * 4 * 256);
    formula_numbers(text, sizeof text, "2 x 4 N", &sizes);
    assert_string_equal(text, "2×4×256");
    assert_int_equal(formula_value("e N V + 4 N", &sizes), 4 * 256 * 301 + 4 * 256);
}

/* What a change says it would give is what the plan is after doing what it says: the live ones as a command would, the
 * others by starting again with its --set. */
static void obey(struct config *config, const struct setting *setting, const struct why_change *change)
{
    struct error err = {0};
    char key[96], value[64], sets[160], *save = NULL;
    if (sscanf(change->command, "stage=%63s", value) == 1) {
        assert_int_equal(config_set(config, "zero_optimization.stage", value, &err), STATUS_OK);
    } else if (strncmp(change->command, "set ", 4) == 0) { /* one, or two with "; " between */
        for (const char *at = change->command; at; at = strstr(at, "; ") ? strstr(at, "; ") + 2 : NULL) {
            assert_int_equal(sscanf(at, "set %95[^=]=%63[^ ;]", key, value), 2);
            if (config_set(config, key, value, &err)) fail_msg("%s", err.text);
        }
    } else {
        struct setting again = *setting;
        int count = count_of(setting);
        snprintf(sets, sizeof sets, "%s", change->command);
        for (char *word = strtok_r(sets, " ", &save); word; word = strtok_r(NULL, " ", &save))
            if (strcmp(word, "--set") != 0) again.sets[count++] = word;
        config_release(config);
        *config = config_of(&again);
    }
}

static void assert_planned(const struct why_plan *said, const struct config *config, enum tier tier)
{
    struct setup setup;
    assert_int_equal(setup_init(&setup, config, NULL), STATUS_OK);
    assert_true(said->known);
    assert_int_equal(said->peak_bytes, setup.footprint.peak_bytes[tier]);
    assert_int_equal(said->resting_bytes, setup.footprint.resting_bytes[tier]);
    for (int t = 0; t < TIERS; t++) assert_int_equal(said->tier_peak_bytes[t], setup.footprint.peak_bytes[t]);
    assert_int_equal(said->sent_bytes, setup_sent_bytes(&setup, 0));
    for (int c = 0; c < CATEGORIES; c++)
        assert_int_equal(said->at_peak_bytes[c], setup.footprint.category[tier][c].at_peak_bytes);
    setup_release(&setup);
}

static void test_changes_come_true(void **state)
{
    (void)state;
    int live = 0, restart = 0, refused = 0;
    for (int n = 0; n < SETTINGS * TIERS; n++) {
        const struct setting *setting = &settings[n / TIERS];
        const enum tier tier = (enum tier)(n % TIERS);
        struct config config = config_of(setting);
        struct why why;
        explain_tier(&why, &config, tier);
        for (int t = 0; t < why.tenant_count; t++)
            for (int c = 0; c < why.tenants[t].change_count; c++) {
                const struct why_change *change = &why.tenants[t].changes[c];
                struct config changed = config_of(setting);
                obey(&changed, setting, change);
                assert_planned(&change->plan, &changed, tier);
                config_release(&changed);
                *(change->restart ? &restart : &live) += 1;
            }
        for (int stage = 0; stage < WHY_STAGES; stage++) {
            struct config changed = config_of(setting);
            char value[16];
            snprintf(value, sizeof value, "%d", stage);
            if (!why.stages[stage].plan.known) { /* what is offloaded cannot be at that stage */
                assert_int_not_equal(config_set(&changed, "zero_optimization.stage", value, NULL), STATUS_OK);
                refused++;
            } else {
                if (stage != why.stage) obey(&changed, setting, &why.stages[stage]);
                assert_planned(&why.stages[stage].plan, &changed, tier);
            }
            config_release(&changed);
        }
        config_release(&config);
    }
    assert_true(live > 30 && restart > 15 && refused > 3);
}

/* Each tenant of the host and of NVMe names the key that put it there, and a change that empties the tier is among those it
 * offers: what leaves goes to another tier. */
static void test_what_fills_the_host(void **state)
{
    (void)state;
    const struct setting setting = {{"zero_optimization.stage=2", "bf16.enabled=true", OFFLOAD_OPTIMIZER "device=cpu"}};
    struct config config = config_of(&setting);
    struct why why;
    char text[512];
    explain_tier(&why, &config, TIER_HOST);
    assert_int_equal(why.tenant_count, 3);
    assert_int_equal(why.tenants[0].category, CATEGORY_OPTIMIZER);
    assert_string_equal(why.tenants[0].knob, "zero_optimization.offload_optimizer.device");
    bool empties = false;
    for (int c = 0; c < why.tenants[0].change_count; c++) {
        const struct why_change *change = &why.tenants[0].changes[c];
        if (strcmp(change->command, "set zero_optimization.offload_optimizer.device=none") != 0) continue;
        empties = change->plan.peak_bytes == 0 &&
                  change->plan.tier_peak_bytes[TIER_DEVICE] > why.plan.tier_peak_bytes[TIER_DEVICE];
    }
    assert_true(empties);
    why_tier_sentence(text, sizeof text, &why, plain_bytes);
    assert_string_equal(text,
                        "by plan, the host tier holds 3118336 at its peak: optimizer (2502912), gradients (417152), staging "
                        "(198272); 2920064 of it stay between steps");
    config_release(&config);
}

/* At DeepSpeed's sizes no key alone lowers what is gathered but the limit of all: its owner is what keeps it, and what helps
 * together is offered together. */
static const struct setting foreign = {{"zero_optimization.stage=3", "model.name=micro", "data.sequence_length=128",
                                        "zero_optimization.reduce_bucket_size=500000000",
                                        "zero_optimization.stage3_prefetch_bucket_size=50000000",
                                        "zero_optimization.stage3_max_reuse_distance=1000000000",
                                        "zero_optimization.stage3_param_persistence_threshold=100000"}};

static const struct why_tenant *gathered_of(const struct why *why)
{
    for (int t = 0; t < why->tenant_count; t++)
        if (why->tenants[t].category == CATEGORY_GATHERED) return &why->tenants[t];
    fail_msg("nothing is gathered");
    return NULL;
}

static void test_the_owner_is_what_binds(void **state)
{
    (void)state;
    struct config config = config_of(&foreign);
    struct why why;
    explain(&why, &config);
    const struct why_tenant *gathered = gathered_of(&why);
    assert_string_equal(gathered->knob, "zero_optimization.stage3_max_reuse_distance");
    bool pair = false;
    for (int c = 0; c < gathered->change_count; c++) {
        const struct why_change *change = &gathered->changes[c];
        struct config changed = config_of(&foreign);
        pair |= strstr(change->command, "stage3_max_reuse_distance=0; set zero_optimization.stage3_prefetch") != NULL;
        obey(&changed, &foreign, change);
        assert_planned(&change->plan, &changed, TIER_DEVICE);
        assert_true(change->plan.peak_bytes < why.plan.peak_bytes);
        config_release(&changed);
    }
    assert_true(pair);
    config_release(&config);
    config = config_of(&settings[3]); /* sizes of a block, nothing kept */
    explain(&why, &config);
    assert_string_equal(gathered_of(&why)->knob, "zero_optimization.stage3_prefetch_bucket_size");
    config.zero.prefetch_bucket_elems = 0;
    explain(&why, &config);
    assert_string_equal(gathered_of(&why)->knob, "zero_optimization.stage");
    config_release(&config);
}

/* Beside memory: what is offloaded moves over the bus, what is let go of is made again. */
static void test_changes_have_a_cost(void **state)
{
    (void)state;
    struct config config = config_of(&settings[2]);
    struct why why;
    char text[100];
    int bus = 0, products = 0;
    explain(&why, &config);
    for (int t = 0; t < why.tenant_count; t++)
        for (int c = 0; c < why.tenants[t].change_count; c++) {
            const struct why_change *change = &why.tenants[t].changes[c];
            why_cost(text, sizeof text, &why.plan, &change->plan, plain_bytes);
            const bool offloads = strstr(change->command, "offload_optimizer.device=cpu") != NULL,
                       recomputes = strstr(change->command, "model.recompute") != NULL;
            assert_int_equal(offloads, strncmp(text, "bus +1668608 a step", 19) == 0);
            assert_int_equal(recomputes, strncmp(text, "matmul FLOPs +", 14) == 0);
            bus += offloads, products += recomputes;
        }
    assert_true(bus && products);
    config_release(&config);
}

/* Gathered units that are never let go cost more than sharding saves. */
static void test_a_higher_stage_can_take_more(void **state)
{
    (void)state;
    struct config config = config_of(&settings[6]);
    struct why why;
    char text[512];
    explain(&why, &config);
    assert_int_equal(why.stage, 3);
    assert_true(why.plan.peak_bytes > why.stages[2].plan.peak_bytes);
    why_sentence(text, sizeof text, &why, 2, plain_bytes);
    assert_string_equal(text, "by plan, stage 3 holds 252288 more at its peak than stage 2: gathered (+3172352) outweighs "
                              "parameters (-2920064)");
    why_sentence(text, sizeof text, &why, 3, plain_bytes);
    assert_string_equal(text, "");
    config_release(&config);
}

/* The differences that a sentence names add up to the difference that it begins with. */
static void test_sentences_add_up(void **state)
{
    (void)state;
    for (int s = 0; s < SETTINGS; s++) {
        struct config config = config_of(&settings[s]);
        struct why why;
        explain(&why, &config);
        for (int than = 0; than < WHY_STAGES; than++) {
            char text[512];
            if (than == why.stage || !why.stages[than].plan.known) continue;
            why_sentence(text, sizeof text, &why, than, plain_bytes);
            long long sum = 0;
            for (const char *at = text; (at = strchr(at, '(')); at++) sum += atoll(at + 1);
            assert_int_equal(sum, (long long)why.plan.peak_bytes - (long long)why.stages[than].plan.peak_bytes);
        }
        config_release(&config);
    }
}

/* A kept answer follows the run: another stage makes it anew. */
static void test_kept_answers_are_renewed(void **state)
{
    (void)state;
    struct why why = {0};
    struct error err;
    for (int s = 0; s < 4; s++) {
        struct config config = config_of(&settings[s]);
        struct run_model *model = planned_run(&config, NULL);
        assert_int_equal(why_peak(&why, model, 0, TIER_DEVICE, &err), STATUS_OK);
        uint64_t from = why.made_from;
        assert_int_equal(why.stage, s);
        assert_int_equal(why_peak(&why, model, 0, TIER_DEVICE, &err), STATUS_OK);
        assert_int_equal(why.made_from, from);
        assert_false(why.measured);
        assert_int_equal(why_peak(&why, model, 4, TIER_DEVICE, &err), STATUS_USAGE);
        run_model_free(model);
        config_release(&config);
    }
}

/* The plan's bytes are the paper's and the named differences, and both ends are what the plan's own sums say. */
static void test_theory_adds_up(void **state)
{
    (void)state;
    int differ = 0;
    for (int s = 0; s < SETTINGS; s++) {
        struct config config = config_of(&settings[s]);
        struct run_model *model = planned_run(&config, NULL);
        struct setup setup;
        struct theory theory;
        assert_int_equal(setup_init(&setup, &config, NULL), STATUS_OK);
        theory_of(&theory, model, run_training(model));
        assert_true(theory.known);
        double sent = 0;
        for (int rank = 0; rank < config.topology.ranks; rank++) sent += (double)setup_sent_bytes(&setup, rank);
        assert_float_equal(theory.planned_bytes, sent / config.topology.ranks, 0.01);
        assert_float_equal(theory.paper_bytes, traffic_theory_bytes(&setup.model, &setup.schedule), 0.5);
        double terms = theory.padding_bytes + theory.parameter_bytes + theory.gradient_bytes;
        assert_float_equal(theory.paper_bytes + terms, theory.planned_bytes, 0.01);
        differ += terms > 1 || terms < -1;
        if (theory.parameter_bytes != 0 || theory.gradient_bytes != 0) assert_true(theory.unit[0]);
        setup_release(&setup);
        run_model_free(model);
        config_release(&config);
    }
    assert_true(differ >= 3); /* padding; small tensors kept gathered; units kept for reuse */
}

/* ---- which knob owns a category ---- */

/* Bytes of a category: at its own fullest, and at the fullest of its tier. -1: there is no such plan. */
struct held { int64_t own, at_peak; };

static struct held held_by(const struct config *config, enum tier tier, enum category category)
{
    struct setup setup;
    if (setup_init(&setup, config, NULL)) return (struct held){-1, -1};
    const struct held held = {setup.footprint.category[tier][category].peak_bytes,
                              setup.footprint.category[tier][category].at_peak_bytes};
    setup_release(&setup);
    return held;
}

/* Other values of a key: every choice, both truths, or none, half and double of a number. Returns how many. */
static int other_values(char values[8][64], const struct config_key *key, const struct config *config)
{
    char now[64];
    int count = 0;
    key_show(key, config, now, sizeof now);
    if (key->type == KEY_CHOICE) {
        for (const char *at = key->range; at && count < 8; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
            snprintf(values[count++], 64, "%.*s", (int)strcspn(at, "|"), at);
    } else if (key->type == KEY_BOOL) {
        snprintf(values[count++], 64, "%s", strcmp(now, "true") ? "true" : "false");
    } else {
        const long long number = atoll(now), others[] = {0, 1, 2, 3, number / 2, 2 * number, INT64_MAX};
        for (int i = 0; i < 7; i++) snprintf(values[count++], 64, "%lld", others[i]);
    }
    return count;
}

/* Whether some other value of the key changes what is planned for the category. What only some stages can offload stays on the
 * device at another stage; the parts of the global batch need not fit each other. */
static bool moves_bytes(const char *path, const struct config *config, enum tier tier, enum category category)
{
    const struct config_key *key = &config_keys[key_index(path)];
    const struct held now = held_by(config, tier, category);
    char values[8][64];
    bool moved = false;
    const int count = other_values(values, key, config);
    for (int i = 0; i < count && !moved; i++) {
        struct config changed = *config;
        if (!strcmp(path, "zero_optimization.stage")) changed.zero.offload_optimizer = changed.zero.offload_param = OFFLOAD_NONE;
        if (key->live ? config_set(&changed, path, values[i], NULL) : config_try(&changed, path, values[i], NULL)) continue;
        const struct held then = held_by(&changed, tier, category);
        moved = then.own >= 0 && (then.own != now.own || then.at_peak != now.at_peak);
    }
    return moved;
}

/* In every plan. The screens show only what a plan has: a category that none has needs no row. */
static void test_each_category_has_a_knob_that_moves_it(void **state)
{
    (void)state;
    bool planned[TIERS][CATEGORIES] = {0};
    for (int n = 0; n < SETTINGS * TIERS * CATEGORIES; n++) {
        const int s = n / (TIERS * CATEGORIES);
        struct config config = config_of(&settings[s]);
        const enum tier tier = (enum tier)(n / CATEGORIES % TIERS);
        const enum category category = (enum category)(n % CATEGORIES);
        const struct held held = held_by(&config, tier, category);
        const char *knob = why_owner(NULL, &config, tier, category, (uint64_t)held.at_peak);
        planned[tier][category] |= held.own > 0;
        if (held.own > 0 && !moves_bytes(knob, &config, tier, category))
            fail_msg("setting %d: %s does not change what %s holds in the %s tier", s, knob, category_name(category),
                     tier_name(tier));
        config_release(&config);
    }
    struct config config = config_of(&settings[0]);
    for (enum tier tier = 0; tier < TIERS; tier++)
        for (enum category category = 0; category < CATEGORIES; category++) {
            const char *knob = why_owner(NULL, &config, tier, category, 0);
            assert_int_equal(planned[tier][category], strncmp(knob, "memory.", 7) != 0); /* a budget: no row */
        }
    config_release(&config);
}

/* ---- what a whole run says ---- */

static void fold(void *user, const struct trace_record *record)
{
    run_model_fold(user, record);
}

static void test_unknown_is_said(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct why why = {0};
    struct error err = {0};
    assert_int_equal(why_peak(&why, model, 0, TIER_DEVICE, &err), STATUS_INPUT);
    struct synthetic run;
    synthetic_story(&run, 4, STORY_STAGE3, fold, model); /* its header holds no configuration that could be planned */
    assert_int_equal(why_peak(&why, model, 0, TIER_DEVICE, &err), STATUS_INPUT);
    assert_int_equal(why.made_from, 0);
    run_model_free(model);
}

static void test_switches(void **state)
{
    (void)state;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct why_switch switches[4];
    struct synthetic run;
    synthetic_story(&run, 4, STORY_STAGE0, fold, model);
    assert_int_equal(why_switches(model, switches, 4), 0);
    run_model_free(model);
    model = run_model_new(&(struct run_model_options){0});
    synthetic_story(&run, 4, STORY_STAGE3, fold, model);
    assert_int_equal(why_switches(model, switches, 2), 2);
    assert_int_equal(why_switches(model, switches, 4), 3);
    assert_string_equal(switches[0].text, "stage 2 -> 3");
    assert_string_equal(switches[2].text, "stage 0 -> 1");
    assert_true(switches[0].before.steps == WHY_SWITCH_STEPS && switches[0].after.steps >= 1);
    assert_int_equal(switches[0].before.stage, 2);
    assert_int_equal(switches[0].after.stage, 3);
    const struct run_step *before = run_step_numbered(model, switches[0].step - 1);
    assert_true(before->memory[TIER_DEVICE].known);
    assert_int_equal(switches[0].before.memory[TIER_DEVICE].peak_bytes, before->memory[TIER_DEVICE].peak_bytes);
    assert_true(switches[2].after.memory[TIER_DEVICE].at_peak_bytes[CATEGORY_OPTIMIZER] <
                switches[2].before.memory[TIER_DEVICE].at_peak_bytes[CATEGORY_OPTIMIZER]);
    run_model_free(model);
}

/* Waits come by length, the short ones are left out, and what is offered against one is planned as it says. */
static void test_waits(void **state)
{
    (void)state;
    struct totals totals = {.temporal.window_ns = 4000};
    struct why_stall stalls[STALLS];
    for (int s = 1; s < STALLS; s++) totals.stall_ns[s] = (uint64_t)(100 * s);
    totals.stall_ns[STALL_GATHER] = 3000, totals.stall_ns[STALL_AGREE] = 39;
    int count = why_stalls(stalls, STALLS, &totals, 4);
    assert_int_equal(count, STALLS - 3); /* none, compute, and what is less than a hundredth */
    assert_int_equal(stalls[0].stall, STALL_GATHER);
    assert_true(stalls[0].ns == 750 && stalls[0].share == 0.75);
    for (int s = 1; s < count; s++) assert_true(stalls[s].ns <= stalls[s - 1].ns && stalls[s].stall != STALL_AGREE);
    assert_int_equal(why_stalls(stalls, 2, &totals, 4), 2);
    assert_int_equal(stalls[1].stall, STALLS - 1);
    totals.stall_ns[STALL_AGREE] = 400;
    count = why_stalls(stalls, STALLS, &totals, 4);

    int against[STALLS] = {0}, offered = 0;
    for (int n = 0; n < SETTINGS; n++) {
        struct config config = config_of(&settings[n]);
        for (int s = 0; s < count; s++) {
            struct why_plan now;
            assert_int_equal(why_stall_changes(&stalls[s], &now, &config, NULL), STATUS_OK);
            assert_planned(&now, &config, TIER_DEVICE);
            for (int c = 0; c < stalls[s].change_count; c++) {
                struct config changed = config_of(&settings[n]);
                obey(&changed, &settings[n], &stalls[s].changes[c]);
                assert_planned(&stalls[s].changes[c].plan, &changed, TIER_DEVICE);
                config_release(&changed);
                against[stalls[s].stall]++, offered++;
            }
        }
        config_release(&config);
    }
    assert_true(offered > 60);
    for (int s = 1; s < STALLS; s++)
        if (against[s] == 0 && s != STALL_COMPUTE && s != STALL_PEERS && s != STALL_AGREE && s != STALL_POOL && s != STALL_PINNED)
            fail_msg("nothing is offered against %s", stall_table[s].name);
}

/* Two hops and groups of a node are offered where there are nodes, and lower what crosses between them. */
static void test_waits_between_nodes(void **state)
{
    (void)state;
    const struct setting nodes = {{"zero_optimization.stage=3", "topology.ranks=4", "topology.ranks_per_node=2"}};
    struct config config = config_of(&nodes);
    struct why_stall stall = {.stall = STALL_GATHER};
    struct why_plan now;
    int less = 0, half = 0;
    assert_int_equal(why_stall_changes(&stall, &now, &config, NULL), STATUS_OK);
    for (int c = 0; c < stall.change_count; c++) {
        less += strstr(stall.changes[c].command, "=2") && stall.changes[c].plan.across_bytes < now.across_bytes;
        half += strstr(stall.changes[c].command, "hierarchical_params_gather=true") &&
                2 * stall.changes[c].plan.across_bytes == now.across_bytes;
    }
    assert_true(now.across_bytes > 0 && less >= 1 && half == 1);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_add_up),
        cmocka_unit_test(test_formulas_are_the_plan),
        cmocka_unit_test(test_formulas_in_numbers),
        cmocka_unit_test(test_changes_come_true),
        cmocka_unit_test(test_what_fills_the_host),
        cmocka_unit_test(test_the_owner_is_what_binds),
        cmocka_unit_test(test_changes_have_a_cost),
        cmocka_unit_test(test_a_higher_stage_can_take_more),
        cmocka_unit_test(test_sentences_add_up),
        cmocka_unit_test(test_kept_answers_are_renewed),
        cmocka_unit_test(test_theory_adds_up),
        cmocka_unit_test(test_each_category_has_a_knob_that_moves_it),
        cmocka_unit_test(test_unknown_is_said),
        cmocka_unit_test(test_switches),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_waits_between_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
