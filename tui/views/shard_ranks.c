/* What runs on each rank's lanes, and what it holds of others, beside the picture of the shards. */
#include "tui/views/shard_ranks.h"

#include <stdio.h>

#include "engine/observe/cells.h"
#include "tui/draw/pen.h"
#include "tui/views/list.h"
#include "tui/views/op_text.h"

static const char *now_text(char out[OP_TEXT_ROOM], const struct run_model *model, const struct progress *at,
                            enum lane lane)
{
    const int running = progress_running(at, lane), next = progress_next(at, lane);
    char name[OP_TEXT_ROOM];
    if (running >= 0) return op_text(out, model, at->plan, running);
    if (next < 0) return "idle";
    snprintf(out, OP_TEXT_ROOM, "before %.40s", op_text(name, model, at->plan, next));
    return out;
}

static void draw_rank_row(struct canvas canvas, int y, int rank, bool chosen, const struct scene *scene,
                          const struct run_schedule *plan)
{
    const struct progress at = progress_of(scene->model, rank);
    const struct run_memory *memory = scene->model->rank[rank].tier[TIER_DEVICE].category;
    const enum units units = scene->state->units;
    char text[OP_TEXT_ROOM];
    struct pen pen = pen_at(canvas, 1, y);
    pen_format(&pen, 4, chosen ? STYLE_FOCUS : STYLE_TEXT, "%d", rank);
    pen_left(&pen, 2, STYLE_TEXT, "");
    pen_left(&pen, 18, STYLE_TEXT, at.plan == plan ? now_text(text, scene->model, &at, LANE_COMPUTE) : "n/a");
    pen_left(&pen, 24, STYLE_TEXT, at.plan == plan ? now_text(text, scene->model, &at, LANE_COMM) : "n/a");
    static const enum category categories[] = {CATEGORY_GATHERED, CATEGORY_BUCKETS};
    for (int i = 0; i < 2; i++) {
        const struct run_memory *of = &memory[categories[i]];
        pen_right(&pen, bytes_columns(units) + 2, STYLE_TEXT, format_bytes(text, units, of->known, of->live_bytes));
    }
    const struct gathered sum = at.plan == plan ? gathered_of(&at) : (struct gathered){0};
    pen_format(&pen, 10, STYLE_TEXT, "%d", sum.units);
    pen_format(&pen, 11, STYLE_TEXT, "%d", sum.in_flight);
}

void shard_ranks_draw(struct canvas canvas, const struct scene *scene, const struct run_schedule *plan, int chosen)
{
    const int bytes = bytes_columns(scene->state->units) + 2, rows = canvas.at.rows - 2;
    const int top = list_top(chosen, scene->model->ranks, rows);
    if (rows < 2) return;
    struct pen pen = pen_at(canvas, 1, 1);
    draw_title(canvas, 0, false, "ranks: what runs on their lanes, and what they hold of others");
    pen_right(&pen, 4, STYLE_DIM, "rank");
    pen_left(&pen, 2, STYLE_DIM, "");
    pen_left(&pen, 18, STYLE_DIM, "compute");
    pen_left(&pen, 24, STYLE_DIM, "communication");
    pen_right(&pen, bytes, STYLE_DIM, "L now");
    pen_right(&pen, bytes, STYLE_DIM, "B now");
    pen_right(&pen, 10, STYLE_DIM, "gathered");
    pen_right(&pen, 11, STYLE_DIM, "in flight");
    for (int i = 0; i < rows && top + i < scene->model->ranks; i++)
        draw_rank_row(canvas, 2 + i, top + i, top + i == chosen, scene, plan);
}
