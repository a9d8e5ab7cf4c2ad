/* Events, commands and the log, in one list, the newest last. The view shows the chosen entry in full below the list, and Enter moves
 * the cursor to its time. */
#include <stdio.h>

#include "engine/advise/why.h"
#include "tui/view/tier_bar.h"
#include "tui/view/view.h"

enum { LEVELS = 3, DETAIL_ROWS = 5 };
static const enum style by_level[LEVELS] = {STYLE_TEXT, STYLE_WARN, STYLE_BAD};
static const char level_letters[LEVELS] = {' ', '!', 'X'}; /* for screens without colour */

static int level_of(const struct run_notice *notice)
{
    return notice->level < 0 || notice->level >= LEVELS ? LEVELS - 1 : notice->level;
}

/* The notice's line, with amounts in the chosen units where it tells of memory that ran out. */
enum { TEXT_ROOM = 400 };
static const char *notice_text(char out[TEXT_ROOM], const struct scene *scene, const struct run_notice *notice)
{
    struct run_shortage shortage;
    if (!run_notice_shortage(&shortage, notice)) return notice->text;
    char said[TEXT_ROOM - 8];
    run_shortage_text(said, sizeof said, &shortage, format_writer(scene->state->units));
    snprintf(out, TEXT_ROOM, "oom: %s", said);
    return out;
}

static void draw_notice(struct canvas canvas, int y, const struct scene *scene, const struct run_notice *notice)
{
    const uint64_t first_ns = scene->model->first_ns;
    const int level = level_of(notice);
    uint64_t seconds = notice->time_ns > first_ns ? (notice->time_ns - first_ns) / 1000000000u : 0;
    draw_format(canvas, 0, y, STYLE_DIM, "%4llu:%02llu", (unsigned long long)(seconds / 60),
                (unsigned long long)(seconds % 60));
    if (notice->has_step) draw_format(canvas, 8, y, STYLE_DIM, "step %-6u", notice->step);
    draw_character(canvas, 19, y, by_level[level], (uint32_t)level_letters[level]);
    bool found = text_contains(notice->text, scene->state->search);
    char room[TEXT_ROOM];
    const char *text = notice_text(room, scene, notice);
    draw_text(canvas, 20, y, found && !level ? STYLE_GOOD : by_level[level], text);
    if (20 + utf8_columns(text) > canvas.at.columns)
        draw_character(canvas, canvas.at.columns - 1, y, STYLE_DIM, 0x2026);
}

/* ---- the list: those that the filter leaves, the newest first ---- */

static bool is_listed(const struct view_state *state, const struct run_notice *notice)
{
    return !state->filter[0] || text_contains(notice->text, state->filter);
}

static int count_listed(const struct scene *scene)
{
    int count = 0;
    for (int i = 0; i < scene->model->notice_count; i++) count += is_listed(scene->state, &scene->model->notices[i]);
    return count;
}

/* NULL: there are not so many. */
static const struct run_notice *listed(const struct scene *scene, int number)
{
    for (int i = scene->model->notice_count - 1; i >= 0; i--)
        if (is_listed(scene->state, &scene->model->notices[i]) && number-- == 0) return &scene->model->notices[i];
    return NULL;
}

static int chosen(const struct scene *scene, int count)
{
    return smaller(scene->state->row[VIEW_EVENTS], count - 1);
}

/* ---- the chosen one in full ---- */

/* ", host 0 B, then 3.118 MB" of every other tier whose peak a switch changed. */
static int draw_other_tiers(struct canvas canvas, int x, int y, enum units units, const struct why_switch *change)
{
    for (enum tier tier = TIER_HOST; tier < TIERS; tier++) {
        const uint64_t from = change->before.memory[tier].peak_bytes, to = change->after.memory[tier].peak_bytes;
        if (from != to)
            x = draw_format(canvas, x, y, STYLE_STRONG, ", %s %s, then %s", tiers_name(tier),
                            format_bytes_bare(units, from).text, format_bytes_bare(units, to).text);
    }
    return x;
}

static struct text peak_text(enum units units, const struct run_fullest *device)
{
    return device->known ? format_bytes_bare(units, device->peak_bytes) : (struct text){"n/a"};
}

/* What a switch changed, in one line; its view says more. */
static void draw_outcome(struct canvas canvas, int y, const struct scene *scene, const struct run_notice *notice)
{
    struct why_switch switches[16];
    const enum units units = scene->state->units;
    int count = why_switches(scene->model, switches, 16);
    for (int s = 0; s < count; s++) {
        const struct why_side *from = &switches[s].before, *to = &switches[s].after;
        if (notice->kind != NOTICE_EVENT || !notice->has_step || switches[s].step != notice->step || !from->steps ||
            !to->steps)
            continue;
        int x = draw_format(canvas, 1, y, STYLE_STRONG, "%s: peak %s, then %s", switches[s].text,
                            peak_text(units, &from->memory[TIER_DEVICE]).text,
                            peak_text(units, &to->memory[TIER_DEVICE]).text);
        x = draw_other_tiers(canvas, x, y, units, &switches[s]);
        x = draw_format(canvas, x, y, STYLE_STRONG, "; step %s, then %s",
                        format_time_bare((uint64_t)from->step_ns).text, format_time_bare((uint64_t)to->step_ns).text);
        if (x + 15 < canvas.at.columns) draw_text(canvas, x, y, STYLE_STRONG, " (i says more)");
        return;
    }
}

static void draw_details(struct canvas canvas, const struct scene *scene, const struct run_notice *notice)
{
    char text[TEXT_ROOM];
    draw_title(canvas, 0, false, "%.3f s into the run", (double)(notice->time_ns - scene->model->first_ns) / 1e9);
    draw_paragraph(canvas_part(canvas, 1, 1, canvas.at.columns - 2, canvas.at.rows - 2), 0, by_level[level_of(notice)],
                   notice_text(text, scene, notice));
    draw_outcome(canvas, canvas.at.rows - 1, scene, notice);
}

static void draw_list_title(struct canvas canvas, const struct scene *scene, int count)
{
    int x = draw_title(canvas, 0, false, "events, commands, log");
    if (scene->state->filter[0])
        draw_format(canvas, x, 0, STYLE_WARN, "%d of %d: only \"%s\" ", count, scene->model->notice_count,
                    scene->state->filter);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    const int count = count_listed(scene), at = chosen(scene, count), rows = canvas.at.rows - 1 - DETAIL_ROWS;
    int below =
        scrolled(at - rows / 2, count, rows); /* the chosen one in the middle, where there is more on both sides */
    draw_list_title(canvas, scene, count);
    if (!count) {
        draw_text(canvas, 1, 1, STYLE_DIM,
                  scene->model->notice_count ? "nothing that the filter leaves" : "nothing yet");
        return;
    }
    int shown = count - below < rows ? count - below : rows;
    for (int n = 0; n < shown; n++) {
        int y = shown - n;
        draw_notice(canvas_part(canvas, 1, 0, canvas.at.columns - 1, canvas.at.rows), y, scene,
                    listed(scene, below + n));
        if (below + n == at) draw_character(canvas, 0, y, STYLE_FOCUS, 0x25b6);
    }
    draw_details(canvas_part(canvas, 0, canvas.at.rows - DETAIL_ROWS, canvas.at.columns, DETAIL_ROWS), scene,
                 listed(scene, at));
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    const int count = count_listed(scene);
    int line = count - 1 - chosen(scene, count); /* rows count from the newest, which stands last */
    if (key->action == ACTION_ENTER) {
        if (count == 0) return true;
        state->behind = true;
        state->cursor_ns = listed(scene, count - 1 - line)->time_ns;
        line = count - 1; /* it is the newest of what was known then */
    } else if (!list_act(&line, count, key)) {
        return false;
    }
    state->row[VIEW_EVENTS] = list_kept(count - 1 - line, count);
    return true;
}

/* ---- in small ---- */

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const struct run_model *model = scene->model;
    int rows = canvas.at.rows - 1, count = model->notice_count;
    int last = count - scrolled(scene->state->row[VIEW_EVENTS], count, rows);
    int first = last > rows ? last - rows : 0;
    draw_title(canvas, 0, focused, "events, commands, log");
    if (!count) draw_text(canvas, 1, 1, STYLE_DIM, "nothing yet");
    for (int i = first; i < last; i++) draw_notice(canvas, 1 + i - first, scene, &model->notices[i]);
}

const struct view view_events = {
    "events",          "events",          .keys = {ACTION_UP, ACTION_DOWN, ACTION_ENTER, ACTION_SEARCH, ACTION_FILTER},
    .draw = draw_view, .pane = draw_pane, .act = act};
