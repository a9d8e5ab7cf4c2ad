/* The memory hierarchy of a rank at a glance: what lies in each tier, what flows between them in a step and how fast, and
 * the tiers of all ranks; on a larger screen also how each tier fills and empties through the step. */
#include "tui/memory/tiers.h"

#include "tui/timeline/timeline.h"

enum { RANKS_ROWS_LEAST = 2, CURVE_ROWS_LEAST = 4, CURVE_ROWS_MOST = 9 };

/* What moves at this instant is shown where one can follow it: in slow motion, and when bars show this instant. */
const struct run_lane *tiers_moving(const struct scene *scene, int rank, enum flow flow)
{
    static const enum lane lanes[FLOWS] = {LANE_D2H, LANE_H2D, LANE_NVME_READ, LANE_NVME_WRITE};
    const struct run_lane *lane = &scene->model->rank[rank].lane[lanes[flow]];
    const bool shown = scene->state->bars_now || (scene->model->pace.known && scene->model->pace.slow_motion >= 2);
    return shown && lane->busy ? lane : NULL;
}

static void flows_of(struct tiers_flow out[FLOWS], const struct run_model *model, int rank)
{
    for (enum flow flow = 0; flow < FLOWS; flow++)
        out[flow] = (struct tiers_flow){flow_is_used(model, flow), flow_figures_of(model, rank, flow, false)};
}

int tiers_used(const struct memory_scale scales[TIERS])
{
    int used = 0;
    for (enum tier tier = 0; tier < TIERS; tier++) used += scales[tier].used;
    return used;
}

/* Rows of the parts below each other. The least first; then all ranks; then curves; then lanes under them, on the same axis;
 * then what the tiers hold by category. */
struct layout {
    int picture, outside, flows, ranks, curve, lanes;
};

enum { LANES_HEAD = 2, LANES_LEGEND = 3 };

static struct layout lay_out(const struct scene *scene, int rows, int rank, int curves)
{
    const int ranks = 1 + scene->model->ranks;
    struct layout out = {.picture = TIERS_PICTURE_ROWS, .flows = TIERS_FLOWS_ROWS};
    out.outside = scene->model->rank[rank].gpu.known;
    int left = rows - out.picture - 1 - out.outside - out.flows; /* 1: the legend */
    out.ranks = smaller(ranks, left < RANKS_ROWS_LEAST ? RANKS_ROWS_LEAST : left);
    if (left - out.ranks < CURVE_ROWS_LEAST * curves) { /* of many ranks some give way to curves */
        const int most = left - CURVE_ROWS_LEAST * curves;
        if (most >= 2 * RANKS_ROWS_LEAST && most < out.ranks) out.ranks = most;
    }
    left -= out.ranks;
    if (left < CURVE_ROWS_LEAST * curves) return out;
    out.curve = CURVE_ROWS_LEAST;
    left -= CURVE_ROWS_LEAST * curves;
    out.lanes = LANES_HEAD + run_lane_count(scene->model) + LANES_LEGEND;
    if (out.lanes > left || curves < 2) out.lanes = 0;
    left -= out.lanes;
    const int wanted = smaller(left, tiers_picture_rows(scene, rank) - out.picture);
    out.picture += wanted;
    out.curve = smaller(CURVE_ROWS_MOST, CURVE_ROWS_LEAST + (left - wanted) / curves);
    return out;
}

static struct canvas rows_of(struct canvas canvas, int *y, int rows)
{
    struct canvas part = canvas_part(canvas, 0, *y, canvas.at.columns, rows);
    *y += rows;
    return part;
}

/* GPU memory outside of all tiers: measured, not planned, and shared by all ranks of the GPU. */
static void draw_outside(struct canvas row, const struct scene *scene, int rank)
{
    const struct run_gpu *gpu = &scene->model->rank[rank].gpu;
    const struct run_outside *outside = run_outside_of(scene->model, rank);
    const enum units units = scene->state->units;
    const int x = draw_text(row, 1, 0, STYLE_DIM, "outside") + 1;
    const int said =
        draw_text(row, x, 0, STYLE_STRONG, outside ? format_bytes_bare(units, outside->bytes).text : "n/a") + 1;
    const int end = draw_format(row, said, 0, STYLE_DIM, "of GPU %d's %s, measured", gpu->gpu,
                                format_bytes_bare(units, gpu->total_bytes).text);
    if (gpu->ranks > 1) draw_format(row, end, 0, STYLE_DIM, ", one figure for %d ranks", gpu->ranks);
}

/* Draws the rank's lanes on the axis of the curves above, because the lanes fill and empty the tiers. */
static void draw_lanes(struct canvas canvas, const struct scene *scene, const struct window *window, int rank)
{
    int y = LANES_HEAD;
    draw_title(canvas, 0, false, "lanes of rank %d", rank);
    timeline_draw_ticks(canvas_part(canvas, 0, 1, canvas.at.columns, 1), scene, window);
    for (enum lane lane = 0; lane < LANES; lane++)
        if (run_lanes(scene->model) >> lane & 1) timeline_draw_lane(rows_of(canvas, &y, 1), scene, window, rank, lane);
    timeline_draw_legend(rows_of(canvas, &y, LANES_LEGEND), scene);
}

static void draw_through_step(struct canvas canvas, const struct scene *scene, int y, const struct layout *layout,
                              int rank, const struct memory_scale scales[TIERS])
{
    const struct window window = timeline_window(scene);
    for (enum tier tier = 0; tier < TIERS && layout->curve; tier++)
        if (scales[tier].used) timeline_draw_curve(rows_of(canvas, &y, layout->curve), scene, tier, &window);
    if (layout->lanes) draw_lanes(rows_of(canvas, &y, layout->lanes), scene, &window, rank);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    const int rank = list_kept(scene->state->rank, model->ranks);
    int y = 0;
    if (fullest_rank(model, TIER_DEVICE) < 0) {
        draw_title(canvas, 0, false, "tiers");
        draw_text(canvas, 1, 1, STYLE_DIM, "not known yet: no memory record has come");
        return;
    }
    struct memory_scale scales[TIERS];
    struct tiers_flow flows[FLOWS];
    memory_scales(scales, model);
    flows_of(flows, model, rank);
    const struct layout layout = lay_out(scene, canvas.at.rows, rank, tiers_used(scales));
    tiers_draw_picture(rows_of(canvas, &y, layout.picture), scene, rank, scales, flows);
    bars_draw_legend(canvas, y++, scene, true);
    if (layout.outside) draw_outside(rows_of(canvas, &y, layout.outside), scene, rank);
    tiers_draw_flows(rows_of(canvas, &y, layout.flows), scene, rank, flows, false);
    tiers_draw_ranks(rows_of(canvas, &y, layout.ranks), scene, scales, rank);
    draw_through_step(canvas, scene, y, &layout, rank, scales);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct tiers_flow flows[FLOWS];
    flows_of(flows, scene->model, -1);
    tiers_draw_flows(canvas, scene, -1, flows, focused);
}

static int rows_wanted(const struct scene *scene)
{
    (void)scene;
    return TIERS_FLOWS_ROWS;
}

const struct view view_tiers = {"tiers",           "tiers",           {ACTION_DOWN, ACTION_UP, ACTION_BARS},
                                .draw = draw_view, .pane = draw_pane, .pane_rows = rows_wanted,
                                .act = ranks_act};
