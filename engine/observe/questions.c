#include "engine/observe/questions.h"

#include <math.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/plan/footprint.h"

const struct run_part *run_present_part(const struct run_model *model)
{
    return model->part_count ? &model->parts[model->part_count - 1] : NULL;
}

bool run_step_is_whole(const struct run_step *step)
{
    return step->ended + step->missing >= step->ranks;
}

const struct run_step *run_last_step(const struct run_model *model)
{
    for (int i = model->step_count - 1; i >= 0; i--)
        if (run_step_is_whole(&model->steps[i])) return &model->steps[i];
    return NULL;
}

const struct run_step *run_last_step_here(const struct run_model *model)
{
    const struct run_step *step = run_last_step(model);
    const struct run_part *part = run_present_part(model);
    return step && (!part || step->step > part->steps_done) ? step : NULL;
}

uint32_t run_peak_step(const struct run_model *model)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (int r = 0; r < model->ranks; r++) {
        const uint32_t step = model->rank[r].peak_step;
        if (step < first) first = step;
        if (step > last) last = step;
    }
    return model->ranks && last - first <= 1 ? first : 0;
}

const struct run_step *run_step_numbered(const struct run_model *model, uint32_t step)
{
    for (int i = model->step_count - 1; i >= 0; i--)
        if (model->steps[i].step == step) return &model->steps[i];
    return NULL;
}

uint32_t whole_step_of(const struct run_model *model, const struct run_schedule *plan)
{
    for (int i = model->step_count - 1; i >= 0; i--) {
        const struct run_step *step = &model->steps[i];
        if (run_step_is_whole(step) && !step->skipped && step->schedule == plan->number) return step->step;
    }
    return 0;
}

const struct run_schedule *run_schedule_numbered(const struct run_model *model, uint32_t number)
{
    for (int i = model->schedule_count - 1; i >= 0; i--)
        if (model->schedules[i].number == number) return &model->schedules[i];
    return NULL;
}

const struct op *run_op(const struct run_schedule *schedule, int64_t number)
{
    if (!schedule || !schedule->has_ops || number < 0 || number >= schedule->ops.op_count) return NULL;
    return &schedule->ops.ops[number];
}

const char *run_lane_name(const struct run_model *model, enum lane lane)
{
    return model->lane_name[lane][0] ? model->lane_name[lane] : lane_name(lane);
}

const char *run_op_name(const struct run_model *model, uint32_t schedule, uint32_t op)
{
    const struct run_schedule *list = schedule == TRACE_OBSERVED ? run_schedule_numbered(model, schedule) : NULL;
    return run_op(list, op) ? list->ops.names[op] : NULL;
}

const struct run_schedule *run_training(const struct run_model *model)
{
    const struct run_schedule *plan =
        model->has_training ? run_schedule_numbered(model, model->training_schedule) : NULL;
    return plan && plan->has_ops && schedule_is_observed(&plan->ops) ? NULL : plan;
}

static void recent_add(struct run_recent *recent, const struct run_step *step)
{
    recent->steps++;
    recent->tokens += step->tokens;
    recent->total_ns += step->total_ns;
    if (!step->timed) return;
    recent->split_steps++;
    recent->split_total_ns += step->total_ns;
    recent->exposed_ns += (double)step->split.exposed_ns / step->timed;
    for (int phase = 0; phase < PHASES; phase++)
        recent->phase_ns[phase] += (double)step->split.phase_ns[phase] / step->timed;
}

/* Only steps of one schedule: a mean across a switch of stage has no meaning. */
bool run_recent(const struct run_model *model, uint32_t until, struct run_recent *recent)
{
    const struct run_step *last = NULL;
    memset(recent, 0, sizeof *recent);
    for (int i = model->step_count - 1; i >= 0 && recent->total_ns < 1000000000u; i--) {
        const struct run_step *step = &model->steps[i];
        if (!run_step_is_whole(step) || step->skipped || step->step > until) continue;
        if (last && step->schedule != last->schedule) break;
        last = step;
        recent_add(recent, step);
    }
    return recent->total_ns > 0;
}

bool run_is_fast(const struct run_model *model)
{
    enum { FAST_NS = 500 * 1000 * 1000 };
    struct run_recent recent;
    return model->has_state && model->state == RUN_RUNNING && !run_is_stuck(model) &&
           run_recent(model, UINT32_MAX, &recent) && recent.total_ns / (uint64_t)recent.steps < FAST_NS;
}

bool run_tokens_per_second(const struct run_model *model, double *value)
{
    struct run_recent recent;
    if (!run_recent(model, UINT32_MAX, &recent) || !recent.tokens) return false;
    *value = (double)recent.tokens * 1e9 / (double)recent.total_ns;
    return true;
}

bool run_predicted_peak(const struct run_model *model, enum tier tier, uint64_t *bytes)
{
    const struct run_schedule *schedule = run_training(model);
    if (!schedule || !schedule->tier[tier].known) return false;
    *bytes = schedule->tier[tier].peak_bytes;
    return true;
}

const char *run_state_name(enum run_state state)
{
    static const char *const names[RUN_STATES] = {"starting",      "running", "paused",
                                                  "out of memory", "ended",   "starting again"};
    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

const char *run_outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"finished", "out_of_memory", "failed", "stopped"};
    return (unsigned)outcome < sizeof names / sizeof names[0] ? names[outcome] : "unknown";
}

uint32_t run_lanes(const struct run_model *model)
{
    uint32_t lanes = 1u << LANE_COMPUTE | 1u << LANE_COMM;
    for (int i = 0; i < model->schedule_count; i++) lanes |= model->schedules[i].lanes;
    return lanes;
}

int run_lane_count(const struct run_model *model)
{
    return __builtin_popcount(run_lanes(model));
}

bool run_learns(const struct run_model *model)
{
    const struct run_step *step = run_last_step(model);
    return !model->header.simulated && (!model->header.program[0] || (step && isfinite(step->loss)));
}

int run_world(const struct run_model *model)
{
    return model->header.simulated ? model->header.world : model->ranks;
}

enum traffic traffic_of_op(enum op_kind kind)
{
    const enum traffic traffic = op_traffic(kind);
    return traffic == TRAFFIC_KINDS ? TRAFFIC_CONTROL : traffic;
}

const struct run_gpu *run_gpu_led_by(const struct run_model *model, int rank)
{
    const struct run_gpu *gpu = &model->rank[rank].gpu;
    return gpu->known && gpu->first_rank == rank ? gpu : NULL;
}

const struct run_outside *run_outside_of(const struct run_model *model, int rank)
{
    const struct run_gpu *gpu = &model->rank[rank].gpu;
    if (!gpu->known || gpu->first_rank >= model->ranks) return NULL;
    const struct run_outside *outside = &model->rank[gpu->first_rank].outside;
    return outside->known ? outside : NULL;
}

bool run_sensors(const struct run_model *model, struct run_sensors *all)
{
    bool has_power = true, has_clock = true;
    *all = (struct run_sensors){false, 0, UINT32_MAX, 0};
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_sensors *one = &model->rank[rank].sensors;
        if (!run_gpu_led_by(model, rank) || !one->known) continue;
        has_power = has_power && one->power_mw != UINT32_MAX;
        has_clock = has_clock && one->clock_mhz != UINT32_MAX;
        all->power_mw += one->power_mw;
        if (one->clock_mhz < all->clock_mhz) all->clock_mhz = one->clock_mhz;
        all->slowed_by |= one->slowed_by; /* unknown: all bits */
        all->known = true;
    }
    if (!has_power) all->power_mw = UINT32_MAX;
    if (!has_clock) all->clock_mhz = UINT32_MAX;
    return all->known;
}

void run_slowed_text(char *text, size_t room, const struct run_sensors *sensors)
{
    static const char *const names[] = {"idle",          "a set clock",     "power cap",   "hardware",   "sync boost",
                                        "heat (driver)", "heat (hardware)", "power brake", "the display"};
    enum { NAMES = sizeof names / sizeof *names };
    text[0] = '\0';
    if (!sensors->known || sensors->slowed_by == UINT64_MAX) return;
    for (int bit = 0; bit < NAMES; bit++)
        if (sensors->slowed_by >> bit & 1) text_append(text, room, "%s%s", *text ? ", " : "", names[bit]);
    if (sensors->slowed_by >> NAMES) text_append(text, room, "%sother reasons", *text ? ", " : "");
    if (!*text) text_append(text, room, "nothing");
}

uint64_t run_notices_seen(const struct run_model *model)
{
    return model->notices_dropped + (uint64_t)model->notice_count;
}

int run_notices_since(const struct run_model *model, uint64_t seen)
{
    const uint64_t here = seen > model->notices_dropped ? seen - model->notices_dropped : 0;
    return here < (uint64_t)model->notice_count ? (int)here : model->notice_count;
}

void append_ranks(char *text, size_t room, uint64_t ranks)
{
    for (int r = 0, listed = 0; r < 64; r++) {
        if (!(ranks >> r & 1)) continue;
        int last = r;
        while (last < 63 && ranks >> (last + 1) & 1) last++;
        text_append(text, room, listed++ ? ", %d" : ranks & (ranks - 1) ? "ranks %d" : "rank %d", r);
        if (last > r) text_append(text, room, "-%d", last);
        r = last;
    }
}

void run_shortage_text(char *text, size_t room, const struct run_shortage *shortage, bytes_writer *bytes)
{
    char wanted[32], budget[32], left[32];
    const bool has_rank = shortage->rank >= 0 && shortage->rank < 64;
    const uint64_t ranks = shortage->also_ranks | (has_rank ? UINT64_C(1) << shortage->rank : 0);
    int64_t held = 0;
    for (int c = 0; c < CATEGORIES; c++) held += shortage->held_bytes[c];
    const int64_t left_bytes = shortage->budget_bytes > held ? shortage->budget_bytes - held : 0;
    const bool told = shortage->has_held && shortage->tier >= 0 && shortage->category >= 0 &&
                      shortage->wanted_bytes >= 0 && shortage->budget_bytes > 0;
    bytes(wanted, (uint64_t)shortage->wanted_bytes);
    bytes(budget, (uint64_t)shortage->budget_bytes);
    bytes(left, (uint64_t)left_bytes);
    if (!told) snprintf(text, room, "%s", shortage->text);
    else if (shortage->wanted_bytes > left_bytes)
        snprintf(text, room, "out of %s memory: %s asks for %s, %s of the budget of %s are left",
                 tier_name(shortage->tier), category_name(shortage->category), wanted, left, budget);
    else
        snprintf(text, room,
                 "out of %s memory: %s of the update will ask for %s, more than the budget of %s leaves then",
                 tier_name(shortage->tier), category_name(shortage->category), wanted, budget);
    if (ranks) text_append(text, room, "; refused on ");
    append_ranks(text, room, ranks);
}

const char *run_no_fits(const struct run_shortage *shortage)
{
    if (!shortage->has_fits) return "the event does not say what would fit";
    return shortage->budget_bytes == 0 ? "no budget is set to try plans against" : "nothing that was tried would fit";
}

struct link_use run_link_use(const struct run_traffic by[TRAFFIC_KINDS][LINKS], int kind, int link, double parts,
                             const uint64_t exposed_by_ns[TRAFFIC_KINDS], double exposed_parts)
{
    struct link_use use = {0};
    for (int k = 0; k < TRAFFIC_KINDS; k++) {
        const struct run_traffic *of = &by[k][link];
        double took_ns = 0;
        if ((kind != TRAFFIC_KINDS && k != kind) || !of->ranks) continue;
        for (int l = 0; l < LINKS; l++) took_ns += (double)by[k][l].busy_ns / parts;
        const double exposed_ns = exposed_parts > 0 ? (double)exposed_by_ns[k] / exposed_parts : 0,
                     busy_ns = (double)of->link_ns / parts;
        use.ranks = of->ranks;
        use.sent_bytes += (double)of->sent_bytes / parts;
        use.busy_ns += busy_ns;
        if (took_ns > 0) use.exposed_ns += busy_ns * (exposed_ns < took_ns ? exposed_ns / took_ns : 1);
    }
    if (exposed_parts <= 0 || use.busy_ns <= 0) use.exposed_ns = -1;
    return use;
}

void run_quantized_add(struct run_quantized *sum, const struct run_quantized *of)
{
    if (of->step > sum->step) sum->step = of->step;
    if (of->largest > sum->largest) sum->largest = of->largest;
    sum->elems += of->elems;
    sum->not_finite += of->not_finite;
    sum->squares += of->squares;
    sum->of_squares += of->of_squares;
}

const char *run_rank_text(char out[RANK_TEXT_ROOM], const struct run_model *model, int rank)
{
    const int node = model->header.ranks_per_node;
    const char *host = trace_host_of(&model->machines, rank);
    if (*host) snprintf(out, RANK_TEXT_ROOM, "rank %d on host %.24s", rank, host);
    else
        snprintf(out, RANK_TEXT_ROOM, node > 0 && node < model->ranks ? "rank %d of node %d" : "rank %d", rank,
                 node > 0 ? rank / node : 0);
    return out;
}
