/* The screen of two runs. The differences are those of `analyze --diff`, in its words: means over the steps of one
 * schedule, and peaks. The moment that is shown decides only which schedule that is. */

#include <stdlib.h>
#include <string.h>

#include "tui/draw/bar.h"
#include "tui/screen/screen.h"

/* ---- a run's row ---- */

enum { PIECES = 5 };

static void list_pieces(struct text piece[PIECES], const struct scene *scene)
{
    const struct run_model *model = scene->model;
    const struct run_header *header = &model->header;
    const struct run_schedule *plan = run_training(model);
    const struct run_step *step = run_last_step(model);
    const bool within = model->step_count > 0 && step != &model->steps[model->step_count - 1];
    piece[0] = text_of("%.40s", header->model_name[0] ? header->model_name
                                : header->program[0]  ? header->program
                                                      : "unnamed model");
    piece[1] =
        text_of("%d rank%s%s", run_world(model), plural(run_world(model)), header->simulated ? ", simulated" : "");
    piece[2] = !plan && header->recognised[0]
                   ? text_of("%s", header->recognised)
                   : text_of(plan ? "ZeRO stage %d" : "ZeRO stage n/a", plan ? plan->stage : 0);
    piece[3] = within ? text_of("within step %u", model->steps[model->step_count - 1].step)
               : step ? text_of("after step %s", format_count(step->step).text)
                      : text_of("no step yet");
    piece[4] = text_of(model->state == RUN_OUT_OF_MEMORY ? "out of memory" : "%.3f s",
                       model->first_ns ? (double)(scene->state->cursor_ns - model->first_ns) / 1e9 : 0.0);
}

/* What differs from the other run is highlighted; the name is cut where the row is short. */
static void draw_run(struct canvas canvas, int y, const struct two *two, int side)
{
    struct text piece[2][PIECES];
    const struct text name = text_of("%.63s", two->name[side]);
    int columns = 0;
    for (int s = 0; s < 2; s++) list_pieces(piece[s], &two->scene[s]);
    const int first =
        canvas.at.columns < 100 && !strcmp(piece[0][0].text, piece[1][0].text); /* a narrow row lacks an equal model */
    for (int p = first; p < PIECES; p++) columns += utf8_columns(piece[side][p].text) + 3;
    draw_fill(canvas, 0, y, canvas.at.columns, STYLE_FRAME, 0x2500);
    int x = draw_format(canvas, 1, y, STYLE_FOCUS, " %c ", 'A' + side);
    x = draw_text(canvas, x, y, STYLE_TEXT, " ");
    const int room = canvas.at.columns - x - columns - 1, used = utf8_columns(name.text);
    draw_words(canvas_part(canvas, x, y, room, 1), 0, 0, STYLE_STRONG, name.text);
    x += smaller(used, room);
    for (int p = first; p < PIECES; p++) {
        const bool differs = strcmp(piece[0][p].text, piece[1][p].text) != 0;
        x = draw_text(canvas, x, y, STYLE_DIM, p > first ? " · " : "  ");
        x = draw_text(canvas, x, y, differs ? STYLE_WARN : STYLE_TEXT, piece[side][p].text);
    }
    draw_text(canvas, x, y, STYLE_DIM, " ");
}

/* ---- what differs ---- */

enum { DIFFERENCES_MAX = 64 };

static struct text between(const struct analysis_section *section)
{
    return text_of(section->first_step == section->last_step ? "step %u" : "steps %u to %u", section->first_step,
                   section->last_step);
}

static int draw_heading(struct canvas canvas, const struct analysis_pair *pair)
{
    int x = draw_text(canvas, 1, 0, STYLE_STRONG, "A → B");
    if (!pair->side[0] || !pair->side[1]) return draw_text(canvas, x, 0, STYLE_DIM, ": no whole steps to compare");
    const struct text a = between(pair->side[0]), b = between(pair->side[1]);
    return draw_format(canvas, x, 0, STYLE_DIM, strcmp(a.text, b.text) ? " (%s; %s):" : " (%s):", a.text, b.text);
}

/* The label without "device: " or " at peak" where the figure before it has the same: "device: parameters at peak 3 → 1  gradients
 * 2 → 1". */
static struct text label_text(const struct analysis_difference *of, const struct analysis_difference *before)
{
    const char *const ending = " at peak", *colon = strstr(of->label, ": ");
    const size_t length = strlen(of->label), tail = strlen(ending);
    const size_t prefix = colon ? (size_t)(colon - of->label) + 2 : 0;
    const bool at_peak = length > tail && !strcmp(of->label + length - tail, ending);
    const char *end = before ? strstr(before->label, ending) : NULL;
    const bool same = at_peak && end && !strncmp(of->label, before->label, prefix);
    return text_of("%.*s", same ? (int)(length - tail - prefix) : (int)length, of->label + (same ? prefix : 0));
}

/* Figures one after the other, as many as fit; then how many are left. */
static void draw_differences(struct canvas canvas, const struct two *two)
{
    struct analysis_difference differences[DIFFERENCES_MAX];
    struct analysis_pair pair;
    const struct run_step *step = run_last_step(two->scene[0].model);
    const int count = analysis_differences(differences, DIFFERENCES_MAX, &pair, &two->analysis[0], &two->analysis[1],
                                           step ? step->step : 0);
    int x = draw_heading(canvas, &pair), y = 0;
    if (!count && pair.side[0] && pair.side[1]) draw_text(canvas, x, 0, STYLE_TEXT, " nothing differs");
    for (int d = 0; d < count; d++) {
        const struct analysis_difference *of = &differences[d];
        const struct text label = label_text(of, d ? of - 1 : NULL);
        const int columns = utf8_columns(label.text) + utf8_columns(of->value[0]) + utf8_columns(of->value[1]) + 4;
        const int kept = y == canvas.at.rows - 1 && d < count - 1 ? 9 : 0; /* for " +12 more" */
        if (x + 2 + columns + kept >= canvas.at.columns) {
            if (y == canvas.at.rows - 1) {
                draw_format(canvas, x + 2, y, STYLE_DIM, "+%d more", count - d);
                return;
            }
            x = -1, y++;
        }
        x = draw_text(canvas, x + 2, y, STYLE_TEXT, label.text);
        x = draw_format(canvas, x + 1, y, STYLE_WARN, "%s → %s", of->value[0], of->value[1]);
    }
}

/* ---- losses ---- */

/* Of the step of A, or the last one before it that both have: what B's loss is more than A's. Then a curve of
 * all steps up to there. */
static void draw_losses(struct canvas canvas, const struct two *two)
{
    const struct run_step *step = run_last_step(two->scene[0].model);
    struct analysis_losses *losses = NULL;
    const int all = analysis_losses(&losses, &two->analysis[0], &two->analysis[1]);
    int count = 0;
    while (step && count < all && losses[count].step <= step->step) count++;
    if (!count) {
        draw_text(canvas, 1, 0, STYLE_DIM, "loss B - A: no step that both have ended");
        free(losses);
        return;
    }
    const struct analysis_losses *of = &losses[count - 1];
    int x = draw_format(canvas, 1, 0, STYLE_STRONG, "loss B - A");
    x = draw_format(canvas, x, 0, STYLE_TEXT, " step %u: %+.4f (%+.3g %%) ", of->step, (double)of->b - (double)of->a,
                    100 * of->relative);
    float *curve = malloc((size_t)count * sizeof *curve);
    for (int i = 0; curve && i < count; i++) curve[i] = (float)losses[i].relative;
    if (curve && canvas.at.columns - x > 4)
        draw_sparkline(canvas, x, 0, canvas.at.columns - x - 1, STYLE_SPARK, curve, count);
    free(curve);
    free(losses);
}

/* ---- all of it ---- */

void two_draw(const struct two *two, struct surface *surface)
{
    const struct view_state *state = two->scene[0].state;
    const int columns = surface->columns, rows = surface->rows;
    if (columns < VIEW_COLUMNS_MIN || rows < VIEW_ROWS_MIN || state->view == VIEW_HELP) {
        view_draw(two->scene[0].model, two->scene[0].history, state, surface);
        return;
    }
    const struct canvas all = canvas_of(surface);
    const int lowest = footer_rows(all, state), least = rows < 30 ? 3 : rows < 50 ? 4 : 5;
    const int above = (rows - 1 - least) / 2, left = 2 * above, differences = rows - 1 - left;
    surface_erase(surface);
    for (int side = 0; side < 2; side++) {
        const int y = side ? above : 0, end = side ? left : above;
        draw_run(all, y, two, side);
        view_draw_body(canvas_part(all, 0, y + 1, columns, end - y - 1), &two->scene[side]);
    }
    draw_differences(canvas_part(all, 0, left, columns, differences - 1), two);
    draw_losses(canvas_part(all, 0, left + differences - 1, columns, 1), two);
    footer_draw(canvas_part(all, 0, rows - lowest, columns, lowest), &two->scene[0]);
}
