#include "engine/advise/why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/present.h"
#include "engine/advise/why_parts.h"
#include "engine/base/words.h"

/* ---- the plan ---- */

/* From the schedule that the trace holds: what was planned then. */
static void plan_of_trace(struct why *why, const struct run_schedule *plan, const struct setup *setup)
{
    struct setup traced = {.model = setup->model, .schedule = plan->ops};
    footprint_of(&traced.footprint, &plan->ops);
    why->plan = why_plan_from(&traced, why->rank, why->tier);
    why->peak_op = traced.footprint.peak_op[why->tier];
    why->schedule = plan->number;
    why->stage = plan->ops.stage;
    why->other_version = !schedule_same(&plan->ops, &setup->schedule);
}

static void list_tenants(struct why *why, const struct run_schedule *plan, const struct setup *setup,
                         const struct config *config)
{
    why->tenant_count = 0;
    for (int c = 0; c < CATEGORIES; c++) {
        if (why->plan.at_peak_bytes[c] == 0) continue;
        struct why_tenant *tenant = &why->tenants[why->tenant_count++];
        *tenant = (struct why_tenant){.category = (enum category)c, .planned_bytes = why->plan.at_peak_bytes[c]};
        why_terms(tenant, &plan->ops, &setup->model, why->tier, why->peak_op);
        why_changes(tenant, config, why);
    }
}

/* A schedule read from a trace names units by number: they must be there. */
static bool units_fit(const struct schedule *schedule, const struct model *model)
{
    for (int b = 0; b < schedule->buffer_count; b++)
        if (schedule->buffers[b].unit >= model->unit_count) return false;
    for (int p = 0; p < schedule->piece_count; p++)
        if (schedule->pieces[p].unit < 0 || schedule->pieces[p].unit >= model->unit_count) return false;
    return true;
}

static int make_plans(struct why *why, const struct run_model *model, const struct run_schedule *plan,
                      struct error *err)
{
    struct config config;
    struct setup setup;
    int status = present_config(&config, model, err);
    if (status) return status;
    status = setup_init(&setup, &config, err);
    if (status == STATUS_OK && !units_fit(&plan->ops, &setup.model)) {
        setup_release(&setup);
        status = error_set(err, STATUS_INPUT, "the schedule in the trace is not one of its model");
    }
    if (status == STATUS_OK) {
        plan_of_trace(why, plan, &setup);
        list_tenants(why, plan, &setup, &config);
        why_stages(why, &config);
        setup_release(&setup);
    }
    config_release(&config);
    return status;
}

/* ---- what was measured ---- */

/* Peaks are those since the last switch; until the first step after it has ended they are not this plan's. */
static bool was_measured(const struct run_model *model, const struct why *why)
{
    const struct run_step *last = run_last_step(model);
    return last && last->schedule == why->schedule && !last->skipped &&
           model->rank[why->rank].tier[why->tier].has_total;
}

static uint64_t weight(const struct why_tenant *tenant)
{
    return tenant->measured ? tenant->bytes : tenant->planned_bytes;
}

static int by_weight(const void *a, const void *b)
{
    const struct why_tenant *one = a, *other = b;
    if (weight(one) != weight(other)) return weight(one) < weight(other) ? 1 : -1;
    return (int)one->category - (int)other->category;
}

static void read_measured(struct why *why, const struct run_model *model)
{
    const struct run_tier *tier = &model->rank[why->rank].tier[why->tier];
    why->measured = was_measured(model, why);
    why->peak_bytes = why->measured ? tier->peak_bytes : 0;
    for (int t = 0; t < why->tenant_count; t++) {
        struct why_tenant *tenant = &why->tenants[t];
        const struct run_memory *memory = &tier->category[tenant->category];
        tenant->measured = why->measured && memory->has_at_peak;
        tenant->bytes = tenant->measured ? memory->at_peak_bytes : 0;
    }
    qsort(why->tenants, (size_t)why->tenant_count, sizeof *why->tenants, by_weight);
}

int why_peak(struct why *why, const struct run_model *model, int rank, enum tier tier, struct error *err)
{
    const struct run_schedule *plan = run_training(model);
    if (!model->header.config_json)
        return error_set(err, STATUS_INPUT, "the trace does not hold the configuration of its run");
    if (!plan || !plan->has_ops) return error_set(err, STATUS_INPUT, "no schedule of a training step is known yet");
    if (rank < 0 || rank >= model->ranks) return error_set(err, STATUS_USAGE, "there is no rank %d", rank);
    const uint64_t from = present_fingerprint(model) ^ (uint64_t)(rank * TIERS + (int)tier) << 1;
    if (why->made_from != from) {
        *why = (struct why){.rank = rank, .tier = tier};
        int status = make_plans(why, model, plan, err);
        if (status) return status;
        why->made_from = from;
    }
    read_measured(why, model);
    return STATUS_OK;
}

/* ---- in one sentence ---- */

enum { NAMED_MAX = 3 };

/* "buckets (+3.3 MB), gathered (+1.2 MB)": the differences of one sign (0: of what is more, and no sign is written), largest
 * first; what is past the third together. *single: one thing that reads as one, "workspace outweighs". Returns how many. */
static int list_differences(char *text, size_t room, const struct why_plan *one, const struct why_plan *other, int sign,
                            bytes_writer *bytes, bool *single)
{
    static const char *const signs[] = {"-", "", "+"};
    int64_t difference[CATEGORIES], rest = 0;
    int count = 0;
    char amount[32];
    *text = '\0';
    for (int c = 0; c < CATEGORIES; c++) {
        difference[c] = (sign < 0 ? -1 : 1) * ((int64_t)one->at_peak_bytes[c] - (int64_t)other->at_peak_bytes[c]);
        if (difference[c] > 0) rest += difference[c];
    }
    for (; rest > 0; count++) {
        int most = 0;
        for (int c = 1; c < CATEGORIES; c++)
            if (difference[c] > difference[most]) most = c;
        bool named = count < NAMED_MAX || difference[most] == rest;
        int64_t part = named ? difference[most] : rest;
        const char *name = named ? category_name((enum category)most) : "others";
        bytes(amount, (uint64_t)part);
        text_append(text, room, "%s%s (%s%s)", count ? ", " : "", name, signs[sign + 1], amount);
        *single = count == 0 && name[strlen(name) - 1] != 's';
        difference[most] = 0;
        rest -= part;
    }
    return count;
}

void why_sentence(char *text, size_t room, const struct why *why, int than_stage, bytes_writer *bytes)
{
    const struct why_plan *here = &why->plan, *there = &why->stages[than_stage].plan;
    char more[200], less[200], amount[32];
    bool one_more = false, one_less = false;
    *text = '\0';
    if (!here->known || !there->known || than_stage == why->stage) return;
    int up = list_differences(more, sizeof more, here, there, +1, bytes, &one_more);
    int down = list_differences(less, sizeof less, here, there, -1, bytes, &one_less);
    if (here->peak_bytes == there->peak_bytes) {
        snprintf(text, room, "by plan, stage %d holds at its peak just what stage %d holds%s%s%s%s", why->stage, than_stage,
                 up ? ": " : "", up ? more : "", up && down ? " against " : "", up && down ? less : "");
        return;
    }
    bool is_more = here->peak_bytes > there->peak_bytes;
    bytes(amount, is_more ? here->peak_bytes - there->peak_bytes : there->peak_bytes - here->peak_bytes);
    const char *first = is_more ? more : less, *second = is_more ? less : more;
    bool has_second = is_more ? down : up, single = is_more ? one_more : one_less;
    snprintf(text, room, "by plan, stage %d holds %s %s at its peak than stage %d: %s%s%s", why->stage, amount,
             is_more ? "more" : "less", than_stage, first,
             !has_second ? ""
             : single    ? " outweighs "
                         : " outweigh ",
             has_second ? second : "");
}

void why_tier_sentence(char *text, size_t room, const struct why *why, bytes_writer *bytes)
{
    static const char *const names[TIERS] = {"device", "host", "NVMe"};
    static const struct why_plan nothing;
    char who[200], peak[32], resting[32];
    bool single;
    bytes(peak, why->plan.peak_bytes);
    bytes(resting, why->plan.resting_bytes);
    *text = '\0';
    if (!list_differences(who, sizeof who, &why->plan, &nothing, 0, bytes, &single)) return;
    snprintf(text, room, "by plan, the %s tier holds %s at its peak: %s; %s of it %s between steps", names[why->tier], peak, who,
             why->plan.resting_bytes == 0                      ? "none"
             : why->plan.resting_bytes == why->plan.peak_bytes ? "all"
                                                               : resting,
             why->plan.resting_bytes == 0 || why->plan.resting_bytes == why->plan.peak_bytes ? "stays" : "stay");
}

/* "bus +15.0 MB a step" */
static void add_moved(char *text, size_t room, const char *over, uint64_t now, uint64_t then, bytes_writer *bytes)
{
    char amount[32];
    if (now == then) return;
    bytes(amount, then > now ? then - now : now - then);
    text_append(text, room, "%s%s %c%s a step", *text ? ", " : "", over, then > now ? '+' : '-', amount);
}

void why_cost(char *text, size_t room, const struct why_plan *now, const struct why_plan *then, bytes_writer *bytes)
{
    const double more = 100 * (then->recomputed - now->recomputed);
    *text = '\0';
    add_moved(text, room, "NVMe", now->nvme_bytes, then->nvme_bytes, bytes);
    add_moved(text, room, "bus", now->bus_bytes, then->bus_bytes, bytes);
    if (more > 0.05 || more < -0.05) text_append(text, room, "%smatmul FLOPs %+.1f %%", *text ? ", " : "", more);
}
