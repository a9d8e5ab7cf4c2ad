/* What moves on the whiteboard, and what is said of it: moments are the records, packets travel, the operation under way is lit, and
 * every moment has a sentence with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/told.h"
#include "tui/view/op_text.h"

/* At every record of a step: the number of moments is that of begins and ends so far, and there is a whole sentence. */
static void every_moment_is_counted_and_has_a_sentence(const char *path, uint32_t step)
{
    struct told told = begin(path);
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    char sentence[SENTENCE_ROOM], before[SENTENCE_ROOM] = "";
    int moments = 0, begun = 0, different = 0;
    while (fold_next(&told, &record)) {
        const bool of_op = record.kind == TRACE_OP_BEGIN || record.kind == TRACE_OP_END;
        const uint32_t at = record.kind == TRACE_OP_BEGIN ? record.op_begin.step : of_op ? record.op_end.step : 0;
        if (!of_op || record.rank != 0 || at != step) continue;
        moments++;
        begun += record.kind == TRACE_OP_BEGIN;
        const struct scene scene = scene_of(&told, &view);
        struct board board;
        struct surface surface;
        char text[COLUMNS + 1] = "", wanted[40];
        assert_true(board_init(&board, &scene, COLUMNS));
        if (!board.at.open) continue; /* the step's last records may come behind its end */
        board_sentence(sentence, &board);
        assert_true(strlen(sentence) > 10);
        assert_null(strchr(sentence, '{'));
        assert_int_equal(sentence[strlen(sentence) - 1], '.');
        different += strcmp(sentence, before) != 0;
        strcpy(before, sentence);
        draw(&surface, &told, 0);
        snprintf(wanted, sizeof wanted, " operations begun, %d ended", moments - begun);
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

static void sentences_of_groups(void **state)
{
    (void)state;
    every_moment_is_counted_and_has_a_sentence("tests/reference/hybrid.zlt", 2);
    every_moment_is_counted_and_has_a_sentence("tests/reference/zeropp.zlt", 2);
    every_moment_is_counted_and_has_a_sentence("tests/reference/hops.zlt", 2);
}

/* Whether a row that begins with `name` has a packet of a rank's operation, by its bracket and its arrow. */
static bool has_packet(const struct surface *surface, const char *name, int from, int end)
{
    char text[COLUMNS + 1];
    int y = 0;
    do read_row(text, surface, y++);
    while (strncmp(text, name, strlen(name)) && y < ROWS);
    for (int x = from; x < end && x < COLUMNS; x++)
        if (surface_at(surface, x, y - 1)->character == 0x25b8) return true;
    return false;
}

/* A link is in use exactly if the group of the operation has ranks at both of its ends, and the sentence names them. */
static void links_are_used_by_their_groups(const char *path)
{
    struct told told = begin(path);
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    int apart = 0, together = 0;
    while (fold_next(&told, &record)) {
        if (record.kind != TRACE_OP_BEGIN || record.rank != 0 || record.op_begin.step != 2) continue;
        const struct scene scene = scene_of(&told, &view);
        struct board board;
        struct surface surface;
        char sentence[SENTENCE_ROOM];
        assert_true(board_init(&board, &scene, COLUMNS));
        const struct op *op = &board.at.plan->ops.ops[record.op_begin.op];
        if (op->lane != LANE_COMM || op->kind == OP_AGREE) continue;
        const bool near = op->group == GROUP_SHARDS || op->group == GROUP_PARTITION || op->group == GROUP_NODE,
                   far = op->group == GROUP_REPLICAS || op->group == GROUP_ACROSS;
        draw(&surface, &told, 0);
        assert_int_equal(has_packet(&surface, "in node", 0, BOARD_LABEL + 2 * board.column), !far);
        assert_int_equal(has_packet(&surface, "between", 0, COLUMNS), !near);
        board_sentence(sentence, &board);
        if (near) assert_non_null(strstr(sentence, " Group: ranks 0 and 1"));
        if (far) assert_non_null(strstr(sentence, " Group: ranks 0 and 2"));
        apart += far;
        together += near;
        surface_release(&surface);
    }
    assert_true(apart >= 4 && together >= 4);
    end(&told);
}

static void links_of_groups(void **state)
{
    (void)state;
    links_are_used_by_their_groups("tests/reference/hybrid.zlt");
    links_are_used_by_their_groups("tests/reference/zeropp.zlt");
    links_are_used_by_their_groups("tests/reference/hops.zlt");
}

/* The error of what is being quantized is that of the records: of all ranks, in this step. */
static void quantizing_says_its_error(void **state)
{
    struct told told = begin("tests/reference/zeropp.zlt");
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    double largest[2][64] = {{0}}, squares[2][64] = {{0}}, elems[2][64] = {{0}};
    int checked = 0;
    (void)state;
    while (fold_next(&told, &record)) {
        const struct trace_of_quantized *of = &record.quantized;
        if (record.kind == TRACE_QUANTIZED && of->step == 2) {
            largest[of->gradient][of->unit] = fmax(largest[of->gradient][of->unit], of->largest);
            squares[of->gradient][of->unit] += of->squares;
            elems[of->gradient][of->unit] += (double)of->elems;
        }
        if (record.kind != TRACE_OP_END || record.rank != 0 || record.op_end.step != 2) continue;
        const struct scene scene = scene_of(&told, &view);
        struct board board;
        char sentence[SENTENCE_ROOM], wanted[64];
        assert_true(board_init(&board, &scene, COLUMNS));
        const struct op *op = &board.at.plan->ops.ops[record.op_end.op];
        if (op->kind != OP_QUANTIZE || op->unit < 0 || board.newest != (int)record.op_end.op) continue;
        board_sentence(sentence, &board);
        snprintf(wanted, sizeof wanted, " In step 2: largest error %.2g, RMS %.2g, relative ", largest[0][op->unit],
                 sqrt(squares[0][op->unit] / elems[0][op->unit]));
        if (!strstr(sentence, wanted)) fail_msg("no \"%s\" in \"%s\"", wanted, sentence);
        checked++;
    }
    assert_true(checked >= 3);
    end(&told);
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

/* Where the packet of an operation is drawn, from 0 to 1 of its way; -1: nowhere. */
static double packet_at(const struct told *told, uint64_t motion_ns)
{
    struct view_state state = {.view = VIEW_WHITEBOARD, .units = UNITS_BYTES, .motion_ns = motion_ns};
    const struct scene scene = scene_of(told, &state);
    struct surface surface;
    double at = -1;
    char text[COLUMNS + 1];
    if (!surface_init(&surface, COLUMNS, ROWS, THEME_MONO, true)) fail();
    view_whiteboard.draw(canvas_of(&surface), &scene);
    for (int y = 0; y < ROWS && at < 0; y++) {
        read_row(text, &surface, y);
        const char *packet = strpbrk(text, "[(");
        const int columns = packet ? (int)strcspn(packet, "])") + 2 : 0;
        if (strncmp(text, "link", 4) || !packet) continue;
        at = (double)(packet - text - BOARD_LABEL) / (COLUMNS - BOARD_LABEL - columns);
    }
    surface_release(&surface);
    return at;
}

/* A packet is where its operation's time is: by its end where that is known, else by the step before, and then never quite there. */
static void packets_travel(void **state)
{
    struct told told = begin("docs/example.zlt"), newest = begin("docs/example.zlt");
    struct trace_record record;
    const struct run_lane *comm = NULL;
    (void)state;
    while (fold_next(&newest, &record))
        ;
    while (fold_next(&told, &record))
        if (record.kind == TRACE_OP_BEGIN && record.rank == 0 && record.op_begin.step == STEP) {
            comm = &told.model->rank[0].lane[LANE_COMM];
            if (comm->busy && comm->op == record.op_begin.op) break;
        }
    const int64_t before = history_span_of(told.history, 0, LANE_COMM, STEP - 1, comm->op);
    const struct span *span = history_span(told.history, 0, LANE_COMM, before);
    assert_non_null(span);
    const uint64_t begun_ns = comm->started_ns, guessed_ns = span->ended_ns - span->started_ns;
    assert_float_equal(packet_at(&told, begun_ns + guessed_ns / 2), 0.5, 0.02);
    assert_float_equal(packet_at(&told, begun_ns + guessed_ns * 20), 0.9, 0.02);
    span = history_span(newest.history, 0, LANE_COMM, history_span_of(newest.history, 0, LANE_COMM, STEP, comm->op));
    const struct told known = {told.model, newest.history, NULL};
    assert_non_null(span);
    for (int i = 1; i <= 4; i++)
        assert_float_equal(packet_at(&known, begun_ns + (span->ended_ns - begun_ns) * (uint64_t)i / 4), i / 4.0, 0.02);
    end(&told);
    end(&newest);
}

/* The cell of the first rank's column, between its bars, with this character; *text: the row from there on. False: there is none. */
static bool find_transfer(const struct told *told, uint64_t motion_ns, uint32_t sign, int *x, int *row,
                          char text[COLUMNS + 1])
{
    struct view_state state = {.view = VIEW_WHITEBOARD, .units = UNITS_BYTES, .motion_ns = motion_ns};
    const struct scene scene = scene_of(told, &state);
    struct surface surface;
    struct board board;
    bool found = false;
    int bar = 0;
    assert_true(board_init(&board, &scene, COLUMNS));
    if (!surface_init(&surface, COLUMNS, ROWS, THEME_MONO, false)) fail();
    view_whiteboard.draw(canvas_of(&surface), &scene);
    for (int y = 0; y < ROWS && !found; y++) {
        read_row(text, &surface, y);
        if (!strncmp(text, "device", 6) || !strncmp(text, "host", 4)) bar = y;
        for (*x = BOARD_LABEL; *x < BOARD_LABEL + board.column && bar && !found; ++*x)
            found = surface_at(&surface, *x, y)->character == sign;
        *row = y - bar - 1;
        if (found) text[BOARD_LABEL + board.column] = '\0', memmove(text, text + *x, strlen(text + *x) + 1);
    }
    surface_release(&surface);
    return found;
}

/* A transfer goes down, or comes up, through the rows between two tiers as its operation's time passes, with its bytes. */
static void transfers_travel(void **state)
{
    static const struct {
        enum lane lane;
        uint32_t sign;
        bool up;
    } ways[] = {{LANE_D2H, 0x25bc, false},
                {LANE_H2D, 0x25b2, true},
                {LANE_NVME_WRITE, 0x25ba, false},
                {LANE_NVME_READ, 0x25c4, true}};
    enum { PARTS = 10, BETWEEN = 3 };
    (void)state;
    for (int w = 0; w < 4; w++) {
        struct told told = begin("tests/reference/tiers.zlt"), newest = begin("tests/reference/tiers.zlt");
        const struct told known = {told.model, newest.history, NULL};
        const struct run_lane *lane = NULL;
        struct trace_record record;
        while (fold_next(&newest, &record))
            ;
        while (fold_next(&told, &record))
            if (record.kind == TRACE_OP_BEGIN && record.rank == 0 && record.op_begin.step == 8) {
                lane = &told.model->rank[0].lane[ways[w].lane];
                if (lane->busy && lane->op == record.op_begin.op) break;
            }
        const struct span *span = history_span(newest.history, 0, ways[w].lane,
                                               history_span_of(newest.history, 0, ways[w].lane, 8, lane->op));
        const struct op *op = &progress_of(told.model, 0).plan->ops.ops[lane->op];
        int before = -1;
        assert_non_null(span);
        for (int i = 0; i < PARTS; i++) {
            char text[COLUMNS + 1];
            int x, row;
            const double done = (i + 0.5) / PARTS, depth = ways[w].up ? 1 - done : done;
            const uint64_t at_ns = lane->started_ns + (uint64_t)(done * (double)(span->ended_ns - lane->started_ns));
            assert_true(find_transfer(&known, at_ns, ways[w].sign, &x, &row, text));
            assert_int_equal(row, (int)(depth * BETWEEN));
            if (before >= 0) assert_true(ways[w].up ? x <= before : x >= before);
            before = x;
            const struct text bytes = format_bytes_bare(UNITS_BYTES, (uint64_t)op->bytes);
            if (!strstr(text, bytes.text)) fail_msg("no %s in %s", bytes.text, text);
        }
        end(&told);
        end(&newest);
    }
}

/* 16 ranks in 4 nodes: a line stands where a column's ranks are of another node than those before it, and each kind of link shows
 * what goes over it: 3 of the 15 other ranks are in a node. */
static void nodes_are_apart(void **state)
{
    enum { NODE = 4, RANKS = 16 };
    struct told told = begin("tests/reference/wide.zlt");
    struct trace_record record;
    struct view_state view = {.rank = 5};
    const struct scene scene = scene_of(&told, &view);
    int checked = 0;
    (void)state;
    while (fold_next(&told, &record)) {
        struct board board;
        struct surface surface;
        const char *plan;
        int y = 3;
        if (record.kind != TRACE_OP_BEGIN || record.rank != 5 || !board_init(&board, &scene, COLUMNS)) continue;
        const struct op *op = &board.at.plan->ops.ops[record.op_begin.op];
        if (op->lane != LANE_COMM || op->kind == OP_AGREE || !board.at.open) continue;
        char rows[2][COLUMNS + 1];
        draw(&surface, &told, 5);
        for (read_row(rows[0], &surface, y); strncmp(rows[0], "in node", 7) != 0; read_row(rows[0], &surface, ++y))
            for (int c = 1; c < board.ranks; c++) {
                const int node = board.group[c - 1].count == 1 ? 5 / NODE : board.group[c - 1].first / NODE;
                const uint32_t sign = surface_at(&surface, BOARD_LABEL + c * board.column - 1, y)->character;
                assert_int_equal(sign == 0x2551, board.group[c].first / NODE != node);
            }
        read_row(rows[1], &surface, y + 1);
        assert_memory_equal(rows[1], "between", 7);
        for (int link = 0; link < 2; link++) {
            const int64_t others = link ? RANKS - NODE : NODE - 1;
            const struct text bytes = format_bytes_bare(UNITS_BYTES, (uint64_t)(op->sent_bytes * others / (RANKS - 1)));
            plan = strstr(rows[link], "plan ");
            if (plan) plan += strncmp(plan + 5, "sends ", 6) ? 5 : 11;
            assert_true(plan && !strncmp(plan, bytes.text, strlen(bytes.text)));
        }
        surface_release(&surface);
        checked++;
    }
    assert_true(checked > 10);
    end(&told);
}

/* The sentence of a gather gives the planner's reason, and only that. */
static void gathers_say_what_held_them(void **state)
{
    static const char *const said[] = {[HELD_NONE] = NULL,
                                       [HELD_BUCKET] = "Not earlier: what was gathered ahead had reached its limit",
                                       [HELD_LIVE] = "Not earlier: gathered parameters would have passed",
                                       [HELD_AGAIN] = "Not earlier: the unit was in use"};
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    struct board board;
    char sentence[SENTENCE_ROOM];
    struct scene scene;
    (void)state;
    while (fold_next(&told, &record))
        if (record.kind == TRACE_OP_BEGIN && record.rank == 0 && record.op_begin.step == STEP) {
            scene = scene_of(&told, &view);
            if (board_init(&board, &scene, COLUMNS) && board.newest >= 0 &&
                board.at.plan->ops.ops[board.newest].kind == OP_GATHER)
                break;
        }
    struct op *op = &board.at.plan->ops.ops[board.newest];
    assert_int_equal(op->kind, OP_GATHER);
    for (int held = HELD_NONE; held <= HELD_AGAIN; held++) {
        op->held = (enum held_by)held;
        board_sentence(sentence, &board);
        assert_true(said[held] ? strstr(sentence, said[held]) != NULL : !strstr(sentence, "Not earlier"));
    }
    end(&told);
}

/* The array that an operation writes or uses, by its kind; -1: none. */
static int array_of(const struct op *op)
{
    switch (op->kind) {
    case OP_GATHER:
    case OP_REFRESH:
    case OP_FORWARD: return 0;
    case OP_BACKWARD:
    case OP_REDUCE_SCATTER:
    case OP_ALL_REDUCE:
    case OP_GRAD_NORM: return 1;
    case OP_UPDATE: return 2;
    default: return -1;
    }
}

static bool works_on(const struct schedule *ops, const struct op *op, int unit)
{
    for (int p = 0; p < op->piece_count; p++)
        if (ops->pieces[op->first_piece + p].unit == unit) return true;
    return !op->piece_count && (op->unit < 0 || op->unit == unit);
}

/* Of the operation that began last: cells of its units' array have another ground, and its letter stands behind the tile, on ranks
 * that have begun it, and nowhere else. In ASCII, too; a screen without colours underlines. */
static void tiles_of_the_operation_are_lit(const char *path, uint32_t step)
{
    int lit = 0, away = 0;
    struct told told = begin(path);
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    const struct scene scene = scene_of(&told, &view);
    while (fold_next(&told, &record)) {
        struct board board;
        struct surface surface[3];
        if (record.kind != TRACE_OP_BEGIN || record.rank != 0 || record.op_begin.step != step) continue;
        assert_true(board_init(&board, &scene, COLUMNS));
        const int number = (int)record.op_begin.op;
        const struct op *op = &board.at.plan->ops.ops[number];
        for (int s = 0; s < 3; s++) {
            if (!surface_init(&surface[s], COLUMNS, 24, s ? THEME_DEFAULT : THEME_MONO, s == 2)) fail();
            view_whiteboard.draw(canvas_of(&surface[s]), &scene);
        }
        for (int r = 0; r < board.ranks; r++)
            for (int unit = 0; unit < board.units; unit++) {
                const struct progress at = progress_of(told.model, r);
                const bool begun = at.step == step && at.begun[op->lane] > number;
                const int x = BOARD_LABEL + r * board.column,
                          array = begun && works_on(&board.at.plan->ops, op, unit) ? array_of(op) : -1;
                for (int a = 0; a < BOARD_ARRAYS; a++) {
                    int from, last;
                    board_span(&board, a, &from, &last);
                    for (int c = x + from; c < x + last; c++) {
                        assert_int_equal(
                            (surface_at(&surface[0], c, 3 + unit)->look.attributes & ATTRIBUTE_UNDERLINE) != 0,
                            a == array);
                        for (int s = 1; s < 3; s++)
                            assert_int_equal(surface_at(&surface[s], c, 3 + unit)->look.background == 8, a == array);
                    }
                }
                for (int s = 0; s < 3 && array >= 0; s++)
                    assert_int_equal(surface_at(&surface[s], x + board.tile, 3 + unit)->character,
                                     (uint32_t) "PGO"[array]);
                lit += array >= 0;
                away += array_of(op) >= 0 && !begun;
            }
        for (int s = 0; s < 3; s++) surface_release(&surface[s]);
    }
    assert_true(lit > 60 && away > 10);
    end(&told);
}

static void operations_are_lit(void **state)
{
    (void)state;
    tiles_of_the_operation_are_lit("docs/example.zlt", STEP);
    tiles_of_the_operation_are_lit("docs/example.zlt", 2);
}

/* Each sentence gives a reason. A gather says what it is for, what computed says what needs it, and an operation which ranks have not
 * begun it: by the records, and by the schedule. */
static void sentences_have_reasons(const char *path, uint32_t step)
{
    static const char *const reasons[] = {" for ", " before ", "to be ",
                                          " since ",
                                          " so ",
                                          " as ",
                                          " needs ",
                                          " cannot ",
                                          "Not earlier",
                                          "goes into",
                                          "stays on",
                                          "lies in",
                                          "whose",
                                          "next",
                                          ": forward",
                                          "same on",
                                          "from that",
                                          "which ",
                                          "with the parameters",
                                          "where "};
    enum { REASONS = sizeof reasons / sizeof *reasons };
    struct told told = begin(path);
    struct trace_record record;
    struct view_state view = {.units = UNITS_GIB};
    const struct scene scene = scene_of(&told, &view);
    bool begun[16][256] = {{false}};
    int gathers[2] = {0}, outputs = 0, missing = 0;
    while (fold_next(&told, &record)) {
        struct board board;
        char sentence[SENTENCE_ROOM], wanted[200];
        const bool begins = record.kind == TRACE_OP_BEGIN;
        if (!begins && record.kind != TRACE_OP_END) continue;
        const uint32_t of_step = begins ? record.op_begin.step : record.op_end.step;
        const int number = (int)(begins ? record.op_begin.op : record.op_end.op);
        if (of_step != step) continue;
        begun[record.rank][number] |= begins;
        if (record.rank != 0 || !board_init(&board, &scene, COLUMNS) || !board.at.open || board.newest != number ||
            board.newest_ended == begins)
            continue;
        const struct schedule *ops = &board.at.plan->ops;
        int reason = 0, use = number + 1, after = number + 1, late = 0;
        board_sentence(sentence, &board);
        while (reason < REASONS && !strstr(sentence, reasons[reason])) reason++;
        if (reason == REASONS) fail_msg("no reason: %s", sentence);
        while (use < ops->op_count &&
               (ops->ops[use].lane != LANE_COMPUTE || ops->ops[use].unit != ops->ops[number].unit))
            use++;
        while (after < ops->op_count && ops->ops[after].lane != LANE_COMPUTE) after++;
        if (ops->ops[number].kind == OP_GATHER) {
            const bool forward = ops->ops[use].phase == PHASE_FORWARD;
            assert_true(strstr(sentence, forward ? " for forward" : " for backward") ||
                        strstr(sentence, forward ? " that forward gives back" : " that backward gives back"));
            gathers[forward]++;
        }
        if (ops->ops[number].kind == OP_FORWARD && !begins) {
            snprintf(wanted, sizeof wanted, " is done: %s needs its output",
                     op_text(told.model, board.at.plan->number, after).text);
            assert_non_null(strstr(sentence, wanted));
            outputs++;
        }
        for (int rank = 0; rank < told.model->ranks; rank++) late += !begun[rank][number];
        if (begins) assert_int_equal(late > 0, strstr(sentence, " Not begun on ") != NULL);
        for (int rank = 0; rank < told.model->ranks && begins && late && late <= 3; rank++) {
            const char *list = strstr(sentence, " Not begun on ") + 14;
            snprintf(wanted, sizeof wanted, "%d", rank);
            assert_int_equal(strstr(list, wanted) != NULL, !begun[rank][number]);
            missing++;
        }
    }
    assert_true(outputs > 5 && missing > 10 && (gathers[0] > 4) == (gathers[1] > 4));
    end(&told);
}

static void reasons_are_given(void **state)
{
    (void)state;
    sentences_have_reasons("docs/example.zlt", STEP);
    sentences_have_reasons("docs/example.zlt", 2);
    sentences_have_reasons("tests/reference/tiers.zlt", 6);
}

/* The mark of gradients on their way stands only while a bucket with a part of them is in flight. */
static void gradients_fly_only_in_flight(void **state)
{
    struct told told = begin("docs/example.zlt");
    struct trace_record record;
    struct unit_cell cells[BOARD_UNITS_MAX];
    int flying = 0, parts = 0;
    (void)state;
    while (fold_next(&told, &record)) {
        if ((record.kind != TRACE_OP_BEGIN && record.kind != TRACE_OP_END) || record.rank != 1) continue;
        const struct progress at = progress_of(told.model, 1);
        if (!at.plan || !at.open) continue;
        const struct schedule *ops = &at.plan->ops;
        const int units = units_of(ops), running = progress_running(&at, LANE_COMM);
        const struct op *op = running < 0 ? NULL : &ops->ops[running];
        cells_of(&at, cells, units);
        for (int unit = 0; unit < units; unit++) {
            bool flies = false;
            for (int p = 0; op && op->bucket >= 0 && p < op->piece_count; p++)
                flies |= ops->pieces[op->first_piece + p].unit == unit;
            assert_int_equal(cells[unit].gradient == CELL_REDUCING, flies);
            flying += flies;
            parts += !flies && cells[unit].gradient == CELL_WRITTEN;
        }
    }
    assert_true(flying > 50 && parts > 50);
    end(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentences_of_stage_3),
        cmocka_unit_test(sentences_of_nvme),
        cmocka_unit_test(sentences_of_groups),
        cmocka_unit_test(links_of_groups),
        cmocka_unit_test(quantizing_says_its_error),
        cmocka_unit_test(full_speed_is_calm),
        cmocka_unit_test(packets_travel),
        cmocka_unit_test(transfers_travel),
        cmocka_unit_test(nodes_are_apart),
        cmocka_unit_test(gathers_say_what_held_them),
        cmocka_unit_test(operations_are_lit),
        cmocka_unit_test(reasons_are_given),
        cmocka_unit_test(gradients_fly_only_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
