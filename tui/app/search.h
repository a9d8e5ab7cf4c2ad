/* The search of '/': finds steps ("step 12"), operations by kind and unit ("all_gather block 3"), and events,
 * commands, states and lines of the log by any part of their text. */
#ifndef TUI_APP_SEARCH_H
#define TUI_APP_SEARCH_H

#include "tui/app/feed.h"

struct search { const char *text; int rank; /* search the operations of this rank */ };

/* A feed_match; user: struct search. */
bool search_matches(const struct run_model *model, const struct trace_record *record, const void *user);

#endif
