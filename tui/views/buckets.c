/* Buckets of gradients: which gradients each one collects, how full it is on the chosen rank at the cursor, whether it is in
 * flight or gone, why it was flushed and how long that took; and what the knobs of buckets mean in this run. The list
 * follows the bucket in progress until the user moves the selection. */
#include <stdio.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/observe/cells.h"
#include "engine/observe/totals.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"

enum { GRADIENTS_COLUMNS = 20, BAR_COLUMNS = 12, DETAIL_ROWS = 6 };

struct buckets {
    const struct scene *scene;
    struct progress at; /* of the chosen rank */
    const struct schedule *ops;
    int rank;
    struct bucket_sums sums;
    uint32_t measured; /* last whole step of this schedule; 0: none */
};

static bool buckets_init(struct buckets *buckets, const struct scene *scene)
{
    buckets->scene = scene;
    if (scene->model->ranks <= 0) return false;
    buckets->rank = list_kept(scene->state->rank, scene->model->ranks);
    buckets->at = progress_of(scene->model, buckets->rank);
    if (!buckets->at.plan) return false;
    buckets->ops = &buckets->at.plan->ops;
    buckets->sums = bucket_sums_of(buckets->ops);
    buckets->measured = whole_step_of(scene->model, buckets->at.plan);
    return true;
}

static int op_of_row(const struct buckets *buckets, int row)
{
    int op = bucket_after(buckets->ops, -1);
    while (row-- > 0 && op >= 0) op = bucket_after(buckets->ops, op);
    return op;
}

/* The first that is not flushed; of a step that is over the last. */
static int present_row(const struct buckets *buckets)
{
    int row = 0;
    for (int op = bucket_after(buckets->ops, -1); op >= 0; op = bucket_after(buckets->ops, op), row++)
        if (filling_of(&buckets->at, op).state < BUCKET_FLUSHED) return row;
    return list_kept(row, buckets->sums.count);
}

/* 0 in the state means that the list follows. */
static int chosen_row(const struct buckets *buckets)
{
    const int row = buckets->scene->state->row[VIEW_BUCKETS];
    return row > 0 ? list_kept(row - 1, buckets->sums.count) : present_row(buckets);
}

/* ---- one bucket in a row ---- */

/* "norm, block 3:67%", "block 2:33%, 1:67%": what is whole is named, of a part the share of its unit. Cut between names. */
static struct text gradients_text(int columns, const struct buckets *buckets, int op)
{
    const struct op *flush = &buckets->ops->ops[op];
    const struct run_header *header = &buckets->scene->model->header;
    struct text out = {""};
    char before = '\0';
    for (int p = 0; p < flush->piece_count; p++) {
        const struct piece *piece = &buckets->ops->pieces[flush->first_piece + p];
        const int64_t whole = piece->unit < header->unit_count ? header->units[piece->unit].elems : 0; /* without padding */
        const struct text name = unit_text(buckets->scene->model, piece->unit);
        const char *number = strchr(name.text, ' ');
        const char *shown = number && name.text[0] == before ? number + 1 : name.text; /* a block after a block */
        struct text next = text_of("%s%s", p ? ", " : "", shown);
        if (whole > piece->elems) text_add(&next, ":%.0f%%", (double)piece->elems / (double)whole * 100);
        const bool fits = (int)(strlen(out.text) + strlen(next.text)) <= columns - (p + 1 < flush->piece_count);
        text_add(&out, "%s", fits ? next.text : "…");
        if (!fits) break;
        before = name.text[0];
    }
    return out;
}

/* The bar is as long as the largest bucket, or as the knob allows if that is near: what is filled, what is still to come. */
static int64_t bar_scale(const struct buckets *buckets)
{
    const struct bucket_sums *sums = &buckets->sums;
    const double element =
        sums->elems ? (double)sums->bytes / (double)sums->elems : 1; /* of int4 blocks, half a byte */
    const int64_t knob = (int64_t)((double)buckets->ops->knobs.reduce_bucket_elems * element);
    return knob > sums->largest_bytes && knob < 2 * sums->largest_bytes ? knob : sums->largest_bytes;
}

static void draw_filling(struct canvas canvas, int x, int y, int columns, const struct filling *filling, int64_t bytes,
                         int64_t scale)
{
    const struct category_look *look = category_look(CATEGORY_BUCKETS);
    int end = scale ? (int)((double)bytes / (double)scale * columns + 0.5) : 0;
    if (end < 1) end = 1;
    const int filled = filling->elems ? (int)((double)filling->filled_elems / (double)filling->elems * end) : 0;
    struct segment segment = {1, look->letter, 0x2588, look->style};
    draw_character(canvas, x, y, STYLE_FRAME, '[');
    draw_character(canvas, x + columns + 1, y, STYLE_FRAME, ']');
    const bool leaves = filling->state == BUCKET_IN_FLIGHT || filling->state == BUCKET_FLUSHED;
    for (int i = 0; i < end; i++) bucket_draw_cell(canvas, x + 1 + i, y, leaves ? filling->state : BUCKET_EMPTY);
    if (!leaves && filled) draw_bar(canvas, x + 1, y, filled, &segment, 1, 1);
}

/* Of both hops, if there are two. */
static struct op_times times_in(const struct buckets *buckets, uint32_t step, int op)
{
    const struct run_model *model = buckets->scene->model;
    const struct history *history = buckets->scene->history;
    struct op_times times = op_times_of(history, buckets->at.plan, step, op, model->now_ns, -1);
    const int hop = bucket_second_hop(buckets->ops, op);
    if (hop < 0) return times;
    const struct op_times second = op_times_of(history, buckets->at.plan, step, hop, model->now_ns, -1);
    times.mean_ns += second.mean_ns;
    times.peers_ns += second.peers_ns;
    if (second.ranks < times.ranks) times.ranks = second.ranks;
    if (second.longest_ns > times.longest_ns) times.longest_ns = second.longest_ns, times.slowest = second.slowest;
    return times;
}

/* How the flush went: in the open step if all ranks have ended it, else in the last whole one. */
static struct op_times times_of(const struct buckets *buckets, int op, uint32_t *step)
{
    struct op_times times = {0};
    *step = buckets->at.step;
    if (*step) times = times_in(buckets, *step, op);
    if (times.ranks == buckets->scene->model->ranks || !buckets->measured || buckets->measured == *step) return times;
    *step = buckets->measured;
    return times_in(buckets, *step, op);
}

static void draw_rank_states(struct canvas canvas, int x, int y, int columns, const struct buckets *buckets, int op)
{
    const struct run_model *model = buckets->scene->model;
    for (int rank = 0; rank < model->ranks && rank < columns; rank++) {
        const struct progress at = progress_of(model, rank);
        if (at.plan != buckets->at.plan || at.lost) {
            draw_character(canvas, x + rank, y, STYLE_DIM, '?');
            continue;
        }
        const struct bucket_look *look = &bucket_looks[filling_of(&at, op).state];
        draw_character(canvas, x + rank, y, look->style, (uint32_t)look->letter);
    }
}

static int rank_columns(const struct buckets *buckets)
{
    return buckets->scene->model->ranks > 5 ? buckets->scene->model->ranks : 5;
}

static void draw_list_head(struct canvas canvas, int y, const struct buckets *buckets)
{
    const int bytes = bytes_columns(buckets->scene->state->units);
    const struct text head = text_of("  on rank %d", buckets->rank);
    struct pen pen = draw_heads(canvas, 0, y, {4, "#"}, {-1, ""}, {-GRADIENTS_COLUMNS, "gradients, % of unit"},
                                {bytes + 1, "bytes"}, {-(BAR_COLUMNS + 3), head.text}, {-1, ""}, {-11, "state"},
                                {9, "in flight"}, {10, "peer wait"}, {-2, ""}, {-rank_columns(buckets), "ranks"},
                                {-2, ""}, {-16, "flushed because"}, {12, "came last"}, {10, "behind"}, {10, "waited"});
    if (buckets->ops->micro_steps > 1) pen_right(&pen, 12, STYLE_DIM, "micro-step");
}

/* A time; "~" before it and dim: not of the step that goes on, but of the last whole one. */
static void pen_earlier(struct pen *pen, int columns, bool present, bool known, uint64_t ns)
{
    const struct text time = text_of("%s%s", present ? "" : "~", format_time_bare(ns).text);
    pen_right(pen, columns, present ? STYLE_TEXT : STYLE_DIM, known ? time.text : "n/a");
}

static void pen_times(struct pen *pen, const struct buckets *buckets, int op, enum bucket_state state)
{
    const struct run_lane *lane = &buckets->scene->model->rank[buckets->rank].lane[LANE_COMM];
    uint32_t step;
    const struct op_times times = times_of(buckets, op, &step);
    if (state == BUCKET_IN_FLIGHT) {
        pen_right(pen, 9, STYLE_STRONG, format_time(buckets->scene->model->now_ns - lane->started_ns).text);
        pen_right(pen, 10, STYLE_STRONG, "so far");
    } else {
        pen_earlier(pen, 9, step == buckets->at.step, times.ranks > 0, times.mean_ns);
        pen_earlier(pen, 10, step == buckets->at.step, times.ranks > 0, times.peers_ns);
    }
}

static void pen_wide(struct pen *pen, const struct buckets *buckets, int op)
{
    uint32_t step;
    const struct op *flush = &buckets->ops->ops[op];
    const struct op_times times = times_of(buckets, op, &step);
    const enum style style = step == buckets->at.step ? STYLE_TEXT : STYLE_DIM;
    const int ranks = rank_columns(buckets);
    pen_left(pen, 2, STYLE_TEXT, "");
    const int x = pen->x;
    pen_left(pen, ranks, STYLE_TEXT, "");
    if (!pen->full) draw_rank_states(pen->canvas, x, pen->y, ranks, buckets, op);
    pen_left(pen, 18, STYLE_TEXT, flush->flush == FLUSH_FULL ? "  next did not fit" : "  end of backward");
    if (times.ranks > 1) pen_format(pen, 12, style, "rank %d", times.last_rank);
    else pen_right(pen, 12, style, "n/a");
    pen_right(pen, 10, style, times.ranks > 1 ? format_time(times.last_ns - times.first_ns).text : "n/a");
    pen_right(pen, 10, style, times.ranks ? format_time(times.waited_ns).text : "n/a");
    if (buckets->ops->micro_steps > 1) pen_format(pen, 12, STYLE_TEXT, "%d", flush->micro_step + 1);
}

/* The same bucket on the other ranks, a row each. */
static void draw_other_ranks(struct canvas canvas, int x, int y, int op, const struct buckets *buckets)
{
    const struct run_model *model = buckets->scene->model;
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct progress at = progress_of(model, rank);
        if (rank == buckets->rank) continue;
        draw_right(canvas, x - 1, y, STYLE_DIM, text_of("rank %d", rank).text);
        if (at.plan == buckets->at.plan && !at.lost) {
            const struct filling filling = filling_of(&at, op);
            draw_filling(canvas, x, y, BAR_COLUMNS, &filling, buckets->ops->ops[op].bytes, bar_scale(buckets));
            draw_text(canvas, x + BAR_COLUMNS + 3, y, STYLE_DIM, bucket_looks[filling.state].name);
        }
        y++;
    }
}

static void draw_bucket(struct canvas canvas, int y, bool all, int op, bool chosen, const struct buckets *buckets)
{
    const struct op *flush = &buckets->ops->ops[op];
    const struct filling filling = filling_of(&buckets->at, op);
    const enum units units = buckets->scene->state->units;
    const enum style style = filling.state == BUCKET_IN_FLIGHT ? STYLE_STRONG : STYLE_TEXT;
    struct pen pen = pen_at(canvas, 0, y);
    pen_format(&pen, 4, chosen ? STYLE_FOCUS : style, "%d", flush->bucket);
    pen_left(&pen, 1, style, "");
    pen_left(&pen, GRADIENTS_COLUMNS, chosen ? STYLE_FOCUS : style,
             gradients_text(GRADIENTS_COLUMNS, buckets, op).text);
    pen_right(&pen, bytes_columns(units) + 1, style, format_bytes(units, true, (uint64_t)flush->bytes).text);
    const int x = pen.x + 1;
    pen_left(&pen, BAR_COLUMNS + 4, style, "");
    if (!pen.full) draw_filling(canvas, x, y, BAR_COLUMNS, &filling, flush->bytes, bar_scale(buckets));
    if (all) draw_other_ranks(canvas, x, y + 1, op, buckets);
    pen_left(&pen, 11, filling.state == BUCKET_FLUSHED ? STYLE_DIM : style, bucket_looks[filling.state].name);
    pen_times(&pen, buckets, op, filling.state);
    pen_wide(&pen, buckets, op);
}

/* A bucket takes `pitch` rows: one, or one for each rank and perhaps a blank one. */
static void draw_list(struct canvas canvas, int pitch, const struct buckets *buckets, int chosen)
{
    const int rows = (canvas.at.rows - 1) / pitch, top = list_top(chosen, buckets->sums.count, rows);
    int op = op_of_row(buckets, top);
    draw_list_head(canvas, 0, buckets);
    for (int row = top; row < top + rows && op >= 0; row++, op = bucket_after(buckets->ops, op))
        draw_bucket(canvas, 1 + (row - top) * pitch, pitch > 1, op, row == chosen, buckets);
}

/* ---- the chosen bucket ---- */

static void draw_pieces(struct canvas canvas, int y, const struct buckets *buckets, int op)
{
    const struct op *flush = &buckets->ops->ops[op];
    char text[512] = "";
    for (int p = 0; p < flush->piece_count && strlen(text) < 400; p++) {
        const struct piece *piece = &buckets->ops->pieces[flush->first_piece + p];
        text_append(text, sizeof text, "%s%s elements %s to %s", p ? ", " : "",
                    unit_text(buckets->scene->model, piece->unit).text, format_count((uint64_t)piece->first).text,
                    format_count((uint64_t)(piece->first + piece->elems - 1)).text);
    }
    draw_paragraph(canvas_part(canvas, 1, y, canvas.at.columns - 2, 2), 0, STYLE_TEXT, text);
}

static void draw_flush_times(struct canvas canvas, int y, const struct buckets *buckets, int op)
{
    uint32_t step;
    const struct op_times times = times_of(buckets, op, &step);
    if (!times.ranks) {
        draw_text(canvas, 1, y, STYLE_DIM, "not measured yet");
        return;
    }
    char rank[RANK_TEXT_ROOM];
    draw_format(canvas, 1, y, STYLE_TEXT, "step %u: in flight %s on average, %s of it peer wait", step,
                format_time_bare(times.mean_ns).text, format_time_bare(times.peers_ns).text);
    if (times.ranks < 2) return;
    draw_format(canvas, 1, y + 1, STYLE_TEXT, "longest on rank %d: %s; %s came last, %s after the first", times.slowest,
                format_time_bare(times.longest_ns).text, run_rank_text(rank, buckets->scene->model, times.last_rank),
                format_time_bare(times.last_ns - times.first_ns).text);
}

static void draw_chosen(struct canvas canvas, const struct buckets *buckets, int row)
{
    const int op = op_of_row(buckets, row);
    const struct op *flush = &buckets->ops->ops[op];
    const struct filling filling = filling_of(&buckets->at, op);
    const bool leaves = filling.state == BUCKET_IN_FLIGHT || filling.state == BUCKET_FLUSHED;
    draw_title(canvas, 0, false, "bucket %d: %s elements, op #%d, %sflushed %s", flush->bucket,
               format_count((uint64_t)filling.elems).text, op, leaves ? "" : "to be ",
               flush->flush != FLUSH_FULL ? "at the end of backward"
               : leaves                   ? "as the next did not fit"
                                          : "when the next does not fit");
    draw_pieces(canvas, 1, buckets, op);
    draw_flush_times(canvas, 3, buckets, op);
    const int ranks = buckets->scene->model->ranks;
    const int x = draw_format(canvas, 1, 5, STYLE_TEXT, ranks > 1 ? "state on ranks 0 to %d: " : "state on rank %d: ", ranks - 1);
    draw_rank_states(canvas, x, 5, canvas.at.columns - x - 1, buckets, op);
}

/* ---- all buckets together, and what the knobs that make them so mean here ---- */

enum { KNOB_ROWS = 4 };

static void draw_totals(struct canvas canvas, const struct buckets *buckets)
{
    const struct bucket_sums *sums = &buckets->sums;
    const enum units units = buckets->scene->state->units;
    draw_format(canvas, 1, 0, STYLE_STRONG, "%d bucket%s, %s, mean %s: %d during backward, %d at its end",
                sums->count, plural(sums->count), format_bytes_bare(units, (uint64_t)sums->bytes).text,
                format_bytes_bare(units, (uint64_t)(sums->bytes / sums->count)).text, sums->full, sums->by_end);
}

static void draw_size_knob(struct canvas canvas, int y, const struct buckets *buckets)
{
    const struct bucket_sums *sums = &buckets->sums;
    const int64_t knob = buckets->ops->knobs.reduce_bucket_elems,
                  knob_bytes = sums->elems ? (int64_t)((double)sums->bytes / (double)sums->elems * (double)knob) : 0;
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "reduce_bucket_size %s elements", format_count((uint64_t)knob).text);
    if (!sums->full) draw_text(canvas, x, y, STYLE_WARN, ": all fit, go at the end");
    else if (sums->largest_bytes > knob_bytes)
        draw_text(canvas, x, y, STYLE_TEXT, ": a tensor larger than that goes by itself");
    else
        draw_format(canvas, x, y, STYLE_TEXT, " (%s)",
                    format_bytes_bare(buckets->scene->state->units, (uint64_t)knob_bytes).text);
}

static void draw_memory_line(struct canvas canvas, int y, const struct buckets *buckets)
{
    const struct run_schedule *plan = buckets->at.plan;
    const struct run_memory *memory =
        &buckets->scene->model->rank[buckets->rank].tier[TIER_DEVICE].category[CATEGORY_BUCKETS];
    const struct run_predicted *planned = &plan->category[TIER_DEVICE][CATEGORY_BUCKETS];
    const enum units units = buckets->scene->state->units;
    if (plan->stage < 2) {
        draw_text(canvas, 1, y, STYLE_TEXT,
                  plan->ops.micro_steps > 1
                      ? "reduced in place, in G, after the last micro-step: no memory of their own"
                      : "reduced in place, in G: buckets have no memory of their own");
        return;
    }
    draw_format(canvas, 1, y, STYLE_TEXT, "%s now %s, planned peak %s",
                plan->ops.knobs.offload_param ? "buckets (gradients, shards to gather)" : "unreduced gradients",
                memory->known ? format_bytes_bare(units, memory->live_bytes).text : "n/a",
                planned->known ? format_bytes_bare(units, planned->peak_bytes).text : "n/a");
}

static void draw_knobs(struct canvas canvas, const struct buckets *buckets)
{
    draw_totals(canvas, buckets);
    draw_size_knob(canvas, 1, buckets);
    draw_text(canvas, 1, 2, STYLE_TEXT,
              buckets->ops->knobs.overlap_comm
                  ? "overlap_comm true: a bucket is reduced while backward fills the next one"
                  : "overlap_comm false: backward stands still while a bucket is in flight");
    draw_memory_line(canvas, 3, buckets);
}

/* ---- the view ---- */

static void draw_buckets_title(struct canvas canvas, bool focused, const struct buckets *buckets)
{
    const int first = bucket_after(buckets->ops, -1);
    char earlier[32] = "";
    if (buckets->at.open && buckets->measured) snprintf(earlier, sizeof earlier, "; ~ of step %u", buckets->measured);
    draw_title(canvas, 0, focused, "buckets: stage %d, %s%s%s%s%s", buckets->at.plan->stage,
               moment_text(buckets->scene->model, &buckets->at).text,
               first < 0                                        ? ""
               : buckets->ops->ops[first].kind == OP_ALL_REDUCE ? ", all-reduce"
               : schedule_quantizes_gradients(buckets->ops)     ? ", reduce-scatter of int4 blocks"
                                                                : ", reduce-scatter",
               earlier, buckets->at.open ? "" : "; mean times", buckets->at.lost ? " (records lost)" : "");
}

/* Fills *buckets. False: nothing to show, and it was said why. */
static bool has_buckets(struct buckets *buckets, struct canvas canvas, const struct scene *scene, bool focused)
{
    if (!buckets_init(buckets, scene)) return draw_untold(canvas, focused, "buckets"), false;
    draw_buckets_title(canvas, focused, buckets);
    if (!buckets->sums.count) draw_text(canvas, 1, 1, STYLE_DIM, "this schedule reduces no gradients");
    return buckets->sums.count > 0;
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct buckets buckets;
    if (!has_buckets(&buckets, canvas, scene, false)) return;
    const int columns = canvas.at.columns, chosen = chosen_row(&buckets);
    int rows = canvas.at.rows - 1 - DETAIL_ROWS - KNOB_ROWS - 2; /* a title, the legend */
    const int room = (rows - 1) / buckets.sums.count, ranks = scene->model->ranks;
    const int pitch = room < ranks ? 1 : room > ranks ? ranks + (ranks > 1) : ranks;
    if (rows > buckets.sums.count * pitch + 1) rows = buckets.sums.count * pitch + 1;
    draw_list(canvas_part(canvas, 0, 1, columns, rows), pitch, &buckets, chosen);
    draw_chosen(canvas_part(canvas, 0, 1 + rows, columns, DETAIL_ROWS), &buckets, chosen);
    draw_title(canvas_part(canvas, 0, 1 + rows + DETAIL_ROWS, columns, 1), 0, false, "all of them");
    draw_knobs(canvas_part(canvas, 0, 2 + rows + DETAIL_ROWS, columns, KNOB_ROWS), &buckets);
    bucket_draw_legend(canvas, 2 + rows + DETAIL_ROWS + KNOB_ROWS);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct buckets buckets;
    if (!has_buckets(&buckets, canvas, scene, focused)) return;
    draw_list(canvas_part(canvas, 0, 1, canvas.at.columns, canvas.at.rows - 1), 1, &buckets, chosen_row(&buckets));
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct buckets buckets;
    if (rank_act(state, scene, key)) return true;
    if (!buckets_init(&buckets, scene) || !buckets.sums.count) return false;
    if (key->action == ACTION_CLOSE && state->row[VIEW_BUCKETS]) {
        state->row[VIEW_BUCKETS] = 0; /* follow again */
        return true;
    }
    int row = chosen_row(&buckets);
    if (!list_act(&row, buckets.sums.count, key)) return false;
    state->row[VIEW_BUCKETS] = row + 1;
    return true;
}

const struct view view_buckets = {"buckets",         "buckets",         {ACTION_DOWN, ACTION_UP, ACTION_NEXT_RANK},
                                  .draw = draw_view, .pane = draw_pane, .act = act};
