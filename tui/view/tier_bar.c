#include "tui/view/tier_bar.h"

#include "engine/observe/flows.h"

const char *tiers_name(enum tier tier)
{
    static const char *const names[TIERS] = {"device", "host", "NVMe"};
    return names[tier];
}

static const struct category_look looks[LOOKS] = {
    [CATEGORY_PARAMETERS] = {'P', 0x2588, STYLE_PARAMETERS, "parameters", "param"},
    [CATEGORY_GRADIENTS] = {'G', 0x2593, STYLE_GRADIENTS, "gradients", "grad"},
    [CATEGORY_OPTIMIZER] = {'O', 0x2592, STYLE_OPTIMIZER, "optimizer", "optim"},
    [CATEGORY_ACTIVATIONS] = {'A', 0x2591, STYLE_ACTIVATIONS, "activations", "activ"},
    [CATEGORY_BUCKETS] = {'B', 0x25a0, STYLE_BUCKETS, "buckets", "bucket"},
    [CATEGORY_GATHERED] = {'L', 0x256c, STYLE_GATHERED, "gathered", "gather"},
    [CATEGORY_STAGING] = {'S', 0x2550, STYLE_STAGING, "staging", "stag."},
    [CATEGORY_WORKSPACE] = {'W', 0x2591, STYLE_WORKSPACE, "workspace", "work"},
    [CATEGORY_SECONDARY] = {'H', 0x25a4, STYLE_SECONDARY, "secondary", "second"},
    [LOOK_FREE] = {'.', 0x00b7, STYLE_FREE, "reserved, free", "free"},
    [LOOK_UNATTRIBUTED] = {'?', '?', STYLE_UNATTRIBUTED, "unattributed", "other"},
};

const struct category_look *category_look(int category)
{
    return &looks[category];
}

void draw_category(struct canvas canvas, int x, int y, int look)
{
    const struct category_look *of = category_look(look);
    draw_bar(canvas, x, y, 1, &(struct segment){1, of->letter, of->pattern, of->style}, 1, 1);
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

bool category_is_used(const struct run_model *model, enum tier tier, int category)
{
    for (int rank = 0; rank < model->ranks; rank++)
        if (model->rank[rank].tier[tier].category[category].peak_bytes) return true;
    return false;
}

bool category_is_shown(const struct run_model *model, int category)
{
    return (category != CATEGORY_STAGING && category != CATEGORY_SECONDARY) ||
           category_is_used(model, TIER_DEVICE, category);
}

const struct run_instant *instant_shown(const struct run_tier *tier, const struct view_state *state)
{
    return state->bars_now || !tier->step_peak.known ? &tier->now : &tier->step_peak;
}

struct text instant_step(const struct scene *scene)
{
    const uint32_t step = run_peak_step(scene->model);
    if (scene->state->bars_now || !run_last_step_here(scene->model)) return (struct text){""};
    if (!step || shown_moves(scene)) return text_of("the last whole step");
    /* After a switch the plan beside it is of another stage. */
    const struct run_step *of = run_step_numbered(scene->model, step);
    const struct run_schedule *plan = run_training(scene->model);
    if (of && plan && of->stage != RUN_UNKNOWN && of->stage != plan->stage)
        return text_of("step %u, at stage %d", step, of->stage);
    return text_of("step %u", step);
}

struct memory_scale memory_scale(const struct run_model *model, enum tier which)
{
    struct memory_scale scale = {.used = tier_is_used(model, which)};
    scale.has_planned = run_predicted_peak(model, which, &scale.planned);
    for (int i = 0; i < model->schedule_count; i++)
        if (model->schedules[i].tier[which].peak_bytes > scale.full)
            scale.full = model->schedules[i].tier[which].peak_bytes;
    for (int rank = 0; rank < model->ranks; rank++) {
        const struct run_tier *tier = &model->rank[rank].tier[which];
        if (tier->highest_bytes > scale.full) scale.full = tier->highest_bytes;
        if (tier->now.reserved_bytes > scale.full) scale.full = tier->now.reserved_bytes;
        if (tier->has_budget && tier->budget_bytes > scale.budget) scale.budget = tier->budget_bytes;
    }
    scale.is_budget = scale.budget && scale.budget <= 4 * scale.full;
    if (scale.is_budget) scale.full = scale.budget;
    return scale;
}

void memory_scales(struct memory_scale out[TIERS], const struct run_model *model)
{
    for (enum tier tier = 0; tier < TIERS; tier++) out[tier] = memory_scale(model, tier);
}

uint64_t unattributed_bytes(const struct run_instant *instant)
{
    uint64_t bytes = instant->live_bytes;
    for (int i = 0; i < CATEGORIES; i++) bytes -= instant->held_bytes[i];
    return bytes;
}

/* Free memory stands last, behind all that is held. */
static int fill_segments(struct segment segments[], const struct run_instant *instant)
{
    const bool has_free = instant->reserved_bytes > instant->live_bytes;
    for (int i = 0; i < LOOKS; i++) {
        const int what = i < CATEGORIES ? i : i == CATEGORIES ? LOOK_UNATTRIBUTED : LOOK_FREE;
        const struct category_look *look = category_look(what);
        const uint64_t bytes = i < CATEGORIES              ? instant->held_bytes[i]
                               : what == LOOK_UNATTRIBUTED ? unattributed_bytes(instant)
                               : has_free                  ? instant->reserved_bytes - instant->live_bytes
                                                           : 0;
        segments[i] = (struct segment){bytes, look->letter, look->pattern, look->style};
    }
    return LOOKS;
}

/* Not left of what is held while that is within the plan: each category has a column at least. */
static void draw_mark(struct canvas canvas, int x, int y, int columns, const struct memory_scale *scale, int end)
{
    if (!scale->has_planned || !scale->full) return;
    int at = (int)((double)scale->planned / (double)scale->full * columns);
    if (at < end) at = end;
    draw_over(canvas, x + smaller(at, columns - 1), y, STYLE_PLANNED, at <= columns ? 0x2503 : '>');
}

void tier_bar_alone(struct canvas canvas, struct rect at, int rank, enum tier which, const struct scene *scene,
                    const struct memory_scale *scale)
{
    const struct run_instant *instant = instant_shown(&scene->model->rank[rank].tier[which], scene->state);
    const int inner = at.columns - 2;
    struct segment segments[SEGMENTS_MAX];
    draw_character(canvas, at.x, at.y, STYLE_FRAME, '[');
    draw_character(canvas, at.x + at.columns - 1, at.y, STYLE_FRAME, ']');
    int end = 0;
    if (instant->known && scale->used) {
        int shares[SEGMENTS_MAX];
        const int count = fill_segments(segments, instant);
        draw_bar(canvas, at.x + 1, at.y, inner, segments, count, scale->full);
        bar_shares(shares, segments, count, scale->full, inner);
        for (int i = 0; i < count - 1 && instant->live_bytes <= scale->planned; i++)
            end += shares[i]; /* not what is free */
    }
    if (scale->used) draw_mark(canvas, at.x + 1, at.y, inner, scale, end);
}

void tier_bar_draw(struct canvas canvas, struct rect at, int rank, enum tier which, const struct scene *scene,
                   const struct memory_scale *scale)
{
    enum { BAR_LEAST = 8 };
    const struct run_tier *tier = &scene->model->rank[rank].tier[which];
    const struct run_instant *instant = instant_shown(tier, scene->state);
    const int end = at.x + at.columns, bytes = bytes_columns(scene->state->units);
    const bool over = tier->has_budget && tier->budget_bytes && instant->live_bytes > tier->budget_bytes;
    const struct rect bar = {at.x, at.y, at.columns - bytes - 1, 1};
    if (bar.columns >= BAR_LEAST) tier_bar_alone(canvas, bar, rank, which, scene, scale);
    if (!scale->used) draw_right(canvas, end, at.y, STYLE_DIM, "-");
    else
        draw_right(canvas, end, at.y, over ? STYLE_BAD : STYLE_STRONG,
                   format_bytes(scene->state->units, instant->known, instant->live_bytes).text);
}

const struct bucket_look bucket_looks[BUCKET_STATES] = {
    [BUCKET_EMPTY] = {'.', STYLE_DIM, 0x00b7, "to come"},
    [BUCKET_FILLING] = {'-', STYLE_TEXT, 'B', "filling"},
    [BUCKET_FULL] = {'+', STYLE_STRONG, 'B', "complete"},
    [BUCKET_IN_FLIGHT] = {'>', STYLE_SPARK, 0x2593, "in flight"},
    [BUCKET_FLUSHED] = {'=', STYLE_DIM, 0x2591, "flushed"},
    [BUCKET_DROPPED] = {'!', STYLE_WARN, 0x00b7, "dropped"},
};

/* Letters differ where shades cannot be drawn. */
void bucket_draw_cell(struct canvas canvas, int x, int y, enum bucket_state state)
{
    const struct bucket_look *look = &bucket_looks[state];
    draw_character(canvas, x, y, look->style,
                   canvas.surface->ascii && look->cell != 'B' ? (uint32_t)look->letter : look->cell);
}

void bucket_draw_legend(struct canvas canvas, int y)
{
    enum { ROOMY = 110 };
    int x = canvas.at.columns < ROOMY ? 1 : draw_text(canvas, 1, y, STYLE_DIM, "state of a rank, sign in the bar: ");
    for (enum bucket_state state = 0; state < BUCKET_DROPPED; state++) {
        const struct bucket_look *look = &bucket_looks[state];
        draw_character(canvas, x, y, look->style, (uint32_t)look->letter);
        bucket_draw_cell(canvas, x + 2, y, state);
        x = draw_text(canvas, x + 4, y, STYLE_TEXT, look->name) + 2;
    }
    draw_text(canvas, x, y, STYLE_TEXT, "! dropped");
    if (canvas.at.columns < ROOMY && y + 1 < canvas.at.rows)
        draw_text(canvas, 1, y + 1, STYLE_DIM, "(left: state of a rank; right: sign in the bar)");
}
