/* What rank 0 holds between the phases of a step, as DeepSpeed's see_memory_usage() prints it: allocated now, the most since
 * the line before (it resets the peak with every line), and what the pool holds. */
#include "engine/advise/logs_parts.h"

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
    int64_t first, end;
    log_spans(history, step, rank, LANE_HOST, &first, &end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = log_span(history, step, rank, LANE_HOST, number);
        if (!span || span->phase != PHASE_OPTIMIZER || span->started_ns < backward_ended_ns) continue;
        add(list, "before step", -1, span->started_ns);
        return;
    }
}

static void find_moments(struct list *list, const struct history *history, const struct history_step *step, int rank)
{
    const struct span *last = NULL;
    int64_t first, end;
    log_spans(history, step, rank, LANE_COMPUTE, &first, &end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = log_span(history, step, rank, LANE_COMPUTE, number);
        if (!span) continue;
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
    if (!log_step_whole(history, step)) return 0;
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

/* ---- printing ---- */

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
