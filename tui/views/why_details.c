#include <stdio.h>

#include "engine/base/words.h"
#include "tui/view/tier_bar.h"
#include "tui/views/sides.h"

static struct text bytes_change(enum units units, uint64_t before, uint64_t after)
{
    return sides_difference(units, KIND_BYTES, (double)after - (double)before);
}

/* ---- a tenant ---- */

enum { READABLE = 110 }; /* columns: amounts further away from what they are of are hard to follow */

static void draw_term(struct canvas canvas, int y, enum units units, const struct why_term *term)
{
    struct pen pen = pen_at(canvas, 1, y);
    pen_right(&pen, bytes_columns(units), STYLE_STRONG, format_bytes(units, true, term->bytes).text);
    int x = draw_text(canvas, pen.x + 2, y, STYLE_TEXT, term->what);
    if (!term->formula[0]) return;
    x = draw_text(canvas, x, y, STYLE_DIM, " = ");
    draw_words(canvas, x, y, STYLE_DIM, term->formula);
}

/* The other tiers that one of the changes would fill or empty, in the order of columns; returns how many. */
static int other_tiers(enum tier tiers[TIERS], const struct why *why, const struct why_tenant *tenant)
{
    int count = 0;
    for (enum tier tier = 0; tier < TIERS; tier++) {
        bool touched = false;
        for (int c = 0; c < tenant->change_count; c++)
            touched |= tenant->changes[c].plan.tier_peak_bytes[tier] != why->plan.tier_peak_bytes[tier];
        if (touched && tier != why->tier) tiers[count++] = tier;
    }
    return count;
}

static void draw_change_head(struct canvas canvas, int y, enum units units, const enum tier tiers[TIERS], int count)
{
    int end = canvas.at.columns - 1, columns = bytes_columns(units) + 2;
    draw_text(canvas, 1, y, STYLE_DIM, "planned effect of a change");
    draw_right(canvas, end, y, STYLE_DIM, "sent/step");
    for (int i = count - 1; i >= 0; i--) draw_right(canvas, end -= columns, y, STYLE_DIM, tiers_name(tiers[i]));
    draw_right(canvas, end - columns, y, STYLE_DIM, "peak");
}

/* What changes, with what it costs beside memory. False: that is more than there are columns. */
enum { SAID_ROOM = 320 };
static bool say_change(char said[SAID_ROOM], enum units units, const struct why *why, const struct why_change *change,
                       int columns)
{
    char cost[100];
    why_cost(cost, sizeof cost, &why->plan, &change->plan, format_writer(units));
    snprintf(said, SAID_ROOM, "%s%s%s", change->text, *cost ? ": " : "", cost);
    return utf8_columns(said) < columns;
}

/* The command to type, with its cost, unless the line above says the cost already. */
static void draw_command(struct canvas canvas, int y, enum units units, const struct why *why,
                         const struct why_change *change, bool cost_said)
{
    char cost[100] = "", said[SAID_ROOM];
    const int columns = canvas.at.columns - 1;
    if (!cost_said) why_cost(cost, sizeof cost, &why->plan, &change->plan, format_writer(units));
    snprintf(said, sizeof said, "%s %s", change->restart ? "restart:" : "live:", change->command);
    const int length = utf8_columns(said) + utf8_columns(cost) + 2;
    draw_words(canvas_part(canvas, 0, y, columns, 1), 3, 0, STYLE_DIM, said);
    if (*cost && 3 + length < columns) draw_format(canvas, 3 + length - utf8_columns(cost), y, STYLE_DIM, "%s", cost);
}

/* True: there was room for the cost. */
static bool draw_change(struct canvas canvas, int y, const struct scene *scene, const struct why *why,
                        const struct why_change *change, const enum tier tiers[TIERS], int count)
{
    enum units units = scene->state->units;
    const struct why_plan *now = &why->plan, *then = &change->plan;
    int end = canvas.at.columns - 1, columns = bytes_columns(units) + 2;
    const int room = end - (2 + count) * columns;
    char said[SAID_ROOM];
    const bool fits = say_change(said, units, why, change, room);
    draw_words(canvas_part(canvas, 0, y, room, 1), 1, 0, STYLE_TEXT, fits ? said : change->text);
    draw_right(canvas, end, y, STYLE_TEXT, bytes_change(units, now->sent_bytes, then->sent_bytes).text);
    for (int i = count - 1; i >= 0; i--)
        draw_right(canvas, end -= columns, y, STYLE_TEXT,
                   bytes_change(units, now->tier_peak_bytes[tiers[i]], then->tier_peak_bytes[tiers[i]]).text);
    draw_right(canvas, end - columns, y, then->peak_bytes < now->peak_bytes ? STYLE_GOOD : STYLE_TEXT,
               bytes_change(units, now->peak_bytes, then->peak_bytes).text);
    return fits;
}

/* The terms from number `first` on, in one row: together, and by name as far as they fit. */
static void draw_rest(struct canvas canvas, int y, enum units units, const struct why_tenant *tenant, int first)
{
    struct why_term rest = {0};
    char names[200] = "";
    for (int t = first; t < tenant->term_count; t++) {
        rest.bytes += tenant->terms[t].bytes;
        text_append(names, sizeof names, "%s%s", *names ? ", " : "", tenant->terms[t].what);
    }
    snprintf(rest.what, sizeof rest.what, "the rest: ");
    draw_term(canvas, y, units, &rest);
    int x = 1 + bytes_columns(units) + 2 + utf8_columns(rest.what);
    draw_words(canvas_part(canvas, x, y, canvas.at.columns - x - 1, 1), 0, 0, STYLE_DIM, names);
}

/* As many as leave room for what changing the knobs would give. */
static int draw_terms(struct canvas canvas, int y, enum units units, const struct why_tenant *tenant)
{
    int room = canvas.at.rows - y - (tenant->change_count ? 1 + tenant->change_count : 1);
    int shown = tenant->term_count <= room ? tenant->term_count : room > 1 ? room - 1 : 1;
    for (int t = 0; t < shown; t++) draw_term(canvas, y++, units, &tenant->terms[t]);
    if (shown < tenant->term_count) draw_rest(canvas, y++, units, tenant, shown);
    return y;
}

void why_draw_tenant(struct canvas canvas, const struct scene *scene, const struct why *why, const char *name,
                     const struct why_tenant *tenant)
{
    const int rows = canvas.at.rows;
    int y = 1;
    const struct text title = text_of("%s, set by %s", name, tenant->knob);
    const bool sized = tenant->sizes[0] && (int)(strlen(title.text) + strlen(tenant->sizes)) + 6 < canvas.at.columns;
    draw_title(canvas, 0, false, "%s%s%s", title.text, sized ? ": " : "", sized ? tenant->sizes : "");
    if (canvas.at.columns > READABLE) canvas = canvas_part(canvas, 0, 0, READABLE, rows);
    if (rows >= tenant->term_count + tenant->change_count + 3) draw_text(canvas, 1, y++, STYLE_TEXT, tenant->how);
    y = draw_terms(canvas, y, scene->state->units, tenant);
    if (tenant->change_count == 0) {
        draw_text(canvas, 1, y, STYLE_DIM, tenant->term_count ? "no knob of its own would lower it" : "no knob is known against it");
        return;
    }
    enum tier tiers[TIERS];
    const int others = other_tiers(tiers, why, tenant);
    if (y + tenant->change_count < rows) draw_change_head(canvas, y++, scene->state->units, tiers, others);
    bool roomy = rows - y >= 2 * tenant->change_count;
    for (int c = 0; c < tenant->change_count && y < rows; c++) {
        const struct why_change *change = &tenant->changes[c];
        const bool cost_said = draw_change(canvas, y++, scene, why, change, tiers, others);
        if (roomy) draw_command(canvas, y++, scene->state->units, why, change, cost_said);
    }
}

/* ---- a switch ---- */

/* Where only the device holds anything, its categories and sums; else of every tier what changed, by name. */
static bool uses_tiers(const struct why_switch *change)
{
    bool others = false;
    for (enum tier tier = TIER_HOST; tier < TIERS; tier++)
        others |= change->before.memory[tier].peak_bytes || change->after.memory[tier].peak_bytes;
    return others;
}

/* Of the other tiers nothing is told where nothing is. */
static bool is_known(const struct why_switch *change, enum tier tier)
{
    return tier != TIER_DEVICE || (change->before.memory[tier].known && change->after.memory[tier].known);
}

static struct side_row row_of(const char *name, int kind, bool known, double before, double after)
{
    return (struct side_row){name, kind, {known, known}, {before, after}};
}

static int draw_categories(struct canvas canvas, enum units units, const struct why_switch *change)
{
    const bool tiers = uses_tiers(change);
    int y = 1;
    for (enum tier tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++) {
            const struct category_look *look = category_look(c);
            const uint64_t before = change->before.memory[tier].at_peak_bytes[c],
                           after = change->after.memory[tier].at_peak_bytes[c];
            if ((before == 0 && after == 0) || (tiers && before == after)) continue;
            const struct text name =
                tiers ? text_of("%c %s", look->letter, tiers_name(tier))
                      : text_of("%s", name_columns(&canvas) < NAME_COLUMNS ? look->brief : look->name);
            const struct side_row row =
                row_of(name.text, KIND_BYTES, is_known(change, tier), (double)before, (double)after);
            sides_draw(canvas, y++, units, &row, STYLE_TEXT);
        }
    return y - 1;
}

static void draw_head(struct canvas canvas, enum units units, const char *what)
{
    sides_draw_head(canvas, 0, units, (const char *const[]){what, "before", "after", "change"});
}

/* Of the tiers where there are several, which bytes moved from one to another; else of the device alone. */
static int list_peaks(struct side_row rows[2 * TIERS], const struct why_switch *change)
{
    const struct run_fullest *before = change->before.memory, *after = change->after.memory;
    const bool known = is_known(change, TIER_DEVICE);
    int count = 0;
    for (enum tier tier = 0; tier < TIERS && uses_tiers(change); tier++)
        if (before[tier].peak_bytes || after[tier].peak_bytes)
            rows[count++] = row_of(tiers_name(tier), KIND_BYTES, is_known(change, tier),
                                   (double)before[tier].peak_bytes, (double)after[tier].peak_bytes);
    if (count) return count;
    rows[0] = row_of("peak", KIND_BYTES, known, (double)before->peak_bytes, (double)after->peak_bytes);
    rows[1] = row_of("resting", KIND_BYTES, known, (double)before->resting_bytes, (double)after->resting_bytes);
    return 2;
}

static void draw_sums(struct canvas canvas, enum units units, const struct why_switch *change)
{
    const struct why_side *before = &change->before, *after = &change->after;
    struct side_row rows[2 * TIERS + 3];
    int count = list_peaks(rows, change);
    const bool sent = before->has_sent && after->has_sent, exposed = before->has_exposed && after->has_exposed;
    rows[count++] = row_of("sent", KIND_BYTES, sent, before->sent_bytes, after->sent_bytes);
    rows[count++] = row_of("step", KIND_TIME, true, before->step_ns, after->step_ns);
    rows[count++] = row_of("exposed", KIND_TIME, exposed, before->exposed_ns, after->exposed_ns);
    draw_head(canvas, units, uses_tiers(change) ? "peak of" : "");
    for (int i = 0; i < count; i++) sides_draw(canvas, 1 + i, units, &rows[i], STYLE_TEXT);
}

/* Two tables side by side, or one below the other where amounts are long and the screen is narrow. */
void why_draw_switch(struct canvas canvas, const struct scene *scene, const struct why_switch *change)
{
    const struct why_side *before = &change->before, *after = &change->after;
    enum units units = scene->state->units;
    if (!before->steps || !after->steps) {
        draw_title(canvas, 0, false, "what changed with step %u", change->step);
        draw_format(canvas, 1, 1, STYLE_DIM, "n/a: %s",
                    before->steps ? "no step after it has ended yet" : "no step before it is kept");
        return;
    }
    draw_title(canvas, 0, false, "measured in %d step%s before step %u, fullest rank, and %d from there on",
               before->steps, plural(before->steps), change->step, after->steps);
    int width = sides_columns(&canvas, units);
    const struct canvas table = canvas_part(canvas, 1, 1, width, canvas.at.rows - 1);
    draw_head(table, units, uses_tiers(change) ? "moved" : "at peak");
    const int rows = draw_categories(table, units, change);
    bool beside = 2 * width + 2 <= canvas.at.columns;
    if (beside) draw_sums(canvas_part(canvas, 2 + width, 1, width, canvas.at.rows - 1), units, change);
    else draw_sums(canvas_part(canvas, 1, 2 + rows, width, canvas.at.rows), units, change);
}
