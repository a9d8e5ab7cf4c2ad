/* A lane as boxes. Columns that show the same operation are one box, named as far as its width allows: "V block' 3",
 * "V3", "V". A wait is a row of thin lines; its letter says what the lane waited for. */

#include "engine/observe/progress.h"
#include "tui/draw/bar.h"
#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"
#include "tui/view/op_text.h"

enum { COLUMNS_MAX = 1024 };

static uint32_t column_filling(const struct surface *surface, const struct column *column)
{
    struct mark_look look = mark_look(column->mark);
    if (column->mark < MARK_WAIT && column->texture != TEXTURE_WORK)
        return texture_sign(column->texture, surface->ascii);
    return filling(surface, look.style, look.sign, look.pattern);
}

/* A wait that goes on, or the one before a span: the operation that is awaited; "": none. */
static struct text awaited_text(const struct scene *scene, int rank, enum lane lane, const struct span *span)
{
    uint64_t since_ns;
    struct progress at = progress_of(scene->model, rank);
    struct stall_reason reason =
        span ? timeline_wait(scene, rank, span) : timeline_pending(scene, rank, lane, &since_ns);
    if ((!span && !at.plan) || reason.op < 0) return (struct text){""};
    return op_text(scene->model, span ? span->schedule : at.plan->number, reason.op);
}

/* "R reduce bucket 1", where that is not shorter than `room` "R1", or "": the letter shows where a box begins. */
static struct text name_of_span(int room, const struct scene *scene, const struct span *span, const char *letter)
{
    const struct text name = text_of("%s %.50s", letter, span_text_boxed(scene->model, span).text);
    if (utf8_columns(name.text) < room) return name;
    const int number = op_number(scene->model, span->kind, span->unit, span->bucket);
    return number >= 0 ? text_of("%s%d", letter, number) : NO_TEXT;
}

/* The longest name that leaves a column of the pattern free, else the letter; boxes of one or two columns have only the letter. */
static struct text name_of_box(int room, const struct scene *scene, int rank, enum lane lane,
                               const struct column *column)
{
    const struct text letter = text_of("%s", utf8_of(mark_look(column->mark).letter).text);
    struct text name = {""};
    if (room > 2 && column->mark > MARK_UNKNOWN && column->span != COLUMN_SUMS) {
        const struct span *span = column->span >= 0 ? history_span(scene->history, rank, lane, column->span) : NULL;
        const bool waits = column->mark >= MARK_WAIT;
        const struct text awaited = waits ? awaited_text(scene, rank, lane, span) : name;
        if (*awaited.text) name = text_of("%s %.40s ", letter.text, awaited.text);
        if (!waits && span) name = name_of_span(room, scene, span, letter.text);
    }
    return *name.text && utf8_columns(name.text) < room ? name : letter;
}

static void draw_box(struct canvas canvas, int x, const struct column columns[], int count, const struct scene *scene,
                     int rank, enum lane lane, bool selected)
{
    enum style style = selected ? STYLE_SELECTED : mark_look(columns->mark).style;
    if (columns->mark == MARK_IDLE) return;
    for (int y = 0; y < canvas.at.rows; y++)
        for (int i = 0; i < count; i++)
            draw_character(canvas, x + i, y, style, column_filling(canvas.surface, &columns[i]));
    const int edges = selected && count > 2 ? 1 : 0;
    for (int y = 1; y < canvas.at.rows && columns->mark < MARK_WAIT; y++) /* the begin, in the rows below its letter */
        draw_character(canvas, x, y, style, 0x258f);
    draw_text(canvas, x + edges, 0, style, name_of_box(count - 2 * edges, scene, rank, lane, columns).text);
    if (!edges) return;
    draw_character(canvas, x, 0, style, '[');
    draw_character(canvas, x + count - 1, 0, style, ']');
}

static bool is_selected(const struct scene *scene, int rank, enum lane lane, const struct column *column)
{
    const struct selection *selected = &scene->state->selected;
    if (!selected->known || selected->rank != rank || selected->lane != lane || column->mark >= MARK_WAIT) return false;
    const struct span *span = column->span >= 0 ? history_span(scene->history, rank, lane, column->span) : NULL;
    return span && span->step == selected->step && span->op == selected->op;
}

static int columns_of(struct column out[COLUMNS_MAX], struct canvas canvas, const struct scene *scene,
                      const struct window *window, int rank, enum lane lane)
{
    int columns = canvas.at.columns - TIMELINE_GUTTER;
    if (columns > COLUMNS_MAX) columns = COLUMNS_MAX;
    if (columns > 0) timeline_columns(out, columns, scene, rank, lane, window);
    return columns;
}

static void draw_cursor(struct canvas canvas, const struct scene *scene, const struct window *window, int columns)
{
    int at = timeline_cursor(scene, window, columns);
    for (int y = 0; at >= 0 && y < canvas.at.rows; y++)
        if (surface_at(canvas.surface, canvas.at.x + TIMELINE_GUTTER + at, canvas.at.y + y)->character == ' ')
            draw_over(canvas, TIMELINE_GUTTER + at, y, STYLE_CURSOR, 0x2502);
}

void timeline_draw_lane(struct canvas canvas, const struct scene *scene, const struct window *window, int rank,
                        enum lane lane)
{
    struct column columns[COLUMNS_MAX];
    int count = columns_of(columns, canvas, scene, window, rank, lane), begin = 0;
    draw_text(canvas, 4, 0, STYLE_DIM, lane_short_name(lane));
    for (int i = 1; i <= count; i++) {
        if (i < count && columns[i].mark == columns[begin].mark && columns[i].span == columns[begin].span) continue;
        draw_box(canvas, TIMELINE_GUTTER + begin, &columns[begin], i - begin, scene, rank, lane,
                 is_selected(scene, rank, lane, &columns[begin]));
        begin = i;
    }
    draw_cursor(canvas, scene, window, count);
}

/* How busy a lane is, as a shade; where it mostly waits, for what. */
void timeline_draw_heat(struct canvas canvas, const struct scene *scene, const struct window *window, int rank,
                        enum lane lane)
{
    struct column columns[COLUMNS_MAX];
    int count = columns_of(columns, canvas, scene, window, rank, lane);
    for (int i = 0; i < count; i++) {
        struct mark_look look = mark_look(columns[i].mark);
        uint64_t length_ns = window_time(window, count, i + 1) - window_time(window, count, i);
        if (columns[i].mark >= MARK_WAIT || columns[i].mark == MARK_UNKNOWN)
            draw_character(canvas, TIMELINE_GUTTER + i, 0, look.style, look.letter);
        else draw_heat(canvas, TIMELINE_GUTTER + i, 0, STYLE_HEAT, columns[i].busy_ns, length_ns);
    }
    draw_cursor(canvas, scene, window, count);
}
