/* The operations of the step so far, on the timeline's axis of moments: operations that ran at the same time stand above
 * each other, however short they were, and most of them stay in place while the user steps. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"
#include "tui/whiteboard/board.h"

/* NULL: no operation of it is kept. */
static const struct history_step *step_of(const struct board *board)
{
    return board->at.step ? history_step_numbered(board->scene->history, board->at.step) : NULL;
}

void board_find_newest(struct board *board)
{
    const struct selection newest = timeline_newest(board->scene, board->at.open ? step_of(board) : NULL, board->rank);
    board->newest = newest.known ? (int)newest.op : -1;
    board->newest_ended = newest.known && (int)newest.op < board->at.ended[newest.lane];
}

void board_marks(char *out, size_t room, const struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    uint64_t seen = 0;
    size_t used = (size_t)snprintf(out, room, "lanes:");
    for (int i = 0; i < ops->op_count && used < room; i++) {
        const enum mark mark = mark_of_op(ops->ops[i].kind, ops->ops[i].phase, ops->ops[i].prefetch);
        const struct mark_look look = mark_look(mark);
        if (!(seen >> mark & 1))
            used += (size_t)snprintf(out + used, room - used, " %s %s ", utf8_of(look.letter).text, look.name);
        seen |= UINT64_C(1) << mark;
    }
}

static void draw_calm(struct canvas canvas, int y, const struct board *board)
{
    struct run_recent recent = {0};
    run_recent(board->scene->model, UINT32_MAX, &recent);
    draw_title(canvas, y, false, "operations");
    draw_format(canvas, 1, y + 1, STYLE_TEXT,
                "a step takes %s, too short to follow: pause with Space, then step with ,",
                format_time_bare(recent.steps ? recent.total_ns / (uint64_t)recent.steps : 0).text);
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

/* "12 of 40 operations begun, 11 ended": those of the rank so far. */
static struct text count_ops(const struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    int begun = 0, ended = 0;
    for (int op = 0; op < ops->op_count; op++) {
        const enum lane lane = ops->ops[op].lane;
        begun += op < board->at.begun[lane];
        ended += op < board->at.ended[lane];
    }
    return text_of("%d of %d operations begun, %d ended", begun, ops->op_count, ended);
}

static void draw_lanes(struct canvas canvas, int y, int rows, const struct board *board)
{
    struct view_state state = *board->scene->state;
    const struct scene scene = {board->scene->model, board->scene->history, &state};
    const struct history_step *step = step_of(board);
    if (!step) return;
    const struct window window = timeline_moments(&scene, step, board->rank);
    const bool all = rows > board_lanes(board);
    int used = 1;
    state.rank = board->rank;
    state.selected = timeline_newest(&scene, step, board->rank);
    timeline_draw_ticks(canvas_part(canvas, 0, y, canvas.at.columns, 1), &scene, &window);
    for (enum lane lane = 0; lane < LANES && used < rows; lane++)
        if (is_shown(board, lane, all))
            timeline_draw_lane(canvas_part(canvas, 0, y + used++, canvas.at.columns, 1), &scene, &window, board->rank,
                               lane);
}

/* Whether there is a figure of bytes in the sentence: "593 KiB", "12 B". */
static bool has_bytes(const char *sentence)
{
    for (const char *at = sentence; (at = strchr(at, ' ')); at++) {
        const char *unit = at + 1;
        if (at == sentence || !isdigit((unsigned char)at[-1])) continue;
        unit += *unit && strchr("kKMGT", *unit);
        unit += *unit == 'i';
        if (*unit == 'B' && !isalnum((unsigned char)unit[1])) return true;
    }
    return false;
}

int board_moments(struct canvas canvas, int y, int rows, const char *sentence, const struct board *board)
{
    static const char note[] = " sentence: bytes by plan ";
    if (rows < 3) return 0;
    if (board->calm) return draw_calm(canvas, y, board), 2;
    const int x = draw_title(canvas, y, false, "step %u, rank %d: %s", board->at.step, board->rank, count_ops(board).text);
    if (board->at.open && has_bytes(sentence) && x + (int)sizeof note <= canvas.at.columns)
        draw_right(canvas, canvas.at.columns - 1, y, STYLE_DIM, note);
    draw_lanes(canvas, y + 1, rows - 1, board);
    return rows;
}
