/* What each stage of ZeRO does with parameters, gradients and optimizer states (ZeRO, section 5). The planner takes
 * every rule of a stage from this table, and the executor runs the schedule without knowing the stage. engine/config,
 * engine/advise and engine/cli/resume.c also compare stage numbers: they check, explain and print configurations.
 *
 *               parameters   gradients   optimizer states
 *     stage 0   whole        whole       whole
 *     stage 1   whole        whole       shard
 *     stage 2   whole        shard       shard
 *     stage 3   shard        shard       shard
 *
 * The checker (checker.h) has its own statement of what a stage must do and may not include this file, or it would prove nothing. */
#pragma once

#include "engine/plan/schedule.h"

struct stage_rules {
    enum extent parameters, gradients, optimizer; /* what a rank keeps of each unit between steps: EXTENT_WHOLE or EXTENT_SHARD */
    bool sub_groups; /* updates are cut at sub_group_size, and `ratio` counts sub-groups: DeepSpeed's stage 3 alone has them */
};

const struct stage_rules *stage_rules(int stage);

/* Parameters are gathered for each use and released after it. */
bool stage_gathers(const struct stage_rules *rules);

/* Updated shards of parameters are gathered at the end of a step, because each rank keeps all of them. */
bool stage_refreshes(const struct stage_rules *rules);

/* The collective that reduces gradients: OP_ALL_REDUCE where every rank updates everything, or where replicas would receive sums over
 * all ranks into the arrays that others still read (stage 1 with topology.rank_order); else OP_REDUCE_SCATTER. */
enum op_kind stage_reduction(const struct stage_rules *rules, const struct schedule *schedule);

/* Gradients are reduced after each micro-step, because ranks keep only shards of them. False with no_sync: once a step. */
bool stage_reduces_each(const struct stage_rules *rules, const struct config_zero *knobs);
