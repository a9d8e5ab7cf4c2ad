/* From what a profiler recorded of a rank to a job: which thread or stream is which lane, what phase and unit an operation is of, where
 * steps begin. One walk over the events of each thread, which lie inside each other, finds where each is. Of nested operators the
 * outermost is shown, but for wrappers (autograd's own, and those in which a collective is asked for). On a GPU an operation is of the
 * phase, unit and step in which it was launched. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"
#include "engine/import/kineto.h"
#include "engine/plan/footprint.h"

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

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static int by_thread(const void *left, const void *right)
{
    const struct kineto_event *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->begun_ns != b->begun_ns) return a->begun_ns < b->begun_ns ? -1 : 1;
    return (a->ended_ns < b->ended_ns) - (a->ended_ns > b->ended_ns); /* what encloses the other comes first */
}

static void sort_events(struct kineto *k)
{
    if (k->event_count) qsort(k->events, (size_t)k->event_count, sizeof *k->events, by_thread);
    for (int i = 0, t = 0; t < k->thread_count; t++) {
        k->threads[t].first = i;
        while (i < k->event_count && k->events[i].thread == t) i++;
        k->threads[t].end = i;
    }
}

/* ---- names ---- */

/* "FSDP::all_gather (h.0)" tells of unit h.0. */
static int unit_in(struct job *job, const char *name)
{
    const char *open = strchr(name, '('), *close = open ? strchr(open, ')') : NULL;
    char unit[24];
    if (!begins(name, "FSDP::")) return JOB_NO_UNIT;
    if (!open || close == open + 1) return job_unit(job, "root", -1);
    snprintf(unit, sizeof unit, "%.*s", (int)(close - open - 1), open + 1);
    return job_unit(job, unit, -1);
}

/* True: some of them tell of units. */
static bool read_names(struct kineto *k)
{
    bool units = false;
    for (struct kineto_name *name = k->names; name < k->names + k->name_count; name++) {
        for (size_t row = 0; row < sizeof name_rows / sizeof name_rows[0] && !name->traits; row++)
            if (begins(name->text, name_rows[row].begins)) name->traits = name_rows[row].traits;
        name->unit = unit_in(k->job, name->text);
        k->job->signs |= job_sign(name->text);
        units |= name->unit != JOB_NO_UNIT;
    }
    return units;
}

/* The first depth of the Python stack with several modules. */
static int depth_of_modules(const struct kineto *k)
{
    enum { DEEP = 12 };
    int name[DEEP], found = DEEP, depth = 0;
    int64_t ends[DEEP];
    for (int d = 0; d < DEEP; d++) name[d] = -1;
    for (const struct kineto_event *at = k->events, *end = at + k->event_count; at < end; at++) {
        if (at == k->events + k->threads[at->thread].first) depth = 0;
        if (at->kind != KINETO_MODULE) continue;
        while (depth && ends[depth - 1] <= at->begun_ns) depth--;
        if (depth == DEEP) continue;
        if (name[depth] >= 0 && name[depth] != (int)at->name && depth < found) found = depth;
        name[depth] = (int)at->name;
        ends[depth++] = at->ended_ns;
    }
    return found < DEEP ? found : -1;
}

/* ---- where each event is ---- */

/* Events of a thread around the one that is looked at, the innermost last. */
struct around {
    struct {
        struct kineto_event *event;
        int unit;
    } at[64]; /* unit: that it, or one around it, tells of */
    int depth, modules;
    int open[16], opened; /* units of FSDP whose forward or backward has begun and not ended */
};

/* Between FSDP's marks before and after a unit's forward, and its backward, the thread works on that unit. */
static void open_or_close_unit(struct around *around, const char *name, int unit)
{
    enum { DEEP = sizeof around->open / sizeof around->open[0] };
    if (begins(name, "FSDP::pre_backward")) around->opened = 0;
    if (begins(name, "FSDP::pre_") && around->opened < DEEP) around->open[around->opened++] = unit;
    else if (begins(name, "FSDP::post_") && around->opened) around->opened--;
}

/* The unit that the event itself tells of. Of modules forward only, for the stack does not tell of backward. */
static int unit_told(struct kineto *k, const struct kineto_event *event, const struct around *around)
{
    const char *name = k->names[event->name].text;
    if (event->kind == KINETO_MARK) return k->names[event->name].unit;
    if (event->kind != KINETO_MODULE || around->modules != k->module_depth) return JOB_NO_UNIT;
    return job_unit(k->job, name + strlen("nn.Module: "), -1);
}

static void place(struct kineto *k, struct kineto_event *event, struct around *around)
{
    const unsigned traits = event->kind == KINETO_LAUNCH ? 0 : k->names[event->name].traits;
    const struct kineto_event *outer = around->depth ? around->at[around->depth - 1].event : NULL;
    const int told = unit_told(k, event, around);
    int unit = outer ? around->at[around->depth - 1].unit : JOB_NO_UNIT;
    if (told != JOB_NO_UNIT) unit = told;
    if (told != JOB_NO_UNIT && event->kind == KINETO_MARK) open_or_close_unit(around, k->names[event->name].text, told);
    event->unit = (int16_t)(unit == JOB_NO_UNIT && around->opened ? around->open[around->opened - 1] : unit);
    event->prefetch = (outer && outer->prefetch) || traits & NAME_PREFETCH;
    if (outer && outer->phase != PHASE_FORWARD) event->phase = outer->phase; /* the outermost counts */
    else if (traits & NAME_BACKWARD) event->phase = PHASE_BACKWARD;
    else if (traits & NAME_OPTIMIZER) event->phase = PHASE_OPTIMIZER;
    for (int d = 0; d < around->depth && event->kind == KINETO_ISSUE; d++) around->at[d].event->asks = true;
    if (around->depth == sizeof around->at / sizeof around->at[0]) return;
    around->at[around->depth].event = event;
    around->at[around->depth++].unit = unit;
    around->modules += event->kind == KINETO_MODULE;
}

static void place_events(struct kineto *k, struct kineto_thread *thread)
{
    struct kineto_event *const end = k->events + thread->end;
    struct around around = {.depth = 0};
    for (struct kineto_event *event = k->events + thread->first; event < end; event++) {
        while (around.depth && around.at[around.depth - 1].event->ended_ns <= event->begun_ns)
            around.modules -= around.at[--around.depth].event->kind == KINETO_MODULE;
        place(k, event, &around);
        thread->kinds |= 1u << event->kind;
        thread->busy_ns[event->kind] += (uint64_t)(event->ended_ns - event->begun_ns);
        thread->backward |= k->names[event->name].traits & NAME_BACKWARD && event->phase == PHASE_BACKWARD;
    }
    if (thread->kinds & 1u << KINETO_STEP) thread->backward = false;
}

/* ---- steps ---- */

/* NULL: before the first. */
static struct kineto_step *step_at(const struct kineto *k, int64_t time_ns)
{
    int low = 0, high = k->step_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (k->steps[middle].begun_ns <= time_ns) low = middle + 1;
        else high = middle;
    }
    return low ? &k->steps[low - 1] : NULL;
}

static void add_step(struct kineto *k, uint32_t number, int64_t begun_ns, int64_t ended_ns)
{
    struct kineto_step *step = array_add(k->steps, k->step_count, k->step_room);
    if (step) *step = (struct kineto_step){begun_ns, ended_ns, INT64_MIN, INT64_MAX, INT64_MIN, number};
    else k->job->failed = true;
}

/* ProfilerStep#N; without it, each end of the optimizer's step ends a step. */
static void find_steps(struct kineto *k)
{
    const struct kineto_event *const events = k->events, *const end = events + k->event_count;
    for (const struct kineto_event *at = events; at < end; at++)
        if (at->kind == KINETO_STEP && (!k->step_count || at->begun_ns > k->steps[k->step_count - 1].begun_ns))
            add_step(k, at->number, at->begun_ns, at->ended_ns);
    const bool told = k->step_count;
    for (const struct kineto_event *at = events; at < end && !told; at++) {
        if (!(k->names[at->name].traits & NAME_OPTIMIZER) || at->phase != PHASE_OPTIMIZER) continue;
        const int64_t begun_ns =
            k->step_count ? k->steps[k->step_count - 1].ended_ns : events[k->threads[at->thread].first].begun_ns;
        if (at->ended_ns > begun_ns) add_step(k, (uint32_t)k->step_count + 1, begun_ns, at->ended_ns);
    }
    for (const struct kineto_event *at = events; at < end; at++) {
        if (!(k->names[at->name].traits & NAME_BACKWARD) || at->phase != PHASE_BACKWARD) continue;
        struct kineto_step *step = step_at(k, at->begun_ns);
        if (step && at->ended_ns > step->backward_ends_ns) step->backward_ends_ns = at->ended_ns;
    }
}

/* After the last backward of a step comes the optimizer, with norms and clipping. With a GPU, autograd has a thread of its own. */
static enum phase phase_of(const struct kineto *k, const struct kineto_event *event)
{
    const struct kineto_step *step = step_at(k, event->begun_ns);
    if (event->phase != PHASE_FORWARD) return (enum phase)event->phase;
    if (k->gpu && k->threads[event->thread].backward) return PHASE_BACKWARD;
    const bool after = step && step->backward_ends_ns != INT64_MIN && event->begun_ns >= step->backward_ends_ns;
    return after ? PHASE_OPTIMIZER : PHASE_FORWARD;
}

/* ---- lanes ---- */

/* Threads or streams with events of a kind get lanes, the busiest first; further ones share the last. A lane keeps the name of its first
 * thread; others that go on it do not overlap, or are counted as left out. */
static void share_lanes(struct kineto *k, enum kineto_kind kind, enum lane of)
{
    struct kineto_thread *const end = k->threads + k->thread_count;
    enum lane last = of;
    for (struct kineto_thread *at = k->threads; at < end; at++) at->lane[kind] = LANES;
    for (enum lane lane = of; lane < LANES; lane++) {
        struct kineto_thread *most = NULL;
        if (lane_kind(lane) != of) continue;
        last = lane;
        for (struct kineto_thread *at = k->threads; at < end; at++)
            if (at->kinds & 1u << kind && at->lane[kind] == LANES && (!most || at->busy_ns[kind] > most->busy_ns[kind]))
                most = at;
        if (!most) continue;
        most->lane[kind] = lane;
        char *name = k->to->lane[lane].name;
        if (!*name) snprintf(name, sizeof k->to->lane[0].name, "%.20s", most->name);
    }
    for (struct kineto_thread *at = k->threads; at < end; at++)
        if (at->lane[kind] == LANES) at->lane[kind] = last;
}

/* Operators: the thread that begins the steps comes first. Threads in which gloo works have none that are shown. */
static void share_all_lanes(struct kineto *k)
{
    for (struct kineto_thread *at = k->threads; at < k->threads + k->thread_count; at++) {
        if (at->kinds & 1u << KINETO_STEP) at->busy_ns[KINETO_OPERATOR] = UINT64_MAX;
        if (at->kinds & 1u << KINETO_GLOO) at->kinds &= ~(1u << KINETO_OPERATOR);
    }
    share_lanes(k, KINETO_KERNEL, LANE_COMPUTE);
    share_lanes(k, KINETO_NCCL, LANE_COMM);
    share_lanes(k, KINETO_OPERATOR, k->gpu ? LANE_HOST : LANE_COMPUTE);
    share_lanes(k, KINETO_GLOO, LANE_COMM);
}

/* what: without phase and unit, which are those of `from`, where it was launched or asked for; NULL: unknown. A collective is issued
 * then. No name: the event's. */
static void emit(struct kineto *k, const struct kineto_event *event, struct job_op what,
                 const struct kineto_event *from)
{
    what.phase = from ? phase_of(k, from) : PHASE_FORWARD;
    what.unit = from ? from->unit : JOB_NO_UNIT;
    if (!what.name) what.name = k->names[event->name].text;
    const int64_t number = job_operation(k->job, &what);
    const int64_t ahead_ns = from && op_lane(what.kind) == LANE_COMM ? event->begun_ns - from->begun_ns : 0;
    const struct job_span span = {.started_ns = event->begun_ns,
                                  .ended_ns = event->ended_ns,
                                  .op = (uint32_t)number,
                                  .issued_ns = ahead_ns > 0 && ahead_ns < UINT32_MAX ? (uint32_t)ahead_ns : 0};
    if (number >= 0) job_add(k->job, k->to, (int)what.lane, span);
}

/* Threads of operators: forward, backward and the optimizer may run in different ones, one after the other. */
static void put_operators(struct kineto *k)
{
    int64_t until_ns = INT64_MIN;
    for (int i = 0; i < k->event_count; i++) {
        const struct kineto_event *event = &k->events[i];
        const struct kineto_thread *thread = &k->threads[event->thread];
        if (i == thread->first) until_ns = INT64_MIN;
        if (event->kind == KINETO_ISSUE && until_ns < event->ended_ns) until_ns = event->ended_ns;
        if (event->kind != KINETO_OPERATOR || !(thread->kinds & 1u << KINETO_OPERATOR) || event->begun_ns < until_ns ||
            k->names[event->name].traits & NAME_WRAPPER || event->asks)
            continue;
        const enum lane lane = thread->lane[KINETO_OPERATOR];
        emit(k, event, (struct job_op){.kind = lane_kind(lane) == LANE_HOST ? OP_HOST_WORK : OP_WORK, .lane = lane},
             event);
        until_ns = event->ended_ns;
    }
}

static void emit_collective(struct kineto *k, const struct kineto_event *event, struct job_op what,
                            const struct kineto_event *asked)
{
    if (what.kind != OP_EXCHANGE) what.name = traffic_name(op_traffic(what.kind));
    what.lane = k->threads[event->thread].lane[event->kind];
    what.prefetch = asked && what.kind == OP_GATHER && asked->prefetch;
    emit(k, event, what, asked);
}

/* ---- collectives of gloo: asked for in one thread, run in another, in the same order ---- */

static int by_begin(const void *left, const void *right)
{
    const struct kineto_event *a = *(const struct kineto_event *const *)left,
                              *b = *(const struct kineto_event *const *)right;
    return (a->begun_ns > b->begun_ns) - (a->begun_ns < b->begun_ns);
}

/* In the order of time; NULL at the end. The caller frees. */
static const struct kineto_event **events_of(struct kineto *k, enum kineto_kind kind)
{
    const struct kineto_event **list = calloc((size_t)k->by_kind[kind] + 1, sizeof *list);
    size_t count = 0;
    if (!list) return k->job->failed = true, NULL;
    for (int i = 0; i < k->event_count; i++)
        if (k->events[i].kind == kind) list[count++] = &k->events[i];
    qsort(list, count, sizeof *list, by_begin);
    return list;
}

/* Gloo does a reduce-scatter as an all-reduce of everything. */
static bool can_be(enum op_kind asked, enum op_kind run)
{
    return asked == run || run == OP_EXCHANGE || asked == OP_EXCHANGE ||
           (asked == OP_REDUCE_SCATTER && run == OP_ALL_REDUCE);
}

static void put_gloo(struct kineto *k)
{
    enum { APART = 64 };
    const struct kineto_event **runs = events_of(k, KINETO_GLOO), **asks = events_of(k, KINETO_ISSUE);
    const int ask_count = (int)k->by_kind[KINETO_ISSUE];
    for (int r = 0, from = 0; runs && asks && runs[r]; r++) {
        const struct kineto_event *asked = NULL;
        struct job_op what = k->collectives[runs[r]->collective];
        while (from < ask_count && !asks[from]) from++;
        for (int a = from; a < ask_count && a < from + APART && !asked; a++) {
            if (!asks[a] || asks[a]->begun_ns > runs[r]->begun_ns) continue;
            const struct job_op told = k->collectives[asks[a]->collective];
            if (!can_be(told.kind, what.kind)) continue;
            asked = asks[a];
            asks[a] = NULL;
            if (told.bytes) what.bytes = told.bytes;
            else if (told.kind == OP_GATHER && k->world > 0) what.bytes *= (uint64_t)k->world;
            what.kind = told.kind;
        }
        if (!asked && ask_count) k->job->asked_before++; /* of a step before the recording */
        else emit_collective(k, runs[r], what, asked);
    }
    free(runs);
    free(asks);
}

/* ---- GPU ---- */

/* "void at::native::vectorized_elementwise_kernel<4, ...>(int, ...)" is vectorized_elementwise_kernel. */
static void kernel_name(char *out, size_t room, const char *name)
{
    const char *at = strncmp(name, "void ", 5) ? name : name + 5, *end = at + strcspn(at, "<(");
    for (const char *p = at; p + 1 < end; p++)
        if (p[0] == ':' && p[1] == ':') at = p + 2;
    snprintf(out, room, "%.*s", (int)(end > at ? end - at : (int)strlen(at)), at);
}

static void emit_kernel(struct kineto *k, const struct kineto_event *event, const struct kineto_event *launch)
{
    const char *source = k->names[event->name].text;
    const bool copies = event->kind == KINETO_COPY, to = strstr(source, "HtoD") || strstr(source, "Host -> Device"),
               from = strstr(source, "DtoH") || strstr(source, "Device -> Host");
    struct job_op op = {.kind = OP_WORK, .lane = k->threads[event->thread].lane[KINETO_KERNEL]};
    char name[64];
    kernel_name(name, sizeof name, source);
    op.name = name;
    if (copies) op.kind = to ? OP_COPY_H2D : from ? OP_COPY_D2H : OP_COPY;
    if (copies && op.kind != OP_COPY) op.lane = op_lane(op.kind);
    emit(k, event, op, launch);
}

/* A step on a GPU is from the first kernel that was launched in it to the last. */
static void put_kernels(struct kineto *k)
{
    struct map launches = {0}; /* by correlation number: one more than the event's place */
    for (int i = 0; i < k->event_count; i++) {
        uint64_t *place = k->events[i].kind == KINETO_LAUNCH ? map_put(&launches, k->events[i].number) : NULL;
        if (place && !*place) *place = (uint64_t)i + 1;
        k->job->failed |= k->events[i].kind == KINETO_LAUNCH && !place;
    }
    for (int i = 0; !k->job->failed && i < k->event_count; i++) {
        const struct kineto_event *event = &k->events[i];
        const uint64_t place = event->number ? map_get(&launches, event->number) : 0;
        const struct kineto_event *launch = place ? &k->events[place - 1] : NULL;
        if (event->kind == KINETO_NCCL) emit_collective(k, event, k->collectives[event->collective], launch);
        if (event->kind != KINETO_KERNEL && event->kind != KINETO_COPY) continue;
        struct kineto_step *step = launch ? step_at(k, launch->begun_ns) : NULL;
        if (step && event->begun_ns < step->gpu_begun_ns) step->gpu_begun_ns = event->begun_ns;
        if (step && event->ended_ns > step->gpu_ended_ns) step->gpu_ended_ns = event->ended_ns;
        emit_kernel(k, event, launch);
    }
    map_release(&launches);
}

/* ---- all of it ---- */

static void put_steps_and_memory(struct kineto *k)
{
    for (const struct kineto_step *at = k->steps; at < k->steps + k->step_count; at++) {
        const bool gpu = k->gpu && at->gpu_begun_ns != INT64_MAX;
        job_add(k->job, k->to, JOB_STEPS,
                (struct job_span){gpu ? at->gpu_begun_ns : at->begun_ns, gpu ? at->gpu_ended_ns : at->ended_ns,
                                  .number = at->number, .loss = NAN});
    }
    k->to->lane[JOB_MEMORY] = k->memory[k->gpu];
    k->memory[k->gpu] = (struct job_lane){0};
}

void kineto_to_job(struct job *job, struct kineto *k, int rank)
{
    k->job = job;
    k->to = job_rank(job, rank);
    if (!k->to) {
        job->failed = true;
        return;
    }
    snprintf(k->to->host, sizeof k->to->host, "%s", k->host);
    snprintf(job->program, sizeof job->program, "PyTorch profiler");
    if (k->world > 0) job->world = (uint32_t)k->world;
    job->by_formula = true;
    k->to->present = true;
    sort_events(k);
    k->module_depth = read_names(k) ? -1 : depth_of_modules(k);
    for (int t = 0; t < k->thread_count; t++) place_events(k, &k->threads[t]);
    find_steps(k);
    share_all_lanes(k);
    if (k->gpu) put_kernels(k);
    put_operators(k);
    put_gloo(k);
    put_steps_and_memory(k);
    job_move(k->to, k->base_ns);
}
