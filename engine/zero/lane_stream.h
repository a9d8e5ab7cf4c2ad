/* The stream of a lane on a device: work sent to it runs asynchronously and in order. A *mark* is an event in the stream. Other
 * lanes of the same device can wait for it without the host, and the host can sleep until it is reached and learn the time. A
 * lane has LANE_MARKS marks, by number, and records each one again and again.
 *
 * The thread that sends to the lane calls mark() and await(); another thread calls reach(), only for recorded marks. Errors:
 * STATUS_RUN; reach() returns an error of the device. */
#pragma once

#include <stdint.h>

#include "engine/base/error.h"

enum { LANE_FLIGHTS = 16, LANE_MARKS = 2 * LANE_FLIGHTS }; /* operations in flight at most; two marks for each: begin and end */

struct lane_stream {
    void *user;
    /* Records a mark after all work sent so far. */
    int (*mark)(void *user, int mark, struct error *err);
    /* Makes all work sent from now on wait for the latest mark of that number on `other`. */
    int (*await)(void *user, const struct lane_stream *other, int mark, struct error *err);
    /* Sleeps until the mark is reached; *at_ns: when, on clock_ns(). */
    int (*reach)(void *user, int mark, uint64_t *at_ns, struct error *err);
};
