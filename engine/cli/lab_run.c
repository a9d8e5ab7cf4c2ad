#include "engine/cli/lab_run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checkpoints of a lab outlive the runs that it is about, so they have a folder of their own. */
struct lab_saves {
    struct rundir dir;
    char path_set[112]; /* "checkpoint.path=...", as a setting; "": this lab saves none */
    char pause[32];     /* "1:pause" */
};

static int open_saves(struct lab_saves *saves, const struct lab *lab, struct error *err)
{
    *saves = (struct lab_saves){.dir.lock_fd = -1};
    if (!lab_saves(lab)) return STATUS_OK;
    int status = rundir_create_lab(&saves->dir, err);
    if (!status) snprintf(saves->path_set, sizeof saves->path_set, "checkpoint.path=\"%s\"", saves->dir.path);
    return status;
}

static int go_on_from(struct session *session, const struct lab_saves *saves, const char *tag, struct error *err)
{
    char from[160];
    rundir_path(&saves->dir, tag, from, sizeof from);
    return resume_prepare(&session->resume, &session->spec, from, false, err);
}

/* Ranks are threads of one process: a lab starts its run anew every few minutes, and that takes a tenth of a second so. */
static int spec_of(struct session *session, const struct lab_play *play, struct lab_saves *saves, struct error *err)
{
    const struct text_list *more = &session->cli->sets;
    const char *const *sets, *resume = lab_resume_at(play->lab, play->at);
    int count;
    struct run_spec *spec = &session->spec;
    lab_sets_at(play->lab, play->at, &sets, &count);
    *spec = (struct run_spec){.interactive = true};
    for (int s = 0; s < count; s++) spec->sets.at[spec->sets.count++] = sets[s];
    for (int s = 0; s < more->count && spec->sets.count < TEXT_LIST_MAX - RESUME_SETS - 3; s++)
        spec->sets.at[spec->sets.count++] = more->at[s];
    spec->sets.at[spec->sets.count++] = "topology.ranks_as=threads";
    if (*saves->path_set) spec->sets.at[spec->sets.count++] = saves->path_set;
    if (*saves->path_set) spec->sets.at[spec->sets.count++] = "checkpoint.at_end=false";
    spec->own = (struct text_list){1, {saves->dir.path}};
    int status = resume ? go_on_from(session, saves, resume, err) : STATUS_OK; /* from the same folder */
    snprintf(saves->pause, sizeof saves->pause, "%lld:pause", (long long)session->resume.steps_done + 1);
    spec->at.at[spec->at.count++] = saves->pause;
    return status ? status : spec_load_config(spec, &session->config, err);
}

static int one_run(const struct cli *cli, struct app_lab *lab, struct lab_saves *saves, struct app **stage,
                   void (*follow)(struct session *, struct source *), void *user, struct error *err)
{
    struct session session = {.cli = cli,
                              .signal_fd = -1,
                              .dir.lock_fd = -1,
                              .out = stderr,
                              .lab = lab,
                              .stage = stage,
                              .live = !follow,
                              .follow = follow,
                              .user = user};
    int status = spec_of(&session, &lab->play, saves, err);
    if (!status) {
        lab_play_started(&lab->play);
        status = session_run(&session, err);
        if (session.called_off) app_close(*stage), *stage = NULL; /* no other run is to follow */
        run_model_free(session.model);
        config_release(&session.config);
    }
    resume_release(&session.resume);
    return status;
}

int lab_run(const struct cli *cli, struct app_lab *lab, struct app *stage,
            void (*follow)(struct session *, struct source *), void *user, struct error *err)
{
    struct lab_saves saves;
    int status = open_saves(&saves, lab->play.lab, err);
    if (status) return app_close(stage), status;
    do status = one_run(cli, lab, &saves, &stage, follow, user, err);
    while (!status && (follow ? lab->play.phase == PLAY_RESTART : stage != NULL));
    app_close(stage); /* where a run could not be started anew */
    rundir_close(&saves.dir, true);
    return status;
}
