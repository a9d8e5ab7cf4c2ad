/* Builds and checks the schedules (zero_plan()); then the lasting state: parameters, gradients, optimizer state, as the layout of the schedule in force says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/plan/checker.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

static int plan(const struct zero *zero, const struct config_zero *knobs, int which, struct schedule *schedule,
                struct error *err)
{
    const bool training = which == PURPOSE_TRAIN || which == SCHEDULE_NOTHING_PENDING;
    struct schedule_input input =
        schedule_input_of(zero->config, &zero->model, training ? PURPOSE_TRAIN : (enum purpose)which);
    input.knobs = knobs;
    input.ranks = zero->ranks;
    input.nothing_pending = which == SCHEDULE_NOTHING_PENDING;
    input.node_ranks = comm_layout(zero->comm)->ranks_per_node; /* of machines, too */
    int status = schedule_build(schedule, &input, err);
    if (status == STATUS_OK && (status = schedule_check(schedule, &zero->model, err))) schedule_release(schedule);
    return status;
}

/* Hops go from each node to the ranks at the same place in the others. */
static int check_nodes(const struct zero *zero, const struct config_zero *knobs, struct error *err)
{
    const struct comm_layout *layout = comm_layout(zero->comm);
    if (!(knobs->quantized_gradients || knobs->hierarchical) || layout->nodes * layout->ranks_per_node == layout->ranks)
        return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "zero_optimization.%s = true: needs as many ranks on each node; %d nodes have up to %d of %d "
                     "ranks",
                     knobs->hierarchical ? "mics_hierarchical_params_gather" : "zero_quantized_gradients",
                     layout->nodes, layout->ranks_per_node, layout->ranks);
}

int zero_plan(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[SCHEDULES],
              struct error *err)
{
    struct config_zero now = *knobs;
    now.delayed_update &= zero->progress.steps_done >= knobs->delayed_update_after;
    memset(schedules, 0, SCHEDULES * sizeof *schedules);
    if (comm_partitions(zero->comm, now.hpz_partition, err) || check_nodes(zero, &now, err)) return STATUS_USAGE;
    for (int which = 0; which < (now.delayed_update ? SCHEDULES : PURPOSES); which++) {
        int status = plan(zero, &now, which, &schedules[which], err);
        if (status == STATUS_OK) continue;
        while (which-- > 0) schedule_release(&schedules[which]);
        return status;
    }
    return STATUS_OK;
}

int zero_array(const struct schedule *schedule, int unit, enum role role)
{
    return layout_array(&schedule->layout[unit], role);
}

/* ---- the first state ---- */

enum { CHUNK_ELEMS = 262144, SHARE_ELEMS = 4096 };

int zero_threads(const struct zero *zero)
{
    const int own = zero->config->topology.threads_per_rank, share = (int)sysconf(_SC_NPROCESSORS_ONLN) / zero->ranks;
    return zero->device && share > own ? share : own;
}

struct initial {
    const struct zero *zero;
    int unit;
    int64_t first; /* element of the unit at out[0] */
    float *out;
};

static void make_values(const void *arguments, int64_t first, int64_t end, int thread)
{
    const struct initial *a = arguments;
    (void)thread;
    gpt_initial_values(&a->zero->model, a->unit, a->zero->config->data.seed, a->first + first, end - first,
                       a->out + first);
}

static int first_values(struct zero *zero, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                        struct error *err)
{
    const struct state_source *source = zero->source;
    if (source) return source->read(source->user, unit, array, first, elems, out, err);
    kernels_share_out(zero_threads(zero), make_values, &(struct initial){zero, unit, first, out}, elems, SHARE_ELEMS);
    return STATUS_OK;
}

/* Room for a piece of an array: as fp32 values, and in the type of the array. */
struct piece_room {
    float values[CHUNK_ELEMS], typed[CHUNK_ELEMS];
};

/* The values of `room` become elements [at, at + count) of an array, wherever it lies. */
static int put(struct zero *zero, const struct schedule *schedule, int b, int64_t at, int64_t count,
               struct piece_room *room, struct error *err)
{
    const struct buffer *buffer = &schedule->buffers[b];
    const int bytes = dtype_bytes(buffer->dtype);
    int64_t first, end;
    buffer_range(schedule, &zero->model, buffer, zero->rank, &first, &end);
    kernels_cast(zero_host_kernels(zero), buffer->dtype, room->typed, DTYPE_F32, room->values, count);
    return zero_array_write(zero, buffer, (uint64_t)((at - first) * bytes), room->typed, (uint64_t)(count * bytes),
                            err);
}

/* Fills the rank's shard, or of a whole array the slice that it owns, in a buffer, and if it is given, that of the same weights in the model's type;
 * where arrays are held whole, the others' shards are gathered. Padding is zero. */
static int fill(struct zero *zero, const struct schedule *schedule, int unit, enum state_array array, int b,
                int parameters, struct piece_room *room, struct error *err)
{
    const int64_t elems = zero->model.units[unit].elems;
    const bool zeros = array != STATE_WEIGHTS && !zero->source;
    const int into[] = {b, parameters == b ? -1 : parameters};
    int status = STATUS_OK;
    int64_t first, end;
    if (schedule->buffers[b].extent == EXTENT_WHOLE) slice_range(schedule, &zero->model, unit, zero->rank, &first, &end);
    else buffer_range(schedule, &zero->model, &schedule->buffers[b], zero->rank, &first, &end);
    for (int64_t at = first; at < end && status == STATUS_OK; at += CHUNK_ELEMS) {
        const int64_t count = end - at < CHUNK_ELEMS ? end - at : CHUNK_ELEMS;
        const int64_t real = at >= elems || zeros ? 0 : elems - at < count ? elems - at : count;
        memset(room->values, 0, (size_t)count * sizeof *room->values);
        if (real) status = first_values(zero, unit, array, at, real, room->values, err);
        for (int i = 0; i < 2 && !status; i++)
            if (into[i] >= 0) status = put(zero, schedule, into[i], at, count, room, err);
    }
    for (int i = 0; i < 2 && status == STATUS_OK; i++)
        if (into[i] >= 0 && schedule->buffers[into[i]].extent == EXTENT_WHOLE)
            status = zero_spread_own(zero, schedule, into[i], err);
    return status;
}

static int fill_unit(struct zero *zero, const struct schedule *schedule, int unit, struct piece_room *room,
                     struct error *err)
{
    const struct unit_layout *layout = &schedule->layout[unit];
    int status = fill(zero, schedule, unit, STATE_WEIGHTS, layout->master, layout->parameters, room, err);
    if (zero->progress.pending && status == STATUS_OK)
        status = fill(zero, schedule, unit, STATE_PENDING, layout->gradient, -1, room, err);
    for (int s = 0; s < OPTIMIZER_STATES_MAX && status == STATUS_OK; s++) {
        const int b = layout->state[s];
        if (b < 0) continue;
        if (zero->source || zero_is_on_nvme(&schedule->buffers[b]))
            status = fill(zero, schedule, unit, STATE_1 + s, b, -1, room, err);
        else status = zero_array_clear(zero, &schedule->buffers[b], (uint64_t)schedule->buffers[b].bytes, err);
    }
    return status;
}

static int fill_units(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    struct piece_room *room = malloc(sizeof *room);
    int status = room ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to fill the state");
    for (int u = 0; u < zero->model.unit_count && status == STATUS_OK; u++)
        status = fill_unit(zero, schedule, u, room, err);
    free(room);
    return status;
}

bool zero_has_array(const struct zero *zero, enum state_array array)
{
    if (array == STATE_PENDING) return zero->progress.pending;
    return array == STATE_WEIGHTS || (int)array - STATE_1 < optimizer_table[zero->model.optimizer].states;
}

int zero_state_array(const struct zero *zero, int unit, enum state_array array)
{
    static const enum role roles[STATE_ARRAYS] = {ROLE_MASTER, ROLE_STATE1, ROLE_STATE2, ROLE_GRADIENT};
    if (array == STATE_PENDING && !zero->progress.pending) return -1;
    return zero_array(&zero->plan.schedules[PURPOSE_TRAIN], unit, roles[array]);
}

int zero_read_state(const struct zero *zero, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                    struct error *err)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const int b = zero_state_array(zero, unit, array);
    if (b < 0) return error_set(err, STATUS_USAGE, "unit %d keeps no array %d", unit, (int)array);
    int64_t own, end;
    buffer_range(schedule, &zero->model, &schedule->buffers[b], zero->rank, &own, &end);
    const struct buffer *buffer = &schedule->buffers[b];
    if (buffer->dtype == DTYPE_F32)
        return zero_array_read(zero, buffer, (uint64_t)(first - own) * sizeof *out, out, (uint64_t)elems * sizeof *out,
                               err);
    const void *from = zero_at(zero, schedule, b, first); /* pending gradients: in host memory */
    kernels_reduce(buffer->dtype, DTYPE_F32, out, &from, 1, &(struct reduce_factors){1, 1}, elems, false);
    return STATUS_OK;
}

/* ---- taking it ---- */

static int take_lasting(struct zero *zero, const struct schedule *schedule, struct zero_shortage *failure)
{
    int taken = 0;
    struct error why;
    while (taken < schedule->lasting_count && zero_take(zero, &schedule->buffers[taken], &why) == STATUS_OK) taken++;
    if (taken < schedule->lasting_count) *failure = take_failure_of(zero->memory, -1, &schedule->buffers[taken], &why);
    return taken;
}

/* Tries what fill_units() takes beside the state: a shard, from which an array that is held whole is gathered, and the window to
 * NVMe. All ranks have to know before they fill: a rank that stopped in the middle would leave no state to go on from. */
static void try_filling(struct zero *zero, const struct schedule *schedule, struct zero_shortage *failure)
{
    struct buffer needed[] = {{.tier = TIER_DEVICE, .category = CATEGORY_BUCKETS},
                              {.tier = TIER_HOST, .category = CATEGORY_STAGING}};
    for (int b = 0; b < schedule->lasting_count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        const int64_t shard = buffer->bytes / zero->ranks;
        const bool gathered = buffer->extent == EXTENT_WHOLE && buffer->category != CATEGORY_GRADIENTS;
        if (gathered && shard > needed[0].bytes) needed[0].bytes = shard;
        if (zero_is_on_nvme(buffer)) needed[1].bytes = (int64_t)zero->window_bytes;
    }
    for (int i = 0; i < 2 && !failure->failed; i++) {
        struct error why;
        if (!needed[i].bytes) continue;
        if (zero_take(zero, &needed[i], &why)) *failure = take_failure_of(zero->memory, -1, &needed[i], &why);
        else zero_give(zero, &needed[i]);
    }
}

/* What the source reads through, if it needs that. */
static bool lend_buffers(struct zero *zero, struct zero_shortage *failure)
{
    void *buffers;
    struct error why;
    if (failure->failed || !zero->source || !zero->source->lend) return false;
    if (zero_buffers_take(zero, LOT_OF_CHECKPOINT, &buffers, &why)) {
        const struct buffer wanted = {.tier = TIER_HOST, .category = CATEGORY_STAGING, .bytes = STATE_BUFFERS_BYTES};
        *failure = take_failure_of(zero->memory, -1, &wanted, &why);
        return false;
    }
    zero->source->lend(zero->source->user, buffers);
    return true;
}

int zero_make_state(struct zero *zero, bool *failed, struct zero_shortage *shortage, struct error *err)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    struct zero_shortage failure = {0};
    const int taken = take_lasting(zero, schedule, &failure);
    const bool lent = lend_buffers(zero, &failure);
    if (!failure.failed) try_filling(zero, schedule, &failure);
    int status = zero_agree_on_failure(zero, &failure, failed, shortage, err);
    const bool stays = !status && !*failed;
    if (stays) status = fill_units(zero, schedule, err);
    if (lent) zero->source->lend(zero->source->user, NULL), zero_buffers_give(zero, LOT_OF_CHECKPOINT);
    for (int b = 0; b < taken && !stays; b++) zero_give(zero, &schedule->buffers[b]);
    if (!stays) return status;
    if (!status) status = zero_fill_tails(zero, schedule, err);
    if (!status && zero->progress.pending && !zero_is_delayed(zero)) status = zero_apply_pending(zero, schedule, err);
    zero->ready = status == STATUS_OK;
    memory_reset_peaks(zero->memory);
    return status;
}
