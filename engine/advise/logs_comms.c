/* Collectives by operation and size, as DeepSpeed's comms_logger sums them, with the bandwidths of nccl-tests. The latency of a
 * collective on a rank is from its start to its end there, waiting for slower ranks included; its own time is taken to be the
 * fastest rank's, and what the others need beyond that is the straggler effect. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/logs_parts.h"
#include "engine/base/bytes.h"
#include "engine/observe/totals.h"

void log_comms_release(struct log_comms *comms)
{
    free(comms->row);
    comms->row = NULL;
    comms->rows = comms->room = 0;
}

/* "all_gather" is meant by itself and by names that go on from it, "all_gather_into_tensor". */
static bool is_asked_for(const struct log_comms *comms, enum traffic kind)
{
    const char *own = traffic_name(kind);
    size_t length = strlen(own);
    if (kind == TRAFFIC_CONTROL) return false;
    for (const char *name = comms->only; name && *name; name += strcspn(name, "\n") + 1)
        if (!strncmp(name, own, length) && strchr("\n_", name[length])) return true;
    return !comms->only;
}

static struct log_comm *row_of(struct log_comms *comms, const struct span *span, uint64_t bytes, int ranks,
                               int members)
{
    const enum traffic kind = traffic_of_op(span->kind);
    for (int i = 0; i < comms->rows; i++) {
        struct log_comm *row = &comms->row[i];
        bool same = row->kind == kind && row->bytes == bytes && row->ranks == ranks && row->members == members;
        if (same && (!comms->by_op || row->op == span->kind)) return row;
    }
    struct log_comm *row = array_add(comms->row, comms->rows, comms->room);
    if (row)
        *row = (struct log_comm){.kind = kind, .op = span->kind, .ranks = ranks, .members = members, .bytes = bytes};
    return row;
}

/* ---- adding a step ---- */

struct latency {
    uint64_t sum_ns, fastest_ns;
};

/* The same collective on another rank: all of them enter collectives in one order, so it mostly has the same place. */
static const struct span *twin(const struct history *history, const struct history_step *step, const struct span *own,
                               int64_t place, int rank)
{
    const struct log_lane lane = log_lane_of(history, step, rank, LANE_COMM);
    const struct span *span = log_span(&lane, lane.first + place);
    if (span && span->op == own->op) return span;
    return log_span(&lane, history_span_of(history, rank, LANE_COMM, step->step, own->op));
}

/* Of a collective on all ranks. False: it was not seen on every rank. */
static bool latency_of(struct latency *latency, const struct history *history, const struct history_step *step,
                       const struct span *own, int64_t place, int ranks)
{
    *latency = (struct latency){.fastest_ns = UINT64_MAX};
    for (int rank = 0; rank < ranks; rank++) {
        const struct span *span = twin(history, step, own, place, rank);
        if (!span) return false;
        uint64_t took_ns = span->ended_ns - span->started_ns;
        latency->sum_ns += took_ns;
        if (took_ns < latency->fastest_ns) latency->fastest_ns = took_ns;
    }
    return true;
}

/* algbw */
static double gbps(double bytes, uint64_t ns)
{
    return ns ? bytes * 8 / (double)ns : 0;
}

static void print_operation(bool by_op, const struct span *span, uint64_t bytes, int members, FILE *out)
{
    const enum traffic kind = traffic_of_op(span->kind);
    const uint64_t ns = span->ended_ns - span->started_ns;
    const double algbw = gbps((double)bytes, ns);
    char size[24];
    fprintf(out, "comm op: %s", traffic_name(kind));
    if (by_op) fprintf(out, " | [Caller Func: %s]", op_name(span->kind, NULL));
    fprintf(out, " | time (ms): %.3f | msg size: %s | algbw (Gbps): %.2f | busbw (Gbps): %.2f\n", (double)ns / 1e6,
            log_bytes(size, bytes), algbw, algbw * bus_share(kind, members));
}

void log_comms_add(struct log_comms *comms, const struct history *history, const struct run_model *model,
                   const struct history_step *step, FILE *verbose)
{
    const struct run_schedule *schedule = run_schedule_numbered(model, step->schedule);
    if (!schedule || !schedule->has_ops || !history_step_is_whole(history, step)) {
        comms->lost_steps++;
        return;
    }
    struct log_lane lane = log_lane_of(history, step, 0, LANE_COMM);
    for (const struct span *span; (span = log_next(&lane));) {
        struct latency latency;
        if (!is_asked_for(comms, traffic_of_op(span->kind))) continue;
        const struct op *op = &schedule->ops.ops[span->op];
        const uint64_t bytes = (uint64_t)op->bytes;
        const int members = op_ranks(&schedule->ops, op);
        if (verbose) print_operation(comms->by_op, span, bytes, members, verbose);
        const bool known = latency_of(&latency, history, step, span, lane.next - 1 - lane.first, model->ranks);
        struct log_comm *row = known ? row_of(comms, span, bytes, model->ranks, members) : NULL;
        if (!row) continue;
        row->count++;
        row->latency_ns += latency.sum_ns;
        row->fastest_ns += latency.fastest_ns * (uint64_t)model->ranks;
    }
}

/* ---- printing ---- */

static int by_kind_and_size(const void *left, const void *right)
{
    const struct log_comm *a = left, *b = right;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->ranks != b->ranks) return a->ranks < b->ranks ? -1 : 1;
    if (a->members != b->members) return a->members < b->members ? -1 : 1;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* An operation's heading: its name, the number of ranks, which can change in a run, and how many form a group. */
static void print_heading(const struct log_comms *comms, int i, FILE *out)
{
    const struct log_comm *row = &comms->row[i], *before = i ? row - 1 : NULL;
    if (before && before->kind == row->kind && before->ranks == row->ranks && before->members == row->members &&
        (!comms->by_op || before->op == row->op))
        return;
    fputs(traffic_name(row->kind), out);
    if (comms->by_op) fprintf(out, " | [Caller Func: %s]", op_name(row->op, NULL));
    if (row->members == row->ranks) fprintf(out, " (%d ranks)\n", row->ranks);
    else fprintf(out, " (%d ranks in groups of %d)\n", row->ranks, row->members);
}

static void print_summary(const struct log_comms *comms, FILE *out)
{
    fprintf(out, "%-16s%14s%8s%20s%18s%18s%18s\n", "Comm. Op", "Message Size", "Count", "Total Latency(ms)",
            "Avg Latency(ms)", "tput_avg (Gbps)", "busbw_avg (Gbps)");
    for (int i = 0; i < comms->rows; i++) {
        const struct log_comm *row = &comms->row[i];
        const double each = (double)row->count * row->ranks;
        const double algbw = gbps((double)row->bytes * each, row->latency_ns);
        char size[24];
        print_heading(comms, i, out);
        fprintf(out, "%-16s%14s%8llu%20.2f%18.3f%18.2f%18.2f\n", "", log_bytes(size, row->bytes),
                (unsigned long long)row->count, (double)row->latency_ns / 1e6 / row->ranks,
                (double)row->latency_ns / 1e6 / each, algbw, algbw * bus_share(row->kind, row->members));
    }
}

static void print_straggler(const struct log_comms *comms, FILE *out)
{
    fputs("Breakdown with straggler effect\n", out);
    fprintf(out, "%-16s%14s%8s%20s%20s%18s%18s\n", "Comm. Op", "Message Size", "Count", "Total comm lat(ms)",
            "Total straggler(ms)", "Avg comm lat(ms)", "Avg straggler(ms)");
    for (int i = 0; i < comms->rows; i++) {
        const struct log_comm *row = &comms->row[i];
        const double own = (double)row->fastest_ns / 1e6 / row->ranks;
        const double straggler = (double)(row->latency_ns - row->fastest_ns) / 1e6 / row->ranks;
        char size[24];
        print_heading(comms, i, out);
        fprintf(out, "%-16s%14s%8llu%20.2f%20.2f%18.3f%18.3f\n", "", log_bytes(size, row->bytes),
                (unsigned long long)row->count, own, straggler, own / (double)row->count,
                straggler / (double)row->count);
    }
}

void log_comms_print(struct log_comms *comms, FILE *out)
{
    qsort(comms->row, (size_t)comms->rows, sizeof *comms->row, by_kind_and_size);
    fputs("collectives of one rank, means over ranks; message size is the whole payload\n", out);
    if (comms->lost_steps)
        fprintf(out, "%llu steps are not in it: records of them were lost\n", (unsigned long long)comms->lost_steps);
    if (!comms->rows) {
        fputs(comms->only ? "none of comms_logger.prof_ops was seen\n" : "none was seen\n", out);
        return;
    }
    print_summary(comms, out);
    print_straggler(comms, out);
}
