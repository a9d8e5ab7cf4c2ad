#include <stdio.h>
#include <string.h>

#include "tui/views/knobs.h"

bool knob_can_change(const struct scene *scene, const struct knob *knob)
{
    const struct view_state *state = scene->state;
    return knob->class == KNOB_HONOURED && state->live && !state->readonly && !scene->model->ended;
}

static enum style say_binding(char *text, size_t room, enum units units, const struct knobs *knobs,
                              const struct knob *knob)
{
    static const char *const verdicts[] = {"whether it binds cannot be said: ", "binds; ", "does not bind: ", ""};
    int used = snprintf(text, room, "%s", verdicts[knob->binding.verdict]);
    binding_why(text + used, room - (size_t)used, &knob->binding, &knobs->step, knob->value, format_writer(units));
    return knob->binding.verdict == BINDS ? STYLE_STRONG : STYLE_TEXT;
}

/* Rows that a text takes; a part without rows only measures. */
static int draw_rows(struct canvas canvas, int y, int rows, enum style style, const char *text)
{
    return *text ? draw_paragraph(canvas_part(canvas, 1, y, canvas.at.columns - 2, rows), 0, style, text) : 0;
}

/* From the most wanted to the least: whether it binds, what it does in this run, what DeepSpeed's code does. */
static void draw_facts(struct canvas canvas, int y, const struct scene *scene, const struct knobs *knobs,
                       const struct knob *knob)
{
    const int end = canvas.at.rows - 1;
    char why[400], quirk[400] = "";
    enum style style = say_binding(why, sizeof why, scene->state->units, knobs, knob);
    int why_rows = draw_rows(canvas, y, 0, style, why), effect_rows = draw_rows(canvas, y, 0, STYLE_TEXT, knob->effect);
    if (y + effect_rows + why_rows <= end) y += draw_rows(canvas, y, effect_rows, STYLE_TEXT, knob->effect);
    y += draw_rows(canvas, y, end - y, style, why);
    if (*knob_quirk(knob->key->path)) snprintf(quirk, sizeof quirk, "DeepSpeed's code: %s", knob_quirk(knob->key->path));
    if (y + draw_rows(canvas, y, 0, STYLE_DIM, quirk) <= end) draw_rows(canvas, y, end - y, STYLE_DIM, quirk);
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
        x = draw_text(canvas, x, y, STYLE_STRONG, "Enter changes it");
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

void knob_draw_details(struct canvas canvas, const struct scene *scene, const struct knobs *knobs,
                       const struct knob *knob)
{
    char text[400];
    const int columns = canvas.at.columns - 2;
    snprintf(text, sizeof text, "%s%s%s", knob->key->path, knob->value[0] ? " = " : "", knob->value);
    draw_title(canvas, 0, false, text);
    if (knob->class == KNOB_HONOURED) snprintf(text, sizeof text, "%s", knob->key->text);
    else if (knob->class == KNOB_REFUSED)
        snprintf(text, sizeof text, "refused unless it is %s: %s",
                 knob->key->class == CLASS_SWITCH || !knob->key->value[0] ? "off" : knob->key->value, knob->key->text);
    else
        snprintf(text, sizeof text, "no effect here%s%s",
                 knob->key->text[0] ? ": " : ", nor in DeepSpeed unless what it belongs to is on", knob->key->text);
    int y = 1 + draw_paragraph(canvas_part(canvas, 1, 1, columns, 2), 0, STYLE_TEXT, text);
    draw_facts(canvas, y, scene, knobs, knob);
    draw_refusal(canvas, canvas.at.rows - 2, scene, knob);
    draw_change(canvas, canvas.at.rows - 1, scene, knob);
}
