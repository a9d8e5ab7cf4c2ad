/* The legend below the board, with the marks that the board shows now; and the list of all marks for the help page. */

#include "engine/base/words.h"
#include "tui/draw/output.h"
#include "tui/timeline/timeline.h"
#include "tui/view/tier_bar.h"
#include "tui/whiteboard/board.h"

enum { LIT = 0x2587, BAR_LINE = 0x2503, NODE_EDGE = 0x2551 };

/* A mark as it is drawn, and in ASCII; what the legend and what the help page say of it. */
static const struct sign {
    uint32_t code;
    const char *shown, *ascii, *brief, *help;
} signs[] = {
    {0x2588, "█", "PGO", "kept", "kept on this rank"},
    {0x2584, "▄", "-", "not updated", "kept, but still as the step before left it"},
    {0x2593, "▓", "#", "in use", "in use by the operation that runs"},
    {0x2591, "░", ":", "coming", "on its way: being gathered or reduced"},
    {0x2592, "▒", "LB", "P copy, local G", "a gathered copy; of gradients: of this rank, not all reduced yet"},
    {0xb7, "·", ".", "not here", "not on this rank"},
    {LIT, "▇", "lit", "worked on", "lit, and P, G or O behind the tile: the newest operation works on it"},
    {BAR_LINE, "┃", "|", "planned peak", "in the bar of a tier: its budget, or else the planned peak"},
    {0x258c, "▌▐", "", "half kept", "kept on this rank: half a column"},
    {0x2596, "▖▗", "", "half, not updated", "half a column that is still as the step before left it"},
    {'+', "+", "+", "small tensors", "small tensors that stay gathered"},
    {0x2595, "▕", "", "small tensors", "small tensors that stay gathered: less than a quarter of a column"},
    {NODE_EDGE, "║", "|", "node", "the edge of a node; below it what moves in the node"},
    {'=', "=", "=", "replica", "rank 2 = 0: rank 2 holds the same shards as rank 0"},
    {'h', "h", "h", "host", "what follows is kept in host memory (d: on the device)"},
    {'n', "n", "n", "NVMe", "what follows is kept on NVMe"},
    {0x2260, "≠", "", "ranks differ", "ranks of a group hold different numbers of bytes; shown is the largest"},
};
enum { SIGNS = sizeof signs / sizeof *signs };

int board_draw_marks(struct canvas canvas, int y)
{
    for (int i = 0; i < SIGNS; i++) {
        draw_text(canvas, 2, y, STYLE_TEXT, signs[i].shown);
        draw_text(canvas, 5, y++, STYLE_TEXT, signs[i].help);
    }
    static const char *const packets[] = {
        "▸  a packet of a link: what moves now, further right as it gets done",
        "   (block 1: 3/4, plan 581 KiB)▸ prefetch: 3 of 4 shards, planned bytes",
        "   [! block 1: 3/4, plan 581 KiB]▸ gather that compute waits for",
        "   [reduce bucket 1, plan sends 593 KiB]▸ gradients to their owners",
        "   [mean of bucket 1, plan sends 1.16 MiB]▸ gradients to all ranks",
        "   [refresh]▸ updated parameters to all ranks; [agree]: loss, norm, errors",
        "   ▼2 290 KiB: bucket or unit 2 to host memory; ▲ back; ► ◄ the same of NVMe",
    };
    for (size_t i = 0; i < sizeof packets / sizeof *packets; i++) draw_text(canvas, 2, y++, STYLE_TEXT, packets[i]);
    return y;
}

/* Whether the mark is on the board, whose heads and tiles end above row `end`. */
static bool is_on(struct canvas canvas, int end, const struct sign *sign, const struct board *board)
{
    const unsigned tiers = board->tiers[0] | board->tiers[1] | board->tiers[2];
    if (sign->code == 'h') return tiers >> TIER_HOST & 1;
    if (sign->code == 'n') return tiers >> TIER_NVME & 1;
    if (sign->code == LIT) return board->newest >= 0 && board_array_of(&board->at.plan->ops.ops[board->newest]) >= 0;
    if (sign->code == BAR_LINE) return true;
    if (sign->code == NODE_EDGE) return board_links(board) > 1;
    for (int y = board->above - 1; y < end; y++)
        for (int x = BOARD_LABEL; x < canvas.at.columns; x++) {
            const uint32_t code = surface_at(canvas.surface, canvas.at.x + x, canvas.at.y + y)->character;
            if (code == (canvas.surface->ascii ? (uint32_t)sign->ascii[0] : sign->code) && code) return true;
        }
    return false;
}

/* The marks on the board, in as many rows as are left, with single blanks between them if there is one row. */
static int draw_signs(struct canvas canvas, int end, int y, int rows, const struct board *board)
{
    const struct memory_scale scale = memory_scale(board->scene->model, TIER_DEVICE);
    const int last = y + rows - 1;
    int x = 1;
    for (int i = 0; i < SIGNS; i++) {
        const struct sign *sign = &signs[i];
        if (!is_on(canvas, end, sign, board)) continue;
        struct text text = text_of("%s %s", canvas.surface->ascii ? sign->ascii : sign->shown, sign->brief);
        if (sign->code == BAR_LINE && scale.is_budget)
            text = text_of("%s budget %s", canvas.surface->ascii ? "|" : "┃",
                           format_bytes_bare(board->scene->state->units, scale.budget).text);
        if (x + utf8_columns(text.text) > canvas.at.columns && y < last) y++, x = 1;
        if (x + utf8_columns(text.text) > canvas.at.columns) continue;
        x = draw_text(canvas, x, y, STYLE_DIM, text.text) + (rows > 1 ? 2 : 1);
    }
    return last + 1;
}

void board_legend(struct canvas canvas, int end, int y, int rows, const struct board *board)
{
    char marks[240];
    y = draw_signs(canvas, end, y, rows > 3 ? rows - 2 : rows > 2 ? rows - 1 : rows, board);
    if (rows > 2)
        draw_words(canvas, 1, y, STYLE_DIM,
                   "P parameters  G gradients  O optimizer  L gathered  B buckets  A activations");
    board_marks(marks, sizeof marks, board);
    text_append(marks, sizeof marks, " %s slowest", utf8_of(texture_sign(TEXTURE_PEERS, canvas.surface->ascii)).text);
    if (rows > 3) draw_words(canvas, 1, y + 1, STYLE_DIM, marks);
}
