/* Collects what was observed of another program's job, rank by rank, and writes it as a trace. Readers of all formats fill it.
 *
 *     struct job job = {.parameters = -1};
 *     int64_t op = job_operation(&job, &(struct job_op){.kind = OP_GATHER, .lane = LANE_COMM, .name = "all_gather", ...});
 *     job_add(&job, rank, LANE_COMM, (struct job_span){.started_ns = ..., .ended_ns = ..., .op = (uint32_t)op}) ...
 *     job_settle(&job);             sorts, finds each operation's step, aligns clocks
 *     job_recognise(&job);          what trains here
 *     job_write(&job, path, &err);  once
 *
 * Times are nanoseconds of the rank's own clock, as its source counts them. A call that gets no memory sets `failed`, so a reader
 * needs to check for errors only once. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/map.h"
#include "engine/plan/ops.h"

enum { JOB_RANKS_MAX = 4096, JOB_UNITS_MAX = INT16_MAX, JOB_NO_UNIT = -1, JOB_EVIDENCE = 10 };

/* A distinct operation. For a collective, bytes is what all its ranks gather or reduce, as in struct op; group 0: all ranks. */
struct job_op {
    enum op_kind kind;
    enum lane lane;
    enum phase phase;
    bool prefetch;
    int unit; /* number from job_unit(); JOB_NO_UNIT: none */
    uint32_t ranks, group;
    uint64_t bytes;
    const char *name; /* copied */
};

/* One item of a lane of a rank: an operation; in the lane JOB_MEMORY (below), the rank's memory from started_ns on; in JOB_STEPS, a step. */
struct job_span {
    int64_t started_ns, ended_ns;
    union {
        struct {
            uint32_t op;
            uint32_t issued_ns; /* time from its issue to its start; 0: unknown */
            uint32_t peers_ns;  /* time spent waiting for the last rank; job_settle() sets it */
            uint32_t step;      /* index in JOB_STEPS; UINT32_MAX: before the first step; job_settle() sets it */
        };
        struct { uint64_t live_bytes, reserved_bytes; };
        struct { uint32_t number; float loss; }; /* number: as the source counts its steps; loss: NaN if unknown */
    };
};

/* left_out: number of operations dropped because they overlap another one. pushed: number of items that job_write() has written. */
struct job_lane { struct job_span *at; int count, room, left_out, pushed; char name[24]; };

/* JOB_MEMORY has the memory of the device tier: that of the rank's GPU, or for a job without GPUs its host memory, as in zerolab's own
 * runs on CPUs. */
enum { JOB_MEMORY = LANES, JOB_STEPS, JOB_LANES };
struct job_rank {
    bool present;
    char host[64];     /* "": unknown */
    int64_t offset_ns; /* how far its clock was ahead of the first rank's; job_settle() has subtracted it from its times */
    struct job_lane lane[JOB_LANES];
};

struct job {
    char program[40], recognised[40], precision[8]; /* "": unknown; recognised: "ZeRO-3 (likely)", "DDP" */
    char evidence[JOB_EVIDENCE][160];
    int evidence_count;
    uint32_t world; /* ranks of the job; 0: unknown */
    unsigned signs; /* bits of job_sign() for the names in the job */
    int64_t parameters; /* -1: unknown */
    struct job_op *ops;
    int op_count, op_room;
    struct job_unit { char name[24]; int64_t elems; } *units; /* elems -1: unknown */
    int unit_count, unit_room;
    struct job_rank *ranks; /* [rank_count], by rank number; one that is not `present` has no data */
    int rank_count, rank_room;
    struct map by_hash; /* hash of an operation -> its number + 1 */
    bool by_formula;   /* bytes sent were not measured; job_sent_bytes() computes them from the payload, as in a ring */
    int64_t apart_ns;  /* after job_settle(): the longest time between the ends of one collective on two ranks */
    int64_t asked_before; /* number of collectives left out: issued before the recording began, they belong to no recorded step */
    int64_t matched;   /* collectives that were found on several ranks */
    bool failed;       /* a call got no memory, so data is missing */
};

void job_release(struct job *job);
int job_recorded(const struct job *job);                         /* ranks that are present */
const struct job_rank *job_first(const struct job *job);         /* the first of them; NULL: none */

struct job_rank *job_rank(struct job *job, int rank); /* NULL: out of range, or no memory; valid until the next call */
int64_t job_operation(struct job *job, const struct job_op *op); /* its number, the same for equal operations; -1: no memory */
int job_unit(struct job *job, const char *name, int64_t elems);  /* number of that unit, added if new; JOB_NO_UNIT: too many, no memory */
void job_add(struct job *job, struct job_rank *rank, int lane, struct job_span span); /* lane: an enum lane, JOB_MEMORY or JOB_STEPS */
void job_move(struct job_rank *rank, int64_t by_ns); /* adds by_ns to all times of the rank */

/* The bytes that each of N ranks sends in a ring, as NCCL does: (N-1)/N of the payload of a gather, reduce-scatter or
 * all-to-all, twice that for an all-reduce; the payload of any other operation. 0: fewer than two ranks take part in a collective. */
uint64_t job_sent_bytes(const struct job *job, const struct job_op *op);

void job_settle(struct job *job);

/* Guesses what trains in the job from the collectives of its first rank and from `signs`: sets `recognised` and `evidence`.
 * job_sign(): the bit of a name that only one program writes into its traces; 0: not such a name. */
void job_recognise(struct job *job);
unsigned job_sign(const char *name);

/* Reads a snapshot of PyTorch's memory (snapshot.c) and adds each GPU with changes of memory as a rank, from first_rank on. *changes: how
 * many changes it has. STATUS_INPUT: not such a snapshot, or no change has a time and known bytes; STATUS_RUN: no memory. */
int snapshot_to_job(struct job *job, const char *path, int first_rank, uint64_t *changes, struct error *err);

/* STATUS_USAGE: path cannot be opened; STATUS_RUN: cannot be written, no memory; STATUS_INPUT: nothing was observed. */
int job_write(struct job *job, const char *path, struct error *err);
