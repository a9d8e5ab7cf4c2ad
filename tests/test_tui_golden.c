/* Screens of a run that never was (tests/synthetic.h), against files in tests/golden. */
#include "tests/golden.h"
#include "tests/synthetic.h"
#include "tui/draw/output.h"
#include "tui/views/view.h"

enum as { TEXT, ANSI, SVG };

static const struct golden {
    const char *name, *view;
    enum synthetic_place place;
    int ranks, columns, rows;
    enum theme theme;
    bool ascii;
    enum as as;
    struct view_state state;
} goldens[] = {
    {"starting-80x24.txt",
     "overview",
     STORY_STARTING,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage0-80x24.txt",
     "overview",
     STORY_STAGE0,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-80x24.txt",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-80x24.ascii.txt",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_MONO,
     true,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-80x24.ansi",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_DEFAULT,
     false,
     ANSI,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-80x24.ascii.ansi",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_DEFAULT,
     true,
     ANSI,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-80x24.svg",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_LIGHT,
     false,
     SVG,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-8-ranks-80x24.txt",
     "overview",
     STORY_STAGE3,
     8,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"stage3-64-ranks-80x24.txt",
     "overview",
     STORY_STAGE3,
     64,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"one-rank-80x24.txt",
     "overview",
     STORY_STAGE0,
     1,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"memory-pane-80x24.txt",
     "overview",
     STORY_STAGE3,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_MEMORY, .units = UNITS_BYTES, .live = true}},
    {"paused-120x40.txt",
     "overview",
     STORY_PAUSED,
     4,
     120,
     40,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true, .message = "sent: toggle"}},
    {"paused-120x40.ascii.txt",
     "overview",
     STORY_PAUSED,
     4,
     120,
     40,
     THEME_MONO,
     true,
     TEXT,
     {.focus = VIEW_STEPS, .live = true, .units = UNITS_GIB}},
    {"paused-120x40.ansi",
     "overview",
     STORY_PAUSED,
     4,
     120,
     40,
     THEME_PROJECTOR,
     false,
     ANSI,
     {.focus = VIEW_EVENTS, .live = true}},
    {"shortage-80x24.txt",
     "overview",
     STORY_SHORTAGE,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true}},
    {"oom-80x24.txt", "oom", STORY_SHORTAGE, 4, 80, 24, THEME_MONO, false, TEXT, {.live = true}},
    {"oom-80x24.ansi", "oom", STORY_SHORTAGE, 4, 80, 24, THEME_LIGHT, false, ANSI, {.live = true}},
    {"ended-80x24.txt",
     "overview",
     STORY_ENDED,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true, .trace_file = "run.zlt"}},
    {"ended-200x60.txt",
     "overview",
     STORY_ENDED,
     4,
     200,
     60,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_EVENTS, .live = true, .trace_file = "run.zlt"}},
    {"ended-200x60.ascii.txt", "overview", STORY_ENDED, 4, 200, 60, THEME_MONO, true, TEXT, {.focus = VIEW_EVENTS}},
    {"replay-80x24.txt",
     "overview",
     STORY_STAGE0,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_STEPS, .playing = true, .speed = 2}},
    {"lost-80x24.txt",
     "overview",
     STORY_STAGE0,
     4,
     80,
     24,
     THEME_MONO,
     false,
     TEXT,
     {.focus = VIEW_TEXT, .live = true, .trouble = "the engine closed the connection"}},
    {"help-80x24.txt", "help", STORY_STARTING, 4, 80, 24, THEME_MONO, false, TEXT, {.live = true}},
    {"help-120x60.txt", "help", STORY_STARTING, 4, 120, 60, THEME_MONO, false, TEXT, {.live = true}},
    {"too-small-40x5.txt", "overview", STORY_STAGE3, 4, 40, 5, THEME_MONO, false, TEXT, {.live = true}},
};

struct past { struct run_model *model; struct tape *tape; };

static void fold(void *user, const struct trace_record *record)
{
    struct past *past = user;
    run_model_fold(past->model, record);
    tape_fold(past->tape, past->model, record);
}

static char *paint(const struct golden *golden)
{
    struct past past = {run_model_new(&(struct run_model_options){0}), tape_new(0)};
    struct view_state state = golden->state;
    struct synthetic run;
    struct surface surface;
    synthetic_story(&run, golden->ranks, golden->place, fold, &past);
    assert_true(surface_init(&surface, golden->columns, golden->rows, golden->theme, golden->ascii));
    state.view = (enum view_id)view_named(golden->view);
    view_draw(past.model, past.tape, &state, &surface);
    char *text = golden->as == SVG    ? surface_to_svg(&surface)
                 : golden->as == ANSI ? surface_to_ansi(&surface)
                                      : surface_to_text(&surface);
    surface_release(&surface);
    tape_free(past.tape);
    run_model_free(past.model);
    return text;
}

static void screen_is_as_accepted(void **state)
{
    const struct golden *golden = *state;
    golden_check(golden->name, paint(golden));
}

int main(void)
{
    enum { COUNT = sizeof goldens / sizeof goldens[0] };
    struct CMUnitTest tests[COUNT];
    for (int i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){goldens[i].name, screen_is_as_accepted, NULL, NULL, (void *)&goldens[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
