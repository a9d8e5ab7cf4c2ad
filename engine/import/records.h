/* Records of a job in the order of time. Callers push what ranks did, in any order. records_release() gives the records up to a time,
 * and adds three things: an OPERATION record before an operation's first use, the TRAFFIC of each step before its end, and for each
 * collective the time that a rank waited for the last rank. An operation that ends after its step counts in no TRAFFIC.
 *
 *     struct records records = {.job = job};
 *     records_begin(&records, recorded, time_ns);
 *     records_push_op(&records, rank, &(struct records_op){...}) ...
 *     records_release(&records, until_ns, most_bytes);    then use records.out and set records.out.count = 0
 *     records_free(&records);
 *
 * A call that gets no memory sets job->failed. */
#pragma once

#include "engine/base/tier.h"
#include "engine/import/job.h"
#include "engine/trace/record.h"

/* One collective of all ranks. Every rank numbers its collectives; equal number, kind and payload mean the same collective. last_ns: when
 * the last rank issued it. */
enum { MEETINGS_KEPT = 4096 };
struct meeting { uint64_t number, bytes, last_ns; enum op_kind kind; };

/* A record that waits in the queue until its time is released. */
struct moment {
    uint64_t number, meeting; /* number: order of arrival. meeting: number of a collective of all ranks; 0: any other record */
    int place;                /* its place among records of equal time */
    struct trace_record record;
};

struct records {
    struct job *job;   /* its operations, units and ranks; borrowed */
    struct bytes out;  /* records that were given, encoded */
    uint64_t given_ns; /* time of the newest record that was given */
    bool far;          /* ranks are on several hosts */
    int64_t origin_ns; /* the job's time that becomes time 1 of the trace */
    struct moment *queue;
    int queued, room, ops_told;
    uint64_t arrived;
    struct meeting meetings[MEETINGS_KEPT];
    struct records_rank {
        uint32_t step, count[TRAFFIC_KINDS]; /* what the step has moved until now */
        uint64_t sent_bytes[TRAFFIC_KINDS], busy_ns[TRAFFIC_KINDS];
        uint64_t peak_bytes[TRACE_UNATTRIBUTED + 1];
        struct trace_of_memory memory; /* the newest */
    } *ranks;
    struct { uint32_t step, count; double sum; } loss; /* losses that ranks have reported for the newest step; their mean is recorded */
};

#define RECORD(ID, name, ...)                                                                                          \
    (struct trace_record)                                                                                              \
    {                                                                                                                  \
        .kind = TRACE_##ID, .rank = TRACE_RANK_ALL, .name = { __VA_ARGS__ }                                            \
    }

/* Gives the header and the state RUNNING. Call it before records_release(). recorded: number of ranks that were recorded. */
void records_begin(struct records *records, uint64_t recorded, uint64_t time_ns);

/* Queues a record. A record that comes too late gets the time of the newest one that was given. The result is valid until the next
 * call; NULL: no memory. */
struct moment *records_push(struct records *records, int rank, uint64_t time_ns, struct trace_record record);

struct records_op { uint32_t step, op; uint64_t issued_ns, started_ns, ended_ns, peers_ns, meeting; };
void records_push_op(struct records *records, int rank, const struct records_op *op);
void records_push_step_end(struct records *records, int rank, uint32_t step, uint64_t begun_ns, uint64_t ended_ns,
                           uint32_t micro_steps, float loss);

/* Gives a record of all ranks at once, without the queue, with the time of the newest one that was given. */
void records_tell(struct records *records, struct trace_record record);

void records_release(struct records *records, uint64_t until_ns, size_t most_bytes);
void records_free(struct records *records);
