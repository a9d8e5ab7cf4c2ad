#include <stdlib.h>

#include "tui/app/app_parts.h"

/* A longer time without a key is a break, not learning. */
static const uint64_t BREAK_NS = 300000000000u;

static struct lab_play *play_of(const struct app *app)
{
    return app->options->lab ? &app->options->lab->play : NULL;
}

static void save(struct app *app)
{
    const struct app_lab *lab = app->options->lab;
    if (lab->save) lab->save(&lab->play, lab->user);
}

/* Makes the pane from the present state of the play. */
static void show(struct app *app)
{
    const struct app_lab *lab = app->options->lab;
    if (!lab) return;
    lab_pane_of(&app->pane, &lab->play, lab->presents);
    app->state.lab = &app->pane;
}

void playing_open(struct app *app)
{
    const struct lab_play *play = play_of(app);
    const bool is_lesson = feed_model(&app->feed)->lesson.text != NULL;
    show(app);
    if (app->played == play && (play || app->state.lab_focus)) return; /* its run has been started anew */
    app->played = play;
    app->state.lab_focus = play || is_lesson;
    if (app->state.lab_focus) app->state.units = UNITS_GB; /* labs speak of MB and GB; u still changes it */
    app->playing_step = -1;
}

void playing_close(struct app *app)
{
    if (play_of(app)) save(app);
}

/* ---- what the lab wants -------------------------------------------------------------------------------------------- */

static void go(struct app *app, const char *text)
{
    struct search search = {text, app->state.rank};
    if (!feed_find(&app->feed, search_matches, &search, false)) app_say(app, "%.60s is not found", text);
}

/* Sends the lab's commands one after the other. If the run cannot be reached, the screen shows that elsewhere. */
static void fulfil(struct app *app, struct lab_play *play)
{
    const struct record_reader *newest = &app->feed.newest;
    enum lab_wish wish;
    while ((wish = lab_play_tick(play, newest->model, newest->history)) != WISH_NOTHING) {
        if (wish == WISH_RESTART) {
            app->quit = app->again = true;
            return;
        }
        if (wish == WISH_GO) go(app, play->driver.line);
        if (wish == WISH_COMMAND && source_send(newest->source, play->driver.line, NULL)) return;
    }
}

/* Opens the view of a step, once, when the learner reaches the step. */
static void look(struct app *app, const struct lab_play *play)
{
    if (app->playing_step == play->progress.step || (play->phase != PLAY_ASKING && play->phase != PLAY_TOLD)) return;
    app->playing_step = play->progress.step;
    const char *name = lab_play_step(play)->look;
    int view = name ? view_named(name) : -1;
    if (view >= 0) app->state.view = (enum view_id)view;
}

void playing_scroll(struct app *app)
{
    app->state.lab_scroll = 0;
    if (app->surface.columns < VIEW_COLUMNS_MIN) return;
    int columns = app->surface.columns, rows = app->surface.rows - view_header_rows(&app->state, columns) - 1;
    const struct rect pane = lab_layout(&app->state, columns, rows).pane;
    if (pane.columns) app->state.lab_scroll = lab_scroll_to_newest(&app->state, pane.columns, pane.rows);
}

static void follow_page(struct app *app, const struct lab_play *play)
{
    if (app->page_revision == play->page.revision) return;
    app->page_revision = play->page.revision;
    app->state.lab_hides = false;
    app->changed = app->urgent = true;
    playing_scroll(app);
    save(app);
}

void playing_tick(struct app *app, uint64_t now_ns)
{
    struct lab_play *play = play_of(app);
    if (!play) return;
    uint64_t spent_ns = app->playing_ns ? now_ns - app->playing_ns : 0;
    app->playing_ns = now_ns;
    lab_play_spent(play, (double)(spent_ns < BREAK_NS ? spent_ns : 0) * 1e-9);
    if (!app->state.lab_frozen) fulfil(app, play);
    look(app, play);
    show(app);
    follow_page(app, play);
    lesson_note(app);
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

bool playing_take(struct app *app, const char *text)
{
    return lab_play_say(play_of(app), text);
}

/* A lecturer may show what is wanted. */
static bool holds(const struct app *app)
{
    const struct lab_play *play = play_of(app);
    return play && !app->options->lab->presents && lab_play_holds(play);
}

bool playing_refuses(const struct app *app, const char *line)
{
    struct command command;
    return holds(app) && command_parse(&command, line, NULL) == STATUS_OK && command.id != COMMAND_STOP;
}

static void ask_prediction(struct app *app, const struct lab_step *step, const char *begun)
{
    const struct unit_name *unit = step->answer.unit;
    typing_open(app, PROMPT_PREDICTION, text_of("your prediction%s%s", unit ? " in " : "", unit ? unit->name : "").text,
                begun);
}

/* A digit begins to type the prediction; false: the key begins none. */
static bool begins_prediction(struct app *app, struct lab_play *play, uint32_t key)
{
    const bool of_number = (key >= '0' && key <= '9') || key == '.' || key == '-';
    if (!of_number || !holds(app)) return false;
    play->notice[0] = '\0';
    ask_prediction(app, lab_play_step(play), (char[]){(char)key, '\0'});
    return true;
}

static void answer(struct app *app, struct lab_play *play)
{
    const struct lab_step *step = lab_play_step(play);
    const struct record_reader *newest = &app->feed.newest;
    if (play->phase == PLAY_ASKING && step->ask == LAB_PREDICT) {
        ask_prediction(app, step, "");
    } else if (play->phase == PLAY_ASKING && step->ask == LAB_TASK) {
        lab_play_check(play, newest->model, newest->history);
    } else if (play->phase == PLAY_ASKING) {
        app_say(app, "choose with a letter: a to %c", 'a' + step->choice_count - 1);
    } else if (play->phase == PLAY_TOLD) {
        app_say(app, "n goes on to the next part");
    }
}

/* If the step has no choices, a letter is a key of the view, if the view is visible. */
static bool choose(struct app *app, struct lab_play *play, const char *letter)
{
    const bool asked = play->phase == PLAY_ASKING && lab_play_step(play)->ask == LAB_QUIZ;
    if (asked) lab_play_choose(play, *letter - 'a');
    else if (!lab_is_page(&app->state, app->surface.columns)) return false;
    else app_say(app, "there is nothing to choose here; K shows the view, where %s is a key", letter);
    return true;
}

/* ---- a lecture ----------------------------------------------------------------------------------------------------- */

/* Freezes the views at this moment; the run carries out its orders, and then waits. */
static void freeze(struct app *app)
{
    app->state.lab_frozen = !app->state.lab_frozen;
    if (!app->state.lab_frozen) feed_newest(&app->feed);
    else if (!app->feed.behind) feed_go_time(&app->feed, app->feed.newest.model->now_ns - 1);
}

static void reveal(struct app *app, struct lab_play *play)
{
    const bool can_hide = play->phase == PLAY_TOLD && lab_play_step(play)->ask != LAB_READ;
    if (can_hide) app->state.lab_hides = !app->state.lab_hides, app->state.lab_scroll = 0;
    else lab_play_reveal(play);
}

void playing_go(struct app *app, const char *text)
{
    char *end;
    long step = strtol(text, &end, 10);
    if (*text && !*end) lab_play_go(play_of(app), step < 1 || step > 1000 ? -1 : (int)step - 1);
}

/* Keys of a presenter; false: another key. For a learner these keys have other actions. */
static bool present(struct app *app, struct lab_play *play, enum action action)
{
    if (!app->options->lab->presents) return false;
    if (action == ACTION_LAB_FREEZE) freeze(app);
    else if (action == ACTION_LAB_REVEAL) reveal(app, play);
    else if (action == ACTION_LAB_GO)
        typing_open(app, PROMPT_STEP, text_of("go to part (1 to %d)", play->progress.count).text, "");
    else return false;
    return true;
}

/* ---- a learner ----------------------------------------------------------------------------------------------------- */

static bool act(struct app *app, struct lab_play *play, const struct key_row *row)
{
    const struct record_reader *newest = &app->feed.newest;
    bool reset = row->action == ACTION_LAB_RESET;
    if (!reset) play->asked_reset = false;
    if (row->action != ACTION_LAB_NEXT) play->asked_next = false;
    switch (row->action) {
    case ACTION_LAB_ANSWER: answer(app, play); return true;
    case ACTION_LAB_CHOOSE: return choose(app, play, row->argument);
    case ACTION_LAB_NEXT:
        if (app->feed.behind) feed_newest(&app->feed);
        lab_play_next(play);
        return true;
    case ACTION_LAB_HINT: lab_play_hint(play, newest->model, newest->history); return true;
    case ACTION_LAB_RESET: lab_play_reset_step(play); return true;
    case ACTION_LAB_WHERE:
        if (!play->where.known) app_say(app, "there is no place on the timeline to go to yet");
        else if (feed_go_time(&app->feed, play->where.time_ns))
            app_say(app, "within step %u; F goes on from there%s", play->where.step,
                    app_show_view(app) ? ", K is the lab" : "");
        return true;
    default: return present(app, play, row->action);
    }
}

static bool scroll(struct app *app, uint32_t key)
{
    int columns = app->surface.columns, rows = app->surface.rows - view_header_rows(&app->state, columns) - 1;
    const struct rect pane = lab_layout(&app->state, columns, rows).pane;
    int page = lab_room(pane.rows) - 1;
    int by = key == INPUT_DOWN        ? 1
             : key == INPUT_UP        ? -1
             : key == INPUT_PAGE_DOWN ? page
             : key == INPUT_PAGE_UP   ? -page
                                      : 0;
    if (!by || !pane.columns) return false;
    app->state.lab_scroll =
        scrolled(app->state.lab_scroll + by, lab_rows(&app->state, pane.columns), lab_room(pane.rows));
    return true;
}

bool playing_key(struct app *app, uint32_t key)
{
    struct lab_play *play = play_of(app);
    const struct key_row *row = app->state.lab ? key_find(key, KEY_MODE_LAB) : NULL;
    if (!app->state.lab || app->state.prompt.kind != PROMPT_NONE || app->state.view == VIEW_HELP) return false;
    if (row && row->action == ACTION_LAB_PANE) {
        app->state.lab_focus = !app->state.lab_focus;
        return true;
    }
    if (!app->state.lab_focus) return false;
    if (play && begins_prediction(app, play, key)) return true;
    if (!row) return scroll(app, key);
    if (!play) return false;
    if (app->state.lab_frozen && row->action != ACTION_LAB_FREEZE) return app_say(app, "frozen: z goes on"), true;
    play->notice[0] = play->asked_next || play->asked_reset ? play->notice[0] : '\0';
    return act(app, play, row);
}
