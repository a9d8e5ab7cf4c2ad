/* Inside of a feed: feed.c reads, cursor.c looks back and plays. */
#ifndef TUI_APP_FEED_PARTS_H
#define TUI_APP_FEED_PARTS_H

#include "tui/app/feed.h"

enum { FEED_HISTORY_BYTES = 24 << 20 }; /* of the newest history, and of that of an older window */

/* A recording is read on, as far as it takes and all at once; of a live run only what has come. True: it is enough. */
bool feed_read_until(struct feed *feed, bool (*enough)(const struct record_reader *newest, uint64_t what), uint64_t what);

/* cursor.c */
void part_release(struct part *part);

void pace_advance(struct feed *feed, uint64_t now_ns);
int64_t pace_wait_ns(const struct feed *feed, uint64_t now_ns); /* -1: it does not play */

#endif
