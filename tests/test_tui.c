/* The parts of screens: layout at every size, clipping, bars, numbers, outputs, keys, and the pace of a replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "engine/config/command.h"
#include "engine/trace/chunk.h"
#include "engine/trace/writer.h"
#include "tests/synthetic.h"
#include "tui/app/app.h"
#include "tui/app/feed.h"
#include "tui/app/search.h"
#include "tui/draw/bar.h"
#include "tui/draw/format.h"
#include "tui/draw/output.h"
#include "tui/draw/paragraph.h"
#include "tui/input/keys.h"
#include "tui/views/layout.h"

static bool overlap(const struct rect *a, const struct rect *b)
{
    return a->columns && b->columns && a->x < b->x + b->columns && b->x < a->x + a->columns && a->y < b->y + b->rows &&
           b->y < a->y + a->rows;
}

static void check_layout(int columns, int rows, const struct overview_needs *needs)
{
    struct overview_layout layout;
    overview_layout(&layout, columns, rows, needs);
    struct rect all[1 + VIEWS] = {layout.bars};
    memcpy(all + 1, layout.pane, sizeof layout.pane);
    for (int i = 0; i < 1 + VIEWS; i++) {
        assert_true((all[i].columns == 0) == (all[i].rows == 0));
        assert_true(all[i].x >= 0 && all[i].y >= 0 && all[i].columns >= 0 && all[i].rows >= 0);
        assert_true(all[i].x + all[i].columns <= columns && all[i].y + all[i].rows <= rows);
        for (int k = i + 1; k < 1 + VIEWS; k++) assert_false(overlap(&all[i], &all[k]));
    }
    if (columns < VIEW_COLUMNS_MIN || rows < VIEW_ROWS_MIN - 5) return;
    assert_true(layout.bars.rows && layout.pane[needs->focus].rows >= 3); /* the focused pane is always there */
}

static void layout_fits_every_size(void **state)
{
    (void)state;
    for (int rows = 1; rows <= 120; rows++)
        for (int columns = 1; columns <= 400; columns++)
            for (enum view_id focus = 0; focus < VIEWS; focus++) {
                if (!view_of(focus)->pane) continue;
                struct overview_needs needs = {.bars_rows = 6, .focus = focus};
                needs.rows[VIEW_COLLECTIVES] = 7, needs.rows[VIEW_MEMORY] = 13, needs.timeline_rows = 5;
                check_layout(columns, rows, &needs);
                needs.bars_rows += focus, needs.timeline_rows += focus % 5, needs.rows[VIEW_COLLECTIVES] += focus % 4;
                check_layout(columns, rows, &needs);
            }
}

struct past {
    struct run_model *model;
    struct tape *tape;
};

static void fold_past(void *user, const struct trace_record *record)
{
    struct past *past = user;
    run_model_fold(past->model, record);
    tape_fold(past->tape, past->model, record);
}

/* Views draw at every size without leaving the surface (the sanitizers watch) and say what they need when it is small. */
static void views_draw_at_every_size(void **state)
{
    struct past past = {run_model_new(&(struct run_model_options){0}), tape_new(0)};
    struct synthetic run;
    struct surface surface;
    (void)state;
    synthetic_story(&run, 11, STORY_SHORTAGE, fold_past, &past);
    for (int size = 0; size < 60; size++)
        for (enum view_id view = 0; view < VIEWS; view++) {
            struct view_state view_state = {
                .view = view, .focus = VIEW_EVENTS, .units = (enum units)(size % UNITS), .live = size & 1};
            view_state.row[view] = size;
            assert_true(surface_init(&surface, 1 + size * 7, 1 + size * 2, (enum theme)(size % THEMES), size & 2));
            view_draw(past.model, past.tape, &view_state, &surface);
            surface_release(&surface);
        }
    tape_free(past.tape);
    run_model_free(past.model);
}

static struct surface painted(int columns, int rows, enum theme theme, bool ascii)
{
    struct surface surface;
    assert_true(surface_init(&surface, columns, rows, theme, ascii));
    return surface;
}

static void assert_text(struct surface *surface, const char *expected)
{
    char *text = surface_to_text(surface);
    assert_string_equal(text, expected);
    free(text);
    surface_release(surface);
}

static void text_is_cut_at_its_canvas(void **state)
{
    struct surface surface = painted(10, 3, THEME_MONO, false);
    struct canvas part = canvas_part(canvas_of(&surface), 2, 1, 5, 1);
    (void)state;
    assert_int_equal(draw_text(part, 3, 0, STYLE_TEXT, "abcdef"), 9);
    draw_text(part, -2, 0, STYLE_TEXT, "xyz");
    draw_text(part, 0, 1, STYLE_TEXT, "below");
    draw_text(part, 0, -1, STYLE_TEXT, "above");
    draw_right(canvas_part(part, 100, 0, 9, 9), 3, 0, STYLE_TEXT, "outside");
    assert_text(&surface, "\n  z  ab\n\n");
}

static void odd_characters_take_one_column(void **state)
{
    struct surface surface = painted(12, 1, THEME_MONO, false), ascii = painted(12, 1, THEME_MONO, true);
    (void)state;
    draw_text(canvas_of(&surface), 0, 0, STYLE_TEXT, "ä\x01\x1b\xff\xe4\xb8\xad\xcc\x80Ψ─\xc3");
    draw_text(canvas_of(&ascii), 0, 0, STYLE_TEXT, "ä×·█Ψ─");
    assert_text(&surface, "ä?????Ψ─?\n");
    assert_text(&ascii, "?x-#?-\n");
}

static void paragraphs_break_between_words(void **state)
{
    struct surface surface = painted(10, 6, THEME_MONO, false);
    (void)state;
    assert_int_equal(draw_paragraph(canvas_part(canvas_of(&surface), 1, 0, 8, 6), 0, STYLE_TEXT,
                                    "one two three\nfour  abcdefghijklm x"),
                     5);
    assert_int_equal(draw_paragraph(canvas_part(canvas_of(&surface), 0, 5, 8, 1), 1, STYLE_TEXT, "skipped shown"), 2);
    assert_text(&surface, " one two\n three\n four  ab\n cdefghij\n klm x\nshown\n");
}

static void bars_add_up(void **state)
{
    struct segment segments[] = {{50, 'P', '#', STYLE_PARAMETERS},
                                 {0, 'G', '#', STYLE_GRADIENTS},
                                 {1, 'O', '#', STYLE_OPTIMIZER},
                                 {49, 'A', '#', STYLE_ACTIVATIONS}};
    int shares[4];
    (void)state;
    bar_shares(shares, segments, 4, 100, 10);
    assert_int_equal(shares[0] + shares[1] + shares[2] + shares[3], 10);
    assert_int_equal(shares[1], 0);
    assert_int_equal(shares[2], 1); /* small, but there */
    bar_shares(shares, segments, 4, 200, 10);
    assert_int_equal(shares[0] + shares[1] + shares[2] + shares[3], 5);
    bar_shares(shares, segments, 4, 50, 10); /* more than the scale: full, never beyond */
    assert_true(shares[0] + shares[1] + shares[2] + shares[3] == 10 && shares[3] == 1);
    for (uint64_t scale = 0; scale < 130; scale++)
        for (int columns = 0; columns < 30; columns++) {
            int sum = 0;
            bar_shares(shares, segments, 4, scale, columns);
            for (int i = 0; i < 4; i++) sum += shares[i], assert_true(shares[i] >= 0);
            assert_true(sum <= columns);
        }
}

static void bars_have_letters_and_patterns(void **state)
{
    struct segment segments[] = {{5, 'P', 0x2588, STYLE_PARAMETERS}, {5, 'G', 0x2593, STYLE_GRADIENTS}};
    struct surface utf8 = painted(10, 1, THEME_MONO, false), ascii = painted(10, 1, THEME_MONO, true),
                   colour = painted(10, 1, THEME_DEFAULT, false);
    (void)state;
    draw_bar(canvas_of(&utf8), 0, 0, 10, segments, 2, 10);
    draw_bar(canvas_of(&ascii), 0, 0, 10, segments, 2, 10);
    draw_bar(canvas_of(&colour), 0, 0, 10, segments, 2, 10);
    assert_int_equal(surface_at(&colour, 3, 0)->look.background, 4);
    assert_text(&utf8, "P████G▓▓▓▓\n");
    assert_text(&ascii, "PPPPPGGGGG\n");
    assert_text(&colour, "P    G\n");
}

static void numbers_keep_their_width(void **state)
{
    static const struct {
        enum units units;
        uint64_t bytes;
        const char *text;
    } cases[] = {{UNITS_GB, 0, "     0 B"},
                 {UNITS_GB, 999, "   999 B"},
                 {UNITS_GB, 1000, "1.000 kB"},
                 {UNITS_GB, 999949, "999.9 kB"},
                 {UNITS_GB, 999950, "1.000 MB"},
                 {UNITS_GB, 12345678901u, "12.35 GB"},
                 {UNITS_GIB, 1023, "   1023 B"},
                 {UNITS_GIB, 1024, "1.000 KiB"},
                 {UNITS_GIB, 1047552, " 1023 KiB"},
                 {UNITS_GIB, 1048064, "1.000 MiB"},
                 {UNITS_BYTES, 1234567, "      1,234,567 B"}};
    char text[FORMAT_ROOM];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_bytes(text, cases[i].units, true, cases[i].bytes), cases[i].text);
    for (int units = 0; units < UNITS; units++)
        for (uint64_t bytes = 1; bytes < 900000000000ull; bytes = bytes * 3 / 2 + 1)
            assert_int_equal(strlen(format_bytes(text, (enum units)units, true, bytes)),
                             bytes_columns((enum units)units));
    assert_string_equal(format_bytes(text, UNITS_GB, false, 0), "     n/a");
    assert_string_equal(format_time(text, 28850000), "28.85 ms");
    assert_string_equal(format_count(text, 1234567), "1,234,567");
    assert_string_equal(format_short(text, 834304), "834.3 k");
}

static void curves_span_lowest_to_highest(void **state)
{
    float values[64], same[] = {2, 2, 2};
    struct surface surface = painted(8, 2, THEME_MONO, false);
    (void)state;
    for (int i = 0; i < 64; i++) values[i] = (float)(i / 8);
    draw_sparkline(canvas_of(&surface), 0, 0, 8, STYLE_SPARK, values, 64);
    draw_sparkline(canvas_of(&surface), 0, 1, 8, STYLE_SPARK, same, 3);
    assert_text(&surface, "▁▂▃▄▅▆▇█\n▅▅▅\n");
}

static void outputs_end_in_the_default_look(void **state)
{
    struct surface surface = painted(6, 2, THEME_DEFAULT, false);
    (void)state;
    draw_text(canvas_of(&surface), 0, 0, STYLE_BAD, "<&>");
    char *ansi = surface_to_ansi(&surface), *svg = surface_to_svg(&surface);
    assert_string_equal(ansi, "\033[0;1;97;41m<&>\033[0m\n\n");
    assert_non_null(strstr(svg, "&lt;&amp;>"));
    assert_non_null(strstr(svg, "</svg>"));
    free(ansi);
    free(svg);
    surface_release(&surface);
}

static void every_key_means_one_thing(void **state)
{
    (void)state;
    for (int i = 0; i < key_count; i++) {
        assert_true(key_table[i].help[0] && key_table[i].label[0]);
        for (int k = i + 1; k < key_count; k++)
            assert_false(key_table[i].code == key_table[k].code && key_table[i].modes & key_table[k].modes);
        struct command command;
        if (key_table[i].action == ACTION_COMMAND)
            assert_int_equal(command_parse(&command, key_table[i].argument, NULL), 0);
        else if (key_table[i].action == ACTION_VIEW) assert_true(view_named(key_table[i].argument) >= 0);
    }
    assert_int_equal(key_find('3', KEY_MODE_LIVE)->action, ACTION_COMMAND);
    assert_null(key_find('3', KEY_MODE_REPLAY));
    assert_int_equal(key_find(INPUT_ESCAPE, KEY_MODE_LIVE)->action, ACTION_CLOSE);
    char *text = app_keys_markdown();
    assert_non_null(strstr(text, "| `Space` | live |"));
    free(text);
}

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
    assert_memory_equal(model->parts, expected->parts, sizeof model->parts);
}

static struct reel reel_at_step(const char *path, uint32_t step)
{
    struct reel reel = {.model = reel_model()};
    struct error err;
    assert_int_equal(source_open_file(&reel.source, path, &err), 0);
    reel_until_step_ends(&reel, step);
    return reel;
}

static void look_back(const char *path, const uint32_t steps[], size_t count)
{
    struct feed feed;
    struct error err;
    assert_int_equal(feed_open_replay(&feed, path, &err), 0);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++) {
            struct reel reel = reel_at_step(path, steps[i]);
            assert_true(feed_go_step(&feed, steps[i]));
            assert_same(feed_model(&feed), reel.model);
            uint64_t time_ns = reel.model->now_ns - 1000 * (i + 1);
            reel_release(&reel, true);
            reel = (struct reel){.model = reel_model()};
            assert_int_equal(source_open_file(&reel.source, path, &err), 0);
            reel_until_time(&reel, time_ns);
            assert_true(feed_go_time(&feed, time_ns));
            assert_same(feed_model(&feed), reel.model);
            reel_release(&reel, true);
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

/* What the newest tape has dropped can be had all the same, and is what it was. */
static void older_windows_have_a_tape(void **state)
{
    struct feed feed;
    struct error err;
    (void)state;
    assert_int_equal(feed_open_replay(&feed, trace_path, &err), 0);
    tape_free(feed.newest.tape);
    feed.newest.tape = tape_new(300 << 10);
    assert_true(feed_go_step(&feed, 24));
    const struct tape *newest = feed_tape(&feed, 0, 0);
    assert_ptr_equal(newest, feed.newest.tape);
    assert_true(feed_go_step(&feed, 2) && feed.cursor_ns < tape_whole_from(newest));
    const struct tape *part = feed_tape(&feed, 0, 0);
    assert_ptr_not_equal(part, newest);
    int64_t first, end;
    tape_spans(part, 3, LANE_COMPUTE, tape_step_numbered(part, 2)->begun_ns, feed.cursor_ns, &first, &end);
    assert_true(end - first > 4 && tape_span(part, 3, LANE_COMPUTE, first)->step == 2);
    assert_int_equal(tape_span_of(newest, 3, LANE_COMPUTE, 2, tape_span(part, 3, LANE_COMPUTE, first)->op), -1);
    assert_ptr_equal(feed_tape(&feed, 0, 0), part);
    assert_ptr_equal(feed_tape(&feed, 0, UINT64_MAX), newest); /* the whole run: sums */
    feed_close(&feed);
}

static bool ends_op(const struct run_model *model, const struct trace_record *record, const void *user)
{
    (void)model, (void)user;
    return record->kind == TRACE_OP_END && record->rank == 1;
}

/* Forwards through every operation of a rank, and back again to the same moments. */
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

static void looking_back_while_it_goes_on(void **state)
{
    (void)state;
    struct source *source, *live;
    struct trace_record record;
    struct error err;
    struct feed feed;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(source_open_file(&source, trace_path, &err), 0);
    assert_int_equal(source_adopt_fd(&live, ends[0], &err), 0);
    assert_int_equal(feed_open_live(&feed, live, NULL, NULL, &err), 0);
    past_free(feed.past);
    feed.past = past_new(200 << 10);
    uint8_t head[STREAM_HEAD_BYTES];
    struct bytes sealed = {0};
    stream_head_write(STREAM_DRIVES, head);
    assert_int_equal(write(ends[1], head, sizeof head), sizeof head);
    struct chunk chunk = {0};
    uint32_t looked = 0;
    while (source_next(source, &record) == SOURCE_RECORD) {
        const void *encoded = source_encoded(source);
        assert_true(chunk_append(&chunk, encoded, trace_peek(encoded)));
        if (record.kind != TRACE_STEP_END && record.kind != TRACE_END) continue;
        sealed.count = 0;
        assert_true(chunk_seal(&chunk, NULL, &sealed));
        assert_int_equal(write(ends[1], sealed.at, sealed.count), sealed.count);
        feed_advance(&feed, 0);
        uint32_t first = past_first_step(feed.past), done = reel_steps_done(&feed.newest);
        if (done < 2 || done == looked || first + 1 >= done) continue;
        looked = done;
        struct reel reel = reel_at_step(trace_path, done - 1);
        assert_true(feed_go_step(&feed, done - 1));
        assert_same(feed_model(&feed), reel.model);
        reel_release(&reel, true);
        feed_newest(&feed);
    }
    assert_true(looked >= 20 && past_is_cut(feed.past) && past_first_step(feed.past) > 5);
    assert_false(feed_go_step(&feed, 3) && step_of(&feed) == 3); /* not kept */
    bytes_release(&sealed);
    chunk_release(&chunk);
    source_close(source);
    feed_close(&feed);
    source_close(live);
    close(ends[1]);
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
    options.at = "oom";
    options.view = "oom";
    options.look.units = APP_UNITS_GB;
    assert_int_equal(app_frame(&options, &text, &err), 0);
    assert_non_null(strstr(text, "wanted 793.1 kB"));
    free(text);
    static const struct {
        const char *at, *view, *file;
        int columns, status;
    } bad[] = {{"step:26", NULL, trace_path, 80, STATUS_USAGE},  {"step:x", NULL, trace_path, 80, STATUS_USAGE},
               {"noon", NULL, trace_path, 80, STATUS_USAGE},     {"step:2.9999", NULL, trace_path, 80, STATUS_USAGE},
               {"time:-1", NULL, trace_path, 80, STATUS_USAGE},  {"step:2.", NULL, trace_path, 80, STATUS_USAGE},
               {"end", "nothing", trace_path, 80, STATUS_USAGE}, {"end", NULL, "/nonexistent", 80, STATUS_INPUT},
               {"end", NULL, trace_path, 0, STATUS_USAGE},       {"end", NULL, "/dev/null", 80, STATUS_INPUT}};
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
        cmocka_unit_test(layout_fits_every_size),         cmocka_unit_test(views_draw_at_every_size),
        cmocka_unit_test(text_is_cut_at_its_canvas),      cmocka_unit_test(odd_characters_take_one_column),
        cmocka_unit_test(paragraphs_break_between_words), cmocka_unit_test(bars_add_up),
        cmocka_unit_test(bars_have_letters_and_patterns), cmocka_unit_test(numbers_keep_their_width),
        cmocka_unit_test(curves_span_lowest_to_highest),  cmocka_unit_test(outputs_end_in_the_default_look),
        cmocka_unit_test(every_key_means_one_thing),      cmocka_unit_test(replay_steps_both_ways),
        cmocka_unit_test(looking_back_is_exact),          cmocka_unit_test(looking_back_over_other_ranks_is_exact),
        cmocka_unit_test(older_windows_have_a_tape),      cmocka_unit_test(operations_both_ways),
        cmocka_unit_test(search_finds_what_people_type),  cmocka_unit_test(looking_back_while_it_goes_on),
        cmocka_unit_test(replay_keeps_the_recorded_pace), cmocka_unit_test(frames_are_printed_or_refused),
        cmocka_unit_test(no_terminal_is_refused),
    };
    return cmocka_run_group_tests(tests, make_trace, remove_trace);
}
