/* Internals of why.h, also for shortage.c: the terms of a category, the changes to offer, and what each would give. */
#pragma once

#include "engine/advise/why.h"
#include "engine/plan/setup.h"

/* why_terms.c: fills tenant->terms, in bytes, for one category at operation peak_op. */
void why_terms(struct why_tenant *tenant, const struct schedule *schedule, const struct model *model, enum tier tier, int peak_op);

/* The changes of knobs.def. */
enum move_id {
    MOVE_NONE,
#define MOVE(ID, from, ...)                     MOVE_##ID,
#define OWNER(tier, category, key, beside, ...)
#include "engine/advise/knobs.def"
    MOVES
};

/* why_moves.c: writes command and text, and makes the change in `config`. False: the key already has that value, or the
 * change is not allowed (then `config` may be half changed). */
bool why_move(struct why_change *change, struct config *config, enum move_id id);
/* Plans each change offered for a category, and each of the four stages. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why);
void why_stages(struct why *why, const struct config *config);

/* Planned bytes of a rank's tier: from a setup; from a configuration (`known` false: it cannot be planned). */
struct why_plan why_plan_from(const struct setup *setup, int rank, enum tier tier);
void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier);
