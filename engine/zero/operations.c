/* Operations that compute: each as a call of the model, the optimizer or the data source, with the pointers that the schedule names.
 * Those of the host lane use the same kernels as the device of the CPU backend, on threads of that lane, so they give the same bits. Nothing here knows the stage; a buffer is whole or a shard, and its range says which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "engine/optim/optimizer.h"
#include "engine/zero/internal.h"
#include "kernels/kernels.h"

void *zero_buffer(const struct zero *zero, const struct schedule *schedule, int buffer)
{
    if (buffer < 0) return NULL;
    const struct buffer *b = &schedule->buffers[buffer];
    return memory_at(zero->memory, b->tier, b->category, b->offset);
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

/* A use has the attention part and one other at most; that of a tile reads its block's too. */
static struct gpt_saved saved_of(const struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    void *other = zero_buffer(zero, schedule, op->buffer[ROLE_ACTIVATION]),
         *mlp = model_is_tile(&zero->model, op->unit) ? zero_buffer(zero, schedule, op->buffer[ROLE_INPUT]) : other;
    return (struct gpt_saved){{[PART_ATTENTION] = zero_buffer(zero, schedule, op->buffer[ROLE_ATTENTION]),
                               [PART_MLP] = mlp,
                               [PART_NORM] = other,
                               [PART_HEAD] = other,
                               [PART_HIDDEN] = other}};
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
    return zero->samples_done + ((int64_t)micro_step * zero->ranks + zero->rank) * schedule->B;
}

static int read_tokens(const struct zero *zero, const struct schedule *schedule, const struct op *op, int32_t *tokens,
                       struct error *err)
{
    int32_t *targets = tokens + schedule->B * schedule->T;
    switch (zero->purpose) {
    case PURPOSE_TRAIN:
        return data_batch(zero->data, DATA_TRAIN, training_sample(zero, schedule, op->micro_step), schedule->B,
                          schedule->T, tokens, targets, err);
    case PURPOSE_EVALUATE:
        return data_batch(zero->data, DATA_VALIDATION, zero->first_sample + (int64_t)zero->rank * schedule->B,
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
    const uint64_t used_bytes = (uint64_t)each * sizeof *here *
                                (zero->purpose == PURPOSE_SAMPLE ? 1 : 2); /* no targets where nothing is learned */
    int status = read_tokens(zero, schedule, op, here, err);
    return status ? status : mover_copy(zero->movers[LANE_COMPUTE], tokens, here, used_bytes, err);
}

/* Draws the next token from softmax(logits / temperature): the same draw on every rank. */
static int draw_token(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    struct activation_layout layout;
    struct sampler *sampler = &zero->sampler;
    const int V = zero->model.shape.vocabulary;
    activation_layout(&layout, &zero->model, PART_HEAD, schedule->B, schedule->T);
    const char *logits =
        (const char *)zero_buffer(zero, schedule, op->buffer[ROLE_ACTIVATION]) + layout.offset[HEAD_LOGITS];
    float *row = sampler->logits, highest = -INFINITY;
    const void *from = logits + (int64_t)sampler->position * logits_row(&zero->model) * dtype_bytes(zero->model.dtype);
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
        rng_uniform(zero->config->data.seed, 0x73616d706c65u + (uint64_t)zero->steps_done, sampler->draw++) * sum;
    int v = 0;
    while (v < V - 1 && (place -= exp((double)(row[v] - highest) / temperature)) > 0) v++;
    sampler->next = v;
    return STATUS_OK;
}

static struct kernels *kernels_of(const struct zero *zero, const struct op *op)
{
    return op->lane == LANE_HOST ? zero->host_kernels : zero->kernels;
}

/* Of the gradients that lie in the lane's tier; they are added up in the order of units, wherever those are. */
int zero_sum_squares(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    const enum tier tier = op->lane == LANE_HOST ? TIER_HOST : TIER_DEVICE;
    for (int u = 0; u < zero->model.unit_count; u++) {
        const int b = schedule->layout[u].gradient;
        const struct buffer *buffer = &schedule->buffers[b];
        if (buffer->tier != tier) continue;
        const int64_t shard = shard_elems(zero->model.units[u].elems, zero->ranks);
        kernels_sum_squares_to(kernels_of(zero, op), buffer->dtype, &zero->mailbox.unit_squares[u],
                               zero_at(zero, schedule, b, zero->rank * shard), shard);
    }
    return STATUS_OK;
}

/* Of this step, or of the one before. */
static struct optimizer_step step_of_update(const struct zero *zero, const struct schedule *schedule)
{
    struct update_of of = {zero->gradient_factor, zero->now, zero->updates + 1};
    if (zero->applying_pending || schedule->knobs.delayed_update) of = zero->pending.update;
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

/* Into their place, or into a buffer of the step that holds just this tile. */
int zero_cast_parameters(struct zero *zero, const struct schedule *schedule, const struct op *op)
{
    int64_t first, end;
    update_range(schedule, &zero->model, op, zero->rank, &first, &end);
    kernels_cast(zero->host_kernels, zero->model.dtype, zero_tile(zero, schedule, op, op->buffer[ROLE_PARAMETERS]),
                 DTYPE_F32, zero_tile(zero, schedule, op, op->buffer[ROLE_SOURCE]), end - first);
    return STATUS_OK;
}

static int head_forward(struct zero *zero, const struct gpt *gpt, const struct schedule *schedule, const struct op *op,
                        const struct gpt_tensors *parameters, const void *input, const struct gpt_saved *saved,
                        struct error *err)
{
    const int32_t *tokens = zero_buffer(zero, schedule, op->buffer[ROLE_TOKENS]),
                  *targets = tokens + schedule->B * schedule->T;
    int status = gpt_head_forward(gpt, parameters, input, zero->purpose == PURPOSE_SAMPLE ? NULL : targets,
                                  (float)(zero->scaler.scale / schedule->micro_steps), saved,
                                  &zero->mailbox.losses[op->micro_step], err);
    if (status == STATUS_OK && zero->purpose == PURPOSE_SAMPLE) status = draw_token(zero, schedule, op, err);
    return status;
}

int zero_use_unit(struct zero *zero, const struct schedule *schedule, const struct op *op, struct error *err)
{
    const struct gpt gpt = {&zero->model, zero->kernels, schedule->B, schedule->T};
    struct gpt_tensors parameters, gradients;
    const int32_t *tokens = zero_buffer(zero, schedule, op->buffer[ROLE_TOKENS]);
    const void *input = zero_buffer(zero, schedule, op->buffer[ROLE_INPUT]);
    const struct gpt_saved saved = saved_of(zero, schedule, op);
    void *output = zero_buffer(zero, schedule, op->buffer[ROLE_OUTPUT]),
         *scratch = zero_buffer(zero, schedule, op->buffer[ROLE_SCRATCH]),
         *residual = zero_buffer(zero, schedule, op->buffer[ROLE_RESIDUAL]),
         *normed = zero_buffer(zero, schedule, op->buffer[ROLE_NORMED]);
    if (op->kind != OP_EMBED_BACKWARD) parameters_of(zero, schedule, op, &parameters);
    if (op->buffer[ROLE_GRADIENT] >= 0 && gradients_of(zero, schedule, op, &gradients, err)) return STATUS_RUN;
    switch (op->kind) {
    case OP_EMBED_FORWARD: return gpt_embed_forward(&gpt, &parameters, tokens, output, err);
    case OP_BLOCK_FORWARD:
    case OP_BLOCK_RECOMPUTE: return gpt_block_forward(&gpt, &parameters, input, &saved, output, scratch, err);
    case OP_ATTENTION_RECOMPUTE: return gpt_attention_forward(&gpt, &parameters, input, &saved, scratch, err);
    case OP_MLP_FORWARD:
    case OP_MLP_RECOMPUTE: return gpt_mlp_forward(&gpt, &parameters, &saved, output, err);
    case OP_NORM_FORWARD: return gpt_norm_forward(&gpt, &parameters, input, &saved, output, err);
    case OP_HEAD_FORWARD: return head_forward(zero, &gpt, schedule, op, &parameters, input, &saved, err);
    case OP_HEAD_BACKWARD:
        return gpt_head_backward(&gpt, &parameters, &gradients, op->accumulate, input, &saved, residual, scratch, err);
    case OP_NORM_BACKWARD:
        return gpt_norm_backward(&gpt, &parameters, &gradients, op->accumulate, input, &saved, residual, scratch, err);
    case OP_BLOCK_BACKWARD:
        return gpt_block_backward(&gpt, &parameters, &gradients, op->accumulate, input, &saved, residual, normed,
                                  scratch, err);
    case OP_MLP_BACKWARD:
        return gpt_mlp_backward(&gpt, &parameters, &gradients, op->accumulate, &saved, residual, normed,
                                !op_takes(schedule, op, op->buffer[ROLE_NORMED]), err);
    default: return gpt_embed_backward(&gpt, &gradients, op->accumulate, tokens, residual, scratch, err);
    }
}
