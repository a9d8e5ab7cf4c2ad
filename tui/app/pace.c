/* A cursor that plays: time goes on at the speed that was recorded, slower, faster, or backwards. */
#include <stddef.h>

#include "tui/app/feed_parts.h"

static const double speeds[] = {-64,        -16,       -4,       -1,       -1.0 / 4, -1.0 / 16, -1.0 / 64,
                                1.0 / 1024, 1.0 / 256, 1.0 / 64, 1.0 / 16, 1.0 / 4,  1.0 / 2,   1,
                                2,          4,         8,        16,       64,       256,       1024};
enum { SPEEDS = sizeof speeds / sizeof speeds[0], NORMAL = 13, BACKWARDS_NS = 100000000 };

double feed_speed(const struct feed *feed)
{
    return speeds[NORMAL + feed->speed];
}

/* Where a cursor that plays stands now. */
static uint64_t place_ns(const struct feed *feed, uint64_t now_ns)
{
    double passed = now_ns > feed->base_ns ? (double)(now_ns - feed->base_ns) : 0;
    double place = (double)feed->from_ns + passed * feed_speed(feed);
    return place > 0 ? (uint64_t)place : 0;
}

void feed_play(struct feed *feed, bool playing, uint64_t now_ns)
{
    feed->playing = playing && feed->behind;
    feed->base_ns = now_ns;
    feed->from_ns = feed->cursor_ns;
}

void feed_faster(struct feed *feed, int by, uint64_t now_ns)
{
    int speed = NORMAL + feed->speed + by;
    uint64_t place = place_ns(feed, now_ns);
    if (speed < 0 || speed >= SPEEDS) return;
    if (feed->playing) feed->from_ns = place, feed->base_ns = now_ns; /* the place does not jump */
    feed->speed += by;
}

void pace_advance(struct feed *feed, uint64_t now_ns)
{
    uint64_t place = place_ns(feed, now_ns);
    bool backwards = feed_speed(feed) < 0, moved = feed_go_time(feed, place);
    feed->playing = moved && feed->behind && !(backwards && place <= feed->newest.model->first_ns);
}

/* Forwards the next record says when; backwards there is something else at any time. */
int64_t pace_wait_ns(const struct feed *feed, uint64_t now_ns)
{
    if (!feed->playing) return -1;
    if (feed_speed(feed) < 0) return BACKWARDS_NS;
    if (!feed->back.has_next) return BACKWARDS_NS;
    uint64_t place = place_ns(feed, now_ns);
    double left = feed->back.next.time_ns > place ? (double)(feed->back.next.time_ns - place) : 0;
    return left > 0 ? (int64_t)(left / feed_speed(feed)) + 1 : 0;
}
