/* The whiteboard against what it draws: shards of all ranks make the whole, figures are the allocators' bytes, moments are the
 * records, and every moment has a sentence. */
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
#include "tui/whiteboard/board.h"

enum { STEP = 7, COLUMNS = 200, ROWS = 60 };

struct told {
    struct run_model *model;
    struct history *history;
    struct source *source;
};

static struct told begin(const char *path)
{
    struct told told = {run_model_new(&(struct run_model_options){0}), history_new(0), NULL};
    struct error err;
    if (source_open_file(&told.source, path, &err)) fail_msg("%s", err.text);
    return told;
}

static bool fold_next(struct told *told, struct trace_record *record)
{
    if (source_next(told->source, record) != SOURCE_RECORD) return false;
    run_model_fold(told->model, record);
    history_fold(told->history, told->model, record);
    return true;
}

static void end(struct told *told)
{
    source_close(told->source);
    history_free(told->history);
    run_model_free(told->model);
}

static struct scene scene_of(const struct told *told, const struct view_state *state)
{
    return (struct scene){told->model, told->history, state};
}

static void draw(struct surface *surface, const struct told *told, int rank)
{
    struct view_state state = {.view = VIEW_WHITEBOARD, .rank = rank, .units = UNITS_BYTES};
    const struct scene scene = scene_of(told, &state);
    if (!surface_init(surface, COLUMNS, ROWS, THEME_MONO, false)) fail();
    view_whiteboard.draw(canvas_of(surface), &scene);
}

/* Between two steps at stage 3 each column of a tile is kept by one rank: 4 ranks, 2 columns a byte. */
static void tiles_of_all_ranks_make_the_whole(void **state)
{
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct surface surface;
    struct view_state view = {0};
    struct board board;
    (void)state;
    while (fold_next(&told, &record))
        ;
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    assert_int_equal(board.ranks, 4);
    assert_int_equal(board.at.plan->stage, 3);
    draw(&surface, &told, 0);
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        int from, last;
        board_span(&board, array, &from, &last);
        assert_int_equal((last - from) % 4, 0);
        for (int x = from; x < last; x++) {
            int keepers = 0;
            for (int r = 0; r < 4; r++) {
                const uint32_t sign = surface_at(&surface, BOARD_LABEL + r * board.column + x, 4)->character;
                assert_true(sign == 0x2588 || sign == 0xb7); /* kept, or not here */
                keepers += sign == 0x2588;
            }
            assert_int_equal(keepers, 1);
        }
    }
    surface_release(&surface);
    end(&told);
}

static void read_row(char text[COLUMNS + 1], const struct surface *surface, int y)
{
    for (int x = 0; x < COLUMNS; x++) {
        const uint32_t sign = surface_at(surface, x, y)->character;
        text[x] = sign < 0x80 ? (char)sign : '~';
    }
    text[COLUMNS] = '\0';
}

/* The row of figures, against sums of the records themselves. */
static void figures_are_the_bytes_of_the_records(void **state)
{
    uint64_t live[TIERS][CATEGORIES] = {{0}};
    int checked = 0, number = 0;
    struct told told = begin("tests/reference/tiers.zlt"); /* offload from step 3 on */
    struct trace_record record;
    (void)state;
    for (const int rank = 1; fold_next(&told, &record); number++) {
        if (record.kind == TRACE_MEMORY && record.rank == rank)
            live[record.memory.tier][record.memory.category] = record.memory.live_bytes;
        if (number % 97 || !told.model->has_training || !told.model->header.parameters) continue;
        struct surface surface;
        char text[COLUMNS + 1];
        double shown[3], sum;
        draw(&surface, &told, rank);
        read_row(text, &surface, 1);
        surface_release(&surface);
        const char *p = strstr(text, "P "), *g = strstr(text, "G "), *o = strstr(text, "O "),
                   *equals = strstr(text, "= ");
        if (!p || !g || !o || !equals || strstr(text, "n/a")) continue;
        shown[0] = strtod(p + 2, NULL), shown[1] = strtod(g + 2, NULL), shown[2] = strtod(o + 2, NULL);
        sum = strtod(equals + 2, NULL);
        static const enum category of[] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};
        double whole = 0;
        for (int a = 0; a < 3; a++) {
            uint64_t bytes = 0;
            for (int tier = 0; tier < TIERS; tier++) bytes += live[tier][of[a]];
            const double each = (double)bytes / (double)told.model->header.parameters;
            assert_float_equal(shown[a], each, 0.0051);
            whole += each;
        }
        assert_float_equal(sum, whole, 0.0051);
        checked++;
    }
    assert_true(checked > 20);
    end(&told);
}

/* At every record of a step: the number of moments is that of begins and ends so far, and there is a whole sentence. */
static void every_moment_is_counted_and_has_a_sentence(const char *path, uint32_t step)
{
    struct told told = begin(path);
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    char sentence[SENTENCE_ROOM], before[SENTENCE_ROOM] = "";
    int moments = 0, different = 0;
    while (fold_next(&told, &record)) {
        const bool of_op = record.kind == TRACE_OP_BEGIN || record.kind == TRACE_OP_END;
        const uint32_t at = record.kind == TRACE_OP_BEGIN ? record.op_begin.step : of_op ? record.op_end.step : 0;
        if (!of_op || record.rank != 0 || at != step) continue;
        moments++;
        const struct scene scene = scene_of(&told, &view);
        struct board board;
        struct surface surface;
        char text[COLUMNS + 1] = "", wanted[32];
        assert_true(board_init(&board, &scene, COLUMNS));
        if (!board.at.open) continue; /* the step's last records may come behind its end */
        board_sentence(sentence, &board);
        assert_true(strlen(sentence) > 10);
        assert_null(strchr(sentence, '{'));
        assert_int_equal(sentence[strlen(sentence) - 1], '.');
        different += strcmp(sentence, before) != 0;
        strcpy(before, sentence);
        draw(&surface, &told, 0);
        snprintf(wanted, sizeof wanted, ": moment %d of ", moments);
        int y = 0;
        while (y < ROWS && !strstr(text, wanted)) read_row(text, &surface, y++);
        if (!strstr(text, wanted)) fail_msg("no \"%s\"", wanted);
        surface_release(&surface);
    }
    assert_true(moments > 40 && different > moments / 2);
    end(&told);
}

static void sentences_of_stage_3(void **state)
{
    (void)state;
    every_moment_is_counted_and_has_a_sentence("docs/example.zlt", STEP);
}

static void sentences_of_nvme(void **state)
{
    (void)state;
    every_moment_is_counted_and_has_a_sentence("tests/reference/tiers.zlt", 6);
}

/* At full speed nothing of a step is drawn: what is seen must last long enough to be seen. */
static void full_speed_is_calm(void **state)
{
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct view_state view = {.live = true};
    struct board board;
    char sentence[SENTENCE_ROOM];
    (void)state;
    while (fold_next(&told, &record))
        if (record.kind == TRACE_OP_BEGIN && record.op_begin.step == STEP && record.op_begin.op == 20) break;
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    assert_true(board.calm);
    board_sentence(sentence, &board);
    assert_non_null(strstr(sentence, "Between steps"));
    view.behind = true; /* looking back, one moment stands */
    assert_true(board_init(&board, &scene, COLUMNS));
    assert_false(board.calm);
    end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_of_all_ranks_make_the_whole),
        cmocka_unit_test(figures_are_the_bytes_of_the_records),
        cmocka_unit_test(sentences_of_stage_3),
        cmocka_unit_test(sentences_of_nvme),
        cmocka_unit_test(full_speed_is_calm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
