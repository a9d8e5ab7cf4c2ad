/* Writes a trace in a form that other programs read. docs/EXPORT.md says what each field is. The trace is read record by record,
 * once for each EXPORT_RANKS_AT_ONCE ranks where a format has files for each rank; memory holds the state of the run and one step,
 * never the whole run.
 *
 *     const struct export_format *format = export_format_named("perfetto");      NULL: there is none
 *     status = export_trace(&(struct export_options){.trace = "run.zlt", .format = format, .out = file}, &told, err);
 *
 * A format is a row of EXPORT_FORMATS and a file of this folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"

/* name, its struct export_format, what it is */
#define EXPORT_FORMATS(X)                                                            \
    X("perfetto", perfetto, "a file for ui.perfetto.dev and chrome://tracing")       \
    X("hta", hta, "a folder with a file a rank for Holistic Trace Analysis")         \
    X("memory-timeline", memory, "a folder with PyTorch's raw memory events of each rank and tier") \
    X("csv", csv, "a folder with tables of steps, operations, collectives, memory")  \
    X("jsonl", jsonl, "a file with a JSON object for each record")

enum { EXPORT_RANKS_AT_ONCE = 64 };

struct export_format;

struct export_options {
    const char *trace;
    const struct export_format *format;
    FILE *out;          /* output of a format that is one file; the caller closes it */
    const char *path;   /* the folder of a format with several files, made where it is missing; else the name of `out` */
    bool (*stops)(void *user, uint64_t records); /* called now and then; true: ends with STATUS_RUN. NULL: never */
    void *user;
};

/* What the caller should tell the user. */
struct export_told {
    uint64_t records;
    uint64_t unplaced;     /* operations that could not be written, because the trace lacks their schedule or their begin */
    uint64_t lost;         /* records that the trace says are missing */
    char defect[256];      /* why the trace has no end; "": it has one */
};

const struct export_format *export_format_named(const char *name);
bool export_is_folder(const struct export_format *format);
const char *export_format_names(void); /* "perfetto, hta, ..." */

/* STATUS_INPUT: not a trace, or none of its records is usable; STATUS_USAGE: the folder cannot be made, or is not empty; STATUS_RUN:
 * a write failed, no memory, or stopped: then the files in the folder are removed. A trace that was cut is written as far as it
 * goes: STATUS_OK, and told->defect. */
int export_trace(const struct export_options *options, struct export_told *told, struct error *err);
