/* The timeline and the overview of a recorded run (docs/example.zlt: stage 0, then 3) at three sizes, in UTF-8 and ASCII,
 * with and without colour; and the timeline in its states: an operation chosen, a span open, zoomed, looked back, 64 ranks. */
#include "tests/golden.h"
#include "tests/timeline_fixture.h"
#include "tui/draw/output.h"

static char *painted(const struct folded *run, const struct view_state *state, int columns, int rows, enum theme theme,
                     bool ascii, bool ansi)
{
    struct surface surface;
    assert_true(surface_init(&surface, columns, rows, theme, ascii));
    view_draw(run->model, run->tape, state, &surface);
    char *text = ansi ? surface_to_ansi(&surface) : surface_to_text(&surface);
    surface_release(&surface);
    return text;
}

/* ---- every size and look ---- */

static void looks_as_accepted(const char *view)
{
    static const struct {
        int columns, rows;
    } sizes[] = {{80, 24}, {120, 40}, {200, 60}};
    struct folded run = folded_example(8);
    struct view_state state = {.view = (enum view_id)view_named(view), .focus = VIEW_EVENTS};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int ascii = 0; ascii < 2; ascii++)
            for (int colour = 0; colour < 2; colour++) {
                char name[128];
                snprintf(name, sizeof name, "example-%s-%dx%d%s.%s", view, sizes[i].columns, sizes[i].rows,
                         ascii ? ".ascii" : "", colour ? "ansi" : "txt");
                golden_check(name, painted(&run, &state, sizes[i].columns, sizes[i].rows,
                                           colour ? THEME_DEFAULT : THEME_MONO, ascii, colour));
            }
    folded_free(&run);
}

static void timeline_looks_as_accepted(void **state)
{
    (void)state;
    looks_as_accepted("timeline");
}

static void overview_looks_as_accepted(void **state)
{
    (void)state;
    looks_as_accepted("overview");
}

/* ---- states ---- */

static void check_state(const char *name, struct folded *run, struct view_state *state)
{
    char file[128];
    state->view = VIEW_TIMELINE;
    snprintf(file, sizeof file, "timeline-%s-80x24.txt", name);
    golden_check(file, painted(run, state, 80, 24, THEME_MONO, false, false));
    folded_free(run);
}

/* The first operation of a kind on a rank in a step. */
static struct selection first_of(const struct folded *run, int rank, uint32_t step, enum op_kind kind, bool prefetch)
{
    const struct tape_step *within = tape_step_numbered(run->tape, step);
    for (enum lane lane = 0; lane < LANES; lane++) {
        int64_t first, end;
        tape_spans(run->tape, rank, lane, within->begun_ns, within->ended_ns, &first, &end);
        for (; first < end; first++) {
            const struct span *span = tape_span(run->tape, rank, lane, first);
            if (span->kind == kind && span->prefetch == prefetch)
                return (struct selection){true, rank, lane, step, span->op};
        }
    }
    fail();
    return (struct selection){0};
}

static void prefetched_gather_chosen(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {.rank = 2, .selected = first_of(&run, 2, 8, OP_GATHER, true)};
    (void)unused;
    check_state("gather", &run, &state);
}

static void flush_chosen(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {.units = UNITS_BYTES, .selected = first_of(&run, 0, 8, OP_REDUCE_SCATTER, false)};
    (void)unused;
    check_state("flush", &run, &state);
}

static void span_open(void **unused)
{
    struct folded run = folded_example(8);
    const struct tape_step *step = tape_step_numbered(run.tape, 8);
    struct view_state state = {
        .rank = 1, .span = {.open = true, .from_ns = step->begun_ns + 5000000, .to_ns = step->begun_ns + 15000000}};
    (void)unused;
    check_state("span", &run, &state);
}

static void zoomed_to_half_a_millisecond(void **unused)
{
    struct folded run = folded_example(8);
    const struct tape_step *step = tape_step_numbered(run.tape, 8);
    struct view_state state = {.from_ns = step->begun_ns + 1000000, .to_ns = step->begun_ns + 1500000};
    (void)unused;
    check_state("zoomed", &run, &state);
}

static void whole_run_looked_back_in(void **unused)
{
    struct folded run = folded_example(0);
    struct view_state state = {
        .to_ns = UINT64_MAX,
        .behind = true,
        .cursor_ns = tape_step_numbered(run.tape, 5)->begun_ns,
        .mark = {{true, tape_step_numbered(run.tape, 2)->begun_ns}, {true, tape_step_numbered(run.tape, 6)->ended_ns}},
        .marker_count = 1,
        .markers = {{tape_step_numbered(run.tape, 7)->begun_ns, "here"}}};
    (void)unused;
    check_state("run", &run, &state);
}

static void sixty_four_ranks(void **unused)
{
    struct folded run = folded_story(64, STORY_STAGE3);
    struct view_state state = {.rank = 40};
    (void)unused;
    check_state("64-ranks", &run, &state);
}

static void only_some_ranks_and_lanes(void **unused)
{
    struct folded run = folded_example(8);
    struct view_state state = {.filter = "rank 1-2 lane comm"};
    (void)unused;
    check_state("filter", &run, &state);
}

static void nothing_yet(void **unused)
{
    struct folded run = folded_story(4, STORY_STARTING);
    struct view_state state = {.live = true};
    (void)unused;
    check_state("starting", &run, &state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeline_looks_as_accepted),
        cmocka_unit_test(overview_looks_as_accepted),
        cmocka_unit_test(prefetched_gather_chosen),
        cmocka_unit_test(flush_chosen),
        cmocka_unit_test(span_open),
        cmocka_unit_test(zoomed_to_half_a_millisecond),
        cmocka_unit_test(whole_run_looked_back_in),
        cmocka_unit_test(sixty_four_ranks),
        cmocka_unit_test(only_some_ranks_and_lanes),
        cmocka_unit_test(nothing_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
