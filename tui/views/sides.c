#include "tui/views/sides.h"

int name_columns(const struct canvas *canvas)
{
    return canvas->surface->columns < 90 ? 8 : NAME_COLUMNS;
}

static struct text value_text(enum units units, int kind, double value)
{
    switch (kind) {
    case KIND_BYTES: return format_bytes_bare(units, (uint64_t)(value + 0.5));
    case KIND_TIME: return format_time_bare((uint64_t)(value + 0.5));
    case KIND_COUNT: return format_count((uint64_t)(value + 0.5));
    default: return text_of("%.4f", value);
    }
}

struct text sides_difference(enum units units, int kind, double change)
{
    if (kind == KIND_REAL ? change == 0 : change > -0.5 && change < 0.5) return text_of("same");
    return text_of("%c%s", change < 0 ? '-' : '+', value_text(units, kind, change < 0 ? -change : change).text);
}

static int cell_columns(enum units units)
{
    return bytes_columns(units) + 1;
}

int sides_columns(const struct canvas *canvas, enum units units)
{
    return name_columns(canvas) + 3 * cell_columns(units) + 1;
}

void sides_draw(struct canvas canvas, int y, enum units units, const struct side_row *row, enum style style)
{
    struct pen pen = pen_at(canvas, 0, y);
    pen_left(&pen, name_columns(&canvas), style, row->name);
    for (int side = 0; side < 2; side++)
        pen_right(&pen, cell_columns(units), style,
                  row->known[side] ? value_text(units, row->kind, row->value[side]).text : "n/a");
    pen_right(&pen, cell_columns(units) + 1, STYLE_STRONG,
              row->known[0] && row->known[1] ? sides_difference(units, row->kind, row->value[1] - row->value[0]).text
                                             : "n/a");
}

void sides_draw_head(struct canvas canvas, int y, enum units units, const char *const heads[4])
{
    draw_heads(canvas, 0, y, {-name_columns(&canvas), heads[0]}, {cell_columns(units), heads[1]},
               {cell_columns(units), heads[2]}, {cell_columns(units) + 1, heads[3]});
}
