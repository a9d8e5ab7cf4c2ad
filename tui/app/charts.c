/* Draws the charts of a sweep one below the other, as text, as one SVG, or as a page. The table `rows` lists the charts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text_stream.h"
#include "tui/app/app_parts.h"
#include "tui/draw/chart.h"
#include "tui/draw/output.h"
#include "tui/view/tier_bar.h"

/* A chart is there if the sweep has its keys, and one of its figures is above 0 somewhere. */
struct chart_row {
    const char *title, *unit;
    enum chart_kind kind;
    const char *key; /* the first key ends in this; NULL: any */
    int keys;        /* at least so many are swept */
    int tier;        /* 1 + the tier whose categories are the series, and whose budget is the limit; 0: none */
    bool knee;       /* its lines have one */
    int needs;       /* this figure is above 0 somewhere; 0: any of its own is */
    int count;
    struct {
        int figure;
        struct chart_series series;
    } part[6];
};

#define MEMORY(tier)               SWEEP_MEMORY + (tier)*SWEEP_PARTS
#define PEAK(tier)                 MEMORY(tier) + SWEEP_PEAK
#define KIND(kind)                 SWEEP_TRAFFIC + TRAFFIC_##kind
#define ONE(figure)                .count = 1, .part = {{figure, {"", ' ', ' ', STYLE_TEXT}}}
#define AS(letter, pattern, style) letter, pattern, STYLE_##style
static const struct chart_row rows[] = {
    {"Memory of a rank at its peak, device tier", "B", CHART_BARS, .tier = 1 + TIER_DEVICE},
    {"Memory of a rank at its peak, host tier", "B", CHART_BARS, .tier = 1 + TIER_HOST},
    {"Memory of a rank at its peak, NVMe tier", "B", CHART_BARS, .tier = 1 + TIER_NVME},
    {"Bytes that a rank sends in a step, by collective", "B", CHART_BARS, .count = 5,
     .part = {{KIND(ALL_GATHER), {"all-gather", AS('g', 0x2588, GATHERED)}},
              {KIND(REDUCE_SCATTER), {"reduce-scatter", AS('r', 0x2593, GRADIENTS)}},
              {KIND(ALL_REDUCE), {"all-reduce", AS('a', 0x2592, OPTIMIZER)}},
              {KIND(BROADCAST), {"broadcast", AS('b', 0x2591, ACTIVATIONS)}},
              {KIND(ALL_TO_ALL), {"all-to-all", AS('t', 0x25a0, BUCKETS)}}}},
    {"Bytes that a rank sends in a step, by link", "B", CHART_BARS, .needs = SWEEP_ACROSS, .count = 2,
     .part = {{SWEEP_WITHIN, {"within a node", AS('w', 0x2591, GATHERED)}},
              {SWEEP_ACROSS, {"across nodes", AS('x', 0x2588, GRADIENTS)}}}},
    {"Bytes between the tiers of a rank in a step", "B", CHART_BARS, .count = 4,
     .part = {{KIND(D2H), {"device to host", AS('d', 0x2588, GATHERED)}},
              {KIND(H2D), {"host to device", AS('h', 0x2593, GRADIENTS)}},
              {KIND(NVME_READ), {"NVMe reads", AS('r', 0x2592, OPTIMIZER)}},
              {KIND(NVME_WRITE), {"NVMe writes", AS('w', 0x2591, BUCKETS)}}}},
    {"Peak memory of a rank, device tier", "B", CHART_LINES, .keys = 2, ONE(PEAK(TIER_DEVICE))},
    {"Time of a step on rank 0, SIMULATED", "s", CHART_BARS, .count = 2,
     .part = {{SWEEP_COMPUTE, {"computing", AS('c', 0x2588, FORWARD)}},
              {SWEEP_EXPOSED, {"nothing to compute", AS('-', 0x2591, WORKSPACE)}}}},
    {"Tokens a second of all ranks, SIMULATED", "token/s", CHART_LINES, ONE(SWEEP_TOKENS)},
    {"Model FLOPs of the device's peak (MFU), SIMULATED", "", CHART_LINES, ONE(SWEEP_MFU)},
    {"Time of a step, SIMULATED; knee: the first within 2 % of the best", "s", CHART_LINES, .key = "bucket_size",
     .knee = true, ONE(SWEEP_STEP)},
    {"Seconds communicating for one computing, SIMULATED", "", CHART_LINES, ONE(SWEEP_COMMUNICATION_SHARE)},
    {"Communication over compute: bytes sent for a megaFLOP", "B", CHART_LINES, ONE(SWEEP_INTENSITY)},
    {"Collectives of a step", "", CHART_LINES, .key = "bucket_size", ONE(SWEEP_COLLECTIVES)},
    {"Memory of buckets at the peak, device tier", "B", CHART_LINES, .key = "bucket_size",
     ONE(MEMORY(TIER_DEVICE) + CATEGORY_BUCKETS)},
    {"Peak memory of a rank, device tier, as a map", "B", CHART_HEAT, .keys = 2, ONE(PEAK(TIER_DEVICE))},
    {"Bytes that a rank sends in a step, as a map", "B", CHART_HEAT, .keys = 2, ONE(SWEEP_SENT)},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Where charts go, one below the other. */
struct page {
    const struct app_charts *ask;
    FILE *out;
    int width, y;
    bool failed;
};

static int values_of(const struct sweep *sweep, int key)
{
    return key < sweep->key_count ? sweep->key[key].count : 1;
}

static int figure_of(const struct chart_row *row, int series)
{
    return row->tier ? sweep_memory(row->tier - 1, series) : row->part[series].figure;
}

static bool applies(const struct chart_row *row, const struct sweep *sweep)
{
    const size_t key = strlen(sweep->key[0].path), end = row->key ? strlen(row->key) : 0;
    if (sweep->key_count < row->keys || key < end) return false;
    if (end && strcmp(sweep->key[0].path + key - end, row->key)) return false;
    if (row->kind == CHART_LINES && (values_of(sweep, 0) < 2 || values_of(sweep, 1) > SHAPE_MARKS)) return false;
    for (int r = 0; r < sweep->row_count; r++)
        for (int s = 0; s < (row->tier ? CATEGORIES : row->count); s++)
            if (sweep->rows[r].figure[row->needs ? row->needs : figure_of(row, s)] > 0) return true;
    return false;
}

/* Of one value of the third key. values: room for all figures of its rows, and then for their limits. */
static void fill_chart(struct chart *chart, const struct chart_row *row, const struct sweep *sweep, int panel,
                       double *values)
{
    const int cells = values_of(sweep, 0) * values_of(sweep, 1), count = row->tier ? CATEGORIES : row->count;
    double *limits = values + cells * count;
    *chart = (struct chart){.kind = row->kind,
                            .knee = row->knee,
                            .unit = row->unit,
                            .series_count = count,
                            .values = values,
                            .limits = limits,
                            .places = values_of(sweep, 0),
                            .groups = values_of(sweep, 1),
                            .group = {""}};
    for (int k = 0; k < smaller(sweep->key_count, 2); k++) {
        chart->key[k] = sweep->key[k].path;
        for (int v = 0; v < sweep->key[k].count; v++) (k ? chart->group : chart->place)[v] = sweep->key[k].value[v];
    }
    for (int s = 0; s < count; s++) {
        const struct category_look *look = category_look(s);
        chart->series[s] = row->tier ? (struct chart_series){look->name, look->letter, look->pattern, look->style}
                                     : row->part[s].series;
    }
    for (int cell = 0; cell < cells; cell++) {
        const double *figures = sweep->rows[cell * values_of(sweep, 2) + panel].figure;
        for (int s = 0; s < count; s++) values[cell * count + s] = figures[figure_of(row, s)];
        limits[cell] = row->tier ? figures[sweep_memory(row->tier - 1, SWEEP_BUDGET)] : NAN;
    }
}

/* ---- one chart ---- */

static void put_surface(struct page *page, const struct drawing *drawing)
{
    struct surface surface;
    char *text = NULL;
    if (surface_init(&surface, drawing->columns, drawing->rows, THEME_MONO, page->ask->ascii || !terminal_is_utf8())) {
        drawing_show(drawing, canvas_of(&surface));
        text = surface_to_text(&surface);
    }
    if (text) fprintf(page->out, "\n%s", text);
    page->failed |= !text;
    free(text);
    surface_release(&surface);
}

static void put_picture(struct page *page, const struct drawing *drawing, const struct chart *chart)
{
    static const char *const kinds[] = {"Bars", "Lines", "Heat map"};
    const bool html = page->ask->as == CHARTS_HTML;
    char about[400];
    snprintf(about, sizeof about, "%s by %s%s%s", kinds[chart->kind], chart->key[0], chart->key[1] ? " and " : "",
             chart->key[1] ? chart->key[1] : "");
    if (html) fputs("<figure tabindex=\"0\">", page->out);
    drawing_svg(page->out, drawing, chart->title, about, page->y);
    if (html) fputs("<output aria-live=\"polite\"></output></figure>\n", page->out);
    page->y += drawing_height(drawing);
    if (drawing_width(drawing) > page->width) page->width = drawing_width(drawing);
}

/* Pictures are as wide as they have to be. */
static void put_chart(struct page *page, const struct chart *chart)
{
    const bool picture = page->ask->as != CHARTS_TEXT;
    const int needs = chart_columns(chart);
    struct drawing drawing = {.columns = page->ask->columns, .rows = page->ask->rows};
    if (picture && needs > drawing.columns) drawing.columns = needs;
    if (!chart_draw(chart, &drawing) && !picture)
        fprintf(page->out, "\n%s\n  does not fit %d x %d; give a larger --frame, %d columns or more\n", chart->title,
                drawing.columns, drawing.rows, needs);
    else if (picture) put_picture(page, &drawing, chart);
    else put_surface(page, &drawing);
    page->failed |= drawing.failed;
    drawing_release(&drawing);
}

bool charts_get(struct chart *chart, const struct sweep *sweep, int panel, int number, double *values, char title[256])
{
    const struct chart_row *row = rows;
    while (row < rows + ROWS && !(applies(row, sweep) && number-- == 0)) row++;
    if (row == rows + ROWS) return false;
    fill_chart(chart, row, sweep, panel, values);
    snprintf(title, 256, sweep->key_count > 2 ? "%s; %s %s" : "%s", row->title, sweep->key[2].path,
             sweep->key[2].value[panel]);
    chart->title = title;
    return true;
}

static void put_charts(struct page *page)
{
    const struct sweep *sweep = page->ask->sweep;
    double *values = calloc((size_t)sweep->row_count, (CHART_SERIES_MAX + 1) * sizeof *values);
    struct chart chart;
    char title[256];
    page->failed |= !values;
    for (int panel = 0; values && panel < values_of(sweep, 2); panel++)
        for (int n = 0; charts_get(&chart, sweep, panel, n, values, title); n++) put_chart(page, &chart);
    free(values);
}

/* ---- a page ---- */

static void put_table(FILE *out, const struct sweep *sweep)
{
    bool used[SWEEP_FIGURES] = {false};
    char name[SWEEP_NAME_ROOM];
    for (int r = 0; r < sweep->row_count; r++)
        for (int f = 0; f < SWEEP_FIGURES; f++) used[f] |= sweep->rows[r].figure[f] > 0;
    fputs("<div tabindex=\"0\"><table><caption>Figures that are not 0 everywhere</caption><thead><tr>", out);
    for (int k = 0; k < sweep->key_count; k++) fputs("<th scope=\"col\">", out), put_escaped(out, sweep->key[k].path);
    for (int f = 0; f < SWEEP_FIGURES; f++)
        if (used[f]) fprintf(out, "<th scope=\"col\">%s", sweep_figure_name(name, f));
    fputs("</thead><tbody>", out);
    for (int r = 0; r < sweep->row_count; r++) {
        const struct sweep_row *row = &sweep->rows[r];
        fputs("\n<tr>", out);
        for (int k = 0; k < sweep->key_count; k++)
            fputs("<th scope=\"row\">", out), put_escaped(out, sweep->key[k].value[sweep_at(sweep, r, k)]);
        if (row->refusal) fputs("<td colspan=\"99\">refused: ", out), put_escaped(out, row->refusal);
        for (int f = 0; !row->refusal && f < SWEEP_FIGURES; f++)
            if (used[f]) fprintf(out, "<td>%.15g", row->figure[f]);
    }
    fputs("\n</tbody></table></div>\n", out);
}

static void put_html(struct page *page)
{
    FILE *out = page->out;
    fputs("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src "
          "'unsafe-inline'\">\n<style>:root{color-scheme:light dark}body{max-width:64em;margin:1em auto;padding:0 "
          "1em;font:16px/1.4 "
          "sans-serif}h1{font-size:1.2em}figure{margin:1em 0;overflow-x:auto}.chart{max-width:100%;height:auto}\n"
          "output{display:block;min-height:1.4em}div{overflow:auto;max-height:80vh}caption{text-align:left}\n"
          "table{border-collapse:collapse;font-size:.85em}td[colspan]{text-align:left}\n"
          "th,td{padding:.1em .6em;text-align:right;white-space:nowrap;border-bottom:1px solid #8884}\n",
          out);
    drawing_css(out);
    fputs("</style><title>zerolab plan: ", out);
    put_escaped(out, page->ask->what);
    fputs("</title></head><body class=\"page\"><h1>zerolab plan: ", out);
    put_escaped(out, page->ask->what);
    fputs("</h1><p>Planned, not measured. Arrow keys read the values of the chart that has the focus.</p>\n", out);
    put_charts(page);
    put_table(out, page->ask->sweep);
    fputs("<script>for(const f of document.querySelectorAll('figure')){const "
          "s=[...f.querySelectorAll('.said')],o=f.lastChild;let i=-1;\n"
          "const go=n=>{if(i>=0)s[i].classList.remove('now');i=n;s[i].classList.add('now');o.value=s[i].textContent};\n"
          "s.forEach((e,n)=>e.onmouseenter=()=>go(n));f.onkeydown=k=>{const d={ArrowRight:1,ArrowLeft:-1}[k.key];\n"
          "if(d&&s.length){k.preventDefault();go(((i<0&&d<0?0:i)+d+s.length)%s.length)}}}</script></body></html>\n",
          out);
}

/* The size of the whole is known after its charts. */
static void put_svg(struct page *page)
{
    struct text_stream text;
    struct page inside = {.ask = page->ask, .out = text_stream_open(&text)};
    if (inside.out) put_charts(&inside);
    char *charts = text_stream_close(&text);
    page->failed |= inside.failed || !charts;
    fprintf(page->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\"><title>zerolab plan: ", inside.width,
            inside.y);
    put_escaped(page->out, page->ask->what);
    fputs("</title><style>\n", page->out);
    drawing_css(page->out);
    fprintf(page->out, "</style>\n%s</svg>\n", charts ? charts : "");
    free(charts);
}

int app_charts(FILE *out, const struct app_charts *ask, struct error *err)
{
    struct page page = {.ask = ask, .out = out};
    if (ask->as == CHARTS_TEXT) sweep_print(out, ask->sweep), put_charts(&page);
    if (ask->as == CHARTS_SVG) put_svg(&page);
    if (ask->as == CHARTS_HTML) put_html(&page);
    if (ask->as == CHARTS_CSV) sweep_print_csv(out, ask->sweep);
    return page.failed ? error_set(err, STATUS_RUN, "no memory for charts") : STATUS_OK;
}
