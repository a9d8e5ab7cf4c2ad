/* The last section of an analysis: why the memory peak of the run's last schedule is as high as it is, and what would lower
 * it (engine/advise/why.h), for each tier that is used, of its fullest rank. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/advise/present.h"
#include "engine/advise/why.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"
#include "engine/config/command.h"
#include "engine/config/keys.h"

static int fullest_rank(const struct run_model *model, enum tier tier)
{
    int fullest = 0;
    for (int rank = 1; rank < model->ranks; rank++)
        if (model->rank[rank].tier[tier].peak_bytes > model->rank[fullest].tier[tier].peak_bytes) fullest = rank;
    return fullest;
}

/* NULL: nothing is in that tier, the trace does not say enough, or no memory. Caller frees. */
static struct why *why_of(const struct run_model *model, enum tier tier)
{
    struct error err;
    struct why *why = calloc(1, sizeof *why);
    const bool known = why && why_peak(why, model, fullest_rank(model, tier), tier, &err) == STATUS_OK;
    if (known && (tier == TIER_DEVICE || why->tenant_count)) return why;
    free(why);
    return NULL;
}

/* ---- text ---- */

/* Formulas multiply with a sign that not every terminal has. */
static const char *plain(char *out, size_t room, const char *text)
{
    size_t used = 0;
    for (; *text && used + 1 < room; text++) {
        bool times = (unsigned char)text[0] == 0xc3 && (unsigned char)text[1] == 0x97;
        out[used++] = times ? 'x' : *text;
        text += times;
    }
    out[used] = '\0';
    return out;
}

static void print_tenant(const struct why_tenant *tenant, FILE *out)
{
    char a[32], b[32], knob[64], line[208];
    key_short_name(knob, sizeof knob, tenant->knob);
    fprintf(out, "  %c %-12s %13s %13s  %s\n", category_letter(tenant->category), category_name(tenant->category),
            tenant->measured ? grouped(a, (int64_t)tenant->bytes) : "n/a", grouped(b, (int64_t)tenant->planned_bytes),
            knob);
    for (int t = 0; t < tenant->term_count; t++) {
        const struct why_term *term = &tenant->terms[t];
        char what[80], formula[120];
        snprintf(line, sizeof line, "%s%s%s", plain(what, sizeof what, term->what), term->formula[0] ? " = " : "",
                 plain(formula, sizeof formula, term->formula));
        fprintf(out, "    %14s  ", grouped(a, (int64_t)term->bytes));
        words_print(out, 20, 22, line);
    }
}

/* What other tiers hold more at their peaks. */
static int64_t more_elsewhere(const struct why *why, const struct why_change *change)
{
    int64_t bytes = 0;
    for (enum tier tier = 0; tier < TIERS; tier++)
        if (tier != why->tier)
            bytes += (int64_t)change->plan.tier_peak_bytes[tier] - (int64_t)why->plan.tier_peak_bytes[tier];
    return bytes;
}

/* Beside the amounts what fits there of name and cost, the rest below; of two commands each on a line of its own. */
static void print_name(const struct why_plan *now, const struct why_change *change, const char *name, FILE *out)
{
    enum { AMOUNTS = 48, BESIDE = 32 };
    char cost[100];
    why_cost(cost, sizeof cost, now, &change->plan, write_bytes);
    const bool beside = strlen(name) <= BESIDE, both = *cost && beside;
    if (beside) fprintf(out, "  %s\n", name);
    else if (*cost && strlen(cost) <= BESIDE) fprintf(out, "  %s\n", cost);
    else fputc('\n', out);
    if (both || strlen(cost) > BESIDE) fprintf(out, "%*s%s\n", both ? AMOUNTS : 6, "", cost);
    for (const char *at = name, *end; !beside && *at; at = *end ? end + 2 : end) {
        end = strstr(at, "; ");
        if (!end) end = at + strlen(at);
        fprintf(out, "      %.*s\n", (int)(end - at), at);
    }
}

static void print_change(const struct why *why, const struct why_change *change, const char *name, FILE *out)
{
    char a[32], b[32], c[32];
    if (!change->plan.known) return;
    const int64_t more = (int64_t)change->plan.peak_bytes - (int64_t)why->plan.peak_bytes,
                  elsewhere = more_elsewhere(why, change);
    const bool device = why->tier == TIER_DEVICE;
    fprintf(out, "  %14s %14s %14s", grouped(a, (int64_t)change->plan.peak_bytes), more ? grouped(b, more) : "=",
            !device && !elsewhere ? "=" : grouped(c, device ? (int64_t)change->plan.sent_bytes : elsewhere));
    print_name(&why->plan, change, name, out);
}

/* One knob may be the answer for several tenants. */
static bool said_before(const struct why *why, int tenant, int change)
{
    for (int t = 0; t < tenant; t++)
        for (int c = 0; c < why->tenants[t].change_count; c++)
            if (!strcmp(why->tenants[t].changes[c].command, why->tenants[tenant].changes[change].command)) return true;
    return false;
}

/* Knobs that lower the peak, then every stage with the other knobs as they are. */
static void print_changes(const struct why *why, FILE *out)
{
    fprintf(out, "\n  %14s %14s %14s  by plan, with\n", "peak", "difference",
            why->tier == TIER_DEVICE ? "sent a step" : "other tiers");
    for (int t = 0; t < why->tenant_count; t++)
        for (int c = 0; c < why->tenants[t].change_count; c++) {
            const struct why_change *change = &why->tenants[t].changes[c];
            if (change->plan.peak_bytes < why->plan.peak_bytes && command_stage(change->command) < 0 &&
                !said_before(why, t, c))
                print_change(why, change, change->command, out);
        }
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        char name[24];
        snprintf(name, sizeof name, "stage=%d%s", stage, stage == why->stage ? " (as it is)" : "");
        print_change(why, &why->stages[stage], name, out);
    }
}

/* Of the device what its stage does to it, of the others who is there. */
static void print_sentence(const struct why *why, FILE *out)
{
    char sentence[400] = "";
    if (why->tier == TIER_DEVICE && why->stage > 0)
        why_sentence(sentence, sizeof sentence, why, why->stage - 1, write_bytes);
    else if (why->tier != TIER_DEVICE) why_tier_sentence(sentence, sizeof sentence, why, write_bytes);
    if (!*sentence) return;
    fprintf(out, "\n  ");
    words_print(out, 2, 2, sentence);
}

static void print_tier(const struct why *why, FILE *out)
{
    char a[32];
    fprintf(out, "\nWhy the %s tier is as full as it is at stage %d: rank %d, %s bytes\n", tier_name(why->tier),
            why->stage, why->rank, why->measured ? grouped(a, (int64_t)why->peak_bytes) : "n/a");
    fprintf(out, "  %-14s %13s %13s  owned by\n", "", "at the peak", "planned");
    for (int t = 0; t < why->tenant_count; t++) print_tenant(&why->tenants[t], out);
    print_sentence(why, out);
    print_changes(why, out);
}

/* ---- waits ---- */

enum { STALLS_SHOWN = 4 };

/* Of the last section, with their changes. Returns how many; *now: the present plan. */
static int stalls_of(struct why_stall stalls[STALLS_SHOWN], struct why_plan *now, const struct analysis *analysis)
{
    struct totals sum;
    struct config config;
    struct error err;
    const struct analysis_section *last = analysis->section_count ? &analysis->sections[analysis->section_count - 1] : NULL;
    const double parts = last ? analysis_sum(&sum, last, -1) : 0;
    if (parts <= 0 || present_config(&config, analysis->model, &err)) return 0;
    int count = why_stalls(stalls, STALLS_SHOWN, &sum, parts);
    for (int s = 0; s < count; s++)
        if (why_stall_changes(&stalls[s], now, &config, &err)) count = 0;
    config_release(&config);
    return count;
}

static void print_difference(FILE *out, uint64_t now, uint64_t then)
{
    char text[32];
    const int64_t more = (int64_t)then - (int64_t)now;
    if (more) grouped(text, more);
    fprintf(out, " %14s", !more ? "=" : text);
}

static void print_stall(FILE *out, const struct why_stall *stall, const struct why_plan *now)
{
    char knob[64];
    const int column = fprintf(out, "  %c %-12s %9.3f ms %5.1f %%  ", stall_letter(stall->stall), stall_name(stall->stall),
                               stall->ns / 1e6, 100 * stall->share);
    if (stall->knob) key_short_name(knob, sizeof knob, stall->knob), fprintf(out, "owned by %s\n%*s", knob, column, "");
    words_print(out, column, column, stall->how);
    if (stall->change_count) fprintf(out, "  %14s %14s %14s  by plan, with\n", "peak", "sent a step", "to other nodes");
    for (int c = 0; c < stall->change_count; c++) {
        const struct why_change *change = &stall->changes[c];
        fputc(' ', out);
        print_difference(out, now->peak_bytes, change->plan.peak_bytes);
        print_difference(out, now->sent_bytes, change->plan.sent_bytes);
        print_difference(out, now->across_bytes, change->plan.across_bytes);
        print_name(now, change, change->command, out);
    }
}

void analysis_print_why(const struct analysis *analysis, FILE *out)
{
    for (enum tier tier = 0; tier < TIERS; tier++) {
        struct why *why = why_of(analysis->model, tier);
        if (why) print_tier(why, out);
        free(why);
    }
    struct why_stall stalls[STALLS_SHOWN];
    struct why_plan now;
    const int count = stalls_of(stalls, &now, analysis);
    if (count) fprintf(out, "\nWhat a step waits for, and what makes another step of it\n");
    for (int s = 0; s < count; s++) print_stall(out, &stalls[s], &now);
}

/* ---- JSON ---- */

static void add_change(cJSON *out, const struct why_change *change)
{
    json_put(out, TEXT("command", change->command), TEXT("text", change->text), TRUTH("restart", change->restart),
             NUMBER("peak_bytes", change->plan.peak_bytes));
    cJSON *peaks = cJSON_AddObjectToObject(out, "tier_peak_bytes");
    for (enum tier tier = 0; tier < TIERS; tier++)
        json_put(peaks, NUMBER(tier_name(tier), change->plan.tier_peak_bytes[tier]));
    json_put(out, NUMBER("sent_bytes_per_step", change->plan.sent_bytes),
             NUMBER("sent_to_other_nodes_bytes_per_step", change->plan.across_bytes), NUMBER("collectives_per_step", change->plan.collectives),
             NUMBER("bus_bytes_per_step", change->plan.bus_bytes),
             NUMBER("nvme_bytes_per_step", change->plan.nvme_bytes),
             NUMBER("recomputed_products", change->plan.recomputed));
}

static void add_tenant(cJSON *out, const struct why_tenant *tenant)
{
    json_put(out, TEXT("category", category_name(tenant->category)),
             NUMBER_IF("bytes", tenant->measured, tenant->bytes), NUMBER("planned_bytes", tenant->planned_bytes),
             TEXT("knob", tenant->knob ? tenant->knob : ""));
    cJSON *terms = cJSON_AddArrayToObject(out, "terms");
    for (int t = 0; t < tenant->term_count; t++)
        json_put(json_item(terms), TEXT("what", tenant->terms[t].what), TEXT("formula", tenant->terms[t].formula),
                 NUMBER("bytes", tenant->terms[t].bytes));
    cJSON *changes = cJSON_AddArrayToObject(out, "changes");
    for (int c = 0; c < tenant->change_count; c++)
        if (tenant->changes[c].plan.known) add_change(json_item(changes), &tenant->changes[c]);
}

struct cJSON *analysis_why_object(const struct analysis *analysis, enum tier tier)
{
    struct why *why = why_of(analysis->model, tier);
    if (!why) return cJSON_CreateNull();
    cJSON *out = cJSON_CreateObject();
    json_put(out, NUMBER("rank", why->rank), TEXT("tier", tier_name(why->tier)), NUMBER("stage", why->stage),
             NUMBER_IF("peak_bytes", why->measured, why->peak_bytes), NUMBER("planned_bytes", why->plan.peak_bytes));
    cJSON *tenants = cJSON_AddArrayToObject(out, "tenants");
    for (int t = 0; t < why->tenant_count; t++) add_tenant(json_item(tenants), &why->tenants[t]);
    cJSON *stages = cJSON_AddArrayToObject(out, "stages");
    for (int stage = 0; stage < WHY_STAGES; stage++)
        if (why->stages[stage].plan.known) add_change(json_item(stages), &why->stages[stage]);
    free(why);
    return out;
}

struct cJSON *analysis_waits_array(const struct analysis *analysis)
{
    struct why_stall stalls[STALLS_SHOWN];
    struct why_plan now;
    cJSON *out = cJSON_CreateArray();
    const int count = stalls_of(stalls, &now, analysis);
    for (int s = 0; s < count; s++) {
        cJSON *item = json_item(out);
        json_put(item, TEXT("wait", stall_name(stalls[s].stall)), NUMBER("seconds_per_step", stalls[s].ns / 1e9),
                 NUMBER("share", stalls[s].share), TEXT("knob", stalls[s].knob ? stalls[s].knob : ""));
        cJSON *changes = cJSON_AddArrayToObject(item, "changes");
        for (int c = 0; c < stalls[s].change_count; c++) add_change(json_item(changes), &stalls[s].changes[c]);
    }
    return out;
}
