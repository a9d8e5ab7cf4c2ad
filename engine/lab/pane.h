/* What the pane of a lab shows at one moment: all that is drawn, and nothing of how it came about. A lab that is played makes
 * one of its play; a recorded lesson reads the same out of the trace (records LESSON), so the pane is drawn in one way. */
#ifndef ENGINE_LAB_PANE_H
#define ENGINE_LAB_PANE_H

#include "engine/lab/play.h"

struct lab_pane {
    char title[160], step_title[160];
    char to_do[128];             /* what the learner may do now */
    char look[24];               /* the view that the step is about; "": whichever is */
    char notice[200];            /* "": none; an answer to a key, and so in no recording */
    int step, count;             /* from 0 */
    int minutes, spent_minutes;  /* expected; gone by */
    bool finished;
    enum lab_ask asks;           /* what is waited for; LAB_READ: nothing, and in recordings */
    bool holds;                  /* the run stands still until a prediction is given */
    bool waits;                  /* for the learner: a page at which a lecturer stops */
    enum lab_mark marks[LAB_STEPS_MAX];
    int told_from;               /* the paragraph at which verdict and explanation begin */
    const struct lab_page *page; /* the play's, or own */
    struct lab_page own;
};

/* The page stays the play's. presents: keys show answers. */
void lab_pane_of(struct lab_pane *pane, const struct lab_play *play, bool presents);

/* As the trace keeps it; the caller frees; NULL: no memory. Two panes look alike if their texts without the time do. */
char *lab_pane_json(const struct lab_pane *pane, bool with_time);

/* Replaces *pane, which is a pane or zero. STATUS_INPUT: this is none, and nothing was changed. */
int lab_pane_read(struct lab_pane *pane, const char *text, struct error *err);
void lab_pane_release(struct lab_pane *pane);

#endif
