/* What the files of this folder share: the state of an export, and how formats write. */
#ifndef ENGINE_EXPORT_PARTS_H
#define ENGINE_EXPORT_PARTS_H

#include "engine/export/export.h"
#include "engine/observe/questions.h"

struct export {
    const struct export_options *options;
    struct run_model *model;  /* the record that is written has been folded */
    uint64_t base_ns;         /* time of the first record: times are counted from there */
    int first_rank;           /* of the ranks that this pass writes; of a format without files for each rank: 0 */
    bool more_ranks;          /* records of later ranks were seen */
    void *state;              /* of the format; zeroed at the start of a pass */
    void **ranks;             /* its state of each rank, made by export_rank() */
    int rank_room;
    struct export_file { FILE *stream; char name[64]; int cause; } **files;
    int file_count, file_room;
    struct export_told *told;
    struct error *err;        /* where the first failure is stored */
    int status;
};

struct export_format {
    bool folder, per_rank;    /* per_rank: files for each rank, so that the trace may be read several times */
    size_t state_bytes, rank_bytes;
    void (*begin)(struct export *export); /* NULL: nothing */
    void (*put)(struct export *export, const struct trace_record *record);
    void (*end)(struct export *export);   /* the trace has ended, or was cut; NULL: nothing */
    void (*forget_rank)(void *rank);      /* releases what the state of a rank owns; NULL: nothing */
};

#define X(name, id, help) extern const struct export_format export_##id;
EXPORT_FORMATS(X)
#undef X

/* All below: after a failure they do nothing, and the export ends with it. */

/* The state of a rank, zeroed at first. NULL: the rank is of another pass, or no memory. */
void *export_rank(struct export *export, int rank);

/* Opens a file of the folder, or with name NULL the one file; a name that ends in .gz is compressed. Never NULL: after a failure what is
 * written goes nowhere. */
FILE *export_open(struct export *export, const char *name, bool gzip);

/* ---- writing.c ---- */

void put_json_text(FILE *out, const char *at, size_t bytes); /* a JSON string in ASCII; U+FFFD for what is not UTF-8 */
void put_json_number(FILE *out, double value, int digits);   /* null if it is not finite */
/* Microseconds with three decimals, no rounding: "12.345". */
void put_us(FILE *out, uint64_t ns);
void put_us_since(FILE *out, uint64_t base_ns, uint64_t ns); /* may be negative */

/* The name of an operation as the timeline has it: "block' 3", "gather block 2", "reduce bucket 1". */
enum { EXPORT_LABEL = 64 };
void export_label(char out[EXPORT_LABEL], const struct run_model *model, const struct op *op);
const char *export_unit(const struct run_model *model, int unit); /* NULL: none, or without a name */

/* An OP_END with its operation. False: its schedule is unknown, or its times are not in order; it is counted as unplaced. */
struct export_op {
    const struct run_schedule *schedule;
    const struct op *op;
    const struct trace_of_op_end *from;
    uint64_t ended_ns;
};
bool export_op_of(struct export *export, const struct trace_record *record, struct export_op *found);

static inline uint64_t export_waited(const struct trace_of_op_end *from)
{
    return from->issued_ns && from->ready_ns > from->issued_ns ? from->ready_ns - from->issued_ns : 0;
}

#endif
