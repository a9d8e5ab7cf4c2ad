/* What a rank sends in a step, by collective: measured, planned by the schedule, and the paper's formula. The mean over
 * ranks is shown, since shards may differ by their padding. Control bytes (norms, losses, flags) and copies between tiers are not
 * in the sums. */
#include <stdio.h>
#include <string.h>

#include "engine/advise/theory.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/observe/totals.h"
#include "tui/view/view.h"

struct sums {
    bool has_sent, has_planned;
    double sent, planned;
};

/* The plan of the last step that ended, because its bytes are shown. After a switch another plan trains until a step of it has ended. */
static const struct run_schedule *plan_of(const struct run_model *model)
{
    const struct run_step *step = model->traffic_steps ? run_step_numbered(model, model->traffic_step) : NULL;
    const struct run_schedule *plan = step ? run_schedule_numbered(model, step->schedule) : NULL;
    return plan ? plan : run_training(model);
}

/* A kind's traffic over all links. An operation that uses both links is counted with each, and timed with one of them. */
static struct run_traffic over_links(const struct run_traffic by_link[LINKS])
{
    struct run_traffic sum = {0};
    for (int link = 0; link < LINKS; link++) {
        const struct run_traffic *of = &by_link[link];
        if (of->ranks > sum.ranks) sum.ranks = of->ranks;
        if (of->count > sum.count) sum.count = of->count;
        sum.sent_bytes += of->sent_bytes;
        sum.busy_ns += of->busy_ns;
    }
    return sum;
}

/* The plan knows a kind's bytes, not their links: it has them all with the first. */
static struct run_traffic planned_of(const struct run_model *model, int kind)
{
    const struct run_schedule *plan = plan_of(model);
    return plan ? over_links(plan->traffic[kind]) : (struct run_traffic){0};
}

/* The links over which a kind was sent in the step. */
static int links_of(const struct run_model *model, int kind)
{
    int links = 0;
    for (int link = 0; link < LINKS; link++) links += model->traffic[kind][link].ranks > 0;
    return links;
}

/* A row for a kind, and one for each link if it is sent over more than one. */
static int rows_of(const struct run_model *model, int kind)
{
    const int links = links_of(model, kind);
    if (links > 1) return 1 + links;
    return links || planned_of(model, kind).ranks;
}

static double mean(uint64_t sum, int ranks)
{
    return ranks ? (double)sum / ranks : 0;
}

static uint64_t rounded(double value)
{
    return (uint64_t)(value + 0.5);
}

/* The ranks that have reported traffic of the step: all of them, but while it ends. */
static int ranks_heard(const struct run_model *model)
{
    int heard = 0;
    if (model->last_ended >= model->traffic_step) return model->ranks;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        for (int link = 0; link < LINKS; link++)
            if (model->traffic[kind][link].ranks > heard) heard = model->traffic[kind][link].ranks;
    return heard ? heard : model->ranks;
}

/* The step, if it is over on all ranks and exposed times are known. */
static const struct run_step *timed_step(const struct run_model *model)
{
    const struct run_step *step = run_last_step_here(model);
    return step && step->timed && step->step == model->traffic_step ? step : NULL;
}

/* Exposed time of a kind in the step; false: unknown. */
static bool exposed_time(const struct run_model *model, int kind, uint64_t *ns)
{
    const struct run_step *step = timed_step(model);
    if (!step) return false;
    *ns = step->split.exposed_by_ns[kind] / (uint64_t)step->timed;
    return true;
}

/* In the step. */
static struct link_use link_use_of(const struct run_model *model, int kind, int link)
{
    static const uint64_t none[TRAFFIC_KINDS];
    const struct run_step *step = timed_step(model);
    return run_link_use(model->traffic, kind, link, ranks_heard(model), step ? step->split.exposed_by_ns : none,
                        step ? step->timed : 0);
}

static bool crosses_nodes(const struct run_model *model)
{
    bool crosses = false;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) crosses |= model->traffic[kind][LINK_INTER].ranks > 0;
    return crosses;
}

static int rows_wanted(const struct scene *scene)
{
    const struct run_model *model = scene->model;
    int rows = 0;
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) rows += rows_of(model, kind);
    for (int link = 0; link < LINKS && crosses_nodes(model); link++)
        rows += link_use_of(model, TRAFFIC_KINDS, link).ranks > 0;
    return rows + 4 < 6 ? 6 : rows + 4; /* title, head, sum, theory */
}

static void draw_head(struct canvas canvas, enum units units)
{
    const int bytes = bytes_columns(units);
    draw_heads(canvas, 1, 1, {-15, "collective"}, {5, "ops"}, {bytes + 2, "sent"}, {bytes + 2, "planned"}, {10, "busy"},
               {10, "exposed"}, {7, "link"});
}

/* Tensors: copies between a rank's own tiers and control bytes are no part of what the paper counts. */
static bool is_between_ranks(int kind)
{
    return kind < TRAFFIC_D2H;
}

static void pen_sent(struct pen *pen, enum style style, enum units units, const struct run_traffic *of)
{
    pen_right(pen, bytes_columns(units) + 2, style,
              format_bytes(units, of->ranks, rounded(mean(of->sent_bytes, of->ranks))).text);
}

/* What went over a link, and for how long. planned NULL: the plan does not say. */
static void pen_link(struct pen *pen, enum style style, enum units units, const struct link_use *use,
                     const struct run_traffic *planned)
{
    const int columns = bytes_columns(units) + 2;
    pen_right(pen, columns, style, format_bytes(units, use->ranks, rounded(use->sent_bytes)).text);
    if (planned) pen_sent(pen, style, units, planned);
    else pen_right(pen, columns, style, "");
    pen_right(pen, 10, style, use->busy_ns > 0 ? format_time(rounded(use->busy_ns)).text : "n/a");
    pen_right(pen, 10, style, use->exposed_ns >= 0 ? format_time(rounded(use->exposed_ns)).text : "n/a");
}

/* What of a kind went over each link. Returns the next row. */
static int draw_links(struct canvas canvas, int y, int kind, const struct scene *scene)
{
    const struct run_schedule *plan = kind == TRAFFIC_CONTROL ? NULL : plan_of(scene->model);
    for (int link = 0; link < LINKS; link++) {
        const struct link_use use = link_use_of(scene->model, kind, link);
        if (!use.ranks) continue;
        struct pen pen = pen_at(canvas, 1, y++);
        pen_format(&pen, 20, STYLE_DIM, "%s, without waits", link_name(link));
        pen_link(&pen, STYLE_DIM, scene->state->units, &use, plan ? &plan->traffic[kind][link] : NULL);
    }
    return y;
}

/* Returns the next row. */
static int draw_kind(struct canvas canvas, int y, int kind, const struct scene *scene, struct sums *sums)
{
    const struct run_traffic sent = over_links(scene->model->traffic[kind]), planned = planned_of(scene->model, kind);
    enum style style = kind == TRAFFIC_CONTROL ? STYLE_DIM : STYLE_TEXT;
    uint64_t exposed;
    struct pen pen = pen_at(canvas, 1, y++);
    pen_left(&pen, 15, style, traffic_name(kind));
    if (sent.ranks) pen_format(&pen, 5, style, "%llu", (unsigned long long)(sent.count / (uint64_t)sent.ranks));
    else pen_right(&pen, 5, style, "n/a");
    pen_sent(&pen, style, scene->state->units, &sent);
    pen_sent(&pen, style, scene->state->units, &planned);
    pen_right(&pen, 10, style, sent.ranks ? format_time(rounded(mean(sent.busy_ns, sent.ranks))).text : "n/a");
    pen_right(&pen, 10, style, exposed_time(scene->model, kind, &exposed) ? format_time(exposed).text : "n/a");
    if (is_between_ranks(kind)) {
        sums->has_sent |= sent.ranks > 0;
        sums->has_planned |= planned.ranks > 0;
        sums->sent += mean(sent.sent_bytes, sent.ranks);
        sums->planned += mean(planned.sent_bytes, planned.ranks);
    }
    const int links = links_of(scene->model, kind);
    for (int link = 0; link < LINKS && links == 1; link++)
        if (scene->model->traffic[kind][link].ranks) pen_right(&pen, 7, style, link_name(link));
    return links > 1 ? draw_links(canvas, y, kind, scene) : y;
}

static void draw_sum(struct canvas canvas, int y, enum units units, const struct sums *sums)
{
    struct pen pen = pen_at(canvas, 1, y);
    pen_left(&pen, 20, STYLE_STRONG, "between ranks, total");
    pen_right(&pen, bytes_columns(units) + 2, STYLE_STRONG,
              format_bytes(units, sums->has_sent, rounded(sums->sent)).text);
    pen_right(&pen, bytes_columns(units) + 2, STYLE_STRONG,
              format_bytes(units, sums->has_planned, rounded(sums->planned)).text);
}

/* All kinds over each link, where there are nodes. Returns the next row. */
static int draw_link_sums(struct canvas canvas, int y, const struct scene *scene)
{
    for (int link = 0; link < LINKS && crosses_nodes(scene->model); link++) {
        const struct link_use use = link_use_of(scene->model, TRAFFIC_KINDS, link);
        if (!use.ranks) continue;
        struct pen pen = pen_at(canvas, 1, y++);
        pen_left(&pen, 20, STYLE_STRONG, text_of("%s, total", link_name(link)).text);
        pen_link(&pen, STYLE_STRONG, scene->state->units, &use, NULL);
    }
    return y;
}

/* theory_bytes = k x Psi x element size x (N-1)/N: the factor k is what the paper names per stage. */
static void draw_theory(struct canvas canvas, int y, const struct scene *scene, const struct sums *sums)
{
    const struct run_header *header = &scene->model->header;
    const struct run_schedule *plan = plan_of(scene->model);
    bool ascii = canvas.surface->ascii;
    if (!plan || !plan->theory_bytes || header->world < 2 || header->parameters <= 0 || !header->precision[0]) {
        draw_text(canvas, 1, y, STYLE_DIM,
                  header->world == 1 ? "one rank alone sends nothing"
                  : plan             ? "theory: not known"
                                     : "planned and theory: n/a, no schedule is known");
        return;
    }
    int element = strcmp(header->precision, "fp32") == 0 ? 4 : 2;
    double volume = (double)header->parameters * element * (header->world - 1) / header->world;
    char formula[192];
    const struct volume terms = plan->has_ops ? traffic_theory_volume(&plan->ops) : (struct volume){0};
    bool groups = false;
    for (int t = 0; t < terms.count; t++) groups |= terms.term[t].group != GROUP_WORLD;
    if (groups) theory_formula(formula, sizeof formula, &plan->ops, ascii ? "Psi" : "Ψ", element);
    else snprintf(formula, sizeof formula, "%.3g%s(N-1)/N", (double)plan->theory_bytes / volume, ascii ? "Psi" : "Ψ");
    const struct text bytes = format_bytes_bare(scene->state->units, plan->theory_bytes);
    int x = groups ? draw_format(canvas, 1, y, STYLE_TEXT, "theory: %s; %s", bytes.text, formula)
                   : draw_format(canvas, 1, y, STYLE_TEXT, "theory: %s × %d bytes = %s", formula, element, bytes.text);
    if (sums->has_sent)
        draw_format(canvas, x, y, STYLE_TEXT, ", sent %+.2f %%", 100.0 * (sums->sent / (double)plan->theory_bytes - 1));
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    struct sums sums = {0};
    int y = 2;
    const int heard = ranks_heard(model);
    const struct text partly = heard < model->ranks ? text_of(", from %d of %d ranks", heard, model->ranks) : NO_TEXT;
    draw_title(canvas, 0, focused,
               !model->traffic_steps           ? "sent by each rank in a step"
               : model->header.sent_by_formula ? "sent by each rank in step %u (ring formula)%s"
                                               : "sent by each rank in step %u%s",
               model->traffic_step, partly.text);
    draw_head(canvas, scene->state->units);
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++)
        if (rows_of(model, kind)) y = draw_kind(canvas, y, kind, scene, &sums);
    if (model->header.ranks != 1) draw_sum(canvas, y++, scene->state->units, &sums);
    y = draw_link_sums(canvas, y, scene);
    draw_theory(canvas, y, scene, &sums);
}

/* ---- the windows: mean of a rank and a step ---- */

struct window {
    char name[64];
    bool known;
    struct totals totals;
    double paced_bytes_per_s; /* what bounded a rate within nodes in each of its steps; 0: nothing, or not one figure */
};

/* What a link within nodes was paced to, where that bounds a rate: slow motion draws it out further. */
static double paced_rate(const struct run_pace *pace)
{
    const bool slowed = pace->slow_motion > 1 || pace->slow_rank >= 0;
    return pace->known && !slowed ? pace->links[LINK_INTRA].bandwidth_bytes_per_s : 0;
}

/* What ended in [from, to], which is `steps` steps. */
static void measure(struct window *window, const struct scene *scene, uint64_t from_ns, uint64_t to_ns, int steps)
{
    totals_of(&window->totals, scene->history, scene->model, -1, from_ns, to_ns, 0);
    window->known = window->totals.known;
    if (steps > 1) totals_share(&window->totals, (uint64_t)steps);
}

static void last_step(struct window *window, const struct scene *scene)
{
    const struct run_step *step = run_last_step(scene->model);
    const struct history_step *when = step ? history_step_numbered(scene->history, step->step) : NULL;
    snprintf(window->name, sizeof window->name, step ? "step %u" : "last step", step ? step->step : 0);
    if (!when || !when->ended_ns) return;
    measure(window, scene, when->begun_ns, when->ended_ns + 1, 1);
    window->paced_bytes_per_s = paced_rate(&step->pace);
}

/* Whole steps of one schedule, as far back as a second before the last of them ended, but no more operations than can be added up for
 * every frame, and than a reader that begins in mid-run has seen (engine/observe/states.c). */
static void last_second(struct window *window, const struct scene *scene)
{
    enum { OPERATIONS_MOST = 20000 };
    const struct run_model *model = scene->model;
    const struct run_step *last = run_last_step(model);
    const struct run_schedule *plan = last ? run_schedule_numbered(model, last->schedule) : NULL;
    const int each = plan && plan->ops.op_count ? plan->ops.op_count * model->ranks : OPERATIONS_MOST,
              most = each < OPERATIONS_MOST ? OPERATIONS_MOST / each : 1, oldest = model->step_count - most;
    uint64_t from_ns = 0, to_ns = 0;
    bool switched = false;
    int steps = 0, i = model->step_count - 1;
    window->paced_bytes_per_s = last ? paced_rate(&last->pace) : 0;
    for (; last && i >= 0 && (i >= oldest || !steps); i--) {
        const struct history_step *when = history_step_numbered(scene->history, model->steps[i].step);
        if (!run_step_is_whole(&model->steps[i]) || model->steps[i].skipped) continue;
        switched = model->steps[i].schedule != last->schedule;
        if (!when || !when->ended_ns || switched) break;
        if (!to_ns) to_ns = when->ended_ns + 1;
        if (steps && when->begun_ns + 1000000000u < to_ns) break;
        if (paced_rate(&model->steps[i].pace) != window->paced_bytes_per_s) window->paced_bytes_per_s = 0;
        from_ns = when->begun_ns;
        steps++;
    }
    snprintf(window->name, sizeof window->name, "%s: mean of %d step%s",
             switched                      ? "since the switch"
             : steps && i >= 0 && i < oldest ? "newest steps"
                                             : "last second",
             steps, plural(steps));
    if (steps) measure(window, scene, from_ns, to_ns, steps);
}

/* busbw / algbw of a kind, over its operations in the plan. */
static double planned_bus_share(const struct run_model *model, enum traffic kind)
{
    const struct run_schedule *plan = plan_of(model);
    double bytes = 0, bus_bytes = 0;
    for (int i = 0; plan && i < plan->ops.op_count; i++) {
        const struct op *op = &plan->ops.ops[i];
        if (op_traffic(op->kind) != kind) continue;
        bytes += (double)op->bytes;
        bus_bytes += (double)op->bytes * bus_share(kind, op_ranks(&plan->ops, op));
    }
    return bytes > 0 ? bus_bytes / bytes : bus_share(kind, run_world(model));
}

/* The run is too long to be added up anew for every frame: the model's sums know counts, sent bytes, busy and exposed, but not
 * whether they were made at one pace. A ring sends bus_share() of the payload. */
static void whole_run(struct window *window, const struct run_model *model)
{
    snprintf(window->name, sizeof window->name, "%s: mean of %u steps",
             model->part_count > 1 ? "since the last rank change" : "the whole run", model->traffic_steps);
    window->known = model->traffic_steps > 0;
    for (int kind = 0; kind < TRAFFIC_KINDS && window->known; kind++) {
        struct collective_totals *out = &window->totals.traffic[kind];
        const uint64_t parts = (uint64_t)model->ranks * (model->traffic_steps - 1) + (uint64_t)ranks_heard(model);
        const struct run_traffic sum = over_links(model->traffic_total[kind]);
        out->count = sum.ranks ? (int64_t)((sum.count + parts / 2) / parts) : 0;
        out->sent_bytes = sum.sent_bytes / parts;
        out->busy_ns = sum.busy_ns / parts;
        if (model->split_count) out->exposed_ns = model->split_total.exposed_by_ns[kind] / model->split_count;
        const double share = planned_bus_share(model, (enum traffic)kind);
        if (!out->busy_ns || share <= 0) continue;
        out->bus_bytes = out->sent_bytes;
        out->bytes = (uint64_t)((double)out->sent_bytes / share + 0.5);
    }
}

static void draw_times_head(struct canvas canvas, int y, enum units units)
{
    int columns = bytes_columns(units) + 1;
    draw_heads(canvas, 1, y, {-16, "mean of ranks"}, {columns, "payload"}, {columns + 2, "algbw"},
               {columns + 2, "busbw"}, {7, "hidden"}, {10, "exposed"}, {10, "peer wait"}, {10, "paced"}, {10, "busy"},
               {6, "ops"}, {15, "relative busbw"});
}

static void pen_rate(struct pen *pen, enum units units, double bytes_per_s)
{
    const struct text rate = text_of("%s/s", format_bytes_bare(units, (uint64_t)bytes_per_s).text);
    pen_right(pen, bytes_columns(units) + 3, STYLE_TEXT, bytes_per_s > 0 ? rate.text : "n/a");
}

/* The rate to compare with: the paced link, if it bounds the window and nothing goes to other nodes, else the run's
 * best step. */
struct limit {
    double bytes_per_s; /* 0: none is known */
    const char *name;
};

static struct limit limit_of(const struct run_model *model, const struct window *window, int kind)
{
    const bool crosses = model->traffic_total[kind][LINK_INTER].sent_bytes > 0;
    if (window->paced_bytes_per_s > 0 && !crosses) return (struct limit){window->paced_bytes_per_s, "paced"};
    return (struct limit){model->best_busbw[kind], "best"};
}

static void draw_share(struct pen *pen, double busbw, const struct limit *limit)
{
    if (busbw > 0 && limit->bytes_per_s > 0)
        pen_format(pen, 15, STYLE_TEXT, "%.0f %% of %s", 100 * busbw / limit->bytes_per_s, limit->name);
    else pen_right(pen, 15, STYLE_TEXT, "n/a");
}

static void draw_times(struct canvas canvas, int y, enum units units, int kind, const struct collective_totals *totals,
                       const struct limit *limit, bool waits_known)
{
    const double busbw = per_second(totals->bus_bytes, totals->busy_ns);
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 14, STYLE_TEXT, traffic_name((enum traffic)kind));
    pen_right(&pen, bytes_columns(units) + 1, STYLE_TEXT, format_bytes(units, totals->bytes > 0, totals->bytes).text);
    pen_rate(&pen, units, per_second(totals->bytes, totals->busy_ns));
    pen_rate(&pen, units, busbw);
    if (totals->busy_ns && totals->exposed_ns <= totals->busy_ns)
        pen_format(&pen, 7, STYLE_STRONG, "%.0f%%",
                   100.0 * (double)(totals->busy_ns - totals->exposed_ns) / (double)totals->busy_ns);
    else pen_right(&pen, 7, STYLE_TEXT, totals->busy_ns ? "0%" : "n/a");
    pen_right(&pen, 10, STYLE_TEXT, format_time(totals->exposed_ns).text);
    pen_right(&pen, 10, STYLE_TEXT, waits_known ? format_time(totals->peers_ns).text : "n/a");
    pen_right(&pen, 10, STYLE_TEXT, waits_known ? format_time(totals->paced_ns).text : "n/a");
    pen_right(&pen, 10, STYLE_TEXT, format_time(totals->busy_ns).text);
    pen_format(&pen, 6, STYLE_TEXT, "%lld", (long long)totals->count);
    draw_share(&pen, busbw, limit);
}

/* Behind the run's title, as many as there is room for. */
static void draw_bests(struct canvas canvas, int x, int y, const struct scene *scene)
{
    const char *separator = "· best step: busbw of ";
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (!is_between_ranks(kind) || scene->model->best_busbw[kind] <= 0) continue;
        const struct text best =
            text_of("%s%s %s/s", separator, traffic_name((enum traffic)kind),
                    format_bytes_bare(scene->state->units, (uint64_t)scene->model->best_busbw[kind]).text);
        if (x + utf8_columns(best.text) > canvas.at.columns) return;
        x = draw_text(canvas, x, y, STYLE_DIM, best.text);
        separator = ", ";
    }
}

static int draw_window(struct canvas canvas, int y, const struct scene *scene, const struct window *window,
                       bool waits_known)
{
    const struct run_schedule *plan = run_training(scene->model);
    const int x = draw_text(canvas, 1, y, STYLE_STRONG, window->name);
    if (window->known && !waits_known) draw_bests(canvas, x + 2, y, scene);
    if (!window->known)
        draw_text(canvas, 36, y, STYLE_DIM,
                  plan && plan->has_ops ? "n/a: not kept in full" : "n/a: no schedule is known");
    y++;
    for (int kind = 0; kind < TRAFFIC_KINDS && window->known; kind++) {
        const struct limit limit = limit_of(scene->model, window, kind);
        if (is_between_ranks(kind) && window->totals.traffic[kind].count > 0)
            draw_times(canvas, y++, scene->state->units, kind, &window->totals.traffic[kind], &limit, waits_known);
    }
    return y;
}

static void draw_all_times(struct canvas canvas, const struct scene *scene)
{
    struct window step = {0}, second = {0}, run = {0};
    last_step(&step, scene);
    last_second(&second, scene);
    whole_run(&run, scene->model);
    draw_title(canvas, 0, false, "speed (waits included), overlap with compute, waits");
    draw_times_head(canvas, 1, scene->state->units);
    int y = draw_window(canvas, 2, scene, &step, true);
    y = draw_window(canvas, y, scene, &second, true);
    draw_window(canvas, y, scene, &run, false);
}

/* ---- the difference to the paper ---- */

static void add_term(char *text, size_t room, enum units units, const char *what, double bytes)
{
    if (bytes > -0.5 && bytes < 0.5) return;
    text_append(text, room, "%s%s %c%s", *text ? ", " : "beside it: ", what, bytes < 0 ? '-' : '+',
                format_bytes_bare(units, (uint64_t)((bytes < 0 ? -bytes : bytes) + 0.5)).text);
}

/* What makes the difference to the paper's volume; returns the rows taken. */
static int draw_difference(struct canvas canvas, const struct scene *scene)
{
    char text[340] = "";
    struct theory theory;
    enum units units = scene->state->units;
    theory_of(&theory, scene->model, plan_of(scene->model));
    if (!theory.known) return 0;
    add_term(text, sizeof text, units, "padding", theory.padding_bytes);
    add_term(text, sizeof text, units, "parameters", theory.parameter_bytes);
    add_term(text, sizeof text, units, "gradients", theory.gradient_bytes);
    if (*text && theory.unit[0])
        text_append(text, sizeof text, "; most by %s, whose %s move %.3g×, not %d×", theory.unit,
                    theory.unit_is_gradient ? "gradients" : "parameters", theory.unit_times,
                    theory.unit_is_gradient ? theory.gradients : theory.parameters);
    canvas = canvas_part(canvas, 1, 0, canvas.at.columns - 2, 2);
    return *text ? draw_paragraph(canvas, 0, STYLE_TEXT, text)
                 : draw_paragraph(canvas, 0, STYLE_DIM, "planned volume = theory: no padding");
}

/* ---- the view ---- */

/* What is sent, as in the overview; below it why that differs from the paper, and how long it took. */
static void draw_view(struct canvas canvas, const struct scene *scene)
{
    int columns = canvas.at.columns, y = rows_wanted(scene);
    draw_pane(canvas_part(canvas, 0, 0, columns, y), scene, false);
    y += draw_difference(canvas_part(canvas, 0, y, columns, 2), scene);
    draw_all_times(canvas_part(canvas, 0, y, columns, canvas.at.rows - y), scene);
}

const struct view view_collectives = {"collectives", "collectives", .draw = draw_view, .pane = draw_pane,
                                      .pane_rows = rows_wanted};
