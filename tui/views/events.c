/* Events, commands and the log, in one list. */
#include "tui/views/parts.h"

static void draw_notice(struct canvas canvas, int y, const struct run_notice *notice, uint64_t first_ns)
{
    static const enum style by_level[] = {STYLE_TEXT, STYLE_WARN, STYLE_BAD};
    uint64_t seconds = notice->time_ns > first_ns ? (notice->time_ns - first_ns) / 1000000000u : 0;
    draw_format(canvas, 0, y, STYLE_DIM, "%4llu:%02llu", (unsigned long long)(seconds / 60),
                (unsigned long long)(seconds % 60));
    if (notice->has_step) draw_format(canvas, 8, y, STYLE_DIM, "step %-6u", notice->step);
    draw_text(canvas, 20, y, by_level[notice->level > 2 || notice->level < 0 ? 2 : notice->level], notice->text);
}

/* The newest stands last, like in a log; moving up looks back. */
static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    int rows = canvas.at.rows - 1, count = model->notice_count;
    int last = count - scrolled(scene->state->row[VIEW_EVENTS], count, rows);
    int first = last > rows ? last - rows : 0;
    draw_title(canvas, 0, focused, "events, commands, log");
    if (!count) draw_text(canvas, 1, 1, STYLE_DIM, "nothing yet");
    for (int i = first; i < last; i++) draw_notice(canvas, 1 + i - first, &model->notices[i], model->first_ns);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    draw_pane(canvas, scene, false);
}

const struct view view_events = {"events", "events", .draw = draw_view, .pane = draw_pane};
