/* A settled job as a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/import/records.h"
#include "engine/trace/file.h"

struct pushed {
    int of[JOB_LANES];
}; /* how many of each lane */

struct writing {
    const struct job *job;
    struct trace_file *file;
    struct records records;
    struct pushed *pushed; /* by rank */
    int64_t origin_ns;     /* time 1 of the trace */
    struct error *err;
};

/* INT64_MAX: there are not so many. */
static int64_t begin_of(const struct job_lane *lane, int n)
{
    return n < lane->count ? lane->at[n].started_ns : INT64_MAX;
}

/* The earliest time that lies `ahead` items after what was pushed, of any rank and lane. */
static int64_t earliest(const struct writing *w, int ahead)
{
    int64_t time_ns = INT64_MAX;
    for (int r = 0; r < w->job->rank_count; r++)
        for (int l = 0; l < JOB_LANES; l++) {
            const int64_t at_ns = begin_of(&w->job->ranks[r].lane[l], w->pushed[r].of[l] + ahead);
            if (at_ns < time_ns) time_ns = at_ns;
        }
    return time_ns;
}

static uint64_t in_trace(const struct writing *w, int64_t time_ns)
{
    return time_ns < w->origin_ns ? 1 : (uint64_t)(time_ns - w->origin_ns) + 1;
}

/* ---- what came first in the trace ---- */

static bool several_hosts(const struct job *job)
{
    const char *first = NULL;
    for (int r = 0; r < job->rank_count; r++) {
        const char *host = job->ranks[r].host;
        if (first && *host && strcmp(first, host)) return true;
        if (*host && !first) first = host;
    }
    return false;
}

static void push_hosts(struct writing *w)
{
    uint32_t machine = 0;
    const char *before = NULL;
    for (int r = 0; r < w->job->rank_count && w->records.far; r++) {
        const struct job_rank *rank = &w->job->ranks[r];
        if (!rank->present) continue;
        machine += before && strcmp(before, rank->host);
        before = rank->host;
        records_push(&w->records, r, 1, RECORD(HOST, host, machine, TEXT_OF(rank->host)));
        if (rank->offset_ns)
            records_push(&w->records, r, 1,
                         RECORD(CLOCK, clock, machine, rank->offset_ns, (uint64_t)w->job->apart_ns, 0));
    }
}

/* What the import says of the whole, once: a line for the log, so that a reader of the trace finds it. */
static void push_lanes_and_remarks(struct writing *w)
{
    char text[256];
    for (int r = 0; r < w->job->rank_count; r++)
        for (int l = 0; l < LANES; l++) {
            const struct job_lane *lane = &w->job->ranks[r].lane[l];
            if (lane->name[0]) records_push(&w->records, r, 1, RECORD(LANE, lane, (uint8_t)l, TEXT_OF(lane->name)));
            if (!lane->left_out) continue;
            snprintf(text, sizeof text, "rank %d, %s: %d operations overlap another one and are left out", r,
                     lane->name[0] ? lane->name : lane_name((enum lane)l), lane->left_out);
            records_tell(&w->records, RECORD(LOG, log, 1, TEXT_OF(text)));
        }
    if (w->job->by_formula)
        records_tell(
            &w->records,
            RECORD(LOG, log, 0, TEXT_OF("bytes sent are not measured: they follow from each payload, as in a ring")));
}

/* ---- what ranks did ---- */

static void push_span(struct writing *w, int r, const struct job_span *span)
{
    const struct job_lane *steps = &w->job->ranks[r].lane[JOB_STEPS];
    const uint32_t step = span->step < (uint32_t)steps->count ? steps->at[span->step].number : 0;
    records_push_op(&w->records, r,
                    &(struct records_op){.step = step,
                                         .op = span->op,
                                         .issued_ns = in_trace(w, span->started_ns - span->issued_ns),
                                         .started_ns = in_trace(w, span->started_ns),
                                         .ended_ns = in_trace(w, span->ended_ns),
                                         .peers_ns = span->peers_ns});
}

static void push_step(struct writing *w, int r, const struct job_span *step)
{
    const uint64_t begun_ns = in_trace(w, step->started_ns), ended_ns = in_trace(w, step->ended_ns);
    records_push(&w->records, r, begun_ns,
                 RECORD(STEP_BEGIN, step_begin, step->number, TRACE_OBSERVED, TRACE_NO_STAGE));
    records_push_step_end(&w->records, r, step->number, begun_ns, ended_ns, 0, step->loss);
}

static void push_lane(struct writing *w, int r, int l, int64_t until_ns)
{
    const struct job_lane *lane = &w->job->ranks[r].lane[l];
    for (int *n = &w->pushed[r].of[l]; begin_of(lane, *n) <= until_ns; ++*n) {
        const struct job_span *at = &lane->at[*n];
        if (l < LANES) push_span(w, r, at);
        else if (l == JOB_STEPS) push_step(w, r, at);
        else
            records_push_memory(&w->records, r, in_trace(w, at->started_ns), TRACE_UNATTRIBUTED, at->live_bytes,
                                at->reserved_bytes);
    }
}

static int put_out(struct writing *w)
{
    int status = STATUS_OK;
    struct bytes *out = &w->records.out;
    for (size_t at = 0; at < out->count && !status; at += trace_peek(out->at + at).bytes)
        status = trace_file_put_encoded(w->file, out->at + at, w->err);
    out->count = 0;
    return status;
}

/* In rounds, so that memory holds few records: a round ends where the first lane has had AT_ONCE items. */
static int write_all(struct writing *w)
{
    enum { AT_ONCE = 4096 };
    int status = STATUS_OK;
    w->origin_ns = earliest(w, 0);
    w->records.far = several_hosts(w->job);
    records_begin(&w->records, (uint64_t)job_recorded(w->job), 1);
    push_lanes_and_remarks(w);
    push_hosts(w);
    while (!status && earliest(w, 0) < INT64_MAX) {
        const int64_t later_ns = earliest(w, AT_ONCE), until_ns = later_ns < INT64_MAX ? later_ns : INT64_MAX - 1;
        for (int r = 0; r < w->job->rank_count; r++)
            for (int l = 0; l < JOB_LANES; l++) push_lane(w, r, l, until_ns);
        records_release(&w->records, later_ns < INT64_MAX ? in_trace(w, until_ns) : UINT64_MAX, SIZE_MAX);
        status = put_out(w);
    }
    records_tell(&w->records, RECORD(STATE, state, 0, RUN_ENDED, TEXT_OF("")));
    records_tell(&w->records, RECORD(END, end, OUTCOME_FINISHED, TEXT_OF("")));
    if (!status) status = put_out(w);
    return status || !job_failed(w->job) ? status : error_set(w->err, STATUS_RUN, "no memory for the trace of a job");
}

int job_write(struct job *job, const char *path, struct error *err)
{
    const size_t ranks = (size_t)job->rank_count + 1;
    struct writing w = {.job = job, .err = err, .pushed = calloc(ranks, sizeof *w.pushed), .records.job = job};
    w.records.ranks = calloc(ranks, sizeof *w.records.ranks);
    int status = job_failed(job) || !w.pushed || !w.records.ranks
                     ? error_set(err, STATUS_RUN, "no memory for what was read")
                     : STATUS_OK;
    if (!status && earliest(&w, 0) == INT64_MAX)
        status = error_set(err, STATUS_INPUT, "no operation, step or memory of a job was found in it");
    if (!status) status = trace_file_create(&w.file, path, err);
    if (!status) {
        status = write_all(&w);
        const int closed = trace_file_close(w.file, status ? NULL : err);
        if (!status) status = closed;
    }
    free(w.pushed);
    records_free(&w.records);
    return status;
}
