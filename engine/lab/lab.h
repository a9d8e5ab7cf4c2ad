/* A lab is a text file that a teacher writes (docs/LABS.md). lab_read() checks everything that can be known without a
 * run: directives, units, names, settings, commands. An error names file and line and says what would be right.
 *
 *     lab_read(&lab, "labs/zero-1/lab.md", text, length, &err)  ...  lab_free(lab)
 *
 * A struct lab is constant afterwards. progress.h holds a learner's progress, play.h the state of a played lab. */
#pragma once

#include "engine/lab/expression.h"

enum {
    LAB_FILE_BYTES_MAX = 256 << 10, LAB_STEPS_MAX = 32, LAB_HINTS_MAX = 3, LAB_CHOICES_MAX = 6, LAB_WRONGS_MAX = 4,
    LAB_CHECKS_MAX = 8, LAB_ACTIONS_MAX = 16,
};

/* Text with {expressions} in it. */
struct prose_piece { const char *text; const struct expression *value; const struct unit_name *unit; int decimals; };
struct prose { int count; struct prose_piece *pieces; };

/* "left relation right within tolerance" */
enum relation { RELATION_EQUAL, RELATION_NOT, RELATION_AT_MOST, RELATION_AT_LEAST, RELATION_LESS, RELATION_MORE, RELATIONS };
struct lab_check {
    int line;
    const char *text;
    struct prose said; /* shown to learners in place of the text; count 0: show the text */
    const struct expression *left, *right;
    enum relation relation;
    bool relative;
    double tolerance; /* if `relative`, a share of the right side; else in the right side's unit */
};

/* A prediction: the right value, the unit in which it is asked for, and the tolerance. */
struct lab_answer { const struct expression *value; const struct unit_name *unit; bool relative; double tolerance; };
/* A wrong value that a learner may predict, and the reply to it. */
struct lab_wrong { int line; const struct expression *value; struct prose reply; };
struct lab_choice { int line; bool right; struct prose text, reply; };

enum lab_act { LAB_COMMAND, LAB_RUN, LAB_GO, LAB_KEEP };
struct lab_action {
    int line;
    enum lab_act act;
    int count;                 /* RUN: steps */
    struct prose text;         /* COMMAND: the line; GO: what to find */
    char name[LAB_NAME_MAX];   /* KEEP: the name under which the value is kept */
    const struct expression *value;
};
struct lab_actions { int count; struct lab_action at[LAB_ACTIONS_MAX]; };

enum lab_ask { LAB_READ, LAB_PREDICT, LAB_QUIZ, LAB_TASK };

struct lab_step {
    int line;
    const char *title;
    struct prose text, question, explain;
    enum lab_ask ask;
    struct lab_answer answer;
    int wrong_count, choice_count, check_count, hint_count;
    struct lab_wrong wrong[LAB_WRONGS_MAX];
    struct lab_choice choice[LAB_CHOICES_MAX];
    struct lab_check check[LAB_CHECKS_MAX];
    struct prose hint[LAB_HINTS_MAX];
    struct lab_actions before, actions, solution; /* before: on entering the step; actions: after the answer (in a task,
                                                     the values to keep once it is solved); solution: solves a task */
    bool has_setup;                  /* the run is restarted for this step ... */
    struct text_list sets;           /* ... with these settings, "key=value" */
    const char *resume;              /* ... and resumes from this earlier step's checkpoint; NULL: from the beginning */
    const char *same;                /* why its answer may be that of an earlier step; NULL: it may not */
    const char *trace;               /* ... or from here on another trace is shown; NULL: the same one */
    const char *look;                /* the view to show; NULL: keep the present one */
};

struct lab {
    char name[64];
    const char *title, *about;
    int minutes;
    const char *trace;  /* the file of a recorded trace that the first step shows; NULL: the lab is about a run */
    const char *folder; /* the folder of the lab's file, where its traces lie; NULL: it is built in, and so are they */
    struct text_list sets; /* settings of the first run */
    struct lab_tries tries;
    const char *elsewhere; /* names of rows of differences.def for the closing step; NULL: none */
    int step_count;
    struct lab_step steps[LAB_STEPS_MAX];
    struct lab_pool pool; /* owns what the lab points to */
};

/* Parses a lab; lab_free() frees it. `file` is for messages; the lab's name is its folder's. STATUS_USAGE: "FILE:LINE:
 * what is wrong; what would be right". */
int lab_read(struct lab **out, const char *file, const char *text, size_t length, struct error *err);
void lab_free(struct lab *lab);

/* Returns the text with values filled in; an unknown one becomes "(not known yet)". The caller frees; NULL: no
 * memory. */
char *prose_fill(const struct prose *prose, const struct lab_scene *scene);

/* The result of a check. why: the reason why it does not hold: "expected 2 MB, got 3 MB", or which value is not known yet. */
struct lab_finding { bool known, holds; char said[240], why[160]; struct lab_where where; };
struct lab_finding lab_check_hold(const struct lab_check *check, const struct lab_scene *scene);
/* Whether the checked values are the same on every machine and with any number of threads. */
bool lab_check_is_portable(const struct lab *lab, const struct lab_check *check);
/* Whether a predicted value is within the tolerance. False if the right value is unknown. */
bool lab_answer_near(const struct lab_answer *answer, struct lab_value right, struct quantity said);

/* The trace that a step shows; NULL: the lab is about a run. */
const char *lab_trace_at(const struct lab *lab, int step);

/* The checkpoint from which the run of a step resumes; NULL: from the beginning. */
const char *lab_resume_at(const struct lab *lab, int step);
/* Whether any step saves checkpoints: the run then needs a folder for them. */
bool lab_saves(const struct lab *lab);
/* Whether a step before `end` saves a checkpoint under this tag; NULL: under any. */
bool lab_saves_before(const struct lab *lab, int end, const char *tag);

/* The settings in force at a step: those of the last step at or before it that has a setup, else the lab's. */
const struct text_list *lab_sets_at(const struct lab *lab, int step);
