/* `zerolab plan --fit`: what there is, the cheapest setup for the model as it is, and how deep a model of its width could be in each
 * setup. As JSON, and as a page of at most 80 columns. */
#include <string.h>

#include "engine/advise/fit.h"
#include "engine/base/template.h"
#include "engine/base/words.h"

/* "1.50 GiB", "14.31 MiB"; "": 0 */
static const char *sized(char out[32], uint64_t bytes)
{
    const bool large = bytes >= 1u << 30;
    snprintf(out, 32, "%.2f %s", (double)bytes / (large ? 1 << 30 : 1 << 20), large ? "GiB" : "MiB");
    return bytes ? out : "";
}

/* ---- what there is ---- */

static void add_gpu(cJSON *facts, const struct fit_question *question)
{
    const int ranks = question->ranks_on_gpu;
    const uint64_t budget = question->config->budget_bytes[TIER_DEVICE], free_bytes = question->gpu_bytes,
                   each = free_bytes / (uint64_t)(ranks ? ranks : 1);
    char a[32], b[32];
    json_put(facts, TRUTH(".on_gpu", ranks > 0), NUMBER(".sharers", ranks), TEXT(".gpu", sized(a, free_bytes)),
             TEXT(".each", ranks > 1 ? sized(b, each) : ""), TRUTH(".device_budget", budget > 0),
             TRUTH(".over", free_bytes && budget > each));
}

static void add_room(cJSON *facts, const struct fit_question *question)
{
    const struct config *config = question->config;
    const uint64_t *bytes = question->limits.bytes;
    char a[32], b[32], c[32];
    cJSON *budgets = cJSON_AddObjectToObject(facts, ".budgets"), *limits = cJSON_AddObjectToObject(facts, "limit_bytes");
    for (int tier = 0; tier < TIERS; tier++)
        json_put(budgets, TEXT(tier_name(tier), sized(a, config->budget_bytes[tier])));
    for (enum fit_limit limit = 0; limit < FIT_LIMITS; limit++)
        if (bytes[limit]) json_put(limits, NUMBER(fit_limit_name(limit), bytes[limit]));
    json_put(facts, TEXT(".memory", sized(a, bytes[FIT_MEMORY])), TEXT(".disk", sized(b, bytes[FIT_DISK])),
             TEXT(".machine", sized(c, question->machine_bytes)),
             TEXT(".folder", question->limits.folder ? question->limits.folder : ""),
             TRUTH(".one_memory", bytes[FIT_MEMORY] && !bytes[FIT_DEVICE] && !question->ranks_on_gpu));
    add_gpu(facts, question);
}

static void add_head(cJSON *facts, const struct fit_question *question)
{
    const struct config *config = question->config;
    json_put(facts, TEXT("model", question->any_model ? "gpt2 family" : config->model.name),
             NUMBER("ranks", config->topology.ranks), TRUTH(".any", question->any_model),
             TEXT(".dtype", dtype_name(config->dtype)), TEXT(".optimizer", config->optimizer.type),
             NUMBER(".micro_batch", config->micro_batch_size), NUMBER(".tokens", config->data.sequence_length),
             NUMBER_IF(".accumulation", config->accumulation_steps > 1, config->accumulation_steps),
             NUMBER(".layers", config->model.layers), NUMBER(".width", config->model.hidden),
             TEXT(".recompute", recompute_name(config->zero.recompute)));
    add_room(facts, question);
}

/* ---- a setup and its plan ---- */

const char *fit_setup_text(char text[160], const struct fit_setup *setup)
{
    static const char *const sizes[SIZES] = {"", ", buckets and prefetch of a block", ", the least buckets and prefetch"};
    snprintf(text, 160, "stage %d", setup->stage);
    if (setup->optimizer) text_append(text, 160, ", offload_optimizer %s", offload_name(setup->optimizer));
    if (setup->param) text_append(text, 160, ", offload_param %s", offload_name(setup->param));
    if (setup->recompute) text_append(text, 160, ", model.recompute %s", recompute_name(setup->recompute));
    if (setup->tiles > 1) text_append(text, 160, ", model.mlp_tiles %d", setup->tiles);
    text_append(text, 160, "%s", sizes[setup->sizes]);
    return text;
}

static void add_setup(cJSON *object, const struct fit_setup *setup)
{
    char text[160];
    json_put(object, NUMBER("stage", setup->stage), TEXT("offload_optimizer", offload_name(setup->optimizer)),
             TEXT("offload_param", offload_name(setup->param)), TEXT("recompute", recompute_name(setup->recompute)));
    if (setup->tiles) json_put(object, NUMBER("mlp_tiles", setup->tiles));
    json_put(object, TEXT("sizes", sizes_name(setup->sizes)), TEXT(".setup", fit_setup_text(text, setup)),
             TEXT(".optimizer", setup->optimizer ? offload_name(setup->optimizer) : "-"),
             TEXT(".param", setup->param ? offload_name(setup->param) : "-"));
}

static void add_plan(cJSON *object, const struct fit_plan *plan)
{
    if (!plan->planned) return;
    json_put(object, NUMBER("parameters", plan->parameters));
    cJSON *peaks = cJSON_AddObjectToObject(object, "peak_bytes");
    for (int tier = 0; tier < TIERS; tier++) json_put(peaks, NUMBER(tier_name(tier), plan->need[tier].bytes));
    json_put(object, NUMBER("nvme_bytes_per_step", plan->nvme_bytes), NUMBER("bus_bytes_per_step", plan->bus_bytes),
             NUMBER("sent_bytes_per_step", plan->sent_bytes),
             NUMBER("flops_per_step", plan->flops.forward + plan->flops.backward),
             NUMBER("recomputed_flops_per_step", plan->flops.recomputed));
}

/* Where and what is missing; null: nothing is. */
static void add_lacks(cJSON *object, const char *name, const struct fit_plan *plan, const struct fit_limits *limits)
{
    const enum fit_limit stop = plan->planned ? fit_stop(plan, limits) : FIT_LIMITS;
    const bool nothing = plan->planned && stop == FIT_LIMITS;
    cJSON *lacks = nothing ? cJSON_AddNullToObject(object, name) : cJSON_AddObjectToObject(object, name);
    if (!plan->planned) json_put(lacks, TEXT("refused", plan->refusal));
    else if (!nothing)
        json_put(lacks, TEXT("limit", fit_limit_name(stop)), TEXT("tier", tier_name(plan->need[stop].tier)),
                 TEXT("category", category_name(plan->need[stop].most)), NUMBER("bytes", fit_short(plan, limits, stop)));
}

/* ---- the model as it is ---- */

static void add_needs(cJSON *object, const struct fit_plan *plan, const struct fit_limits *limits)
{
    cJSON *list = cJSON_AddArrayToObject(object, ".needs");
    for (enum fit_limit limit = 0; limit < FIT_LIMITS; limit++)
        if (plan->need[limit].bytes && (limit <= FIT_NVME || limits->bytes[limit]))
            json_put(json_item(list), TEXT("limit", fit_limit_name(limit)), NUMBER("bytes", plan->need[limit].bytes),
                     NUMBER_IF("most", limits->bytes[limit], limits->bytes[limit]),
                     TEXT("category", category_name(plan->need[limit].most)));
}

static void add_costs(cJSON *object, const struct fit_plan *plan)
{
    const struct {
        const char *what;
        int64_t bytes;
    } costs[] = {{"read from NVMe and written to it", plan->nvme_bytes},
                 {"over the bus to the host and back", plan->bus_bytes},
                 {"to other ranks", plan->sent_bytes}};
    const char *name = "a step";
    cJSON *list = cJSON_AddArrayToObject(object, ".costs");
    for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
        if (costs[c].bytes == 0) continue;
        json_put(json_item(list), TEXT("name", name), NUMBER("bytes", costs[c].bytes), TEXT("what", costs[c].what));
        name = "";
    }
    json_put(object, TEXT(".again_name", name),
             NUMBER(".again", plan->flops.recomputed / (plan->flops.forward + plan->flops.backward)));
}

static void add_set(void *user, const char *key, const char *value)
{
    cJSON *cheapest = user, *list = cJSON_GetObjectItemCaseSensitive(cheapest, ".sets");
    const char *word = list && list->child ? "" : "set";
    json_put(cJSON_GetObjectItemCaseSensitive(cheapest, "set"), TEXT(key, value));
    json_put(json_item(list), TEXT("word", word), TEXT("key", key), TEXT("value", value));
}

/* One line for each way of holding the model: the recomputation and tiles that come nearest. */
static bool is_nearest(const struct fit_cheapest *answer, int candidate, int until, const struct fit_limits *limits)
{
    const struct fit_setup *setup = &answer->candidates[candidate].setup;
    double nearest = -1;
    int best = candidate;
    for (int c = 0; c < until; c++) {
        const struct fit_candidate *other = &answer->candidates[c];
        if (other->setup.stage != setup->stage || other->setup.optimizer != setup->optimizer ||
            other->setup.param != setup->param || !other->plan.planned || fit_fits(&other->plan, limits))
            continue;
        const double lacks = fit_lack(&other->plan, limits);
        if (nearest >= 0 && lacks >= nearest) continue;
        nearest = lacks;
        best = c;
    }
    return best == candidate;
}

/* Whether something cheaper is only too large for this machine, and not for the budgets that were given. */
static bool fits_elsewhere(const struct fit_cheapest *answer, int until, const struct fit_limits *limits, enum fit_limit own)
{
    struct fit_limits without = *limits;
    without.bytes[own] = 0;
    for (int c = 0; c < until && limits->bytes[own]; c++)
        if (fit_fits(&answer->candidates[c].plan, &without)) return true;
    return false;
}

static cJSON *add_candidate(cJSON *object, const struct fit_candidate *candidate, const struct fit_limits *limits)
{
    add_setup(object, &candidate->setup);
    add_plan(object, &candidate->plan);
    add_lacks(object, "lacks", &candidate->plan, limits);
    return object;
}

static void add_cheapest(cJSON *facts, const struct fit_cheapest *answer, const struct fit_question *question)
{
    const int until = answer->chosen < 0 ? answer->count : answer->chosen;
    const struct fit_limits *limits = &question->limits;
    const struct fit_candidate *chosen = answer->chosen < 0 ? NULL : &answer->candidates[answer->chosen];
    cJSON *cheapest = chosen ? cJSON_AddObjectToObject(facts, "cheapest") : cJSON_AddNullToObject(facts, "cheapest");
    if (chosen) {
        add_candidate(cheapest, chosen, limits);
        add_needs(cheapest, &chosen->plan, limits);
        add_costs(cheapest, &chosen->plan);
        cJSON_AddObjectToObject(cheapest, "set");
        cJSON_AddArrayToObject(cheapest, ".sets");
        fit_sets(question->config, &chosen->setup, limits->folder, add_set, cheapest);
    }
    cJSON *cheaper = cJSON_AddArrayToObject(facts, "cheaper");
    for (int c = 0; c < until; c++)
        json_put(add_candidate(json_item(cheaper), &answer->candidates[c], limits),
                 TRUTH(".nearest", is_nearest(answer, c, until, limits)));
    json_put(facts, TRUTH(".memory_stops", fits_elsewhere(answer, until, limits, FIT_MEMORY)),
             TRUTH(".disk_stops", fits_elsewhere(answer, until, limits, FIT_DISK)));
}

/* ---- how deep ---- */

/* Parameters of the same stage with all of it on the device. */
static int64_t without_offload(const struct fit_depth *depths, int stage)
{
    for (int d = 0; d < FIT_SETUPS; d++)
        if (depths[d].setup.stage == stage && !depths[d].setup.optimizer && !depths[d].setup.param)
            return depths[d].plan.parameters;
    return 0;
}

static bool is_configured(const struct config *config, const struct fit_setup *setup)
{
    return config->zero.stage == setup->stage && config->zero.offload_optimizer == setup->optimizer &&
           config->zero.offload_param == setup->param;
}

static cJSON *add_depth(cJSON *object, const struct fit_depth *depth, const struct fit_limits *limits)
{
    const bool most = depth->layers == FIT_LAYERS_MAX;
    add_setup(object, &depth->setup);
    json_put(object, NUMBER("layers", depth->layers), NUMBER("hidden", depth->hidden), TRUTH(".most", most),
             NUMBER(".width", depth->layers ? depth->hidden : 0));
    if (depth->layers) add_plan(object, &depth->plan);
    if (most) cJSON_AddNullToObject(object, "next_lacks");
    else add_lacks(object, "next_lacks", &depth->next, limits);
    return object;
}

static void add_depths(cJSON *facts, const struct fit_question *question, const struct fit_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(facts, "deepest");
    bool any_most = false;
    for (int d = 0; d < FIT_SETUPS; d++) {
        const struct fit_depth *depth = &answer->depths[d];
        const struct fit_setup *setup = &depth->setup;
        const int64_t plain = without_offload(answer->depths, setup->stage);
        const bool compares = plain && depth->layers && (setup->optimizer || setup->param);
        json_put(add_depth(json_item(list), depth, &question->limits),
                 NUMBER_IF(".ratio", compares, (double)depth->plan.parameters / (double)plain),
                 TRUTH(".configured", !question->any_model && is_configured(question->config, setup)));
        any_most |= depth->layers == FIT_LAYERS_MAX;
    }
    json_put(facts, NUMBER_IF(".layers_max", any_most, FIT_LAYERS_MAX));
    if (answer->smaller.layers) add_depth(cJSON_AddObjectToObject(facts, "smaller"), &answer->smaller, &question->limits);
}

/* ---- the page ---- */

static const char page[] =
    "{?.any}GPT-2's family{/}{!.any}{model}{/}: {.dtype}, {.optimizer}, {ranks} rank{ranks:s}, "
    "micro-batch {.micro_batch} x {.tokens} tokens{?.accumulation} x {.accumulation}{/}\n"
    "budgets of a rank: device {.budgets.device|none}, host {.budgets.host|none}, nvme {.budgets.nvme|none}\n"
    "{?.on_gpu}{!.gpu}GPU memory: not known, no GPU can be asked here"
    "{!.device_budget}; give memory.device_budget for an answer that holds for one{/}\n{/}"
    "{?.gpu}GPU memory free here: {.gpu}{?.each}, which {.sharers} ranks share: {.each} each{/}\n{/}"
    "{?.over}(device budgets together are more than that)\n{/}{/}"
    "{?.memory}memory free here: {.memory}, for {?.on_gpu}the {/}{!.on_gpu}device and {/}host tiers of all ranks\n{/}"
    "{?.disk}disk free under {.folder}: {.disk}, for the NVMe tiers of all ranks\n{/}"
    "{?.one_memory}(no device budget: both tiers share this memory, so cpu offload gains little)\n{/}"
    "{?.machine}(all ranks' budgets together are more than the {.machine} of memory free here)\n{/}"

    "{!.any}{!cheapest}\nNothing here trains {model} as it is ({.layers} layers):\n"
    "a smaller micro-batch, more ranks or larger budgets would be needed\n{/}"
    "{#cheapest}\nThe cheapest setup for {model} as it is ({.layers} layers, {parameters:,} parameters)\n  {~:2}{.setup}{/}"
    "{#.needs}  {limit:-7} {bytes:15,} bytes{?most} of {most:15,} {bytes/most:5%}{/}{!most}           no limit      {/}"
    "  most of it {category}\n{/}"
    "{#.costs}  {name:-7|} {bytes:15,} bytes {what}\n{/}"
    "{+.again}  {.again_name:-7|} {.again:16.1%} more products, to recompute\n{/}"
    "{#.sets}  {word:-7|} --set {key}={value}\n{/}{!.sets}  set     nothing: it is configured so\n{/}{/}"
    "{?.memory_stops}  limited by this machine's memory ({.memory} for {ranks} rank{ranks:s}):\n"
    "  {!.device_budget}{!.on_gpu}memory.device_budget=... with {/}{/}memory.host_budget=... plans for another\n{/}"
    "{?.disk_stops}  limited by this machine's disk ({.disk} for {ranks} rank{ranks:s}):\n"
    "  memory.nvme_budget=... plans for another\n{/}"
    "{!cheaper}  nothing is cheaper (fewer bytes off the device, less recomputed, lower stage)\n{/}{?cheaper}\n{?cheapest}What would be cheaper{/}{!cheapest}What was tried{/}"
    ", cheapest first, and the bytes that it lacks most\n"
    "  stage optimizer param recompute tiles sizes  short, bytes  of what\n"
    "{#cheaper}{?.nearest}  {stage:5} {.optimizer:-9} {.param:-5} {recompute:-9} {mlp_tiles:5} {sizes:-5}"
    "{?lacks.refused}  refused: {lacks.refused:.30}{/}{!lacks.refused} {lacks.bytes:13,}  {lacks.limit}: {lacks.category}{/}\n{/}{/}"
    "  (cheaper: fewer bytes over NVMe, then over the bus to the host, then less\n"
    "  recomputed, then fewer tiles, then sizes of buckets and gathers as given,\n"
    "  then a block's, then the least, then fewer bytes between ranks, then a lower\n"
    "  stage)\n{/}{/}"

    "{?.any}\nThe largest of the family, wider with depth as GPT-2's four sizes are\n{/}"
    "{!.any}\nThe deepest at this width ({.width}), model.recompute {.recompute}\n{/}"
    "  stage optimizer param depth{?.any} x width{/}      parameters ratio  next layer lacks\n"
    "{#deepest}{?.configured}>{/}{!.configured} {/} {stage:5} {.optimizer:-9} {.param:-5} {layers:5}{?.any} x {.width:-5}{/}"
    "  {parameters:14,|-} {.ratio:5.2|}  {?.most}search limit{/}"
    "{!.most}{?next_lacks.refused}{next_lacks.refused:.40}{/}{!next_lacks.refused}{next_lacks.limit}: {next_lacks.category}{/}{/}\n{/}"
    "  ({!.any}>: configured; {/}ratio: to parameters of the stage with nothing offloaded)\n"
    "{?.layers_max}  (no more than {.layers_max} layers are looked at)\n{/}"
    "{#smaller}  {~:2}{.setup}{/}  {layers} layer{layers:s}, {parameters:,} parameters{?.most}; no more are looked at{/}\n{/}";

int fit_print(FILE *out, bool as_json, const struct fit_question *question, const struct fit_answer *answer, struct error *err)
{
    cJSON *facts = cJSON_CreateObject();
    add_head(facts, question);
    if (!question->any_model) add_cheapest(facts, &answer->cheapest, question);
    add_depths(facts, question, answer);
    return template_answer(out, as_json, page, facts, err);
}
