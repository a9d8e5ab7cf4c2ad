/* What the model itself says. */
#include <stdio.h>

#include "tui/draw/paragraph.h"
#include "tui/views/parts.h"

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    char title[64] = "text from the model";
    if (model->sample.text) snprintf(title, sizeof title, "text from the model after step %u", model->sample.step);
    draw_title(canvas, 0, focused, title);
    if (model->sample.text)
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1),
                       scene->state->row[VIEW_TEXT], STYLE_TEXT, model->sample.text);
    else
        draw_text(canvas, 1, 1, STYLE_DIM,
                  scene->state->live && !scene->state->readonly ? "none yet; p prints some" : "none yet");
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    draw_pane(canvas, scene, false);
}

const struct view view_text = {"text", "text from the model", .draw = draw_view, .pane = draw_pane};
