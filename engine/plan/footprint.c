#include "engine/plan/footprint.h"

#include <limits.h>
#include <string.h>

#include "engine/plan/stage_rules.h"

static void add(struct footprint *footprint, int64_t live[TIERS][CATEGORIES], const struct buffer *buffer)
{
    live[buffer->tier][buffer->category] += buffer->bytes;
    uint64_t end = buffer->offset + (uint64_t)buffer->bytes;
    if (footprint->category[buffer->tier][buffer->category].extent_bytes < end)
        footprint->category[buffer->tier][buffer->category].extent_bytes = end;
}

static void note_peaks(struct footprint *footprint, int64_t live[TIERS][CATEGORIES], int op)
{
    for (int tier = 0; tier < TIERS; tier++) {
        int64_t total = 0;
        for (int c = 0; c < CATEGORIES; c++) {
            total += live[tier][c];
            if (footprint->category[tier][c].peak_bytes < live[tier][c])
                footprint->category[tier][c].peak_bytes = live[tier][c];
        }
        if (total <= footprint->peak_bytes[tier]) continue;
        footprint->peak_bytes[tier] = total;
        footprint->peak_op[tier] = op;
        for (int c = 0; c < CATEGORIES; c++) footprint->category[tier][c].at_peak_bytes = live[tier][c];
    }
}

void footprint_of(struct footprint *footprint, const struct schedule *schedule)
{
    int64_t live[TIERS][CATEGORIES] = {0};
    *footprint = (struct footprint){0};
    for (int b = 0; b < schedule->lasting_count; b++) add(footprint, live, &schedule->buffers[b]);
    for (int tier = 0; tier < TIERS; tier++)
        for (int c = 0; c < CATEGORIES; c++) {
            footprint->category[tier][c].resting_bytes = live[tier][c];
            footprint->resting_bytes[tier] += live[tier][c];
        }
    note_peaks(footprint, live, -1);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        for (int t = 0; t < op->take_count; t++)
            add(footprint, live, &schedule->buffers[schedule->effects[op->first_take + t]]);
        note_peaks(footprint, live, i);
        for (int g = 0; g < op->give_count; g++) {
            const struct buffer *buffer = &schedule->buffers[schedule->effects[op->first_give + g]];
            live[buffer->tier][buffer->category] -= buffer->bytes;
        }
    }
}

bool footprint_fits(const struct footprint *footprint, const uint64_t limits[TIERS])
{
    for (int tier = 0; tier < TIERS; tier++)
        if (limits[tier] && (uint64_t)footprint->peak_bytes[tier] > limits[tier]) return false;
    return true;
}

enum traffic op_traffic(enum op_kind kind)
{
    if (op_lane(kind) == LANE_D2H) return TRAFFIC_D2H;
    if (op_lane(kind) == LANE_H2D) return TRAFFIC_H2D;
    if (op_lane(kind) == LANE_NVME_READ) return TRAFFIC_NVME_READ;
    if (op_lane(kind) == LANE_NVME_WRITE) return TRAFFIC_NVME_WRITE;
    switch (kind) {
    case OP_GATHER:
    case OP_REFRESH: return TRAFFIC_ALL_GATHER;
    case OP_REDUCE_SCATTER: return TRAFFIC_REDUCE_SCATTER;
    case OP_ALL_REDUCE: return TRAFFIC_ALL_REDUCE;
    case OP_BROADCAST: return TRAFFIC_BROADCAST;
    case OP_ALL_TO_ALL: return TRAFFIC_ALL_TO_ALL;
    case OP_EXCHANGE:
    case OP_AGREE: return TRAFFIC_CONTROL;
    default: return TRAFFIC_KINDS;
    }
}

double traffic_seconds(const struct traffic_sum *sum, const struct config_link *link)
{
    const double rate = link->bandwidth_bytes_per_s;
    return sum->count * link->latency_s + (rate > 0 ? (double)sum->sent_bytes / rate : 0);
}

/* Members [from, end) of a group, by their places in it. */
struct members {
    int from, end;
};

/* Those on a rank's node. */
static struct members members_near(const struct process_group *group, int rank, int per_node)
{
    const int begins = rank / per_node * per_node, skipped = begins - group->first, stride = group->stride;
    const int from = skipped > 0 ? (skipped + stride - 1) / stride : 0,
              end = (skipped + per_node + stride - 1) / stride;
    return (struct members){from, end < group->count ? end : group->count};
}

double traffic_inter_share(const struct schedule *schedule, enum group kind, int per_node)
{
    const int ranks = schedule->ranks;
    int64_t pairs = 0, apart = 0;
    if (per_node <= 0 || per_node >= ranks) return 0;
    if (kind == GROUP_WORLD) return (double)(ranks - per_node) / (ranks - 1);
    const struct process_group first = schedule_group(schedule, kind, 0);
    const int64_t period =
        (int64_t)per_node * (first.stride > 1 ? first.stride : first.count); /* then all is as before */
    for (int rank = 0; rank < ranks && rank < period; rank++) {
        const struct process_group group = schedule_group(schedule, kind, rank);
        const struct members near = members_near(&group, rank, per_node);
        pairs += group.count - 1;
        apart += group.count - (near.end - near.from);
    }
    return pairs ? (double)apart / (double)pairs : 0;
}

static int64_t elems_within(const struct piece *piece, int64_t low, int64_t high, int64_t *from)
{
    const int64_t first = piece->first > low ? piece->first : low,
                  end = piece->first + piece->elems < high ? piece->first + piece->elems : high;
    if (from) *from = first;
    return end > first ? end - first : 0;
}

int64_t piece_elems(const struct schedule *schedule, const struct model *model, const struct piece *piece,
                    enum extent extent, int rank, int64_t *from)
{
    int64_t first, end;
    extent_range(schedule, model, piece->unit, extent, rank, &first, &end);
    return elems_within(piece, first, end, from);
}

/* Of a collective: bytes that `rank` sends to the members of its group, by whether they are on its node. */
struct sent {
    int64_t near, far;
};

/* Parts of a unit: `first`, and `count` - 1 more, each `step` after the one before. */
struct parts {
    int64_t first, step, count;
};

/* How many of them are before part `end`. */
static int64_t parts_before(const struct parts *parts, int64_t end)
{
    const int64_t before = end > parts->first ? (end - parts->first + parts->step - 1) / parts->step : 0;
    return before < parts->count ? before : parts->count;
}

/* Bytes of a piece within those parts, each of so many elements and an array of its own. All between its first and its last part
 * are whole. */
static int64_t parts_bytes(const struct parts *parts, enum dtype dtype, int64_t part_elems, const struct piece *piece)
{
    const int64_t first = piece->first / part_elems, last = (piece->first + piece->elems - 1) / part_elems;
    int64_t bytes = 0;
    const int64_t ends[] = {first, last};
    for (int e = 0; e < (last > first ? 2 : 1); e++) {
        const int64_t from = ends[e] * part_elems;
        if (parts_before(parts, ends[e] + 1) > parts_before(parts, ends[e]))
            bytes += dtype_array_bytes(dtype, elems_within(piece, from, from + part_elems, NULL));
    }
    if (last > first)
        bytes += (parts_before(parts, last) - parts_before(parts, first + 1)) * dtype_array_bytes(dtype, part_elems);
    return bytes;
}

static int64_t owned_bytes(const struct owning *owning, struct members members, enum dtype dtype, const struct piece *piece)
{
    int64_t bytes = 0;
    if (!owning->period) {
        const struct parts parts = {owning->first + members.from * owning->step, owning->step, members.end - members.from};
        return parts_bytes(&parts, dtype, owning->part_elems, piece);
    }
    for (int m = members.from; m < members.end; m++) {
        const struct parts parts = {owning->first + m * owning->step, owning->period, INT_MAX};
        bytes += parts_bytes(&parts, dtype, owning->part_elems, piece);
    }
    return bytes;
}

static struct sent sent_by(const struct schedule *schedule, const struct model *model, const struct op *op, int rank,
                           int per_node)
{
    const bool gathers = op->kind != OP_REDUCE_SCATTER, reduces = op->kind != OP_GATHER && op->kind != OP_REFRESH;
    const struct process_group group = schedule_group(schedule, op->group, rank);
    const struct members near = members_near(&group, rank, per_node), all = {0, group.count};
    const int at = (rank - group.first) / group.stride, near_count = near.end - near.from;
    struct sent sent = {0, 0};
    for (int round = 0; round < op_rounds(schedule, op); round++)
        for (int p = 0; p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            const enum dtype dtype = schedule->buffers[piece->source].dtype;
            const struct owning owning = op_owning(schedule, model, op, piece->unit, rank, round);
            const int64_t own = owned_bytes(&owning, (struct members){at, at + 1}, dtype, piece);
            sent.near += gathers ? own * (near_count - 1) : 0; /* its part goes to all others */
            sent.far += gathers ? own * (group.count - near_count) : 0;
            if (!reduces) continue;
            const int64_t node = owned_bytes(&owning, near, dtype, piece);
            sent.near += node - own;
            sent.far += owned_bytes(&owning, all, dtype, piece) - node;
        }
    return sent;
}

/* Of a copy between tiers. */
static int64_t copied_by(const struct schedule *schedule, const struct model *model, const struct op *op, int rank)
{
    int64_t bytes = op->piece_count ? 0 : op->bytes;
    for (int p = 0; p < op->piece_count; p++) {
        const struct piece *piece = &schedule->pieces[op->first_piece + p];
        bytes += piece_elems(schedule, model, piece, EXTENT_SHARD, rank, NULL) *
                 dtype_bytes(schedule->buffers[piece->source].dtype);
    }
    return bytes;
}

void traffic_of(struct traffic_sum sums[TRAFFIC_KINDS], const struct schedule *schedule, const struct model *model,
                int rank, int per_node)
{
    memset(sums, 0, TRAFFIC_KINDS * sizeof *sums);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const enum traffic kind = op_traffic(op->kind);
        int64_t bytes[LINKS];
        if (kind == TRAFFIC_KINDS || kind == TRAFFIC_CONTROL) continue;
        op_link_bytes(bytes, schedule, model, op, rank, per_node);
        sums[kind].count++;
        for (int link = 0; link < LINKS; link++) sums[kind].sent_bytes += bytes[link];
        sums[kind].across_bytes += bytes[LINK_INTER];
    }
}

struct traffic_sum traffic_between_ranks(const struct traffic_sum sums[TRAFFIC_KINDS])
{
    struct traffic_sum all = {0};
    for (int kind = 0; kind < TRAFFIC_KINDS; kind++) {
        if (traffic_is_copy((enum traffic)kind)) continue;
        all.count += sums[kind].count;
        all.sent_bytes += sums[kind].sent_bytes;
        all.across_bytes += sums[kind].across_bytes;
    }
    return all;
}

void op_link_bytes(int64_t bytes[LINKS], const struct schedule *schedule, const struct model *model,
                   const struct op *op, int rank, int per_node)
{
    const enum traffic kind = op_traffic(op->kind);
    memset(bytes, 0, LINKS * sizeof *bytes);
    if (kind == TRAFFIC_KINDS || kind == TRAFFIC_CONTROL) return;
    if (traffic_is_copy(kind)) {
        bytes[traffic_link(kind)] = copied_by(schedule, model, op, rank);
        return;
    }
    const struct sent sent = sent_by(schedule, model, op, rank, per_node > 0 ? per_node : schedule->ranks);
    bytes[LINK_INTRA] = sent.near;
    bytes[LINK_INTER] = sent.far;
}

static void add_term(struct volume *volume, bool gradients, enum group group, int times, bool quantized)
{
    if (times) volume->term[volume->count++] = (struct volume_term){gradients, group, times, quantized};
}

struct volume traffic_theory_volume(const struct schedule *schedule)
{
    const struct stage_rules *rules = stage_rules(schedule->stage);
    const int m = schedule->micro_steps, reductions = stage_reduces_each(rules, &schedule->knobs) ? m : 1;
    const enum group shards = schedule_shard_group(schedule);
    const bool second =
                   stage_gathers(rules) && schedule->knobs.hpz_partition > 1, /* all gathers of a step but the first */
        replicas = shards == GROUP_SHARDS && !schedule->knobs.rank_order,
               to_host = rules->gradients == EXTENT_SHARD && schedule->knobs.offload_optimizer != OFFLOAD_NONE,
               hops = schedule_gathers_in_hops(schedule), quantized = schedule_quantizes_gradients(schedule);
    struct volume volume = {0};
    if (stage_reduction(rules, schedule) == OP_ALL_REDUCE) {
        add_term(&volume, true, GROUP_WORLD, 2, false);
    } else if (quantized || schedule_reduces_in_hops(schedule)) {
        add_term(&volume, true, GROUP_NODE, schedule->node_ranks > 1 ? reductions : 0, quantized);
        add_term(&volume, true, GROUP_ACROSS, reductions, quantized);
    } else if (replicas) {
        add_term(&volume, true, shards, reductions, false);
    } else {
        add_term(&volume, true, GROUP_WORLD, reductions * (schedule->ranks / schedule_shard_ranks(schedule)), false);
    }
    if (replicas) add_term(&volume, true, GROUP_REPLICAS, 2 * (to_host ? reductions : 1), false);
    const int gathers = second ? 1 : stage_gathers(rules) ? 2 * m : stage_refreshes(rules);
    const bool blocks = stage_gathers(rules) && schedule->knobs.quantized_weights;
    add_term(&volume, false, hops ? GROUP_ACROSS : shards, gathers, blocks);
    if (hops) add_term(&volume, false, GROUP_NODE, gathers, blocks);
    if (second) add_term(&volume, false, GROUP_PARTITION, 2 * m - 1, false);
    return volume;
}

/* What leaves for the host tier is summed before it is converted to the type that is kept. */
static enum dtype replicas_dtype(const struct model *model, const struct schedule *schedule)
{
    const bool leaves =
        stage_rules(schedule->stage)->gradients == EXTENT_SHARD && schedule->knobs.offload_optimizer != OFFLOAD_NONE;
    return leaves ? model->wire : model->gradient;
}

double volume_share(const struct schedule *schedule, const struct volume_term *term)
{
    const int ranks = schedule_group(schedule, term->group, 0).count;
    const int parts = term->group == GROUP_REPLICAS ? schedule_shard_ranks(schedule)
                      : term->group == GROUP_ACROSS ? schedule->node_ranks
                                                    : 1;
    return (double)(ranks - 1) / ranks / parts;
}

double traffic_theory_bytes(const struct model *model, const struct schedule *schedule)
{
    const struct volume volume = traffic_theory_volume(schedule);
    double bytes = 0;
    for (int t = 0; t < volume.count; t++) {
        const struct volume_term *term = &volume.term[t];
        const enum dtype dtype = term->quantized                 ? term->gradients ? DTYPE_Q4 : DTYPE_Q8
                                 : !term->gradients              ? model->dtype
                                 : term->group == GROUP_REPLICAS ? replicas_dtype(model, schedule)
                                                                 : model->wire;
        bytes += term->times * dtype_element_bytes(dtype) * (double)model->elems * volume_share(schedule, term);
    }
    return bytes;
}

/* ---- floating-point operations ---- */

double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op)
{
    if (!op->use) return 0;
    return model->architecture->flops(model, op->kind, op->use, schedule->B, schedule->T, op->buffer[ROLE_OUTPUT] >= 0);
}

double op_attention_flops(const struct schedule *schedule, const struct model *model, const struct op *op)
{
    return op->use ? model->architecture->attention_flops(model, op->kind, op->use, schedule->B, schedule->T) : 0;
}

void flops_of(struct flops *flops, const struct schedule *schedule, const struct model *model)
{
    *flops = (struct flops){0};
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        double *sum = op->kind == OP_FORWARD     ? &flops->forward
                      : op->kind == OP_RECOMPUTE ? &flops->recomputed
                                                 : &flops->backward;
        *sum += op_flops(schedule, model, op);
    }
}
