/* The contents of a lab's pane at one moment. A lab that is played makes a pane from its play; a recorded lesson reads
 * one from the trace (LESSON records), so that the same code draws both. */
#pragma once

#include "engine/lab/play.h"

struct lab_pane {
    char title[160], step_title[160];
    char to_do[128];             /* the inputs that are possible now */
    char look[24];               /* the view that the step is about; "": any */
    char notice[200];            /* the answer to a key, so never recorded; "": none */
    int step, count;             /* from 0 */
    int minutes, spent_minutes;  /* expected duration; time spent so far */
    bool finished;
    enum lab_ask asks;           /* the kind of answer awaited; LAB_READ: none (always in recordings) */
    bool holds;                  /* the run is paused until the learner predicts */
    bool waits;                  /* the page waits for the learner: a lecturer stops here */
    enum lab_mark marks[LAB_STEPS_MAX];
    int told_from;               /* the paragraph at which verdict and explanation begin */
    const struct lab_page *page; /* points to the play's page, or to `own` */
    struct lab_page own;
};

/* Fills *pane, whose page points into the play. presents: keys reveal answers. */
void lab_pane_of(struct lab_pane *pane, const struct lab_play *play, bool presents);

/* The pane as JSON for the trace (the caller frees it; NULL: no memory). Equal JSON without time: equal looks. */
char *lab_pane_json(const struct lab_pane *pane, bool with_time);

/* Parses a pane into *pane, which holds a pane or is all-zero. False: not a pane; nothing was changed. */
bool lab_pane_read(struct lab_pane *pane, const char *text);
void lab_pane_release(struct lab_pane *pane);
