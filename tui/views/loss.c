/* The loss over the whole run, with validation points and the places where stage or knobs were switched; throughput on the same
 * steps; gradient norm and learning rate; and the newest text that the model generated. */
#include <math.h>
#include <string.h>

#include "engine/advise/why.h"
#include "tui/draw/bar.h"
#include "tui/view/view.h"

enum { SWITCHES_SHOWN = 16 };
static const char *no_loss_text(const struct run_model *model)
{
    return model->header.simulated ? "n/a: a simulation does not train" : "n/a: the trace does not tell it";
}

/* ---- a curve over the whole run, in columns of eighths of a row, with its axes: values on the left, steps below ---- */

struct chart {
    const struct run_curve *curve, *number; /* its values, and the step of each */
    float low, high;                        /* of the axis */
    struct text (*label)(float value);
};

enum { CHART_LABEL_COLUMNS = 10 };

static void chart_include(struct chart *chart, float value)
{
    chart->low = fminf(chart->low, value);
    chart->high = fmaxf(chart->high, value);
}

/* The axis from the lowest to the highest value, or from 0. False: nothing to draw yet. */
static bool chart_init(struct chart *chart, const struct run_curve *curve, const struct run_curve *number,
                       bool from_zero, struct text (*label)(float value))
{
    *chart = (struct chart){.curve = curve, .number = number, .label = label};
    if (!curve->count) return false;
    chart->low = from_zero ? 0 : curve->value[0];
    chart->high = curve->value[0];
    for (int i = 0; i < curve->count; i++) chart_include(chart, curve->value[i]);
    return true;
}

static int chart_columns(const struct canvas *canvas)
{
    return canvas->at.columns - CHART_LABEL_COLUMNS - 1;
}

static float share_of(const struct chart *chart, float value)
{
    return chart->high > chart->low ? (value - chart->low) / (chart->high - chart->low) : 0.5f;
}

static int chart_row(const struct canvas *canvas, const struct chart *chart, float value)
{
    return within((int)((1 - share_of(chart, value)) * (float)canvas->at.rows), 0, canvas->at.rows - 1);
}

/* -1: it is not on the chart. */
static int chart_column(const struct canvas *canvas, const struct chart *chart, uint32_t step)
{
    const struct run_curve *number = chart->number;
    int at = 0, columns = chart_columns(canvas);
    if (!number->count || (float)step + 0.5f * (float)number->stride < number->value[0]) return -1;
    while (at + 1 < number->count && number->value[at + 1] <= (float)step + 0.5f * (float)(number->stride - 1)) at++;
    return CHART_LABEL_COLUMNS + (int)((int64_t)at * columns / number->count);
}

static void draw_labels(struct canvas canvas, const struct chart *chart)
{
    const int rows = canvas.at.rows, middle = rows / 2;
    draw_right(canvas, CHART_LABEL_COLUMNS - 1, 0, STYLE_DIM, chart->label(chart->high).text);
    if (rows > 2) draw_right(canvas, CHART_LABEL_COLUMNS - 1, rows - 1, STYLE_DIM, chart->label(chart->low).text);
    if (rows > 6)
        draw_right(canvas, CHART_LABEL_COLUMNS - 1, middle, STYLE_DIM,
                   chart->label(chart->high - (chart->high - chart->low) * ((float)middle + 0.5f) / (float)rows).text);
}

static void chart_draw(struct canvas canvas, const struct chart *chart)
{
    const int columns = chart_columns(&canvas), rows = canvas.at.rows;
    draw_labels(canvas, chart);
    for (int i = 0; i < columns; i++) {
        const float mean = column_mean(chart->curve->value, chart->curve->count, i, columns);
        if (isnan(mean)) {
            draw_character(canvas, CHART_LABEL_COLUMNS + i, rows - 1, STYLE_DIM, '?');
            continue;
        }
        int eighths = 1 + (int)(share_of(chart, mean) * (float)(rows * 8 - 1));
        for (int row = 0; row < rows; row++) {
            int here = eighths - 8 * row;
            if (here > 0)
                draw_character(canvas, CHART_LABEL_COLUMNS + i, rows - 1 - row, STYLE_SPARK,
                               here >= 8 ? 0x2588 : 0x2580 + (uint32_t)here);
        }
    }
}

/* The axis, and below it the first and the last step; returns the column after the first. */
static int chart_draw_steps(struct canvas canvas, int y, const struct chart *chart)
{
    const struct run_curve *number = chart->number;
    const int columns = chart_columns(&canvas), last = number->count - 1;
    if (last < 0) return CHART_LABEL_COLUMNS;
    draw_fill(canvas, CHART_LABEL_COLUMNS, y, columns, STYLE_FRAME, 0x2500);
    if (last > 0)
        draw_right(canvas, CHART_LABEL_COLUMNS + columns, y + 1, STYLE_DIM,
                   text_of("%.0f", (double)number->value[last]).text);
    return draw_format(canvas, CHART_LABEL_COLUMNS, y + 1, STYLE_DIM, "step %.0f", (double)number->value[0]);
}

/* ---- labels ---- */

static struct text loss_label(float value)
{
    return text_of("%.4f", (double)value);
}

static struct text rate_label(float value)
{
    return format_short((uint64_t)(value + 0.5f));
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

/* "3" where the stage became 3, "#" where the ranks became others, "*" where a knob was set, with a line up into the chart
 * where nothing else stands. */
static void draw_switches(struct canvas canvas, int y, const struct chart *chart, const struct run_model *model)
{
    struct why_switch switches[SWITCHES_SHOWN];
    for (int s = why_switches(model, switches, SWITCHES_SHOWN) - 1; s >= 0; s--) {
        const char *arrow = strstr(switches[s].text, "-> ");
        bool stage = !strncmp(switches[s].text, "stage ", 6) && arrow;
        bool ranks = !strncmp(switches[s].text, "ranks ", 6);
        int x = chart_column(&canvas, chart, switches[s].step);
        if (x >= 0) draw_character(canvas, x, y, STYLE_STAGE, stage ? (uint32_t)arrow[3] : ranks ? '#' : '*');
    }
}

static void draw_legend(struct canvas canvas, int x, int y, const struct run_model *model)
{
    if (model->loss.stride > 1) x = draw_format(canvas, x, y, STYLE_DIM, "   %u steps a point", model->loss.stride);
    if (model->validation_count) {
        draw_character(canvas, x + 3, y, STYLE_WARN, 0x25c6);
        x = draw_text(canvas, x + 4, y, STYLE_DIM, " validation");
    }
    struct why_switch one;
    if (why_switches(model, &one, 1) == 0) return;
    x = draw_text(canvas, x + 3, y, STYLE_STAGE, "3");
    x = draw_text(canvas, x, y, STYLE_DIM, " new stage   ");
    x = draw_text(canvas, x, y, STYLE_STAGE, "*");
    x = draw_text(canvas, x, y, STYLE_DIM, " key set");
    if (model->part_count < 2) return;
    x = draw_text(canvas, x + 3, y, STYLE_STAGE, "#");
    draw_text(canvas, x, y, STYLE_DIM, " other ranks");
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
    double now;
    int x = draw_title(canvas, 0, false, "tokens/s");
    if (run_tokens_per_second(model, &now))
        draw_format(canvas, x, 0, STYLE_STRONG, "%s in the last second ", format_count((uint64_t)(now + 0.5)).text);
    if (!chart_init(&chart, &model->tokens_per_s, &model->number, true, rate_label)) return;
    chart_draw(canvas_part(canvas, 0, 1, canvas.at.columns, canvas.at.rows - 1), &chart);
}

static void draw_line(struct canvas canvas, int y, const char *name, const char *format, const struct run_curve *curve,
                      float now)
{
    draw_text(canvas, 1, y, STYLE_TEXT, name);
    draw_format(canvas, 16, y, STYLE_STRONG, format, (double)now);
    draw_sparkline(canvas, 28, y, canvas.at.columns - 29, STYLE_SPARK, curve->value, curve->count);
}

static void draw_others(struct canvas canvas, const struct run_model *model)
{
    const struct run_step *step = run_last_step(model);
    draw_title(canvas, 0, false, "gradient norm and learning rate");
    if (!step || !run_learns(model)) return;
    if (model->header.program[0] && isnan(step->grad_norm)) {
        draw_text(canvas, 1, 1, STYLE_DIM, no_loss_text(model));
        return;
    }
    draw_line(canvas, 1, "gradient norm", "%10.4g", &model->grad_norm, step->grad_norm);
    draw_line(canvas, 2, "learning rate", "%10.3g", &model->learning_rate, step->learning_rate);
}

/* What the model itself says, from line `skip` on: the lower part of this view, and the view `text`. */
static void draw_text_of_model(struct canvas canvas, const struct scene *scene, int skip, bool focused)
{
    const struct run_model *model = scene->model;
    draw_title(canvas, 0, focused, model->sample.text ? "text from the model after step %u" : "text from the model",
               model->sample.step);
    if (model->sample.text)
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1), skip, STYLE_TEXT,
                       model->sample.text);
    else draw_text(canvas, 1, 1, STYLE_DIM, model->header.program[0] ? "n/a: of another program's job" : "none yet; in a live run, p generates a sample");
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    enum { OTHERS = 3 };
    const int columns = canvas.at.columns, rows = canvas.at.rows;
    const int said = rows / 5, rate = rows / 5 + 1, loss = rows - said - rate - OTHERS;
    draw_title(canvas, 0, false, "loss");
    if (!run_learns(model)) draw_text(canvas, 1, 1, STYLE_DIM, no_loss_text(model));
    else if (!model->loss.count) draw_text(canvas, 1, 1, STYLE_DIM, "no step has ended yet");
    if (run_learns(model)) draw_loss(canvas_part(canvas, 0, 1, columns, loss - 1), model);
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
    if (!run_learns(model)) draw_text(canvas, 1, 1, STYLE_DIM, no_loss_text(model));
    if (!run_learns(model) || rows < 1 || !chart_init(&chart, &model->loss, &model->number, false, loss_label))
        return;
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
