/* A JSON object for each record, made from kinds.def: its kind, rank and time, then its fields by their names. */
#include <math.h>

#include "engine/export/parts.h"

static void put_record(struct export *export, const struct trace_record *record)
{
    struct export_field fields[EXPORT_FIELDS];
    const int count = export_fields(fields, record);
    const char *name = trace_kind_name(record->kind);
    char digits[EXPORT_NUMBER], text[EXPORT_TEXT];
    put(export->out, "{\"kind\":%s", name ? quoted(text, name) : if_known(digits, true, record->kind, ""));
    put(export->out, ",\"rank\":%u,\"time_ns\":%" PRIu64, record->rank, record->time_ns);
    for (const struct export_field *field = fields; field < fields + count; field++) {
        put(export->out, ",\"%s\":", field->name);
        if (field->type == FIELD_TEXT) put_json_text(export->out, field->text);
        else if (field->type == FIELD_WHOLE) put(export->out, "%s%" PRIu64, field->negative ? "-" : "", field->whole);
        else if (isfinite(field->real)) put(export->out, "%.*g", field->digits, field->real);
        else put(export->out, "null");
    }
    put(export->out, "}\n");
}

const struct export_format export_jsonl = {.put = put_record};
