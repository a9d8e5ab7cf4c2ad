/* A JSON object for each record, made from kinds.def: its kind, rank and time, then its fields by their names. */
#include "engine/export/parts.h"

struct jsonl {
    FILE *out;
};

static void begin(struct export *export)
{
    ((struct jsonl *)export->state)->out = export_open(export, NULL, false);
}

static void put_whole(FILE *out, unsigned long long value)
{
    fprintf(out, "%llu", value);
}
static void put_signed(FILE *out, long long value)
{
    fprintf(out, "%lld", value);
}

#define PUT_u8(value)   put_whole(out, value)
#define PUT_u16(value)  put_whole(out, value)
#define PUT_u32(value)  put_whole(out, value)
#define PUT_u64(value)  put_whole(out, value)
#define PUT_time(value) put_whole(out, value)
#define PUT_i64(value)  put_signed(out, value)
#define PUT_f32(value)  put_json_number(out, (double)(value), 9)
#define PUT_f64(value)  put_json_number(out, value, 17)
#define PUT_text(value) put_json_text(out, (value).at, (value).bytes)

static void put_fields(FILE *out, const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) fputs(",\"" #field "\":", out), PUT_##type(of->field);
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    case number: {                                                                                                     \
        const struct trace_of_##name *of = &record->name;                                                              \
        FIELDS(F)                                                                                                      \
        break;                                                                                                         \
    }
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
}

static void put(struct export *export, const struct trace_record *record)
{
    FILE *out = ((struct jsonl *)export->state)->out;
    const char *name = trace_kind_name(record->kind);
    if (name) fprintf(out, "{\"kind\":\"%s\"", name);
    else fprintf(out, "{\"kind\":%u", (unsigned)record->kind);
    fprintf(out, ",\"rank\":%u,\"time_ns\":%llu", record->rank, (unsigned long long)record->time_ns);
    put_fields(out, record);
    fputs("}\n", out);
}

const struct export_format export_jsonl = {.state_bytes = sizeof(struct jsonl), .begin = begin, .put = put};
