/* The loop of the front end: wait for records and keys, fold, act, draw. It draws when something changed and at most ten
 * times a second (a key is answered at once); when nothing happens it sleeps. */
#include "tui/app/app.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tui/app/feed.h"
#include "tui/app/look.h"
#include "tui/term/term.h"
#include "tui/views/view.h"

enum { FRAME_NS = 100000000 };
static const uint64_t MESSAGE_NS = 3000000000u;

struct app {
    const struct app_options *options;
    struct terminal *terminal;
    struct surface surface;
    struct feed feed;
    struct view_state state;
    enum theme theme;
    enum run_state run_state; /* that the view was chosen for */
    bool changed, urgent, quit;
    uint64_t drawn_ns, message_ns; /* of the last frame; until when the message stays (0: none) */
};

static void say(struct app *app, const char *text)
{
    snprintf(app->state.message, sizeof app->state.message, "%.150s", text);
    app->message_ns = clock_ns() + MESSAGE_NS;
}

/* ---- actions ------------------------------------------------------------------------------------------------------- */

/* Readers of help pages leave them with q: here too, rather than losing the run. */
static void act_quit(struct app *app, const struct key_row *row)
{
    if (row->code == 'q' && app->state.view == VIEW_HELP) {
        app->state.view = VIEW_OVERVIEW;
        return;
    }
    if (app->feed.live && app->options->owner && !app->options->readonly && !app->feed.over)
        source_send(app->feed.source, "stop", NULL); /* a connection that is gone needs no stop */
    app->quit = true;
}

static void act_command(struct app *app, const struct key_row *row)
{
    struct error err;
    char text[sizeof app->state.message];
    if (app->options->readonly) {
        say(app, "read only: no commands are sent");
    } else if (app->feed.over || app->feed.model->ended) {
        say(app, "the run has ended");
    } else if (source_send(app->feed.source, row->argument, &err)) {
        say(app, err.text);
    } else {
        snprintf(text, sizeof text, "sent: %s", row->argument);
        say(app, text);
        if (!strncmp(row->argument, "sample", 6)) app->state.focus = VIEW_TEXT; /* where the answer will stand */
    }
}

static void act_view(struct app *app, const struct key_row *row)
{
    int id = view_named(row->argument);
    app->state.view = (int)app->state.view == id ? VIEW_OVERVIEW : (enum view_id)id;
}

static void act_close(struct app *app, const struct key_row *row)
{
    (void)row;
    app->state.view = VIEW_OVERVIEW;
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
    (void)row;
    app->state.view = app->state.view == VIEW_OVERVIEW ? app->state.focus : VIEW_OVERVIEW;
}

static void act_scroll(struct app *app, const struct key_row *row)
{
    enum view_id at = app->state.view == VIEW_OVERVIEW ? app->state.focus : app->state.view;
    int by = (row->action == ACTION_DOWN) != (at == VIEW_EVENTS) ? 1 : -1; /* a log's newest line is its last */
    if (app->state.row[at] + by >= 0 && app->state.row[at] + by < 100000) app->state.row[at] += by;
}

static void act_bars(struct app *app, const struct key_row *row)
{
    (void)row;
    app->state.bars_now = !app->state.bars_now;
}

static void act_units(struct app *app, const struct key_row *row)
{
    (void)row;
    app->state.units = (app->state.units + 1) % UNITS;
    say(app, units_name(app->state.units));
}

static void act_theme(struct app *app, const struct key_row *row)
{
    (void)row;
    if (terminal_has_colour(app->terminal)) app->theme = (app->theme + 1) % THEMES;
    say(app, theme_name(app->theme));
}

static void act_redraw(struct app *app, const struct key_row *row)
{
    (void)row;
    terminal_forget(app->terminal);
}

/* After a live run its recording can be walked through in the same screen. */
static bool turn_to_replay(struct app *app)
{
    struct feed replay;
    struct error err;
    if (!app->feed.live) return true;
    if (!app->feed.model->ended || !app->options->trace_file) return false;
    if (feed_open_replay(&replay, app->options->trace_file, 1, &err)) {
        say(app, err.text);
        return false;
    }
    feed_last(&replay);
    feed_close(&app->feed);
    app->feed = replay;
    app->state.live = false;
    return true;
}

static void act_replay(struct app *app, const struct key_row *row)
{
    struct feed *feed = &app->feed;
    if (!turn_to_replay(app)) return;
    switch (row->action) {
    case ACTION_PLAY:
        if (feed->over && !feed->playing) feed_first(feed);
        feed_play(feed, !feed->playing, clock_ns());
        break;
    case ACTION_NEXT_STEP: feed_next_step(feed); break;
    case ACTION_PREVIOUS_STEP: feed_previous_step(feed); break;
    case ACTION_FASTER: feed_speed(feed, 2, clock_ns()); break;
    case ACTION_SLOWER: feed_speed(feed, 0.5, clock_ns()); break;
    case ACTION_FIRST: feed_first(feed); break;
    default: feed_last(feed); break;
    }
}

static void (*const actions[])(struct app *, const struct key_row *) = {
    [ACTION_QUIT] = act_quit,       [ACTION_VIEW] = act_view,        [ACTION_COMMAND] = act_command,
    [ACTION_PLAY] = act_replay,     [ACTION_NEXT_STEP] = act_replay, [ACTION_PREVIOUS_STEP] = act_replay,
    [ACTION_FASTER] = act_replay,   [ACTION_SLOWER] = act_replay,    [ACTION_FIRST] = act_replay,
    [ACTION_LAST] = act_replay,     [ACTION_NEXT_PANE] = act_pane,   [ACTION_PREVIOUS_PANE] = act_pane,
    [ACTION_ENLARGE] = act_enlarge, [ACTION_ENTER] = act_enlarge,    [ACTION_DOWN] = act_scroll,
    [ACTION_UP] = act_scroll,       [ACTION_BARS] = act_bars,        [ACTION_UNITS] = act_units,
    [ACTION_THEME] = act_theme,     [ACTION_CLOSE] = act_close,      [ACTION_REDRAW] = act_redraw,
};

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void act(struct app *app, const struct key_row *row)
{
    struct scene scene = {app->feed.model, app->feed.tape, &app->state};
    const struct view *view = view_of(app->state.view);
    if (!(view->act && view->act(&app->state, &scene, row)) && actions[row->action]) actions[row->action](app, row);
}

static void read_keys(struct app *app)
{
    uint32_t key;
    while (!app->quit && (key = terminal_key(app->terminal)) != INPUT_NONE) {
        struct scene scene = {app->feed.model, app->feed.tape, &app->state};
        const struct key_row *row = key_find(key == INPUT_GONE ? INPUT_F0 + 10 : key, view_key_mode(&scene));
        app->changed = app->urgent = true;
        if (!row) continue;
        if (key != INPUT_GONE) app->state.message[0] = '\0';
        act(app, row);
    }
}

/* Running out of memory opens its report, once; going on closes it. */
static void follow_run(struct app *app)
{
    const struct run_model *model = app->feed.model;
    if (!model->has_state || model->state == app->run_state) return;
    app->run_state = model->state;
    if (model->state == RUN_OUT_OF_MEMORY) app->state.view = VIEW_SHORTAGE;
    else if (app->state.view == VIEW_SHORTAGE) app->state.view = VIEW_OVERVIEW;
    app->urgent = true;
}

static bool fit_surface(struct app *app)
{
    int columns, rows;
    terminal_size(app->terminal, &columns, &rows);
    if (app->surface.cells && app->surface.columns == columns && app->surface.rows == rows) {
        app->surface.theme = app->theme;
        return true;
    }
    surface_release(&app->surface);
    return surface_init(&app->surface, columns, rows, app->theme, app->options->look.ascii || !terminal_is_utf8());
}

static void draw(struct app *app, uint64_t now_ns)
{
    if (!fit_surface(app)) return;
    app->state.trouble = app->feed.trouble[0] ? app->feed.trouble : NULL;
    app->state.playing = app->feed.playing;
    app->state.speed = app->feed.live ? 0 : app->feed.speed;
    view_draw(app->feed.model, app->feed.tape, &app->state, &app->surface);
    terminal_show(app->terminal, &app->surface);
    app->drawn_ns = now_ns;
    app->changed = app->urgent = false;
}

static void sooner(int64_t *wait_ns, int64_t other_ns)
{
    if (other_ns >= 0 && (*wait_ns < 0 || other_ns < *wait_ns)) *wait_ns = other_ns;
}

/* Sleeps until there is a key, a record, a frame to draw or a message to take away. */
static void wait_for_work(struct app *app)
{
    uint64_t now_ns = clock_ns();
    int64_t wait_ns = feed_wait_ns(&app->feed, now_ns);
    if (app->changed)
        sooner(&wait_ns, app->drawn_ns + FRAME_NS > now_ns ? (int64_t)(app->drawn_ns + FRAME_NS - now_ns) : 0);
    if (app->message_ns) sooner(&wait_ns, app->message_ns > now_ns ? (int64_t)(app->message_ns - now_ns) : 0);
    struct pollfd fds[2] = {{.fd = terminal_fd(app->terminal), .events = POLLIN},
                            {.fd = feed_fd(&app->feed), .events = POLLIN}};
    struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
    if (ppoll(fds, 2, wait_ns < 0 ? NULL : &wait, NULL) > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        app->quit = true;
}

static void take_away_message(struct app *app, uint64_t now_ns)
{
    if (!app->message_ns || now_ns < app->message_ns) return;
    app->message_ns = 0;
    app->state.message[0] = '\0';
    app->changed = true;
}

static void loop(struct app *app)
{
    app->changed = app->urgent = true;
    while (!app->quit) {
        uint64_t now_ns = clock_ns();
        if (feed_advance(&app->feed, now_ns)) app->changed = true;
        follow_run(app);
        take_away_message(app, now_ns);
        if (app->urgent || (app->changed && now_ns >= app->drawn_ns + FRAME_NS)) draw(app, now_ns);
        wait_for_work(app);
        read_keys(app);
    }
}

static int open_feed(struct app *app, struct error *err)
{
    const struct app_options *options = app->options;
    if (options->source) return feed_open_live(&app->feed, options->source, options->model, err);
    int status = feed_open_replay(&app->feed, options->replay_file, options->speed, err);
    if (status) return status;
    feed_play(&app->feed, true, clock_ns());
    return STATUS_OK;
}

static int open_screen(struct app *app, struct error *err)
{
    const struct app_look *look = &app->options->look;
    int status = look_theme(&app->theme, look, true, err);
    if (!status) status = terminal_open(&app->terminal, look->no_color, err);
    if (!status) status = look_theme(&app->theme, look, terminal_has_colour(app->terminal), err);
    return status;
}

int app_run(const struct app_options *options, struct error *err)
{
    struct app app = {.options = options, .run_state = RUN_STARTING};
    app.state = (struct view_state){.focus = VIEW_EVENTS,
                                    .units = (enum units)options->look.units,
                                    .live = options->source != NULL,
                                    .readonly = options->readonly,
                                    .trace_file = options->trace_file};
    int status = open_feed(&app, err);
    if (status) return status;
    status = open_screen(&app, err);
    if (!status) loop(&app);
    terminal_close(app.terminal);
    surface_release(&app.surface);
    feed_close(&app.feed);
    return status;
}

bool app_terminal_fits(struct error *err)
{
    return terminal_fits(err);
}
