/* A lab's steps one after another: what a step does before it asks, after it was answered, and what the learner may do then. */
#include "engine/lab/play.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/lab/play_parts.h"

const struct lab_step *lab_play_step(const struct lab_play *play)
{
    return &play->lab->steps[play->progress.step];
}

bool lab_play_holds(const struct lab_play *play)
{
    return play->phase == PLAY_ASKING && lab_play_step(play)->ask == LAB_PREDICT;
}

bool lab_play_was_answered(const struct lab_play *play)
{
    const enum lab_mark mark = play->progress.at[play->progress.step].mark;
    if (play->phase != PLAY_ASKING) return false;
    return mark == LAB_RIGHT || (mark == LAB_WRONG && lab_play_step(play)->ask != LAB_TASK); /* a task can be tried */
}

/* Steps before the learner's own are carried out without asking. */
static bool lab_play_catches_up(const struct lab_play *play)
{
    return play->at < play->progress.step;
}

struct lab_scene lab_play_scene(const struct lab_play *play, const struct run_model *model, const struct history *history)
{
    return (struct lab_scene){.model = model,
                              .history = history,
                              .sets = lab_sets_at(play->lab, play->at),
                              .contest = &play->contest,
                              .kept = play->kept,
                              .kept_count = play->kept_count};
}

__attribute__((format(printf, 2, 3))) static void notify(struct lab_play *play, const char *format, ...)
{
    FORMAT_ARGUMENTS(play->notice, sizeof play->notice, format);
}

/* ---- beginning ----------------------------------------------------------------------------------------------------- */

static void forget_answer(struct lab_play *play)
{
    play->revealed = play->right = play->asked_next = play->asked_reset = false;
    play->chosen = -1;
    play->where = (struct lab_where){0};
}

static void want_run(struct lab_play *play)
{
    play->phase = PLAY_RESTART;
    page_clear(&play->page, 0);
    page_say(&play->page, TONE_NOTE, play->lab->trace ? "A trace is being read." : "The run is being started anew.");
}

static void start_anew(struct lab_play *play)
{
    forget_answer(play);
    play->at = 0;
    play->kept_count = 0;
    want_run(play);
}

void lab_play_init(struct lab_play *play, const struct lab *lab, const struct lab_progress *progress)
{
    *play = (struct lab_play){.lab = lab, .progress = *progress, .phase = PLAY_STARTING};
    forget_answer(play);
    page_say(&play->page, TONE_NOTE, lab->trace ? "A trace is being read." : "The run is being started.");
}

void lab_play_release(struct lab_play *play)
{
    page_clear(&play->page, 0);
}

void lab_play_started(struct lab_play *play)
{
    contest_hold(&play->contest, &play->lab->tries, lab_sets_at(play->lab, play->at));
    play->phase = PLAY_STARTING;
    play->baseline.known = false;
    forget_answer(play);
}

static void carry_out(struct lab_play *play, const struct lab_actions *actions, bool looks_back)
{
    driver_begin(&play->driver, actions);
    play->looks_back = looks_back;
    play->then = NULL;
}

static void begin_step(struct lab_play *play)
{
    play->phase = PLAY_BEFORE;
    carry_out(play, &play->lab->steps[play->at].before, true);
    if (!lab_play_catches_up(play)) return;
    page_clear(&play->page, 0);
    page_say(&play->page, TONE_NOTE, "Taking the run to where part %d begins: part %d is carried out.",
             play->progress.step + 1, play->at + 1);
}

/* A step with another setup restarts the run; kept values stay. */
static void enter_step(struct lab_play *play, int step)
{
    play->at = step;
    forget_answer(play);
    if (play->lab->steps[step].has_setup || play->lab->steps[step].trace) want_run(play);
    else begin_step(play);
}

/* ---- what is kept ---------------------------------------------------------------------------------------------------- */

static void keep(struct lab_play *play, const struct lab_action *action, const struct lab_scene *scene)
{
    struct lab_kept *kept = &play->kept[play->kept_count];
    struct lab_scene now = *scene;
    if (play->kept_count == LAB_KEPT_MAX) return;
    memcpy(kept->name, action->name, sizeof kept->name);
    now.kept = play->kept;
    now.kept_count = play->kept_count;
    kept->value = expression_evaluate(action->value, &now);
    play->kept_count++;
}

/* What a task keeps once it is done. */
static void keep_of_task(struct lab_play *play, struct lab_scene *scene)
{
    const struct lab_step *step = &play->lab->steps[play->at];
    for (int a = 0; step->ask == LAB_TASK && a < step->actions.count; a++) keep(play, &step->actions.at[a], scene);
    scene->kept_count = play->kept_count;
}

/* ---- time goes on -------------------------------------------------------------------------------------------------- */

static void acted(struct lab_play *play, struct lab_scene *scene)
{
    lab_baseline_take(&play->baseline, scene->model);
    keep_of_task(play, scene);
    if (lab_play_catches_up(play)) enter_step(play, play->at + 1);
    else play_judge(play, scene);
}

static void act(struct lab_play *play)
{
    const struct lab_step *step = &play->lab->steps[play->at];
    const bool is_task = step->ask == LAB_TASK;
    play->phase = PLAY_ACTING;
    carry_out(play, is_task ? &step->solution : &step->actions, !is_task);
}

/* The step's before: actions have been carried out. */
static void prepared(struct lab_play *play, const struct lab_scene *scene)
{
    lab_baseline_take(&play->baseline, scene->model);
    if (lab_play_catches_up(play) || play->lab->steps[play->at].ask == LAB_READ) {
        act(play);
        return;
    }
    play->phase = PLAY_ASKING;
    page_ask(play, scene);
}

/* Restores the learner's changes first; then carries out the actions. */
static void look_back(struct lab_play *play, const struct run_model *model)
{
    if (!play->looks_back) return;
    play->looks_back = false;
    if (!lab_baseline_find(&play->baseline, model)) return;
    play->then = play->driver.actions;
    driver_begin(&play->driver, &play->baseline.back);
}

static enum lab_wish drive(struct lab_play *play, struct lab_scene *scene)
{
    enum driver_says says;
    look_back(play, scene->model);
    while ((says = driver_tick(&play->driver, scene)) == DRIVER_KEEPS) {
        keep(play, play->driver.kept, scene);
        scene->kept_count = play->kept_count;
    }
    switch (says) {
    case DRIVER_SENDS: return WISH_COMMAND;
    case DRIVER_GOES: return WISH_GO;
    case DRIVER_WAITS: return WISH_NOTHING;
    case DRIVER_STUCK:
        play->phase = PLAY_STUCK;
        page_clear(&play->page, 0);
        page_say(&play->page, TONE_BAD, "Step %d cannot be carried out: %s. U begins it anew.", play->at + 1,
                 play->driver.why_stuck);
        return WISH_NOTHING;
    default: break;
    }
    if (play->then) {
        if (play->baseline.said[0]) notify(play, "put back for this part: %s", play->baseline.said);
        carry_out(play, play->then, false);
    } else if (play->phase == PLAY_BEFORE) {
        prepared(play, scene);
    } else {
        acted(play, scene);
    }
    return lab_play_tick(play, scene->model, scene->history);
}

enum lab_wish lab_play_tick(struct lab_play *play, const struct run_model *model, const struct history *history)
{
    struct lab_scene scene = lab_play_scene(play, model, history);
    switch (play->phase) {
    case PLAY_STARTING:
        if (!(play->lab->trace ? model->ended : run_waits(model))) return WISH_NOTHING;
        begin_step(play);
        return drive(play, &scene);
    case PLAY_BEFORE:
    case PLAY_ACTING: return drive(play, &scene);
    case PLAY_RESTART: return WISH_RESTART;
    default: return WISH_NOTHING;
    }
}

/* ---- what the learner does ----------------------------------------------------------------------------------------- */

static bool is_asked(struct lab_play *play, enum lab_ask ask)
{
    play->notice[0] = '\0';
    play->asked_next = play->asked_reset = false;
    if (play->phase == PLAY_ASKING && lab_play_step(play)->ask == ask) return true;
    if (play->phase == PLAY_TOLD) notify(play, "answered: n goes on, x asks again");
    return false;
}

/* A comma that groups thousands could have been meant as a decimal point. */
static void say_how_read(struct lab_play *play, const char *text)
{
    char whole[32], point[32];
    size_t used = 0;
    if (!quantity_is_grouped(text) || strlen(text) >= sizeof whole) return;
    for (const char *at = text; *at; at++)
        if (*at != ',') whole[used++] = *at;
    whole[used] = '\0';
    strcpy(point, text);
    *strchr(point, ',') = '.';
    const bool in_doubt = !strchr(point, ',') && !strchr(text, '.');
    notify(play, "%s is read as %s%s%s", text, whole, in_doubt ? ", not " : "", in_doubt ? point : "");
}

bool lab_play_say(struct lab_play *play, const char *text)
{
    const struct lab_answer *answer = &lab_play_step(play)->answer;
    struct quantity said;
    text += strspn(text, " ");
    if (!is_asked(play, LAB_PREDICT)) return true;
    if (!quantity_read(&said, text, answer->unit)) {
        notify(play, "%.40s%sgive a number%s%s%s", text, *text ? ": " : "", answer->unit ? " in " : "",
               answer->unit ? answer->unit->name : "", *text ? "" : "; Esc leaves");
        return false;
    }
    if (!dimension_equal(said.dimension, expression_dimension(answer->value))) {
        notify(play, "%.40s: this is asked for as %s", text, dimension_name(expression_dimension(answer->value)));
        return false;
    }
    play->said = said;
    say_how_read(play, text);
    act(play);
    return true;
}

void lab_play_choose(struct lab_play *play, int choice)
{
    if (!is_asked(play, LAB_QUIZ)) return;
    if (choice < 0 || choice >= lab_play_step(play)->choice_count) {
        notify(play, "there are the choices a to %c", 'a' + lab_play_step(play)->choice_count - 1);
        return;
    }
    play->chosen = choice;
    act(play);
}

void lab_play_check(struct lab_play *play, const struct run_model *model, const struct history *history)
{
    if (!is_asked(play, LAB_TASK)) return;
    struct lab_scene scene = lab_play_scene(play, model, history);
    play->where = (struct lab_where){0};
    page_answered(play);
    play->right = play_findings(play, lab_play_step(play), &scene);
    if (play->right) {
        lab_baseline_take(&play->baseline, model);
        keep_of_task(play, &scene);
        play_judge(play, &scene);
    } else {
        play_fold(play, LAB_INPUT_ANSWERED, "");
        notify(play, "not yet: what is expected stands in the pane");
    }
}

void lab_play_reveal(struct lab_play *play)
{
    const struct lab_step *step = lab_play_step(play);
    if (play->phase != PLAY_ASKING) return;
    play->notice[0] = '\0';
    for (int c = 0; c < step->choice_count; c++)
        if (step->choice[c].right) play->chosen = c;
    play->revealed = true;
    act(play);
}

void lab_play_hint(struct lab_play *play, const struct run_model *model, const struct history *history)
{
    const struct lab_step *step = lab_play_step(play);
    play->notice[0] = '\0';
    if (play->phase != PLAY_ASKING) {
        notify(play, "there is nothing to hint at now");
    } else if (play->progress.at[play->progress.step].hints >= step->hint_count) {
        notify(play, step->hint_count ? "there are no more hints" : "this question has no hints");
    } else {
        struct lab_scene scene = lab_play_scene(play, model, history);
        play_fold(play, LAB_INPUT_HINT, NULL);
        page_ask(play, &scene);
    }
}

static void go_on(struct lab_play *play)
{
    char result[LAB_RESULT_ROOM];
    bool left_open = play->phase == PLAY_ASKING;
    play_fold(play, LAB_INPUT_NEXT, NULL);
    play->asked_next = false;
    play->notice[0] = '\0';
    if (play->progress.finished) {
        play->phase = PLAY_FINISHED;
        page_clear(&play->page, 0);
        page_say(&play->page, TONE_GOOD, "This was the last part: %s.", lab_progress_result(result, &play->progress));
        const char *program = play->program ? play->program : "zerolab";
        page_say(&play->page, TONE_TEXT,
                 "The %s as long as you like; every key works. q leaves. Then %s lab list shows what comes "
                 "next, and %s alone is the run without a lab.",
                 play->lab->trace ? "trace stays open" : "run goes on", program, program);
    } else if (left_open) {
        act(play); /* what it would have done is done, so that the next step finds it */
        page_clear(&play->page, 0);
        page_say(&play->page, TONE_NOTE, "What the part was about is carried out.");
    } else {
        enter_step(play, play->at + 1);
    }
}

void lab_play_next(struct lab_play *play)
{
    if (play->phase == PLAY_TOLD || lab_play_was_answered(play) || (play->phase == PLAY_ASKING && play->asked_next)) {
        go_on(play);
    } else if (play->phase == PLAY_ASKING) {
        play->asked_next = true;
        notify(play, "this part is still open: n once more skips it");
    }
}

void lab_play_go(struct lab_play *play, int step)
{
    if (step < 0 || step >= play->progress.count) {
        notify(play, "there are the parts 1 to %d", play->progress.count);
        return;
    }
    play->notice[0] = '\0';
    lab_progress_fold(&play->progress, &(struct lab_input){.kind = LAB_INPUT_GO, .step = step});
    start_anew(play);
}

void lab_play_reset_step(struct lab_play *play)
{
    if (play->phase == PLAY_STARTING || play->phase == PLAY_RESTART) return;
    if (!play->asked_reset) {
        play->asked_reset = true;
        notify(play, "U once more begins this part anew");
        return;
    }
    play->notice[0] = '\0';
    play_fold(play, LAB_INPUT_RESET_STEP, NULL);
    start_anew(play);
}

void lab_play_spent(struct lab_play *play, double seconds)
{
    if (play->progress.finished) return;
    lab_progress_fold(&play->progress, &(struct lab_input){.kind = LAB_INPUT_SPENT, .seconds = seconds});
}
