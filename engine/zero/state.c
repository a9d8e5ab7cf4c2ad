/* The lasting state: parameters, gradients, optimizer state, as the layout of the schedule in force says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/checker.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

int zero_plan(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[PURPOSES], struct error *err)
{
    const struct config *config = zero->config;
    for (int purpose = 0; purpose < PURPOSES; purpose++) {
        struct schedule_input input = {&zero->model, knobs, (enum purpose)purpose, zero->ranks, config->accumulation_steps,
                                       purpose == PURPOSE_SAMPLE ? 1 : config->micro_batch_size, config->data.sequence_length,
                                       config->topology.threads_per_rank};
        int status = schedule_build(&schedules[purpose], &input, err);
        if (status == STATUS_OK && (status = schedule_check(&schedules[purpose], &zero->model, err))) schedule_release(&schedules[purpose]);
        if (status == STATUS_OK) continue;
        while (purpose-- > 0) schedule_release(&schedules[purpose]);
        return status;
    }
    return STATUS_OK;
}

/* ---- initial values ---- */

enum { CHUNK_ELEMS = 65536 };

/* Fills the rank's own shard of a buffer from the counter-based generator; the others' shards are gathered. */
static void fill_shard(struct zero *zero, const struct schedule *schedule, int b, float *chunk)
{
    const struct buffer *buffer = &schedule->buffers[b];
    const int64_t shard = shard_elems(zero->model.units[buffer->unit].elems, zero->ranks), from = zero->rank * shard;
    for (int64_t at = from; at < from + shard; at += CHUNK_ELEMS) {
        int64_t count = from + shard - at < CHUNK_ELEMS ? from + shard - at : CHUNK_ELEMS;
        gpt_initial_values(&zero->model, buffer->unit, zero->config->data.seed, at, count, chunk);
        kernels_cast(zero->kernels, buffer->dtype, zero_at(zero, schedule, b, at), DTYPE_F32, chunk, count);
    }
}

/* A whole copy of optimizer state lies in private memory, which peers cannot read: its own shard is filled from the
 * generator like every other rank's would be, because that is cheaper than a detour. */
static void fill_whole(struct zero *zero, const struct schedule *schedule, int b, float *chunk)
{
    const struct buffer *buffer = &schedule->buffers[b];
    const int64_t padded = shard_elems(zero->model.units[buffer->unit].elems, zero->ranks) * zero->ranks;
    for (int64_t at = 0; at < padded; at += CHUNK_ELEMS) {
        int64_t count = padded - at < CHUNK_ELEMS ? padded - at : CHUNK_ELEMS;
        gpt_initial_values(&zero->model, buffer->unit, zero->config->data.seed, at, count, chunk);
        kernels_cast(zero->kernels, buffer->dtype, zero_at(zero, schedule, b, at), DTYPE_F32, chunk, count);
    }
}

static int fill_parameters(struct zero *zero, const struct schedule *schedule, int b, float *chunk, struct error *err)
{
    const struct buffer *buffer = &schedule->buffers[b];
    fill_shard(zero, schedule, b, chunk);
    if (buffer->extent != EXTENT_WHOLE) return STATUS_OK;
    const int64_t shard = shard_elems(zero->model.units[buffer->unit].elems, zero->ranks);
    struct comm_stat stat = {0};
    for (int r = 0; r < zero->ranks; r++)
        zero->parts[r] = (struct comm_part){
            .owner = r, .elems = shard,
            .source = memory_symmetric_offset(zero->memory, buffer->category) + buffer->offset + (uint64_t)(r * shard * dtype_bytes(buffer->dtype)),
            .destination = zero_at(zero, schedule, b, r * shard)};
    return comm_all_gather(zero->comm, buffer->dtype, zero->parts, zero->ranks, true, &stat, err);
}

static int fill_state(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    float *chunk = malloc(CHUNK_ELEMS * sizeof *chunk);
    int status = chunk ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for initial values");
    for (int i = 0; i < schedule->op_count && status == STATUS_OK; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind != OP_UPDATE) continue; /* an update names every lasting buffer of its unit */
        int master = op->buffer[ROLE_MASTER], parameters = op->buffer[ROLE_PARAMETERS];
        status = fill_parameters(zero, schedule, parameters, chunk, err);
        if (master != parameters) (schedule->buffers[master].extent == EXTENT_WHOLE ? fill_whole : fill_shard)(zero, schedule, master, chunk);
        for (int role = ROLE_MOMENT1; role <= ROLE_MOMENT2; role++)
            memset(zero_buffer(zero, schedule, op->buffer[role]), 0, (size_t)schedule->buffers[op->buffer[role]].bytes);
    }
    free(chunk);
    return status == STATUS_OK ? zero_fill_tails(zero, schedule, err) : status;
}

/* ---- taking it ---- */

static void give_lasting(struct zero *zero, const struct schedule *schedule, int count)
{
    for (int b = 0; b < count; b++) {
        const struct buffer *buffer = &schedule->buffers[b];
        memory_give(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes);
    }
}

int zero_make_state(struct zero *zero, bool *failed, struct zero_shortage *shortage, struct error *err)
{
    const struct schedule *schedule = &zero->schedules[PURPOSE_TRAIN];
    struct take_failure failure = {0};
    int taken = 0;
    for (; taken < schedule->lasting_count; taken++) {
        const struct buffer *buffer = &schedule->buffers[taken];
        struct error why;
        if (memory_take(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes, &why) == STATUS_OK) continue;
        failure = (struct take_failure){.failed = true, .op = -1, .tier = buffer->tier, .category = buffer->category, .wanted_bytes = (uint64_t)buffer->bytes};
        memory_snapshot(zero->memory, &failure.memory);
        snprintf(failure.text, sizeof failure.text, "%.255s", why.text);
        break;
    }
    int status = zero_agree_on_failure(zero, &failure, failed, shortage, err);
    if (status || *failed) {
        give_lasting(zero, schedule, taken);
        return status;
    }
    status = fill_state(zero, schedule, err);
    zero->ready = status == STATUS_OK;
    memory_reset_peaks(zero->memory);
    return status;
}
