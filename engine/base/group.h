/* Process groups: which ranks take part in an operation. The plan names one for each collective, comm runs it, records and views show
 * it. */
#pragma once

/* Groups of one kind are disjoint and together hold all ranks of the run. So collectives of different groups can run at the same time. */
enum group {
    GROUP_WORLD,
    GROUP_SHARDS,    /* mics_shard_size consecutive ranks, over which the shards of each unit are spread */
    GROUP_REPLICAS,  /* the ranks that hold the same shard: one of each GROUP_SHARDS */
    GROUP_PARTITION, /* zero_hpz_partition_size consecutive ranks, which keep a second copy of the parameters between them */
    GROUP_NODE,      /* the ranks of a node */
    GROUP_ACROSS,    /* one rank of each node, all at the same place; a shard group of several nodes has such groups of its own */
    GROUPS
};

/* The ranks first, first + stride, ...: `count` of them. */
struct process_group { enum group kind; int first, stride, count; };

/* The group of a kind that `rank` belongs to. group_consecutive(): `size` consecutive ranks. group_spread(): `span` consecutive ranks
 * hold span / size blocks of `size` ranks; the group has one rank of each block, all at the same place in their block. */
static inline struct process_group group_consecutive(enum group kind, int rank, int size)
{
    return (struct process_group){kind, rank - rank % size, 1, size};
}

static inline struct process_group group_spread(enum group kind, int rank, int size, int span)
{
    return (struct process_group){kind, rank - rank % span + rank % size, size, span / size};
}

static inline int group_has(const struct process_group *group, int rank)
{
    return rank >= group->first && (rank - group->first) % group->stride == 0 &&
           (rank - group->first) / group->stride < group->count;
}

static inline int member_rank(const struct process_group *group, int place)
{
    return group->first + place * group->stride;
}
