#include "engine/advise/binding.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/config/resolve.h"

#define NO_LIMIT "9223372036854775807"
#define OTHER    "!"

static const struct row {
    const char *path, *neutral[2]; /* the value, and what it means */
} rows[] = {
#define KNOB(path, neutral, ...) {path, {neutral}},
#include "engine/advise/knobs.def"
};

static const struct row *row_of(const char *path)
{
    static const struct row none;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        if (!strcmp(rows[r].path, path)) return &rows[r];
    return &none;
}

const char *const budget_keys[TIERS] = {"memory.device_budget", "memory.host_budget", "memory.nvme_budget"};

struct step_counts step_counts_of(const struct setup *setup)
{
    struct step_counts step = {0};
    for (int tier = 0; tier < TIERS; tier++) step.peak_bytes[tier] = (uint64_t)setup->footprint.peak_bytes[tier];
    for (int i = 0; i < setup->schedule.op_count; i++) {
        const struct op *op = &setup->schedule.ops[i];
        const bool once = op->group != GROUP_NODE; /* of two hops one */
        step.gathers += op->kind == OP_GATHER && once;
        step.ahead += op->kind == OP_GATHER && op->prefetch && once;
        step.flushes += op->flush != FLUSH_NONE && once;
        step.refreshes += op->kind == OP_REFRESH && once;
    }
    return step;
}

static void decide(struct binding *binding, bool binds, const char *reason)
{
    binding->verdict = binds ? BINDS : BINDS_NOT;
    snprintf(binding->reason, sizeof binding->reason, "%.95s", reason);
}

/* ---- knobs of the plan ---- */

static const char *neutral_of(const char *path, const char *value)
{
    const char *neutral = row_of(path)->neutral[0];
    if (!neutral || strcmp(neutral, OTHER) != 0) return neutral;
    return strcmp(value, "true") ? "true" : "false";
}

bool binding_neutralize(struct config *config, const char *key)
{
    char value[64];
    config_show(config, key, value, sizeof value);
    const char *neutral = neutral_of(key, value);
    if (!strcmp(key, "zero_optimization.stage")) /* stage 0 has nothing to offload */
        config->zero.offload_optimizer = config->zero.offload_param = 0;
    return neutral && config_set(config, key, neutral, NULL) == STATUS_OK;
}

static void bind_planned(struct binding *binding, const struct config_key *key, const struct config *config,
                         const struct setup *setup, const char *neutral, const char *value)
{
    struct config changed = *config;
    struct setup other;
    binding->verdict = BINDING_UNKNOWN;
    binding->off = !strcmp(neutral, value);
    if (binding->off) {
        const char *is = row_of(key->path)->neutral[1];
        snprintf(binding->reason, sizeof binding->reason, "%s", is ? is : strcmp(neutral, NO_LIMIT) ? "off" : "no limit");
    }
    snprintf(binding->neutral, sizeof binding->neutral, "%s", strcmp(neutral, NO_LIMIT) ? neutral : "no limit");
    if (!binding_neutralize(&changed, key->path) || setup_init(&other, &changed, NULL)) return;
    binding->without_offload = changed.zero.offload_optimizer != config->zero.offload_optimizer ||
                               changed.zero.offload_param != config->zero.offload_param;
    binding->planned = true;
    binding->other = step_counts_of(&other);
    binding->verdict = schedule_same(&setup->schedule, &other.schedule) ? BINDS_NOT : BINDS;
    setup_release(&other);
}

/* ---- budgets and paces ---- */

static void bind_budget(struct binding *binding, const struct config *config, const struct setup *setup, enum tier tier)
{
    uint64_t budget_bytes = config->budget_bytes[tier], peak_bytes = (uint64_t)setup->footprint.peak_bytes[tier];
    if (!budget_bytes) decide(binding, false, "0: no limit");
    else if (peak_bytes > budget_bytes) decide(binding, true, "the plan needs more than this");
    else decide(binding, false, "the plan fits into it");
}

/* Which classes of links a step of this run uses. */
static bool link_is_used(const char *path, const struct config *config, const struct setup *setup)
{
    const int ranks = config->topology.ranks, per_node = config->topology.ranks_per_node;
    struct traffic_sum sums[TRAFFIC_KINDS];
    if (strstr(path, ".intra.")) return ranks > 1 && (!per_node || per_node > 1);
    if (strstr(path, ".inter.")) return per_node && per_node < ranks;
    traffic_of(sums, &setup->schedule, &setup->model, 0, 0);
    if (strstr(path, ".pcie.")) return sums[TRAFFIC_D2H].count + sums[TRAFFIC_H2D].count > 0;
    return sums[TRAFFIC_NVME_READ].count + sums[TRAFFIC_NVME_WRITE].count > 0;
}

/* Nothing, if the key is no pace. */
static void bind_pace(struct binding *binding, const char *path, const char *value, const struct config *config,
                      const struct setup *setup)
{
    const bool link = !strncmp(path, "topology.links.", 15), flops = !strcmp(path, "topology.device_flops");
    if (!strcmp(path, "topology.slow_motion")) {
        bool slow = config->topology.slow_motion > 1;
        decide(binding, slow, slow ? "every operation is stretched" : "1: real time");
    } else if (!strcmp(path, "topology.slow_rank")) {
        decide(binding, config->topology.slow_rank >= 0,
               config->topology.slow_rank < 0 ? "-1: no straggler" : "a straggler");
    } else if ((link || flops) && !strcmp(value, "0")) {
        decide(binding, false, "0: not paced");
    } else if (flops) {
        decide(binding, true, "products are made to wait");
    } else if (link) {
        bool used = link_is_used(path, config, setup);
        decide(binding, used, used ? "transfers are made to wait" : "nothing moves over this link in this run");
    }
}

/* ---- any key ---- */

bool binding_in_force(const struct config *config, const char *path)
{
    if (!strcmp(path, "scheduler.type")) return true; /* none is an answer too */
    return config_type_has(config, path);
}

void binding_of(struct binding *binding, const struct config_key *key, const struct config *config,
                const struct setup *setup)
{
    char value[64];
    *binding = (struct binding){.verdict = BINDING_NONE};
    if (key->class != CLASS_HONOURED) return;
    if (!binding_in_force(config, key->path)) {
        struct error err = {.text = ""};
        config_matters(config, key->path, &err);
        const char *reason = strstr(err.text, ": ");
        decide(binding, false, reason ? reason + 2 : err.text);
        return;
    }
    key_show(key, config, value, sizeof value);
    const char *neutral = neutral_of(key->path, value);
    if (neutral) bind_planned(binding, key, config, setup, neutral, value);
    else bind_pace(binding, key->path, value, config, setup);
    for (int tier = 0; tier < TIERS; tier++)
        if (!strcmp(key->path, budget_keys[tier])) bind_budget(binding, config, setup, (enum tier)tier);
}

/* ---- in words ---- */

/* ", flushes 1 instead of 5": nothing if they are equal. */
static void add_difference(char *text, size_t room, const char *what, int other, int now)
{
    if (other != now) text_append(text, room, ", %s %d instead of %d", what, other, now);
}

/* What the step would be at the neutral value. */
static void say_steps(char *text, size_t room, const struct step_counts *there, const struct step_counts *here,
                      bytes_writer *bytes)
{
    static const char *const peaks[TIERS] = {"planned peak", "planned host peak", "planned NVMe peak"};
    char other[32], now[32];
    *text = '\0';
    add_difference(text, room, "gathers", there->gathers, here->gathers);
    add_difference(text, room, "gathers ahead", there->ahead, here->ahead);
    add_difference(text, room, "flushes", there->flushes, here->flushes);
    add_difference(text, room, "refreshes", there->refreshes, here->refreshes);
    for (int tier = 0; tier < TIERS; tier++) {
        if (there->peak_bytes[tier] == here->peak_bytes[tier]) continue;
        bytes(other, there->peak_bytes[tier]);
        bytes(now, here->peak_bytes[tier]);
        text_append(text, room, ", %s %s instead of %s", peaks[tier], other, now);
    }
    if (!*text) text_append(text, room, ", the same operations in another order");
}

void binding_why(char *text, size_t room, const struct binding *binding, const struct step_counts *now,
                 bytes_writer *bytes)
{
    char steps[300];
    const bool compared = binding->planned && !binding->off;
    *text = '\0';
    if (binding->verdict == BINDING_NONE) return;
    if (binding->verdict == BINDING_UNKNOWN) {
        snprintf(text, room, "no step can be planned with %s", binding->neutral);
    } else if (compared && binding->verdict == BINDS) {
        say_steps(steps, sizeof steps, &binding->other, now, bytes);
        snprintf(text, room, "with %s%s: %s", binding->neutral, binding->without_offload ? " and nothing offloaded" : "", steps + 2);
    } else if (compared) {
        snprintf(text, room, "with %s a step would be the same", binding->neutral);
    } else {
        snprintf(text, room, "%s", binding->reason);
    }
}
