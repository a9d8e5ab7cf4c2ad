/* Draws the longest waits of a step, where a search for lost time begins. A transfer that waits for compute to
 * produce its data is normal, so such waits are left out. */
#include <string.h>

#include "tui/timeline/timeline.h"
#include "tui/view/op_text.h"

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

static bool is_worth_telling(enum stall why)
{
    return why != STALL_NONE && why != STALL_COMPUTE && why != STALL_GRADIENT;
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
                if (span && span->ended_ns && is_worth_telling(span->stall))
                    add_wait(waits, (struct wait){rank, lane, span, span->ready_ns - span->issued_ns});
            }
        }
}

static void draw_wait(struct canvas canvas, int y, const struct scene *scene, const struct wait *wait)
{
    struct pen pen = pen_at(canvas, 1, y);
    char label[LABEL_ROOM], awaited[LABEL_ROOM] = "", time[FORMAT_ROOM];
    struct mark_look look = mark_look(MARK_WAIT + (enum mark)wait->span->stall);
    span_label(label, scene->model, wait->span);
    op_label(awaited, scene->model, wait->span->schedule, wait->span->waited_on);
    pen_right(&pen, 9, STYLE_STRONG, format_time(time, wait->ns));
    pen_format(&pen, 6, STYLE_TEXT, "%d", wait->rank);
    pen_left(&pen, 2, STYLE_TEXT, "");
    pen_left(&pen, 9, STYLE_TEXT, lane_name(wait->lane));
    pen_left(&pen, 18, STYLE_TEXT, label);
    pen_left(&pen, 18, STYLE_TEXT, awaited);
    pen_format(&pen, 1, look.style, "%c", stall_table[wait->span->stall].letter);
    pen_left(&pen, 1, STYLE_TEXT, "");
    pen_left(&pen, canvas.at.columns - pen.x, STYLE_TEXT, stall_table[wait->span->stall].help);
}

void timeline_draw_waits(struct canvas canvas, const struct scene *scene, const struct history_step *step)
{
    struct waits waits = {.room = canvas.at.rows - 1 < WAITS_MAX ? canvas.at.rows - 1 : WAITS_MAX};
    struct pen pen = pen_at(canvas, 1, 0);
    if (waits.room < 2) return;
    collect(&waits, scene, step);
    if (!waits.count) return;
    pen_heads(&pen, {9, "longest"}, {6, "rank"}, {-2, ""}, {-9, "lane"}, {-18, "operation"}, {-18, "waited for"},
              {-4, "why"});
    for (int i = 0; i < waits.count; i++) draw_wait(canvas, 1 + i, scene, &waits.longest[i]);
}
