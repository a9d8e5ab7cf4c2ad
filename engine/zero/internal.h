/* The inside of a rank, shared by the files of engine/zero. */
#ifndef ENGINE_ZERO_INTERNAL_H
#define ENGINE_ZERO_INTERNAL_H

#include "engine/gpt/gpt.h"
#include "engine/memory/mover.h"
#include "engine/optim/learning_rate.h"
#include "engine/optim/loss_scale.h"
#include "engine/zero/executor.h"
#include "engine/zero/zero.h"

/* What ranks tell each other at the end of a step. */
struct agreement { double loss, sum_squares; int32_t failed; };

/* Host memory that a step's operations write to or read from when they are carried out, which on a device is later than they
 * are sent: where there is one, it is pinned. Each place is used once in a step. */
struct host_mailbox {
    void *memory;
    uint64_t bytes;
    bool pinned;
    double *unit_squares; /* by unit: of the own shard of its gradient */
    float *losses;        /* by micro-step */
    int32_t *tokens;      /* by micro-step, each with its targets; where there is a device */
};

struct sampler { int32_t *tokens; float *logits; int position; float temperature; uint64_t draw; int32_t next; };

/* A schedule for each purpose, and of a run with delayed updates one more: of a training step when nothing is pending. */
enum { SCHEDULE_NOTHING_PENDING = PURPOSES, SCHEDULES };

/* What an update needs to know besides arrays. */
struct update_of { float factor; struct learning_rate now; int64_t number; };

struct zero {
    const struct config *config;
    struct config_zero knobs; /* in force; config's are the ones it started with */
    struct comm *comm;
    const struct data *data;
    struct trace_ring *rings[ZERO_RINGS];
    struct gate *gate;
    void (*at_gate)(void *user, const struct schedule *schedule, uint32_t next);
    void *gate_user;
    const struct state_source *source;
    int rank, ranks;
    struct model model;
    struct kernels *kernels;      /* of the compute lane, and between steps */
    struct kernels *host_kernels; /* of the host lane; where there is a device, of all that is done in memory */
    struct memory *memory;
    const struct zero_device *device;  /* NULL: the device tier is memory, and kernels are our own */
    const struct mover *movers[LANES]; /* NULL: the lane's thread; between steps that of the compute lane serves */
    struct storage *storage;      /* of the NVMe tier; NULL: nothing has been there yet */
    uint64_t nvme_range_bytes[CATEGORIES];
    uint64_t window_bytes;        /* array_io.c */
    struct executor *executor;
    struct schedule schedules[SCHEDULES];
    int64_t update_peak_bytes[SCHEDULES][TIERS]; /* the most that each holds below its agreement */
    struct footprint footprint; /* of the training schedule */
    uint32_t schedule_number;   /* of the training schedule; the others follow it */
    bool ready;                 /* the lasting state exists */

    uint64_t save_offset; /* in the host's staging: buffers of whoever saves, then the snapshot */
    int64_t steps_done, samples_done;
    uint64_t waited_ns; /* since the last step */
    uint64_t stood_ns;  /* in the last run, at the gate */
    struct loss_scaler scaler;
    int64_t updates;    /* steps that were not skipped: what the schedule of the learning rate counts */
    int skips;          /* steps that were skipped in a row, but for those in which fp16 looks for its scale */

    /* Of the step in progress; written by one lane each. */
    enum purpose purpose;
    int64_t first_sample;       /* evaluation: where in the held-out slice */
    struct learning_rate now;
    struct host_mailbox mailbox;
    struct { bool refused[SCHEDULES], told; } ahead; /* runs_ahead.c: of the schedules in force, under the budgets in force */
    uint64_t whole_bytes[SCHEDULES][TIERS];          /* ... what each takes of a tier with everything at once */
    float gradient_factor;      /* clipping, known after the agreement */
    struct agreement *agreed;   /* of all ranks */
    struct { double loss, grad_norm; bool failed, not_finite; } concluded; /* what follows from them */
    struct sampler sampler;
    struct {                    /* gradients in the host tier with which the next step will update */
        bool there;
        struct update_of update;
        unsigned char *done;    /* by operation of the training schedule, in a step: it is done, or was sent and will be */
    } pending;
    bool applying_pending;      /* between steps, by whatever schedule is in force */
    struct take_failure swap_failure;   /* of the NVMe tier, before the update; written by one lane */
    struct take_failure update_failure; /* foreseen, before the update; written by another */
    struct comm_part *parts;    /* scratch of the communication lane */
    uint64_t recorded_peak_bytes[TIERS];
    uint64_t memory_told_ns;    /* time of the last record about memory: in one ring they are in order */
    _Atomic bool recorded[TIERS][CATEGORIES]; /* that there ever was something */
    struct { uint32_t count; uint64_t sent_bytes[2], busy_ns; } traffic[TRAFFIC_KINDS];
};

/* For arrays in memory, between steps or on the compute lane. */
static inline struct kernels *zero_host_kernels(const struct zero *zero)
{
    return zero->device ? zero->host_kernels : zero->kernels;
}

/* Address of element `elem` of the unit that a buffer covers, on this rank. */
void *zero_at(const struct zero *zero, const struct schedule *schedule, int buffer, int64_t elem);
void *zero_buffer(const struct zero *zero, const struct schedule *schedule, int buffer); /* its first byte; NULL for -1 */
/* What an update, or a copy that belongs to one, covers of its unit: in its place in a buffer of the unit, or at the beginning of
 * a buffer of the step that holds just that. */
void *zero_tile(const struct zero *zero, const struct schedule *schedule, const struct op *op, int buffer);

/* dispatch.c: runs one operation, of any lane. */
int zero_run_op(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);
/* ... until what it left to a device is done. */
int zero_finish_op(void *user, const struct op *op, struct error *err);
/* ... what is known only then: how long ranks waited for each other on their devices. */
int zero_settle_op(void *user, const struct op *op, struct op_stat *stat, struct error *err);
/* ... outside a step, on the calling thread, with what it takes and gives. */
int zero_run_alone(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);

/* host_mailbox.c: large enough for all of them; clean at the beginning of a run. */
int zero_make_mailbox(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err);
void zero_clean_mailbox(struct zero *zero);
void zero_release_mailbox(struct zero *zero);

/* runs_ahead.c: once for the schedules in force; whether lanes of the device may run ahead of it while this one runs. */
void zero_weigh_whole(struct zero *zero);
bool zero_runs_ahead(struct zero *zero, int which);

/* delayed.c: whether the step that comes updates with gradients of the one before; what is pending after a step; and all that
 * an update writes, done now, by the operations of a schedule that has the layout in force. */
bool zero_is_delayed(const struct zero *zero);
bool zero_delay_is_due(const struct zero *zero);
void zero_note_pending(struct zero *zero, bool updates);
int zero_apply_pending(struct zero *zero, const struct schedule *schedule, struct error *err);

/* operations.c: one operation of the compute lane or the host lane. */
int zero_load(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);
int zero_use_unit(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);
int zero_add_gradient(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_sum_squares(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_update(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_cast_parameters(struct zero *zero, const struct schedule *schedule, const struct op *op);

/* copies.c: runs one operation of a lane between tiers. */
int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat, struct error *err);

/* swap.c: whether a schedule has something on NVMe, and the files for that, made when the first one does; and one operation of
 * a lane between host memory and NVMe. */
bool zero_needs_storage(const struct schedule *schedule);
int zero_use_storage(struct zero *zero, const struct schedule *schedule, struct error *err);
int zero_swap(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat, struct error *err);

/* array_io.c: lasting arrays wherever they lie, between steps: bytes [at, at + bytes) of one into memory, or from there; and of one
 * at the beginning of another. Of those that are away, on a device or on NVMe, zero_at() is no address to read or write by. */
enum { ZERO_WINDOW_BYTES = 8 << 20 }; /* at most, of the window in host memory through which it goes */
bool zero_is_away(const struct zero *zero, const struct buffer *buffer);
bool zero_is_on_nvme(const struct buffer *buffer);
/* Zeros in place of the first `bytes` of a lasting array that is not on NVMe; bytes from one place in memory or on the device to another. */
int zero_array_clear(const struct zero *zero, const struct buffer *buffer, uint64_t bytes, struct error *err);
int zero_move_bytes(const struct zero *zero, void *to, const void *from, uint64_t bytes, struct error *err);
uint64_t zero_window_bytes(const struct schedule *schedule);
int zero_array_read(const struct zero *zero, const struct buffer *buffer, uint64_t at, void *out, uint64_t bytes, struct error *err);
int zero_array_write(const struct zero *zero, const struct buffer *buffer, uint64_t at, const void *from, uint64_t bytes, struct error *err);
int zero_array_copy(const struct zero *zero, const struct buffer *from, uint64_t at, const struct buffer *to, uint64_t bytes, struct error *err);

/* Runs one operation of the communication lane. */
int zero_communicate(struct zero *zero, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);

/* All-gathers a unit's array from every rank's shard at `source` (offset in the symmetric segment) into `whole`. */
int zero_spread(struct zero *zero, int unit, enum dtype dtype, uint64_t source, void *whole, struct error *err);
/* Fills a buffer held whole from the shards that each rank has put in its place. */
int zero_spread_own(struct zero *zero, const struct schedule *schedule, int buffer, struct error *err);

/* snapshot.c: address range for saving. */
uint64_t zero_save_range(const struct zero *zero);

/* state.c: the lasting state. */
int zero_array(const struct schedule *schedule, int unit, enum role role); /* its buffer, or -1 */
int zero_plan(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES], struct error *err);
int zero_make_state(struct zero *zero, bool *failed, struct zero_shortage *shortage, struct error *err);

/* open.c: new schedules, at the start and at a switch: room for what running them takes beside the tiers, then into force. */
int zero_make_room(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err);
void zero_adopt(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES]);
void zero_release_schedules(struct schedule schedules[SCHEDULES]);
void zero_pin_host(struct zero *zero, const struct config_zero *knobs);
int zero_make_pending(struct zero *zero, const struct schedule *schedule, struct error *err);

/* divergence.c: whether a step that is not finite is skipped, or ends the run; whether the step in `result`, which was skipped or
 * not, ends it; and why, after a step that did. Collective where it can fail. */
bool zero_skips(const struct zero *zero);
bool zero_count_skips(struct zero *zero, bool skipped);
int zero_explain_divergence(struct zero *zero, struct zero_result *result, struct error *err);

/* reshard.c: moves the lasting state from the layout in force to that of `to`; all or nothing. */
int zero_reshard(struct zero *zero, const struct schedule *to, bool *failed, struct zero_shortage *shortage, struct error *err);
int zero_fill_tails(struct zero *zero, const struct schedule *schedule, struct error *err); /* small tensors, from their owners */

/* Between steps: every rank says whether a take failed; *shortage describes the first that did. Returns true in *failed
 * on every rank if there was one. */
int zero_agree_on_failure(struct zero *zero, const struct take_failure *mine, bool *failed, struct zero_shortage *shortage, struct error *err);
/* False: the update that a step's agreement is about does not fit the budgets or the device; noted in update_failure. */
void zero_weigh_updates(struct zero *zero); /* once for the schedules in force */
bool zero_foresee_update(struct zero *zero, const struct schedule *schedule);

/* records.c: what goes into the trace besides the operations. */
void zero_record_memory(void *user, uint64_t when_ns, enum tier tier, enum category category, const struct memory_count *count);
void zero_record_plan(struct zero *zero);
void zero_log(const struct zero *zero, int ring, const char *text); /* a warning; on the ring of the lane that says it */
void zero_record_budgets(struct zero *zero);
void zero_record_step_begin(struct zero *zero, uint32_t schedule);
void zero_record_step_end(struct zero *zero, const struct zero_result *result, uint32_t schedule, uint64_t paused_ns);

#endif
