/* The loss over the whole run, with validation points and where stage or knobs were switched; throughput on the same steps;
 * gradient norm and learning rate; and what the model says by now. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/why.h"
#include "tui/draw/bar.h"
#include "tui/view/chart.h"
#include "tui/view/view.h"

enum { SWITCHES_SHOWN = 16 };

static const char *loss_label(char out[32], float value)
{
    snprintf(out, 32, "%.4f", (double)value);
    return out;
}

static const char *rate_label(char out[32], float value)
{
    return format_short(out, (uint64_t)(value + 0.5f));
}

/* ---- marks on the loss ---- */

static void draw_validations(struct canvas canvas, const struct chart *chart, const struct run_model *model)
{
    for (int v = 0; v < model->validation_count; v++) {
        int x = chart_column(&canvas, chart, model->validations[v].step);
        if (x >= 0)
            draw_character(canvas, x, chart_row(&canvas, chart, model->validations[v].loss), STYLE_WARN, 0x25c6);
    }
}

/* "3" where the stage became 3, "#" where the ranks became others, "*" where a knob was set, with a line up into the chart where nothing else stands. */
static void draw_switches(struct canvas canvas, int y, const struct chart *chart, const struct run_model *model)
{
    struct why_switch switches[SWITCHES_SHOWN];
    int count = why_switches(model, switches, SWITCHES_SHOWN);
    for (int s = count - 1; s >= 0; s--) {
        const char *arrow = strstr(switches[s].text, "-> ");
        bool stage = !strncmp(switches[s].text, "stage ", 6) && arrow;
        bool ranks = !strncmp(switches[s].text, "ranks ", 6);
        int x = chart_column(&canvas, chart, switches[s].step);
        if (x >= 0) draw_character(canvas, x, y, STYLE_STAGE, stage ? (uint32_t)arrow[3] : ranks ? '#' : '*');
    }
}

static bool has_switches(const struct run_model *model)
{
    struct why_switch one;
    return why_switches(model, &one, 1) > 0;
}

static void draw_legend(struct canvas canvas, int x, int y, const struct run_model *model)
{
    if (model->loss.stride > 1) x = draw_format(canvas, x, y, STYLE_DIM, "   %u steps a point", model->loss.stride);
    if (model->validation_count) {
        draw_character(canvas, x + 3, y, STYLE_WARN, 0x25c6);
        x = draw_text(canvas, x + 4, y, STYLE_DIM, " validation");
    }
    if (!has_switches(model)) return;
    x = draw_text(canvas, x + 3, y, STYLE_STAGE, "3");
    x = draw_text(canvas, x, y, STYLE_DIM, " stage   ");
    x = draw_text(canvas, x, y, STYLE_STAGE, "*");
    x = draw_text(canvas, x, y, STYLE_DIM, " knob");
    if (model->part_count < 2) return;
    x = draw_text(canvas, x + 3, y, STYLE_STAGE, "#");
    draw_text(canvas, x, y, STYLE_DIM, " ranks");
}

/* ---- parts of the view ---- */

static void draw_loss(struct canvas canvas, const struct run_model *model)
{
    struct chart chart;
    const int rows = canvas.at.rows - 2;
    if (!chart_init(&chart, &model->loss, &model->number, false, loss_label)) return;
    for (int v = 0; v < model->validation_count; v++) chart_include(&chart, model->validations[v].loss);
    struct canvas plot = canvas_part(canvas, 0, 0, canvas.at.columns, rows);
    chart_draw(plot, &chart);
    draw_validations(plot, &chart, model);
    int x = chart_draw_steps(canvas, rows, &chart);
    draw_switches(canvas, rows, &chart, model);
    draw_legend(canvas, x, rows + 1, model);
}

static void draw_throughput(struct canvas canvas, const struct run_model *model)
{
    struct chart chart;
    char text[FORMAT_ROOM];
    double now;
    int x = draw_title(canvas, 0, false, "tokens a second");
    if (run_tokens_per_second(model, &now))
        draw_format(canvas, x, 0, STYLE_STRONG, "%s now ", format_count(text, (uint64_t)(now + 0.5)));
    if (!chart_init(&chart, &model->tokens_per_s, &model->number, true, rate_label)) return;
    chart_draw(canvas_part(canvas, 0, 1, canvas.at.columns, canvas.at.rows - 1), &chart);
}

static void draw_line(struct canvas canvas, int y, const char *name, const char *format, const struct run_curve *curve,
                      float now)
{
    int end = canvas.at.columns - 1;
    draw_text(canvas, 1, y, STYLE_TEXT, name);
    draw_format(canvas, 16, y, STYLE_STRONG, format, (double)now);
    draw_sparkline(canvas, 28, y, end - 28, STYLE_SPARK, curve->value, curve->count);
}

static void draw_others(struct canvas canvas, const struct run_model *model)
{
    const struct run_step *step = run_last_step(model);
    draw_title(canvas, 0, false, "gradient norm and learning rate");
    if (!step) return;
    draw_line(canvas, 1, "gradient norm", "%10.4g", &model->grad_norm, step->grad_norm);
    draw_line(canvas, 2, "learning rate", "%10.3g", &model->learning_rate, step->learning_rate);
}

/* What the model itself says, from line `skip` on: the lower part of this view, and the view `text`. */
static void draw_text_of_model(struct canvas canvas, const struct scene *scene, int skip, bool focused)
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

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    enum { OTHERS = 3 };
    const int columns = canvas.at.columns, rows = canvas.at.rows;
    const int said = rows / 5, rate = rows / 5 + 1, loss = rows - said - rate - OTHERS;
    draw_title(canvas, 0, false, "loss");
    if (!model->loss.count) draw_text(canvas, 1, 1, STYLE_DIM, "no step has ended yet");
    draw_loss(canvas_part(canvas, 0, 1, columns, loss - 1), model);
    draw_throughput(canvas_part(canvas, 0, loss, columns, rate), model);
    draw_others(canvas_part(canvas, 0, loss + rate, columns, OTHERS), model);
    draw_text_of_model(canvas_part(canvas, 0, rows - said, columns, said), scene, scene->state->row[VIEW_LOSS], false);
}

/* In small: the loss alone. */
static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    struct chart chart;
    draw_title(canvas, 0, focused, "loss");
    const int rows = canvas.at.rows - 3;
    if (rows < 1 || !chart_init(&chart, &model->loss, &model->number, false, loss_label)) return;
    chart_draw(canvas_part(canvas, 0, 1, canvas.at.columns, rows), &chart);
    chart_draw_steps(canvas, rows + 1, &chart);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    (void)scene;
    int *row = &state->row[VIEW_LOSS];
    switch (key->action) {
    case ACTION_DOWN: ++*row; break;
    case ACTION_UP: *row -= *row > 0; break;
    case ACTION_FIRST: *row = 0; break;
    default: return false;
    }
    return true;
}

const struct view view_loss = {
    "loss", "loss", .keys = {ACTION_UP, ACTION_DOWN}, .draw = draw_view, .pane = draw_pane, .act = act};

/* ---- the text alone ---- */

static void draw_text_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    draw_text_of_model(canvas, scene, scene->state->row[VIEW_TEXT], focused);
}

const struct view view_text = {"text", "text from the model", .pane = draw_text_pane};
