#include "tui/views/sides.h"

#include <stdio.h>
#include <string.h>

int name_columns(const struct canvas *canvas)
{
    return canvas->surface->columns < 90 ? 8 : NAME_COLUMNS;
}

static char *write_value(char out[FORMAT_ROOM], enum units units, int kind, double value)
{
    char text[FORMAT_ROOM];
    switch (kind) {
    case KIND_BYTES: return format_bytes_bare(out, units, (uint64_t)(value + 0.5));
    case KIND_TIME: return strcpy(out, format_time_bare(text, (uint64_t)(value + 0.5)));
    case KIND_COUNT: return format_count(out, (uint64_t)(value + 0.5));
    case KIND_REAL: break;
    }
    snprintf(out, FORMAT_ROOM, "%.4f", value);
    return out;
}

const char *sides_difference(char out[FORMAT_ROOM], enum units units, int kind, double change)
{
    char text[FORMAT_ROOM];
    if (kind == KIND_REAL ? change == 0 : change > -0.5 && change < 0.5) return strcpy(out, "same");
    write_value(text, units, kind, change < 0 ? -change : change);
    snprintf(out, FORMAT_ROOM, "%c%.30s", change < 0 ? '-' : '+', text);
    return out;
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
    char text[FORMAT_ROOM];
    struct pen pen = pen_at(canvas, 0, y);
    pen_left(&pen, name_columns(&canvas), style, row->name);
    for (int side = 0; side < 2; side++)
        pen_right(&pen, cell_columns(units), style,
                  row->known[side] ? write_value(text, units, row->kind, row->value[side]) : "n/a");
    pen_right(&pen, cell_columns(units) + 1, STYLE_STRONG,
              row->known[0] && row->known[1] ? sides_difference(text, units, row->kind, row->value[1] - row->value[0])
                                             : "n/a");
}

void sides_draw_head(struct canvas canvas, int y, enum units units, const char *const heads[4])
{
    struct pen pen = pen_at(canvas, 0, y);
    pen_left(&pen, name_columns(&canvas), STYLE_DIM, heads[0]);
    pen_heads(&pen, {cell_columns(units), heads[1]}, {cell_columns(units), heads[2]},
              {cell_columns(units) + 1, heads[3]});
}
