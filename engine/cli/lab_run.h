/* Playing a lab against the engine: the run is started as each of its setups says, and read to where the lab wants another
 * one or has ended. On the screen a learner plays; without one, a robot does. */
#ifndef ENGINE_CLI_LAB_RUN_H
#define ENGINE_CLI_LAB_RUN_H

#include "engine/cli/session.h"

/* Starts runs until `play` wants no other one. With `follow` there is no screen; else stage, if it is not NULL, is one that
 * is there already. */
int lab_run(const struct cli *cli, struct app_lab *lab, struct app *stage, void (*follow)(struct session *, struct source *), void *user, struct error *err);

/* Lets the user play a lab; stage as above. */
int lab_play_named(const struct cli *cli, const char *name, struct app *stage, struct error *err);

/* What became of a lab that the robot played. */
struct lab_trial {
    struct lab_play *play;
    FILE *print;             /* hand-out; NULL: none */
    bool solutions;          /* ... with answers */
    FILE *numbers;           /* what the checks found; NULL: nobody asks */
    int asked, wrongs, faults; /* questions and tasks; wrong answers that were caught; what does not hold */
    char first_fault[400];
    int handled;             /* step that has been dealt with; -1: none */
};

/* Plays it from its first step to its last with its own answers. STATUS_CHECK: something does not hold (first_fault). */
int lab_trial_run(struct lab_trial *trial, const struct cli *cli, const struct lab *lab, struct error *err);

#endif
