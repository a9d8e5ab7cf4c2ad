#include "engine/import/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"

void job_release(struct job *job)
{
    for (int r = 0; r < job->rank_count; r++)
        for (int lane = 0; lane < JOB_LANES; lane++) free(job->ranks[r].lane[lane].at);
    for (int i = 0; i < job->op_count; i++) free((char *)job->ops[i].name);
    free(job->ops);
    free(job->units);
    free(job->ranks);
    map_release(&job->by_hash);
    *job = (struct job){0};
}

int job_recorded(const struct job *job)
{
    int count = 0;
    for (int r = 0; r < job->rank_count; r++) count += job->ranks[r].present;
    return count;
}

const struct job_rank *job_first(const struct job *job)
{
    for (int r = 0; r < job->rank_count; r++)
        if (job->ranks[r].present) return &job->ranks[r];
    return NULL;
}

static bool fails(struct job *job)
{
    job->failed = true;
    return false;
}

struct job_rank *job_rank(struct job *job, int rank)
{
    if (rank < 0 || rank >= JOB_RANKS_MAX) return NULL;
    while (job->rank_count <= rank) {
        struct job_rank *made = array_add(job->ranks, job->rank_count, job->rank_room);
        if (!made) return fails(job), NULL;
        *made = (struct job_rank){0};
    }
    return &job->ranks[rank];
}

/* ---- operations: each distinct one once ---- */

int64_t job_operation(struct job *job, const struct job_op *op)
{
    const uint64_t parts[] = {(uint64_t)op->kind | (uint64_t)op->lane << 8 | (uint64_t)op->phase << 16 |
                                  (uint64_t)op->prefetch << 24 | (uint64_t)(uint32_t)op->unit << 32,
                              op->ranks | (uint64_t)op->group << 32, op->bytes};
    uint64_t *number = map_put(&job->by_hash, map_hash(op->name, strlen(op->name), map_hash(parts, sizeof parts, 1)));
    if (number && *number) return (int64_t)*number - 1;
    char *name = number ? strdup(op->name) : NULL;
    if (!name || !array_grow((void **)&job->ops, job->op_count, &job->op_room, sizeof *job->ops))
        return free(name), fails(job), -1;
    job->ops[job->op_count] = *op;
    job->ops[job->op_count].name = name;
    *number = (uint64_t)++job->op_count;
    return job->op_count - 1;
}

int job_unit(struct job *job, const char *name, int64_t elems)
{
    for (int u = 0; u < job->unit_count; u++)
        if (!strncmp(job->units[u].name, name, sizeof job->units[u].name - 1)) return u;
    if (job->unit_count == JOB_UNITS_MAX) return JOB_NO_UNIT;
    struct job_unit *unit = array_add(job->units, job->unit_count, job->unit_room);
    if (!unit) return fails(job), JOB_NO_UNIT;
    snprintf(unit->name, sizeof unit->name, "%s", name);
    unit->elems = elems;
    return job->unit_count - 1;
}

void job_add(struct job *job, struct job_rank *rank, int number, struct job_span span)
{
    struct job_lane *lane = &rank->lane[number];
    struct job_span *added = array_add(lane->at, lane->count, lane->room);
    if (!added) {
        job->failed = true;
        return;
    }
    *added = span;
    if (span.ended_ns < span.started_ns || number == JOB_MEMORY) added->ended_ns = span.started_ns;
    rank->present = true;
}

uint64_t job_sent_bytes(const struct job *job, const struct job_op *op)
{
    const uint64_t ranks = op->ranks ? op->ranks : job->world;
    if (op_lane(op->kind) != LANE_COMM) return op->bytes;
    if (ranks < 2) return 0;
    const uint64_t others = op->bytes / ranks * (ranks - 1) + op->bytes % ranks * (ranks - 1) / ranks;
    switch (op->kind) {
    case OP_GATHER:
    case OP_REFRESH:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL: return others;
    case OP_ALL_REDUCE: return 2 * others;
    default: return op->bytes;
    }
}

/* ---- settling: order, steps, clocks, who came last ---- */

static int by_start(const void *left, const void *right)
{
    const struct job_span *a = left, *b = right;
    if (a->started_ns != b->started_ns) return a->started_ns < b->started_ns ? -1 : 1;
    return (a->ended_ns > b->ended_ns) - (a->ended_ns < b->ended_ns);
}

/* A lane runs one operation at a time. One that begins inside another is left out and counted. A step ends where the next one begins. */
static void settle_lane(struct job_lane *lane, bool of_steps)
{
    int kept = 0;
    if (lane->count) qsort(lane->at, (size_t)lane->count, sizeof *lane->at, by_start);
    for (int i = 0; i < lane->count; i++) {
        const bool inside = kept && lane->at[i].started_ns < lane->at[kept - 1].ended_ns;
        if (inside && of_steps) lane->at[kept - 1].ended_ns = lane->at[i].started_ns;
        if (inside && !of_steps) lane->left_out++;
        else lane->at[kept++] = lane->at[i];
    }
    lane->count = kept;
}

/* Without any steps, all that was observed is one. */
static void add_whole_step(struct job *job, struct job_rank *rank)
{
    struct job_span all = {INT64_MAX, INT64_MIN, .number = 1, .loss = NAN};
    for (const struct job_lane *lane = rank->lane; lane < rank->lane + JOB_STEPS; lane++) {
        if (!lane->count) continue;
        if (lane->at[0].started_ns < all.started_ns) all.started_ns = lane->at[0].started_ns;
        if (lane->at[lane->count - 1].ended_ns > all.ended_ns) all.ended_ns = lane->at[lane->count - 1].ended_ns;
    }
    if (all.started_ns <= all.ended_ns) job_add(job, rank, JOB_STEPS, all);
}

static void place_in_steps(const struct job_lane *steps, struct job_lane *lane)
{
    int step = -1;
    for (int i = 0; i < lane->count; i++) {
        while (step + 1 < steps->count && steps->at[step + 1].started_ns <= lane->at[i].started_ns) step++;
        lane->at[i].step = step < 0 ? UINT32_MAX : (uint32_t)step;
    }
}

/* ---- the same collective on several ranks ---- */

/* The n-th collective of a step with the same kind, payload and group is the same one on all its ranks. */
struct meeting {
    uint64_t key; /* of step, kind, payload and group */
    int nth, rank;
    struct job_span *span;
};

static int by_meeting(const void *left, const void *right)
{
    const struct meeting *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->nth != b->nth) return a->nth - b->nth;
    if (a->rank != b->rank) return a->rank - b->rank;
    return (a->span->started_ns > b->span->started_ns) - (a->span->started_ns < b->span->started_ns);
}

static bool same(const struct meeting *a, const struct meeting *b)
{
    return a->key == b->key && a->nth == b->nth;
}

/* Sorted, so that those of one meeting follow each other, in the order of ranks. */
static struct meeting *meetings_of(struct job *job, int *count)
{
    struct meeting *list = NULL;
    int room = 0;
    *count = 0;
    for (int r = 0; r < job->rank_count; r++)
        for (int l = 0; l < LANES; l++) {
            struct job_lane *lane = &job->ranks[r].lane[l];
            for (int i = 0; i < lane->count && lane_kind((enum lane)l) == LANE_COMM; i++) {
                const struct job_op *op = &job->ops[lane->at[i].op];
                if (lane->at[i].step == UINT32_MAX) continue;
                const uint64_t parts[] = {job->ranks[r].lane[JOB_STEPS].at[lane->at[i].step].number, op->kind,
                                          op->group, op->bytes};
                struct meeting *added = array_add(list, *count, room);
                if (!added) return fails(job), list;
                *added = (struct meeting){map_hash(parts, sizeof parts, 1), 0, r, &lane->at[i]};
            }
        }
    if (list) qsort(list, (size_t)*count, sizeof *list, by_meeting);
    for (int i = 1; i < *count; i++)
        if (list[i].key == list[i - 1].key && list[i].rank == list[i - 1].rank) list[i].nth = list[i - 1].nth + 1;
    if (list) qsort(list, (size_t)*count, sizeof *list, by_meeting);
    return list;
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

void job_move(struct job_rank *rank, int64_t by_ns)
{
    for (int l = 0; l < JOB_LANES; l++)
        for (int i = 0; i < rank->lane[l].count; i++) {
            rank->lane[l].at[i].started_ns += by_ns;
            rank->lane[l].at[i].ended_ns += by_ns;
        }
}

/* Ranks leave a collective at nearly the same time. So the median of how much later a rank leaves is what its clock is ahead. Ranks
 * of one host have one clock. */
static void align(struct job *job, const struct meeting *list, int count)
{
    int64_t *apart = malloc(((size_t)count + 1) * sizeof *apart);
    const struct job_rank *base = job_first(job);
    if (!apart) fails(job);
    for (int r = 0; apart && r < job->rank_count; r++) {
        struct job_rank *rank = &job->ranks[r];
        int found = 0;
        if (!rank->present || rank == base || (*rank->host && !strcmp(rank->host, base->host))) continue;
        for (int i = 0, first = 0; i < count; i++) {
            if (!same(&list[first], &list[i])) first = i;
            if (list[i].rank == r && list[first].rank != r)
                apart[found++] = list[i].span->ended_ns - list[first].span->ended_ns;
        }
        if (!found) continue;
        qsort(apart, (size_t)found, sizeof *apart, by_value);
        rank->offset_ns = apart[found / 2];
        job_move(rank, -rank->offset_ns);
    }
    free(apart);
}

/* In a collective a rank waits until the last has come. */
static void find_peers(struct job *job, const struct meeting *list, int count)
{
    for (int first = 0, end; first < count; first = end) {
        int64_t last_ns = INT64_MIN, least_ns = INT64_MAX, most_ns = INT64_MIN;
        for (end = first; end < count && same(&list[first], &list[end]); end++) {
            const struct job_span *span = list[end].span;
            if (span->started_ns > last_ns) last_ns = span->started_ns;
            if (span->ended_ns < least_ns) least_ns = span->ended_ns;
            if (span->ended_ns > most_ns) most_ns = span->ended_ns;
        }
        if (end - first < 2) continue;
        job->matched++;
        if (most_ns - least_ns > job->apart_ns) job->apart_ns = most_ns - least_ns;
        for (int i = first; i < end; i++) {
            struct job_span *span = list[i].span;
            const int64_t until_ns = last_ns < span->ended_ns ? last_ns : span->ended_ns;
            const int64_t peers_ns = until_ns > span->started_ns ? until_ns - span->started_ns : 0;
            span->peers_ns = peers_ns < UINT32_MAX ? (uint32_t)peers_ns : UINT32_MAX;
        }
    }
}

void job_settle(struct job *job)
{
    for (int r = 0; r < job->rank_count; r++) {
        struct job_rank *rank = &job->ranks[r];
        for (int l = 0; l < JOB_LANES; l++) settle_lane(&rank->lane[l], l == JOB_STEPS);
        if (!rank->lane[JOB_STEPS].count) add_whole_step(job, rank);
        for (int l = 0; l < LANES; l++) place_in_steps(&rank->lane[JOB_STEPS], &rank->lane[l]);
    }
    int count;
    struct meeting *list = meetings_of(job, &count);
    if (count) align(job, list, count);
    find_peers(job, list, count);
    free(list);
}
