/* Explains an out-of-memory error: bytes by category at that instant, the key that owns each, changes that fit. */
#pragma once

#include "engine/zero/zero.h"

struct cJSON;

/* The detail of the "oom" event; the keys are those that observe/model.h reads. schedule NULL: no step was under way. */
struct cJSON *shortage_json(const struct zero_shortage *shortage, const struct config *config, const struct model *model,
                            const struct schedule *schedule, int ranks);
