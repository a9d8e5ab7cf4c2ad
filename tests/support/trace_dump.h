/* Any record as a line of text, and the table of kinds as a page of documentation: both from kinds.def. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "engine/trace/record.h"

static inline void print_text(FILE *out, struct trace_text text)
{
    putc('"', out);
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '\n') fputs("\\n", out);
        else if (c == '"' || c == '\\') fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~') fprintf(out, "\\x%02x", c);
        else putc(c, out);
    }
    putc('"', out);
}

#define PRINT_u8(name, value)   fprintf(out, " " name "=%u", value)
#define PRINT_u16               PRINT_u8
#define PRINT_u32               PRINT_u8
#define PRINT_u64(name, value)  fprintf(out, " " name "=%" PRIu64, value)
#define PRINT_time PRINT_u64
#define PRINT_i64(name, value)  fprintf(out, " " name "=%" PRId64, value)
#define PRINT_f32(name, value)  fprintf(out, " " name "=%.9g", (double)value)
#define PRINT_f64(name, value)  fprintf(out, " " name "=%.17g", value)
#define PRINT_text(name, value) (fputs(" " name "=", out), print_text(out, value))

static inline void print_fields(FILE *out, const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) PRINT_##type(#field, of->field);
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

/* "12.345678901 r0 op_end schedule=1 step=2 ..." and a newline. Text is printed so that no byte of it can do anything to a
 * terminal: what is not plain ASCII comes as \xNN. */
static inline void trace_dump(FILE *out, const struct trace_record *record)
{
    const char *name = trace_kind_name(record->kind);
    fprintf(out, "%" PRIu64 ".%09" PRIu64, record->time_ns / 1000000000, record->time_ns % 1000000000);
    if (record->rank == TRACE_RANK_ALL) fputs(" all", out);
    else fprintf(out, " r%u", record->rank);
    if (name) fprintf(out, " %s", name);
    else fprintf(out, " kind_%u", (unsigned)record->kind);
    print_fields(out, record);
    putc('\n', out);
}

/* "`step` u32: from 1; " */
static inline void document_field(FILE *out, const char *type, const char *field, const char *help)
{
    fprintf(out, "`%s` %s%s%s; ", field, type, *help ? ": " : "", help);
}

/* One table in Markdown: number, name, fields, meaning (docs/trace-records.md is made with it). */
static inline void trace_document(FILE *out)
{
    fputs("| number | kind | meaning | fields |\n|---|---|---|---|\n", out);
#define F(type, field, help) document_field(out, #type, #field, help);
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    fprintf(out, "| %d | `%s` | %s | ", number, #name, help);                                                          \
    FIELDS(F)                                                                                                          \
    fputs("|\n", out);
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
}
