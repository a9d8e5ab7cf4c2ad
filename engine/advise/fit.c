#include "engine/advise/fit.h"

#include <stdlib.h>
#include <string.h>

#include "engine/config/keys.h"
#include "engine/config/resolve.h"

const struct fit_setup fit_setups[FIT_SETUPS] = {
    {.stage = 0},
    {.stage = 1},
    {.stage = 2},
    {.stage = 3},
    {.stage = 1, .optimizer = OFFLOAD_CPU},
    {.stage = 2, .optimizer = OFFLOAD_CPU},
    {.stage = 3, .optimizer = OFFLOAD_CPU},
    {.stage = 3, .param = OFFLOAD_CPU},
    {.stage = 3, .optimizer = OFFLOAD_CPU, .param = OFFLOAD_CPU},
    {.stage = 3, .optimizer = OFFLOAD_NVME},
    {.stage = 3, .param = OFFLOAD_NVME},
    {.stage = 3, .optimizer = OFFLOAD_CPU, .param = OFFLOAD_NVME},
    {.stage = 3, .optimizer = OFFLOAD_NVME, .param = OFFLOAD_CPU},
    {.stage = 3, .optimizer = OFFLOAD_NVME, .param = OFFLOAD_NVME},
};

const char *const fit_family_sets[FIT_FAMILY_SETS] = {"model.name=gpt2", "bf16.enabled=true",
                                                      "train_micro_batch_size_per_gpu=1", "data.sequence_length=1024"};

const char *fit_limit_name(enum fit_limit limit)
{
    static const char *const names[] = {"device", "host", "nvme", "memory", "disk"};
    return names[limit];
}

/* ---- a setup ---- */

bool fit_tiles_are_given(const struct config *config)
{
    return config_is_given(config, "model.mlp_tiles");
}

bool fit_recompute_is_given(const struct config *config)
{
    return config_is_given(config, "model.recompute") ||
           config_is_given(config, "activation_checkpointing.number_checkpoints");
}

static bool is_size(const char *key)
{
    bool is = strcmp(key, "zero_optimization.offload_param.buffer_size") == 0;
    for (int k = 0; k < SIZES_KEYS; k++) is |= strcmp(key, sizes_keys[k]) == 0;
    return is;
}

/* Puts back the sizes that --set gave. */
static void keep_sizes(struct config *changed, const struct config *config)
{
    struct config_given given;
    char value[128];
    for (const char *at = config->given; config_given_next(&at, &given);) {
        if (strcmp(given.from, "set") != 0 || !is_size(given.path)) continue;
        config_show(config, given.path, value, sizeof value);
        config_try(changed, given.path, value, NULL);
    }
}

/* The same; STATUS_USAGE: another of its keys has changed. */
static int keep_sets(struct config *changed, const struct config *config, struct error *err)
{
    struct config_given given;
    char before[128], after[128], name[CONFIG_PATH_MAX];
    keep_sizes(changed, config);
    for (const char *at = config->given; config_given_next(&at, &given);) {
        config_show(config, given.path, before, sizeof before);
        config_show(changed, given.path, after, sizeof after);
        if (strcmp(given.from, "set") != 0 || strcmp(before, after) == 0) continue;
        key_short_name(name, sizeof name, given.path);
        return error_set(err, STATUS_USAGE, "--set %s=%s stays", name, before);
    }
    return STATUS_OK;
}

int fit_apply(struct config *config, const struct fit_setup *setup, const char *folder, struct error *err)
{
    struct config_zero *zero = &config->zero;
    const struct config before = *config;
    zero->stage = setup->stage;
    zero->offload_optimizer = setup->optimizer;
    zero->offload_param = setup->param;
    zero->recompute = setup->recompute;
    if (setup->tiles) config->mlp_tiles = setup->tiles;
    sizes_lower(config, setup->sizes);
    if (config->overlap_follows_stage) zero->overlap_comm = setup->stage == 3;
    if (setup->param == OFFLOAD_NVME && !config_is_given(config, "zero_optimization.offload_param.max_in_cpu"))
        zero->max_in_cpu_elems = 0;
    if (!config_nvme_path(config, false)[0] && folder)
        snprintf(config->nvme.optimizer_path, sizeof config->nvme.optimizer_path, "%s", folder);
    if (config_check(config, NULL)) {
        zero->delayed_update = false;
        zero->offload_ratio = 1;
    }
    const int status = config_check(config, err);
    return status || !setup->keep_sets ? status : keep_sets(config, &before, err);
}

/* ---- what it needs ---- */

static enum category fullest_category(const struct footprint *footprint, enum tier tier)
{
    enum category most = CATEGORY_PARAMETERS;
    for (int c = 1; c < CATEGORIES; c++)
        if (footprint->category[tier][c].at_peak_bytes > footprint->category[tier][most].at_peak_bytes)
            most = (enum category)c;
    return most;
}

/* A run may have more than one schedule, and each has to fit. */
static void add_peaks(struct fit_plan *plan, const struct footprint *footprint)
{
    for (int tier = 0; tier < TIERS; tier++) {
        if (footprint->peak_bytes[tier] <= plan->need[tier].bytes) continue;
        plan->need[tier].bytes = footprint->peak_bytes[tier];
        plan->need[tier].tier = (enum tier)tier;
        plan->need[tier].most = fullest_category(footprint, (enum tier)tier);
        if (tier == TIER_DEVICE)
            plan->need[tier].working = footprint->peak_bytes[tier] - footprint->resting_bytes[tier];
    }
}

/* The first steps of a run with delayed updates delay nothing, and the step after them has nothing pending. */
static int add_first_steps(struct fit_plan *plan, const struct config *config, const struct model *model,
                           struct error *err)
{
    struct config_zero undelayed = config->zero;
    struct schedule_input inputs[2] = {schedule_input_of(config, model, PURPOSE_TRAIN),
                                       schedule_input_of(config, model, PURPOSE_TRAIN)};
    undelayed.delayed_update = false;
    inputs[0].knobs = &undelayed;
    inputs[1].nothing_pending = true;
    for (int i = 0; i < 2; i++) {
        struct schedule schedule;
        struct footprint footprint;
        if (schedule_build(&schedule, &inputs[i], err)) return err->status;
        footprint_of(&footprint, &schedule);
        add_peaks(plan, &footprint);
        schedule_release(&schedule);
    }
    return STATUS_OK;
}

static void add_machine(struct fit_plan *plan, int ranks, bool on_gpu)
{
    const int64_t device_bytes = on_gpu ? 0 : plan->need[FIT_DEVICE].bytes, host_bytes = plan->need[FIT_HOST].bytes;
    plan->need[FIT_MEMORY] = plan->need[!on_gpu && device_bytes >= host_bytes ? FIT_DEVICE : FIT_HOST];
    plan->need[FIT_MEMORY].bytes = (device_bytes + host_bytes) * ranks;
    plan->need[FIT_MEMORY].working = on_gpu ? 0 : plan->need[FIT_DEVICE].working * ranks;
    plan->need[FIT_DISK] = plan->need[FIT_NVME];
    plan->need[FIT_DISK].bytes = plan->need[FIT_NVME].bytes * ranks;
}

static void add_traffic(struct fit_plan *plan, const struct setup *setup)
{
    struct traffic_sum sums[TRAFFIC_KINDS];
    traffic_of(sums, &setup->schedule, &setup->model, 0, 0);
    plan->nvme_bytes = sums[TRAFFIC_NVME_READ].sent_bytes + sums[TRAFFIC_NVME_WRITE].sent_bytes;
    plan->bus_bytes = sums[TRAFFIC_D2H].sent_bytes + sums[TRAFFIC_H2D].sent_bytes;
    plan->sent_bytes = traffic_between_ranks(sums).sent_bytes;
    flops_of(&plan->flops, &setup->schedule, &setup->model);
}

void fit_plan_of(struct fit_plan *plan, const struct config *config)
{
    struct setup setup;
    struct error err = {.text = ""};
    *plan = (struct fit_plan){0};
    int status = setup_init(&setup, config, &err);
    if (!status) {
        plan->parameters = setup.model.elems;
        add_peaks(plan, &setup.footprint);
        if (config->zero.delayed_update) status = add_first_steps(plan, config, &setup.model, &err);
        add_machine(plan, config->topology.ranks, config->topology.backend == BACKEND_CUDA);
        add_traffic(plan, &setup);
        setup_release(&setup);
    }
    plan->planned = !status;
    if (status) snprintf(plan->refusal, sizeof plan->refusal, "%.199s", err.text);
}

void fit_plan_setup(struct fit_plan *plan, const struct config *config, const struct fit_setup *setup,
                    const char *folder)
{
    struct config changed = *config;
    struct error err = {.text = ""};
    *plan = (struct fit_plan){0};
    if (fit_apply(&changed, setup, folder, &err)) snprintf(plan->refusal, sizeof plan->refusal, "%.199s", err.text);
    else fit_plan_of(plan, &changed);
}

/* ---- does it fit? ---- */

int64_t fit_short(const struct fit_plan *plan, const struct fit_limits *limits, enum fit_limit limit)
{
    const uint64_t needed = (uint64_t)plan->need[limit].bytes, most = limits->bytes[limit];
    return most && needed > most ? (int64_t)(needed - most) : 0;
}

enum fit_limit fit_stop(const struct fit_plan *plan, const struct fit_limits *limits)
{
    enum fit_limit worst = FIT_LIMITS;
    double most = 0;
    for (int limit = 0; limit < FIT_LIMITS; limit++) {
        const int64_t lacks = fit_short(plan, limits, (enum fit_limit)limit);
        if (lacks == 0 || (double)lacks / (double)limits->bytes[limit] <= most) continue;
        most = (double)lacks / (double)limits->bytes[limit];
        worst = (enum fit_limit)limit;
    }
    return worst;
}

double fit_lack(const struct fit_plan *plan, const struct fit_limits *limits)
{
    const enum fit_limit stop = fit_stop(plan, limits);
    return stop == FIT_LIMITS ? 0 : (double)fit_short(plan, limits, stop) / (double)limits->bytes[stop];
}

bool fit_fits(const struct fit_plan *plan, const struct fit_limits *limits)
{
    return plan->planned && fit_stop(plan, limits) == FIT_LIMITS;
}

/* ---- the most layers that fit: at the model's width, or with widths that grow as GPT-2's family does ---- */

/* GPT-2's four published sizes, 12 x 768 to 48 x 1600, the line through them, and from the last one on. */
static int family_hidden(int layers)
{
    static const struct {
        int layers, hidden;
    } sizes[] = {{0, 0}, {12, 768}, {24, 1024}, {36, 1280}, {48, 1600}};
    enum { LAST = sizeof sizes / sizeof *sizes - 1 };
    int s = 1;
    while (s < LAST && layers > sizes[s].layers) s++;
    const int rise = sizes[s].hidden - sizes[s - 1].hidden, run = sizes[s].layers - sizes[s - 1].layers,
              hidden = sizes[s - 1].hidden + rise * (layers - sizes[s - 1].layers) / run;
    return hidden < FIT_FAMILY_HEAD ? FIT_FAMILY_HEAD : hidden / FIT_FAMILY_HEAD * FIT_FAMILY_HEAD;
}

void fit_grow(struct config *config, int layers, enum fit_growth growth)
{
    const struct config before = *config;
    config->model.layers = layers;
    if (growth == FIT_GROW_DEEPER) return;
    config->model.hidden = family_hidden(layers);
    config->model.heads = config->model.hidden / FIT_FAMILY_HEAD;
    sizes_scale(config); /* as in our own configurations */
    keep_sizes(config, &before);
}

static void plan_depth(struct fit_plan *plan, const struct config *config, const struct fit_depth *depth, int layers,
                       const char *folder, enum fit_growth growth)
{
    struct config deeper = *config;
    fit_grow(&deeper, layers, growth);
    fit_plan_setup(plan, &deeper, &depth->setup, folder);
}

/* More layers never need less, so the search doubles until it finds a depth that does not fit, and halves what is between. */
void fit_deepest(struct fit_depth *depth, const struct config *config, const struct fit_setup *setup,
                 const struct fit_limits *limits, enum fit_growth growth)
{
    int fits = 0, fails = FIT_LAYERS_MAX + 1;
    *depth = (struct fit_depth){.setup = *setup};
    while (fails - fits > 1) {
        const bool doubling = fails > FIT_LAYERS_MAX;
        int layers = doubling ? (fits ? 2 * fits : 1) : fits + (fails - fits) / 2;
        if (layers > FIT_LAYERS_MAX) layers = FIT_LAYERS_MAX;
        struct fit_plan plan;
        plan_depth(&plan, config, depth, layers, limits->folder, growth);
        if (fit_fits(&plan, limits)) fits = layers, depth->plan = plan;
        else fails = layers, depth->next = plan;
    }
    struct config deepest = *config;
    if (fits) fit_grow(&deepest, fits, growth);
    depth->layers = fits;
    depth->hidden = deepest.model.hidden;
}

/* ---- the whole answer ---- */

/* The tiles that the model as it is has to be cut into; 0: as configured. */
static int chosen_tiles(const struct fit_answer *answer, const struct config *config)
{
    const struct fit_cheapest *cheapest = &answer->cheapest;
    const int tiles = cheapest->count && cheapest->chosen >= 0 ? cheapest->candidates[cheapest->chosen].setup.tiles : 0;
    return tiles == config->mlp_tiles ? 0 : tiles;
}

/* With activations let go of, smaller buckets, or MLPs cut into tiles, the setup that goes furthest may be another. */
static void ask_smaller(struct fit_answer *answer, const struct fit_question *question, enum fit_growth growth)
{
    int64_t most = 0;
    const struct config *config = question->config;
    const bool lets_go = config->zero.recompute == RECOMPUTE_NONE && !fit_recompute_is_given(config);
    const int tiles = chosen_tiles(answer, config);
    struct config lowered = *config;
    if (!lets_go && !tiles && !sizes_lower(&lowered, SIZES_LEAST)) return;
    for (int s = 0; s < FIT_SETUPS; s++)
        if (answer->depths[s].plan.parameters > most) most = answer->depths[s].plan.parameters;
    for (int s = 0; s < FIT_SETUPS; s++) {
        struct fit_setup setup = fit_setups[s];
        struct fit_depth depth;
        setup.recompute = lets_go ? RECOMPUTE_FULL : config->zero.recompute;
        setup.tiles = tiles;
        setup.sizes = SIZES_LEAST;
        setup.keep_sets = question->limits.keep_sets;
        fit_deepest(&depth, config, &setup, &question->limits, growth);
        if (depth.layers == 0 || depth.plan.parameters <= most) continue;
        most = depth.plan.parameters;
        answer->smaller = depth;
    }
}

struct fit_answer *fit_answer(const struct fit_question *question, struct error *err)
{
    const enum fit_growth growth = question->any_model ? FIT_GROW_AS_GPT2 : FIT_GROW_DEEPER;
    if (question->any_model && 4 * FIT_FAMILY_HEAD % question->config->mlp_tiles) {
        error_set(err, STATUS_USAGE,
                  "model.mlp_tiles=%d does not divide 4 x hidden of every model of the family; take a power of two",
                  question->config->mlp_tiles);
        return NULL;
    }
    struct fit_answer *answer = calloc(1, sizeof *answer);
    if (!answer) {
        error_set(err, STATUS_RUN, "no memory for a table of setups");
        return NULL;
    }
    if (!question->any_model) fit_cheapest(&answer->cheapest, question->config, &question->limits);
    answer->fits = question->any_model || answer->cheapest.chosen >= 0;
    for (int s = 0; s < FIT_SETUPS; s++) {
        struct fit_setup setup = fit_setups[s];
        setup.recompute = question->config->zero.recompute;
        setup.keep_sets = question->limits.keep_sets;
        fit_deepest(&answer->depths[s], question->config, &setup, &question->limits, growth);
    }
    ask_smaller(answer, question, growth);
    return answer;
}
