/* The lasting state: parameters, gradients, optimizer state, as the layout of the schedule in force says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/checker.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

int zero_plan(struct zero *zero, const struct config_zero *knobs, struct schedule schedules[PURPOSES],
              struct error *err)
{
    for (int purpose = 0; purpose < PURPOSES; purpose++) {
        struct schedule_input input = schedule_input_of(zero->config, &zero->model, (enum purpose)purpose);
        input.knobs = knobs;
        input.ranks = zero->ranks;
        int status = schedule_build(&schedules[purpose], &input, err);
        if (status == STATUS_OK && (status = schedule_check(&schedules[purpose], &zero->model, err)))
            schedule_release(&schedules[purpose]);
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

/* The rank's own shard, and where the array is held whole, everybody's. */
static int fill(struct zero *zero, const struct schedule *schedule, int b, float *chunk, struct error *err)
{
    fill_shard(zero, schedule, b, chunk);
    return schedule->buffers[b].extent == EXTENT_WHOLE ? zero_spread_own(zero, schedule, b, err) : STATUS_OK;
}

static int fill_unit(struct zero *zero, const struct schedule *schedule, const struct op *update, float *chunk,
                     struct error *err)
{
    int master = update->buffer[ROLE_MASTER], parameters = update->buffer[ROLE_PARAMETERS];
    for (int role = ROLE_STATE1; role <= ROLE_STATE2; role++) {
        int b = update->buffer[role];
        if (b >= 0) memset(zero_buffer(zero, schedule, b), 0, (size_t)schedule->buffers[b].bytes);
    }
    int status = fill(zero, schedule, parameters, chunk, err);
    return status == STATUS_OK && master != parameters ? fill(zero, schedule, master, chunk, err) : status;
}

static int fill_state(struct zero *zero, const struct schedule *schedule, struct error *err)
{
    float *chunk = malloc(CHUNK_ELEMS * sizeof *chunk);
    int status = chunk ? STATUS_OK : error_set(err, STATUS_RUN, "no memory for initial values");
    for (int i = 0; i < schedule->op_count && status == STATUS_OK;
         i++) /* an update names every lasting buffer of its unit */
        if (schedule->ops[i].kind == OP_UPDATE && schedule->ops[i].tile == 0)
            status = fill_unit(zero, schedule, &schedule->ops[i], chunk, err);
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
        if (memory_take(zero->memory, buffer->tier, buffer->category, buffer->offset, (uint64_t)buffer->bytes, &why) ==
            STATUS_OK)
            continue;
        failure = (struct take_failure){.failed = true,
                                        .op = -1,
                                        .tier = buffer->tier,
                                        .category = buffer->category,
                                        .wanted_bytes = (uint64_t)buffer->bytes};
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
