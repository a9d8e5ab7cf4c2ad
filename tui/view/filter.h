/* The filter of '\', a line of words: "rank 2" or "rank 0-3", "lane compute" or "lane comm" (a prefix of a lane's
 * name); the remaining words are a text that must occur. A view applies the parts that concern it. */
#ifndef TUI_VIEW_FILTER_H
#define TUI_VIEW_FILTER_H

#include "engine/plan/schedule.h"

struct filter {
    int first_rank, last_rank; /* all ranks: 0 and INT_MAX */
    uint32_t lanes;            /* bit 1 << lane: the lane is shown */
    char text[80];             /* "": any */
};

struct filter filter_of(const char *line);
bool filter_shows_lane(const struct filter *filter, enum lane lane);
bool filter_shows_text(const struct filter *filter, const char *text); /* ignores case */
bool text_contains(const char *text, const char *part);                /* ignores case; false for an empty part */

#endif
