/* What a rank sends in a step, by collective: measured, planned by the schedule, and the paper's formula. The mean over
 * ranks is shown, since shards may differ by their padding. Control bytes (norms, losses, flags) and copies between tiers are not
 * in the sums. */
#include "tui/views/collectives.h"

#include <stdio.h>
#include <string.h>

struct sums {
    bool has_sent, has_planned;
    double sent, planned;
};

static const struct run_traffic nothing;

const struct run_schedule *collectives_plan(const struct run_model *model)
{
    const struct run_step *step = model->traffic_steps ? run_step_numbered(model, model->traffic_step) : NULL;
    const struct run_schedule *plan = step ? run_schedule_numbered(model, step->schedule) : NULL;
    return plan ? plan : run_training(model);
}

static const struct run_traffic *planned_of(const struct run_model *model, int kind, int link)
{
    const struct run_schedule *plan = collectives_plan(model);
    return plan ? &plan->traffic[kind][link] : &nothing;
}

static bool is_shown(const struct run_model *model, int kind, int link)
{
    return model->traffic[kind][link].ranks || planned_of(model, kind, link)->ranks;
}

static double mean(uint64_t sum, int ranks)
{
    return ranks ? (double)sum / ranks : 0;
}

static uint64_t rounded(double value)
{
    return (uint64_t)(value + 0.5);
}

static int rows_wanted(const struct scene *scene)
{
    const struct run_model *model = scene->model;
    int rows = 0;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++) rows += is_shown(model, kind, link);
    return rows + 4 < 6 ? 6 : rows + 4; /* title, head, sum, theory */
}

static void draw_head(struct canvas canvas, enum units units)
{
    struct pen pen = pen_at(canvas, 1, 1);
    pen_left(&pen, 15, STYLE_DIM, "collective");
    pen_right(&pen, 5, STYLE_DIM, "ops");
    pen_right(&pen, bytes_columns(units) + 2, STYLE_DIM, "sent");
    pen_right(&pen, bytes_columns(units) + 2, STYLE_DIM, "planned");
    pen_right(&pen, 10, STYLE_DIM, "busy");
    pen_right(&pen, 10, STYLE_DIM, "exposed");
    pen_right(&pen, 7, STYLE_DIM, "link");
}

/* Exposed time of a kind in the last whole step; false: unknown. */
static bool exposed_time(const struct run_model *model, int kind, uint64_t *ns)
{
    const struct run_step *step = run_last_step_here(model);
    if (!step || !step->timed) return false;
    *ns = step->split.exposed_by_ns[kind] / (uint64_t)step->timed;
    return true;
}

/* Tensors: copies between a rank's own tiers and control bytes are no part of what the paper counts. */
static bool is_between_ranks(int kind)
{
    return kind < TRAFFIC_D2H;
}

static void draw_kind(struct canvas canvas, int y, int kind, int link, const struct scene *scene, struct sums *sums)
{
    const struct run_traffic *sent = &scene->model->traffic[kind][link],
                             *planned = planned_of(scene->model, kind, link);
    enum style style = kind == TRAFFIC_CONTROL ? STYLE_DIM : STYLE_TEXT;
    enum units units = scene->state->units;
    char text[FORMAT_ROOM];
    uint64_t exposed;
    struct pen pen = pen_at(canvas, 1, y);
    pen_left(&pen, 15, style, traffic_name(kind));
    if (sent->ranks) pen_format(&pen, 5, style, "%llu", (unsigned long long)(sent->count / (uint64_t)sent->ranks));
    else pen_right(&pen, 5, style, "n/a");
    pen_right(&pen, bytes_columns(units) + 2, style,
              format_bytes(text, units, sent->ranks, rounded(mean(sent->sent_bytes, sent->ranks))));
    pen_right(&pen, bytes_columns(units) + 2, style,
              format_bytes(text, units, planned->ranks, rounded(mean(planned->sent_bytes, planned->ranks))));
    pen_right(&pen, 10, style, sent->ranks ? format_time(text, rounded(mean(sent->busy_ns, sent->ranks))) : "n/a");
    pen_right(&pen, 10, style, exposed_time(scene->model, kind, &exposed) ? format_time(text, exposed) : "n/a");
    pen_right(&pen, 7, style, link_name(link));
    if (!is_between_ranks(kind)) return;
    sums->has_sent |= sent->ranks > 0;
    sums->has_planned |= planned->ranks > 0;
    sums->sent += mean(sent->sent_bytes, sent->ranks);
    sums->planned += mean(planned->sent_bytes, planned->ranks);
}

static void draw_sum(struct canvas canvas, int y, enum units units, const struct sums *sums)
{
    char text[FORMAT_ROOM];
    struct pen pen = pen_at(canvas, 1, y);
    pen_left(&pen, 20, STYLE_STRONG, "tensors together");
    pen_right(&pen, bytes_columns(units) + 2, STYLE_STRONG,
              format_bytes(text, units, sums->has_sent, rounded(sums->sent)));
    pen_right(&pen, bytes_columns(units) + 2, STYLE_STRONG,
              format_bytes(text, units, sums->has_planned, rounded(sums->planned)));
}

/* theory_bytes = k x Psi x element size x (N-1)/N: the factor k is what the paper names per stage. */
static void draw_theory(struct canvas canvas, int y, const struct scene *scene, const struct sums *sums)
{
    const struct run_header *header = &scene->model->header;
    const struct run_schedule *plan = collectives_plan(scene->model);
    bool ascii = canvas.surface->ascii;
    char text[FORMAT_ROOM];
    if (!plan || !plan->theory_bytes || header->ranks < 2 || header->parameters <= 0 || !header->precision[0]) {
        draw_text(canvas, 1, y, STYLE_DIM,
                  header->ranks == 1 ? "one rank alone sends nothing"
                  : plan             ? "theory: not known"
                                     : "planned and theory: n/a, no schedule is known");
        return;
    }
    int element = strcmp(header->precision, "fp32") == 0 ? 4 : 2;
    double volume = (double)header->parameters * element * (header->ranks - 1) / header->ranks;
    int x =
        draw_format(canvas, 1, y, STYLE_TEXT, "theory: %.3g×%s(N-1)/N×%dB = %s", (double)plan->theory_bytes / volume,
                    ascii ? "Psi" : "Ψ", element, format_bytes_bare(text, scene->state->units, plan->theory_bytes));
    if (sums->has_sent)
        draw_format(canvas, x, y, STYLE_TEXT, ", sent %+.2f %%", 100.0 * (sums->sent / (double)plan->theory_bytes - 1));
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    struct sums sums = {0};
    char title[64] = "sent by each rank in a step";
    int y = 2;
    if (model->traffic_steps) snprintf(title, sizeof title, "sent by each rank in step %u", model->traffic_step);
    draw_title(canvas, 0, focused, title);
    draw_head(canvas, scene->state->units);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++)
            if (is_shown(model, kind, link)) draw_kind(canvas, y++, kind, link, scene, &sums);
    if (model->header.ranks != 1) draw_sum(canvas, y++, scene->state->units, &sums);
    draw_theory(canvas, y, scene, &sums);
}

/* What is sent, as in the overview; below it why that differs from the paper, and how long it took. */
static void draw_view(struct canvas canvas, const struct scene *scene)
{
    int columns = canvas.at.columns, y = rows_wanted(scene);
    draw_pane(canvas_part(canvas, 0, 0, columns, y), scene, false);
    y += collectives_draw_theory(canvas_part(canvas, 0, y, columns, 2), scene);
    collectives_draw_times(canvas_part(canvas, 0, y, columns, canvas.at.rows - y), scene);
}

const struct view view_collectives = {"collectives", "collectives", .draw = draw_view, .pane = draw_pane,
                                      .pane_rows = rows_wanted};
