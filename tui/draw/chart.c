#include "tui/draw/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "tui/draw/format.h"

enum { PLOT_LEAST = 4 }; /* rows between the legend and the axis */

/* The plot lies from left to right and from top to bottom. A value's row is linear in the value, or in its logarithm. Cells are
 * numbered place x groups + group. */
struct plot {
    const struct chart *chart;
    struct drawing *drawing;
    int left, right, top, bottom, slot; /* slot: columns of a place */
    int cells, bar, bars_from;          /* columns of a bar, and its place's columns before the first */
    double least, most, limit;          /* of values, least above 0; of limits, the highest. NAN: none */
    bool log, refused;
    double low, high; /* of the scale */
};

/* ---- numbers ---- */

/* Thousands for the prefix of a value: 3 for G. Only seconds have prefixes below 1. */
static int thousands_of(double value, const char *unit)
{
    const int thousands = value > 0 ? (int)floor(log10(value * 1.0005) / 3) : 0, least = strcmp(unit, "s") ? 0 : -3;
    return !*unit ? 0 : thousands < least ? least : thousands > 6 ? 6 : thousands;
}

static const char *prefix_of(int thousands)
{
    static const char *const prefixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    return prefixes[thousands + 3];
}

/* "1.23 GB", "45 ms", "0.123" */
static struct text chart_number(double value, const char *unit)
{
    const int thousands = thousands_of(value, unit);
    if (!*unit) return text_of(fabs(value) >= 1000 ? "%.0f" : "%.3g", value);
    return text_of("%.3g %s%s", value / pow(1000, thousands), prefix_of(thousands), unit);
}

double chart_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    return least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
}

static double value_at(const struct chart *chart, int cell, int series)
{
    return chart->values[cell * chart->series_count + series];
}

static double sum_at(const struct chart *chart, int cell)
{
    double sum = 0;
    for (int s = 0; s < chart->series_count; s++) sum += value_at(chart, cell, s);
    return sum;
}

/* A limit counts if it is less than four times the highest value. */
static void scale_of(struct plot *plot)
{
    const struct chart *chart = plot->chart;
    plot->least = plot->most = plot->limit = NAN;
    for (int cell = 0; cell < plot->cells; cell++) {
        const double sum = sum_at(chart, cell);
        plot->most = fmax(plot->most, sum), plot->limit = fmax(plot->limit, chart->limits[cell]);
        plot->least = sum > 0 ? fmin(plot->least, sum) : plot->least;
        plot->refused |= isnan(sum);
    }
    plot->high = plot->limit < 4 * plot->most ? fmax(plot->most, plot->limit) : plot->most > 0 ? plot->most : 1;
    plot->log = plot->most > 30 * plot->least && chart->kind != CHART_BARS;
    if (!plot->log || chart->kind == CHART_HEAT) return;
    plot->low = pow(10, floor(log10(plot->least)));
    plot->high = pow(10, ceil(log10(plot->high) - 1e-9));
}

static double row_of(const struct plot *plot, double value)
{
    const double share = plot->log ? log(value / plot->low) / log(plot->high / plot->low) : value / plot->high;
    return plot->bottom - share * (plot->bottom - plot->top);
}

/* ---- shapes ---- */

static void rule(struct drawing *drawing, enum style style, double x, double y, double x2)
{
    const struct shape shape = {SHAPE_RULE, style, .x = x, .y = y, .x2 = x2, .y2 = y, .mark = style == STYLE_PLANNED};
    drawing_add(drawing, &shape);
}

static void middle(struct drawing *drawing, double x, int columns, double y, enum style style, const char *text)
{
    drawing_text(drawing, x + (columns - utf8_columns(text)) / 2, y, style, "%s", text);
}

/* A shape that stands for a value, and says so: "1.2 GB optimizer, ranks 8, stage 3". */
static void say(const struct plot *plot, struct shape *shape, int cell, const char *series, double value)
{
    const struct chart *chart = plot->chart;
    const char *const of[] = {chart->place[cell / chart->groups], chart->group[cell % chart->groups]};
    snprintf(shape->text, sizeof shape->text, "%.30s %s", chart_number(value, chart->unit).text, series);
    for (int k = 0; k < 2 && chart->key[k]; k++) {
        const char *dot = strrchr(chart->key[k], '.');
        text_append(shape->text, sizeof shape->text, "%s%s %s", k || *series ? ", " : "", dot ? dot + 1 : chart->key[k],
                    of[k]);
    }
    drawing_add(plot->drawing, shape);
}

static struct shape mark_of(int group, double x, double y)
{
    static const enum style styles[SHAPE_MARKS] = {STYLE_GRADIENTS, STYLE_GATHERED, STYLE_OPTIMIZER,  STYLE_UPDATE,
                                                   STYLE_BACKWARD,  STYLE_FORWARD,  STYLE_PARAMETERS, STYLE_WORKSPACE};
    return (struct shape){SHAPE_MARK, styles[group % SHAPE_MARKS], x, y, x, y, .mark = group};
}

static struct shape box_of(const struct chart_series *series, double x, double y, double x2, double y2)
{
    return (struct shape){SHAPE_BOX, series->style, x, y, x2, y2, .letter = series->letter, .pattern = series->pattern};
}

/* ---- around the plot ---- */

/* Entries of the legend, from left to right, in as many rows as they need. room: columns of the sign before a text. */
struct legend {
    struct drawing *drawing;
    int x, y;
};

static int entry(struct legend *legend, int room, const char *format, ...)
{
    char text[SHAPE_TEXT_ROOM];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    const int columns = room + utf8_columns(text);
    if (legend->x > 2 && legend->x + columns > legend->drawing->columns) legend->x = 2, legend->y++;
    const int at = legend->x;
    drawing_text(legend->drawing, at + room, legend->y, STYLE_TEXT, "%s", text);
    legend->x += columns + 2;
    return at;
}

/* ", knee 4e5"; "": not asked for, or nothing is known. */
static struct text knee_text(const struct chart *chart, int group)
{
    double least = NAN;
    int place = 0;
    for (int p = 0; p < chart->places; p++) least = fmin(least, value_at(chart, p * chart->groups + group, 0));
    if (!chart->knee || isnan(least)) return (struct text){""};
    while (!(value_at(chart, place * chart->groups + group, 0) <= 1.02 * least)) place++;
    return text_of(", knee %s", chart->place[place]);
}

static void draw_legend(struct legend *legend, const struct plot *plot)
{
    const struct chart *chart = plot->chart;
    for (int s = chart->series_count - 1; chart->kind == CHART_BARS && s >= 0; s--) {
        const struct chart_series *series = &chart->series[s];
        double most = 0;
        for (int cell = 0; cell < plot->cells; cell++) most = fmax(most, value_at(chart, cell, s));
        if (most <= 0) continue;
        const int x = entry(legend, 4, "%s", series->name);
        const struct shape box = box_of(series, x, legend->y, x + 3, legend->y + 1);
        drawing_add(legend->drawing, &box);
        drawing_text(legend->drawing, x + 1, legend->y, series->style, "%c", series->letter);
    }
    if (chart->kind == CHART_LINES && chart->key[1]) entry(legend, 0, "%s", chart->key[1]);
    for (int g = 0; chart->kind == CHART_LINES && chart->key[1] && g < chart->groups; g++) {
        const int x = entry(legend, 2, "%s%s", chart->group[g], knee_text(chart, g).text);
        const struct shape mark = mark_of(g, x + 0.5, legend->y + 0.5);
        drawing_add(legend->drawing, &mark);
    }
    if (!chart->key[1] && *knee_text(chart, 0).text) entry(legend, 0, "%s", knee_text(chart, 0).text + strlen(", "));
    if (chart->kind == CHART_HEAT)
        entry(legend, 0, "from %s (light) to %s (full)%s", chart_number(plot->least, chart->unit).text,
              chart_number(plot->most, chart->unit).text, plot->log ? ", logarithmic" : "");
    if (!isnan(plot->limit)) {
        const int x = entry(legend, 4, "budget %s%s", chart_number(plot->limit, chart->unit).text,
                            plot->limit > plot->high ? ", above the chart" : "");
        rule(legend->drawing, STYLE_PLANNED, x, legend->y + 0.5, x + 3);
    }
    if (plot->refused) entry(legend, 0, "\u00d7 refused");
}

static void tick(const struct plot *plot, double value, const char *text)
{
    const double y = row_of(plot, value);
    drawing_text(plot->drawing, plot->left - 1 - utf8_columns(text), y - 0.5, STYLE_DIM, "%s", text);
    rule(plot->drawing, STYLE_FRAME, plot->left, y, plot->right);
}

static void draw_scale(struct plot *plot)
{
    const char *unit = plot->chart->unit;
    const int ticks = (plot->bottom - plot->top) / 3 > 1 ? (plot->bottom - plot->top) / 3 : 1;
    if (plot->log) {
        const int decades = (int)(log10(plot->high / plot->low) + 0.5), by = (decades + ticks - 1) / ticks;
        for (int d = 0; d <= decades; d += by)
            tick(plot, plot->low * pow(10, d), chart_number(plot->low * pow(10, d), unit).text);
        return;
    }
    const double step = chart_step(plot->high / ticks);
    const int steps = (int)ceil(plot->high / step - 1e-9), thousands = thousands_of(steps * step, unit);
    plot->high = steps * step;
    for (int i = 0; i <= steps; i++) tick(plot, i * step, text_of("%.4g", i * step / pow(1000, thousands)).text);
    drawing_text(plot->drawing, 1, plot->top - 1, STYLE_DIM, "%s%s", prefix_of(thousands), unit);
}

static int widest(const char *const *texts, int count)
{
    int most = 0;
    for (int i = 0; i < count; i++)
        if (utf8_columns(texts[i]) > most) most = utf8_columns(texts[i]);
    return most;
}

/* Values of the keys below the plot: of the bars of each place where there is room, of places, and then what they are. */
static void draw_labels(const struct plot *plot)
{
    const struct chart *chart = plot->chart;
    const int every = (widest(chart->place, chart->places) + plot->slot) / plot->slot; /* places have a label */
    const bool bars = chart->kind == CHART_BARS && chart->key[1],
               room = widest(chart->group, chart->groups) < plot->bar;
    char said[400] = "";
    int y = plot->bottom + 1;
    for (int cell = 0; bars && room && cell < plot->cells; cell++)
        middle(plot->drawing,
               plot->left + cell / chart->groups * plot->slot + plot->bars_from + cell % chart->groups * plot->bar,
               plot->bar, y, STYLE_DIM, chart->group[cell % chart->groups]);
    if (bars && room) y++;
    for (int p = 0; p < chart->places; p += every)
        middle(plot->drawing, plot->left + p * plot->slot, plot->slot, y, STYLE_TEXT, chart->place[p]);
    if (bars) text_append(said, sizeof said, "; bars: %s", chart->key[1]);
    for (int g = 0; bars && !room && g < chart->groups; g++)
        text_append(said, sizeof said, "%s %s", g ? "," : "", chart->group[g]);
    if (chart->kind == CHART_HEAT) text_append(said, sizeof said, "; rows: %s", chart->key[1]);
    drawing_text(plot->drawing, plot->left, y + 1, STYLE_DIM, "%s%s", chart->key[0], said);
}

/* ---- the three kinds ---- */

static void draw_bar_at(const struct plot *plot, int cell)
{
    const struct chart *chart = plot->chart;
    const int place = plot->left + cell / chart->groups * plot->slot, group = cell % chart->groups,
              x = place + plot->bars_from + group * plot->bar;
    const bool refused = isnan(sum_at(chart, cell));
    double below = 0;
    if (refused) middle(plot->drawing, x, plot->bar, plot->bottom - 1, STYLE_TEXT, "\u00d7");
    for (int s = 0; !refused && s < chart->series_count; s++) {
        const struct chart_series *series = &chart->series[s];
        const double value = value_at(chart, cell, s);
        struct shape box = box_of(series, x, row_of(plot, below + value), x + plot->bar, row_of(plot, below));
        below += value;
        if (!(value > 0)) continue;
        say(plot, &box, cell, series->name, value);
        if (box.y2 - box.y >= 1)
            drawing_text(plot->drawing, x + (plot->bar - 1) / 2, (box.y + box.y2) / 2 - 0.5, series->style, "%c",
                         series->letter);
    }
    if (chart->limits[cell] <= plot->high) /* from place to place without a gap */
        rule(plot->drawing, STYLE_PLANNED, group ? x : place, row_of(plot, chart->limits[cell]),
             group < chart->groups - 1 ? x + plot->bar : place + plot->slot);
}

/* Lines of groups are a column apart, so that equal ones are seen. Marks are drawn over all lines. */
static void draw_lines(const struct plot *plot)
{
    const struct chart *chart = plot->chart;
    const int groups = chart->groups;
    int missing = -1; /* the last place with a sign for what is refused */
    for (int pass = 0; pass < 2; pass++)
        for (int cell = 0; cell < plot->cells; cell++) {
            const double value = value_at(chart, cell, 0),
                         from = cell < groups ? NAN : value_at(chart, cell - groups, 0),
                         beside = groups < plot->slot ? cell % groups - (groups - 1) / 2.0 : 0,
                         x = plot->left + (cell / groups + 0.5) * plot->slot + beside;
            if (pass && isnan(value) && missing < cell / groups) {
                missing = cell / groups;
                middle(plot->drawing, plot->left + missing * plot->slot, plot->slot, plot->bottom - 1, STYLE_TEXT,
                       "\u00d7");
            }
            if (isnan(value) || (plot->log && value <= 0)) continue;
            struct shape shape = mark_of(cell % groups, x, row_of(plot, value));
            if (pass) say(plot, &shape, cell, "", value);
            if (pass || isnan(from) || (plot->log && from <= 0)) continue;
            shape.kind = SHAPE_LINE, shape.x2 = x - plot->slot, shape.y2 = row_of(plot, from);
            drawing_add(plot->drawing, &shape);
        }
}

static void draw_heat_at(const struct plot *plot, int cell, int rows)
{
    const struct chart *chart = plot->chart;
    const double value = value_at(chart, cell, 0), range = plot->most - plot->least,
                 share = plot->log   ? log(value / plot->least) / log(plot->most / plot->least)
                         : range > 0 ? (value - plot->least) / range
                                     : 0;
    const int x = plot->left + cell / chart->groups * plot->slot, y = plot->top + cell % chart->groups * rows;
    struct text text = {"\u00d7"};
    struct shape shade = {
        SHAPE_SHADE, STYLE_SPARK, x, y, x + plot->slot, y + rows, .mark = share > 0 ? (int)(4 * share + 0.5) : 0};
    if (!isnan(value)) say(plot, &shade, cell, "", value);
    if (!isnan(value)) text = text_of(shade.mark ? " %s " : "%s", chart_number(value, chart->unit).text);
    middle(plot->drawing, x, plot->slot, y + (rows - 1) / 2, shade.mark >= 3 ? STYLE_SELECTED : STYLE_TEXT, text.text);
}

static bool draw_heat_map(struct plot *plot)
{
    const struct chart *chart = plot->chart;
    const int rows = (plot->bottom - --plot->top) / chart->groups;
    plot->bottom = plot->top + rows * chart->groups;
    for (int g = 0; rows && g < chart->groups; g++)
        drawing_text(plot->drawing, plot->left - 1 - utf8_columns(chart->group[g]),
                     plot->top + g * rows + (rows - 1) / 2, STYLE_TEXT, "%s", chart->group[g]);
    for (int cell = 0; rows && cell < plot->cells; cell++) draw_heat_at(plot, cell, rows);
    return rows > 0;
}

/* ---- all ---- */

static int margin_of(const struct chart *chart)
{
    return 3 + (chart->kind == CHART_HEAT ? widest(chart->group, chart->groups) : 6);
}

int chart_columns(const struct chart *chart)
{
    const int place = chart->kind == CHART_BARS ? chart->groups + 1 : chart->kind == CHART_LINES ? 3 : 10;
    return margin_of(chart) + chart->places * place + 1;
}

bool chart_draw(const struct chart *chart, struct drawing *drawing)
{
    struct plot plot = {.chart = chart, .drawing = drawing, .left = margin_of(chart), .bottom = drawing->rows - 4};
    struct legend legend = {drawing, 2, 1};
    if (chart_columns(chart) > drawing->columns) return false;
    plot.cells = chart->places * chart->groups;
    plot.slot = (drawing->columns - plot.left - 1) / chart->places;
    plot.right = plot.left + plot.slot * chart->places;
    plot.bar = smaller((plot.slot - 1) / chart->groups, chart->groups == 1 ? 8 : 6);
    plot.bars_from = (plot.slot - plot.bar * chart->groups) / 2;
    scale_of(&plot);
    drawing_text(drawing, 0, 0, STYLE_TITLE, "%s", chart->title);
    draw_legend(&legend, &plot);
    plot.top = legend.y + 2;
    if (plot.bottom - plot.top < PLOT_LEAST || (chart->kind == CHART_HEAT && !draw_heat_map(&plot))) return false;
    if (chart->kind != CHART_HEAT) draw_scale(&plot);
    for (int cell = 0; chart->kind == CHART_BARS && cell < plot.cells; cell++) draw_bar_at(&plot, cell);
    if (chart->kind == CHART_LINES) draw_lines(&plot);
    draw_labels(&plot);
    return true;
}
