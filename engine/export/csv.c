/* Four tables of comma-separated values. The first line has the names of the columns, with units; an empty cell is unknown. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "engine/export/parts.h"

/* id, name of the file, columns */
#define TABLES(X)                                                                                                      \
    X(STEPS, "steps.csv",                                                                                              \
      "step,rank,schedule,stage,skipped,begun_ns,ended_ns,total_ns,paused_ns,loss,grad_norm,learning_rate,loss_scale," \
      "tokens,micro_steps")                                                                                            \
    X(OPERATIONS, "operations.csv",                                                                                    \
      "step,rank,schedule,operation,name,lane,phase,traffic,unit,bucket,micro_step,payload_bytes,sent_bytes,"          \
      "issued_ns,ready_ns,started_ns,ended_ns,waited_on,peers_ns,paced_ns")                                            \
    X(COLLECTIVES, "collectives.csv", "step,rank,traffic,link,count,sent_bytes,busy_ns,link_busy_ns,bytes_per_s")      \
    X(MEMORY, "memory.csv", "time_ns,rank,step,tier,category,live_bytes,reserved_bytes,peak_bytes")

enum {
#define X(id, file, columns) TABLE_##id,
    TABLES(X)
#undef X
        TABLE_COUNT
};

struct csv {
    FILE *out[TABLE_COUNT];
};

/* `traffic` waits for the LINK record that follows it. */
struct csv_rank {
    uint32_t step;
    uint64_t begun_ns;
    struct trace_of_traffic traffic;
};

static void begin(struct export *export)
{
    struct csv *to = export->state;
#define X(id, file, columns) fputs(columns "\n", to->out[TABLE_##id] = export_open(export, file, false));
    TABLES(X)
#undef X
}

/* ---- cells ---- */

static void put_number(FILE *out, double value)
{
    putc(',', out);
    if (isfinite(value)) fprintf(out, "%.9g", value);
}

static void put_known(FILE *out, bool known, int64_t value)
{
    putc(',', out);
    if (known) fprintf(out, "%" PRId64, value);
}

/* Quoted where it has to be; no control characters. NULL: unknown. */
static void put_text(FILE *out, const char *text)
{
    const bool quoted = text && strpbrk(text, ",\"");
    fputs(quoted ? ",\"" : ",", out);
    for (const char *at = text ? text : ""; *at; at++) {
        if (*at == '"') putc('"', out);
        putc((unsigned char)*at < ' ' ? '?' : *at, out);
    }
    if (quoted) putc('"', out);
}

/* ---- rows ---- */

static void put_step(struct export *export, struct csv_rank *rank, const struct trace_record *record)
{
    const struct trace_of_step_end *from = &record->step_end;
    FILE *out = ((struct csv *)export->state)->out[TABLE_STEPS];
    fprintf(out, "%u,%u,%u", from->step, record->rank, from->schedule);
    put_known(out, run_stage_of(from->stage) != RUN_UNKNOWN, from->stage);
    put_known(out, true, from->skipped);
    put_known(out, rank->begun_ns, (int64_t)rank->begun_ns);
    fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, record->time_ns, from->total_ns, from->paused_ns);
    put_number(out, (double)from->loss);
    put_number(out, (double)from->grad_norm);
    put_number(out, (double)from->learning_rate);
    put_number(out, (double)from->loss_scale);
    fprintf(out, ",%u,%u\n", from->tokens, from->micro_steps);
    rank->begun_ns = 0;
}

static void put_op(struct export *export, const struct trace_record *record)
{
    FILE *out = ((struct csv *)export->state)->out[TABLE_OPERATIONS];
    struct export_op of;
    char label[EXPORT_LABEL];
    if (!export_op_of(export, record, &of)) return;
    const struct trace_of_op_end *from = of.from;
    const bool computes = lane_computes(of.op->lane);
    export_label(label, export->model, of.op);
    fprintf(out, "%u,%u,%u,%u", from->step, record->rank, from->schedule, from->op);
    put_text(out, label);
    fprintf(out, ",%s,%s,%s", lane_name(of.op->lane), phase_name(of.op->phase),
            computes ? "" : traffic_name(traffic_of_op(of.op->kind)));
    put_text(out, export_unit(export->model, of.op->unit));
    put_known(out, of.op->bucket >= 0, of.op->bucket);
    put_known(out, of.op->micro_step >= 0, of.op->micro_step);
    fprintf(out, ",%" PRId64 ",%" PRIu64, of.op->bytes, from->sent_bytes);
    put_known(out, from->issued_ns, (int64_t)from->issued_ns);
    put_known(out, from->ready_ns, (int64_t)from->ready_ns);
    fprintf(out, ",%" PRIu64 ",%" PRIu64, from->started_ns, of.ended_ns);
    put_known(out, from->waited_on >= 0, from->waited_on);
    fprintf(out, ",%" PRIu64 ",%" PRIu64 "\n", from->peers_ns, from->paced_ns);
}

/* link NULL: none was recorded. */
static void put_traffic(struct export *export, unsigned number, struct csv_rank *rank, const struct trace_of_link *link)
{
    const struct trace_of_traffic *from = &rank->traffic;
    FILE *out = ((struct csv *)export->state)->out[TABLE_COLLECTIVES];
    if (!from->count) return;
    if (link && (link->step != from->step || link->traffic != from->traffic || link->link != from->link)) link = NULL;
    const uint64_t busy_ns = from->busy_ns ? from->busy_ns : link ? link->busy_ns : 0;
    fprintf(out, "%u,%u,%s,%s,%u,%" PRIu64, from->step, number, traffic_name((enum traffic)from->traffic),
            link_name((enum link)from->link), from->count, from->sent_bytes);
    put_known(out, from->busy_ns, (int64_t)from->busy_ns);
    put_known(out, link, link ? (int64_t)link->busy_ns : 0);
    put_number(out, busy_ns ? (double)from->sent_bytes * 1e9 / (double)busy_ns : NAN);
    putc('\n', out);
    rank->traffic.count = 0;
}

static void put_memory(struct export *export, struct csv_rank *rank, const struct trace_record *record)
{
    const struct trace_of_memory *from = &record->memory;
    FILE *out = ((struct csv *)export->state)->out[TABLE_MEMORY];
    if (from->tier >= TIERS) return;
    fprintf(out, "%" PRIu64 ",%u", record->time_ns, record->rank);
    put_known(out, rank->step, rank->step);
    fprintf(out, ",%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", tier_name((enum tier)from->tier),
            from->category < CATEGORIES ? category_name((enum category)from->category) : "unattributed",
            from->live_bytes, from->reserved_bytes, from->peak_bytes);
}

static void put(struct export *export, const struct trace_record *record)
{
    struct csv_rank *rank = record->rank == TRACE_RANK_ALL ? NULL : export_rank(export, record->rank);
    if (!rank) return;
    if (record->kind != TRACE_LINK) put_traffic(export, record->rank, rank, NULL);
    switch ((unsigned)record->kind) {
    case TRACE_STEP_BEGIN:
        rank->step = record->step_begin.step;
        rank->begun_ns = record->time_ns;
        break;
    case TRACE_STEP_END: put_step(export, rank, record); break;
    case TRACE_OP_END: put_op(export, record); break;
    case TRACE_TRAFFIC:
        if (record->traffic.traffic < TRAFFIC_KINDS && record->traffic.link < LINKS) rank->traffic = record->traffic;
        break;
    case TRACE_LINK: put_traffic(export, record->rank, rank, &record->link); break;
    case TRACE_MEMORY: put_memory(export, rank, record); break;
    }
}

static void end(struct export *export)
{
    for (int rank = 0; rank < export->rank_room; rank++)
        if (export->ranks[rank]) put_traffic(export, (unsigned)rank, export->ranks[rank], NULL);
}

const struct export_format export_csv = {.folder = true,
                                         .state_bytes = sizeof(struct csv),
                                         .rank_bytes = sizeof(struct csv_rank),
                                         .begin = begin,
                                         .put = put,
                                         .end = end};
