/* Runs as the screen reads them: a recording at its pace and by steps and operations both ways, the past of a run that goes on,
 * and single frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "engine/trace/chunk.h"
#include "engine/trace/writer.h"
#include "tests/support/synthetic.h"
#include "tui/app/app.h"
#include "tui/app/app_parts.h"
#include "tui/app/feed.h"

/* ---- a replay, from a real trace file ------------------------------------------------------------------------------ */

static char trace_path[] = "/tmp/zerolab-test-tui-XXXXXX", parts_path[] = "/tmp/zerolab-test-tui-XXXXXX";

static void emit(void *ring, const struct trace_record *record)
{
    trace_emit(ring, record);
}

static int make_story(char *path, enum synthetic_place until)
{
    enum { ROOM = 8 << 20 };
    struct trace_writer *writer;
    struct trace_ring *ring;
    struct synthetic run;
    struct error err;
    int fd = mkstemp(path);
    void *memory = aligned_alloc(64, ROOM);
    if (fd < 0 || !memory) return -1;
    close(fd);
    ring = trace_ring_init(memory, ROOM);
    if (trace_writer_start(&writer, &(struct trace_writer_options){.file = path, .adopted_fd = -1}, &err)) return -1;
    trace_writer_add_ring(writer, ring);
    synthetic_story(&run, 4, until, emit, ring);
    trace_writer_stop(writer);
    free(memory);
    return 0;
}

static int make_trace(void **state)
{
    (void)state;
    return make_story(trace_path, STORY_ENDED) || make_story(parts_path, STORY_RETURNS);
}

static int remove_trace(void **state)
{
    (void)state;
    return unlink(trace_path) || unlink(parts_path);
}

static uint32_t step_of(const struct feed *feed)
{
    const struct run_step *step = run_last_step(feed_model(feed));
    return step ? step->step : 0;
}

static void replay_steps_both_ways(void **state)
{
    struct feed feed;
    struct error err;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    assert_true(feed_go_step(&feed, 0));
    assert_int_equal(step_of(&feed), 0);
    assert_true(feed_model(&feed)->header.known && run_training(feed_model(&feed)));
    assert_false(feed_previous_step(&feed) && step_of(&feed));
    for (uint32_t step = 1; step <= 3; step++) {
        assert_true(feed_next_step(&feed));
        assert_int_equal(step_of(&feed), step);
    }
    assert_true(feed_previous_step(&feed));
    assert_int_equal(step_of(&feed), 2);
    feed_newest(&feed);
    while (feed_wait_ns(&feed, 0) == 0) feed_advance(&feed, 0);
    assert_int_equal(step_of(&feed), 25);
    assert_true(feed.newest.over && feed_model(&feed)->ended && !feed.newest.trouble[0]);
    assert_false(feed_next_step(&feed));
    assert_true(feed_previous_step(&feed));
    assert_int_equal(step_of(&feed), 24);
    assert_true(feed.behind);
    assert_false(feed_go_step(&feed, 26));
    feed_close(&feed);
}

/* What a fold from the start to that moment gives, however one came there. */
static void assert_same(const struct run_model *model, const struct run_model *expected)
{
    assert_int_equal(model->revision, expected->revision);
    assert_int_equal(model->now_ns, expected->now_ns);
    assert_int_equal(model->step_count, expected->step_count);
    for (int i = 0; i < model->step_count; i++) {
        struct run_step step = model->steps[i], other = expected->steps[i];
        assert_int_equal(step.sent_bytes != NULL, other.sent_bytes != NULL);
        for (int rank = 0; step.sent_bytes && rank < step.ranks; rank++)
            assert_int_equal(step.sent_bytes[rank], other.sent_bytes[rank]);
        step.sent_bytes = other.sent_bytes = NULL;
        assert_memory_equal(&step, &other, sizeof step);
    }
    assert_int_equal(model->ranks, expected->ranks);
    assert_memory_equal(model->rank, expected->rank, (size_t)model->ranks * sizeof *model->rank);
    assert_memory_equal(&model->loss, &expected->loss, sizeof model->loss);
    assert_int_equal(model->notice_count, expected->notice_count);
    for (int i = 0; i < model->notice_count; i++)
        assert_string_equal(model->notices[i].text, expected->notices[i].text);
    assert_int_equal(model->schedule_count, expected->schedule_count);
    for (int i = 0; i < model->schedule_count; i++) {
        assert_int_equal(model->schedules[i].number, expected->schedules[i].number);
        assert_int_equal(model->schedules[i].ops.op_count, expected->schedules[i].ops.op_count);
    }
    assert_int_equal(model->header.unit_count, expected->header.unit_count);
    assert_string_equal(model->header.config_json, expected->header.config_json);
    assert_int_equal(model->tokens_seen, expected->tokens_seen);
    assert_int_equal(model->header.ranks, expected->header.ranks);
    assert_int_equal(model->part_count, expected->part_count);
    for (int i = 0; i < model->part_count; i++) { /* field by field: there is padding between them */
        assert_int_equal(model->parts[i].number, expected->parts[i].number);
        assert_int_equal(model->parts[i].steps_done, expected->parts[i].steps_done);
        assert_int_equal(model->parts[i].ranks, expected->parts[i].ranks);
        assert_int_equal(model->parts[i].begun_ns, expected->parts[i].begun_ns);
    }
}

static struct record_reader record_reader_at_step(const char *path, uint32_t step)
{
    struct record_reader reader = {.model = record_reader_model()};
    struct error err;
    assert_int_equal(source_open_file(&reader.source, path, &err), 0);
    record_reader_until_step_ends(&reader, step);
    return reader;
}

static void look_back(const char *path, const uint32_t steps[], size_t count)
{
    struct feed feed;
    struct error err;
    assert_int_equal(feed_open_replay(&feed, path, &err), 0);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++) {
            struct record_reader reader = record_reader_at_step(path, steps[i]);
            assert_true(feed_go_step(&feed, steps[i]));
            assert_same(feed_model(&feed), reader.model);
            uint64_t time_ns = reader.model->now_ns - 1000 * (i + 1);
            record_reader_release(&reader, true);
            reader = (struct record_reader){.model = record_reader_model()};
            assert_int_equal(source_open_file(&reader.source, path, &err), 0);
            record_reader_until_time(&reader, time_ns);
            assert_true(feed_go_time(&feed, time_ns));
            assert_same(feed_model(&feed), reader.model);
            record_reader_release(&reader, true);
        }
    feed_close(&feed);
}

static void looking_back_is_exact(void **state)
{
    static const uint32_t steps[] = {3, 20, 1, 11, 24, 12, 2};
    (void)state;
    look_back(trace_path, steps, sizeof steps / sizeof steps[0]);
}

/* 4 ranks to step 21, 2 to step 26, 3 to step 30; to both sides of where they change. */
static void looking_back_over_other_ranks_is_exact(void **state)
{
    static const uint32_t steps[] = {29, 3, 22, 21, 26, 27, 10, 30, 23, 20};
    (void)state;
    look_back(parts_path, steps, sizeof steps / sizeof steps[0]);
}

/* What the newest history has dropped can be had all the same, and is what it was. */
static void older_windows_have_a_history(void **state)
{
    struct feed feed;
    struct error err;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    history_free(feed.newest.history);
    feed.newest.history = history_new(300 << 10);
    assert_true(feed_go_step(&feed, 24));
    const struct history *newest = feed_history(&feed, 0, 0);
    assert_ptr_equal(newest, feed.newest.history);
    assert_true(feed_go_step(&feed, 2) && feed.cursor_ns < history_whole_from(newest));
    const struct history *part = feed_history(&feed, 0, 0);
    assert_ptr_not_equal(part, newest);
    int64_t first, end;
    history_spans(part, 3, LANE_COMPUTE, history_step_numbered(part, 2)->begun_ns, feed.cursor_ns, &first, &end);
    assert_true(end - first > 4 && history_span(part, 3, LANE_COMPUTE, first)->step == 2);
    assert_int_equal(history_span_of(newest, 3, LANE_COMPUTE, 2, history_span(part, 3, LANE_COMPUTE, first)->op), -1);
    assert_ptr_equal(feed_history(&feed, 0, 0), part);
    assert_ptr_equal(feed_history(&feed, 0, UINT64_MAX), newest); /* the whole run: sums */
    feed_close(&feed);
}

static bool ends_op(const struct run_model *model, const struct trace_record *record, const void *user)
{
    (void)model, (void)user;
    return record->kind == TRACE_OP_END && record->rank == 1;
}

/* Forwards through every begin and end of a rank's operations, and back again to the same moments. */
static void operations_both_ways(void **state)
{
    enum { MANY = 200 };
    uint64_t times[MANY];
    struct feed feed;
    struct error err;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    for (int i = 0; i < MANY; i++) {
        assert_true(feed_next_op(&feed, 1));
        times[i] = feed.cursor_ns;
        assert_true(i == 0 || times[i] > times[i - 1]);
    }
    for (int i = MANY - 2; i >= 0; i--) {
        assert_true(feed_previous_op(&feed, 1));
        assert_int_equal(feed.cursor_ns, times[i]);
    }
    assert_false(feed_previous_op(&feed, 1));
    assert_int_equal(feed.cursor_ns, times[0]); /* nothing found: nothing moved */
    assert_true(feed_find(&feed, ends_op, NULL, true));
    assert_int_equal(feed.cursor_ns, times[1]);
    feed_close(&feed);
}

static void search_finds_what_people_type(void **state)
{
    struct feed feed;
    struct error err;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    assert_true(feed_find(&feed, search_matches, &(struct search){"step 12", 0}, true));
    assert_int_equal(step_of(&feed), 11);
    assert_true(feed_find(&feed, search_matches, &(struct search){"REDUCE", 2}, true));
    assert_int_equal(step_of(&feed), 11);
    assert_true(feed_find(&feed, search_matches, &(struct search){"out of mem", 0}, true));
    assert_true(feed_model(&feed)->shortage.known);
    assert_true(feed_find(&feed, search_matches, &(struct search){"stage=3", 0}, false));
    assert_false(feed_find(&feed, search_matches, &(struct search){"no such thing", 0}, false));
    assert_false(feed_find(&feed, search_matches, &(struct search){"no such thing", 0}, true));
    feed_close(&feed);
}

/* Played by a clock of its own: after half a second of trace time, what was recorded in it is there and no more. */
static void replay_keeps_the_recorded_pace(void **state)
{
    struct feed feed;
    struct error err;
    uint64_t now_ns = 77;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    while (feed_wait_ns(&feed, now_ns) == 0) feed_advance(&feed, now_ns);
    feed_faster(&feed, 1, now_ns);
    feed_play(&feed, true, now_ns);
    feed_advance(&feed, now_ns);
    assert_true(feed_model(&feed)->header.known);
    assert_int_equal(step_of(&feed), 0);
    int64_t wait_ns = feed_wait_ns(&feed, now_ns);
    assert_true(wait_ns >= 749000000 && wait_ns <= 751000000); /* 1.5 s of starting, at twice the speed */
    now_ns += (uint64_t)wait_ns;
    feed_advance(&feed, now_ns);
    assert_int_equal(feed_model(&feed)->state, RUN_RUNNING);
    now_ns += 26950000 / 2 + 1000;
    feed_advance(&feed, now_ns);
    assert_int_equal(step_of(&feed), 1);
    feed_faster(&feed, 1, now_ns); /* the place does not jump */
    feed_advance(&feed, now_ns);
    assert_int_equal(step_of(&feed), 1);
    feed_play(&feed, false, now_ns);
    assert_false(feed_advance(&feed, now_ns + 10000000000u));
    assert_int_equal(feed_wait_ns(&feed, now_ns), -1);
    while (feed_speed(&feed) != -1) feed_faster(&feed, -1, now_ns); /* and backwards, to the beginning */
    assert_true(feed_go_step(&feed, 20));
    uint64_t begun_ns = feed.cursor_ns;
    feed_play(&feed, true, now_ns);
    assert_true(feed_advance(&feed, now_ns + 50000000));
    assert_int_equal(feed.cursor_ns, begun_ns - 50000000);
    assert_true(feed.playing && step_of(&feed) < 20);
    feed_advance(&feed, now_ns + 60000000000u);
    assert_false(feed.playing);
    feed_close(&feed);
}

/* ---- a live run, over a socket, with little room for its past ------------------------------------------------------- */

/* The records of the trace file, sent over a socket to a live feed. */
struct wire {
    struct source *source, *live;
    struct feed feed;
    int ends[2];
    struct chunk chunk;
    struct bytes sealed;
};

static void wire_open(struct wire *wire)
{
    struct error err;
    uint8_t head[STREAM_HEAD_BYTES];
    *wire = (struct wire){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, wire->ends), 0);
    assert_int_equal(source_open_file(&wire->source, trace_path, &err), 0);
    assert_int_equal(source_adopt_fd(&wire->live, wire->ends[0], &err), 0);
    assert_int_equal(feed_open_live(&wire->feed, wire->live, NULL, NULL, &err), 0);
    stream_head_write(STREAM_DRIVES, head);
    assert_int_equal(write(wire->ends[1], head, sizeof head), sizeof head);
}

/* Sends all records up to the first one of this kind and rank, and folds them. False: there is none. */
static bool wire_until(struct wire *wire, enum trace_kind kind, int rank, struct trace_record *record)
{
    bool found = false;
    while (!found && source_next(wire->source, record) == SOURCE_RECORD) {
        const void *encoded = source_encoded(wire->source);
        assert_true(chunk_append(&wire->chunk, encoded, trace_peek(encoded)));
        found = record->kind == kind && (rank < 0 || record->rank == rank);
        if (!found && wire->chunk.raw.count < 16 << 10) continue;
        wire->sealed.count = 0;
        assert_true(chunk_seal(&wire->chunk, NULL, &wire->sealed));
        assert_int_equal(write(wire->ends[1], wire->sealed.at, wire->sealed.count), wire->sealed.count);
        feed_advance(&wire->feed, 0);
    }
    return found;
}

static void wire_close(struct wire *wire)
{
    bytes_release(&wire->sealed);
    chunk_release(&wire->chunk);
    source_close(wire->source);
    feed_close(&wire->feed);
    source_close(wire->live);
    close(wire->ends[1]);
}

static void looking_back_while_it_goes_on(void **state)
{
    struct wire wire;
    struct trace_record record;
    struct feed *feed = &wire.feed;
    uint32_t looked = 0;
    (void)state;
    wire_open(&wire);
    record_buffer_free(feed->past);
    feed->past = record_buffer_new(200 << 10);
    while (wire_until(&wire, TRACE_STEP_END, -1, &record)) {
        uint32_t first = record_buffer_first_step(feed->past), done = record_reader_steps_done(&feed->newest);
        if (done < 2 || done == looked || first + 1 >= done) continue;
        looked = done;
        struct record_reader reader = record_reader_at_step(trace_path, done - 1);
        assert_true(feed_go_step(feed, done - 1));
        assert_same(feed_model(feed), reader.model);
        record_reader_release(&reader, true);
        feed_newest(feed);
    }
    assert_true(looked >= 20 && record_buffer_is_cut(feed->past) && record_buffer_first_step(feed->past) > 5);
    assert_false(feed_go_step(feed, 3) && step_of(feed) == 3); /* not kept */
    wire_close(&wire);
}

/* A live step by operations: the cursor stays where the operation begins, until it is told to go on. */
static void a_live_operation_is_held_at_its_begin(void **state)
{
    enum { RANK = 1 };
    struct wire wire;
    struct trace_record begin, end;
    struct feed *feed = &wire.feed;
    (void)state;
    wire_open(&wire);
    for (int i = 0; i < 4 * 3; i++) assert_true(wire_until(&wire, TRACE_STEP_END, -1, &end)); /* of four ranks */
    feed_hold(feed);
    assert_false(feed->behind); /* nobody asked for it */
    feed_hold_next(feed, RANK);
    feed->hold.after_ns--; /* this run loses no time between steps */
    assert_true(wire_until(&wire, TRACE_OP_BEGIN, RANK, &begin));
    feed_hold(feed);
    assert_true(feed->hold.wanted && !feed->behind);
    do assert_true(wire_until(&wire, TRACE_OP_END, RANK, &end));
    while (end.op_end.op != begin.op_begin.op);
    feed_hold(feed);
    assert_true(feed->hold.holds && feed->behind && feed->cursor_ns == begin.time_ns);
    const struct run_rank *rank = &feed_model(feed)->rank[RANK];
    int busy = 0;
    for (int lane = 0; lane < LANES; lane++) busy += rank->lane[lane].busy && rank->lane[lane].op == begin.op_begin.op;
    assert_int_equal(busy, 1);
    assert_true(feed_previous_step(feed));
    assert_false(feed->hold.holds); /* any other move ends it */
    feed_hold(feed);
    assert_false(feed->hold.holds);
    feed_newest(feed);
    assert_false(feed->behind || feed->hold.holds || feed->hold.wanted);
    wire_close(&wire);
}

/* The last whole step of a live run is played on a clock of its own: every begin and end of the rank's operations for its time, then the
 * step that is the last one then. */
static void the_last_step_is_played_slowly(void **state)
{
    enum { RANK = 2, MS = 1000000 };
    struct wire wire;
    struct trace_record record;
    struct feed *feed = &wire.feed;
    uint64_t now_ns = 77, before_ns = 0;
    (void)state;
    wire_open(&wire);
    assert_false(feed_play_last(feed, RANK, now_ns)); /* there is no whole step yet */
    for (int i = 0; i < 4 * 3; i++) assert_true(wire_until(&wire, TRACE_STEP_END, -1, &record));
    assert_true(feed_play_last(feed, RANK, now_ns));
    const struct last_step *last = &feed->last;
    assert_int_equal(last->step, 3);
    assert_true(feed->behind && feed->cursor_ns == last->times[0]);
    assert_true(last->each_ns >= 120 * MS && last->count > 10);
    const uint64_t whole_ns = last->each_ns * (uint64_t)last->count;
    const int count = last->count;
    assert_true(whole_ns >= 9900u * MS && feed_last_slowness(last) > 100);
    for (int i = 0; i < 4; i++) assert_true(wire_until(&wire, TRACE_STEP_END, -1, &record)); /* the run goes on */
    for (int i = 0, changes = 0; i < count; i++) {
        changes += feed_play_last(feed, RANK, now_ns);
        assert_int_equal(feed->cursor_ns, last->times[i]);
        assert_true(feed->cursor_ns > before_ns && changes == i);
        assert_int_equal(feed_last_wait_ns(feed, now_ns), last->each_ns);
        before_ns = feed->cursor_ns;
        if (i == 2) { /* between two moments, evenly */
            feed_play_last(feed, RANK, now_ns + last->each_ns / 2);
            assert_true(labs((long)(feed->cursor_ns - (last->times[2] + last->times[3]) / 2)) <= 1);
        }
        now_ns += last->each_ns;
    }
    assert_true(feed_play_last(feed, RANK, now_ns)); /* the next one */
    assert_int_equal(last->step, 4);
    (void)feed_play_last(feed, RANK + 1, now_ns); /* another rank has other moments */
    assert_int_equal(last->rank, RANK + 1);
    feed_newest(feed);
    assert_int_equal(last->step, 0);
    assert_int_equal(feed_last_wait_ns(feed, now_ns), -1);
    wire_close(&wire);
}

static void frames_are_printed_or_refused(void **state)
{
    struct app_frame_options options = {.file = trace_path, .columns = 80, .rows = 24, .at = "step:3"};
    struct error err;
    char *text;
    (void)state;
    assert_int_equal(app_frame(&options, &text, &err), 0);
    assert_non_null(strstr(text, "step 3"));
    free(text);
    char *begun, *ended;
    options.view = "timeline";
    options.at = "step:2.1.begin";
    assert_int_equal(app_frame(&options, &begun, &err), 0);
    options.at = "step:2.1.end";
    assert_int_equal(app_frame(&options, &ended, &err), 0);
    options.at = "step:2.1";
    assert_int_equal(app_frame(&options, &text, &err), 0);
    assert_string_equal(text, ended);
    assert_string_not_equal(begun, ended);
    free(begun);
    free(ended);
    free(text);
    options.at = "oom";
    options.view = "oom";
    options.look.units = APP_UNITS_GB;
    assert_int_equal(app_frame(&options, &text, &err), 0);
    assert_non_null(strstr(text, "793.1 kB"));
    free(text);
    static const struct {
        const char *at, *view, *file;
        int columns, status;
    } bad[] = {{"step:26", NULL, trace_path, 80, STATUS_USAGE},
               {"step:x", NULL, trace_path, 80, STATUS_USAGE},
               {"noon", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.9999", NULL, trace_path, 80, STATUS_USAGE},
               {"time:-1", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.1.", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.1.beg", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.1.end.", NULL, trace_path, 80, STATUS_USAGE},
               {"step:2.begin", NULL, trace_path, 80, STATUS_USAGE},
               {"end", "nothing", trace_path, 80, STATUS_USAGE},
               {"end", NULL, "/nonexistent", 80, STATUS_INPUT},
               {"end", NULL, trace_path, 0, STATUS_USAGE},
               {"end", NULL, "/dev/null", 80, STATUS_INPUT}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options = (struct app_frame_options){
            .file = bad[i].file, .columns = bad[i].columns, .rows = 24, .at = bad[i].at, .view = bad[i].view};
        assert_int_equal(app_frame(&options, &text, &err), bad[i].status);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
    }
}

static void no_terminal_is_refused(void **state)
{
    struct error err;
    (void)state;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) skip();
    assert_false(app_terminal_fits(&err));
    assert_int_equal(app_run(&(struct app_options){.replay_file = trace_path}, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "--frame"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_steps_both_ways),
        cmocka_unit_test(looking_back_is_exact),
        cmocka_unit_test(looking_back_over_other_ranks_is_exact),
        cmocka_unit_test(older_windows_have_a_history),
        cmocka_unit_test(operations_both_ways),
        cmocka_unit_test(search_finds_what_people_type),
        cmocka_unit_test(replay_keeps_the_recorded_pace),
        cmocka_unit_test(looking_back_while_it_goes_on),
        cmocka_unit_test(a_live_operation_is_held_at_its_begin),
        cmocka_unit_test(the_last_step_is_played_slowly),
        cmocka_unit_test(frames_are_printed_or_refused),
        cmocka_unit_test(no_terminal_is_refused),
    };
    return cmocka_run_group_tests(tests, make_trace, remove_trace);
}
