/* Shared by why*.c and shortage.c. Internal to engine/advise. */
#ifndef ENGINE_ADVISE_WHY_PARTS_H
#define ENGINE_ADVISE_WHY_PARTS_H

#include "engine/advise/why.h"
#include "engine/plan/setup.h"

/* why_terms.c: what a category is made of at the plan's peak. */
void why_terms(struct why_tenant *tenant, const struct schedule *schedule, const struct model *model, enum tier tier, int peak_op);

/* The changes of knobs.def. */
enum move_id {
    MOVE_NONE,
#define MOVE(ID, from, ...)                     MOVE_##ID,
#define OWNER(tier, category, key, beside, ...)
#include "engine/advise/knobs.def"
    MOVES
};

/* why_moves.c: writes command and text, and makes the change in `config`; false: it is no change, or cannot be made. */
bool why_move(struct why_change *change, struct config *config, enum move_id id);
/* Those that are offered for a category, in the order of the table. Returns how many. */
enum { WHY_MOVES_MAX = 8 };
int why_moves_of(enum move_id list[WHY_MOVES_MAX], enum tier tier, enum category category);

/* why_changes.c: what the knobs of a category would give, and what each stage would. */
void why_changes(struct why_tenant *tenant, const struct config *config, const struct why *why);
void why_stages(struct why *why, const struct config *config);

/* What a setup says of a rank's tier; and a configuration's, planned. */
struct why_plan why_plan_from(const struct setup *setup, int rank, enum tier tier);
void why_plan_of(struct why_plan *plan, const struct config *config, int rank, enum tier tier);

#endif
