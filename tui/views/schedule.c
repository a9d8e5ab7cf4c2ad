/* The operations of the step, in the order of the schedule, with what runs now: for each its state, its duration when it
 * was measured last, the buffers that it takes and gives back, and what it waits for. The list follows the running operation until the user
 * moves the selection; Enter shows one operation in full below. At the bottom every lane of every rank. */
#include <string.h>

#include "engine/base/words.h"
#include "engine/observe/totals.h"
#include "tui/view/op_text.h"
#include "tui/views/sides.h"

enum { LIST_ROWS_MIN = 5, DETAIL_ROWS = 18 };

struct listing {
    const struct scene *scene;
    struct progress at; /* of the chosen rank */
    const struct schedule *ops;
    struct filter filter;
    int rank, count;   /* operations that pass the filter */
    uint32_t measured; /* the step that times are of; 0: none */
};

/* ---- which operations ---- */

static bool is_shown(const struct listing *list, int number)
{
    const struct op *op = &list->ops->ops[number];
    if (!filter_shows_lane(&list->filter, op->lane)) return false;
    return filter_shows_text(&list->filter, op_text(list->scene->model, list->at.plan->number, number).text) ||
           filter_shows_text(&list->filter, phase_name(op->phase));
}

static int next_shown(const struct listing *list, int op)
{
    for (op++; op < list->ops->op_count; op++)
        if (is_shown(list, op)) return op;
    return -1;
}

static int op_of_row(const struct listing *list, int row)
{
    int op = next_shown(list, -1);
    while (row-- > 0 && op >= 0) op = next_shown(list, op);
    return op;
}

static int row_of_op(const struct listing *list, int op)
{
    int row = 0;
    for (int at = next_shown(list, -1); at >= 0 && at < op; at = next_shown(list, at)) row++;
    return list_kept(row, list->count);
}

static bool listing_init(struct listing *list, const struct scene *scene)
{
    *list = (struct listing){.scene = scene};
    if (scene->model->ranks <= 0) return false;
    list->rank = list_kept(scene->state->rank, scene->model->ranks);
    list->at = progress_of(scene->model, list->rank);
    if (!list->at.plan) return false;
    list->ops = &list->at.plan->ops;
    list->filter = filter_of(scene->state->filter);
    list->measured = whole_step_of(scene->model, list->at.plan);
    if (!list->measured) list->measured = list->at.step; /* the first: as far as it has come */
    for (int op = next_shown(list, -1); op >= 0; op = next_shown(list, op)) list->count++;
    return true;
}

/* Operations that last less than a frame would only flicker: then the list stands still and says so. */
static bool too_fast(const struct scene *scene, const struct listing *list)
{
    struct run_recent recent;
    const struct view_state *state = scene->state;
    const bool moves = state->live ? !state->behind && shown_moves(scene) : state->playing;
    const double speed = state->live ? 1 : state->speed < 0 ? -state->speed : state->speed;
    if (!moves || !run_recent(scene->model, UINT32_MAX, &recent)) return false;
    return (double)recent.total_ns / recent.steps / list->ops->op_count < 50e6 * speed;
}

/* Where the rank stands: what its compute lane runs or waits before, else the communication lane. */
static int present_op(const struct progress *at)
{
    for (int lane = 0; lane < LANES; lane++) {
        const int running = progress_running(at, (enum lane)lane), next = progress_next(at, (enum lane)lane);
        if (running >= 0 || next >= 0) return running >= 0 ? running : next;
    }
    return 0;
}

/* The chosen row: 0 in the state means that the list follows. */
static int chosen_row(const struct listing *list)
{
    const int row = list->scene->state->row[VIEW_SCHEDULE];
    if (row > 0) return list_kept(row - 1, list->count);
    return too_fast(list->scene, list) ? 0 : row_of_op(list, present_op(&list->at));
}

static bool detail_is_open(const struct listing *list)
{
    const struct selection *selected = &list->scene->state->selected;
    return selected->known && (int)selected->op < list->ops->op_count;
}

/* ---- a row ---- */

static struct text effects_text(enum units units, char sign, const struct schedule *ops, int first, int count)
{
    char letters[CATEGORIES + 1] = "";
    int64_t sum = 0;
    for (int e = 0; e < count; e++) {
        const struct buffer *buffer = &ops->buffers[ops->effects[first + e]];
        const char letter[2] = {category_letter(buffer->category), '\0'};
        if (!strchr(letters, letter[0])) strcat(letters, letter);
        sum += buffer->bytes;
    }
    if (!count) return (struct text){""};
    return text_of("%c%s %s", sign, letters, format_bytes_bare(units, (uint64_t)sum).text);
}

static struct text depends_text(const struct op *op)
{
    static const char *const why[] = {"data", "memory", "limit"};
    struct text out = {""};
    for (int d = 0; d < op->dependency_count && strlen(out.text) < 40; d++)
        text_add(&out, "%s#%d %s", d ? ", " : "", op->dependency[d].op, why[op->dependency[d].why]);
    return out;
}

static void draw_list_head(struct canvas canvas, int y, enum units units)
{
    const int bytes = bytes_columns(units);
    draw_heads(canvas, 0, y, {5, "#"}, {-1, ""}, {-8, "lane"}, {-9, "operation"}, {-11, " on"}, {-10, "state"},
               {9, "time"}, {bytes + 6, "takes bytes"}, {bytes + 6, "gives back"}, {15, "longest, rank"},
               {-22, "  waits for"}, {bytes + 2, "payload"}, {-12, "  phase"}, {10, "waited"}, {10, "peer wait"},
               {-18, "  note"});
}

/* "~" before a time: not of the step that goes on, but of the last whole one. */
static const char *earlier_sign(const struct listing *list)
{
    return list->measured == list->at.step ? "" : "~";
}

static const char *note_of(const struct op *op)
{
    if (op->prefetch) return "prefetch";
    return op->flush == FLUSH_FULL  ? "next did not fit"
           : op->flush == FLUSH_END ? "end of backward"
           : op->droppable          ? "tail"
                                    : "";
}

static void draw_wide(struct pen *pen, const struct listing *list, const struct op *op, const struct op_times *times)
{
    const enum units units = list->scene->state->units;
    if (times->ranks > 1)
        pen_format(pen, 15, STYLE_TEXT, "%s%s r%d", earlier_sign(list), format_time_bare(times->longest_ns).text,
                   times->slowest);
    else pen_right(pen, 15, STYLE_TEXT, times->ranks ? "" : "n/a");
    pen_left(pen, 22, STYLE_TEXT, text_of("  %s", depends_text(op).text).text);
    pen_right(pen, bytes_columns(units) + 2, STYLE_TEXT,
              op->bytes ? format_bytes(units, true, (uint64_t)op->bytes).text : "");
    pen_left(pen, 12, STYLE_TEXT, text_of("  %s", phase_name(op->phase)).text);
    pen_right(pen, 10, STYLE_TEXT, times->ranks ? format_time(times->waited_ns).text : "n/a");
    pen_right(pen, 10, STYLE_TEXT,
              op->lane != LANE_COMM ? ""
              : times->ranks        ? format_time(times->peers_ns).text
                                    : "n/a");
    pen_left(pen, 18, STYLE_TEXT, text_of("  %s", note_of(op)).text);
}

static void draw_op(struct canvas canvas, int y, int number, bool chosen, bool still, const struct listing *list)
{
    const struct op *op = &list->ops->ops[number];
    const enum progress_state state = progress_state(&list->at, number);
    const enum style style = still                       ? STYLE_TEXT
                             : state == PROGRESS_RUNNING ? STYLE_STRONG
                             : state == PROGRESS_WAITING ? STYLE_WARN
                             : state == PROGRESS_TO_COME ? STYLE_TEXT
                                                         : STYLE_DIM;
    const enum units units = list->scene->state->units;
    const struct op_times times =
        op_times_of(list->scene->history, list->at.plan, list->measured, number, list->scene->model->now_ns, -1);
    if (!still && state == PROGRESS_RUNNING) draw_character(canvas, 0, y, STYLE_STRONG, 0x25b6);
    struct pen pen = pen_at(canvas, 0, y);
    pen_format(&pen, 5, chosen ? STYLE_FOCUS : style, "%d", number);
    pen_left(&pen, 1, style, "");
    pen_left(&pen, 8, style, lane_name(op->lane));
    pen_left(&pen, 9, chosen ? STYLE_FOCUS : style, op_name(op->kind, op->use));
    pen_left(&pen, 1, style, "");
    pen_left(&pen, 10, style, op_object(list->scene->model, list->ops, number).text);
    pen_left(&pen, 10, style, still ? "" : state_text(&list->at, number).text);
    if (times.ranks) pen_format(&pen, 9, STYLE_TEXT, "%s%s", earlier_sign(list), format_time_bare(times.mean_ns).text);
    else pen_right(&pen, 9, STYLE_TEXT, "n/a");
    pen_right(&pen, bytes_columns(units) + 6, style,
              effects_text(units, '+', list->ops, op->first_take, op->take_count).text);
    pen_right(&pen, bytes_columns(units) + 6, style,
              effects_text(units, '-', list->ops, op->first_give, op->give_count).text);
    draw_wide(&pen, list, op, &times);
}

static void draw_list(struct canvas canvas, const struct listing *list, int chosen)
{
    const bool still = too_fast(list->scene, list);
    const int rows = canvas.at.rows - 1, top = list_top(chosen, list->count, rows);
    int op = op_of_row(list, top);
    draw_list_head(canvas, 0, list->scene->state->units);
    for (int row = top; row < top + rows && op >= 0; row++, op = next_shown(list, op))
        draw_op(canvas, 1 + row - top, op, row == chosen, still, list);
    if (!list->count) draw_text(canvas, 1, 1, STYLE_DIM, "no operation passes the filter");
}

/* ---- lanes of all ranks ---- */

struct standing {
    int op;
    bool running;
};

static struct standing standing_of(const struct progress *at, enum lane lane)
{
    const int running = progress_running(at, lane);
    return running >= 0 ? (struct standing){running, true} : (struct standing){progress_next(at, lane), false};
}

static bool stands_so(const struct listing *list, int rank, enum lane lane, const struct standing *as)
{
    const struct progress at = progress_of(list->scene->model, rank);
    const struct standing found = standing_of(&at, lane);
    return at.plan == list->at.plan && found.op == as->op && found.running == as->running;
}

/* "0-2 5": the ranks from `rank` on whose lane stands so; where that is long, how many they are. */
static struct text ranks_text(const struct listing *list, int rank, enum lane lane, const struct standing *as)
{
    const int ranks = list->scene->model->ranks;
    struct text out = {""};
    int count = 0;
    for (; rank < ranks; rank++) {
        int last = rank;
        if (!stands_so(list, rank, lane, as)) continue;
        while (last + 1 < ranks && stands_so(list, last + 1, lane, as)) last++;
        count += last - rank + 1;
        if (strlen(out.text) < 20) text_add(&out, last > rank ? " %d-%d" : " %d", rank, last);
        rank = last;
    }
    return strlen(out.text) < 20 ? out : text_of(" %d ranks", count);
}

/* "#20 block' 3: 0-2 5"; "": an earlier rank stands so too, and was told. */
static struct text group_text(const struct listing *list, int rank, enum lane lane, const struct standing *as)
{
    for (int earlier = 0; earlier < rank; earlier++)
        if (stands_so(list, earlier, lane, as)) return (struct text){""};
    const struct text ranks = ranks_text(list, rank, lane, as);
    if (as->op < 0) return text_of("idle:%s", ranks.text);
    return text_of("%s#%d %s:%s", as->running ? "" : "before ", as->op,
                   op_text(list->scene->model, list->at.plan->number, as->op).text, ranks.text);
}

static void draw_lane(struct canvas canvas, int y, enum lane lane, const struct listing *list)
{
    const struct run_model *model = list->scene->model;
    int x = draw_format(canvas, 1, y, STYLE_DIM, "%-9s", lane_name(lane));
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct progress at = progress_of(model, rank);
        const struct standing as = standing_of(&at, lane);
        const struct text group = at.plan == list->at.plan ? group_text(list, rank, lane, &as) : (struct text){""};
        if (!*group.text) continue;
        if (x + utf8_columns(group.text) + 2 > canvas.at.columns) {
            draw_character(canvas, x, y, STYLE_DIM, 0x2026);
            return;
        }
        x = draw_text(canvas, x, y, as.op < 0 ? STYLE_DIM : as.running ? STYLE_STRONG : STYLE_WARN, group.text) + 2;
    }
}

static void draw_lanes(struct canvas canvas, const struct listing *list)
{
    draw_title(canvas, 0, false, "lanes by rank");
    if (too_fast(list->scene, list)) {
        draw_text(canvas, 1, 1, STYLE_DIM,
                  "operations are too short to be followed by eye: slow motion (<), or pause (Space)");
        return;
    }
    for (int lane = 0, y = 1; lane < LANES; lane++)
        if (run_lanes(list->scene->model) >> lane & 1) draw_lane(canvas, y++, (enum lane)lane, list);
}

/* ---- the view ---- */

static void draw_schedule_title(struct canvas canvas, bool focused, const struct listing *list)
{
    struct text title;
    int done = 0;
    for (int op = 0; op < list->ops->op_count; op++) done += progress_state(&list->at, op) == PROGRESS_ENDED;
    if (list->at.open && !too_fast(list->scene, list))
        title = text_of("schedule: stage %d, step %u, rank %d: %d of %d done", list->at.plan->stage, list->at.step,
                        list->rank, done, list->ops->op_count);
    else
        title = text_of("schedule: stage %d, %s: %d operations", list->at.plan->stage,
                        moment_text(list->scene->model, &list->at).text, list->ops->op_count);
    if (list->scene->state->filter[0]) text_add(&title, ", only \"%s\"", list->scene->state->filter);
    else if (list->measured) text_add(&title, "; %stimes: step %u", earlier_sign(list), list->measured);
    draw_title(canvas, 0, focused, "%s", title.text);
}

/* Fills *list and draws the title. False: nothing to show, and it was said why. */
static bool has_list(struct listing *list, struct canvas canvas, const struct scene *scene, bool focused)
{
    if (!listing_init(list, scene)) return draw_untold(canvas, focused, "schedule"), false;
    draw_schedule_title(canvas, focused, list);
    return true;
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct listing list;
    if (!has_list(&list, canvas, scene, false)) return;
    const int columns = canvas.at.columns, lane_rows = run_lane_count(scene->model) + 1,
              below = canvas.at.rows - lane_rows;
    const bool open = detail_is_open(&list);
    int rows = below - 1;
    if (open) rows = rows - DETAIL_ROWS > LIST_ROWS_MIN ? rows - DETAIL_ROWS : LIST_ROWS_MIN;
    draw_list(canvas_part(canvas, 0, 1, columns, rows), &list,
              open ? row_of_op(&list, (int)scene->state->selected.op) : chosen_row(&list));
    if (open)
        schedule_detail_draw(canvas_part(canvas, 0, 1 + rows, columns, below - 1 - rows), scene, &list.at,
                             (int)scene->state->selected.op);
    draw_lanes(canvas_part(canvas, 0, below, columns, lane_rows), &list);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct listing list;
    if (!has_list(&list, canvas, scene, focused)) return;
    draw_list(canvas_part(canvas, 0, 1, canvas.at.columns, canvas.at.rows - 1), &list, chosen_row(&list));
}

static void open_detail(struct view_state *state, const struct listing *list, int op)
{
    if (op < 0) return;
    state->selected = (struct selection){true, list->rank, list->ops->ops[op].lane, list->at.step, (uint32_t)op};
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct listing list;
    if (rank_act(state, scene, key)) return true;
    if (!listing_init(&list, scene)) return false;
    const bool open = detail_is_open(&list);
    if (key->action == ACTION_CLOSE && (open || state->row[VIEW_SCHEDULE])) {
        if (!open) state->row[VIEW_SCHEDULE] = 0; /* follow again */
        state->selected.known = false;
        return true;
    }
    int row = open ? row_of_op(&list, (int)state->selected.op) : chosen_row(&list);
    if (key->action == ACTION_ENTER) {
        open_detail(state, &list, op_of_row(&list, row));
        return true;
    }
    if (!list_act(&row, list.count, key)) return false;
    state->row[VIEW_SCHEDULE] = row + 1;
    if (open) open_detail(state, &list, op_of_row(&list, row));
    return true;
}

const struct view view_schedule = {
    "schedule",        "schedule",        {ACTION_DOWN, ACTION_UP, ACTION_ENTER, ACTION_NEXT_RANK, ACTION_FILTER},
    .draw = draw_view, .pane = draw_pane, .act = act};
