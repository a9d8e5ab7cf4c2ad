/* One rank of a ZeRO run: state, lanes, and what can be done with them between two steps.
 *
 *     zero_open(&zero, &options)             reserves memory, builds layout and schedules, makes the initial state
 *     loop:
 *         zero_step(zero, &result)           one training step; its outcome is the same on every rank
 *         zero_switch(zero, &knobs, ...)     another stage or other knobs: new schedule, state resharded in place
 *     comm_close(comm)                       from here on no peer reads this rank's memory
 *     zero_close(zero)
 *
 * Every call is collective: all ranks make it, with equal arguments. A rank that cannot allocate does not leave the step:
 * it drains it with an error flag, all ranks agree, step-scoped memory is given back, the state at the boundary stands, and
 * the result says ZERO_OUT_OF_MEMORY. The same step can then be taken again, after a switch or with another budget. */
#ifndef ENGINE_ZERO_ZERO_H
#define ENGINE_ZERO_ZERO_H

#include "engine/comm/comm.h"
#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/memory/memory.h"
#include "engine/plan/footprint.h"
#include "engine/trace/ring.h"
#include "engine/zero/state.h"

struct zero;
struct lane_stream;
struct kernels; /* kernels/kernels.h */
struct mover;   /* engine/memory/mover.h */
struct pages;   /* engine/memory/pages.h */

/* One ring per lane, one for the rank's control thread (the caller of these functions), one for memory records (written
 * under the allocator's lock by whichever lane takes or gives). */
enum { ZERO_RING_CONTROL = LANES, ZERO_RING_MEMORY, ZERO_RINGS };

/* A device for the device tier: its pages, its kernels, a mover of bytes for each lane, and what works inside collectives. The
 * caller owns all of it and keeps it until the rank is closed. Kernels are enqueued on the stream that the compute lane's mover
 * waits for. */
struct zero_device {
    const struct pages *pages;
    struct kernels *kernels;
    const struct mover *movers[LANES]; /* NULL: the lane never touches the device */
    const struct lane_stream *streams[LANES]; /* of lanes that can run ahead (lane_stream.h); NULL: the lane waits for the device */
    const struct comm_device_ops *device_ops;
};

struct zero_options {
    const struct config *config; /* kept; must outlive the rank */
    struct comm *comm;
    const struct data *data;
    const struct zero_device *device;     /* NULL: the device tier is memory of this machine, its kernels run on the processor */
    struct trace_ring *rings[ZERO_RINGS]; /* NULL: telemetry off */
    struct gate *gate;                    /* shared by all ranks; NULL: none (engine/base/gate.h) */
    /* Rank 0, on the thread of zero_step(): the step stands at the closed gate, before operation `next` (or its end);
     * returns when the gate may have been raised. NULL: somebody else raises it. */
    void (*at_gate)(void *user, const struct schedule *schedule, uint32_t next);
    void *gate_user;
    const struct state_source *source;    /* of the first state and its progress; NULL: initial values. Must outlive the rank */
    uint32_t first_schedule;              /* schedules are numbered from here on: no two of a run may have one number */
};

/* ZERO_DIVERGED: the loss or the gradients are not finite, and no step can be expected to be good again. The state is that of before
 * the step, but a delayed update that was pending has been made. */
enum zero_outcome { ZERO_DONE, ZERO_OUT_OF_MEMORY, ZERO_DIVERGED };

/* What is not finite. tensor "": nothing was found (a loss alone, for one). */
struct zero_divergence {
    char text[256];  /* "the loss is nan, the gradient norm is nan; first tensor that is not finite: gradient of embed wte" */
    char tensor[64]; /* "embed wte"; the first of the model that is not finite on any rank */
    const char *of;  /* "weights", "gradient", or a state of the optimizer */
};

struct zero_shortage { /* why a take failed, on the first rank that failed */
    int rank, op; /* -1: not in a step */
    enum tier tier;
    enum category category;
    uint64_t wanted_bytes, budget_bytes;
    struct memory_snapshot memory;
    char text[256];
};

struct zero_result {
    enum zero_outcome outcome;
    int64_t step; /* the step that was done, or that failed */
    bool skipped; /* done, but without an update: the loss or the gradients are not finite */
    float loss, grad_norm, learning_rate;
    double loss_scale, next_loss_scale; /* of this step, and of the next */
    uint64_t total_ns; /* without what it stood at the gate */
    struct zero_shortage shortage;     /* of ZERO_OUT_OF_MEMORY */
    struct zero_divergence divergence; /* of ZERO_DIVERGED */
};

/* STATUS_RUN with a text in `shortage`: the lasting state does not fit the budget; zero_switch() to something smaller, or
 * zero_set_budget() and zero_switch() to the same, starts it. After any other failure, when the text is empty, *out can only be
 * closed: not before comm_close(), because peers, or their devices, may still read its memory. */
int zero_open(struct zero **out, const struct zero_options *options, struct zero_shortage *shortage, struct error *err);
void zero_close(struct zero *zero); /* after comm_close(), which waits for those who read; NULL: nothing */

/* False while the initial state has not been made for lack of memory. */
bool zero_ready(const struct zero *zero);

int zero_step(struct zero *zero, struct zero_result *result, struct error *err);

/* Time spent paused or waiting for a command; it goes into the record of the next step. */
void zero_waited(struct zero *zero, uint64_t ns);

/* Reshards in place, never holding more than one extra unit. ZERO_OUT_OF_MEMORY: it would not fit; nothing was changed. */
int zero_switch(struct zero *zero, const struct config_zero *knobs, struct zero_result *result, struct error *err);
int zero_set_budget(struct zero *zero, enum tier tier, uint64_t bytes, struct error *err);

/* Replaces the rank's trace rings; NULL: nothing is recorded. anew: the new rings are empty, so the plan is recorded first. Between
 * steps; not collective. */
void zero_listen(struct zero *zero, struct trace_ring *const rings[ZERO_RINGS], bool anew);

/* Mean loss over at most `samples` held-out samples (all ranks together); *tokens says how many tokens were read. */
int zero_evaluate(struct zero *zero, int64_t samples, float *loss, int64_t *tokens, struct error *err);

/* Appends to `text` what `count` tokens from the model after `prompt` mean (data_tokenizer()); every rank gets the same.
 * prompt "": the beginning of a text. Seeded by the step. */
int zero_sample(struct zero *zero, const char *prompt, int count, float temperature, struct bytes *text, struct error *err);

/* Over parameters, master weights and moments in canonical (unsharded, unpadded) order; equal on every rank. */
int zero_state_hash(struct zero *zero, uint64_t *hash, struct error *err);

/* Whether every value of the state is finite, in the type that it is used in; if not, *found says which is not. Equal on every rank. */
int zero_check_state(struct zero *zero, bool *finite, struct zero_divergence *found, struct error *err);

/* Whether there is such an array to be read. */
bool zero_has_array(const struct zero *zero, enum state_array array);

/* Elements [first, first + elems), all within this rank's shard, of an array of a unit. Not collective. */
int zero_read_state(const struct zero *zero, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);
struct zero_progress zero_progress(const struct zero *zero);

/* ---- saving: what a rank holds of the lasting state, its own shards, between two steps. Not collective. ---- */

/* Elements of a unit that this rank owns, without padding; *elems 0: none. */
void zero_own(const struct zero *zero, int unit, int64_t *first, int64_t *elems);

/* The state itself as a source of its own shards. */
struct state_source zero_source(const struct zero *zero);

/* A copy of it in host memory (category staging), for a thread that writes it while training goes on. STATUS_RUN: the host
 * budget has no room. Given back by any thread. */
struct zero_snapshot;
uint64_t zero_snapshot_bytes(const struct zero *zero);
int zero_snapshot_take(struct zero *zero, struct zero_snapshot **out, struct error *err);
struct state_source zero_snapshot_source(struct zero_snapshot *snapshot);
void zero_snapshot_give(struct zero_snapshot *snapshot); /* may be NULL */

/* STATE_BUFFERS_BYTES of host memory (category staging): for loading and saving, for files of weights that are written beside a
 * checkpoint, and for the state that a run leaves to its next part. STATUS_RUN: the host budget has no room. */
enum zero_lot { LOT_OF_CHECKPOINT, LOT_OF_WEIGHTS, LOT_OF_LEAVING, ZERO_LOTS };
int zero_buffers_take(struct zero *zero, enum zero_lot lot, void **out, struct error *err);
void zero_buffers_give(struct zero *zero, enum zero_lot lot);

int64_t zero_steps_done(const struct zero *zero);
const struct schedule *zero_schedule(const struct zero *zero);
const struct memory *zero_memory(const struct zero *zero);

#endif
