/* Decides whether a key *binds*. A key of the step binds if the step planned at the key's neutral value (no limit,
 * nothing ahead, off) is another one; a budget is compared with the planned bytes, a pace with the links in use. So a
 * key that changes nothing is known to change nothing. */
#pragma once

#include "engine/base/grouped.h"
#include "engine/config/keys.h"
#include "engine/plan/setup.h"

enum verdict { BINDING_UNKNOWN, BINDS, BINDS_NOT, BINDING_NONE }; /* NONE: no question of binding */

/* Figures of a planned step that keys can change. */
struct step_counts { int gathers, ahead, flushes, refreshes; uint64_t peak_bytes[TIERS]; };

struct binding {
    enum verdict verdict;
    char neutral[24];         /* the neutral value it was compared with; "": none */
    bool without_offload;     /* ... and with nothing offloaded, as stage 0 has it */
    bool off;                 /* the key has its neutral value, and `reason` says what that means */
    bool planned;             /* the step at the neutral value was planned; its figures are `other` */
    struct step_counts other;
    char reason[96];          /* why it binds or not, if no step was planned or the key is off; else "" */
};

struct step_counts step_counts_of(const struct setup *setup);

/* Sets the key to the value at which it does nothing, and turns off what conflicts with that value. False: there is no such value,
 * or this configuration does not allow it. */
bool binding_neutralize(struct config *config, const char *key);

extern const char *const budget_keys[TIERS];

/* False: `path` is a parameter of an optimizer or scheduler that is not in use. */
bool binding_in_force(const struct config *config, const char *path);

/* Fills *binding for one key. `setup` is the setup planned from `config`. */
void binding_of(struct binding *binding, const struct config_key *key, const struct config *config, const struct setup *setup);

/* The verdict's reason: "with 0: gathers 0 instead of 12". "": BINDING_NONE. */
void binding_why(char *text, size_t room, const struct binding *binding, const struct step_counts *now, bytes_writer *bytes);

/* ---- effect.c: a sentence on what a key does in one run (from knobs.def), with the plan's figures ---- */

/* A run's plan: configuration, setup, and figures for the sentences. */
struct effect_run {
    const struct config *config;
    const struct setup *setup;
    struct step_counts step;
    struct traffic_sum traffic[TRAFFIC_KINDS]; /* of rank 0 */
    int64_t sent_bytes;
};

struct effect_run effect_run_of(const struct config *config, const struct setup *setup);

/* Writes the sentence to `text`; "": it would say no more than the key's help. */
void effect_of(char *text, size_t room, const struct config_key *key, const struct effect_run *run);
