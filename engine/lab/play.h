/* The state machine of a lab that is played. Trace records and the learner's inputs drive it. It does no I/O, so a
 * screen (tui/), `zerolab lab check` and tests play the same labs.
 *
 *     lab_play_init(&play, lab, &progress);
 *     lab_play_started(), and start the engine with lab_sets_at(lab, play.at), paused before its first step
 *     on new records: lab_play_tick() says what to do: send a command, restart the run
 *     lab_play_say(), lab_play_choose(), lab_play_check(), lab_play_hint(), lab_play_next() ...
 *
 * Steps before the learner's step are carried out without asking, so that the run has the same state when a learner
 * returns to the middle of a lab or resets a step. Settings that the learner changed (stage, any key) are restored
 * before the lab goes on, and the page says so; in a task the learner may change them. */
#pragma once

#include "engine/lab/driver.h"
#include "engine/lab/expression.h"
#include "engine/lab/progress.h"

/* ---- driver.c: settings to restore after the learner changed some. All keys work while a lab asks, so a learner
 * may have switched the stage or another setting; the lab's next step needs the run as the lab left it. The trace has
 * an event with old and new value for each change. A change that follows a command later than the lab's is the learner's. ---- */

enum { BASELINE_CHANGES_MAX = 8, BASELINE_VALUE_BYTES = 160, BASELINE_LINE_BYTES = 96 + BASELINE_VALUE_BYTES };

/* A changed setting: the command without its value; the old and the new value, as long as a command's or an event's. */
struct baseline_change { char setting[96], from[BASELINE_VALUE_BYTES], to[BASELINE_VALUE_BYTES]; };

struct lab_baseline {
    bool known;
    uint64_t notices; /* notices folded when it was taken */
    uint32_t step;    /* the last whole step then */
    struct lab_actions back;
    struct prose_piece piece[BASELINE_CHANGES_MAX];
    char line[BASELINE_CHANGES_MAX][BASELINE_LINE_BYTES];
    char said[160];
};

void lab_baseline_take(struct lab_baseline *baseline, const struct run_model *model);

/* Fills baseline->back with the actions that restore the changed settings. If steps were trained with them, one more
 * step is trained, so that the last step shows the lab's settings. False: nothing to restore, or no baseline was taken.
 * The actions point into `baseline`. */
bool lab_baseline_find(struct lab_baseline *baseline, const struct run_model *model);

/* ---- the lab that is played ---- */

enum lab_phase {
    PLAY_STARTING, /* until the run is paused before its first step, or the trace is read to its end */
    PLAY_BEFORE,   /* the step's `before` */
    PLAY_ASKING,
    PLAY_ACTING,   /* the actions after the answer */
    PLAY_TOLD,     /* verdict and explanation */
    PLAY_RESTART,  /* the run must be restarted */
    PLAY_STUCK,    /* an action failed */
    PLAY_FINISHED,
};

enum lab_tone { TONE_TEXT, TONE_QUESTION, TONE_CHOICE, TONE_CHOSEN, TONE_HINT, TONE_GOOD, TONE_BAD, TONE_FACT, TONE_NOTE };
enum { PAGE_MAX = 32 };
struct lab_paragraph { enum lab_tone tone; char *text; };
struct lab_page { int count; struct lab_paragraph at[PAGE_MAX]; unsigned revision; };

struct lab_play {
    const struct lab *lab;
    const char *program;         /* the command that starts the program; NULL: zerolab */
    struct lab_progress progress;
    enum lab_phase phase;
    int at;                      /* the step being carried out; at most progress.step */
    struct lab_driver driver;
    struct lab_baseline baseline; /* the run's settings as the lab left them ... */
    bool looks_back;             /* ... which are being restored before anything else is done ... */
    const struct lab_actions *then; /* ... and the actions to carry out afterwards; NULL: nothing is being restored */
    struct contest contest;      /* for the settings that the run was started with */
    int kept_count;
    struct lab_kept kept[LAB_KEPT_MAX];
    struct quantity said;        /* the predicted value */
    char believed[160];          /* the mistake behind a wrong answer, in the lab's words; "": none is known */
    int chosen;                  /* the choice in a quiz; -1: none yet */
    bool right;
    bool revealed;               /* the answer was shown, not given */
    struct lab_where where;      /* place on the timeline of a check's or an answer's value */
    bool asked_next, asked_reset;/* lab_play_next() or lab_play_reset_step() has warned; called again, it acts */
    struct lab_page page;
    int told_from;               /* the paragraph at which verdict and explanation begin */
    char notice[200];            /* reply to the last input; "": none */
};

enum lab_wish { WISH_NOTHING, WISH_COMMAND, WISH_GO, WISH_RESTART };

void lab_play_init(struct lab_play *play, const struct lab *lab, const struct lab_progress *progress);
void lab_play_release(struct lab_play *play);
void lab_play_started(struct lab_play *play); /* a run with lab_sets_at(play->at) started; computes the contest */

/* The caller's next action; play->driver.line is the command or the target. Call it again until WISH_NOTHING. */
enum lab_wish lab_play_tick(struct lab_play *play, const struct run_model *model, const struct history *history);

/* The learner's inputs. If one is not possible, play->notice says why. */
bool lab_play_say(struct lab_play *play, const char *text); /* a prediction; false: not valid, the play still waits */
void lab_play_choose(struct lab_play *play, int choice);
void lab_play_check(struct lab_play *play, const struct run_model *model, const struct history *history); /* a task */
void lab_play_reveal(struct lab_play *play); /* shows the right answer; carries out a task's solution */
void lab_play_hint(struct lab_play *play, const struct run_model *model, const struct history *history);
void lab_play_next(struct lab_play *play);
void lab_play_go(struct lab_play *play, int step); /* `step` counts from 0; the run is restarted and brought there */
void lab_play_reset_step(struct lab_play *play);
void lab_play_spent(struct lab_play *play, double seconds);

const struct lab_step *lab_play_step(const struct lab_play *play); /* the learner's */
bool lab_play_holds(const struct lab_play *play);        /* a prediction is awaited: until then nothing is shown */
bool lab_play_was_answered(const struct lab_play *play); /* the step was answered before: `n` goes on with that answer */
struct lab_scene lab_play_scene(const struct lab_play *play, const struct run_model *model, const struct history *history);
