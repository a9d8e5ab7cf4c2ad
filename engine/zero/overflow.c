/* Who overflowed. Asked once, when a run ends because its loss scale cannot go lower: the gradients of the step are still
 * there, each rank looks through its own shards, and the ranks agree on the first tensor of the model. */
#include <limits.h>
#include <math.h>

#include "engine/zero/internal.h"
#include "kernels/kernels.h"

static bool is_finite(const struct zero *zero, const struct schedule *schedule, int b, int64_t first, int64_t end)
{
    return isfinite(
        kernels_sum_squares(zero->kernels, schedule->buffers[b].dtype, zero_at(zero, schedule, b, first), end - first));
}

/* The number (of its place in all units) of the first tensor of a unit that is not finite in the rank's shard. */
static int32_t first_in_unit(const struct zero *zero, const struct schedule *schedule, int b, int u)
{
    const struct unit *unit = &zero->model.units[u];
    const int64_t shard = shard_elems(unit->elems, zero->ranks), from = zero->rank * shard, to = from + shard;
    for (int t = 0; t < unit->tensor_count; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t tensor_end = tensor->offset + tensor->elems;
        const int64_t first = tensor->offset > from ? tensor->offset : from, end = tensor_end < to ? tensor_end : to;
        if (first < end && !is_finite(zero, schedule, b, first, end)) return u * TENSOR_IDS + t;
    }
    return INT32_MAX;
}

static int32_t first_of_own(const struct zero *zero, const struct schedule *schedule)
{
    int32_t first = INT32_MAX;
    for (int u = 0; u < zero->model.unit_count; u++) {
        int32_t found = first_in_unit(zero, schedule, schedule->layout[u].gradient, u);
        if (found < first) first = found;
    }
    return first;
}

int zero_overflow_error(struct zero *zero, struct error *err)
{
    int32_t mine = first_of_own(zero, &zero->schedules[PURPOSE_TRAIN]), all[zero->ranks];
    struct comm_stat stat = {0};
    int status = comm_exchange(zero->comm, &mine, all, sizeof mine, &stat, err);
    if (status) return status;
    for (int r = 0; r < zero->ranks; r++)
        if (all[r] < mine) mine = all[r];
    const struct unit *unit = &zero->model.units[mine == INT32_MAX ? 0 : mine / TENSOR_IDS];
    if (mine != INT32_MAX)
        return error_set(err, STATUS_RUN,
                         "step %lld: gradients overflow fp16 at the smallest loss scale, %g; the first is %s %s; "
                         "lower fp16.min_loss_scale or the learning rate, or use bf16",
                         (long long)zero->steps_done, zero->scaler.scale, unit->name,
                         tensor_name(unit->tensors[mine % TENSOR_IDS].id));
    return error_set(err, STATUS_RUN, "step %lld: gradients overflow fp16 at the smallest loss scale, %g",
                     (long long)zero->steps_done, zero->scaler.scale);
}
