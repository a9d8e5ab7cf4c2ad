/* Lists that one moves in, and what a view shows instead of its list. */
#include "tui/view/view.h"

enum { PAGE = 10 };

int list_kept(int row, int items)
{
    return row >= items ? (items > 0 ? items - 1 : 0) : row < 0 ? 0 : row;
}

int scrolled(int scroll, int items, int rows)
{
    int most = items > rows ? items - rows : 0;
    return scroll < 0 ? 0 : scroll > most ? most : scroll;
}

int list_top(int chosen, int items, int rows)
{
    return scrolled(chosen - rows / 2, items, rows);
}

void draw_untold(struct canvas canvas, bool focused, const char *title)
{
    draw_title(canvas, 0, focused, title);
    draw_text(canvas, 1, 1, STYLE_DIM, "not known yet: no schedule has come");
}

bool list_act(int *row, int items, const struct key_row *key)
{
    return list_act_by(row, items, PAGE, key);
}

bool list_act_by(int *row, int items, int whole, const struct key_row *key)
{
    const int page = key->argument ? whole / 2 : whole;
    switch (key->action) {
    case ACTION_UP: *row = list_kept(*row - 1, items); return true;
    case ACTION_DOWN: *row = list_kept(*row + 1, items); return true;
    case ACTION_PAGE_UP: *row = list_kept(*row - page, items); return true;
    case ACTION_PAGE_DOWN: *row = list_kept(*row + page, items); return true;
    case ACTION_FIRST: *row = 0; return true;
    case ACTION_LAST: *row = list_kept(items - 1, items); return true;
    default: return false;
    }
}

bool rank_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    const int ranks = scene->model->ranks;
    if (ranks <= 0 || (key->action != ACTION_NEXT_RANK && key->action != ACTION_PREVIOUS_RANK)) return false;
    const int by = key->action == ACTION_NEXT_RANK ? 1 : ranks - 1;
    state->rank = (list_kept(state->rank, ranks) + by) % ranks;
    return true;
}

bool ranks_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    state->rank = list_kept(state->rank, scene->model->ranks);
    return rank_act(state, scene, key) || list_act(&state->rank, scene->model->ranks, key);
}
