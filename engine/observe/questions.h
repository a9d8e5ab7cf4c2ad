/* Queries of the run's state that several readers need: pure functions of a struct run_model. Results point into the
 * model and are valid until the next record is folded. NULL or false: not known. */
#pragma once

#include "engine/base/grouped.h"
#include "engine/observe/model.h"

const struct run_part *run_present_part(const struct run_model *model); /* NULL: the header is not known */
bool run_step_is_whole(const struct run_step *step);                   /* every rank ended it */
const struct run_step *run_last_step(const struct run_model *model);   /* the last whole step; NULL: none */
const struct run_step *run_last_step_here(const struct run_model *model); /* ... of the present part; NULL: none yet */
/* The lowest step to which a rank's step_peak belongs; other ranks may be one step ahead. 0: unknown, because ranks differ by
 * more (records are missing). */
uint32_t run_peak_step(const struct run_model *model);
const struct run_step *run_step_numbered(const struct run_model *model, uint32_t step); /* NULL: not kept */
/* The newest whole step that ran `plan` and made an update; 0: none. */
uint32_t whole_step_of(const struct run_model *model, const struct run_schedule *plan);
/* NULL: no such schedule in the trace. TRACE_OBSERVED: the operations of another program. */
const struct run_schedule *run_schedule_numbered(const struct run_model *model, uint32_t number);
const struct op *run_op(const struct run_schedule *schedule, int64_t number); /* NULL: no schedule, or it has no such operation */

/* The stage in a record; RUN_UNKNOWN: it has none. */
static inline int run_stage_of(uint8_t recorded) { return recorded == TRACE_NO_STAGE ? RUN_UNKNOWN : recorded; }

/* run_notices_seen(): number of all notices folded, also those no longer kept. run_notices_since(): index, among the kept
 * notices, of the first one that came after the first `seen`. */
uint64_t run_notices_seen(const struct run_model *model);
int run_notices_since(const struct run_model *model, uint64_t seen);

/* Lanes to show, as bits: compute, communication, and any other that a known schedule uses. */
uint32_t run_lanes(const struct run_model *model);
int run_lane_count(const struct run_model *model);
const char *run_lane_name(const struct run_model *model, enum lane lane); /* the traced program's name for it */
const char *run_op_name(const struct run_model *model, uint32_t schedule, uint32_t op); /* of another program's operation; NULL: it is not one */
const struct run_schedule *run_training(const struct run_model *model); /* the schedule that trains; NULL: none yet */

/* The last whole steps of one schedule up to step `until`, about a second in all: steady figures for a screen. False: none yet. */
struct run_recent {
    int steps, split_steps;                 /* split_steps: those whose split is known */
    uint64_t tokens, total_ns;              /* sums */
    uint64_t split_total_ns;                /* over the steps whose split is known */
    double phase_ns[PHASES], exposed_ns;    /* over the same steps, mean over ranks */
};
bool run_recent(const struct run_model *model, uint32_t until, struct run_recent *recent);
/* Whether the run is running, no held rank stops it, and its steps are too short to follow on a screen. */
bool run_is_fast(const struct run_model *model);
bool run_tokens_per_second(const struct run_model *model, double *value);

/* Adds what quantizing did to one unit to the sum over several. */
void run_quantized_add(struct run_quantized *sum, const struct run_quantized *of);

/* The use of a link by a kind of traffic, or by all (kind TRAFFIC_KINDS). Sums are divided by `parts`, exposed times by
 * `exposed_parts` (0: unknown). Each link gets the exposed share of its kind. ranks 0: the link is not used; busy_ns 0,
 * exposed_ns below 0: unknown. */
struct link_use { int ranks; double sent_bytes, busy_ns, exposed_ns; };
struct link_use run_link_use(const struct run_traffic by[TRAFFIC_KINDS][LINKS], int kind, int link, double parts,
                             const uint64_t exposed_by_ns[TRAFFIC_KINDS], double exposed_parts);

/* The kind of traffic of an operation that does not run on the compute lane. */
enum traffic traffic_of_op(enum op_kind kind);
/* False: losses, norms and learning rates are unknown: the run is simulated, or another program did not record them. */
bool run_learns(const struct run_model *model);

/* Ranks of the run: more than model->ranks if it is simulated and only the first ones are recorded. */
int run_world(const struct run_model *model);

/* The rank's GPU if it is the first rank on it, so that callers count each GPU once; NULL: it is not, or unknown. */
const struct run_gpu *run_gpu_led_by(const struct run_model *model, int rank);
/* Memory in use outside of all tiers on a rank's GPU, one figure for all ranks on it; NULL: no GPU, or not known. */
const struct run_outside *run_outside_of(const struct run_model *model, int rank);
/* The sensors of all GPUs: the sum of their power, the lowest clock, every reason that lowers a clock. A figure that one GPU
 * lacks is unknown. False: no GPU's sensors were read. */
bool run_sensors(const struct run_model *model, struct run_sensors *all);
/* "power cap, heat (driver)"; "nothing"; "": unknown. */
void run_slowed_text(char *text, size_t room, const struct run_sensors *sensors);

/* The planned peak in bytes of a rank's whole tier. False: unknown. */
bool run_predicted_peak(const struct run_model *model, enum tier tier, uint64_t *bytes);

/* "out of device memory: activations asks for 1.25 MiB, 708 KiB of the budget of 14.3 MiB are left; refused on
 * ranks 0-3"; `bytes` formats the amounts. If the check before the update failed, the text has the update's request. If the event
 * has no amounts, the text is its own. */
void run_shortage_text(char *text, size_t room, const struct run_shortage *shortage, bytes_writer *bytes);

/* Appends "rank 2" or "ranks 0-3, 6": a bit for each. */
void append_ranks(char *text, size_t room, uint64_t ranks);

/* "rank 2"; with several nodes "rank 2 of node 1", or with the name of its host "rank 2 on b". */
enum { RANK_TEXT_ROOM = 64 };
const char *run_rank_text(char out[RANK_TEXT_ROOM], const struct run_model *model, int rank);

/* The shortage in a notice of kind NOTICE_EVENT. False: the event is not a shortage. */
bool run_notice_shortage(struct run_shortage *shortage, const struct run_notice *notice);

/* Why a shortage's list of fitting changes is empty. */
const char *run_no_fits(const struct run_shortage *shortage);

/* "starting", "running", "paused", "out of memory", "ended", "starting again"; "finished", "out_of_memory", "failed", "stopped". */
const char *run_state_name(enum run_state state);
const char *run_outcome_name(enum outcome outcome);

/* ---- waiting.c: which ranks wait in a collective, and for which ranks: pure functions of the run's state. A
 * collective ends when its last rank has begun it, so the rank to look for is the one that does not wait. ---- */

struct run_waiting {
    uint32_t schedule, step, op;
    uint64_t since_ns;         /* when the last of the waiting ranks began it */
    uint64_t waiting, missing; /* a bit for each rank */
};

/* The earliest collective that some ranks of the step are in and others have not begun. False: there is none. */
bool run_waiting(const struct run_model *model, struct run_waiting *found);

/* Whether a rank is held (the command `fault`) and no other rank can start or finish an operation before it is released. */
bool run_is_stuck(const struct run_model *model);

/* "rank 2 has not come to gather block 2; 3 ranks wait there in step 4" */
void run_waiting_text(char *text, size_t room, const struct run_model *model, const struct run_waiting *waiting);
