/* The loop of the front end: wait for keys and records, fold, act, draw. Records are read ten times a second (records
 * in between wait in the socket), and without a pause while more of them wait. At most ten frames a second are drawn.
 * A key is answered at once; when nothing happens the loop sleeps. */
#include "tui/app/app.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tui/app/app_parts.h"

enum { FRAME_NS = 100000000, MOTION_NS = 50000000, FAST_FOR_NS = 300000000, RECORDING_ENDS_MS = 3000 };

struct scene app_scene(struct app *app)
{
    const struct history *history = feed_history(&app->feed, app->state.from_ns, app->state.to_ns);
    return (struct scene){feed_model(&app->feed), history, &app->state};
}

void feed_tell_time(const struct feed *feed, struct view_state *state)
{
    state->behind = feed->behind;
    state->held = feed->hold.holds;
    state->last.step = feed->last.step;
    state->last.slowness = feed_last_slowness(&feed->last);
    state->last.newest = record_reader_steps_done(&feed->newest);
    state->motion_ns = feed->behind ? feed->cursor_ns : feed_model(feed)->state == RUN_RUNNING ? clock_ns() : 0;
    state->newest_ns = feed->newest.model->now_ns;
    state->newest = feed->newest.model->state;
    if (state->newest != RUN_PAUSED || !feed->newest.model->rank[0].open.begun) *state->later = '\0';
    state->cursor_ns = feed->behind ? feed->cursor_ns : state->newest_ns;
    state->playing = feed->playing;
    state->speed = feed_speed(feed);
    state->trouble = feed->newest.trouble[0] ? feed->newest.trouble : NULL;
}

void app_tell_time(struct app *app)
{
    const struct feed *feed = &app->feed;
    struct view_state *state = &app->state;
    const int ranks = feed_model(feed)->ranks;
    if (state->view != VIEW_TIMELINE && ranks > 0) state->rank = list_kept(state->rank, ranks); /* it may be gone */
    feed_tell_time(feed, state);
    state->trace_file = app->options->trace_file ? app->options->trace_file
                        : feed->recording        ? feed->recorded
                                                 : app->options->replay_file;
}

/* Whether the screen shows something on its way: of it, more frames are drawn. */
static bool is_moving(const struct app *app)
{
    const struct feed *feed = &app->feed;
    const struct run_model *model = feed_model(feed);
    const int rank = app->state.rank;
    bool moves = false;
    for (enum lane lane = LANE_COMM; lane < LANES && rank < model->ranks; lane++)
        moves |= lane != LANE_HOST && model->rank[rank].lane[lane].busy;
    if (app->state.view != VIEW_WHITEBOARD || !moves) return false;
    return feed->playing || feed->last.step ||
           (feed->live && !feed->behind && model->state == RUN_RUNNING && !run_is_fast(model));
}

static uint64_t frame_ns(const struct app *app)
{
    return is_moving(app) ? MOTION_NS : FRAME_NS;
}

/* The whiteboard of a run at full speed plays the last whole step; a run that is stepped is never so for long. */
static void play_last_step(struct app *app, uint64_t now_ns)
{
    struct feed *feed = &app->feed;
    const bool fast = feed->live && !app->options->compare && !feed->newest.over && run_is_fast(feed->newest.model);
    if (!fast) app->slow_ns = now_ns;
    if (app->state.lab_frozen || (feed->behind && !feed->last.step)) return;
    if (app->state.view == VIEW_WHITEBOARD && now_ns > app->slow_ns + FAST_FOR_NS)
        app->changed |= feed_play_last(feed, app->state.rank, now_ns);
    else if (feed->last.step) feed_newest(feed), app->changed = true;
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

bool app_show_view(struct app *app)
{
    const bool hidden = lab_is_page(&app->state, app->surface.columns);
    if (hidden) app->state.lab_focus = false;
    return hidden;
}

/* True: the key answered the offer, which stands on the overview. All other keys keep it, and have their usual action. */
static bool offer_key(struct app *app, uint32_t key)
{
    struct app_offer *offer = app->options->offer;
    if (!header_offers(&app->state) || app->state.prompt.kind != PROMPT_NONE) return false;
    if (key != '\r' && key != 'N' && key != INPUT_ESCAPE) return false;
    app->state.offer = NULL;
    offer->said = key == '\r' ? OFFER_TAKEN : key == 'N' ? OFFER_NEVER : OFFER_LATER;
    if (offer->said == OFFER_TAKEN) app->quit = app->again = true;
    return true;
}

static void take_key(struct app *app, uint32_t key)
{
    if (offer_key(app, key)) return;
    struct scene scene = app_scene(app);
    if (key == INPUT_GONE) {
        app->quit = true;
    } else if (app->state.prompt.kind != PROMPT_NONE && key != INPUT_MOUSE && key != INPUT_RESIZE) {
        typing_key(app, key);
    } else if (key == INPUT_MOUSE) {
        pointing_act(app);
    } else {
        const struct key_row *row = key_find(key, view_key_mode(&scene));
        app->state.message[0] = '\0';
        app->message_ns = 0;
        if (playing_key(app, key) || lesson_key(app, key)) return;
        if (!row && app->options->lab) row = key_find(key, KEY_MODE_LIVE); /* app_send() says why nothing is sent */
        if (row && row->action != ACTION_QUIT) app->asked = false;
        if (row) app_act(app, row);
    }
}

static void read_keys(struct app *app)
{
    uint32_t key;
    while (!app->quit && (key = terminal_key(app->terminal)) != INPUT_NONE) {
        app->changed = app->urgent = true;
        take_key(app, key);
    }
}

/* ---- drawing ------------------------------------------------------------------------------------------------------- */

/* Opens the report when memory runs out, once; closes it when the run continues. */
static void follow_run(struct app *app)
{
    const struct run_model *model = feed_model(&app->feed);
    if (!model->has_state || model->state == app->run_state) return;
    app->run_state = model->state;
    if (model->state == RUN_OUT_OF_MEMORY) app->state.view = VIEW_SHORTAGE;
    else if (app->state.view == VIEW_SHORTAGE) app->state.view = VIEW_OVERVIEW;
    app->urgent = true;
}

bool app_fit_surface(struct app *app)
{
    int columns, rows;
    terminal_size(&columns, &rows);
    if (!app->surface.cells || app->surface.columns != columns || app->surface.rows != rows) {
        surface_release(&app->surface);
        if (!surface_init(&app->surface, columns, rows, app->theme, app->settings.ascii || !terminal_is_utf8()))
            return false;
    }
    app->surface.theme = app->theme;
    app->surface.depth = app->terminal->depth;
    return true;
}

static void draw(struct app *app, uint64_t now_ns)
{
    app_tell_time(app);
    lesson_show(app);
    if (!app_fit_surface(app)) return;
    app->state.cost.frames = app->terminal->frames;
    app->state.cost.bytes = app->terminal->bytes;
    if (app->options->compare) {
        if (app->state.view == VIEW_OVERVIEW) app->state.view = VIEW_WHITEBOARD; /* panes need the whole screen */
        compared_draw(&app->two, &app->feed, &app->state, &app->surface);
    } else {
        struct scene scene = app_scene(app);
        view_draw(scene.model, scene.history, &app->state, &app->surface);
    }
    terminal_show(app->terminal, &app->surface);
    app->drawn_ns = now_ns;
    app->changed = app->urgent = false;
}

static void take_away_message(struct app *app, uint64_t now_ns)
{
    if (!app->message_ns || now_ns < app->message_ns) return;
    app->message_ns = 0;
    app->state.message[0] = '\0';
    app->changed = true;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------ */

static void sooner(int64_t *wait_ns, int64_t other_ns)
{
    if (other_ns >= 0 && (*wait_ns < 0 || other_ns < *wait_ns)) *wait_ns = other_ns;
}

static int64_t until(uint64_t then_ns, uint64_t now_ns)
{
    return then_ns > now_ns ? (int64_t)(then_ns - now_ns) : 0;
}

/* Whether more records may wait: of the run, or of either of two. */
static bool flows(const struct app *app)
{
    return feed_flows(&app->feed) || (app->options->compare && feed_flows(&app->two.feed));
}

/* Sleeps until there is a key, a record to read, a frame to draw, a message to remove, or work for `tended`. */
static void wait_for_work(struct app *app)
{
    const struct app_tended *tended = &app->options->tended;
    const int soon_ms = tended->tend ? tended->tend(tended->user) : -1;
    uint64_t now_ns = clock_ns();
    int64_t rest_ns = flows(app) ? 0 : until(app->taken_ns + frame_ns(app), now_ns);
    int64_t wait_ns = feed_wait_ns(&app->feed, now_ns);
    if (app->feed.playing && wait_ns >= (app->feed.live ? 1 : 0) && wait_ns < rest_ns) wait_ns = rest_ns;
    const int other = app->options->compare ? feed_fd(&app->two.feed) : -1;
    struct pollfd fds[4] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = rest_ns ? -1 : feed_fd(&app->feed), .events = POLLIN},
                            {.fd = tended->tend ? tended->fd(tended->user) : -1, .events = POLLIN},
                            {.fd = rest_ns ? -1 : other, .events = POLLIN}};
    if (rest_ns && (feed_fd(&app->feed) >= 0 || other >= 0)) sooner(&wait_ns, rest_ns);
    if (soon_ms >= 0) sooner(&wait_ns, (int64_t)soon_ms * 1000000);
    sooner(&wait_ns, feed_last_wait_ns(&app->feed, now_ns));
    if (app->changed || is_moving(app)) sooner(&wait_ns, until(app->drawn_ns + frame_ns(app), now_ns));
    if (app->message_ns) sooner(&wait_ns, until(app->message_ns, now_ns));
    struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
    if (terminal_poll(fds, 4, wait_ns < 0 ? NULL : &wait) > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        app->quit = true;
}

static void take_records(struct app *app, uint64_t now_ns)
{
    const bool other = app->options->compare && compared_advance(&app->two, now_ns);
    if (!feed_advance(&app->feed, now_ns) && !other) return;
    feed_hold(&app->feed);
    app->changed = true;
    app_hear_answer(app);
    app->state.watches = app->feed.live && !source_drives(app->feed.newest.source); /* known with the first record */
    app->state.readonly = app->options->readonly || app->state.watches;
    app->taken_ns = now_ns;
}

/* goes_on: the screen stays from the run before, and is not redrawn until the first record of the new run. */
static void loop(struct app *app, bool goes_on)
{
    app->changed = app->urgent = !goes_on;
    while (!app->quit) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= app->taken_ns + frame_ns(app) || flows(app) || feed_wait_ns(&app->feed, now_ns) == 0)
            take_records(app, now_ns);
        playing_tick(app, now_ns);
        play_last_step(app, now_ns);
        if (app->quit) break; /* the lab wants another run */
        follow_run(app);
        take_away_message(app, now_ns);
        app->changed |= is_moving(app);
        if (app->urgent || (app->changed && now_ns >= app->drawn_ns + frame_ns(app))) draw(app, now_ns);
        wait_for_work(app);
        read_keys(app);
    }
}

/* ---- opening and leaving ------------------------------------------------------------------------------------------- */

static int open_feed(struct app *app, struct error *err)
{
    const struct app_options *options = app->options;
    int status = options->source ? feed_open_live(&app->feed, options->source, options->model, options->trace_file, err)
                                 : feed_open_replay(&app->feed, options->replay_file, err);
    if (status) return status;
    if (options->source) status = lesson_record(app, err);
    else if (!lesson_open(app)) feed_play(&app->feed, true, clock_ns());
    if (!status && options->compare) status = compared_open(&app->two, options->compare, options->replay_file, err);
    if (status) feed_close(&app->feed);
    return status;
}

/* A setting comes from the option, else the environment, the file, the default. A faulty file gives a message and is
 * not changed. */
static void load_settings(struct app *app)
{
    const struct app_look *look = &app->options->look;
    struct error err;
    app->saved = settings_default();
    int faulty = settings_load(&app->saved, &err);
    app->saves = !faulty && !app->options->readonly;
    if (faulty) app_say(app, "%.310s", err.text);
    app->settings = app->saved;
    if (settings_from_environment(&app->settings, &err)) app_say(app, "%.310s", err.text);
    if (look->theme) app->settings.theme = (enum theme)theme_named(look->theme);
    if (look->units) app->settings.units = (enum units)(look->units - APP_UNITS_GB);
    app->settings.ascii |= look->ascii;
    app->settings.mouse &= !look->no_mouse;
}

int app_open_screen(struct app *app, struct error *err)
{
    const struct app_look *look = &app->options->look;
    load_settings(app);
    int status = terminal_open(&app->terminal, look->no_color, app->settings.mouse, err);
    app->quit = !app->terminal;
    if (!app->terminal) return status;
    app->theme = look_is_mono(look, app->terminal->has_colour) ? THEME_MONO : app->settings.theme;
    app->state.units = app->settings.units;
    app->state.bars_now = app->settings.bars_now;
    return STATUS_OK;
}

/* A run that was started here stops with its screen. Its last records still go into a recording. */
static void leave(struct app *app)
{
    struct feed *feed = &app->feed;
    bool stops = feed->live && app->options->owner && !app->options->readonly && !feed->newest.over;
    if (stops) source_send(feed->newest.source, "stop", NULL); /* a connection that is gone needs no stop */
    uint64_t end_ns = clock_ns() + RECORDING_ENDS_MS * 1000000ull;
    while (stops && feed->recording && !feed->newest.over && !feed->newest.model->ended && clock_ns() < end_ns) {
        struct pollfd fd = {.fd = feed_fd(feed), .events = POLLIN};
        poll(&fd, 1, 100);
        feed_advance(feed, clock_ns());
    }
}

/* ---- one run, or several on one screen ----------------------------------------------------------------------------- */

/* Keeps the user's choices, and resets the state of the previous run. */
static void begin_run(struct app *app, const struct app_options *options)
{
    const struct view_state before = app->state;
    app->options = options;
    app->run_state = RUN_STARTING;
    app->quit = app->again = app->asked = app->waits_answer = false;
    app->taken_ns = app->message_ns = app->lesson_ns = 0;
    app->state = (struct view_state){.view = before.view,
                                     .focus = before.focus,
                                     .before = before.before,
                                     .units = before.units,
                                     .bars_now = before.bars_now,
                                     .lab_focus = before.lab_focus,
                                     .live = options->source != NULL,
                                     .readonly = options->readonly,
                                     .offer = options->offer ? options->offer->text : NULL};
}

void app_close(struct app *app)
{
    if (!app) return;
    terminal_close(app->terminal);
    surface_release(&app->surface);
    lab_pane_release(&app->pane);
    free(app->noted);
    free(app);
}

static struct app *stage_take(const struct app_options *options)
{
    struct app *app = options->stage ? *options->stage : NULL;
    if (options->stage) *options->stage = NULL;
    if (app) return app;
    app = calloc(1, sizeof *app);
    if (app) app->state.focus = VIEW_EVENTS;
    return app;
}

static int run_on_stage(struct app *app, bool goes_on, struct error *err)
{
    int status = goes_on ? STATUS_OK : app_open_screen(app, err);
    if (goes_on) terminal_listen(true);
    playing_open(app);
    if (!status) loop(app, goes_on);
    playing_close(app);
    if (status) return status;
    if (app->terminal && app->options->cost)
        *app->options->cost = (struct app_cost){app->terminal->frames, app->terminal->bytes};
    if (app->again) draw(app, clock_ns()), terminal_listen(false); /* says that another run begins */
    else terminal_close(app->terminal), app->terminal = NULL;
    leave(app);
    return STATUS_OK;
}

int app_run(const struct app_options *options, struct error *err)
{
    struct app *app = stage_take(options);
    if (!app) return error_set(err, STATUS_RUN, "no memory for a screen");
    const bool goes_on = app->terminal != NULL;
    begin_run(app, options);
    int status = open_feed(app, err);
    if (!status) {
        status = run_on_stage(app, goes_on, err);
        if (options->compare) compared_close(&app->two);
        feed_close(&app->feed);
    }
    if (!status && app->again && options->stage) *options->stage = app;
    else app_close(app);
    return status;
}

bool app_terminal_fits(struct error *err)
{
    return terminal_fits(err);
}

bool look_is_mono(const struct app_look *look, bool can_colour)
{
    const char *no_colour = getenv("NO_COLOR");
    return look->no_color || !can_colour || (no_colour && no_colour[0]);
}

bool app_lab_fits(const struct lab_play *play)
{
    struct lab_pane pane = {0};
    lab_pane_of(&pane, play, false);
    return lab_fits_smallest(&pane);
}
