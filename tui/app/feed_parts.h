/* Functions that the files of a feed share: feed.c reads records, cursor.c moves the cursor and plays. */
#ifndef TUI_APP_FEED_PARTS_H
#define TUI_APP_FEED_PARTS_H

#include "tui/app/feed.h"

enum { FEED_HISTORY_BYTES = 24 << 20 }; /* limit of the newest history, and of the history of an older window */

/* Reads until `enough` is true: a recording as far as needed, a live run as far as records have arrived. Returns the
 * last result of enough(). */
bool feed_read_until(struct feed *feed, bool (*enough)(const struct record_reader *newest, uint64_t what), uint64_t what);

/* cursor.c */
void part_release(struct part *part);

void pace_advance(struct feed *feed, uint64_t now_ns);
int64_t pace_wait_ns(const struct feed *feed, uint64_t now_ns); /* -1: it does not play */

#endif
