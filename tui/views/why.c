/* Why is this rank's memory as full as it is, and why did a higher stage not use less? Above: one sentence, the categories
 * held at the peak, and all four stages by plan. Below: what the chosen category consists of and what its knobs would change;
 * or what would shorten a wait; or what a switch of stage or knob changed. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/costs.h"
#include "engine/advise/present.h"
#include "engine/observe/flows.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"
#include "tui/views/sides.h"

enum {
    SWITCHES_SHOWN = 8,
    STALLS_SHOWN = 3,
    SENTENCE_ROWS = 3,
    TALL = 36,
    LINES_MAX = TIERS * (CATEGORIES + 1) + STALLS_SHOWN + SWITCHES_SHOWN
};

/* A line of the list: what a tier holds in all, where there are several; a tenant of a tier's peak; a switch; a wait of the last
 * step. */
struct line {
    enum { LINE_TIER, LINE_TENANT, LINE_SWITCH, LINE_STALL } kind;
    enum tier tier;
    int number;
};

/* What there is to choose from: lines but those of tiers, in this order. */
struct rows {
    const struct why *why[TIERS]; /* NULL: nothing is there; of the device, not known, because: */
    struct error err;
    struct why_stall stalls[STALLS_SHOWN];
    struct why_switch switches[SWITCHES_SHOWN];
    struct line lines[LINES_MAX];
    int line_count, count;
};

static void add_line(struct rows *rows, int kind, enum tier tier, int number)
{
    rows->lines[rows->line_count++] = (struct line){kind, tier, number};
    rows->count += kind != LINE_TIER;
}

/* Against the stage below: what this stage should have saved. */
static int other_stage(const struct why *why)
{
    return why->stage > 0 ? why->stage - 1 : 1;
}

/* The tenant that grew most against the stage of the sentence, which names it, if the peak is higher; else the largest. */
static int grown_tenant(const struct why *why)
{
    const struct why_plan *than = &why->stages[other_stage(why)].plan;
    int best = 0;
    int64_t most = 0;
    for (int t = 0; than->known && why->plan.peak_bytes > than->peak_bytes && t < why->tenant_count; t++) {
        const enum category c = why->tenants[t].category;
        const int64_t more = (int64_t)why->plan.at_peak_bytes[c] - (int64_t)than->at_peak_bytes[c];
        if (more > most) most = more, best = t;
    }
    return best;
}

/* Of the last whole step before the cursor, on the chosen rank. */
static int stalls_of(struct why_stall stalls[STALLS_SHOWN], const struct scene *scene)
{
    struct totals totals;
    const struct run_step *step = run_last_step(scene->model);
    const struct history_step *when = step ? history_step_numbered(scene->history, step->step) : NULL;
    if (!when || !when->ended_ns) return 0;
    totals_of(&totals, scene->history, scene->model, scene->state->rank, when->begun_ns, when->ended_ns, when->step);
    return totals.known ? why_stalls(stalls, STALLS_SHOWN, &totals, 1) : 0;
}

/* The plans behind an answer take milliseconds, a frame should not: the last answers stay, and are made anew when what they
 * were made from has changed. So this is still a function of the scene alone. */
static struct rows rows_of(const struct scene *scene)
{
    static struct why kept[TIERS];
    struct rows rows = {0};
    int tiers = 0;
    for (enum tier tier = TIERS; tier-- > TIER_DEVICE;) { /* the device last: its error is the one that counts */
        if (tier != TIER_DEVICE && !tier_is_used(scene->model, tier)) continue;
        if (why_peak(&kept[tier], scene->model, scene->state->rank, tier, &rows.err) != STATUS_OK) continue;
        rows.why[tier] = &kept[tier];
        tiers += kept[tier].tenant_count > 0;
    }
    for (enum tier tier = 0; tier < TIERS; tier++) {
        const int tenants = rows.why[tier] ? rows.why[tier]->tenant_count : 0;
        if (tenants && tiers > 1) add_line(&rows, LINE_TIER, tier, 0);
        const int first = tenants && tier == TIER_DEVICE ? grown_tenant(rows.why[tier]) : 0; /* chosen by default */
        if (tenants) add_line(&rows, LINE_TENANT, tier, first);
        for (int t = 0; t < tenants; t++)
            if (t != first) add_line(&rows, LINE_TENANT, tier, t);
    }
    const int switches = why_switches(scene->model, rows.switches, SWITCHES_SHOWN);
    for (int i = 0; i < switches; i++) add_line(&rows, LINE_SWITCH, TIER_DEVICE, i);
    const int stalls = stalls_of(rows.stalls, scene);
    for (int i = 0; i < stalls; i++) add_line(&rows, LINE_STALL, TIER_DEVICE, i);
    return rows;
}

/* Number of the chosen line; -1: there is none. */
static int chosen_line(const struct scene *scene, const struct rows *rows)
{
    int left = scene->state->row[VIEW_WHY], last = -1;
    for (int i = 0; i < rows->line_count; i++) {
        if (rows->lines[i].kind == LINE_TIER) continue;
        last = i;
        if (left-- == 0) break;
    }
    return last;
}

/* ---- the sentence ---- */

/* Of the device what a stage does to it; of the others, and where the other stage cannot be, who is there. */
static void say_why(char *text, size_t room, const struct why *why, int than_stage, enum units units)
{
    *text = '\0';
    if (why->tier == TIER_DEVICE) why_sentence(text, room, why, than_stage, format_writer(units));
    if (!*text && than_stage == other_stage(why)) why_tier_sentence(text, room, why, format_writer(units));
}

/* Against the stage below, or the one above stage 0; a tall screen has room for all. Returns the rows taken. */
static int draw_sentences(struct canvas canvas, const struct scene *scene, const struct why *why, bool all)
{
    char text[512];
    int y = 0;
    for (int stage = 0; stage < WHY_STAGES; stage++) {
        if (stage == why->stage || (!all && stage != other_stage(why))) continue;
        say_why(text, sizeof text, why, stage, scene->state->units);
        if (*text)
            y += draw_paragraph(canvas_part(canvas, 0, y, canvas.at.columns, SENTENCE_ROWS), 0,
                                stage == other_stage(why) ? STYLE_STRONG : STYLE_TEXT, text);
    }
    return smaller(y, canvas.at.rows);
}

/* ---- the list ---- */

static void draw_list_head(struct canvas canvas, const struct scene *scene)
{
    int columns = bytes_columns(scene->state->units) + 2;
    draw_heads(canvas, 1, 0, {-14, "at the peak"}, {columns, "measured"}, {columns, "planned"});
}

static void draw_amounts(struct pen *pen, enum units units, enum style style, bool measured, uint64_t bytes,
                         uint64_t planned)
{
    int columns = bytes_columns(units) + 2;
    pen_right(pen, columns, style, format_bytes(units, measured, bytes).text);
    pen_right(pen, columns, style, format_bytes(units, true, planned).text);
}

static void draw_tier_row(struct canvas canvas, int y, const struct scene *scene, const struct why *why)
{
    struct pen pen = pen_at(canvas, 1, y);
    pen_left(&pen, 14, STYLE_STRONG, tiers_name(why->tier));
    draw_amounts(&pen, scene->state->units, STYLE_STRONG, why->measured, why->peak_bytes, why->plan.peak_bytes);
}

static void draw_tenant_row(struct canvas canvas, int y, const struct scene *scene, const struct why_tenant *tenant,
                            bool chosen)
{
    enum style style = chosen ? STYLE_FOCUS : STYLE_TEXT;
    draw_category(canvas, 1, y, tenant->category);
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 12, style, category_look(tenant->category)->name);
    draw_amounts(&pen, scene->state->units, style, tenant->measured, tenant->bytes, tenant->planned_bytes);
}

static void draw_stall_row(struct canvas canvas, int y, const struct why_stall *stall, bool chosen)
{
    const bool drawn = stall->stall == STALL_PEERS && !canvas.surface->ascii; /* as in the timeline */
    draw_character(canvas, 1, y, STYLE_STRONG, drawn ? 0x250a : (uint32_t)stall_table[stall->stall].letter);
    draw_format(canvas, 3, y, chosen ? STYLE_FOCUS : STYLE_TEXT, "%s: %s %s, %.0f %% of step",
                stall->stall == STALL_PEERS ? "in ops" : "waits", stall_text(stall->stall),
                format_time_bare((uint64_t)stall->ns).text, 100 * stall->share);
}

static void draw_switch_row(struct canvas canvas, int y, const struct why_switch *change, bool chosen)
{
    draw_character(canvas, 1, y, STYLE_STRONG, 0x0394);
    draw_words(canvas, 3, y, chosen ? STYLE_FOCUS : STYLE_TEXT,
               text_of("step %u: %s", change->step, change->text).text);
}

static void draw_line(struct canvas canvas, int y, const struct scene *scene, const struct rows *rows, int i,
                      bool chosen)
{
    const struct line *line = &rows->lines[i];
    if (chosen) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    switch (line->kind) {
    case LINE_TIER: draw_tier_row(canvas, y, scene, rows->why[line->tier]); break;
    case LINE_TENANT: draw_tenant_row(canvas, y, scene, &rows->why[line->tier]->tenants[line->number], chosen); break;
    case LINE_STALL: draw_stall_row(canvas, y, &rows->stalls[line->number], chosen); break;
    case LINE_SWITCH: draw_switch_row(canvas, y, &rows->switches[line->number], chosen); break;
    }
}

static void draw_list(struct canvas canvas, const struct scene *scene, const struct rows *rows, int chosen)
{
    int shown = canvas.at.rows - 1;
    int first = scrolled(chosen - shown + 1, rows->line_count, shown);
    draw_list_head(canvas, scene);
    for (int i = first; i < rows->line_count && i - first < shown; i++)
        draw_line(canvas, 1 + i - first, scene, rows, i, i == chosen);
}

/* ---- all four stages ---- */

static void draw_stage(struct canvas canvas, int y, const struct scene *scene, const struct why *why, int stage)
{
    enum units units = scene->state->units;
    int columns = bytes_columns(units) + 2;
    const struct why_plan *plan = &why->stages[stage].plan;
    bool present = stage == why->stage;
    struct pen pen = pen_at(canvas, 0, y);
    pen_format(&pen, 2, present ? STYLE_STAGE : STYLE_TEXT, "%d ", stage);
    pen_left(&pen, 4, STYLE_STRONG, present ? " now" : "");
    pen_right(&pen, columns, present ? STYLE_STRONG : STYLE_TEXT,
              format_bytes(units, plan->known, plan->peak_bytes).text);
    pen_right(&pen, columns, STYLE_TEXT, format_bytes(units, plan->known, plan->resting_bytes).text);
    pen_right(&pen, columns, STYLE_TEXT, format_bytes(units, plan->known, plan->sent_bytes).text);
}

static void draw_stages(struct canvas canvas, const struct scene *scene, const struct why *why)
{
    const struct text label = op_text_in_full(scene->model, why->schedule, why->peak_op);
    int columns = bytes_columns(scene->state->units) + 2;
    draw_heads(canvas, 0, 0, {-6, "stage"}, {columns, "plan: peak"}, {columns, "resting"}, {columns, "sent/step"});
    for (int stage = 0; stage < WHY_STAGES; stage++) draw_stage(canvas, 1 + stage, scene, why, stage);
    if (*label.text) draw_format(canvas, 0, 6, STYLE_TEXT, "the plan peaks at %s", label.text);
    else if (why->peak_op < 0) draw_text(canvas, 0, 6, STYLE_TEXT, "as full between steps as in one");
    if (why->measured)
        draw_format(canvas, 0, 7, STYLE_TEXT, "measured peak %s",
                    format_bytes_bare(scene->state->units, why->peak_bytes).text);
    else draw_text(canvas, 0, 7, STYLE_DIM, "measured: after its first step");
    if (why->other_version) draw_text(canvas, 0, 8, STYLE_WARN, "planned by another version");
}

/* ---- without a plan: where the time went ---- */

static void draw_costs(struct canvas canvas, const struct scene *scene)
{
    const struct run_step *last = run_last_step(scene->model);
    const struct history_step *step = last ? history_step_numbered(scene->history, last->step) : NULL;
    struct totals totals;
    struct critical path;
    struct cost costs[COSTS_MAX];
    char text[512];
    int y = 1;
    if (!step || !step->ended_ns) return;
    totals_of(&totals, scene->history, scene->model, scene->state->rank, step->begun_ns, step->ended_ns, step->step);
    if (!totals.known) return;
    draw_title(canvas, 0, false, "what step %u costs rank %d, largest first", step->step, scene->state->rank);
    const int count = costs_of(costs, &totals, 1);
    for (int i = 0; i < count && y < canvas.at.rows - 4; i++)
        draw_format(canvas, 1, y++, i < 3 ? STYLE_STRONG : STYLE_TEXT, "%10s %5.1f %%  %s",
                    format_time_bare(costs[i].ns).text, percent(costs[i].ns, totals.temporal.window_ns), costs[i].text);
    draw_title(canvas, ++y, false, "its critical path, over all ranks");
    if (!critical_path_of(&path, scene->history, step)) return;
    critical_text(text, sizeof text, &path, 1);
    draw_paragraph(canvas_part(canvas, 1, y + 1, canvas.at.columns - 2, canvas.at.rows - y - 1), 0, STYLE_TEXT, text);
}

/* ---- all together ---- */

static void draw_why_title(struct canvas canvas, const struct scene *scene, const struct why *why)
{
    static const char *const tiers[TIERS] = {"device memory", "host memory", "NVMe tier"};
    if (!why) draw_title(canvas, 0, false, "why");
    else draw_title(canvas, 0, false, "the %s of rank %d at its peak, and why", tiers[why->tier], scene->state->rank);
}

/* Rows for the list and the stages beside it: all of them where that leaves the details enough. */
static int list_rows(int rows, int top, const struct rows *list)
{
    enum { LEAST = 9, DETAILS = 9 };
    int most = rows - top - DETAILS, wanted = list->line_count + 1;
    if (wanted > most) wanted = most;
    return wanted < LEAST ? LEAST : wanted;
}

/* List and stages stand side by side, each as wide as its amounts ask for where both fit; what switches say may need more. */
static int list_columns(const struct canvas *canvas, enum units units)
{
    enum { SWITCH_COLUMNS = 12 };
    int amount = bytes_columns(units) + 2, list = 15 + 2 * amount, stages = 6 + 3 * amount;
    const int left = canvas->at.columns - list - 2 - stages;
    if (left < 0) return canvas->at.columns * 42 / 100;
    return list + smaller(left, SWITCH_COLUMNS);
}

/* What would make another step of it, planned once for each configuration. */
static void draw_stall(struct canvas canvas, const struct scene *scene, const struct why *why, const struct why_stall *stall)
{
    static struct { uint64_t made_from; struct why_stall stall; struct why now; } kept;
    struct config config;
    struct error err;
    if (!why) return;
    if (kept.made_from != why->made_from || kept.stall.stall != stall->stall) {
        kept.made_from = why->made_from, kept.stall = *stall, kept.now = (struct why){.tier = TIER_DEVICE};
        if (present_config(&config, scene->model, &err) == STATUS_OK) {
            why_stall_changes(&kept.stall, &kept.now.plan, &config, &err);
            config_release(&config);
        }
    }
    struct why_tenant tenant = {.knob = stall->knob ? stall->knob : "no key", .how = stall->how, .change_count = kept.stall.change_count};
    memcpy(tenant.changes, kept.stall.changes, sizeof tenant.changes);
    why_draw_tenant(canvas, scene, &kept.now, stall_text(stall->stall), &tenant);
}

static void draw_chosen(struct canvas canvas, const struct scene *scene, const struct rows *rows, int chosen)
{
    const struct line *line = &rows->lines[chosen];
    switch (line->kind) {
    case LINE_STALL: draw_stall(canvas, scene, rows->why[TIER_DEVICE], &rows->stalls[line->number]); break;
    case LINE_SWITCH: why_draw_switch(canvas, scene, &rows->switches[line->number]); break;
    default: {
        const struct why_tenant *tenant = &rows->why[line->tier]->tenants[line->number];
        why_draw_tenant(canvas, scene, rows->why[line->tier], category_look(tenant->category)->name, tenant);
    }
    }
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct rows rows = rows_of(scene);
    const int columns = canvas.at.columns, chosen = chosen_line(scene, &rows);
    const struct why *why = rows.why[chosen < 0 ? TIER_DEVICE : rows.lines[chosen].tier]; /* the device beside a switch */
    const int left = why ? list_columns(&canvas, scene->state->units) : columns;
    draw_why_title(canvas, scene, why);
    if (!why) draw_format(canvas, 1, 1, STYLE_DIM, "memory: n/a: %.200s", rows.err.text);
    if (!why && !rows.line_count) draw_costs(canvas_part(canvas, 0, 3, columns, canvas.at.rows - 3), scene);
    if (rows.count == 0) return;
    int top = 2;
    const bool tall = canvas.at.rows >= TALL;
    struct canvas said = canvas_part(canvas, 1, 1, columns - 2, tall ? 3 * SENTENCE_ROWS : SENTENCE_ROWS);
    if (why) top = 1 + draw_sentences(said, scene, why, tall);
    const int list = list_rows(canvas.at.rows, top, &rows);
    draw_list(canvas_part(canvas, 0, top, left, list), scene, &rows, chosen);
    for (int y = top; why && y < top + list; y++) draw_character(canvas, left, y, STYLE_FRAME, 0x2502);
    if (why) draw_stages(canvas_part(canvas, left + 2, top, columns - left - 2, list), scene, why);
    draw_chosen(canvas_part(canvas, 0, top + list, columns, canvas.at.rows - top - list), scene, &rows, chosen);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct rows rows = rows_of(scene);
    int row = list_kept(state->row[VIEW_WHY], rows.count);
    if (key->action == ACTION_PAGE_UP || key->action == ACTION_PAGE_DOWN) return false; /* steps, as in views without a list */
    if (!list_act(&row, rows.count, key)) return false;
    state->row[VIEW_WHY] = row;
    return true;
}

/* ---- in small: the sentence and who is at the peak ---- */

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct rows rows = rows_of(scene);
    const struct why *why = rows.why[TIER_DEVICE];
    char text[512];
    draw_title(canvas, 0, focused, "why: rank %d at its peak", scene->state->rank);
    if (why) say_why(text, sizeof text, why, other_stage(why), scene->state->units);
    else snprintf(text, sizeof text, "n/a: %.200s", rows.err.text);
    const struct canvas said = canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 1);
    const int used = draw_paragraph(said, 0, why ? STYLE_TEXT : STYLE_DIM, text);
    if (!why) return;
    draw_list_head(canvas_part(canvas, 0, 1 + used, canvas.at.columns, 1), scene);
    for (int i = 0; i < rows.line_count && rows.lines[i].kind <= LINE_TENANT; i++)
        draw_line(canvas, 2 + used + i, scene, &rows, i, false);
}

const struct view view_why = {
    "why", "why", .keys = {ACTION_UP, ACTION_DOWN, ACTION_UNITS}, .draw = draw_view, .pane = draw_pane, .act = act};
