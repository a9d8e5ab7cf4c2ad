/* States in a trace: a replay that begins from one shows what a replay that has read all shows, in the model and on every view, in
 * frames and on a screen that is still reading; damaged, foreign and forged states lose nothing but time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/observe/states.h"
#include "engine/trace/check.h"
#include "tests/support/effort.h"
#include "tests/support/synthetic.h"
#include "tui/app/app.h"
#include "tui/app/app_parts.h"
#include "tui/app/feed.h"
#include "tui/draw/output.h"

/* `whole` has states, `bare` is the same without. `brief` has many steps of few records: their oldest are dropped. */
static char whole_path[] = "/tmp/zerolab-test-states-XXXXXX", bare_path[] = "/tmp/zerolab-test-states-XXXXXX",
            brief_path[] = "/tmp/zerolab-test-states-XXXXXX";
static uint32_t last_step;

enum { BRIEF_STEPS = 35000 };

static void emit(void *file, const struct trace_record *record)
{
    assert_int_equal(trace_file_put(file, record, NULL), STATUS_OK);
}

static void say(struct synthetic *run, int rank, struct trace_record record)
{
    synthetic_put(run, rank, record);
}

/* News of every kind, and records that leave something in the model. */
static void tell(struct synthetic *run, uint32_t step)
{
    char text[200];
    const struct trace_text set = synthetic_text("{\"kind\":\"set\",\"detail\":{\"key\":\"topology.slow_motion\",\"from\":\"1\",\"to\":\"2\"}}");
    snprintf(text, sizeof text, "{\"kind\":\"checkpoint\",\"detail\":{\"state\":\"saved\",\"tag\":\"global_step%u\",\"folder\":\"ck\",\"bytes\":12}}", step);
    say(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {step, synthetic_text(text)}});
    say(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_EVENT, .event = {step, set}});
    snprintf(text, sizeof text, "a line of step %u", step);
    say(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_LOG, .log = {1, synthetic_text(text)}});
    say(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_SAMPLE, .sample = {step, synthetic_text(text)}});
    say(run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_VALIDATION, .validation = {step, 1.0f / (float)step, 64}});
    synthetic_state(run, step, RUN_RUNNING, "a reason that the next step makes past");
    for (int rank = 0; rank < run->ranks; rank++) {
        say(run, rank, (struct trace_record){.kind = TRACE_PROCESS, .process = {7, step, step, step, step, 5, 6}});
        say(run, rank, (struct trace_record){.kind = TRACE_QUANTIZED, .quantized = {step, 0, 1, 8, 1, 0.5, 1, 2}});
    }
}

static void make_whole(struct trace_file *file)
{
    struct synthetic run;
    uint32_t step = 0;
    synthetic_start(&run, 4, 0, 20000000, emit, file);
    for (int stage = 1; stage <= 3; stage++) {
        synthetic_switch(&run, step + 1, stage);
        for (int i = 0; i < 300; i++) {
            synthetic_step(&run, ++step);
            if (step % 50 == 0) tell(&run, step);
            if (step == 500) say(&run, 2, (struct trace_record){.kind = TRACE_GAP, .gap = {9, run.time_ns}});
        }
    }
    synthetic_switch(&run, step + 1, 0);
    synthetic_shortage(&run, step + 1);
    synthetic_switch(&run, step + 1, 3);
    synthetic_state(&run, step, RUN_RUNNING, "");
    for (int i = 0; i < 300; i++) synthetic_step(&run, ++step);
    synthetic_leave(&run, step, 2);
    synthetic_return(&run, step, 2);
    for (int i = 0; i < 900; i++) synthetic_step(&run, ++step);
    tell(&run, step);
    synthetic_close(&run, step);
    last_step = step;
}

static void make_brief(struct trace_file *file)
{
    struct synthetic run;
    synthetic_start(&run, 1, 0, 20000000, emit, file);
    for (uint32_t step = 1; step <= BRIEF_STEPS; step++) {
        say(&run, 0, (struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {step, run.schedule, 0}});
        run.time_ns += 1000;
        synthetic_end_step(&run, step, run.time_ns - 1000, false);
        if (step % 3 == 0) say(&run, SYNTHETIC_ALL, (struct trace_record){.kind = TRACE_LOG, .log = {0, synthetic_text("x")}});
    }
    synthetic_close(&run, BRIEF_STEPS);
}

static void make(char *path, void (*fill)(struct trace_file *file))
{
    struct trace_file *file;
    close(mkstemp(path));
    assert_int_equal(trace_file_create(&file, path, NULL), STATUS_OK);
    fill(file);
    assert_int_equal(trace_file_close(file, NULL), STATUS_OK);
}

static int make_traces(void **state)
{
    (void)state;
    make(whole_path, make_whole);
    make(bare_path, make_whole);
    make(brief_path, make_brief);
    assert_int_equal(run_states_write(whole_path, 0, NULL), STATUS_OK);
    assert_int_equal(run_states_write(brief_path, 0, NULL), STATUS_OK);
    return 0;
}

static int remove_traces(void **state)
{
    (void)state;
    return unlink(whole_path) || unlink(bare_path) || unlink(brief_path);
}

static off_t bytes_of(const char *path)
{
    struct stat what;
    assert_int_equal(stat(path, &what), 0);
    return what.st_size;
}

/* ---- equal to what reading all gives ---- */

#define SAME(from, to)                                                                                                            \
    assert_memory_equal((const char *)model + offsetof(struct run_model, from), (const char *)expected + offsetof(struct run_model, from), \
                        offsetof(struct run_model, to) - offsetof(struct run_model, from))

static void assert_same_steps(const struct run_model *model, const struct run_model *expected)
{
    assert_int_equal(model->step_count, expected->step_count);
    for (int i = 0; i < model->step_count; i++) {
        struct run_step step = model->steps[i], other = expected->steps[i];
        assert_int_equal(step.sent_bytes != NULL, other.sent_bytes != NULL);
        if (step.sent_bytes) assert_memory_equal(step.sent_bytes, other.sent_bytes, (size_t)step.ranks * sizeof *step.sent_bytes);
        step.sent_bytes = other.sent_bytes = NULL;
        assert_memory_equal(&step, &other, sizeof step);
    }
}

/* Every field of the model: a new one that states.c forgets is found here, if the traces have it. */
static void assert_same(const struct run_model *model, const struct run_model *expected)
{
    SAME(pace, rank);
    assert_memory_equal(model->rank, expected->rank, (size_t)model->ranks * sizeof *model->rank);
    SAME(machines, schedules);
    assert_int_equal(model->schedule_count, expected->schedule_count);
    for (int i = 0; i < model->schedule_count; i++) {
        assert_int_equal(model->schedules[i].number, expected->schedules[i].number);
        assert_memory_equal(model->schedules[i].tier, expected->schedules[i].tier, sizeof model->schedules[i].tier);
    }
    assert_int_equal(model->training_schedule, expected->training_schedule);
    assert_int_equal(model->has_training, expected->has_training);
    assert_same_steps(model, expected);
    SAME(steps_dropped, notices);
    assert_int_equal(model->notice_count, expected->notice_count);
    for (int i = 0; i < model->notice_count; i++) {
        assert_string_equal(model->notices[i].text, expected->notices[i].text);
        assert_int_equal(model->notices[i].time_ns, expected->notices[i].time_ns);
    }
    SAME(notices_dropped, lesson);
    assert_int_equal(model->sample.step, expected->sample.step);
    if (expected->sample.text) assert_string_equal(model->sample.text, expected->sample.text);
    SAME(state_hash, problem);
    assert_string_equal(model->problem, expected->problem);
    assert_int_equal(model->part_count, expected->part_count);
    assert_string_equal(model->header.config_json, expected->header.config_json);
}

static void assert_same_units(const struct run_model *model, const struct run_model *expected)
{
    assert_int_equal(model->header.unit_count, expected->header.unit_count);
    for (int i = 0; i < model->header.unit_count; i++)
        assert_memory_equal(&model->header.units[i].quantized, &expected->header.units[i].quantized, sizeof model->header.units->quantized);
}

static struct record_reader reader_of(const char *path)
{
    struct record_reader reader = {.model = record_reader_model()};
    assert_int_equal(source_open_file(&reader.source, path, NULL), 0);
    return reader;
}

static void assert_same_at(const char *path, uint32_t step)
{
    struct record_reader fast = reader_of(path), slow = reader_of(path);
    assert_true(record_reader_skip(&fast, 0, step, UINT64_MAX));
    assert_true(fast.model->revision > 0 && record_reader_steps_done(&fast) < step);
    while (slow.model->revision < fast.model->revision) record_reader_fold(&slow);
    assert_same(fast.model, slow.model);
    record_reader_until_step_ends(&fast, step);
    record_reader_until_step_ends(&slow, step);
    assert_same(fast.model, slow.model);
    assert_same_units(fast.model, slow.model);
    assert_true(fast.over == slow.over);
    record_reader_release(&fast, true);
    record_reader_release(&slow, true);
}

static void the_model_is_the_same(void **state)
{
    (void)state;
    for (uint32_t step = last_step / 3; step <= last_step; step += 119) assert_same_at(whole_path, step);
    assert_same_at(whole_path, 901); /* ran out of memory, and was taken again */
    assert_same_at(whole_path, UINT32_MAX);
}

static void dropped_steps_stay_dropped(void **state)
{
    (void)state;
    assert_same_at(brief_path, 9000);
    assert_same_at(brief_path, 25000);
    assert_same_at(brief_path, BRIEF_STEPS - 1);
    assert_same_at(brief_path, UINT32_MAX);
}

static char *frame_of(const char *path, const char *view, const char *at)
{
    struct app_frame_options options = {.file = path, .columns = 150, .rows = 50, .view = view, .at = at};
    struct error err;
    char *text = NULL;
    options.look.no_color = true;
    assert_int_equal(app_frame(&options, &text, &err), 0);
    return text;
}

static void every_view_is_the_same(void **state)
{
    static const char *const at[] = {"end", "step:600", "step:700.3", "step:901", "step:1201", "step:2090", "time:40", "time:0"};
    (void)state;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (enum view_id view = 0; view < VIEWS; view++) {
            if ((view + i) % 3 && !effort_is_full()) continue;
            char *fast = frame_of(whole_path, view_of(view)->name, at[i]), *slow = frame_of(bare_path, view_of(view)->name, at[i]);
            char *named = strstr(fast, whole_path); /* the file's own name may be on the screen */
            if (named) memcpy(named, bare_path, strlen(bare_path));
            assert_string_equal(fast, slow);
            free(fast);
            free(slow);
        }
}

static void a_stretch_is_the_same(void **state)
{
    struct app_frame_options options = {.columns = 100, .rows = 30, .view = "timeline", .steps = "1300:1301", .as = APP_AS_CAST};
    struct error err;
    char *fast, *slow;
    (void)state;
    options.file = whole_path;
    assert_int_equal(app_frame(&options, &fast, &err), 0);
    options.file = bare_path;
    assert_int_equal(app_frame(&options, &slow, &err), 0);
    assert_string_equal(fast, slow);
    free(fast);
    free(slow);
}

/* ---- a screen that is still reading ---- */

static char *picture(struct feed *feed, enum view_id view, bool run)
{
    struct view_state state = {.view = view, .focus = VIEW_EVENTS, .units = UNITS_GIB, .to_ns = run ? UINT64_MAX : 0};
    struct surface surface;
    feed_tell_time(feed, &state);
    state.newest_ns = state.cursor_ns; /* only one of the two knows how much is still to come */
    assert_true(surface_init(&surface, 150, 50, THEME_DEFAULT, false));
    view_draw(feed_model(feed), feed_history(feed, state.from_ns, state.to_ns), &state, &surface);
    char *text = surface_to_text(&surface);
    surface_release(&surface);
    return text;
}

static void assert_pictures(struct feed *a, struct feed *b, bool run)
{
    for (enum view_id view = 0; view < VIEWS; view++) {
        char *one = picture(a, view, run), *other = picture(b, view, run);
        assert_string_equal(one, other);
        free(one);
        free(other);
    }
}

static void read_all(struct feed *feed)
{
    while (!feed->newest.over) feed_advance(feed, 0);
}

static void a_screen_leaps(void **state)
{
    struct feed fast, slow;
    (void)state;
    assert_int_equal(feed_open_replay(&fast, whole_path, NULL), 0);
    assert_int_equal(feed_open_replay(&slow, bare_path, NULL), 0);
    read_all(&slow);
    assert_true(feed_go_step(&fast, 1500) && feed_go_step(&slow, 1500));
    assert_int_equal(fast.newest.model->revision, 0); /* nothing was read for it */
    assert_same(feed_model(&fast), feed_model(&slow));
    assert_pictures(&fast, &slow, false);
    for (int i = 0; i < 3; i++) assert_true(feed_next_step(&fast) && feed_next_step(&slow));
    assert_same(feed_model(&fast), feed_model(&slow));
    assert_true(feed_previous_step(&fast) && feed_previous_step(&slow));
    assert_true(feed_next_op(&fast, 1) && feed_next_op(&slow, 1));
    assert_same(feed_model(&fast), feed_model(&slow));
    const uint64_t later_ns = slow.cursor_ns + 5000000000u;
    assert_true(feed_go_time(&fast, later_ns) && feed_go_time(&slow, later_ns));
    assert_same(feed_model(&fast), feed_model(&slow));
    assert_int_equal(fast.newest.model->revision, 0);
    assert_false(feed_go_step(&fast, last_step + 1));
    feed_close(&fast);
    feed_close(&slow);
}

static void the_end_is_shown_before_all_is_read(void **state)
{
    struct feed fast, slow;
    (void)state;
    assert_int_equal(feed_open_replay(&fast, whole_path, NULL), 0);
    assert_int_equal(feed_open_replay(&slow, bare_path, NULL), 0);
    read_all(&slow);
    feed_last(&slow);
    feed_last(&fast);
    assert_int_equal(fast.newest.model->revision, 0);
    assert_true(fast.behind && !slow.behind);
    assert_same(feed_model(&fast), feed_model(&slow));
    read_all(&fast);
    assert_false(fast.behind); /* it has come there */
    assert_pictures(&fast, &slow, false);
    assert_pictures(&fast, &slow, true);
    feed_close(&fast);
    feed_close(&slow);
}

/* Before all is read, what is older than the state is unknown, neither idle nor busy. */
static void the_past_is_unknown_until_it_is_read(void **state)
{
    struct record_reader reader = reader_of(whole_path);
    struct history_load load;
    (void)state;
    reader.history = history_new(0);
    assert_true(record_reader_skip(&reader, 0, 1500, UINT64_MAX));
    const uint64_t first_ns = reader.model->first_ns, from_ns = reader.model->now_ns;
    record_reader_until_step_ends(&reader, 1500);
    assert_int_equal(history_first_ns(reader.history), first_ns);
    assert_true(history_has_gap(reader.history, -1, first_ns, from_ns));
    history_load(reader.history, 0, LANE_COMPUTE, first_ns, from_ns, &load);
    assert_true(load.unknown);
    const struct history_step *step = history_step_numbered(reader.history, 1500);
    history_load(reader.history, 0, LANE_COMPUTE, step->begun_ns, step->ended_ns, &load);
    assert_false(load.unknown);
    record_reader_release(&reader, true);
}

/* ---- files ---- */

static void copy_file(const char *from, char *to)
{
    char block[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fdopen(mkstemp(to), "wb");
    for (size_t count; (count = fread(block, 1, sizeof block, in)) > 0;) fwrite(block, 1, count, out);
    fclose(in);
    fclose(out);
}

static struct trace_check check_of(const char *path)
{
    struct trace_check check;
    assert_int_equal(trace_check(&check, path, NULL), STATUS_OK);
    return check;
}

static void check_tells_of_them(void **state)
{
    const struct trace_check whole = check_of(whole_path), bare = check_of(bare_path);
    (void)state;
    assert_true(whole.states >= 5 && !whole.states_damaged);
    assert_int_equal(bare.states, 0);
    assert_int_equal(whole.records, bare.records);
    assert_int_equal(trace_check_status(&whole), trace_check_status(&bare)); /* there is a gap */
    assert_true(bytes_of(whole_path) < bytes_of(bare_path) * 5 / 4);
}

static void they_are_written_once_and_within_a_limit(void **state)
{
    char path[] = "/tmp/zerolab-test-states-XXXXXX";
    struct trace_file *file;
    (void)state;
    const off_t bytes = bytes_of(whole_path);
    assert_int_equal(run_states_write(whole_path, 0, NULL), STATUS_OK);
    assert_int_equal(bytes_of(whole_path), bytes);
    copy_file(bare_path, path);
    assert_int_equal(run_states_write(path, (uint64_t)bytes - 1, NULL), STATUS_OK);
    assert_int_equal(bytes_of(path), bytes_of(bare_path));
    assert_int_equal(run_states_write(path, (uint64_t)bytes, NULL), STATUS_OK);
    assert_int_equal(bytes_of(path), bytes);
    assert_int_equal(trace_file_append(&file, path, NULL), STATUS_OK); /* a run that goes on cuts them off */
    assert_int_equal(trace_file_close(file, NULL), STATUS_OK);
    assert_int_equal(bytes_of(path), bytes_of(bare_path));
    assert_int_equal(check_of(path).states, 0);
    assert_int_equal(truncate(path, bytes_of(path) - 5), 0); /* no index: as a run that was killed */
    assert_int_equal(run_states_write(path, 0, NULL), STATUS_OK);
    assert_int_equal(check_of(path).states, 0);
    unlink(path);
}

/* One byte of each state is turned over. */
static void damaged_ones_lose_only_time(void **state)
{
    char path[] = "/tmp/zerolab-test-states-XXXXXX";
    struct source *source;
    struct trace_state *states;
    (void)state;
    copy_file(whole_path, path);
    assert_int_equal(source_open_file(&source, path, NULL), 0);
    const int count = source_states(source, &states);
    source_close(source);
    FILE *file = fopen(path, "r+b");
    for (int i = 0; i < count; i++) {
        fseek(file, (long)states[i].offset + CHUNK_HEAD_BYTES, SEEK_SET);
        const int byte = getc(file);
        fseek(file, (long)states[i].offset + CHUNK_HEAD_BYTES, SEEK_SET);
        putc(byte ^ 1, file);
    }
    fclose(file);
    free(states);
    const struct trace_check check = check_of(path);
    assert_true(check.states && check.states_damaged);
    char *fast = frame_of(path, "steps", "step:1500"), *slow = frame_of(bare_path, "steps", "step:1500");
    assert_string_equal(fast, slow);
    free(fast);
    free(slow);
    unlink(path);
}

/* ---- forged: right checksums around any numbers ---- */

static uint32_t random_state = 12345;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static void forge(struct bytes *raw)
{
    static const uint8_t bytes[] = {0, 1, 2, 0x7f, 0x80, 0xff};
    if (next_random(8) == 0) raw->count = next_random((uint32_t)raw->count + 1);
    for (uint32_t i = 0; raw->count && i < 1 + next_random(400); i++) raw->at[next_random((uint32_t)raw->count)] = bytes[next_random(6)];
}

/* The file `path` anew: the records of `bare`, and the states of `whole`, one kind of them forged. */
static void forge_file(const char *path, unsigned kind)
{
    struct source *source;
    struct trace_state *all;
    struct trace_states forged = {0};
    struct bytes raw = {0};
    assert_int_equal(source_open_file(&source, whole_path, NULL), 0);
    const int count = source_states(source, &all);
    for (int i = 0; i < count; i++) {
        const struct chunk_head head = {.flags = all[i].flags, .step = all[i].step, .first_ns = all[i].time_ns};
        size_t bytes;
        const uint8_t *contents = source_state(source, &all[i], &bytes);
        raw.count = 0;
        assert_true(bytes_append(&raw, contents, bytes));
        if (all[i].flags & kind) forge(&raw);
        assert_true(trace_states_put(&forged, &head, &raw));
    }
    assert_int_equal(trace_file_add_states(path, &forged, 0, NULL), STATUS_OK);
    source_close(source);
    free(all);
    bytes_release(&raw);
    trace_states_release(&forged);
}

static void forged_ones_do_no_harm(void **state)
{
    static const unsigned kinds[] = {CHUNK_NEWS, CHUNK_STEPS, CHUNK_STATE};
    const int rounds = getenv("SHORT") ? 6 : 60;
    (void)state;
    for (int round = 0; round < rounds; round++) {
        char path[] = "/tmp/zerolab-test-states-XXXXXX";
        copy_file(bare_path, path);
        forge_file(path, kinds[round % 3]);
        struct record_reader reader = reader_of(path);
        reader.history = history_new(0);
        record_reader_skip(&reader, 0, 1000, UINT64_MAX);
        for (int i = 0; i < 20000 && record_reader_fold(&reader); i++) {}
        for (enum view_id view = 0; view < VIEWS; view++) {
            struct view_state shown = {.view = view, .focus = VIEW_EVENTS, .units = UNITS_GIB, .cursor_ns = reader.model->now_ns};
            struct surface surface;
            assert_true(surface_init(&surface, 120, 40, THEME_DEFAULT, false));
            view_draw(reader.model, reader.history, &shown, &surface);
            surface_release(&surface);
        }
        record_reader_release(&reader, true);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_the_same),
        cmocka_unit_test(dropped_steps_stay_dropped),
        cmocka_unit_test(every_view_is_the_same),
        cmocka_unit_test(a_stretch_is_the_same),
        cmocka_unit_test(a_screen_leaps),
        cmocka_unit_test(the_end_is_shown_before_all_is_read),
        cmocka_unit_test(the_past_is_unknown_until_it_is_read),
        cmocka_unit_test(check_tells_of_them),
        cmocka_unit_test(they_are_written_once_and_within_a_limit),
        cmocka_unit_test(damaged_ones_lose_only_time),
        cmocka_unit_test(forged_ones_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_traces, remove_traces);
}
