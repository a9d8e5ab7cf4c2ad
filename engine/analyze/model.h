/* The state of a run as its trace tells it: records are folded in, one by one, and every reader (views, headless progress,
 * reports, labs) looks at the result. No I/O, no clock, no curses: the same records always give the same state, whether
 * they come from a live engine or from a file. What is not known is marked so (has_*), never 0. */
#ifndef ENGINE_ANALYZE_MODEL_H
#define ENGINE_ANALYZE_MODEL_H

#include "engine/plan/schedule.h"
#include "engine/trace/record.h"

/* Owned by whoever writes engine/analyze; see model.c. */
struct run_model;

#endif
