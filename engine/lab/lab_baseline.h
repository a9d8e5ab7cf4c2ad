/* How a lab left the run, and the way back to it. All keys work while a lab asks, so a learner may have switched the stage, or
 * anything else that can be changed; the lab's next step is about the run as the lab had it. What was changed is read off the
 * trace: events say from what to what, and those that follow a command sent after the lab's own are the learner's.
 *
 *     stand_take(&stand, model)      the lab has done what it wanted
 *     stand_find(&stand, model)      later: true: stand.back are actions that lead back, stand.said says what they do */
#ifndef ENGINE_LAB_LAB_BASELINE_H
#define ENGINE_LAB_LAB_BASELINE_H

#include "engine/lab/lab.h"

enum { BASELINE_CHANGES_MAX = 8, BASELINE_VALUE_BYTES = 160, BASELINE_LINE_BYTES = 96 + BASELINE_VALUE_BYTES };

/* A setting that was changed: the command that sets it, without its value. Values as long as a command's, and an event's. */
struct baseline_change { char setting[96], from[BASELINE_VALUE_BYTES], to[BASELINE_VALUE_BYTES]; };

struct lab_baseline {
    bool known;
    uint64_t notices; /* that had been folded then */
    uint32_t step;    /* the last whole step then */
    struct lab_actions back;
    struct prose_piece piece[BASELINE_CHANGES_MAX];
    char line[BASELINE_CHANGES_MAX][BASELINE_LINE_BYTES];
    char said[160];
};

void lab_baseline_take(struct lab_baseline *baseline, const struct run_model *model);

/* What was changed goes back, and where steps were trained with it, so does what the last step shows: one more is trained.
 * Of a stand that was not taken there is nothing to be found. The actions point into `stand`. */
bool lab_baseline_find(struct lab_baseline *baseline, const struct run_model *model);

#endif
