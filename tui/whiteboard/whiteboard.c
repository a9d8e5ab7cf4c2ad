/* The whiteboard as a view: which ranks and units are shown, the figures above the tiles, the legend, the keys. */
#include <limits.h>
#include <string.h>

#include "engine/observe/flows.h"
#include "tui/view/op_text.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

enum { GAP = 2, SCALE_MAX = 3, UNITS_LEAST = 6, ROWS_SMALL = 18, ABOVE_ROWS = 3, SENTENCE_ROWS = 2, LEGEND_ROWS = 4 };

const enum category board_categories[BOARD_ARRAYS] = {CATEGORY_PARAMETERS, CATEGORY_GRADIENTS, CATEGORY_OPTIMIZER};

/* ---- what is shown ---- */

/* Bytes of an element in each array, from the lasting buffers of the first unit that has them. */
static void measure_arrays(struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    int unit[BOARD_ARRAYS] = {-1, -1, -1};
    for (int b = 0; b < ops->lasting_count; b++) {
        const struct buffer *buffer = &ops->buffers[b];
        for (int array = 0; array < BOARD_ARRAYS; array++) {
            if (buffer->category != board_categories[array] || buffer->unit < 0 || buffer->extent == EXTENT_TAIL)
                continue;
            if (unit[array] < 0) unit[array] = buffer->unit;
            if (unit[array] != buffer->unit) continue;
            board->width[array] += dtype_bytes(buffer->dtype);
            board->sharded[array] |= buffer->extent == EXTENT_SHARD;
        }
    }
}

/* Where each unit's arrays are kept, and where dividers stand: before an array that is kept elsewhere than the one before it, of
 * any unit, and before the first one if it is not on the device. */
static void find_tiers(struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    int64_t most[BOARD_UNITS_MAX][BOARD_ARRAYS] = {{0}};
    for (int b = 0; b < ops->lasting_count; b++) {
        const struct buffer *buffer = &ops->buffers[b];
        for (int array = 0; array < BOARD_ARRAYS; array++) {
            if (buffer->category != board_categories[array] || buffer->unit < 0 || buffer->unit >= board->units)
                continue;
            board->tiers[array] |= 1u << buffer->tier;
            if (buffer->bytes <= most[buffer->unit][array]) continue;
            most[buffer->unit][array] = buffer->bytes;
            board->tier[buffer->unit][array] = (unsigned char)buffer->tier;
        }
    }
    for (int u = 0; u < board->units; u++)
        for (int array = 0; array < BOARD_ARRAYS; array++)
            board->divided[array] |= board->tier[u][array] != (array ? board->tier[u][array - 1] : TIER_DEVICE);
}

/* As many columns as fit beside the labels: as wide as all wanted ones can be. Dividers take the place of the gap. */
static void lay_out(struct board *board, int columns)
{
    const int room = columns - BOARD_LABEL, whole = board->width[0] + board->width[1] + board->width[2];
    const int dividers = board->divided[0] + board->divided[1] + board->divided[2];
    const int gap = dividers == 0 ? GAP : dividers > 1 && board->divided[0] ? 0 : 1;
    board->scale = SCALE_MAX;
    while (board->scale > 1 && room / (whole * board->scale + dividers + gap) < board_columns_wanted(board))
        board->scale--;
    board->tile = whole * board->scale + dividers;
    const int fit = room / (board->tile + gap), widest = board->tile + 2 * GAP + 8;
    board_group_ranks(board, fit > 0 ? fit : 1);
    board->column = room / board->ranks < widest || board->scene->state->large ? room / board->ranks : widest;
    if (board->scene->state->large) board->tile = board->column - GAP;
}

/* Where a rank stands. A switch since its last step has changed what it holds: then between steps, by the new plan. */
struct progress board_progress(const struct run_model *model, int rank)
{
    const struct progress at = progress_of(model, rank);
    const struct run_schedule *training = run_training(model);
    const bool switched = !at.open && !at.lost && training && training->has_ops && at.plan != training;
    return switched ? (struct progress){.plan = training} : at;
}

bool board_init(struct board *board, const struct scene *scene, int columns)
{
    *board = (struct board){.scene = scene, .ranks = scene->model->ranks};
    if (board->ranks <= 0) return false;
    board->rank = list_kept(scene->state->rank, board->ranks);
    board->at = board_progress(scene->model, board->rank);
    if (!board->at.plan) return false;
    board->units = units_of(&board->at.plan->ops);
    board->shards = schedule_shard_ranks(&board->at.plan->ops);
    board->above = ABOVE_ROWS;
    if (board->units > BOARD_UNITS_MAX) board->units = BOARD_UNITS_MAX;
    units_keep(&board->at.plan->ops, board->keep, board->units);
    measure_arrays(board);
    find_tiers(board);
    if (scene->state->large) memset(board->divided, 0, sizeof board->divided);
    board->calm = scene->state->live && !scene->state->behind && run_is_fast(scene->model);
    if (board->calm) board->at.open = false;
    if (board->units == 0 || board->width[0] == 0) return false;
    lay_out(board, columns);
    board_find_newest(board);
    board_find_worked_on(board);
    return true;
}

/* The member that is drawn for a group. */
static void choose_rank(struct board_rank *of, const struct board *board)
{
    uint64_t most = 0;
    of->rank = -1;
    for (int rank = of->group.first; rank < of->group.first + of->group.count; rank++) {
        const uint64_t bytes = board_instant(board, rank)->live_bytes;
        if (rank == board->rank && of->group.count > 1) continue;
        of->unequal |= of->members++ > 0 && bytes != most;
        if (of->rank < 0 || bytes > most) of->rank = rank, most = bytes;
    }
}

static void board_rank_init(struct board_rank *of, const struct board *board, int i)
{
    of->group = board->group[i];
    of->members = 0;
    of->unequal = false;
    choose_rank(of, board);
    of->x = BOARD_LABEL + i * board->column;
    of->at = board_progress(board->scene->model, of->rank);
    if (board->calm) of->at = (struct progress){.plan = of->at.plan};
    of->known = of->at.plan == board->at.plan && !of->at.lost;
    if (of->known) cells_of(&of->at, of->cells, board->units);
}

char board_unit_sign(const struct board *board, int unit)
{
    const struct text name = unit_text(board->scene->model, unit);
    const char last = name.text[strlen(name.text) - (*name.text != '\0')];
    return last >= '0' && last <= '9' ? last : name.text[0];
}

/* ---- bars ---- */

/* The line in the bars: the budget, with room behind it for what exceeds it, or else the planned peak. */
static struct memory_scale bar_scale(const struct board *board, enum tier tier)
{
    struct memory_scale scale = memory_scale(board->scene->model, tier);
    if (!scale.is_budget) return scale;
    scale.full = scale.budget + scale.budget / 8;
    scale.planned = scale.budget;
    scale.has_planned = true;
    return scale;
}

static void draw_bar_of(struct canvas canvas, int y, const struct board_rank *of, const struct board *board,
                        enum tier tier)
{
    struct view_state now = *board->scene->state;
    const struct scene scene = {board->scene->model, board->scene->history, &now};
    const struct memory_scale scale = bar_scale(board, tier);
    if (!board->calm) now.bars_now = true;
    tier_bar_alone(canvas, (struct rect){of->x, y, board->tile, 1}, of->rank, tier, &scene, &scale);
}

/* ---- the whole ---- */

/* "step 812 at 1/260 of its speed; live: step 1,340" */
static struct text playing_text(const struct view_state *state)
{
    return text_of("step %s at 1/%.0f of its speed; live: step %s", format_count(state->last.step).text,
                   state->last.slowness, format_count(state->last.newest).text);
}

static void draw_heading(struct canvas canvas, const struct board *board)
{
    const int x = draw_title(canvas, 0, false, "whiteboard: stage %d, %.80s%s", board->at.plan->stage,
                             board->calm                      ? "memory at the fullest instant of a step"
                             : board->scene->state->last.step ? playing_text(board->scene->state).text
                                                              : moment_text(board->scene->model, &board->at).text,
                             board->at.lost ? " (records lost)" : "");
    const int more = board->group[0].count == 1 && board->ranks > 1 && board->group[1].count > 1
                         ? 0
                         : board->scene->model->ranks - board->ranks;
    const struct text left = more > 0 ? text_of(" %d more rank%s ", more, plural((uint64_t)more)) : NO_TEXT,
                      whole = text_of("%s rank width: %d bytes a parameter ", left.text,
                                      board->width[0] + board->width[1] + board->width[2]);
    const int room = canvas.at.columns - x - 2;
    const char *note = room > (int)strlen(whole.text) ? whole.text : left.text;
    if (room > (int)strlen(note)) draw_right(canvas, canvas.at.columns - 1, 0, STYLE_DIM, note);
}

/* How the rows of the canvas are shared: what is below the tiles has a fixed number of rows; units get the rest. A small canvas, such
 * as half a screen, has only the bars below the tiles, and where rows are left, a sentence and lanes. */
struct rows {
    bool small, host, copies, saved;
    int links, transfers[TIER_NVME]; /* rows; of transfers below the device, and below the host */
    int lanes, legend;
    struct board_rows tiles;
};

static void share_few_rows(struct rows *share, int room, const struct board *board)
{
    const int left = room - board->units - SENTENCE_ROWS;
    share->lanes = left >= 4 ? within(left - 2, 2, share->lanes) : 0;
    share->copies = share->saved = false;
    share->links = share->transfers[TIER_DEVICE] = share->transfers[TIER_HOST] = 0;
    share->legend = 0;
    room -= (left >= 0 ? SENTENCE_ROWS : 0) + (share->lanes ? 2 + share->lanes : 0);
    board_group_units(&share->tiles, room, board);
}

static void share_rows(struct rows *share, int rows, const struct board *board)
{
    share->host = tier_is_used(board->scene->model, TIER_HOST);
    for (enum tier tier = TIER_DEVICE; tier < TIER_NVME; tier++)
        share->transfers[tier] = board_has_transfers(board, tier) ? 1 + (rows > 34) + (rows > 50) : 0;
    share->links = board_links(board);
    share->copies = board->sharded[0];
    share->lanes = board_lanes(board);
    share->small = rows < ROWS_SMALL;
    if (share->small) {
        share_few_rows(share, rows - board->above - 1 - share->host, board);
        return;
    }
    const int transfers = share->transfers[TIER_DEVICE] + share->transfers[TIER_HOST];
    int room = rows - board->above - (3 + share->links + share->copies + transfers + share->host) - 2 - SENTENCE_ROWS;
    share->saved = room - 2 >= board->units; /* the bar has them, too */
    room += !share->saved;
    const int least = within(board->units, 0, UNITS_LEAST);
    if (room - share->lanes < least) share->lanes = within(room - least, 2, share->lanes);
    if (room - share->lanes < least && share->copies) share->copies = false, room++; /* tiles have them, too */
    share->legend = within(room - share->lanes - board->units, 0, LEGEND_ROWS);
    board_group_units(&share->tiles, room - share->lanes - share->legend, board);
}

/* The labels of the rows, and the row between the ranks. Returns the row below them all. */
static int draw_labels(struct canvas canvas, const struct rows *share, const struct board *board)
{
    int y = board->above + share->tiles.used;
    board_unit_labels(canvas, board->above, &share->tiles, board);
    if (share->links) y = board_link(canvas, y, board);
    if (share->copies) draw_text(canvas, 0, y++, STYLE_DIM, "L gath.");
    if (!share->small) draw_text(canvas, 0, y++, STYLE_DIM, "B buck.");
    if (share->saved) draw_text(canvas, 0, y++, STYLE_DIM, "A activ");
    draw_text(canvas, 0, y++, STYLE_DIM, tiers_name(TIER_DEVICE));
    if (share->transfers[TIER_DEVICE]) draw_text(canvas, 0, y, STYLE_DIM, "▼▲ copy");
    y += share->transfers[TIER_DEVICE];
    if (share->host) draw_text(canvas, 0, y++, STYLE_DIM, tiers_name(TIER_HOST));
    if (share->transfers[TIER_HOST]) draw_text(canvas, 0, y, STYLE_DIM, "►◄ copy");
    return y + share->transfers[TIER_HOST];
}

/* A rank's column, in the order of the labels. */
static void draw_rank(struct canvas canvas, const struct rows *share, int i, const struct board *board)
{
    struct board_rank of;
    int y = board->above + share->tiles.used + share->links;
    board_rank_init(&of, board, i);
    board_head(canvas, board->above - 1, &of, board);
    board_tiles(canvas, board->above, &share->tiles, &of, board);
    if (share->copies) board_copies(canvas, y++, &of, board);
    if (!share->small) board_buckets(canvas, y++, &of, board);
    if (share->saved) board_saved(canvas, y++, &of, board);
    for (enum tier tier = TIER_DEVICE; tier < TIER_NVME; tier++) {
        if (tier == TIER_DEVICE || share->host) draw_bar_of(canvas, y++, &of, board, tier);
        if (share->transfers[tier]) board_transfers(canvas, y, share->transfers[tier], tier, &of, board);
        y += share->transfers[tier];
    }
}

int board_edges(const struct board *board, int edge[BOARD_EDGES_MAX], int box[BOARD_EDGES_MAX])
{
    const int node = board_links(board) > 1 ? board->scene->model->header.ranks_per_node : 0;
    int count = 0;
    for (int i = 0; node && i <= board->ranks; i++) {
        const struct board_group *before = &board->group[i > 0 ? i - 1 : 0];
        const bool inside =
            i > 0 && i < board->ranks && board->group[i].first / node == (before->first + before->count - 1) / node;
        if (inside || (!board->boxed && (i == 0 || i == board->ranks))) continue;
        box[count] = i;
        edge[count++] = BOARD_LABEL + i * board->column - 1;
    }
    return count;
}

static void draw_box_name(struct canvas canvas, int x, int room, int column, const struct board *board)
{
    const struct board_group *group = &board->group[column];
    const int node = board->scene->model->header.ranks_per_node, first = group->first / node,
              last = (group->first + group->count - 1) / node,
              nodes = board->shards % node == 0 ? board->shards / node : INT_MAX; /* of a shard group */
    struct text name = text_of(" node %d, replicas of node %d ", first, first % nodes);
    if (first < nodes || (int)strlen(name.text) > room) name = text_of(" node %d ", first);
    if (first != last) name = text_of(" nodes %d-%d ", first, last);
    if ((int)strlen(name.text) <= room) draw_text(canvas, x, board->above - 2, STYLE_TEXT, name.text);
}

/* The ranks of a node stand in a box, whose lower edge is its link (desk.c), in row `end`. Where rows are few, there is a line between
 * nodes alone. */
static void draw_nodes(struct canvas canvas, int end, const struct board *board)
{
    int edge[BOARD_EDGES_MAX], box[BOARD_EDGES_MAX];
    const int edges = board->column > board->tile ? board_edges(board, edge, box) : 0;
    for (int i = 0; i < edges; i++) {
        const uint32_t corner = i == 0 ? 0x2554 : i == edges - 1 ? 0x2557 : 0x2566;
        for (int y = board->above - board->boxed; y < end; y++) draw_character(canvas, edge[i], y, STYLE_FRAME, 0x2551);
        if (!board->boxed) continue;
        if (i < edges - 1) draw_fill(canvas, edge[i], board->above - 2, edge[i + 1] - edge[i], STYLE_FRAME, 0x2550);
        draw_character(canvas, edge[i], board->above - 2, STYLE_FRAME, corner);
        if (i < edges - 1) draw_box_name(canvas, edge[i] + 2, edge[i + 1] - edge[i] - 2, box[i], board);
    }
}

static int sentence_rows(struct canvas canvas, const char *sentence)
{
    return draw_paragraph(canvas_part(canvas, 1, 0, canvas.at.columns - 2, 0), 0, STYLE_STRONG, sentence);
}

/* The sentence, in rows [y, end) or, where they are too few, without its last parts. */
static void draw_sentence(struct canvas canvas, int y, int end, char sentence[SENTENCE_ROOM])
{
    const struct canvas place = canvas_part(canvas, 1, y, canvas.at.columns - 2, end - y);
    for (char *stop = NULL; sentence_rows(canvas, sentence) > end - y; *stop = '\0') {
        for (char *at = sentence, *found = stop = NULL; (found = strstr(at, ". ")); at = found + 1) stop = found + 1;
        if (!stop) break;
    }
    draw_paragraph(place, 0, STYLE_STRONG, sentence);
}

/* For the back row: parameters, gradients and optimizer state of all units as three bands, their sum in large figures, and the sentence. */
static void draw_large(struct canvas canvas, const struct board *board)
{
    const bool host = tier_is_used(board->scene->model, TIER_HOST);
    const int y = board->above, rows = canvas.at.rows - board->above - 1 - board_links(board) - host - SENTENCE_ROWS;
    char sentence[SENTENCE_ROOM];
    draw_nodes(canvas, y + rows, board);
    const int bars = board_link(canvas, y + rows, board);
    draw_text(canvas, 0, bars, STYLE_DIM, tiers_name(TIER_DEVICE));
    if (host) draw_text(canvas, 0, bars + 1, STYLE_DIM, tiers_name(TIER_HOST));
    for (int i = 0; i < board->ranks; i++) {
        struct board_rank of;
        board_rank_init(&of, board, i);
        board_head(canvas, y - 1, &of, board);
        board_bands(canvas, y, rows, &of, board);
        draw_bar_of(canvas, bars, &of, board, TIER_DEVICE);
        if (host) draw_bar_of(canvas, bars + 1, &of, board, TIER_HOST);
    }
    board_sentence(sentence, board);
    draw_sentence(canvas, canvas.at.rows - SENTENCE_ROWS, canvas.at.rows, sentence);
}

static void draw_view(struct canvas canvas, const struct scene *scene)
{
    struct board board;
    struct rows share;
    char sentence[SENTENCE_ROOM];
    if (!board_init(&board, scene, canvas.at.columns)) {
        if (!board_observed(canvas, scene)) draw_untold(canvas, false, "whiteboard");
        return;
    }
    board.boxed = board_links(&board) > 1 && canvas.at.rows >= ROWS_SMALL;
    board.above += board.boxed;
    draw_heading(canvas, &board);
    board_figures(canvas, 1, &board);
    if (scene->state->large) {
        draw_large(canvas, &board);
        return;
    }
    share_rows(&share, canvas.at.rows, &board);
    draw_nodes(canvas, board.above + share.tiles.used, &board);
    int y = draw_labels(canvas, &share, &board);
    for (int i = 0; i < board.ranks; i++) draw_rank(canvas, &share, i, &board);
    board_sentence(sentence, &board);
    if (!share.small || share.lanes) y += board_moments(canvas, y, 2 + share.lanes, sentence, &board);
    while (share.legend && sentence_rows(canvas, sentence) > canvas.at.rows - share.legend - y) share.legend--;
    draw_sentence(canvas, y, canvas.at.rows - share.legend, sentence);
    board_legend(canvas, board.above + share.tiles.used, canvas.at.rows - share.legend, share.legend, &board);
}

static bool act(struct view_state *state, const struct scene *scene, const struct key_row *key)
{
    struct board board;
    if (key->action == ACTION_ENLARGE) state->large = !state->large;
    if (key->action == ACTION_ENLARGE || rank_act(state, scene, key)) return true;
    return list_act(&state->row[VIEW_WHITEBOARD], board_init(&board, scene, VIEW_COLUMNS_MIN) ? board.units : 0, key);
}

const struct view view_whiteboard = {"whiteboard",
                                     "whiteboard",
                                     {ACTION_NEXT_RANK, ACTION_ENLARGE, ACTION_DOWN, ACTION_UP},
                                     .draw = draw_view,
                                     .act = act};
