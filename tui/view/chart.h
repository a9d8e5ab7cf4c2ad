/* A curve over the whole run, drawn in columns of eighths of a row, with its axes: values on the left, steps below. */
#ifndef TUI_VIEW_CHART_H
#define TUI_VIEW_CHART_H

#include "engine/observe/model.h"
#include "tui/draw/surface.h"

struct chart {
    const struct run_curve *curve, *number; /* its values, and the step of each */
    float low, high;                        /* of the axis */
    const char *(*label)(char out[32], float value);
};

enum { CHART_LABEL_COLUMNS = 10 };

/* The axis from the lowest to the highest value, or from 0. False: nothing to draw yet. */
bool chart_init(struct chart *chart, const struct run_curve *curve, const struct run_curve *number, bool from_zero,
                const char *(*label)(char out[32], float value));
void chart_include(struct chart *chart, float value);

void chart_draw(struct canvas canvas, const struct chart *chart);
/* The axis, and below it the first and the last step; returns the column after the first. */
int chart_draw_steps(struct canvas canvas, int y, const struct chart *chart);

int chart_column(const struct canvas *canvas, const struct chart *chart, uint32_t step); /* -1: not on it */
int chart_row(const struct canvas *canvas, const struct chart *chart, float value);

#endif
