/* Memory on the axis of the lanes: each column shows what the chosen rank held in a tier at the column's fullest instant, stacked by
 * category, with lines for plan and budget. */
#include <string.h>

#include "tui/draw/bar.h"
#include "tui/timeline/timeline.h"
#include "tui/view/tier_bar.h"

enum { COLUMNS_MAX = 1024 };

/* The category that lies over `bytes` bytes in the stack; CATEGORIES: only their sum is known. */
static int category_over(const struct run_instant *instant, uint64_t bytes)
{
    uint64_t sum = 0;
    for (int category = 0; category < CATEGORIES; category++) {
        sum += instant->held_bytes[category];
        if (sum > bytes) return category;
    }
    return CATEGORIES;
}

struct stack_cell {
    bool filled;
    int category, eighths;
};

/* Row `row` from the bottom of `rows`, each a `full`th part of the scale. */
static struct stack_cell cell_of(const struct run_instant *instant, uint64_t full, int rows, int row)
{
    double part = (double)full / rows, low = part * row, above = (double)instant->live_bytes - low;
    struct stack_cell cell = {above > 0, 0, above >= part ? 8 : (int)(above / part * 8 + 0.5)};
    double middle = low + (above >= part ? part : above) / 2;
    if (cell.eighths == 0 && row == 0 && above > 0) cell.eighths = 1;
    cell.filled = cell.eighths > 0;
    if (cell.filled) cell.category = category_over(instant, (uint64_t)middle);
    return cell;
}

static void draw_cell(struct canvas canvas, int x, int y, const struct stack_cell *cell, bool lettered)
{
    struct category_look look = *category_look(cell->category);
    if (cell->category == CATEGORIES) look = (struct category_look){' ', 0x2588, STYLE_SPARK, "", ""};
    if (cell->eighths < 8) draw_shape(canvas, x, y, look.style, 0x2580 + (uint32_t)cell->eighths);
    else if (lettered && cell->category < CATEGORIES) draw_character(canvas, x, y, look.style, (uint32_t)look.letter);
    else draw_character(canvas, x, y, look.style, filling(canvas.surface, look.style, look.letter, look.pattern));
}

/* From the bottom up, so that a line shows wherever the stack ends below it. */
static void draw_row(struct canvas canvas, int y, int row, int rows, const struct run_instant instants[], int columns,
                     uint64_t full)
{
    int before = -1;
    for (int x = 0; x < columns; x++) {
        struct stack_cell cell = instants[x].known ? cell_of(&instants[x], full, rows, row) : (struct stack_cell){0};
        int category = cell.eighths == 8 ? cell.category : -1;
        if (cell.filled) draw_cell(canvas, x, y, &cell, category != before);
        before = category;
    }
}

/* Lines come first and the stack over them, so that a line is seen wherever the stack ends below it; then names, where their place is
 * still a line. */
static const struct line {
    enum style style;
    uint32_t sign;
    const char *name;
} plan_line = {STYLE_PLANNED, 0x2500, " plan "}, budget_line = {STYLE_WARN, 0x2550, " budget "};

static int row_of(struct canvas canvas, uint64_t bytes, uint64_t full)
{
    const int rows = canvas.at.rows, row = full ? (int)((double)bytes / (double)full * rows) : 0;
    return rows - 1 - smaller(row, rows - 1);
}

static void draw_line(struct canvas canvas, int y, const struct line *line)
{
    draw_fill(canvas, 0, y, canvas.at.columns, line->style, line->sign);
}

static void name_line(struct canvas canvas, int y, const struct line *line)
{
    const int columns = utf8_columns(line->name), at = canvas.at.columns - 2 - columns;
    for (int x = at; x < at + columns; x++)
        if (x < 0 || surface_at(canvas.surface, canvas.at.x + x, canvas.at.y + y)->character != line->sign) return;
    draw_text(canvas, at, y, line->style, line->name);
}

static void draw_stack(struct canvas canvas, const struct run_instant instants[], uint64_t full)
{
    int rows = canvas.at.rows, columns = canvas.at.columns;
    for (int row = 0; row < rows; row++) draw_row(canvas, rows - 1 - row, row, rows, instants, columns, full);
    for (int x = 0; x < columns; x++)
        if (!instants[x].known) draw_character(canvas, x, rows - 1, STYLE_UNKNOWN, '?');
}

/* Adds a figure to the note if there is room for it. */
static void note_bytes(struct text *note, int room, const char *name, enum units units, uint64_t bytes)
{
    const struct text figure =
        text_of("%s%s %s", *note->text ? " · " : " ", name, format_bytes_bare(units, bytes).text);
    if ((int)(strlen(note->text) + strlen(figure.text)) < room) text_add(note, "%s", figure.text);
}

/* " in step 8", or " over time" where the window has several steps. */
static struct text span_text(const struct scene *scene, const struct window *window)
{
    const struct history_step *first = history_step_at(scene->history, window->from_ns);
    return first && first == history_step_at(scene->history, window->to_ns - 1) ? text_of(" in step %u", first->step)
                                                                                : text_of(" over time");
}

static void draw_curve_title(struct canvas canvas, const struct scene *scene, enum tier tier,
                             const struct memory_scale *scale, uint64_t most, const struct window *window)
{
    enum units units = scene->state->units;
    const struct text span = span_text(scene, window);
    struct text title = text_of("%s memory of rank %d", tiers_name(tier), scene->state->rank), note = {""};
    const int room = canvas.at.columns - 7 - utf8_columns(title.text);
    if (most) note_bytes(&note, room, "fullest", units, most);
    if (scale->has_planned) note_bytes(&note, room, "plan", units, scale->planned);
    if (scale->budget) note_bytes(&note, room, "budget", units, scale->budget);
    if (utf8_columns(note.text) + (int)strlen(span.text) + 1 < room) text_add(&title, "%s", span.text);
    draw_title(canvas, 0, false, "%s", title.text);
    if (*note.text) draw_format(canvas, canvas.at.columns - utf8_columns(note.text) - 2, 0, STYLE_TEXT, "%s ", note.text);
}

/* Instants of the columns; returns the most bytes of them. What is not there yet is neither known nor unknown: empty. */
static uint64_t fullest_of_columns(struct run_instant instants[], int columns, const struct scene *scene,
                                   enum tier tier, const struct window *window)
{
    uint64_t most = 0, when_ns;
    for (int x = 0; x < columns; x++) {
        uint64_t from_ns = window_time(window, columns, x), to_ns = window_time(window, columns, x + 1);
        instants[x] = from_ns >= shown_now(scene) || (window->by_moments && from_ns > window->at_ns) ||
                              to_ns <= history_first_ns(scene->history)
                          ? (struct run_instant){.known = true}
                          : history_fullest(scene->history, scene->state->rank, tier, from_ns, to_ns, &when_ns);
        if (instants[x].known && instants[x].live_bytes > most) most = instants[x].live_bytes;
    }
    return most;
}

/* What was planned for the last step of the window: one of another stage, or of other ranks, had another plan. */
static void take_plan_of(struct memory_scale *scale, const struct scene *scene, enum tier tier,
                         const struct window *window)
{
    const struct history_step *step = history_step_at(scene->history, window->to_ns - 1);
    const struct run_schedule *plan = step ? run_schedule_numbered(scene->model, step->schedule) : NULL;
    if (!plan || plan->purpose != PURPOSE_TRAIN || !plan->tier[tier].known) return;
    scale->has_planned = true;
    scale->planned = plan->tier[tier].peak_bytes;
    if (scale->planned > scale->full) scale->full = scale->planned;
}

void timeline_draw_curve(struct canvas canvas, const struct scene *scene, enum tier tier, const struct window *window)
{
    struct run_instant instants[COLUMNS_MAX];
    struct memory_scale scale = memory_scale(scene->model, tier);
    struct canvas plot =
        canvas_part(canvas, TIMELINE_GUTTER, 1, canvas.at.columns - TIMELINE_GUTTER, canvas.at.rows - 1);
    int columns = smaller(plot.at.columns, COLUMNS_MAX);
    if (columns < 1 || plot.at.rows < 1) return;
    take_plan_of(&scale, scene, tier, window);
    uint64_t most = fullest_of_columns(instants, columns, scene, tier, window);
    if (most > scale.full) scale.full = most;
    draw_curve_title(canvas, scene, tier, &scale, most, window);
    const int plan_y = row_of(plot, scale.planned, scale.full), budget_y = row_of(plot, scale.budget, scale.full);
    /* The figure of the first row is the value of the line that lies on it; else that of its upper edge. */
    const bool names_plan = scale.has_planned && plan_y == 0 && !(scale.is_budget && budget_y == 0);
    if (bytes_columns(scene->state->units) <= TIMELINE_GUTTER)
        draw_text(canvas, 0, 1, names_plan ? STYLE_PLANNED : STYLE_DIM,
                  format_bytes(scene->state->units, scale.full > 0, names_plan ? scale.planned : scale.full).text);
    if (plot.at.rows > 1) draw_right(canvas, TIMELINE_GUTTER - 1, plot.at.rows, STYLE_DIM, "0");
    if (scale.has_planned) draw_line(plot, plan_y, &plan_line);
    if (scale.is_budget) draw_line(plot, budget_y, &budget_line);
    draw_stack(plot, instants, scale.full);
    if (scale.has_planned) name_line(plot, plan_y, &plan_line);
    if (scale.is_budget) name_line(plot, budget_y, &budget_line);
    int cursor = timeline_cursor(scene, window, columns);
    for (int y = 0; cursor >= 0 && y < plot.at.rows; y++) draw_over(plot, cursor, y, STYLE_CURSOR, 0x2502);
}
