/* Panes that are lists or text: events, steps, the model's own text, the loss over the whole run. */
#include <math.h>
#include <stdio.h>

#include "tui/draw/paragraph.h"
#include "tui/draw/pen.h"
#include "tui/views/parts.h"

void pane_draw(enum pane pane, struct canvas canvas, const struct scene *scene)
{
    static void (*const draw[])(struct canvas, const struct scene *, bool) = {
        [PANE_MEMORY] = memory_pane, [PANE_TRAFFIC] = traffic_pane, [PANE_EVENTS] = events_pane,
        [PANE_STEPS] = steps_pane,   [PANE_TEXT] = text_pane,       [PANE_LOSS] = loss_pane};
    draw[pane](canvas, scene, pane == scene->state->focus);
}

/* How far the focused pane is scrolled, kept within what there is. */
static int scrolled(const struct scene *scene, bool focused, int items, int rows)
{
    int most = items > rows ? items - rows : 0;
    int scroll = focused ? scene->state->scroll : 0;
    return scroll > most ? most : scroll;
}

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
void events_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    int rows = canvas.at.rows - 1, count = model->notice_count;
    int last = count - scrolled(scene, focused, count, rows);
    int first = last > rows ? last - rows : 0;
    draw_title(canvas, 0, focused, "events, commands, log");
    if (!count) draw_text(canvas, 1, 1, STYLE_DIM, "nothing yet");
    for (int i = first; i < last; i++) draw_notice(canvas, 1 + i - first, &model->notices[i], model->first_ns);
}

static void draw_step_head(struct canvas canvas)
{
    static const struct {
        const char *name;
        int columns;
    } head[] = {{"step", 7}, {"stage", 6}, {"loss", 9}, {"norm", 9}, {"time", 10},
                {"comm", 7}, {"fwd", 7},   {"bwd", 7},  {"upd", 7},  {"rate", 10}};
    struct pen pen = pen_at(canvas, 0, 1);
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) pen_right(&pen, head[i].columns, STYLE_DIM, head[i].name);
}

static void pen_percent(struct pen *pen, const struct run_step *step, uint64_t sum_ns)
{
    if (step->timed && step->total_ns)
        pen_format(pen, 7, STYLE_TEXT, "%.1f%%", 100.0 * (double)sum_ns / step->timed / (double)step->total_ns);
    else pen_right(pen, 7, STYLE_TEXT, "n/a");
}

static void draw_step(struct canvas canvas, int y, const struct run_step *step)
{
    char text[FORMAT_ROOM];
    struct pen pen = pen_at(canvas, 0, y);
    enum style style = step->skipped ? STYLE_WARN : STYLE_TEXT;
    pen_format(&pen, 7, style, "%u", step->step);
    pen_format(&pen, 6, STYLE_TEXT, "%d", step->stage);
    if (step->skipped) pen_right(&pen, 9, style, "dropped");
    else pen_format(&pen, 9, STYLE_STRONG, "%.4f", (double)step->loss);
    pen_format(&pen, 9, STYLE_TEXT, "%.4g", (double)step->grad_norm);
    pen_right(&pen, 10, STYLE_TEXT, format_time(text, step->total_ns));
    pen_percent(&pen, step, step->split.exposed_ns);
    for (int phase = 0; phase < PHASES; phase++) pen_percent(&pen, step, step->split.phase_ns[phase]);
    pen_format(&pen, 10, STYLE_TEXT, "%.2e", (double)step->learning_rate);
}

/* The newest stands first; a step in progress is not listed. */
void steps_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    int rows = canvas.at.rows - 2, y = 2;
    int skip = scrolled(scene, focused, model->step_count, rows);
    draw_title(canvas, 0, focused, "steps");
    draw_step_head(canvas);
    for (int i = model->step_count - 1; i >= 0 && y < canvas.at.rows; i--) {
        if (model->steps[i].ended < model->ranks || skip-- > 0) continue;
        draw_step(canvas, y++, &model->steps[i]);
    }
}

void text_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    char title[64] = "text from the model";
    if (model->sample.text) snprintf(title, sizeof title, "text from the model after step %u", model->sample.step);
    draw_title(canvas, 0, focused, title);
    if (model->sample.text)
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1),
                       focused ? scene->state->scroll : 0, STYLE_TEXT, model->sample.text);
    else
        draw_text(canvas, 1, 1, STYLE_DIM,
                  scene->state->live && !scene->state->readonly ? "none yet; p prints some" : "none yet");
}

/* The loss as columns of eighths of a row. */
static void draw_chart(struct canvas canvas, int x, int columns, int rows, const struct run_curve *curve, float low,
                       float high)
{
    for (int i = 0; i < columns; i++) {
        float value = curve->value[(int64_t)i * curve->count / columns];
        float share = high > low ? (value - low) / (high - low) : 0.5f;
        int eighths = 1 + (int)(share * (float)(rows * 8 - 1));
        for (int row = 0; row < rows; row++) {
            int here = eighths - 8 * row;
            if (here > 0)
                draw_character(canvas, x + i, rows - row, STYLE_SPARK, here >= 8 ? 0x2588 : 0x2580 + (uint32_t)here);
        }
    }
}

void loss_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_curve *curve = &scene->model->loss;
    int rows = canvas.at.rows - 2, columns = canvas.at.columns - 10;
    draw_title(canvas, 0, focused, "loss");
    if (!curve->count || rows < 1) return;
    float low = curve->value[0], high = low;
    for (int i = 1; i < curve->count; i++) {
        low = fminf(low, curve->value[i]);
        high = fmaxf(high, curve->value[i]);
    }
    if (columns > curve->count) columns = curve->count;
    draw_chart(canvas, 9, columns, rows, curve, low, high);
    draw_format(canvas, 0, 1, STYLE_DIM, "%8.4f", (double)high);
    draw_format(canvas, 0, rows, STYLE_DIM, "%8.4f", (double)low);
    draw_format(canvas, 9, rows + 1, STYLE_DIM, "%u steps, each column the mean of %u", scene->model->steps_seen,
                curve->stride);
}
