/* Any record as a line of text, and the table of kinds as a page of documentation: both from kinds.def. */
#ifndef ENGINE_TRACE_DUMP_H
#define ENGINE_TRACE_DUMP_H

#include <stdio.h>

#include "engine/trace/record.h"

/* "12.345678901 r0 op_end schedule=1 step=2 ..." and a newline. Text is printed so that no byte of it can do anything to a
 * terminal: what is not plain ASCII comes as \xNN. */
void trace_dump(FILE *out, const struct trace_record *record);

/* One table in Markdown: number, name, fields, meaning (docs/trace-records.md is made with it). */
void trace_document(FILE *out);

#endif
