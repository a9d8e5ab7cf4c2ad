/* Memory: the chosen rank's tiers by category, measured against the plan; all ranks side by side; and how the rank's memory
 * goes through the step, in each tier that is used. The pane of the overview shows the table of the fullest rank. */

#include "tui/memory/memory.h"
#include "tui/memory/tiers.h"
#include "tui/timeline/timeline.h"

enum { CURVE_ROWS_LEAST = 4, CURVE_ROWS_MOST = 26, RANKS_ROWS_LEAST = 3, WORDS_ROWS = 2 };

static int fullest_known(const struct run_model *model)
{
    return fullest_rank(model, TIER_DEVICE);
}

static int rows_wanted(const struct scene *scene)
{
    return memory_table_rows(scene->model, TIER_DEVICE, TABLE_ALONE);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    memory_table_draw_pane(canvas, scene, fullest_known(scene->model), focused);
}

/* What the kernel counts for the rank's process beside what the allocator counts, at the same moment. */
static void draw_process(struct canvas canvas, int y, const struct scene *scene, int rank)
{
    const struct run_rank *of = &scene->model->rank[rank];
    const enum units units = scene->state->units;
    char pss[FORMAT_ROOM], rss[FORMAT_ROOM], reserved[FORMAT_ROOM];
    if (!of->marks) {
        draw_format(canvas, 1, y, STYLE_DIM, "process of rank %d: what the kernel counts was not recorded yet", rank);
        return;
    }
    const struct run_mark *mark = &of->mark[of->marks - 1];
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "process at step %u: the kernel counts %s (Pss), we count %s",
                        mark->step, format_bytes_bare(pss, units, mark->pss_bytes),
                        format_bytes_bare(reserved, units, mark->reserved_bytes));
    if (x + 52 < canvas.at.columns)
        draw_format(canvas, x, y, STYLE_DIM, " reserved; %s with all it shares (RSS)",
                    format_bytes_bare(rss, units, mark->rss_bytes));
}

static void draw_meanings(struct canvas canvas, int y)
{
    draw_text(canvas, 1, y, STYLE_DIM, "now: in tensors. peak: most since start or switch. reserved: held by the pool");
}

/* Tiers below each other; returns the rows they took. */
static int draw_tables(struct canvas canvas, const struct scene *scene, int rank,
                       const struct memory_scale scales[TIERS])
{
    enum table_form form = tiers_used(scales) > 1 ? TABLE_FIRST : TABLE_ALONE;
    int y = 0;
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (!scales[tier].used) continue;
        const int rows = memory_table_rows(scene->model, tier, form);
        memory_table_draw(canvas_part(canvas, 0, y, canvas.at.columns, rows), scene, rank, tier, form);
        form = TABLE_NEXT;
        y += rows;
    }
    return y;
}

/* All ranks, in at most `room` rows; returns the rows they took. */
static int draw_ranks(struct canvas canvas, int y, int room, const struct scene *scene, int rank,
                      const struct memory_scale scales[TIERS])
{
    const int columns = canvas.at.columns, ranks = scene->model->ranks;
    const bool alone = tiers_used(scales) == 1;
    int rows = room >= RANKS_ROWS_LEAST ? room : alone ? RANKS_ROWS_LEAST : canvas.at.rows - y; /* no room for curves */
    if (alone) rows = memory_ranks_rows(ranks, columns, rows);
    else if (rows > 1 + ranks) rows = 1 + ranks;
    const struct canvas part = canvas_part(canvas, 0, y, columns, rows);
    if (alone) memory_ranks_draw(part, scene, &scales[TIER_DEVICE], rank);
    else tiers_draw_ranks(part, scene, scales, rank);
    return rows;
}

static void draw_curves(struct canvas canvas, int y, const struct scene *scene, const struct memory_scale scales[TIERS])
{
    const struct window window = timeline_window(scene);
    int left = tiers_used(scales);
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (!scales[tier].used) continue;
        int rows = (canvas.at.rows - y) / left--;
        if (rows > CURVE_ROWS_MOST) rows = CURVE_ROWS_MOST;
        timeline_draw_curve(canvas_part(canvas, 0, y, canvas.at.columns, rows), scene, tier, &window);
        y += rows;
    }
}

/* The curve gets what the others leave, the ranks at least so much that the chosen one is seen. */
static void draw_view(struct canvas canvas, const struct scene *scene)
{
    if (fullest_known(scene->model) < 0) {
        memory_table_draw_pane(canvas, scene, -1, false);
        return;
    }
    const int rank = list_kept(scene->state->rank, scene->model->ranks);
    struct memory_scale scales[TIERS];
    memory_scales(scales, scene->model);
    int y = draw_tables(canvas, scene, rank, scales);
    draw_meanings(canvas, y);
    draw_process(canvas, y + 1, scene, rank);
    y += WORDS_ROWS;
    y += draw_ranks(canvas, y, canvas.at.rows - y - CURVE_ROWS_LEAST * tiers_used(scales), scene, rank, scales);
    draw_curves(canvas, y, scene, scales);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    state->rank = list_kept(state->rank, scene->model->ranks);
    return rank_act(state, scene, key) || list_act(&state->rank, scene->model->ranks, key);
}

const struct view view_memory = {.name = "memory",
                                 .title = "memory",
                                 .keys = {ACTION_DOWN, ACTION_UP, ACTION_BARS},
                                 .draw = draw_view,
                                 .pane = draw_pane,
                                 .pane_rows = rows_wanted,
                                 .act = act};
