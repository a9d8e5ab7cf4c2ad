#include "engine/import/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/bytes.h"

struct job *job_new(void)
{
    struct job *job = calloc(1, sizeof *job);
    if (job) job->parameters = -1;
    return job;
}

void job_free(struct job *job)
{
    if (!job) return;
    for (int r = 0; r < job->rank_count; r++)
        for (int lane = 0; lane < JOB_LANES; lane++) free(job->ranks[r].lane[lane].at);
    for (int i = 0; i < job->op_count; i++) free((char *)job->ops[i].name);
    free(job->ops);
    free(job->units);
    free(job->ranks);
    map_release(&job->by_hash);
    free(job);
}

bool job_failed(const struct job *job)
{
    return !job || job->failed;
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
        if (!array_grow((void **)&job->ranks, job->rank_count, &job->rank_room, sizeof *job->ranks))
            return fails(job), NULL;
        memset(&job->ranks[job->rank_count++], 0, sizeof *job->ranks);
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
    if (!array_grow((void **)&job->units, job->unit_count, &job->unit_room, sizeof *job->units))
        return fails(job), JOB_NO_UNIT;
    strncpy(job->units[job->unit_count].name, name, sizeof job->units->name - 1);
    job->units[job->unit_count].name[sizeof job->units->name - 1] = '\0';
    job->units[job->unit_count].elems = elems;
    return job->unit_count++;
}

bool job_add(struct job *job, struct job_rank *rank, int number, struct job_span span)
{
    struct job_lane *lane = &rank->lane[number];
    if (!array_grow((void **)&lane->at, lane->count, &lane->room, sizeof *lane->at)) return fails(job);
    if (span.ended_ns < span.started_ns || number == JOB_MEMORY) span.ended_ns = span.started_ns;
    lane->at[lane->count++] = span;
    return rank->present = true;
}

uint64_t job_sent_bytes(const struct job *job, const struct job_op *op)
{
    const uint64_t ranks = op->ranks ? op->ranks : job->world;
    if (op_lane(op->kind) != LANE_COMM) return op->bytes;
    if (ranks < 2) return 0;
    switch (op->kind) {
    case OP_GATHER:
    case OP_REFRESH:
    case OP_REDUCE_SCATTER:
    case OP_ALL_TO_ALL: return op->bytes / ranks * (ranks - 1) + op->bytes % ranks * (ranks - 1) / ranks;
    case OP_ALL_REDUCE: return 2 * (op->bytes / ranks * (ranks - 1) + op->bytes % ranks * (ranks - 1) / ranks);
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

/* A lane runs one operation at a time. One that begins inside another is left out and counted. */
static void settle_lane(struct job_lane *lane)
{
    int kept = 0;
    for (int i = 0; i < lane->count; i++) {
        if (kept && lane->at[i].started_ns < lane->at[kept - 1].ended_ns) lane->left_out++;
        else lane->at[kept++] = lane->at[i];
    }
    lane->count = kept;
}

static void first_and_last(const struct job_rank *rank, int64_t *first_ns, int64_t *last_ns)
{
    *first_ns = INT64_MAX, *last_ns = INT64_MIN;
    for (int l = 0; l < JOB_STEPS; l++) {
        const struct job_lane *lane = &rank->lane[l];
        if (!lane->count) continue;
        if (lane->at[0].started_ns < *first_ns) *first_ns = lane->at[0].started_ns;
        if (lane->at[lane->count - 1].ended_ns > *last_ns) *last_ns = lane->at[lane->count - 1].ended_ns;
    }
}

/* Steps follow each other; without any, all that was observed is one. */
static void settle_steps(struct job *job, struct job_rank *rank)
{
    struct job_lane *steps = &rank->lane[JOB_STEPS];
    int64_t first_ns, last_ns;
    first_and_last(rank, &first_ns, &last_ns);
    if (!steps->count && first_ns <= last_ns)
        job_add(job, rank, JOB_STEPS, (struct job_span){first_ns, last_ns, .number = 1, .loss = NAN});
    for (int s = 0; s + 1 < steps->count; s++)
        if (steps->at[s].ended_ns > steps->at[s + 1].started_ns) steps->at[s].ended_ns = steps->at[s + 1].started_ns;
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
    uint64_t key; /* of all that */
    int rank;
    struct job_span *span;
};

static int by_rank(const void *left, const void *right)
{
    const struct meeting *a = left, *b = right;
    if (a->rank != b->rank) return a->rank - b->rank;
    return (a->span->started_ns > b->span->started_ns) - (a->span->started_ns < b->span->started_ns);
}

static int by_key(const void *left, const void *right)
{
    const struct meeting *a = left, *b = right;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : by_rank(left, right);
}

/* Those of a rank that are alike are counted in the order of time. */
static void number_alike(struct job *job, struct meeting *list, int count)
{
    struct map alike = {0};
    qsort(list, (size_t)count, sizeof *list, by_rank);
    for (int i = 0; i < count; i++) {
        uint64_t *nth = map_put(&alike, map_hash(&list[i].rank, sizeof list[i].rank, list[i].key));
        if (!nth) fails(job);
        else list[i].key = map_hash(nth, sizeof *nth, list[i].key), ++*nth;
    }
    map_release(&alike);
    qsort(list, (size_t)count, sizeof *list, by_key);
}

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
                if (!array_grow((void **)&list, *count, &room, sizeof *list)) return fails(job), list;
                list[(*count)++] = (struct meeting){map_hash(parts, sizeof parts, 1), r, &lane->at[i]};
            }
        }
    return list;
}

static int by_value(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Ranks leave a collective at nearly the same time. So the median of how much later a rank leaves is what its clock is ahead. Ranks
 * of one host have one clock. */
static int64_t offset_of(const struct meeting *list, int count, int rank, int64_t *apart)
{
    int found = 0;
    for (int i = 0, first = 0; i < count; i++) {
        if (list[first].key != list[i].key) first = i;
        if (list[i].rank == rank && list[first].rank != rank)
            apart[found++] = list[i].span->ended_ns - list[first].span->ended_ns;
    }
    if (found) qsort(apart, (size_t)found, sizeof *apart, by_value);
    return found ? apart[found / 2] : 0;
}

static void move_rank(struct job_rank *rank, int64_t by_ns)
{
    rank->offset_ns = by_ns;
    for (int l = 0; l < JOB_LANES; l++)
        for (int i = 0; i < rank->lane[l].count; i++) {
            rank->lane[l].at[i].started_ns -= by_ns;
            rank->lane[l].at[i].ended_ns -= by_ns;
        }
}

static void align(struct job *job, const struct meeting *list, int count)
{
    int64_t *apart = malloc(((size_t)count + 1) * sizeof *apart);
    const struct job_rank *first = job_first(job);
    if (!apart) fails(job);
    for (int r = 0; apart && r < job->rank_count; r++) {
        struct job_rank *rank = &job->ranks[r];
        if (rank->present && rank != first && (!*rank->host || strcmp(rank->host, first->host)))
            move_rank(rank, offset_of(list, count, r, apart));
    }
    free(apart);
}

/* In a collective a rank waits until the last has come. */
static void find_peers(struct job *job, const struct meeting *list, int count)
{
    for (int first = 0, end; first < count; first = end) {
        int64_t last_ns = INT64_MIN, least_ns = INT64_MAX, most_ns = INT64_MIN;
        for (end = first; end < count && list[first].key == list[end].key; end++) {
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
        for (int l = 0; l < JOB_LANES; l++)
            if (rank->lane[l].count)
                qsort(rank->lane[l].at, (size_t)rank->lane[l].count, sizeof(struct job_span), by_start);
        for (int l = 0; l < LANES; l++) settle_lane(&rank->lane[l]);
        settle_steps(job, rank);
        for (int l = 0; l < LANES; l++) place_in_steps(&rank->lane[JOB_STEPS], &rank->lane[l]);
    }
    int count;
    struct meeting *list = meetings_of(job, &count);
    if (count) {
        number_alike(job, list, count);
        align(job, list, count);
        find_peers(job, list, count);
    }
    free(list);
}
