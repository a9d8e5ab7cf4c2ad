/* One training run on the side of the front end: starts the engine, reads its trace to the end (on the screen, or as
 * lines), writes the report, and cleans up. */
#pragma once

#include <signal.h>

#include "engine/advise/logs.h"
#include "engine/advise/report.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/front.h"
#include "engine/launch/hosts.h"
#include "engine/launch/spec.h"
#include "engine/observe/questions.h"
#include "engine/train/relauncher.h"

/* ---- resume.c: resumes from a checkpoint, or begins with weights of another program: finds the run's configuration, and which keys
 * follow from the saved state ---- */

enum { RESUME_SETS = 16 };

struct resume {
    char folder[CHECKPOINT_FOLDER_BYTES]; /* DIR/TAG */
    char dir[CHECKPOINT_FOLDER_BYTES];    /* the real path of DIR; "": not known */
    char set[RESUME_SETS][CHECKPOINT_FOLDER_BYTES + 32];
    int sets;
    char *config_json;
    int64_t steps_done;
    struct data_fingerprint data; /* of the training data of the saved run */
    char note[200]; /* something the user should know; "": nothing */
};

/* Fills the spec of a run that resumes from DIR or DIR/TAG: the checkpoint and, if no CONFIG is given, the saved
 * configuration. Settings that the spec already has override it. The spec points into `resume`. STATUS_INPUT: there
 * is no good checkpoint. */
int resume_prepare(struct resume *resume, struct run_spec *spec, const char *from, bool weights_only, struct error *err);

/* The same for a run that begins with a file of weights. The file's sizes override those of CONFIG, or of the built-in default. Without
 * CONFIG the optimizer's settings and gradient_clipping become "auto", and samples have at most 128 tokens. STATUS_USAGE: `path` has
 * checkpoints, or neither the file nor the user gives the number of heads. */
int resume_prepare_weights(struct resume *resume, struct run_spec *spec, const char *path, struct error *err);

/* Whether the resolved configuration describes the model in the file of weights `path`. */
int resume_check_weights(const char *path, const struct config *config, struct error *err);

void resume_release(struct resume *resume);

/* ---- a run ---- */

struct session {
    const struct cli *cli;
    bool live; /* with a screen */
    char hosts[HOSTS_TEXT_BYTES]; /* spec.hosts */
    char rank_set[48], trace[4096], report[4096]; /* report "": none */
    char *config_text;                               /* the content of CONFIG; NULL: no CONFIG is given */
    struct resume resume;
    struct run_spec spec;
    struct config config;
    FILE *out;
    struct app_cost screen;
    struct app_lab *lab;                                           /* a lab to play on the screen; NULL: none */
    struct app_offer *offer;                                       /* an offer in the screen's header; NULL: none */
    struct app **stage;                                            /* the screen, for the next run; NULL: it closes */
    void (*follow)(struct session *session, struct source *source); /* without a screen: reads the run; NULL: headless_run() */
    void *user;                                                    /* of follow */
    struct run_model *model; /* the state of the run; NULL: it runs in another process, or never began */
    char lost[1200];         /* one line: files that a run that ended well could not write; "": none */
    bool forced;             /* the user ended the run at once */
    bool called_off;         /* stopped before the engine called: there is no trace */
    /* Private to session.c and detach.c. */
    struct rundir dir;
    struct relauncher relauncher;
    int signal_fd;
    FILE *past;              /* steps that the model has dropped, for a report that was asked for */
    bool past_lost;          /* these steps could not be kept */
};

/* place.c. session_set(): adds a setting; its text must outlive the spec. place_choose(): decides where the ranks run, and adds
 * the settings that follow. place_hosts(): the hosts that the command line or Slurm names, this machine first; none: count 0. */
int session_set(struct run_spec *spec, const char *set, struct error *err);
int place_choose(struct session *session, struct error *err);
int place_hosts(struct hosts *hosts, const struct cli *cli, struct error *err);

/* Starts the run and follows it in this process until it ends. A failed run is an error. A run that was stopped, ran out of
 * memory, or could not write all its files (`lost`) is no error. */
int session_run(struct session *session, struct error *err);

/* Starts the run under another process, which stays when this one ends. Returns when the run has started. */
int session_detach(struct session *session, struct error *err);

/* Whether the configuration or an --at command makes the run save checkpoints. (A command may ask for one later.) */
bool session_saves(const struct session *session);

/* The tag that `latest` names in the folder into which the run saved last; false: none. */
bool session_latest(const struct session *session, char tag[CHECKPOINT_TAG_BYTES]);

/* Shared by session_run() and session_detach(): open signal_fd for SIGINT, SIGTERM and SIGHUP; make the folder and
 * start the engine; end both. */
void session_take_signals(struct session *session, sigset_t *before);
int session_start(struct session *session, struct error *err);
void session_call_off(struct session *session); /* stopped before the engine called: not a failure */
/* Ends the engine, fills `lost`, writes the report. shown: the status of following the run; err has its error. Returns the run's status. */
int session_end(struct session *session, int shown, struct error *err);

/* Waits at most most_ms for a record of either source (NULL: no source), a signal, or a call of the next engine. */
enum session_news { SESSION_NOTHING, SESSION_SIGNAL, SESSION_MORE };
enum session_news session_wait(struct session *session, const struct source *source, const struct source *other, int most_ms);

/* headless.c: follows a run without a screen: reads the trace to its end, folds it into the model, and prints progress: on a
 * terminal one line that is rewritten in place, elsewhere a plain line now and then. Notices (out of memory, a refused command) and
 * the logs that the configuration asks for (NULL: none) are printed as they arrive. The first signal asks the run to stop, the
 * second ends it. Returns when the trace has ended. */
void headless_run(struct session *session, struct source *source, FILE *out, struct logs *logs);
