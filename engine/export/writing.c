/* JSON, names and fields, as several formats write them. */
#include <stdarg.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "engine/export/parts.h"

void put(gzFile out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (out) gzvprintf(out, format, arguments);
    va_end(arguments);
}

/* Writes the character at `at` as a JSON string has it; returns its bytes. */
static size_t escape(char out[16], const char *at, size_t bytes)
{
    const char *next = at;
    const unsigned character = utf8_take(&next, at + bytes);
    if (character >= 0x10000)
        snprintf(out, 16, "\\u%04x\\u%04x", 0xd7c0 + (character >> 10), 0xdc00 + (character & 0x3ff));
    else if (character < ' ' || character > '~') snprintf(out, 16, "\\u%04x", character);
    else snprintf(out, 16, "%s%c", character == '"' || character == '\\' ? "\\" : "", (int)character);
    return (size_t)(next - at);
}

void put_json_text(gzFile out, struct trace_text text)
{
    char piece[16];
    put(out, "\"");
    for (size_t i = 0; i < text.bytes && out; gzputs(out, piece)) i += escape(piece, text.at + i, text.bytes - i);
    put(out, "\"");
}

const char *quoted(char out[EXPORT_TEXT], const char *text)
{
    size_t used = 1, left = text ? strlen(text) : 0;
    char piece[16];
    if (!text) return "null";
    *out = '"';
    for (; left && used + sizeof piece < EXPORT_TEXT; used += strlen(piece)) {
        const size_t taken = escape(piece, text, left);
        strcpy(out + used, piece);
        text += taken, left -= taken;
    }
    strcpy(out + used, "\"");
    return out;
}

const char *in_us(char out[EXPORT_NUMBER], uint64_t base_ns, uint64_t ns)
{
    const uint64_t since = ns < base_ns ? base_ns - ns : ns - base_ns;
    snprintf(out, EXPORT_NUMBER, "%s%" PRIu64 ".%03u", ns < base_ns ? "-" : "", since / 1000, (unsigned)(since % 1000));
    return out;
}

const char *if_known(char out[EXPORT_NUMBER], bool known, int64_t value, const char *otherwise)
{
    snprintf(out, EXPORT_NUMBER, "%" PRId64, value);
    return known ? out : otherwise;
}

/* ---- fields ---- */

#define OF_WHOLE(field, sign)                                                                                          \
    .type = FIELD_WHOLE, .negative = sign && (int64_t)of->field < 0,                                                   \
    .whole = sign && (int64_t)of->field < 0 ? -(uint64_t)of->field : (uint64_t)of->field
#define OF_u8(field)   OF_WHOLE(field, 0)
#define OF_u16(field)  OF_WHOLE(field, 0)
#define OF_u32(field)  OF_WHOLE(field, 0)
#define OF_u64(field)  OF_WHOLE(field, 0)
#define OF_time(field) OF_WHOLE(field, 0)
#define OF_i64(field)  OF_WHOLE(field, 1)
#define OF_f32(field)  .type = FIELD_REAL, .real = (double)of->field, .digits = 9
#define OF_f64(field)  .type = FIELD_REAL, .real = of->field, .digits = 17
#define OF_text(field) .type = FIELD_TEXT, .text = of->field

int export_fields(struct export_field fields[EXPORT_FIELDS], const struct trace_record *record)
{
    int count = 0;
    switch ((unsigned)record->kind) {
#define F(type, field, help) fields[count++] = (struct export_field){.name = #field, OF_##type(field)};
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
    return count;
}

/* ---- operations ---- */

bool export_op_of(struct export *export, const struct trace_record *record, struct export_op *found)
{
    *found = (struct export_op){.from = &record->op_end, .ended_ns = record->time_ns};
    found->schedule = run_schedule_numbered(export->model, found->from->schedule);
    found->op = run_op(found->schedule, found->from->op);
    if (found->op && found->from->started_ns && found->from->started_ns <= found->ended_ns) return true;
    export->told->unplaced++;
    return false;
}
