/* What stands on the whiteboard: shards of all ranks make the whole, and figures are the allocators' bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/told.h"
#include "tui/view/op_text.h"

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

/* Reads a large figure of `zoom` columns and rows a dot: "4.00". */
static double read_large(const struct surface *surface, int x, int y, int zoom)
{
    static const char *const shapes[] = {"####.##.##.####", ".#.##..#..#.###", "###..#####..###", "###..####..####",
                                         "#.##.####..#..#", "####..###..####", "####..####.####", "###..#..#..#..#",
                                         "####.#####.####", "####.####..####"};
    char text[16] = "";
    for (size_t used = 0; used < 5; used++) {
        char seen[16] = "";
        for (int dot = 0; dot < 15; dot++)
            seen[dot] = ".#"[surface_at(surface, x + dot % 3 * zoom, y + dot / 3 * zoom)->character == 0x2588];
        int digit = 0;
        while (digit < 10 && strcmp(seen, shapes[digit]) != 0) digit++;
        if (digit < 10) text[used] = (char)('0' + digit);
        else if (seen[12] == '#' && seen[0] == '.') text[used] = '.';
        else break;
        x += digit < 10 ? 4 * zoom : 2 * zoom;
    }
    return *text ? strtod(text, NULL) : -1;
}

/* The form for the back row: each rank's sum, against the records. */
static void large_figures_are_the_bytes_of_the_records(void **state)
{
    enum { RANKS = 2 };
    uint64_t live[RANKS][TIERS][CATEGORIES] = {{{0}}};
    int checked = 0, number = 0;
    struct told told = begin("tests/reference/tiers.zlt");
    struct trace_record record;
    struct view_state view = {.view = VIEW_WHITEBOARD, .large = true};
    (void)state;
    while (fold_next(&told, &record)) {
        if (record.kind == TRACE_MEMORY && record.rank < RANKS)
            live[record.rank][record.memory.tier][record.memory.category] = record.memory.live_bytes;
        if (++number % 97 || !told.model->has_training) continue;
        const struct scene scene = scene_of(&told, &view);
        struct surface surface;
        struct board board;
        int y = 0;
        if (!board_init(&board, &scene, 80)) continue;
        if (!surface_init(&surface, 80, 21, THEME_MONO, false)) fail();
        view_whiteboard.draw(canvas_of(&surface), &scene);
        for (char text[COLUMNS + 1] = ""; strncmp(text, "of ", 3) != 0; y++) read_row(text, &surface, y);
        for (int rank = 0; rank < RANKS; rank++) {
            double sum = 0;
            for (int tier = 0; tier < TIERS; tier++)
                for (int array = 0; array < BOARD_ARRAYS; array++)
                    sum += (double)live[rank][tier][board_categories[array]] / (double)told.model->header.parameters;
            const double shown = read_large(&surface, BOARD_LABEL + rank * board.column, y - 1, 1);
            if (shown < 0) continue; /* not all is known yet */
            assert_float_equal(shown, sum, sum < 9.995 ? 0.0051 : 0.051);
            checked++;
        }
        surface_release(&surface);
    }
    assert_true(checked > 40);
    end(&told);
}

/* ---- groups ---- */

static int column_of(const struct surface *surface, const struct board *board, int column, char text[COLUMNS + 1])
{
    const int from = BOARD_LABEL + column * board->column;
    read_row(text, surface, 3); /* below the edge of the boxes */
    text[from + board->column] = '\0';
    return from;
}

/* 16 ranks in 4 nodes: the chosen rank, the rest of its node, three nodes. A group's bytes are those of its largest rank, with a
 * mark where ranks differ; sums of the records say the same. */
static void groups_are_the_bytes_of_the_records(void **state)
{
    enum { RANKS = 16, CHOSEN = 5 };
    uint64_t live[RANKS][CATEGORIES] = {{0}};
    int checked = 0, marked = 0, number = 0;
    struct told told = begin("tests/reference/wide.zlt");
    struct trace_record record;
    struct view_state view = {.rank = CHOSEN};
    (void)state;
    while (fold_next(&told, &record)) {
        if (record.kind == TRACE_MEMORY && record.memory.tier == TIER_DEVICE)
            live[record.rank][record.memory.category] = record.memory.live_bytes;
        if (++number % 41 || !told.model->has_training) continue;
        const struct scene scene = scene_of(&told, &view);
        struct board board;
        struct surface surface;
        int seen[RANKS] = {0};
        if (!board_init(&board, &scene, COLUMNS)) continue;
        assert_int_equal(board.ranks, 5);
        draw(&surface, &told, CHOSEN);
        for (int c = 0; c < board.ranks; c++) {
            char text[COLUMNS + 1];
            int first, last, members = 1, counted = 0;
            const char *head = text + column_of(&surface, &board, c, text);
            if (c == 0) assert_int_equal(sscanf(head, "rank %d", &first), 1), last = first;
            else assert_int_equal(sscanf(head, "ranks %d-%d ~%d", &first, &last, &members), 3);
            uint64_t most = 0, least = UINT64_MAX, shown = 0;
            for (int rank = first; rank <= last; rank++) {
                uint64_t bytes = 0;
                if (c > 0 && rank == CHOSEN) continue;
                for (int k = 0; k < CATEGORIES; k++) bytes += live[rank][k];
                if (bytes > most) most = bytes;
                if (bytes < least) least = bytes;
                seen[rank]++;
                counted++;
            }
            const char *unit = strstr(head, " B"), *at = unit;
            if (!unit) continue; /* nothing is known yet */
            assert_int_equal(counted, members);
            while (at[-1] == ',' || (at[-1] >= '0' && at[-1] <= '9')) at--;
            for (; at < unit; at++)
                if (*at != ',') shown = 10 * shown + (uint64_t)(*at - '0');
            assert_int_equal(shown, most);
            assert_int_equal(surface_at(&surface, (int)(unit - text) + 2, 3)->character == 0x2260, most != least);
            marked += most != least;
            checked++;
        }
        for (int rank = 0; rank < RANKS; rank++) assert_int_equal(seen[rank], 1);
        surface_release(&surface);
    }
    assert_true(checked > 50 && marked > 10 && marked < checked);
    end(&told);
}

/* At rest, the shards of the columns make the whole, each half of a column of the screen once. */
static void tiles_of_groups_make_the_whole(void **state)
{
    struct told told = begin("tests/reference/wide.zlt");
    struct trace_record record;
    struct surface surface;
    struct view_state view = {.rank = 5};
    struct board board;
    (void)state;
    while (fold_next(&told, &record))
        ;
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    draw(&surface, &told, 5);
    for (int x = 0; x < board.tile; x++) {
        int halves = 0;
        for (int c = 0; c < board.ranks; c++) {
            const uint32_t sign = surface_at(&surface, BOARD_LABEL + c * board.column + x, 4)->character;
            halves += sign == 0x2588 ? 2 : sign == 0x258c || sign == 0x2590 ? 1 : 0;
        }
        assert_int_equal(halves, 2);
    }
    surface_release(&surface);
    end(&told);
}

/* Rows are as tall as the unit is large, and fill a large screen; a unit of less than half a row says its size. */
static void rows_are_to_scale(void **state)
{
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct surface surface;
    int rows[6] = {0}, unit = -1, blank = 0, y = 3;
    char text[COLUMNS + 1];
    (void)state;
    while (fold_next(&told, &record))
        ;
    draw(&surface, &told, 0);
    for (;; y++) {
        read_row(text, &surface, y);
        if (!strncmp(text, "link", 4)) break;
        unit += text[0] != ' ';
        if (y == 3) assert_non_null(strstr(text, "embed"));
        rows[unit] += text[BOARD_LABEL] != ' ';
        if (unit == 5) assert_memory_equal(text, "norm    ", 8);
    }
    assert_int_equal(unit, 5);
    assert_true(rows[1] >= 4); /* a block */
    for (int u = 0; u < 6; u++) {
        const int64_t elems = told.model->header.units[u].elems, most = told.model->header.units[1].elems;
        const int wanted = (int)((double)elems / (double)most * rows[1] + 0.5);
        assert_int_equal(rows[u], wanted > 0 ? wanted : 1);
    }
    for (; y < ROWS; y++) {
        read_row(text, &surface, y);
        blank += text[strspn(text, " ")] == '\0';
    }
    assert_true(blank < 10);
    surface_release(&surface);
    end(&told);
}

/* After a step the lanes show its operations alone: a validation follows this one. */
static void lanes_end_with_the_step(void **state)
{
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct surface surface;
    char text[COLUMNS + 1] = "";
    (void)state;
    while (fold_next(&told, &record))
        ;
    draw(&surface, &told, 0);
    for (int y = 0; y < ROWS && strncmp(text, " op ", 4) != 0; y++) read_row(text, &surface, y);
    while (*text && text[strlen(text) - 1] == ' ') text[strlen(text) - 1] = '\0';
    const struct run_step *last = run_last_step(told.model);
    const struct run_schedule *plan = run_schedule_numbered(told.model, last->schedule);
    assert_int_equal(strtol(strrchr(text, ' '), NULL, 10), plan->ops.op_count - 1);
    surface_release(&surface);
    end(&told);
}

/* In however many rows: all units have a row, in order, and none is below the last row. */
static void rows_fit(void **state)
{
    static const char *const paths[] = {"docs/example.zlt", "tests/reference/wide.zlt", "tests/reference/deep.zlt"};
    (void)state;
    for (int p = 0; p < 3; p++) {
        struct told told = begin(paths[p]);
        struct trace_record record;
        struct view_state view = {0};
        struct board board;
        while (fold_next(&told, &record))
            if (record.kind == TRACE_OP_BEGIN && record.op_begin.op > 30) break;
        const struct scene scene = scene_of(&told, &view);
        assert_true(board_init(&board, &scene, COLUMNS));
        for (int chosen = 0; chosen < board.units; chosen++)
            for (int rows = 1; rows < 70; rows++) {
                struct board_rows out;
                int next = 0;
                view.row[VIEW_WHITEBOARD] = chosen;
                board_group_units(&out, rows, &board);
                for (int i = 0; i < out.count; next += out.row[i++].units.count) {
                    assert_int_equal(out.row[i].units.first, next);
                    assert_true(out.row[i].y + out.row[i].height <= rows);
                }
                assert_int_equal(next, board.units);
                assert_true(out.used <= rows);
            }
        end(&told);
    }
}

/* Small tensors stay gathered: at rest, every rank has the end of a block's parameters, and all of norm's. */
static void persistent_parameters_are_on_every_rank(void **state)
{
    struct told told = begin("tests/reference/wide.zlt");
    struct trace_record record;
    struct surface surface;
    struct view_state view = {.rank = 5};
    struct board board;
    int from, last;
    (void)state;
    while (fold_next(&told, &record))
        ;
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    board_span(&board, 0, &from, &last);
    draw(&surface, &told, 5);
    for (int y = 3, wanted = 0; wanted < 3; y++) {
        char text[COLUMNS + 1];
        read_row(text, &surface, y);
        if (strncmp(text, wanted < 2 ? "block" : "norm", 4) != 0) continue;
        for (int c = 0; c < board.ranks; c++)
            for (int x = wanted < 2 ? last - 1 : from; x < last; x++)
                assert_int_not_equal(surface_at(&surface, BOARD_LABEL + c * board.column + x, y)->character, 0xb7);
        const uint32_t before = surface_at(&surface, BOARD_LABEL + last - 3, y)->character;
        assert_int_equal(before == 0xb7, wanted < 2); /* a small part of a block only */
        wanted++;
    }
    surface_release(&surface);
    end(&told);
}

/* A letter before an array says where it is kept, as the records do, where that is another tier than before. */
static void dividers_are_the_tiers_of_the_records(const char *path, uint32_t step, const char *wanted)
{
    uint64_t live[TIERS][CATEGORIES] = {{0}};
    struct told told = begin(path);
    struct trace_record record;
    struct surface surface;
    struct view_state view = {.rank = 1};
    struct board board;
    char letters[BOARD_ARRAYS + 1] = "   ";
    int before = TIER_DEVICE;
    while (fold_next(&told, &record)) {
        if (record.kind == TRACE_MEMORY && record.rank == 1)
            live[record.memory.tier][record.memory.category] = record.memory.live_bytes;
        if (record.kind == TRACE_STEP_END && record.rank == 1 && record.step_end.step == step) break;
    }
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    draw(&surface, &told, 1);
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        int from, last, most = 0;
        board_span(&board, array, &from, &last);
        for (int tier = 1; tier < TIERS; tier++)
            if (live[tier][board_categories[array]] > live[most][board_categories[array]]) most = tier;
        const uint32_t sign = surface_at(&surface, BOARD_LABEL + board.column + from - 1, 3)->character;
        if (most != before) assert_int_equal(sign, (uint32_t) "dhn"[most]), letters[array] = (char)sign;
        assert_true(array == 0 || most != before || sign > 0x7f); /* no letter between arrays of one tier */
        before = most;
    }
    assert_string_equal(letters, wanted);
    surface_release(&surface);
    end(&told);
}

static void tiers_are_told_apart(void **state)
{
    (void)state;
    dividers_are_the_tiers_of_the_records("docs/example.zlt", STEP, "   ");
    dividers_are_the_tiers_of_the_records("tests/reference/tiers.zlt", 4, " h ");
    dividers_are_the_tiers_of_the_records("tests/reference/tiers.zlt", 6, "nhn");
}

/* The units that the labels name, one by one: 1 of a row of its own, 2 of a group. Each is named once. */
static void read_labels(int named[50], const struct surface *surface)
{
    memset(named, 0, 50 * sizeof *named);
    for (int y = 3;; y++) {
        char text[COLUMNS + 1];
        int first, last;
        read_row(text, surface, y);
        text[BOARD_LABEL] = '\0';
        if (!strncmp(text, "link", 4)) break;
        const char *digits = text + strcspn(text, "0123456789");
        const int found = sscanf(digits, "%d-%d", &first, &last);
        if (!strncmp(text, "embed", 5)) first = last = -1;
        else if (!strncmp(text, "norm", 4)) first = last = 48;
        else if (found < 1) continue;
        else if (found == 1) last = first;
        for (int block = first; block <= last; block++) {
            assert_int_equal(named[block + 1], 0);
            named[block + 1] = first == last ? 1 : 2;
        }
    }
    for (int unit = 0; unit < 50; unit++) assert_int_not_equal(named[unit], 0);
}

/* 48 layers: the block in use and its neighbours have rows of their own, and the rows seldom move. */
static void rows_stay_around_the_block_in_use(void **state)
{
    static const int heights[] = {24 - 3, 40 - 3};
    for (int h = 0; h < 2; h++) {
        struct told told = begin("tests/reference/deep.zlt");
        struct trace_record record;
        struct view_state view = {.units = UNITS_GIB, .view = VIEW_WHITEBOARD};
        int named[50], before[50] = {0}, moved = 0, checked = 0;
        while (fold_next(&told, &record)) {
            if (record.kind != TRACE_OP_BEGIN || record.rank != 0) continue;
            const struct scene scene = scene_of(&told, &view);
            const struct progress at = progress_of(told.model, 0);
            struct surface surface;
            if (!at.plan) continue;
            const struct op *op = &at.plan->ops.ops[record.op_begin.op];
            if (!at.open || op->lane != LANE_COMPUTE || op->unit < 0) continue;
            if (!surface_init(&surface, h ? 120 : 80, heights[h], THEME_MONO, false)) fail();
            view_whiteboard.draw(canvas_of(&surface), &scene);
            read_labels(named, &surface);
            surface_release(&surface);
            const int low = op->unit < 1 ? 0 : op->unit - 1, high = op->unit > 48 ? 49 : op->unit + 1;
            for (int unit = low; unit <= high; unit++) assert_int_equal(named[unit], 1);
            moved += checked++ && memcmp(named, before, sizeof named);
            memcpy(before, named, sizeof before);
        }
        assert_true(checked > 90 && moved > 3 && (h == 0 || moved < 16)); /* the small screen shows three blocks */
        end(&told);
    }
    (void)state;
}

/* Hybrid sharding: the ranks of a node make the whole, and the other node has it again, rank by rank. */
static void replicas_hold_the_same(void **state)
{
    struct told told = begin("tests/reference/hybrid.zlt");
    struct trace_record record;
    struct surface surface;
    struct view_state view = {0};
    struct board board;
    char text[COLUMNS + 1];
    (void)state;
    while (fold_next(&told, &record))
        ;
    const struct scene scene = scene_of(&told, &view);
    assert_true(board_init(&board, &scene, COLUMNS));
    assert_int_equal(board.shards, 2);
    draw(&surface, &told, 0);
    for (int x = 0; x < board.tile; x++) {
        uint32_t sign[4];
        for (int r = 0; r < 4; r++)
            sign[r] = surface_at(&surface, BOARD_LABEL + r * board.column + x, 4)->character;
        assert_true(sign[0] == sign[2] && sign[1] == sign[3] && (sign[0] == 0x2588) != (sign[1] == 0x2588));
    }
    read_row(text, &surface, 3);
    assert_non_null(strstr(text, "rank 2 = 0 "));
    assert_non_null(strstr(text, "rank 3 = 1 "));
    assert_null(strstr(text, "rank 1 ="));
    read_row(text, &surface, 2);
    assert_non_null(strstr(text, " node 1, replicas of node 0 "));
    surface_release(&surface);
    end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_of_all_ranks_make_the_whole),
        cmocka_unit_test(figures_are_the_bytes_of_the_records),
        cmocka_unit_test(large_figures_are_the_bytes_of_the_records),
        cmocka_unit_test(groups_are_the_bytes_of_the_records),
        cmocka_unit_test(tiles_of_groups_make_the_whole),
        cmocka_unit_test(replicas_hold_the_same),
        cmocka_unit_test(rows_are_to_scale),
        cmocka_unit_test(lanes_end_with_the_step),
        cmocka_unit_test(rows_fit),
        cmocka_unit_test(persistent_parameters_are_on_every_rank),
        cmocka_unit_test(tiers_are_told_apart),
        cmocka_unit_test(rows_stay_around_the_block_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
