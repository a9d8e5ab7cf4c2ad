/* The timeline's sums: windows, what a column shows, where things stand at every size, and how one moves about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/support/timeline_fixture.h"

/* ---- windows ---- */

static void columns_and_times_agree(void **state)
{
    static const struct window windows[] = {{.to_ns = 2000},
                                            {.from_ns = 1000000, .to_ns = 1002001},
                                            {.from_ns = 77, .to_ns = 123456789},
                                            {.from_ns = 5000000000u, .to_ns = 905000000000u}};
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        for (int columns = 1; columns <= 400; columns += 7) {
            assert_int_equal(window_time(&windows[i], columns, 0), windows[i].from_ns);
            assert_int_equal(window_time(&windows[i], columns, columns), windows[i].to_ns);
            assert_int_equal(window_column(&windows[i], columns, windows[i].to_ns), columns);
            for (int column = 0; column < columns; column++) {
                uint64_t from_ns = window_time(&windows[i], columns, column),
                         to_ns = window_time(&windows[i], columns, column + 1);
                assert_true(from_ns < to_ns);
                assert_int_equal(window_column(&windows[i], columns, from_ns), column);
                assert_int_equal(window_column(&windows[i], columns, to_ns - 1), column);
            }
        }
    assert_int_equal(window_column(&windows[1], 80, 999999), -1);
}

/* While one steps, all moments are as wide, however far they lie apart. */
static void columns_and_moments_agree(void **state)
{
    struct window window = {.from_ns = 1000, .by_moments = true};
    uint64_t at_ns = 1000;
    (void)state;
    for (int m = 0; m <= WINDOW_MOMENTS_MAX; m++, at_ns += m % 3 ? 5000 + (uint64_t)m : 3000000000u)
        window.moment_ns[m] = at_ns;
    window.to_ns = window.moment_ns[WINDOW_MOMENTS_MAX];
    for (int columns = WINDOW_MOMENTS; columns <= 400; columns += 7) {
        const int each = columns < 2 * WINDOW_MOMENTS ? 1 : columns / WINDOW_MOMENTS;
        for (int m = 0; m < WINDOW_MOMENTS_MAX && (m + 1) * each <= columns; m++) {
            assert_int_equal(window_time(&window, columns, m * each), window.moment_ns[m]);
            assert_int_equal(window_column(&window, columns, window.moment_ns[m]), m * each);
            assert_int_equal(window_column(&window, columns, window.moment_ns[m + 1] - 1), (m + 1) * each - 1);
        }
    }
}

static void zooming_keeps_its_place(void **state)
{
    struct window window = {.from_ns = 1000000000u, .to_ns = 2000000000u};
    (void)state;
    for (int share = 0; share <= 4; share++) {
        uint64_t around_ns = window.from_ns + 250000000u * (uint64_t)share;
        struct window closer = window_zoomed(window, 0.5, around_ns), back = window_zoomed(closer, 2, around_ns);
        assert_int_equal(closer.to_ns - closer.from_ns, 500000000u);
        assert_int_equal(around_ns - closer.from_ns, (around_ns - window.from_ns) / 2);
        assert_int_equal(back.from_ns, window.from_ns);
        assert_int_equal(back.to_ns, window.to_ns);
    }
    for (int i = 0; i < 60; i++) window = window_zoomed(window, 1 / 8.0, 1234567890u);
    assert_int_equal(window.to_ns - window.from_ns, WINDOW_LEAST_NS);
    assert_true(window.from_ns <= 1234567890u && window.to_ns > 1234567890u);
}

static void panning_and_showing(void **state)
{
    struct window window = {.from_ns = 1000000, .to_ns = 2000000};
    (void)state;
    assert_int_equal(window_panned(window, 0.25).from_ns, 1250000);
    assert_int_equal(window_panned(window, -1).to_ns, 1000000);
    assert_int_equal(window_panned(window, -2).from_ns, 0); /* nothing lies before */
    assert_int_equal(window_panned(window, -2).to_ns, 1000000);
    assert_int_equal(window_centred(window, 5000000).from_ns, 4500000);
    assert_int_equal(window_showing(window, 1200000, 1300000).from_ns, 1000000); /* seen already */
    assert_int_equal(window_showing(window, 900000, 950000).from_ns, 900000);
    assert_int_equal(window_showing(window, 2100000, 2200000).to_ns, 2200000);
    assert_int_equal(window_showing(window, 2100000, 9200000).from_ns,
                     2100000); /* longer than the window: its beginning */
}

/* While a run grows by a third its scale changes at most a few times, and it always fits. */
static void the_scale_of_a_run_is_steady(void **state)
{
    uint64_t scale = 0;
    int changes = 0;
    (void)state;
    for (uint64_t last_ns = 9000000000u; last_ns < 12000000000u; last_ns += 10000000) {
        struct window window = window_of_run(1000, last_ns);
        assert_true(window.from_ns == 1000 && window.to_ns >= last_ns && window.to_ns - 1000 <= last_ns * 4 / 3);
        changes += window.to_ns != scale;
        scale = window.to_ns;
    }
    assert_true(changes <= 4);
}

/* ---- which window is shown ---- */

static struct window shown(const struct folded *run, struct view_state state)
{
    struct scene scene = {run->model, run->history, &state};
    return timeline_window(&scene);
}

static void assert_step(const struct folded *run, struct view_state state, uint32_t number)
{
    const struct history_step *step = history_step_numbered(run->history, number);
    struct window window = shown(run, state);
    assert_int_equal(window.from_ns, step->begun_ns);
    assert_int_equal(window.to_ns, step->ended_ns);
}

static void the_step_under_the_cursor_is_shown(void **state)
{
    struct folded run = folded_example(8);
    uint64_t in_six_ns = history_step_numbered(run.history, 6)->begun_ns + 1000000;
    (void)state;
    assert_step(&run, (struct view_state){0}, 8);
    assert_step(&run, (struct view_state){.behind = true, .cursor_ns = in_six_ns}, 6);
    assert_step(&run, (struct view_state){.behind = true, .live = true, .cursor_ns = in_six_ns}, 6);
    assert_int_equal(shown(&run, (struct view_state){.from_ns = 5, .to_ns = 9000}).from_ns, 5);
    struct window all = shown(&run, (struct view_state){.to_ns = UINT64_MAX});
    assert_true(all.from_ns == history_first_ns(run.history) && all.to_ns >= history_last_ns(run.history));
    folded_free(&run);
}

static void a_running_run_shows_whole_steps(void **state)
{
    struct folded run = folded_until(8, 10);
    struct view_state live = {.live = true}, stopped = {0};
    struct scene scene = {run.model, run.history, &live};
    (void)state;
    assert_int_equal(history_step_numbered(run.history, 8)->ended_ns, 0);
    assert_true(timeline_step(&scene)->ended_ns && timeline_step(&scene)->step < 8); /* calm */
    struct window window = shown(&run, live);
    assert_int_equal(window.to_ns, timeline_step(&scene)->ended_ns);
    scene.state = &stopped; /* nothing moves: what is there is shown */
    assert_int_equal(timeline_step(&scene)->step, 8);
    window = shown(&run, stopped);
    assert_true(window.to_ns > history_last_ns(run.history) && window.to_ns < history_last_ns(run.history) + 100000000u);
    folded_free(&run);
}

/* A step that takes longer than eyes need is followed as it happens. */
static void a_slow_step_is_followed(void **state)
{
    struct folded run = folded_until(8, 10);
    struct view_state live = {.live = true};
    struct scene scene = {run.model, run.history, &live};
    struct trace_record later = {
        .kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .time_ns = history_last_ns(run.history) + 1500000000u};
    (void)state;
    folded_fold(&run, &later);
    assert_true(timeline_step(&scene)->step < 8); /* not before two seconds */
    later.time_ns += 600000000;
    folded_fold(&run, &later);
    assert_int_equal(timeline_step(&scene)->step, 8);
    struct window before = timeline_window(&scene);
    later.time_ns += 10000000;
    folded_fold(&run, &later);
    struct window after = timeline_window(&scene);
    assert_int_equal(before.to_ns, after.to_ns); /* its scale does not creep */
    folded_free(&run);
}

/* ---- what a column shows ---- */

enum { SAMPLES = 200, COLUMNS = 71 };

/* What a lane does at an instant, by looking through all its spans. */
static enum mark mark_at(const struct folded *run, int rank, enum lane lane, uint64_t time_ns)
{
    const struct span *span;
    for (int64_t i = 0; (span = history_span(run->history, rank, lane, i)); i++) {
        if (time_ns >= span->started_ns && time_ns < span->ended_ns)
            return mark_of_op(span->kind, span->phase, span->prefetch);
        if (time_ns >= span->issued_ns && time_ns < span->ready_ns && span->stall != STALL_NONE)
            return MARK_WAIT + (enum mark)span->stall;
    }
    return MARK_IDLE;
}

/* No other mark was on in clearly more of the column's samples than the one that is shown. */
static void check_column(const struct folded *run, int rank, enum lane lane, const struct window *window, int column,
                         enum mark shown_mark)
{
    int counts[MARKS] = {0};
    uint64_t from_ns = window_time(window, COLUMNS, column), to_ns = window_time(window, COLUMNS, column + 1);
    for (int i = 0; i < SAMPLES; i++)
        counts[mark_at(run, rank, lane, from_ns + (to_ns - from_ns) * (uint64_t)i / SAMPLES)]++;
    for (enum mark mark = 0; mark < MARKS; mark++) assert_true(counts[mark] <= counts[shown_mark] + SAMPLES / 20);
}

static void a_column_shows_what_took_most_of_it(void **state)
{
    struct folded run = folded_example(8);
    struct view_state view_state = {0};
    struct scene scene = {run.model, run.history, &view_state};
    (void)state;
    for (int zoom = 0; zoom < 6; zoom++) {
        const struct history_step *step = history_step_numbered(run.history, zoom & 1 ? 8 : 3);
        struct window window = {.from_ns = step->begun_ns,
                                .to_ns = step->begun_ns + (step->ended_ns - step->begun_ns) / (1u << zoom)};
        for (int rank = 0; rank < 4; rank += 3)
            for (enum lane lane = 0; lane < LANES; lane++) {
                struct column columns[COLUMNS];
                timeline_columns(columns, COLUMNS, &scene, rank, lane, &window);
                for (int i = 0; i < COLUMNS; i++) check_column(&run, rank, lane, &window, i, columns[i].mark);
            }
    }
    folded_free(&run);
}

/* Marks and their times, over columns of any width, add up to what the lane did; and nothing is shown where nothing was. */
static void busy_time_is_neither_lost_nor_made_up(void **state)
{
    struct folded run = folded_example(8);
    struct view_state view_state = {0};
    struct scene scene = {run.model, run.history, &view_state};
    const struct history_step *step = history_step_numbered(run.history, 8);
    struct window window = {.from_ns = step->begun_ns, .to_ns = step->ended_ns},
                  before = {.to_ns = history_first_ns(run.history)},
                  after = {.from_ns = history_last_ns(run.history) + 1,
                           .to_ns = history_last_ns(run.history) + 1000000};
    uint64_t busy_ns = 0, expected_ns = 0;
    struct column columns[COLUMNS];
    int64_t first, end;
    (void)state;
    timeline_columns(columns, COLUMNS, &scene, 1, LANE_COMM, &window);
    for (int i = 0; i < COLUMNS; i++) busy_ns += columns[i].busy_ns;
    history_spans(run.history, 1, LANE_COMM, step->begun_ns, step->ended_ns, &first, &end);
    for (; first < end; first++)
        expected_ns +=
            history_span(run.history, 1, LANE_COMM, first)->ended_ns - history_span(run.history, 1, LANE_COMM, first)->started_ns;
    assert_int_equal(busy_ns, expected_ns);
    timeline_columns(columns, COLUMNS, &scene, 1, LANE_COMM, &before);
    for (int i = 0; i < COLUMNS; i++) assert_int_equal(columns[i].mark, MARK_IDLE);
    timeline_columns(columns, COLUMNS, &scene, 1, LANE_COMM, &after);
    for (int i = 0; i < COLUMNS; i++) assert_int_equal(columns[i].mark, MARK_IDLE);
    folded_free(&run);
}

static void lost_time_is_unknown(void **state)
{
    struct folded run = folded_example(4);
    struct view_state view_state = {0};
    struct scene scene = {run.model, run.history, &view_state};
    uint64_t last_ns = history_last_ns(run.history);
    struct trace_record gap = {.kind = TRACE_GAP, .rank = 0, .time_ns = last_ns + 1000000, .gap = {7, last_ns}};
    struct window window = {.from_ns = last_ns, .to_ns = last_ns + 2000000};
    struct column columns[COLUMNS];
    (void)state;
    folded_fold(&run, &gap);
    timeline_columns(columns, COLUMNS, &scene, 0, LANE_COMPUTE, &window);
    assert_int_equal(columns[COLUMNS / 4].mark, MARK_UNKNOWN);
    assert_int_equal(columns[COLUMNS - 1].mark, MARK_IDLE); /* not there yet */
    folded_free(&run);
}

/* In the middle of a step a lane may stand before its next operation; what for is known before it has begun. */
static void a_wait_that_goes_on_is_shown(void **state)
{
    int seen = 0;
    (void)state;
    for (int ended = 1; ended < 40; ended++) {
        struct folded run = folded_until(8, ended);
        struct view_state view_state = {0};
        struct scene scene = {run.model, run.history, &view_state};
        uint64_t since_ns = 0;
        struct trace_record later = {
            .kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .time_ns = history_last_ns(run.history) + 5000};
        folded_fold(&run, &later);
        struct stall_reason reason = timeline_pending(&scene, 0, LANE_COMPUTE, &since_ns);
        if (reason.why != STALL_NONE && shown_now(&scene) > since_ns + 1000) {
            struct window window = {.from_ns = since_ns, .to_ns = shown_now(&scene)};
            struct column columns[COLUMNS];
            timeline_columns(columns, COLUMNS, &scene, 0, LANE_COMPUTE, &window);
            assert_int_equal(columns[COLUMNS / 2].mark, MARK_WAIT + (enum mark)reason.why);
            assert_true(reason.op >= 0);
            seen++;
        }
        folded_free(&run);
    }
    assert_true(seen > 3);
}

/* ---- layout ---- */

static bool overlap(const struct rect *a, const struct rect *b)
{
    return a->rows && b->rows && a->y < b->y + b->rows && b->y < a->y + a->rows;
}

static void check_layout(int columns, int rows, int ranks, int chosen, uint32_t lanes)
{
    struct timeline_layout layout;
    struct timeline_needs needs = {0, ranks, chosen, lanes, 2 + rows % 2};
    bool taken[256] = {false};
    timeline_layout(&layout, columns, rows, &needs);
    const struct rect all[] = {layout.steps, layout.ticks, layout.curve, layout.lanes, layout.details, layout.legend};
    for (int i = 0; i < 6; i++) {
        assert_true((all[i].columns == 0) == (all[i].rows == 0));
        assert_true(all[i].x >= 0 && all[i].y >= 0 && all[i].x + all[i].columns <= columns &&
                    all[i].y + all[i].rows <= rows);
        for (int k = i + 1; k < 6; k++) assert_false(overlap(&all[i], &all[k]));
    }
    assert_true(layout.first_rank >= 0 && layout.first_rank + layout.rank_count <= ranks);
    if (layout.rank_count) assert_true(chosen >= layout.first_rank && chosen < layout.first_rank + layout.rank_count);
    for (int rank = 0; rank < ranks; rank++)
        for (enum lane lane = 0; lane < LANES; lane++) {
            int row = timeline_row(&layout, chosen, rank, lane);
            if (row < 0 || (layout.heat && rank != chosen && lane && lanes & 1)) continue;
            assert_true(row + layout.lane_rows <= layout.lanes.rows);
            for (int i = 0; i < layout.lane_rows; i++) {
                assert_false(taken[row + i]);
                taken[row + i] = true;
            }
        }
    if (rows < VIEW_ROWS_MIN - 3) return;
    assert_true(layout.curve.rows >= 3 && layout.details.rows >= 4 && layout.legend.rows == needs.legend_rows &&
                layout.lanes.rows >= __builtin_popcount(lanes));
}

static void layout_fits_every_size(void **state)
{
    static const int ranks[] = {1, 2, 3, 4, 8, 9, 16, 64};
    (void)state;
    for (int rows = 1; rows <= 120; rows++)
        for (int columns = 1; columns <= 400; columns += columns < 100 ? 1 : 13)
            for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
                check_layout(columns, rows, ranks[i], 0, 3);
                check_layout(columns, rows, ranks[i], ranks[i] / 2, 1 + rows % 3);
                check_layout(columns, rows, ranks[i], ranks[i] - 1, 3);
            }
}

/* ---- the legend ---- */

static bool says(const struct surface *surface, int y, const char *word)
{
    char row[256] = "";
    for (int x = 0; x < surface->columns; x++) {
        const uint32_t character = surface_at(surface, x, y)->character;
        row[x] = character < 0x80 ? (char)character : '#';
    }
    return strstr(row, word);
}

/* A sign beside a letter, or alone, stands in the legend once, and no entry is cut off. */
static void check_legend(const struct folded *run, int columns)
{
    struct view_state state = {.view = VIEW_TIMELINE};
    struct surface surface;
    int first = 0, found[0x2600] = {0}, paced = 0, slowest = 0, unknown = 0;
    assert_true(surface_init(&surface, columns, 24, THEME_MONO, false));
    view_draw(run->model, run->history, &state, &surface);
    while (!says(&surface, first, " works ")) assert_true(++first < 22);
    for (int y = first; y < 23; y++) {
        for (int x = 0; x < columns; x++) {
            const uint32_t sign = surface_at(&surface, x, y)->character;
            if (sign >= 0x80) assert_int_equal(found[sign]++, 0);
        }
        paced += says(&surface, y, "paced"), slowest += says(&surface, y, "slowest");
        unknown += says(&surface, y, "unknown");
    }
    assert_true(paced == 1 && slowest == 1 && unknown == 1);
    surface_release(&surface);
}

static void every_sign_is_in_the_legend_once(void **unused)
{
    struct folded runs[] = {folded_example(8), folded_story(4, STORY_ENDED), folded_story(64, STORY_ENDED)};
    (void)unused;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        check_legend(&runs[i], 80);
        check_legend(&runs[i], 120);
        folded_free(&runs[i]);
    }
}

/* ---- moving about ---- */

static bool press(const struct folded *run, struct view_state *state, enum action action, const char *argument)
{
    struct scene scene = {run->model, run->history, state};
    return timeline_act(state, &scene, &(struct key_row){.action = action, .argument = argument});
}

static const struct span *chosen(const struct folded *run, const struct view_state *state)
{
    struct scene scene = {run->model, run->history, state};
    return timeline_selected(&scene);
}

static void arrows_visit_every_operation_of_a_lane(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {.rank = 1};
    int64_t first, end;
    (void)unused;
    history_spans(run.history, 1, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    assert_true(press(&run, &state, ACTION_RIGHT, NULL) && state.selected.known);
    for (int64_t i = first; i < end; i++) press(&run, &state, ACTION_LEFT, NULL);
    for (int64_t i = first; i < end; i++) {
        const struct span *span = chosen(&run, &state);
        assert_ptr_equal(span, history_span(run.history, 1, LANE_COMPUTE, i)); /* and it is on the screen */
        press(&run, &state, ACTION_RIGHT, NULL);
    }
    assert_ptr_equal(chosen(&run, &state), history_span(run.history, 1, LANE_COMPUTE, end - 1)); /* the last stays */
    folded_free(&run);
}

static void arrows_leave_an_empty_window(void **unused)
{
    struct folded run = folded_example(8);
    uint64_t first_ns = history_first_ns(run.history), last_ns = history_last_ns(run.history);
    struct view_state state = {.rank = 1, .from_ns = last_ns + 1000000, .to_ns = last_ns + 2000000};
    int64_t first, end;
    (void)unused;
    history_spans(run.history, 1, LANE_COMPUTE, 0, UINT64_MAX, &first, &end);
    press(&run, &state, ACTION_RIGHT, NULL);
    assert_false(state.selected.known); /* nothing lies there */
    press(&run, &state, ACTION_LEFT, NULL);
    assert_ptr_equal(chosen(&run, &state), history_span(run.history, 1, LANE_COMPUTE, end - 1));
    state = (struct view_state){.rank = 1, .from_ns = first_ns - 2000000, .to_ns = first_ns - 1000000};
    press(&run, &state, ACTION_RIGHT, NULL);
    assert_ptr_equal(chosen(&run, &state), history_span(run.history, 1, LANE_COMPUTE, first));
    folded_free(&run);
}

static void arrows_change_lane_and_rank(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {0};
    (void)unused;
    press(&run, &state, ACTION_DOWN, NULL);
    assert_true(state.selected.rank == 0 && state.selected.lane == LANE_COMPUTE);
    const struct span *before = chosen(&run, &state);
    press(&run, &state, ACTION_DOWN, NULL);
    assert_true(state.selected.rank == 0 && state.selected.lane == LANE_COMM);
    const struct span *after = chosen(&run, &state);
    assert_true(after->started_ns < before->ended_ns + 3000000 && before->started_ns < after->ended_ns + 3000000);
    for (int i = 0; i < 20; i++) press(&run, &state, ACTION_DOWN, NULL);
    assert_true(state.selected.rank == 3 && state.selected.lane == LANE_COMM && state.rank == 3);
    press(&run, &state, ACTION_PAGE_UP, NULL);
    assert_true(state.selected.rank == 0 && state.selected.lane == LANE_COMM);
    for (int i = 0; i < 20; i++) press(&run, &state, ACTION_UP, NULL);
    assert_true(state.selected.rank == 0 && state.selected.lane == LANE_COMPUTE);
    folded_free(&run);
}

static void spans_grow_from_where_they_were_opened(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {0};
    (void)unused;
    press(&run, &state, ACTION_RIGHT, NULL);
    const struct span *anchor = chosen(&run, &state);
    press(&run, &state, ACTION_SPAN, NULL);
    assert_true(state.span.open && state.span.from_ns == anchor->started_ns && state.span.to_ns == anchor->ended_ns);
    press(&run, &state, ACTION_RIGHT, NULL);
    press(&run, &state, ACTION_RIGHT, NULL);
    assert_int_equal(state.span.from_ns, anchor->started_ns);
    assert_int_equal(state.span.to_ns, chosen(&run, &state)->ended_ns);
    for (int i = 0; i < 4; i++) press(&run, &state, ACTION_LEFT, NULL);
    assert_int_equal(state.span.from_ns, chosen(&run, &state)->started_ns);
    assert_int_equal(state.span.to_ns, anchor->ended_ns);
    assert_true(press(&run, &state, ACTION_CLOSE, NULL) && !state.span.open && state.selected.known);
    assert_true(press(&run, &state, ACTION_CLOSE, NULL) && !state.selected.known);
    folded_free(&run);
}

static void keys_of_the_window(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {0};
    struct window step = shown(&run, state);
    (void)unused;
    press(&run, &state, ACTION_ZOOM_IN, NULL);
    assert_int_equal(state.to_ns - state.from_ns, (step.to_ns - step.from_ns) / 2);
    press(&run, &state, ACTION_RIGHT, NULL);
    press(&run, &state, ACTION_CENTRE, NULL);
    const struct span *span = chosen(&run, &state);
    uint64_t middle_ns = (span->started_ns + span->ended_ns) / 2, shown_ns = (state.from_ns + state.to_ns) / 2;
    assert_true(shown_ns > middle_ns - 10 && shown_ns < middle_ns + 10);
    press(&run, &state, ACTION_CENTRE, NULL); /* again: it fills the window */
    assert_true(state.from_ns < span->started_ns && state.to_ns > span->ended_ns &&
                state.to_ns - state.from_ns <= 2 * (span->ended_ns - span->started_ns) + WINDOW_LEAST_NS);
    press(&run, &state, ACTION_FIT, NULL);
    assert_true(state.to_ns == UINT64_MAX);
    press(&run, &state, ACTION_ZOOM_IN, "more");
    assert_true(state.to_ns != UINT64_MAX);
    for (int i = 0; i < 40; i++) press(&run, &state, ACTION_PAN_LEFT, "more");
    assert_true(state.to_ns > history_first_ns(run.history)); /* some of the run stays in sight */
    for (int i = 0; i < 9; i++) press(&run, &state, ACTION_ZOOM_OUT, "more");
    assert_true(state.to_ns == UINT64_MAX);
    assert_true(press(&run, &state, ACTION_ENTER, NULL) && state.cursor_ns == span->started_ns);
    press(&run, &state, ACTION_CLOSE, NULL);
    assert_true(press(&run, &state, ACTION_CLOSE, NULL) && state.to_ns == 0);
    assert_false(press(&run, &state, ACTION_CLOSE, NULL)); /* nothing is open: the app's key */
    folded_free(&run);
}

/* What is chosen in a live run stays in sight while the run goes on. */
static void choosing_holds_a_live_picture(void **unused)
{
    struct folded run = folded_until(8, 10);
    struct view_state state = {.live = true};
    struct window before = shown(&run, state), after;
    (void)unused;
    press(&run, &state, ACTION_RIGHT, NULL);
    after = shown(&run, state);
    assert_true(before.from_ns == after.from_ns && before.to_ns == after.to_ns && state.to_ns);
    assert_non_null(chosen(&run, &state));
    folded_free(&run);
}

/* Any keys in any order at any size: no crash, and the screen is drawn (sanitizers watch). */
static void any_keys_at_any_size(void **unused)
{
    static const enum action actions[] = {ACTION_ZOOM_IN,   ACTION_ZOOM_OUT, ACTION_PAN_LEFT, ACTION_PAN_RIGHT,
                                          ACTION_FIT,       ACTION_CENTRE,   ACTION_SPAN,     ACTION_LEFT,
                                          ACTION_RIGHT,     ACTION_UP,       ACTION_DOWN,     ACTION_PAGE_UP,
                                          ACTION_PAGE_DOWN, ACTION_ENTER,    ACTION_CLOSE};
    struct folded runs[] = {folded_example(0), folded_until(8, 17), folded_story(64, STORY_ENDED),
                            folded_story(1, STORY_STARTING)};
    uint32_t random = 12345;
    (void)unused;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct view_state state = {.view = VIEW_TIMELINE, .live = i == 1};
        for (int key = 0; key < 400; key++) {
            random = random * 1664525u + 1013904223u;
            press(&runs[i], &state, actions[(random >> 16) % 15], random >> 31 ? "more" : NULL);
            if (key % 8) continue;
            struct surface surface;
            assert_true(surface_init(&surface, 80 + (int)(random >> 8) % 150, 24 + (int)(random >> 20) % 40,
                                     THEME_DEFAULT, random & 64));
            view_draw(runs[i].model, runs[i].history, &state, &surface);
            surface_release(&surface);
        }
        folded_free(&runs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_and_times_agree),
        cmocka_unit_test(columns_and_moments_agree),
        cmocka_unit_test(zooming_keeps_its_place),
        cmocka_unit_test(panning_and_showing),
        cmocka_unit_test(the_scale_of_a_run_is_steady),
        cmocka_unit_test(the_step_under_the_cursor_is_shown),
        cmocka_unit_test(a_running_run_shows_whole_steps),
        cmocka_unit_test(a_slow_step_is_followed),
        cmocka_unit_test(a_column_shows_what_took_most_of_it),
        cmocka_unit_test(busy_time_is_neither_lost_nor_made_up),
        cmocka_unit_test(lost_time_is_unknown),
        cmocka_unit_test(a_wait_that_goes_on_is_shown),
        cmocka_unit_test(layout_fits_every_size),
        cmocka_unit_test(every_sign_is_in_the_legend_once),
        cmocka_unit_test(arrows_visit_every_operation_of_a_lane),
        cmocka_unit_test(arrows_leave_an_empty_window),
        cmocka_unit_test(arrows_change_lane_and_rank),
        cmocka_unit_test(spans_grow_from_where_they_were_opened),
        cmocka_unit_test(keys_of_the_window),
        cmocka_unit_test(choosing_holds_a_live_picture),
        cmocka_unit_test(any_keys_at_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
