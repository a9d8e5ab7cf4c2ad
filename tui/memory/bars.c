/* Memory of each rank's device tier as a bar by category. All ranks have one scale (memory_scale()), so a switch of stage changes
 * the bars but not the scale. If the bars do not fit one below the other, they stand in columns. If these are too narrow, there
 * is one bar for the fullest rank, then heat rows with a column for each rank. With offload, bars of the host tier and of NVMe
 * stand beside the device's, each with its own scale, and below them a line for each link says what it moved. */

#include "tui/memory/tiers.h"

enum { BAR_ROWS_MAX = 8, BAR_COLUMNS_MIN = 38, HEAT_ROWS = 6 };

enum { NUMBER_COLUMNS = 5, RANK_COLUMNS_MIN = 64, ALL = (1 << TIERS) - 1 };

void bars_draw_rank(struct canvas canvas, int y, int rank, enum style style, const struct scene *scene,
                    const struct memory_scale scales[TIERS], uint32_t tiers)
{
    int count = 0, x = NUMBER_COLUMNS;
    for (enum tier tier = 0; tier < TIERS; tier++) count += tiers >> tier & 1;
    draw_format(canvas, 0, y, style, "%4d", rank);
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (!(tiers >> tier & 1)) continue;
        const int columns = (canvas.at.columns - x) / count--;
        tier_bar_draw(canvas, (struct rect){x, y, columns - 1, 1}, rank, tier, scene, &scales[tier]);
        x += columns;
    }
}

void tiers_draw_ranks(struct canvas canvas, const struct scene *scene, const struct memory_scale scales[TIERS],
                      int chosen)
{
    const int ranks = scene->model->ranks, rows = canvas.at.rows - 1, top = list_top(chosen, ranks, rows);
    const int columns = (canvas.at.columns - NUMBER_COLUMNS) / TIERS;
    draw_title(canvas, 0, false, rows < ranks && rows > 0 ? "ranks %d-%d of %d: device" : "all ranks: device", top,
               top + rows - 1, ranks);
    for (enum tier tier = TIER_HOST; tier < TIERS; tier++)
        draw_format(canvas, NUMBER_COLUMNS + (int)tier * columns, 0, STYLE_DIM, " %s ", tiers_name(tier));
    for (int i = 0; i < rows && top + i < ranks; i++)
        bars_draw_rank(canvas, 1 + i, top + i, top + i == chosen ? STYLE_FOCUS : STYLE_TEXT, scene, scales, ALL);
}

/* Those beside the device's that something lies in, as bits. */
static uint32_t tiers_beside(const struct memory_scale scales[TIERS])
{
    uint32_t tiers = 0;
    for (enum tier tier = TIER_HOST; tier < TIERS; tier++)
        if (scales[tier].used) tiers |= 1u << tier;
    return tiers;
}

static int columns_least(bool beside)
{
    return beside ? RANK_COLUMNS_MIN : BAR_COLUMNS_MIN;
}

static void draw_rank(struct canvas canvas, int y, int rank, const struct scene *scene,
                      const struct memory_scale scales[TIERS])
{
    const bool wide = canvas.at.columns >= RANK_COLUMNS_MIN;
    bars_draw_rank(canvas, y, rank, STYLE_TEXT, scene, scales, 1u << TIER_DEVICE | (wide ? tiers_beside(scales) : 0));
}

/* Column `column` of `columns` stands for ranks [first, end): the fullest of them is shown. */
static uint64_t column_bytes(const struct scene *scene, enum tier tier, int column, int columns, int category)
{
    int ranks = scene->model->ranks;
    int first = (int)((int64_t)column * ranks / columns), end = (int)((int64_t)(column + 1) * ranks / columns);
    uint64_t most = 0;
    for (int rank = first; rank < end || rank == first; rank++) {
        const struct run_instant *instant = instant_shown(&scene->model->rank[rank].tier[tier], scene->state);
        uint64_t bytes = category == CATEGORIES ? instant->live_bytes : instant->held_bytes[category];
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Category CATEGORIES: all of the tier together, under this name. */
static void draw_heat_row(struct canvas canvas, int y, enum tier tier, int category, const char *all,
                          const struct scene *scene)
{
    int room = canvas.at.columns - bytes_columns(scene->state->units) - 14;
    int columns = smaller(scene->model->ranks, room);
    uint64_t most = 0;
    for (int i = 0; i < columns; i++) {
        uint64_t bytes = column_bytes(scene, tier, i, columns, category);
        if (bytes > most) most = bytes;
    }
    if (category == CATEGORIES) draw_text(canvas, 1, y, STYLE_STRONG, all);
    else draw_category(canvas, 1, y, category);
    draw_text(canvas, 5, y, STYLE_TEXT, category == CATEGORIES ? "" : category_look(category)->brief);
    for (int i = 0; i < columns; i++)
        draw_heat(canvas, 12 + i, y, STYLE_HEAT, column_bytes(scene, tier, i, columns, category), most);
    draw_right(canvas, canvas.at.columns - 1, y, STYLE_TEXT, format_bytes(scene->state->units, true, most).text);
}

static void draw_heat_rows(struct canvas canvas, int y, int end, const struct scene *scene,
                           const struct memory_scale scales[TIERS])
{
    const bool alone = !tiers_beside(scales);
    for (enum tier tier = 0; tier < TIERS && y < end; tier++)
        if (scales[tier].used)
            draw_heat_row(canvas, y++, tier, CATEGORIES,
                          alone ? "all" : text_of("0-%d %s", scene->model->ranks - 1, tiers_name(tier)).text, scene);
    for (int category = 0; category < CATEGORIES && y < end; category++)
        if (category_is_used(scene->model, TIER_DEVICE, category))
            draw_heat_row(canvas, y++, TIER_DEVICE, category, "", scene);
}

/* Of any tier: the bars of all three share one legend. */
static bool is_in_legend(const struct run_model *model, int category)
{
    bool used = category == LOOK_FREE || (category < CATEGORIES && category_is_shown(model, category));
    for (int rank = 0; rank < model->ranks && !used; rank++)
        for (int tier = TIER_DEVICE; tier < TIERS; tier++) {
            const struct run_tier *of = &model->rank[rank].tier[tier];
            used |= category < CATEGORIES ? of->category[category].peak_bytes > 0 : unattributed_bytes(&of->now) > 0;
        }
    return used;
}

static int legend_columns(const struct scene *scene, bool brief, int gap, bool planned)
{
    int columns = planned ? 1 + 2 + utf8_columns(brief ? "plan" : "planned peak") : 1 - gap;
    for (int i = 0; i < LOOKS; i++)
        if (is_in_legend(scene->model, i))
            columns += 2 + gap + utf8_columns(brief ? category_look(i)->brief : category_look(i)->name);
    return columns;
}

/* Names in full where they fit, else short ones, closer together if need be; staging and secondary only where they are used. */
void bars_draw_legend(struct canvas canvas, int y, const struct scene *scene, bool planned)
{
    const bool brief = legend_columns(scene, false, 1, planned) > canvas.at.columns;
    const int gap = legend_columns(scene, brief, 2, planned) > canvas.at.columns ? 1 : 2;
    int x = 1;
    for (int i = 0; i < LOOKS; i++) {
        if (!is_in_legend(scene->model, i)) continue;
        const struct category_look *look = category_look(i);
        draw_category(canvas, x, y, i);
        x = draw_text(canvas, x + 2, y, STYLE_TEXT, brief ? look->brief : look->name) + gap;
    }
    if (!planned) return;
    draw_character(canvas, x, y, STYLE_PLANNED, 0x2503);
    draw_text(canvas, x + 2, y, STYLE_TEXT, brief ? "plan" : "planned peak");
}

/* As much of the title as fits beside the note. */
static struct text bars_title(int columns, const struct scene *scene, uint32_t beside)
{
    static const char *const whose[] = {"device memory", "memory of device and host", "memory of device and NVMe",
                                        "memory of device, host, NVMe"};
    const char *of = whose[beside >> 1];
    const struct text step = instant_step(scene);
    if (!*step.text) return text_of("%s now", of);
    const struct text whole = text_of("%s, fullest instant of %s", of, step.text),
                      brief = text_of("%s, %s", of, step.text);
    return utf8_columns(whole.text) <= columns   ? whole
           : utf8_columns(brief.text) <= columns ? brief
                                                 : text_of("memory, %s", step.text);
}

/* On a GPU, in the same words as the tiers at length; where there is room. */
static void add_outside(struct text *note, int columns, const struct scene *scene)
{
    enum { ROOMY = 110 };
    const struct run_outside *outside = scene->model->ranks ? run_outside_of(scene->model, 0) : NULL;
    if (outside && columns >= ROOMY)
        text_add(note, "· outside%s %s, measured ", scene->model->header.gpus > 1 ? " of GPU 0" : "",
                 format_bytes_bare(scene->state->units, outside->bytes).text);
}

static void draw_bars_title(struct canvas canvas, const struct scene *scene, const struct memory_scale scales[TIERS])
{
    const struct memory_scale *scale = &scales[TIER_DEVICE];
    struct text note = {""};
    const enum units units = scene->state->units;
    if (scale->has_planned) text_add(&note, " plan %s ·", format_bytes_bare(units, scale->planned).text);
    if (scale->budget) text_add(&note, " budget %s ", format_bytes_bare(units, scale->budget).text);
    else text_add(&note, " no budget ");
    add_outside(&note, canvas.at.columns, scene);
    draw_title(canvas, 0, false, "%s",
               bars_title(canvas.at.columns - utf8_columns(note.text) - 5, scene, tiers_beside(scales)).text);
    draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT, note.text);
}

/* A link is in use when something flows over it, either way. */
static bool link_is_used(const struct run_model *model, enum link link)
{
    for (enum flow flow = 0; flow < FLOWS; flow++)
        if (traffic_link(flow_traffic(flow)) == link && flow_is_used(model, flow)) return true;
    return false;
}

int bars_flow_rows(const struct run_model *model)
{
    return link_is_used(model, LINK_PCIE) + link_is_used(model, LINK_NVME);
}

static void draw_flows(struct canvas canvas, int y, const struct scene *scene)
{
    static const enum flow ways[][2] = {{FLOW_D2H, FLOW_H2D}, {FLOW_NVME_WRITE, FLOW_NVME_READ}};
    const int half = canvas.at.columns / 2;
    for (int link = 0; link < 2; link++) {
        if (!link_is_used(scene->model, traffic_link(flow_traffic(ways[link][0])))) continue;
        for (int way = 0; way < 2; way++) tiers_draw_brief(canvas, 1 + way * half, y, half - 1, scene, ways[link][way]);
        y++;
    }
}

int bars_rows(const struct run_model *model, int columns, int rows)
{
    const bool beside = tier_is_used(model, TIER_HOST) || tier_is_used(model, TIER_NVME);
    const int flows = bars_flow_rows(model), others = 2 + flows, least = columns_least(beside);
    int inner = rows - others < BAR_ROWS_MAX ? rows - others : BAR_ROWS_MAX, across = columns / least;
    if (inner < 1) inner = 1;
    if (model->ranks > inner * across) return others + (inner < 1 + HEAT_ROWS ? inner : 1 + HEAT_ROWS);
    if (model->ranks <= inner) return others + (model->ranks > 1 ? model->ranks : 1);
    int stacks = (model->ranks + inner - 1) / inner;
    return others + (model->ranks + stacks - 1) / stacks;
}

/* Ranks from top to bottom, then in the next column, in `rows` below the title. False: too narrow. */
static bool draw_ranks(struct canvas canvas, int rows, const struct scene *scene,
                       const struct memory_scale scales[TIERS])
{
    const int ranks = scene->model->ranks, least = columns_least(tiers_beside(scales));
    int stacks = rows > 0 ? (ranks + rows - 1) / rows : ranks;
    if (rows < 1 || canvas.at.columns / stacks < least) return false;
    int columns = canvas.at.columns / stacks;
    for (int rank = 0; rank < ranks; rank++) {
        int x = rank / rows * columns, last = rank / rows == stacks - 1;
        draw_rank(canvas_part(canvas, x, 1, last ? canvas.at.columns - x : columns, rows), rank % rows, rank, scene,
                  scales);
    }
    return true;
}

void bars_draw(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    struct memory_scale scales[TIERS];
    const int legend = canvas.at.rows - 1 - bars_flow_rows(model);
    memory_scales(scales, model);
    draw_bars_title(canvas, scene, scales);
    int fullest = fullest_rank(model, TIER_DEVICE);
    if (fullest < 0) draw_text(canvas, 1, 1, STYLE_DIM, "not known yet: no memory record has come");
    else if (!draw_ranks(canvas, legend - 1, scene, scales)) {
        draw_rank(canvas, 1, fullest, scene, scales);
        draw_heat_rows(canvas, 2, legend, scene, scales);
    }
    bars_draw_legend(canvas, legend, scene, scales[TIER_DEVICE].has_planned);
    draw_flows(canvas, legend + 1, scene);
}
