/* Which key owns a category of a tier, or a wait; which changes are offered for it (the rows MOVE, OWNER and WAIT of knobs.def), and
 * what each would give: the configuration is planned with that one change. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/binding.h"
#include "engine/advise/why_parts.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/plan/footprint.h"
#include "engine/plan/sizes.h"

enum { MOVES_MAX = 12 }; /* of a row, and MOVE_NONE after the last */
enum how { HOW_NOT, HOW_TO, HOW_FLIP, HOW_TWICE, HOW_HALF, HOW_EVEN, HOW_BLOCK, HOW_SMALLER, HOW_NODE };

struct set {
    const char *key;
    enum how how;
    const char *to, *text;
};

static const struct move {
    const char *from;
    struct set set[2];
} moves[] = {
#define SET(key, how, to, text)                                                                                        \
    {                                                                                                                  \
        key, HOW_##how, to, text                                                                                       \
    }
#define MOVE(ID, from, ...) [MOVE_##ID] = {from, {__VA_ARGS__}},
#define OWNER(tier, category, key, beside, ...)
#include "engine/advise/knobs.def"
};

static const struct owner {
    enum tier tier;
    enum category category;
    const char *key, *beside, *how;
    enum move_id moves[MOVES_MAX];
} owners[] = {
#define MOVE(ID, from, ...)
#define OWNER(tier, category, key, beside, how, ...)                                                                   \
    {TIER_##tier, CATEGORY_##category, key, beside, how, {__VA_ARGS__}},
#include "engine/advise/knobs.def"
};
enum { OWNERS = sizeof owners / sizeof *owners };

static const struct wait {
    const char *key, *how;
    enum move_id moves[MOVES_MAX];
} waits[STALLS] = {
#define MOVE(ID, from, ...)
#define WAIT(stall, key, how, ...) [STALL_##stall] = {key, how, {__VA_ARGS__}},
#include "engine/advise/knobs.def"
};

/* ---- one change ---- */

static void smaller_size(char value[64], const struct set *set, const struct config *config, const char *now)
{
    struct config lowered = *config;
    sizes_lower(&lowered, SIZES_BLOCK);
    config_show(&lowered, set->key, value, 64);
    const int64_t size = strtoll(now, NULL, 10);
    if (set->how == HOW_SMALLER && !strcmp(value, now)) snprintf(value, 64, "%" PRId64, size - size / 2);
}

/* False: the key has that value, or the change cannot start from it. */
static bool value_of(char value[64], const struct set *set, const struct config *config, const char *now)
{
    const bool whole = config_keys[key_index(set->key)].type != KEY_DOUBLE;
    const int64_t number = strtoll(now, NULL, 10);
    *value = '\0';
    switch (set->how) {
    case HOW_NOT: break;
    case HOW_TO: snprintf(value, 64, "%s", set->to); break;
    case HOW_FLIP: snprintf(value, 64, "%s", strcmp(now, "true") ? "true" : "false"); break;
    case HOW_TWICE: snprintf(value, 64, "%" PRId64, 2 * number); break;
    case HOW_EVEN:
        if (number % 2) return false;
        /* fall through */
    case HOW_HALF:
        if (whole) snprintf(value, 64, "%" PRId64, number - number / 2);
        else snprintf(value, 64, "%g", strtod(now, NULL) / 2);
        break;
    case HOW_NODE:
        if (config->topology.ranks_per_node <= 1) return false;
        snprintf(value, 64, "%d", config->topology.ranks_per_node);
        break;
    case HOW_BLOCK:
    case HOW_SMALLER: smaller_size(value, set, config, now); break;
    }
    return strcmp(value, now) != 0;
}

/* "reduce_bucket_size 99,136 instead of 198,272", "offload_optimizer cpu" */
static void add_text(char *text, size_t room, const struct set *set, const char *to, const char *from)
{
    const enum key_type type = config_keys[key_index(set->key)].type;
    const bool number = type == KEY_INT || type == KEY_INT64, grows = type == KEY_INT64;
    char name[64], then[32], now[32];
    key_short_name(name, sizeof name, set->key);
    snprintf(then, sizeof then, "%.31s", to);
    snprintf(now, sizeof now, "%.31s", from);
    if (grows) grouped(then, strtoll(to, NULL, 10)), grouped(now, strtoll(from, NULL, 10));
    if (set->text) text_append(text, room, set->text, then, now);
    else text_append(text, room, number ? "%s %s instead of %s" : "%s %s", name, then, now);
}

static void add_command(struct why_change *change, const char *key, const char *value)
{
    char *command = change->command;
    const char *between = !*command ? "" : change->restart ? " " : "; ";
    if (!strcmp(key, "zero_optimization.stage")) text_append(command, sizeof change->command, "stage=%s", value);
    else
        text_append(command, sizeof change->command, "%s%s %s=%s", between, change->restart ? "--set" : "set", key,
                    value);
}

/* NVMe needs a folder, which can only be given at a start. */
static void give_folder(struct why_change *change, struct config *config, const char *key)
{
    const bool param = strstr(key, "offload_param") != NULL;
    if (config_nvme_path(config, param)[0]) return;
    strcpy(param ? config->nvme.param_path : config->nvme.optimizer_path, "FOLDER");
    change->restart = true;
}

static bool make_set(struct why_change *change, struct config *config, const struct set *set)
{
    char now[64], value[64], folder[80];
    config_show(config, set->key, now, sizeof now);
    if (!value_of(value, set, config, now)) return false;
    const bool to_nvme = !strcmp(value, "nvme"), live = config_is_live(set->key);
    if (to_nvme) give_folder(change, config, set->key);
    if (live ? config_set(config, set->key, value, NULL) : config_try(config, set->key, value, NULL)) return false;
    if (!live) change->restart = true;
    add_command(change, set->key, value);
    snprintf(folder, sizeof folder, "%.*s.nvme_path", (int)(key_leaf(set->key) - 1 - set->key), set->key);
    if (to_nvme && change->restart) add_command(change, folder, "FOLDER");
    add_text(change->text, sizeof change->text, set, value, now);
    return true;
}

bool why_move(struct why_change *change, struct config *config, enum move_id id)
{
    const struct move *move = &moves[id];
    char now[64];
    *change = (struct why_change){0};
    config_show(config, move->set[0].key, now, sizeof now);
    if (move->from && strcmp(move->from, now) != 0) return false;
    if (id == MOVE_BF16 && config->dtype != DTYPE_F32) return false;
    for (int s = 0; s < 2 && move->set[s].key; s++)
        if (!make_set(change, config, &move->set[s])) return false;
    if (id == MOVE_BF16) config->dtype = DTYPE_BF16; /* as it follows from the key when a configuration is read */
    return true;
}

/* Appends those that are not in the list yet, in the order of knobs.def. Returns how many there are then. */
static int add_moves(enum move_id list[MOVES], int count, const enum move_id *more)
{
    for (; *more; more++) {
        int at = 0;
        while (at < count && list[at] != *more) at++;
        if (at == count) list[count++] = *more;
    }
    return count;
}

/* ---- who owns a category ---- */

/* Bytes at the tier's peak with one or two keys at their neutral values differ. */
static bool owns(const struct owner *owner, const struct config *config, uint64_t now_bytes)
{
    struct config changed = *config;
    struct why_plan plan;
    if (!binding_neutralize(&changed, owner->key)) return true;
    if (owner->beside && !binding_neutralize(&changed, owner->beside)) return false;
    why_plan_of(&plan, &changed, 0, owner->tier);
    return plan.known && plan.at_peak_bytes[owner->category] != now_bytes;
}

const char *why_owner(const char **how, const struct config *config, enum tier tier, enum category category,
                      uint64_t now_bytes)
{
    const struct owner *last = NULL;
    for (int o = 0; o < OWNERS; o++) {
        if (owners[o].tier != tier || owners[o].category != category) continue;
        last = &owners[o];
        if (owns(last, config, now_bytes)) break;
    }
    if (how) *how = last ? last->how : "";
    return last ? last->key : budget_keys[tier];
}

/* ---- what a change would give ---- */

struct why_plan why_plan_from(const struct setup *setup, int rank, enum tier tier)
{
    const struct footprint *footprint = &setup->footprint;
    struct traffic_sum sums[TRAFFIC_KINDS];
    struct flops flops;
    traffic_of(sums, &setup->schedule, &setup->model, rank, setup->schedule.node_ranks);
    const struct traffic_sum sent = traffic_between_ranks(sums);
    flops_of(&flops, &setup->schedule, &setup->model);
    struct why_plan plan = {.known = true,
                            .peak_bytes = (uint64_t)footprint->peak_bytes[tier],
                            .resting_bytes = (uint64_t)footprint->resting_bytes[tier],
                            .sent_bytes = (uint64_t)sent.sent_bytes,
                            .across_bytes = (uint64_t)sent.across_bytes,
                            .bus_bytes = (uint64_t)(sums[TRAFFIC_D2H].sent_bytes + sums[TRAFFIC_H2D].sent_bytes),
                            .nvme_bytes =
                                (uint64_t)(sums[TRAFFIC_NVME_READ].sent_bytes + sums[TRAFFIC_NVME_WRITE].sent_bytes),
                            .recomputed = flops.recomputed / (flops.forward + flops.backward)};
    for (int o = 0; o < setup->schedule.op_count; o++) plan.collectives += setup->schedule.ops[o].lane == LANE_COMM;
    for (int t = 0; t < TIERS; t++) plan.tier_peak_bytes[t] = (uint64_t)footprint->peak_bytes[t];
    for (int c = 0; c < CATEGORIES; c++) plan.at_peak_bytes[c] = (uint64_t)footprint->category[tier][c].at_peak_bytes;
    return plan;
}

void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier)
{
    struct setup setup;
    *plan = (struct why_plan){0};
    if (setup_init(&setup, config, NULL)) return;
    *plan = why_plan_from(&setup, rank, tier);
    setup_release(&setup);
}

/* Whether the change lowers the peak, and this category's share of it. */
static bool helps(const struct why_change *change, const struct why_tenant *tenant, const struct why *why)
{
    return change->plan.peak_bytes < why->plan.peak_bytes &&
           change->plan.at_peak_bytes[tenant->category] < tenant->planned_bytes;
}

/* The lowest peak first. */
static int by_peak(const void *a, const void *b)
{
    const struct why_change *one = a, *other = b;
    return (one->plan.peak_bytes > other->plan.peak_bytes) - (one->plan.peak_bytes < other->plan.peak_bytes);
}

/* Keeps the changes that help. If no change of the category's own key helps, keeps the first of them all the same: that
 * it changes nothing is an answer too. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why)
{
    enum move_id offers[MOVES];
    struct why_change tried[MOVES], idle = {0};
    int count = 0, offered = 0;
    for (const struct owner *owner = owners; owner < owners + OWNERS; owner++)
        if (owner->tier == why->tier && owner->category == tenant->category)
            offered = add_moves(offers, offered, owner->moves);
    tenant->knob = why_owner(&tenant->how, config, why->tier, tenant->category, tenant->planned_bytes);
    for (int m = 0; m < offered; m++) {
        struct why_change change;
        struct config changed = *config;
        if (!why_move(&change, &changed, offers[m])) continue;
        why_plan_of(&change.plan, &changed, why->rank, why->tier);
        bool is_stage = changed.zero.stage != config->zero.stage;
        if (change.plan.known && helps(&change, tenant, why)) tried[count++] = change;
        else if (change.plan.known && !is_stage && !idle.plan.known) idle = change;
    }
    qsort(tried, (size_t)count, sizeof *tried, by_peak);
    if (count == 0 && idle.plan.known) tried[count++] = idle;
    tenant->change_count = count < WHY_CHANGES_MAX ? count : WHY_CHANGES_MAX;
    memcpy(tenant->changes, tried, (size_t)tenant->change_count * sizeof *tried);
}

void why_stages(struct why *why, const struct config *config)
{
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        struct why_change *change = &why->stages[stage];
        struct config changed = *config;
        if (why_move(change, &changed, MOVE_STAGE_0 + stage))
            why_plan_of(&change->plan, &changed, why->rank, why->tier);
        if (stage == why->stage) change->plan = why->plan;
    }
}

/* ---- waits ---- */

static int by_time(const void *a, const void *b)
{
    const struct why_stall *one = a, *other = b;
    return (one->ns < other->ns) - (one->ns > other->ns);
}

int why_stalls(struct why_stall out[], int room, const struct totals *totals, double parts)
{
    struct why_stall all[STALLS];
    int count = 0;
    for (enum stall stall = STALL_NONE + 1; stall < STALLS; stall++) {
        const double share = percent(totals->stall_ns[stall], totals->temporal.window_ns) / 100;
        if (share >= WHY_STALL_LEAST && waits[stall].how) /* compute does not wait for itself */
            all[count++] = (struct why_stall){.stall = stall,
                                              .ns = (double)totals->stall_ns[stall] / parts,
                                              .share = share,
                                              .knob = waits[stall].key,
                                              .how = waits[stall].how};
    }
    qsort(all, (size_t)count, sizeof *all, by_time);
    if (count > room) count = room;
    memcpy(out, all, (size_t)count * sizeof *out);
    return count;
}

int why_stall_changes(struct why_stall *stall, struct why_plan *now, const struct config *config, struct error *err)
{
    struct setup setup, then;
    int status = setup_init(&setup, config, err);
    if (status) return status;
    *now = why_plan_from(&setup, 0, TIER_DEVICE);
    stall->change_count = 0;
    for (int m = 0; waits[stall->stall].moves[m] && stall->change_count < WHY_CHANGES_MAX; m++) {
        struct why_change *change = &stall->changes[stall->change_count];
        struct config changed = *config;
        if (!why_move(change, &changed, waits[stall->stall].moves[m]) || setup_init(&then, &changed, NULL)) continue;
        change->plan = why_plan_from(&then, 0, TIER_DEVICE);
        stall->change_count += !schedule_same(&setup.schedule, &then.schedule);
        setup_release(&then);
    }
    setup_release(&setup);
    return STATUS_OK;
}

int why_tune(int number, struct why_change *change, struct config *config)
{
    enum move_id list[MOVES];
    int count = 0;
    for (int stall = 0; stall < STALLS; stall++) count = add_moves(list, count, waits[stall].moves);
    return number < count ? why_move(change, config, list[number]) : -1;
}
