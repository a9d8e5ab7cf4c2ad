/* The last steps, one a row: exposed is communication with no compute beside it, the rest the phases of compute; shares of the
 * step, means over ranks. */
#include <math.h>

#include "tui/view/view.h"

static void draw_step_head(struct canvas canvas)
{
    static const struct {
        const char *name;
        int columns;
    } head[] = {{"step", 7},    {"stage", 6}, {"loss", 9}, {"gradnorm", 9}, {"time", 10},
                {"exposed", 8}, {"fwd", 7},   {"bwd", 7},  {"upd", 7},  {"lr", 10}};
    struct pen pen = pen_at(canvas, 0, 1);
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) pen_right(&pen, head[i].columns, STYLE_DIM, head[i].name);
}

static void pen_percent(struct pen *pen, int columns, const struct run_step *step, uint64_t sum_ns)
{
    if (step->timed && step->total_ns)
        pen_format(pen, columns, STYLE_TEXT, "%.1f%%", 100.0 * (double)sum_ns / step->timed / (double)step->total_ns);
    else pen_right(pen, columns, STYLE_TEXT, "n/a");
}

/* NaN is a measured value, but where no loss is known at all (run_learns()). */
static void pen_learned(struct pen *pen, int columns, enum style style, const char *format, float value, bool known)
{
    if (known) pen_format(pen, columns, style, format, (double)value);
    else pen_right(pen, columns, STYLE_DIM, "n/a");
}

static void draw_step(struct canvas canvas, int y, const struct run_step *step, const struct run_model *model)
{
    const bool foreign = model->header.program[0], learned = run_learns(model); /* another program may tell the loss alone */
    char text[FORMAT_ROOM];
    struct pen pen = pen_at(canvas, 0, y);
    enum style style = step->skipped ? STYLE_WARN : STYLE_TEXT;
    pen_format(&pen, 7, style, "%u", step->step);
    if (step->stage == RUN_UNKNOWN) pen_right(&pen, 6, STYLE_TEXT, "n/a");
    else pen_format(&pen, 6, STYLE_TEXT, "%d", step->stage);
    if (step->skipped) pen_right(&pen, 9, style, "dropped");
    else pen_learned(&pen, 9, STYLE_STRONG, "%.4f", step->loss, learned);
    pen_learned(&pen, 9, STYLE_TEXT, "%#.4g", step->grad_norm, learned && (!foreign || !isnan(step->grad_norm)));
    pen_right(&pen, 10, STYLE_TEXT, format_time(text, step->total_ns));
    pen_percent(&pen, 8, step, step->split.exposed_ns);
    for (int phase = 0; phase < PHASES; phase++) pen_percent(&pen, 7, step, step->split.phase_ns[phase]);
    pen_learned(&pen, 10, STYLE_TEXT, "%.2e", step->learning_rate, learned && (!foreign || !isnan(step->learning_rate)));
}

/* The newest stands first; a step in progress is not listed. */
static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    int rows = canvas.at.rows - 2, y = 2;
    int skip = scrolled(scene->state->row[VIEW_STEPS], model->step_count, rows);
    draw_title(canvas, 0, focused,
               canvas.at.columns < 60 ? "steps"
               : canvas.at.columns < 100
                   ? "steps: time of the slowest rank; shares of it, means over ranks"
                   : "steps: time of the slowest rank; exposed communication and compute, shares of it, means over ranks");
    draw_step_head(canvas);
    for (int i = model->step_count - 1; i >= 0 && y < canvas.at.rows; i--) {
        if (!run_step_is_whole(&model->steps[i]) || skip-- > 0) continue;
        draw_step(canvas, y++, &model->steps[i], model);
    }
}

const struct view view_steps = {"steps", "steps", .pane = draw_pane};
