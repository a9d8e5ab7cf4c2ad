/* Writes the sentence about the newest operation: what it does, with its figures, and why it runs at this point of the step. */
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "tui/timeline/timeline.h"
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

static struct text bytes_text(const struct subject *of, int64_t bytes)
{
    return format_bytes_bare(of->board->scene->state->units, (uint64_t)(bytes > 0 ? bytes : 0));
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
static struct text beside_text(const struct subject *of)
{
    const int running = progress_running(&of->board->at, LANE_COMPUTE);
    if (running < 0) return (struct text){""};
    return text_of(", while %.60s computes",
                   op_text(of->board->scene->model, of->board->at.plan->number, running).text);
}

static struct text released_text(const struct subject *of)
{
    static const enum category kinds[] = {CATEGORY_GATHERED, CATEGORY_ACTIVATIONS};
    struct text out = {""};
    for (int k = 0; k < 2; k++) {
        const int64_t given = effect_bytes(of, kinds[k], true);
        if (given <= 0) continue;
        text_add(&out, *out.text ? " and " : "; it gives back ");
        text_add(&out, k ? "%s of activations" : "the gathered copy (%s)", bytes_text(of, given).text);
    }
    return out;
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
static struct text goes_text(const struct subject *of)
{
    const struct schedule *ops = &of->board->at.plan->ops;
    int first = -1, last = -1;
    for (int at = bucket_after(ops, of->number); at >= 0; at = bucket_after(ops, at))
        for (int p = 0; p < ops->ops[at].piece_count && ops->ops[at].micro_step == of->op->micro_step; p++) {
            if (ops->pieces[ops->ops[at].first_piece + p].unit != of->op->unit) continue;
            last = ops->ops[at].bucket;
            if (first < 0) first = last;
        }
    if (first < 0) return text_of("stays on this rank");
    if (first == last) return text_of("goes into bucket %d", first);
    return text_of("goes into buckets %d %s %d", first, last > first + 1 ? "to" : "and", last);
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

static struct text copied_text(const struct subject *of, const char *use)
{
    return text_of(of->op->group == GROUP_ACROSS ? "; the ranks of a node exchange their parts next"
                   : moves_blocks(&of->board->at.plan->ops, of->op)
                       ? ", as int8 blocks, of which compute makes parameters"
                       : ", as a copy that %s gives back",
                   use);
}

/* The figure that a word in braces stands for. */
static struct text word_text(const char *word, const struct subject *of)
{
    const struct board *board = of->board;
    const struct run_model *model = board->scene->model;
    const struct run_schedule *plan = board->at.plan;
    const struct schedule *ops = &plan->ops;
    const struct op *op = of->op;
    const struct unit_keep *keep = op->unit >= 0 && op->unit < board->units ? &board->keep[op->unit] : NULL;
    const bool shards = keep && keep->shards_optimizer, blocks = moves_blocks(ops, op), bucket = op->bucket >= 0;
    const int64_t saved = effect_bytes(of, CATEGORY_ACTIVATIONS, false);
    const int next = next_use(of, op->unit), after = next_use(of, -1);
    const char *use = next >= 0 && ops->ops[next].phase == PHASE_FORWARD ? "forward" : "backward", *said = "";
    if (!strcmp(word, "unit")) return op_object(model, ops, of->number);
    if (!strcmp(word, "op")) return op_text(model, plan->number, of->number);
    if (!strcmp(word, "bucket")) return format_count((uint64_t)op->bucket);
    if (!strcmp(word, "others")) return format_count((uint64_t)op_ranks(ops, op) - 1);
    if (!strcmp(word, "ranks")) return format_count((uint64_t)op_ranks(ops, op));
    if (!strcmp(word, "samples")) return format_count((uint64_t)ops->B);
    if (!strcmp(word, "tokens")) return format_count((uint64_t)ops->T);
    if (!strcmp(word, "sent")) return bytes_text(of, op->sent_bytes);
    if (!strcmp(word, "bytes")) return bytes_text(of, op->bytes);
    if (!strcmp(word, "gradient")) return bytes_text(of, keep ? keep->elems * board->width[1] : 0);
    if (!strcmp(word, "taken")) return bytes_text(of, effect_bytes(of, CATEGORY_GATHERED, false));
    if (!strcmp(word, "source"))
        return text_of(bucket ? "%.40s" : "the own shard of %.40s", op_object(model, ops, of->number).text);
    if (!strcmp(word, "bucket_size")) return format_short((uint64_t)ops->knobs.prefetch_bucket_elems);
    if (!strcmp(word, "most_live")) return format_short((uint64_t)ops->knobs.max_live_parameters);
    if (!strcmp(word, "live")) return format_short((uint64_t)gathered_of(&board->at).elems);
    if (!strcmp(word, "elems") && keep) return format_count((uint64_t)keep->elems);
    if (!strcmp(word, "own") && keep) return format_count((uint64_t)(shards ? keep->shard_elems : keep->elems));
    if (!strcmp(word, "user") && next >= 0) return op_text(model, plan->number, next);
    if (!strcmp(word, "next") && after >= 0) return op_text(model, plan->number, after);
    if (!strcmp(word, "copied")) return copied_text(of, use);
    if (!strcmp(word, "goes")) return goes_text(of);
    if (!strcmp(word, "beside")) return beside_text(of);
    if (!strcmp(word, "saves"))
        return saved > 0 ? text_of(" and saves %s of activations for backward", bytes_text(of, saved).text) : NO_TEXT;
    if (!strcmp(word, "released")) return released_text(of);
    if (!strcmp(word, "ahead")) said = op->prefetch ? " ahead" : "";
    else if (!strcmp(word, "shards"))
        said = op->group == GROUP_PARTITION ? "parts of the second copy in the node"
               : op->group == GROUP_NODE    ? "parts that hop 1 has brought"
               : blocks                     ? "shards as int8 blocks"
                                            : "shards";
    else if (!strcmp(word, "flush")) said = flush_text(op);
    else if (!strcmp(word, "as")) said = blocks ? " as int4 blocks" : "";
    else if (!strcmp(word, "blocks")) said = bucket ? "int4" : "int8";
    else if (!strcmp(word, "sender")) said = bucket ? "reductions send" : "the gather sends";
    else if (!strcmp(word, "elems") || !strcmp(word, "own")) said = "n/a";
    else if (!strcmp(word, "kept")) said = shards ? "those whose state it keeps" : "since each keeps all state";
    else if (!strcmp(word, "use")) said = use;
    else if (!strcmp(word, "next")) said = "the update";
    else if (!strcmp(word, "states")) said = op->phase == PHASE_OPTIMIZER ? "optimizer states" : "parameters";
    else if (!strcmp(word, "swapped")) said = op->phase == PHASE_OPTIMIZER ? "the update" : "the next gather";
    for (size_t w = 0; w < sizeof by_group / sizeof *by_group; w++)
        if (!strcmp(word, by_group[w].word)) said = by_group[w].said[op->group];
    return text_of("%s", said);
}

static void fill_in(char out[SENTENCE_ROOM], const char *text, const struct subject *of)
{
    size_t used = 0;
    while (*text && used + 1 < SENTENCE_ROOM) {
        char word[16];
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        if (!end || (size_t)(end - text) > sizeof word) {
            out[used++] = *text++;
            continue;
        }
        snprintf(word, sizeof word, "%.*s", (int)(end - text - 1), text + 1);
        used += (size_t)snprintf(out + used, SENTENCE_ROOM - used, "%s", word_text(word, of).text);
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
    const struct span *span = span_of_op(board->scene->history, board->rank, of->op->lane, board->at.step, of->number);
    if (!span || span->waited_on < 0 || span->started_ns <= span->issued_ns) return;
    text_append(out, SENTENCE_ROOM, " It waited for %.60s.",
                op_text(board->scene->model, board->at.plan->number, span->waited_on).text);
}

/* Who takes part, if not all ranks do. */
static void add_takers(char out[SENTENCE_ROOM], const struct subject *of)
{
    if (of->op->lane != LANE_COMM || of->op->group == GROUP_WORLD) return;
    text_append(out, SENTENCE_ROOM, " Group: %s.", takers_text(&of->board->at.plan->ops, of->op, of->board->rank).text);
}

/* What quantizing did to the units of the operation, on all ranks, in the newest step that it was measured in. */
static void add_errors(char out[SENTENCE_ROOM], const struct subject *of)
{
    const struct run_header *header = &of->board->scene->model->header;
    struct run_quantized sum = {0};
    for (int u = 0; u < header->unit_count && u < of->board->units; u++)
        if (of->board->worked_on[u]) run_quantized_add(&sum, &header->units[u].quantized[of->op->bucket >= 0]);
    if (sum.step) text_append(out, SENTENCE_ROOM, " In step %u: %s.", sum.step, quantized_text(&sum).text);
}

static void write_rest(char out[SENTENCE_ROOM], const struct board *board)
{
    const struct run_rank *rank = &board->scene->model->rank[board->rank];
    uint64_t held = 0;
    for (int tier = 0; tier < TIERS; tier++)
        for (int i = 0; i < BOARD_ARRAYS; i++) held += rank->tier[tier].category[board_categories[i]].live_bytes;
    snprintf(out, SENTENCE_ROOM, "Between steps, at stage %d, rank %d keeps %s: %s.", board->at.plan->stage,
             board->rank, format_bytes_bare(board->scene->state->units, held).text,
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
