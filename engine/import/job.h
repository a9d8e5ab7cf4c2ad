/* What was observed of another program's job, whatever the format: collected rank by rank, then written as a trace.
 *
 *     struct job job = {.parameters = -1};
 *     int64_t op = job_operation(&job, &(struct job_op){.kind = OP_GATHER, .lane = LANE_COMM, .name = "all_gather", ...});
 *     job_add(&job, rank, LANE_COMM, (struct job_span){.started_ns = ..., .ended_ns = ..., .op = (uint32_t)op}) ...
 *     job_settle(&job);             sorts, finds each operation's step, aligns clocks
 *     job_recognise(&job);          what trains here
 *     job_write(&job, path, &err);  once
 *
 * Times are nanoseconds of one clock for each rank, as its source counts them. Without memory a call sets `failed`, so that a reader
 * looks once. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/map.h"
#include "engine/plan/ops.h"

enum { JOB_RANKS_MAX = 4096, JOB_UNITS_MAX = INT16_MAX, JOB_NO_UNIT = -1, JOB_EVIDENCE = 10 };

/* A distinct operation. Of collectives: bytes as struct op has it (gathered or reduced by all), group 0: of all ranks. */
struct job_op {
    enum op_kind kind;
    enum lane lane;
    enum phase phase;
    bool prefetch;
    int unit; /* of job_unit() */
    uint32_t ranks, group;
    uint64_t bytes;
    const char *name; /* copied */
};

/* What a rank did, in one of its lanes; or its memory from a time on; or a step as its rank begins and ends it. */
struct job_span {
    int64_t started_ns, ended_ns;
    union {
        struct {
            uint32_t op;
            uint32_t issued_ns; /* how long before its start it was asked for; 0: unknown */
            uint32_t peers_ns;  /* job_settle() finds it: in it, waiting for the rank that came last */
            uint32_t step;      /* job_settle() finds it: index of the rank's step, from 0 on */
        };
        struct { uint64_t live_bytes, reserved_bytes; };
        struct { uint32_t number; float loss; }; /* number: the source's own; NaN: unknown */
    };
};

/* pushed: how many job_write() has dealt with. */
struct job_lane { struct job_span *at; int count, room, left_out, pushed; char name[24]; };

/* Memory of each tier that the source counts: of GPUs TIER_DEVICE; of a job without GPUs its host memory is the device tier, as of
 * zerolab's own runs. */
enum { JOB_MEMORY = LANES, JOB_STEPS, JOB_LANES };
struct job_rank {
    bool present;
    char host[64];     /* "": unknown */
    int64_t offset_ns; /* taken out of its times by job_settle() */
    struct job_lane lane[JOB_LANES];
};

struct job {
    char program[40], recognised[40], precision[8]; /* "": unknown; recognised: "ZeRO-3 (likely)", "DDP" */
    char evidence[JOB_EVIDENCE][160];
    int evidence_count;
    uint32_t world; /* ranks of the job; 0: unknown */
    unsigned signs; /* of who wrote it: job_sign() */
    int64_t parameters; /* -1: unknown */
    struct job_op *ops;
    int op_count, op_room;
    struct job_unit { char name[24]; int64_t elems; } *units; /* elems -1: unknown */
    int unit_count, unit_room;
    struct job_rank *ranks; /* [rank_count], those that are present and those in between */
    int rank_count, rank_room;
    struct map by_hash; /* of operations: one more than the number */
    bool by_formula;   /* bytes sent were not measured: they follow from the payload, as of a ring */
    int64_t apart_ns;  /* after job_settle(): the most by which matched collectives of two ranks end apart */
    int64_t asked_before; /* collectives that were asked for before the recording began: of no step that was recorded, and left out */
    int64_t matched;   /* collectives that were found on several ranks */
    bool failed;       /* there was no memory for some of it */
};

void job_release(struct job *job);
int job_recorded(const struct job *job);                         /* ranks that are present */
const struct job_rank *job_first(const struct job *job);         /* the first of them; NULL: none */

struct job_rank *job_rank(struct job *job, int rank); /* NULL: out of range, or no memory; valid until the next call */
int64_t job_operation(struct job *job, const struct job_op *op); /* its number: the same operation has the same; -1: no memory */
int job_unit(struct job *job, const char *name, int64_t elems);  /* the unit of that name, made if new; there may be too many */
void job_add(struct job *job, struct job_rank *rank, int lane, struct job_span span); /* lane: or JOB_MEMORY, JOB_STEPS */
void job_move(struct job_rank *rank, int64_t by_ns); /* adds it to all times of the rank */

/* What each rank sends in a ring for a payload (Rabenseifner's and NCCL's algorithm): (N-1)/N of a gather, twice that of an all-reduce. */
uint64_t job_sent_bytes(const struct job *job, const struct job_op *op);

void job_settle(struct job *job);

/* Of rank 0's whole steps (or of the first rank that is there). job_sign(): a bit, of words that only one program writes; 0: none. */
void job_recognise(struct job *job);
unsigned job_sign(const char *name);

/* Of a snapshot of PyTorch's memory (snapshot.c): adds each GPU that acted, as ranks from first_rank on. *changes: how many changes of
 * memory that were. STATUS_INPUT: not such a snapshot, or no change has a time and known bytes; STATUS_RUN: no memory. */
int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err);

/* STATUS_USAGE: path cannot be opened; STATUS_RUN: cannot be written, no memory; STATUS_INPUT: nothing was observed. */
int job_write(struct job *job, const char *path, struct error *err);
