/* Tables of comma-separated values. The first line has the names of the columns, with units; an empty cell is unknown. Three tables are
 * records as kinds.def has them, with names in place of numbers of tiers, categories, traffic and links. */
#include <math.h>
#include <string.h>

#include "engine/export/parts.h"

enum { STEPS, COLLECTIVES, MEMORY, OPERATIONS };

static const struct table {
    const char *file;
    enum trace_kind kind;
    const char *more;
} tables[] = {
    [STEPS] = {"steps.csv", TRACE_STEP_END, ",begun_ns"},
    [COLLECTIVES] = {"collectives.csv", TRACE_TRAFFIC, ",link_busy_ns,bytes_per_s"},
    [MEMORY] = {"memory.csv", TRACE_MEMORY, ""},
    [OPERATIONS] = {"operations.csv", TRACE_OP_END, ",name,lane,phase,traffic,unit,bucket,micro_step,payload_bytes"}};

/* `traffic` waits for the LINK record that follows it; kind 0: there is none. */
struct csv_rank {
    uint32_t step;
    uint64_t begun_ns;
    struct trace_record traffic;
};

static void begin(struct export *export)
{
    struct export_field fields[EXPORT_FIELDS];
    for (int t = 0; t <= OPERATIONS; t++) {
        const int count = export_fields(fields, &(struct trace_record){.kind = tables[t].kind});
        export->csv[t] = export_open(export, tables[t].file);
        put(export->csv[t], "rank,time_ns%s", t == MEMORY ? ",step" : "");
        for (int f = 0; f < count; f++) put(export->csv[t], ",%s", fields[f].name);
        put(export->csv[t], "%s\n", tables[t].more);
    }
}

/* NULL: it is just a number. */
static const char *name_of(const char *field, uint64_t code)
{
    if (!strcmp(field, "tier")) return code < TIERS ? tier_name((enum tier)code) : NULL;
    if (!strcmp(field, "category")) return code < CATEGORIES ? category_name((enum category)code) : "unattributed";
    if (!strcmp(field, "traffic")) return code < TRAFFIC_KINDS ? traffic_name((enum traffic)code) : NULL;
    return !strcmp(field, "link") && code < LINKS ? link_name((enum link)code) : NULL;
}

static bool is_unknown(const struct export_field *field)
{
    const bool time = !strcmp(field->name, "issued_ns") || !strcmp(field->name, "ready_ns");
    return field->type == FIELD_REAL ? !isfinite(field->real)
                                     : field->negative || (time && !field->whole) || /* waited_on -1: nothing */
                                           (!strcmp(field->name, "stage") && field->whole == TRACE_NO_STAGE);
}

/* The fields of a record, without the end of the row. */
static gzFile put_row(struct export *export, int t, const struct csv_rank *rank, const struct trace_record *record)
{
    struct export_field fields[EXPORT_FIELDS];
    const int count = export_fields(fields, record);
    char step[EXPORT_NUMBER];
    gzFile out = export->csv[t];
    put(out, "%u,%" PRIu64, record->rank, record->time_ns);
    if (t == MEMORY) put(out, ",%s", if_known(step, rank->step, rank->step, ""));
    for (const struct export_field *field = fields; field < fields + count; field++) {
        const char *name = field->type == FIELD_WHOLE ? name_of(field->name, field->whole) : NULL;
        if (name || is_unknown(field)) put(out, ",%s", name ? name : "");
        else if (field->type == FIELD_REAL) put(out, ",%.*g", field->digits, field->real);
        else put(out, ",%" PRIu64, field->whole);
    }
    return out;
}

/* A name that a trace may have from elsewhere: quoted, and without control characters. */
static void put_name(gzFile out, const char *name)
{
    put(out, ",\"");
    for (; name && *name; name++) put(out, *name == '"' ? "\"\"" : "%c", (unsigned char)*name < ' ' ? '?' : *name);
    put(out, "\"");
}

static void put_op(struct export *export, struct csv_rank *rank, const struct trace_record *record)
{
    struct export_op of;
    char label[LABEL_ROOM], bucket[EXPORT_NUMBER], micro_step[EXPORT_NUMBER];
    if (!export_op_of(export, record, &of)) return;
    const struct op *op = of.op;
    gzFile out = put_row(export, OPERATIONS, rank, record);
    op_label(label, export->model, of.from->schedule, (int)of.from->op);
    put_name(out, label);
    put_name(out, run_lane_name(export->model, op->lane));
    put(out, ",%s,%s", phase_name(op->phase), lane_computes(op->lane) ? "" : traffic_name(traffic_of_op(op->kind)));
    put_name(out, run_unit_name(export->model, op->unit));
    put(out, ",%s,%s,%" PRId64 "\n", if_known(bucket, op->bucket >= 0, op->bucket, ""),
        if_known(micro_step, op->micro_step >= 0, op->micro_step, ""), op->bytes);
}

/* link NULL: none was recorded. */
static void put_traffic(struct export *export, struct csv_rank *rank, const struct trace_of_link *link)
{
    const struct trace_of_traffic *from = &rank->traffic.traffic;
    char busy[EXPORT_NUMBER];
    if (!rank->traffic.kind) return;
    if (link && (link->step != from->step || link->traffic != from->traffic || link->link != from->link)) link = NULL;
    const uint64_t busy_ns = from->busy_ns ? from->busy_ns : link ? link->busy_ns : 0;
    gzFile out = put_row(export, COLLECTIVES, rank, &rank->traffic);
    put(out, ",%s,", if_known(busy, link, link ? (int64_t)link->busy_ns : 0, ""));
    if (busy_ns) put(out, "%.9g", (double)from->sent_bytes * 1e9 / (double)busy_ns);
    put(out, "\n");
    rank->traffic.kind = 0;
}

static void put_record(struct export *export, const struct trace_record *record)
{
    struct csv_rank *rank = export_rank(export, record->rank);
    char begun[EXPORT_NUMBER];
    if (!rank) return;
    if (record->kind != TRACE_LINK) put_traffic(export, rank, NULL);
    switch ((unsigned)record->kind) {
    case TRACE_STEP_BEGIN: rank->step = record->step_begin.step, rank->begun_ns = record->time_ns; break;
    case TRACE_STEP_END:
        put(put_row(export, STEPS, rank, record), ",%s\n",
            if_known(begun, rank->begun_ns, (int64_t)rank->begun_ns, ""));
        rank->begun_ns = 0;
        break;
    case TRACE_OP_END: put_op(export, rank, record); break;
    case TRACE_TRAFFIC: rank->traffic = *record; break;
    case TRACE_LINK: put_traffic(export, rank, &record->link); break;
    case TRACE_MEMORY: put(put_row(export, MEMORY, rank, record), "\n"); break;
    }
}

static void end(struct export *export)
{
    for (int rank = 0; rank < export->rank_count; rank++)
        if (export->ranks[rank]) put_traffic(export, export->ranks[rank], NULL);
}

const struct export_format export_csv = {
    .folder = true, .rank_bytes = sizeof(struct csv_rank), .begin = begin, .put = put_record, .end = end};
