/* The lanes between host memory and NVMe, and the files of the NVMe tier. */
#include <stdio.h>
#include <time.h>

#include "engine/memory/storage.h"
#include "engine/zero/internal.h"

static const enum role swapped[] = {ROLE_MASTER, ROLE_STATE1, ROLE_STATE2, ROLE_PARAMETERS};
enum { SWAPPED = sizeof swapped / sizeof *swapped };

/* ---- the files ---- */

static bool needs(const struct schedule *schedule, enum category category)
{
    for (int b = 0; b < schedule->lasting_count; b++)
        if (schedule->buffers[b].tier == TIER_NVME && schedule->buffers[b].category == category) return true;
    return false;
}

bool zero_needs_storage(const struct schedule *schedule)
{
    return needs(schedule, CATEGORY_PARAMETERS) || needs(schedule, CATEGORY_OPTIMIZER);
}

static int open_storage(struct zero *zero, struct error *err)
{
    const struct config *config = zero->config;
    const struct aio_options options = {.block_bytes = config->aio.block_bytes,
                                        .queue_depth = config->aio.queue_depth,
                                        .threads = config->aio.threads,
                                        .single_submit = config->aio.single_submit,
                                        .overlap_events = config->aio.overlap_events};
    const struct storage_range ranges[CATEGORIES] = {
        [CATEGORY_PARAMETERS] = {config_nvme_path(config, true), zero->nvme_range_bytes[CATEGORY_PARAMETERS]},
        [CATEGORY_OPTIMIZER] = {config_nvme_path(config, false), zero->nvme_range_bytes[CATEGORY_OPTIMIZER]}};
    int status = storage_open(&zero->storage, ranges, &options, err);
    if (!status) memory_set_storage(zero->memory, zero->storage);
    return status;
}

int zero_use_storage(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    int status = !zero_needs_storage(schedule) || zero->storage ? STATUS_OK : open_storage(zero, err);
    for (enum category c = 0; c < CATEGORIES && !status; c++) {
        const char *because = NULL;
        if (needs(schedule, c)) status = storage_use(zero->storage, c, &because, err);
        if (because && zero->rank == 0) zero_log(zero, ZERO_RING_CONTROL, because);
    }
    return status;
}

/* ---- operations ---- */

static struct aio_span span_of(const struct zero *zero, const struct schedule *schedule, int memory, int array,
                               uint64_t at)
{
    const struct buffer *away = &schedule->buffers[array];
    return storage_span(zero->storage, away->category, away->offset + at, zero_buffer(zero, schedule, memory),
                        (uint64_t)schedule->buffers[memory].bytes);
}

/* Spans of one operation: a whole shard of parameters, or a tile of each array of an update. */
static int list_spans(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                      struct aio_span *spans)
{
    int64_t first, end, shard, ignored;
    int count = 0;
    if (op->buffer[ROLE_SOURCE] >= 0)
        spans[count++] = span_of(zero, schedule, op->buffer[ROLE_OUTPUT], op->buffer[ROLE_SOURCE], 0);
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    extent_range(schedule, &zero->model, op->unit, op->extent, zero->rank, &shard, &ignored);
    for (int s = 0; s < SWAPPED; s++) {
        const int b = op->buffer[swapped[s]], array = zero_array(schedule, op->unit, swapped[s]);
        if (b < 0) continue;
        const uint64_t at = (uint64_t)((first - shard) * dtype_bytes(schedule->buffers[array].dtype));
        spans[count++] = span_of(zero, schedule, b, array, at);
    }
    return count;
}

static void log_trouble(struct zero *zero, enum lane lane, const struct error *err, const char *what_next)
{
    char text[sizeof err->text + 96];
    snprintf(text, sizeof text, "rank %d, step %lld: %s; %s", zero->rank, (long long)zero->progress.steps_done + 1,
             err->text, what_next);
    zero_log(zero, lane, text);
}

/* A read before the agreement that fails is like a shortage: no state has been written, so the state from before the step remains. */
static bool gives_up_the_step(const struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    return op->kind == OP_SWAP_IN && op - schedule->ops < schedule_agreement(schedule) && !zero->step.applies_pending;
}

static void rest(int64_t ns)
{
    nanosleep(&(struct timespec){0, ns}, NULL);
}

/* Whether to wait for room on a full disk: not if the run should end, or another rank has failed. A run without a gate cannot be
 * told to end, so its wait is short. */
static bool may_wait(const struct zero *zero, int waits)
{
    enum { WAITS_WITHOUT_GATE = 10 };
    if (comm_has_failed(zero->comm)) return false;
    return zero->gate ? !atomic_load(&zero->gate->haste) : waits < WAITS_WITHOUT_GATE;
}

/* Tries a failed transfer again, because the fault may pass. If the disk is full although room was reserved, waits for room until
 * the run should end, because an update that has begun to write cannot be dropped. */
static int try(struct zero *zero, const struct op *op, const struct aio_span *spans, int count, struct error *err)
{
    enum { TRIES = 3, PAUSE_NS = 20000000, ROOM_NS = 200000000 };
    const enum aio_direction direction = op->lane == LANE_NVME_READ ? AIO_READ : AIO_WRITE;
    int status = storage_move(zero->storage, direction, spans, count, err);
    if (status && !storage_was_full(zero->storage, direction)) log_trouble(zero, op->lane, err, "trying again");
    for (int n = 1; status && n < TRIES; n++) {
        rest(PAUSE_NS);
        status = storage_move(zero->storage, direction, spans, count, err);
    }
    if (status && storage_was_full(zero->storage, direction))
        log_trouble(zero, op->lane, err, "the update waits until there is room");
    for (int n = 0; status && storage_was_full(zero->storage, direction) && may_wait(zero, n); n++) {
        rest(ROOM_NS);
        status = storage_move(zero->storage, direction, spans, count, err);
    }
    return status;
}

static int fail(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat,
                struct error *err)
{
    stat->moved.healthy = false;
    if (!gives_up_the_step(zero, schedule, op))
        return error_prefix(err, "step %lld, in the midst of the update, whose state is lost",
                            (long long)zero->progress.steps_done + 1);
    if (zero->step.swap_failure.failed) return STATUS_OK;
    const struct buffer wanted = {.tier = TIER_NVME, .category = CATEGORY_PARAMETERS, .bytes = op->bytes};
    zero->step.swap_failure = take_failure_of(zero->memory, (int)(op - schedule->ops), &wanted, err);
    return STATUS_OK;
}

int zero_swap(struct zero *zero, const struct schedule *schedule, const struct op *op, struct op_stat *stat,
              struct error *err)
{
    struct aio_span spans[SWAPPED + 1];
    const int count = list_spans(zero, schedule, op, spans);
    const enum traffic kind = op_traffic(op->kind);
    uint64_t bytes = 0;
    for (int s = 0; s < count; s++) bytes += spans[s].bytes;
    *stat = (struct op_stat){.moved = {.sent_bytes = {[LINK_NVME] = bytes}, .healthy = true}};
    if (try(zero, op, spans, count, err)) return fail(zero, schedule, op, stat, err);
    stat->io = aio_last_flow(storage_aio(zero->storage, op->lane == LANE_NVME_READ ? AIO_READ : AIO_WRITE));
    stat->io_direct = storage_is_direct(zero->storage, spans, count);
    zero->trace.traffic[kind].count++;
    zero->trace.traffic[kind].sent_bytes[0] += bytes;
    return STATUS_OK;
}
