#include "engine/trace/merge.h"

#include <signal.h>

static const uint64_t stream_patience_ns = 3000000000u;

struct merged_ring {
    struct trace_ring *ring; /* NULL: a stream */
    uint16_t rank;           /* rank of the records in this ring, for GAP records */
    uint64_t lost, since_ns; /* lost records that no GAP record has reported yet */
    struct bytes held;       /* whole records, drained and not yet released */
    size_t at;               /* offset in `held` of the first record not yet released */
    struct trace_head next;  /* head of the record at `at`, once peek() has found one */
    uint64_t whole_ns;       /* of a stream: merge_whole_until() */
    uint64_t left_ns;        /* of a stream: it was left out up to here. Older records come too late */
    bool left;               /* it is left out now */
};

struct merge {
    pthread_mutex_t lock; /* over `added` alone: the rest belongs to the thread that calls merge_pass */
    struct bytes added;   /* struct trace_ring *, not yet in rings */
    struct merged_ring *rings;
    struct merged_ring **open; /* rings of this pass that have a record left, in their order */
    size_t ring_count, open_count;
    uint64_t pass_before_ns, cut_ns;
};

struct merge *merge_new(void)
{
    struct merge *merge = calloc(1, sizeof *merge);
    if (merge) pthread_mutex_init(&merge->lock, NULL);
    return merge;
}

void merge_free(struct merge *merge)
{
    if (!merge) return;
    for (size_t i = 0; i < merge->ring_count; i++) bytes_release(&merge->rings[i].held);
    free(merge->rings);
    free(merge->open);
    bytes_release(&merge->added);
    pthread_mutex_destroy(&merge->lock);
    free(merge);
}

bool merge_add(struct merge *merge, struct trace_ring *ring)
{
    pthread_mutex_lock(&merge->lock);
    bool added = bytes_append(&merge->added, &ring, sizeof ring);
    pthread_mutex_unlock(&merge->lock);
    return added;
}

static bool reserve_rings(struct merge *merge, size_t count)
{
    struct merged_ring *rings = realloc(merge->rings, count * sizeof *rings);
    if (rings) merge->rings = rings;
    struct merged_ring **open = rings ? realloc(merge->open, count * sizeof *open) : NULL;
    if (open) merge->open = open;
    return open;
}

static void take_added(struct merge *merge)
{
    pthread_mutex_lock(&merge->lock);
    size_t count = merge->added.count / sizeof(struct trace_ring *);
    if (count && reserve_rings(merge, merge->ring_count + count)) { /* else: tried again in the next pass */
        for (size_t i = 0; i < count; i++) {
            struct merged_ring *from = &merge->rings[merge->ring_count++];
            *from = (struct merged_ring){.rank = TRACE_RANK_ALL};
            memcpy(&from->ring, merge->added.at + i * sizeof from->ring, sizeof from->ring);
        }
        merge->added.count = 0;
    }
    pthread_mutex_unlock(&merge->lock);
}

int merge_add_stream(struct merge *merge, uint64_t now_ns)
{
    if (!reserve_rings(merge, merge->ring_count + 1)) return -1;
    merge->rings[merge->ring_count] = (struct merged_ring){.rank = TRACE_RANK_ALL, .whole_ns = now_ns};
    return (int)merge->ring_count++;
}

void merge_put(struct merge *merge, int stream, const void *record, size_t bytes)
{
    struct merged_ring *to = &merge->rings[stream];
    if (trace_peek(record).time_ns >= to->left_ns && bytes_append(&to->held, record, bytes)) return;
    if (!to->lost++ && !to->left) to->since_ns = trace_peek(record).time_ns;
}

void merge_whole_until(struct merge *merge, int stream, uint64_t time_ns)
{
    merge->rings[stream].whole_ns = time_ns;
}

uint64_t merge_cut(const struct merge *merge)
{
    return merge->cut_ns;
}

/* Leaves a stream out, or takes it back. A GAP without a number of records begins what is unknown, another one ends it. */
static void watch_stream(struct merge *merge, struct merged_ring *from, uint64_t now_ns, bool everything)
{
    const bool late = from->whole_ns != UINT64_MAX && (everything || from->whole_ns + stream_patience_ns < now_ns);
    const struct trace_record gap = late ? trace_gap(TRACE_RANK_ALL, 0, merge->cut_ns, merge->cut_ns)
                                         : trace_gap(TRACE_RANK_ALL, from->lost, from->since_ns, merge->cut_ns);
    if (late && !from->left) {
        if (!from->lost) from->since_ns = from->whole_ns;
        from->left = trace_append(&from->held, &gap);
    } else if (!late && (from->left || from->lost) && trace_append(&from->held, &gap)) {
        from->left = false;
        from->lost = 0;
    }
    if (!from->left && from->whole_ns < merge->cut_ns) merge->cut_ns = from->whole_ns;
}

static void collect(struct merged_ring *from, uint64_t now_ns)
{
    uint64_t since_ns, lost = trace_ring_lost(from->ring, &since_ns);
    if (lost && !from->lost) from->since_ns = since_ns;
    from->lost += lost;
    size_t waiting = trace_ring_waiting(from->ring);
    if (bytes_reserve(&from->held, waiting)) { /* else it stays in the ring, which counts what it then loses */
        uint8_t *at = from->held.at + from->held.count;
        size_t drained = waiting ? trace_ring_drain(from->ring, at, waiting) : 0;
        if (drained >= TRACE_HEAD_BYTES) from->rank = trace_peek(at).rank;
        from->held.count += drained;
    }
    /* Its losses are later than the records it kept: it was full when it lost them, and has been drained now. */
    const struct trace_record gap = trace_gap(from->rank, from->lost, from->since_ns, now_ns);
    if (from->lost && trace_append(&from->held, &gap)) from->lost = 0;
}

/* Notes the head of a ring's oldest record, if there is a well-formed one; damaged bytes (a stray store into shared memory)
 * are dropped up to what was drained. */
static bool peek(struct merged_ring *from)
{
    size_t left = from->held.count - from->at;
    if (left >= TRACE_HEAD_BYTES) {
        from->next = trace_peek(from->held.at + from->at);
        if (from->next.bytes >= TRACE_HEAD_BYTES && from->next.bytes <= left) return true;
    }
    from->at = from->held.count;
    return false;
}

/* Place among the open rings of the one with the oldest record, by looking at each: few of a rank's lanes are busy. */
static size_t find_oldest(const struct merge *merge)
{
    size_t oldest = 0;
    for (size_t i = 1; i < merge->open_count; i++)
        if (merge->open[i]->next.time_ns < merge->open[oldest]->next.time_ns) oldest = i;
    return oldest;
}

/* A record stamped while rings are collected is newer than `now`, and an older one may still come: it is held back. A
 * record newer by more than a pass has another clock, and is released at once. */
static void release(struct merge *merge, uint64_t cut, uint64_t now_ns, bool everything, struct bytes *batch)
{
    const uint64_t soon_ns = now_ns + (now_ns - cut);
    while (merge->open_count) {
        const size_t place = find_oldest(merge);
        struct merged_ring *from = merge->open[place];
        if (!everything && from->next.time_ns >= cut && from->next.time_ns <= soon_ns) break;
        if (!bytes_append(batch, from->held.at + from->at, from->next.bytes)) break;
        from->at += from->next.bytes;
        if (peek(from)) continue;
        struct merged_ring **at = merge->open + place;
        memmove(at, at + 1, (--merge->open_count - place) * sizeof *at);
    }
}

void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch)
{
    take_added(merge);
    const uint64_t before_ns = merge->cut_ns;
    merge->open_count = 0;
    merge->cut_ns = merge->pass_before_ns;
    for (size_t i = 0; i < merge->ring_count; i++)
        if (!merge->rings[i].ring) watch_stream(merge, &merge->rings[i], now_ns, everything);
    if (merge->cut_ns < before_ns) merge->cut_ns = before_ns;
    for (size_t i = 0; i < merge->ring_count; i++) {
        if (merge->rings[i].ring) collect(&merge->rings[i], now_ns);
        else if (merge->rings[i].left) merge->rings[i].left_ns = merge->cut_ns;
        if (peek(&merge->rings[i])) merge->open[merge->open_count++] = &merge->rings[i];
    }
    release(merge, merge->cut_ns, now_ns, everything, batch);
    merge->pass_before_ns = now_ns;
    for (size_t i = 0; i < merge->ring_count; i++) {
        bytes_drop(&merge->rings[i].held, merge->rings[i].at);
        merge->rings[i].at = 0;
    }
}

bool merge_start_thread(pthread_t *thread, void *(*run)(void *user), void *user)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(thread, NULL, run, user) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
