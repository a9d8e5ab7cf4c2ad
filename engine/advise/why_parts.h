/* Inside "why". Only engine/advise/why*.c and knobs.c include this. */
#ifndef ENGINE_ADVISE_WHY_PARTS_H
#define ENGINE_ADVISE_WHY_PARTS_H

#include "engine/advise/why.h"
#include "engine/plan/setup.h"

/* why_terms.c: what a category is made of at the plan's peak. */
void why_terms(struct why_tenant *tenant, const struct schedule *schedule, const struct model *model, enum tier tier, int peak_op);

/* why_moves.c: one change. Writes command and text, and makes it in `config`; false: it is no change, or cannot be made. */
typedef bool why_move(struct why_change *change, struct config *config);
enum { WHY_MOVES_MAX = 6 };
struct why_owner { const char *knob, *how; why_move *moves[WHY_MOVES_MAX]; /* NULL: no more */ };
const struct why_owner *why_owner_of(enum tier tier, enum category category);
bool why_to_stage(struct why_change *change, struct config *config, int stage);

/* Of what units are gathered and kept: the key that binds at the peak, and one sentence. */
void why_gathered(struct why_tenant *tenant, const struct config *config, const struct why *why);

/* why_changes.c: what the knobs of a category would give, and what each stage would. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why);
void why_stages(struct why *why, const struct config *config);

/* What a setup says of a rank's tier; and a configuration's, planned. */
struct why_plan why_plan_from(const struct setup *setup, int rank, enum tier tier);
void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier);

#endif
