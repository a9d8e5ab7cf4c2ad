#include "engine/trace/merge.h"

#include <pthread.h>

struct feed {
    struct trace_ring *ring;
    uint16_t rank;           /* rank of the records in this ring, for GAP records */
    uint64_t lost, since_ns; /* lost records that no GAP record has reported yet */
    struct bytes held;       /* whole records, drained and not yet released */
    size_t at;               /* offset in `held` of the first record not yet released */
    struct trace_head next;  /* head of the record at `at`, once peek() has found one */
};

struct merge {
    pthread_mutex_t lock; /* over `added` alone: the rest belongs to the thread that calls merge_pass */
    struct bytes added;   /* struct trace_ring *, not yet in feeds */
    struct feed *feeds;
    struct feed **open; /* feeds of this pass that have a record left, in their order */
    size_t feed_count, open_count;
    uint64_t pass_before_ns;
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
    for (size_t i = 0; i < merge->feed_count; i++) bytes_release(&merge->feeds[i].held);
    free(merge->feeds);
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

static bool reserve_feeds(struct merge *merge, size_t count)
{
    struct feed *feeds = realloc(merge->feeds, count * sizeof *feeds);
    if (feeds) merge->feeds = feeds;
    struct feed **open = feeds ? realloc(merge->open, count * sizeof *open) : NULL;
    if (open) merge->open = open;
    return open;
}

static void take_added(struct merge *merge)
{
    pthread_mutex_lock(&merge->lock);
    size_t count = merge->added.count / sizeof(struct trace_ring *);
    if (count && reserve_feeds(merge, merge->feed_count + count)) { /* else: tried again in the next pass */
        for (size_t i = 0; i < count; i++) {
            struct feed *feed = &merge->feeds[merge->feed_count++];
            *feed = (struct feed){.rank = TRACE_RANK_ALL};
            memcpy(&feed->ring, merge->added.at + i * sizeof feed->ring, sizeof feed->ring);
        }
        merge->added.count = 0;
    }
    pthread_mutex_unlock(&merge->lock);
}

/* A ring's losses are later than the records it kept: it was full when it lost them, and has been drained now. */
static void hold_gap(struct feed *feed, uint64_t now_ns)
{
    struct trace_record gap = {.kind = TRACE_GAP,
                               .rank = feed->rank,
                               .time_ns = now_ns,
                               .gap = {.records = feed->lost, .since_ns = feed->since_ns}};
    if (trace_append(&feed->held, &gap)) feed->lost = 0;
}

static void collect(struct feed *feed, uint64_t now_ns)
{
    uint64_t since_ns, lost = trace_ring_lost(feed->ring, &since_ns);
    if (lost && !feed->lost) feed->since_ns = since_ns;
    feed->lost += lost;
    size_t waiting = trace_ring_waiting(feed->ring);
    if (bytes_reserve(&feed->held, waiting)) { /* else it stays in the ring, which counts what it then loses */
        uint8_t *at = feed->held.at + feed->held.count;
        size_t drained = waiting ? trace_ring_drain(feed->ring, at, waiting) : 0;
        if (drained >= TRACE_HEAD_BYTES) feed->rank = trace_peek(at).rank;
        feed->held.count += drained;
    }
    if (feed->lost) hold_gap(feed, now_ns);
}

/* Notes the head of a feed's oldest record, if there is a well-formed one; damaged bytes (a stray store into shared memory)
 * are dropped up to what was drained. */
static bool peek(struct feed *feed)
{
    size_t left = feed->held.count - feed->at;
    if (left >= TRACE_HEAD_BYTES) {
        feed->next = trace_peek(feed->held.at + feed->at);
        if (feed->next.bytes >= TRACE_HEAD_BYTES && feed->next.bytes <= left) return true;
    }
    feed->at = feed->held.count;
    return false;
}

/* Place among the open feeds of the one with the oldest record, by looking at each: few of a rank's lanes are busy. */
static size_t find_oldest(const struct merge *merge)
{
    size_t oldest = 0;
    for (size_t i = 1; i < merge->open_count; i++)
        if (merge->open[i]->next.time_ns < merge->open[oldest]->next.time_ns) oldest = i;
    return oldest;
}

static void close_feed(struct merge *merge, size_t place)
{
    struct feed **at = merge->open + place;
    merge->open_count--;
    memmove(at, at + 1, (merge->open_count - place) * sizeof *at);
}

/* A record stamped while rings are collected is newer than `now`, and an older one may still come: it is held back. A
 * record newer by more than a pass has another clock, and is released at once. */
static void release(struct merge *merge, uint64_t cut, uint64_t now_ns, bool everything, struct bytes *batch)
{
    const uint64_t soon_ns = now_ns + (now_ns - cut);
    while (merge->open_count) {
        const size_t place = find_oldest(merge);
        struct feed *feed = merge->open[place];
        if (!everything && feed->next.time_ns >= cut && feed->next.time_ns <= soon_ns) break;
        if (!bytes_append(batch, feed->held.at + feed->at, feed->next.bytes)) break;
        feed->at += feed->next.bytes;
        if (!peek(feed)) close_feed(merge, place);
    }
}

void merge_pass(struct merge *merge, uint64_t now_ns, bool everything, struct bytes *batch)
{
    take_added(merge);
    merge->open_count = 0;
    for (size_t i = 0; i < merge->feed_count; i++) {
        collect(&merge->feeds[i], now_ns);
        if (peek(&merge->feeds[i])) merge->open[merge->open_count++] = &merge->feeds[i];
    }
    release(merge, merge->pass_before_ns, now_ns, everything, batch);
    merge->pass_before_ns = now_ns;
    for (size_t i = 0; i < merge->feed_count; i++) {
        bytes_drop(&merge->feeds[i].held, merge->feeds[i].at);
        merge->feeds[i].at = 0;
    }
}
