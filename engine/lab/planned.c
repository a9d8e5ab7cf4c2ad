/* Metrics of setups that are only planned, and the short names in which labs write settings. Building a plan takes from
 * fractions of a millisecond (nano) to some (gpt2-xl), so callers ask for values on events, not in every frame. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/present.h"
#include "engine/base/nearest.h"
#include "engine/base/words.h"
#include "engine/lab/expression_parts.h"
#include "engine/simulate/simulate.h"

static const struct dimension plain = {0, 0}, bytes = {1, 0}, seconds = {0, 1};

/* ---- settings ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *path;
} short_names[] = {
    {"model", "model.name"},
    {"layers", "model.layers"},
    {"hidden", "model.hidden"},
    {"heads", "model.heads"},
    {"context", "model.context"},
    {"vocabulary", "model.vocabulary"},
    {"recompute", "model.recompute"},
    {"sequence", "data.sequence_length"},
    {"stage", "zero_optimization.stage"},
    {"ranks", "topology.ranks"},
    {"batch", "train_micro_batch_size_per_gpu"},
    {"accumulation", "gradient_accumulation_steps"},
    {"bucket", "zero_optimization.reduce_bucket_size"},
    {"gather_bucket", "zero_optimization.allgather_bucket_size"},
    {"prefetch", "zero_optimization.stage3_prefetch_bucket_size"},
    {"live", "zero_optimization.stage3_max_live_parameters"},
    {"reuse", "zero_optimization.stage3_max_reuse_distance"},
    {"persistence", "zero_optimization.stage3_param_persistence_threshold"},
    {"overlap", "zero_optimization.overlap_comm"},
    {"bf16", "bf16.enabled"},
    {"fp16", "fp16.enabled"},
    {"budget", "memory.device_budget"},
    {"offload", "zero_optimization.offload_optimizer.device"},
    {"offload_param", "zero_optimization.offload_param.device"},
    {"link", "topology.links.intra.bandwidth"},
    {"pcie", "topology.links.pcie.bandwidth"},
    {"nvme", "topology.links.nvme.bandwidth"},
    {"slow", "topology.slow_motion"},
    {"flops", "topology.device_flops"},
    {"host_budget", "memory.host_budget"},
};
enum { SHORT_NAMES = sizeof short_names / sizeof *short_names };

static char *setting(const char *text, size_t length)
{
    char *out = NULL;
    size_t name = strcspn(text, "=");
    for (int s = 0; s < SHORT_NAMES; s++)
        if (strlen(short_names[s].name) == name && strncmp(short_names[s].name, text, name) == 0)
            return asprintf(&out, "%s%.*s", short_names[s].path, (int)(length - name), text + name) < 0 ? NULL : out;
    return strndup(text, length);
}

/* The short name that is nearest to one without a dot; NULL: none, or the name is known. */
static const char *nearest_short(const char *text, size_t length)
{
    char typed[48];
    const char *names[SHORT_NAMES];
    for (int s = 0; s < SHORT_NAMES; s++) names[s] = short_names[s].name;
    if (length >= sizeof typed || memchr(text, '.', length)) return NULL;
    snprintf(typed, sizeof typed, "%.*s", (int)length, text);
    return nearest_name(typed, names, SHORT_NAMES);
}

/* Reports a misspelt short name, which would otherwise be taken for a configuration key. */
static int unknown_key(const char *text, const struct error *found, struct error *err)
{
    for (text += strspn(text, " \t"); *text; text += strcspn(text, " \t"), text += strspn(text, " \t")) {
        const size_t length = strcspn(text, "=");
        const char *nearest = nearest_short(text, length);
        char said[64];
        snprintf(said, sizeof said, " %.*s: unknown key", (int)(length < 40 ? length : 40), text);
        if (nearest && strstr(found->text, said))
            return error_set(err, STATUS_USAGE, "%.*s: unknown key; did you mean %s?", (int)length, text, nearest);
    }
    return *err = *found, found->status;
}

static int split(struct text_list *out, const char *text, struct error *err)
{
    for (text += strspn(text, " \t"); *text; text += strspn(text, " \t")) {
        size_t length = strcspn(text, " \t");
        if (!memchr(text, '=', length))
            return error_set(err, STATUS_USAGE, "%.*s: settings are KEY=VALUE", (int)(length > 40 ? 40 : length), text);
        if (out->count == LAB_SETS_MAX)
            return error_set(err, STATUS_USAGE, "there are more than %d settings", LAB_SETS_MAX);
        if (!(out->at[out->count] = setting(text, length))) return error_set(err, STATUS_RUN, "no memory for settings");
        out->count++;
        text += length;
    }
    return STATUS_OK;
}

int lab_refuse_place(const char *key, struct error *err)
{
    return error_set(err, STATUS_USAGE,
                     "%s: a lab does not choose where files are written; leave it out, its checkpoints have a folder of "
                     "their own",
                     key);
}

/* The settings of `text`, which `out` owns, and the configuration that they make after `sets`. */
static int read_setup(struct config *config, struct text_list *out, const char *text, const struct text_list *sets,
                      struct error *err)
{
    const char *all[2 * TEXT_LIST_MAX];
    int count = 0;
    struct error found;
    *out = (struct text_list){0};
    int status = split(out, text, err);
    for (int i = 0; sets && i < sets->count; i++) all[count++] = sets->at[i];
    for (int i = 0; i < out->count; i++) all[count++] = out->at[i];
    if (!status && config_load_text(config, config_nano, all, count, &found)) {
        error_prefix(&found, "the setup");
        status = unknown_key(text, &found, err);
    } else if (!status && config_place(config)) {
        status = lab_refuse_place(config_place(config), err);
        config_release(config);
    }
    if (status) text_list_release(out);
    return status;
}

int lab_settings(struct text_list *out, const char *text, const struct text_list *sets, struct error *err)
{
    struct config config;
    const int status = read_setup(&config, out, text, sets, err);
    if (!status) config_release(&config);
    return status;
}

int lab_config(struct config *config, const char *text, const struct text_list *sets, struct error *err)
{
    struct text_list more;
    const int status = read_setup(config, &more, text, sets, err);
    text_list_release(&more);
    return status;
}

/* ---- values -------------------------------------------------------------------------------------------------------- */

struct lab_value value_of_key(const struct config *config, const char *key)
{
    char text[160];
    struct quantity quantity;
    char *path = setting(key, strlen(key));
    config_show(config, path ? path : key, text, sizeof text);
    free(path);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return value_known(text[0] == 't', plain);
    if (!quantity_read(&quantity, text, NULL)) return value_unknown("%.60s is not a key that has a number", key);
    return value_known(quantity.value, plain);
}

static double memory_of(const struct node *node, const struct footprint *footprint)
{
    const enum tier tier = node->of.tier;
    const int category = node->of.category;
    if (node->metric == METRIC_RESTING)
        return (double)(category == ANY ? footprint->resting_bytes[tier]
                                        : footprint->category[tier][category].resting_bytes);
    if (category == ANY) return (double)footprint->peak_bytes[tier];
    return (double)(node->metric == METRIC_PEAK ? footprint->category[tier][category].peak_bytes
                                                : footprint->category[tier][category].at_peak_bytes);
}

/* Mean over ranks, or of one; in all, or across nodes. */
static double sent(const struct node *node, const struct config *config, const struct setup *setup)
{
    double sum = 0;
    int ranks = 0;
    for (int rank = 0; rank < setup->schedule.ranks; rank++) {
        struct traffic_sum sums[TRAFFIC_KINDS];
        if (node->of.rank != ANY && node->of.rank != rank) continue;
        traffic_of(sums, &setup->schedule, &setup->model, rank, config->topology.ranks_per_node);
        for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
            if (node->of.kind == ANY ? kind != TRAFFIC_CONTROL && !traffic_is_copy((enum traffic)kind)
                                     : kind == node->of.kind)
                sum += (double)(node->metric == METRIC_ACROSS ? sums[kind].across_bytes : sums[kind].sent_bytes);
        ranks++;
    }
    return ranks ? sum / ranks : 0;
}

/* Model states as a preset counts them: needs only the plan's stage, ranks and number of parameters. */
static struct lab_value accounted(const struct node *node, const struct setup *setup)
{
    const struct accounting *accounting;
    const int stage = setup->schedule.stage;
    struct error err;
    if (accounting_find(&accounting, node->of.text, &err)) return value_unknown("%.150s", err.text);
    if (!accounting_speaks_of(accounting, stage))
        return value_unknown("%s says nothing of stage %d", accounting->name, stage);
    return value_known((double)setup->model.elems * accounting_bytes(accounting, stage, setup->schedule.ranks), bytes);
}

static double count(const struct node *node, const struct schedule *schedule)
{
    double sum = 0;
    for (int o = 0; o < schedule->op_count; o++)
        sum += (node->of.op == ANY || node->of.op == op_words(schedule->ops[o].kind, schedule->ops[o].use)->code) &&
               (!node->of.ahead || schedule->ops[o].prefetch) &&
               (node->of.phase == ANY || node->of.phase == (int)schedule->ops[o].phase);
    return sum;
}

/* Matrices with elements in more than one rank's shard. */
static double cut_matrices(const struct setup *setup)
{
    double cut = 0;
    for (int u = 0; u < setup->model.unit_count; u++) {
        const struct unit *unit = &setup->model.units[u];
        const int64_t shard = shard_elems(unit->elems, setup->schedule.ranks);
        for (int t = 0; t < unit->tensor_count; t++) {
            const struct tensor *tensor = &unit->tensors[t];
            cut += tensor->columns > 1 && tensor->offset / shard != (tensor->offset + tensor->elems - 1) / shard;
        }
    }
    return cut;
}

static struct lab_value of_setup(const struct node *node, const struct config *config, const struct setup *setup)
{
    double step_s;
    switch (node->metric) {
    case METRIC_PEAK:
    case METRIC_AT_PEAK:
    case METRIC_RESTING: return value_known(memory_of(node, &setup->footprint), bytes);
    case METRIC_SENT:
    case METRIC_ACROSS: return value_known(sent(node, config, setup), bytes);
    case METRIC_THEORY: return value_known(traffic_theory_bytes(&setup->model, &setup->schedule), bytes);
    case METRIC_COUNT: return value_known(count(node, &setup->schedule), plain);
    case METRIC_STAGE: return value_known(config->zero.stage, plain);
    case METRIC_BUDGET: return value_known((double)config->budget_bytes[node->of.tier], bytes);
    case METRIC_RANKS: return value_known(config->topology.ranks, plain);
    case METRIC_PSI: return value_known((double)setup->model.elems, plain);
    case METRIC_BLOCK: return value_known((double)model_block_elems(&setup->model), plain);
    case METRIC_LAYERS: return value_known(setup->model.shape.layers, plain);
    case METRIC_CUT: return value_known(cut_matrices(setup), plain);
    case METRIC_KNOB: return value_of_key(config, node->of.text);
    case METRIC_ACCOUNTING: return accounted(node, setup);
    case METRIC_PACED:
        step_s = paced_seconds(setup, config);
        return isnan(step_s) ? value_unknown("no memory to follow a step") : value_known(step_s, seconds);
    default: return value_unknown("a plan does not say this");
    }
}

/* With no settings: the run as it is now, with what was changed while it went on. */
struct lab_value planned_value(const struct node *node, const struct lab_scene *scene)
{
    struct config config;
    struct setup setup;
    struct error err = {0};
    struct lab_value value;
    const bool now = !*node->plan && scene->model && scene->model->header.known;
    const int status = now ? present_config(&config, scene->model, &err)
                           : lab_config(&config, node->plan, scene->sets, &err);
    if (status) return value_unknown("%.150s", err.text);
    if (setup_init(&setup, &config, &err)) value = value_unknown("%.150s", err.text);
    else value = of_setup(node, &config, &setup), setup_release(&setup);
    config_release(&config);
    return value;
}

/* ---- contests ------------------------------------------------------------------------------------------------------ */

enum { COMBINATIONS_MAX = 2000 };

static int combinations(const struct lab_tries *tries)
{
    int64_t count = tries && tries->count ? 1 : 0;
    for (int t = 0; count && t < tries->count && count <= COMBINATIONS_MAX; t++) count *= tries->at[t].count;
    return count > COMBINATIONS_MAX ? COMBINATIONS_MAX + 1 : (int)count;
}

/* The configuration of one combination; STATUS_USAGE: there is none such (offload without a stage to offload from ...). */
static int config_of(struct config *config, const struct lab_tries *tries, const int *chosen,
                     const struct text_list *sets, struct error *err)
{
    char text[LAB_TRIES_MAX * 160] = "";
    for (int t = 0; t < tries->count; t++)
        text_append(text, sizeof text, "%.100s=%.50s ", tries->at[t].key, tries->at[t].values[chosen[t]]);
    return lab_config(config, text, sets, err);
}

static void try_one(struct contest *contest, const struct config *config, const int *chosen)
{
    struct setup setup;
    struct error ignored;
    if (setup_init(&setup, config, &ignored)) return;
    contest->tried++;
    const double step_s = footprint_fits(&setup.footprint, config->budget_bytes) ? paced_seconds(&setup, config) : NAN;
    if (!isnan(step_s) && (contest->fitting++ == 0 || step_s < contest->best_s)) {
        contest->best_s = step_s;
        memcpy(contest->best, chosen, sizeof contest->best);
    }
    setup_release(&setup);
}

void contest_hold(struct contest *contest, const struct lab_tries *tries, const struct text_list *sets)
{
    *contest = (struct contest){0};
    for (int c = 0, all = combinations(tries); c < all; c++) {
        int chosen[LAB_TRIES_MAX] = {0}, rest = c;
        struct config config;
        struct error ignored;
        for (int t = 0; t < tries->count; t++) chosen[t] = rest % tries->at[t].count, rest /= tries->at[t].count;
        if (config_of(&config, tries, chosen, sets, &ignored)) continue;
        try_one(contest, &config, chosen);
        config_release(&config);
    }
}

/* Combinations are counted with the key in question as the fastest digit, so the first few say all. */
static int check_key(const struct lab_tries *tries, int key, const struct text_list *sets, struct error *err)
{
    struct error why;
    unsigned possible = 0;
    const int values = tries->at[key].count;
    for (int c = 0, all = combinations(tries); c < all && possible != (1u << values) - 1; c++) {
        int chosen[LAB_TRIES_MAX] = {0}, rest = c / values;
        struct config config;
        for (int t = 0; t < tries->count; t++)
            if (t != key) chosen[t] = rest % tries->at[t].count, rest /= tries->at[t].count;
        chosen[key] = c % values;
        if (possible >> chosen[key] & 1 || config_of(&config, tries, chosen, sets, &why)) continue;
        config_release(&config);
        possible |= 1u << chosen[key];
    }
    for (int v = 0; v < values; v++)
        if (!(possible >> v & 1))
            return error_set(err, STATUS_USAGE, "try: %.60s=%.40s is possible in no combination: %.200s",
                             tries->at[key].key, tries->at[key].values[v], why.text);
    return STATUS_OK;
}

int contest_check(const struct lab_tries *tries, const struct text_list *sets, struct error *err)
{
    int status = STATUS_OK;
    if (combinations(tries) > COMBINATIONS_MAX)
        return error_set(err, STATUS_USAGE, "try: these are more than %d setups", COMBINATIONS_MAX);
    for (int key = 0; key < tries->count && !status; key++) status = check_key(tries, key, sets, err);
    return status;
}
