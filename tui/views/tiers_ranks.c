/* All ranks, a row each: device, host and NVMe as bars side by side. */
#include <stdio.h>

#include "tui/views/list.h"
#include "tui/views/tiers.h"

enum { NUMBER_COLUMNS = 5, ALL = (1 << TIERS) - 1 };

void tiers_draw_rank(struct canvas canvas, int y, int rank, enum style style, const struct scene *scene,
                     const struct memory_scale scales[TIERS], uint32_t tiers)
{
    int count = 0, x = NUMBER_COLUMNS;
    for (enum tier tier = 0; tier < TIERS; tier++) count += tiers >> tier & 1;
    draw_format(canvas, 0, y, style, "%4d", rank);
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (!(tiers >> tier & 1)) continue;
        const int columns = (canvas.at.columns - x) / count--;
        tier_bar_draw(canvas, (struct rect){x, y, columns - 1, 1}, rank, tier, scene, &scales[tier]);
        x += columns;
    }
}

void tiers_draw_ranks(struct canvas canvas, const struct scene *scene, const struct memory_scale scales[TIERS],
                      int chosen)
{
    const int ranks = scene->model->ranks, rows = canvas.at.rows - 1, top = list_top(chosen, ranks, rows);
    const int columns = (canvas.at.columns - NUMBER_COLUMNS) / TIERS;
    char title[48];
    if (rows < ranks && rows > 0)
        snprintf(title, sizeof title, "ranks %d-%d of %d: device", top, top + rows - 1, ranks);
    else snprintf(title, sizeof title, "all ranks: device");
    draw_title(canvas, 0, false, title);
    for (enum tier tier = TIER_HOST; tier < TIERS; tier++)
        draw_format(canvas, NUMBER_COLUMNS + (int)tier * columns, 0, STYLE_DIM, " %s ", tiers_name(tier));
    for (int i = 0; i < rows && top + i < ranks; i++)
        tiers_draw_rank(canvas, 1 + i, top + i, top + i == chosen ? STYLE_FOCUS : STYLE_TEXT, scene, scales, ALL);
}
