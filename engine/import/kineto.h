/* PyTorch's profiler (Kineto) writes Chrome JSON. Reading keeps of each rank's file what says something of training: steps,
 * annotations, operators, collectives, kernels, copies, memory; 32 bytes each. kineto_job.c makes a job of it.
 *
 * Formats seen: PyTorch 2.15 with gloo (tests/foreign), Kineto's and HTA's sample traces (docs/IMPORT.md names them). */
#pragma once

#include "engine/import/job.h"

enum kineto_kind {
    KINETO_STEP,     /* ProfilerStep#N; number: N */
    KINETO_MARK,     /* another user annotation */
    KINETO_OPERATOR, /* a cpu_op */
    KINETO_ISSUE,    /* c10d::...: a collective is asked for */
    KINETO_GLOO,     /* gloo:...: it runs, in a thread */
    KINETO_LAUNCH,   /* a call of the CUDA runtime; number: correlation */
    KINETO_KERNEL,   /* number: correlation; thread: the stream */
    KINETO_NCCL,     /* a kernel that communicates */
    KINETO_COPY,     /* between host and device, or on it */
    KINETO_MODULE,   /* nn.Module: of the Python stack */
    KINETO_KINDS
};

struct kineto_event {
    int64_t begun_ns, ended_ns;
    uint16_t thread; /* of `threads` */
    int16_t unit;    /* this and the next three: where it lies in its thread; kineto_job.c finds them */
    uint32_t name : 22, kind : 4; /* of `names`; enum kineto_kind */
    uint32_t phase : 2;           /* PHASE_FORWARD: no annotation tells */
    uint32_t prefetch : 1, asks : 1; /* asks: a collective is asked for inside */
    uint32_t number;     /* by kind */
    uint32_t collective; /* of `collectives`; ISSUE, GLOO and NCCL only */
};

/* text: as the source writes it, "aten::mm". traits, unit: kineto_job.c finds what the name tells of. */
struct kineto_name { char text[96]; unsigned traits; int unit; };

/* A thread or a stream; kineto_job.c finds all but its name. */
struct kineto_thread {
    char name[40];  /* "stream 7", "thread 1234" */
    int first, end; /* its events, when they are sorted */
    unsigned kinds; /* of them, as bits */
    bool backward;  /* backward goes on there, and it begins no step */
    uint64_t busy_ns[KINETO_KINDS];
    enum lane lane[KINETO_KINDS];
};

struct kineto {
    struct kineto_event *events;
    struct job_op *collectives; /* their kinds, and what arguments say of bytes, ranks and group; bytes 0: unknown */
    struct job_lane memory[2]; /* of the host, and of GPUs */
    struct kineto_name *names;
    struct kineto_thread *threads;
    int event_count, event_room, collective_count, collective_room;
    int name_count, name_room, thread_count, thread_room;
    struct map name_table, thread_table; /* by hash: one more than the index */
    int rank, world; /* -1: not told */
    int64_t base_ns; /* to be added to all times */
    char host[64];
    uint64_t bytes, by_kind[KINETO_KINDS], skipped; /* read; events kept; events left out */
    bool gpu;

    /* kineto_to_job() finds these. */
    struct job *job;
    struct job_rank *to;
    int module_depth; /* modules this deep in the Python stack are units; -1: none are */
    struct kineto_step {
        int64_t begun_ns, ended_ns, backward_ends_ns, gpu_begun_ns, gpu_ended_ns;
        uint32_t number;
    } *steps;
    int step_count, step_room;
};

/* STATUS_INPUT: not such a file, or damaged (what was read until then is kept if there is any, and *cut says why). The caller releases it. */
int kineto_read(struct kineto *out, const char *path, char cut[256], struct error *err);
void kineto_release(struct kineto *kineto);

/* Adds what was read to the job, as rank `rank`; once. */
void kineto_to_job(struct job *job, struct kineto *kineto, int rank);

/* The kind that a name tells, as "all_gather" or "gloo:allgather_coalesced"; OP_EXCHANGE: another one. */
enum op_kind collective_named(const char *name);
