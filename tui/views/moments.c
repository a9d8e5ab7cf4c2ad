/* Compares two moments of a run, A and B: the memory of a rank at that moment and at the fullest instant of the last
 * whole step before; that step's sent bytes, time and loss; and the knobs that differ. Figures that were no longer
 * kept when the moment was marked are n/a. Marking copies all figures, so they stay when model and history drop their records. */
#include <math.h>
#include <string.h>

#include "engine/config/keys.h"
#include "tui/view/tier_bar.h"
#include "tui/views/sides.h"

/* The last step that all ranks had ended by then, if its plan or its figures are kept. */
static void read_step(struct marked *moment, const struct run_model *model, const struct history *history)
{
    const struct history_step *when = history_step_at(history, moment->time_ns);
    if (when && (!when->ended_ns || when->ended_ns > moment->time_ns)) when = history_step_numbered(history, when->step - 1);
    if (!when || !when->ended_ns) return;
    const struct run_schedule *plan = run_schedule_numbered(model, when->schedule);
    const struct run_step *step = run_step_numbered(model, when->step);
    moment->has_knobs = plan && plan->has_ops && !schedule_is_observed(&plan->ops);
    if (moment->has_knobs) moment->knobs = plan->ops.knobs;
    if (!step || !run_step_is_whole(step)) return;
    moment->has_step = true;
    moment->step = *step;
    moment->step.sent_bytes = NULL; /* it belongs to the model */
    moment->has_sent = step->sent_bytes && step->ranks && !model->header.sent_by_formula;
    for (int rank = 0; moment->has_sent && rank < step->ranks; rank++)
        moment->sent_bytes += (double)step->sent_bytes[rank] / step->ranks;
    if (!step->memory[TIER_DEVICE].known) return;
    moment->peak = (struct run_instant){.known = true, .live_bytes = step->memory[TIER_DEVICE].peak_bytes};
    memcpy(moment->peak.held_bytes, step->memory[TIER_DEVICE].at_peak_bytes, sizeof moment->peak.held_bytes);
}

void moments_mark(struct view_state *state, int side, uint64_t time_ns, const struct run_model *model,
                  const struct history *history)
{
    struct marked moment = {.known = true, .time_ns = time_ns, .rank = state->rank};
    moment.held = history_held(history, moment.rank, TIER_DEVICE, time_ns + 1);
    read_step(&moment, model, history);
    state->mark[side] = moment;
}

/* ---- memory ---- */

static int draw_instants(struct canvas canvas, int y, const struct scene *scene, const char *what,
                         const struct run_instant *a, const struct run_instant *b)
{
    const enum units units = scene->state->units;
    sides_draw_head(canvas, y++, units, (const char *const[]){what, "A", "B", "B - A"});
    for (int c = 0; c < CATEGORIES; c++) {
        if (!a->held_bytes[c] && !b->held_bytes[c]) continue;
        const struct category_look *look = category_look(c);
        struct side_row row = {name_columns(&canvas) < NAME_COLUMNS ? look->brief : look->name,
                               KIND_BYTES,
                               {a->known, b->known},
                               {(double)a->held_bytes[c], (double)b->held_bytes[c]}};
        sides_draw(canvas, y++, units, &row, STYLE_TEXT);
    }
    struct side_row sum = {"total", KIND_BYTES, {a->known, b->known}, {(double)a->live_bytes, (double)b->live_bytes}};
    sides_draw(canvas, y++, units, &sum, STYLE_STRONG);
    return y;
}

/* ---- the step ---- */

enum { FIGURES = 8 };

static void read_figures(struct side_row rows[FIGURES], int side, const struct marked *moment)
{
    const struct run_step *step = &moment->step; /* zeros, where it has none */
    const bool has = moment->has_step;
    const struct {
        const char *name;
        int kind;
        bool known;
        double value;
    } figures[FIGURES] = {
        {"number", KIND_COUNT, has, step->step},
        {"stage", KIND_COUNT, has && step->stage != RUN_UNKNOWN, step->stage},
        {"resting", KIND_BYTES, step->memory[TIER_DEVICE].known, (double)step->memory[TIER_DEVICE].resting_bytes},
        {"sent", KIND_BYTES, moment->has_sent, moment->sent_bytes},
        {"time", KIND_TIME, has, (double)step->total_ns},
        {"exposed", KIND_TIME, step->timed, step->timed ? (double)step->split.exposed_ns / step->timed : 0},
        {"tokens/s", KIND_COUNT, step->total_ns, step->total_ns ? step->tokens * 1e9 / (double)step->total_ns : 0},
        {"loss", KIND_REAL, has && !step->skipped && !isnan(step->loss), (double)step->loss},
    };
    for (int f = 0; f < FIGURES; f++) {
        rows[f].name = figures[f].name, rows[f].kind = figures[f].kind;
        rows[f].known[side] = figures[f].known, rows[f].value[side] = figures[f].value;
    }
}

static int draw_figures(struct canvas canvas, const struct scene *scene, const struct marked sides[2])
{
    struct side_row rows[FIGURES];
    for (int side = 0; side < 2; side++) read_figures(rows, side, &sides[side]);
    sides_draw_head(canvas, 0, scene->state->units, (const char *const[]){"step", "A", "B", "B - A"});
    for (int f = 0; f < FIGURES; f++) sides_draw(canvas, 1 + f, scene->state->units, &rows[f], STYLE_TEXT);
    return 1 + FIGURES;
}

/* ---- knobs of the two schedules ---- */

static bool is_of_schedule(const struct config_key *key)
{
    const size_t first = offsetof(struct config, zero);
    return key->class == CLASS_HONOURED && key->offset >= first && key->offset < first + sizeof(struct config_zero);
}

static void draw_knobs(struct canvas canvas, int y, const struct marked sides[2])
{
    struct config a = {0}, b = {0};
    int differ = 0;
    draw_text(canvas, 0, y++, STYLE_DIM, "knobs that differ");
    if (!sides[0].has_knobs || !sides[1].has_knobs) {
        draw_text(canvas, 0, y, STYLE_TEXT, "n/a");
        return;
    }
    a.zero = sides[0].knobs;
    b.zero = sides[1].knobs;
    for (int k = 0; k < config_key_count; k++) {
        char then[32], now[32];
        const struct config_key *key = &config_keys[k];
        if (!is_of_schedule(key) || !key_differs(key, &a, &b, then, now, sizeof then)) continue;
        draw_format(canvas, 0, y++, STYLE_TEXT, "%s %s → %s", key_leaf(key->path), then, now);
        differ++;
    }
    if (!differ) draw_text(canvas, 0, y, STYLE_TEXT, "none");
}

/* ---- all together ---- */

static void draw_times(struct canvas canvas, int y, const struct scene *scene, const struct marked sides[2])
{
    const uint64_t first_ns = scene->model->first_ns;
    int x = 1;
    for (int side = 0; side < 2; side++) {
        x = draw_format(canvas, x, y, STYLE_STRONG, "%c", 'A' + side);
        if (!sides[side].known) x = draw_text(canvas, x, y, STYLE_DIM, " not marked: c marks it at the cursor   ");
        else x = draw_format(canvas, x, y, STYLE_TEXT, " at %.3f s   ", (double)(sides[side].time_ns - first_ns) / 1e9);
    }
    if (!sides[0].known || !sides[1].known) return;
    if (sides[0].rank != sides[1].rank)
        draw_format(canvas, x, y, STYLE_DIM, "peaks of the fullest rank; then: ranks %d, %d", sides[0].rank,
                    sides[1].rank);
    else draw_format(canvas, x, y, STYLE_DIM, "peaks of the fullest rank; then: rank %d", sides[0].rank);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    const struct marked *sides = scene->state->mark;
    const int width = sides_columns(&canvas, scene->state->units), columns = canvas.at.columns;
    draw_title(canvas, 0, false, "two moments");
    draw_times(canvas, 1, scene, sides);
    if (!sides[0].known || !sides[1].known) {
        draw_text(canvas, 1, 3, STYLE_DIM,
                  "c marks A where the cursor is; go to another moment, and c marks B and compares");
        return;
    }
    bool wide = columns >= 2 * width + 2;
    int gap = columns - 2 * width - 2 > 6 ? 6 : columns - 2 * width - 1;
    struct canvas left = canvas_part(canvas, 1, 2, width, canvas.at.rows - 2);
    struct canvas right = canvas_part(canvas, 1 + width + gap, 2, columns, canvas.at.rows - 2);
    int y = wide ? 0 : draw_figures(left, scene, sides);
    y = draw_instants(left, y, scene, "at peak", &sides[0].peak, &sides[1].peak);
    draw_instants(left, y, scene, "then", &sides[0].held, &sides[1].held);
    if (wide) draw_knobs(right, draw_figures(right, scene, sides) + 1, sides);
}

const struct view view_moments = {"moments", "moments", .keys = {ACTION_MOMENTS, ACTION_UNITS}, .draw = draw_view};
