/* Units x ranks: what each rank holds of each unit at the cursor. Few ranks get a picture of parameters, gradient and
 * optimizer state in slots; more get a letter for each; most get one letter for the parameters. Below stand the chosen
 * unit, and how much the chosen rank has gathered, against the limits of the configuration. */
#include <string.h>

#include "tui/memory/slots.h"
#include "tui/view/op_text.h"

enum {
    UNITS_MAX = 1024,
    NAME_COLUMNS = 11,
    HEAD_ROWS = 3,
    LEGEND_ROWS = 3,
    DETAIL_ROWS = 5,
    PITCH_MAX = 6
}; /* the title is of the head */

/* What quantizing is measured of, as rows of struct run_unit. */
static const char *const quantized[2] = {"P as int8", "G as int4"};

/* The least columns of figures: elements and bytes. */
enum { FIGURES_COLUMNS = 11 + 11 };

enum cells_as { AS_SLOTS, AS_LETTERS, AS_LETTER };

/* How cells are drawn in the columns there are, and which ranks. */
struct grid {
    enum cells_as as;
    int slots, width;  /* of a cell */
    int height, pitch; /* rows of a cell, and of a unit with the blank row below it */
    int first, ranks;  /* the ranks that fit */
    int end;           /* column behind the last */
};

struct picture {
    const struct scene *scene;
    struct progress at; /* of the chosen rank */
    int rank, ranks, units;
    bool quantized[2]; /* in this run, of some unit */
    int shards; /* ranks of a shard group; a rank holds the same shards as the rank of its place in the first one */
    struct unit_keep keep[UNITS_MAX];
    struct unit_cell cells[UNITS_MAX]; /* of the chosen rank */
};

static bool picture_init(struct picture *picture, const struct scene *scene)
{
    picture->scene = scene;
    picture->rank = list_kept(scene->state->rank, scene->model->ranks);
    if (scene->model->ranks <= 0) return false;
    picture->at = progress_of(scene->model, picture->rank);
    if (!picture->at.plan) return false;
    const struct schedule *ops = &picture->at.plan->ops;
    picture->ranks = scene->model->ranks;
    picture->shards = schedule_shard_ranks(ops);
    picture->units = units_of(ops);
    if (picture->units > UNITS_MAX) picture->units = UNITS_MAX;
    units_keep(ops, picture->keep, picture->units);
    cells_of(&picture->at, picture->cells, picture->units);
    for (int g = 0; g < 2; g++) {
        picture->quantized[g] = false;
        for (int u = 0; u < scene->model->header.unit_count; u++)
            picture->quantized[g] |= scene->model->header.units[u].quantized[g].step > 0;
    }
    return picture->units > 0;
}

static struct grid grid_of(int columns, const struct picture *picture)
{
    const int room = (columns - NAME_COLUMNS - 1) / picture->ranks;
    int slots = (room - 4) / 3;
    if (slots > 8) slots = 8;
    slots -= slots > 0 ? slots % picture->ranks : 0;
    struct grid grid = {.first = 0, .ranks = picture->ranks, .height = 1, .pitch = 1};
    if (slots > 0 && slots >= picture->ranks && picture->ranks == picture->at.plan->ops.ranks) {
        grid.as = AS_SLOTS;
        grid.slots = slots;
        grid.width = 3 * slots + (room > 3 * slots + 4 ? 5 : 4);
    } else if (room >= 4) {
        grid.as = AS_LETTERS;
        grid.width = room >= 6 ? 6 : 4;
    } else {
        grid.as = AS_LETTER;
        grid.width = 1;
        if (grid.ranks > columns - NAME_COLUMNS - 1) grid.ranks = columns - NAME_COLUMNS - 1;
        if (grid.ranks < picture->ranks) grid.first = picture->rank / grid.ranks * grid.ranks;
        if (grid.first + grid.ranks > picture->ranks) grid.ranks = picture->ranks - grid.first;
    }
    grid.end = NAME_COLUMNS + grid.ranks * grid.width;
    return grid;
}

/* ---- the grid ---- */

static void draw_head(struct canvas canvas, int y, const struct grid *grid, const struct picture *picture)
{
    draw_text(canvas, 0, y, STYLE_DIM, "unit");
    for (int i = 0; i < grid->ranks; i++) {
        const int rank = grid->first + i, x = NAME_COLUMNS + i * grid->width;
        const enum style style = rank == picture->rank ? STYLE_FOCUS : STYLE_DIM;
        if (grid->as == AS_SLOTS) {
            const int end = draw_format(canvas, x, y, style, "rank %d", rank);
            if (rank >= picture->shards) draw_format(canvas, end + 1, y, STYLE_DIM, "= %d", rank % picture->shards);
            for (int part = 0; part < 3; part++)
                draw_character(canvas, x + part * (grid->slots + 1), y + 1, STYLE_DIM, (uint32_t) "PGO"[part]);
        } else if (grid->as == AS_LETTERS) {
            draw_format(canvas, x, y, style, "%-3d", rank);
            draw_text(canvas, x, y + 1, STYLE_DIM, "PGO");
        } else { /* the number from top to bottom */
            draw_character(canvas, x, y, style, rank < 10 ? ' ' : (uint32_t)('0' + rank / 10 % 10));
            draw_character(canvas, x, y + 1, style, (uint32_t)('0' + rank % 10));
        }
    }
}

static void draw_slots(struct canvas canvas, int x, int y, int count, const struct unit_keep *keep,
                       const struct unit_cell *cell, int rank, int ranks)
{
    static const enum category categories[] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};
    for (enum array array = 0; array < ARRAYS; array++, x += count + 1) {
        enum slot slots[SLOTS_MAX];
        slots_fill(slots, count, array, keep, cell, rank, ranks);
        for (int i = 0; i < count; i++) draw_slot(canvas, x + i, y, slots[i], categories[array]);
    }
}

static void draw_cell(struct canvas canvas, int x, int y, const struct grid *grid, const struct unit_keep *keep,
                      const struct unit_cell *cell, int rank, int ranks)
{
    if (grid->as == AS_SLOTS) {
        draw_slots(canvas, x, y, grid->slots, keep, cell, rank, ranks);
        return;
    }
    for (enum array array = 0; array < (grid->as == AS_LETTERS ? ARRAYS : 1); array++) {
        const struct mark mark = mark_of(array, keep, cell);
        draw_character(canvas, x + (int)array, y, mark.style, (uint32_t)mark.letter);
    }
}

static struct text row_name(const struct picture *picture, int unit)
{
    const struct text name = unit_text(picture->scene->model, unit);
    const bool tied = unit == 0 && picture->units > 1 && !strcmp(name.text, "embed"); /* used by both */
    return tied ? text_of("embed,head") : name;
}

static void draw_names(struct canvas canvas, int y, int rows, int top, int chosen, const struct grid *grid,
                       const struct picture *picture)
{
    for (int unit = top; unit < picture->units && unit < top + rows; unit++)
        draw_text(canvas_part(canvas, 0, y + (unit - top) * grid->pitch, NAME_COLUMNS - 1, 1), 0, 0,
                  unit == chosen ? STYLE_FOCUS : STYLE_TEXT, row_name(picture, unit).text);
}

static void draw_grid(struct canvas canvas, int y, int rows, int top, const struct grid *grid,
                      const struct picture *picture)
{
    struct unit_cell cells[UNITS_MAX];
    for (int i = 0; i < grid->ranks; i++) {
        const int rank = grid->first + i, x = NAME_COLUMNS + i * grid->width;
        const struct progress at = progress_of(picture->scene->model, rank);
        if (at.plan != picture->at.plan || at.lost) {
            for (int unit = top; unit < picture->units && unit < top + rows; unit++)
                draw_character(canvas, x, y + (unit - top) * grid->pitch, STYLE_DIM, '?');
            continue;
        }
        cells_of(&at, cells, picture->units);
        for (int unit = top; unit < picture->units && unit < top + rows; unit++)
            for (int row = 0; row < grid->height; row++)
                draw_cell(canvas, x, y + (unit - top) * grid->pitch + row, grid, &picture->keep[unit], &cells[unit],
                          rank % picture->shards, picture->shards);
    }
}

/* ---- columns of figures, where there is room for them ---- */

static const char *parameters_words(const struct unit_keep *keep, const struct unit_cell *cell)
{
    if (cell->parameters == CELL_IN_FLIGHT) return cell->gathered ? "being gathered" : "being gathered as int8 blocks";
    if (cell->parameters == CELL_BLOCKS) return "here as int8 blocks";
    if (!keep->shards_parameters) return "whole, kept";
    if (cell->gathered) return cell->used_by >= 0 ? "gathered, in use" : "gathered, for use to come";
    if (keep->tail_elems == keep->elems) return "all of it small: kept gathered";
    return cell->let_go ? "own shard only (copy released)" : "own shard only";
}

static void draw_figures(struct canvas canvas, int y, int rows, int top, const struct grid *grid,
                         const struct picture *picture)
{
    const enum units units = picture->scene->state->units;
    draw_heads(canvas, grid->end, y - 1, {11, "elements"}, {bytes_columns(units) + 2, "P here"},
               {-32, text_of("  P on rank %d", picture->rank).text});
    for (int unit = top; unit < picture->units && unit < top + rows; unit++) {
        const struct unit_keep *keep = &picture->keep[unit];
        const struct unit_cell *cell = &picture->cells[unit];
        const int64_t bytes = keep->parameter_bytes + keep->tail_bytes + cell->gathered_bytes;
        struct pen pen = pen_at(canvas, grid->end, y + (unit - top) * grid->pitch);
        pen_right(&pen, 11, STYLE_TEXT, format_count((uint64_t)keep->elems).text);
        pen_right(&pen, bytes_columns(units) + 2, STYLE_TEXT, format_bytes(units, true, (uint64_t)bytes).text);
        pen_left(&pen, 2, STYLE_TEXT, "");
        pen_left(&pen, 30, cell->used_by >= 0 ? STYLE_STRONG : STYLE_TEXT, parameters_words(keep, cell));
    }
}

/* ---- the chosen unit and the gathers, in words ---- */

static void draw_unit_sizes(struct canvas canvas, int y, int unit, const struct picture *picture)
{
    const struct unit_keep *keep = &picture->keep[unit];
    const struct run_header *header = &picture->scene->model->header;
    const int64_t element = keep->elems && keep->parameter_bytes
                                ? keep->parameter_bytes / (keep->shards_parameters ? keep->shard_elems : keep->elems)
                                : 0;
    int x = draw_format(canvas, 1, y, STYLE_STRONG, "%s: ", row_name(picture, unit).text);
    x = draw_format(canvas, x, y, STYLE_TEXT, "%s elements, a shard is %s (%s)",
                    format_count((uint64_t)keep->elems).text, format_count((uint64_t)keep->shard_elems).text,
                    format_bytes_bare(picture->scene->state->units, (uint64_t)(keep->shard_elems * element)).text);
    if (unit < header->unit_count && header->units[unit].elems >= 0) {
        const int64_t padding = keep->elems - header->units[unit].elems;
        x = draw_format(canvas, x, y, STYLE_TEXT, padding ? ", padding %s" : ", no padding",
                        format_count((uint64_t)padding).text);
    }
    if (keep->tail_elems)
        draw_format(canvas, x, y, STYLE_TEXT, ", small %s", format_count((uint64_t)keep->tail_elems).text);
}

static void draw_unit_state(struct canvas canvas, int y, int unit, const struct picture *picture)
{
    static const char *const gradient[2][4] = {
        {"no gradient yet", "gradient written, not reduced", "gradient in flight", "gradient reduced"},
        {"no G yet", "G not reduced", "G in flight", "G reduced"}};
    static const char *const update[2][5] = {
        {"not updated yet", "being updated", "updated", "updated, refresh in flight", "updated and refreshed"},
        {"O not updated", "O updating", "O updated", "O updated, refreshing", "O updated, refreshed"}};
    const bool brief = canvas.at.columns < 100;
    const struct unit_cell *cell = &picture->cells[unit];
    int x = draw_format(canvas, 1, y, STYLE_TEXT, "on rank %d: P %s", picture->rank,
                        parameters_words(&picture->keep[unit], cell));
    if (cell->used_by >= 0)
        x = draw_format(canvas, x, y, STYLE_STRONG, " by %s",
                        op_text_in_full(picture->scene->model, picture->at.plan->number, cell->used_by).text);
    draw_format(canvas, x, y, STYLE_TEXT, "; %s; %s", gradient[brief][cell->gradient], update[brief][cell->update]);
}

/* Of the chosen unit, on all ranks together. Returns the next row. */
static int draw_quantized(struct canvas canvas, int y, int unit, const struct picture *picture)
{
    const struct run_header *header = &picture->scene->model->header;
    for (int g = 0; g < 2; g++) {
        if (!picture->quantized[g] || unit >= header->unit_count) continue;
        const struct run_quantized *of = &header->units[unit].quantized[g];
        const int x = draw_format(canvas, 1, y, STYLE_STRONG, "%s", quantized[g]);
        if (of->step) draw_format(canvas, x, y, STYLE_TEXT, ", step %u: %s", of->step, quantized_text(of).text);
        else draw_text(canvas, x, y, STYLE_DIM, ": n/a");
        y++;
    }
    return y;
}

static void draw_gathers(struct canvas canvas, int y, const struct picture *picture)
{
    const struct config_zero *knobs = &picture->at.plan->ops.knobs;
    const struct gathered sum = gathered_of(&picture->at);
    const struct run_memory *memory =
        &picture->scene->model->rank[picture->rank].tier[TIER_DEVICE].category[CATEGORY_GATHERED];
    if (picture->at.plan->stage < 3) {
        draw_text(canvas, 1, y, STYLE_TEXT, "parameters are whole on every rank: nothing is gathered for use");
        return;
    }
    int x = draw_format(canvas, 1, y, STYLE_STRONG,
                        knobs->quantized_weights ? "%d unit%s gathered, %d more in flight: "
                                                 : "%d unit%s gathered, %d of them in flight: ",
                        sum.units, plural(sum.units), sum.in_flight);
    draw_format(canvas, x, y, STYLE_TEXT, "%s elements; L now %s", format_count((uint64_t)sum.elems).text,
                memory->known ? format_bytes_bare(picture->scene->state->units, memory->live_bytes).text : "n/a");
    draw_format(canvas, 1, y + 1, STYLE_TEXT,
                canvas.at.columns < 100
                    ? "stage3_max_live_parameters %s · stage3_prefetch_bucket_size %s"
                    : "limits: %s elements (stage3_max_live_parameters) · %s ahead (stage3_prefetch_bucket_size)",
                format_count((uint64_t)knobs->max_live_parameters).text,
                format_count((uint64_t)knobs->prefetch_bucket_elems).text);
}

/* ---- the view ---- */

/* Fills *picture and draws the title. False: nothing to show, and it was said why. */
static bool has_picture(struct picture *picture, struct canvas canvas, const struct scene *scene, bool focused)
{
    if (!picture_init(picture, scene)) return draw_untold(canvas, focused, "shards"), false;
    draw_title(canvas, 0, focused, "shards: stage %d, %s%s", picture->at.plan->stage,
               moment_text(scene->model, &picture->at).text, picture->at.lost ? " (records lost)" : "");
    return true;
}

static struct text now_text(const struct run_model *model, const struct progress *at, enum lane lane)
{
    const int running = progress_running(at, lane), next = progress_next(at, lane);
    if (running >= 0) return op_text_in_full(model, at->plan->number, running);
    return next < 0 ? text_of("idle") : text_of("next: %.40s", op_text_in_full(model, at->plan->number, next).text);
}

static void draw_rank_row(struct canvas canvas, int y, int rank, bool chosen, const struct scene *scene,
                          const struct run_schedule *plan)
{
    const struct progress at = progress_of(scene->model, rank);
    const struct run_memory *memory = scene->model->rank[rank].tier[TIER_DEVICE].category;
    const enum units units = scene->state->units;
    struct pen pen = pen_at(canvas, 1, y);
    pen_format(&pen, 4, chosen ? STYLE_FOCUS : STYLE_TEXT, "%d", rank);
    pen_left(&pen, 20, STYLE_TEXT,
             text_of("  %s", at.plan == plan ? now_text(scene->model, &at, LANE_COMPUTE).text : "n/a").text);
    pen_left(&pen, 24, STYLE_TEXT, at.plan == plan ? now_text(scene->model, &at, LANE_COMM).text : "n/a");
    static const enum category categories[] = {CATEGORY_GATHERED, CATEGORY_BUCKETS};
    for (int i = 0; i < 2; i++) {
        const struct run_memory *of = &memory[categories[i]];
        pen_right(&pen, bytes_columns(units) + 2, STYLE_TEXT, format_bytes(units, of->known, of->live_bytes).text);
    }
    const struct gathered sum = at.plan == plan ? gathered_of(&at) : (struct gathered){0};
    pen_format(&pen, 10, STYLE_TEXT, "%d", sum.units);
    pen_format(&pen, 11, STYLE_TEXT, "%d", sum.in_flight);
}

/* A row for each rank: what runs on its lanes, and what it holds of others; as many as there is room for, around the chosen one. */
static void shard_ranks_draw(struct canvas canvas, const struct scene *scene, const struct run_schedule *plan,
                             int chosen)
{
    const int bytes = bytes_columns(scene->state->units) + 2, rows = canvas.at.rows - 2;
    const int top = list_top(chosen, scene->model->ranks, rows);
    if (rows < 2) return;
    draw_title(canvas, 0, false, "ranks: what runs on their lanes, and what they hold of others");
    draw_heads(canvas, 1, 1, {4, "rank"}, {-2, ""}, {-18, "compute"}, {-24, "communication"}, {bytes, "L now"},
               {bytes, "B now"}, {10, "gathered"}, {11, "in flight"});
    for (int i = 0; i < rows && top + i < scene->model->ranks; i++)
        draw_rank_row(canvas, 2 + i, top + i, top + i == chosen, scene, plan);
}

/* Units that have room are as tall as they can be. */
static void raise_rows(struct grid *grid, int rows, int units)
{
    grid->pitch = grid->as != AS_SLOTS || rows < 3 * units ? 1 : rows > PITCH_MAX * units ? PITCH_MAX : rows / units;
    grid->height = grid->pitch > 1 ? grid->pitch - 1 : 1;
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct picture picture;
    if (!has_picture(&picture, canvas, scene, false)) return;
    struct grid grid = grid_of(canvas.at.columns, &picture);
    const int chosen = list_kept(scene->state->row[VIEW_SHARDS], picture.units);
    const int detail = DETAIL_ROWS + picture.quantized[0] + picture.quantized[1];
    int rows = canvas.at.rows - HEAD_ROWS - detail - LEGEND_ROWS;
    raise_rows(&grid, rows - 4 - picture.ranks, picture.units); /* four: head and edges of the table of ranks */
    if (rows > picture.units) rows = picture.units;
    const int top = list_top(chosen, picture.units, rows);
    draw_head(canvas, 1, &grid, &picture);
    draw_names(canvas, HEAD_ROWS, rows, top, chosen, &grid, &picture);
    draw_grid(canvas, HEAD_ROWS, rows, top, &grid, &picture);
    if (canvas.at.columns - grid.end >= FIGURES_COLUMNS) draw_figures(canvas, HEAD_ROWS, rows, top, &grid, &picture);
    int y = HEAD_ROWS + rows * grid.pitch + (grid.pitch == 1);
    draw_unit_sizes(canvas, y, chosen, &picture);
    draw_unit_state(canvas, y + 1, chosen, &picture);
    draw_gathers(canvas, draw_quantized(canvas, y + 2, chosen, &picture), &picture);
    rows = canvas.at.rows - LEGEND_ROWS - 1 - (y + detail);
    shard_ranks_draw(canvas_part(canvas, 0, y + detail, canvas.at.columns, rows), scene, picture.at.plan, picture.rank);
    y = canvas.at.rows - LEGEND_ROWS;
    if (grid.as == AS_SLOTS) draw_slot_legend(canvas, y);
    else draw_letter_legend(canvas, y, grid.as == AS_LETTERS);
}

static void draw_pane(struct canvas canvas, const struct scene *scene, bool focused)
{
    struct picture picture;
    if (!has_picture(&picture, canvas, scene, focused)) return;
    const struct grid grid = grid_of(canvas.at.columns, &picture);
    const int rows = canvas.at.rows - HEAD_ROWS, chosen = list_kept(scene->state->row[VIEW_SHARDS], picture.units);
    const int top = list_top(chosen, picture.units, rows);
    draw_head(canvas, 1, &grid, &picture);
    draw_names(canvas, HEAD_ROWS, rows, top, -1, &grid, &picture);
    draw_grid(canvas, HEAD_ROWS, rows, top, &grid, &picture);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct picture picture;
    if (rank_act(state, scene, key)) return true;
    return list_act(&state->row[VIEW_SHARDS], picture_init(&picture, scene) ? picture.units : 0, key);
}

const struct view view_shards = {"shards",          "shards",          {ACTION_DOWN, ACTION_UP, ACTION_NEXT_RANK},
                                 .draw = draw_view, .pane = draw_pane, .act = act};
