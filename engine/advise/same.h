/* Whether two schedules are one: a knob *binds* if changing it changes the schedule. */
#ifndef ENGINE_ADVISE_SAME_H
#define ENGINE_ADVISE_SAME_H

#include "engine/plan/schedule.h"

/* The same operations with the same buffers and dependencies; the knobs they were made with are not looked at. */
bool schedule_same(const struct schedule *a, const struct schedule *b);

#endif
