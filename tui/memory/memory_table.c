/* Draws one tier of one rank by category. A figure above the plan is marked, because a run must not exceed its plan. */

#include "engine/base/words.h"
#include "tui/memory/tiers.h"

enum { NAMES_END = 15, BAR_LEAST = 8, BAR_MOST = 40 };

enum figure { LIVE, PEAK, PLANNED, AT_PEAK, RESERVED, FIGURES };
static const char *const heads[FIGURES] = {"now", "peak", "planned", "at peak", "reserved"};

struct row {
    bool meaningless; /* the plan has no use for it, and nothing is left of it */
    const char *name;
    char letter;
    enum style letter_style, style;
    struct {
        bool known;
        uint64_t bytes;
    } figure[FIGURES];
    const uint64_t *parts; /* by category; NULL: it is one */
};

/* Alone, the device tier lists all categories, so that a switch of stage changes figures and not rows. */
static bool is_listed(const struct run_model *model, enum tier tier, int category, enum table_form form)
{
    return form == TABLE_ALONE && tier == TIER_DEVICE ? category_is_shown(model, category)
                                                      : category_is_used(model, tier, category);
}

int memory_table_rows(const struct run_model *model, enum tier tier, enum table_form form)
{
    int rows = 2 + (form != TABLE_NEXT) + (form == TABLE_ALONE); /* title, sum; head; free */
    for (int category = 0; category < CATEGORIES; category++) rows += is_listed(model, tier, category, form);
    return rows;
}

static void draw_head(struct canvas canvas, int y, enum units units)
{
    struct pen pen = pen_at(canvas, NAMES_END, y);
    for (int f = 0; f < FIGURES; f++) pen_right(&pen, bytes_columns(units) + 2, STYLE_DIM, heads[f]);
    const int room = canvas.at.columns - pen.x - 2;
    if (!pen.full && room >= BAR_LEAST + 8) draw_text(canvas, pen.x + 2, y, STYLE_DIM, "now / planned");
}

/* How much of what is planned is there now; of the sum by category. */
static void draw_share(struct canvas canvas, int x, int y, const struct row *row)
{
    const uint64_t live = row->figure[LIVE].bytes, planned = row->figure[PLANNED].bytes;
    struct segment segments[SEGMENTS_MAX] = {{live, row->letter, category_look(0)->pattern, row->letter_style}};
    int columns = canvas.at.columns - x - 3, count = 1;
    if (columns > BAR_MOST) columns = BAR_MOST;
    if (columns < BAR_LEAST || !row->figure[LIVE].known || !row->figure[PLANNED].known || !planned) return;
    for (int category = 0; row->parts && category < CATEGORIES; category++) {
        const struct category_look *look = category_look(category);
        segments[category] = (struct segment){row->parts[category], look->letter, look->pattern, look->style};
        count = CATEGORIES;
    }
    draw_character(canvas, x, y, STYLE_FRAME, '[');
    draw_character(canvas, x + columns + 1, y, STYLE_FRAME, ']');
    draw_bar(canvas, x + 1, y, columns, segments, count, planned);
}

static void draw_row(struct canvas canvas, int y, enum units units, const struct row *row)
{
    const bool above =
        row->figure[PEAK].known && row->figure[PLANNED].known && row->figure[PEAK].bytes > row->figure[PLANNED].bytes;
    struct pen pen = pen_at(canvas, 3, y);
    if (row->letter) draw_character(canvas, 1, y, row->letter_style, (uint32_t)row->letter);
    pen_left(&pen, NAMES_END - 3, row->style, row->name);
    for (int f = 0; f < FIGURES; f++)
        pen_right(&pen, bytes_columns(units) + 2,
                  row->meaningless     ? STYLE_DIM
                  : f == PEAK && above ? STYLE_WARN
                                       : row->style,
                  row->meaningless ? "-" : format_bytes(units, row->figure[f].known, row->figure[f].bytes).text);
    if (!pen.full && !row->meaningless) draw_share(canvas, pen.x + 2, y, row);
}

static struct row row_of_category(const struct run_model *model, const struct run_tier *of, enum tier tier,
                                  int category)
{
    const struct run_schedule *plan = run_training(model);
    const struct run_predicted *planned = plan ? &plan->category[tier][category] : NULL;
    const struct run_memory *memory = &of->category[category];
    const struct category_look *look = category_look(category);
    const bool unplanned = plan && plan->tier[tier].known && !planned->known;
    return (struct row){.meaningless = unplanned && !memory->live_bytes && !memory->peak_bytes,
                        .name = look->name,
                        .letter = look->letter,
                        .letter_style = look->style,
                        .style = STYLE_TEXT,
                        .figure = {[LIVE] = {memory->known, memory->live_bytes},
                                   [PEAK] = {memory->known, memory->peak_bytes},
                                   [PLANNED] = {planned && planned->known, planned ? planned->peak_bytes : 0},
                                   [AT_PEAK] = {memory->known && memory->has_at_peak, memory->at_peak_bytes},
                                   [RESERVED] = {memory->known, memory->reserved_bytes}}};
}

static struct row row_of_sum(const struct run_model *model, const struct run_tier *of, enum tier tier)
{
    struct row row = {.name = "total",
                      .style = STYLE_STRONG,
                      .figure = {[LIVE] = {of->now.known, of->now.live_bytes},
                                 [PEAK] = {of->has_total, of->peak_bytes},
                                 [AT_PEAK] = {of->has_total, of->peak_bytes},
                                 [RESERVED] = {of->now.known, of->now.reserved_bytes}},
                      .parts = of->now.held_bytes};
    row.figure[PLANNED].known = run_predicted_peak(model, tier, &row.figure[PLANNED].bytes);
    return row;
}

static void draw_free(struct canvas canvas, int y, enum units units, const struct run_tier *of)
{
    const uint64_t held = of->now.live_bytes, reserved = of->now.reserved_bytes;
    struct pen pen = pen_at(canvas, 3, y);
    draw_category(canvas, 1, y, LOOK_FREE);
    pen_left(&pen, NAMES_END - 3, STYLE_TEXT, "free in pool");
    pen_right(&pen, bytes_columns(units) + 2, STYLE_TEXT,
              format_bytes(units, of->now.known, reserved > held ? reserved - held : 0).text);
}

/* At the right of the title: what is free, if there is no row for it; and the budget. */
static void draw_note(struct canvas canvas, enum units units, const struct run_tier *of, enum table_form form)
{
    const uint64_t held = of->now.live_bytes, reserved = of->now.reserved_bytes;
    char note[96] = "";
    if (form != TABLE_ALONE && of->now.known)
        text_append(note, sizeof note, " free in pool %s ",
                    format_bytes_bare(units, reserved > held ? reserved - held : 0).text);
    if (of->has_budget && of->budget_bytes)
        text_append(note, sizeof note, *note ? "· budget %s " : " budget %s ",
                    format_bytes_bare(units, of->budget_bytes).text);
    if (*note) draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT, note);
}

static void draw_rows(struct canvas canvas, const struct scene *scene, int rank, enum tier tier, enum table_form form)
{
    const struct run_model *model = scene->model;
    const struct run_tier *of = &model->rank[rank].tier[tier];
    const enum units units = scene->state->units;
    const struct row sum = row_of_sum(model, of, tier);
    int y = 1;
    if (form != TABLE_NEXT) draw_head(canvas, y++, units);
    draw_row(canvas, y++, units, &sum);
    for (int category = 0; category < CATEGORIES; category++) {
        if (!is_listed(model, tier, category, form)) continue;
        const struct row row = row_of_category(model, of, tier, category);
        draw_row(canvas, y++, units, &row);
    }
    if (form == TABLE_ALONE) draw_free(canvas, y, units, of);
}

void memory_table_draw(struct canvas canvas, const struct scene *scene, int rank, enum tier tier, enum table_form form)
{
    draw_title(canvas, 0, false, "%s memory of rank %d by category", tiers_name(tier), rank);
    draw_note(canvas, scene->state->units, &scene->model->rank[rank].tier[tier], form);
    draw_rows(canvas, scene, rank, tier, form);
}

void memory_table_draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    const int rank = fullest_rank(scene->model, TIER_DEVICE);
    draw_title(canvas, 0, focused, rank < 0 ? "device memory" : "device memory of rank %d, the fullest", rank);
    if (rank < 0) draw_text(canvas, 1, 1, STYLE_DIM, "not known yet");
    else draw_rows(canvas, scene, rank, TIER_DEVICE, TABLE_ALONE);
}
