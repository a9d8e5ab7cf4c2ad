/* Ranks side by side, each a bar by category against one scale: they are equal but for padding, so what stands out is worth
 * a look. As many as there is room for, around the chosen one; where some are left out, a heat row of all of them. */
#include <stdio.h>

#include "tui/memory/memory.h"

enum { NUMBER_COLUMNS = 6, WIDE = 36, NARROW = 26 };

/* How many stand beside each other: wide ones if all of them fit so, else narrow ones. */
static int across_of(int columns, int ranks, int rows)
{
    int across = columns / WIDE;
    if (across * rows < ranks) across = columns / NARROW;
    return across < 1 ? 1 : across > ranks ? ranks : across;
}

int memory_ranks_rows(int ranks, int columns, int room)
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
    const uint32_t step = run_peak_step(scene->model);
    const enum units units = scene->state->units;
    char title[96], text[FORMAT_ROOM];
    int used = scene->state->bars_now || !run_last_step_here(scene->model)
                   ? snprintf(title, sizeof title, "ranks now")
               : step ? snprintf(title, sizeof title, "ranks, fullest instant of step %u", step)
                      : snprintf(title, sizeof title, "ranks, fullest instant of the last whole step");
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

void memory_ranks_draw(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale, int chosen)
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
