/* A lab being played: what is asked, what was said, what the run then showed. It is driven from outside, by records and by
 * what the learner does, and does no I/O; so a screen (tui/), `zerolab lab check` and tests play the same labs.
 *
 *     lab_play_init(&play, lab, &progress);
 *     lab_play_started(), and start the engine with lab_sets_at(lab, play.at), paused before its first step
 *     on new records: lab_play_tick()   says what is to be done: send a command, start the run anew
 *     lab_play_say(), lab_play_choose(), lab_play_check(), lab_play_hint(), lab_play_next() ...
 *
 * Steps before the learner's own are carried out without asking, so that coming back to the middle of a lab, or starting a
 * step anew, finds the run as it was. What a learner has changed in between (stage, any knob) is put back before the lab
 * goes on, and said; in a task it is theirs to change. */
#ifndef ENGINE_LAB_PLAY_H
#define ENGINE_LAB_PLAY_H

#include "engine/lab/contest.h"
#include "engine/lab/driver.h"
#include "engine/lab/progress.h"

/* ---- lab_baseline.c: how a lab left the run, and the way back to it. All keys work while a lab asks, so a learner may have switched the
 * stage, or anything else that can be changed; the lab's next step is about the run as the lab had it. What was changed is read off the
 * trace: events say from what to what, and those that follow a command sent after the lab's own are the learner's. ---- */

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
 * Of a baseline that was not taken there is nothing to be found. The actions point into `baseline`. */
bool lab_baseline_find(struct lab_baseline *baseline, const struct run_model *model);

/* ---- the lab that is played ---- */

enum lab_phase {
    PLAY_STARTING, /* until the run stands before its first step */
    PLAY_BEFORE,   /* the step's `before` */
    PLAY_ASKING,
    PLAY_ACTING,   /* what follows the answer */
    PLAY_TOLD,     /* verdict and explanation */
    PLAY_RESTART,  /* the run is to be started anew */
    PLAY_STUCK,    /* something could not be carried out */
    PLAY_FINISHED,
};

enum lab_tone { TONE_TEXT, TONE_QUESTION, TONE_CHOICE, TONE_CHOSEN, TONE_HINT, TONE_GOOD, TONE_BAD, TONE_FACT, TONE_NOTE };
enum { PAGE_MAX = 32 };
struct lab_paragraph { enum lab_tone tone; char *text; };
struct lab_page { int count; struct lab_paragraph at[PAGE_MAX]; unsigned revision; };

struct lab_play {
    const struct lab *lab;
    const char *program;         /* what a learner types to start it; NULL: zerolab */
    struct lab_progress progress;
    enum lab_phase phase;
    int at;                      /* the step that is carried out; at most progress.step */
    struct lab_driver driver;
    struct lab_baseline baseline; /* how the lab left the run ... */
    bool looks_back;             /* ... to which it is led back before anything else is done ... */
    const struct lab_actions *then; /* ... and these are carried out after that; NULL: it is not on its way back */
    struct contest contest;      /* on what the run was started with */
    int kept_count;
    struct lab_kept kept[LAB_KEPT_MAX];
    struct quantity said;        /* of a prediction */
    int chosen;                  /* of a quiz; -1: nothing yet */
    bool right;
    bool revealed;               /* the answer was shown, not given */
    struct lab_where where;      /* where a check or an answer was found on the timeline */
    bool asked_next, asked_reset;/* once more does it */
    struct lab_page page;
    int told_from;               /* the paragraph at which verdict and explanation begin */
    char notice[200];            /* answer to the last input; "": none */
};

enum lab_wish { WISH_NOTHING, WISH_COMMAND, WISH_GO, WISH_RESTART };

void lab_play_init(struct lab_play *play, const struct lab *lab, const struct lab_progress *progress);
void lab_play_release(struct lab_play *play);
void lab_play_started(struct lab_play *play); /* a run with lab_sets_at(play->at) is started; holds the lab's contest */

/* What is to be done next; play->driver.line is the command or what to go to. Ask again until it is WISH_NOTHING. */
enum lab_wish lab_play_tick(struct lab_play *play, const struct run_model *model, const struct history *history);

/* What the learner does. Each says in play->notice what it could not do. */
bool lab_play_say(struct lab_play *play, const char *text); /* a prediction; false: it is none, and is still waited for */
void lab_play_choose(struct lab_play *play, int choice);
void lab_play_check(struct lab_play *play, const struct run_model *model, const struct history *history); /* a task */
void lab_play_reveal(struct lab_play *play); /* the right answer is shown; a task is carried out */
void lab_play_hint(struct lab_play *play, const struct run_model *model, const struct history *history);
void lab_play_next(struct lab_play *play);
void lab_play_go(struct lab_play *play, int step); /* from 0; the run is taken there from its start */
void lab_play_reset_step(struct lab_play *play);
void lab_play_spent(struct lab_play *play, double seconds);

const struct lab_step *lab_play_step(const struct lab_play *play); /* the learner's */
bool lab_play_holds(const struct lab_play *play);        /* a prediction is waited for: until then nothing is shown */
bool lab_play_was_answered(const struct lab_play *play); /* it is asked once more: `n` goes on, with what was said */
struct lab_scene lab_play_scene(const struct lab_play *play, const struct run_model *model, const struct history *history);

#endif
