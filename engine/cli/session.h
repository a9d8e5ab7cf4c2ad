/* One training run, seen from the front end: the engine is started, its trace is read to the end (on the screen, or as
 * lines), the report is written, and nothing is left behind. */
#ifndef ENGINE_CLI_SESSION_H
#define ENGINE_CLI_SESSION_H

#include <signal.h>

#include "engine/advise/report.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/front.h"
#include "engine/cli/resume.h"
#include "engine/launch/spec.h"
#include "engine/observe/questions.h"
#include "engine/train/relauncher.h"

struct session {
    const struct cli *cli;
    bool live; /* with a screen */
    char rank_set[48], trace[4096], report[4096]; /* report "": none */
    char *config_text;                               /* what stands in CONFIG; NULL: none is given */
    struct resume resume;
    struct run_spec spec;
    struct config config;
    FILE *out;
    struct app_cost screen;
    struct app_lab *lab;                                           /* played on the screen; NULL: none */
    struct app_offer *offer;                                       /* made on the screen; NULL: none */
    struct app **stage;                                            /* the screen, if it is to stay; NULL: it goes with the run */
    void (*follow)(struct session *session, struct source *source); /* without a screen: reads the run; NULL: headless_run() */
    void *user;                                                    /* of follow */
    struct run_model *model; /* what became of the run; NULL: it is somewhere else, or never began */
    char lost[1200];         /* what it could not write, though it came to its end: one line; "": nothing */
    bool forced;             /* ended at once, on the user's word */
    bool called_off;         /* stopped before the engine called: there is no trace */
    /* Its own. */
    struct rundir dir;
    struct relauncher relauncher;
    int signal_fd;
    struct report_past past; /* steps that the model has dropped, for a report that was asked for */
    bool past_lost;          /* they could not be kept */
};

/* The run in this process. A run that failed is an error; one that was stopped or ran out of memory is not, and neither is
 * one that could not write all that it was to (`lost`). */
int session_run(struct session *session, struct error *err);

/* The run in a process of its own that stays when this one ends; returns when it is up. */
int session_detach(struct session *session, struct error *err);

/* Whether it is sure to save checkpoints. (It may be told to later.) */
bool session_saves(const struct session *session);

/* What `latest` names in the folder that the run saved into last; false: none. */
bool session_latest(const struct session *session, char tag[CHECKPOINT_TAG_BYTES]);

/* Shared by the two: SIGINT, SIGTERM and SIGHUP to be read from signal_fd; the folder and the engine; what is left of them. */
void session_take_signals(struct session *session, sigset_t *before);
int session_start(struct session *session, struct error *err);
void session_call_off(struct session *session); /* asked to end before the engine called: no failure, an outcome as of later stops */
int session_finish(struct session *session, int shown, struct error *err);
void session_report(struct session *session);
void session_find_losses(struct session *session); /* before the report, which says them, too */

#endif
