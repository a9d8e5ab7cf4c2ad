/* The history of a run: the times of every operation of every lane, every change of a rank's memory, and the times of
 * each step. It is folded from the same records as the run model:
 *
 *     struct history *history = history_new(0);
 *     while (source_next(source, &record) == SOURCE_RECORD) {
 *         run_model_fold(model, &record);
 *         history_fold(history, model, &record);
 *     }
 *
 * Memory is bounded. The newest operations and changes are kept in full. Older ones are sums over intervals, which grow
 * with the run, so that a whole run can be drawn. All is kept in full from history_whole_from() on. To see an older
 * time in full, fold that part of the file into another history. A gap (lost records) is unknown, not idle. Times are
 * the trace's (clock_ns()). */
#pragma once

#include "engine/observe/questions.h"

/* stalls.def: STALL(ID, letter, "name", "what it means") */
enum stall {
#define STALL(ID, letter, name, help) STALL_##ID,
#include "engine/observe/stalls.def"
#undef STALL
    STALLS
};

/* One operation of one rank. ended_ns 0: it has begun and not ended. */
struct span {
    uint64_t issued_ns, ready_ns, started_ns, ended_ns; /* ready_ns is 0 until the operation has ended */
    uint64_t peers_ns, paced_ns, sent_bytes;
    uint32_t schedule, step, op;
    int32_t waited_on; /* the dependency that ended last, an operation of the same schedule; -1: none */
    enum purpose purpose;
    enum op_kind kind;
    const struct use *use; /* the use of a unit; NULL: the operation is not a use of a unit */
    enum phase phase;
    enum stall stall;          /* why its lane waited before it (stall_before()); known once it has ended */
    int unit, bucket, micro_step; /* -1: none */
    bool prefetch;
};

struct history;

enum { HISTORY_BYTES = 64 << 20 }; /* kept when the caller says 0 */

struct history *history_new(size_t bytes); /* NULL: no memory */
void history_free(struct history *history);
/* For a new history that begins in mid-run, at from_ns: the run before it is unknown. */
void history_begin(struct history *history, uint64_t first_ns, uint64_t from_ns);
/* After run_model_fold() with the same record: the model has the schedule that the record names. */
void history_fold(struct history *history, const struct run_model *model, const struct trace_record *record);

/* The most ranks at any time in the window: a run relaunched with other ranks has parts (struct run_part). */
int history_ranks(const struct history *history, uint64_t from_ns, uint64_t to_ns);
uint64_t history_first_ns(const struct history *history);      /* time of the first record ever; 0: none */
uint64_t history_last_ns(const struct history *history);       /* time of the newest record */
uint64_t history_whole_from(const struct history *history);    /* from here on everything is kept in full */

/* ---- operations: each lane's are sorted by time -------------------------------------------------- */

/* Numbers of the first span that ends after from_ns and of the one past the last that starts before to_ns. */
void history_spans(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns, int64_t *first, int64_t *end);
const struct span *history_span(const struct history *history, int rank, enum lane lane, int64_t number); /* NULL: not kept (any more) */
/* The span of operation `op` in `step` (the newest attempt); -1: not kept. */
int64_t history_span_of(const struct history *history, int rank, enum lane lane, uint32_t step, uint32_t op);

/* The IO record of an NVMe operation. False: none was recorded (no transfer, or an older trace), or it is not kept. */
bool history_io(const struct history *history, int rank, enum lane lane, const struct span *span, struct trace_of_io *out);

/* What a lane is busy with: a phase of computing (enum phase), or one of these. Another program's lane may have any of them. */
enum busy {
    BUSY_SECONDARY = PHASES, BUSY_QUANTIZE, BUSY_DEQUANTIZE,
    BUSY_GATHER, BUSY_GATHER_AHEAD, BUSY_REDUCE_SCATTER, BUSY_ALL_REDUCE, BUSY_REFRESH, BUSY_AGREE, BUSY_OTHER,
    BUSY_D2H, BUSY_H2D, BUSY_NVME_READ, BUSY_NVME_WRITE,
    BUSY_KINDS,
};
enum busy busy_of_op(enum op_kind kind, enum phase phase, bool prefetch);

/* A lane's time in a window, for one column of a picture. Whole intervals come from the sums. The edges of the window come from
 * spans where these are kept, else from a share of the interval's sum. */
struct history_load {
    bool unknown;                      /* records were lost, or this time is not known */
    uint64_t busy_ns[BUSY_KINDS];
    uint64_t waited_ns[STALLS];        /* ready - issued, clipped to the window, by cause */
};
void history_load(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns, struct history_load *load);

/* ---- steps --------------------------------------------------------------------------------------------------------- */

struct history_step { uint32_t step, schedule; int stage; uint64_t begun_ns, ended_ns; }; /* over all ranks; stage as in struct run_step; ended_ns 0: in progress */
int history_step_count(const struct history *history);
const struct history_step *history_step(const struct history *history, int number); /* oldest kept first */
/* The step that time_ns lies in, else the last that began before it; NULL: none did. */
const struct history_step *history_step_at(const struct history *history, uint64_t time_ns);
const struct history_step *history_step_numbered(const struct history *history, uint32_t step);
/* Writes the times up to until_ns at which operations of a step began and ended on a rank, in order, each once. rank
 * -1: an operation's first begin and last end over all ranks. Returns how many; only the newest room / 2 operations count. */
int history_moments(const struct history *history, int rank, const struct history_step *step, uint64_t until_ns,
                    uint64_t times[], int room);

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* The bytes that a rank held in a tier just before time_ns. `known` false: not kept. */
struct run_instant history_held(const struct history *history, int rank, enum tier tier, uint64_t time_ns);
/* The tier's fullest instant in [from_ns, to_ns), and its time. From the sums: live_bytes only (held_bytes all 0). */
struct run_instant history_fullest(const struct history *history, int rank, enum tier tier, uint64_t from_ns, uint64_t to_ns, uint64_t *when_ns);

/* The most bytes that one category held in [from_ns, to_ns), and when. False: not kept in full. */
bool history_most(const struct history *history, int rank, enum tier tier, enum category category, uint64_t from_ns, uint64_t to_ns, uint64_t *most_bytes, uint64_t *when_ns);

/* ---- gaps ---------------------------------------------------------------------------------------------------------- */
bool history_has_gap(const struct history *history, int rank, uint64_t from_ns, uint64_t to_ns); /* rank -1: a gap on any rank */
/* Whether the step has ended, and all records of it came and are still kept. */
bool history_step_is_whole(const struct history *history, const struct history_step *step);

/* ---- stall.c: why an operation waited (from its record and the schedule), for which operation, and the reason ---- */

struct stall_reason {
    enum stall why;
    uint64_t ns;     /* ready - issued */
    int op;          /* the operation waited for; -1: none */
};

/* Why the lane waited before this operation. STALL_NONE, 0 ns: it did not wait. */
struct stall_reason stall_before(const struct run_schedule *plan, const struct span *span);

extern const struct stall_words { char letter; const char *name, *help; } stall_table[STALLS];

/* ---- labels.c: what operations are called, on screens and in exports ---- */

enum { LABEL_ROOM = 64 };

const char *run_unit_name(const struct run_model *model, int unit); /* NULL: none, or without a name */

/* "block' 3" (the prime: backward), "gather block 2", "reduce bucket 1"; or another program's own name. op_label(): false if the
 * operation is unknown. */
void span_label(char out[LABEL_ROOM], const struct run_model *model, const struct span *span);
bool op_label(char out[LABEL_ROOM], const struct run_model *model, uint32_t schedule, int op);
/* Number of the operation of this kind on a unit or a bucket. */
int op_number(const struct run_model *model, enum op_kind kind, int unit, int bucket); /* -1: none */
