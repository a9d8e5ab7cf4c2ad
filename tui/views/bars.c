/* Memory of each rank's device tier as a bar by category, against one scale for all ranks: the budget where there is one
 * and it is near enough to be seen, else the most that was ever held or planned; so that a switch of stage changes the
 * bars and not the scale. Where they do not fit one below the other they stand in columns; where that is too narrow, there
 * is one bar for the fullest rank, then heat rows, one column for each rank. */
#include <stdio.h>

#include "tui/views/parts.h"

enum { BAR_ROWS_MAX = 8, BAR_COLUMNS_MIN = 38, HEAT_ROWS = 6 };

static const struct category_look looks[CATEGORIES + 1] = {
    [CATEGORY_PARAMETERS] = {'P', 0x2588, STYLE_PARAMETERS, "parameters", "param"},
    [CATEGORY_GRADIENTS] = {'G', 0x2593, STYLE_GRADIENTS, "gradients", "grad"},
    [CATEGORY_OPTIMIZER] = {'O', 0x2592, STYLE_OPTIMIZER, "optimizer", "optim"},
    [CATEGORY_ACTIVATIONS] = {'A', 0x2591, STYLE_ACTIVATIONS, "activations", "activ"},
    [CATEGORY_BUCKETS] = {'B', 0x25a0, STYLE_BUCKETS, "buckets", "bucket"},
    [CATEGORY_GATHERED] = {'L', 0x256c, STYLE_GATHERED, "gathered", "gather"},
    [CATEGORY_STAGING] = {'S', 0x2550, STYLE_STAGING, "staging", "stage"},
    [CATEGORY_WORKSPACE] = {'W', 0x2591, STYLE_WORKSPACE, "workspace", "work"},
    [CATEGORY_SECONDARY] = {'H', 0x2261, STYLE_SECONDARY, "secondary", "second"},
    [CATEGORIES] = {'F', 0x00b7, STYLE_FREE, "reserved, free", "free"},
};

const struct category_look *category_look(int category)
{
    return &looks[category];
}

static const struct run_instant *instant_of(const struct run_rank *rank, const struct view_state *state)
{
    const struct run_tier *tier = &rank->tier[TIER_DEVICE];
    return state->bars_now || !tier->step_peak.known ? &tier->now : &tier->step_peak;
}

int fullest_rank(const struct run_model *model, enum tier tier)
{
    int best = -1;
    uint64_t most = 0;
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_tier *at = &model->rank[rank].tier[tier];
        uint64_t bytes = at->step_peak.known ? at->step_peak.live_bytes : at->now.live_bytes;
        if (!at->now.known || (best >= 0 && bytes <= most)) continue;
        best = rank;
        most = bytes;
    }
    return best;
}

struct memory_scale memory_scale(const struct run_model *model)
{
    struct memory_scale scale = {0};
    scale.has_planned = run_predicted_peak(model, TIER_DEVICE, &scale.planned);
    for (int i = 0; i < model->schedule_count; i++)
        if (model->schedules[i].tier[TIER_DEVICE].peak_bytes > scale.full)
            scale.full = model->schedules[i].tier[TIER_DEVICE].peak_bytes;
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_tier *tier = &model->rank[rank].tier[TIER_DEVICE];
        if (tier->highest_bytes > scale.full) scale.full = tier->highest_bytes;
        if (tier->now.reserved_bytes > scale.full) scale.full = tier->now.reserved_bytes;
        if (tier->has_budget && tier->budget_bytes > scale.budget) scale.budget = tier->budget_bytes;
    }
    scale.is_budget = scale.budget && scale.budget <= 4 * scale.full;
    if (scale.is_budget) scale.full = scale.budget;
    return scale;
}

static int fill_segments(struct segment segments[], const struct run_instant *instant)
{
    for (int i = 0; i <= CATEGORIES; i++)
        segments[i] = (struct segment){i < CATEGORIES ? instant->held_bytes[i] : 0, looks[i].letter, looks[i].pattern,
                                       looks[i].style};
    if (instant->reserved_bytes > instant->live_bytes)
        segments[CATEGORIES].value = instant->reserved_bytes - instant->live_bytes;
    return CATEGORIES + 1;
}

static void draw_mark(struct canvas canvas, int x, int y, int columns, const struct memory_scale *scale)
{
    if (!scale->has_planned || !scale->full) return;
    int at = (int)((double)scale->planned / (double)scale->full * columns);
    draw_over(canvas, x + (at < columns ? at : columns - 1), y, STYLE_PLANNED, at <= columns ? 0x2503 : '>');
}

static void draw_rank(struct canvas canvas, int y, int rank, const struct scene *scene,
                      const struct memory_scale *scale)
{
    const struct run_instant *instant = instant_of(&scene->model->rank[rank], scene->state);
    struct segment segments[SEGMENTS_MAX];
    char text[FORMAT_ROOM];
    int bytes = bytes_columns(scene->state->units), x = 5, end = canvas.at.columns - bytes - 3;
    draw_format(canvas, 0, y, STYLE_TEXT, "%4d", rank);
    draw_character(canvas, x, y, STYLE_FRAME, '[');
    draw_character(canvas, end, y, STYLE_FRAME, ']');
    if (instant->known)
        draw_bar(canvas, x + 1, y, end - x - 1, segments, fill_segments(segments, instant), scale->full);
    draw_mark(canvas, x + 1, y, end - x - 1, scale);
    bool over = scale->budget && instant->live_bytes > scale->budget;
    draw_right(canvas, canvas.at.columns - 1, y, over ? STYLE_BAD : STYLE_STRONG,
               format_bytes(text, scene->state->units, instant->known, instant->live_bytes));
}

/* Column `column` of `columns` stands for ranks [first, end): the fullest of them is shown. */
static uint64_t column_bytes(const struct scene *scene, int column, int columns, int category)
{
    int ranks = scene->model->ranks;
    int first = (int)((int64_t)column * ranks / columns), end = (int)((int64_t)(column + 1) * ranks / columns);
    uint64_t most = 0;
    for (int rank = first; rank < end || rank == first; rank++) {
        const struct run_instant *instant = instant_of(&scene->model->rank[rank], scene->state);
        uint64_t bytes = category == CATEGORIES ? instant->live_bytes : instant->held_bytes[category];
        if (bytes > most) most = bytes;
    }
    return most;
}

static void draw_heat_row(struct canvas canvas, int y, int category, const struct scene *scene)
{
    int room = canvas.at.columns - bytes_columns(scene->state->units) - 14;
    int columns = scene->model->ranks < room ? scene->model->ranks : room;
    uint64_t most = 0;
    char text[FORMAT_ROOM];
    for (int i = 0; i < columns; i++) {
        uint64_t bytes = column_bytes(scene, i, columns, category);
        if (bytes > most) most = bytes;
    }
    const struct category_look *look = &looks[category];
    if (category == CATEGORIES) draw_text(canvas, 1, y, STYLE_STRONG, "all");
    else draw_character(canvas, 1, y, look->style, (uint32_t)look->letter);
    draw_text(canvas, 5, y, STYLE_TEXT, category == CATEGORIES ? "" : look->brief);
    for (int i = 0; i < columns; i++)
        draw_heat(canvas, 12 + i, y, STYLE_HEAT, column_bytes(scene, i, columns, category), most);
    draw_right(canvas, canvas.at.columns - 1, y, STYLE_TEXT, format_bytes(text, scene->state->units, true, most));
}

static bool category_is_used(const struct run_model *model, int category)
{
    for (int rank = 0; rank < model->ranks; rank++)
        if (model->rank[rank].tier[TIER_DEVICE].category[category].peak_bytes) return true;
    return false;
}

bool category_is_shown(const struct run_model *model, int category)
{
    return (category != CATEGORY_STAGING && category != CATEGORY_SECONDARY) || category_is_used(model, category);
}

static void draw_heat_rows(struct canvas canvas, int y, int end, const struct scene *scene)
{
    if (y < end) draw_heat_row(canvas, y++, CATEGORIES, scene);
    for (int category = 0; category < CATEGORIES && y < end; category++)
        if (category_is_used(scene->model, category)) draw_heat_row(canvas, y++, category, scene);
}

/* Names in full where they fit, else short ones; staging and secondary only where they are used. */
static void draw_legend(struct canvas canvas, int y, const struct scene *scene, const struct memory_scale *scale)
{
    bool brief = canvas.at.columns < 110;
    int x = 1;
    for (int i = 0; i <= CATEGORIES; i++) {
        if (i < CATEGORIES && !category_is_shown(scene->model, i)) continue;
        draw_character(canvas, x, y, looks[i].style, (uint32_t)looks[i].letter);
        x = draw_text(canvas, x + 2, y, STYLE_TEXT, brief ? looks[i].brief : looks[i].name) + 2;
    }
    if (!scale->has_planned) return;
    draw_character(canvas, x, y, STYLE_PLANNED, 0x2503);
    draw_text(canvas, x + 2, y, STYLE_TEXT, brief ? "plan" : "planned peak");
}

/* As much of the title as fits beside the note. */
static void write_bars_title(char *title, size_t room, int columns, const struct scene *scene)
{
    const struct run_step *step = run_last_step_here(scene->model);
    if (scene->state->bars_now || !step) snprintf(title, room, "device memory now");
    else if (snprintf(title, room, "device memory, fullest instant of step %u", step->step) > columns)
        snprintf(title, room, "device memory, step %u", step->step);
}

static void draw_bars_title(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale)
{
    char text[FORMAT_ROOM], title[80], note[96];
    int at = 0;
    if (scale->has_planned)
        at = snprintf(note, sizeof note, " plan %s ·", format_bytes_bare(text, scene->state->units, scale->planned));
    if (scale->budget)
        snprintf(note + at, sizeof note - (size_t)at, " budget %s ",
                 format_bytes_bare(text, scene->state->units, scale->budget));
    else snprintf(note + at, sizeof note - (size_t)at, " no budget ");
    write_bars_title(title, sizeof title, canvas.at.columns - utf8_columns(note) - 5, scene);
    draw_title(canvas, 0, false, title);
    draw_right(canvas, canvas.at.columns - 1, 0, STYLE_TEXT, note);
}

int bars_rows(const struct run_model *model, int columns, int rows)
{
    int inner = rows - 2 < BAR_ROWS_MAX ? rows - 2 : BAR_ROWS_MAX, across = columns / BAR_COLUMNS_MIN;
    if (model->ranks > inner * across) return 2 + (inner < 1 + HEAT_ROWS ? inner : 1 + HEAT_ROWS);
    if (model->ranks <= inner) return 2 + (model->ranks > 1 ? model->ranks : 1);
    int stacks = (model->ranks + inner - 1) / inner;
    return 2 + (model->ranks + stacks - 1) / stacks;
}

/* Ranks from top to bottom, then in the next column. False: too narrow. */
static bool draw_ranks(struct canvas canvas, const struct scene *scene, const struct memory_scale *scale)
{
    int rows = canvas.at.rows - 2, ranks = scene->model->ranks;
    int stacks = rows > 0 ? (ranks + rows - 1) / rows : ranks;
    if (rows < 1 || canvas.at.columns / stacks < BAR_COLUMNS_MIN) return false;
    int columns = canvas.at.columns / stacks;
    for (int rank = 0; rank < ranks; rank++) {
        int x = rank / rows * columns, last = rank / rows == stacks - 1;
        draw_rank(canvas_part(canvas, x, 1, last ? canvas.at.columns - x : columns, rows), rank % rows, rank, scene,
                  scale);
    }
    return true;
}

void bars_draw(struct canvas canvas, const struct scene *scene)
{
    const struct run_model *model = scene->model;
    struct memory_scale scale = memory_scale(model);
    int end = canvas.at.rows - 1;
    draw_bars_title(canvas, scene, &scale);
    int fullest = fullest_rank(model, TIER_DEVICE);
    if (fullest < 0) draw_text(canvas, 1, 1, STYLE_DIM, "not known yet: no memory record has come");
    else if (!draw_ranks(canvas, scene, &scale)) {
        draw_rank(canvas, 1, fullest, scene, &scale);
        draw_heat_rows(canvas, 2, end, scene);
    }
    draw_legend(canvas, end, scene, &scale);
}
