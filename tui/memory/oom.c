/* The out-of-memory report: the failed request, the bytes of each category and the key that decides them, setups that
 * fit. */
#include <string.h>

#include "engine/config/command.h"
#include "engine/config/keys.h"
#include "tui/view/tier_bar.h"

static enum tier short_tier(const struct run_shortage *shortage)
{
    return shortage->tier < 0 ? TIER_DEVICE : (enum tier)shortage->tier;
}

/* Held bytes as the event says; without them, those of the rank's highest peak, and said so. */
static bool held_bytes(const struct run_model *model, int category, uint64_t *bytes)
{
    const struct run_shortage *shortage = &model->shortage;
    if (shortage->has_held) {
        *bytes = (uint64_t)shortage->held_bytes[category];
        return true;
    }
    if (shortage->rank < 0 || shortage->rank >= model->ranks) return false;
    const struct run_tier *tier = &model->rank[shortage->rank].tier[short_tier(shortage)];
    *bytes = tier->step_peak.held_bytes[category];
    return tier->step_peak.known;
}

static int draw_request(struct canvas canvas, int y, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    char wanted[FORMAT_ROOM], budget[FORMAT_ROOM];
    enum units units = scene->state->units;
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "Step %u stopped", shortage->step);
    if (shortage->rank != RUN_UNKNOWN) x = draw_format(canvas, x, y, STYLE_TEXT, ": rank %d", shortage->rank);
    if (shortage->op[0]) x = draw_format(canvas, x, y, STYLE_TEXT, ", at %s", shortage->op);
    if (shortage->wanted_bytes >= 0) {
        x = draw_format(canvas, x, y, STYLE_TEXT, ", wanted %s",
                        format_bytes_bare(wanted, units, (uint64_t)shortage->wanted_bytes));
        if (shortage->category >= 0)
            x = draw_format(canvas, x, y, STYLE_TEXT, " of %s", category_look(shortage->category)->name);
    }
    y++;
    y += draw_paragraph(canvas_part(canvas, 1, y, canvas.at.columns - 2, 3), 0, STYLE_WARN, shortage->text);
    if (shortage->budget_bytes > 0)
        draw_format(canvas, 1, y++, STYLE_TEXT, "The budget of each rank is %s in this tier.",
                    format_bytes_bare(budget, units, (uint64_t)shortage->budget_bytes));
    return y + 1;
}

static void draw_tenant(struct canvas canvas, int y, int category, const struct scene *scene, uint64_t most)
{
    const struct category_look *look = category_look(category);
    const struct run_shortage *shortage = &scene->model->shortage;
    char text[FORMAT_ROOM], knob[64];
    uint64_t bytes = 0;
    bool known = held_bytes(scene->model, category, &bytes);
    int bar = canvas.at.columns >= 120 ? 40 : 10;
    draw_character(canvas, 1, y, look->style, (uint32_t)look->letter);
    draw_text(canvas, 3, y, STYLE_TEXT, look->name);
    struct pen pen = pen_at(canvas, 15, y);
    pen_right(&pen, bytes_columns(scene->state->units), STYLE_STRONG,
              format_bytes(text, scene->state->units, known, bytes));
    struct segment segment = {bytes, look->letter, look->pattern, look->style};
    draw_bar(canvas, pen.x + 1, y, bar, &segment, 1, most);
    bool asked = shortage->category == category;
    key_short_name(knob, sizeof knob, shortage->knobs[category]);
    draw_format(canvas, pen.x + bar + 2, y, asked ? STYLE_WARN : STYLE_DIM, "%s%s", knob, asked ? " <- asked" : "");
}

static int draw_tenants(struct canvas canvas, int y, const struct scene *scene)
{
    uint64_t bytes, most = 1, sum = 0;
    char text[FORMAT_ROOM];
    for (int category = 0; category < CATEGORIES; category++) {
        if (!held_bytes(scene->model, category, &bytes)) continue;
        sum += bytes;
        if (bytes > most) most = bytes;
    }
    draw_text(canvas, 1, y++, STYLE_TITLE,
              scene->model->shortage.has_held ? "Bytes at that instant, and the key that decides them"
                                              : "Bytes at the peak of that step, and the key that decides them");
    for (int category = 0; category < CATEGORIES; category++) {
        bool asked = scene->model->shortage.category == category;
        if (!asked && held_bytes(scene->model, category, &bytes) && bytes == 0) continue;
        draw_tenant(canvas, y++, category, scene, most);
    }
    draw_text(canvas, 3, y, STYLE_STRONG, "total");
    draw_right(canvas, 15 + bytes_columns(scene->state->units), y, STYLE_STRONG,
               format_bytes(text, scene->state->units, sum > 0, sum));
    return y + 2;
}

static const char *way_out(const struct run_shortage *shortage)
{
    for (int i = 0; i < shortage->fit_count; i++)
        if (command_stage(shortage->fits[i].command) >= 0) return "choose a stage that fits";
    return shortage->fit_count ? "type one of these (:)" : "type what needs less (:)";
}

static void draw_fits(struct canvas canvas, int y, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    char text[FORMAT_ROOM];
    draw_text(canvas, 1, y++, STYLE_TITLE, "What would fit");
    for (int i = 0; i < shortage->fit_count; i++, y++) {
        const char *command = shortage->fits[i].command, *next;
        int indent = 3; /* commands that belong together: further rows are set in */
        for (; (next = strstr(command, "; ")); command = next + 2, indent = 5)
            draw_format(canvas, indent, y++, STYLE_STRONG, "%.*s", (int)(next - command), command);
        int x = draw_format(canvas, indent, y, STYLE_STRONG, "%-*s", 27 - indent, command);
        if (shortage->fits[i].peak_bytes >= 0)
            draw_format(canvas, x, y, STYLE_TEXT, " peak %s",
                        format_bytes_bare(text, scene->state->units, (uint64_t)shortage->fits[i].peak_bytes));
    }
    if (!shortage->fit_count)
        draw_format(canvas, 3, y++, STYLE_DIM, "%s; the keys above lower memory", run_no_fits(shortage));
    if (!scene->state->live || scene->state->readonly) return;
    draw_format(canvas, 1, y + 1, STYLE_TEXT, "The last whole step is kept. To go on: %s.",
                way_out(shortage));
}

static void shortage_draw(struct canvas page, const struct scene *scene)
{
    draw_title(page, 0, false, "out of memory");
    if (!scene->model->shortage.known) {
        draw_text(page, 1, 2, STYLE_DIM, "this run has not run out of memory (Esc closes)");
        return;
    }
    int y = draw_request(page, 2, scene);
    y = draw_tenants(page, y, scene);
    draw_fits(page, y, scene);
}

const struct view view_oom = {"oom", "out of memory", .draw = shortage_draw};
