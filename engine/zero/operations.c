/* Operations that compute: each calls the model, the optimizer or the data source with pointers to the schedule's buffers. The host
 * lane uses the CPU backend's kernels on its own threads, so it gives the same bits. No function here asks for the stage: a
 * buffer's range says whether it is whole or a shard. */
#include <math.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/optim/optimizer.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

void *zero_buffer(const struct zero *zero, const struct schedule *schedule, int buffer)
{
    return buffer < 0 ? NULL : zero_place(zero, &schedule->buffers[buffer]);
}

void *zero_at(const struct zero *zero, const struct schedule *schedule, int buffer, int64_t elem)
{
    if (buffer < 0) return NULL;
    const struct buffer *b = &schedule->buffers[buffer];
    int64_t first, end;
    buffer_range(schedule, &zero->model, b, zero->rank, &first, &end);
    return (char *)zero_buffer(zero, schedule, buffer) + (elem - first) * dtype_bytes(b->dtype);
}

void *zero_tile(const struct zero *zero, const struct schedule *schedule, const struct op *op, int buffer)
{
    int64_t first, end;
    if (buffer < 0) return NULL;
    if (op->unit < 0 || schedule->buffers[buffer].extent == EXTENT_BYTES) return zero_buffer(zero, schedule, buffer);
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    return zero_at(zero, schedule, buffer, first);
}

/* Buffers saved for backward. A tile reads the one that its block saved for it. */
static struct gpt_saved saved_of(const struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const struct architecture *of = zero->model.architecture;
    struct gpt_saved saved;
    for (int s = 0; s < of->saved_count; s++) {
        const bool of_block = model_is_tile(&zero->model, op->unit) && s == of->saved_for_tiles;
        const enum role role = of_block ? ROLE_INPUT : saved_role(&zero->model, s);
        saved.buffer[s] = zero_buffer(zero, schedule, op->buffer[role]);
    }
    return saved;
}

static void parameters_of(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                          struct gpt_tensors *tensors)
{
    const struct unit *unit = &zero->model.units[op->unit];
    int tail = op->buffer[ROLE_TAIL];
    int64_t split = tail < 0 ? unit->elems : persistent_from(&zero->model, &schedule->knobs, op->unit);
    gpt_tensors_of(tensors, unit, zero->model.dtype, zero_buffer(zero, schedule, op->buffer[ROLE_PARAMETERS]), split,
                   zero_buffer(zero, schedule, tail));
}

/* Pointers into the unit's gradient. Its padding is kept at zero, so that it can be reduced and summed like the rest. */
static int gradients_of(const struct zero *zero, const struct schedule *schedule, const struct op *op,
                        struct gpt_tensors *tensors, struct error *err)
{
    const struct unit *unit = &zero->model.units[op->unit];
    const struct buffer *buffer = &schedule->buffers[op->buffer[ROLE_GRADIENT]];
    char *flat = zero_buffer(zero, schedule, op->buffer[ROLE_GRADIENT]);
    int64_t used_bytes = unit->elems * dtype_bytes(buffer->dtype);
    gpt_tensors_of(tensors, unit, zero->model.dtype, flat, unit->elems, NULL);
    return mover_clear(zero->movers[LANE_COMPUTE], flat + used_bytes, (uint64_t)(buffer->bytes - used_bytes), err);
}

static int64_t training_sample(const struct zero *zero, const struct schedule *schedule, int micro_step)
{
    return zero->progress.samples + ((int64_t)micro_step * zero->ranks + zero->rank) * schedule->B;
}

static int read_tokens(const struct zero *zero, const struct schedule *schedule, const struct op *op, int32_t *tokens,
                       struct error *err)
{
    int32_t *targets = tokens + schedule->B * schedule->T;
    switch (zero->step.purpose) {
    case PURPOSE_TRAIN:
        return data_batch(zero->data, DATA_TRAIN, training_sample(zero, schedule, op->micro_step), schedule->B,
                          schedule->T, tokens, targets, err);
    case PURPOSE_EVALUATE:
        return data_batch(zero->data, DATA_VALIDATION, zero->step.first_sample + (int64_t)zero->rank * schedule->B,
                          schedule->B, schedule->T, tokens, targets, err);
    case PURPOSE_SAMPLE: memcpy(tokens, zero->sampler.tokens, (size_t)schedule->T * sizeof *tokens); break;
    case PURPOSES: break;
    }
    return STATUS_OK;
}

int zero_load(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    int32_t *tokens = zero_buffer(zero, schedule, op->buffer[ROLE_TOKENS]);
    if (!zero->device) return read_tokens(zero, schedule, op, tokens, err);
    const int64_t each = (int64_t)schedule->B * schedule->T;
    int32_t *here = zero->mailbox.tokens + op->micro_step * 2 * each;
    const unsigned arrays = zero->step.purpose == PURPOSE_SAMPLE ? 1 : 2; /* no targets where nothing is learned */
    const uint64_t used_bytes = arrays * (uint64_t)each * sizeof *here;
    int status = read_tokens(zero, schedule, op, here, err);
    return status ? status : mover_copy(zero->movers[LANE_COMPUTE], tokens, here, used_bytes, err);
}

/* Draws the next token from softmax(logits / temperature): the same draw on every rank. */
static int draw_token(struct zero *zero, const struct gpt *gpt, const struct gpt_saved *head, struct error *err)
{
    struct sampler *sampler = &zero->sampler;
    const int V = zero->model.shape.vocabulary;
    float *row = sampler->logits, highest = -INFINITY;
    const void *from = gpt_logits(gpt, head, sampler->position);
    char typed[zero->device != NULL ? V * dtype_bytes(zero->model.dtype) : 1];
    if (zero->device) {
        int status = zero_move_bytes(zero, typed, from, sizeof typed, err);
        if (status) return status;
        from = typed;
    }
    kernels_cast(zero_host_kernels(zero), DTYPE_F32, row, zero->model.dtype, from, V);
    for (int v = 0; v < V; v++) highest = fmaxf(highest, row[v]);
    double sum = 0, temperature = sampler->temperature > 0 ? sampler->temperature : 1e-6;
    for (int v = 0; v < V; v++) sum += exp((double)(row[v] - highest) / temperature);
    double place =
        rng_uniform(zero->config->data.seed, 0x73616d706c65u + (uint64_t)zero->progress.steps_done, sampler->draw++) *
        sum;
    int v = 0;
    while (v < V - 1 && (place -= exp((double)(row[v] - highest) / temperature)) > 0) v++;
    sampler->next = v;
    return STATUS_OK;
}

static struct kernels *kernels_of(const struct zero *zero, const struct op *op)
{
    return op->lane == LANE_HOST ? zero->host_kernels : zero->kernels;
}

/* For gradients in the lane's tier. The agreement adds the units' sums in unit order, in whatever tier they lie. */
int zero_sum_squares(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const enum tier tier = op->lane == LANE_HOST ? TIER_HOST : TIER_DEVICE;
    for (int u = 0; u < zero->model.unit_count; u++) {
        const int b = schedule->layout[u].gradient;
        const struct buffer *buffer = &schedule->buffers[b];
        if (buffer->tier != tier) continue;
        int64_t first, end;
        slice_range(schedule, &zero->model, u, zero->rank, &first, &end);
        kernels_sum_squares_to(kernels_of(zero, op), buffer->dtype, &zero->mailbox.unit_squares[u],
                               zero_at(zero, schedule, b, first), end - first);
    }
    return STATUS_OK;
}

/* The scalars of this step, or, if updates are delayed, of the step before. */
static struct optimizer_step step_of_update(const struct zero *zero, const struct schedule *schedule)
{
    struct update_of of = {zero->step.gradient_factor, zero->step.rate, zero->progress.updates + 1};
    if (zero->step.applies_pending || schedule->knobs.delayed_update) of = zero->pending.update;
    return (struct optimizer_step){&zero->config->optimizer, of.now, of.factor, of.number};
}

int zero_update(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const struct optimizer_step step = step_of_update(zero, schedule);
    int64_t first, end, elems = zero->model.units[op->unit].elems;
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    if (end > elems) end = elems;
    if (first >= end) return STATUS_OK; /* this rank's shard is padding */
    const struct update_arrays arrays = {
        .gradient = zero_at(zero, schedule, op->buffer[ROLE_GRADIENT], first),
        .master = zero_tile(zero, schedule, op, op->buffer[ROLE_MASTER]),
        .state = {zero_tile(zero, schedule, op, op->buffer[ROLE_STATE1]),
                  zero_tile(zero, schedule, op, op->buffer[ROLE_STATE2])},
        .parameters = zero_tile(zero, schedule, op, op->buffer[ROLE_PARAMETERS]),
    };
    optimizer_update(kernels_of(zero, op), &zero->model, op->unit, first, end - first, &step,
                     schedule->buffers[op->buffer[ROLE_GRADIENT]].dtype, &arrays);
    return STATUS_OK;
}

int zero_add_gradient(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const int from = op->buffer[ROLE_SOURCE], to = op->buffer[ROLE_GRADIENT];
    int64_t first, end;
    buffer_range(schedule, &zero->model, &schedule->buffers[to], zero->rank, &first, &end);
    const int64_t elems = end - first;
    kernels_add(kernels_of(zero, op), schedule->buffers[to].dtype, zero_buffer(zero, schedule, to), op->accumulate,
                schedule->buffers[from].dtype, zero_buffer(zero, schedule, from), elems);
    return STATUS_OK;
}

/* Writes to the parameters' place, or to a buffer of the step that holds only this tile. */
int zero_cast_parameters(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    int64_t first, end;
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    kernels_cast(zero->host_kernels, zero->model.dtype, zero_tile(zero, schedule, op, op->buffer[ROLE_PARAMETERS]),
                 DTYPE_F32, zero_tile(zero, schedule, op, op->buffer[ROLE_SOURCE]), end - first);
    return STATUS_OK;
}

static int spoil(struct zero *zero, void *output, struct error *err)
{
    static const uint32_t nan = UINT32_MAX; /* its first bytes are a NaN in fp32, bf16 and fp16 */
    zero->spoils = false;
    return mover_copy(zero->movers[LANE_COMPUTE], output, &nan, (uint64_t)dtype_bytes(zero->model.dtype), err);
}

int zero_use_unit(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    const struct gpt gpt = {&zero->model, zero->kernels, schedule->B, schedule->T};
    const int32_t *tokens = zero_buffer(zero, schedule, op->buffer[ROLE_TOKENS]);
    const bool samples = zero->step.purpose == PURPOSE_SAMPLE;
    struct gpt_call call = {
        .kind = op->kind,
        .use = op->use,
        .accumulate = op->accumulate,
        .add = !op_takes(schedule, op, op->buffer[ROLE_NORMED]),
        .tokens = tokens,
        .targets = tokens && !samples ? tokens + schedule->B * schedule->T : NULL,
        .loss_scale = (float)(zero->progress.scaler.scale / schedule->micro_steps),
        .mean_loss = &zero->mailbox.losses[op->micro_step],
        .input = zero_buffer(zero, schedule, op->buffer[ROLE_INPUT]),
        .saved = saved_of(zero, schedule, op),
        .output = zero_buffer(zero, schedule, op->buffer[ROLE_OUTPUT]),
        .residual = zero_buffer(zero, schedule, op->buffer[ROLE_RESIDUAL]),
        .normed = zero_buffer(zero, schedule, op->buffer[ROLE_NORMED]),
        .scratch = zero_buffer(zero, schedule, op->buffer[ROLE_SCRATCH]),
    };
    parameters_of(zero, schedule, op, &call.parameters);
    if (op->buffer[ROLE_GRADIENT] >= 0 && gradients_of(zero, schedule, op, &call.gradient, err)) return STATUS_RUN;
    int status = gpt_run(&gpt, &call, err);
    if (!status && zero->spoils && op->kind == OP_FORWARD && zero->step.purpose == PURPOSE_TRAIN)
        status = spoil(zero, call.output, err);
    if (status || !samples || op->use->repeat != REPEAT_TIED) return status;
    return draw_token(zero, &gpt, &call.saved, err);
}
