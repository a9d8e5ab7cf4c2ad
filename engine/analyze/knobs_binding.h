/* Inside knobs.c: whether each knob binds. */
#ifndef ENGINE_ANALYZE_KNOBS_BINDING_H
#define ENGINE_ANALYZE_KNOBS_BINDING_H

#include "engine/analyze/knobs.h"

void knobs_bind(struct knobs *knobs, const struct config *config);

#endif
