/* The help page: the keys and marks of the view from which it was opened, then all keys of keys.def, the other marks of bars, lanes,
 * buckets and whiteboard from the tables that draw them, and what the figures mean. Scrolls. */
#include <string.h>

#include "tui/input/keys.h"
#include "tui/screen/screen.h"
#include "tui/timeline/timeline.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

enum { HELP_AT = 17, ROWS_LEAST = VIEW_ROWS_MIN - 4 };

static bool is_same(const struct key_row *row)
{
    return !strcmp(row->help, "the same");
}

/* A text at a column, in as many rows as it takes; returns the row below. */
static int draw_beside(struct canvas canvas, int x, int y, const char *text)
{
    return y +
           draw_paragraph(canvas_part(canvas, x, 0, canvas.at.columns - x - 1, canvas.at.rows), -y, STYLE_TEXT, text);
}

/* A key, and those behind it that do the same: "q F10 Ctrl-C". */
static int draw_key(struct canvas canvas, int y, const struct key_row *row, enum key_mode mode)
{
    struct text labels = text_of("%s", row->label);
    for (const struct key_row *next = row + 1; next < key_table + key_count && is_same(next); next++)
        if (next->modes & mode) text_add(&labels, " %s", next->label);
    draw_text(canvas, 2, y, STYLE_STRONG, labels.text);
    return draw_beside(canvas, HELP_AT, y, row->help);
}

static int draw_lab_keys(struct canvas canvas, int y)
{
    draw_text(canvas, 0, y++, STYLE_TITLE, "Keys of the lab, while its pane has them");
    for (int i = 0; i < key_count; i++)
        if (key_table[i].modes == KEY_MODE_LAB && !is_same(&key_table[i]))
            y = draw_key(canvas, y, &key_table[i], KEY_MODE_LAB);
    return y + 1;
}

int help_draw_keys(struct canvas canvas, int y, enum key_mode mode)
{
    for (int i = 0; i < key_count; i++)
        if (!is_same(&key_table[i]) && key_find(key_table[i].code, mode) == &key_table[i])
            y = draw_key(canvas, y, &key_table[i], mode);
    return y;
}

/* What the footer shows first. */
static int draw_own_keys(struct canvas canvas, int y, const struct view *view, bool is_pane, enum key_mode mode)
{
    if (!view->keys[0]) return y;
    draw_format(canvas, 0, y++, STYLE_TITLE, "Keys of the %s: %s", is_pane ? "focused pane" : "view", view->title);
    for (int i = 0; i < VIEW_KEYS_MAX && view->keys[i]; i++) {
        const struct key_row *row = key_of_action(view->keys[i], mode);
        if (row) y = draw_key(canvas, y, row, mode);
    }
    return y + 1;
}

static const char *const category_help[LOOKS] = {
#define X(id, letter, name, help) help,
    CATEGORY_TABLE(X)
#undef X
        "reserved by the pool, not used by any tensor",
    "of a trace with categories that are not known here",
};

static int draw_letters(struct canvas canvas, int y)
{
    draw_text(canvas, 0, y++, STYLE_TITLE, "Memory");
    for (int i = 0; i < LOOKS; i++) {
        draw_category(canvas, 2, y, i);
        draw_format(canvas, 4, y, STYLE_STRONG, "%-15s", category_look(i)->name);
        y = draw_beside(canvas, 20, y, category_help[i]);
    }
    return y + 1;
}

/* A letter with the filling of its box, the name, and what it means. */
static int draw_mark(struct canvas canvas, int y, enum mark mark)
{
    const struct mark_look look = mark_look(mark);
    draw_character(canvas, 2, y, look.style, look.letter);
    const uint32_t filled = canvas.surface->ascii ? (uint32_t)look.sign : look.pattern;
    if (filled != look.letter) draw_character(canvas, 3, y, look.style, filled);
    draw_text(canvas, 5, y, STYLE_STRONG, look.name);
    return draw_beside(canvas, 20, y, look.help);
}

static int draw_marks(struct canvas canvas, int y)
{
    static const char *const textures[TEXTURES] = {NULL, "inside an operation: it waits for the slowest rank",
                                                   "inside an operation: added by a paced link or slow motion"};
    draw_text(canvas, 0, y++, STYLE_TITLE, "Lanes: a capital is work, a small letter a wait for it");
    draw_text(canvas, 2, y++, STYLE_TEXT,
              "comp: compute. comm: between ranks. d2h, h2d: host copies. nvrd, nvwr: NVMe.");
    draw_text(canvas, 2, y++, STYLE_TEXT, "block 3: its forward. block' 3: its backward.");
    for (enum mark mark = MARK_UNKNOWN; mark < MARKS; mark++)
        if (mark != MARK_WAIT) y = draw_mark(canvas, y, mark);
    for (enum texture texture = TEXTURE_PEERS; texture < TEXTURES; texture++, y++) {
        draw_character(canvas, 3, y, STYLE_TEXT, texture_sign(texture, canvas.surface->ascii));
        draw_text(canvas, 20, y, STYLE_TEXT, textures[texture]);
    }
    return y + 1;
}

static int draw_buckets(struct canvas canvas, int y)
{
    draw_text(canvas, 0, y++, STYLE_TITLE, "Buckets: the sign of a rank, what its bar is filled with, and the state");
    bucket_draw_legend(canvas, y++);
    draw_text(canvas, 1, y, STYLE_TEXT, "? unknown: records are missing  ~ a figure of the step before");
    return y + 2;
}

static int draw_board(struct canvas canvas, int y)
{
    draw_text(canvas, 0, y++, STYLE_TITLE, "Whiteboard: a tile in the colour of P, G or O");
    return board_draw_marks(canvas, y) + 1;
}

/* The marks, and the views that have them; in the overview keys come first. */
static const struct {
    int (*draw)(struct canvas canvas, int y);
    uint64_t views;
} sections[] = {
    {draw_letters, 1 << VIEW_MEMORY | 1 << VIEW_TIERS},
    {draw_marks, 1 << VIEW_TIMELINE},
    {draw_buckets, 1 << VIEW_BUCKETS},
    {draw_board, 1 << VIEW_WHITEBOARD},
};

/* Those of a view, or the others. */
static int draw_sections(struct canvas page, int y, enum view_id view, bool others)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!(sections[i].views >> view & 1) == others) y = sections[i].draw(page, y);
    return y;
}

static const char *const figures[] = {
    "A bar shows the fullest instant of the last step: that decides what fits.",
    "┃ is the peak that the schedule plans. Everything else is measured.",
    "Mean step, split (mean over ranks), tokens/s: last second, or since a switch.",
    "Exposed: communication with no compute beside it (so does Holistic Trace",
    "Analysis count), here and in the timeline; waits are told apart there.",
    "Control: small messages in which ranks agree, not in the volumes.",
    "Pss: what the kernel counts of a process; a page that n share counts 1/n.",
    "Other: compute does nothing: between operations, while host or NVMe work,",
    "or, on few processors, while it waits for a processor.",
    "Binds, of a knob: - where the question does not arise.",
    "Peer wait, at barriers, slowest rank: the same, waiting for other ranks.",
    "Resting: what a rank holds between two steps.",
    "The scale of a memory curve ends at the largest peak, pool or budget.",
    "Sent bytes are counted once, where another rank copies or adds them.",
    "Theory is the paper's volume; padding and the tied embedding differ from it.",
};

static int draw_cost(struct canvas canvas, int y, const struct view_state *state)
{
    if (state->cost.frames <= 0) return y;
    draw_format(canvas, 2, y, STYLE_TEXT, "This screen was drawn %s times; each took %s bytes to the terminal.",
                format_count((uint64_t)state->cost.frames).text,
                format_count((uint64_t)(state->cost.bytes / state->cost.frames)).text);
    return y + 1;
}

/* Returns the row below the last one. */
static int draw_page(struct canvas page, int y, const struct scene *scene)
{
    const struct view_state *state = scene->state;
    const struct view *before = view_of(state->before == VIEW_OVERVIEW ? state->focus : state->before);
    y = draw_own_keys(page, y, before, state->before == VIEW_OVERVIEW, view_key_mode(scene));
    if (scene->state->lab) y = draw_lab_keys(page, y);
    y = draw_sections(page, y, state->before, false);
    draw_text(page, 0, y, STYLE_TITLE, "All keys");
    y = help_draw_keys(page, y + 1, view_key_mode(scene)) + 1;
    y = draw_sections(page, y, state->before, true);
    draw_text(page, 0, y++, STYLE_TITLE, "Figures");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) draw_text(page, 2, y++, STYLE_TEXT, figures[i]);
    return draw_cost(page, y, state);
}

/* Drawn onto no rows, only to be counted. */
static int page_rows(const struct scene *scene, int columns)
{
    struct surface nowhere = {.theme = THEME_MONO};
    return draw_page((struct canvas){&nowhere, {.columns = columns}}, 0, scene);
}

static void help_draw(struct canvas canvas, const struct scene *scene)
{
    int rows = page_rows(scene, canvas.at.columns), room = canvas.at.rows - 1;
    struct canvas page = canvas_part(canvas, 0, 1, canvas.at.columns, room);
    draw_title(canvas, 0, false, rows > room ? "help (j k PgUp PgDn move, q or Esc closes)" : "help (q or Esc closes)");
    draw_page(page, -scrolled(scene->state->row[VIEW_HELP], rows, room), scene);
}

static bool help_act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    return list_act_by(&state->row[VIEW_HELP], page_rows(scene, VIEW_COLUMNS_MIN) - ROWS_LEAST + 1, ROWS_LEAST - 1,
                       key);
}

const struct view view_help = {
    "help", "help", {ACTION_CLOSE, ACTION_DOWN, ACTION_UP, ACTION_PAGE_DOWN}, .draw = help_draw, .act = help_act};
