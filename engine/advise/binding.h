/* Whether a key *binds*: a knob of the step binds if the step would be another one at its neutral value (no limit, nothing
 * ahead, off), which is found out by planning that step too. Budgets are held against the plan, paces against the links
 * that it uses. So a knob that changes nothing is known to change nothing. */
#ifndef ENGINE_ADVISE_BINDING_H
#define ENGINE_ADVISE_BINDING_H

#include "engine/base/grouped.h"
#include "engine/config/keys.h"
#include "engine/plan/setup.h"

enum verdict { BINDING_UNKNOWN, BINDS, BINDS_NOT, BINDING_NONE }; /* NONE: no question of binding */

/* What a step of a plan does, as far as knobs change it. */
struct step_counts { int gathers, ahead, flushes, refreshes; uint64_t peak_bytes[TIERS]; };

struct binding {
    enum verdict verdict;
    char neutral[24];         /* the value it was held against; "": none */
    bool planned;             /* the step at the neutral value: */
    struct step_counts other;
    char reason[96];          /* why it binds or not, where no step was planned; "": the steps say it */
};

struct step_counts step_counts_of(const struct setup *setup);

/* Sets the key to the value at which it does nothing, and turns off what conflicts with that value. False: there is no such value,
 * or this configuration does not allow it. */
bool binding_neutralize(struct config *config, const char *key);

extern const char *const budget_keys[TIERS];

/* What DeepSpeed's own code does with a key, where that is not what is written or done here; "": nothing to say. */
const char *knob_quirk(const char *path);

/* False: a parameter of another optimizer or scheduler than the one in force. */
bool binding_in_force(const struct config *config, const char *path);

/* `setup` is what the configuration leads to. */
void binding_of(struct binding *binding, const struct config_key *key, const struct config *config, const struct setup *setup);

/* What the verdict stands on: "with 0: gathers 0 instead of 12". `value` is the key's own. "": no question of binding. */
void binding_why(char *text, size_t room, const struct binding *binding, const struct step_counts *now, const char *value, bytes_writer *bytes);

/* ---- effect.c: what a key does in one particular run: a sentence (knobs.def), with the plan's figures where it has some ---- */

/* A run as its plan has it. */
struct effect_run {
    const struct config *config;
    const struct setup *setup;
    struct step_counts step;
    struct traffic_sum traffic[TRAFFIC_KINDS]; /* of rank 0 */
    int64_t sent_bytes;
};

struct effect_run effect_run_of(const struct config *config, const struct setup *setup);

/* "": nothing more than the key's help says. */
void effect_of(char *text, size_t room, const struct config_key *key, const struct effect_run *run);

#endif
