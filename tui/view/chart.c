#include "tui/view/chart.h"

#include <math.h>
#include <stdio.h>

#include "tui/draw/bar.h"

bool chart_init(struct chart *chart, const struct run_curve *curve, const struct run_curve *number, bool from_zero,
                const char *(*label)(char out[32], float value))
{
    *chart = (struct chart){.curve = curve, .number = number, .label = label};
    if (!curve->count) return false;
    chart->low = from_zero ? 0 : curve->value[0];
    chart->high = curve->value[0];
    for (int i = 0; i < curve->count; i++) chart_include(chart, curve->value[i]);
    return true;
}

void chart_include(struct chart *chart, float value)
{
    chart->low = fminf(chart->low, value);
    chart->high = fmaxf(chart->high, value);
}

static int chart_columns(const struct canvas *canvas)
{
    return canvas->at.columns - CHART_LABEL_COLUMNS - 1;
}

static float share_of(const struct chart *chart, float value)
{
    return chart->high > chart->low ? (value - chart->low) / (chart->high - chart->low) : 0.5f;
}

int chart_row(const struct canvas *canvas, const struct chart *chart, float value)
{
    int row = (int)((1 - share_of(chart, value)) * (float)canvas->at.rows);
    return row < 0 ? 0 : row >= canvas->at.rows ? canvas->at.rows - 1 : row;
}

int chart_column(const struct canvas *canvas, const struct chart *chart, uint32_t step)
{
    const struct run_curve *number = chart->number;
    int at = 0, columns = chart_columns(canvas);
    if (!number->count || (float)step + 0.5f * (float)number->stride < number->value[0]) return -1;
    while (at + 1 < number->count && number->value[at + 1] <= (float)step + 0.5f * (float)(number->stride - 1)) at++;
    return CHART_LABEL_COLUMNS + (int)((int64_t)at * columns / number->count);
}

static void draw_labels(struct canvas canvas, const struct chart *chart)
{
    char text[32];
    const int rows = canvas.at.rows, middle = rows / 2;
    draw_right(canvas, CHART_LABEL_COLUMNS - 1, 0, STYLE_DIM, chart->label(text, chart->high));
    if (rows > 2) draw_right(canvas, CHART_LABEL_COLUMNS - 1, rows - 1, STYLE_DIM, chart->label(text, chart->low));
    if (rows > 6)
        draw_right(canvas, CHART_LABEL_COLUMNS - 1, middle, STYLE_DIM,
                   chart->label(text, chart->high - (chart->high - chart->low) * ((float)middle + 0.5f) / (float)rows));
}

void chart_draw(struct canvas canvas, const struct chart *chart)
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

int chart_draw_steps(struct canvas canvas, int y, const struct chart *chart)
{
    const struct run_curve *number = chart->number;
    const int columns = chart_columns(&canvas), last = number->count - 1;
    char text[32];
    if (last < 0) return CHART_LABEL_COLUMNS;
    draw_fill(canvas, CHART_LABEL_COLUMNS, y, columns, STYLE_FRAME, 0x2500);
    snprintf(text, sizeof text, "%.0f", (double)number->value[last]);
    if (last > 0) draw_right(canvas, CHART_LABEL_COLUMNS + columns, y + 1, STYLE_DIM, text);
    return draw_format(canvas, CHART_LABEL_COLUMNS, y + 1, STYLE_DIM, "step %.0f", (double)number->value[0]);
}
