/* Memory: the chosen rank's tiers by category, measured against the plan; all ranks side by side; and how the rank's memory
 * goes through the step, in each tier that is used. The pane of the overview shows the table of the fullest rank. */
#include <stdio.h>

#include "tui/memory/tiers.h"
#include "tui/timeline/timeline.h"

enum { CURVE_ROWS_LEAST = 4, CURVE_ROWS_MOST = 26, RANKS_ROWS_LEAST = 3, WORDS_ROWS = 2 };

/* ---- ranks side by side, each a bar by category against one scale: they are equal but for padding, so what stands out is worth a
 * look. As many as there is room for, around the chosen one; where some are left out, a heat row of all of them. ---- */

enum { NUMBER_COLUMNS = 6, WIDE = 36, NARROW = 26 };

/* How many stand beside each other: wide ones if all of them fit so, else narrow ones. */
static int across_of(int columns, int ranks, int rows)
{
    int across = columns / WIDE;
    if (across * rows < ranks) across = columns / NARROW;
    return across < 1 ? 1 : across > ranks ? ranks : across;
}

static int ranks_rows(int ranks, int columns, int room)
{
    const int across = across_of(columns, ranks, room - 1), rows = 1 + (ranks + across - 1) / across;
    return rows < room ? rows : room;
}

static void draw_rank(struct canvas canvas, int x, int y, int columns, int rank, bool chosen, const struct scene *scene,
                      const struct memory_scale *scale)
{
    const struct rect at = {x + NUMBER_COLUMNS - 1, y, columns - NUMBER_COLUMNS, 1};
    draw_format(canvas, x, y, chosen ? STYLE_FOCUS : STYLE_TEXT, "%4d", rank);
    tier_bar_draw(canvas, at, rank, TIER_DEVICE, scene, scale);
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
    const int ranks = scene->model->ranks;
    const uint64_t most = held(scene, extreme_rank(scene, 1));
    int x = draw_text(canvas, 1, y, STYLE_DIM, "all ") + 1;
    for (int rank = 0; rank < ranks && x < canvas.at.columns - 1; rank++, x++)
        draw_heat(canvas, x, y, rank == chosen ? STYLE_FOCUS : STYLE_HEAT, held(scene, rank), most);
}

static void draw_ranks_title(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale)
{
    const enum units units = scene->state->units;
    char title[96], text[FORMAT_ROOM], number[32];
    const char *step = instant_step(number, scene);
    int used = snprintf(title, sizeof title, *step ? "ranks, fullest instant of %s" : "ranks now", step);
    if (scene->model->ranks > 1) {
        const int most = extreme_rank(scene, 1), least = extreme_rank(scene, -1);
        if (held(scene, most) == held(scene, least)) snprintf(title + used, sizeof title - (size_t)used, ": all alike");
        else snprintf(title + used, sizeof title - (size_t)used, ": most on %d, least on %d", most, least);
    }
    draw_title(canvas, 0, false, title);
    if (scale->budget) {
        char note[64];
        snprintf(note, sizeof note, " budget %s ", format_bytes_bare(text, units, scale->budget));
        draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT, note);
    }
}

static void draw_side_by_side(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale,
                              int chosen)
{
    const int ranks = scene->model->ranks, across = across_of(canvas.at.columns, ranks, canvas.at.rows - 1);
    const int columns = canvas.at.columns / across;
    int rows = canvas.at.rows - 1;
    const bool all = rows * across >= ranks;
    draw_ranks_title(canvas, scene, scale);
    if (!all && rows > 1) draw_heat_of_all(canvas, rows--, scene, chosen);
    const int top = list_top(chosen / across, (ranks + across - 1) / across, rows);
    for (int i = 0; i < rows * across && top * across + i < ranks; i++) {
        const int rank = top * across + i;
        draw_rank(canvas, i % across * columns, 1 + i / across, columns, rank, rank == chosen, scene, scale);
    }
}

/* ---- the chosen rank ---- */

static int rows_wanted(const struct scene *scene)
{
    return memory_table_rows(scene->model, TIER_DEVICE, TABLE_ALONE);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    memory_table_draw_pane(canvas, scene, fullest_rank(scene->model, TIER_DEVICE), focused);
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
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "process at step %u: Pss %s; pools of all tiers %s", mark->step,
                        format_bytes_bare(pss, units, mark->pss_bytes),
                        format_bytes_bare(reserved, units, mark->reserved_bytes));
    if (x + 52 < canvas.at.columns)
        draw_format(canvas, x, y, STYLE_DIM, "; %s with all it shares (RSS)",
                    format_bytes_bare(rss, units, mark->rss_bytes));
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
    if (alone) rows = ranks_rows(ranks, columns, rows);
    else if (rows > 1 + ranks) rows = 1 + ranks;
    const struct canvas part = canvas_part(canvas, 0, y, columns, rows);
    if (alone) draw_side_by_side(part, scene, &scales[TIER_DEVICE], rank);
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
        memory_table_draw_pane(canvas, scene, -1, false);
        return;
    }
    const int rank = list_kept(scene->state->rank, scene->model->ranks);
    struct memory_scale scales[TIERS];
    memory_scales(scales, scene->model);
    int y = draw_tables(canvas, scene, rank, scales);
    draw_text(canvas, 1, y, STYLE_DIM,
              canvas.at.columns < 110 ? "now: in tensors · peak: since start or switch · at peak: then · reserved: pool"
                                      : "now: in tensors · peak: most since start or switch · at peak: what it was then · "
                                        "planned: peak by the schedule · reserved: held by the pool");
    draw_process(canvas, y + 1, scene, rank);
    y += WORDS_ROWS;
    y += draw_ranks(canvas, y, canvas.at.rows - y - CURVE_ROWS_LEAST * tiers_used(scales), scene, rank, scales);
    draw_curves(canvas, y, scene, scales);
}

const struct view view_memory = {.name = "memory",
                                 .title = "memory",
                                 .keys = {ACTION_DOWN, ACTION_UP, ACTION_BARS},
                                 .draw = draw_view,
                                 .pane = draw_pane,
                                 .pane_rows = rows_wanted,
                                 .act = ranks_act};
