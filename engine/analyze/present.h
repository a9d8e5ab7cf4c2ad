/* The configuration as it is at the cursor: what the header says, and what was changed since. */
#ifndef ENGINE_ANALYZE_PRESENT_H
#define ENGINE_ANALYZE_PRESENT_H

#include "engine/analyze/model.h"

/* STATUS_INPUT: the trace has no configuration, or none that can be read. The caller releases it with config_release(). */
int present_config(struct config *config, const struct run_model *model, struct error *err);

/* The step before which a key ("zero_optimization.stage") was last changed while the run went on; false: it never was, as
 * far as events are kept. */
bool present_changed(const struct run_model *model, const char *key, uint32_t *step);

#endif
