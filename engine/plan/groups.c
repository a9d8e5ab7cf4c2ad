/* Who owns what: the one rule from which layout, collectives, norm, hash, saves and switches follow (schedule.h). */
#include "engine/plan/schedule.h"
#include "engine/plan/stage_rules.h"

int schedule_shard_ranks(const struct schedule *schedule)
{
    const int ranks = schedule->knobs.shard_ranks;
    const bool shards = stage_rules(schedule->stage)->optimizer == EXTENT_SHARD;
    return shards && ranks > 0 && ranks < schedule->ranks ? ranks : schedule->ranks;
}

bool schedule_quantizes_gradients(const struct schedule *schedule)
{
    return schedule->knobs.quantized_gradients && schedule->node_ranks > 0 &&
           stage_gathers(stage_rules(schedule->stage));
}

bool schedule_gathers_in_hops(const struct schedule *schedule)
{
    return schedule->knobs.hierarchical && schedule->node_ranks > 1 &&
           stage_rules(schedule->stage)->optimizer == EXTENT_SHARD &&
           schedule_shard_ranks(schedule) > schedule->node_ranks;
}

bool schedule_reduces_in_hops(const struct schedule *schedule)
{
    return schedule_gathers_in_hops(schedule) && schedule_shard_ranks(schedule) == schedule->ranks &&
           !schedule->knobs.rank_order;
}

int64_t schedule_padded_elems(const struct schedule *schedule, const struct model *model, int unit)
{
    return shard_elems(model->units[unit].elems, schedule->ranks) * schedule->ranks;
}

int64_t schedule_shard_elems(const struct schedule *schedule, const struct model *model, int unit)
{
    return schedule_padded_elems(schedule, model, unit) / schedule_shard_ranks(schedule);
}

enum group schedule_shard_group(const struct schedule *schedule)
{
    return schedule_shard_ranks(schedule) < schedule->ranks ? GROUP_SHARDS : GROUP_WORLD;
}

/* Replica k of place p owns the k-th of the shard's slices. With one shard group that is slice p. */
int slice_of(const struct schedule *schedule, int rank)
{
    const int shards = schedule_shard_ranks(schedule), replicas = schedule->ranks / shards;
    return rank % shards * replicas + rank / shards;
}

int slice_owner(const struct schedule *schedule, int slice)
{
    const int shards = schedule_shard_ranks(schedule), replicas = schedule->ranks / shards;
    return slice % replicas * shards + slice / replicas;
}

void slice_range(const struct schedule *schedule, const struct model *model, int unit, int rank, int64_t *first,
                 int64_t *end)
{
    const int64_t elems = shard_elems(model->units[unit].elems, schedule->ranks);
    *first = slice_of(schedule, rank) * elems;
    *end = *first + elems;
}

struct process_group schedule_group(const struct schedule *schedule, enum group kind, int rank)
{
    const int ranks = schedule->ranks, shards = schedule_shard_ranks(schedule);
    switch (kind) {
    case GROUP_SHARDS: return group_consecutive(kind, rank, shards);
    case GROUP_REPLICAS: return group_spread(kind, rank, shards, ranks);
    case GROUP_NODE: return group_consecutive(kind, rank, schedule->node_ranks);
    case GROUP_ACROSS:
        return group_spread(kind, rank, schedule->node_ranks, shards > schedule->node_ranks ? shards : ranks);
    case GROUP_PARTITION: return group_consecutive(kind, rank, schedule->knobs.hpz_partition);
    default: return group_consecutive(GROUP_WORLD, rank, ranks);
    }
}

int op_ranks(const struct schedule *schedule, const struct op *op)
{
    return op->ranks ? op->ranks : schedule_group(schedule, op->group, 0).count;
}

int op_rounds(const struct schedule *schedule, const struct op *op)
{
    return op->kind == OP_REDUCE_SCATTER && op->group == GROUP_WORLD ? schedule->ranks / schedule_shard_ranks(schedule)
                                                                     : 1;
}

struct owning op_owning(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank,
                        int round)
{
    const struct process_group group = schedule_group(schedule, op->group, rank);
    const int shards = schedule_shard_ranks(schedule), begins = rank - rank % shards, replicas = schedule->ranks / shards;
    const int64_t padded = schedule_padded_elems(schedule, model, unit);
    switch (op->group) {
    case GROUP_WORLD: return (struct owning){-(int64_t)round * shards, 1, 0, padded / shards};
    case GROUP_REPLICAS: return (struct owning){(int64_t)(rank % shards) * replicas, 1, 0, padded / schedule->ranks};
    case GROUP_NODE: return (struct owning){-(begins % schedule->node_ranks), 1, schedule->node_ranks, padded / shards};
    case GROUP_ACROSS: return (struct owning){group.first - begins, group.stride, 0, padded / shards};
    default: return (struct owning){0, 1, 0, padded / group.count};
    }
}

int op_owner(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank,
             int round, int64_t at, int64_t *next)
{
    const struct process_group group = schedule_group(schedule, op->group, rank);
    const struct owning owning = op_owning(schedule, model, op, unit, rank, round);
    const int64_t part = at / owning.part_elems;
    int64_t steps = part - owning.first;
    *next = (part + 1) * owning.part_elems;
    if (owning.period) steps %= owning.period;
    const bool is_owned = steps >= 0 && steps % owning.step == 0 && steps / owning.step < group.count;
    return is_owned ? member_rank(&group, (int)(steps / owning.step)) : -1;
}

/* ---- arrays of quantized types ---- */

static bool holds_slice(const struct schedule *schedule, const struct buffer *buffer, int rank, int64_t slice)
{
    return buffer->extent != EXTENT_NODE_PIECE ||
           slice_owner(schedule, (int)slice) % schedule->node_ranks == rank % schedule->node_ranks;
}

int64_t quantized_next(const struct schedule *schedule, const struct model *model, const struct buffer *buffer,
                       int64_t at)
{
    const bool shards = buffer->extent == EXTENT_SHARD || buffer->extent == EXTENT_HEAD;
    const int64_t each = shards ? schedule_shard_elems(schedule, model, buffer->unit)
                                : shard_elems(model->units[buffer->unit].elems, schedule->ranks);
    return (at / each + 1) * each;
}

int64_t quantized_place(const struct schedule *schedule, const struct model *model, const struct buffer *buffer,
                        int rank, int64_t from, int64_t at)
{
    const int64_t slice = shard_elems(model->units[buffer->unit].elems, schedule->ranks);
    int64_t bytes = 0;
    for (int64_t first = from, next; first < at; first = next) {
        next = quantized_next(schedule, model, buffer, first);
        if (next > at) next = at;
        if (holds_slice(schedule, buffer, rank, first / slice)) bytes += dtype_array_bytes(buffer->dtype, next - first);
    }
    return bytes;
}

int64_t quantized_bytes(const struct schedule *schedule, const struct model *model, const struct buffer *buffer,
                        int64_t from, int64_t end)
{
    int64_t most = 0;
    for (int rank = 0; rank < (buffer->extent == EXTENT_NODE_PIECE ? schedule->node_ranks : 1); rank++) {
        const int64_t bytes = quantized_place(schedule, model, buffer, rank, from, end);
        if (bytes > most) most = bytes;
    }
    return most;
}
