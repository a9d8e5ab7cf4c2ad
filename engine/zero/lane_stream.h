/* A lane of a device: what is sent to it is done later, in order, while whoever sent it goes on. A *mark* is a place in that order. It
 * can be awaited by other lanes of the same device without the host, and the host can sleep until it is reached and ask when that
 * was. A lane has LANE_MARKS of them, by number, which are made again and again.
 *
 * mark() and await() are called by the thread that sends to the lane, reach() by another one, and only of marks that have been
 * made. Errors: STATUS_RUN; an error of the device comes back from reach(). */
#ifndef ENGINE_ZERO_LANE_STREAM_H
#define ENGINE_ZERO_LANE_STREAM_H

#include <stdint.h>

#include "engine/base/error.h"

enum { LANE_FLIGHTS = 16, LANE_MARKS = 2 * LANE_FLIGHTS }; /* operations on their way at most, and where each begins and ends */

struct lane_stream {
    void *user;
    /* Behind all that was sent so far. */
    int (*mark)(void *user, int mark, struct error *err);
    /* What is sent from now on waits for the last mark of that number that was made on `other`. */
    int (*await)(void *user, const struct lane_stream *other, int mark, struct error *err);
    /* Sleeps until the mark is reached; *at_ns: when, on clock_ns(). */
    int (*reach)(void *user, int mark, uint64_t *at_ns, struct error *err);
};

#endif
