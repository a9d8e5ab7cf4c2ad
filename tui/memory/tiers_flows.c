/* What flows between tiers, as a table: bytes in a step, rate and its share of the link's limit; for NVMe also the depth of the queue and
 * the latency of requests; and the exposed time, which no compute hid. */

#include "tui/memory/tiers.h"
#include "tui/view/op_text.h"

bool tiers_any_flow(const struct run_model *model)
{
    for (enum flow flow = 0; flow < FLOWS; flow++)
        if (flow_is_used(model, flow)) return true;
    return false;
}

static void draw_head(struct canvas canvas, enum units units)
{
    const int bytes = bytes_columns(units);
    struct pen pen = draw_heads(canvas, 1, 1, {-14, ""}, {bytes + 2, "a step"}, {12, "rate"}, {12, "of limit"},
                                {7, "depth"}, {10, "latency"}, {10, "exposed"}, {12, "limit"}, {8, "deepest"},
                                {10, "slowest"}, {10, "requests"}, {8, "ops"});
    if (!pen.full) draw_text(canvas, pen.x + 3, 1, STYLE_DIM, "now");
}

static struct text write_share(const struct flow_figures *figures)
{
    static const char *const of[] = {"", "paced", "best"};
    if (figures->limited_by == FLOW_LIMIT_UNKNOWN) return text_of("n/a");
    return text_of("%.0f %% %s", 100 * figures->share, of[figures->limited_by]);
}

/* Cells of NVMe are "-" where nothing is asynchronous, and n/a where a trace does not tell. */
static const char *or_none(enum flow flow, const struct flow_figures *figures, const char *text)
{
    return flow < FLOW_NVME_READ ? "-" : figures->has_io ? text : "n/a";
}

static void draw_now(struct pen *pen, const struct scene *scene, int rank, enum flow flow)
{
    const struct run_lane *lane = rank >= 0 ? tiers_moving(scene, rank, flow) : NULL;
    const struct text label = lane ? op_text(scene->model, lane->schedule, (int)lane->op) : (struct text){""};
    if (pen->full || !*label.text) return;
    draw_format(pen->canvas, pen->x + 3, pen->y, STYLE_FOCUS, "%s, %s", label.text,
                format_time_bare(scene->model->now_ns - lane->started_ns).text);
}

static void draw_known(struct pen *pen, const struct scene *scene, int rank, enum flow flow,
                       const struct flow_figures *figures)
{
    const enum units units = scene->state->units;
    pen_right(pen, bytes_columns(units) + 2, STYLE_STRONG,
              format_bytes(units, true, (uint64_t)(figures->bytes + 0.5)).text);
    pen_right(pen, 12, STYLE_STRONG, figures->bytes_per_s > 0 ? format_rate(units, figures->bytes_per_s).text : "n/a");
    pen_right(pen, 12, STYLE_TEXT, write_share(figures).text);
    pen_right(pen, 7, STYLE_TEXT, or_none(flow, figures, text_of("%.1f", figures->depth).text));
    pen_right(pen, 10, STYLE_TEXT, or_none(flow, figures, format_time((uint64_t)(figures->latency_ns + 0.5)).text));
    pen_right(pen, 10, STYLE_TEXT, figures->so_far ? "n/a" : format_time((uint64_t)(figures->exposed_ns + 0.5)).text);
    pen_right(pen, 12, STYLE_TEXT,
              figures->limit_bytes_per_s > 0 ? format_rate(units, figures->limit_bytes_per_s).text : "n/a");
    pen_right(pen, 8, STYLE_TEXT, or_none(flow, figures, text_of("%u", figures->deepest).text));
    pen_right(pen, 10, STYLE_TEXT, or_none(flow, figures, format_time(figures->longest_ns).text));
    pen_right(pen, 10, STYLE_TEXT, or_none(flow, figures, text_of("%.0f", figures->requests).text));
    pen_format(pen, 8, STYLE_TEXT, "%.0f", figures->count);
    draw_now(pen, scene, rank, flow);
}

static void draw_row(struct canvas canvas, int y, const struct scene *scene, int rank, enum flow flow,
                     const struct tiers_flow *of)
{
    struct pen pen = pen_at(canvas, 1, y);
    pen_left(&pen, 14, of->used ? STYLE_TEXT : STYLE_DIM, flow_name(flow));
    if (of->used && of->figures.known) draw_known(&pen, scene, rank, flow, &of->figures);
    else pen_right(&pen, bytes_columns(scene->state->units) + 2, STYLE_DIM, of->used ? "n/a" : "-");
}

/* Says that nothing flows between tiers, and which setting would change that. */
static void draw_nothing_flows(struct canvas canvas, const struct run_model *model)
{
    const struct run_schedule *plan = run_training(model);
    if (!plan || !plan->has_ops) {
        draw_text(canvas, 1, 1, STYLE_DIM, "n/a: no schedule is known, so what each operation moves is unknown");
        return;
    }
    draw_text(canvas, 1, 1, STYLE_TEXT, "nothing: this plan keeps all states on the device");
    draw_text(canvas, 1, 2, STYLE_DIM, "offload_optimizer (stages 1 to 3) and offload_param (stage 3) move them:");
    draw_text(canvas, 1, 3, STYLE_DIM, "in a live run  :set zero_optimization.offload_optimizer.device=cpu");
    draw_text(canvas, 1, 4, STYLE_DIM, "in a new run   zerolab train configs/nano-offload.json, or nano-nvme.json");
}

/* What holds of some direction, of all together. */
struct all_flows {
    bool used, so_far, buffered;
    double slow_motion;
};

static struct all_flows all_of(const struct tiers_flow flows[FLOWS])
{
    struct all_flows all = {.slow_motion = 1};
    for (enum flow flow = 0; flow < FLOWS; flow++) {
        const struct flow_figures *figures = &flows[flow].figures;
        all.used |= flows[flow].used;
        all.so_far |= figures->so_far;
        all.buffered |= figures->buffered;
        if (figures->slow_motion > all.slow_motion) all.slow_motion = figures->slow_motion;
    }
    return all;
}

/* Explains the figures. */
static struct text note_of(const struct all_flows *all)
{
    return text_of(all->slow_motion > 1 ? " slow motion ×%g taken out of rates "
                   : all->buffered      ? " NVMe: through the page cache "
                                        : " limit: paced, else this run's best step ",
                   all->slow_motion);
}

static void draw_flows_title(struct canvas canvas, const struct scene *scene, int rank, const struct all_flows *all,
                             bool focused)
{
    const struct run_model *model = scene->model;
    const struct run_step *step = run_last_step_here(model);
    const struct text note = note_of(all);
    struct text title = text_of(rank < 0 ? "flows between tiers" : "flows of rank %d", rank);
    if (all->so_far) text_add(&title, ", this step so far");
    else if (step) text_add(&title, ", step %u", step->step);
    if (rank < 0 && model->ranks > 1) text_add(&title, ", mean of ranks");
    const int x = draw_title(canvas, 0, focused, "%s", title.text);
    if (all->used && x + utf8_columns(note.text) + 1 < canvas.at.columns)
        draw_right(canvas, canvas.at.columns - 1, 0, STYLE_DIM, note.text);
}

void tiers_draw_flows(struct canvas canvas, const struct scene *scene, int rank, const struct tiers_flow flows[FLOWS],
                      bool focused)
{
    const struct all_flows all = all_of(flows);
    draw_flows_title(canvas, scene, rank, &all, focused);
    if (!all.used) {
        draw_nothing_flows(canvas, scene->model);
        return;
    }
    draw_head(canvas, scene->state->units);
    for (enum flow flow = 0; flow < FLOWS; flow++) draw_row(canvas, 2 + (int)flow, scene, rank, flow, &flows[flow]);
}

/* " 98 % best"; where that has no room " 98 %" of a paced link, which goes without saying; else nothing. */
static struct text brief_share(const struct flow_figures *figures, int room)
{
    const struct text whole = text_of(" %s", write_share(figures).text),
                      brief = text_of(" %.0f %%", 100 * figures->share);
    if (figures->limited_by != FLOW_LIMIT_UNKNOWN && utf8_columns(whole.text) <= room) return whole;
    return figures->limited_by == FLOW_LIMIT_PACED && utf8_columns(brief.text) <= room ? brief : (struct text){""};
}

void tiers_draw_brief(struct canvas canvas, int x, int y, int columns, const struct scene *scene, enum flow flow)
{
    static const char *const ways[FLOWS] = {"device►host", "host►device", "NVMe►host", "host►NVMe"};
    const struct flow_figures figures = flow_figures_of(scene->model, -1, flow, false);
    const enum style style = figures.known ? STYLE_TEXT : STYLE_DIM;
    const enum units units = scene->state->units;
    struct canvas part = canvas_part(canvas, x, y, columns, 1);
    x = draw_text(part, 0, 0, style, ways[flow]) + 1;
    if (!figures.known) {
        draw_text(part, x, 0, style, "n/a");
        return;
    }
    x = draw_text(part, x, 0, style, format_bytes_bare(units, (uint64_t)(figures.bytes + 0.5)).text) + 1;
    x = draw_text(part, x, 0, style, figures.bytes_per_s > 0 ? format_rate(units, figures.bytes_per_s).text : "n/a");
    draw_text(part, x, 0, style, brief_share(&figures, columns - x).text);
}
