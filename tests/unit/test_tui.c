/* The parts of screens: layout at every size, clipping, bars, numbers, outputs, keys. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/config/command.h"
#include "tests/support/synthetic.h"
#include "tui/draw/bar.h"
#include "tui/draw/format.h"
#include "tui/draw/output.h"
#include "tui/draw/surface.h"
#include "tui/input/keys.h"
#include "tui/screen/screen.h"
#include "tui/timeline/timeline.h"
#include "tui/view/tier_bar.h"

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
    assert_true(layout.bars.rows > 0);
    if (needs->focus != VIEW_EVENTS)
        assert_true(layout.pane[needs->focus].rows >= 3); /* a pane that the user moved to is there */
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

struct record_buffer {
    struct run_model *model;
    struct history *history;
};

static void fold_past(void *user, const struct trace_record *record)
{
    struct record_buffer *past = user;
    run_model_fold(past->model, record);
    history_fold(past->history, past->model, record);
}

/* Views draw at every size without leaving the surface (the sanitizers watch) and say what they need when it is small. */
static void views_draw_at_every_size(void **state)
{
    struct record_buffer past = {run_model_new(&(struct run_model_options){0}), history_new(0)};
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
            view_draw(past.model, past.history, &view_state, &surface);
            surface_release(&surface);
        }
    history_free(past.history);
    run_model_free(past.model);
}

static bool says(const struct surface *surface, const char *words)
{
    char *text = surface_to_text(surface);
    const bool found = strstr(text, words);
    free(text);
    return found;
}

/* The records of rank 0 were lost in every step that it ended. */
static void a_peak_of_no_known_step_has_no_number(void **state)
{
    struct record_buffer past = {run_model_new(&(struct run_model_options){0}), history_new(0)};
    struct synthetic run;
    struct surface surface;
    (void)state;
    synthetic_story(&run, 2, STORY_STAGE0, fold_past, &past);
    past.model->rank[0].peak_step = 0;
    for (enum view_id view = 0; view < VIEWS; view++) {
        const struct view_state view_state = {.view = view};
        assert_true(surface_init(&surface, 120, 40, THEME_MONO, false));
        view_draw(past.model, past.history, &view_state, &surface);
        assert_false(says(&surface, " of step 0 "));
        if (view == VIEW_MEMORY || view == VIEW_TIERS || view == VIEW_OVERVIEW)
            assert_true(says(&surface, " of the last whole step"));
        surface_release(&surface);
    }
    history_free(past.history);
    run_model_free(past.model);
}

/* Two ranks each on hosts a and b. Many hosts are only counted. */
static void hosts_of_ranks_are_named(void **state)
{
    struct record_buffer past = {run_model_new(&(struct run_model_options){0}), history_new(0)};
    struct synthetic run;
    const struct view_state view_state = {.view = VIEW_OVERVIEW};
    static const char *const said[] = {" 4 ranks ×", " 4 ranks on a 0-1, b 2-3 ×", " 4 ranks on 40 hosts ×"};
    (void)state;
    synthetic_story(&run, 4, STORY_STAGE0, fold_past, &past);
    for (int hosts = 0; hosts < 3; hosts++) {
        struct surface surface;
        for (int m = 0; m < (hosts == 2 ? 40 : 2 * hosts); m++)
            for (int rank = 2 * m; rank < 2 * m + 2; rank++)
                synthetic_put(&run, rank,
                              (struct trace_record){
                                  .kind = TRACE_HOST,
                                  .host = {(uint32_t)m, synthetic_text(m ? hosts == 2 ? "another" : "b" : "a")}});
        assert_true(surface_init(&surface, 160, 40, THEME_MONO, false));
        view_draw(past.model, past.history, &view_state, &surface);
        assert_true(says(&surface, said[hosts]));
        surface_release(&surface);
    }
    assert_string_equal(trace_host_of(&past.model->machines, 1), "a");
    assert_string_equal(trace_host_of(&past.model->machines, 80), "");
    history_free(past.history);
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
    for (int category = 0; category < LOOKS; category++) {
        draw_character(canvas_of(&utf8), 0, 0, STYLE_TEXT, category_look(category)->pattern);
        assert_int_equal(surface_at(&utf8, 0, 0)->character, category_look(category)->pattern);
    }
    for (int category = 0; category <= LOOK_FREE; category++) {
        draw_category(canvas_of(&utf8), category, 0, category);
        draw_category(canvas_of(&ascii), category, 0, category);
    }
    assert_int_equal(surface_at(&utf8, CATEGORY_SECONDARY, 0)->character, 'H');
    assert_int_equal(surface_at(&utf8, LOOK_FREE, 0)->character, 0xb7);
    assert_int_equal(surface_at(&ascii, LOOK_FREE, 0)->character, '.');
    draw_category(canvas_of(&utf8), 0, 0, LOOK_UNATTRIBUTED);
    assert_int_equal(surface_at(&utf8, 0, 0)->character, '?');
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
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(format_bytes(cases[i].units, true, cases[i].bytes).text, cases[i].text);
    for (int units = 0; units < UNITS; units++)
        for (uint64_t bytes = 1; bytes < 900000000000ull; bytes = bytes * 3 / 2 + 1)
            assert_int_equal(strlen(format_bytes((enum units)units, true, bytes).text),
                             bytes_columns((enum units)units));
    assert_string_equal(format_bytes(UNITS_GB, false, 0).text, "     n/a");
    assert_string_equal(format_time(28850000).text, "28.85 ms");
    assert_string_equal(format_count(1234567).text, "1,234,567");
    assert_string_equal(format_short(834304).text, "834.3 k");
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
    surface = painted(8, 1, THEME_MONO, false);
    for (int i = 0; i < 20; i++) values[i] = NAN; /* a column with one known value shows it */
    draw_sparkline(canvas_of(&surface), 0, 0, 8, STYLE_SPARK, values, 64);
    assert_text(&surface, "??▁▂▄▅▇█\n");
}

/* The help page has a row for every mark of bars, lanes and whiteboard, with the character that stands on the screen. */
static void help_explains_every_mark(void **state)
{
    (void)state;
    struct record_buffer past = {run_model_new(&(struct run_model_options){0}), history_new(0)};
    struct view_state help = {.view = VIEW_HELP};
    struct surface surface;
    assert_true(surface_init(&surface, VIEW_COLUMNS_MIN, 400, THEME_MONO, false));
    view_draw(past.model, past.history, &help, &surface);
    char *text = surface_to_text(&surface), row[80], letter[16];
    for (enum mark mark = MARK_UNKNOWN; mark < MARKS; mark++) {
        const struct mark_look look = mark_look(mark);
        if (mark == MARK_WAIT) continue;
        strcpy(letter, utf8_of(look.letter).text);
        if (look.pattern != look.letter) strcat(letter, utf8_of(look.pattern).text);
        snprintf(row, sizeof row, "\n  %s %s%-14s %.40s", letter, look.pattern == look.letter ? " " : "", look.name,
                 look.help);
        assert_true(look.help[0]);
        if (!strstr(text, row)) fail_msg("no row:%s", row);
    }
    for (int category = 0; category < CATEGORIES; category++) {
        snprintf(row, sizeof row, "\n  %c %s", category_letter((enum category)category),
                 category_name((enum category)category));
        if (!strstr(text, row)) fail_msg("no row:%s", row);
    }
    assert_non_null(strstr(text, "works on it\n")); /* the longest rows are whole */
    assert_non_null(strstr(text, "the same of NVMe\n"));
    assert_non_null(strstr(text, "\nBuckets: "));
    for (enum bucket_state of = 0; of < BUCKET_STATES; of++) {
        snprintf(row, sizeof row, " %s", bucket_looks[of].name);
        if (!strstr(strstr(text, "\nBuckets: "), row)) fail_msg("no state:%s", row);
    }
    for (const char *const *sign = (const char *const[]){"█", "▄", "▓", "░", "▒", "+", "·", "▕", "h", "n", "▇", "▌▐",
                                                         "▖▗", "≠", "║", "┃", "▸", NULL};
         *sign; sign++) {
        snprintf(row, sizeof row, "\n  %s ", *sign);
        if (!strstr(strstr(text, "Whiteboard:"), row)) fail_msg("no row:%s", row);
    }
    free(text);
    surface_release(&surface);
    history_free(past.history);
    run_model_free(past.model);
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
    assert_non_null(strstr(svg, "white-space: pre;")); /* browsers would join blanks */
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
    /* While a lab has the keys, too, but for its answers, and for n and N: the next one, and the one before. */
    for (int i = 0; i < key_count; i++) {
        const struct key_row *row = &key_table[i], *beside = key_find(row->code, KEY_MODE_ALWAYS);
        const bool answers = row->action == ACTION_LAB_CHOOSE || row->action == ACTION_LAB_ANSWER;
        if (row->modes == KEY_MODE_LAB && !answers && !strchr("nN", (int)row->code) && beside)
            fail_msg("%s has another meaning outside a lab: %s", row->label, beside->help);
    }
    assert_int_equal(key_find('3', KEY_MODE_LIVE)->action, ACTION_COMMAND);
    assert_null(key_find('3', KEY_MODE_REPLAY));
    assert_int_equal(key_find(INPUT_ESCAPE, KEY_MODE_LIVE)->action, ACTION_CLOSE);
    char *text = keys_as_markdown();
    assert_non_null(strstr(text, "| `Space` | live |"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_fits_every_size),
        cmocka_unit_test(views_draw_at_every_size),
        cmocka_unit_test(text_is_cut_at_its_canvas),
        cmocka_unit_test(odd_characters_take_one_column),
        cmocka_unit_test(paragraphs_break_between_words),
        cmocka_unit_test(bars_add_up),
        cmocka_unit_test(a_peak_of_no_known_step_has_no_number),
        cmocka_unit_test(hosts_of_ranks_are_named),
        cmocka_unit_test(bars_have_letters_and_patterns),
        cmocka_unit_test(numbers_keep_their_width),
        cmocka_unit_test(curves_span_lowest_to_highest),
        cmocka_unit_test(help_explains_every_mark),
        cmocka_unit_test(outputs_end_in_the_default_look),
        cmocka_unit_test(every_key_means_one_thing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
