/* The last steps, one in each row: loss, norm, time, and shares of that time as means over ranks. `exposed` is the share of communication
 * with no compute beside it; the other shares are the phases of compute. */
#include <math.h>

#include "tui/view/view.h"

/* A share of the step; sum_ns: of all ranks. */
static struct text share_text(const struct run_step *step, uint64_t sum_ns)
{
    if (!step->timed || !step->total_ns) return text_of("n/a");
    return text_of("%.1f%%", 100.0 * (double)sum_ns / step->timed / (double)step->total_ns);
}

/* NaN is a measured value, but where no loss is known at all (run_learns()). */
static void pen_learned(struct pen *pen, int columns, enum style style, const char *format, float value, bool known)
{
    pen_right(pen, columns, known ? style : STYLE_DIM, text_of(known ? format : "n/a", (double)value).text);
}

static void draw_step(struct canvas canvas, int y, const struct run_step *step, const struct run_model *model)
{
    const bool foreign = model->header.program[0], learned = run_learns(model); /* another program may tell the loss alone */
    struct pen pen = pen_at(canvas, 0, y);
    enum style style = step->skipped ? STYLE_WARN : STYLE_TEXT;
    pen_format(&pen, 7, style, "%u", step->step);
    pen_format(&pen, 6, STYLE_TEXT, step->stage == RUN_UNKNOWN ? "n/a" : "%d", step->stage);
    if (step->skipped) pen_right(&pen, 9, style, "dropped");
    else pen_learned(&pen, 9, STYLE_STRONG, "%.4f", step->loss, learned);
    pen_learned(&pen, 9, STYLE_TEXT, "%#.4g", step->grad_norm, learned && (!foreign || !isnan(step->grad_norm)));
    pen_right(&pen, 10, STYLE_TEXT, format_time(step->total_ns).text);
    pen_right(&pen, 8, STYLE_TEXT, share_text(step, step->split.exposed_ns).text);
    for (int phase = 0; phase < PHASES; phase++)
        pen_right(&pen, 7, STYLE_TEXT, share_text(step, step->split.phase_ns[phase]).text);
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
                   : "steps: time of the slowest rank; exposed, fwd, bwd, upd: shares of that time, means over ranks");
    draw_heads(canvas, 0, 1, {7, "step"}, {6, "stage"}, {9, "loss"}, {9, "gradnorm"}, {10, "time"}, {8, "exposed"},
               {7, "fwd"}, {7, "bwd"}, {7, "upd"}, {10, "lr"});
    for (int i = model->step_count - 1; i >= 0 && y < canvas.at.rows; i--) {
        if (!run_step_is_whole(&model->steps[i]) || skip-- > 0) continue;
        draw_step(canvas, y++, &model->steps[i], model);
    }
}

const struct view view_steps = {"steps", "steps", .pane = draw_pane};
