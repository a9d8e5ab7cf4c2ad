/* `zerolab plan --fit` as a page of at most 80 columns: what there is, the cheapest setup for the model as it is, and how deep
 * a model of its width could be in each setup. */
#include <inttypes.h>
#include <string.h>

#include "engine/advise/fit.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"

static const char *where(enum offload offload)
{
    return offload == OFFLOAD_NONE ? "-" : offload_name(offload);
}

/* "1.50 GiB", "14.31 MiB" */
static const char *sized(char out[32], uint64_t bytes)
{
    const bool large = bytes >= 1u << 30;
    snprintf(out, 32, "%.2f %s", (double)bytes / (large ? 1 << 30 : 1 << 20), large ? "GiB" : "MiB");
    return out;
}

/* ---- what there is ---- */

static void print_budgets(FILE *out, const uint64_t *bytes)
{
    const char *between = "budgets of a rank: ";
    char a[32];
    for (int tier = 0; tier < TIERS; tier++, between = ", ")
        fprintf(out, "%s%s %s", between, tier_name((enum tier)tier), bytes[tier] ? sized(a, bytes[tier]) : "none");
    fputc('\n', out);
}

static void print_gpu(FILE *out, const struct fit_question *question)
{
    const uint64_t budget = question->config->budget_bytes[TIER_DEVICE], free_bytes = question->gpu_bytes;
    const int ranks = question->ranks_on_gpu;
    char a[32], b[32];
    if (!free_bytes) {
        fprintf(out, "GPU memory: not known, no GPU can be asked here%s\n",
                budget ? "" : "; give memory.device_budget for an answer that holds for one");
        return;
    }
    fprintf(out, "GPU memory free here: %s", sized(a, free_bytes));
    if (ranks > 1) fprintf(out, ", which %d ranks share: %s each", ranks, sized(b, free_bytes / (uint64_t)ranks));
    fputc('\n', out);
    if (budget > free_bytes / (uint64_t)ranks) fputs("(device budgets together are more than that)\n", out);
}

static void print_limits(FILE *out, const struct fit_question *question)
{
    const uint64_t *bytes = question->limits.bytes;
    char a[32];
    print_budgets(out, question->config->budget_bytes);
    if (question->ranks_on_gpu) print_gpu(out, question);
    if (bytes[FIT_MEMORY])
        fprintf(out, "memory free here: %s, for %shost tiers of all ranks\n", sized(a, bytes[FIT_MEMORY]),
                question->ranks_on_gpu ? "the " : "device and ");
    if (bytes[FIT_DISK])
        fprintf(out, "disk free under %s: %s, for the NVMe tiers of all ranks\n", question->limits.folder,
                sized(a, bytes[FIT_DISK]));
    if (bytes[FIT_MEMORY] && !bytes[FIT_DEVICE] && !question->ranks_on_gpu)
        fputs("(no device budget: the device is that memory too, and cpu offload gains little)\n", out);
    if (question->machine_bytes)
        fprintf(out, "(all ranks' budgets together are more than the %s of memory free here)\n",
                sized(a, question->machine_bytes));
}

static void print_head(FILE *out, const struct fit_question *question)
{
    const struct config *config = question->config;
    const int ranks = config->topology.ranks;
    fprintf(out, "%s: %s, %s, %d rank%s, micro-batch %d x %d tokens",
            question->any_model ? "GPT-2's family" : config->model.name, dtype_name(config->dtype),
            config->optimizer.type, ranks, plural(ranks), config->micro_batch_size, config->data.sequence_length);
    if (config->accumulation_steps > 1) fprintf(out, " x %d", config->accumulation_steps);
    fputc('\n', out);
    print_limits(out, question);
}

/* ---- the model as it is ---- */

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

static void print_needs(FILE *out, const struct fit_plan *plan, const struct fit_limits *limits)
{
    char a[32], b[32];
    for (int limit = 0; limit < FIT_LIMITS; limit++) {
        if (plan->need[limit].bytes == 0 || (limit > FIT_NVME && !limits->bytes[limit])) continue;
        fprintf(out, "  %-7s %15s bytes", fit_limit_name((enum fit_limit)limit), grouped(a, plan->need[limit].bytes));
        if (limits->bytes[limit])
            fprintf(out, " of %15s %3.0f %%", grouped(b, (int64_t)limits->bytes[limit]),
                    100 * (double)plan->need[limit].bytes / (double)limits->bytes[limit]);
        else fprintf(out, "    %15s      ", "no limit");
        fprintf(out, "  most of it %s\n", category_name(plan->need[limit].most));
    }
}

static void print_costs(FILE *out, const struct fit_plan *plan)
{
    const struct {
        const char *what;
        int64_t bytes;
    } costs[] = {{"read from NVMe and written to it", plan->nvme_bytes},
                 {"over the bus to the host and back", plan->bus_bytes},
                 {"to other ranks", plan->sent_bytes}};
    const char *name = "a step";
    char a[32];
    for (size_t c = 0; c < sizeof costs / sizeof *costs; c++) {
        if (costs[c].bytes == 0) continue;
        fprintf(out, "  %-7s %15s bytes %s\n", name, grouped(a, costs[c].bytes), costs[c].what);
        name = "";
    }
    if (plan->flops.recomputed > 0)
        fprintf(out, "  %-7s %14.1f %% more products, to recompute\n", name,
                100 * plan->flops.recomputed / (plan->flops.forward + plan->flops.backward));
}

struct sets {
    FILE *out;
    bool any;
};

static void print_set(void *user, const char *key, const char *value)
{
    struct sets *sets = user;
    fprintf(sets->out, "  %-7s --set %s=%s\n", sets->any ? "" : "set", key, value);
    sets->any = true;
}

static void print_sets(FILE *out, const struct config *config, const struct fit_setup *setup, const char *folder)
{
    struct sets sets = {.out = out};
    fit_sets(config, setup, folder, print_set, &sets);
    if (!sets.any) fprintf(out, "  %-7s nothing: it is configured so\n", "set");
}

/* One line for each way of holding the model: the recomputation and tiles that come nearest. */
static bool is_nearest(const struct fit_cheapest *answer, int candidate, const struct fit_limits *limits)
{
    const struct fit_setup *setup = &answer->candidates[candidate].setup;
    const int until = answer->chosen < 0 ? answer->count : answer->chosen;
    double nearest = -1;
    int best = candidate;
    for (int c = 0; c < until; c++) {
        const struct fit_candidate *other = &answer->candidates[c];
        const enum fit_limit stop = fit_stop(&other->plan, limits);
        if (other->setup.stage != setup->stage || other->setup.optimizer != setup->optimizer ||
            other->setup.param != setup->param || !other->plan.planned || stop == FIT_LIMITS)
            continue;
        const double lacks = (double)fit_short(&other->plan, limits, stop) / (double)limits->bytes[stop];
        if (nearest >= 0 && lacks >= nearest) continue;
        nearest = lacks;
        best = c;
    }
    return best == candidate;
}

static void print_why_not(FILE *out, const struct fit_candidate *candidate, const struct fit_limits *limits)
{
    const struct fit_setup *setup = &candidate->setup;
    const enum fit_limit stop = fit_stop(&candidate->plan, limits);
    char a[32];
    fprintf(out, "  %5d %-9s %-5s %-9s %5d %-5s", setup->stage, where(setup->optimizer), where(setup->param),
            recompute_name(setup->recompute), setup->tiles, sizes_name(setup->sizes));
    if (!candidate->plan.planned) fprintf(out, "  refused: %.30s\n", candidate->plan.refusal);
    else
        fprintf(out, " %13s  %s: %s\n", grouped(a, fit_short(&candidate->plan, limits, stop)), fit_limit_name(stop),
                category_name(candidate->plan.need[stop].most));
}

static void print_refused(FILE *out, const struct fit_cheapest *answer, const struct fit_limits *limits)
{
    const int until = answer->chosen < 0 ? answer->count : answer->chosen;
    if (until == 0) {
        fputs("  nothing is cheaper\n", out);
        return;
    }
    fprintf(out, "\n%s, cheapest first, and the bytes that it lacks most\n",
            answer->chosen < 0 ? "What was tried" : "What would be cheaper");
    fprintf(out, "  %5s %-9s %-5s %-9s %5s %-5s %13s  %s\n", "stage", "optimizer", "param", "recompute", "tiles",
            "sizes", "short, bytes", "of what");
    for (int c = 0; c < until; c++)
        if (is_nearest(answer, c, limits)) print_why_not(out, &answer->candidates[c], limits);
    fputs("  (cheaper: fewer bytes over NVMe, then over the bus to the host, then less made\n"
          "  again, then fewer tiles, then sizes of buckets and gathers as given, then a\n"
          "  block's, then the least, then fewer bytes between ranks, then a lower stage)\n",
          out);
}

/* Whether something cheaper is only too large for this machine, and not for the budgets that were given. */
static bool fits_elsewhere(const struct fit_cheapest *answer, const struct fit_limits *limits, enum fit_limit own)
{
    const int until = answer->chosen < 0 ? answer->count : answer->chosen;
    struct fit_limits without = *limits;
    without.bytes[own] = 0;
    for (int c = 0; c < until; c++)
        if (fit_fits(&answer->candidates[c].plan, &without)) return true;
    return false;
}

/* A budget that was not given is what this machine has: said where a larger machine would have another answer. */
static void print_elsewhere(FILE *out, const struct fit_question *question, const struct fit_cheapest *answer)
{
    const struct fit_limits *limits = &question->limits;
    const uint64_t *budget = question->config->budget_bytes;
    const int ranks = question->config->topology.ranks;
    const bool device = !budget[TIER_DEVICE] && !question->ranks_on_gpu;
    char a[32];
    if (limits->bytes[FIT_MEMORY] && fits_elsewhere(answer, limits, FIT_MEMORY))
        fprintf(
            out,
            "  limited by this machine's memory (%s for %d rank%s):\n  %s%smemory.host_budget=... plans for another\n",
            sized(a, limits->bytes[FIT_MEMORY]), ranks, plural(ranks), device ? "memory.device_budget=..." : "",
            device ? " with " : "");
    if (limits->bytes[FIT_DISK] && fits_elsewhere(answer, limits, FIT_DISK))
        fprintf(out,
                "  limited by this machine's disk (%s for %d rank%s):\n  memory.nvme_budget=... plans for another\n",
                sized(a, limits->bytes[FIT_DISK]), ranks, plural(ranks));
}

static void print_cheapest(FILE *out, const struct fit_question *question, const struct fit_cheapest *answer)
{
    const struct config *config = question->config;
    char a[32], setup[160];
    if (answer->chosen < 0) {
        fprintf(out, "\nNothing here trains %s as it is (%d layers):\n", config->model.name, config->model.layers);
        fputs("a smaller micro-batch, more ranks or larger budgets would be needed\n", out);
    } else {
        const struct fit_candidate *chosen = &answer->candidates[answer->chosen];
        fprintf(out, "\nThe cheapest setup for %s as it is (%d layers, %s parameters)\n  ", config->model.name,
                config->model.layers, grouped(a, chosen->plan.parameters));
        words_print(out, 2, 2, fit_setup_text(setup, &chosen->setup));
        print_needs(out, &chosen->plan, &question->limits);
        print_costs(out, &chosen->plan);
        print_sets(out, config, &chosen->setup, question->limits.folder);
    }
    print_elsewhere(out, question, answer);
    print_refused(out, answer, &question->limits);
}

/* ---- how deep ---- */

static void write_stop(char *text, size_t room, const struct fit_depth *depth, const struct fit_limits *limits)
{
    const enum fit_limit stop = fit_stop(&depth->next, limits);
    if (depth->layers == FIT_LAYERS_MAX) snprintf(text, room, "the most looked at");
    else if (!depth->next.planned) snprintf(text, room, "%.40s", depth->next.refusal);
    else snprintf(text, room, "%s: %s", fit_limit_name(stop), category_name(depth->next.need[stop].most));
}

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

static void print_depth(FILE *out, const struct fit_question *question, const struct fit_depth *depths, int d)
{
    const struct fit_depth *depth = &depths[d];
    const struct fit_setup *setup = &depth->setup;
    const int64_t plain = without_offload(depths, setup->stage);
    char parameters[32] = "-", ratio[16] = "", stop[64];
    if (depth->layers) grouped(parameters, depth->plan.parameters);
    if (plain && depth->layers && (setup->optimizer || setup->param))
        snprintf(ratio, sizeof ratio, "%.2f", (double)depth->plan.parameters / (double)plain);
    write_stop(stop, sizeof stop, depth, &question->limits);
    fprintf(out, "%c %5d %-9s %-5s %5d", !question->any_model && is_configured(question->config, setup) ? '>' : ' ',
            setup->stage, where(setup->optimizer), where(setup->param), depth->layers);
    if (question->any_model) fprintf(out, " x %-5d", depth->layers ? depth->hidden : 0);
    fprintf(out, "  %14s %5s  %s\n", parameters, ratio, stop);
}

static void print_depths(FILE *out, const struct fit_question *question, const struct fit_depth *depths)
{
    const bool any = question->any_model;
    if (any) fputs("\nThe largest of the family, wider with depth as GPT-2's four sizes are\n", out);
    else
        fprintf(out, "\nThe deepest at this width (%d), model.recompute %s\n", question->config->model.hidden,
                recompute_name(question->config->zero.recompute));
    fprintf(out, "  %5s %-9s %-5s %5s%s  %14s %5s  %s\n", "stage", "optimizer", "param", "depth", any ? " x width" : "",
            "parameters", "ratio", "next layer lacks");
    for (int d = 0; d < FIT_SETUPS; d++) print_depth(out, question, depths, d);
    fprintf(out, "  (%sratio: to parameters of the stage with nothing offloaded)\n",
            any ? "" : ">: configured; ");
    for (int d = 0; d < FIT_SETUPS; d++)
        if (depths[d].layers == FIT_LAYERS_MAX) {
            fprintf(out, "  (no more than %d layers are looked at)\n", FIT_LAYERS_MAX);
            return;
        }
}

/* What letting go of activations, and tiles, would give. */
static void print_smaller(FILE *out, const struct fit_depth *smaller)
{
    char a[32], setup[160];
    if (smaller->layers == 0) return;
    fputs("  ", out);
    words_print(out, 2, 2, fit_setup_text(setup, &smaller->setup));
    fprintf(out, "  %d layer%s, %s parameters%s\n", smaller->layers, plural(smaller->layers),
            grouped(a, smaller->plan.parameters), smaller->layers == FIT_LAYERS_MAX ? "; no more are looked at" : "");
}

void fit_print(FILE *out, const struct fit_question *question, const struct fit_answer *answer)
{
    print_head(out, question);
    if (!question->any_model) print_cheapest(out, question, &answer->cheapest);
    print_depths(out, question, answer->depths);
    print_smaller(out, &answer->smaller);
}
