/* `zerolab` and `zerolab train`: prepares a run, refuses it if it is not possible, runs it, and prints the outcome. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/cli/lab_run.h"
#include "engine/cli/session.h"
#include "engine/config/command.h"
#include "engine/data/data.h"
#include "engine/device/gpu.h"
#include "engine/lab/progress.h"
#include "engine/launch/capacity.h"
#include "engine/trace/file.h"
#include "engine/trace/sink.h"
#include "engine/train/save_claims.h"
#include "engine/train/worker.h"

enum { DEFAULT_STEPS = 30 };

/* ---- what is asked for ---- */

/* Tests whether a file can be written before the training rather than after hours of it. made: a file that the test made, which the
 * caller removes again, so that a refused run leaves nothing; NULL: it was there. */
static int try_file(const char **made, const char *what, const char *path, struct error *err)
{
    struct stat there;
    *made = NULL;
    if (!path || !*path || strcmp(path, "-") == 0) return STATUS_OK;
    if (stat(path, &there) == 0 && S_ISFIFO(there.st_mode)) { /* its reader would take the test for the whole output */
        if (access(path, W_OK) == 0) return STATUS_OK;
        return error_set(err, STATUS_USAGE, "cannot write the %s %s: %s", what, path, strerror(errno));
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) *made = path;
    else if (errno == EEXIST) fd = file_open_named(path, O_WRONLY);
    if (fd < 0) return error_set(err, STATUS_USAGE, "cannot write the %s %s: %s", what, path, file_why(errno));
    const bool is_anothers = trace_file_is_anothers(fd);
    close(fd);
    if (is_anothers) return error_set(err, STATUS_USAGE, "cannot write the %s %s: another run is writing it", what, path);
    return STATUS_OK;
}

/* A file in the state folder, for runs without options: $XDG_STATE_HOME/zerolab, or ~/.local/state/zerolab. */
static bool state_file(char *out, size_t room, const char *name)
{
    const char *made;
    const int length = file_state_path(out, room, name);
    if (length < 0 || length >= (int)room) return *out = '\0', false;
    file_make_folders(out);
    if (try_file(&made, "", out, NULL)) return *out = '\0', false; /* not asked for: train without it */
    if (made) unlink(made);
    return true;
}

/* Steps are numbered from the very first one, also in a resumed run. */
static int choose_steps(struct session *session, struct error *err)
{
    const int64_t done = session->resume.steps_done, asked = session->cli->steps;
    session->spec.steps = asked > 0 ? asked : session->spec.interactive ? 0 : done + DEFAULT_STEPS;
    if (asked <= 0 || asked > done) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "%.200s has %lld steps already; --steps counts from the first, so it must be more than that",
                     session->resume.folder, (long long)done);
}

static int check_commands(const struct run_spec *spec, int64_t steps_done, struct error *err)
{
    for (int i = 0; i < spec->at.count; i++) {
        int64_t step;
        struct command command;
        int status = command_parse_at(spec->at.at[i], &step, &command, err);
        if (status) return status;
        if (spec->steps > 0 && step > spec->steps)
            return error_set(err, STATUS_USAGE, "--at %s comes after the last step, %lld", spec->at.at[i],
                             (long long)spec->steps);
        if (step > 0 && step <= steps_done)
            return error_set(err, STATUS_USAGE, "--at %s comes before the first step that is left, %lld",
                             spec->at.at[i], (long long)steps_done + 1);
    }
    return STATUS_OK;
}

static int choose_ranks(struct session *session, struct error *err)
{
    struct config *config = &session->config;
    int status = gpu_check(config, err);
    if (!status) gpu_settle(config);
    const struct launcher *launcher = launcher_of(&session->spec, config);
    if (!status && launcher->check) status = launcher->check(err);
    if (status || config->topology.backend != BACKEND_CUDA) return status;
    /* Ranks on other machines cannot ask this one what `auto` means here. */
    if (config->topology.ranks_as == RANKS_AS_MPIRUN && config->topology.collectives != COLLECTIVES_NCCL_SUM)
        return session_set(&session->spec, gpu_passes(config) ? "topology.collectives=nccl" : "topology.collectives=direct", err);
    if (config->topology.ranks_as != RANKS_AS_AUTO) return STATUS_OK;
    config->topology.ranks_as = RANKS_AS_THREADS;
    return session_set(&session->spec, "topology.ranks_as=threads", err);
}

/* --strict: refuses other data than the checkpoint's; without --strict rank 0 warns in the log. */
static int check_same_data(const struct resume *resume, const struct data *data, struct error *err)
{
    char text[480];
    if (!resume->data.known)
        return error_set(err, STATUS_USAGE, "--strict: %.300s does not say what data it was trained on; leave --strict out",
                         resume->folder);
    if (data_fingerprint_compare(&resume->data, data_fingerprint(data), text, sizeof text) != DATA_CHANGED)
        return STATUS_OK;
    return error_set(err, STATUS_USAGE, "--strict: %s", text);
}

/* Opens the data only to refuse bad data before any process is started. */
static int check_data(const struct session *session, struct error *err)
{
    struct data *data;
    int status = data_open(&data, &session->config, err);
    if (status) return status;
    if (session->cli->strict) status = check_same_data(&session->resume, data, err);
    data_close(data);
    return status;
}

static int check_saves(const struct session *session, struct error *err)
{
    const char *folder = session->config.checkpoint.path;
    const bool saves = session_saves(session);
    int status = saves ? save_claims_check_others(NULL, folder, err) : STATUS_OK;
    if (!status) status = save_claims_check(&session->spec.own, folder, err);
    if (!status && saves) status = checkpoint_try(folder, err);
    return status;
}

/* Where ranks may be on several hosts, each host checks its own room (rank_open.c). */
static int check_room(const struct session *session, struct error *err)
{
    if (session->spec.hosts || session->spec.external) return STATUS_OK;
    const struct capacity room = capacity_now(&session->config, false);
    return capacity_check(&session->config, &room, err);
}

/* Checks files of the configuration together with those of the command line, which cli_check_files() has checked. */
static int check_uses(const struct session *session, const char *profile, struct error *err)
{
    const struct config *config = &session->config;
    const struct file_use uses[] = {
        {FILE_READ, "CONFIG", session->cli->operand},
        {FILE_READ, "--from", session->cli->from_file},
        {FILE_READ_ALL, "data.path", config->data.path},
        {FILE_READ, "data.vocabulary_file", config->data.vocabulary_file},
        {FILE_READ, "data.merges_file", config->data.merges_file},
        {FILE_WRITTEN, "the trace", session->trace},
        {FILE_WRITTEN, "the report", session->report},
        {FILE_WRITTEN, "the profile", profile},
        {FILE_WRITTEN, "--log", session->cli->log},
    };
    return files_check(uses, sizeof uses / sizeof *uses, err);
}

/* The screen reads the trace while it grows, and a relaunched engine appends to it, so it must be a file that can be
 * read again. /dev/null is allowed, because it is never read. */
static int check_trace(const char *path, struct error *err)
{
    struct stat there, null;
    if (!*path || stat(path, &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode)) return STATUS_OK;
    if (S_ISCHR(there.st_mode) && stat("/dev/null", &null) == 0 && there.st_rdev == null.st_rdev) return STATUS_OK;
    const char *what = S_ISFIFO(there.st_mode) ? "pipe" : S_ISSOCK(there.st_mode) ? "socket" : "device";
    return error_set(err, STATUS_USAGE, "cannot write the trace %s: it is a %s; give a file, which can be read while it grows",
                     path, what);
}

static int check_files(const struct session *session, struct error *err)
{
    static const char *const what[] = {"trace", "report", "profile", "log"};
    const char *profile = session->live || session->cli->detach ? "" : session->config.logs.flops.output_file;
    const char *const path[] = {session->trace, session->report, profile, session->cli->log};
    const char *made[4] = {0};
    int status = check_uses(session, profile, err);
    if (!status) status = check_trace(session->trace, err);
    for (int f = 0; f < 4 && !status; f++) status = try_file(&made[f], what[f], path[f], err);
    for (int f = 0; f < 4; f++)
        if (made[f]) unlink(made[f]);
    return status;
}

static void choose_files(struct session *session)
{
    const struct cli *cli = session->cli;
    bool bare = cli->verb == VERB_VIEW && !session->live && !cli->detach;
    if (cli->trace) snprintf(session->trace, sizeof session->trace, "%s", cli->trace);
    else if (bare) state_file(session->trace, sizeof session->trace, "last.zlt");
    if (cli->report) snprintf(session->report, sizeof session->report, "%s", cli->report);
    else if (bare) state_file(session->report, sizeof session->report, "last.json");
    session->out = strcmp(session->report, "-") == 0 ? stderr : stdout;
}

/* Reads CONFIG once, since a pipe can be read only once. Later engines get the same text, even if CONFIG changed.
 * ZEROLAB_CONFIG is a file that replaces the built-in default. */
static int read_config(struct session *session, struct error *err)
{
    struct run_spec *spec = &session->spec;
    const char *path = spec->config_path ? spec->config_path : getenv("ZEROLAB_CONFIG");
    if (!path || !*path) return STATUS_OK;
    int status = config_read(&session->config_text, path, err);
    spec->config_text = session->config_text;
    return status ? error_prefix(err, "%s", path) : STATUS_OK;
}

/* A trace without --trace is kept small. */
static int choose_trace_limit(struct session *session, struct error *err)
{
    enum { LAST_TRACE_BYTES = 64 << 20 };
    const char *wanted = session->cli->trace_limit;
    struct run_spec *spec = &session->spec;
    uint64_t bytes;
    spec->trace_tells = session->cli->trace != NULL;
    spec->trace_limit_bytes = session->cli->trace ? 0 : LAST_TRACE_BYTES;
    if (!wanted) return STATUS_OK;
    if (!spec->trace) return error_set(err, STATUS_USAGE, "--trace-limit %.60s: nothing is recorded; give --trace FILE too", wanted);
    if (config_parse_bytes(wanted, &bytes, err)) return error_prefix(err, "--trace-limit");
    if (bytes < TRACE_LIMIT_LEAST_BYTES || bytes > INT64_MAX / 4)
        return error_set(err, STATUS_USAGE, "--trace-limit %.60s: give at least 1MiB, such as 500MB", wanted);
    spec->trace_limit_bytes = (int64_t)bytes;
    return STATUS_OK;
}

static int resolve(struct session *session, struct error *err)
{
    const struct cli *cli = session->cli;
    struct run_spec *spec = &session->spec;
    session->live = !cli->headless && !cli->detach && app_terminal_fits(NULL);
    choose_files(session);
    *spec = (struct run_spec){
        .config_path = cli->operand,
        .sets = cli->sets,
        .at = cli->at,
        .sample_tokens = cli->sample,
        .trace = *session->trace ? session->trace : NULL,
        .interactive = session->live || cli->detach,
        .detached = cli->detach,
    };
    int status = choose_trace_limit(session, err);
    if (!status) status = read_config(session, err);
    if (status) return status;
    if (cli->weights_only && !cli->resume)
        return error_set(err, STATUS_USAGE,
                         "--weights-only says what to take from a checkpoint; it needs --resume DIR");
    if (cli->strict && (!cli->resume || cli->weights_only))
        return error_set(err, STATUS_USAGE,
                         "--strict compares the data with those of the run that goes on; it needs --resume DIR, without --weights-only");
    if (cli->from_file && cli->resume)
        return error_set(err, STATUS_USAGE, "a run has one beginning; give --from FILE or --resume DIR, not both");
    status = place_choose(session, err);
    if (!status && cli->resume) status = resume_prepare(&session->resume, spec, cli->resume, cli->weights_only, err);
    if (!status && cli->from_file) status = resume_prepare_weights(&session->resume, spec, cli->from_file, err);
    if (!status) status = choose_steps(session, err);
    if (!status) status = spec_load_config(spec, &session->config, err);
    if (!status && cli->from_file) status = resume_check_weights(cli->from_file, &session->config, err);
    if (!status) status = choose_ranks(session, err);
    if (!status) status = check_commands(spec, session->resume.steps_done, err);
    if (!status) status = check_data(session, err);
    if (!status) status = check_saves(session, err);
    if (!status) status = check_room(session, err);
    if (!status) status = check_files(session, err);
    return status;
}

/* ---- the outcome ---- */

/* The last step that made an update; NULL: none. */
static const struct run_step *last_update(const struct run_model *model)
{
    for (int i = model->step_count - 1; i >= 0; i--)
        if (run_step_is_whole(&model->steps[i]) && !model->steps[i].skipped) return &model->steps[i];
    return NULL;
}

static void print_outside(FILE *out, const struct run_model *model)
{
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_gpu *gpu = run_gpu_led_by(model, rank);
        const struct run_outside *outside = &model->rank[rank].outside;
        if (!gpu || !outside->known) continue;
        fprintf(out, "GPU %d: outside of all tiers %.1f MiB of %.1f MiB, measured", gpu->gpu,
                (double)outside->bytes / (1 << 20), (double)gpu->total_bytes / (1 << 20));
        if (gpu->ranks > 1) fprintf(out, "; one figure for the %d ranks that share it", gpu->ranks);
        fputc('\n', out);
    }
}

static void print_trace(FILE *out, const struct run_model *model, const char *path)
{
    const struct run_notice *notice = model->notices + model->notice_count;
    while (notice > model->notices && (notice[-1].kind != NOTICE_EVENT || strncmp(notice[-1].text, "trace_limit", 11)))
        notice--;
    if (notice > model->notices)
        fprintf(out, "trace recorded until step %u, where it reached its limit; the run went on\n", notice[-1].step);
    fprintf(out, "trace: %s   look at it with: zerolab replay %s\n", path, path);
}

static void print_result(const struct session *session)
{
    const struct run_model *model = session->model;
    const struct run_step *step = last_update(model);
    FILE *out = session->out;
    fputs(model->outcome == OUTCOME_OUT_OF_MEMORY ? "out of memory" : run_outcome_name(model->outcome), out);
    if (session->called_off) fputs(" before the run began", out);
    if (step) fprintf(out, " after step %u, loss %.4f", step->step, (double)step->loss);
    if (model->validation.known) fprintf(out, ", validation loss %.4f", (double)model->validation.loss);
    if (model->validation.known && step && model->validation.step != step->step)
        fprintf(out, " after step %u", model->validation.step);
    if (model->validation.known && model->header.has_unigram_entropy)
        fprintf(out, " (%.2f of the text's unigram entropy, %.4f)",
                (double)model->validation.loss / model->header.unigram_entropy, model->header.unigram_entropy);
    fputc('\n', out);
    print_outside(out, model);
    if (!session->live && model->sample.text) {
        fputs("sample: ", out);
        fwrite(model->sample.text, 1, model->sample.bytes, out);
        fputc('\n', out);
    }
    if (session->spec.trace && !session->called_off) print_trace(out, model, session->spec.trace);
    if (*session->report && strcmp(session->report, "-") != 0) fprintf(out, "report: %s\n", session->report);
}

/* Prints the checkpoint that `latest` names and how to resume from it, for any outcome; the line of a diverged run
 * names its own. */
static void print_checkpoint(const struct session *session, FILE *out)
{
    char latest[CHECKPOINT_TAG_BYTES];
    if (!session->model || session->model->diverged || !session_latest(session, latest)) return;
    const char *dir = session->model->save.folder;
    fprintf(out, "checkpoint: %s/%s   go on with: zerolab train --resume %s\n", dir, latest, dir);
}

/* Prints the files that could not be written as the last line, so that the run does not look successful. */
static int print_lost(const struct session *session, int status)
{
    if (!*session->lost) return status;
    fflush(session->out);
    fprintf(stderr, "zerolab: %s\n", session->lost);
    return status ? status : STATUS_RUN;
}

/* ---- the first minute ---- */

/* A user who has played no lab yet is offered the tour in the header of the live view, and need not answer. Scripts,
 * which have no terminal or give options, get no offer. */
static bool offers_tour(const struct session *session)
{
    const char *wanted = getenv("ZEROLAB_TOUR");
    bool unwanted = wanted && strcmp(wanted, "no") == 0;
    return session->cli->bare && session->live && !unwanted && lab_nobody_played();
}

static int after_offer(const struct cli *cli, const struct app_offer *offer, struct app *stage)
{
    struct error err;
    int status = STATUS_OK;
    if (offer->said == OFFER_TAKEN) status = lab_play_named(cli, "tour", stage, &err);
    else if (offer->said == OFFER_NEVER) status = lab_refuse_tour(&err);
    return status ? front_fail(&err) : STATUS_OK;
}

static int train(struct session *session, struct error *err)
{
    int status = session->cli->detach ? session_detach(session, err) : session_run(session, err);
    if (status) app_close(*session->stage), *session->stage = NULL; /* it was kept for a tour that does not follow */
    if (!status && session->model && !(session->offer && session->offer->said == OFFER_TAKEN)) {
        print_result(session);
        /* An outcome, but scripts get a status that is not 0. */
        return session->model->outcome == OUTCOME_OUT_OF_MEMORY ? STATUS_RUN : STATUS_OK;
    }
    return status ? front_fail(err) : STATUS_OK;
}

int front_train(const struct cli *cli, struct error *err)
{
    struct launcher_outer outer;
    if (launcher_outer(&outer) && outer.rank > 0) return worker_process(NULL);
    struct app_offer offer = {"New here? Enter: a two-minute tour  Esc: later  N: never", OFFER_OPEN};
    struct app *stage = NULL;
    struct session session = {.cli = cli, .signal_fd = -1, .dir.lock_fd = -1, .stage = &stage};
    int status = resolve(&session, err);
    if (!status && cli->detach && session.config.notes) fputs(session.config.notes, stderr);
    if (!status && *session.resume.note) fprintf(stderr, "zerolab: %s\n", session.resume.note);
    if (offers_tour(&session)) session.offer = &offer;
    status = status ? front_fail(err) : train(&session, err);
    err->text[0] = '\0'; /* the error is printed here, before the lines that follow */
    if (!status && session.offer) status = after_offer(cli, &offer, stage);
    if (!cli->detach && session.dir.path[0]) print_checkpoint(&session, status ? stderr : session.out);
    status = print_lost(&session, status);
    resume_release(&session.resume);
    free(session.config_text);
    run_model_free(session.model);
    config_release(&session.config);
    return status;
}
