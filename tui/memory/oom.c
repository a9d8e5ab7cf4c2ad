/* The out-of-memory report: what was refused, as a bar against the budget; the bytes of each category and the key that decides
 * them; and setups that fit. Enter applies the chosen setup. */
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/config/keys.h"
#include "engine/observe/questions.h"
#include "tui/view/tier_bar.h"

/* Held bytes as the event says; without them, those of the rank's highest peak, and said so. */
static bool held_bytes(const struct run_model *model, int category, uint64_t *bytes)
{
    const struct run_shortage *shortage = &model->shortage;
    if (shortage->has_held) {
        *bytes = (uint64_t)shortage->held_bytes[category];
        return true;
    }
    if (shortage->rank < 0 || shortage->rank >= model->ranks) return false;
    const struct run_tier *tier = &model->rank[shortage->rank].tier[shortage->tier < 0 ? TIER_DEVICE : shortage->tier];
    *bytes = tier->step_peak.held_bytes[category];
    return tier->step_peak.known;
}

static uint64_t held_in_all(const struct run_model *model)
{
    uint64_t bytes, sum = 0;
    for (int category = 0; category < CATEGORIES; category++)
        if (held_bytes(model, category, &bytes)) sum += bytes;
    return sum;
}

/* Returns the next row. */
static int draw_request(struct canvas canvas, int y, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    char said[400], text[600];
    struct text where = NO_TEXT;
    if (shortage->rank != RUN_UNKNOWN && shortage->op[0])
        where = text_of(" (rank %d, at %s)", shortage->rank, shortage->op);
    else if (shortage->rank != RUN_UNKNOWN) where = text_of(" (rank %d)", shortage->rank);
    run_shortage_text(said, sizeof said, shortage, format_writer(scene->state->units));
    snprintf(text, sizeof text, "Step %u stopped%s: %s.", shortage->step, where.text, said);
    return y + draw_paragraph(canvas_part(canvas, 1, y, canvas.at.columns - 2, 4), 0, STYLE_TEXT, text);
}

static void draw_limit(struct canvas canvas, int x, int y, int columns, uint64_t bytes, uint64_t scale)
{
    const int column = scale ? (int)((double)bytes / (double)scale * columns + 0.5) : 0;
    if (bytes && column <= columns)
        draw_character(canvas, x + column - (column == columns), y, STYLE_PLANNED,
                       canvas.surface->ascii ? '|' : 0x2503);
}

/* One bar: what the rank held, then what it was refused, against the budget. Returns the next row. */
static int draw_stack(struct canvas canvas, int y, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    struct segment segments[CATEGORIES + 1];
    const uint64_t held = held_in_all(scene->model),
                   budget = (uint64_t)(shortage->budget_bytes > 0 ? shortage->budget_bytes : 0),
                   wanted = (uint64_t)(shortage->wanted_bytes > 0 ? shortage->wanted_bytes : 0);
    const uint64_t scale = held + wanted > budget ? held + wanted : budget;
    const int columns = canvas.at.columns - 4;
    uint64_t bytes;
    int count = 0;
    if (!held) return y;
    for (int category = 0; category < CATEGORIES; category++) {
        const struct category_look *look = category_look(category);
        if (held_bytes(scene->model, category, &bytes) && bytes)
            segments[count++] = (struct segment){bytes, look->letter, look->pattern, look->style};
    }
    segments[count++] = (struct segment){wanted, '!', 0x259a, STYLE_BAD};
    draw_bar(canvas, 1, y, columns, segments, count, scale);
    draw_limit(canvas, 1, y, columns, budget, scale);
    int x = draw_format(canvas, 1, y + 1, STYLE_TEXT, "%s held", format_bytes_bare(scene->state->units, held).text);
    if (budget)
        x = draw_format(canvas, x + 3, y + 1, STYLE_TEXT, "%s %s budget", canvas.surface->ascii ? "|" : "┃",
                        format_bytes_bare(scene->state->units, budget).text);
    if (wanted)
        draw_format(canvas, x + 3, y + 1, STYLE_BAD, " %s %s refused ", canvas.surface->ascii ? "!" : "▚",
                    format_bytes_bare(scene->state->units, wanted).text);
    return y + 3;
}

static void draw_tenant(struct canvas canvas, int y, int category, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    const bool asked = shortage->category == category;
    char knob[64];
    uint64_t bytes = 0;
    const bool known = held_bytes(scene->model, category, &bytes);
    draw_category(canvas, 1, y, category);
    draw_text(canvas, 3, y, STYLE_TEXT, category_look(category)->name);
    struct pen pen = pen_at(canvas, 15, y);
    pen_right(&pen, bytes_columns(scene->state->units), STYLE_STRONG,
              format_bytes(scene->state->units, known, bytes).text);
    key_short_name(knob, sizeof knob, shortage->knobs[category]);
    draw_format(canvas, pen.x + 2, y, asked ? STYLE_WARN : STYLE_DIM, "%s%s", knob, asked ? " <- asked" : "");
}

/* Returns the next row. */
static int draw_tenants(struct canvas canvas, int y, const struct scene *scene)
{
    uint64_t bytes;
    draw_text(canvas, 1, y++, STYLE_TITLE,
              scene->model->shortage.has_held ? "Bytes at that instant, and the key that decides them"
                                              : "Bytes at the peak of that step, and the key that decides them");
    for (int category = 0; category < CATEGORIES; category++) {
        bool asked = scene->model->shortage.category == category;
        if (asked || !held_bytes(scene->model, category, &bytes) || bytes) draw_tenant(canvas, y++, category, scene);
    }
    return y + 1;
}

/* ---- what would fit ---- */

/* A setup's commands as a row: without "set", keys by their last name. */
static void write_setup(char *out, size_t room, const char *commands)
{
    *out = '\0';
    for (const char *end; *commands; commands = *end ? end + 2 : end) {
        char path[96], name[64];
        end = strstr(commands, "; ");
        if (!end) end = commands + strlen(commands);
        const bool sets = !strncmp(commands, "set ", 4);
        const char *key = commands + (sets ? 4 : 0), *value = memchr(key, '=', (size_t)(end - key));
        if (!value) value = end;
        snprintf(path, sizeof path, "%.*s", (int)(value - key), key);
        key_short_name(name, sizeof name, path);
        text_append(out, room, "%s%s%.*s", *out ? ", " : "", sets ? name : path, (int)(end - value), value);
    }
}

static int chosen_fit(const struct scene *scene)
{
    return list_kept(scene->state->row[VIEW_SHORTAGE], scene->model->shortage.fit_count);
}

/* What a rank's fullest instant would be, as a bar against the budget. Setups that are too large cannot be chosen. */
static void draw_fit(struct canvas canvas, int y, int i, const struct scene *scene, uint64_t scale)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    const bool fits = i < shortage->fit_count, chosen = fits && i == chosen_fit(scene);
    const int room = canvas.at.columns * 6 / 10 - 3,
              columns = canvas.at.columns - room - 5 - bytes_columns(scene->state->units) - 1;
    char text[400];
    write_setup(text, sizeof text, shortage->fits[i].command);
    draw_text(canvas, 1, y, STYLE_FOCUS, chosen ? ">" : " ");
    draw_words(canvas_part(canvas, 3, y, room, 1), 0, 0, chosen ? STYLE_FOCUS : fits ? STYLE_TEXT : STYLE_DIM, text);
    if (shortage->fits[i].peak_bytes < 0) return;
    const uint64_t peak = (uint64_t)shortage->fits[i].peak_bytes;
    const struct segment segment = {peak, 0, 0x2588, fits ? STYLE_HEAT : STYLE_WARN};
    const int x = room + 4;
    draw_bar(canvas, x, y, columns, &segment, 1, scale);
    if (shortage->budget_bytes > 0) draw_limit(canvas, x, y, columns, (uint64_t)shortage->budget_bytes, scale);
    draw_right(canvas, canvas.at.columns - 1, y, fits ? STYLE_STRONG : STYLE_DIM,
               format_bytes_bare(scene->state->units, peak).text);
}

/* How to go on, in the lowest rows. */
static void draw_way(struct canvas canvas, const struct scene *scene)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    const bool takes = scene->state->live && !scene->model->ended && !scene->state->readonly,
               of_lab = scene->state->lab && scene->state->lab_focus;
    char text[480];
    snprintf(text, sizeof text,
             !takes                ? "Planned peaks of a rank. In a live run Enter makes the chosen change."
             : shortage->fit_count ? "The last whole step is kept. %sEnter: %s, and go on."
                                   : "The last whole step is kept. To go on: type what needs less (:).",
             of_lab ? "K, then " : "", shortage->fits[chosen_fit(scene)].command);
    draw_paragraph(canvas, 0, STYLE_STRONG, text);
}

static void draw_fits(struct canvas canvas, const struct scene *scene)
{
    enum { WAY_ROWS = 2 };
    const struct run_shortage *shortage = &scene->model->shortage;
    const int items = shortage->fit_count + shortage->larger_count, rows = canvas.at.rows - 1 - WAY_ROWS,
              top = list_top(chosen_fit(scene), items, rows);
    uint64_t scale = (uint64_t)(shortage->budget_bytes > 0 ? shortage->budget_bytes : 0);
    for (int i = 0; i < items; i++)
        if (shortage->fits[i].peak_bytes > (int64_t)scale) scale = (uint64_t)shortage->fits[i].peak_bytes;
    draw_text(canvas, 1, 0, STYLE_TITLE, "What would fit: planned peak of a rank");
    if (shortage->larger_count) draw_text(canvas, 40, 0, STYLE_DIM, "(grey: too large)");
    for (int i = top; i < items && i - top < rows; i++) draw_fit(canvas, 1 + i - top, i, scene, scale);
    if (!shortage->fit_count && !items)
        draw_format(canvas, 3, 1, STYLE_DIM, "%s; the keys above lower memory", run_no_fits(shortage));
    draw_way(canvas_part(canvas, 1, canvas.at.rows - WAY_ROWS, canvas.at.columns - 2, WAY_ROWS), scene);
}

static void shortage_draw(struct canvas page, const struct scene *scene)
{
    draw_title(page, 0, false, "out of memory");
    if (!scene->model->shortage.known) {
        draw_text(page, 1, 2, STYLE_DIM, "this run has not run out of memory (Esc closes)");
        return;
    }
    int y = draw_request(page, 1, scene) + 1;
    y = draw_stack(page, y, scene);
    y = draw_tenants(page, y, scene);
    draw_fits(canvas_part(page, 0, y, page.at.columns, page.at.rows - y), scene);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    const struct run_shortage *shortage = &scene->model->shortage;
    if (shortage->known && key->action == ACTION_VIEW && !strcmp(key->argument, "oom")) {
        snprintf(state->message, sizeof state->message, "this is the out-of-memory report; Esc closes it");
        return true;
    }
    if (key->action != ACTION_ENTER) return list_act(&state->row[VIEW_SHORTAGE], shortage->fit_count, key);
    if (!shortage->fit_count) return false;
    if (!state->live || scene->model->ended)
        snprintf(state->message, sizeof state->message,
                 "a recording takes no commands; in a live run Enter makes the chosen change");
    else if (scene->model->state != RUN_OUT_OF_MEMORY)
        snprintf(state->message, sizeof state->message, "the run has gone on since");
    else snprintf(state->command, sizeof state->command, "%s", shortage->fits[chosen_fit(scene)].command);
    return true;
}

const struct view view_oom = {
    "oom", "out of memory", {ACTION_UP, ACTION_DOWN, ACTION_ENTER}, .draw = shortage_draw, .act = act};
