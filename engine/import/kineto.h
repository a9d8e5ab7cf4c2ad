/* Reads a file of PyTorch's profiler (Kineto), which writes Chrome JSON for each rank. It keeps the events that concern training: steps,
 * annotations, operators, collectives, kernels, copies, memory; an event takes 32 bytes. kineto_job.c makes a job of them.
 *
 * Formats seen: PyTorch 2.15 with gloo (tests/foreign), Kineto's and HTA's sample traces (docs/IMPORT.md names them). */
#pragma once

#include "engine/import/job.h"

enum kineto_kind {
    KINETO_STEP,     /* ProfilerStep#N; number: N */
    KINETO_MARK,     /* another user annotation */
    KINETO_OPERATOR, /* a cpu_op */
    KINETO_ISSUE,    /* c10d::...: a collective is issued */
    KINETO_GLOO,     /* gloo:...: a collective runs, in a thread */
    KINETO_LAUNCH,   /* a call of the CUDA runtime; number: correlation */
    KINETO_KERNEL,   /* number: correlation; thread: the stream */
    KINETO_NCCL,     /* a kernel that communicates */
    KINETO_COPY,     /* between host and device, or on it */
    KINETO_MODULE,   /* nn.Module: ..., in the Python stack */
    KINETO_KINDS
};

struct kineto_event {
    int64_t begun_ns, ended_ns;
    uint16_t thread; /* index in `threads` */
    int16_t unit;    /* unit, phase, prefetch and asks: kineto_job.c finds them from the events around this one */
    uint32_t name : 22, kind : 4; /* index in `names`; enum kineto_kind */
    uint32_t phase : 2;           /* PHASE_FORWARD also if no annotation names a phase */
    uint32_t prefetch : 1, asks : 1; /* asks: a collective is issued inside */
    uint32_t number;     /* its meaning depends on kind (enum kineto_kind) */
    uint32_t collective; /* index in `collectives`; ISSUE, GLOO and NCCL only */
};

/* text: as the source writes it, "aten::mm". traits, unit: kineto_job.c finds them from the text. */
struct kineto_name { char text[96]; unsigned traits; int unit; };

/* A thread or a stream; kineto_job.c finds all but its name. */
struct kineto_thread {
    char name[40];  /* "stream 7", "thread 1234" */
    int first, end; /* its events, once they are sorted: [first, end) */
    unsigned kinds; /* kinds of its events, as bits */
    bool backward;  /* backward runs on it, and it has no KINETO_STEP */
    uint64_t busy_ns[KINETO_KINDS];
    enum lane lane[KINETO_KINDS];
};

struct kineto {
    struct kineto_event *events;
    struct job_op *collectives; /* kind; bytes, ranks and group as the event's arguments give them; bytes 0: unknown */
    struct job_lane memory[2]; /* of the host, and of GPUs */
    struct kineto_name *names;
    struct kineto_thread *threads;
    int event_count, event_room, collective_count, collective_room;
    int name_count, name_room, thread_count, thread_room;
    struct map name_table, thread_table; /* hash -> index + 1 */
    int rank, world; /* -1: not in the file */
    int64_t base_ns; /* to be added to all times */
    char host[64];
    uint64_t bytes, by_kind[KINETO_KINDS], skipped; /* bytes read, uncompressed; events kept; events left out */
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

/* STATUS_INPUT: not such a file, or damaged before its first event. Of a file that is damaged later the events before the damage are
 * kept, and `cut` says what is wrong; cut "": not damaged. STATUS_RUN: no memory. The caller calls kineto_release() in any case. */
int kineto_read(struct kineto *out, const char *path, char cut[256], struct error *err);
void kineto_release(struct kineto *kineto);

/* Adds what was read to the job, as rank `rank`; once. */
void kineto_to_job(struct job *job, struct kineto *kineto, int rank);

/* The kind of a collective by its name, "all_gather" or "gloo:allgather_coalesced"; OP_EXCHANGE: a name that is not known. */
enum op_kind collective_named(const char *name);
