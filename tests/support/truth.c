/* The figures of one step of a trace, counted a second time: truth FILE STEP prints a line "name value" for each. Screens and
 * `zerolab analyze` are held against it, so it shares nothing with them but the reader of traces and the names of kinds, and
 * goes the plain way: it keeps every operation and asks every question of all of them.
 *
 *     step.*            as all ranks reported it; times of the slowest rank
 *     recent.*          the last steps up to it that took about a second and ran the same schedule: means over them and ranks
 *     rankR.* mean.*    where the time went, ns; counts of waits; gathers: how much of their time compute went on beside them
 *     traffic.KIND.*    of a rank: count, payload_bytes, sent_bytes, busy_ns, exposed_ns (means over ranks), algbw, busbw
 *                       (bytes/s); reported_ns: as the ranks said; planned_bytes
 *     flow.*            between the tiers of a rank: tests/support/truth_flows.h
 *     bucket.B.* op.O.* sizes; times from start to end: mean_ns and peers_ns of all ranks, longest_ns of rank slowest
 *     WHERE.moved.O                 bytes of a rank in an operation, mean over ranks: on which lane, or within a node, between nodes
 *     unit.U.*          lasting_bytes: what a rank keeps of its parameters between steps
 *     memory.rankR.TIER.CATEGORY.*  live_bytes when the step had ended, peak_bytes and at_peak_bytes (of the tier's peak) so far,
 *                                   reserved_bytes, fullest_bytes at the step's fullest instant; planned_bytes, planned_at_peak_bytes
 *     memory.rankR.TIER.*           live_bytes; fullest_bytes of the step; peak_bytes so far, by the allocator; planned_bytes, planned_resting_bytes
 *
 *     board.*                       of rank 0: bytes a parameter, in all tiers together
 *
 * truth FILE STEP.OPERATION prints what is so when the operation has ended on rank 0: now.* (operations begun and ended, units
 * gathered) and live_bytes. */
#include "tests/support/truth_flows.h"

static const char *const phase_names[] = {"forward", "backward", "optimizer"};

/* ---- where the time went ---- */

static const struct plan_op *planned(const struct done *op)
{
    return &op->plan->ops[op->op];
}

static int lane_of(const struct done *op)
{
    return kinds[planned(op)->kind].lane;
}

static uint64_t took(const struct done *op)
{
    return op->ended_ns - op->end.started_ns;
}

static bool busy(uint32_t step, int rank, int lane, uint64_t from_ns, uint64_t to_ns)
{
    for (size_t i = 0; i < done_count; i++)
        if (done[i].step == step && done[i].rank == rank && lane_of(&done[i]) == lane &&
            done[i].end.started_ns <= from_ns && done[i].ended_ns >= to_ns)
            return true;
    return false;
}

static int by_value(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Every beginning and end on a rank in a step: between two neighbours nothing changes. The caller frees. */
static uint64_t *edges_of(uint32_t step, int rank, int *count)
{
    uint64_t *edge = calloc(2 * done_count + 1, sizeof *edge);
    *count = 0;
    for (size_t i = 0; i < done_count; i++) {
        if (done[i].rank != rank || done[i].step != step) continue;
        edge[(*count)++] = done[i].end.started_ns;
        edge[(*count)++] = done[i].ended_ns;
    }
    qsort(edge, (size_t)*count, sizeof *edge, by_value);
    return edge;
}

struct split {
    double window, compute, communication, overlapped, exposed, idle, phase[PHASE_COUNT];
};

static struct split split_of(uint32_t step, int rank)
{
    struct split split = {0};
    int edges;
    uint64_t *edge = edges_of(step, rank, &edges);
    for (int i = 0; i + 1 < edges; i++) {
        double ns = (double)(edge[i + 1] - edge[i]);
        bool computes = busy(step, rank, COMPUTE, edge[i], edge[i + 1]),
             communicates = busy(step, rank, COMM, edge[i], edge[i + 1]);
        split.window += ns;
        split.compute += computes ? ns : 0;
        split.communication += communicates ? ns : 0;
        split.overlapped += computes && communicates ? ns : 0;
        split.exposed += communicates && !computes ? ns : 0;
        split.idle += !computes && !communicates ? ns : 0;
    }
    for (size_t i = 0; i < done_count; i++)
        if (done[i].step == step && done[i].rank == rank && lane_of(&done[i]) == COMPUTE)
            split.phase[planned(&done[i])->phase] += (double)took(&done[i]);
    free(edge);
    return split;
}

static void add_split(struct split *sum, struct split split, double parts)
{
    double *to = (double *)sum, *from = (double *)&split;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) to[i] += from[i] / parts;
}

static struct split mean_split(uint32_t step)
{
    struct split mean = {0};
    for (int rank = 0; rank < ranks; rank++) add_split(&mean, split_of(step, rank), ranks);
    return mean;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_split(const char *who, struct split split)
{
    printf("%s.window_ns %.0f\n%s.compute_ns %.0f\n%s.communication_ns %.0f\n", who, split.window, who, split.compute,
           who, split.communication);
    printf("%s.overlapped_ns %.0f\n%s.exposed_ns %.0f\n%s.idle_ns %.0f\n", who, split.overlapped, who, split.exposed,
           who, split.idle);
    printf("%s.overlap_percent %.3f\n", who, percent(split.overlapped, split.communication));
    printf("%s.compute_percent %.3f\n%s.exposed_percent %.3f\n%s.idle_percent %.3f\n", who,
           percent(split.compute, split.window), who, percent(split.exposed, split.window), who,
           percent(split.idle, split.window));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        printf("%s.%s_ns %.0f\n", who, phase_names[phase], split.phase[phase]);
}

/* ---- waits of the compute lane ---- */

static const char *cause_of(const struct done *op)
{
    const struct plan_op *self = planned(op);
    int64_t on = op->end.waited_on;
    if (on < 0 || on >= op->plan->count) return NULL;
    const struct plan_op *other = &op->plan->ops[on];
    int why = 0; /* data; 1: memory, 2: limit */
    for (int i = 0; i < self->waits; i++)
        if (self->on[i] == on) why = self->why[i];
    bool gather = named(other->kind, "gather");
    if (why == 2 && !(gather && other->unit == self->unit)) return "no_overlap";
    if (gather) return "gather";
    if (named(other->kind, "reduce") || named(other->kind, "allreduce")) return "bucket";
    return named(other->kind, "refresh") ? "refresh" : named(other->kind, "agree") ? "agreement" : "other";
}

static bool concerns(const struct done *op, int rank)
{
    return op->step == wanted && (rank == STILL || op->rank == rank);
}

/* STILL: the mean of all ranks. */
static void print_waits(const char *who, int rank)
{
    static const char *const causes[] = {"gather", "bucket", "refresh", "no_overlap", "agreement", "other"};
    double parts = rank == STILL ? ranks : 1, peers_ns = 0;
    for (size_t c = 0; c < sizeof causes / sizeof causes[0]; c++) {
        double ns = 0, times = 0;
        for (size_t i = 0; i < done_count; i++) {
            const struct done *op = &done[i];
            const char *cause = concerns(op, rank) && lane_of(op) == COMPUTE ? cause_of(op) : NULL;
            if (!cause || strcmp(cause, causes[c]) != 0 || op->end.ready_ns <= op->end.issued_ns) continue;
            ns += (double)(op->end.ready_ns - op->end.issued_ns);
            times++;
        }
        printf("%s.waited.%s_ns %.0f\n%s.waited.%s_times %.4g\n", who, causes[c], ns / parts, who, causes[c],
               times / parts);
    }
    for (size_t i = 0; i < done_count; i++) peers_ns += concerns(&done[i], rank) ? (double)done[i].end.peers_ns : 0;
    printf("%s.waited.peers_ns %.0f\n", who, peers_ns / parts);
}

/* Of an operation of the communication lane: how long compute went on beside it. */
static double hidden_ns(const struct done *op)
{
    double ns = 0;
    int edges;
    uint64_t *edge = edges_of(op->step, op->rank, &edges);
    for (int i = 0; i + 1 < edges; i++)
        if (edge[i] >= op->end.started_ns && edge[i + 1] <= op->ended_ns &&
            busy(op->step, op->rank, COMPUTE, edge[i], edge[i + 1]))
            ns += (double)(edge[i + 1] - edge[i]);
    free(edge);
    return ns;
}

static void print_hidden(const char *who, int rank)
{
    double ns = 0, hidden = 0;
    for (size_t i = 0; i < done_count; i++) {
        if (!concerns(&done[i], rank) || !named(planned(&done[i])->kind, "gather")) continue;
        ns += (double)took(&done[i]);
        hidden += hidden_ns(&done[i]);
    }
    printf("%s.gathers.hidden_percent %.3f\n", who, percent(hidden, ns));
}

static void print_ranks(void)
{
    for (int rank = 0; rank < ranks; rank++) {
        char who[16];
        snprintf(who, sizeof who, "rank%d", rank);
        print_split(who, split_of(wanted, rank));
        print_waits(who, rank);
        print_hidden(who, rank);
    }
    print_split("mean", mean_split(wanted));
    print_waits("mean", STILL);
    print_hidden("mean", STILL);
}

/* ---- what moved ---- */

static const struct {
    const char *name, *kind[2];
    enum traffic traffic;
    double bus;
    int of_ranks;
} collectives[] = {
    {"all_gather", {"gather", "refresh"}, TRAFFIC_ALL_GATHER, 1, 1},
    {"reduce_scatter", {"reduce", "reduce"}, TRAFFIC_REDUCE_SCATTER, 1, 1},
    {"all_reduce", {"allreduce", "allreduce"}, TRAFFIC_ALL_REDUCE, 2, 1},
    {"control", {"agree", "agree"}, TRAFFIC_CONTROL, 1, 0},
    {"d2h", {"offload", "offload"}, TRAFFIC_D2H, 1, 0},
    {"h2d", {"fetch", "fetch"}, TRAFFIC_H2D, 1, 0},
};

static void print_bandwidths(int c, double bytes, double ns)
{
    double bus = collectives[c].bus * (collectives[c].of_ranks ? (ranks - 1.0) / ranks : 1);
    if (ns > 0 && bytes > 0)
        printf("traffic.%s.algbw %.0f\ntraffic.%s.busbw %.0f\n", collectives[c].name, bytes * 1e9 / ns,
               collectives[c].name, bytes * 1e9 / ns * bus);
}

static void print_collective(int c, const struct forecast *forecast)
{
    double count = 0, bytes = 0, sent = 0, ns = 0, exposed = 0, reported = 0;
    const char *name = collectives[c].name;
    for (size_t i = 0; i < done_count; i++) {
        const struct plan_op *op = planned(&done[i]);
        if (!concerns(&done[i], STILL) ||
            (!named(op->kind, collectives[c].kind[0]) && !named(op->kind, collectives[c].kind[1])))
            continue;
        count++;
        bytes += (double)op->bytes;
        sent += (double)done[i].end.sent_bytes;
        ns += (double)took(&done[i]);
        exposed += (double)took(&done[i]) - hidden_ns(&done[i]);
    }
    for (int rank = 0; rank < ranks; rank++) reported += (double)busy_ns[rank][collectives[c].traffic];
    printf("traffic.%s.count %.4g\ntraffic.%s.payload_bytes %.0f\n", name, count / ranks, name, bytes / ranks);
    printf("traffic.%s.sent_bytes %.0f\ntraffic.%s.busy_ns %.0f\n", name, sent / ranks, name, ns / ranks);
    printf("traffic.%s.exposed_ns %.0f\ntraffic.%s.reported_ns %.0f\n", name, exposed / ranks, name, reported / ranks);
    printf("traffic.%s.planned_bytes %.0f\n", name, forecast->sent[collectives[c].traffic] / ranks);
    print_bandwidths(c, bytes, ns);
}

static void print_flows(void)
{
    for (int rank = 0; rank < ranks; rank++)
        for (size_t d = 0; d < sizeof directions / sizeof directions[0]; d++) {
            double exposed_ns = 0;
            for (size_t i = 0; i < done_count; i++)
                if (concerns(&done[i], rank) && lane_of(&done[i]) == directions[d].lane)
                    exposed_ns += (double)took(&done[i]) - hidden_ns(&done[i]);
            print_flow(rank, d, exposed_ns);
        }
}

/* Copies between a rank's own tiers and control bytes are no part of it. */
static void print_planned_tensors(const struct forecast *forecast)
{
    double sent = 0;
    for (int kind = 0; kind < TRAFFIC_D2H; kind++) sent += forecast->sent[kind];
    printf("traffic.planned_bytes %.0f\n", sent / ranks);
}

/* Of rank 0: all ranks run the same list. */
static void print_gathers_and_flushes(void)
{
    int gathers = 0, prefetched = 0, units = 0, flushes = 0, full = 0, at_end = 0;
    bool seen[1024] = {false};
    for (size_t i = 0; i < done_count; i++) {
        const struct plan_op *op = planned(&done[i]);
        if (!concerns(&done[i], 0)) continue;
        if (named(op->kind, "gather")) {
            gathers++;
            prefetched += op->prefetch;
            if (op->unit >= 0 && op->unit < 1024 && !seen[op->unit]) seen[op->unit] = true, units++;
        }
        flushes += op->flush != 0;
        full += op->flush == 1;
        at_end += op->flush == 2;
    }
    printf("gathers %d\ngathers.prefetched %d\ngathers.units %d\nflushes %d\nflushes.full %d\nflushes.end_of_backward "
           "%d\n",
           gathers, prefetched, units, flushes, full, at_end);
}

/* ---- single operations ---- */

static void print_times(const char *name, int number, int op)
{
    double ns = 0, peers = 0;
    const struct done *longest = NULL;
    for (size_t i = 0; i < done_count; i++) {
        if (!concerns(&done[i], STILL) || done[i].op != op) continue;
        ns += (double)took(&done[i]);
        peers += (double)done[i].end.peers_ns;
        if (!longest || took(&done[i]) > took(longest)) longest = &done[i];
    }
    if (!longest) return;
    printf("%s.%d.mean_ns %.0f\n%s.%d.peers_ns %.0f\n", name, number, ns / ranks, name, number, peers / ranks);
    printf("%s.%d.longest_ns %" PRIu64 "\n%s.%d.slowest %d\n", name, number, took(longest), name, number,
           longest->rank);
}

static void print_operations(const struct plan *plan)
{
    for (int op = 0; plan && op < plan->count; op++) {
        print_times("op", op, op);
        if (plan->ops[op].flush == 0) continue;
        print_times("bucket", plan->ops[op].bucket, op);
        printf("bucket.%d.bytes %" PRId64 "\n", plan->ops[op].bucket, plan->ops[op].bytes);
    }
}

/* Of each operation that moves bytes: those of a rank, mean over ranks; of a collective, those to ranks of its node and to others. */
static void print_moved(const struct plan *plan)
{
    for (int op = 0; plan && op < plan->count; op++) {
        const int lane = kinds[plan->ops[op].kind].lane;
        double sent = 0;
        for (size_t i = 0; i < done_count; i++)
            if (concerns(&done[i], STILL) && done[i].op == op) sent += (double)done[i].end.sent_bytes / ranks;
        if (sent <= 0 || named(plan->ops[op].kind, "agree")) continue;
        if (lane != COMM) printf("lane%d.moved.%d %.0f\n", lane, op, sent);
        else if (node_ranks > 0 && node_ranks < ranks) {
            int within = 0;
            for (int other = 1; other < ranks; other++) within += other / node_ranks == 0;
            printf("within.moved.%d %.0f\nbetween.moved.%d %.0f\n", op, sent * within / (ranks - 1), op,
                   sent * (ranks - 1 - within) / (ranks - 1));
        } else printf("link.moved.%d %.0f\n", op, sent);
    }
}

/* What a rank keeps of each unit's parameters between steps. */
static void print_units(const struct plan *plan)
{
    for (int b = 0; plan && b < plan->buffer_count; b++) {
        const struct plan_buffer *buffer = &plan->buffers[b];
        if (buffer->unit >= 0 && buffer->category == CATEGORY_PARAMETERS && b < plan->lasting)
            printf("unit.%d.lasting_bytes %" PRId64 "\n", buffer->unit, buffer->bytes);
    }
}

/* ---- the step and its memory ---- */

static void print_step(void)
{
    const struct trace_of_step_end *step = &step_end[0];
    uint64_t total_ns = 0, paused_ns = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (step_end[rank].total_ns > total_ns) total_ns = step_end[rank].total_ns;
        if (step_end[rank].paused_ns > paused_ns) paused_ns = step_end[rank].paused_ns;
    }
    struct split mean = mean_split(wanted);
    printf("step.number %u\nstep.stage %d\nstep.skipped %d\nstep.loss %.6f\nstep.grad_norm %.6f\n", step->step,
           step->stage, step->skipped, (double)step->loss, (double)step->grad_norm);
    printf("step.learning_rate %g\nstep.tokens %u\nstep.micro_steps %u\n", (double)step->learning_rate, step->tokens,
           step->micro_steps);
    printf("step.total_ns %" PRIu64 "\nstep.paused_ns %" PRIu64 "\nstep.tokens_per_second %.0f\n", total_ns, paused_ns,
           total_ns ? step->tokens * 1e9 / (double)total_ns : 0);
    printf("step.exposed_percent %.3f\n", percent(mean.exposed, (double)total_ns));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        printf("step.%s_percent %.3f\n", phase_names[phase], percent(mean.phase[phase], (double)total_ns));
}

/* The header's figures: whole steps of one schedule, newest first, until they took a second. */
static void print_recent(void)
{
    struct split sum = {0};
    double total_ns = 0, tokens = 0;
    int count = 0;
    for (uint32_t number = wanted; number > 0 && total_ns < 1e9; number--) {
        const struct step *step = &steps[number];
        if (number >= STEPS || !step->known || step->ended < ranks || step->skipped) continue;
        if (step->schedule != steps[wanted].schedule) break;
        total_ns += (double)step->total_ns;
        tokens += step->tokens;
        add_split(&sum, mean_split(number), 1);
        count++;
    }
    if (!count) return;
    printf("recent.steps %d\nrecent.step_ns %.0f\nrecent.tokens_per_second %.3f\n", count, total_ns / count,
           tokens * 1e9 / total_ns);
    printf("recent.exposed_percent %.3f\n", percent(sum.exposed, total_ns));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        printf("recent.%s_percent %.3f\n", phase_names[phase], percent(sum.phase[phase], total_ns));
}

static void print_category(int rank, int tier, int c, const struct forecast *forecast)
{
    char name[64];
    snprintf(name, sizeof name, "memory.rank%d.%s.%s", rank, tier_name(tier), category_name(c));
    printf("%s.live_bytes %" PRIu64 "\n%s.peak_bytes %" PRIu64 "\n", name, live_then[rank][tier][c], name,
           peak_then[rank][tier][c]);
    printf("%s.at_peak_bytes %" PRIu64 "\n%s.fullest_bytes %" PRIu64 "\n%s.reserved_bytes %" PRIu64 "\n", name,
           at_peak[rank][tier][c], name, fullest[rank][tier][c], name, reserved[rank][tier][c]);
    printf("%s.planned_bytes %" PRIu64 "\n%s.planned_at_peak_bytes %" PRIu64 "\n", name, forecast->memory[tier][c],
           name, forecast->at_peak[tier][c]);
}

static void print_memory(int rank, int tier, const struct forecast *forecast)
{
    char name[64];
    bool any = false;
    for (int c = 0; c < CATEGORIES; c++) {
        if (!has_memory[rank][tier][c]) continue;
        any = true;
        print_category(rank, tier, c, forecast);
    }
    snprintf(name, sizeof name, "memory.rank%d.%s", rank, tier_name(tier));
    if (!any) return;
    printf("%s.live_bytes %" PRIu64 "\n%s.fullest_bytes %" PRIu64 "\n", name, sum_of(live_then[rank][tier]), name,
           fullest_sum[rank][tier]);
    printf("%s.peak_bytes %" PRIu64 "\n%s.reserved_bytes %" PRIu64 "\n", name, tier_peak[rank][tier], name,
           sum_of(reserved[rank][tier]));
    printf("%s.free_bytes %" PRIu64 "\n", name, sum_of(reserved[rank][tier]) - sum_of(live_then[rank][tier]));
    printf("%s.planned_bytes %" PRIu64 "\n%s.planned_resting_bytes %" PRIu64 "\n", name, forecast->peak[tier], name,
           forecast->resting[tier]);
}

/* ---- within a step ---- */

static bool is_done(int op)
{
    for (size_t i = 0; i < done_count; i++)
        if (concerns(&done[i], 0) && done[i].op == op) return true;
    return false;
}

/* The operation that takes a buffer, or the one that gives it back; STILL: none. */
static int toucher_of(const struct plan *plan, int buffer, bool gives)
{
    for (int op = 0; op < plan->count; op++) {
        int first = gives ? plan->ops[op].first_give : plan->ops[op].first_take,
            count = gives ? plan->ops[op].gives : plan->ops[op].takes;
        for (int e = first; e < first + count; e++)
            if (plan->effects[e] == buffer) return op;
    }
    return STILL;
}

/* A gathered unit is there from the beginning of its gather to the end of the operation that gives its buffer back. */
static void print_gathered(const struct plan *plan)
{
    int units = 0, in_flight = 0;
    int64_t bytes = 0;
    for (int b = 0; b < plan->buffer_count; b++) {
        int taker = toucher_of(plan, b, false), giver = toucher_of(plan, b, true);
        if (plan->buffers[b].category != CATEGORY_GATHERED || taker == STILL || !begun[0][taker]) continue;
        if (giver != STILL && is_done(giver)) continue;
        units++;
        in_flight += !is_done(taker);
        bytes += plan->buffers[b].bytes;
    }
    printf("now.gathered %d\nnow.gathered.in_flight %d\nnow.gathered.bytes %" PRId64 "\n", units, in_flight, bytes);
}

/* Of rank 0: parameters, gradients, optimizer state and their sum, in all tiers, divided by the model's parameters. */
static void print_board(const char *prefix, uint64_t (*held)[CATEGORIES])
{
    static const int kept[] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};
    double sum = 0;
    for (int k = 0; k < 3 && parameters > 0; k++) {
        double bytes = 0;
        for (int tier = 0; tier < TIERS; tier++) bytes += (double)held[tier][kept[k]];
        printf("%sboard.%s %.6f\n", prefix, category_name(kept[k]), bytes / parameters);
        sum += bytes / parameters;
    }
    printf("%sboard.sum %.6f\n", prefix, sum);
}

static void print_moment(void)
{
    const struct plan *plan = done[done_count - 1].plan;
    int ended_ops = 0;
    for (int op = 0; op < plan->count; op++) ended_ops += is_done(op);
    printf("now.operations %d\nnow.operations.ended %d\n", plan->count, ended_ops);
    print_gathered(plan);
    for (int c = 0; c < CATEGORIES; c++)
        printf("now.%s.live_bytes %" PRIu64 "\n", category_name(c), live[0][TIER_DEVICE][c]);
    printf("now.live_bytes %" PRIu64 "\n", sum_of(live[0][TIER_DEVICE]));
    print_board("now.", live[0]);
}

static int print_whole_step(void)
{
    for (int rank = 0; rank < ranks; rank++)
        if (!ended[rank]) return fprintf(stderr, "truth: not every rank ended step %u\n", wanted), STATUS_CHECK;
    const struct plan *plan = plan_numbered(step_end[0].schedule);
    const struct forecast *forecast = forecast_of(step_end[0].schedule);
    print_step();
    print_recent();
    print_ranks();
    for (int c = 0; c < (int)(sizeof collectives / sizeof collectives[0]); c++) print_collective(c, forecast);
    printf("traffic.theory_bytes %.0f\n", forecast->theory);
    print_planned_tensors(forecast);
    print_flows();
    print_gathers_and_flushes();
    print_operations(plan);
    print_moved(plan);
    print_units(plan);
    for (int rank = 0; rank < ranks; rank++)
        for (int tier = 0; tier < TIERS; tier++) print_memory(rank, tier, forecast);
    print_board("", live_then[0]);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    char *rest;
    if (argc != 3) return fprintf(stderr, "usage: truth FILE STEP[.OPERATION]\n"), STATUS_USAGE;
    if (source_open_file(&source, argv[1], &err)) return fprintf(stderr, "truth: %s\n", err.text), STATUS_INPUT;
    wanted = (uint32_t)strtoul(argv[2], &rest, 10);
    if (*rest == '.') wanted_op = strtol(rest + 1, NULL, 10);
    while (source_next(source, &record) == SOURCE_RECORD && read_record(&record))
        if (record.kind == TRACE_IO) read_io(record.rank, &record.io);
    source_close(source);
    int status = STATUS_OK;
    if (wanted_op == STILL) status = print_whole_step();
    else if (come) print_moment();
    else status = (fprintf(stderr, "truth: no such operation\n"), STATUS_CHECK);
    for (int i = 0; i < PLANS; i++) free_plan(&plans[i]);
    free(done);
    free(said);
    return status;
}
