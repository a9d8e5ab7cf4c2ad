/* What the model itself says: a view of its own, and the lower part of the loss's. */
#include <stdio.h>

#include "tui/draw/paragraph.h"
#include "tui/views/parts.h"

void said_draw(struct canvas canvas, const struct scene *scene, int skip, bool focused)
{
    const struct run_model *model = scene->model;
    char title[64] = "text from the model";
    if (model->sample.text) snprintf(title, sizeof title, "text from the model after step %u", model->sample.step);
    draw_title(canvas, 0, focused, title);
    if (model->sample.text)
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1), skip, STYLE_TEXT,
                       model->sample.text);
    else draw_text(canvas, 1, 1, STYLE_DIM, "none yet; while a run goes on, p prints some");
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    said_draw(canvas, scene, scene->state->row[VIEW_TEXT], focused);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    draw_pane(canvas, scene, false);
}

const struct view view_text = {"text", "text from the model", .draw = draw_view, .pane = draw_pane};
