/* Chrome's JSON (object form): a process a rank, a thread a lane, a slice for each operation, arrows from an operation to the one that
 * waited for it, counters, instants. Form: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
 *
 * An arrow ends in the slices at both ends: it leaves one nanosecond before the end of the first, which may be the beginning of
 * another. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/export/parts.h"

/* The last slice of an operation, by its number in the schedule. */
struct slice {
    uint32_t schedule, step;
    enum lane lane;
    uint64_t started_ns, ended_ns;
};

struct perfetto_rank {
    bool named;
    unsigned lanes; /* those that have a name, as bits */
    struct slice *slices;
    int room;
};

struct perfetto {
    FILE *out;
    bool begun, run_named;
    uint64_t arrows, notices;
};

enum { RUN_PID = TRACE_RANK_ALL };

/* ---- the head of an event ---- */

static FILE *event(struct export *export, const char *kind, unsigned pid, int tid)
{
    struct perfetto *to = export->state;
    fprintf(to->out, "%s\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%d", to->begun ? "," : "", kind, pid, tid);
    to->begun = true;
    return to->out;
}

static FILE *event_at(struct export *export, const char *kind, unsigned pid, int tid, uint64_t ns)
{
    FILE *out = event(export, kind, pid, tid);
    fputs(",\"ts\":", out);
    put_us_since(out, export->base_ns, ns);
    return out;
}

static void name_process(struct export *export, unsigned pid, int place, const char *name)
{
    fprintf(event(export, "M", pid, 0), ",\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}", name);
    fprintf(event(export, "M", pid, 0), ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", place);
}

static struct perfetto_rank *rank_of(struct export *export, unsigned number)
{
    struct perfetto_rank *rank = export_rank(export, (int)number);
    char name[16];
    if (!rank || rank->named) return rank;
    rank->named = true;
    snprintf(name, sizeof name, "rank %u", number);
    name_process(export, number, (int)number, name);
    return rank;
}

static void name_lane(struct export *export, struct perfetto_rank *rank, unsigned pid, enum lane lane)
{
    if (rank->lanes & 1u << lane) return;
    rank->lanes |= 1u << lane;
    fprintf(event(export, "M", pid, lane), ",\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", lane_name(lane));
    fprintf(event(export, "M", pid, lane), ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", lane);
}

static void begin(struct export *export)
{
    struct perfetto *to = export->state;
    to->out = export_open(export, NULL, file_ends_in(export->options->path, ".gz"));
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to->out);
}

/* ---- operations ---- */

static void put_op_name(struct export *export, FILE *out, const struct op *op)
{
    char label[EXPORT_LABEL];
    export_label(label, export->model, op);
    fputs(",\"name\":", out);
    put_json_text(out, label, strlen(label));
    fprintf(out, ",\"cat\":\"%s\"",
            lane_computes(op->lane) ? phase_name(op->phase) : traffic_name(traffic_of_op(op->kind)));
}

static void put_arguments(struct export *export, FILE *out, const struct export_op *of)
{
    static const char *const purposes[PURPOSES] = {"train", "evaluate", "sample"};
    const struct trace_of_op_end *from = of->from;
    const char *unit = export_unit(export->model, of->op->unit);
    fprintf(out, ",\"args\":{\"step\":%u,\"operation\":%u,\"purpose\":\"%s\"", from->step, from->op,
            purposes[of->schedule->purpose]);
    if (unit) fputs(",\"unit\":", out), put_json_text(out, unit, strlen(unit));
    if (of->op->bucket >= 0) fprintf(out, ",\"bucket\":%d", of->op->bucket);
    fprintf(out, ",\"payload_bytes\":%" PRId64 ",\"sent_bytes\":%" PRIu64, of->op->bytes, from->sent_bytes);
    fprintf(out, ",\"waited_ns\":%" PRIu64 ",\"peers_ns\":%" PRIu64 ",\"paced_ns\":%" PRIu64 "}}", export_waited(from),
            from->peers_ns, from->paced_ns);
}

static struct slice *last_slice(struct perfetto_rank *rank, const struct export_op *of, int64_t op)
{
    const int count = of->schedule->ops.op_count;
    if (op < 0 || op >= count) return NULL;
    if (rank->room < count) {
        struct slice *larger = realloc(rank->slices, (size_t)count * sizeof *larger);
        if (!larger) return NULL; /* the picture lacks arrows */
        memset(larger + rank->room, 0, (size_t)(count - rank->room) * sizeof *larger);
        rank->slices = larger;
        rank->room = count;
    }
    return &rank->slices[op];
}

static void put_arrow(struct export *export, unsigned pid, const struct slice *from, const struct slice *to)
{
    const uint64_t number = ++((struct perfetto *)export->state)->arrows;
    const uint64_t leaves_ns = from->ended_ns > from->started_ns ? from->ended_ns - 1 : from->ended_ns;
    FILE *out = event_at(export, "s", pid, from->lane, leaves_ns);
    fprintf(out, ",\"id\":%" PRIu64 ",\"cat\":\"wait\",\"name\":\"waited for\"}", number);
    out = event_at(export, "f", pid, to->lane, to->started_ns);
    fprintf(out, ",\"bp\":\"e\",\"id\":%" PRIu64 ",\"cat\":\"wait\",\"name\":\"waited for\"}", number);
}

static void put_op(struct export *export, const struct trace_record *record)
{
    struct perfetto_rank *rank = rank_of(export, record->rank);
    struct export_op of;
    if (!rank || !export_op_of(export, record, &of)) return;
    name_lane(export, rank, record->rank, of.op->lane);
    FILE *out = event_at(export, "X", record->rank, of.op->lane, of.from->started_ns);
    fputs(",\"dur\":", out);
    put_us(out, of.ended_ns - of.from->started_ns);
    put_op_name(export, out, of.op);
    put_arguments(export, out, &of);
    struct slice *slice = last_slice(rank, &of, of.from->op), *before = last_slice(rank, &of, of.from->waited_on);
    if (!slice) return;
    *slice = (struct slice){of.from->schedule, of.from->step, of.op->lane, of.from->started_ns, of.ended_ns};
    if (before && before != slice && before->schedule == slice->schedule && before->step == slice->step &&
        before->ended_ns && before->ended_ns <= slice->started_ns)
        put_arrow(export, record->rank, before, slice);
}

/* What had begun when the trace ended: slices without an end. */
static void put_open(struct export *export, unsigned number, const struct run_rank *from)
{
    for (int lane = 0; lane < LANES; lane++) {
        const struct run_lane *at = &from->lane[lane];
        const struct op *op = at->busy ? run_op(run_schedule_numbered(export->model, at->schedule), at->op) : NULL;
        struct perfetto_rank *rank = op ? rank_of(export, number) : NULL;
        if (!rank) continue;
        name_lane(export, rank, number, op->lane);
        FILE *out = event_at(export, "B", number, op->lane, at->started_ns);
        put_op_name(export, out, op);
        fprintf(out, ",\"args\":{\"step\":%u,\"operation\":%u}}", at->step, at->op);
    }
}

/* ---- counters ---- */

static void put_memory(struct export *export, const struct trace_record *record)
{
    const unsigned number = record->rank;
    if (!rank_of(export, number) || (int)number >= export->model->ranks || record->memory.tier >= TIERS) return;
    const struct run_tier *tier = &export->model->rank[number].tier[record->memory.tier];
    uint64_t unattributed = 0;
    const char *comma = "";
    FILE *out = event_at(export, "C", number, 0, record->time_ns);
    fprintf(out, ",\"name\":\"%s memory (bytes)\",\"args\":{", tier_name((enum tier)record->memory.tier));
    for (int c = 0; c < CATEGORY_CODES; c++) {
        if (c >= CATEGORIES) unattributed += tier->category[c].live_bytes;
        else if (tier->category[c].known) {
            fprintf(out, "%s\"%s\":%" PRIu64, comma, category_name((enum category)c), tier->category[c].live_bytes);
            comma = ",";
        }
    }
    if (unattributed) fprintf(out, "%s\"unattributed\":%" PRIu64, comma, unattributed);
    fputs("}}", out);
}

static void name_run(struct export *export)
{
    struct perfetto *to = export->state;
    if (!to->run_named) name_process(export, RUN_PID, -1, "run");
    to->run_named = true;
}

static void put_loss(struct export *export, uint64_t time_ns, const char *name, float loss)
{
    if (!isfinite(loss)) return;
    name_run(export);
    fprintf(event_at(export, "C", RUN_PID, 0, time_ns), ",\"name\":\"%s\",\"args\":{\"loss\":%.9g}}", name,
            (double)loss);
}

/* ---- instants ---- */

static void put_instant(struct export *export, unsigned pid, uint64_t time_ns, const char *kind, const char *text)
{
    FILE *out = event_at(export, "i", pid, 0, time_ns);
    fprintf(out, ",\"s\":\"%s\",\"cat\":\"%s\",\"name\":", pid == RUN_PID ? "g" : "p", kind);
    put_json_text(out, text, strlen(text));
    putc('}', out);
}

static void put_step(struct export *export, const struct trace_record *record)
{
    char text[24];
    if (!rank_of(export, record->rank)) return;
    snprintf(text, sizeof text, "step %u", record->step_begin.step);
    put_instant(export, record->rank, record->time_ns, "step", text);
}

static void put_gap(struct export *export, const struct trace_record *record)
{
    char text[80];
    snprintf(text, sizeof text, "%" PRIu64 " records are missing", record->gap.records);
    name_run(export);
    put_instant(export, RUN_PID, record->time_ns, "gap",
                record->gap.records ? text : "records are missing from here on");
}

/* Commands, events, lines of the log, states: as the screens tell them. */
static void put_notices(struct export *export)
{
    static const char *const kinds[] = {"event", "command", "log", "validation", "state", "gap"};
    struct perfetto *to = export->state;
    const struct run_model *model = export->model;
    for (int n = run_notices_since(model, to->notices); n < model->notice_count; n++) {
        const struct run_notice *notice = &model->notices[n];
        struct run_shortage shortage;
        if (notice->kind == NOTICE_GAP) continue;
        name_run(export);
        put_instant(export, RUN_PID, notice->time_ns,
                    run_notice_shortage(&shortage, notice) ? "out of memory" : kinds[notice->kind], notice->text);
    }
    to->notices = run_notices_seen(model);
}

/* ---- all of it ---- */

static void put(struct export *export, const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
    case TRACE_OP_END: put_op(export, record); break;
    case TRACE_MEMORY: put_memory(export, record); break;
    case TRACE_STEP_BEGIN: put_step(export, record); break;
    case TRACE_STEP_END:
        if (record->rank == 0 && !record->step_end.skipped)
            put_loss(export, record->time_ns, "loss", record->step_end.loss);
        break;
    case TRACE_VALIDATION: put_loss(export, record->time_ns, "validation loss", record->validation.loss); break;
    case TRACE_GAP: put_gap(export, record); break;
    }
    put_notices(export);
}

static void end(struct export *export)
{
    const struct run_model *model = export->model;
    for (int rank = 0; rank < model->ranks && !model->ended; rank++)
        put_open(export, (unsigned)rank, &model->rank[rank]);
    fputs("\n],\"otherData\":{\"program\":\"zerolab\"", ((struct perfetto *)export->state)->out);
    fprintf(((struct perfetto *)export->state)->out, ",\"first_record_ns\":\"%" PRIu64 "\",\"simulated\":%s}}\n",
            export->base_ns, model->header.simulated ? "true" : "false");
}

static void forget_rank(void *rank)
{
    free(((struct perfetto_rank *)rank)->slices);
}

const struct export_format export_perfetto = {.state_bytes = sizeof(struct perfetto),
                                              .rank_bytes = sizeof(struct perfetto_rank),
                                              .begin = begin,
                                              .put = put,
                                              .end = end,
                                              .forget_rank = forget_rank};
