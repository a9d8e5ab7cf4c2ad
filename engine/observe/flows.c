/* Folds copies between tiers by step and rank, and computes the figures for screens and reports. */
#include "engine/observe/flows.h"

#include <math.h>
#include <string.h>

#include "engine/observe/fold.h"
#include "engine/observe/totals.h"
#include "engine/plan/footprint.h"

enum traffic flow_traffic(enum flow flow)
{
    return (enum traffic)(TRAFFIC_D2H + (int)flow);
}

const char *flow_name(enum flow flow)
{
    static const char *const names[FLOWS] = {"device -> host", "host -> device", "NVMe -> host", "host -> NVMe"};
    return names[flow];
}

/* ---- folding ---- */

void flows_begin_step(struct run_rank *rank, const struct run_pace *pace)
{
    rank->flows.open_pace = *pace;
    memset(rank->flows.open, 0, sizeof rank->flows.open);
}

void flows_add(struct run_rank *rank, const struct op *op, const struct trace_record *record)
{
    struct run_flow *flow = &rank->flows.open[op_traffic(op->kind) - TRAFFIC_D2H];
    const uint64_t busy_ns = record->time_ns - record->op_end.started_ns, paced_ns = record->op_end.paced_ns;
    flow->count++;
    flow->bytes += record->op_end.sent_bytes;
    flow->busy_ns += busy_ns;
    flow->paced_ns += paced_ns < busy_ns ? paced_ns : busy_ns;
}

void fold_io(struct run_model *model, const struct trace_record *record)
{
    const struct trace_of_io *from = &record->io;
    struct run_rank *rank = model_rank(model, record->rank);
    const struct run_schedule *schedule = run_schedule_numbered(model, from->schedule);
    const struct op *op = run_op(schedule, from->op);
    if (!rank || !op || !op_swaps(op->kind)) return;
    if (schedule->purpose != PURPOSE_TRAIN || !rank->open.begun || rank->open.step != from->step) return;
    struct run_flow *flow = &rank->flows.open[op_traffic(op->kind) - TRAFFIC_D2H];
    flow->io_bytes += from->bytes;
    flow->requests += from->requests;
    flow->io_ns += from->busy_ns;
    flow->latency_ns += from->latency_ns;
    if (from->longest_ns > flow->longest_ns) flow->longest_ns = from->longest_ns;
    if (from->deepest > flow->deepest) flow->deepest = from->deepest;
    flow->buffered |= !from->direct;
}

static void add(struct run_flow *sum, const struct run_flow *flow)
{
    sums_add(sum, flow, offsetof(struct run_flow, longest_ns));
    if (flow->longest_ns > sum->longest_ns) sum->longest_ns = flow->longest_ns;
    if (flow->deepest > sum->deepest) sum->deepest = flow->deepest;
    sum->buffered |= flow->buffered;
}

/* The rate without the time that pacing added. With IO records, their own time is more exact. */
static double own_rate(const struct run_flow *flow)
{
    return flow->io_ns ? per_second(flow->io_bytes, flow->io_ns)
                       : per_second(flow->bytes, flow->busy_ns - flow->paced_ns);
}

void flows_end_step(struct run_rank *rank, const struct run_split *split)
{
    struct run_flows *flows = &rank->flows;
    flows->known = split != NULL;
    if (!split) return;
    memcpy(flows->step, flows->open, sizeof flows->step);
    flows->pace = flows->open_pace;
    for (int f = 0; f < FLOWS; f++) flows->step[f].exposed_ns = split->exposed_by_ns[flow_traffic((enum flow)f)];
    flows->steps++;
    for (int f = 0; f < FLOWS; f++) {
        const double rate = own_rate(&flows->step[f]);
        add(&flows->total[f], &flows->step[f]);
        if (rate > flows->best_bytes_per_s[f]) flows->best_bytes_per_s[f] = rate;
    }
}

/* ---- figures ---- */

/* Sums over ranks, on the way to means. */
struct sum {
    struct run_flow flow;
    const struct run_pace *pace;
    double steps, best, slowed; /* slowed: by what factor at most; 1: not */
    int ranks;
};

static void finish(struct flow_figures *out, const struct sum *sum)
{
    const struct run_flow *flow = &sum->flow;
    out->known = sum->ranks > 0;
    if (!out->known) return;
    out->count = (double)flow->count / sum->steps;
    out->bytes = (double)flow->bytes / sum->steps;
    out->exposed_ns = (double)flow->exposed_ns / sum->steps;
    out->bytes_per_s = per_second(flow->bytes, flow->busy_ns);
    out->own_bytes_per_s = own_rate(flow);
    out->has_io = flow->requests > 0;
    out->buffered = flow->buffered;
    out->deepest = flow->deepest;
    out->longest_ns = flow->longest_ns;
    if (!out->has_io) return;
    out->requests = (double)flow->requests / sum->steps;
    out->depth = flow->io_ns ? (double)flow->latency_ns / (double)flow->io_ns : 0;
    out->latency_ns = (double)flow->latency_ns / (double)flow->requests;
}

/* The factor of slow motion; a slow rank's is SLOW_RANK_FACTOR times higher. */
static double slowed(const struct run_pace *pace, int rank)
{
    const double slow = pace->known && pace->slow_motion > 1 ? pace->slow_motion : 1;
    return pace->known && pace->slow_rank == rank ? slow * SLOW_RANK_FACTOR : slow;
}

/* The time of the transfers without slow motion: the machine's or the paced link's, whichever is longer. Slow motion
 * cannot be divided out, because it stretches short operations to a visible length. */
static double seconds_at_speed(const struct flow_figures *figures, const struct run_flow *flow,
                               const struct config_link *link)
{
    const struct traffic_sum moved = {.count = (int)flow->count, .sent_bytes = (int64_t)flow->bytes};
    const double own = figures->own_bytes_per_s > 0 ? (double)flow->bytes / figures->own_bytes_per_s : 0;
    return fmax(own, traffic_seconds(&moved, link));
}

/* The limit: the paced bandwidth; of a link that is not paced, the rate of its best step. */
static void set_rate_and_limit(struct flow_figures *out, const struct sum *sum, enum flow flow)
{
    if (out->bytes_per_s <= 0) return;
    const struct config_link *link = &sum->pace->links[traffic_link(flow_traffic(flow))];
    const bool paced = sum->pace->known && link->bandwidth_bytes_per_s > 0;
    out->slow_motion = sum->slowed;
    if (sum->slowed > 1) {
        const double seconds = seconds_at_speed(out, &sum->flow, link);
        out->bytes_per_s = seconds > 0 ? (double)sum->flow.bytes / seconds : 0;
    }
    if (paced) out->limited_by = FLOW_LIMIT_PACED;
    else if (sum->best > 0) out->limited_by = FLOW_LIMIT_BEST;
    else return;
    out->limit_bytes_per_s = paced ? link->bandwidth_bytes_per_s : sum->best / sum->ranks;
    out->share = (paced ? out->bytes_per_s : out->own_bytes_per_s) / out->limit_bytes_per_s;
}

struct flow_figures flow_figures_of(const struct run_model *model, int rank, enum flow flow, bool run)
{
    struct flow_figures out = {0};
    struct sum sum = {0};
    const int first = rank < 0 ? 0 : rank, end = rank < 0 ? model->ranks : rank + 1;
    for (int r = first; r < end && r < model->ranks; r++) {
        const struct run_flows *flows = &model->rank[r].flows;
        const bool so_far = !run && !flows->known && !flows->steps;
        if (run ? !flows->steps : !flows->known && !so_far) continue;
        add(&sum.flow, run ? &flows->total[flow] : so_far ? &flows->open[flow] : &flows->step[flow]);
        sum.steps += run ? (double)flows->steps : 1;
        sum.best += flows->best_bytes_per_s[flow];
        sum.pace = so_far ? &flows->open_pace : &flows->pace;
        sum.slowed = fmax(sum.slowed, slowed(sum.pace, r));
        sum.ranks++;
        out.so_far |= so_far;
    }
    finish(&out, &sum);
    set_rate_and_limit(&out, &sum, flow);
    return out;
}

bool flow_is_used(const struct run_model *model, enum flow flow)
{
    const struct run_schedule *plan = run_training(model);
    const enum traffic traffic = flow_traffic(flow);
    if (plan && plan->traffic[traffic][traffic_link(traffic)].count) return true;
    for (int rank = 0; rank < model->ranks; rank++)
        if (model->rank[rank].flows.step[flow].count || model->rank[rank].flows.open[flow].count) return true;
    return false;
}

bool tier_is_used(const struct run_model *model, enum tier tier)
{
    const struct run_schedule *plan = run_training(model);
    if (tier == TIER_DEVICE || (plan && plan->tier[tier].peak_bytes)) return true;
    for (int rank = 0; rank < model->ranks; rank++)
        for (int category = 0; category < CATEGORIES; category++)
            if (model->rank[rank].tier[tier].category[category].peak_bytes) return true;
    return false;
}
