/* Three boxes with arrows between them. A box is a tier: its bar and its figures; an arrow is a direction: the bytes of a
 * step above it, the rate below. The arrow away from the device is drawn above the one towards it.
 *
 *     device                        host
 *     [AAAAAABBBLLLW┃F··]  407.4 KiB [GGGGGGSSSSS···┃]
 *     now           0 B    ───────►  now      407.4 KiB          */

#include "tui/memory/tiers.h"

enum { FIGURES = 6, FIRST_FIGURE = 3 }; /* title, names, bars */

struct boxes {
    int gap, columns;
};

/* Plain bytes are long: they take from the arrows. */
static struct boxes boxes_of(int columns, enum units units)
{
    struct boxes boxes = {.gap = columns >= 160 ? 21 : columns >= 110 ? 15 : units == UNITS_BYTES ? 5 : 12};
    boxes.columns = (columns - 1 - 2 * boxes.gap) / 3;
    return boxes;
}

/* ---- a tier ---- */

struct figure {
    const char *name;
    bool use, known; /* use: only where the tier is used has it a meaning */
    uint64_t bytes;
    enum style style;
    const char *instead;
};

static void list_figures(struct figure out[FIGURES], const struct run_model *model, const struct run_tier *of,
                         enum tier tier)
{
    uint64_t planned = 0;
    const bool has_plan = run_predicted_peak(model, tier, &planned);
    const bool above = of->has_total && has_plan && of->peak_bytes > planned;
    out[0] = (struct figure){"now", true, of->now.known, of->now.live_bytes, STYLE_STRONG, NULL};
    out[1] = (struct figure){"reserved", true, of->now.known, of->now.reserved_bytes, STYLE_TEXT, NULL};
    out[2] = (struct figure){"step max", true, of->step_peak.known, of->step_peak.live_bytes, STYLE_STRONG, NULL};
    out[3] = (struct figure){"run max", true, of->has_total, of->peak_bytes, above ? STYLE_WARN : STYLE_TEXT, NULL};
    out[4] = (struct figure){"planned", true, has_plan, planned, STYLE_TEXT, NULL};
    out[5] = (struct figure){"budget",         false,      of->has_budget,
                             of->budget_bytes, STYLE_TEXT, of->has_budget && !of->budget_bytes ? "no limit" : NULL};
}

static void draw_figure(struct canvas box, int y, enum units units, const struct figure *figure, bool used)
{
    draw_text(box, 0, y, STYLE_DIM, figure->name);
    draw_right(box, box.at.columns, y, used ? figure->style : STYLE_DIM,
               !used && figure->use && figure->bytes == 0 ? "-" /* nothing can be said of it */
               : figure->instead                          ? figure->instead
               : figure->known                            ? format_bytes_bare(units, figure->bytes).text
                                                          : "n/a");
}

static bool holds(const struct run_tier *of, int category)
{
    return of->category[category].peak_bytes > 0;
}

static int categories_held(const struct run_tier *of)
{
    int count = 0;
    for (int category = 0; category < CATEGORIES; category++) count += holds(of, category);
    return count;
}

/* What was there at the instant that the bar shows. */
static void draw_categories(struct canvas box, int y, const struct scene *scene, const struct run_tier *of)
{
    const struct run_instant *instant = instant_shown(of, scene->state);
    for (int category = 0; category < CATEGORIES && y < box.at.rows; category++) {
        const struct category_look *look = category_look(category);
        if (!holds(of, category)) continue;
        draw_category(box, 0, y, category);
        draw_text(box, 2, y, STYLE_TEXT, box.at.columns < 30 ? look->brief : look->name);
        draw_right(box, box.at.columns, y++, STYLE_TEXT,
                   format_bytes(scene->state->units, instant->known, instant->held_bytes[category]).text);
    }
}

static void draw_tier(struct canvas box, const struct scene *scene, int rank, enum tier tier,
                      const struct memory_scale *scale)
{
    const struct run_tier *of = &scene->model->rank[rank].tier[tier];
    const bool used = scale->used;
    struct figure figures[FIGURES];
    draw_text(box, 0, 0, used ? STYLE_TITLE : STYLE_DIM, tiers_name(tier));
    if (!used) draw_right(box, box.at.columns, 0, STYLE_DIM, "not used");
    tier_bar_alone(box, (struct rect){0, 1, box.at.columns, 1}, rank, tier, scene, scale);
    list_figures(figures, scene->model, of, tier);
    for (int i = 0; i < FIGURES; i++) draw_figure(box, 2 + i, scene->state->units, &figures[i], used);
    if (box.at.rows > 2 + FIGURES) draw_categories(box, 2 + FIGURES, scene, of);
}

/* ---- an arrow ---- */

static void draw_centred(struct canvas gap, int y, enum style style, const char *text)
{
    const int room = gap.at.columns - utf8_columns(text);
    if (room >= 0) draw_text(gap, room / 2, y, style, text);
}

static void draw_arrow(struct canvas gap, int y, bool right, bool moving)
{
    const enum style style = moving ? STYLE_FOCUS : STYLE_FRAME;
    const int last = gap.at.columns - 2;
    draw_fill(gap, 1, y, last, style, moving ? 0x2550 : 0x2500);
    draw_character(gap, right ? last : 1, y, moving ? STYLE_FOCUS : STYLE_TEXT, right ? 0x25ba : 0x25c4);
}

static void draw_flow(struct canvas gap, int y, const struct scene *scene, int rank, enum flow flow,
                      const struct tiers_flow *of)
{
    const struct flow_figures *figures = &of->figures;
    if (!of->used) return;
    draw_centred(gap, y, STYLE_STRONG,
                 figures->known ? format_bytes_bare(scene->state->units, (uint64_t)(figures->bytes + 0.5)).text
                                : "n/a");
    draw_arrow(gap, y + 1, flow == FLOW_D2H || flow == FLOW_NVME_WRITE, tiers_moving(scene, rank, flow) != NULL);
    draw_centred(gap, y + 2, STYLE_TEXT,
                 figures->bytes_per_s > 0 ? format_rate(scene->state->units, figures->bytes_per_s).text : "n/a");
}

/* ---- the picture ---- */

int tiers_picture_rows(const struct scene *scene, int rank)
{
    int most = 0;
    for (int tier = 0; tier < TIERS; tier++) {
        const int count = categories_held(&scene->model->rank[rank].tier[tier]);
        if (count > most) most = count;
    }
    return TIERS_PICTURE_ROWS + most;
}

static void draw_picture_title(struct canvas canvas, const struct scene *scene, int rank, bool flows)
{
    static const char note[] = " arrows: bytes a step ";
    const struct text step = instant_step(scene);
    const int x = draw_title(canvas, 0, false, "tiers of rank %d (of %d), %s%s", rank, scene->model->ranks,
                             *step.text ? "fullest instants of " : "now", step.text);
    if (flows && x + (int)sizeof note <= canvas.at.columns)
        draw_right(canvas, canvas.at.columns - 1, 0, STYLE_DIM, note);
}

void tiers_draw_picture(struct canvas canvas, const struct scene *scene, int rank,
                        const struct memory_scale scales[TIERS], const struct tiers_flow flows[FLOWS])
{
    const struct boxes boxes = boxes_of(canvas.at.columns, scene->state->units);
    static const enum flow ways[TIERS - 1][2] = {{FLOW_D2H, FLOW_H2D}, {FLOW_NVME_WRITE, FLOW_NVME_READ}};
    draw_picture_title(canvas, scene, rank, tiers_any_flow(scene->model));
    for (enum tier tier = 0; tier < TIERS; tier++) {
        const int x = 1 + (int)tier * (boxes.columns + boxes.gap);
        draw_tier(canvas_part(canvas, x, 1, boxes.columns, canvas.at.rows - 1), scene, rank, tier, &scales[tier]);
        if (tier == TIER_NVME) break;
        struct canvas gap = canvas_part(canvas, x + boxes.columns, FIRST_FIGURE, boxes.gap, FIGURES);
        for (int way = 0; way < 2; way++)
            draw_flow(gap, 3 * way, scene, rank, ways[tier][way], &flows[ways[tier][way]]);
    }
}
