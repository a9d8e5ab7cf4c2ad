/* Every view in every look of a table (as text at three sizes; with colours and in ASCII at 80x24), and what is special: each
 * against a file in tests/golden/views, named
 * VIEW[-WHAT]-COLSxROWS[.THEME][.ascii].txt|ansi|256.ansi|true.ansi|svg. Most show moments of one recorded run (docs/example.zlt: 4
 * ranks, stage 0, then 3), some a run that never was (synthetic.h). After a change that is meant:
 *
 *     ACCEPT=1 build/release/tests/test_golden; git diff --stat tests/golden/views        and look at them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/golden.h"
#include "tests/support/timeline_fixture.h"
#include "tui/app/record_reader.h"
#include "tui/draw/output.h"
#include "tui/screen/screen.h"

/* A moment: of the recorded run after a step, or after an operation of it on rank 0 (0 is "none": it is over too early to
 * show anything); step 0: its end. Or of the story, told for so many ranks. */
struct moment {
    uint32_t step, op;
    int ranks;
    enum synthetic_place place;
    const char *file; /* NULL: docs/example.zlt */
};

/* Two ranks at stage 3: all on the device; from step 3 on the optimizer in host memory; from step 5 on it and parameters on
 * NVMe; from step 7 on over paced links. */
#define TIERS_FILE "tests/reference/tiers.zlt"
#define OFFLOADED(number, of)                                                                                          \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = TIERS_FILE                                                               \
    }

/* Two ranks at stage 3 over links paced to 10 MB/s; from step 4 on to 50 MB/s; from step 6 on in slow motion. */
#define PACED(number, of)                                                                                              \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/paced.zlt"                                              \
    }

/* Four ranks in two nodes over a slow link at stage 3: hybrid sharding, each node a shard group; all of ZeRO++; and two hops. */
#define HYBRID(number, of)                                                                                             \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/hybrid.zlt"                                             \
    }
#define ZEROPP(number, of)                                                                                             \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/zeropp.zlt"                                             \
    }
#define HOPS(number, of)                                                                                               \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/hops.zlt"                                               \
    }

/* 16 ranks in nodes of four, and two ranks with 48 layers, both at stage 3. */
#define WIDE(number, of)                                                                                               \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/wide.zlt"                                               \
    }
#define DEEP(number, of)                                                                                               \
    {                                                                                                                  \
        .step = (number), .op = (of), .file = "tests/reference/deep.zlt"                                               \
    }

#define STEP(number)                                                                                                   \
    {                                                                                                                  \
        .step = (number)                                                                                               \
    }
#define OPERATION(number, of)                                                                                          \
    {                                                                                                                  \
        .step = (number), .op = (of)                                                                                   \
    }
#define THE_END                                                                                                        \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define STORY(place_, of)                                                                                              \
    {                                                                                                                  \
        .ranks = (of), .place = STORY_##place_                                                                         \
    }

enum as { TEXT, ANSI, SVG, ANSI_256, ANSI_TRUE };
static const char *const endings[] = {"txt", "ansi", "svg", "256.ansi", "true.ansi"};
static const enum depth depths[] = {DEPTH_16, DEPTH_16, DEPTH_TRUE, DEPTH_256, DEPTH_TRUE};

/* The looks of every view. A size moves cells; colours and ASCII signs are chosen cell by cell, at any size in the same way. */
static const struct variant {
    int columns, rows;
    bool ascii;
    enum as as;
} variants[] = {
    {80, 24, false, TEXT}, {120, 40, false, TEXT}, {200, 60, false, TEXT},
    {80, 24, false, ANSI}, {80, 24, true, TEXT},   {80, 24, true, ANSI},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* ---- every view: at the end of step 7, stage 3, or where it has more to say ---- */

static const struct place {
    struct moment moment;
    struct view_state state;
} places[VIEWS] = {
    [VIEW_WHITEBOARD] = {OPERATION(7, 24), {.rank = 1}},
    [VIEW_MEMORY] = {OPERATION(7, 24), {.rank = 1}},
    [VIEW_TIERS] = {OFFLOADED(8, 0), {.rank = 1}},
    [VIEW_BUCKETS] = {OPERATION(7, 24), {.rank = 1}}, /* rank 1 has one in each state */
    [VIEW_SHARDS] = {OPERATION(7, 23), {.rank = 1}},  /* and here a unit in each */
    [VIEW_SCHEDULE] = {OPERATION(7, 24), {.rank = 1}},
    [VIEW_TEXT] = {STORY(STAGE3, 4), {0}},
    [VIEW_EVENTS] = {THE_END, {0}},
    [VIEW_SHORTAGE] = {STORY(SHORTAGE, 4), {0}},
};

static struct place place_of(enum view_id view)
{
    struct place place = places[view];
    if (!place.moment.step && !place.moment.ranks && view != VIEW_EVENTS) place.moment.step = 7;
    place.state.view = view;
    place.state.focus = VIEW_EVENTS;
    place.state.units = UNITS_GIB;
    return place;
}

/* ---- what is special ---- */

static const struct history_step *step_of(const struct folded *run, uint32_t number)
{
    const struct history_step *step = history_step_numbered(run->history, number);
    assert_non_null(step);
    return step;
}

/* The first operation of a kind on the state's rank in step 8. */
static void choose(struct view_state *state, const struct folded *run, enum op_kind kind, bool prefetch)
{
    const struct history_step *within = step_of(run, 8);
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        history_spans(run->history, state->rank, lane, within->begun_ns, within->ended_ns, &first, &end);
        for (; first < end; first++) {
            const struct span *span = history_span(run->history, state->rank, lane, first);
            if (span->kind != kind || span->prefetch != prefetch) continue;
            state->selected = (struct selection){true, state->rank, lane, 8, span->op};
            return;
        }
    }
    fail();
}

static void choose_gather(struct view_state *state, const struct folded *run)
{
    choose(state, run, OP_GATHER, true);
}

static void choose_flush(struct view_state *state, const struct folded *run)
{
    choose(state, run, OP_REDUCE_SCATTER, false);
}

static void choose_transfer(struct view_state *state, const struct folded *run)
{
    choose(state, run, OP_SWAP_OUT, false);
}

static void open_span(struct view_state *state, const struct folded *run)
{
    state->span.open = true;
    state->span.from_ns = step_of(run, 8)->begun_ns + 5000000;
    state->span.to_ns = step_of(run, 8)->begun_ns + 15000000;
}

/* Its last part is idle. */
static void open_span_at_the_end(struct view_state *state, const struct folded *run)
{
    state->span.open = true;
    state->span.from_ns = step_of(run, 8)->ended_ns - 2000000;
    state->span.to_ns = step_of(run, 8)->ended_ns;
}

static void mark_two(struct view_state *state, const struct folded *run)
{
    for (int mark = 0; mark < 2; mark++)
        moments_mark(state, mark, step_of(run, mark ? 8 : 3)->ended_ns, run->model, run->history);
}

static void zoom(struct view_state *state, const struct folded *run)
{
    state->from_ns = step_of(run, 8)->begun_ns + 1000000;
    state->to_ns = state->from_ns + 500000;
}

static void look_back(struct view_state *state, const struct folded *run)
{
    state->to_ns = UINT64_MAX;
    state->behind = true;
    state->cursor_ns = step_of(run, 5)->begun_ns;
    state->mark[0].known = state->mark[1].known = true;
    state->mark[0].time_ns = step_of(run, 2)->begun_ns;
    state->mark[1].time_ns = step_of(run, 6)->ended_ns;
    state->marker_count = 1;
    state->markers[0] = (struct marker){step_of(run, 7)->begun_ns, "here"};
}

static void see_all(struct view_state *state, const struct folded *run)
{
    (void)run;
    state->to_ns = UINT64_MAX;
}

/* Steps 22 to 26 had two ranks, those before four and those after three. */
static void see_two(struct view_state *state, const struct folded *run)
{
    state->from_ns = step_of(run, 23)->begun_ns;
    state->to_ns = step_of(run, 24)->ended_ns;
}

/* The disk has no room, and no other plan would help. */
static void fit_nothing(struct view_state *state, const struct folded *run)
{
    (void)state;
    const struct trace_record event = {
        .kind = TRACE_EVENT,
        .event = {22,
                  synthetic_text(
                      "{\"kind\": \"oom\", \"detail\": {\"rank\": 1, \"tier\": \"nvme\", \"category\": \"optimizer\", "
                      "\"wanted_bytes\": 793088, \"budget_bytes\": 6000000, \"text\": \"rank 1: no room in the file of "
                      "optimizer states\", \"held_bytes\": {\"optimizer\": 5881000}, \"knob\": "
                      "\"zero_optimization.offload_optimizer.device\", \"fits\": []}}")}};
    run_model_fold(run->model, &event);
}

/* A trace of another program has memory in a category that is not known here. */
static void hold_unattributed(struct view_state *state, const struct folded *run)
{
    (void)state;
    const struct trace_record record = {
        .kind = TRACE_MEMORY, .rank = 1, .memory = {TIER_DEVICE, CATEGORIES + 2, 3 << 20, 3 << 20, 3 << 20}};
    run_model_fold(run->model, &record);
}

#define LIVE .focus = VIEW_EVENTS, .live = true

static const struct special {
    const char *what;
    enum view_id view;
    struct moment moment;
    int columns, rows;
    enum theme theme; /* as text always mono */
    bool ascii;
    enum as as;
    struct view_state state;
    void (*prepare)(struct view_state *state, const struct folded *run);
} specials[] = {
#define SPECIAL(view, what, moment, columns, rows, ...)                                                                \
    {what, VIEW_##view, moment, columns, rows, .state = {__VA_ARGS__}},
#define PREPARED(view, what, by, ...) {what, VIEW_##view, STEP(8), 80, 24, .state = {__VA_ARGS__}, .prepare = by},
#define PREPARED_STORY(view, what, by, moment, columns, rows, ...)                                                     \
    {what, VIEW_##view, moment, columns, rows, .state = {__VA_ARGS__}, .prepare = by},
#define LOOK(view, what, moment, columns, rows, theme, ascii, as, ...)                                                 \
    {what, VIEW_##view, moment, columns, rows, theme, ascii, as, {__VA_ARGS__}, NULL},
#define BOARD(what, ...)                                                                                               \
    BOARD_AT(what, 80, 24, __VA_ARGS__)                                                                                \
    BOARD_AT(what, 120, 40, __VA_ARGS__) BOARD_AT(what, 200, 60, __VA_ARGS__)                                          \
        BOARD_AS(what, DEFAULT, ANSI, __VA_ARGS__) BOARD_AS(what, DEFAULT, ANSI_256, __VA_ARGS__)                      \
            BOARD_AS(what, DEFAULT, ANSI_TRUE, __VA_ARGS__) BOARD_AS(what, LIGHT, ANSI_256, __VA_ARGS__)               \
                BOARD_AS(what, MONO, ANSI, __VA_ARGS__)
#define BOARD_AS(what, theme_, as_, ...)                                                                               \
    {what, VIEW_WHITEBOARD, __VA_ARGS__, 80, 24, THEME_##theme_, .as = as_, .state = {.units = UNITS_GIB}},
#define BOARD_AT(what, columns, rows, ...) {what, VIEW_WHITEBOARD, __VA_ARGS__, columns, rows, .state = {.units = UNITS_GIB}},
#include "tests/support/golden_specials.def"
};
enum { SPECIALS = sizeof specials / sizeof specials[0] };

/* ---- names ---- */

static void name_of(char out[128], enum view_id view, const char *what, int columns, int rows, enum theme theme,
                    bool ascii, enum as as)
{
    bool named = as != TEXT && theme != THEME_DEFAULT;
    snprintf(out, 128, "%s%s%s-%dx%d%s%s%s.%s", view_of(view)->name, what[0] ? "-" : "", what, columns, rows,
             named ? "." : "", named ? theme_name(theme) : "", ascii ? ".ascii" : "", endings[as]);
}

static void name_of_special(char out[128], const struct special *special)
{
    name_of(out, special->view, special->what, special->columns, special->rows, special->theme, special->ascii,
            special->as);
}

static void name_of_variant(char out[128], enum view_id view, const struct variant *variant)
{
    name_of(out, view, "", variant->columns, variant->rows, THEME_DEFAULT, variant->ascii, variant->as);
}

static bool is_asked_for(const char *name)
{
    char asked[128];
    for (int view = 0; view < VIEWS; view++)
        for (int i = 0; i < VARIANTS; i++) {
            name_of_variant(asked, (enum view_id)view, &variants[i]);
            if (!strcmp(name, asked)) return true;
        }
    for (int i = 0; i < SPECIALS; i++) {
        name_of_special(asked, &specials[i]);
        if (!strcmp(name, asked)) return true;
    }
    return false;
}

/* ---- painting ---- */

static struct folded folded_recorded(const struct moment *moment)
{
    struct record_reader reader = {.model = record_reader_model(), .history = history_new(0)};
    struct error err;
    assert_int_equal(source_open_file(&reader.source, moment->file ? moment->file : "docs/example.zlt", &err), 0);
    if (moment->op) assert_true(record_reader_until_op(&reader, moment->step, moment->op, true));
    else if (moment->step) record_reader_until_step_ends(&reader, moment->step);
    else
        while (record_reader_fold(&reader)) {}
    source_close(reader.source);
    return (struct folded){reader.model, reader.history};
}

static struct folded folded_moment(const struct moment *moment)
{
    return moment->ranks ? folded_story(moment->ranks, moment->place) : folded_recorded(moment);
}

static bool is_as_accepted(const char *name, const struct folded *run, const struct view_state *state, int columns,
                           int rows, enum theme theme, bool ascii, enum as as)
{
    struct surface surface;
    assert_true(surface_init(&surface, columns, rows, as == TEXT ? THEME_MONO : theme, ascii));
    surface.depth = depths[as];
    view_draw(run->model, run->history, state, &surface);
    char *text = as == SVG    ? surface_to_svg(&surface)
                 : as != TEXT ? surface_to_ansi(&surface)
                              : surface_to_text(&surface);
    bool same = golden_same(name, text);
    free(text);
    surface_release(&surface);
    return same;
}

static void view_is_as_accepted(void **user)
{
    const enum view_id view = (enum view_id)(intptr_t)*user;
    const struct place place = place_of(view);
    struct folded run = folded_moment(&place.moment);
    int differ = 0;
    for (const struct variant *variant = variants; variant < variants + VARIANTS; variant++) {
        char name[128];
        name_of_variant(name, view, variant);
        differ += !is_as_accepted(name, &run, &place.state, variant->columns, variant->rows, THEME_DEFAULT, variant->ascii, variant->as);
    }
    folded_free(&run);
    assert_int_equal(differ, 0);
}

static void special_is_as_accepted(void **user)
{
    const struct special *special = *user;
    struct view_state state = special->state;
    struct folded run = folded_moment(&special->moment);
    char name[128];
    state.view = special->view;
    if (special->prepare) special->prepare(&state, &run);
    name_of_special(name, special);
    bool same = is_as_accepted(name, &run, &state, special->columns, special->rows, special->theme, special->ascii,
                               special->as);
    folded_free(&run);
    assert_true(same);
}

static void no_file_is_left_unused(void **user)
{
    (void)user;
    assert_true(golden_all_used(is_asked_for));
}

int main(void)
{
    static char names[SPECIALS][128];
    struct CMUnitTest tests[VIEWS + SPECIALS + 1];
    int count = 0;
    for (int view = 0; view < VIEWS; view++)
        tests[count++] = (struct CMUnitTest){view_of((enum view_id)view)->name, view_is_as_accepted, NULL, NULL,
                                             (void *)(intptr_t)view};
    for (int i = 0; i < SPECIALS; i++) {
        name_of_special(names[i], &specials[i]);
        tests[count++] = (struct CMUnitTest){names[i], special_is_as_accepted, NULL, NULL, (void *)&specials[i]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_file_is_left_unused);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
