/* Draws the details below the lanes: facts about the chosen operation, or the totals of an open span, else of the
 * step that is shown. Lines break only between facts, so that no size cuts a figure in two. */
#include <string.h>

#include "engine/base/words.h"
#include "engine/observe/progress.h"
#include "tui/timeline/timeline.h"
#include "tui/view/op_text.h"

/* ---- the longest waits of a step, where a search for lost time begins. A transfer that waits for compute to produce its data is normal, so
 * such waits are left out. ---- */

enum { WAITS_MAX = 24 };

struct wait {
    int rank;
    enum lane lane;
    const struct span *span;
    uint64_t ns;
};

struct waits {
    int count, room;
    struct wait longest[WAITS_MAX];
}; /* longest first */

static void add_wait(struct waits *waits, struct wait wait)
{
    int at = waits->count;
    while (at > 0 && waits->longest[at - 1].ns < wait.ns) at--;
    if (at >= waits->room) return;
    if (waits->count < waits->room) waits->count++;
    memmove(&waits->longest[at + 1], &waits->longest[at], (size_t)(waits->count - 1 - at) * sizeof wait);
    waits->longest[at] = wait;
}

static void collect(struct waits *waits, const struct scene *scene, const struct history_step *step)
{
    uint64_t end_ns = step->ended_ns ? step->ended_ns : shown_now(scene);
    for (int rank = 0; rank < history_ranks(scene->history, step->begun_ns, end_ns); rank++)
        for (enum lane lane = 0; lane < LANES; lane++) {
            int64_t first, end;
            history_spans(scene->history, rank, lane, step->begun_ns, end_ns, &first, &end);
            for (; first < end; first++) {
                const struct span *span = history_span(scene->history, rank, lane, first);
                if (span && span->ended_ns && span->stall != STALL_NONE && span->stall != STALL_COMPUTE &&
                    span->stall != STALL_GRADIENT)
                    add_wait(waits, (struct wait){rank, lane, span, span->ready_ns - span->issued_ns});
            }
        }
}

static void draw_wait(struct canvas canvas, int y, const struct scene *scene, const struct wait *wait)
{
    struct pen pen = pen_at(canvas, 1, y);
    struct mark_look look = mark_look(MARK_WAIT + (enum mark)wait->span->stall);
    pen_right(&pen, 9, STYLE_STRONG, format_time(wait->ns).text);
    pen_format(&pen, 6, STYLE_TEXT, "%d", wait->rank);
    pen_left(&pen, 11, STYLE_TEXT, text_of("  %s", lane_name(wait->lane)).text);
    pen_left(&pen, 18, STYLE_TEXT, span_text(scene->model, wait->span).text);
    pen_left(&pen, 18, STYLE_TEXT, op_text_in_full(scene->model, wait->span->schedule, wait->span->waited_on).text);
    pen_format(&pen, 1, look.style, "%c", stall_table[wait->span->stall].letter);
    draw_text(canvas, pen.x + 1, y, STYLE_TEXT, stall_table[wait->span->stall].help);
}

static void draw_waits(struct canvas canvas, const struct scene *scene, const struct history_step *step)
{
    struct waits waits = {.room = canvas.at.rows - 1 < WAITS_MAX ? canvas.at.rows - 1 : WAITS_MAX};
    if (waits.room < 2) return;
    collect(&waits, scene, step);
    if (!waits.count) return;
    draw_heads(canvas, 1, 0, {9, "longest"}, {6, "rank"}, {-2, ""}, {-9, "lane"}, {-18, "operation"},
               {-18, "waited for"}, {-4, "why"});
    for (int i = 0; i < waits.count; i++) draw_wait(canvas, 1 + i, scene, &waits.longest[i]);
}

struct facts {
    struct canvas canvas;
    int x, y;
};

/* What does not fit in the rows that there are is left out. */
__attribute__((format(printf, 3, 4))) static void fact(struct facts *facts, enum style style, const char *format, ...)
{
    char text[256];
    FORMAT_ARGUMENTS(text, sizeof text, format);
    int columns = utf8_columns(text);
    if (facts->x > 1 && facts->x + 3 + columns > facts->canvas.at.columns) facts->x = 1, facts->y++;
    if (facts->x > 1) facts->x = draw_text(facts->canvas, facts->x, facts->y, STYLE_DIM, " · ");
    facts->x = draw_text(facts->canvas, facts->x, facts->y, style, text);
}

static void new_line(struct facts *facts)
{
    if (facts->x > 1) facts->x = 1, facts->y++;
}

/* ---- an operation ------------------------------------------------------------------------------------------------------ */

/* How early a gather came: from its end to the moment at which compute asked for it. */
static void tell_how_early(struct facts *facts, const struct scene *scene, int rank, const struct schedule *schedule,
                           const struct span *span)
{
    int user = gather_user(schedule, span->op);
    const struct span *use = span_of_op(scene->history, rank, LANE_COMPUTE, span->step, user);
    const struct text label = op_text_in_full(scene->model, span->schedule, user);
    if (user < 0 || !span->ended_ns || !*label.text) return;
    const char *how = span->prefetch ? "prefetched: " : "";
    if (!use) fact(facts, STYLE_STRONG, "%s%s has not asked for it yet", how, label.text);
    else if (use->issued_ns >= span->ended_ns)
        fact(facts, STYLE_GOOD, "%sready %s before %s needed it", how,
             format_time_bare(use->issued_ns - span->ended_ns).text, label.text);
    else
        fact(facts, STYLE_WARN, "%s%s stood %s waiting for it", how, label.text,
             format_time_bare(span->ended_ns - (use->issued_ns > span->issued_ns ? use->issued_ns : span->issued_ns))
                 .text);
}

/* Who came last to a collective of the rank; the rank itself: nobody else is known. */
static int last_to_come(const struct scene *scene, int rank, const struct span *span)
{
    const struct run_schedule *plan = run_schedule_numbered(scene->model, span->schedule);
    if (!run_op(plan, span->op)) return rank;
    const struct op_times times =
        op_times_of(scene->history, plan, span->step, (int)span->op, shown_now(scene), rank);
    return times.ranks > 1 ? times.last_rank : rank;
}

static void tell_waits(struct facts *facts, const struct scene *scene, int rank, const struct span *span)
{
    struct stall_reason before = timeline_wait(scene, rank, span);
    if (before.why == STALL_NONE) fact(facts, STYLE_TEXT, "began at once");
    else
        fact(facts, STYLE_STRONG, "waited %s for %s (%c %s)", format_time_bare(before.ns).text,
             op_text_in_full(scene->model, span->schedule, before.op).text, stall_table[before.why].letter, stall_text(before.why));
    const int last = span->peers_ns ? last_to_come(scene, rank, span) : rank;
    char name[RANK_TEXT_ROOM];
    if (last != rank)
        fact(facts, STYLE_STRONG, "then waited %s for %s, the slowest", format_time_bare(span->peers_ns).text,
             run_rank_text(name, scene->model, last));
    else if (span->peers_ns)
        fact(facts, STYLE_TEXT, "then waited %s for the slowest rank", format_time_bare(span->peers_ns).text);
    if (span->paced_ns) fact(facts, STYLE_TEXT, "paced by %s", format_time_bare(span->paced_ns).text);
}

/* Within its step. */
static void tell_times(struct facts *facts, const struct scene *scene, const struct span *span)
{
    const struct history_step *step = history_step_numbered(scene->history, span->step);
    uint64_t zero_ns = step && step->begun_ns <= span->issued_ns ? step->begun_ns : history_first_ns(scene->history);
    fact(facts, STYLE_TEXT, "issued %s", format_time_bare(span->issued_ns - zero_ns).text);
    if (span->ended_ns) fact(facts, STYLE_TEXT, "ready %s", format_time_bare(span->ready_ns - zero_ns).text);
    fact(facts, STYLE_TEXT, "started %s", format_time_bare(span->started_ns - zero_ns).text);
    if (span->ended_ns) fact(facts, STYLE_TEXT, "ended %s", format_time_bare(span->ended_ns - zero_ns).text);
}

static struct text who_text(const struct run_header *header, const struct schedule *schedule, const struct op *op,
                            int rank)
{
    if (op->group != GROUP_WORLD) return takers_text(schedule, op, rank);
    int nodes = header->ranks_per_node > 0 ? (header->world + header->ranks_per_node - 1) / header->ranks_per_node : 1;
    return text_of(nodes > 1 ? "all %d ranks, %d nodes" : "all %d ranks", header->world, nodes);
}

/* A copy between tiers: how much, how fast; of NVMe also how the requests went. */
static void tell_copy(struct facts *facts, const struct scene *scene, int rank, enum lane lane, const struct span *span)
{
    enum units units = scene->state->units;
    const uint64_t took_ns = span->ended_ns - span->started_ns;
    struct trace_of_io io;
    if (!span->ended_ns) return;
    fact(facts, STYLE_STRONG, "moved %s", format_bytes_bare(units, span->sent_bytes).text);
    if (took_ns)
        fact(facts, STYLE_STRONG, "%s%s", format_rate(units, (double)span->sent_bytes * 1e9 / (double)took_ns).text,
             span->paced_ns ? " as paced" : ""); /* not so the table of flows, which takes slow motion out */
    if (!op_swaps(span->kind)) return;
    if (!history_io(scene->history, rank, lane, span, &io) || !io.busy_ns || !io.requests) {
        fact(facts, STYLE_DIM, "requests: not recorded");
        return;
    }
    fact(facts, STYLE_TEXT, "%u request%s", io.requests, plural(io.requests));
    fact(facts, STYLE_TEXT, "depth %.1f, at most %u", (double)io.latency_ns / (double)io.busy_ns, io.deepest);
    fact(facts, STYLE_TEXT, "latency %s, slowest %s", format_time_bare(io.latency_ns / io.requests).text,
         format_time_bare(io.longest_ns).text);
    if (!io.direct) fact(facts, STYLE_WARN, "through the page cache");
}

static void tell_bytes(struct facts *facts, const struct scene *scene, const struct schedule *schedule,
                       const struct span *span)
{
    const struct op *op = &schedule->ops[span->op];
    enum units units = scene->state->units;
    if (lane_kind(op->lane) != LANE_COMM) return;
    fact(facts, STYLE_TEXT, "%s", who_text(&scene->model->header, schedule, op, scene->state->selected.rank).text);
    if (op->bytes) fact(facts, STYLE_TEXT, "payload %s", format_bytes_bare(units, (uint64_t)op->bytes).text);
    if (span->ended_ns)
        fact(facts, STYLE_TEXT, scene->model->header.sent_by_formula ? "sent %s (ring formula)" : "sent %s",
             format_bytes_bare(units, span->sent_bytes).text);
    if (op->flush != FLUSH_NONE)
        fact(facts, STYLE_TEXT, op->flush == FLUSH_FULL ? "the next tensor did not fit the bucket" : "end of backward");
}

static void draw_operation(struct canvas canvas, const struct scene *scene, const struct span *span)
{
    const struct run_schedule *schedule = run_schedule_numbered(scene->model, span->schedule);
    const struct selection *selected = &scene->state->selected;
    struct facts facts = {canvas, 1, 1};
    draw_title(canvas, 0, true, "%s · rank %d %s · step %u, %s · %s %s", span_text(scene->model, span).text,
               selected->rank, run_lane_name(scene->model, selected->lane), span->step, phase_name(span->phase),
               span->ended_ns ? "took" : "so far", format_time_bare(span_end(scene, span) - span->started_ns).text);
    if (schedule && schedule->has_ops && span->kind == OP_GATHER)
        tell_how_early(&facts, scene, selected->rank, &schedule->ops, span);
    tell_waits(&facts, scene, selected->rank, span);
    new_line(&facts);
    tell_times(&facts, scene, span);
    new_line(&facts);
    if (traffic_is_copy(traffic_of_op(span->kind))) tell_copy(&facts, scene, selected->rank, selected->lane, span);
    else if (schedule && schedule->has_ops) tell_bytes(&facts, scene, &schedule->ops, span);
}

/* ---- now ----------------------------------------------------------------------------------------------------------------- */

/* What a lane of the chosen rank is at, in a step that is going on. */
static void tell_lane(struct facts *facts, const struct scene *scene, const struct progress *at, enum lane lane)
{
    uint64_t since_ns = 0;
    struct stall_reason pending = timeline_pending(scene, scene->state->rank, lane, &since_ns);
    int running = progress_running(at, lane), next = progress_next(at, lane);
    const struct text label = op_text_in_full(scene->model, at->plan->number, running >= 0 ? running : next),
                      awaited = running < 0 ? op_text_in_full(scene->model, at->plan->number, pending.op) : NO_TEXT;
    if (!*label.text) return;
    if (running >= 0) fact(facts, STYLE_STRONG, "%s: %s", lane_name(lane), label.text);
    else if (pending.why != STALL_NONE && *awaited.text)
        fact(facts, STYLE_STRONG, "%s: %s waits for %s", lane_name(lane), label.text, awaited.text);
    else fact(facts, STYLE_STRONG, "%s: next is %s", lane_name(lane), label.text);
}

static void tell_now(struct facts *facts, const struct scene *scene)
{
    struct progress at = progress_of(scene->model, scene->state->rank);
    if (!at.plan || !at.open) return;
    for (enum lane lane = 0; lane < LANES; lane++) tell_lane(facts, scene, &at, lane);
    new_line(facts);
}

/* ---- totals of a span or a step ---------------------------------------------------------------------------------------- */

static void tell_time_split(struct facts *facts, const struct totals *totals)
{
    const struct temporal *t = &totals->temporal;
    const bool narrow = facts->canvas.at.columns < 120;
    fact(facts, STYLE_TEXT, narrow ? "comp %.0f %%" : "compute %.0f %%", percent(t->compute_ns, t->window_ns));
    fact(facts, STYLE_TEXT, narrow ? "others only %.0f %%" : "compute idle, other lanes busy %.0f %%",
         percent(t->non_compute_ns, t->window_ns));
    fact(facts, STYLE_TEXT, "idle %.0f %%", percent(t->idle_ns, t->window_ns));
    if (!t->communication_ns) return;
    fact(facts, STYLE_STRONG, narrow ? "comm hidden %.0f %%" : "communication hidden %.1f %%",
         percent(t->overlapped_ns, t->communication_ns));
    fact(facts, STYLE_STRONG, "exposed %s", format_time_bare(t->communication_ns - t->overlapped_ns).text);
}

/* "; rank 2 came last in 18 of 18 collectives", or less of it in few columns: the rank that came last to more than two
 * thirds of a step's collectives; "": there is none. */
static struct text straggler_text(int columns, const struct scene *scene, const struct history_step *of)
{
    const struct run_step *step = of ? run_step_numbered(scene->model, of->step) : NULL;
    const struct run_schedule *plan = step ? run_schedule_numbered(scene->model, step->schedule) : NULL;
    int lasts[RUN_RANKS_MAX] = {0}, collectives = 0, straggler = 0;
    char name[RANK_TEXT_ROOM];
    for (int op = 0; plan && plan->has_ops && op < plan->ops.op_count; op++) {
        if (plan->ops.ops[op].lane != LANE_COMM) continue;
        const struct op_times times =
            op_times_of(scene->history, plan, of->step, op, of->ended_ns ? of->ended_ns : shown_now(scene), -1);
        if (times.ranks < 2 || times.last_ns == times.first_ns) continue;
        collectives++;
        if (++lasts[times.last_rank] > lasts[straggler]) straggler = times.last_rank;
    }
    if (collectives < 3 || 3 * lasts[straggler] <= 2 * collectives) return (struct text){""};
    return text_of(columns < 120 ? "; %s came last" : "; %s came last in %d of %d collectives",
                   run_rank_text(name, scene->model, straggler), lasts[straggler], collectives);
}

static void tell_stalls(struct facts *facts, const struct totals *totals, const char *straggler)
{
    const char *lead = "compute waits: ";
    for (enum stall why = STALL_NONE + 1; why < STALLS; why++) {
        if (!totals->stall_ns[why] || why == STALL_PEERS) continue;
        fact(facts, STYLE_TEXT, "%s%c %s %s", lead, stall_table[why].letter, mark_look(MARK_WAIT + (enum mark)why).name,
             format_time_bare(totals->stall_ns[why]).text);
        lead = "";
    }
    if (totals->stall_ns[STALL_PEERS])
        fact(facts, STYLE_TEXT, "within operations: %s %s %s%s", facts->canvas.surface->ascii ? ":" : "┊", /* as in the legend */
             mark_look(MARK_WAIT + (enum mark)STALL_PEERS).name, format_time_bare(totals->stall_ns[STALL_PEERS]).text, straggler);
}

/* Copies between tiers first: there are lanes for them where they are. */
static void tell_traffic(struct facts *facts, const struct totals *totals, enum units units, bool sent_by_formula)
{
    for (enum traffic kind = TRAFFIC_D2H; kind < TRAFFIC_CONTROL; kind++) {
        const struct collective_totals *of = &totals->traffic[kind];
        if (of->count)
            fact(facts, STYLE_TEXT, "%lld %s, %s, exposed %s", (long long)of->count, traffic_name(kind),
                 format_bytes_bare(units, of->sent_bytes).text, format_time_bare(of->exposed_ns).text);
    }
    new_line(facts);
    for (enum traffic kind = 0; kind < TRAFFIC_D2H; kind++) {
        const struct collective_totals *of = &totals->traffic[kind];
        if (of->count)
            fact(facts, STYLE_TEXT, sent_by_formula ? "%lld %s, payload %s" : "%lld %s, sent %s", (long long)of->count,
                 traffic_name(kind), format_bytes_bare(units, sent_by_formula ? of->bytes : of->sent_bytes).text);
    }
}

/* A line for each lane between tiers, and the host's. */
static void tell_lane_waits(struct facts *facts, const struct totals *totals)
{
    for (enum lane lane = LANE_D2H; lane < LANES; lane++) {
        bool any = false;
        for (enum stall why = STALL_NONE + 1; why < STALLS; why++) {
            const uint64_t ns = totals->lane_stall_ns[lane][why];
            if (!ns) continue;
            if (any) fact(facts, STYLE_TEXT, "%c %s", stall_table[why].letter, format_time_bare(ns).text);
            else
                fact(facts, STYLE_TEXT, "%s waited: %c %s", lane_name(lane), stall_table[why].letter,
                     format_time_bare(ns).text);
            any = true;
        }
        if (any) new_line(facts);
    }
}

static void tell_how_early_gathers(struct facts *facts, const struct prefetch_totals *prefetch)
{
    if (!prefetch->early_count) return;
    fact(facts, STYLE_TEXT, "%lld of %lld gathers ready before they were needed, by %s on average",
         (long long)prefetch->early_count, (long long)prefetch->gathers,
         format_time_bare(prefetch->early_ns / (uint64_t)prefetch->early_count).text);
}

/* step: the one that they are of; NULL: of a span. */
static void tell_totals(struct facts *facts, const struct scene *scene, const struct totals *totals,
                        const struct history_step *step)
{
    const struct run_schedule *plan = run_training(scene->model);
    if (!totals->known) {
        fact(facts, STYLE_DIM, "no totals: %s",
             plan && plan->has_ops ? "records of this time were lost or are not kept in full"
                                   : "no schedule is known, so what each operation does is unknown");
        return;
    }
    tell_time_split(facts, totals);
    new_line(facts);
    tell_stalls(facts, totals, straggler_text(facts->canvas.at.columns, scene, step).text);
    new_line(facts);
    tell_traffic(facts, totals, scene->state->units, scene->model->header.sent_by_formula);
    new_line(facts);
    tell_how_early_gathers(facts, &totals->prefetch);
    new_line(facts);
    tell_lane_waits(facts, totals);
}

static void draw_span(struct canvas canvas, const struct scene *scene)
{
    struct facts facts = {canvas, 1, 1};
    struct totals totals;
    uint64_t from_ns = scene->state->span.from_ns, to_ns = scene->state->span.to_ns;
    totals_of(&totals, scene->history, scene->model, scene->state->rank, from_ns, to_ns, 0);
    struct temporal *t =
        &totals.temporal; /* of the span that the title names, not only from its first operation to its last */
    t->window_ns = to_ns - from_ns;
    t->idle_ns = t->window_ns - t->compute_ns - t->non_compute_ns;
    draw_title(canvas, 0, true, "span of %s, rank %d", format_time_bare(to_ns - from_ns).text, scene->state->rank);
    tell_totals(&facts, scene, &totals, NULL);
}

/* ---- the verdict ------------------------------------------------------------------------------------------------------- */

static bool totals_of_last(struct totals *totals, const struct scene *scene)
{
    const struct history_step *step = timeline_step(scene);
    if (!step) return false;
    totals_of(totals, scene->history, scene->model, scene->state->rank, step->begun_ns,
              step->ended_ns ? step->ended_ns : shown_now(scene), 0);
    return totals->known;
}

/* In one line of at most `columns`: the longest way of saying it that fits. */
struct text timeline_verdict(int columns, const struct scene *scene)
{
    struct totals totals;
    if (!totals_of_last(&totals, scene)) return text_of("overlap n/a");
    const struct prefetch_totals *p = &totals.prefetch;
    const struct temporal *t = &totals.temporal;
    const struct text lost = format_time_bare(p->gathers ? p->stalled_ns : t->communication_ns - t->overlapped_ns);
    const double share = p->gathers ? 100 * prefetch_hidden_share(p) : percent(t->overlapped_ns, t->communication_ns);
    const long long stalls = (long long)p->stalls;
    if (!p->gathers && !t->communication_ns) return text_of("nothing was communicated");
    const struct text whole = p->gathers
                                  ? text_of("prefetch hid %.0f %% of gather time; %lld wait%s for gathers, %s",
                                            share, stalls, plural(stalls), lost.text)
                                  : text_of("overlap %.0f %%: of %s of communication %s exposed", share,
                                            format_time_bare(t->communication_ns).text, lost.text);
    if (utf8_columns(whole.text) <= columns) return whole;
    if (!p->gathers) return text_of("overlap %.0f %%; %s exposed", share, lost.text);
    struct text brief = text_of("prefetch hid %.0f %%; %lld wait%s for gathers", share, stalls, plural(stalls));
    if (utf8_columns(brief.text) + utf8_columns(lost.text) + 2 <= columns) text_add(&brief, ", %s", lost.text);
    return brief;
}

/* The title says what the step came to; of one that stands between two operations that would be the user's time. */
static struct text title_of(int columns, const struct scene *scene, const struct history_step *step)
{
    const int rank = scene->state->rank;
    if (timeline_stands(scene, step))
        return text_of("step %u stands between two operations, rank %d", step->step, rank);
    struct text title = {""};
    if (timeline_is_own(scene)) text_add(&title, "step %u, ", step->step);
    text_add(&title, "rank %d: ", rank);
    text_add(&title, "%s", timeline_verdict(columns - (int)strlen(title.text) - 4, scene).text);
    return title;
}

static void draw_step(struct canvas canvas, const struct scene *scene)
{
    const struct history_step *step = timeline_step(scene);
    struct facts facts = {canvas, 1, 1};
    struct totals totals;
    draw_title(canvas, 0, false, "%s", step ? title_of(canvas.at.columns, scene, step).text : "no step");
    if (step && !step->ended_ns && !scene->state->behind) tell_now(&facts, scene);
    if (!step || timeline_stands(scene, step)) return;
    totals_of_last(&totals, scene);
    tell_totals(&facts, scene, &totals, step);
    new_line(&facts);
    draw_waits(canvas_part(canvas, 0, facts.y, canvas.at.columns, canvas.at.rows), scene, step);
}

void timeline_draw_details(struct canvas canvas, const struct scene *scene)
{
    const struct span *span = timeline_selected(scene);
    if (scene->state->span.open) draw_span(canvas, scene);
    else if (span) draw_operation(canvas, scene, span);
    else draw_step(canvas, scene);
}
