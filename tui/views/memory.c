/* Memory of the fullest rank by category: what it holds now, the most it held, what was planned. */
#include <stdio.h>

#include "tui/draw/pen.h"
#include "tui/views/parts.h"

struct row {
    bool has_live, has_peak, has_at_peak, has_planned;
    uint64_t live, peak, at_peak, planned;
};

static void draw_values(struct pen pen, enum units units, enum style style, const struct row *row)
{
    char text[FORMAT_ROOM];
    int columns = bytes_columns(units) + 2;
    bool above = row->has_peak && row->has_planned && row->peak > row->planned;
    pen_right(&pen, columns, style, format_bytes(text, units, row->has_live, row->live));
    pen_right(&pen, columns, above ? STYLE_WARN : style, format_bytes(text, units, row->has_peak, row->peak));
    pen_right(&pen, columns, style, format_bytes(text, units, row->has_planned, row->planned));
    pen_right(&pen, columns, style, format_bytes(text, units, row->has_at_peak, row->at_peak));
}

static void draw_category(struct canvas canvas, int y, int category, const struct scene *scene,
                          const struct run_tier *tier)
{
    const struct run_schedule *plan = run_training(scene->model);
    const struct run_predicted *planned = plan ? &plan->category[TIER_DEVICE][category] : NULL;
    const struct run_memory *memory = &tier->category[category];
    const struct category_look *look = category_look(category);
    struct row row = {memory->known,
                      memory->known,
                      memory->known && memory->has_at_peak,
                      planned && planned->known,
                      memory->live_bytes,
                      memory->peak_bytes,
                      memory->at_peak_bytes,
                      planned ? planned->peak_bytes : 0};
    draw_character(canvas, 1, y, look->style, (uint32_t)look->letter);
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 12, STYLE_TEXT, look->name);
    draw_values(pen, scene->state->units, STYLE_TEXT, &row);
}

static void draw_free(struct canvas canvas, int y, const struct scene *scene, const struct run_tier *tier)
{
    const struct category_look *look = category_look(CATEGORIES);
    uint64_t held = tier->now.live_bytes, reserved = tier->now.reserved_bytes;
    struct row row = {.has_live = tier->now.known, .live = reserved > held ? reserved - held : 0};
    char text[FORMAT_ROOM];
    draw_character(canvas, 1, y, look->style, (uint32_t)look->letter);
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 12, STYLE_TEXT, "free in pool");
    pen_right(&pen, bytes_columns(scene->state->units) + 2, STYLE_TEXT,
              format_bytes(text, scene->state->units, row.has_live, row.live));
}

static void draw_total(struct canvas canvas, int y, const struct scene *scene, const struct run_tier *tier)
{
    struct row row = {.has_live = tier->now.known,
                      .live = tier->now.live_bytes,
                      .has_peak = tier->has_total,
                      .peak = tier->peak_bytes};
    row.has_planned = run_predicted_peak(scene->model, TIER_DEVICE, &row.planned);
    row.has_at_peak = tier->has_total;
    row.at_peak = tier->peak_bytes;
    struct pen pen = pen_at(canvas, 3, y);
    pen_left(&pen, 12, STYLE_STRONG, "together");
    draw_values(pen, scene->state->units, STYLE_STRONG, &row);
}

static void draw_head(struct canvas canvas, enum units units)
{
    static const char *const names[] = {"now", "peak", "planned", "at peak"};
    struct pen pen = pen_at(canvas, 15, 1);
    for (int i = 0; i < 4; i++) pen_right(&pen, bytes_columns(units) + 2, STYLE_DIM, names[i]);
}

static int rows_wanted(const struct scene *scene)
{
    int rows = 4; /* title, head, sum, free */
    for (int category = 0; category < CATEGORIES; category++) rows += category_is_shown(scene->model, category);
    return rows;
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    int rank = fullest_rank(scene->model, TIER_DEVICE), y = 2;
    char title[64] = "device memory";
    if (rank >= 0) snprintf(title, sizeof title, "device memory of rank %d, the fullest", rank);
    draw_title(canvas, 0, focused, title);
    if (rank < 0) {
        draw_text(canvas, 1, 1, STYLE_DIM, "not known yet");
        return;
    }
    const struct run_tier *tier = &scene->model->rank[rank].tier[TIER_DEVICE];
    draw_head(canvas, scene->state->units);
    draw_total(canvas, y++, scene, tier);
    for (int category = 0; category < CATEGORIES; category++)
        if (category_is_shown(scene->model, category)) draw_category(canvas, y++, category, scene, tier);
    draw_free(canvas, y, scene, tier);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    draw_pane(canvas, scene, false);
}

const struct view view_memory = {"memory", "memory", .draw = draw_view, .pane = draw_pane, .pane_rows = rows_wanted};
