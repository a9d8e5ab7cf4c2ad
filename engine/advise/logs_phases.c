/* Where the time of a step went, by the names of DeepSpeed's timers. Time belongs to what the compute lane came to next: a
 * wait for gathered parameters is part of forward or backward, a wait for reductions after backward is bwd_allreduce. */
#include "engine/advise/logs_parts.h"

/* One rank's step while it is walked. The step end is what follows the last backward; UINT64_MAX and 0: no time seen. */
struct walk {
    const struct history *history;
    const struct history_step *step;
    int rank;
    uint64_t at_ns;                  /* everything before is given to a part */
    uint64_t begins_ns;              /* the first operation of the optimizer that begins in the step end */
    uint64_t updates_ns, updated_ns; /* from the first update at work in the step end to the end of the last */
};

static uint64_t pass(struct walk *walk, uint64_t to_ns)
{
    if (to_ns > walk->step->ended_ns) to_ns = walk->step->ended_ns;
    uint64_t length = to_ns > walk->at_ns ? to_ns - walk->at_ns : 0;
    walk->at_ns += length;
    return length;
}

static void walk_forward_and_backward(struct walk *walk, struct log_clock *clock)
{
    struct log_lane lane = log_lane_of(walk->history, walk->step, walk->rank, LANE_COMPUTE);
    for (const struct span *span; (span = log_next(&lane));) {
        if (span->phase == PHASE_FORWARD) clock->forward += pass(walk, span->ended_ns);
        if (span->phase == PHASE_BACKWARD) clock->inner += pass(walk, span->ended_ns);
    }
}

/* The optimizer works on the device or on the host; what of it runs beside backward is hidden, and no time of the step. */
static void look_at_tail(struct walk *walk, enum lane of)
{
    struct log_lane lane = log_lane_of(walk->history, walk->step, walk->rank, of);
    for (const struct span *span; (span = log_next(&lane));) {
        if (span->phase != PHASE_OPTIMIZER || span->ended_ns <= walk->at_ns) continue;
        if (span->started_ns < walk->begins_ns) walk->begins_ns = span->started_ns;
        if (span->kind != OP_UPDATE && span->kind != OP_HOST_UPDATE) continue;
        if (span->started_ns < walk->updates_ns) walk->updates_ns = span->started_ns;
        if (span->ended_ns > walk->updated_ns) walk->updated_ns = span->ended_ns;
    }
}

static void add_rank(struct log_clock *clock, const struct history *history, const struct history_step *step, int rank)
{
    struct walk walk = {history, step, rank, step->begun_ns, UINT64_MAX, UINT64_MAX, 0};
    walk_forward_and_backward(&walk, clock);
    for (int lane = 0; lane < LANES; lane++)
        if (lane_computes((enum lane)lane)) look_at_tail(&walk, (enum lane)lane);
    const bool begins = walk.begins_ns != UINT64_MAX, updates = walk.updated_ns > 0;
    clock->reduce += pass(&walk, begins ? walk.begins_ns : step->ended_ns);
    clock->gradients += pass(&walk, updates ? walk.updates_ns : step->ended_ns);
    clock->update += pass(&walk, walk.updated_ns);
    clock->allgather += pass(&walk, step->ended_ns);
}

bool log_clock_add(struct log_clock *clock, const struct history *history, const struct run_model *model,
                   const struct history_step *step)
{
    const struct run_step *told = run_step_numbered(model, step->step);
    if (!told || !history_step_is_whole(history, step)) return false;
    for (int rank = 0; rank < model->ranks; rank++) add_rank(clock, history, step, rank);
    clock->steps += (uint32_t)model->ranks;
    clock->micro_steps += (uint32_t)model->ranks * told->micro_steps;
    return true;
}

static void print_times(FILE *out, const char *const *names, const uint64_t *sums_ns, int count, double parts)
{
    fputs("time (ms)", out);
    for (int i = 0; i < count; i++) {
        if (parts > 0) fprintf(out, " | %s: %.2f", names[i], (double)sums_ns[i] / 1e6 / parts);
        else fprintf(out, " | %s: n/a", names[i]);
    }
    fputc('\n', out);
}

void log_clock_print(const struct log_clock *clock, FILE *out)
{
    static const char *const micro[] = {"fwd_microstep", "bwd_microstep", "bwd_inner_microstep",
                                        "bwd_allreduce_microstep", "step_microstep"};
    static const char *const step[] = {"fwd", "bwd", "bwd_inner", "bwd_allreduce", "step"};
    static const char *const optimizer[] = {"optimizer_gradients", "optimizer_step", "optimizer_allgather"};
    const uint64_t sums_ns[] = {clock->forward, clock->inner + clock->reduce, clock->inner, clock->reduce,
                                clock->gradients + clock->update + clock->allgather};
    const uint64_t optimizer_ns[] = {clock->gradients, clock->update, clock->allgather};
    print_times(out, micro, sums_ns, 5, (double)clock->micro_steps);
    print_times(out, step, sums_ns, 5, (double)clock->steps);
    print_times(out, optimizer, optimizer_ns, 3, (double)clock->steps);
}

/* ---- memory between the phases, as DeepSpeed's see_memory_usage() prints it: allocated now, the most since the line before
 * (it resets the peak with every line), and what the pool holds ---- */

struct list {
    struct log_moment *moments;
    int count, room;
};

static void add(struct list *list, const char *name, int micro_step, uint64_t when_ns)
{
    if (list->count < list->room)
        list->moments[list->count++] = (struct log_moment){.name = name, .micro_step = micro_step, .when_ns = when_ns};
}

/* A phase is over when the compute lane has come to the next one: by then what it gave back has been given. The step begins
 * when the last reduction is in, a while after that. */
static void between(struct list *list, const struct span *last, const struct span *next)
{
    if (!last) add(list, "before forward", -1, next->issued_ns);
    else if (last->phase == PHASE_FORWARD && next->phase == PHASE_BACKWARD)
        add(list, "after forward", last->micro_step, next->issued_ns);
    else if (last->phase == PHASE_BACKWARD && next->phase != PHASE_BACKWARD)
        add(list, "after backward", last->micro_step, next->issued_ns);
    if (last && last->phase != PHASE_OPTIMIZER && next->phase == PHASE_OPTIMIZER)
        add(list, "before step", -1, next->started_ns);
}

/* With the optimizer on the host nothing follows backward on the compute lane: the step begins with the host's first work
 * on it. */
static void begin_on_host(struct list *list, const struct history *history, const struct history_step *step, int rank,
                          uint64_t backward_ended_ns)
{
    struct log_lane lane = log_lane_of(history, step, rank, LANE_HOST);
    for (const struct span *span; (span = log_next(&lane));) {
        if (span->phase != PHASE_OPTIMIZER || span->started_ns < backward_ended_ns) continue;
        add(list, "before step", -1, span->started_ns);
        return;
    }
}

static void find_moments(struct list *list, const struct history *history, const struct history_step *step, int rank)
{
    const struct span *last = NULL;
    struct log_lane lane = log_lane_of(history, step, rank, LANE_COMPUTE);
    for (const struct span *span; (span = log_next(&lane));) {
        between(list, last, span);
        last = span;
    }
    if (last && last->phase == PHASE_BACKWARD) begin_on_host(list, history, step, rank, last->ended_ns);
    if (last) add(list, "after step", -1, step->ended_ns);
}

int log_moments(struct log_moment *moments, int room, const struct history *history, const struct history_step *step, int rank,
                enum tier tier)
{
    struct list list = {.moments = moments, .room = room};
    if (!history_step_is_whole(history, step)) return 0;
    find_moments(&list, history, step, rank);
    for (int i = 0; i < list.count; i++) {
        struct log_moment *moment = &moments[i];
        moment->now = history_held(history, rank, tier, moment->when_ns);
        moment->most_bytes = moment->now.live_bytes;
        if (i && moment->when_ns > moments[i - 1].when_ns)
            moment->most_bytes =
                history_fullest(history, rank, tier, moments[i - 1].when_ns, moment->when_ns, NULL).live_bytes;
    }
    return list.count;
}

static void print_moment(FILE *out, const struct log_moment *moment, const char *tier, bool numbered)
{
    char where[40], held[24], most[24], pool[24];
    if (numbered && moment->micro_step >= 0)
        snprintf(where, sizeof where, "%s %d", moment->name, moment->micro_step + 1);
    else snprintf(where, sizeof where, "%s", moment->name);
    fprintf(out, "  %-18s | MA %10s | Max_MA %10s | CA %10s%s\n", where, log_bytes(held, moment->now.live_bytes),
            log_bytes(most, moment->most_bytes), log_bytes(pool, moment->now.reserved_bytes), tier);
}

void log_memory_print(const struct history *history, const struct history_step *step, FILE *out)
{
    enum { ROOM = 256 };
    struct log_moment moments[ROOM];
    fprintf(out, "memory of rank 0 in step %u\n", step->step);
    for (int tier = 0; tier < TIERS; tier++) {
        int count = log_moments(moments, ROOM, history, step, 0, (enum tier)tier);
        uint64_t most = 0;
        bool numbered = false;
        for (int i = 0; i < count; i++) {
            if (moments[i].most_bytes > most) most = moments[i].most_bytes;
            numbered |= moments[i].micro_step > 0;
        }
        char name[24] = "";
        if (tier != TIER_DEVICE) snprintf(name, sizeof name, " | %s tier", tier_name((enum tier)tier));
        if (tier == TIER_DEVICE && !count) fputs("  n/a: records of this step were lost\n", out);
        for (int i = 0; i < count && most; i++) print_moment(out, &moments[i], name, numbered);
    }
}
