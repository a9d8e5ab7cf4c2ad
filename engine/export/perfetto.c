/* Chrome's JSON (object form): a process a rank, a thread a lane, a slice for each operation, arrows from an operation to the one that
 * waited for it, counters, instants. Form: "Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/export/parts.h"

/* The last slice of an operation, by its number in the schedule. */
struct slice {
    uint32_t schedule, step;
    enum lane lane;
    uint64_t started_ns, ended_ns;
};

struct perfetto_rank {
    unsigned named;
    struct slice *slices;
    int room;
}; /* named: lanes, as bits; 1 << LANES: the process */

enum { RUN_PID = TRACE_RANK_ALL };

/* An event: its head, then `format`. */
__attribute__((format(printf, 6, 7))) static void event(struct export *export, const char *kind, unsigned pid, int tid,
                                                        uint64_t ns, const char *format, ...)
{
    char at[EXPORT_NUMBER];
    va_list arguments;
    put(export->out, ",\n{\"ph\":\"%s\",\"pid\":%u,\"tid\":%d,\"ts\":%s,", kind, pid, tid,
        in_us(at, export->base_ns, ns));
    va_start(arguments, format);
    if (export->out) gzvprintf(export->out, format, arguments);
    va_end(arguments);
    put(export->out, "}");
}

static void begin(struct export *export)
{
    put(export->out,
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"ts\":0,\"name\":\"process_"
        "name\","
        "\"args\":{\"name\":\"run\"}}",
        RUN_PID);
}

static struct perfetto_rank *rank_of(struct export *export, unsigned number, int lane)
{
    struct perfetto_rank *rank = export_rank(export, (int)number);
    char name[EXPORT_TEXT];
    if (rank && !(rank->named & 1u << LANES)) {
        event(export, "M", number, 0, export->base_ns, "\"name\":\"process_name\",\"args\":{\"name\":\"rank %u\"}",
              number);
        event(export, "M", number, 0, export->base_ns, "\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}",
              number);
    }
    if (rank && lane < LANES && !(rank->named & 1u << lane)) {
        event(export, "M", number, lane, export->base_ns, "\"name\":\"thread_name\",\"args\":{\"name\":%s}",
              quoted(name, run_lane_name(export->model, (enum lane)lane)));
        event(export, "M", number, lane, export->base_ns, "\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}",
              lane);
    }
    if (rank) rank->named |= 1u << lane | 1u << LANES;
    return rank;
}

/* ---- operations ---- */

static const char *class_of(const struct op *op)
{
    return lane_computes(op->lane) ? phase_name(op->phase) : traffic_name(traffic_of_op(op->kind));
}

/* NULL: no such operation, or no memory: the picture lacks its arrows. */
static struct slice *slice_at(struct perfetto_rank *rank, const struct export_op *of, int64_t op)
{
    const int count = of->schedule->ops.op_count;
    if (rank->room < count) {
        struct slice *larger = realloc(rank->slices, (size_t)count * sizeof *larger);
        if (!larger) return NULL;
        memset(larger + rank->room, 0, (size_t)(count - rank->room) * sizeof *larger);
        rank->slices = larger;
        rank->room = count;
    }
    return op >= 0 && op < count ? &rank->slices[op] : NULL;
}

/* Both ends lie in their slices: it leaves one nanosecond before the end of the first, which may be the beginning of another. */
static void put_arrow(struct export *export, unsigned pid, const struct slice *from, const struct slice *to)
{
    static const char body[] = "\"id\":%" PRIu64 ",\"cat\":\"wait\",\"name\":\"waited for\"%s";
    const uint64_t number = ++export->perfetto.arrows;
    event(export, "s", pid, from->lane, from->ended_ns - (from->ended_ns > from->started_ns), body, number, "");
    event(export, "f", pid, to->lane, to->started_ns, body, number, ",\"bp\":\"e\"");
}

static void put_op(struct export *export, const struct trace_record *record)
{
    static const char *const purposes[PURPOSES] = {"train", "evaluate", "sample"};
    struct export_op of;
    char label[LABEL_ROOM], name[EXPORT_TEXT], unit[EXPORT_TEXT], took[EXPORT_NUMBER], bucket[EXPORT_NUMBER];
    if (!export_op_of(export, record, &of)) return;
    const struct trace_of_op_end *from = of.from;
    const struct op *op = of.op;
    struct perfetto_rank *rank = rank_of(export, record->rank, op->lane);
    if (!rank) return;
    const uint64_t waited_ns =
        from->issued_ns && from->ready_ns > from->issued_ns ? from->ready_ns - from->issued_ns : 0;
    op_label(label, export->model, from->schedule, (int)from->op);
    event(export, "X", record->rank, op->lane, from->started_ns,
          "\"dur\":%s,\"name\":%s,\"cat\":\"%s\",\"args\":{\"step\":%u,\"operation\":%u,\"purpose\":\"%s\",\"unit\":%s,"
          "\"bucket\":%s,"
          "\"payload_bytes\":%" PRId64 ",\"sent_bytes\":%" PRIu64 ",\"waited_ns\":%" PRIu64 ",\"peers_ns\":%" PRIu64
          ",\"paced_ns\":%" PRIu64 "}",
          in_us(took, from->started_ns, of.ended_ns),
          quoted(name, label), class_of(op), from->step,
          from->op, purposes[of.schedule->purpose], quoted(unit, run_unit_name(export->model, op->unit)),
          if_known(bucket, op->bucket >= 0, op->bucket, "null"), op->bytes, from->sent_bytes, waited_ns, from->peers_ns,
          from->paced_ns);
    struct slice *slice = slice_at(rank, &of, from->op), *before = slice_at(rank, &of, from->waited_on);
    if (slice) *slice = (struct slice){from->schedule, from->step, op->lane, from->started_ns, of.ended_ns};
    if (slice && before && before != slice && before->schedule == slice->schedule && before->step == slice->step &&
        before->ended_ns && before->ended_ns <= slice->started_ns)
        put_arrow(export, record->rank, before, slice);
}

/* What had begun when the trace ended: slices without an end. */
static void put_open(struct export *export, unsigned number, const struct run_lane lanes[LANES])
{
    char label[LABEL_ROOM], name[EXPORT_TEXT];
    for (const struct run_lane *at = lanes; at < lanes + LANES; at++) {
        const struct op *op = at->busy ? run_op(run_schedule_numbered(export->model, at->schedule), at->op) : NULL;
        if (op && rank_of(export, number, op->lane) && op_label(label, export->model, at->schedule, (int)at->op))
            event(export, "B", number, op->lane, at->started_ns,
                  "\"name\":%s,\"cat\":\"%s\",\"args\":{\"step\":%u,\"operation\":%u}",
                  quoted(name, label), class_of(op), at->step,
                  at->op);
    }
}

/* ---- counters and instants ---- */

static void put_memory(struct export *export, const struct trace_record *record)
{
    const int number = record->rank, at = record->memory.tier;
    if (at >= TIERS || !rank_of(export, record->rank, LANES) || number >= export->model->ranks) return;
    const struct run_memory *category = export->model->rank[number].tier[at].category;
    uint64_t unattributed = 0;
    char text[EXPORT_TEXT] = "";
    for (int c = 0; c < CATEGORY_CODES; c++)
        if (c >= CATEGORIES) unattributed += category[c].live_bytes;
        else if (category[c].known)
            text_append(text, sizeof text, "%s\"%s\":%" PRIu64, *text ? "," : "", category_name((enum category)c),
                        category[c].live_bytes);
    if (unattributed) text_append(text, sizeof text, "%s\"unattributed\":%" PRIu64, *text ? "," : "", unattributed);
    event(export, "C", record->rank, 0, record->time_ns, "\"name\":\"%s memory (bytes)\",\"args\":{%s}",
          tier_name((enum tier)at), text);
}

static void put_loss(struct export *export, uint64_t time_ns, const char *name, float loss)
{
    if (isfinite(loss))
        event(export, "C", RUN_PID, 0, time_ns, "\"name\":\"%s\",\"args\":{\"loss\":%.9g}", name, (double)loss);
}

static void put_instant(struct export *export, unsigned pid, uint64_t time_ns, const char *kind, const char *text)
{
    char name[EXPORT_TEXT];
    event(export, "i", pid, 0, time_ns, "\"s\":\"%s\",\"cat\":\"%s\",\"name\":%s", pid == RUN_PID ? "g" : "p", kind,
          quoted(name, text));
}

/* Commands, events, lines of the log, states: as the screens tell them. The model makes one notice of gaps that follow each other. */
static void put_notices(struct export *export)
{
    static const char *const kinds[] = {"event", "command", "log", "validation", "state", "gap"};
    const struct run_model *model = export->model;
    struct run_shortage shortage;
    for (int n = run_notices_since(model, export->perfetto.notices); n < model->notice_count; n++) {
        const struct run_notice *notice = &model->notices[n];
        if (notice->kind != NOTICE_GAP)
            put_instant(export, RUN_PID, notice->time_ns,
                        run_notice_shortage(&shortage, notice) ? "out of memory" : kinds[notice->kind], notice->text);
    }
    export->perfetto.notices = run_notices_seen(model);
}

static void put_record(struct export *export, const struct trace_record *record)
{
    char text[64];
    switch ((unsigned)record->kind) {
    case TRACE_OP_END: put_op(export, record); break;
    case TRACE_MEMORY: put_memory(export, record); break;
    case TRACE_STEP_BEGIN:
        snprintf(text, sizeof text, "step %u", record->step_begin.step);
        if (rank_of(export, record->rank, LANES)) put_instant(export, record->rank, record->time_ns, "step", text);
        break;
    case TRACE_STEP_END:
        if (record->rank == 0 && !record->step_end.skipped)
            put_loss(export, record->time_ns, "loss", record->step_end.loss);
        break;
    case TRACE_VALIDATION: put_loss(export, record->time_ns, "validation loss", record->validation.loss); break;
    case TRACE_GAP:
        snprintf(text, sizeof text, "%" PRIu64 " records are missing", record->gap.records);
        put_instant(export, RUN_PID, record->time_ns, "gap",
                    record->gap.records ? text : "records are missing from here on");
        break;
    }
    put_notices(export);
}

static void end(struct export *export)
{
    const struct run_model *model = export->model;
    for (int rank = 0; rank < model->ranks && !model->ended; rank++)
        put_open(export, (unsigned)rank, model->rank[rank].lane);
    put(export->out,
        "\n],\"otherData\":{\"program\":\"zerolab\",\"first_record_ns\":\"%" PRIu64 "\",\"simulated\":%s}}\n",
        export->base_ns, model->header.simulated ? "true" : "false");
}

static void forget_rank(void *rank)
{
    free(((struct perfetto_rank *)rank)->slices);
}

const struct export_format export_perfetto = {.rank_bytes = sizeof(struct perfetto_rank),
                                              .begin = begin,
                                              .put = put_record,
                                              .end = end,
                                              .forget_rank = forget_rank};
