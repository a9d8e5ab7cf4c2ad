#include "engine/lab/play.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool lab_play_catches_up(const struct lab_play *play)
{
    return play->at < play->progress.step;
}

struct lab_scene lab_play_scene(const struct lab_play *play, const struct run_model *model, const struct tape *tape)
{
    struct lab_scene scene = {
        .model = model, .tape = tape, .tries = &play->lab->tries, .kept = play->kept, .kept_count = play->kept_count};
    lab_sets_at(play->lab, play->at, &scene.sets, &scene.set_count);
    return scene;
}

static void notify(struct lab_play *play, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void notify(struct lab_play *play, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(play->notice, sizeof play->notice, format, args);
    va_end(args);
}

/* ---- the page ------------------------------------------------------------------------------------------------------ */

static void page_clear(struct lab_page *page, int from)
{
    while (page->count > from) free(page->at[--page->count].text);
    page->revision++;
}

/* Takes the text. */
static void page_take(struct lab_page *page, enum lab_tone tone, char *text)
{
    bool empty = !text || !*text;
    if (empty || page->count == PAGE_MAX) free(text);
    else page->at[page->count++] = (struct lab_paragraph){tone, text};
    page->revision++;
}

static void page_say(struct lab_page *page, enum lab_tone tone, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void page_say(struct lab_page *page, enum lab_tone tone, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    page_take(page, tone, text);
}

static void page_choices(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    for (int c = 0; c < step->choice_count; c++) {
        char *text = prose_fill(&step->choice[c].text, scene);
        page_say(&play->page, c == play->chosen ? TONE_CHOSEN : TONE_CHOICE, "%c  %s", 'a' + c, text ? text : "");
        free(text);
    }
}

static void page_ask(struct lab_play *play, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(play);
    page_clear(&play->page, 0);
    page_take(&play->page, TONE_TEXT, prose_fill(&step->text, scene));
    page_take(&play->page, TONE_QUESTION, prose_fill(&step->question, scene));
    if (step->ask == LAB_QUIZ) page_choices(play, step, scene);
    play->told_from = play->page.count;
    for (int h = 0; h < play->progress.at[play->progress.step].hints && h < step->hint_count; h++) {
        page_take(&play->page, TONE_HINT, prose_fill(&step->hint[h], scene));
        play->told_from = play->page.count;
    }
}

/* Question, choices and hints, and nothing of an earlier verdict. */
static void page_answered(struct lab_play *play)
{
    page_clear(&play->page, play->told_from);
    for (int p = 0; p < play->page.count; p++) {
        struct lab_paragraph *at = &play->page.at[p];
        if (at->tone == TONE_CHOICE && *at->text == 'a' + play->chosen) at->tone = TONE_CHOSEN;
    }
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
    page_say(&play->page, TONE_NOTE, "The run is being started anew.");
}

static void start_anew(struct lab_play *play)
{
    play->at = 0;
    play->kept_count = 0;
    want_run(play);
}

void lab_play_init(struct lab_play *play, const struct lab *lab, const struct lab_progress *progress)
{
    *play = (struct lab_play){.lab = lab, .progress = *progress, .phase = PLAY_STARTING};
    forget_answer(play);
    page_say(&play->page, TONE_NOTE, "The run is being started.");
}

void lab_play_release(struct lab_play *play)
{
    page_clear(&play->page, 0);
}

void lab_play_started(struct lab_play *play)
{
    play->phase = PLAY_STARTING;
    forget_answer(play);
}

static void begin_step(struct lab_play *play)
{
    play->phase = PLAY_BEFORE;
    driver_begin(&play->driver, &play->lab->steps[play->at].before);
    if (!lab_play_catches_up(play)) return;
    page_clear(&play->page, 0);
    page_say(&play->page, TONE_NOTE, "Taking the run to where step %d begins: step %d is carried out.",
             play->progress.step + 1, play->at + 1);
}

/* A step that wants another setup has the run started anew; its values stay kept. */
static void enter_step(struct lab_play *play, int step)
{
    play->at = step;
    forget_answer(play);
    if (play->lab->steps[step].has_setup) want_run(play);
    else begin_step(play);
}

/* ---- verdicts ------------------------------------------------------------------------------------------------------ */

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

static void say_where(struct lab_play *play, const struct lab_where *where)
{
    if (!where->known || play->where.known) return;
    play->where = *where;
}

/* A check in the lab's own words, where it has some; with what was expected, if it does not hold. The caller frees. */
static char *worded(const struct lab_check *check, const struct lab_finding *finding, const struct lab_scene *scene)
{
    char *text = NULL, *said = finding->known && check->said.count ? prose_fill(&check->said, scene) : NULL;
    if (!said) return strdup(finding->said);
    if (finding->holds) return said;
    if (asprintf(&text, "%s (%s)", said, finding->why) < 0) text = NULL;
    free(said);
    return text;
}

/* What the step's checks found; false: one does not hold. */
static bool say_findings(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    bool all = true;
    for (int c = 0; c < step->check_count; c++) {
        struct lab_finding finding = lab_check_hold(&step->check[c], scene);
        all &= finding.known && finding.holds;
        if (!finding.holds) say_where(play, &finding.where);
        char place[160] = "";
        if (!finding.holds && finding.where.known && finding.where.step)
            snprintf(place, sizeof place, " (step %u, rank %d%s%s)", finding.where.step, finding.where.rank,
                     *finding.where.what ? ", " : "", finding.where.what);
        char *said = worded(&step->check[c], &finding, scene);
        page_say(&play->page, finding.known && finding.holds ? TONE_FACT : TONE_BAD, "%s%s", said ? said : "", place);
        free(said);
    }
    return all;
}

/* What somebody who said this may have thought. */
static void say_wrong(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    for (int w = 0; w < step->wrong_count; w++) {
        struct lab_value believed = expression_evaluate(step->wrong[w].value, scene);
        if (!lab_answer_near(&step->answer, believed, play->said)) continue;
        page_take(&play->page, TONE_BAD, prose_fill(&step->wrong[w].reply, scene));
        return;
    }
}

static void judge_prediction(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    char said[QUANTITY_ROOM], got[QUANTITY_ROOM];
    struct lab_value right = expression_evaluate(step->answer.value, scene);
    if (play->revealed) play->said = right.quantity;
    play->right = lab_answer_near(&step->answer, right, play->said);
    play->where = right.where;
    quantity_format(said, play->said, step->answer.unit, -1);
    if (right.known) quantity_format(got, right.quantity, step->answer.unit, -1);
    if (!right.known) page_say(&play->page, TONE_BAD, "The answer cannot be known: %s", right.why_not);
    else if (play->revealed) page_say(&play->page, TONE_GOOD, "It is %s.", got);
    else if (play->right) page_say(&play->page, TONE_GOOD, "Right: it is %s. You said %s.", got, said);
    else page_say(&play->page, TONE_BAD, "You said %s; it is %s.", said, got);
    if (right.known && !play->right) say_wrong(play, step, scene);
}

static void judge_quiz(struct lab_play *play, const struct lab_step *step, const struct lab_scene *scene)
{
    const struct lab_choice *choice = &step->choice[play->chosen];
    char *reply = prose_fill(&choice->reply, scene);
    play->right = choice->right;
    page_say(&play->page, choice->right ? TONE_GOOD : TONE_BAD, "%s %s", choice->right ? "Right." : "No.",
             reply ? reply : "");
    free(reply);
}

static void fold(struct lab_play *play, enum lab_input_kind kind, const char *said)
{
    lab_progress_fold(&play->progress, &(struct lab_input){.kind = kind, .right = play->right, .said = said});
}

static void judge(struct lab_play *play, const struct lab_scene *scene)
{
    const struct lab_step *step = lab_play_step(play);
    char said[QUANTITY_ROOM] = "";
    if (step->ask == LAB_READ) page_ask(play, scene);
    else page_answered(play); /* what was asked stays as it was asked */
    if (step->ask == LAB_PREDICT)
        judge_prediction(play, step, scene), quantity_format(said, play->said, step->answer.unit, -1);
    if (step->ask == LAB_QUIZ) judge_quiz(play, step, scene), snprintf(said, sizeof said, "%c", 'a' + play->chosen);
    bool all = say_findings(play, step, scene);
    if (step->ask == LAB_TASK) play->right = all;
    if (step->ask == LAB_READ) fold(play, LAB_INPUT_READ, NULL);
    else fold(play, LAB_INPUT_ANSWERED, said);
    page_take(&play->page, TONE_TEXT, prose_fill(&step->explain, scene));
    play->phase = PLAY_TOLD;
}

/* ---- time goes on -------------------------------------------------------------------------------------------------- */

static void acted(struct lab_play *play, struct lab_scene *scene)
{
    keep_of_task(play, scene);
    if (lab_play_catches_up(play)) enter_step(play, play->at + 1);
    else judge(play, scene);
}

static void act(struct lab_play *play)
{
    const struct lab_step *step = &play->lab->steps[play->at];
    play->phase = PLAY_ACTING;
    driver_begin(&play->driver, step->ask == LAB_TASK ? &step->solution : &step->actions);
}

/* What stands before the question has been carried out. */
static void prepared(struct lab_play *play, const struct lab_scene *scene)
{
    if (lab_play_catches_up(play) || play->lab->steps[play->at].ask == LAB_READ) {
        act(play);
        return;
    }
    play->phase = PLAY_ASKING;
    page_ask(play, scene);
}

static enum lab_wish drive(struct lab_play *play, struct lab_scene *scene)
{
    enum driver_says says;
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
        page_say(&play->page, TONE_BAD, "Step %d cannot be carried out: %s. x begins it anew.", play->at + 1,
                 play->driver.why_stuck);
        return WISH_NOTHING;
    default: break;
    }
    if (play->phase == PLAY_BEFORE) prepared(play, scene);
    else acted(play, scene);
    return lab_play_tick(play, scene->model, scene->tape);
}

enum lab_wish lab_play_tick(struct lab_play *play, const struct run_model *model, const struct tape *tape)
{
    struct lab_scene scene = lab_play_scene(play, model, tape);
    switch (play->phase) {
    case PLAY_STARTING:
        if (!run_waits(model)) return WISH_NOTHING;
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

void lab_play_check(struct lab_play *play, const struct run_model *model, const struct tape *tape)
{
    if (!is_asked(play, LAB_TASK)) return;
    struct lab_scene scene = lab_play_scene(play, model, tape);
    play->where = (struct lab_where){0};
    page_answered(play);
    play->right = say_findings(play, lab_play_step(play), &scene);
    if (play->right) {
        keep_of_task(play, &scene);
        judge(play, &scene);
    } else {
        fold(play, LAB_INPUT_ANSWERED, "");
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

void lab_play_hint(struct lab_play *play, const struct run_model *model, const struct tape *tape)
{
    const struct lab_step *step = lab_play_step(play);
    play->notice[0] = '\0';
    if (play->phase != PLAY_ASKING) {
        notify(play, "there is nothing to hint at now");
    } else if (play->progress.at[play->progress.step].hints >= step->hint_count) {
        notify(play, step->hint_count ? "there are no more hints" : "this question has no hints");
    } else {
        struct lab_scene scene = lab_play_scene(play, model, tape);
        fold(play, LAB_INPUT_HINT, NULL);
        page_ask(play, &scene);
    }
}

static void go_on(struct lab_play *play)
{
    bool left_open = play->phase == PLAY_ASKING;
    fold(play, LAB_INPUT_NEXT, NULL);
    play->asked_next = false;
    play->notice[0] = '\0';
    if (play->progress.finished) {
        play->phase = PLAY_FINISHED;
        page_clear(&play->page, 0);
        page_say(&play->page, TONE_GOOD, "This was the last step: %d of %d steps are right.",
                 lab_progress_right(&play->progress), play->progress.count);
        page_say(
            &play->page, TONE_TEXT,
            "The run goes on as long as you like; every key works. q leaves. zerolab lab list shows what comes next.");
    } else if (left_open) {
        act(play); /* what it would have done is done, so that the next step finds it */
        page_clear(&play->page, 0);
        page_say(&play->page, TONE_NOTE, "What the step was about is carried out.");
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
        notify(play, "this step is still open: n once more skips it");
    }
}

void lab_play_go(struct lab_play *play, int step)
{
    if (step < 0 || step >= play->progress.count) {
        notify(play, "there are the steps 1 to %d", play->progress.count);
        return;
    }
    play->notice[0] = '\0';
    lab_progress_fold(&play->progress, &(struct lab_input){.kind = LAB_INPUT_GO, .step = step});
    forget_answer(play);
    start_anew(play);
}

void lab_play_reset_step(struct lab_play *play)
{
    if (play->phase == PLAY_STARTING || play->phase == PLAY_RESTART) return;
    if (!play->asked_reset) {
        play->asked_reset = true;
        notify(play, "x once more begins this step anew");
        return;
    }
    play->notice[0] = '\0';
    fold(play, LAB_INPUT_RESET_STEP, NULL);
    forget_answer(play);
    start_anew(play);
}

void lab_play_spent(struct lab_play *play, double seconds)
{
    if (play->progress.finished) return;
    lab_progress_fold(&play->progress, &(struct lab_input){.kind = LAB_INPUT_SPENT, .seconds = seconds});
}
