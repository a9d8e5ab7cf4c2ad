/* Above the tiles: bytes a parameter, measured and by the formula; the head of each column. */
#include <stdio.h>
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
static double write_formula(char out[48], const struct board *board)
{
    int whole = 0, sharded = 0;
    const int ranks = board->shards;
    for (int array = 0; array < BOARD_ARRAYS; array++)
        *(board->sharded[array] ? &sharded : &whole) += board->width[array];
    if (!sharded) snprintf(out, 48, "%d", whole);
    else if (!whole) snprintf(out, 48, "%d/%d", sharded, ranks);
    else snprintf(out, 48, "%d + %d/%d", whole, sharded, ranks);
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
    char formula[48];
    uint64_t bytes = 0;
    int x = 1;
    for (int array = 0; array < BOARD_ARRAYS; array++) {
        const struct category_look *look = category_look((int)board_categories[array]);
        const bool known = parameters > 0 && board_held(rank, board_categories[array], &bytes);
        x = draw_format(canvas, x, y, STYLE_STRONG, "%c ", look->letter);
        x = known ? draw_format(canvas, x, y, STYLE_TEXT, "%.2f ", (double)bytes / parameters)
                  : draw_text(canvas, x, y, STYLE_TEXT, "n/a ");
        x = draw_tiers(canvas, x, y, board->tiers[array]);
        if (known) sum += (double)bytes / parameters;
        all_known &= known;
    }
    const double planned = write_formula(formula, board);
    if (all_known) x = draw_format(canvas, x, y, STYLE_STRONG, "= %.2f of %d bytes a parameter", sum, all);
    static const enum category passing[] = {CATEGORY_GATHERED, CATEGORY_SECONDARY, CATEGORY_BUCKETS,
                                            CATEGORY_ACTIVATIONS};
    uint64_t all_passing = 0;
    char letters[8] = "", one_by_one[64] = "";
    for (size_t i = 0; i < sizeof passing / sizeof *passing && !board->calm && parameters > 0; i++) {
        if (!board_held(rank, passing[i], &bytes) || bytes == 0) continue;
        const char letter = category_look((int)passing[i])->letter;
        text_append(one_by_one, sizeof one_by_one, " + %c %.2f", letter, (double)bytes / parameters);
        text_append(letters, sizeof letters, "%s%c", *letters ? "+" : "", letter);
        all_passing += bytes;
    }
    char ways[5][128], *way = ways[0], whole[64], brief[64], together[64] = "";
    if (all_passing) snprintf(together, sizeof together, " + %s %.2f", letters, (double)all_passing / parameters);
    snprintf(brief, sizeof brief, " (%s)", formula);
    snprintf(whole, sizeof whole, strchr(formula, '/') ? " (%s ranks = %.2f)" : " (%s)", formula, planned);
    snprintf(ways[0], sizeof *ways, "%s%s", whole, one_by_one);
    snprintf(ways[1], sizeof *ways, "%s%s", whole, together);
    snprintf(ways[2], sizeof *ways, "%s%s", brief, together);
    snprintf(ways[3], sizeof *ways, "%s", brief);
    ways[4][0] = '\0';
    while (x + utf8_columns(way) > canvas.at.columns && *way) way += sizeof *ways; /* the longest that fits whole */
    draw_text(canvas, x, y, STYLE_TEXT, way);
}

/* "ranks 4-7 ×4", or less of it where `room` columns are less. */
static void write_group(char out[48], int room, const struct board_rank *of)
{
    static const char *const forms[] = {"ranks %d-%d ×%d", "%d-%d ×%d", "%d-%d"};
    for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
        snprintf(out, 48, forms[form], of->group.first, of->group.first + of->group.count - 1, of->members);
        if (utf8_columns(out) <= room) return;
    }
}

/* "rank 2"; of a replica "rank 2 = 0", with the first rank that holds the same shards, or less of it. */
static void write_rank(char out[48], int room, int rank, const struct board *board)
{
    static const char *const forms[] = {"rank %d = %d", "%d=%d"};
    snprintf(out, 48, "rank %d", rank);
    for (size_t form = 0; rank >= board->shards && form < sizeof forms / sizeof *forms; form++) {
        snprintf(out, 48, forms[form], rank, rank % board->shards);
        if (utf8_columns(out) <= room) return;
    }
}

/* The rank or the group, and bytes on the device now: of the group's largest. */
void board_head(struct canvas canvas, int y, const struct board_rank *of, const struct board *board)
{
    const struct run_instant *now = board_instant(board, of->rank);
    const bool alone = of->group.count == 1;
    const int end = of->x + (board->tile > board->column - 1 || !alone ? board->column - 1 : board->tile);
    char name[48], text[FORMAT_ROOM + 4];
    format_bytes(text, board->scene->state->units, now->known, now->live_bytes);
    if (of->unequal) strcat(text, "≠");
    if (alone) write_rank(name, end - of->x - utf8_columns(text) - 1, of->rank, board);
    else write_group(name, end - of->x - utf8_columns(text) - 1, of);
    const int after = draw_text(canvas, of->x, y, of->rank == board->rank ? STYLE_FOCUS : STYLE_TEXT, name);
    if (end - after >= utf8_columns(text)) draw_right(canvas, end, y, STYLE_DIM, text);
    if (board->column - board->tile > 11 && alone)
        draw_right(canvas, of->x + board->column - 1, y, STYLE_DIM, "P+G+O plan");
}
