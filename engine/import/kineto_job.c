/* From what a profiler recorded of a rank to a job: which thread or stream is which lane, what phase and unit an operation is of, where
 * steps begin. Of nested operators the outermost is shown, but for wrappers (autograd's own, and those in which a collective is
 * asked for). On a GPU an operation is of the phase, unit and step in which it was launched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/import/kineto.h"

enum name_trait {
    NAME_BACKWARD = 1,  /* backward goes on inside */
    NAME_OPTIMIZER = 2, /* the optimizer's step */
    NAME_WRAPPER = 4,   /* its parts are shown in its place */
    NAME_PREFETCH = 8,  /* gathers asked for inside are ahead of need */
};

/* The first row whose words a name begins with. */
static const struct {
    const char *begins;
    unsigned traits;
} name_rows[] = {
    {"autograd::engine::evaluate_function", NAME_BACKWARD | NAME_WRAPPER},
    {"FSDP::backward_prefetch", NAME_BACKWARD | NAME_PREFETCH},
    {"FSDP::pre_backward", NAME_BACKWARD},
    {"FSDP::post_backward", NAME_BACKWARD},
    {"FSDP::root_post_backward", NAME_BACKWARD},
    {"FullyShardedDataParallel._pre_backward_prefetch", NAME_BACKWARD | NAME_PREFETCH},
    {"FullyShardedDataParallel._pre_forward_prefetch", NAME_PREFETCH},
    {"FullyShardedDataParallel._pre_backward", NAME_BACKWARD},
    {"FullyShardedDataParallel._post_backward", NAME_BACKWARD},
    {"Optimizer.step#", NAME_OPTIMIZER},
    {"## backward ##", NAME_BACKWARD}, /* what HTA's users write around them */
    {"## optimizer ##", NAME_OPTIMIZER},
};

/* A stretch of a thread's time in which a phase or a unit holds. */
struct stretch {
    int64_t from_ns, to_ns;
    uint32_t thread;
    int what;
};
struct stretches {
    struct stretch *at;
    int count, room;
};

struct launch {
    uint32_t number;
    int event;
};
struct sighting {
    int64_t begun_ns, last_ns;
    uint64_t busy_ns;
    uint32_t thread;
    int count;
}; /* of a thread or stream in a role */

struct shape {
    struct job *job;
    struct kineto *k;
    struct job_rank *rank;
    unsigned *traits;    /* by name */
    int *unit;           /* by name: the unit it tells of; JOB_NO_UNIT */
    bool *backward_only; /* by thread: backward goes on there, and it begins no step */
    int *first;          /* by thread: of its events; [thread_count + 1] */
    struct stretches phases, marks, windows, prefetches;
    struct {
        int64_t begun_ns, ended_ns, backward_ends_ns, gpu_begun_ns, gpu_ended_ns;
        uint32_t number;
    } * steps;
    int step_count, step_room;
    struct launch *launches;
    int launch_count;
    bool failed;
};

static const struct kineto_event *event_at(const struct shape *s, int at)
{
    return &s->k->events[at];
}

static int by_thread(const void *left, const void *right)
{
    const struct kineto_event *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->begun_ns != b->begun_ns) return a->begun_ns < b->begun_ns ? -1 : 1;
    return (a->ended_ns < b->ended_ns) - (a->ended_ns > b->ended_ns); /* what encloses the other comes first */
}

static void sort_events(struct shape *s)
{
    struct kineto *k = s->k;
    if (k->event_count) qsort(k->events, (size_t)k->event_count, sizeof *k->events, by_thread);
    for (int i = k->event_count - 1; i >= 0; i--) s->first[k->events[i].thread] = i;
    s->first[k->thread_count] = k->event_count;
    for (int t = k->thread_count - 1; t >= 0; t--)
        if (s->first[t] < 0) s->first[t] = s->first[t + 1];
}

/* ---- names ---- */

/* "FSDP::all_gather (h.0)" tells of unit h.0. */
static int unit_in(struct job *job, const char *name)
{
    const char *open = strchr(name, '('), *close = open ? strchr(open, ')') : NULL;
    char unit[24];
    if (strncmp(name, "FSDP::", 6)) return JOB_NO_UNIT;
    if (!open || close == open + 1) return job_unit(job, "root", -1);
    snprintf(unit, sizeof unit, "%.*s", (int)(close - open - 1), open + 1);
    return job_unit(job, unit, -1);
}

static void read_names(struct shape *s)
{
    for (int n = 0; n < s->k->name_count; n++) {
        const char *name = s->k->names[n];
        for (size_t row = 0; row < sizeof name_rows / sizeof name_rows[0] && !s->traits[n]; row++)
            if (!strncmp(name, name_rows[row].begins, strlen(name_rows[row].begins)))
                s->traits[n] = name_rows[row].traits;
        s->unit[n] = unit_in(s->job, name);
    }
}

/* ---- stretches ---- */

static void add_stretch(struct shape *s, struct stretches *list, struct stretch stretch)
{
    if (!array_grow((void **)&list->at, list->count, &list->room, sizeof *list->at)) s->failed = true;
    else list->at[list->count++] = stretch;
}

static int by_thread_and_time(const void *left, const void *right)
{
    const struct stretch *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* The innermost stretch of a thread around a time, among the last that began before it; NULL: none. */
static const struct stretch *stretch_at(const struct stretches *list, uint32_t thread, int64_t time_ns)
{
    enum { LOOK_BACK = 32 };
    int low = 0, high = list->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const struct stretch *at = &list->at[middle];
        if (at->thread < thread || (at->thread == thread && at->from_ns <= time_ns)) low = middle + 1;
        else high = middle;
    }
    for (int i = low - 1; i >= 0 && i >= low - LOOK_BACK && list->at[i].thread == thread; i--)
        if (list->at[i].to_ns > time_ns) return &list->at[i];
    return NULL;
}

/* Backward and the optimizer, outermost. */
static void find_phases(struct shape *s)
{
    for (int t = 0; t < s->k->thread_count; t++)
        for (int i = s->first[t]; i < s->first[t + 1]; i++) {
            const struct kineto_event *event = event_at(s, i);
            const unsigned traits = s->traits[event->name] & (NAME_BACKWARD | NAME_OPTIMIZER);
            struct stretch *last = s->phases.count ? &s->phases.at[s->phases.count - 1] : NULL;
            if (s->traits[event->name] & NAME_PREFETCH)
                add_stretch(s, &s->prefetches, (struct stretch){event->begun_ns, event->ended_ns, event->thread, true});
            if (!traits || event->kind == KINETO_LAUNCH ||
                (last && last->thread == event->thread && event->begun_ns < last->to_ns))
                continue;
            if (traits & NAME_BACKWARD) s->backward_only[t] = true;
            add_stretch(s, &s->phases,
                        (struct stretch){event->begun_ns, event->ended_ns, event->thread,
                                         traits & NAME_BACKWARD ? PHASE_BACKWARD : PHASE_OPTIMIZER});
        }
}

/* Between FSDP's marks before and after a unit's forward, and its backward, the thread works on that unit. */
static void find_units(struct shape *s)
{
    enum { DEEP = 16 };
    for (int t = 0; t < s->k->thread_count; t++) {
        int open[DEEP], depth = 0;
        int64_t since_ns = INT64_MIN;
        for (int i = s->first[t]; i < s->first[t + 1]; i++) {
            const struct kineto_event *event = event_at(s, i);
            const char *name = s->k->names[event->name];
            const int unit = s->unit[event->name];
            if (event->kind != KINETO_MARK || unit == JOB_NO_UNIT) continue;
            add_stretch(s, &s->marks, (struct stretch){event->begun_ns, event->ended_ns, event->thread, unit});
            const bool begins = !strncmp(name, "FSDP::pre_", 10), ends = !strncmp(name, "FSDP::post_", 11);
            if (!begins && !ends) continue;
            const int64_t until_ns = begins ? event->ended_ns : event->begun_ns;
            if (depth && until_ns > since_ns)
                add_stretch(s, &s->windows, (struct stretch){since_ns, until_ns, event->thread, open[depth - 1]});
            since_ns = event->ended_ns;
            if (begins && !strncmp(name, "FSDP::pre_backward", 18)) depth = 0;
            if (begins && depth < DEEP) open[depth++] = unit;
            else if (ends && depth) depth--;
        }
    }
    if (s->windows.count) qsort(s->windows.at, (size_t)s->windows.count, sizeof *s->windows.at, by_thread_and_time);
}

/* nn.Module: of the Python stack, at the first depth with several modules; forward only, for the stack does not tell of backward. */
static void find_modules(struct shape *s)
{
    enum { DEEP = 12 };
    int name[DEEP], unit_depth = DEEP;
    bool several[DEEP] = {0};
    if (s->job->unit_count) return;
    for (int d = 0; d < DEEP; d++) name[d] = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int t = 0; t < s->k->thread_count; t++) {
            int64_t ends[DEEP];
            int depth = 0;
            for (int i = s->first[t]; i < s->first[t + 1]; i++) {
                const struct kineto_event *event = event_at(s, i);
                if (event->kind != KINETO_MODULE) continue;
                while (depth && ends[depth - 1] <= event->begun_ns) depth--;
                if (pass && depth == unit_depth) {
                    const int unit = job_unit(s->job, s->k->names[event->name] + strlen("nn.Module: "), -1);
                    add_stretch(s, &s->windows,
                                (struct stretch){event->begun_ns, event->ended_ns, event->thread, unit});
                }
                if (depth >= DEEP) continue;
                several[depth] |= name[depth] >= 0 && name[depth] != (int)event->name;
                name[depth] = (int)event->name;
                ends[depth++] = event->ended_ns;
            }
            for (int d = DEEP - 1; d >= 0 && !pass; d--)
                if (several[d]) unit_depth = d;
        }
}

/* ---- steps ---- */

static int step_at(const struct shape *s, int64_t time_ns)
{
    int low = 0, high = s->step_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (s->steps[middle].begun_ns <= time_ns) low = middle + 1;
        else high = middle;
    }
    return low - 1;
}

static void add_step(struct shape *s, uint32_t number, int64_t begun_ns, int64_t ended_ns)
{
    if (!array_grow((void **)&s->steps, s->step_count, &s->step_room, sizeof *s->steps)) {
        s->failed = true;
        return;
    }
    memset(&s->steps[s->step_count], 0, sizeof *s->steps);
    s->steps[s->step_count].number = number;
    s->steps[s->step_count].begun_ns = begun_ns;
    s->steps[s->step_count].backward_ends_ns = s->steps[s->step_count].gpu_ended_ns = INT64_MIN;
    s->steps[s->step_count].gpu_begun_ns = INT64_MAX;
    s->steps[s->step_count++].ended_ns = ended_ns;
}

/* ProfilerStep#N; without it, each end of the optimizer's step ends a step. */
static void find_steps(struct shape *s)
{
    const struct kineto *k = s->k;
    for (int i = 0; i < k->event_count; i++)
        if (k->events[i].kind == KINETO_STEP &&
            (!s->step_count || k->events[i].begun_ns > s->steps[s->step_count - 1].begun_ns))
            add_step(s, k->events[i].number, k->events[i].begun_ns, k->events[i].ended_ns);
    const bool told = s->step_count;
    for (int p = 0; p < s->phases.count && !told; p++) {
        const struct stretch *at = &s->phases.at[p];
        if (at->what != PHASE_OPTIMIZER) continue;
        const int64_t begun_ns =
            s->step_count ? s->steps[s->step_count - 1].ended_ns : event_at(s, s->first[at->thread])->begun_ns;
        if (at->to_ns > begun_ns) add_step(s, (uint32_t)s->step_count + 1, begun_ns, at->to_ns);
    }
    for (int p = 0; p < s->phases.count; p++) {
        const int step = s->phases.at[p].what == PHASE_BACKWARD ? step_at(s, s->phases.at[p].from_ns) : -1;
        if (step >= 0 && s->phases.at[p].to_ns > s->steps[step].backward_ends_ns)
            s->steps[step].backward_ends_ns = s->phases.at[p].to_ns;
    }
}

/* After the last backward of a step comes the optimizer, with norms and clipping. With a GPU, autograd has a thread of its own. */
static enum phase phase_at(const struct shape *s, uint32_t thread, int64_t time_ns)
{
    const struct stretch *at = stretch_at(&s->phases, thread, time_ns);
    const int step = step_at(s, time_ns);
    if (at) return (enum phase)at->what;
    if (s->k->gpu && s->backward_only[thread]) return PHASE_BACKWARD;
    return step >= 0 && s->steps[step].backward_ends_ns != INT64_MIN && time_ns >= s->steps[step].backward_ends_ns
               ? PHASE_OPTIMIZER
               : PHASE_FORWARD;
}

static int unit_at(const struct shape *s, uint32_t thread, int64_t time_ns)
{
    const struct stretch *at = stretch_at(&s->marks, thread, time_ns);
    if (!at) at = stretch_at(&s->windows, thread, time_ns);
    return at ? at->what : JOB_NO_UNIT;
}

/* ---- lanes ---- */

static int by_busy(const void *left, const void *right)
{
    const struct sighting *a = left, *b = right;
    return (a->busy_ns < b->busy_ns) - (a->busy_ns > b->busy_ns);
}

static bool has_kind(const struct shape *s, uint32_t thread, enum kineto_kind kind)
{
    for (int i = s->first[thread]; i < s->first[thread + 1]; i++)
        if (event_at(s, i)->kind == kind) return true;
    return false;
}

/* The threads or streams with events of a kind, the busiest first (of operators: the thread that begins the steps); *count of them.
 * The caller frees. */
static struct sighting *sightings_of(struct shape *s, enum kineto_kind kind, int *count)
{
    struct sighting *list = calloc((size_t)s->k->thread_count + 1, sizeof *list);
    *count = 0;
    if (!list) return s->failed = true, NULL;
    for (int t = 0; t < s->k->thread_count; t++) {
        struct sighting found = {.thread = (uint32_t)t};
        for (int i = s->first[t]; i < s->first[t + 1]; i++)
            if (event_at(s, i)->kind == kind) {
                found.count++;
                found.busy_ns += (uint64_t)(event_at(s, i)->ended_ns - event_at(s, i)->begun_ns);
            }
        if (found.count && kind == KINETO_OPERATOR && has_kind(s, found.thread, KINETO_STEP))
            found.busy_ns = UINT64_MAX;
        if (found.count) list[(*count)++] = found;
    }
    if (*count) qsort(list, (size_t)*count, sizeof *list, by_busy);
    return list;
}

static void emit(struct shape *s, const struct kineto_event *event, struct job_op op, int64_t issued_ns)
{
    const int64_t number = job_operation(s->job, &op), ahead_ns = event->begun_ns - issued_ns;
    const struct job_span span = {.started_ns = event->begun_ns,
                                  .ended_ns = event->ended_ns,
                                  .op = (uint32_t)number,
                                  .issued_ns = ahead_ns > 0 && ahead_ns < UINT32_MAX ? (uint32_t)ahead_ns : 0};
    if (number >= 0) job_span(s->job, s->rank, &span);
}

/* A lane keeps the name of its first thread; others that go on it do not overlap, or are counted as left out. */
static void name_lane(struct shape *s, enum lane lane, uint32_t thread)
{
    char *name = s->rank->lane[lane].name;
    if (!*name) snprintf(name, sizeof s->rank->lane[lane].name, "%.20s", s->k->threads[thread]);
}

/* Whether a collective is asked for inside: then its parts are shown. */
static bool asks_inside(const struct shape *s, int at, int end)
{
    const struct kineto_event *event = event_at(s, at);
    for (int i = at + 1; i < end && event_at(s, i)->begun_ns < event->ended_ns; i++)
        if (event_at(s, i)->kind == KINETO_ISSUE) return true;
    return false;
}

static void emit_operators(struct shape *s, uint32_t thread, enum lane lane)
{
    int64_t until_ns = INT64_MIN;
    name_lane(s, lane, thread);
    for (int i = s->first[thread]; i < s->first[thread + 1]; i++) {
        const struct kineto_event *event = event_at(s, i);
        if (event->kind == KINETO_ISSUE && until_ns < event->ended_ns) until_ns = event->ended_ns;
        if (event->kind != KINETO_OPERATOR || event->begun_ns < until_ns || s->traits[event->name] & NAME_WRAPPER ||
            asks_inside(s, i, s->first[thread + 1]))
            continue;
        emit(s, event,
             (struct job_op){.kind = lane_kind(lane) == LANE_HOST ? OP_HOST_WORK : OP_WORK,
                             .lane = lane,
                             .phase = phase_at(s, thread, event->begun_ns),
                             .unit = unit_at(s, thread, event->begun_ns),
                             .name = s->k->names[event->name]},
             event->begun_ns);
        until_ns = event->ended_ns;
    }
}

/* Threads of operators: forward, backward and the optimizer may run in different ones, one after the other. */
static void put_threads(struct shape *s)
{
    int count, used = 0;
    struct sighting *list = sightings_of(s, KINETO_OPERATOR, &count);
    for (int i = 0; i < count; i++) {
        const enum lane lanes[2] = {s->k->gpu ? LANE_HOST : LANE_COMPUTE, s->k->gpu ? LANE_HOST_2 : LANE_COMPUTE_2};
        if (has_kind(s, list[i].thread, KINETO_GLOO)) continue;
        emit_operators(s, list[i].thread, lanes[used > 0]);
        used++;
    }
    free(list);
}

/* ---- collectives of gloo: asked for in one thread, run in another, in the same order ---- */

struct asked {
    int event;
    bool taken;
};

static int by_begin_of(const void *left, const void *right, void *user)
{
    const struct kineto_event *events = user;
    const struct kineto_event *a = &events[*(const int *)left], *b = &events[*(const int *)right];
    return (a->begun_ns > b->begun_ns) - (a->begun_ns < b->begun_ns);
}

static int *events_of(struct shape *s, enum kineto_kind kind, int *count)
{
    int *list = malloc(((size_t)s->k->by_kind[kind] + 1) * sizeof *list);
    *count = 0;
    if (!list) return s->failed = true, NULL;
    for (int i = 0; i < s->k->event_count; i++)
        if (event_at(s, i)->kind == kind) list[(*count)++] = i;
    qsort_r(list, (size_t)*count, sizeof *list, by_begin_of, s->k->events);
    return list;
}

/* Gloo does a reduce-scatter as an all-reduce of everything. */
static bool can_be(enum op_kind asked, enum op_kind run)
{
    return asked == run || run == OP_EXCHANGE || asked == OP_EXCHANGE ||
           (asked == OP_REDUCE_SCATTER && run == OP_ALL_REDUCE);
}

static const char *words_of(enum op_kind kind)
{
    switch (kind) {
    case OP_GATHER: return "all_gather";
    case OP_REDUCE_SCATTER: return "reduce_scatter";
    case OP_ALL_REDUCE: return "all_reduce";
    case OP_BROADCAST: return "broadcast";
    case OP_ALL_TO_ALL: return "all_to_all";
    default: return NULL;
    }
}

static void emit_collective(struct shape *s, const struct kineto_event *event, enum lane lane,
                            struct kineto_collective what, const struct kineto_event *asked)
{
    const char *name = words_of(what.kind);
    struct job_op op = {.kind = what.kind,
                        .lane = lane,
                        .unit = JOB_NO_UNIT,
                        .ranks = what.ranks,
                        .group = what.group,
                        .bytes = what.bytes,
                        .name = name ? name : s->k->names[event->name]};
    if (asked) {
        op.phase = phase_at(s, asked->thread, asked->begun_ns);
        op.unit = unit_at(s, asked->thread, asked->begun_ns);
        op.prefetch = what.kind == OP_GATHER && stretch_at(&s->prefetches, asked->thread, asked->begun_ns);
    }
    emit(s, event, op, asked ? asked->begun_ns : event->begun_ns);
}

static void put_gloo(struct shape *s)
{
    enum { APART = 64 };
    static const enum lane lanes[] = {LANE_COMM, LANE_COMM_2, LANE_COMM_3};
    int threads, runs, asks, from = 0;
    struct sighting *list = sightings_of(s, KINETO_GLOO, &threads);
    int *run = events_of(s, KINETO_GLOO, &runs), *ask = events_of(s, KINETO_ISSUE, &asks);
    for (int r = 0; list && run && ask && r < runs; r++) {
        const struct kineto_event *event = event_at(s, run[r]), *asked = NULL;
        struct kineto_collective what = s->k->collectives[event->collective];
        int lane = 0;
        while (lane < threads && list[lane].thread != event->thread) lane++;
        lane = lane < 2 ? lane : 2;
        while (from < asks && ask[from] < 0) from++;
        for (int a = from; a < asks && a < from + APART && !asked; a++) {
            if (ask[a] < 0 || event_at(s, ask[a])->begun_ns > event->begun_ns) continue;
            const struct kineto_collective told = s->k->collectives[event_at(s, ask[a])->collective];
            if (!can_be(told.kind, what.kind)) continue;
            asked = event_at(s, ask[a]);
            ask[a] = -1;
            if (told.bytes) what.bytes = told.bytes;
            else if (told.kind == OP_GATHER && s->k->world > 0) what.bytes *= (uint64_t)s->k->world;
            what.kind = told.kind;
        }
        if (!asked && asks) { /* of a step before the recording */
            s->job->asked_before++;
            continue;
        }
        name_lane(s, lanes[lane], event->thread);
        emit_collective(s, event, lanes[lane], what, asked);
    }
    free(list);
    free(run);
    free(ask);
}

/* ---- GPU ---- */

static int by_number(const void *left, const void *right)
{
    const struct launch *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

static void find_launches(struct shape *s)
{
    s->launches = malloc(((size_t)s->k->by_kind[KINETO_LAUNCH] + 1) * sizeof *s->launches);
    if (!s->launches) {
        s->failed = true;
        return;
    }
    for (int i = 0; i < s->k->event_count; i++)
        if (event_at(s, i)->kind == KINETO_LAUNCH)
            s->launches[s->launch_count++] = (struct launch){event_at(s, i)->number, i};
    qsort(s->launches, (size_t)s->launch_count, sizeof *s->launches, by_number);
}

static const struct kineto_event *launch_of(const struct shape *s, uint32_t number)
{
    const struct launch key = {number, 0};
    const struct launch *found =
        number && s->launch_count ? bsearch(&key, s->launches, (size_t)s->launch_count, sizeof key, by_number) : NULL;
    return found ? event_at(s, found->event) : NULL;
}

/* "void at::native::vectorized_elementwise_kernel<4, ...>(int, ...)" is vectorized_elementwise_kernel. */
static void kernel_name(char *out, size_t room, const char *name)
{
    const char *at = strncmp(name, "void ", 5) ? name : name + 5, *end = at + strcspn(at, "<(");
    for (const char *p = at; p + 1 < end; p++)
        if (p[0] == ':' && p[1] == ':') at = p + 2;
    snprintf(out, room, "%.*s", (int)(end > at ? end - at : (int)strlen(at)), at);
}

static void emit_kernel(struct shape *s, const struct kineto_event *event, enum lane lane, enum op_kind kind)
{
    const struct kineto_event *launch = launch_of(s, event->number);
    char name[64];
    kernel_name(name, sizeof name, s->k->names[event->name]);
    emit(s, event,
         (struct job_op){.kind = kind,
                         .lane = lane,
                         .phase = launch ? phase_at(s, launch->thread, launch->begun_ns) : PHASE_FORWARD,
                         .unit = launch ? unit_at(s, launch->thread, launch->begun_ns) : JOB_NO_UNIT,
                         .name = name},
         event->begun_ns);
}

static void emit_copy(struct shape *s, const struct kineto_event *event, enum lane compute)
{
    const char *name = s->k->names[event->name];
    if (strstr(name, "HtoD") || strstr(name, "Host -> Device")) emit_kernel(s, event, LANE_H2D, OP_COPY_H2D);
    else if (strstr(name, "DtoH") || strstr(name, "Device -> Host")) emit_kernel(s, event, LANE_D2H, OP_COPY_D2H);
    else emit_kernel(s, event, compute, OP_COPY);
}

/* When a step's kernels run: from the first that was launched in it. */
static void time_steps_on_gpu(struct shape *s, const struct kineto_event *event)
{
    const struct kineto_event *launch = launch_of(s, event->number);
    const int step = launch ? step_at(s, launch->begun_ns) : -1;
    if (step < 0 || event->kind == KINETO_NCCL) return;
    if (event->begun_ns < s->steps[step].gpu_begun_ns) s->steps[step].gpu_begun_ns = event->begun_ns;
    if (event->ended_ns > s->steps[step].gpu_ended_ns) s->steps[step].gpu_ended_ns = event->ended_ns;
}

static int place_in(const struct sighting *list, int count, uint32_t thread, int most)
{
    int at = 0;
    while (at < count && list[at].thread != thread) at++;
    return at < most ? at : most - 1;
}

static void put_kernels(struct shape *s)
{
    static const enum lane computes[] = {LANE_COMPUTE, LANE_COMPUTE_2}, comms[] = {LANE_COMM, LANE_COMM_2, LANE_COMM_3};
    int compute_count, comm_count;
    struct sighting *compute = sightings_of(s, KINETO_KERNEL, &compute_count),
                    *comm = sightings_of(s, KINETO_NCCL, &comm_count);
    find_launches(s);
    for (int i = 0; compute && comm && !s->failed && i < s->k->event_count; i++) {
        const struct kineto_event *event = event_at(s, i);
        if (event->kind != KINETO_KERNEL && event->kind != KINETO_NCCL && event->kind != KINETO_COPY) continue;
        time_steps_on_gpu(s, event);
        const enum lane lane = computes[place_in(compute, compute_count, event->thread, 2)];
        if (event->kind == KINETO_NCCL) {
            const enum lane on = comms[place_in(comm, comm_count, event->thread, 3)];
            name_lane(s, on, event->thread);
            emit_collective(s, event, on, s->k->collectives[event->collective], launch_of(s, event->number));
        } else if (event->kind == KINETO_COPY) {
            emit_copy(s, event, lane);
        } else {
            name_lane(s, lane, event->thread);
            emit_kernel(s, event, lane, OP_WORK);
        }
    }
    free(compute);
    free(comm);
}

/* ---- all of it ---- */

static void put_steps(struct shape *s)
{
    for (int i = 0; i < s->step_count; i++) {
        const bool gpu = s->k->gpu && s->steps[i].gpu_begun_ns != INT64_MAX;
        job_step(s->job, s->rank,
                 &(struct job_step){gpu ? s->steps[i].gpu_begun_ns : s->steps[i].begun_ns,
                                    gpu ? s->steps[i].gpu_ended_ns : s->steps[i].ended_ns, s->steps[i].number, NAN});
    }
}

static void put_memory(struct shape *s)
{
    for (int i = 0; i < s->k->memory_count; i++) {
        const struct kineto_memory *at = &s->k->memory[i];
        if (at->of_gpu == s->k->gpu)
            job_memory(s->job, s->rank, &(struct job_memory){at->time_ns, at->allocated_bytes, at->reserved_bytes});
    }
}

void kineto_to_job(struct job *job, struct kineto *from, int rank)
{
    struct shape s = {.job = job,
                      .k = from,
                      .rank = job_rank(job, rank),
                      .traits = calloc((size_t)from->name_count + 1, sizeof *s.traits),
                      .unit = calloc((size_t)from->name_count + 1, sizeof *s.unit),
                      .backward_only = calloc((size_t)from->thread_count + 1, sizeof *s.backward_only),
                      .first = malloc(((size_t)from->thread_count + 1) * sizeof *s.first)};
    if (s.rank && s.traits && s.unit && s.backward_only && s.first) {
        memset(s.first, -1, ((size_t)from->thread_count + 1) * sizeof *s.first);
        snprintf(s.rank->host, sizeof s.rank->host, "%s", from->host);
        snprintf(job->program, sizeof job->program, "%s", from->program);
        if (from->world > 0) job->world = (uint32_t)from->world;
        job->by_formula = true;
        s.rank->present = true;
        sort_events(&s);
        read_names(&s);
        find_phases(&s);
        find_units(&s);
        find_modules(&s);
        find_steps(&s);
        for (int i = 0; i < from->event_count; i++)
            if (from->events[i].kind == KINETO_STEP) s.backward_only[from->events[i].thread] = false;
        if (from->gpu) put_kernels(&s);
        put_threads(&s);
        put_gloo(&s);
        put_steps(&s);
        put_memory(&s);
    } else {
        s.failed = true;
    }
    job->failed |= s.failed;
    free(s.traits);
    free(s.unit);
    free(s.backward_only);
    free(s.first);
    free(s.phases.at);
    free(s.marks.at);
    free(s.windows.at);
    free(s.prefetches.at);
    free(s.steps);
    free(s.launches);
}
