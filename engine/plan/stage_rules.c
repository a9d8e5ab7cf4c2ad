#include "engine/plan/stage_rules.h"

#define WHOLE {EXTENT_WHOLE, GROUP_WORLD}
#define SHARD {EXTENT_SHARD, GROUP_WORLD}

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
    return rules->parameters.extent == EXTENT_SHARD;
}

bool stage_refreshes(const struct stage_rules *rules)
{
    return rules->optimizer.extent == EXTENT_SHARD && rules->parameters.extent == EXTENT_WHOLE;
}

enum op_kind stage_reduction(const struct stage_rules *rules)
{
    return rules->optimizer.extent == EXTENT_WHOLE ? OP_ALL_REDUCE : OP_REDUCE_SCATTER;
}

bool stage_reduces_each(const struct stage_rules *rules, const struct config_zero *knobs)
{
    return rules->gradients.extent == EXTENT_SHARD && !knobs->no_sync;
}
