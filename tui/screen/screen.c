/* Finds views by name, and draws the frame of every screen: header, footer, or a message that the screen is too
 * small. */
#include "tui/screen/screen.h"

#include <string.h>

#include "tui/memory/tiers.h"

static const struct view *const views[VIEWS] = {
#define VIEW(ID, name) [VIEW_##ID] = &view_##name,
#include "tui/view/views.def"
#undef VIEW
};

const struct view *view_of(enum view_id id)
{
    return views[id];
}

enum key_mode view_key_mode(const struct scene *scene)
{
    if (!scene->state->live || scene->model->ended) return KEY_MODE_REPLAY;
    return scene->state->behind && !scene->state->held && !scene->state->last.step ? KEY_MODE_ALWAYS : KEY_MODE_LIVE;
}

int view_named(const char *name)
{
    for (int id = 0; id < VIEWS; id++)
        if (!strcmp(views[id]->name, name)) return id;
    return -1;
}

const char *view_names(void)
{
    static const char names[] =
#define VIEW(ID, name) " " #name
#include "tui/view/views.def"
#undef VIEW
        ;
    return names + 1;
}

void draw_too_small(struct surface *surface)
{
    struct canvas canvas = canvas_of(surface);
    draw_text(canvas, 0, 0, STYLE_STRONG, "terminal too small");
    draw_format(canvas, 0, 1, STYLE_TEXT, "this is %dx%d", surface->columns, surface->rows);
    draw_format(canvas, 0, 2, STYLE_TEXT, "%dx%d is needed", VIEW_COLUMNS_MIN, VIEW_ROWS_MIN);
    draw_text(canvas, 0, 3, STYLE_TEXT, "q quits");
}

int view_header_rows(const struct view_state *state, int columns)
{
    return state->view == VIEW_OVERVIEW && !lab_is_page(state, columns) ? 4 : 2;
}

/* Within a step the bars show this instant, so that a learner sees what each operation changes. */
static void draw_strip(struct canvas canvas, const struct scene *asked)
{
    struct view_state state = *asked->state;
    const struct scene strip = {asked->model, asked->history, &state}, *scene = &strip;
    const struct run_step *last = asked->model->step_count ? &asked->model->steps[asked->model->step_count - 1] : NULL;
    state.bars_now |= last && !shown_moves(asked) && !run_step_is_whole(last);
    const int wanted = bars_rows(scene->model, canvas.at.columns, canvas.at.rows);
    if (canvas.at.rows == 0) return;
    if (scene->state->view == VIEW_TIMELINE) view_timeline.pane(canvas, scene, false);
    else if (lab_strip_is_view(scene->state)) views[scene->state->view]->draw(canvas, scene);
    else bars_draw(canvas_part(canvas, 0, 0, canvas.at.columns, smaller(wanted, canvas.at.rows)), scene);
}

/* The chosen rank may have ended since. Only the timeline also shows ranks of other parts of the run. */
static struct view_state with_rank(const struct view_state *state, const struct run_model *model)
{
    struct view_state kept = *state;
    if (state->view != VIEW_TIMELINE && model->ranks > 0) kept.rank = list_kept(state->rank, model->ranks);
    return kept;
}

void view_draw_body(struct canvas canvas, const struct scene *asked)
{
    const struct view_state state = with_rank(asked->state, asked->model);
    const struct scene kept = {asked->model, asked->history, &state}, *scene = &kept;
    struct lab_layout layout = lab_layout(scene->state, canvas.at.columns, canvas.at.rows);
    if (layout.pane.columns) lab_draw(canvas_at(canvas, layout.pane), scene);
    for (int y = 0; layout.view.x && y < canvas.at.rows; y++)
        draw_character(canvas, layout.view.x - 1, y, STYLE_FRAME, 0x2502);
    if (lab_is_page(scene->state, canvas.at.columns)) {
        draw_strip(canvas_at(canvas, layout.view), scene);
        return;
    }
    const struct view *view = views[scene->state->view];
    if (view->draw) view->draw(canvas_at(canvas, layout.view), scene);
    else view->pane(canvas_at(canvas, layout.view), scene, false);
}

void view_draw(const struct run_model *model, const struct history *history, const struct view_state *state,
               struct surface *surface)
{
    struct scene scene = {model, history, state};
    struct canvas all = canvas_of(surface);
    int columns = surface->columns, rows = surface->rows, header = view_header_rows(state, columns);
    surface_erase(surface);
    if (columns < VIEW_COLUMNS_MIN || rows < VIEW_ROWS_MIN) {
        draw_too_small(surface);
        return;
    }
    header_draw(canvas_part(all, 0, 0, columns, header), &scene);
    view_draw_body(canvas_part(all, 0, header, columns, rows - header - 1), &scene);
    const int lowest = footer_rows(all, state);
    footer_draw(canvas_part(all, 0, rows - lowest, columns, lowest), &scene);
}
