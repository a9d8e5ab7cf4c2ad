/* The loss over the whole run. */
#include <math.h>

#include "tui/views/parts.h"

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

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
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

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    draw_pane(canvas, scene, false);
}

const struct view view_loss = {"loss", "loss", .draw = draw_view, .pane = draw_pane};
