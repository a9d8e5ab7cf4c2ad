#include "engine/simulate/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/order.h"
#include "engine/base/rng.h"
#include "engine/plan/footprint.h"

enum { ARRAYS_MOST = 20 + 4 * GROUPS };

/* The groups of one kind, as classes see them: a class meets one group. Groups that are alike are one. */
struct meetings {
    bool used;
    int *of_class;              /* by class: number of its group */
    int *first;                 /* by group: its first rank */
    int *shape_of;              /* by group: number in `shapes` */
    struct group_shape *shapes; /* those that differ */
    int groups, shape_count;
};

/* Of a rank whose lanes share a core: what other lanes did since its last operation that computes. */
struct core_use {
    uint64_t beside_ns;         /* while it computed */
    uint64_t after_ns, till_ns; /* after that, and when they ended */
};

struct simulation {
    struct simulation_input input;
    int ops, classes, slots;
    int *class_of;      /* by rank */
    int *first_of;      /* by class: its first rank */
    uint32_t *slowness; /* by class, thousandths */
    struct meetings meetings[GROUPS];
    int *slot_of;     /* by operation: where its end is kept as long as others wait for it; -1: none does */
    int64_t *cost_at; /* by operation: its first number in `costs`, of each shape of group one */
    uint64_t *costs;
    uint64_t *ended;           /* [slots][classes] */
    uint64_t *free_at;         /* [LANES][classes] */
    uint64_t *last;            /* by class: the end of its last operation */
    struct core_use *core_use; /* by class */
    uint64_t *ready, *arrived; /* by class; by group */
    int32_t *waited;           /* by class */
    int kept;                  /* classes of recorded ranks, which are the first */
    struct op_time *times;     /* [kept][ops] */
    void *array[ARRAYS_MOST];  /* all of the above */
    int arrays;
    bool failed; /* there was no memory for one of them */
};

/* Zeroed; freed with the simulation. */
static void *array_of(struct simulation *s, int64_t count, size_t item_bytes)
{
    void *array = calloc((size_t)count + 1, item_bytes);
    s->failed |= !array;
    return s->array[s->arrays++] = array;
}

/* ---- classes ---- */

static struct process_group group_at(const struct simulation *s, int kind, int rank)
{
    return schedule_group(s->input.cost.schedule, (enum group)kind, rank);
}

/* Each colour once, in ascending order; returns how many. */
static int distinct(const uint64_t *colour, uint64_t *room, int ranks)
{
    int count = 0;
    memcpy(room, colour, (size_t)ranks * sizeof *room);
    qsort(room, (size_t)ranks, sizeof *room, ascending_u64);
    for (int r = 0; r < ranks; r++)
        if (r == 0 || room[r] != room[count - 1]) room[count++] = room[r];
    return count;
}

/* A rank's colour becomes one of its colour and those in its groups, in whatever order. */
static void refine(const struct simulation *s, uint64_t *colour, uint64_t *sum, int ranks)
{
    for (int kind = 0; kind < GROUPS; kind++) {
        if (!s->meetings[kind].used) continue;
        for (int r = 0; r < ranks; r++) {
            const struct process_group group = group_at(s, kind, r);
            if (group.first == r) {
                const struct group_shape shape = group_shape_of(&group, s->input.cost.per_node);
                sum[r] = rng_u64((uint64_t)shape.ranks, (uint64_t)shape.nodes, (uint64_t)shape.most);
            }
            sum[group.first] += rng_mix(colour[r]);
        }
        for (int r = 0; r < ranks; r++) colour[r] = rng_mix(colour[r]) ^ rng_mix(sum[group_at(s, kind, r).first]);
    }
}

static void colour_ranks(const struct simulation *s, uint64_t *colour, uint64_t *room, int ranks)
{
    for (int r = 0; r < ranks; r++) colour[r] = s->input.jitters ? (uint64_t)r : 0;
    for (int i = 0; i < s->input.slow_count; i++)
        colour[s->input.slow[i].rank] =
            rng_u64(1, (uint64_t)colour[s->input.slow[i].rank], s->input.slow[i].thousandths);
    for (int before = 0, now = 1; now > before && !s->input.jitters;) {
        before = now;
        refine(s, colour, room, ranks);
        now = distinct(colour, room, ranks);
    }
}

/* Numbers classes in the order of their first ranks, so that those of recorded ranks come first. */
static void number_classes(struct simulation *s, const uint64_t *colour, uint64_t *sorted, int *number, int ranks)
{
    const int count = distinct(colour, sorted, ranks);
    for (int r = 0; r < ranks; r++) {
        const uint64_t *at = bsearch(&colour[r], sorted, (size_t)count, sizeof *sorted, ascending_u64);
        int *of = &number[at - sorted]; /* 1 more than the class */
        if (!*of) s->first_of[s->classes] = r, *of = ++s->classes;
        s->class_of[r] = *of - 1;
        if (r < s->input.recorded && *of > s->kept) s->kept = *of;
    }
}

static void make_classes(struct simulation *s)
{
    const int ranks = s->input.cost.schedule->ranks;
    uint64_t *colour = array_of(s, ranks, sizeof *colour), *room = array_of(s, ranks, sizeof *room);
    int *number = array_of(s, ranks, sizeof *number);
    s->class_of = array_of(s, ranks, sizeof *s->class_of);
    s->first_of = array_of(s, ranks, sizeof *s->first_of);
    if (s->failed) return;
    colour_ranks(s, colour, room, ranks);
    number_classes(s, colour, room, number, ranks);
}

/* ---- groups of classes ---- */

static int shape_number(struct meetings *meetings, const struct group_shape *shape)
{
    for (int n = 0; n < meetings->shape_count; n++)
        if (!memcmp(&meetings->shapes[n], shape, sizeof *shape)) return n;
    meetings->shapes[meetings->shape_count] = *shape;
    return meetings->shape_count++;
}

static void make_meetings(struct simulation *s, struct meetings *meetings, int kind)
{
    meetings->of_class = array_of(s, s->classes, sizeof *meetings->of_class);
    meetings->first = array_of(s, s->classes, sizeof *meetings->first);
    meetings->shape_of = array_of(s, s->classes, sizeof *meetings->shape_of);
    meetings->shapes = array_of(s, s->classes, sizeof *meetings->shapes);
    for (int c = 0; c < s->classes && !s->failed; c++) meetings->of_class[c] = -1;
    for (int c = 0; c < s->classes && !s->failed; c++) {
        if (meetings->of_class[c] >= 0) continue;
        const struct process_group group = group_at(s, kind, s->first_of[c]);
        const struct group_shape shape = group_shape_of(&group, s->input.cost.per_node);
        for (int m = 0; m < group.count; m++)
            meetings->of_class[s->class_of[member_rank(&group, m)]] = meetings->groups;
        meetings->first[meetings->groups] = group.first;
        meetings->shape_of[meetings->groups++] = shape_number(meetings, &shape);
    }
}

/* ---- what an operation costs, and where its end is kept ---- */

static bool is_collective(const struct op *op)
{
    return op->lane == LANE_COMM;
}

static void make_costs(struct simulation *s)
{
    const struct schedule *schedule = s->input.cost.schedule;
    int64_t count = 0;
    s->cost_at = array_of(s, s->ops, sizeof *s->cost_at);
    for (int o = 0; o < s->ops && !s->failed; o++) {
        s->cost_at[o] = count;
        count += is_collective(&schedule->ops[o]) ? s->meetings[schedule->ops[o].group].shape_count : 1;
    }
    s->costs = array_of(s, count, sizeof *s->costs);
    for (int o = 0; o < s->ops && !s->failed; o++) {
        const struct op *op = &schedule->ops[o];
        const struct meetings *meetings = is_collective(op) ? &s->meetings[op->group] : NULL;
        for (int n = 0; n < (meetings ? meetings->shape_count : 1); n++)
            s->costs[s->cost_at[o] + n] = op_ns(&s->input.cost, op, meetings ? &meetings->shapes[n] : NULL);
    }
}

/* An end takes a slot until the last operation that waits for it has been looked at. */
static void make_slots(struct simulation *s)
{
    const struct schedule *schedule = s->input.cost.schedule;
    int *last_use = array_of(s, s->ops, sizeof *last_use), *idle = array_of(s, s->ops, sizeof *idle), idles = 0;
    s->slot_of = array_of(s, s->ops, sizeof *s->slot_of);
    for (int o = 0; o < s->ops && !s->failed; o++) { /* 0: none, for nothing waits for what follows it */
        for (int d = 0; d < schedule->ops[o].dependency_count; d++) last_use[schedule->ops[o].dependency[d].op] = o;
    }
    for (int o = 0; o < s->ops && !s->failed; o++) {
        const struct op *op = &schedule->ops[o];
        s->slot_of[o] = !last_use[o] ? -1 : idles ? idle[--idles] : s->slots++;
        for (int d = 0; d < op->dependency_count; d++) {
            const int on = op->dependency[d].op;
            if (last_use[on] == o) idle[idles++] = s->slot_of[on], last_use[on] = 0;
        }
    }
}

static void make_arrays(struct simulation *s)
{
    s->slowness = array_of(s, s->classes, sizeof *s->slowness);
    s->ended = array_of(s, (int64_t)s->slots * s->classes, sizeof *s->ended);
    s->free_at = array_of(s, (int64_t)LANES * s->classes, sizeof *s->free_at);
    s->last = array_of(s, s->classes, sizeof *s->last);
    s->core_use = array_of(s, s->classes, sizeof *s->core_use);
    s->ready = array_of(s, s->classes, sizeof *s->ready);
    s->arrived = array_of(s, s->classes, sizeof *s->arrived);
    s->waited = array_of(s, s->classes, sizeof *s->waited);
    s->times = array_of(s, (int64_t)s->kept * s->ops, sizeof *s->times);
    for (int c = 0; c < s->classes && !s->failed; c++) s->slowness[c] = 1000;
    for (int i = 0; i < s->input.slow_count && !s->failed; i++)
        s->slowness[s->class_of[s->input.slow[i].rank]] = s->input.slow[i].thousandths;
}

static int check_input(const struct simulation_input *input, struct error *err)
{
    const int ranks = input->cost.schedule->ranks;
    for (int i = 0; i < input->slow_count; i++)
        if (input->slow[i].rank < 0 || input->slow[i].rank >= ranks)
            return error_set(err, STATUS_USAGE, "--slow: there is no rank %d of %d", input->slow[i].rank, ranks);
    return cost_check(&input->cost, err);
}

int simulation_open(struct simulation **out, const struct simulation_input *input, struct error *err)
{
    int status = check_input(input, err);
    if (status) return status;
    struct simulation *s = calloc(1, sizeof *s);
    if (!s) return error_set(err, STATUS_RUN, "no memory for a simulation");
    const struct schedule *schedule = input->cost.schedule;
    s->input = *input;
    s->ops = schedule->op_count;
    for (int o = 0; o < s->ops; o++)
        if (is_collective(&schedule->ops[o])) s->meetings[schedule->ops[o].group].used = true;
    make_classes(s);
    for (int kind = 0; kind < GROUPS; kind++)
        if (s->meetings[kind].used) make_meetings(s, &s->meetings[kind], kind);
    make_costs(s);
    make_slots(s);
    make_arrays(s);
    if (!s->failed) return *out = s, STATUS_OK;
    simulation_free(s);
    return error_set(err, STATUS_RUN, "no memory to simulate %d operations of %d ranks", schedule->op_count,
                     schedule->ranks);
}

void simulation_free(struct simulation *s)
{
    if (!s) return;
    for (int a = 0; a < s->arrays; a++) free(s->array[a]);
    free(s);
}

/* ---- a step ---- */

static uint64_t jittered(const struct simulation *s, uint64_t ns, int rank, uint32_t step, int op)
{
    const uint64_t most = s->input.cost.hardware->jitter;
    if (!s->input.jitters || !most) return ns;
    const uint64_t draw = rng_u64(s->input.seed, (uint64_t)rank, (uint64_t)step << 32 | (uint32_t)op);
    return ns * (1000 + draw % (2 * most + 1) - most) / 1000;
}

/* When each class comes to the operation and has all that it waits for: if its lane has slept, once that is awake. */
static void find_ready(struct simulation *s, const struct op *op)
{
    const size_t classes = (size_t)s->classes;
    memcpy(s->ready, s->free_at + op->lane * classes, classes * sizeof *s->ready);
    memset(s->waited, -1, classes * sizeof *s->waited);
    for (int d = 0; d < op->dependency_count; d++) {
        const int on = op->dependency[d].op;
        const uint64_t *ended = s->ended + (size_t)s->slot_of[on] * classes;
        for (size_t c = 0; c < classes; c++)
            if (ended[c] > s->ready[c]) s->ready[c] = ended[c], s->waited[c] = on;
    }
    for (size_t c = 0; c < classes; c++)
        if (s->waited[c] >= 0) s->ready[c] += s->input.cost.hardware->wake_ns;
}

static void find_arrivals(struct simulation *s, const struct meetings *meetings)
{
    memset(s->arrived, 0, (size_t)meetings->groups * sizeof *s->arrived);
    for (int c = 0; c < s->classes; c++) {
        uint64_t *arrived = &s->arrived[meetings->of_class[c]];
        if (s->ready[c] > *arrived) *arrived = s->ready[c];
    }
}

static uint64_t share_of(uint64_t ns, uint64_t thousandths)
{
    return (uint64_t)((unsigned __int128)ns * thousandths / 1000);
}

/* In thousandths, how much of what a lane does takes time from computing. Drives copy by themselves; other lanes take a core, but for
 * cores of the node on which no rank computes. A single rank's collectives run on the thread that computes. */
static uint64_t core_share(const struct cost_input *input, enum lane lane)
{
    const uint64_t cores = input->hardware->node_cores, ranks = (uint64_t)input->per_node;
    if (!cores || lane == LANE_COMPUTE || lane == LANE_NVME_READ || lane == LANE_NVME_WRITE) return 0;
    if (lane == LANE_COMM && input->schedule->ranks == 1) return 1000;
    return cores <= ranks ? 1000 : cores < 2 * ranks ? 1000 * (2 * ranks - cores) / ranks : 0;
}

/* A lane of the class works from from_ns to end_ns on a core that computing shares. */
static void use_core(struct simulation *s, int c, uint64_t share, uint64_t from_ns, uint64_t end_ns)
{
    const uint64_t computed_ns = s->free_at[LANE_COMPUTE * s->classes + c];
    const uint64_t middle_ns = computed_ns < from_ns ? from_ns : computed_ns < end_ns ? computed_ns : end_ns;
    struct core_use *use = &s->core_use[c];
    use->beside_ns += share_of(middle_ns - from_ns, share);
    use->after_ns += share_of(end_ns - middle_ns, share);
    if (end_ns > middle_ns) use->till_ns = end_ns;
}

/* How much longer an operation takes that computes from from_ns on, since others had the core. */
static uint64_t take_core(struct simulation *s, int c, uint64_t from_ns)
{
    const struct core_use use = s->core_use[c];
    const uint64_t late_ns = use.till_ns > from_ns ? use.till_ns - from_ns : 0;
    s->core_use[c] = (struct core_use){0};
    return use.beside_ns + (late_ns < use.after_ns ? late_ns : use.after_ns);
}

static uint64_t later(uint64_t at_ns, uint64_t ns)
{
    return at_ns < UINT64_MAX - ns ? at_ns + ns : UINT64_MAX;
}

static void run_op(struct simulation *s, uint32_t step, int o)
{
    const struct op *op = &s->input.cost.schedule->ops[o];
    const struct meetings *meetings = is_collective(op) ? &s->meetings[op->group] : NULL;
    const uint64_t *cost = &s->costs[s->cost_at[o]];
    uint64_t *free_at = s->free_at + op->lane * (size_t)s->classes;
    uint64_t *ended = s->slot_of[o] < 0 ? NULL : s->ended + (size_t)s->slot_of[o] * (size_t)s->classes;
    const uint64_t share = core_share(&s->input.cost, op->lane);
    find_ready(s, op);
    if (meetings) find_arrivals(s, meetings);
    for (int c = 0; c < s->classes; c++) {
        const int group = meetings ? meetings->of_class[c] : 0;
        const uint64_t from_ns = meetings ? s->arrived[group] : s->ready[c];
        const uint64_t ns = meetings ? cost[meetings->shape_of[group]] : *cost * s->slowness[c] / 1000;
        const uint64_t lasts_ns = jittered(s, ns, meetings ? meetings->first[group] : s->first_of[c], step, o),
                       lost_ns = op->lane == LANE_COMPUTE ? take_core(s, c, from_ns) : 0,
                       end_ns = later(later(from_ns, lasts_ns), lost_ns);
        if (c < s->kept)
            s->times[(size_t)c * (size_t)s->ops + (size_t)o] =
                (struct op_time){free_at[c], s->ready[c], end_ns, from_ns - s->ready[c], s->waited[c]};
        if (share) use_core(s, c, share, from_ns, end_ns);
        free_at[c] = end_ns;
        if (ended) ended[c] = end_ns;
        if (end_ns > s->last[c]) s->last[c] = end_ns;
    }
}

uint64_t simulation_step(struct simulation *s, uint32_t step, uint64_t begin_ns)
{
    uint64_t end_ns = begin_ns;
    for (size_t i = 0; i < LANES * (size_t)s->classes; i++) s->free_at[i] = begin_ns;
    for (int c = 0; c < s->classes; c++) s->last[c] = begin_ns, s->core_use[c] = (struct core_use){0};
    for (int o = 0; o < s->ops; o++) run_op(s, step, o);
    for (int c = 0; c < s->classes; c++)
        if (s->last[c] > end_ns) end_ns = s->last[c];
    return end_ns;
}

const struct op_time *simulation_times(const struct simulation *s, int rank)
{
    return s->times + (size_t)s->class_of[rank] * (size_t)s->ops;
}

uint64_t simulation_ended_ns(const struct simulation *s, int rank)
{
    return s->last[s->class_of[rank]];
}

const struct simulation_input *simulation_input_of(const struct simulation *s)
{
    return &s->input;
}

int simulation_classes(const struct simulation *s)
{
    return s->classes;
}

void simulation_busy(const struct simulation *simulation, double busy_s[LANES])
{
    const struct schedule *schedule = simulation->input.cost.schedule;
    const struct op_time *times = simulation_times(simulation, 0);
    memset(busy_s, 0, LANES * sizeof *busy_s);
    for (int o = 0; o < schedule->op_count; o++)
        busy_s[schedule->ops[o].lane] += 1e-9 * (double)(times[o].ended_ns - times[o].started_ns - times[o].peers_ns);
}

/* ---- one step, and what it comes to ---- */

struct cost_input cost_of(const struct setup *setup, const struct config *config, const struct hardware *hardware)
{
    return (struct cost_input){&setup->schedule, &setup->model, hardware, config_per_node(config)};
}

int simulate_once(double *step_s, double busy_s[LANES], const struct cost_input *cost, struct error *err)
{
    struct simulation *simulation;
    const int status = simulation_open(&simulation, &(struct simulation_input){.cost = *cost, .recorded = 1}, err);
    if (status) return status;
    *step_s = 1e-9 * (double)simulation_step(simulation, 1, 0);
    if (busy_s) simulation_busy(simulation, busy_s);
    simulation_free(simulation);
    return STATUS_OK;
}

double paced_seconds(const struct setup *setup, const struct config *config)
{
    struct hardware hardware;
    struct error ignored;
    double step_s = 0;
    const struct cost_input cost = cost_of(setup, config, &hardware);
    if (!hardware_of_paces(&hardware, config)) return 0;
    return simulate_once(&step_s, NULL, &cost, &ignored) ? NAN : step_s;
}

struct rates rates_of(const struct cost_input *cost, double step_s)
{
    const struct schedule *schedule = cost->schedule;
    const double peak = (double)hardware_flops(cost->hardware, cost->model->dtype);
    struct flops flops;
    flops_of(&flops, schedule, cost->model);
    struct rates rates = {.flops = flops.forward + flops.backward, .recomputed = flops.recomputed};
    rates.mfu = rates.flops / step_s / peak;
    rates.hfu = (rates.flops + rates.recomputed) / step_s / peak;
    rates.tokens = (double)schedule->B * schedule->T * schedule->micro_steps * schedule->ranks;
    rates.tokens_per_s = rates.tokens / step_s;
    return rates;
}
