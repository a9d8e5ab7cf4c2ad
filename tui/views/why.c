/* Why is this rank's memory as full as it is, and why did a higher stage not use less? Above, one sentence, the tenants of
 * the peak and all four stages by plan; below, what the chosen tenant is made of and what its knobs would give, or what a
 * switch of stage or knob changed. */
#include "tui/views/why.h"

#include <stdio.h>
#include <string.h>

#include "tui/draw/paragraph.h"
#include "tui/draw/pen.h"
#include "tui/views/parts.h"

enum { SWITCHES_SHOWN = 8, SENTENCE_ROWS = 3, TALL = 36 };

/* What there is to choose from, in this order. */
struct rows {
    const struct why *why; /* NULL: not known, because: */
    struct error err;
    struct why_switch switches[SWITCHES_SHOWN];
    int tenants, count;
};

/* The plans behind an answer take milliseconds, a frame should not: the last answer stays, and is made anew when what it was
 * made from has changed. So this is still a function of the scene alone. */
static struct rows rows_of(const struct scene *scene)
{
    static struct why kept;
    struct rows rows = {0};
    if (why_peak(&kept, scene->model, scene->state->rank, TIER_DEVICE, &rows.err) == STATUS_OK) rows.why = &kept;
    rows.tenants = rows.why ? kept.tenant_count : 0;
    rows.count = rows.tenants + why_switches(scene->model, rows.switches, SWITCHES_SHOWN);
    return rows;
}

static int chosen_row(const struct scene *scene, const struct rows *rows)
{
    int row = scene->state->row[VIEW_WHY];
    return row < rows->count ? row : rows->count - 1;
}

/* ---- the sentence ---- */

/* Against the stage below: what this stage should have saved. */
static int other_stage(const struct why *why)
{
    return why->stage > 0 ? why->stage - 1 : 1;
}

/* Against the stage below, or the one above stage 0; a tall screen has room for all. Returns the rows taken. */
static int draw_sentences(struct canvas canvas, const struct scene *scene, const struct why *why, bool all)
{
    char text[512];
    int y = 0;
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        if (stage == why->stage || (!all && stage != other_stage(why))) continue;
        why_sentence(text, sizeof text, why, stage, format_writer(scene->state->units));
        y += draw_paragraph(canvas_part(canvas, 0, y, canvas.at.columns, SENTENCE_ROWS), 0,
                            stage == other_stage(why) ? STYLE_STRONG : STYLE_TEXT, text);
    }
    return y < canvas.at.rows ? y : canvas.at.rows;
}

/* ---- the list: tenants of the peak, then switches ---- */

static void draw_list_head(struct canvas canvas, const struct scene *scene)
{
    int columns = bytes_columns(scene->state->units) + 2;
    struct pen pen = pen_at(canvas, 1, 0);
    pen_left(&pen, 14, STYLE_DIM, "at the peak");
    pen_right(&pen, columns, STYLE_DIM, "measured");
    pen_right(&pen, columns, STYLE_DIM, "planned");
}

static void draw_tenant_row(struct canvas canvas, int y, const struct scene *scene, const struct why_tenant *tenant,
                            bool chosen)
{
    char text[FORMAT_ROOM];
    int columns = bytes_columns(scene->state->units) + 2;
    const struct category_look *look = category_look(tenant->category);
    enum style style = chosen ? STYLE_FOCUS : STYLE_TEXT;
    if (chosen) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    draw_character(canvas, 1, y, look->style, (uint32_t)look->letter);
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 12, style, look->name);
    pen_right(&pen, columns, style, format_bytes(text, scene->state->units, tenant->measured, tenant->bytes));
    pen_right(&pen, columns, style, format_bytes(text, scene->state->units, true, tenant->planned_bytes));
}

static void draw_switch_row(struct canvas canvas, int y, const struct why_switch *change, bool chosen)
{
    char text[160];
    snprintf(text, sizeof text, "step %u: %s", change->step, change->text);
    if (chosen) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    draw_character(canvas, 1, y, STYLE_STRONG, 0x0394);
    draw_text(canvas, 3, y, chosen ? STYLE_FOCUS : STYLE_TEXT, text);
}

static void draw_list(struct canvas canvas, const struct scene *scene, const struct rows *rows, int chosen)
{
    int shown = canvas.at.rows - 1;
    int first = scrolled(chosen - shown + 1, rows->count, shown);
    draw_list_head(canvas, scene);
    for (int i = first; i < rows->count && i - first < shown; i++) {
        int y = 1 + i - first;
        if (i < rows->tenants) draw_tenant_row(canvas, y, scene, &rows->why->tenants[i], i == chosen);
        else draw_switch_row(canvas, y, &rows->switches[i - rows->tenants], i == chosen);
    }
}

/* ---- all four stages ---- */

static void draw_stage(struct canvas canvas, int y, const struct scene *scene, const struct why *why, int stage)
{
    char text[FORMAT_ROOM];
    enum units units = scene->state->units;
    int columns = bytes_columns(units) + 2;
    const struct why_plan *plan = &why->stages[stage].plan;
    bool present = stage == why->stage;
    struct pen pen = pen_at(canvas, 0, y);
    pen_format(&pen, 2, present ? STYLE_STAGE : STYLE_TEXT, "%d ", stage);
    pen_left(&pen, 4, STYLE_STRONG, present ? " now" : "");
    pen_right(&pen, columns, present ? STYLE_STRONG : STYLE_TEXT,
              format_bytes(text, units, plan->known, plan->peak_bytes));
    pen_right(&pen, columns, STYLE_TEXT, format_bytes(text, units, plan->known, plan->resting_bytes));
    pen_right(&pen, columns, STYLE_TEXT, format_bytes(text, units, plan->known, plan->sent_bytes));
}

static void draw_stages(struct canvas canvas, const struct scene *scene, const struct why *why)
{
    char text[FORMAT_ROOM], label[LABEL_ROOM];
    int columns = bytes_columns(scene->state->units) + 2;
    struct pen pen = pen_at(canvas, 0, 0);
    pen_left(&pen, 6, STYLE_DIM, "stage");
    pen_right(&pen, columns, STYLE_DIM, "peak");
    pen_right(&pen, columns, STYLE_DIM, "resting");
    pen_right(&pen, columns, STYLE_DIM, "sent/step");
    for (int stage = 0; stage < WHY_STAGES; stage++) draw_stage(canvas, 1 + stage, scene, why, stage);
    if (op_label(label, scene->model, why->schedule, why->peak_op))
        draw_format(canvas, 0, 6, STYLE_TEXT, "the plan peaks at %s", label);
    if (why->measured)
        draw_format(canvas, 0, 7, STYLE_TEXT, "measured peak %s",
                    format_bytes_bare(text, scene->state->units, why->peak_bytes));
    else draw_text(canvas, 0, 7, STYLE_DIM, "measured: after its first step");
    if (why->other_version) draw_text(canvas, 0, 8, STYLE_WARN, "planned by another version");
}

/* ---- all together ---- */

static void draw_why_title(struct canvas canvas, const struct scene *scene, const struct rows *rows)
{
    char title[96];
    if (!rows->why) snprintf(title, sizeof title, "why");
    else snprintf(title, sizeof title, "why is the device memory of rank %d as full as it is", scene->state->rank);
    draw_title(canvas, 0, false, title);
}

/* Rows for the list and the stages beside it: all of them where that leaves the details enough. */
static int list_rows(int rows, int top, const struct rows *list)
{
    enum { LEAST = 9, DETAILS = 9 };
    int most = rows - top - DETAILS, wanted = list->count + 1;
    if (wanted > most) wanted = most;
    return wanted < LEAST ? LEAST : wanted;
}

/* List and stages stand side by side, each as wide as its amounts ask for where both fit. */
static int list_columns(const struct canvas *canvas, enum units units)
{
    int amount = bytes_columns(units) + 2, list = 15 + 2 * amount, stages = 6 + 3 * amount;
    return list + 2 + stages <= canvas->at.columns ? list : canvas->at.columns * 42 / 100;
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct rows rows = rows_of(scene);
    const int columns = canvas.at.columns, chosen = chosen_row(scene, &rows);
    const int left = rows.why ? list_columns(&canvas, scene->state->units) : columns;
    draw_why_title(canvas, scene, &rows);
    if (!rows.why) draw_format(canvas, 1, 1, STYLE_DIM, "n/a: %.200s", rows.err.text);
    if (rows.count == 0) return;
    int top = 2;
    const bool tall = canvas.at.rows >= TALL;
    struct canvas said = canvas_part(canvas, 1, 1, columns - 2, tall ? 3 * SENTENCE_ROWS : SENTENCE_ROWS);
    if (rows.why) top = 1 + draw_sentences(said, scene, rows.why, tall);
    const int list = list_rows(canvas.at.rows, top, &rows);
    draw_list(canvas_part(canvas, 0, top, left, list), scene, &rows, chosen);
    if (rows.why) draw_stages(canvas_part(canvas, left + 2, top, columns - left - 2, list), scene, rows.why);
    struct canvas below = canvas_part(canvas, 0, top + list, columns, canvas.at.rows - top - list);
    if (chosen < rows.tenants) why_draw_tenant(below, scene, rows.why, &rows.why->tenants[chosen]);
    else why_draw_switch(below, scene, &rows.switches[chosen - rows.tenants]);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct rows rows = rows_of(scene);
    int row = chosen_row(scene, &rows);
    switch (key->action) {
    case ACTION_DOWN: row++; break;
    case ACTION_UP: row--; break;
    case ACTION_FIRST: row = 0; break;
    case ACTION_LAST: row = rows.count - 1; break;
    default: return false;
    }
    state->row[VIEW_WHY] = row < 0 ? 0 : row >= rows.count ? rows.count - 1 : row;
    return true;
}

/* ---- in small: the sentence and who is at the peak ---- */

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct rows rows = rows_of(scene);
    char title[64], text[512];
    snprintf(title, sizeof title, "why: rank %d at its peak", scene->state->rank);
    draw_title(canvas, 0, focused, title);
    if (!rows.why) {
        snprintf(text, sizeof text, "n/a: %.200s", rows.err.text);
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1), 0, STYLE_DIM, text);
        return;
    }
    why_sentence(text, sizeof text, rows.why, other_stage(rows.why), format_writer(scene->state->units));
    int used =
        draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1), 0, STYLE_TEXT, text);
    draw_list_head(canvas_part(canvas, 0, 1 + used, canvas.at.columns, 1), scene);
    for (int t = 0; t < rows.tenants; t++) draw_tenant_row(canvas, 2 + used + t, scene, &rows.why->tenants[t], false);
}

const struct view view_why = {
    "why", "why", .keys = {ACTION_UP, ACTION_DOWN, ACTION_UNITS}, .draw = draw_view, .pane = draw_pane, .act = act};
