/* Decides whether a step that is not finite ends the run, and finds the first tensor of the model that is not finite. Only then
 * are tensors read: each rank searches its own shards, and the ranks agree on the first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

/* The arrays in the order of the search: weights that are not finite make all gradients so. */
enum look { LOOK_WEIGHTS, LOOK_GRADIENT, LOOK_STATE_1, LOOK_STATE_2, LOOK_PENDING, LOOKS };

enum { PIECE_ELEMS = 1 << 20, NOTHING = INT32_MAX }; /* a piece of an array on NVMe is a read */

/* ---- whether it ends the run ---- */

bool zero_skips(const struct zero *zero)
{
    return zero->config->fp16.enabled || (zero->config->bf16 && zero->config->check_grad_overflow);
}

bool zero_count_skips(struct zero *zero, bool skipped)
{
    const int most = zero->config->max_skips;
    if (!skipped) zero->progress.skips = 0;
    else if (!loss_scaler_searches(&zero->progress.scaler)) zero->progress.skips++;
    return skipped && most > 0 && zero->progress.skips >= most;
}

/* ---- the first tensor ---- */

/* Of elements [first, end) of a unit, where array b is: not on NVMe. */
static double squares_of(const struct zero *zero, int b, int64_t first, int64_t end)
{
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const struct buffer *buffer = &schedule->buffers[b];
    struct kernels *kernels = buffer->tier == TIER_DEVICE ? zero->kernels : zero->host_kernels;
    return kernels_sum_squares(kernels, buffer->dtype, zero_at(zero, schedule, b, first), end - first);
}

/* The bits of the lowest float that rounds to inf: in bf16 and fp16 half a step above the largest finite value. */
static int32_t limit_bits(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? 0x7f7f8000 : dtype == DTYPE_F16 ? 0x477ff000 : 0x7f800000;
}

/* The square of an element that is not finite, or does not stay so when it is rounded to `dtype`, is larger than this. So elements whose
 * squares have a smaller sum are finite. A larger sum proves nothing. */
static double harmless_squares(enum dtype dtype)
{
    const int32_t bits = limit_bits(dtype) - 1;
    float most;
    memcpy(&most, &bits, sizeof most);
    return (double)most * most;
}

/* Whether values are finite and stay so when they are rounded to `dtype`. Compares bits as integers: larger magnitudes have larger bits. */
static bool all_finite(const float *values, int64_t count, enum dtype dtype)
{
    const int32_t limit = limit_bits(dtype);
    int32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most < limit;
}

/* Weights are stored in fp32 but used in the model's type, so they must be finite in that type. */
static int array_is_finite(const struct zero *zero, int u, enum state_array array, int64_t first, int64_t end,
                           bool *finite, struct error *err)
{
    const enum dtype dtype = array == STATE_WEIGHTS ? zero->model.dtype : DTYPE_F32;
    const struct schedule *schedule = &zero->plan.schedules[PURPOSE_TRAIN];
    const int b = zero_state_array(zero, u, array);
    *finite = true;
    if (b >= 0 && !zero_is_on_nvme(&schedule->buffers[b]) && squares_of(zero, b, first, end) <= harmless_squares(dtype))
        return STATUS_OK;
    float *piece = malloc(PIECE_ELEMS * sizeof *piece);
    int status = piece ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to search the state");
    for (; first < end && *finite && !status; first += PIECE_ELEMS) {
        const int64_t elems = end - first < PIECE_ELEMS ? end - first : PIECE_ELEMS;
        status = zero_read_state(zero, u, array, first, elems, piece, err);
        if (!status) *finite = all_finite(piece, elems, dtype);
    }
    free(piece);
    return status;
}

static int is_finite(const struct zero *zero, enum look look, int u, int64_t first, int64_t end, bool *finite,
                     struct error *err)
{
    static const enum state_array arrays[LOOKS] = {[LOOK_WEIGHTS] = STATE_WEIGHTS,
                                                   [LOOK_STATE_1] = STATE_1,
                                                   [LOOK_STATE_2] = STATE_2,
                                                   [LOOK_PENDING] = STATE_PENDING};
    if (look != LOOK_GRADIENT) return array_is_finite(zero, u, arrays[look], first, end, finite, err);
    *finite = isfinite(squares_of(zero, zero->plan.schedules[PURPOSE_TRAIN].layout[u].gradient, first, end));
    return STATUS_OK;
}

/* *found: number, over all units, of the first tensor of this unit that is not finite in the rank's shard; else unchanged. */
static int look_in_unit(const struct zero *zero, enum look look, int u, int32_t *found, struct error *err)
{
    const struct unit *unit = &zero->model.units[u];
    int64_t from, to;
    slice_range(&zero->plan.schedules[PURPOSE_TRAIN], &zero->model, u, zero->rank, &from, &to);
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t tensor_end = tensor->offset + tensor->elems;
        const int64_t first = tensor->offset > from ? tensor->offset : from, end = tensor_end < to ? tensor_end : to;
        bool finite = true;
        int status = first < end ? is_finite(zero, look, u, first, end, &finite, err) : STATUS_OK;
        if (status) return status;
        if (!finite) return *found = u * UNIT_TENSORS_MAX + t, STATUS_OK;
    }
    return STATUS_OK;
}

static bool is_there(const struct zero *zero, enum look look, bool gradients)
{
    switch (look) {
    case LOOK_WEIGHTS: return true;
    case LOOK_GRADIENT: return gradients;
    case LOOK_PENDING: return zero_has_array(zero, STATE_PENDING);
    default: return zero_has_array(zero, (enum state_array)(STATE_1 + (int)look - LOOK_STATE_1));
    }
}

static int look_through(const struct zero *zero, bool gradients, int32_t *mine, struct error *err)
{
    const int32_t tensors = zero->model.unit_count * UNIT_TENSORS_MAX;
    for (int look = 0; look < LOOKS; look++) {
        int32_t found = NOTHING;
        for (int u = 0; u < zero->model.unit_count && found == NOTHING && is_there(zero, look, gradients); u++) {
            int status = look_in_unit(zero, look, u, &found, err);
            if (status) return status;
        }
        if (found != NOTHING) return *mine = look * tensors + found, STATUS_OK;
    }
    return STATUS_OK;
}

static void name(const struct zero *zero, int32_t number, struct zero_divergence *found)
{
    const struct optimizer_info *keeps = &optimizer_table[zero->model.optimizer];
    const char *const of[LOOKS] = {"weights", "gradient", keeps->state[0], keeps->state[1], "pending gradient"};
    const int32_t tensors = zero->model.unit_count * UNIT_TENSORS_MAX, tensor = number % tensors;
    const struct unit *unit = &zero->model.units[tensor / UNIT_TENSORS_MAX];
    *found = (struct zero_divergence){.of = ""};
    if (number == NOTHING) return;
    found->of = of[number / tensors];
    snprintf(found->tensor, sizeof found->tensor, "%s %s", unit->name, unit->tensors[tensor % UNIT_TENSORS_MAX].name);
}

/* Collective. gradients: also search the gradients of the last step, which still exist. */
static int find(struct zero *zero, bool gradients, struct zero_divergence *found, struct error *err)
{
    int32_t mine = NOTHING, all[zero->ranks];
    int status = look_through(zero, gradients, &mine, err);
    if (!status) status = comm_exchange(zero->comm, &mine, all, sizeof mine, NULL, err);
    for (int r = 0; r < zero->ranks && !status; r++)
        if (all[r] < mine) mine = all[r];
    name(zero, status ? NOTHING : mine, found);
    return status;
}

/* ---- in words ---- */

static void append_tensor(struct zero_divergence *found)
{
    if (*found->tensor)
        text_append(found->text, sizeof found->text, "; first tensor that is not finite: %s of %s", found->of,
                    found->tensor);
}

static double without_sign_of_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

/* Not skipped: this step was not finite. Skipped: the run gave up after skips. */
static void explain(const struct zero *zero, const struct zero_result *result, struct zero_divergence *found)
{
    char *text = found->text;
    const size_t room = sizeof found->text;
    if (!result->skipped)
        snprintf(text, room, "the loss is %g, the gradient norm is %g", without_sign_of_nan(zero->step.concluded.loss),
                 without_sign_of_nan(zero->step.concluded.grad_norm));
    else if (zero->progress.skips && zero->progress.skips == zero->config->max_skips)
        snprintf(text, room, "%d steps in a row were skipped (schedule.max_skips)", zero->progress.skips);
    else
        snprintf(text, room, "gradients overflow fp16 at the smallest loss scale, %g (fp16.min_loss_scale)",
                 zero->progress.scaler.scale);
    if (result->lone_rank >= 0) text_append(text, room, "; only rank %d's own loss is not finite", result->lone_rank);
}

int zero_explain_divergence(struct zero *zero, struct zero_result *result, struct error *err)
{
    int status = find(zero, true, &result->divergence, err);
    explain(zero, result, &result->divergence);
    append_tensor(&result->divergence);
    return status;
}

int zero_check_state(struct zero *zero, bool *finite, struct zero_divergence *found, struct error *err)
{
    int status = find(zero, false, found, err);
    *finite = !*found->tensor;
    snprintf(found->text, sizeof found->text, "the state is not finite");
    append_tensor(found);
    return status;
}
