/* Draws the pane of a lab. The play (engine/lab/play.h) makes the paragraphs; this file turns them into rows. */
#include "tui/screen/screen.h"

#include <string.h>

enum { BESIDE_COLUMNS = 120, WIDE_COLUMNS = 160, HEAD_ROWS = 3, FOOT_ROWS = 2, INDENT = 1 };
enum { STRIP_ROWS_LEAST = 3, STRIP_BARS_ROWS = 6, MORE_COLUMNS = 4 };

bool lab_is_page(const struct view_state *state, int columns)
{
    return state->lab && state->lab_focus && columns < BESIDE_COLUMNS;
}

bool lab_strip_is_view(const struct view_state *state)
{
    return state->view == VIEW_WHITEBOARD || state->view == VIEW_TIMELINE;
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static enum style style_of(enum lab_tone tone)
{
    static const enum style styles[] = {
        [TONE_TEXT] = STYLE_TEXT,    [TONE_QUESTION] = STYLE_STRONG, [TONE_CHOICE] = STYLE_TEXT,
        [TONE_CHOSEN] = STYLE_FOCUS, [TONE_HINT] = STYLE_TITLE,      [TONE_GOOD] = STYLE_GOOD,
        [TONE_BAD] = STYLE_WARN,     [TONE_FACT] = STYLE_TEXT,       [TONE_NOTE] = STYLE_DIM};
    return styles[tone];
}

/* Choices, facts and the parts of a verdict stand close together. */
static bool is_close(enum lab_tone before, enum lab_tone tone)
{
    bool choices = tone == TONE_CHOICE || tone == TONE_CHOSEN;
    return (choices && (before == TONE_CHOICE || before == TONE_CHOSEN)) || (tone == TONE_FACT && before == TONE_FACT);
}

/* From row y on, which may lie above the canvas; returns the rows that it takes. */
static int draw_one(struct canvas canvas, int y, const struct lab_paragraph *at)
{
    const bool choice = at->tone == TONE_CHOICE || at->tone == TONE_CHOSEN,
               set_in = choice || at->tone == TONE_HINT || at->tone == TONE_FACT;
    int x = INDENT + 2 * set_in, top = y > 0 ? y : 0;
    if (at->tone == TONE_HINT) draw_character(canvas, INDENT, y, STYLE_TITLE, '>');
    if (at->tone == TONE_FACT) draw_character(canvas, INDENT, y, STYLE_GOOD, '=');
    if (at->tone == TONE_CHOSEN) draw_character(canvas, INDENT, y, STYLE_FOCUS, '>');
    struct canvas rest = canvas_part(canvas, x, top, canvas.at.columns - x - 1, canvas.at.rows - top);
    return draw_paragraph(rest, top - y, style_of(at->tone), at->text);
}

/* The first `until` paragraphs, from row `skip` of them on; returns the rows that they take. */
static int page(struct canvas canvas, const struct lab_page *of, int skip, int until)
{
    int y = -skip;
    for (int p = 0; p < of->count && p < until; p++) {
        if (p && !is_close(of->at[p - 1].tone, of->at[p].tone)) y++;
        y += draw_one(canvas, y, &of->at[p]);
    }
    return y + skip;
}

static int measured(const struct lab_page *of, int columns, int from, int until)
{
    struct surface nothing = {.columns = columns, .theme = THEME_MONO};
    struct lab_page part = {.count = until < of->count ? until - from : of->count - from};
    if (part.count > 0) memcpy(part.at, of->at + from, (size_t)part.count * sizeof *part.at);
    return page((struct canvas){&nothing, {0, 0, columns, 0}}, &part, 0, PAGE_MAX);
}

int lab_room(int rows)
{
    return rows - HEAD_ROWS - FOOT_ROWS;
}

/* On a narrow screen the picture is as high as the text leaves it, so that a question or a verdict is read in one piece. */
static int strip_rows(const struct view_state *state, int columns, int rows)
{
    const struct lab_pane *lab = state->lab;
    const bool told = lab->page->count > lab->told_from && !state->lab_hides, bars = !lab_strip_is_view(state);
    const int text = measured(lab->page, columns, told ? lab->told_from : 0, told ? PAGE_MAX : lab->told_from),
              left = lab_room(rows) - text, most = bars && rows / 2 > STRIP_BARS_ROWS ? STRIP_BARS_ROWS : rows / 2;
    if (left < STRIP_ROWS_LEAST) return told ? 0 : STRIP_ROWS_LEAST; /* hints scroll */
    return smaller(left, most);
}

struct lab_layout lab_layout(const struct view_state *state, int columns, int rows)
{
    struct lab_layout layout = {.view = {0, 0, columns, rows}};
    if (!state->lab) return layout;
    if (columns < BESIDE_COLUMNS) {
        if (!state->lab_focus) return layout;
        const int strip = strip_rows(state, columns, rows);
        layout.view.rows = strip;
        layout.pane = (struct rect){0, strip, columns, rows - strip};
        return layout;
    }
    int wide = columns < WIDE_COLUMNS ? columns - VIEW_COLUMNS_MIN - 1 : columns / 3;
    layout.pane = (struct rect){0, 0, wide, rows};
    layout.view = (struct rect){wide + 1, 0, columns - wide - 1, rows};
    return layout;
}

bool lab_fits_smallest(const struct lab_pane *pane)
{
    const struct lab_page *page_of = pane->page;
    int question = 0, room = lab_room(VIEW_ROWS_MIN - 3); /* header, footer */
    while (question < pane->told_from && question < page_of->count && page_of->at[question].tone != TONE_HINT)
        question++;
    return measured(page_of, VIEW_COLUMNS_MIN, 0, question) <= room - STRIP_ROWS_LEAST &&
           measured(page_of, VIEW_COLUMNS_MIN, pane->told_from, PAGE_MAX) <= room;
}

/* Paragraphs that are shown. */
static int shown(const struct view_state *state)
{
    return state->lab_hides ? state->lab->told_from : PAGE_MAX;
}

int lab_rows(const struct view_state *state, int columns)
{
    return measured(state->lab->page, columns, 0, shown(state));
}

int lab_scroll_to_newest(const struct view_state *state, int columns, int rows)
{
    int all = lab_rows(state, columns), room = lab_room(rows),
        verdict = measured(state->lab->page, columns, 0, state->lab->told_from);
    if (all <= room) return 0;
    return verdict + 1 < all - room ? verdict + 1 : all - room;
}

/* ---- around it ----------------------------------------------------------------------------------------------------- */

static void draw_marks(struct canvas canvas, int x, const struct lab_pane *pane)
{
    static const struct {
        uint32_t character;
        enum style style;
    } marks[LAB_MARKS] = {
        [LAB_OPEN] = {0x00b7, STYLE_DIM},
        [LAB_RIGHT] = {0x25cf, STYLE_GOOD},
        [LAB_WRONG] = {'o', STYLE_WARN},
        [LAB_SKIPPED] = {'-', STYLE_DIM},
    };
    for (int s = 0; s < pane->count; s++) {
        bool here = s == pane->step && !pane->finished;
        enum lab_mark mark = pane->marks[s];
        if (here && mark == LAB_OPEN) draw_character(canvas, x + s, 1, STYLE_FOCUS, 0x25b8);
        else draw_character(canvas, x + s, 1, here ? STYLE_FOCUS : marks[mark].style, marks[mark].character);
    }
}

static void draw_head(struct canvas canvas, const struct scene *scene)
{
    const struct lab_pane *pane = scene->state->lab;
    const struct text time = text_of("%d of about %d min", pane->spent_minutes, pane->minutes);
    bool has_room = utf8_columns(pane->title) + 9 < canvas.at.columns;
    draw_title(canvas, 0, scene->state->lab_focus, "%s%s", has_room ? "lab: " : "", pane->title);
    int x = draw_format(canvas, INDENT, 1, STYLE_TEXT, "part %d of %d  ", pane->step + 1, pane->count);
    draw_marks(canvas, x, pane);
    if (x + pane->count + 2 + utf8_columns(time.text) < canvas.at.columns)
        draw_right(canvas, canvas.at.columns - 1, 1, STYLE_DIM, time.text);
    draw_words(canvas_part(canvas, 0, 0, canvas.at.columns - 1, 3), INDENT, 2, STYLE_STRONG, pane->step_title);
}

static const char *what_to_do(const struct view_state *state)
{
    if (state->lab_frozen) return "frozen: z goes on";
    if (state->lab_hides) return "y shows the answer again";
    if (state->lab_recorded) return "n: next page, N: page before";
    return state->lab->to_do;
}

/* That there is more above, below, or both; in words where they fit beside what is to be done. */
static void draw_more(struct canvas canvas, int y, int taken, bool above, bool below)
{
    static const char *const texts[2][4] = {
        {"", "\xe2\x96\xb2 more: Up", "\xe2\x96\xbc more: Down", "\xe2\x96\xb2 Up  \xe2\x96\xbc Down"},
        {"", "\xe2\x96\xb2", "\xe2\x96\xbc", "\xe2\x96\xb2\xe2\x96\xbc"}};
    const int which = above + 2 * below;
    const bool fits = taken + utf8_columns(texts[0][which]) + 2 < canvas.at.columns;
    draw_right(canvas, canvas.at.columns - 1, y, STYLE_DIM, texts[!fits][which]);
}

static void draw_foot(struct canvas canvas, const struct scene *scene, int scroll, int hidden)
{
    int y = canvas.at.rows - 1;
    const struct lab_pane *pane = scene->state->lab;
    if (pane->notice[0])
        draw_words(canvas_part(canvas, 0, 0, canvas.at.columns - 1, canvas.at.rows), INDENT, y - 1, STYLE_WARN,
                   pane->notice);
    const char *to_do = what_to_do(scene->state);
    const int room = canvas.at.columns - (scroll > 0 || hidden > 0 ? MORE_COLUMNS : 0);
    draw_words(canvas_part(canvas, 0, 0, room, canvas.at.rows), INDENT, y, STYLE_FOCUS, to_do);
    draw_more(canvas, y, INDENT + utf8_columns(to_do), scroll > 0, hidden > 0);
}

void lab_draw(struct canvas canvas, const struct scene *scene)
{
    const struct view_state *state = scene->state;
    int room = lab_room(canvas.at.rows), rows = lab_rows(state, canvas.at.columns),
        scroll = scrolled(state->lab_scroll, rows, room);
    draw_head(canvas, scene);
    page(canvas_part(canvas, 0, HEAD_ROWS, canvas.at.columns, room), state->lab->page, scroll, shown(state));
    draw_foot(canvas, scene, scroll, rows - scroll - room);
}
