/* Sentences: what the newest operation does, with its figures, and why it stands where it does. */
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "tui/view/op_text.h"
#include "tui/whiteboard/board.h"

struct sentence {
    const char *array, *begins, *ended;
};

static const struct sentence sentences[OP_KINDS] = {
#define SENTENCE(KIND, array, begins, ended) [OP_##KIND] = {array, begins, ended},
#define HELD(REASON, text)
#include "tui/whiteboard/sentences.def"
#undef SENTENCE
#undef HELD
};

static const char *const reasons[] = {
#define SENTENCE(KIND, array, begins, ended)
#define HELD(REASON, text) [HELD_##REASON] = text,
#include "tui/whiteboard/sentences.def"
#undef SENTENCE
#undef HELD
};

int board_array_of(const struct op *op)
{
    const char *array = sentences[op->kind].array;
    if (!array) return -1; /* operations of another program have no sentences */
    const char letter = array[*array && array[1] && (op->phase == PHASE_OPTIMIZER || op->bucket >= 0)];
    for (int i = 0; letter && i < BOARD_ARRAYS; i++)
        if (category_letter(board_categories[i]) == letter) return i;
    return -1;
}

bool board_has_begun(const struct board *board, const struct progress *at)
{
    const enum lane lane = board->at.plan->ops.ops[board->newest].lane;
    return at->step > board->at.step || (at->step == board->at.step && at->begun[lane] > board->newest);
}

/* The units of an operation: its own, or those of its pieces, or of its bucket; an operation without them works on all units. */
void board_find_worked_on(struct board *board)
{
    const struct schedule *ops = &board->at.plan->ops;
    if (board->newest < 0) return;
    const struct op *op = &ops->ops[board->newest], *flush = op;
    for (int at = bucket_after(ops, -1); at >= 0 && op->bucket >= 0; at = bucket_after(ops, at))
        if (ops->ops[at].bucket == op->bucket && ops->ops[at].micro_step == op->micro_step) flush = &ops->ops[at];
    for (int p = 0; p < flush->piece_count; p++) {
        const int unit = ops->pieces[flush->first_piece + p].unit;
        if (unit < board->units) board->worked_on[unit] = true;
    }
    for (int u = 0; u < board->units && !flush->piece_count; u++) board->worked_on[u] = op->unit < 0 || op->unit == u;
}

/* What a sentence is about. */
struct subject {
    const struct board *board;
    const struct op *op;
    int number;
    bool ended;
};

static const char *bytes_text(char out[FORMAT_ROOM], const struct subject *of, int64_t bytes)
{
    return format_bytes_bare(out, of->board->scene->state->units, (uint64_t)(bytes > 0 ? bytes : 0));
}

/* Bytes of the buffers of a category that the operation takes, or gives back. */
static int64_t effect_bytes(const struct subject *of, enum category category, bool gives)
{
    const struct schedule *ops = &of->board->at.plan->ops;
    const int first = gives ? of->op->first_give : of->op->first_take,
              count = gives ? of->op->give_count : of->op->take_count;
    int64_t bytes = 0;
    for (int e = first; e < first + count; e++)
        if (ops->buffers[ops->effects[e]].category == category) bytes += ops->buffers[ops->effects[e]].bytes;
    return bytes;
}

/* ", while block 0 computes" */
static void write_beside(char out[96], const struct subject *of)
{
    const int running = progress_running(&of->board->at, LANE_COMPUTE);
    char name[OP_TEXT_ROOM];
    *out = '\0';
    if (running >= 0)
        snprintf(out, 96, ", while %.60s computes",
                 op_text(name, of->board->scene->model, of->board->at.plan, running));
}

static void write_saves(char out[96], const struct subject *of)
{
    char bytes[FORMAT_ROOM];
    const int64_t saved = effect_bytes(of, CATEGORY_ACTIVATIONS, false);
    *out = '\0';
    if (saved > 0) snprintf(out, 96, " and saves %s of activations for backward", bytes_text(bytes, of, saved));
}

static void write_released(char out[96], const struct subject *of)
{
    static const enum category kinds[] = {CATEGORY_GATHERED, CATEGORY_ACTIVATIONS};
    char bytes[FORMAT_ROOM];
    *out = '\0';
    for (int k = 0; k < 2; k++) {
        const int64_t given = effect_bytes(of, kinds[k], true);
        if (given <= 0) continue;
        text_append(out, 96, *out ? " and " : "; it gives back ");
        text_append(out, 96, k ? "%s of activations" : "the gathered copy (%s)", bytes_text(bytes, of, given));
    }
}

/* The operation that uses the unit next, or, of unit -1, computes next; -1: none in this step. */
static int next_use(const struct subject *of, int unit)
{
    const struct schedule *ops = &of->board->at.plan->ops;
    for (int op = of->number + 1; op < ops->op_count; op++)
        if (ops->ops[op].lane == LANE_COMPUTE && (unit < 0 || ops->ops[op].unit == unit)) return op;
    return -1;
}

/* "goes into buckets 1 and 2", of the micro-step. */
static void write_goes(char out[96], const struct subject *of)
{
    const struct schedule *ops = &of->board->at.plan->ops;
    int first = -1, last = -1;
    for (int at = bucket_after(ops, of->number); at >= 0; at = bucket_after(ops, at))
        for (int p = 0; p < ops->ops[at].piece_count && ops->ops[at].micro_step == of->op->micro_step; p++) {
            if (ops->pieces[ops->ops[at].first_piece + p].unit != of->op->unit) continue;
            last = ops->ops[at].bucket;
            if (first < 0) first = last;
        }
    if (first < 0) snprintf(out, 96, "stays on this rank");
    else if (first == last) snprintf(out, 96, "goes into bucket %d", first);
    else snprintf(out, 96, "goes into buckets %d %s %d", first, last > first + 1 ? "to" : "and", last);
}

static const char *flush_text(const struct op *op)
{
    return op->flush == FLUSH_FULL       ? "since the next tensor does not fit"
           : op->flush == FLUSH_END      ? "since backward has ended"
           : op->group == GROUP_REPLICAS ? "as each shard group has reduced it"
                                         : "now";
}

static bool moves_blocks(const struct schedule *ops, const struct op *op)
{
    return op->piece_count && dtype_is_quantized(ops->buffers[ops->pieces[op->first_piece].source].dtype);
}

/* Words that depend on who takes part. */
static const struct {
    const char *word, *said[GROUPS];
} by_group[] = {
    {"mean",
     {"of its own shard", "over its shard group, of its own shard", "", "", "over its node, of what it sends on",
      "over all ranks, of its own shard"}},
    {"reduced",
     {"the mean over ranks lies in shards, one on each rank", "each shard group has its own mean; replicas exchange it",
      "", "", "each node has its own mean; nodes exchange it next",
      "the mean over ranks lies in shards, one on each rank"}},
    {"all",
     {"every rank keeps the mean of all", "", "the replicas of a shard keep the mean over all ranks", "", "", ""}},
    {"part", {"All", "All", "", "All", "All", "A part"}},
    {"same",
     {"every rank again, for the next forward", "every rank again, for the next forward", "", "",
      "every rank again, for the next forward",
      "the ranks at one place in their nodes; those of a node exchange it next"}},
    {"everywhere", {"every rank", "", "all replicas of a shard", "", "", ""}},
};

/* What a quantization works on, and what becomes of it. */
static const char *quantizing_word(char out[OP_TEXT_ROOM], const char *word, const struct subject *of)
{
    const struct op *op = of->op;
    char text[OP_TEXT_ROOM];
    if (!strcmp(word, "blocks")) return op->bucket >= 0 ? "int4" : "int8";
    if (!strcmp(word, "sender")) return op->bucket >= 0 ? "reductions send" : "the gather sends";
    snprintf(out, OP_TEXT_ROOM, op->bucket >= 0 ? "%.40s" : "the own shard of %.40s",
             op_object(text, of->board->scene->model, &of->board->at.plan->ops, of->number));
    return out;
}

/* The figure that a word in braces stands for. */
static void write_word(char out[96], const char *word, const struct subject *of)
{
    const struct board *board = of->board;
    const struct run_model *model = board->scene->model;
    const struct run_schedule *plan = board->at.plan;
    const struct schedule *ops = &plan->ops;
    const struct op *op = of->op;
    const struct unit_keep *keep = op->unit >= 0 && op->unit < board->units ? &board->keep[op->unit] : NULL;
    const bool shards = keep && keep->shards_optimizer;
    const int next = next_use(of, op->unit), after = next_use(of, -1);
    char text[OP_TEXT_ROOM];
    const char *said = "";
    if (!strcmp(word, "unit")) said = op_object(text, model, ops, of->number);
    else if (!strcmp(word, "op")) said = op_text(text, model, plan, of->number);
    else if (!strcmp(word, "bucket")) said = format_count(text, (uint64_t)op->bucket);
    else if (!strcmp(word, "ahead")) said = op->prefetch ? " ahead" : "";
    else if (!strcmp(word, "others")) said = format_count(text, (uint64_t)op_ranks(ops, op) - 1);
    else if (!strcmp(word, "ranks")) said = format_count(text, (uint64_t)op_ranks(ops, op));
    else if (!strcmp(word, "shards"))
        said = op->group == GROUP_PARTITION ? "parts of the second copy in the node"
               : op->group == GROUP_NODE    ? "parts that hop 1 has brought"
               : moves_blocks(ops, op)      ? "shards as int8 blocks"
                                            : "shards";
    else if (!strcmp(word, "samples")) said = format_count(text, (uint64_t)ops->B);
    else if (!strcmp(word, "tokens")) said = format_count(text, (uint64_t)ops->T);
    else if (!strcmp(word, "sent")) said = bytes_text(text, of, op->sent_bytes);
    else if (!strcmp(word, "bytes")) said = bytes_text(text, of, op->bytes);
    else if (!strcmp(word, "gradient")) said = bytes_text(text, of, keep ? keep->elems * board->width[1] : 0);
    else if (!strcmp(word, "flush")) said = flush_text(op);
    else if (!strcmp(word, "as")) said = moves_blocks(ops, op) ? " as int4 blocks" : "";
    else if (!strcmp(word, "taken")) said = bytes_text(text, of, effect_bytes(of, CATEGORY_GATHERED, false));
    else if (!strcmp(word, "source") || !strcmp(word, "blocks") || !strcmp(word, "sender"))
        said = quantizing_word(text, word, of);
    else if (!strcmp(word, "bucket_size")) said = format_short(text, (uint64_t)ops->knobs.prefetch_bucket_elems);
    else if (!strcmp(word, "most_live")) said = format_short(text, (uint64_t)ops->knobs.max_live_parameters);
    else if (!strcmp(word, "live")) said = format_short(text, (uint64_t)gathered_of(&board->at).elems);
    else if (!strcmp(word, "elems")) said = keep ? format_count(text, (uint64_t)keep->elems) : "n/a";
    else if (!strcmp(word, "own"))
        said = keep ? format_count(text, (uint64_t)(shards ? keep->shard_elems : keep->elems)) : "n/a";
    else if (!strcmp(word, "kept")) said = shards ? "those whose state it keeps" : "since each keeps all state";
    else if (!strcmp(word, "use")) said = next >= 0 && ops->ops[next].phase == PHASE_FORWARD ? "forward" : "backward";
    else if (!strcmp(word, "user")) said = next < 0 ? "" : op_text(text, model, plan, next);
    else if (!strcmp(word, "next")) said = after < 0 ? "the update" : op_text(text, model, plan, after);
    else if (!strcmp(word, "states")) said = op->phase == PHASE_OPTIMIZER ? "optimizer states" : "parameters";
    else if (!strcmp(word, "swapped")) said = op->phase == PHASE_OPTIMIZER ? "the update" : "the next gather";
    for (size_t w = 0; w < sizeof by_group / sizeof *by_group; w++)
        if (!strcmp(word, by_group[w].word)) said = by_group[w].said[op->group];
    snprintf(out, 96, "%s", said);
    if (!strcmp(word, "copied"))
        snprintf(out, 96,
                 op->group == GROUP_ACROSS ? "; the ranks of a node exchange their parts next"
                 : moves_blocks(ops, op)   ? ", as int8 blocks, of which compute makes parameters"
                                           : ", as a copy for %s that its use gives back",
                 next >= 0 && ops->ops[next].phase == PHASE_FORWARD ? "forward" : "backward");
    else if (!strcmp(word, "goes")) write_goes(out, of);
    else if (!strcmp(word, "beside")) write_beside(out, of);
    else if (!strcmp(word, "saves")) write_saves(out, of);
    else if (!strcmp(word, "released")) write_released(out, of);
}

static void fill_in(char out[SENTENCE_ROOM], const char *text, const struct subject *of)
{
    size_t used = 0;
    while (*text && used + 1 < SENTENCE_ROOM) {
        char word[16], figure[96];
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        if (!end || (size_t)(end - text) > sizeof word) {
            out[used++] = *text++;
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)(end - text - 1), text + 1);
        write_word(figure, word, of);
        used += (size_t)snprintf(out + used, SENTENCE_ROOM - used, "%s", figure);
        text = end + 1;
    }
    out[used < SENTENCE_ROOM ? used : SENTENCE_ROOM - 1] = '\0';
}

static void add(char out[SENTENCE_ROOM], const char *sentence, const struct subject *of)
{
    char text[SENTENCE_ROOM];
    fill_in(text, sentence, of);
    text_append(out, SENTENCE_ROOM, "%s", text);
}

/* Ranks that have not begun the operation, or, of a collective that has ended, not ended it. */
static void add_missing(char out[SENTENCE_ROOM], const struct subject *of)
{
    const struct board *board = of->board;
    const int ranks = board->scene->model->ranks;
    const struct process_group group = schedule_group(&board->at.plan->ops, of->op->group, board->rank);
    char list[64] = "";
    int missing = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const struct progress at = progress_of(board->scene->model, rank);
        if (of->op->lane == LANE_COMM && !group_has(&group, rank)) continue;
        const bool ended = at.step > board->at.step || at.ended[of->op->lane] > of->number || !at.open;
        if (at.plan != board->at.plan || (of->ended ? ended : board_has_begun(board, &at))) continue;
        text_append(list, sizeof list, "%s%d", missing++ ? ", " : "", rank);
    }
    if (!missing || (of->ended && of->op->lane != LANE_COMM)) return;
    if (missing > 3) snprintf(list, sizeof list, "%d of %d ranks", missing, ranks);
    const char *what = missing > 3 ? "" : missing > 1 ? "ranks " : "rank ";
    text_append(out, SENTENCE_ROOM, " Not %s on %s%s.", of->ended ? "ended" : "begun", what, list);
}

/* What it waited for last. */
static void add_waited(char out[SENTENCE_ROOM], const struct subject *of)
{
    const struct board *board = of->board;
    const struct history *history = board->scene->history;
    const struct span *span =
        history_span(history, board->rank, of->op->lane,
                     history_span_of(history, board->rank, of->op->lane, board->at.step, (uint32_t)of->number));
    char name[OP_TEXT_ROOM];
    if (!span || span->waited_on < 0 || span->started_ns <= span->issued_ns) return;
    text_append(out, SENTENCE_ROOM, " It waited for %.60s.",
                op_text(name, board->scene->model, board->at.plan, span->waited_on));
}

/* Who takes part, if not all ranks do. */
static void add_takers(char out[SENTENCE_ROOM], const struct subject *of)
{
    char takers[TAKERS_ROOM];
    if (of->op->lane != LANE_COMM || of->op->group == GROUP_WORLD) return;
    text_append(out, SENTENCE_ROOM, " Group: %s.",
                takers_text(takers, &of->board->at.plan->ops, of->op, of->board->rank));
}

/* What quantizing did to the units of the operation, on all ranks, in the newest step that it was measured in. */
static void add_errors(char out[SENTENCE_ROOM], const struct subject *of)
{
    const struct run_header *header = &of->board->scene->model->header;
    struct run_quantized sum = {0};
    char text[QUANTIZED_ROOM];
    for (int u = 0; u < header->unit_count && u < of->board->units; u++)
        if (of->board->worked_on[u]) run_quantized_add(&sum, &header->units[u].quantized[of->op->bucket >= 0]);
    if (sum.step) text_append(out, SENTENCE_ROOM, " In step %u: %s.", sum.step, quantized_text(text, &sum));
}

static void write_rest(char out[SENTENCE_ROOM], const struct board *board)
{
    const struct run_rank *rank = &board->scene->model->rank[board->rank];
    char bytes[FORMAT_ROOM];
    uint64_t held = 0;
    for (int tier = 0; tier < TIERS; tier++)
        for (int i = 0; i < BOARD_ARRAYS; i++) held += rank->tier[tier].category[board_categories[i]].live_bytes;
    snprintf(out, SENTENCE_ROOM, "Between steps, at stage %d, rank %d keeps %s: %s.", board->at.plan->stage,
             board->rank, format_bytes_bare(bytes, board->scene->state->units, held),
             board->sharded[0]   ? "its own shard of parameters, gradients and optimizer state"
             : board->sharded[1] ? "all parameters, and its own shard of gradients and optimizer state"
             : board->sharded[2] ? "all parameters and gradients, and its own shard of optimizer state"
                                 : "all parameters, gradients and optimizer state, like every other rank");
}

void board_sentence(char out[SENTENCE_ROOM], const struct board *board)
{
    struct subject of = {.board = board, .number = board->newest, .ended = board->newest_ended};
    if (of.number < 0) {
        write_rest(out, board);
        return;
    }
    of.op = &board->at.plan->ops.ops[of.number];
    const struct sentence *sentence = &sentences[of.op->kind];
    fill_in(out, of.ended ? sentence->ended : sentence->begins, &of);
    if (of.op->kind == OP_QUANTIZE) add_errors(out, &of);
    add_takers(out, &of);
    if (!of.ended && of.op->kind != OP_GATHER) add_waited(out, &of);
    else if (!of.ended)
        add(out, of.op->held || of.op->prefetch ? reasons[of.op->held] : " {user} cannot begin without it.", &of);
    add_missing(out, &of);
}

void whiteboard_sentence(char *out, size_t room, const struct scene *scene)
{
    struct board board;
    char sentence[SENTENCE_ROOM] = "";
    if (board_init(&board, scene, VIEW_COLUMNS_MIN)) board_sentence(sentence, &board);
    snprintf(out, room, "%s", sentence);
}
