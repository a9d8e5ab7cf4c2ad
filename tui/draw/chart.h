/* Charts of a table: stacked bars, lines, or a heat map. A chart has a value for each place on its x axis, each group (a bar at each place,
 * a line, or a row of a heat map) and each series (a part of a bar; lines and heat maps have one series).
 *
 * Places are equally far apart, whatever their values, so ranks that double are a logarithmic axis. The y axis of bars is linear from 0;
 * that of lines is logarithmic where the values span more than a factor of 30. */
#pragma once

#include "tui/draw/drawing.h"

enum chart_kind { CHART_BARS, CHART_LINES, CHART_HEAT };
enum { CHART_PLACES_MAX = 64, CHART_SERIES_MAX = 10 };

struct chart_series { const char *name; char letter; uint32_t pattern; enum style style; };

struct chart {
    enum chart_kind kind;
    const char *title, *unit;            /* "B", "s": figures get a prefix, such as GB; "": plain numbers */
    const char *key[2];                  /* names of what places and groups stand for; key[1] NULL: one group without a name */
    bool knee;                           /* lines: also name the first place whose value is within 2 % of the least */
    int places, groups, series_count;
    const char *place[CHART_PLACES_MAX], *group[CHART_PLACES_MAX];
    struct chart_series series[CHART_SERIES_MAX];
    const double *values;                /* [places][groups][series_count]; NAN: refused, or not known */
    const double *limits;                /* [places][groups]: budgets, drawn as a line where they are near enough; NAN: none */
};

/* How many columns the chart needs, so that bars, lines or cells have room for their figures. */
int chart_columns(const struct chart *chart);

/* Draws into `drawing`, whose columns and rows are set and which is empty. False: there is not enough room. */
bool chart_draw(const struct chart *chart, struct drawing *drawing);

double chart_step(double least); /* between two ticks: 1, 2 or 5 times a power of 10, at least `least` */
