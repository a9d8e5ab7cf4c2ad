#include "engine/plan/footprint.h"

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
    case OP_AGREE: return TRAFFIC_CONTROL;
    default: return TRAFFIC_KINDS;
    }
}

double traffic_seconds(const struct traffic_sum *sum, const struct config_link *link)
{
    const double rate = link->bandwidth_bytes_per_s;
    return sum->count * link->latency_s + (rate > 0 ? (double)sum->sent_bytes / rate : 0);
}

double traffic_inter_share(int ranks, int per_node)
{
    if (per_node <= 0 || per_node >= ranks) return 0;
    return (double)(ranks - per_node) / (ranks - 1);
}

static int64_t elems_within(const struct piece *piece, int64_t low, int64_t high, int64_t *from)
{
    const int64_t first = piece->first > low ? piece->first : low,
                  end = piece->first + piece->elems < high ? piece->first + piece->elems : high;
    if (from) *from = first;
    return end > first ? end - first : 0;
}

int64_t piece_owned_elems(const struct model *model, const struct piece *piece, int ranks, int rank, int64_t *from)
{
    const int64_t shard = shard_elems(model->units[piece->unit].elems, ranks);
    return elems_within(piece, rank * shard, (rank + 1) * shard, from);
}

int64_t piece_secondary_elems(const struct schedule *schedule, const struct model *model, const struct piece *piece,
                              int rank, int64_t *from)
{
    int64_t first, end;
    extent_range(schedule, model, piece->unit, EXTENT_SECONDARY, rank, &first, &end);
    return elems_within(piece, first, end, from);
}

void traffic_of(struct traffic_sum sums[TRAFFIC_KINDS], const struct schedule *schedule, const struct model *model,
                int rank)
{
    memset(sums, 0, TRAFFIC_KINDS * sizeof *sums);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        enum traffic kind = op_traffic(op->kind);
        if (kind == TRAFFIC_KINDS || kind == TRAFFIC_CONTROL) continue;
        const bool copies = traffic_is_copy(kind);
        sums[kind].count++;
        if (copies && op->piece_count == 0) sums[kind].sent_bytes += op->bytes;
        for (int p = 0; p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            const bool within = op_is_within(schedule, op);
            int64_t mine = within ? piece_secondary_elems(schedule, model, piece, rank, NULL)
                                  : piece_owned_elems(model, piece, schedule->ranks, rank, NULL),
                    bytes = dtype_bytes(schedule->buffers[piece->source].dtype);
            if (copies) {
                sums[kind].sent_bytes += mine * bytes;
                continue;
            }
            int64_t gathered = mine * (op_ranks(schedule, op) - 1) * bytes; /* what I own goes to all others */
            int64_t reduced = (piece->elems - mine) * bytes;         /* what I do not own goes to its owner */
            if (kind != TRAFFIC_REDUCE_SCATTER) sums[kind].sent_bytes += gathered;
            if (kind != TRAFFIC_ALL_GATHER) sums[kind].sent_bytes += reduced;
        }
    }
}

void traffic_across(int64_t bytes[TRAFFIC_KINDS], const struct schedule *schedule, const struct model *model, int rank,
                    int per_node)
{
    const int ranks = schedule->ranks, each = per_node > 0 ? per_node : ranks, node = rank - rank % each;
    memset(bytes, 0, TRAFFIC_KINDS * sizeof *bytes);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const enum traffic kind = op_traffic(op->kind);
        if (op->lane != LANE_COMM || op_is_within(schedule, op)) continue;
        for (int p = 0; p < op->piece_count; p++) {
            const struct piece *piece = &schedule->pieces[op->first_piece + p];
            const int64_t mine = piece_owned_elems(model, piece, ranks, rank, NULL);
            int64_t near = 0, elems = 0;
            for (int r = node; r < node + each; r++) near += piece_owned_elems(model, piece, ranks, r, NULL);
            if (kind != TRAFFIC_REDUCE_SCATTER) elems += mine * (ranks - each);
            if (kind != TRAFFIC_ALL_GATHER) elems += piece->elems - near;
            bytes[kind] += elems * dtype_bytes(schedule->buffers[piece->source].dtype);
        }
    }
}

struct volume traffic_theory_volume(const struct schedule *schedule)
{
    const struct stage_rules *rules = stage_rules(schedule->stage);
    const int m = schedule->micro_steps, reductions = stage_reduces_each(rules, &schedule->knobs) ? m : 1;
    const bool within =
        stage_gathers(rules) && schedule->knobs.hpz_partition > 1; /* all gathers of a step but the first */
    return (struct volume){.gradients = stage_reduction(rules) == OP_ALL_REDUCE ? 2 : reductions,
                           .parameters = within                 ? 1
                                         : stage_gathers(rules) ? 2 * m
                                                                : stage_refreshes(rules),
                           .within = within ? 2 * m - 1 : 0};
}

double traffic_theory_bytes(const struct model *model, const struct schedule *schedule)
{
    const struct volume volume = traffic_theory_volume(schedule);
    const int bytes = volume.gradients * dtype_bytes(model->wire) + volume.parameters * dtype_bytes(model->dtype),
              within = volume.within * dtype_bytes(model->dtype), partition = schedule->knobs.hpz_partition;
    const double all = bytes * (double)model->elems * (schedule->ranks - 1) / schedule->ranks;
    return within ? all + within * (double)model->elems * (partition - 1) / partition : all;
}

/* ---- floating-point operations ---- */

double op_flops(const struct schedule *schedule, const struct model *model, const struct op *op)
{
    if (!op->use) return 0;
    return model->architecture->flops(model, op->kind, op->use, schedule->B, schedule->T, op->buffer[ROLE_OUTPUT] >= 0);
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
