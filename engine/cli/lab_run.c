#include "engine/cli/lab_run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/words.h"
#include "engine/import/import.h"
#include "engine/lab/catalog.h"
#include "engine/trace/check.h"

/* Checkpoints of a lab outlive its single runs, so they have a folder of their own. */
struct lab_saves {
    struct rundir dir;
    char path_set[112]; /* "checkpoint.path=...", as a setting; "": this lab saves none */
    char pause[32];     /* "1:pause" */
};

static int open_saves(struct lab_saves *saves, const struct lab *lab, struct error *err)
{
    *saves = (struct lab_saves){.dir.lock_fd = -1};
    if (!lab_saves(lab)) return STATUS_OK;
    int status = rundir_create(&saves->dir, true, err);
    if (!status) snprintf(saves->path_set, sizeof saves->path_set, "checkpoint.path=\"%s\"", saves->dir.path);
    return status;
}

/* Ranks are threads of one process, because a lab restarts its run every few minutes; so a start takes a tenth of a
 * second. */
static int spec_of(struct session *session, const struct lab_play *play, struct lab_saves *saves, struct error *err)
{
    const struct text_list *more = &session->cli->sets;
    const char *resume = lab_resume_at(play->lab, play->at);
    struct run_spec *spec = &session->spec;
    char from[160];
    *spec = (struct run_spec){
        .config_text = config_nano, .interactive = true, .sets = *lab_sets_at(play->lab, play->at)};
    for (int s = 0; s < more->count && spec->sets.count < TEXT_LIST_MAX - RESUME_SETS - 3; s++)
        spec->sets.at[spec->sets.count++] = more->at[s];
    spec->sets.at[spec->sets.count++] = "topology.ranks_as=threads";
    if (*saves->path_set) spec->sets.at[spec->sets.count++] = saves->path_set;
    if (*saves->path_set) spec->sets.at[spec->sets.count++] = "checkpoint.at_end=false";
    spec->own = (struct text_list){1, {saves->dir.path}};
    if (resume) rundir_path(&saves->dir, resume, from, sizeof from);
    int status = resume ? resume_prepare(&session->resume, spec, from, false, err) : STATUS_OK;
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

/* ---- a lab about a recorded trace ---- */

/* The file may be a job that another program recorded. */
static int open_beside(struct source **out, const struct lab *lab, const char *name, struct error *err)
{
    char path[4096], unnamed[64];
    const char *paths[] = {path};
    int fd = -1, status = STATUS_OK;
    if (snprintf(path, sizeof path, "%s/%s", lab->folder, name) >= (int)sizeof path)
        return error_set(err, STATUS_USAGE, "trace: %.80s: the path of the lab is too long", name);
    const bool foreign = import_is_foreign(path);
    if (foreign) status = import_to_unnamed(paths, 1, unnamed, &fd, err);
    if (!status) status = source_open_file(out, foreign ? unnamed : path, err);
    if (fd >= 0) close(fd);
    if (status || foreign || trace_has_end(path)) return status;
    source_close(*out);
    return error_set(err, STATUS_INPUT, "%s: the trace has no end; a lab needs all of it", path);
}

/* A built-in lab's trace is in the program. Sources read files, so it becomes one in memory. */
static int open_built_in(struct source **out, const struct lab *lab, const char *name, struct error *err)
{
    char path[64];
    const struct lab_trace *trace = lab_catalog_trace(lab->name, name);
    if (!trace) return error_set(err, STATUS_USAGE, "labs/%s/lab.md: there is no trace %.80s", lab->name, name);
    const size_t bytes = (size_t)(trace->end - trace->begin);
    const int fd = memfd_create(name, MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int status = fd >= 0 && write(fd, trace->begin, bytes) == (ssize_t)bytes
                     ? source_open_file(out, path, err)
                     : error_set(err, STATUS_RUN, "no memory for the trace of a lab");
    if (fd >= 0) close(fd);
    return status;
}

/* The trace is read to its end as a run would be, and then stays. */
static int one_trace(const struct cli *cli, struct app_lab *lab, struct app **stage,
                     void (*follow)(struct session *, struct source *), void *user, struct error *err)
{
    struct session session = {.cli = cli, .signal_fd = -1, .user = user};
    struct app_options options = {.readonly = cli->readonly, .lab = lab, .stage = stage};
    struct source *source;
    const struct lab *of = lab->play.lab;
    const char *name = lab_trace_at(of, lab->play.at);
    int status = of->folder ? open_beside(&source, of, name, err) : open_built_in(&source, of, name, err);
    if (status) return status;
    options.source = source;
    lab_play_started(&lab->play);
    if (!follow) status = front_look(&options.look, cli, err) ? err->status : app_run(&options, err);
    else if ((session.model = run_model_new(&(struct run_model_options){0}))) follow(&session, source);
    else status = error_set(err, STATUS_RUN, "no memory for the model of the run");
    run_model_free(session.model);
    source_close(source);
    return status;
}

int lab_run(const struct cli *cli, struct app_lab *lab, struct app *stage,
            void (*follow)(struct session *, struct source *), void *user, struct error *err)
{
    struct lab_saves saves;
    int status = open_saves(&saves, lab->play.lab, err);
    if (status) return app_close(stage), status;
    do
        status = lab->play.lab->trace ? one_trace(cli, lab, &stage, follow, user, err)
                                      : one_run(cli, lab, &saves, &stage, follow, user, err);
    while (!status && (follow ? lab->play.phase == PLAY_RESTART : stage != NULL));
    app_close(stage); /* where a run could not be started anew */
    rundir_close(&saves.dir, true);
    return status;
}

/* ---- playing a lab with its own answers, to check it: right answers are accepted, wrong ones rejected, a task's check
 * fails before the task is done, every check holds, and no text lacks a number ---- */

__attribute__((format(printf, 3, 4))) static void fault(struct lab_trial *trial, int line, const char *format, ...)
{
    char text[300];
    if (trial->faults++) return;
    FORMAT_ARGUMENTS(text, sizeof text, format);
    snprintf(trial->first_fault, sizeof trial->first_fault, "labs/%s/lab.md:%d: %s", trial->play->lab->name, line,
             text);
}

/* A guess must not be right because an earlier step had this answer. */
static void hold_apart(struct lab_trial *trial, const struct lab_step *step, struct lab_value right)
{
    for (int r = 0; r < trial->rights && !step->same; r++)
        if (lab_answer_near(&step->answer, right, trial->right[r].value))
            fault(trial, step->line,
                  "the answer of \"%s\" counts as right too; take other sizes, or say why in same: WHY",
                  trial->right[r].step->title);
    if (right.known && trial->rights < TRIAL_ANSWERS_MAX) {
        trial->right[trial->rights].step = step;
        trial->right[trial->rights++].value = right.quantity;
    }
}

static void hold_wrongs(struct lab_trial *trial, const struct lab_step *step, const struct lab_scene *scene)
{
    struct lab_value right = expression_evaluate(step->answer.value, scene);
    hold_apart(trial, step, right);
    if (!step->wrong_count)
        fault(trial, step->line, "a prediction needs a wrong:, for what a learner may believe instead");
    for (int w = 0; w < step->wrong_count; w++) {
        struct lab_value wrong = expression_evaluate(step->wrong[w].value, scene);
        for (int other = 0; other < w; other++)
            if (lab_answer_near(&step->answer, expression_evaluate(step->wrong[other].value, scene), wrong.quantity))
                fault(trial, step->wrong[w].line, "the reply in line %d answers this wrong answer already",
                      step->wrong[other].line);
        if (!wrong.known) fault(trial, step->wrong[w].line, "this wrong answer cannot be known: %s", wrong.why_not);
        else if (lab_answer_near(&step->answer, right, wrong.quantity))
            fault(trial, step->wrong[w].line, "this wrong answer counts as right");
        else trial->wrongs++;
    }
    struct quantity twice = {right.quantity.value * 2 + (right.quantity.value == 0), right.quantity.dimension};
    if (lab_answer_near(&step->answer, right, twice))
        fault(trial, step->line, "twice the right answer counts as right");
    else trial->wrongs++;
}

static void hold_page(struct lab_trial *trial, const struct lab_step *step)
{
    const struct lab_page *page = &trial->play->page;
    for (int p = 0; p < page->count; p++) {
        if (strstr(page->at[p].text, "(not known yet)"))
            fault(trial, step->line, "a number is not known: %.200s", page->at[p].text);
        if (page->at[p].tone == TONE_BAD) fault(trial, step->line, "%.250s", page->at[p].text);
    }
    if (page->count == PAGE_MAX) fault(trial, step->line, "part \"%s\" has more paragraphs than fit", step->title);
}

static void print_numbers(const struct lab_trial *trial, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(trial->play);
    for (int c = 0; c < step->check_count; c++) {
        const struct lab_check *check = &step->check[c];
        struct lab_finding finding = lab_check_hold(check, scene);
        const bool same = lab_check_is_portable(trial->play->lab, check);
        fprintf(trial->numbers, "%s:%d: %s\n", trial->play->lab->name, check->line,
                same || !finding.holds ? finding.said : check->text);
    }
}

static void hold_told(struct lab_trial *trial, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(trial->play);
    hold_page(trial, step);
    if (trial->numbers) print_numbers(trial, scene);
    if (!app_lab_fits(trial->play))
        fault(trial, step->line, "question or explanation of \"%s\" is longer than a page of 80x24", step->title);
    if (step->ask != LAB_READ && !trial->play->right)
        fault(trial, step->line, "the lab's own answer to \"%s\" is not right", step->title);
    if (step->ask == LAB_PREDICT) hold_wrongs(trial, step, scene);
    if (step->ask == LAB_QUIZ && step->choice_count < 3)
        fault(trial, step->line, "a quiz of two choices is won by guessing; it needs a third choice");
    if (step->ask == LAB_QUIZ) trial->wrongs += step->choice_count - 1;
    trial->asked += step->ask != LAB_READ;
}

/* ---- the hand-out -------------------------------------------------------------------------------------------------- */

static void print_asking(const struct lab_trial *trial, const struct lab_scene *scene)
{
    const struct lab_play *play = trial->play;
    const struct lab_step *step = lab_play_step(play);
    FILE *out = trial->print;
    fprintf(out, "\n## %d. %s\n", play->progress.step + 1, step->title);
    for (int p = 0; p < play->page.count; p++) {
        const struct lab_paragraph *at = &play->page.at[p];
        fprintf(out,
                at->tone == TONE_QUESTION ? "\n**%s**\n"
                : at->tone == TONE_CHOICE ? "\n- %s\n"
                                          : "\n%s\n",
                at->text);
    }
    if (step->ask == LAB_PREDICT)
        fprintf(out, "\nYour prediction: ______________ %s\n", step->answer.unit ? step->answer.unit->name : "");
    for (int h = 0; h < step->hint_count && trial->solutions; h++) {
        char *hint = prose_fill(&step->hint[h], scene);
        fprintf(out, "\n_Hint %d:_ %s\n", h + 1, hint ? hint : "");
        free(hint);
    }
}

static void print_told(const struct lab_trial *trial)
{
    const struct lab_page *page = &trial->play->page;
    if (!trial->solutions && lab_play_step(trial->play)->ask != LAB_READ) return;
    for (int p = trial->play->told_from; p < page->count; p++)
        fprintf(trial->print,
                page->at[p].tone == TONE_GOOD   ? "\n**%s**\n"
                : page->at[p].tone == TONE_FACT ? "\n- %s\n"
                                                : "\n%s\n",
                page->at[p].text);
}

static void act_asking(struct lab_trial *trial, const struct lab_scene *scene)
{
    struct lab_play *play = trial->play;
    const struct lab_step *step = lab_play_step(play);
    if (trial->handled != play->progress.step && trial->print) print_asking(trial, scene);
    trial->handled = play->progress.step;
    if (step->ask == LAB_TASK) {
        lab_play_check(play, scene->model, scene->history);
        if (play->phase == PLAY_TOLD) {
            fault(trial, step->line, "the task \"%s\" is done before anything was done", step->title);
            return;
        }
        trial->wrongs++;
    }
    for (int h = 0; h < step->hint_count; h++) lab_play_hint(play, scene->model, scene->history);
    lab_play_reveal(play);
}

static void act_told(struct lab_trial *trial, const struct lab_scene *scene)
{
    struct lab_play *play = trial->play;
    if (lab_play_step(play)->ask == LAB_READ && trial->print) {
        play->told_from = play->page.count;
        print_asking(trial, scene);
    }
    hold_told(trial, scene);
    if (trial->print) print_told(trial);
    lab_play_next(play);
}

/* Does all that is possible without another record. False: this run is no longer needed. */
static bool play_on(struct lab_trial *trial, struct source *source, const struct run_model *model,
                    const struct history *history)
{
    struct lab_play *play = trial->play;
    for (;;) {
        enum lab_wish wish = lab_play_tick(play, model, history);
        struct lab_scene scene = lab_play_scene(play, model, history);
        if (wish == WISH_RESTART) return false;
        if (wish == WISH_COMMAND && source_send(source, play->driver.line, NULL)) return false;
        if (wish != WISH_NOTHING) continue;
        if (play->phase == PLAY_ASKING) act_asking(trial, &scene);
        else if (play->phase == PLAY_TOLD) act_told(trial, &scene);
        else if (play->phase == PLAY_STUCK)
            return fault(trial, lab_play_step(play)->line, "part %d cannot be carried out: %s", play->at + 1,
                         play->driver.why_stuck),
                   false;
        else return play->phase != PLAY_FINISHED;
    }
}

static void follow(struct session *session, struct source *source)
{
    enum { SILENCE_MS = 60000 };
    struct lab_trial *trial = session->user;
    struct trace_record record;
    struct history *history = history_new(0);
    while (history) {
        enum source_result result;
        while ((result = source_next(source, &record)) == SOURCE_RECORD) {
            run_model_fold(session->model, &record);
            history_fold(history, session->model, &record);
        }
        if (!play_on(trial, source, session->model, history) || result != SOURCE_WAIT) break;
        const enum session_news news = session_wait(session, source, NULL, SILENCE_MS);
        if (news == SESSION_MORE) continue;
        const bool silent = news == SESSION_NOTHING;
        fault(trial, lab_play_step(trial->play)->line, silent ? "nothing has happened for a minute" : "interrupted");
        break;
    }
    bool done = trial->play->phase == PLAY_FINISHED || trial->play->phase == PLAY_RESTART;
    if (!done) fault(trial, lab_play_step(trial->play)->line, "the run ended before the lab");
    if (!done) trial->play->phase = PLAY_STUCK;
    history_free(history);
}

int lab_trial_run(struct lab_trial *trial, const struct cli *cli, const struct lab *lab, struct error *err)
{
    struct app_lab played = {0};
    struct lab_progress progress;
    lab_progress_init(&progress, lab);
    lab_play_init(&played.play, lab, &progress);
    trial->play = &played.play;
    trial->handled = -1;
    int status = lab_run(cli, &played, NULL, follow, trial, err);
    lab_play_release(&played.play);
    trial->play = NULL;
    if (!status && trial->faults) status = error_set(err, STATUS_CHECK, "%s", trial->first_fault);
    return status;
}
