/* Plays a lab against the engine: starts a run with each setup of the lab, and follows it until the lab wants another
 * run or has ended. On the screen a learner plays; without a screen the lab's own answers are played and checked. */
#pragma once

#include "engine/cli/session.h"

/* Starts runs until lab->play wants no other run. follow: reads each run without a screen; NULL: on the screen, which
 * is `stage` if that is not NULL. user: for follow. */
int lab_run(const struct cli *cli, struct app_lab *lab, struct app *stage, void (*follow)(struct session *, struct source *), void *user, struct error *err);

/* Lets the user play a lab; stage as above. */
int lab_play_named(const struct cli *cli, const char *name, struct app *stage, struct error *err);

/* The result of playing a lab with its own answers. */
enum { TRIAL_ANSWERS_MAX = 64 };

struct lab_trial {
    struct lab_play *play;
    FILE *print;             /* hand-out; NULL: none */
    bool solutions;          /* ... with answers */
    FILE *numbers;           /* gets the values that the checks measured; NULL: none */
    int asked, wrongs, faults; /* questions and tasks; wrong answers that were rejected; faults of the lab */
    struct {
        const struct lab_step *step;
        struct quantity value;
    } right[TRIAL_ANSWERS_MAX]; /* of the steps so far */
    int rights;
    char first_fault[400];
    int handled;             /* the last step that was played; -1: none */
};

/* Plays the lab from its first step to its last with its own answers. STATUS_CHECK: the lab has a fault
 * (first_fault). */
int lab_trial_run(struct lab_trial *trial, const struct cli *cli, const struct lab *lab, struct error *err);
