/* One rank of a ZeRO run: its state, its lanes, training steps, and everything else that happens between two steps.
 *
 *     zero_open(&zero, &options)             reserves memory, builds layout and schedules, makes the initial state
 *     loop:
 *         zero_step(zero, &result)           one training step; every rank gets the same outcome
 *         zero_switch(zero, &knobs, ...)     another stage or other knobs: new schedule, state resharded in place
 *     comm_close(comm)                       from here on no peer reads this rank's memory
 *     zero_close(zero)
 *
 * Calls that may train, move or compare state are collective, unless a comment says otherwise: all ranks make them with equal
 * arguments. A rank that cannot allocate stays in the step: it runs the rest of the list with an error flag, all ranks agree,
 * the step's memory is given back, the state from before the step remains, and the result says ZERO_OUT_OF_MEMORY. The same
 * step can then be taken again, after a switch or with another budget. */
#pragma once

#include "engine/comm/comm.h"
#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/memory/memory.h"
#include "engine/plan/footprint.h"
#include "engine/trace/ring.h"
#include "engine/zero/executor.h"
#include "engine/zero/state.h"

struct zero;
struct lane_stream;
struct kernels; /* kernels/kernels.h */
struct mover;   /* engine/memory/mover.h */
struct pages;   /* engine/memory/pages.h */

/* One ring per lane, one for the rank's control thread (the caller of these functions), one for memory records (written by
 * all lanes, under the allocator's lock), and one for schedules, whose records are large (rank 0's control thread). */
enum { ZERO_RING_CONTROL = LANES, ZERO_RING_MEMORY, ZERO_RING_SCHEDULES, ZERO_RINGS };

/* A device for the device tier: its pages, its kernels, a mover for each lane, and the device side of collectives. The caller owns
 * all of it and keeps it until the rank is closed. Kernels run on the stream that the compute lane's mover waits for. */
struct zero_device {
    const struct pages *pages;
    struct kernels *kernels;
    const struct mover *movers[LANES]; /* NULL: the lane never touches the device */
    const struct lane_stream *streams[LANES]; /* of lanes that can run ahead (lane_stream.h); NULL: the lane waits for the device */
    const struct comm_device_ops *device_ops;
    void (*name_work)(const char *name); /* opens a profiler range on the calling thread; name NULL: closes it. NULL: no profiler */
};

struct zero_options {
    const struct config *config; /* kept; must outlive the rank */
    struct comm *comm;
    const struct data *data;
    const struct zero_device *device;     /* NULL: the device tier is memory of this machine, its kernels run on the CPU */
    struct trace_ring *rings[ZERO_RINGS]; /* NULL: telemetry off */
    struct gate *gate;                    /* shared by all ranks; NULL: none (engine/base/gate.h) */
    /* Rank 0, on the thread of zero_step(): called while the step waits at the closed gate, before operation `next` (or the
     * step's end); returns when the gate may have been raised. NULL: another thread raises it. */
    void (*at_gate)(void *user, const struct schedule *schedule, uint32_t next);
    void *gate_user;
    const struct state_source *source;    /* gives the first state and its progress; NULL: initial values. Must outlive the rank */
    uint32_t first_schedule;              /* schedules get numbers from this one on; numbers are unique in a run */
};

/* ZERO_DIVERGED: the run must end, for one of three reasons:
 *   - the loss or the gradients are not finite, and such steps are not skipped (fp32, or bf16 without check_grad_overflow);
 *   - schedule.max_skips steps in a row were skipped;
 *   - gradients overflowed at the smallest loss scale.
 * In the last two cases result.skipped is true, and the step counts in steps_done and samples.
 * The weights are those from before the step, except that a pending delayed update has been made. */
enum zero_outcome { ZERO_DONE, ZERO_OUT_OF_MEMORY, ZERO_DIVERGED };

/* The first tensor that is not finite. tensor "": none was found (for example, only the loss is not finite). */
struct zero_divergence {
    char text[256];  /* "the loss is nan, the gradient norm is nan; first tensor that is not finite: gradient of embed wte" */
    char tensor[64]; /* "embed wte"; the first of the model that is not finite on any rank */
    const char *of;  /* "weights", "gradient", "pending gradient", or a state of the optimizer; "": none was found */
};

struct zero_result {
    enum zero_outcome outcome;
    int64_t step; /* the step that was done, or that failed */
    int lone_rank; /* the only rank whose own loss is not finite; -1: none, or several */
    bool skipped; /* done without an update, because the loss or the gradients are not finite */
    float loss, grad_norm, learning_rate;
    double loss_scale, next_loss_scale; /* of this step, and of the next */
    uint64_t total_ns; /* without the time spent waiting at the gate */
    struct zero_shortage shortage;     /* of ZERO_OUT_OF_MEMORY */
    struct zero_divergence divergence; /* of ZERO_DIVERGED */
};

/* STATUS_RUN with a text in `shortage`: the lasting state does not fit the budget. zero_switch() to smaller knobs, or
 * zero_set_budget() and zero_switch() to the same knobs, then makes it. After any other failure the text is empty, and *out can
 * only be closed, after comm_close(), because peers or their devices may still read its memory. */
int zero_open(struct zero **out, const struct zero_options *options, struct zero_shortage *shortage, struct error *err);
void zero_close(struct zero *zero); /* after comm_close(), which waits for peers that read; NULL: no effect */

/* False: the initial state has not been made yet, for lack of memory. */
bool zero_ready(const struct zero *zero);

int zero_step(struct zero *zero, struct zero_result *result, struct error *err);

/* Adds time spent paused or waiting for a command to the trace record of the next step. Not collective. */
void zero_waited(struct zero *zero, uint64_t ns);

/* Reshards in place; holds at most one extra shard beyond the larger of the two layouts, and a window of at most 8 MiB of host
 * memory if an array is on NVMe. STATUS_OK with outcome ZERO_OUT_OF_MEMORY: it would not fit; a ready rank is unchanged. */
int zero_switch(struct zero *zero, const struct config_zero *knobs, struct zero_result *result, struct error *err);
/* Sets the budget of a tier; bytes 0: none. Every rank calls it between steps. STATUS_RUN: more is live; the old budget stays. */
int zero_set_budget(struct zero *zero, enum tier tier, uint64_t bytes, struct error *err);

/* Injects a fault: the first forward of this rank's next training step writes a NaN into its output. Not collective. */
void zero_spoil(struct zero *zero);

/* Replaces the rank's trace rings; NULL: records nothing. anew: the rings are empty, so the plan is recorded first. Between steps;
 * not collective. */
void zero_set_rings(struct zero *zero, struct trace_ring *const rings[ZERO_RINGS], bool anew);

/* *loss: mean over at most `samples` held-out samples of all ranks together, rounded down to whole batches (B x ranks samples).
 * *tokens: how many tokens were read. STATUS_USAGE: less than one batch. STATUS_RUN: also when memory ran out. */
int zero_evaluate(struct zero *zero, int64_t samples, float *loss, int64_t *tokens, struct error *err);

/* Appends a text of `count` tokens that the model draws to `text`, decoded by data_tokenizer(); equal on every rank. The number
 * of steps done is part of the seed. */
int zero_sample(struct zero *zero, int count, float temperature, struct bytes *text, struct error *err);

/* Hash of parameters, master weights and optimizer states in canonical (unsharded, unpadded) order; equal on every rank. Pending
 * gradients are not hashed. STATUS_CHECK: a rank's whole copy of an array differs from the owners' shards. */
int zero_state_hash(struct zero *zero, uint64_t *hash, struct error *err);

/* Whether every value of the state is finite in the type in which it is used; if not, *found names the first tensor that is not.
 * Equal on every rank. */
int zero_check_state(struct zero *zero, bool *finite, struct zero_divergence *found, struct error *err);

/* Whether the rank has this array. Not collective. */
bool zero_has_array(const struct zero *zero, enum state_array array);

/* Reads elements [first, first + elems) of a unit's array as fp32; all must be in this rank's shard. Not collective.
 * STATUS_USAGE: the rank has no such array. */
int zero_read_state(const struct zero *zero, int unit, enum state_array array, int64_t first, int64_t elems, float *out, struct error *err);
struct zero_progress zero_progress(const struct zero *zero);

/* ---- saving: a rank's own shards of the lasting state, between two steps. Not collective. ---- */

/* Elements of a slice of a unit, without padding; *elems 0: none. zero_source().slice is the rank's own slice. */
void zero_own(const struct zero *zero, int slice, int unit, int64_t *first, int64_t *elems);

/* Reads the rank's own shards from the state itself; progress is zero_progress(). Valid between two steps. */
struct state_source zero_source(const struct zero *zero);

/* A copy of the own shards in host memory (category staging), for a thread that writes it while training continues. One at a
 * time. STATUS_RUN: the host budget has no room. Any thread may give it back. The source's progress is zero; only zero_source() fills it. */
struct zero_snapshot;
uint64_t zero_snapshot_bytes(const struct zero *zero);
int zero_snapshot_take(struct zero *zero, struct zero_snapshot **out, struct error *err);
struct state_source zero_snapshot_source(struct zero_snapshot *snapshot);
void zero_snapshot_give(struct zero_snapshot *snapshot); /* may be NULL */

/* I/O buffers: STATE_BUFFERS_BYTES of host memory (category staging) for each purpose. LOT_OF_CHECKPOINT: load and save a
 * checkpoint. LOT_OF_WEIGHTS: write files of weights beside it. LOT_OF_LEAVING: hand the state to a relaunched run.
 * STATUS_RUN: the host budget has no room. */
enum zero_lot { LOT_OF_CHECKPOINT, LOT_OF_WEIGHTS, LOT_OF_LEAVING, ZERO_LOTS };
int zero_buffers_take(struct zero *zero, enum zero_lot lot, void **out, struct error *err);
void zero_buffers_give(struct zero *zero, enum zero_lot lot);

int64_t zero_steps_done(const struct zero *zero);
const struct schedule *zero_schedule(const struct zero *zero);
const struct memory *zero_memory(const struct zero *zero);
