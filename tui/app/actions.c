/* The usual actions of keys, for keys that the current view does not use itself. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/words.h"
#include "tui/app/app_parts.h"

/* A message stays for as long as it takes to read: 3 s for every row of 80 columns. */
static void keep_message(struct app *app)
{
    const uint64_t row_ns = 3000000000u, rows = 1 + (uint64_t)utf8_columns(app->state.message) / 80;
    app->message_ns = clock_ns() + rows * row_ns;
}

void app_say(struct app *app, const char *format, ...)
{
    FORMAT_ARGUMENTS(app->state.message, sizeof app->state.message, format);
    keep_message(app);
}

bool app_send(struct app *app, const char *command)
{
    struct error err;
    const struct app_lab *lab = app->options->lab;
    if (lab && lab->play.lab->trace)
        return app_say(app, "this lab is about a recorded trace: there is no run to command"), false;
    if (app->options->readonly) return app_say(app, "read only: no commands are sent"), false;
    if (app->state.watches) return app_say(app, "you watch: another viewer drives this run"), false;
    if (!app->feed.live) return app_say(app, "a recording takes no commands"), false;
    if (playing_refuses(app, command)) return app_say(app, "your prediction comes first: Enter types it"), false;
    if (app->feed.newest.over || app->feed.newest.model->ended) return app_say(app, "the run has ended"), false;
    if (source_send(app->feed.newest.source, command, &err)) return app_say(app, "%.310s", err.text), false;
    app->waits_answer = true;
    app->notices = run_notices_seen(app->feed.newest.model);
    app_say(app, "sent: %.140s", command);
    if (strchr(command, '=')) snprintf(app->state.later, sizeof app->state.later, "%.79s", command);
    return true;
}

/* Shows why the run refused a command; the effects of an accepted command are visible. */
void app_hear_answer(struct app *app)
{
    const struct run_model *model = app->feed.newest.model;
    if (!app->waits_answer) return;
    for (int n = run_notices_since(model, app->notices); n < model->notice_count; n++) {
        const struct run_notice *notice = &model->notices[n];
        if (notice->kind != NOTICE_COMMAND || notice->level == 0) continue;
        app->waits_answer = false;
        *app->state.later = '\0';
        app_say(app, "%.310s", notice->text + strcspn(notice->text, " ") + 1); /* "command LINE refused: why" */
        app->urgent = true;
    }
    app->notices = run_notices_seen(model);
}

/* ---- leaving ------------------------------------------------------------------------------------------------------- */

static void close_help(struct app *app)
{
    app->state.view = app->state.before;
    app->state.lab_focus |= app->help_on_page;
}

/* On the help page q closes the page, as users expect, rather than ending the run. */
static void act_quit(struct app *app, const struct key_row *row)
{
    if (row->code == 'q' && app->state.view == VIEW_HELP) {
        close_help(app);
        return;
    }
    if (app->feed.recorded[0] && !app->feed.recording && !app->asked) { /* a recording could not be written */
        app->asked = true;
        app_say(app, "the recording could not be saved; %s again leaves all the same", row->label);
        return;
    }
    app->quit = true;
}

/* ---- views --------------------------------------------------------------------------------------------------------- */

/* The first press lets an operation run and shows its begin; the second shows its end, and sends nothing. */
static void step_op(struct app *app)
{
    app->state.by_ops = true;
    if (app->feed.hold.wanted) feed_newest(&app->feed);
    else if (app_send(app, "op") && app->feed.newest.model->state == RUN_PAUSED)
        feed_hold_next(&app->feed, app->state.rank);
}

static void act_command(struct app *app, const struct key_row *row)
{
    if (!strcmp(row->argument, "op")) {
        step_op(app);
        return;
    }
    app->state.by_ops = false;
    feed_newest(&app->feed);
    if (app_send(app, row->argument) && !strncmp(row->argument, "sample", 6))
        app->state.focus = VIEW_TEXT; /* where the answer will stand */
}

/* Shows the view; where it is shown already, the key leaves it. Behind the page of a lab a view is not shown. */
static void act_view(struct app *app, const struct key_row *row)
{
    int id = view_named(row->argument);
    const bool hidden = app_show_view(app);
    if (id < 0) return;
    if (id == VIEW_HELP && (app->state.view != VIEW_HELP || hidden)) app->help_on_page = hidden;
    if ((int)app->state.view != id) {
        app->state.before = app->state.view;
        app->state.view = (enum view_id)id;
    } else if (!hidden) {
        if (id == VIEW_HELP) close_help(app);
        else app->state.view = VIEW_OVERVIEW;
    }
}

/* Closes the innermost open thing. */
static void act_close(struct app *app, const struct key_row *row)
{
    (void)row;
    if (app->state.selected.known) app->state.selected.known = false;
    else if (app->state.span.open) app->state.span.open = false;
    else if (app->state.view == VIEW_HELP) close_help(app);
    else app->state.view = VIEW_OVERVIEW;
}

/* The next pane of the overview, or the next view. */
static void act_pane(struct app *app, const struct key_row *row)
{
    int by = row->action == ACTION_NEXT_PANE ? 1 : VIEWS - 1;
    enum view_id *at = app->state.view == VIEW_OVERVIEW ? &app->state.focus : &app->state.view;
    do *at = (enum view_id)((*at + by) % VIEWS);
    while (at == &app->state.focus ? !view_of(*at)->pane : *at == VIEW_OVERVIEW);
}

static void act_enlarge(struct app *app, const struct key_row *row)
{
    if (app->state.view == VIEW_OVERVIEW) app->state.view = app->state.focus;
    else if (row->action == ACTION_ENLARGE) app->state.view = VIEW_OVERVIEW;
}

static void act_scroll(struct app *app, const struct key_row *row)
{
    enum view_id at = app->state.view == VIEW_OVERVIEW ? app->state.focus : app->state.view;
    int by = (row->action == ACTION_DOWN) != (at == VIEW_EVENTS) ? 1 : -1; /* a log's newest line is its last */
    if (app->state.row[at] + by >= 0 && app->state.row[at] + by < 100000) app->state.row[at] += by;
}

/* Only the timeline zooms and pans. */
static void act_elsewhere(struct app *app, const struct key_row *row)
{
    app_say(app, "%s is a key of the timeline", row->label);
}

/* ---- the look ------------------------------------------------------------------------------------------------------ */

static void act_rank(struct app *app, const struct key_row *row)
{
    const struct scene scene = app_scene(app);
    if (!rank_act(&app->state, &scene, row)) return;
    const char *host = trace_host_of(&scene.model->machines, app->state.rank);
    app_say(app, "rank %d%s%s", app->state.rank, *host ? ", on host " : "", host);
}

/* Settings that stay for later runs. */
static void act_look(struct app *app, const struct key_row *row)
{
    struct error err;
    if (row->action == ACTION_THEME && !app->terminal->has_colour) {
        app_say(app, "mono: there is no colour here");
        return;
    }
    if (row->action == ACTION_BARS) {
        app->saved.bars_now = app->state.bars_now = !app->state.bars_now;
        app_say(app, app->state.bars_now ? "bars: this instant" : "bars: fullest instant of the last step");
    } else if (row->action == ACTION_UNITS) {
        app->saved.units = app->state.units = (app->state.units + 1) % UNITS;
        app_say(app, "%s", units_name(app->state.units));
    } else {
        app->saved.theme = app->theme = (app->theme + 1) % THEMES;
        app_say(app, "%s", theme_name(app->theme));
    }
    if (app->saves && settings_save(&app->saved, &err)) app_say(app, "%.310s", err.text);
}

static void act_screen(struct app *app, const struct key_row *row)
{
    (row->action == ACTION_REDRAW ? terminal_forget : terminal_suspend)(app->terminal);
}

/* ---- the table ----------------------------------------------------------------------------------------------------- */

static action_function *const actions[] = {
    [ACTION_QUIT] = act_quit,
    [ACTION_CLOSE] = act_close,
    [ACTION_REDRAW ... ACTION_SUSPEND] = act_screen,
    [ACTION_VIEW] = act_view,
    [ACTION_NEXT_PANE ... ACTION_PREVIOUS_PANE] = act_pane,
    [ACTION_ENLARGE ... ACTION_ENTER] = act_enlarge,
    [ACTION_COMMAND] = act_command,
    [ACTION_TYPE_COMMAND] = act_type,
    [ACTION_UP ... ACTION_DOWN] = act_scroll,
    [ACTION_LEFT ... ACTION_LAST] = act_time,
    [ACTION_ZOOM_IN ... ACTION_SPAN] = act_elsewhere,
    [ACTION_SEARCH] = act_type,
    [ACTION_SEARCH_NEXT ... ACTION_SEARCH_PREVIOUS] = act_find,
    [ACTION_FILTER] = act_type,
    [ACTION_PLAY ... ACTION_PREVIOUS_OP] = act_time,
    [ACTION_FASTER ... ACTION_LINK_SLOWER] = act_pace,
    [ACTION_LIVE] = act_time,
    [ACTION_MARK] = act_type,
    [ACTION_MARKERS] = act_markers,
    [ACTION_MOMENTS] = act_moments,
    [ACTION_RECORD] = act_record,
    [ACTION_BARS ... ACTION_THEME] = act_look,
    [ACTION_NEXT_RANK ... ACTION_PREVIOUS_RANK] = act_rank,
};

/* Follows the requests of a view's act(): cursor, command, message. */
static void follow_view(struct app *app, uint64_t cursor_ns)
{
    char command[sizeof app->state.command];
    if (app->state.command[0]) {
        memcpy(command, app->state.command, sizeof command);
        app->state.command[0] = '\0';
        for (char *one = command, *next; one; one = next) {
            next = strstr(one, "; ");
            if (next) *next = '\0', next += 2;
            app_send(app, one);
        }
    } else if (app->state.message[0] && !app->message_ns) {
        keep_message(app);
    }
    if (app->state.cursor_ns != cursor_ns) feed_go_time(&app->feed, app->state.cursor_ns);
}

bool app_view_acts(struct app *app, const struct key_row *row)
{
    const struct view *view = view_of(app->state.view);
    struct scene scene = app_scene(app);
    uint64_t cursor_ns = app->state.cursor_ns;
    if (!view->act || !view->act(&app->state, &scene, row)) return false;
    follow_view(app, cursor_ns);
    return true;
}

void app_act(struct app *app, const struct key_row *row)
{
    /* The key of a view that the page of a lab hides shows it. */
    const bool hidden = row->action == ACTION_VIEW && lab_is_page(&app->state, app->surface.columns);
    if ((hidden || !app_view_acts(app, row)) && actions[row->action]) actions[row->action](app, row);
    app_tell_time(app);
}

/* ---- the mouse: the wheel moves, a click on a key of the footer is that key, any other one is the view's ---- */

static void act_as(struct app *app, enum action action)
{
    struct scene scene = app_scene(app);
    const struct key_row *row = key_of_action(action, view_key_mode(&scene));
    if (row) app_act(app, row);
}

/* On the view itself. */
static void point(struct app *app, int x, int y)
{
    const struct view *view = view_of(app->state.view);
    struct scene scene = app_scene(app);
    int header = view_header_rows(&app->state, app->surface.columns), rows = app->surface.rows - header - 1;
    struct lab_layout layout = lab_layout(&app->state, app->surface.columns, rows);
    struct pointed at = {layout.view.columns, rows, x - layout.view.x, y - header};
    bool on_view = at.y >= 0 && at.y < rows && at.x >= 0 && layout.pane.columns < app->surface.columns;
    if (view->point && at.columns >= VIEW_COLUMNS_MIN && on_view) view->point(&app->state, &scene, &at);
}

void pointing_act(struct app *app)
{
    const int x = app->terminal->pointing.x, y = app->terminal->pointing.y;
    struct scene scene = app_scene(app);
    const struct key_row *row;
    switch (app->terminal->pointing.what) {
    case POINTING_WHEEL_UP: act_as(app, ACTION_UP); break;
    case POINTING_WHEEL_DOWN: act_as(app, ACTION_DOWN); break;
    case POINTING_CLICK:
        row = y == app->surface.rows - 1 ? footer_key_at(app->surface.columns, &scene, x) : NULL;
        if (row) app_act(app, row);
        else if (!app->options->compare) point(app, x, y);
        break;
    }
}
