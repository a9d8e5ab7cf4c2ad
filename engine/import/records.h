/* Records of a job in the order of time. Callers push what ranks did, in any order. records_release() gives the records up to a time,
 * and adds three things: an OPERATION record before an operation's first use, the TRAFFIC of each step before its end, and in each
 * collective the time that a rank waited for the last one. An operation that ends after its step counts in no TRAFFIC.
 *
 *     struct records records = {.job = job};
 *     records_begin(&records, recorded, time_ns);
 *     records_push_op(&records, rank, &(struct records_op){...}) ...
 *     records_release(&records, until_ns, most_bytes);    then use records.out and set records.out.count = 0
 *     records_free(&records);
 *
 * Without memory job->failed is set. */
#pragma once

#include "engine/base/tier.h"
#include "engine/import/job.h"
#include "engine/trace/record.h"

/* Every rank numbers its collectives; those of equal number, kind and payload are the same one. */
enum { MEETINGS_KEPT = 4096 };
struct meeting { uint64_t number, bytes, last_ns; enum op_kind kind; };

/* What waits for its time. */
struct moment {
    uint64_t number, meeting; /* in the order of arrival; of a collective in which all ranks take part: its number, else 0 */
    int place;                /* among those of one instant */
    struct trace_record record;
};

struct records {
    struct job *job;   /* its operations, units and ranks; borrowed */
    struct bytes out;  /* records that were given, encoded */
    uint64_t given_ns; /* time of the newest of them */
    bool far;          /* ranks are on several hosts */
    int64_t origin_ns; /* of a job: its time 1 */
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
    struct { uint32_t step, count; double sum; } loss; /* of the newest step: the mean of those that ranks have told */
};

#define RECORD(ID, name, ...)                                                                                          \
    (struct trace_record)                                                                                              \
    {                                                                                                                  \
        .kind = TRACE_##ID, .rank = TRACE_RANK_ALL, .name = { __VA_ARGS__ }                                            \
    }

/* Gives the header, and that the job runs; no record may be released before. recorded: ranks of which something is known. */
void records_begin(struct records *records, uint64_t recorded, uint64_t time_ns);

/* NULL: no memory. Valid until the next call. What comes too late for its time gets that of the newest record. */
struct moment *records_push(struct records *records, int rank, uint64_t time_ns, struct trace_record record);

struct records_op { uint32_t step, op; uint64_t issued_ns, started_ns, ended_ns, peers_ns, meeting; };
void records_push_op(struct records *records, int rank, const struct records_op *op);
void records_push_step_end(struct records *records, int rank, uint32_t step, uint64_t begun_ns, uint64_t ended_ns,
                           uint32_t micro_steps, float loss);

/* Past the queue: a record of all ranks, at the time of the newest. */
void records_tell(struct records *records, struct trace_record record);

void records_release(struct records *records, uint64_t until_ns, size_t most_bytes);
void records_free(struct records *records);
