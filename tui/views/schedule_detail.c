/* One operation of a schedule in full. */
#include "tui/views/sides.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/observe/totals.h"
#include "tui/view/op_text.h"

enum { LABEL_COLUMNS = 12, TEXT_ROOM = 1024 };

/* A sheet of labelled paragraphs, filled from the top. */
struct sheet {
    struct canvas canvas;
    const struct scene *scene;
    const struct progress *at;
    const struct schedule *ops;
    int y, end;
    char text[TEXT_ROOM];
};

__attribute__((format(printf, 2, 3))) static void say(struct sheet *sheet, const char *format, ...)
{
    const size_t used = strlen(sheet->text);
    FORMAT_ARGUMENTS(sheet->text + used, sizeof sheet->text - used, format);
}

/* Puts what was said on the sheet; nothing where nothing was. */
static void paragraph(struct sheet *sheet, const char *label)
{
    if (sheet->text[0] && sheet->y < sheet->end) {
        const struct canvas place = canvas_part(sheet->canvas, LABEL_COLUMNS, sheet->y,
                                                sheet->canvas.at.columns - LABEL_COLUMNS - 1, sheet->end - sheet->y);
        draw_text(sheet->canvas, 1, sheet->y, STYLE_DIM, label);
        sheet->y += draw_paragraph(place, 0, STYLE_TEXT, sheet->text);
    }
    sheet->text[0] = '\0';
}

static struct text bytes_text(const struct sheet *sheet, int64_t bytes)
{
    return format_bytes_bare(sheet->scene->state->units, (uint64_t)bytes);
}

static const char *separator(const struct sheet *sheet)
{
    return sheet->text[0] ? ", " : "";
}

static void say_buffers(struct sheet *sheet, int first, int count)
{
    for (int e = 0; e < count; e++) {
        const struct buffer *buffer = &sheet->ops->buffers[sheet->ops->effects[first + e]];
        say(sheet, "%s%c %s %s", separator(sheet), category_letter(buffer->category), buffer->name,
            bytes_text(sheet, buffer->bytes).text);
    }
}

static void say_roles(struct sheet *sheet, const struct op *op)
{
    static const char *const names[ROLES] = {
        [ROLE_PARAMETERS] = "parameters", [ROLE_TAIL] = "small tensors",     [ROLE_GRADIENT] = "gradient to",
        [ROLE_INPUT] = "input",           [ROLE_ACTIVATION] = "activations", [ROLE_RESIDUAL] = "residual gradient",
        [ROLE_SCRATCH] = "scratch",       [ROLE_TOKENS] = "tokens",          [ROLE_MASTER] = "master",
        [ROLE_STATE1] = "state",          [ROLE_STATE2] = "state",           [ROLE_ATTENTION] = "attention saved",
        [ROLE_OUTPUT] = "output",         [ROLE_SOURCE] = "gradient from",   [ROLE_NORMED] = "gradient of MLP input"};
    _Static_assert(ROLES == ROLE_NORMED + 1, "every role has a name");
    for (int role = 0; role < ROLES; role++) {
        if (op->buffer[role] < 0) continue;
        const struct buffer *buffer = &sheet->ops->buffers[op->buffer[role]];
        say(sheet, "%s%s: %c %s", separator(sheet), names[role], category_letter(buffer->category), buffer->name);
    }
}

static void say_pieces(struct sheet *sheet, const struct op *op)
{
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &sheet->ops->pieces[op->first_piece + p];
        say(sheet, "%s%s elements %s to %s", separator(sheet), unit_text(sheet->scene->model, piece->unit).text,
            format_count((uint64_t)piece->first).text, format_count((uint64_t)(piece->first + piece->elems - 1)).text);
    }
}

static void say_waits(struct sheet *sheet, const struct op *op)
{
    static const char *const why[] = {"for its result", "until it has given memory back",
                                      "by a limit of the configuration"};
    for (int d = 0; d < op->dependency_count; d++)
        say(sheet, "%s#%d %s %s", separator(sheet), op->dependency[d].op,
            op_text(sheet->scene->model, sheet->at->plan->number, op->dependency[d].op).text,
            why[op->dependency[d].why]);
}

static void say_awaited(struct sheet *sheet, int number)
{
    for (int i = number + 1; i < sheet->ops->op_count; i++)
        for (int d = 0; d < sheet->ops->ops[i].dependency_count; d++)
            if (sheet->ops->ops[i].dependency[d].op == number)
                say(sheet, "%s#%d %s", separator(sheet), i,
                    op_text(sheet->scene->model, sheet->at->plan->number, i).text);
}

static void say_payload(struct sheet *sheet, const struct op *op)
{
    if (op->bytes)
        say(sheet, "%s payload, each rank sends %s", bytes_text(sheet, op->bytes).text,
            bytes_text(sheet, op->sent_bytes).text);
    if (op->prefetch) say(sheet, "%sissued ahead of its use", separator(sheet));
    if (op->flush == FLUSH_FULL) say(sheet, "%sflushed because the next gradient would not fit", separator(sheet));
    if (op->flush == FLUSH_END) say(sheet, "%sflushed because backward ended", separator(sheet));
    if (op->accumulate) say(sheet, "%sadds to what is there", separator(sheet));
}

static void say_times(struct sheet *sheet, int number)
{
    const struct run_model *model = sheet->scene->model;
    const uint32_t step = whole_step_of(model, sheet->at->plan);
    const struct op_times times = op_times_of(sheet->scene->history, sheet->at->plan, step, number, model->now_ns, -1);
    char rank[RANK_TEXT_ROOM];
    if (!step || !times.ranks) return;
    say(sheet, "step %u: %s, mean of %d ranks; rank %d longest, %s", step, format_time_bare(times.mean_ns).text,
        times.ranks, times.slowest, format_time_bare(times.longest_ns).text);
    if (times.peers_ns) say(sheet, "; %s of that for other ranks", format_time_bare(times.peers_ns).text);
    if (times.paced_ns) say(sheet, "; %s of that added by pacing", format_time_bare(times.paced_ns).text);
    if (times.waited_ns) say(sheet, "; its lane waited %s before it", format_time_bare(times.waited_ns).text);
    if (times.ranks > 1 && sheet->ops->ops[number].lane == LANE_COMM)
        say(sheet, "; %s came last, %s after the first", run_rank_text(rank, model, times.last_rank),
            format_time_bare(times.last_ns - times.first_ns).text);
}

static void say_now(struct sheet *sheet, int number)
{
    const struct run_model *model = sheet->scene->model;
    char name[RANK_TEXT_ROOM];
    for (int rank = 0; rank < model->ranks && rank < 16; rank++) {
        const struct progress at = progress_of(model, rank);
        if (at.plan == sheet->at->plan)
            say(sheet, "%srank %d %s", separator(sheet), rank, state_text(&at, number).text);
    }
    int missing = 0, first = 0;
    if (sheet->ops->ops[number].lane == LANE_COMM && progress_state(sheet->at, number) == PROGRESS_RUNNING)
        missing =
            progress_missing(model, sheet->at, list_kept(sheet->scene->state->rank, model->ranks), number, &first);
    if (missing == 1) say(sheet, "; %s has not come yet", run_rank_text(name, model, first));
    if (missing > 1) say(sheet, "; %d ranks have not come yet, rank %d among them", missing, first);
}

struct text state_text(const struct progress *at, int op)
{
    static const char *const states[] = {[PROGRESS_TO_COME] = "to come",
                                         [PROGRESS_RUNNING] = "running",
                                         [PROGRESS_ENDED] = "done",
                                         [PROGRESS_DROPPED] = "dropped",
                                         [PROGRESS_WAITING] = "next"};
    const enum progress_state state = progress_state(at, op);
    const struct dependency *wait = state == PROGRESS_WAITING ? progress_wait(at, op) : NULL;
    return wait ? text_of("wait #%d", wait->op) : text_of("%s", states[state]);
}

void schedule_detail_draw(struct canvas canvas, const struct scene *scene, const struct progress *at, int number)
{
    const struct op *op = &at->plan->ops.ops[number];
    struct sheet sheet = {
        .canvas = canvas, .scene = scene, .at = at, .ops = &at->plan->ops, .y = 1, .end = canvas.at.rows};
    draw_title(canvas, 0, true,
               op->micro_step >= 0 && sheet.ops->micro_steps > 1 ? "#%d %s: %s, %s lane, micro-step %d of %d"
                                                                 : "#%d %s: %s, %s lane",
               number, op_text(scene->model, at->plan->number, number).text, phase_name(op->phase), lane_name(op->lane),
               op->micro_step + 1, sheet.ops->micro_steps);
    say(&sheet, "%s", op_words(op->kind, op->use)->help);
    paragraph(&sheet, "does");
    say_now(&sheet, number);
    paragraph(&sheet, "now");
    say_times(&sheet, number);
    paragraph(&sheet, "took");
    say_waits(&sheet, op);
    paragraph(&sheet, "waits for");
    say_awaited(&sheet, number);
    paragraph(&sheet, "awaited by");
    say_payload(&sheet, op);
    paragraph(&sheet, "moves");
    say_buffers(&sheet, op->first_take, op->take_count);
    paragraph(&sheet, "takes");
    say_buffers(&sheet, op->first_give, op->give_count);
    paragraph(&sheet, "gives back");
    say_roles(&sheet, op);
    paragraph(&sheet, "works on");
    say_pieces(&sheet, op);
    paragraph(&sheet, "pieces");
}
