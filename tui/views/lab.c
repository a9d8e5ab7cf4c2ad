/* What a lab asks and says. The play (engine/lab/play.h) makes the paragraphs; here they become rows. */
#include "tui/views/lab.h"

#include <stdio.h>
#include <string.h>

#include "tui/draw/paragraph.h"
#include "tui/views/parts.h"

enum { BESIDE_COLUMNS = 120, WIDE_COLUMNS = 160, HEAD_ROWS = 3, FOOT_ROWS = 2, INDENT = 1 };

struct lab_layout lab_layout(const struct view_state *state, int columns, int rows)
{
    struct lab_layout layout = {.view = {0, 0, columns, rows}};
    if (!state->lab) return layout;
    if (columns < BESIDE_COLUMNS) {
        if (state->lab_focus) layout.pane = layout.view;
        return layout;
    }
    int wide = columns < WIDE_COLUMNS ? columns - VIEW_COLUMNS_MIN - 1 : columns / 3;
    layout.pane = (struct rect){0, 0, wide, rows};
    layout.view = (struct rect){wide + 1, 0, columns - wide - 1, rows};
    return layout;
}

bool lab_is_page(const struct view_state *state, int columns)
{
    return lab_layout(state, columns, 1).pane.columns == columns;
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
    bool after_choice = before == TONE_CHOICE || before == TONE_CHOSEN;
    return (choices && after_choice) || (tone == TONE_FACT && before == TONE_FACT);
}

static bool is_set_in(enum lab_tone tone)
{
    return tone == TONE_HINT || tone == TONE_FACT || tone == TONE_CHOICE || tone == TONE_CHOSEN;
}

/* From row y on, which may lie above the canvas; returns the rows that it takes. */
static int draw_one(struct canvas canvas, int y, const struct lab_paragraph *at)
{
    int x = INDENT + (is_set_in(at->tone) ? 2 : 0), top = y > 0 ? y : 0;
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
    struct surface nothing = {columns, 0, THEME_MONO, false, NULL};
    struct lab_page part = {.count = until < of->count ? until - from : of->count - from};
    if (part.count > 0) memcpy(part.at, of->at + from, (size_t)part.count * sizeof *part.at);
    return page((struct canvas){&nothing, {0, 0, columns, 0}}, &part, 0, PAGE_MAX);
}

bool lab_fits_smallest(const struct lab_play *play)
{
    const struct lab_page *page_of = &play->page;
    int question = 0, room = lab_room(VIEW_ROWS_MIN - 3); /* header and footer */
    while (question < play->told_from && question < page_of->count && page_of->at[question].tone != TONE_HINT)
        question++;
    return measured(page_of, VIEW_COLUMNS_MIN, 0, question) <= room &&
           measured(page_of, VIEW_COLUMNS_MIN, play->told_from, PAGE_MAX) <= room;
}

int lab_rows(const struct view_state *state, int columns)
{
    return measured(&state->lab->page, columns, 0, PAGE_MAX);
}

int lab_room(int rows)
{
    return rows - HEAD_ROWS - FOOT_ROWS;
}

int lab_scroll_to_newest(const struct view_state *state, int columns, int rows)
{
    int all = lab_rows(state, columns), room = lab_room(rows),
        verdict = measured(&state->lab->page, columns, 0, state->lab->told_from);
    if (all <= room) return 0;
    return verdict + 1 < all - room ? verdict + 1 : all - room;
}

/* ---- around it ----------------------------------------------------------------------------------------------------- */

static void draw_marks(struct canvas canvas, int x, const struct lab_play *play)
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
    for (int s = 0; s < play->progress.count; s++) {
        bool here = s == play->progress.step && !play->progress.finished;
        enum lab_mark mark = play->progress.at[s].mark;
        if (here && mark == LAB_OPEN) draw_character(canvas, x + s, 1, STYLE_FOCUS, 0x25b8);
        else draw_character(canvas, x + s, 1, here ? STYLE_FOCUS : marks[mark].style, marks[mark].character);
    }
}

static void draw_head(struct canvas canvas, const struct scene *scene)
{
    const struct lab_play *play = scene->state->lab;
    char title[160], time[48];
    double seconds = 0;
    for (int s = 0; s < play->progress.count; s++) seconds += play->progress.at[s].seconds;
    bool has_room = utf8_columns(play->lab->title) + 9 < canvas.at.columns;
    snprintf(title, sizeof title, "%s%.140s", has_room ? "lab: " : "", play->lab->title);
    draw_title(canvas, 0, scene->state->lab_focus, title);
    int x =
        draw_format(canvas, INDENT, 1, STYLE_TEXT, "step %d of %d  ", play->progress.step + 1, play->progress.count);
    draw_marks(canvas, x, play);
    snprintf(time, sizeof time, "%.0f of about %d min", seconds / 60, play->lab->minutes);
    if (x + play->progress.count + 2 + utf8_columns(time) < canvas.at.columns)
        draw_right(canvas, canvas.at.columns - 1, 1, STYLE_DIM, time);
    draw_words(canvas_part(canvas, 0, 0, canvas.at.columns - 1, 3), INDENT, 2, STYLE_STRONG,
               lab_play_step(play)->title);
}

static void what_to_do(char *out, size_t room, const struct lab_play *play, bool presents)
{
    const struct lab_step *step = lab_play_step(play);
    const struct unit_name *unit = step->answer.unit;
    const char *reveal = presents ? "; y shows it" : "";
    switch (play->phase) {
    case PLAY_STARTING:
    case PLAY_RESTART: snprintf(out, room, "the run is being started ..."); break;
    case PLAY_BEFORE:
    case PLAY_ACTING: snprintf(out, room, "the run shows it ..."); break;
    case PLAY_STUCK: snprintf(out, room, "x begins this step anew"); break;
    case PLAY_FINISHED: snprintf(out, room, "done; q leaves"); break;
    case PLAY_TOLD: snprintf(out, room, step->ask == LAB_READ ? "n goes on" : "n goes on, x asks again"); break;
    case PLAY_ASKING:
        if (step->ask == LAB_PREDICT)
            snprintf(out, room, "Enter: type your prediction%s%s%s", unit ? " in " : "", unit ? unit->name : "",
                     reveal);
        if (step->ask == LAB_QUIZ) snprintf(out, room, "choose: a to %c%s", 'a' + step->choice_count - 1, reveal);
        if (step->ask == LAB_TASK) snprintf(out, room, "do it, then Enter checks%s", reveal);
    }
}

static void draw_foot(struct canvas canvas, const struct scene *scene, int hidden)
{
    char text[96];
    int y = canvas.at.rows - 1;
    const struct lab_play *play = scene->state->lab;
    if (play->notice[0])
        draw_words(canvas_part(canvas, 0, 0, canvas.at.columns - 1, canvas.at.rows), INDENT, y - 1, STYLE_WARN,
                   play->notice);
    what_to_do(text, sizeof text, play, scene->state->lab_presents);
    draw_text(canvas, INDENT, y, STYLE_FOCUS, text);
    if (hidden > 0)
        draw_right(canvas, canvas.at.columns - 1, y, STYLE_DIM,
                   canvas.at.columns > 60 ? "\xe2\x96\xbc more: Down" : "\xe2\x96\xbc Down");
}

void lab_draw(struct canvas canvas, const struct scene *scene)
{
    const struct view_state *state = scene->state;
    int room = lab_room(canvas.at.rows), rows = lab_rows(state, canvas.at.columns),
        scroll = scrolled(state->lab_scroll, rows, room);
    draw_head(canvas, scene);
    page(canvas_part(canvas, 0, HEAD_ROWS, canvas.at.columns, room), &state->lab->page, scroll, PAGE_MAX);
    draw_foot(canvas, scene, rows - scroll - room);
}
