/* A learner's progress in a lab: a pure fold of inputs: equal inputs give equal progress. The fold uses no files and no
 * clock; lab_load() and lab_save() use files. */
#pragma once

#include "engine/lab/lab.h"

enum lab_mark { LAB_OPEN, LAB_RIGHT, LAB_WRONG, LAB_SKIPPED, LAB_MARKS };

/* believed: the mistake behind a wrong first answer. In a prediction, the reply of the lab to the value given (it stands in a line
 * `wrong:`), or "another value" where the lab has no reply to it; in a quiz, the text of the choice. "": none is known. */
struct lab_step_progress {
    enum lab_mark mark;
    int attempts, hints;
    double seconds;
    char said[48], believed[160];
};

struct lab_progress {
    int step, count;  /* the step that the learner is at; steps of the lab */
    bool finished;
    struct lab_step_progress at[LAB_STEPS_MAX];
};

enum lab_input_kind {
    LAB_INPUT_ANSWERED, /* `right`; `said`: the answer; `believed`: the mistake behind a wrong answer */
    LAB_INPUT_READ,     /* a step that asks nothing */
    LAB_INPUT_HINT,
    LAB_INPUT_NEXT, /* from a step that is still open: it is skipped */
    LAB_INPUT_GO,   /* to `step` (counted from 0): open steps before it are skipped */
    LAB_INPUT_RESET_STEP,
    LAB_INPUT_RESET,
    LAB_INPUT_SPENT, /* seconds went by */
};

struct lab_input {
    enum lab_input_kind kind;
    bool right;
    int step;
    double seconds;
    const char *said, *believed;
};

void lab_progress_init(struct lab_progress *progress, const struct lab *lab);
void lab_progress_fold(struct lab_progress *progress, const struct lab_input *input);

struct lab_sums { int right, played, attempts, hints; double seconds; }; /* right, played: steps */
struct lab_sums lab_progress_sums(const struct lab_progress *progress);
/* "4 of 6 parts are right"; after skipped ones (--from) "2 of 2 parts that you played are right". Returns `text`. */
enum { LAB_RESULT_ROOM = 64 };
char *lab_progress_result(char text[LAB_RESULT_ROOM], const struct lab_progress *progress);
const char *lab_mark_name(enum lab_mark mark);
enum lab_mark lab_mark_named(const char *name); /* LAB_OPEN: there is none of that name, which may be NULL */

/* To JSON (the caller frees it; NULL: no memory), and from JSON: reading keeps what fits a lab of `progress->count`
 * steps. STATUS_INPUT: not a progress file; nothing was changed. */
char *lab_progress_json(const struct lab_progress *progress, const char *name);
int lab_progress_read(struct lab_progress *progress, const char *text, struct error *err);

/* Reads progress without the lab: the file gives the lab's name and its number of steps. */
enum { LAB_FOLDER_MAX = 64 };
int lab_progress_identify(struct lab_progress *progress, char name[LAB_FOLDER_MAX], const char *text, struct error *err);

/* Loads and saves a learner's progress: $XDG_STATE_HOME/zerolab/labs/NAME.json, else below ~/.local/state. */

/* Loads the saved progress. Without one, or if it cannot be read (the error says why), begins at the first step. */
int lab_load(struct lab_progress *progress, const struct lab *lab, struct error *err);
int lab_save(const struct lab_progress *progress, const struct lab *lab, struct error *err);

/* True if no lab was ever played here and the tour was not refused. False too if no state folder can be named. */
bool lab_nobody_played(void);
int lab_refuse_tour(struct error *err); /* permanently */

/* Deletes a lab's saved progress; if there is none, that is no error. lab_forget_all() deletes that of every lab, also of
 * labs that the learner wrote. */
int lab_forget(const char *name, struct error *err);
int lab_forget_all(struct error *err);
