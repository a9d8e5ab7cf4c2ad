/* The help page: the keys of keys.def, the letters of the bars, and what the figures mean. Scrolls. */
#include "tui/input/keys.h"
#include "tui/views/parts.h"

static int draw_keys(struct canvas canvas, int y, enum key_mode mode)
{
    for (int i = 0; i < key_count; i++) {
        const struct key_row *row = &key_table[i];
        if (!(row->modes & mode)) continue;
        draw_format(canvas, 2, y, STYLE_STRONG, "%-10s", row->label);
        draw_text(canvas, 13, y++, STYLE_TEXT, row->help);
    }
    return y;
}

static const char *const category_help[] = {
#define X(id, letter, name, help) help,
    CATEGORY_TABLE(X)
#undef X
        "held by the pool, in use by nobody",
};

static int draw_letters(struct canvas canvas, int y)
{
    for (int i = 0; i <= CATEGORIES; i++) {
        const struct category_look *look = category_look(i);
        draw_character(canvas, 2, y, look->style, (uint32_t)look->letter);
        draw_format(canvas, 4, y, STYLE_STRONG, "%-15s", look->name);
        draw_text(canvas, 20, y++, STYLE_TEXT, category_help[i]);
    }
    return y;
}

static const char *const figures[] = {
    "A bar shows the fullest instant of the last step: that decides what fits.",
    "┃ is the peak that the schedule plans. Everything else is measured.",
    "Mean step, its split and tokens/s: the last steps, about a second of them.",
    "Communication exposed: the compute lane waited for a transfer; longer than",
    "the transfer was busy if its rank first had to wait for a processor.",
    "Other: between operations; on few processors mostly waiting for one.",
    "Sent bytes are counted once, where another rank copies or adds them.",
    "Theory is the paper's volume; padding and the tied embedding differ from it.",
};

static void help_draw(struct canvas page, const struct scene *scene)
{
    int y = 1 - scene->state->row[VIEW_HELP];
    y = draw_keys(page, y, scene->state->live ? KEY_MODE_LIVE : KEY_MODE_REPLAY) + 1;
    draw_text(page, 0, y++, STYLE_TITLE, "Memory");
    y = draw_letters(page, y) + 1;
    draw_text(page, 0, y++, STYLE_TITLE, "Figures");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) draw_text(page, 2, y++, STYLE_TEXT, figures[i]);
    draw_fill(page, 0, 0, page.at.columns, STYLE_TEXT, ' ');
    draw_title(page, 0, false, y > page.at.rows ? "help (j and k move, q or Esc closes)" : "help (q or Esc closes)");
}

const struct view view_help = {"help", "help", .draw = help_draw};
