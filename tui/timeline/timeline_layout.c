/* Computes the rectangles of the timeline's parts. Rows go to the lanes first, then to details and legend; the memory curve and
 * more details share the rest. Up to 8 ranks have all their lanes, if these fit; else the chosen rank has its lanes, and each other
 * rank that fits has one row. */
#include <string.h>

#include "tui/timeline/timeline.h"

enum {
    LANES_RANKS_MAX = 8,
    DETAILS_ROWS = 5,
    LEGEND_AND_CURVE_ROWS = 6, /* a legend of more than two rows takes them from the curve */
    CURVE_ROWS_MAX = 14,
    DETAILS_ROWS_MAX = 24
};

static int take(int *left, int rows)
{
    rows = rows < 0 ? 0 : smaller(rows, *left);
    *left -= rows;
    return rows;
}

static int lanes_rows(const struct timeline_layout *layout)
{
    return layout->rank_count * layout->lane_count * layout->lane_rows + (layout->rank_count - 1) * layout->gap_rows;
}

/* Lanes may be two rows high and ranks stand apart where there is room for it. */
static int place_lanes(struct timeline_layout *layout, int room, int ranks)
{
    static const struct {
        int lane_rows, gap_rows;
    } looks[] = {{2, 1}, {1, 1}, {1, 0}};
    for (size_t i = 0; ranks <= LANES_RANKS_MAX && i < sizeof looks / sizeof looks[0]; i++) {
        layout->lane_rows = looks[i].lane_rows, layout->gap_rows = looks[i].gap_rows;
        layout->rank_count = ranks;
        if (lanes_rows(layout) <= room) return lanes_rows(layout);
    }
    layout->heat = true;
    layout->lane_rows = 1, layout->gap_rows = 0;
    layout->rank_count = smaller(ranks, room - (layout->lane_count - 1));
    if (layout->rank_count < 0) layout->rank_count = 0;
    return layout->rank_count ? layout->rank_count + layout->lane_count - 1 : 0;
}

static struct rect rows_at(int *y, int columns, int rows)
{
    struct rect at = {0, *y, rows ? columns : 0, rows};
    *y += rows;
    return at;
}

void timeline_layout(struct timeline_layout *layout, int columns, int rows, const struct timeline_needs *needs)
{
    int left = rows, y = 0;
    memset(layout, 0, sizeof *layout);
    layout->lane_mask = needs->lanes;
    for (enum lane lane = 0; lane < LANES; lane++) layout->lane_count += needs->lanes >> lane & 1;
    const int curve_rows = LEGEND_AND_CURVE_ROWS - needs->legend_rows;
    int axis = take(&left, 2), kept = smaller(left, DETAILS_ROWS + LEGEND_AND_CURVE_ROWS);
    int room = left - kept > layout->lane_count ? left - kept : smaller(left, layout->lane_count);
    int lanes = place_lanes(layout, room, needs->rank_count);
    left -= lanes;
    int details = take(&left, DETAILS_ROWS), legend = take(&left, needs->legend_rows), curve = take(&left, curve_rows);
    curve += take(&left, smaller(left / 2, CURVE_ROWS_MAX - curve));
    details += take(&left, DETAILS_ROWS_MAX - details);
    if (curve < 2) curve = 0;
    layout->steps = rows_at(&y, columns, smaller(axis, 1));
    layout->ticks = rows_at(&y, columns, axis - smaller(axis, 1));
    layout->curve = rows_at(&y, columns, curve);
    layout->lanes = rows_at(&y, columns, lanes);
    layout->details = rows_at(&y, columns, details);
    layout->legend = (struct rect){0, rows - legend, legend ? columns : 0, legend};
    layout->first_rank =
        needs->first_rank + list_top(needs->chosen - needs->first_rank, needs->rank_count, layout->rank_count);
}

int timeline_row(const struct timeline_layout *layout, int chosen, int rank, enum lane lane)
{
    int at = rank - layout->first_rank, among = 0;
    if (at < 0 || at >= layout->rank_count || !(layout->lane_mask >> lane & 1)) return -1;
    for (enum lane before = 0; before < lane; before++) among += layout->lane_mask >> before & 1;
    if (!layout->heat) return (at * layout->lane_count + among) * layout->lane_rows + at * layout->gap_rows;
    if (rank == chosen) return at + among;
    return at + (rank > chosen ? layout->lane_count - 1 : 0);
}
