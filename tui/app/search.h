/* What '/' finds: steps ("step 12"), operations by what they do and to which unit ("all_gather block 3"), events, commands,
 * states and lines of the log, by any part of their text. */
#ifndef TUI_APP_SEARCH_H
#define TUI_APP_SEARCH_H

#include "tui/app/feed.h"

struct search { const char *text; int rank; /* whose operations */ };

/* A feed_match; user: struct search. */
bool search_matches(const struct run_model *model, const struct trace_record *record, const void *user);

#endif
