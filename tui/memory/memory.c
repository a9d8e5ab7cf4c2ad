/* Memory: the chosen rank's tiers by category, measured against the plan; all ranks side by side; and the curve of the rank's
 * memory over the step, in each tier that is used. The pane of the overview shows the table of the fullest rank. */

#include "tui/memory/tiers.h"
#include "tui/timeline/timeline.h"

enum { CURVE_ROWS_LEAST = 4, CURVE_ROWS_MOST = 26, RANKS_ROWS_LEAST = 3, WORDS_ROWS = 2 };

/* ---- ranks side by side, each a bar by category against one scale: they are equal but for padding, so what stands out is worth a
 * look. As many as there is room for, around the chosen one; where some are left out, a heat row of all of them. ---- */

enum { WIDE = 36, NARROW = 26 };

/* How many stand beside each other: wide ones if all of them fit so, else narrow ones. */
static int across_of(int columns, int ranks, int rows)
{
    int across = columns / WIDE;
    if (across * rows < ranks) across = columns / NARROW;
    return within(across, 1, ranks);
}

static uint64_t held(const struct scene *scene, int rank)
{
    return instant_shown(&scene->model->rank[rank].tier[TIER_DEVICE], scene->state)->live_bytes;
}

/* The first rank with the most (sign 1) or the least (sign -1). */
static int extreme_rank(const struct scene *scene, int sign)
{
    int best = 0;
    for (int rank = 1; rank < scene->model->ranks; rank++)
        if (sign > 0 ? held(scene, rank) > held(scene, best) : held(scene, rank) < held(scene, best)) best = rank;
    return best;
}

static void draw_heat_of_all(struct canvas canvas, int y, const struct scene *scene, int chosen)
{
    const uint64_t most = held(scene, extreme_rank(scene, 1));
    int x = draw_text(canvas, 1, y, STYLE_DIM, "all ") + 1;
    for (int rank = 0; rank < scene->model->ranks && x < canvas.at.columns - 1; rank++, x++)
        draw_heat(canvas, x, y, rank == chosen ? STYLE_FOCUS : STYLE_HEAT, held(scene, rank), most);
}

static void draw_ranks_title(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale)
{
    const struct text step = instant_step(scene);
    struct text title = text_of(*step.text ? "ranks, fullest instant of %s" : "ranks now", step.text);
    if (scene->model->ranks > 1) {
        const int most = extreme_rank(scene, 1), least = extreme_rank(scene, -1);
        if (held(scene, most) == held(scene, least)) text_add(&title, ": all alike");
        else text_add(&title, ": most on %d, least on %d", most, least);
    }
    draw_title(canvas, 0, false, "%s", title.text);
    if (scale->budget)
        draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT,
                   text_of(" budget %s ", format_bytes_bare(scene->state->units, scale->budget).text).text);
}

static void draw_side_by_side(struct canvas canvas, const struct scene *scene, const struct memory_scale scales[TIERS],
                              int chosen)
{
    const int ranks = scene->model->ranks, across = across_of(canvas.at.columns, ranks, canvas.at.rows - 1);
    const int columns = canvas.at.columns / across;
    int rows = canvas.at.rows - 1;
    draw_ranks_title(canvas, scene, &scales[TIER_DEVICE]);
    if (rows * across < ranks && rows > 1) draw_heat_of_all(canvas, rows--, scene, chosen);
    const int top = list_top(chosen / across, (ranks + across - 1) / across, rows);
    for (int i = 0; i < rows * across && top * across + i < ranks; i++) {
        const int rank = top * across + i;
        bars_draw_rank(canvas_part(canvas, i % across * columns, 1 + i / across, columns, 1), 0, rank,
                       rank == chosen ? STYLE_FOCUS : STYLE_TEXT, scene, scales, 1u << TIER_DEVICE);
    }
}

/* ---- the chosen rank ---- */

static int rows_wanted(const struct scene *scene)
{
    return memory_table_rows(scene->model, TIER_DEVICE, TABLE_ALONE);
}

/* What the kernel counts for the rank's process beside what the allocator counts, at the same moment. */
static void draw_process(struct canvas canvas, int y, const struct scene *scene, int rank)
{
    const struct run_rank *of = &scene->model->rank[rank];
    const enum units units = scene->state->units;
    if (!of->marks) {
        draw_format(canvas, 1, y, STYLE_DIM, "process of rank %d: what the kernel counts was not recorded yet", rank);
        return;
    }
    const struct run_mark *mark = &of->mark[of->marks - 1];
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "process, read in step %u: Pss %s; pools of device and host %s", mark->step,
                        format_bytes_bare(units, mark->pss_bytes).text,
                        format_bytes_bare(units, mark->reserved_bytes).text);
    const struct text rss = text_of("; %s with all it shares (RSS)", format_bytes_bare(units, mark->rss_bytes).text);
    if (x + utf8_columns(rss.text) < canvas.at.columns) draw_text(canvas, x, y, STYLE_DIM, rss.text);
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
    const int across = across_of(columns, ranks, rows - 1);
    if (alone) rows = smaller(rows, 1 + (ranks + across - 1) / across);
    else if (rows > 1 + ranks) rows = 1 + ranks;
    const struct canvas part = canvas_part(canvas, 0, y, columns, rows);
    if (alone) draw_side_by_side(part, scene, scales, rank);
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
    if (fullest_rank(scene->model, TIER_DEVICE) < 0) {
        memory_table_draw_pane(canvas, scene, false);
        return;
    }
    const int rank = list_kept(scene->state->rank, scene->model->ranks);
    struct memory_scale scales[TIERS];
    memory_scales(scales, scene->model);
    int y = draw_tables(canvas, scene, rank, scales);
    draw_text(canvas, 1, y, STYLE_DIM,
              canvas.at.columns < 140 ? "now: live · peak: of this setup · at peak: when total peaks · reserved: pool"
                                      : "now: in tensors · peak: most since start or switch · planned: peak by the "
                                        "schedule · at peak: when total peaks · reserved: by the pool");
    draw_process(canvas, y + 1, scene, rank);
    y += WORDS_ROWS;
    y += draw_ranks(canvas, y, canvas.at.rows - y - CURVE_ROWS_LEAST * tiers_used(scales), scene, rank, scales);
    draw_curves(canvas, y, scene, scales);
}

const struct view view_memory = {"memory",
                                 "memory",
                                 {ACTION_DOWN, ACTION_UP, ACTION_BARS},
                                 .draw = draw_view,
                                 .pane = memory_table_draw_pane,
                                 .pane_rows = rows_wanted,
                                 .act = ranks_act};
