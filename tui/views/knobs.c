/* Lists every configuration key: its value, its origin, whether it binds in this run, and a prompt to change it if
 * the run allows that. Then come keys without effect here, keys that are refused, and the settings of the screen. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/differences.h"
#include "engine/advise/knobs.h"
#include "tui/view/view.h"

/* What the list shows: a section's name, a key, or a setting of the screen. */
struct item {
    const struct knob *knob; /* NULL: of the screen */
    int setting;
    int choice; /* number among those that can be chosen; -1 */
};
enum { SETTINGS = 5, ITEMS_MAX = CONFIG_KEYS_MAX + 64 };
struct list {
    const struct knobs *knobs;
    struct error err;
    int count, choices;
    struct item item[ITEMS_MAX];
};

/* Whether a key binds takes plans to find out: kept until the run or a knob changes, so still a function of the scene. */
static const struct knobs *knobs_kept(const struct scene *scene, struct error *err)
{
    static struct knobs kept;
    return knobs_of(&kept, scene->model, err) == STATUS_OK ? &kept : NULL;
}

/* ---- the lower part: what the chosen key is for, whether it binds and why, and how it is changed ---- */

/* Whether Enter changes it: a key of a run that still goes on and takes commands. One that is not live costs a new start. */
static bool knob_can_change(const struct scene *scene, const struct knob *knob)
{
    const struct view_state *state = scene->state;
    return knob->class == KNOB_HONOURED && state->live && !state->readonly && !scene->model->ended;
}

/* The other value of a boolean; NULL: another type. */
static const char *toggled(const struct knob *knob)
{
    if (knob->key->type != KEY_BOOL) return NULL;
    return strcmp(knob->value, "true") ? "true" : "false";
}

static enum style say_binding(char *text, size_t room, enum units units, const struct knobs *knobs,
                              const struct knob *knob)
{
    static const char *const verdicts[] = {"whether it binds cannot be said: ", "binds; ", "does not bind: ", ""};
    int used = snprintf(text, room, "%s", knob->binding.off ? "" : verdicts[knob->binding.verdict]);
    binding_why(text + used, room - (size_t)used, &knob->binding, &knobs->step, format_writer(units));
    return knob->binding.verdict == BINDS ? STYLE_STRONG : STYLE_TEXT;
}

/* Rows that a text takes; a part without rows only measures. */
static int draw_rows(struct canvas canvas, int y, int rows, enum style style, const char *text)
{
    return *text ? draw_paragraph(canvas_part(canvas, 1, y, canvas.at.columns - 2, rows), 0, style, text) : 0;
}

/* From the most wanted to the least: whether it binds, what it does in this run, what others do. */
static void draw_facts(struct canvas canvas, int y, const struct scene *scene, const struct knobs *knobs,
                       const struct knob *knob)
{
    const int end = canvas.at.rows - 1;
    char why[400], elsewhere[DIFFERENCE_MAX] = "";
    const char *effect = knob->class == KNOB_HONOURED ? knob->effect : ""; /* say_binding() tells why another has none */
    const struct difference *row = difference_of_key(knob->key->path);
    enum style style = say_binding(why, sizeof why, scene->state->units, knobs, knob);
    int why_rows = draw_rows(canvas, y, 0, style, why), effect_rows = draw_rows(canvas, y, 0, STYLE_TEXT, effect);
    if (y + effect_rows + why_rows <= end) y += draw_rows(canvas, y, effect_rows, STYLE_TEXT, effect);
    y += draw_rows(canvas, y, end - y, style, why);
    if (row) difference_say(elsewhere, row);
    if (y + draw_rows(canvas, y, 0, STYLE_DIM, elsewhere) <= end) draw_rows(canvas, y, end - y, STYLE_DIM, elsewhere);
}

/* The engine's answer to the last command, if it was a refusal to change this key. */
static void draw_refusal(struct canvas canvas, int y, const struct scene *scene, const struct knob *knob)
{
    for (int i = scene->model->notice_count - 1; i >= 0; i--) {
        const struct run_notice *notice = &scene->model->notices[i];
        if (notice->kind != NOTICE_COMMAND) continue;
        if (notice->level == 0 || !strstr(notice->text, knob->key->path)) return;
        draw_text(canvas, 1, y, STYLE_WARN, notice->text);
        return;
    }
}

/* What a new start takes: as long as the last one of this run, if there was one. */
static int draw_cost(struct canvas canvas, int x, int y, const struct scene *scene)
{
    x = draw_text(canvas, x, y, STYLE_WARN, ": saves, starts again, loads");
    for (int i = scene->model->notice_count - 1; i >= 0; i--) {
        const struct run_notice *notice = &scene->model->notices[i];
        const char *took = notice->kind == NOTICE_EVENT ? strstr(notice->text, ", seconds ") : NULL;
        if (took) return draw_format(canvas, x, y, STYLE_TEXT, " (last time %s s)", took + strlen(", seconds "));
    }
    return x;
}

static void draw_change(struct canvas canvas, int y, const struct scene *scene, const struct knob *knob)
{
    const struct config_key *key = knob->key;
    if (knob->class != KNOB_HONOURED) return;
    int x = 1;
    if (knob_can_change(scene, knob)) {
        x = toggled(knob) && key->live ? draw_format(canvas, x, y, STYLE_STRONG, "Enter: %s", toggled(knob))
                                       : draw_text(canvas, x, y, STYLE_STRONG, "Enter changes it");
        if (!key->live) x = draw_cost(canvas, x, y, scene);
    } else if (key->live) {
        x = draw_text(canvas, x, y, STYLE_DIM, "can change while a run goes on");
    } else {
        x = draw_format(canvas, x, y, STYLE_DIM, "restart: --set %s=...", key->path);
    }
    if (knob->changed_step)
        x = draw_format(canvas, x, y, STYLE_TEXT, ", last changed before step %u", knob->changed_step);
    if (key->range[0]) x = draw_format(canvas, x, y, STYLE_DIM, "; %s", key->range);
    if (key->value[0] && knob->source != SOURCE_DERIVED)
        draw_format(canvas, x, y, STYLE_DIM, "; default %s", key->value);
}

static void draw_details(struct canvas canvas, const struct scene *scene, const struct knobs *knobs,
                         const struct knob *knob)
{
    draw_title(canvas, 0, false, "%s%s%s", knob->key->path, knob->value[0] ? " = " : "", knob->value);
    const char *help = knob->class == KNOB_HONOURED ? knob->key->text : knob->effect;
    int y = 1 + draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, 2), 0, STYLE_TEXT, help);
    draw_facts(canvas, y, scene, knobs, knob);
    draw_refusal(canvas, canvas.at.rows - 2, scene, knob);
    draw_change(canvas, canvas.at.rows - 1, scene, knob);
}

/* ---- the list ---- */

static bool is_of_logs(const struct config_key *key)
{
    return key->offset >= offsetof(struct config, logs) &&
           key->offset < offsetof(struct config, logs) + sizeof(struct config_logs);
}

/* What stands before the last dot of a path, or what a class is called. */
static struct text section_of(const struct knob *knob)
{
    const char *path = knob->key->path, *dot = strrchr(path, '.');
    if (knob->class == KNOB_WITHOUT_EFFECT) return text_of("accepted, without effect here");
    if (knob->class == KNOB_REFUSED) return text_of("refused unless off");
    if (dot) return text_of("%.*s", (int)(dot - path), path);
    return text_of(is_of_logs(knob->key) ? "logs of runs without a screen" : "batch and gradients");
}

static bool is_found(const struct view_state *state, const struct knob *knob)
{
    return text_contains(knob->key->path, state->search) || text_contains(knob->key->text, state->search);
}

static void add_item(struct list *list, struct item item)
{
    if (list->count < ITEMS_MAX) list->item[list->count++] = item;
}

static void list_items(struct list *list, const struct scene *scene)
{
    struct text before = {""};
    list->count = list->choices = 0;
    list->knobs = knobs_kept(scene, &list->err);
    for (int k = 0; list->knobs && k < list->knobs->count; k++) {
        const struct knob *knob = &list->knobs->list[k];
        const struct text section = section_of(knob);
        if (strcmp(section.text, before.text) != 0) add_item(list, (struct item){.knob = knob, .choice = -1});
        before = section;
        add_item(list, (struct item){.knob = knob, .choice = list->choices++});
    }
    add_item(list, (struct item){.choice = -1});
    for (int s = 0; s < SETTINGS; s++) add_item(list, (struct item){.setting = s, .choice = list->choices++});
}

static int chosen_item(const struct list *list, const struct view_state *state)
{
    int choice = smaller(state->row[VIEW_KNOBS], list->choices - 1);
    for (int i = 0; i < list->count; i++)
        if (list->item[i].choice == choice) return i;
    return 0;
}

/* ---- rows ---- */

enum { NAME = 36, VALUE = 13, UNIT = 10, SOURCE = 8, BINDING = 6, CHANGE = 7 };

static void draw_head(struct canvas canvas, int y)
{
    draw_heads(canvas, 2, y, {-(NAME - 2), "key"}, {VALUE, "value"}, {-UNIT, ""}, {-SOURCE, "source"},
               {-BINDING, "binds"}, {-CHANGE, "change"});
}

/* A long name takes of the value's room what that leaves. */
static int own_columns(const char *name, const char *value)
{
    const int all = NAME - 2 + VALUE, wanted = utf8_columns(name) + 1;
    return wanted > NAME - 2 && wanted + utf8_columns(value) <= all ? wanted : NAME - 2;
}

static void draw_knob(struct canvas canvas, int y, const struct scene *scene, const struct knob *knob, bool chosen)
{
    static const char *const words[] = {"n/a", "yes", "no", "-"}; /* by verdict: whether it binds */
    char text[32];
    const char *value = knob_shown(text, knob);
    enum style style = chosen ? STYLE_FOCUS : is_found(scene->state, knob) ? STYLE_GOOD : STYLE_TEXT;
    bool quiet = knob->source == SOURCE_DEFAULT || knob->class != KNOB_HONOURED;
    const bool has_unit = knob->class == KNOB_HONOURED && strcmp(value, "no limit") != 0;
    if (chosen) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    struct pen pen = pen_at(canvas, 2, y);
    if (knob->class != KNOB_HONOURED && !knob->value[0]) { /* nobody asked for it: its name has the room */
        draw_text(canvas, 2, y, style, knob->key->path);
        return;
    }
    const char *name = knob->class == KNOB_HONOURED ? key_leaf(knob->key->path) : knob->key->path;
    const int columns = own_columns(name, value);
    pen_left(&pen, columns, style, name);
    pen_right(&pen, NAME - 2 + VALUE - columns, quiet ? STYLE_DIM : STYLE_STRONG,
              utf8_columns(value) <= VALUE ? value : "(below)");
    pen_left(&pen, UNIT, STYLE_DIM, text_of(" %s", has_unit ? knob->unit : "").text);
    pen_left(&pen, SOURCE, quiet ? STYLE_DIM : STYLE_TEXT, knob_source_name(knob->source));
    pen_left(&pen, BINDING, knob->binding.verdict == BINDS ? STYLE_STRONG : STYLE_DIM, words[knob->binding.verdict]);
    pen_left(&pen, CHANGE, STYLE_DIM, knob->class != KNOB_HONOURED ? "" : knob->key->live ? "live" : "restart");
}

static void draw_setting(struct canvas canvas, int y, const struct scene *scene, int number, bool chosen)
{
    const struct view_state *state = scene->state;
    const struct {
        const char *name, *value, *key;
    } settings[SETTINGS] = {
        {"units", units_name(state->units), "key u"},
        {"theme", theme_name(canvas.surface->theme), "key t"},
        {"characters", canvas.surface->ascii ? "ASCII" : "UTF-8", "started with -U or not"},
        {"memory bars", state->bars_now ? "this instant" : "fullest instant of the last step", "key b"},
        {"commands",
         !state->live      ? "none: a replay"
         : state->readonly ? "none: read only"
                           : "sent to the run",
         "started with --readonly or not"},
    };
    if (chosen) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    draw_text(canvas, 2, y, chosen ? STYLE_FOCUS : STYLE_TEXT, settings[number].name);
    int x = draw_text(canvas, 16, y, STYLE_STRONG, settings[number].value);
    draw_text(canvas, x + 2, y, STYLE_DIM, settings[number].key);
}

static void draw_item(struct canvas canvas, int y, const struct scene *scene, const struct item *item, bool chosen)
{
    if (item->choice >= 0 && item->knob) draw_knob(canvas, y, scene, item->knob, chosen);
    else if (item->choice >= 0) draw_setting(canvas, y, scene, item->setting, chosen);
    else draw_text(canvas, 1, y, STYLE_TITLE, item->knob ? section_of(item->knob).text : "this screen");
}

/* ---- the view ---- */

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct list list;
    list_items(&list, scene);
    int details = canvas.at.rows - (canvas.at.rows < 30 ? 6 : 9), rows = details - 2,
        at = chosen_item(&list, scene->state);
    draw_title(canvas, 0, false, "knobs: every key of the configuration, as it is now");
    if (!list.knobs) draw_format(canvas, 1, 1, STYLE_DIM, "n/a: %.200s", list.err.text);
    else draw_head(canvas, 1);
    /* The chosen row in the middle, so that what it stands beside is seen. */
    int first = scrolled(at - rows / 2, list.count, rows);
    for (int i = first; i < list.count && i - first < rows; i++)
        draw_item(canvas_part(canvas, 0, 2, canvas.at.columns, rows), i - first, scene, &list.item[i], i == at);
    struct canvas below = canvas_part(canvas, 0, details, canvas.at.columns, canvas.at.rows - details);
    if (list.item[at].knob) draw_details(below, scene, list.knobs, list.item[at].knob);
    else draw_title(below, 0, false, "settings of the screen are changed by their keys");
}

/* ---- keys ---- */

/* Enter toggles a live boolean. For other keys it opens the prompt with the present value (the other one of a boolean),
 * which the first character replaces and any other key begins to edit; Enter there sends what was typed. */
static bool act_enter(struct view_state *state, const struct scene *scene, const struct item *item)
{
    if (!item->knob) return true;
    const char *other = toggled(item->knob);
    const bool can = knob_can_change(scene, item->knob), at_once = can && other && item->knob->key->live;
    if (state->prompt.kind == PROMPT_VALUE || at_once) {
        snprintf(state->command, sizeof state->command, "set %.70s=%.79s", item->knob->key->path,
                 at_once ? other : state->prompt.text);
        return true;
    }
    if (!can) {
        snprintf(state->message, sizeof state->message, "%s",
                 item->knob->class != KNOB_HONOURED
                     ? "it has no effect here"
                     : "it can only be changed in a run that goes on and takes commands");
        return true;
    }
    state->prompt.kind = PROMPT_VALUE;
    state->prompt.offered = true;
    snprintf(state->prompt.label, sizeof state->prompt.label, "%s", key_leaf(item->knob->key->path));
    snprintf(state->prompt.text, sizeof state->prompt.text, "%s", other ? other : item->knob->value);
    return true;
}

/* The next key after (or before) the chosen one that the search finds. */
static bool act_find(struct view_state *state, const struct list *list, int by)
{
    int at = chosen_item(list, state);
    for (int n = 1; n <= list->count; n++) {
        const struct item *item = &list->item[((at + by * n) % list->count + list->count) % list->count];
        if (item->choice < 0 || !item->knob || !is_found(state, item->knob)) continue;
        state->row[VIEW_KNOBS] = item->choice;
        return true;
    }
    snprintf(state->message, sizeof state->message, "no key has %.60s in its name or its help", state->search);
    return true;
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct list list;
    list_items(&list, scene);
    int row = list.item[chosen_item(&list, state)].choice;
    if (key->action == ACTION_ENTER) return act_enter(state, scene, &list.item[chosen_item(&list, state)]);
    if (key->action == ACTION_SEARCH_NEXT || key->action == ACTION_SEARCH_PREVIOUS)
        return state->search[0] && act_find(state, &list, key->action == ACTION_SEARCH_NEXT ? 1 : -1);
    if (!list_act(&row, list.choices, key)) return false;
    state->row[VIEW_KNOBS] = row;
    return true;
}

const struct view view_knobs = {"knobs", "knobs", .keys = {ACTION_UP, ACTION_DOWN, ACTION_ENTER, ACTION_SEARCH},
                                .draw = draw_view, .act = act};
