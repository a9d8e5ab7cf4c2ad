/* The charts of a sweep on the terminal: one chart at a time, and knobs beside it. When a knob is turned, the whole sweep is planned
 * again with its value, and the chart is drawn again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/words.h"
#include "engine/config/keys.h"
#include "engine/simulate/hardware.h"
#include "tui/app/app_parts.h"
#include "tui/draw/chart.h"

enum { KNOBS_MAX = 16, LIST_COLUMNS = 36, FOOT_ROWS = 4, SLOW_NS = 100000000 };

/* A key with its values. All values of a swept key are in the chart; `at` is the one whose figures stand below it. */
struct knob {
    const char *label;
    struct sweep_key key;
    int at;                     /* -1: as configured, where that is not known */
    bool swept, hardware;       /* hardware: the values are profiles, and there is no key */
    char own[SWEEP_VALUE_ROOM]; /* as configured */
};

static const struct {
    const char *label, *values;
} turned[] = {
    {"stage", "zero_optimization.stage=0..3"},
    {"ranks", "topology.ranks=1..1024*2"},
    {"micro-batch", "train_micro_batch_size_per_gpu=1..64*2"},
    {"accumulation steps", "gradient_accumulation_steps=1..64*2"},
    {"bf16", "bf16.enabled=false,true"},
    {"recompute", "model.recompute=none,attention,full"},
    {"offload optimizer", "zero_optimization.offload_optimizer.device=none,cpu"},
    {"offload parameters", "zero_optimization.offload_param.device=none,cpu"},
    {"reduce bucket", "zero_optimization.reduce_bucket_size=1000000..1024000000*4"},
    {"prefetch bucket", "zero_optimization.stage3_prefetch_bucket_size=1000000..1024000000*4"},
};

struct live {
    const struct app_live_charts *ask;
    struct app *app;  /* its terminal, surface and theme */
    bool stale, help; /* stale: a knob was turned since the plan */
    struct knob knobs[KNOBS_MAX];
    int count, chosen, chart, charts;
    double *values;       /* of the chart that is drawn */
    struct error trouble; /* why nothing could be planned; status 0: it was */
    uint64_t took_ns;
};

/* ---- knobs ---- */

/* Adds a knob. It stands at the configured value, which comes between the others if it is none of them. */
static void add(struct live *live, struct knob knob)
{
    int before = 0;
    for (int v = 0; v < knob.key.count; v++) {
        if (!strcmp(knob.key.value[v], knob.own)) knob.at = v;
        before += strtod(knob.key.value[v], NULL) < strtod(knob.own, NULL);
    }
    if (knob.at < 0 && knob.own[0]) {
        memmove(knob.key.value[before + 1], knob.key.value[before],
                (size_t)(knob.key.count++ - before) * SWEEP_VALUE_ROOM);
        strcpy(knob.key.value[knob.at = before], knob.own);
    }
    live->knobs[live->count++] = knob;
}

static void add_hardware(struct live *live)
{
    const char *name = hardware_names(), *own = strrchr(live->ask->profile, '/');
    struct knob knob = {.label = "hardware", .at = -1, .hardware = true};
    snprintf(knob.own, sizeof knob.own, "%.40s", own ? own + 1 : live->ask->profile);
    for (int length; (length = (int)strcspn(name, " ")); name += length + 1)
        snprintf(knob.key.value[knob.key.count++], SWEEP_VALUE_ROOM, "%.*s", length, name);
    add(live, knob);
}

/* A configuration that does not load is told when it is planned. */
static int make_knobs(struct live *live, struct error *err)
{
    struct sweep *sweep = live->ask->sweep;
    struct config config;
    int status = STATUS_OK;
    const bool loads = !sweep_load(&config, sweep, 0, live->ask->loader, NULL);
    for (int k = 0; k < sweep->key_count; k++)
        add(live, (struct knob){.label = key_leaf(sweep->key[k].path), .key = sweep->key[k], .swept = true});
    for (size_t k = 0; k < sizeof turned / sizeof *turned && !status; k++) {
        struct sweep one = {.key_count = 0};
        status = sweep_add(&one, turned[k].values, err);
        struct knob knob = {.label = turned[k].label, .key = one.key[0], .at = -1};
        if (loads) config_show(&config, knob.key.path, knob.own, sizeof knob.own);
        if (!status && !sweep_sets(sweep, knob.key.path)) add(live, knob);
    }
    if (loads) config_release(&config);
    if (live->ask->profile) add_hardware(live);
    return status;
}

static const char *value_of(const struct knob *knob)
{
    return knob->at < 0 ? knob->own : knob->key.value[knob->at];
}

static void turn(struct live *live, int by)
{
    struct knob *knob = &live->knobs[live->chosen];
    const int at = smaller(knob->at + by, knob->key.count - 1);
    if (at < 0 || at == knob->at) return;
    knob->at = at;
    live->stale |= !knob->swept;
}

/* ---- planning ---- */

static int plan(struct live *live)
{
    const struct app_live_charts *ask = live->ask;
    const uint64_t from_ns = clock_ns();
    char text[KNOBS_MAX][CONFIG_PATH_MAX + SWEEP_VALUE_ROOM];
    const char *sets[KNOBS_MAX];
    int status = STATUS_OK;
    live->trouble = (struct error){0};
    ask->sweep->sets = sets, ask->sweep->set_count = 0;
    for (const struct knob *knob = live->knobs; knob < live->knobs + live->count && !status; knob++) {
        const bool own = knob->swept || !strcmp(value_of(knob), knob->own);
        if (knob->hardware)
            status = hardware_load(ask->hardware, own ? ask->profile : value_of(knob), &live->trouble);
        if (knob->hardware || own) continue;
        sets[ask->sweep->set_count] = text[ask->sweep->set_count];
        snprintf(text[ask->sweep->set_count++], sizeof *text, "%.127s=%.47s", knob->key.path, value_of(knob));
    }
    if (!status) status = sweep_plan(ask->sweep, ask->loader, &live->trouble);
    ask->sweep->set_count = 0;
    free(live->values);
    live->values = calloc((size_t)ask->sweep->row_count + 1, (CHART_SERIES_MAX + 1) * sizeof *live->values);
    live->took_ns = clock_ns() - from_ns;
    live->stale = false;
    return live->values || status ? status : error_set(&live->trouble, STATUS_RUN, "no memory for charts");
}

/* ---- drawing ---- */

/* Chart `number` of the value at which the third key stands. */
static bool get(struct chart *chart, const struct live *live, int number, char title[256])
{
    const struct sweep *sweep = live->ask->sweep;
    return charts_get(chart, sweep, sweep->key_count > 2 ? live->knobs[2].at : 0, number, live->values, title);
}

static void draw_knob(struct canvas canvas, int y, const struct live *live, int number)
{
    const struct knob *knob = &live->knobs[number];
    const bool chosen = number == live->chosen;
    const enum style style = chosen ? STYLE_FOCUS : STYLE_TEXT;
    draw_format(canvas, 0, y, style, "%s%s%s", chosen ? ">" : " ", knob->swept ? "*" : "", knob->label);
    draw_right(canvas, canvas.at.columns, y, style, text_of(chosen ? "< %s >" : "%s  ", value_of(knob)).text);
}

static bool draw_chart(struct canvas canvas, const struct chart *chart)
{
    struct drawing drawing = {.columns = canvas.at.columns, .rows = canvas.at.rows};
    const bool fits = chart_draw(chart, &drawing);
    if (fits) drawing_show(&drawing, canvas);
    drawing_release(&drawing);
    return fits;
}

/* The chart beside the knobs; a wide one takes their place, but for the chosen one. */
static void draw_body(struct canvas canvas, const struct live *live)
{
    const int beside = canvas.at.columns - LIST_COLUMNS - 1, rows = canvas.at.rows;
    const struct canvas small = canvas_part(canvas, 0, 0, beside, rows),
                        list = canvas_part(canvas, beside + 1, 0, LIST_COLUMNS, rows);
    struct chart chart;
    char title[256];
    if (!get(&chart, live, live->chart, title)) {
        draw_paragraph(small, 0, STYLE_TEXT, live->trouble.status ? live->trouble.text : "there is nothing to draw");
    } else if (!draw_chart(small, &chart)) {
        if (draw_chart(canvas_part(canvas, 0, 0, canvas.at.columns, rows - 1), &chart)) {
            draw_knob(canvas, rows - 1, live, live->chosen);
            return;
        }
        draw_format(small, 0, 0, STYLE_TEXT, "needs %d columns: %s", chart_columns(&chart), title);
    }
    draw_title(list, 0, false, "knobs");
    for (int k = 0; k < live->count; k++) draw_knob(list, k + 1, live, k);
}

/* The combination at which the swept keys stand, and its figures. */
static void draw_marked(struct canvas canvas, const struct live *live)
{
    const struct sweep *sweep = live->ask->sweep;
    char text[1024] = "";
    int at = 0;
    for (int k = 0; k < sweep->key_count; k++) {
        at = at * sweep->key[k].count + live->knobs[k].at;
        text_append(text, sizeof text, "%s%s %s", k ? ", " : "", live->knobs[k].label, value_of(&live->knobs[k]));
    }
    if (at >= sweep->row_count) return;
    const struct sweep_row *row = &sweep->rows[at];
    const double *figure = row->figure;
    if (row->refusal) text_append(text, sizeof text, ": refused: %s", row->refusal);
    else
        text_append(text, sizeof text, ": device peak %s, sends %s a step",
                    format_bytes_bare(UNITS_GB, (uint64_t)figure[sweep_memory(TIER_DEVICE, SWEEP_PEAK)]).text,
                    format_bytes_bare(UNITS_GB, (uint64_t)figure[SWEEP_SENT]).text);
    if (figure[SWEEP_STEP] > 0)
        text_append(text, sizeof text, ", %s SIMULATED, %.4g token/s, MFU %.2f",
                    format_time_bare((uint64_t)(1e9 * figure[SWEEP_STEP])).text, figure[SWEEP_TOKENS],
                    figure[SWEEP_MFU]);
    draw_paragraph(canvas, 0, row->refusal ? STYLE_WARN : STYLE_TEXT, text);
}

static void draw(struct live *live)
{
    struct surface *surface = &live->app->surface;
    if (!app_fit_surface(live->app)) return;
    const struct canvas all = canvas_of(surface);
    const int columns = surface->columns, rows = surface->rows;
    struct chart chart;
    char title[256];
    for (live->charts = 0; get(&chart, live, live->charts, title);) live->charts++;
    if (live->chart >= live->charts) live->chart = 0;
    surface_erase(surface);
    if (columns < VIEW_COLUMNS_MIN || rows < VIEW_ROWS_MIN) {
        draw_too_small(surface);
    } else if (live->help) {
        draw_title(all, 0, false, "help (q or Esc closes)");
        help_draw_keys(all, 2, KEY_MODE_CHARTS);
    } else {
        const int x = draw_format(all, 0, 0, STYLE_TITLE, "zerolab plan: %.40s", live->ask->what);
        draw_format(all, x + 2, 0, STYLE_STRONG, "PLANNED  chart %d of %d", live->chart + (live->charts > 0),
                    live->charts);
        draw_right(all, columns, 0, STYLE_DIM, live->stale ? "planning ..." : format_time_bare(live->took_ns).text);
        draw_body(canvas_part(all, 0, 1, columns, rows - 1 - FOOT_ROWS), live);
        draw_marked(canvas_part(all, 0, rows - FOOT_ROWS + 1, columns, FOOT_ROWS - 2), live);
        footer_draw_keys(canvas_part(all, 0, rows - 1, columns, 1), KEY_MODE_CHARTS);
    }
    terminal_show(live->app->terminal, surface);
}

/* ---- the loop ---- */

static void take_key(struct live *live, uint32_t key)
{
    const struct key_row *row = key_find(key, KEY_MODE_CHARTS);
    const int charts = live->charts, last = live->count - 1;
    if (key == INPUT_GONE) live->app->quit = true;
    if (key >= '1' && key <= '9' && (int)key - '1' < charts) live->chart = (int)key - '1';
    switch (row ? row->action : ACTION_NONE) {
    case ACTION_QUIT: live->app->quit = !live->help || key != 'q', live->help = false; break;
    case ACTION_CLOSE: live->help = false; break;
    case ACTION_VIEW: live->help = !live->help; break;
    case ACTION_NEXT_PANE: live->chart++; break; /* drawing keeps it in range */
    case ACTION_PREVIOUS_PANE: live->chart = (live->chart ? live->chart : charts) - (charts > 0); break;
    case ACTION_UP: live->chosen = live->chosen ? live->chosen - 1 : last; break;
    case ACTION_DOWN: live->chosen = live->chosen < last ? live->chosen + 1 : 0; break;
    case ACTION_LEFT: turn(live, -1); break;
    case ACTION_RIGHT: turn(live, 1); break;
    case ACTION_REDRAW: terminal_forget(live->app->terminal); break;
    case ACTION_SUSPEND: terminal_suspend(live->app->terminal); break;
    default: break;
    }
}

/* All keys that wait are taken before the next plan, so that a key that is held down does not pile up plans. */
static int loop(struct live *live)
{
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    int status = STATUS_OK;
    while (!live->app->quit && !status) {
        if (live->stale && live->took_ns > SLOW_NS) draw(live);
        if (live->stale && (status = plan(live)) == STATUS_USAGE) status = STATUS_OK; /* drawn in place of the chart */
        draw(live);
        if (terminal_poll(&fd, 1, NULL) > 0 && fd.revents & (POLLHUP | POLLERR | POLLNVAL)) break;
        for (uint32_t key; !live->app->quit && (key = terminal_key(live->app->terminal)) != INPUT_NONE;)
            take_key(live, key);
    }
    return status;
}

int app_live_charts(const struct app_live_charts *ask, struct error *err)
{
    struct app_options options = {.look = ask->look};
    struct live *live = calloc(1, sizeof *live);
    struct app *app = calloc(1, sizeof *app);
    options.look.no_mouse = true;
    int status = live && app ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for a screen");
    if (!status) app->options = &options, live->ask = ask, live->app = app, status = make_knobs(live, err);
    if (!status && (status = plan(live))) *err = live->trouble;
    if (!status) status = app_open_screen(app, err);
    if (!status && app->terminal && (status = loop(live))) *err = live->trouble;
    app_close(app);
    if (live) free(live->values);
    free(live);
    return status;
}
