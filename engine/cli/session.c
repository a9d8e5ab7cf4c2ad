#include "engine/cli/session.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/words.h"
#include "engine/observe/states.h"
#include "engine/trace/check.h"
#include "engine/trace/file.h"
#include "engine/train/save_claims.h"

/* How long the engine's processes may take to end: giving back much memory takes a while, dying does not. (mpirun
 * gives the other ranks of a failed one two seconds, twice, and only then says which one it was.) */
enum { GOOD_END_MS = 30000, BAD_END_MS = 10000 };

void session_take_signals(struct session *session, sigset_t *before)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, before);
    signal(SIGPIPE, SIG_IGN);
    session->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool session_saves(const struct session *session)
{
    const struct text_list *at = &session->spec.at;
    bool saves = session->config.checkpoint.every > 0 || session->config.checkpoint.at_end;
    for (int i = 0; i < at->count && !saves; i++) {
        int64_t step;
        struct command command;
        saves = command_parse_at(at->at[i], &step, &command, NULL) == STATUS_OK && command.id == COMMAND_CHECKPOINT;
    }
    return saves && *session->config.checkpoint.path;
}

/* A file without a name in the report's folder, which is to have room for the report anyway. Where that cannot be (standard output,
 * a device): in the run's folder. */
static FILE *open_past(const struct session *session)
{
    char folder[sizeof session->report];
    snprintf(folder, sizeof folder, "%s", session->report);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    FILE *file = file_unnamed(slash ? folder : ".");
    return file ? file : file_unnamed(session->dir.path);
}

/* A report by --report lists every step: steps that the model drops wait in a file. If writing one fails, all are
 * lost, and the report says how many are missing. */
static void keep_step(void *user, const struct run_step *step)
{
    struct session *session = user;
    if (session->past_lost) return;
    if (!session->past) session->past = open_past(session);
    if (session->past && report_step(session->past, step)) return;
    if (session->past) fclose(session->past);
    session->past = NULL;
    session->past_lost = true;
}

int session_start(struct session *session, struct error *err)
{
    struct run_model_options options = {.steps = RUN_STEPS_KEPT, .notices = RUN_NOTICES_KEPT};
    if (session->cli->report)
        options = (struct run_model_options){.steps = RUN_STEPS_KEPT, .on_step_dropped = keep_step, .user = session};
    session->model = run_model_new(&options);
    if (!session->model) return error_set(err, STATUS_RUN, "no memory for the model of the run");
    int status = rundir_create(&session->dir, false, err);
    if (!status && session_saves(session)) status = save_claims_take(&session->dir, session->config.checkpoint.path, err);
    if (!status) status = spec_write(&session->spec, &session->dir, SPEC_FILE, err);
    if (!status) status = relauncher_begin(&session->relauncher, &session->dir, &session->spec, &session->config,
                                          session->cli->log, err);
    return status;
}

enum session_news session_wait(struct session *session, const struct source *source, const struct source *other,
                               int most_ms)
{
    const int soon_ms = relauncher_advance(&session->relauncher); /* the engine may be started again, with other ranks */
    struct pollfd ready[4] = {{.fd = session->signal_fd, .events = POLLIN},
                              {.fd = source ? source_fd(source) : -1, .events = POLLIN},
                              {.fd = other ? source_fd(other) : -1, .events = POLLIN},
                              {.fd = relauncher_fd(&session->relauncher), .events = POLLIN}};
    const int found = poll(ready, 4, soon_ms >= 0 ? soon_ms : most_ms);
    if (found < 0 || ready[0].revents) return SESSION_SIGNAL;
    return found > 0 || soon_ms >= 0 ? SESSION_MORE : SESSION_NOTHING;
}

/* When the screen closes, the engine is still in its last step. The records that follow belong in the report. */
static void read_rest(struct session *session, struct source *source)
{
    FILE *nowhere = session->model->ended ? NULL : fopen("/dev/null", "we");
    if (!nowhere) return;
    source_send(source, "stop", NULL);
    headless_run(session, source, nowhere, NULL);
    fclose(nowhere);
}

static int tend_fd(void *user)
{
    return relauncher_fd(user);
}

static int tend(void *user)
{
    return relauncher_advance(user);
}

static int show_live(struct session *session, struct source *source, struct error *err)
{
    struct app_options options = {.source = source,
                                  .model = session->model,
                                  .owner = true,
                                  .readonly = session->cli->readonly,
                                  .trace_file = session->spec.trace,
                                  .lab = session->lab,
                                  .offer = session->offer,
                                  .stage = session->stage,
                                  .tended = {tend_fd, tend, &session->relauncher},
                                  .cost = &session->screen};
    int status = front_look(&options.look, session->cli, err);
    if (!status) status = app_run(&options, err); /* signals are handled there while the screen is open */
    read_rest(session, source);
    return status;
}

static struct trace_record end_record(enum outcome outcome, const char *text)
{
    struct trace_record record = {.kind = TRACE_END, .rank = TRACE_RANK_ALL, .time_ns = clock_ns()};
    record.end = (struct trace_of_end){.outcome = outcome, .error = {text, strlen(text)}};
    return record;
}

static void fold_end(struct run_model *model, enum outcome outcome, const char *text)
{
    const struct trace_record record = end_record(outcome, text);
    run_model_fold(model, &record);
}

/* Rank 0 sees only that mpirun ends the ranks: its END names one of its neighbours, or is missing. mpirun says which host was lost. The
 * report gets that reason, and the trace another END, which readers take in place of the first. */
static void correct_reason(struct session *session, const char *reason)
{
    struct run_model *model = session->model;
    const struct trace_record record = end_record(OUTCOME_FAILED, reason);
    struct trace_file *file;
    snprintf(model->error, sizeof model->error, "%s", reason);
    if (!session->spec.trace || trace_file_append(&file, session->spec.trace, NULL)) return; /* a pipe, or a disk that is full */
    trace_file_put(file, &record, NULL);
    trace_file_close(file, NULL);
}

void session_call_off(struct session *session)
{
    session->called_off = true;
    fold_end(session->model, OUTCOME_STOPPED, "");
    relauncher_kill(&session->relauncher);
}

static int show(struct session *session, struct error *err)
{
    const char *profile = session->config.logs.flops.output_file;
    struct source *source;
    char socket_path[96];
    int fd, status = engine_call(session->relauncher.engine, session->signal_fd, &fd, err);
    if (!status && fd < 0) return session_call_off(session), STATUS_OK;
    if (!status) status = source_adopt_fd(&source, fd, err);
    if (status) return relauncher_kill(&session->relauncher), status;
    rundir_path(&session->dir, "socket", socket_path, sizeof socket_path);
    source_reattach_at(source, socket_path);
    if (!session->live) source_want_all(source, NULL); /* where the connection is gone already, reading says so */
    if (session->live) {
        status = show_live(session, source, err);
    } else if (session->follow) {
        session->follow(session, source);
        read_rest(session, source);
    } else {
        struct logs *logs = logs_new(&session->config);
        headless_run(session, source, session->out, logs);
        if (logs && *profile) status = logs_write_profile(logs, profile, err);
        logs_free(logs);
    }
    source_close(source);
    return status;
}

/* Reads the folder, because ranks that were killed may have saved one more checkpoint than their records say. */
bool session_latest(const struct session *session, char tag[CHECKPOINT_TAG_BYTES])
{
    const char *folder = session->model->save.folder;
    return *folder && checkpoint_latest(folder, tag);
}

static int tell_forced(const struct session *session, struct error *err)
{
    const struct run_model *model = session->model;
    const struct run_step *step = run_last_step(model);
    const char *trace = session->spec.trace;
    char after[48] = "", kept[400] = "", tag[CHECKPOINT_TAG_BYTES];
    if (step) snprintf(after, sizeof after, " after step %u", step->step);
    if (trace) text_append(kept, sizeof kept, "the trace%s", trace_has_end(trace) ? "" : " up to where it was written");
    if (*session->report) text_append(kept, sizeof kept, "%sthe report", *kept ? ", " : "");
    if (session_latest(session, tag)) text_append(kept, sizeof kept, "%sthe checkpoint %.64s", *kept ? ", " : "", tag);
    return error_set(err, STATUS_RUN, "the run was ended by force%s, as you asked; kept: %s", after, *kept ? kept : "nothing");
}

/* Finds the outcome of the run. The engine's last record says it; if there is none, or it says "failed", the exit
 * status and the output of its processes say more. shown: the status of watching the run, with err. */
static int finish(struct session *session, int shown, struct error *err)
{
    struct run_model *model = session->model;
    struct error ended;
    const bool good = model->ended && !session->called_off;
    int status = relauncher_end(&session->relauncher, good ? GOOD_END_MS : BAD_END_MS, &ended);
    if (session->forced && status) status = tell_forced(session, &ended);
    if (session->called_off) return shown; /* its processes were ended in the middle of their start */
    if (session->forced && status && model->ended && !shown) return *err = ended, status;
    if (status && model->ended && model->outcome != OUTCOME_FAILED && !shown)
        return error_set(err, status, "the run is %s, but its processes ended badly: %.400s",
                         run_outcome_name(model->outcome), ended.text);
    if (!status && shown) ended = *err, status = shown;
    if (!status && model->ended && model->outcome == OUTCOME_FAILED)
        status = error_set(&ended, STATUS_RUN, "%s", model->error);
    if (!status && !model->ended)
        status = error_set(&ended, STATUS_RUN, "the engine ended without saying why");
    const bool told = model->ended && strcmp(model->error, ended.text) == 0;
    if (!model->ended) fold_end(model, OUTCOME_FAILED, ended.text); /* so that the report says it, too */
    if (model->outcome != OUTCOME_FAILED) return shown;
    if (session->spec.hosts && !told) correct_reason(session, ended.text);
    *err = ended;
    return status;
}

__attribute__((format(printf, 2, 3))) static void lose(struct session *session, const char *format, ...)
{
    char text[sizeof session->lost];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    text_append(session->lost, sizeof session->lost, "%s%s", *session->lost ? "; " : "", text);
}

/* A run trains to its end even if a checkpoint or the trace cannot be written. `lost` says what is missing. */
static void find_losses(struct session *session)
{
    struct run_model *model = session->model;
    const struct run_save *save = &model->save;
    if (!model->ended || model->outcome == OUTCOME_FAILED || session->called_off) return;
    if (*save->lost_tag && *save->saved_tag)
        lose(session, "%s was not saved; the newest is %s", save->lost_tag, save->saved_tag);
    else if (*save->lost_tag) lose(session, "%s was not saved, nor any checkpoint of this run", save->lost_tag);
    if (session->spec.trace && !trace_has_end(session->spec.trace))
        lose(session, "the trace %.300s was not written whole", session->spec.trace);
    const struct capture_log *log = &session->relauncher.log;
    if (log->cause) lose(session, "cannot write the log %.300s: %s", log->path, strerror(log->cause));
    if (!*model->error) snprintf(model->error, sizeof model->error, "%.511s", session->lost);
}

static void write_report(struct session *session)
{
    struct error err;
    if (!*session->report) return;
    const struct report_screen screen = {session->screen.frames, session->screen.bytes};
    FILE *out = front_open(session->report, false, &err);
    int status = out ? STATUS_OK : err.status;
    if (out && !report_write(out, session->model, &screen, session->past) && !ferror(out)) {
        front_drop(out);
        status = error_set(&err, STATUS_RUN, "cannot write the report %.300s: no memory", session->report);
    } else if (out) {
        putc('\n', out);
        status = front_close(out, session->report, STATUS_OK, &err);
    }
    if (session->past) fclose(session->past);
    session->past = NULL;
    if (!status) return;
    lose(session, "%s", err.text);
    *session->report = '\0'; /* there is none to look at */
}

int session_end(struct session *session, int shown, struct error *err)
{
    if (!session->model) return shown;
    const int status = finish(session, shown, err);
    find_losses(session); /* the report contains them */
    write_report(session);
    return status;
}

int session_run(struct session *session, struct error *err)
{
    sigset_t signals;
    session_take_signals(session, &signals);
    int status = session_start(session, err);
    if (!status) status = show(session, err);
    status = session_end(session, status, err);
    if (session->model && session->spec.trace && session->model->ended) /* the trace is whole without */
        run_states_write(session->spec.trace, (uint64_t)session->spec.trace_limit_bytes, NULL);
    rundir_close(&session->dir, true);
    close(session->signal_fd);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    return status;
}
