/* The whiteboard of another program's trace: without a schedule it has no units, shards or buckets. It shows the ranks, their memory,
 * the operation of each lane, and what the step has moved so far. */

#include "engine/observe/totals.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

enum { LABELS = 9, COLUMN_LEAST = 30 };

/* The lane's operation now, or the last one that ended, dim. */
static void draw_lane(struct canvas canvas, int y, const struct scene *scene, int rank, enum lane lane)
{
    const struct run_lane *at = &scene->model->rank[rank].lane[lane];
    if (at->started_ns)
        draw_text(canvas, 0, y, at->busy ? STYLE_STRONG : STYLE_DIM,
                  op_text(scene->model, at->schedule, (int)at->op).text);
}

static int draw_moved(struct canvas canvas, int y, const struct scene *scene, int rank, const struct history_step *step)
{
    struct totals totals;
    totals_of(&totals, scene->history, scene->model, rank, step->begun_ns, shown_now(scene) + 1, 0);
    for (enum traffic kind = 0; totals.known && kind < TRAFFIC_KINDS; kind++) {
        const struct collective_totals *of = &totals.traffic[kind];
        if (!of->count) continue;
        draw_format(canvas, 0, y++, STYLE_TEXT, "%lld %s, %s", (long long)of->count, traffic_name(kind),
                    format_bytes_bare(scene->state->units, of->bytes).text);
        if (of->peers_ns)
            draw_format(canvas, 2, y++, STYLE_DIM, "waited %s for others", format_time_bare(of->peers_ns).text);
    }
    return y;
}

static void draw_rank(struct canvas canvas, const struct scene *scene, int rank, const struct memory_scale *scale)
{
    const struct history_step *step = history_step_at(scene->history, shown_now(scene));
    char name[RANK_TEXT_ROOM];
    int y = 2;
    draw_text(canvas, 0, 0, rank == scene->state->rank ? STYLE_STRONG : STYLE_TEXT, run_rank_text(name, scene->model, rank));
    tier_bar_draw(canvas, (struct rect){0, 1, canvas.at.columns - 2, 1}, rank, TIER_DEVICE, scene, scale);
    for (enum lane lane = 0; lane < LANES; lane++)
        if (run_lanes(scene->model) & 1u << lane) draw_lane(canvas, y++, scene, rank, lane);
    if (step) draw_moved(canvas, y + 1, scene, rank, step);
}

static void draw_labels(struct canvas canvas, const struct scene *scene)
{
    const struct history_step *step = history_step_at(scene->history, shown_now(scene));
    int y = 2;
    draw_text(canvas, 0, 1, STYLE_DIM, " memory");
    for (enum lane lane = 0; lane < LANES; lane++)
        if (run_lanes(scene->model) & 1u << lane) draw_format(canvas, 1, y++, STYLE_DIM, "%s", lane_name(lane));
    if (step) draw_format(canvas, 1, y + 1, STYLE_DIM, "step %u", step->step);
}

bool board_observed(struct canvas canvas, const struct scene *scene)
{
    const int ranks = scene->model->ranks, columns = canvas.at.columns - LABELS;
    if (!run_op_name(scene->model, TRACE_OBSERVED, 0) || ranks <= 0) return false;
    const int fit = columns / COLUMN_LEAST > 0 ? columns / COLUMN_LEAST : 1, shown = smaller(ranks, fit);
    const int first = scrolled(list_kept(scene->state->rank, ranks) - shown / 2, ranks, shown), width = columns / shown;
    const struct memory_scale scale = memory_scale(scene->model, TIER_DEVICE);
    draw_title(canvas, 0, false, "whiteboard");
    draw_text(canvas, 1, 1, STYLE_DIM, "no schedule, so no units and no shards; bold runs now, dim has ended");
    draw_labels(canvas_part(canvas, 0, 3, LABELS, canvas.at.rows - 3), scene);
    for (int i = 0; i < shown; i++)
        draw_rank(canvas_part(canvas, LABELS + i * width, 3, width - 1, canvas.at.rows - 3), scene, first + i, &scale);
    return true;
}
