/* The JSON report of a run, for scripts: every name of it is a promise (docs: the report's format). Unknown is null.
 * traffic[].count is the operations of one rank over the run; *_per_step are means over steps and ranks. Of a run that went on with
 * other ranks, parts[] says from which step on there were how many; steps[].sent_bytes is as long as that step had ranks, and
 * ranks, memory, peak, traffic and processes are of the last part. */
#ifndef ENGINE_ANALYZE_REPORT_H
#define ENGINE_ANALYZE_REPORT_H

#include "engine/analyze/model.h"

/* What showing the run took; frames 0: it was not shown, bytes -1: unknown. */
struct report_screen { int64_t frames, bytes; };

/* Make the model with options.steps = 0, or the oldest steps are missing. Caller frees; NULL: no memory. */
char *report_json(const struct run_model *model, const struct report_screen *screen);

#endif
