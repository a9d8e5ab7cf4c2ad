#include "engine/run/lab_run.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* Ranks are threads of one process: a lab starts its run anew every few minutes, and that takes a tenth of a second so. */
static int spec_of(struct session *session, const struct lab_play *play, struct error *err)
{
    const char *const *sets;
    int count;
    struct run_spec *spec = &session->spec;
    lab_sets_at(play->lab, play->at, &sets, &count);
    *spec = (struct run_spec){.interactive = true};
    for (int s = 0; s < count; s++) spec->sets.at[spec->sets.count++] = sets[s];
    spec->sets.at[spec->sets.count++] = "topology.ranks_as=threads";
    spec->at.at[spec->at.count++] = "1:pause";
    return config_load(&session->config, NULL, spec->sets.at, spec->sets.count, err);
}

static int one_run(const struct cli *cli, struct app_lab *lab, struct app **stage,
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
    int status = spec_of(&session, &lab->play, err);
    if (status) return status;
    lab_play_started(&lab->play);
    status = session_run(&session, err);
    run_model_free(session.model);
    config_release(&session.config);
    return status;
}

int lab_run(const struct cli *cli, struct app_lab *lab, struct app *stage,
            void (*follow)(struct session *, struct source *), void *user, struct error *err)
{
    int status;
    do status = one_run(cli, lab, &stage, follow, user, err);
    while (!status && (follow ? lab->play.phase == PLAY_RESTART : stage != NULL));
    app_close(stage); /* where a run could not be started anew */
    return status;
}
