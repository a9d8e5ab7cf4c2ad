/* The parts of the app that need no terminal: the line that is typed, filters, settings, and what is kept of the past. */
#include <setjmp.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/trace/record_buffer.h"
#include "tests/support/synthetic.h"
#include "tui/app/app_parts.h"
#include "tui/app/feed.h"
#include "tui/app/settings.h"
#include "tui/input/keys.h"
#include "tui/view/view.h"

/* ---- the line that is typed ----------------------------------------------------------------------------------------- */

static void lines_are_typed_by_characters(void **state)
{
    char text[8] = "";
    bool offered = false;
    (void)state;
    assert_int_equal(prompt_type(text, sizeof text, 'a', &offered), PROMPT_GOES_ON);
    prompt_type(text, sizeof text, 0xe4, &offered);   /* ä: two bytes */
    prompt_type(text, sizeof text, 0x20ac, &offered); /* €: three */
    assert_string_equal(text, "a\xc3\xa4\xe2\x82\xac");
    prompt_type(text, sizeof text, 0x1f600, &offered); /* four: no room */
    assert_string_equal(text, "a\xc3\xa4\xe2\x82\xac");
    prompt_type(text, sizeof text, 'b', &offered);
    prompt_type(text, sizeof text, 'c', &offered); /* the terminating zero needs a byte too */
    assert_string_equal(text, "a\xc3\xa4\xe2\x82\xac"
                              "b");
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered);
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered);
    assert_string_equal(text, "a\xc3\xa4");
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered);
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered);
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered); /* nothing left */
    assert_string_equal(text, "");
    prompt_type(text, sizeof text, 'x', &offered);
    static const uint32_t none[] = {1, 0x7f, 0x85, 0xd800, 0xdfff, INPUT_UP, INPUT_F0 + 1, '\t'};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) prompt_type(text, sizeof text, none[i], &offered);
    assert_string_equal(text, "x");
    prompt_type(text, sizeof text, 'u' & 0x1f, &offered);
    assert_string_equal(text, "");
    assert_int_equal(prompt_type(text, sizeof text, '\r', &offered), PROMPT_TAKEN);
    assert_int_equal(prompt_type(text, sizeof text, INPUT_ESCAPE, &offered), PROMPT_LEFT);
    strcpy(text, "198");
    offered = true;
    prompt_type(text, sizeof text, '5', &offered);
    prompt_type(text, sizeof text, 'e', &offered);
    assert_string_equal(text, "5e");
    offered = true;
    prompt_type(text, sizeof text, INPUT_BACKSPACE, &offered);
    prompt_type(text, sizeof text, '6', &offered);
    assert_string_equal(text, "56");
}

/* ---- filters -------------------------------------------------------------------------------------------------------- */

static void filters_are_words(void **state)
{
    (void)state;
    struct filter all = filter_of(""), ranks = filter_of("rank 2-5"),
                  mixed = filter_of("  lane compute Rank 3 Block 2"), text = filter_of("rank of lane x");
    assert_true(all.first_rank == 0 && all.last_rank == INT_MAX && filter_shows_text(&all, ""));
    for (enum lane lane = 0; lane < LANES; lane++) assert_true(filter_shows_lane(&all, lane));
    assert_true(ranks.first_rank == 2 && ranks.last_rank == 5);
    assert_true(mixed.first_rank == 3 && mixed.last_rank == 3);
    assert_true(filter_shows_lane(&mixed, LANE_COMPUTE) && !filter_shows_lane(&mixed, LANE_COMM));
    assert_true(filter_shows_text(&mixed, "gather BLOCK 2, head") && !filter_shows_text(&mixed, "gather block 3"));
    assert_string_equal(text.text, "rank of lane x"); /* no number, no lane: words like others */
    assert_true(text.first_rank == 0 && text.last_rank == INT_MAX);
}

/* ---- settings ------------------------------------------------------------------------------------------------------- */

static void settings_survive_printing(void **state)
{
    struct settings settings = {THEME_PROJECTOR, UNITS_BYTES, true, false, true}, other = settings_default();
    char text[SETTINGS_ROOM];
    struct error err;
    (void)state;
    settings_print(&settings, text);
    assert_int_equal(settings_read(&other, text, &err), STATUS_OK);
    assert_true(other.theme == settings.theme && other.units == settings.units && other.ascii && !other.mouse &&
                other.bars_now);
}

static void faulty_settings_are_said_and_the_others_hold(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"theme = light\ncolour = red\nunits = GB\n", "line 2: there is no setting colour"},
        {"theme = light\nascii = perhaps\nunits=GB", "line 2: ascii is yes or no, not perhaps"},
        {"nonsense\ntheme = light # so\n\nunits = GB\n", "line 1 is no \"key = value\""},
        {"theme = light\nunits = GB\ntheme = mono light\n", "line 3 is no \"key = value\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct settings settings = settings_default();
        struct error err;
        assert_int_equal(settings_read(&settings, cases[i].text, &err), STATUS_USAGE);
        assert_string_equal(err.text, cases[i].error);
        assert_true(settings.theme == THEME_LIGHT && settings.units == UNITS_GB);
    }
}

static void settings_live_in_the_xdg_folder(void **state)
{
    char folder[] = "/tmp/zerolab-test-app-XXXXXX", path[80];
    struct settings settings = settings_default(), other;
    struct error err;
    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CONFIG_HOME", folder, 1);
    assert_int_equal(settings_load(&settings, &err), STATUS_OK); /* none yet */
    settings.units = UNITS_GB;
    assert_int_equal(settings_save(&settings, &err), STATUS_OK);
    other = settings_default();
    assert_int_equal(settings_load(&other, &err), STATUS_OK);
    assert_int_equal(other.units, UNITS_GB);
    setenv("ZEROLAB_UNITS", "bytes", 1);
    assert_int_equal(settings_from_environment(&other, &err), STATUS_OK);
    assert_int_equal(other.units, UNITS_BYTES);
    setenv("ZEROLAB_UNITS", "stones", 1);
    assert_int_equal(settings_from_environment(&other, &err), STATUS_USAGE);
    unsetenv("ZEROLAB_UNITS");
    snprintf(path, sizeof path, "%s/zerolab/settings", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0); /* in the way */
    assert_int_equal(settings_save(&settings, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "not saved"));
    assert_int_equal(settings_load(&other, &err), STATUS_INPUT);
    snprintf(path, sizeof path, "rm -r %s", folder);
    assert_int_equal(system(path), 0);
}

/* ---- the past ------------------------------------------------------------------------------------------------------- */

static void keep(void *user, const struct trace_record *record)
{
    static uint8_t bytes[1 << 20];
    assert_true(trace_encoded_bytes(record) <= sizeof bytes);
    trace_encode(record, bytes);
    assert_true(record_buffer_put(user, bytes));
}

static void fold(void *user, const struct trace_record *record)
{
    run_model_fold(user, record);
}

static struct record_buffer *story_in(size_t bytes)
{
    struct record_buffer *past = record_buffer_new(bytes);
    struct synthetic run;
    synthetic_story(&run, 4, STORY_ENDED, keep, past);
    return past;
}

static uint64_t fold_all(struct source *source, struct run_model *model)
{
    struct trace_record record;
    uint64_t count = 0;
    while (source_next(source, &record) == SOURCE_RECORD) run_model_fold(model, &record), count++;
    return count;
}

static void what_is_kept_is_what_came(void **state)
{
    struct record_buffer *past = story_in(0);
    struct run_model *model = run_model_new(&(struct run_model_options){0}),
                     *direct = run_model_new(&(struct run_model_options){0});
    struct source *source;
    struct synthetic run;
    struct error err;
    (void)state;
    synthetic_story(&run, 4, STORY_ENDED, fold, direct);
    assert_int_equal(source_open_buffer(&source, past, &err), 0);
    assert_int_equal(fold_all(source, model), direct->revision);
    assert_true(model->ended && !record_buffer_is_cut(past) && record_buffer_first_step(past) == 1);
    uint8_t more[64];
    struct trace_record log = {
        .kind = TRACE_LOG, .rank = TRACE_RANK_ALL, .time_ns = direct->now_ns + 1, .log.text = {"more", 4}};
    trace_encode(&log, more);
    assert_true(record_buffer_put(past, more)); /* the end was not final */
    assert_int_equal(fold_all(source, model), 1);
    source_close(source);
    run_model_free(model);
    run_model_free(direct);
    record_buffer_free(past);
}

static void the_oldest_steps_go_first_and_what_holds_stays(void **state)
{
    enum { ROOM = 60 << 10 };
    struct record_buffer *past = story_in(ROOM);
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct source *source;
    struct trace_record record;
    struct error err;
    (void)state;
    uint32_t first = record_buffer_first_step(past);
    assert_true(first > 1 && first <= 25 && record_buffer_bytes(past) <= ROOM && record_buffer_is_cut(past));
    assert_int_equal(source_open_buffer(&source, past, &err), 0);
    fold_all(source, model);
    assert_true(model->header.known && run_training(model) && run_training(model)->has_ops);
    assert_int_equal(run_last_step(model)->step, 25);
    assert_int_equal(source_resume_step(source, first, &err), 0);
    assert_int_equal(source_next(source, &record), SOURCE_RECORD);
    assert_true(record.kind == TRACE_STEP_BEGIN && record.step_begin.step == first);
    assert_int_equal(source_resume_step(source, first - 1, &err), STATUS_INPUT);
    source_close(source);
    run_model_free(model);
    record_buffer_free(past);
}

static void keyframes_thin_out_evenly(void **state)
{
    struct keyframes keyframes;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    struct synthetic run;
    (void)state;
    synthetic_story(&run, 4, STORY_STAGE0, fold, model);
    keyframes_init(&keyframes, 1 << 20);
    for (uint32_t step = 1; step <= 1000; step++) {
        keyframes_put(&keyframes, step, step * 100, model);
        assert_true(keyframes.bytes <= 1 << 20);
    }
    assert_true(keyframes.count >= 8 && keyframes.at[0].step == 1);
    for (int i = 1; i < keyframes.count; i++)
        assert_int_equal(keyframes.at[i].step - keyframes.at[i - 1].step, keyframes.spacing);
    const struct keyframe *before = keyframe_before_step(&keyframes, 700), *from = keyframe_from_step(&keyframes, 700);
    assert_true(before->step <= 700 && before->step + keyframes.spacing > 700 && from->step >= 700);
    assert_ptr_equal(keyframe_before_time(&keyframes, before->time_ns), before);
    assert_ptr_equal(keyframe_before_time(&keyframes, before->time_ns - 1), before - 1);
    assert_null(keyframe_before_time(&keyframes, 99));
    assert_null(keyframe_from_step(&keyframes, 1001));
    keyframes_release(&keyframes);
    run_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_typed_by_characters),
        cmocka_unit_test(filters_are_words),
        cmocka_unit_test(settings_survive_printing),
        cmocka_unit_test(faulty_settings_are_said_and_the_others_hold),
        cmocka_unit_test(settings_live_in_the_xdg_folder),
        cmocka_unit_test(what_is_kept_is_what_came),
        cmocka_unit_test(the_oldest_steps_go_first_and_what_holds_stays),
        cmocka_unit_test(keyframes_thin_out_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
