/* Who owns what: the one rule from which layout, collectives, norm, hash, saves and switches follow (schedule.h). */
#include "engine/plan/schedule.h"
#include "engine/plan/stage_rules.h"

int schedule_shard_ranks(const struct schedule *schedule)
{
    const int ranks = schedule->knobs.shard_ranks;
    const bool shards = stage_rules(schedule->stage)->optimizer == EXTENT_SHARD;
    return shards && ranks > 0 && ranks < schedule->ranks ? ranks : schedule->ranks;
}

int64_t schedule_shard_elems(const struct schedule *schedule, const struct model *model, int unit)
{
    return shard_elems(model->units[unit].elems, schedule->ranks) * schedule->ranks / schedule_shard_ranks(schedule);
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
    case GROUP_PARTITION: return group_consecutive(kind, rank, schedule->knobs.hpz_partition);
    default: return group_consecutive(GROUP_WORLD, rank, ranks);
    }
}

int op_ranks(const struct schedule *schedule, const struct op *op)
{
    return schedule_group(schedule, op->group, 0).count;
}

int op_rounds(const struct schedule *schedule, const struct op *op)
{
    return op->kind == OP_REDUCE_SCATTER && op->group == GROUP_WORLD ? schedule->ranks / schedule_shard_ranks(schedule)
                                                                     : 1;
}

int op_owner(const struct schedule *schedule, const struct model *model, const struct op *op, int unit, int rank,
             int round, int64_t at, int64_t *next)
{
    const int ranks = schedule->ranks, shards = schedule_shard_ranks(schedule);
    const struct process_group group = schedule_group(schedule, op->group, rank);
    const int64_t padded = shard_elems(model->units[unit].elems, ranks) * ranks;
    const bool replicas = op->group == GROUP_REPLICAS; /* each owns its slice of the shard that they hold */
    const int parts = replicas ? ranks : op->group == GROUP_WORLD ? shards : group.count;
    const int part = (int)(at / (padded / parts));
    *next = (part + 1) * (padded / parts);
    if (!replicas) return op->group == GROUP_WORLD ? round * shards + part : member_rank(&group, part);
    const int owner = slice_owner(schedule, part);
    return owner % shards == rank % shards ? owner : -1;
}
