/* What a configuration key does in one particular run: a sentence (knobs.def), with the plan's figures where it has some. */
#ifndef ENGINE_ADVISE_EFFECT_H
#define ENGINE_ADVISE_EFFECT_H

#include "engine/advise/binding.h"

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
