#include "engine/simulate/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"

/* The groups of one kind, as classes see them: a class meets one group. Groups that are alike are one. */
struct meetings {
    bool used;
    int *of_class;              /* by class: number of its group */
    int *first;                 /* by group: its first rank */
    int *shape_of;              /* by group: number in `shapes` */
    struct group_shape *shapes; /* those that differ */
    int groups, shape_count;
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
    uint64_t *ready, *arrived; /* by class; by group */
    int32_t *waited;           /* by class */
    int kept;                  /* classes of recorded ranks, which are the first */
    struct op_time *times;     /* [kept][ops] */
};

/* ---- classes ---- */

static struct process_group group_at(const struct simulation *s, int kind, int rank)
{
    return schedule_group(s->input.cost.schedule, (enum group)kind, rank);
}

static int ascending(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static int distinct(const uint64_t *colour, uint64_t *room, int ranks)
{
    int count = 0;
    memcpy(room, colour, (size_t)ranks * sizeof *room);
    qsort(room, (size_t)ranks, sizeof *room, ascending);
    for (int r = 0; r < ranks; r++) count += r == 0 || room[r] != room[r - 1];
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
static int number_classes(struct simulation *s, const uint64_t *colour, uint64_t *sorted, int ranks)
{
    int *number = malloc((size_t)ranks * sizeof *number);
    if (!number) return 0;
    distinct(colour, sorted, ranks);
    memset(number, -1, (size_t)ranks * sizeof *number);
    for (int r = 0; r < ranks; r++) {
        const uint64_t *at = bsearch(&colour[r], sorted, (size_t)ranks, sizeof *sorted, ascending);
        while (at > sorted && at[-1] == *at) at--;
        if (number[at - sorted] < 0) s->first_of[s->classes] = r, number[at - sorted] = s->classes++;
        s->class_of[r] = number[at - sorted];
    }
    free(number);
    return s->classes;
}

static int make_classes(struct simulation *s, struct error *err)
{
    const int ranks = s->input.cost.schedule->ranks;
    uint64_t *colour = malloc((size_t)ranks * sizeof *colour), *room = malloc((size_t)ranks * sizeof *room);
    s->class_of = malloc((size_t)ranks * sizeof *s->class_of);
    s->first_of = malloc((size_t)ranks * sizeof *s->first_of);
    const bool there = colour && room && s->class_of && s->first_of;
    if (there) colour_ranks(s, colour, room, ranks);
    const bool made = there && number_classes(s, colour, room, ranks);
    free(colour);
    free(room);
    return made ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
}

/* ---- groups of classes ---- */

static int shape_number(struct meetings *meetings, const struct group_shape *shape)
{
    for (int n = 0; n < meetings->shape_count; n++)
        if (!memcmp(&meetings->shapes[n], shape, sizeof *shape)) return n;
    meetings->shapes[meetings->shape_count] = *shape;
    return meetings->shape_count++;
}

static bool make_meetings(const struct simulation *s, struct meetings *meetings, int kind)
{
    const size_t classes = (size_t)s->classes;
    meetings->of_class = malloc(classes * sizeof *meetings->of_class);
    meetings->first = malloc(classes * sizeof *meetings->first);
    meetings->shape_of = malloc(classes * sizeof *meetings->shape_of);
    meetings->shapes = malloc(classes * sizeof *meetings->shapes);
    if (!meetings->of_class || !meetings->first || !meetings->shape_of || !meetings->shapes) return false;
    memset(meetings->of_class, -1, classes * sizeof *meetings->of_class);
    for (int c = 0; c < s->classes; c++) {
        if (meetings->of_class[c] >= 0) continue;
        const struct process_group group = group_at(s, kind, s->first_of[c]);
        const struct group_shape shape = group_shape_of(&group, s->input.cost.per_node);
        for (int m = 0; m < group.count; m++)
            meetings->of_class[s->class_of[member_rank(&group, m)]] = meetings->groups;
        meetings->first[meetings->groups] = group.first;
        meetings->shape_of[meetings->groups++] = shape_number(meetings, &shape);
    }
    return true;
}

/* ---- what an operation costs, and where its end is kept ---- */

static bool is_collective(const struct op *op)
{
    return op->lane == LANE_COMM;
}

static bool make_costs(struct simulation *s)
{
    const struct schedule *schedule = s->input.cost.schedule;
    int64_t count = 0;
    s->cost_at = malloc((size_t)s->ops * sizeof *s->cost_at);
    if (!s->cost_at) return false;
    for (int o = 0; o < s->ops; o++) {
        s->cost_at[o] = count;
        count += is_collective(&schedule->ops[o]) ? s->meetings[schedule->ops[o].group].shape_count : 1;
    }
    s->costs = malloc((size_t)count * sizeof *s->costs);
    for (int o = 0; o < s->ops && s->costs; o++) {
        const struct op *op = &schedule->ops[o];
        const struct meetings *meetings = is_collective(op) ? &s->meetings[op->group] : NULL;
        for (int n = 0; n < (meetings ? meetings->shape_count : 1); n++)
            s->costs[s->cost_at[o] + n] = op_ns(&s->input.cost, op, meetings ? &meetings->shapes[n] : NULL);
    }
    return s->costs != NULL;
}

/* An end takes a slot until the last operation that waits for it has been looked at. */
static bool make_slots(struct simulation *s)
{
    const struct schedule *schedule = s->input.cost.schedule;
    int *last_use = malloc((size_t)s->ops * sizeof *last_use), *idle = malloc((size_t)s->ops * sizeof *idle), idles = 0;
    s->slot_of = malloc((size_t)s->ops * sizeof *s->slot_of);
    const bool there = last_use && idle && s->slot_of;
    for (int o = 0; there && o < s->ops; o++) {
        last_use[o] = -1;
        for (int d = 0; d < schedule->ops[o].dependency_count; d++) last_use[schedule->ops[o].dependency[d].op] = o;
    }
    for (int o = 0; there && o < s->ops; o++) {
        const struct op *op = &schedule->ops[o];
        s->slot_of[o] = last_use[o] < 0 ? -1 : idles ? idle[--idles] : s->slots++;
        for (int d = 0; d < op->dependency_count; d++) {
            const int on = op->dependency[d].op;
            if (last_use[on] == o) idle[idles++] = s->slot_of[on], last_use[on] = -1;
        }
    }
    free(last_use);
    free(idle);
    return there;
}

static bool make_arrays(struct simulation *s)
{
    const size_t classes = (size_t)s->classes;
    for (int r = 0; r < s->input.recorded; r++)
        if (s->class_of[r] >= s->kept) s->kept = s->class_of[r] + 1;
    s->slowness = malloc(classes * sizeof *s->slowness);
    s->ended = malloc(((size_t)s->slots * classes + 1) * sizeof *s->ended);
    s->free_at = malloc(LANES * classes * sizeof *s->free_at);
    s->last = malloc(classes * sizeof *s->last);
    s->ready = malloc(classes * sizeof *s->ready);
    s->arrived = malloc(classes * sizeof *s->arrived);
    s->waited = malloc(classes * sizeof *s->waited);
    s->times = calloc((size_t)s->kept * (size_t)s->ops + 1, sizeof *s->times);
    if (!s->slowness || !s->ended || !s->free_at || !s->last || !s->ready || !s->arrived || !s->waited || !s->times)
        return false;
    for (int c = 0; c < s->classes; c++) s->slowness[c] = 1000;
    for (int i = 0; i < s->input.slow_count; i++)
        s->slowness[s->class_of[s->input.slow[i].rank]] = s->input.slow[i].thousandths;
    return true;
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
    status = make_classes(s, err);
    bool there = !status;
    for (int kind = 0; there && kind < GROUPS; kind++)
        there = !s->meetings[kind].used || make_meetings(s, &s->meetings[kind], kind);
    there = there && make_costs(s) && make_slots(s) && make_arrays(s);
    if (!there && !status) status = error_set(err, STATUS_RUN, "no memory to simulate %d operations", s->ops);
    if (status) simulation_free(s);
    else *out = s;
    return status;
}

void simulation_free(struct simulation *s)
{
    if (!s) return;
    for (int kind = 0; kind < GROUPS; kind++) {
        free(s->meetings[kind].of_class);
        free(s->meetings[kind].first);
        free(s->meetings[kind].shape_of);
        free(s->meetings[kind].shapes);
    }
    void *const arrays[] = {s->class_of, s->first_of, s->slowness, s->slot_of, s->cost_at, s->costs, s->ended,
                            s->free_at,  s->last,     s->ready,    s->arrived, s->waited,  s->times};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
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

/* When each class comes to the operation and has all that it waits for. */
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
}

static void find_arrivals(struct simulation *s, const struct meetings *meetings)
{
    memset(s->arrived, 0, (size_t)meetings->groups * sizeof *s->arrived);
    for (int c = 0; c < s->classes; c++) {
        uint64_t *arrived = &s->arrived[meetings->of_class[c]];
        if (s->ready[c] > *arrived) *arrived = s->ready[c];
    }
}

static void run_op(struct simulation *s, uint32_t step, int o)
{
    const struct op *op = &s->input.cost.schedule->ops[o];
    const struct meetings *meetings = is_collective(op) ? &s->meetings[op->group] : NULL;
    const uint64_t *cost = &s->costs[s->cost_at[o]];
    uint64_t *free_at = s->free_at + op->lane * (size_t)s->classes;
    uint64_t *ended = s->slot_of[o] < 0 ? NULL : s->ended + (size_t)s->slot_of[o] * (size_t)s->classes;
    find_ready(s, op);
    if (meetings) find_arrivals(s, meetings);
    for (int c = 0; c < s->classes; c++) {
        const int group = meetings ? meetings->of_class[c] : 0;
        const uint64_t from_ns = meetings ? s->arrived[group] : s->ready[c];
        const uint64_t ns = meetings ? cost[meetings->shape_of[group]] : *cost * s->slowness[c] / 1000;
        const uint64_t end_ns = from_ns + jittered(s, ns, meetings ? meetings->first[group] : s->first_of[c], step, o);
        if (c < s->kept)
            s->times[(size_t)c * (size_t)s->ops + (size_t)o] =
                (struct op_time){free_at[c], s->ready[c], end_ns, from_ns - s->ready[c], s->waited[c]};
        free_at[c] = end_ns;
        if (ended) ended[c] = end_ns;
        if (end_ns > s->last[c]) s->last[c] = end_ns;
    }
}

uint64_t simulation_step(struct simulation *s, uint32_t step, uint64_t begin_ns)
{
    uint64_t end_ns = begin_ns;
    for (size_t i = 0; i < LANES * (size_t)s->classes; i++) s->free_at[i] = begin_ns;
    for (int c = 0; c < s->classes; c++) s->last[c] = begin_ns;
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

int simulation_classes(const struct simulation *s)
{
    return s->classes;
}
