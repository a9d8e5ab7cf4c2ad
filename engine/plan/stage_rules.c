#include "engine/plan/stage_rules.h"

#define WHOLE EXTENT_WHOLE
#define SHARD EXTENT_SHARD

static const struct stage_rules table[] = {
    /* parameters, gradients, optimizer states, sub-groups */
    {WHOLE, WHOLE, WHOLE, false},
    {WHOLE, WHOLE, SHARD, false},
    {WHOLE, SHARD, SHARD, false},
    {SHARD, SHARD, SHARD, true},
};

const struct stage_rules *stage_rules(int stage)
{
    return &table[stage];
}

bool stage_gathers(const struct stage_rules *rules)
{
    return rules->parameters == EXTENT_SHARD;
}

bool stage_refreshes(const struct stage_rules *rules)
{
    return rules->optimizer == EXTENT_SHARD && rules->parameters == EXTENT_WHOLE;
}

enum op_kind stage_reduction(const struct stage_rules *rules, const struct schedule *schedule)
{
    const bool in_place = rules->gradients == EXTENT_WHOLE && schedule->knobs.rank_order &&
                          schedule_shard_ranks(schedule) < schedule->ranks;
    return in_place || rules->optimizer == EXTENT_WHOLE ? OP_ALL_REDUCE : OP_REDUCE_SCATTER;
}

bool stage_reduces_each(const struct stage_rules *rules, const struct config_zero *knobs)
{
    return rules->gradients == EXTENT_SHARD && !knobs->no_sync;
}
