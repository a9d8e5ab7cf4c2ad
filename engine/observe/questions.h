/* Questions that several readers ask of the state of a run: pure functions of a struct run_model. What they return points into the
 * model and holds until the next record is folded. NULL or false: not known. */
#ifndef ENGINE_OBSERVE_QUESTIONS_H
#define ENGINE_OBSERVE_QUESTIONS_H

#include "engine/observe/model.h"

const struct run_part *run_present_part(const struct run_model *model); /* NULL: the header is not known */
bool run_step_is_whole(const struct run_step *step);                   /* every rank ended it */
const struct run_step *run_last_step(const struct run_model *model);   /* that is whole; NULL: none */
const struct run_step *run_last_step_here(const struct run_model *model); /* ... and was taken by the ranks of this part; NULL: none yet */
/* The step whose peaks the ranks hold. One of them may already be a step further; 0: records are missing, and they differ by more. */
uint32_t run_peak_step(const struct run_model *model);
const struct run_step *run_step_numbered(const struct run_model *model, uint32_t step); /* NULL: not kept */
/* The newest step that ran `plan` and that every rank ended with an update; 0: none. */
uint32_t whole_step_of(const struct run_model *model, const struct run_schedule *plan);
/* A run may have no schedule: a trace of another program has none. Its operations are then of no known lane and kind. */
const struct run_schedule *run_schedule_numbered(const struct run_model *model, uint32_t number);
const struct op *run_op(const struct run_schedule *schedule, int64_t number); /* NULL: no schedule, or it has no such operation */

/* The stage that a record says; RUN_UNKNOWN: none. */
static inline int run_stage_of(uint8_t recorded) { return recorded == TRACE_NO_STAGE ? RUN_UNKNOWN : recorded; }

/* Notices folded so far, also those no longer kept; and the place of the first that came after `seen` of them, and is kept. */
uint64_t run_notices_seen(const struct run_model *model);
int run_notices_since(const struct run_model *model, uint64_t seen);

/* Lanes that are there to be seen, as bits: compute and communication, and any other that a known schedule uses. */
uint32_t run_lanes(const struct run_model *model);
int run_lane_count(const struct run_model *model);
const struct run_schedule *run_training(const struct run_model *model); /* the schedule that trains; NULL: none yet */

/* The last whole steps of one schedule that together took about a second: calm figures for a screen. False: none yet. */
struct run_recent {
    int steps, split_steps;                 /* split_steps: of these the split is known */
    uint64_t tokens, total_ns;              /* sums */
    uint64_t split_total_ns;                /* of the steps whose split is known ... */
    double phase_ns[PHASES], exposed_ns;    /* ... and where it went, mean over ranks */
};
bool run_recent(const struct run_model *model, struct run_recent *recent);
bool run_tokens_per_second(const struct run_model *model, double *value);

/* What an operation that is not of the compute lane moves. */
enum traffic traffic_of_op(enum op_kind kind);

/* The GPU of which this rank is the first, so that each comes once; NULL: none, or unknown. */
const struct run_gpu *run_gpu_led_by(const struct run_model *model, int rank);
/* What lies outside of all tiers on a rank's GPU, one figure for all ranks that share it; NULL: no GPU, or not known. */
const struct run_outside *run_outside_of(const struct run_model *model, int rank);

/* What the whole tier of a rank is planned to hold at its fullest; false: unknown. */
bool run_predicted_peak(const struct run_model *model, enum tier tier, uint64_t *bytes);

/* Of a shortage whose list of what would fit is empty: why it is. */
const char *run_no_fits(const struct run_shortage *shortage);

/* "starting", "running", "paused", "out of memory", "ended", "starting again"; "finished", "out_of_memory", "failed", "stopped". */
const char *run_state_name(enum run_state state);
const char *run_outcome_name(enum outcome outcome);

#endif
