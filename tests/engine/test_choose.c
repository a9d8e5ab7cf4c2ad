/* Keys in the views that have something to choose: a knob is changed by Enter, a value, Enter; an event takes the cursor to
 * it; searching a list moves in the list. On the recorded example. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/trace/source.h"
#include "tui/screen/screen.h"

struct run {
    struct run_model *model;
    struct history *history;
};

static struct run example(void)
{
    struct run run = {run_model_new(&(struct run_model_options){0}), history_new(0)};
    struct source *source;
    struct trace_record record;
    struct error err = {0};
    if (source_open_file(&source, "docs/example.zlt", &err)) fail_msg("%s", err.text);
    while (source_next(source, &record) == SOURCE_RECORD) {
        run_model_fold(run.model, &record);
        history_fold(run.history, run.model, &record);
    }
    run.model->ended = false; /* as if it went on: only then can knobs be changed */
    source_close(source);
    return run;
}

static void release(struct run *run)
{
    history_free(run->history);
    run_model_free(run->model);
}

static bool press(const struct run *run, struct view_state *state, enum action action)
{
    struct scene scene = {run->model, run->history, state};
    struct key_row row = {.action = action};
    return view_of(state->view)->act(state, &scene, &row);
}

static void test_a_knob_is_changed(void **unused)
{
    (void)unused;
    struct run run = example();
    struct view_state state = {.view = VIEW_KNOBS, .live = true};
    snprintf(state.search, sizeof state.search, "reduce_bucket_size");
    assert_true(press(&run, &state, ACTION_SEARCH_NEXT));
    assert_true(press(&run, &state, ACTION_ENTER));
    assert_int_equal(state.prompt.kind, PROMPT_VALUE);
    assert_string_equal(state.prompt.label, "reduce_bucket_size");
    assert_string_equal(state.prompt.text, "198272");
    assert_true(state.prompt.offered); /* the first character replaces it */
    assert_string_equal(state.command, "");
    snprintf(state.prompt.text, sizeof state.prompt.text, "5e4");
    assert_true(press(&run, &state, ACTION_ENTER));
    assert_string_equal(state.command, "set zero_optimization.reduce_bucket_size=5e4");
    release(&run);
}

/* Enter toggles a boolean that is live, without a prompt. */
static void test_a_boolean_is_toggled(void **unused)
{
    (void)unused;
    struct run run = example();
    struct view_state state = {.view = VIEW_KNOBS, .live = true};
    snprintf(state.search, sizeof state.search, "overlap_comm");
    assert_true(press(&run, &state, ACTION_SEARCH_NEXT));
    assert_true(press(&run, &state, ACTION_ENTER));
    assert_int_equal(state.prompt.kind, PROMPT_NONE);
    assert_string_equal(state.command, "set zero_optimization.overlap_comm=false"); /* it is on */
    release(&run);
}

/* Live or for a new start: a run that goes on and takes commands takes both, a replay and who only looks neither. */
static void test_what_cannot_change_says_so(void **unused)
{
    (void)unused;
    struct run run = example();
    const char *const keys[] = {"data.seed", "zero_optimization.stage"};
    for (int k = 0; k < 2; k++) {
        struct view_state state = {.view = VIEW_KNOBS, .live = true};
        snprintf(state.search, sizeof state.search, "%s", keys[k]);
        assert_true(press(&run, &state, ACTION_SEARCH_NEXT));
        assert_true(press(&run, &state, ACTION_ENTER));
        assert_int_equal(state.prompt.kind, PROMPT_VALUE);
        state.prompt.kind = PROMPT_NONE;
        state.live = false;
        assert_true(press(&run, &state, ACTION_ENTER));
        state.live = state.readonly = true;
        assert_true(press(&run, &state, ACTION_ENTER));
        assert_int_equal(state.prompt.kind, PROMPT_NONE);
        assert_non_null(strstr(state.message, "only be changed in a run"));
        assert_string_equal(state.command, "");
    }
    release(&run);
}

static void test_lists_have_ends(void **unused)
{
    (void)unused;
    static const enum view_id lists[] = {VIEW_WHY, VIEW_KNOBS, VIEW_EVENTS};
    struct run run = example();
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        struct view_state state = {.view = lists[l]};
        const int *row = &state.row[lists[l]];
        for (int i = 0; i < 1000; i++) press(&run, &state, i % 2 ? ACTION_UP : ACTION_DOWN);
        assert_true(*row >= 0);
        int most = 0;
        for (int i = 0; i < 1000; i++)
            press(&run, &state, lists[l] == VIEW_EVENTS ? ACTION_UP : ACTION_DOWN), most = *row;
        assert_true(most > 0 && most < 999);
        press(&run, &state, lists[l] == VIEW_EVENTS ? ACTION_LAST : ACTION_FIRST);
        assert_int_equal(*row, 0);
        press(&run, &state, lists[l] == VIEW_EVENTS ? ACTION_FIRST : ACTION_LAST);
        assert_int_equal(*row, most);
    }
    release(&run);
}

/* Ctrl-D moves by half a page in every list; a view whose list has no pages leaves page keys to the app, which moves by steps. */
static void test_half_a_page(void **unused)
{
    (void)unused;
    struct run run = example();
    struct view_state state = {.view = VIEW_KNOBS};
    struct scene scene = {run.model, run.history, &state};
    const struct key_row whole = {.action = ACTION_PAGE_DOWN}, half = {.action = ACTION_PAGE_DOWN, .argument = "half"};
    assert_true(view_of(VIEW_KNOBS)->act(&state, &scene, &half));
    assert_int_equal(state.row[VIEW_KNOBS], 5);
    assert_true(view_of(VIEW_KNOBS)->act(&state, &scene, &whole));
    assert_int_equal(state.row[VIEW_KNOBS], 15);
    assert_false(view_of(VIEW_WHY)->act(&state, &scene, &whole));
    release(&run);
}

static void test_an_event_takes_the_cursor(void **unused)
{
    (void)unused;
    struct run run = example();
    struct view_state state = {.view = VIEW_EVENTS, .filter = "stage"};
    const struct run_notice *expected = NULL;
    for (int i = 0; i < run.model->notice_count; i++)
        if (strstr(run.model->notices[i].text, "stage")) expected = expected ? expected : &run.model->notices[i];
    assert_non_null(expected);
    assert_true(press(&run, &state, ACTION_FIRST));
    assert_true(press(&run, &state, ACTION_ENTER));
    assert_true(state.behind);
    assert_true(state.cursor_ns == expected->time_ns);
    snprintf(state.filter, sizeof state.filter, "nothing has this in it");
    state.behind = false;
    assert_true(press(&run, &state, ACTION_ENTER));
    assert_false(state.behind);
    release(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_knob_is_changed),
        cmocka_unit_test(test_a_boolean_is_toggled),
        cmocka_unit_test(test_what_cannot_change_says_so),
        cmocka_unit_test(test_lists_have_ends),
        cmocka_unit_test(test_half_a_page),
        cmocka_unit_test(test_an_event_takes_the_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
