/* The configuration as it is at the cursor: what the header says, and what was changed since. */
#ifndef ENGINE_ADVISE_PRESENT_H
#define ENGINE_ADVISE_PRESENT_H

#include "engine/observe/questions.h"

/* STATUS_INPUT: the trace has no configuration, or none that can be read. The caller releases it with config_release(). */
int present_config(struct config *config, const struct run_model *model, struct error *err);

/* A key that was changed while the run went on, and before which step, as far as events are kept. */
struct present_change { char key[CONFIG_PATH_MAX], value[64]; uint32_t step; };

enum { PRESENT_CHANGES_MAX = 64 };

/* In the order in which they were made; of more than there is room for, the newest. Returns how many. */
int present_changes(const struct run_model *model, struct present_change changes[PRESENT_CHANGES_MAX]);

#endif
