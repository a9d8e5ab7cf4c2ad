/* The operations of the step so far, on an axis of moments: begins and ends of the chosen rank's operations in the order in which
 * they happened, two columns each. So operations that ran beside each other stand beside each other, however short they were, and
 * nothing moves away while one steps. */
#include <stdio.h>
#include <stdlib.h>

#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"
#include "tui/view/op_text.h"
#include "tui/whiteboard/board.h"

enum { MOMENT_COLUMNS = 2, MOMENTS_MAX = 1024, NEAR = MOMENTS_MAX / 2 };

struct moment {
    uint64_t time_ns;
    int op;
    bool end;
};

struct moments {
    struct moment at[MOMENTS_MAX];
    int count, first, total; /* first: moments before these; total: of the whole step */
};

static int in_order(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    if (a->end != b->end) return a->end ? -1 : 1; /* what ends makes room for what begins */
    return a->op - b->op;
}

static void add(struct moments *moments, uint64_t time_ns, int op, bool end)
{
    if (moments->count < MOMENTS_MAX) moments->at[moments->count++] = (struct moment){time_ns, op, end};
}

static const struct span *span_of(const struct board *board, int op)
{
    const struct history *history = board->scene->history;
    const enum lane lane = board->at.plan->ops.ops[op].lane;
    return history_span(history, board->rank, lane,
                        history_span_of(history, board->rank, lane, board->at.step, (uint32_t)op));
}

/* The moments of the last NEAR operations up to now; the history may hold later ones. */
static void collect(struct moments *moments, const struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    const uint64_t now_ns = board->scene->model->now_ns;
    int newest = 0;
    for (int lane = 0; lane < LANES; lane++)
        if (board->at.begun[lane] > newest && board->at.begun[lane] <= ops->op_count) newest = board->at.begun[lane];
    *moments = (struct moments){.total = 2 * ops->op_count};
    for (int op = 0; op < ops->op_count; op++) {
        const enum lane lane = ops->ops[op].lane;
        if (op < newest - NEAR) {
            moments->first += (op < board->at.begun[lane]) + (op < board->at.ended[lane]);
            continue;
        }
        const struct span *span = board->at.step && op < board->at.begun[lane] ? span_of(board, op) : NULL;
        if (!span || span->started_ns > now_ns) continue;
        add(moments, span->started_ns, op, false);
        if (span->ended_ns && span->ended_ns <= now_ns) add(moments, span->ended_ns, op, true);
    }
    qsort(moments->at, (size_t)moments->count, sizeof *moments->at, in_order);
}

/* The last operation of each lane that has begun, by the time of its begin or its end. */
void board_find_newest(struct board *board)
{
    const uint64_t now_ns = board->scene->model->now_ns;
    uint64_t latest_ns = 0;
    board->newest = -1;
    for (int op = 0; board->at.open && op < board->at.plan->ops.op_count; op++) {
        const int begun = board->at.begun[board->at.plan->ops.ops[op].lane];
        const struct span *span = op < begun && op >= begun - NEAR ? span_of(board, op) : NULL;
        const bool is_over = span && span->ended_ns && span->ended_ns <= now_ns;
        const uint64_t at_ns = span ? (is_over ? span->ended_ns : span->started_ns) : 0;
        if (!span || at_ns > now_ns || at_ns < latest_ns) continue;
        latest_ns = at_ns;
        board->newest = op;
        board->newest_ended = is_over;
    }
}

void board_marks(char *out, size_t room, const struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    uint64_t seen = 0;
    size_t used = (size_t)snprintf(out, room, "lanes:");
    for (int i = 0; i < ops->op_count && used < room; i++) {
        const enum mark mark = mark_of_op(ops->ops[i].kind, ops->ops[i].phase, ops->ops[i].prefetch);
        const struct mark_look look = mark_look(mark);
        char letter[5];
        utf8_encode(letter, look.letter);
        if (!(seen >> mark & 1)) used += (size_t)snprintf(out + used, room - used, " %s %s ", letter, look.name);
        seen |= UINT64_C(1) << mark;
    }
}

/* The moment of an operation's begin or end after `from`; -1: it has not come. */
static int moment_of(const struct moments *moments, int from, int op, bool end)
{
    for (int m = from; m < moments->count; m++)
        if (moments->at[m].op == op && moments->at[m].end == end) return m;
    return -1;
}

static void draw_op(struct canvas canvas, int y, int from, int end, int op, bool newest, const struct board *board)
{
    const struct op *of = &board->at.plan->ops.ops[op];
    const struct mark_look look = mark_look(mark_of_op(of->kind, of->phase, of->prefetch));
    const enum style style = newest ? STYLE_SELECTED : look.style;
    const uint32_t fill = canvas.surface->ascii ? (op & 1 ? '=' : '-') : op & 1 ? 0x2592 : 0x2591;
    const bool colour = surface_look(canvas.surface, look.style).background != COLOUR_DEFAULT;
    for (int x = from; x < end; x++) draw_character(canvas, x, y, style, colour ? ' ' : fill);
    draw_character(canvas, from, y, style, look.letter);
    const char sign = of->bucket >= 0 ? (char)('0' + of->bucket % 10)
                      : of->unit >= 0 ? board_unit_sign(board, of->unit)
                                      : ' ';
    if (end - from > 1) draw_character(canvas, from + 1, y, style, (uint32_t)sign);
}

static void draw_lane(struct canvas canvas, int y, enum lane lane, int top, const struct moments *moments,
                      const struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    const int edge = BOARD_LABEL + (moments->count - top) * MOMENT_COLUMNS;
    draw_text(canvas, 0, y, STYLE_DIM, lane_name(lane));
    draw_fill(canvas, BOARD_LABEL, y, edge - BOARD_LABEL, STYLE_FRAME, 0x2500);
    for (int m = 0; m < moments->count; m++) {
        const struct moment *moment = &moments->at[m];
        if (moment->end || ops->ops[moment->op].lane != lane) continue;
        int end = moment_of(moments, m, moment->op, true);
        if (end < 0) end = moments->count;
        if (end <= top) continue;
        const int from = m < top ? top : m;
        draw_op(canvas, y, BOARD_LABEL + (from - top) * MOMENT_COLUMNS, BOARD_LABEL + (end - top) * MOMENT_COLUMNS,
                moment->op, moment->op == moments->at[moments->count - 1].op, board);
    }
    draw_character(canvas, edge, y, STYLE_CURSOR, 0x2502);
}

/* Numbers of the operations that begin, where they fit. */
static void draw_numbers(struct canvas canvas, int y, int top, const struct moments *moments)
{
    int free_from = BOARD_LABEL;
    draw_text(canvas, 0, y, STYLE_DIM, "op");
    for (int m = top; m < moments->count; m++) {
        const int x = BOARD_LABEL + (m - top) * MOMENT_COLUMNS;
        if (moments->at[m].end || moments->at[m].op % 5 != 0 || x < free_from) continue;
        free_from = draw_format(canvas, x, y, STYLE_DIM, "%d", moments->at[m].op) + 1;
    }
}

static void draw_calm(struct canvas canvas, int y, const struct board *board)
{
    char time[FORMAT_ROOM];
    struct run_recent recent = {0};
    run_recent(board->scene->model, &recent);
    draw_title(canvas, y, false, "operations");
    draw_format(canvas, 1, y + 1, STYLE_TEXT,
                "a step takes %s, too short to follow: pause with Space, then step with ,",
                format_time_bare(time, recent.steps ? recent.total_ns / (uint64_t)recent.steps : 0));
}

/* Compute and communication always; of the others, in a small window, those that do something. */
static bool is_shown(const struct board *board, enum lane lane, bool all)
{
    if (!(board->at.plan->lanes >> lane & 1)) return false;
    return all || lane <= LANE_COMM || progress_running(&board->at, lane) >= 0;
}

int board_lanes(const struct board *board)
{
    int lanes = 0;
    for (enum lane lane = 0; lane < LANES; lane++) lanes += is_shown(board, lane, true);
    return lanes;
}

int board_moments(struct canvas canvas, int y, int rows, const struct board *board)
{
    struct moments moments;
    static const char note[] = " bytes below are the plan's ";
    char title[96];
    const int room = (canvas.at.columns - BOARD_LABEL - 1) / MOMENT_COLUMNS;
    const bool all = rows >= 2 + board_lanes(board);
    if (rows < 3) return 0;
    if (board->calm) return draw_calm(canvas, y, board), 2;
    collect(&moments, board);
    snprintf(title, sizeof title, "step %u by operations, rank %d: moment %d of %d", board->at.step, board->rank,
             moments.first + moments.count, moments.total);
    const int x = draw_title(canvas, y, false, title);
    if (x + (int)sizeof note <= canvas.at.columns) draw_right(canvas, canvas.at.columns - 1, y, STYLE_DIM, note);
    /* The window moves by half, so that what is on the screen mostly stays where it is. */
    int top = 0, used = 2;
    while (moments.count - top > room) top += room / 2 + 1;
    draw_numbers(canvas, y + 1, top, &moments);
    for (enum lane lane = 0; lane < LANES && used < rows; lane++)
        if (is_shown(board, lane, all)) draw_lane(canvas, y + used++, lane, top, &moments, board);
    return rows;
}
