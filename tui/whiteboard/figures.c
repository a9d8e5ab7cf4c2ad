/* Above the tiles: bytes per parameter, measured and by the formula; and the head of each column. */
#include <string.h>

#include "engine/base/words.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

bool board_held(const struct run_rank *rank, enum category category, uint64_t *bytes)
{
    bool known = false;
    *bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) {
        const struct run_memory *memory = &rank->tier[tier].category[category];
        known |= memory->known;
        if (memory->known) *bytes += memory->live_bytes;
    }
    return known;
}

/* "16", "4 + 12/4": bytes a parameter by the layout. Returns the value. */
static double write_formula(struct text *out, const struct board *board)
{
    int whole = 0, sharded = 0;
    const int ranks = board->shards;
    for (int array = 0; array < BOARD_ARRAYS; array++)
        *(board->sharded[array] ? &sharded : &whole) += board->width[array];
    if (!sharded) *out = text_of("%d", whole);
    else *out = whole ? text_of("%d + %d/%d", whole, sharded, ranks) : text_of("%d/%d", sharded, ranks);
    return whole + (double)sharded / ranks;
}

/* "host ", "device+host "; nothing of an array that is on the device. */
static int draw_tiers(struct canvas canvas, int x, int y, unsigned tiers)
{
    const char *sign = "";
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (!(tiers >> tier & 1) || tiers == 1u << TIER_DEVICE) continue;
        x = draw_format(canvas, x, y, STYLE_TEXT, "%s%s", sign, tiers_name(tier));
        sign = "+";
    }
    return *sign ? x + 1 : x;
}

/* Measured bytes a parameter, against those of a rank that shards nothing, and the formula. */
void board_figures(struct canvas canvas, int y, const struct board *board)
{
    const struct run_rank *rank = &board->scene->model->rank[board->rank];
    const double parameters = (double)board->scene->model->header.parameters;
    const int all = board->width[0] + board->width[1] + board->width[2];
    double sum = 0;
    bool all_known = true;
    struct text formula;
    uint64_t bytes = 0;
    int x = 1;
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        const bool known = parameters > 0 && board_held(rank, board_categories[array], &bytes);
        x = draw_format(canvas, x, y, STYLE_STRONG, "%c ", category_look((int)board_categories[array])->letter);
        x = known ? draw_format(canvas, x, y, STYLE_TEXT, "%.2f ", (double)bytes / parameters)
                  : draw_text(canvas, x, y, STYLE_TEXT, "n/a ");
        x = draw_tiers(canvas, x, y, board->tiers[array]);
        if (known) sum += (double)bytes / parameters;
        all_known &= known;
    }
    const double planned = write_formula(&formula, board);
    if (all_known) x = draw_format(canvas, x, y, STYLE_STRONG, "= %.2f of %d bytes a parameter", sum, all);
    static const enum category passing[] = {CATEGORY_GATHERED, CATEGORY_SECONDARY, CATEGORY_BUCKETS,
                                            CATEGORY_ACTIVATIONS};
    uint64_t all_passing = 0;
    struct text letters = {""}, one_by_one = {""};
    for (size_t i = 0; i < sizeof passing / sizeof *passing && !board->calm && parameters > 0; i++) {
        if (!board_held(rank, passing[i], &bytes) || bytes == 0) continue;
        const char letter = category_look((int)passing[i])->letter;
        text_add(&one_by_one, " + %c %.2f", letter, (double)bytes / parameters);
        text_add(&letters, "%s%c", *letters.text ? "+" : "", letter);
        all_passing += bytes;
    }
    const struct text together =
        all_passing ? text_of(" + %s %.2f", letters.text, (double)all_passing / parameters) : NO_TEXT;
    const struct text brief = text_of(" (%s)", formula.text);
    const struct text whole =
        text_of(strchr(formula.text, '/') ? " (%s ranks = %.2f)" : " (%s)", formula.text, planned);
    const struct text ways[] = {text_of("%s%s", whole.text, one_by_one.text),
                                text_of("%s%s", whole.text, together.text),
                                text_of("%s%s", brief.text, together.text),
                                brief,
                                {""}};
    const struct text *way = ways;
    while (x + utf8_columns(way->text) > canvas.at.columns && *way->text) way++; /* the longest that fits whole */
    draw_text(canvas, x, y, STYLE_TEXT, way->text);
}

/* "ranks 4-7 ×4", or less of it where `room` columns are less. */
static struct text group_text(int room, const struct board_rank *of)
{
    static const char *const forms[] = {"ranks %d-%d ×%d", "%d-%d ×%d", "%d-%d"};
    struct text out = {""};
    for (size_t form = 0; form < sizeof forms / sizeof *forms && (!form || utf8_columns(out.text) > room); form++)
        out = text_of(forms[form], of->group.first, of->group.first + of->group.count - 1, of->members);
    return out;
}

/* "rank 2"; of a replica "rank 2 = 0", with the first rank that holds the same shards, or less of it. */
static struct text rank_text(int room, int rank, const struct board *board)
{
    const struct text out = text_of(rank < board->shards ? "rank %d" : "rank %d = %d", rank, rank % board->shards);
    const bool fits = rank < board->shards || utf8_columns(out.text) <= room;
    return fits ? out : text_of("%d=%d", rank, rank % board->shards);
}

/* "device 4.822 MiB", or less of it in few columns. */
static struct text held_text(int room, const struct run_instant *now, const struct board_rank *of, const struct board *board)
{
    static const char *const forms[] = {"device %s%s", "dev %s%s", "%s%s"};
    const struct text bytes = format_bytes(board->scene->state->units, now->known, now->live_bytes);
    struct text out = {""};
    for (size_t form = 0; form < sizeof forms / sizeof *forms && (!form || utf8_columns(out.text) > room); form++)
        out = text_of(forms[form], bytes.text, of->unequal ? "≠" : "");
    return out;
}

/* The rank or the group, and bytes on the device now: of the group's largest. */
void board_head(struct canvas canvas, int y, const struct board_rank *of, const struct board *board)
{
    const struct run_instant *now = board_instant(board, of->rank);
    const bool alone = of->group.count == 1;
    const int end = of->x + (board->tile > board->column - 1 || !alone ? board->column - 1 : board->tile);
    const int least = utf8_columns(held_text(0, now, of, board).text), room = end - of->x - least - 1;
    const struct text name = alone ? rank_text(room, of->rank, board) : group_text(room, of);
    const int after = draw_text(canvas, of->x, y, of->rank == board->rank ? STYLE_FOCUS : STYLE_TEXT, name.text);
    if (end - after >= least) draw_right(canvas, end, y, STYLE_DIM, held_text(end - after - 1, now, of, board).text);
    if (board->column - board->tile > 11 && alone)
        draw_right(canvas, of->x + board->column - 1, y, STYLE_DIM, "│ plan PGO");
}
