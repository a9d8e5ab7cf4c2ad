/* What the files of this folder share: the state of an export, and how formats write. */
#pragma once

#include <inttypes.h>
#include <zlib.h>

#include "engine/export/export.h"
#include "engine/observe/history.h"

struct export_file { gzFile gz; char name[64]; }; /* name "": the one file */

struct export {
    const struct export_options *options;
    struct run_model *model; /* state of the run, after the record that is being written */
    uint64_t base_ns;        /* time of the first record */
    int first_rank;          /* of the ranks that this pass writes */
    int next_rank;           /* lowest rank seen that a later pass has to write; 0: none */
    void **ranks;            /* [TRACE_RANK_ALL]: the format's state of each rank; export_rank() makes it */
    int rank_count;          /* one more than the highest rank whose state was made */
    struct export_file *files;
    int file_count, file_room;
    struct export_told *told;
    struct error *err; /* the first failure */
    int status;
    gzFile out;        /* of a format that is one file */
    union { struct { uint64_t arrows, notices; } perfetto; gzFile csv[4]; }; /* of formats that are read in one pass; zeroed at first */
};

struct export_format {
    bool folder, per_rank; /* per_rank: files for each rank, so that the trace may be read several times */
    size_t rank_bytes;
    void (*begin)(struct export *export); /* here and below NULL: nothing */
    void (*put)(struct export *export, const struct trace_record *record);
    void (*end)(struct export *export);   /* the trace has ended, or was cut */
    void (*forget_rank)(void *rank);      /* releases what the state of a rank owns */
};

#define X(name, id, help) extern const struct export_format export_##id;
EXPORT_FORMATS(X)
#undef X

/* The state of a rank, zeroed at first. NULL: the rank is of another pass, or the export has failed. */
void *export_rank(struct export *export, int rank);

/* Opens a file of the folder; one whose name ends in .gz is compressed. NULL: the export has failed. */
gzFile export_open(struct export *export, const char *name);

/* ---- writing.c; `out` may be NULL ---- */

void put(gzFile out, const char *format, ...) __attribute__((format(printf, 2, 3))); /* short texts: less than 64 KiB */
void put_json_text(gzFile out, struct trace_text text); /* a JSON string in ASCII; U+FFFD for what is not UTF-8 */

enum { EXPORT_TEXT = 512, EXPORT_NUMBER = 32 };
const char *quoted(char out[EXPORT_TEXT], const char *text);                   /* the same for a short text, in `out`; text NULL: null */
const char *in_us(char out[EXPORT_NUMBER], uint64_t base_ns, uint64_t ns);     /* microseconds since base_ns, no rounding: "-12.345" */
const char *if_known(char out[EXPORT_NUMBER], bool known, int64_t value, const char *otherwise);

/* ---- records and operations ---- */

/* The fields of a record, by their names in kinds.def. */
struct export_field { const char *name; enum { FIELD_WHOLE, FIELD_REAL, FIELD_TEXT } type; int digits; bool negative; uint64_t whole; double real; struct trace_text text; };
enum { EXPORT_FIELDS = 16 };
int export_fields(struct export_field fields[EXPORT_FIELDS], const struct trace_record *record);

/* Finds the operation of an OP_END record. False: its schedule is unknown, or its times are not in order; it is counted as unplaced. */
struct export_op { const struct run_schedule *schedule; const struct op *op; const struct trace_of_op_end *from; uint64_t ended_ns; };
bool export_op_of(struct export *export, const struct trace_record *record, struct export_op *found);
