/* Internals of a rank, shared by the files of engine/zero. */
#pragma once

#include "engine/gpt/gpt.h"
#include "engine/memory/mover.h"
#include "engine/optim/learning_rate.h"
#include "engine/zero/executor.h"
#include "engine/zero/plan_records.h"
#include "engine/zero/zero.h"

/* What each rank contributes to the agreement at the end of a step. */
struct agreement { double loss, sum_squares; int32_t failed; };

/* Buffers in host memory that a step's operations read or write when they run. A device runs operations later than the host sends
 * them, so the buffers are pinned if the driver accepts it, and each entry is used once in a step. */
struct host_mailbox {
    void *memory;
    uint64_t bytes;
    bool pinned;
    double *unit_squares; /* by unit: sum of squares of the own gradient shard */
    float *losses;        /* by micro-step */
    int32_t *tokens;      /* by micro-step, tokens then targets; only with a device */
};

struct sampler { int32_t *tokens; float *logits; int position; float temperature; uint64_t draw; int32_t next; };

/* One schedule for each purpose. A run with delayed updates has one more: a training step with no pending update. */
enum { SCHEDULE_NOTHING_PENDING = PURPOSES, SCHEDULES };

/* The scalars of an update: gradient factor, learning rate, number. */
struct update_of { float factor; struct learning_rate now; int64_t number; };

struct zero {
    const struct config *config;
    int rank, ranks;
    struct model model;
    struct comm *comm;
    const struct data *data;
    const struct state_source *source;
    struct gate *gate;

    /* Where operations run, and memory. */
    struct executor *executor;
    struct kernels *kernels;      /* of the compute lane, and between steps */
    struct kernels *host_kernels; /* of the host lane; with a device, of all computing in host memory */
    const struct zero_device *device;  /* NULL: the device tier is memory of this machine, and kernels are the CPU's */
    const struct mover *movers[LANES]; /* NULL: the lane's thread copies; between steps the compute lane's is used */
    struct memory *memory;
    struct storage *storage;      /* of the NVMe tier; NULL: not used yet */
    uint64_t nvme_range_bytes[CATEGORIES];
    uint64_t window_bytes;        /* size of the window for arrays on NVMe: array_io.c */
    uint64_t save_offset;         /* where, in the host's staging range, the I/O buffers of saves begin; the snapshot follows */
    struct host_mailbox mailbox;
    struct comm_range *ranges;    /* scratch of the communication lane */
    struct sampler sampler;

    struct { /* in force from the start, or a switch, to the next switch */
        struct config_zero knobs; /* config has those of the start */
        struct schedule schedules[SCHEDULES];
        uint32_t number;            /* number of the training schedule; the others have the next numbers */
        struct footprint footprint; /* of the training schedule */
        int64_t errors_since; /* the step after which the error feedback of quantized gradients began; -1: it begins with the next */
        int64_t update_peak_bytes[SCHEDULES][TIERS]; /* peak of each schedule's operations after its agreement */
        uint64_t whole_bytes[SCHEDULES][TIERS];      /* runs_ahead.c: bytes of a tier if all buffers are committed at once */
        /* runs_ahead.c: by schedule, whether its memory could not be committed as a whole, although budgets allow it; whether the log says so */
        struct { bool refused[SCHEDULES], told; } ahead;
    } plan;

    bool ready; /* the lasting state exists */
    bool spoils; /* zero_spoil(): the next forward of a training step writes NaN into its output */
    struct zero_progress progress; /* of the whole run. skips: not counted while the initial fp16 loss scale is still being lowered */
    struct { /* the update that the next step will apply, if progress.pending; its gradients are in the host tier */
        struct update_of update;
        unsigned char *done; /* by operation of the training schedule: it has run, or was sent to the device, in this step */
    } pending;

    struct { /* the step in progress, or a run of another purpose; each field is written by one lane */
        enum purpose purpose;
        int64_t first_sample; /* evaluation: first sample in the held-out slice */
        struct learning_rate rate;
        bool applies_pending; /* the pending update runs between two steps */
        struct agreement *agreed; /* by rank */
        struct { double loss, grad_norm; bool failed, not_finite; } concluded; /* result of the agreement */
        bool spoiled_blocks;   /* a value was not finite when it was quantized: its block holds 0 instead */
        float gradient_factor; /* clipping, known after the agreement */
        struct zero_shortage swap_failure;   /* of the NVMe tier, before the update */
        struct zero_shortage update_failure; /* foreseen by zero_update_fits() */
        uint64_t waited_ns; /* since the last step: time paused, waiting for a command, or at the closed gate */
        uint64_t gate_ns;  /* time at the closed gate in the last run */
    } step;

    struct { /* values already written to the trace */
        struct trace_ring *rings[ZERO_RINGS];
        uint64_t peak_bytes[TIERS];
        uint64_t memory_ns; /* time of the last memory record: records of one ring are in order */
        _Atomic bool held[TIERS][CATEGORIES]; /* the category has ever held bytes */
        struct step_traffic traffic[TRAFFIC_KINDS]; /* of the step */
    } trace;
};

/* How many threads may work on the state while no step runs (kernels_share_out()): topology.threads_per_rank. With a GPU, the machine's
 * CPUs / ranks if that is more, because the key is for the CPU backend. No bits depend on the number. */
int zero_threads(const struct zero *zero);

/* Kernels for arrays in host memory, between steps or on the compute lane. */
static inline struct kernels *zero_host_kernels(const struct zero *zero)
{
    return zero->device ? zero->host_kernels : zero->kernels;
}

/* Address of a buffer: its offset in the range of its category. */
static inline char *zero_place(const struct zero *zero, const struct buffer *buffer)
{
    return memory_at(zero->memory, buffer->tier, buffer->category, buffer->offset);
}

static inline int zero_take(const struct zero *zero, const struct buffer *buffer, struct error *err)
{
    return memory_take(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes, err);
}

static inline void zero_give(const struct zero *zero, const struct buffer *buffer)
{
    memory_give(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes);
}

/* Address of element `elem` of the unit that a buffer covers, on this rank. */
void *zero_at(const struct zero *zero, const struct schedule *schedule, int buffer, int64_t elem);
void *zero_buffer(const struct zero *zero, const struct schedule *schedule, int buffer); /* address of its first byte; NULL for -1 */
/* Address of the tile that an update, or a copy for an update, works on. A buffer with elements of
 * a unit has the tile at the tile's own offset; a buffer of bytes alone (EXTENT_BYTES) has nothing but the tile, at its start. */
void *zero_tile(const struct zero *zero, const struct schedule *schedule, const struct op *op, int buffer);

/* dispatch.c: runs one operation of any lane. */
int zero_run_op(void *user, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);
/* Waits until the work that an operation enqueued on a device has ended. */
int zero_finish_op(void *user, const struct op *op, struct error *err);
/* After an operation has ended: adds how long ranks waited for each other on their devices. */
int zero_settle_op(void *user, const struct op *op, struct op_stat *stat, struct error *err);
/* Runs one operation outside a step, on the calling thread, with its takes and gives; err: not NULL. */
int zero_run_alone(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);

void zero_clean_mailbox(struct zero *zero); /* zeroes its squares and losses at the start of a schedule's run */

/* runs_ahead.c: computes whole_bytes, once for the schedules in force; whether lanes may run ahead of the device in schedule `which`. */
void zero_compute_whole_bytes(struct zero *zero);
bool zero_runs_ahead(struct zero *zero, int which);

/* zero.c: whether the schedules in force delay updates. zero_apply_pending() runs the pending update now, with the operations of a
 * schedule that has the layout in force; err: not NULL. */
bool zero_is_delayed(const struct zero *zero);
int zero_apply_pending(struct zero *zero, const struct schedule *schedule, struct error *err);

/* operations.c: each runs one operation of the compute lane or the host lane. */
int zero_load(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);
int zero_use_unit(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);
int zero_add_gradient(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_sum_squares(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_update(struct zero *zero, const struct schedule *schedule, const struct op *op);
int zero_cast_parameters(struct zero *zero, const struct schedule *schedule, const struct op *op);

/* copies.c: runs one operation that copies: between tiers, to or from quantized blocks, to a second copy of a shard. */
int zero_quantize(struct zero *zero, const struct schedule *schedule, const struct op *op); /* quantizes into blocks, or dequantizes them */
int zero_keep_secondary(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err);
int zero_copy(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat, struct error *err);

/* swap.c: whether a schedule keeps arrays on NVMe; makes the files for them if they are missing; runs one operation of a lane
 * between host memory and NVMe. */
bool zero_needs_storage(const struct schedule *schedule);
int zero_use_storage(struct zero *zero, const struct schedule *schedule, struct error *err);
int zero_swap(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat, struct error *err);

/* array_io.c: access to lasting arrays in any tier, between steps. read and write move bytes [at, at + bytes) of an array to or from
 * memory; copy moves them to the start of another array (between two arrays on NVMe, only from the start: at 0). An array that is
 * *away*, on a device or on NVMe, cannot be read or written at the address of zero_at(). Arrays on NVMe pass through a window in host
 * memory. */
enum { ZERO_WINDOW_BYTES = 8 << 20 }; /* bytes of the window, at most */
bool zero_is_away(const struct zero *zero, const struct buffer *buffer);
bool zero_is_on_nvme(const struct buffer *buffer);
/* Zeroes the first `bytes` of a lasting array that is not on NVMe. zero_move_bytes(): copies within and between
 * memory and the device. */
int zero_array_clear(const struct zero *zero, const struct buffer *buffer, uint64_t bytes, struct error *err);
int zero_move_bytes(const struct zero *zero, void *to, const void *from, uint64_t bytes, struct error *err);
uint64_t zero_window_bytes(const struct schedule *schedule);
int zero_array_read(const struct zero *zero, const struct buffer *buffer, uint64_t at, void *out, uint64_t bytes, struct error *err);
int zero_array_write(const struct zero *zero, const struct buffer *buffer, uint64_t at, const void *from, uint64_t bytes, struct error *err);
int zero_array_copy(const struct zero *zero, const struct buffer *from, uint64_t at, const struct buffer *to, uint64_t bytes, struct error *err);

/* Runs one operation of the communication lane. */
int zero_communicate(struct zero *zero, const struct schedule *schedule, const struct op *op, bool healthy, struct op_stat *stat, struct error *err);

/* Byte offset of element `elem` of a piece within a buffer of `rank`. */
uint64_t zero_piece_place(const struct zero *zero, const struct schedule *schedule, const struct piece *piece, int buffer, int rank, int64_t elem);
/* Collective. Fills the lasting buffer `to`, which belongs to the schedule `of`, from the slices of its unit. Before the call, each rank
 * has written its slice to the offset `source` of its symmetric segment; the schedule `owners` says which rank owns which slice. */
int zero_spread(struct zero *zero, const struct schedule *owners, const struct buffer *to, const struct schedule *of, uint64_t source, struct error *err);
/* Collective. The same for a whole buffer into which each rank has already written the slice that it owns. */
int zero_spread_own(struct zero *zero, const struct schedule *schedule, int buffer, struct error *err);

/* snapshot.c: bytes of host address range, after save_offset, for the I/O buffers and snapshot of saves. */
uint64_t zero_save_range(const struct zero *zero);

/* state.c: the lasting state. zero_plan() builds and checks the schedules; zero_make_state() takes and fills it. */
int zero_array(const struct schedule *schedule, int unit, enum role role); /* number of its buffer, or -1 */
int zero_state_array(const struct zero *zero, int unit, enum state_array array);
int zero_plan(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES], struct error *err);
int zero_make_state(struct zero *zero, bool *failed, struct zero_shortage *shortage, struct error *err);

/* open.c: new schedules, at the start and at a switch. zero_make_room() makes tables and threads; zero_adopt() puts them in force. */
int zero_make_room(struct zero *zero, const struct schedule schedules[SCHEDULES], struct error *err);
void zero_adopt(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES]);
void zero_release_schedules(struct schedule schedules[SCHEDULES]);
void zero_pin_host(struct zero *zero, const struct config_zero *knobs);
int zero_make_pending(struct zero *zero, const struct schedule *schedule, struct error *err);

/* divergence.c. zero_skips(): whether a non-finite step is skipped, or ends the run. zero_count_skips() counts the step just done, and
 * returns true if as many in a row were skipped as the key schedule.max_skips permits. zero_explain_divergence(): collective; why the
 * run ends. */
bool zero_skips(const struct zero *zero);
bool zero_count_skips(struct zero *zero, bool skipped);
int zero_explain_divergence(struct zero *zero, struct zero_result *result, struct error *err);

/* reshard.c: moves the lasting state from the layout in force to the layout of `to`, on all ranks or on none. */
/* STATUS_USAGE: the state cannot be resharded to this layout in one switch. */
int zero_check_switch(const struct zero *zero, const struct schedule *to, struct error *err);
int zero_reshard(struct zero *zero, const struct schedule *to, bool *failed, struct zero_shortage *shortage, struct error *err);
int zero_fill_tails(struct zero *zero, const struct schedule *schedule, struct error *err); /* gathers small tensors from their owners */

/* shortage.c, between steps: ranks exchange whether a take failed. *failed: true on every rank if one did; *shortage then describes
 * the failure of the lowest rank on which a take failed. */
int zero_agree_on_failure(struct zero *zero, const struct zero_shortage *mine, bool *failed, struct zero_shortage *shortage, struct error *err);
/* shortage.c: zero_compute_update_peaks() computes update_peak_bytes, once for the schedules in force. zero_update_fits(), before an
 * agreement: false if the update does not fit the budgets or the device; update_failure says why. */
void zero_compute_update_peaks(struct zero *zero);
bool zero_update_fits(struct zero *zero, const struct schedule *schedule);

/* records.c: the trace records of a rank; those of its operations are in executor_parts.h. */
void zero_record_memory(void *user, uint64_t when_ns, enum tier tier, enum category category, const struct memory_count *count);
void zero_record_plan(struct zero *zero);
void zero_log(const struct zero *zero, int ring, const char *text); /* a warning, on a ring that this thread writes */
/* Records the error of a piece that the compute lane has quantized; `elems` 0: records nothing. */
struct quantize_error;
void zero_record_quantized(struct zero *zero, const struct piece *piece, bool gradient, int64_t elems, const struct quantize_error *error);
void zero_record_budgets(struct zero *zero);
/* An event, on the lane's ring: this rank is held (gate.h) before operation `next` of the lane, or goes on with it. */
void zero_record_held(void *user, const struct schedule *schedule, enum lane lane, uint32_t next, bool is_held);
void zero_record_step_begin(struct zero *zero, uint32_t schedule);
void zero_record_step_end(struct zero *zero, const struct zero_result *result, uint32_t schedule, uint64_t paused_ns);
