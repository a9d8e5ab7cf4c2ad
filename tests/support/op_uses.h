/* Operations by what they do with GPT-2's units. */
#pragma once

#include "engine/plan/gpt2.h"
#include "engine/plan/schedule.h"

static inline bool op_is(const struct op *op, enum op_kind kind, enum gpt2_use use)
{
    return op->kind == kind && op->use == &gpt2_uses[use];
}

static inline int ops_that_are(const struct schedule *schedule, enum op_kind kind, enum gpt2_use use)
{
    int found = 0;
    for (int i = 0; i < schedule->op_count; i++) found += op_is(&schedule->ops[i], kind, use);
    return found;
}

/* The use of an operation in a schedule made by hand: a block's, if it works on a unit. */
static inline const struct use *use_made_up(enum op_kind kind)
{
    return kind < USE_KINDS ? &gpt2_uses[USE_BLOCK] : NULL;
}
