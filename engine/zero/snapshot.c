/* Serves saves: the slices that a rank owns, read directly or from a copy in host memory, and I/O buffers. Copy and buffers lie in the host's
 * staging range, after the schedules' buffers. */
#include <stdlib.h>
#include <string.h>

#include "engine/memory/pages.h"
#include "engine/zero/internal.h"

enum { IO_BUFFERS_BYTES = ZERO_LOTS * STATE_BUFFERS_BYTES };

struct zero_snapshot {
    struct zero *zero;
    int slice;                     /* what the rank owned of each unit, also after a switch */
    int slot[STATE_ARRAYS], slots; /* index of an array within a unit's part of the copy; -1: there is none */
    uint64_t bytes;
};

static uint64_t bytes_of_unit(const struct zero *zero, int unit) /* of one array */
{
    return (uint64_t)shard_elems(zero->model.units[unit].elems, zero->ranks) * sizeof(float);
}

void zero_own(const struct zero *zero, int slice, int unit, int64_t *first, int64_t *elems)
{
    const int64_t all = zero->model.units[unit].elems, most = shard_elems(all, zero->ranks);
    *first = slice * most;
    *elems = *first >= all ? 0 : all - *first < most ? all - *first : most;
}

/* ---- the state itself ---- */

static int read_state(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                      struct error *err)
{
    return zero_read_state(user, unit, array, first, elems, out, err);
}

struct state_source zero_source(const struct zero *zero)
{
    return (struct state_source){.user = (void *)zero,
                                 .read = read_state,
                                 .progress = zero_progress(zero),
                                 .slice = slice_of(&zero->plan.schedules[PURPOSE_TRAIN], zero->rank)};
}

/* ---- a copy ---- */

static uint64_t bytes_of_arrays(const struct zero *zero, int arrays)
{
    uint64_t bytes = 0;
    for (int u = 0; u < zero->model.unit_count; u++) bytes += bytes_of_unit(zero, u) * (uint64_t)arrays;
    return bytes;
}

uint64_t zero_snapshot_bytes(const struct zero *zero)
{
    int arrays = 0;
    for (int a = 0; a < STATE_ARRAYS; a++) arrays += zero_has_array(zero, (enum state_array)a);
    return bytes_of_arrays(zero, arrays);
}

uint64_t zero_save_range(const struct zero *zero)
{
    return IO_BUFFERS_BYTES + round_up(bytes_of_arrays(zero, STATE_ARRAYS), PAGE_BYTES);
}

static char *place(const struct zero_snapshot *snapshot, int unit, enum state_array array)
{
    const struct zero *zero = snapshot->zero;
    char *at = memory_at(zero->memory, TIER_HOST, CATEGORY_STAGING, zero->save_offset + IO_BUFFERS_BYTES);
    for (int u = 0; u < unit; u++) at += bytes_of_unit(zero, u) * (uint64_t)snapshot->slots;
    return at + bytes_of_unit(zero, unit) * (uint64_t)snapshot->slot[array];
}

static int copy_all(const struct zero_snapshot *snapshot, struct error *err)
{
    const struct zero *zero = snapshot->zero;
    for (int u = 0; u < zero->model.unit_count; u++) {
        int64_t first, elems;
        zero_own(zero, snapshot->slice, u, &first, &elems);
        for (int a = 0; a < STATE_ARRAYS && elems; a++) {
            if (snapshot->slot[a] < 0) continue;
            float *out = (float *)(void *)place(snapshot, u, (enum state_array)a);
            int status = zero_read_state(zero, u, (enum state_array)a, first, elems, out, err);
            if (status) return status;
        }
    }
    return STATUS_OK;
}

int zero_snapshot_take(struct zero *zero, struct zero_snapshot **out, struct error *err)
{
    struct zero_snapshot *snapshot = malloc(sizeof *snapshot);
    *out = NULL;
    if (!snapshot) return error_set(err, STATUS_RUN, "no memory for a snapshot");
    *snapshot = (struct zero_snapshot){.zero = zero,
                                         .slice = slice_of(&zero->plan.schedules[PURPOSE_TRAIN], zero->rank),
                                         .bytes = zero_snapshot_bytes(zero)};
    for (int a = 0; a < STATE_ARRAYS; a++)
        snapshot->slot[a] = zero_has_array(zero, (enum state_array)a) ? snapshot->slots++ : -1;
    int status =
        memory_take(zero->memory, TIER_HOST, CATEGORY_STAGING, zero->save_offset + IO_BUFFERS_BYTES, snapshot->bytes, err);
    if (status) return free(snapshot), status;
    status = copy_all(snapshot, err);
    if (status) zero_snapshot_give(snapshot);
    else *out = snapshot;
    return status;
}

static int read_copy(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                     struct error *err)
{
    const struct zero_snapshot *snapshot = user;
    int64_t own, count;
    (void)err;
    zero_own(snapshot->zero, snapshot->slice, unit, &own, &count);
    memcpy(out, place(snapshot, unit, array) + (size_t)(first - own) * sizeof *out, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

struct state_source zero_snapshot_source(struct zero_snapshot *snapshot)
{
    return (struct state_source){.user = snapshot, .read = read_copy, .slice = snapshot->slice};
}

void zero_snapshot_give(struct zero_snapshot *snapshot)
{
    if (!snapshot) return;
    struct memory *memory = snapshot->zero->memory;
    memory_give(memory, TIER_HOST, CATEGORY_STAGING, snapshot->zero->save_offset + IO_BUFFERS_BYTES, snapshot->bytes);
    free(snapshot);
}

/* ---- buffers ---- */

static uint64_t lot_offset(const struct zero *zero, enum zero_lot lot)
{
    return zero->save_offset + (uint64_t)lot * STATE_BUFFERS_BYTES;
}

int zero_buffers_take(struct zero *zero, enum zero_lot lot, void **out, struct error *err)
{
    *out = memory_at(zero->memory, TIER_HOST, CATEGORY_STAGING, lot_offset(zero, lot));
    return memory_take(zero->memory, TIER_HOST, CATEGORY_STAGING, lot_offset(zero, lot), STATE_BUFFERS_BYTES, err);
}

void zero_buffers_give(struct zero *zero, enum zero_lot lot)
{
    memory_give(zero->memory, TIER_HOST, CATEGORY_STAGING, lot_offset(zero, lot), STATE_BUFFERS_BYTES);
}
