/* One step, from the first token to the last refreshed parameter. Read schedule_build() first, then follow one use of a
 * unit through write_use(). The only questions about the stage are asked at the top, and answered as: are parameters
 * gathered for use? do gradients have buffers of their own? which collective reduces them, and when? */
#include "engine/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/buckets.h"
#include "engine/plan/builder.h"
#include "engine/plan/gather.h"

struct planner {
    struct builder builder;
    struct walk_step *walk;
    int walk_length;
    struct gatherer gatherer;
    struct buckets buckets;
    bool training;
    bool own_gradients;     /* unreduced gradients live in the step's own buffers (stages 2, 3) */
    bool reduce_every_time; /* after every micro-step, not only the last (stages 2, 3) */
    int *activation;        /* by place in the forward walk */
    int *unit_gradient;     /* by unit: where backward writes */
    int tokens, residual;
    int last_compute, last_comm;
};

/* ---- the walk: compute uses of units in order ---- */

static void walk_add(struct planner *planner, enum use use, int unit, int micro_step)
{
    planner->walk[planner->walk_length++] = (struct walk_step){use, unit, micro_step, use != USE_EMBED_BACKWARD};
}

static void walk_micro_step(struct planner *planner, int micro_step)
{
    const int last = planner->builder.model->unit_count - 1;
    walk_add(planner, USE_EMBED_FORWARD, 0, micro_step);
    for (int u = 1; u < last; u++) walk_add(planner, USE_BLOCK_FORWARD, u, micro_step);
    walk_add(planner, USE_NORM_FORWARD, last, micro_step);
    walk_add(planner, USE_HEAD_FORWARD, 0, micro_step);
    if (!planner->training) return;
    walk_add(planner, USE_HEAD_BACKWARD, 0, micro_step);
    walk_add(planner, USE_NORM_BACKWARD, last, micro_step);
    for (int u = last - 1; u >= 1; u--) walk_add(planner, USE_BLOCK_BACKWARD, u, micro_step);
    walk_add(planner, USE_EMBED_BACKWARD, 0, micro_step);
}

/* Place of a use in the chain of forward activations: embed 0, block l at l + 1, norm, head. */
static int chain_place(const struct planner *planner, const struct walk_step *step)
{
    bool head = step->use == USE_HEAD_FORWARD || step->use == USE_HEAD_BACKWARD;
    return head ? planner->builder.model->unit_count : step->unit;
}

/* ---- operations of one use ---- */

static const enum op_kind op_of_use[USES] = {
    OP_EMBED_FORWARD, OP_BLOCK_FORWARD, OP_NORM_FORWARD,   OP_HEAD_FORWARD,
    OP_HEAD_BACKWARD, OP_NORM_BACKWARD, OP_BLOCK_BACKWARD, OP_EMBED_BACKWARD,
};

static void write_load(struct planner *planner, int micro_step)
{
    const struct schedule_input *input = planner->builder.input;
    builder_begin(&planner->builder, OP_LOAD, micro_step, -1);
    planner->tokens =
        builder_bytes(&planner->builder, "tokens", CATEGORY_ACTIVATIONS, (int64_t)input->B * input->T * 2 * 4);
    builder_take(&planner->builder, ROLE_TOKENS, planner->tokens);
    planner->last_compute = builder_end(&planner->builder);
}

/* Without overlap_comm an operation may not start before everything above it is done. */
static int serial(const struct planner *planner, int op)
{
    return planner->builder.schedule->knobs.overlap_comm ? -1 : op;
}

static void use_parameters(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk[at];
    const struct unit_layout *layout = &builder->layout[step->unit];
    if (!step->needs_parameters) return;
    bool gathered = planner->gatherer.active;
    builder->op->buffer[ROLE_PARAMETERS] = gathered ? planner->gatherer.buffer[step->unit] : layout->parameters;
    builder->op->buffer[ROLE_TAIL] = layout->tail;
    if (!gathered || planner->gatherer.buffer[step->unit] < 0) return; /* all of it may be tail */
    builder_depend(builder, planner->gatherer.op[step->unit], WAIT_DATA);
    int buffer = planner->gatherer.buffer[step->unit];
    if (gatherer_lets_go(&planner->gatherer, at)) builder_give(builder, buffer);
}

static void take_scratch(struct planner *planner, enum use use)
{
    const struct schedule_input *input = planner->builder.input;
    int64_t bytes = scratch_bytes(input->model, use, input->B, input->T, input->threads);
    if (!bytes) return;
    int scratch = builder_bytes(&planner->builder, "scratch", CATEGORY_WORKSPACE, bytes);
    builder_take(&planner->builder, ROLE_SCRATCH, scratch);
    builder_give(&planner->builder, scratch);
}

static void write_forward(struct planner *planner, int at)
{
    static const char *const names[] = {"embedding out", "block activations", "norm activations", "logits"};
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk[at];
    const int place = chain_place(planner, step);
    struct activation_layout layout;
    activation_layout(&layout, builder->model, step->use, builder->input->B, builder->input->T);
    builder_begin(builder, op_of_use[step->use], step->micro_step, step->unit);
    builder_depend(builder, serial(planner, planner->last_comm), WAIT_LIMIT);
    int activation = planner->activation[place] =
        builder_bytes(builder, names[step->use], CATEGORY_ACTIVATIONS, layout.bytes);
    builder_take(builder, ROLE_ACTIVATION, activation);
    take_scratch(planner, step->use);
    builder->op->buffer[ROLE_TOKENS] = planner->tokens;
    use_parameters(planner, at);
    if (place > 0) {
        builder->op->buffer[ROLE_INPUT] = planner->activation[place - 1];
        if (!planner->training) builder_give(builder, planner->activation[place - 1]); /* nobody comes back for it */
    }
    if (!planner->training && step->use == USE_HEAD_FORWARD) {
        builder_give(builder, activation);
        builder_give(builder, planner->tokens);
    }
    planner->last_compute = builder_end(builder);
}

/* The gradient of a unit is written whole: into its lasting place, or into a buffer that goes back when it was reduced. */
static void take_gradient(struct planner *planner, const struct walk_step *step)
{
    struct builder *builder = &planner->builder;
    const bool first = step->use != USE_EMBED_BACKWARD; /* the tied embedding got its buffer in head backward */
    if (planner->own_gradients && first) {
        int buffer = builder_unit_buffer(builder, "unreduced gradient", CATEGORY_BUCKETS, EXTENT_WHOLE,
                                         builder->model->dtype, step->unit, false);
        planner->unit_gradient[step->unit] = buffer;
        builder_take(builder, ROLE_GRADIENT, buffer);
    }
    builder->op->buffer[ROLE_GRADIENT] = planner->unit_gradient[step->unit];
    builder->op->accumulate = !planner->own_gradients && step->micro_step > 0;
}

static void write_backward(struct planner *planner, int at)
{
    struct builder *builder = &planner->builder;
    const struct walk_step *step = &planner->walk[at];
    const int place = chain_place(planner, step);
    builder_begin(builder, op_of_use[step->use], step->micro_step, step->unit);
    builder_depend(builder, serial(planner, planner->last_comm), WAIT_LIMIT);
    if (step->use == USE_HEAD_BACKWARD) {
        int64_t N = (int64_t)builder->input->B * builder->input->T;
        planner->residual = builder_bytes(builder, "residual gradient", CATEGORY_WORKSPACE,
                                          N * builder->model->shape.hidden * dtype_bytes(builder->model->dtype));
        builder_take(builder, ROLE_RESIDUAL, planner->residual);
    }
    builder->op->buffer[ROLE_RESIDUAL] = planner->residual;
    take_gradient(planner, step);
    take_scratch(planner, step->use);
    use_parameters(planner, at);
    if (step->use == USE_EMBED_BACKWARD) {
        builder->op->buffer[ROLE_TOKENS] = planner->tokens;
        builder_give(builder, planner->activation[0]);
        builder_give(builder, planner->residual);
        builder_give(builder, planner->tokens);
    } else {
        builder->op->buffer[ROLE_ACTIVATION] = planner->activation[place];
        builder->op->buffer[ROLE_INPUT] = planner->activation[place - 1];
        builder_give(builder, planner->activation[place]);
    }
    planner->last_compute = builder_end(builder);
}

static void write_use(struct planner *planner, int at)
{
    const struct walk_step *step = &planner->walk[at];
    const bool overlap = planner->builder.schedule->knobs.overlap_comm;
    if (step->use == USE_EMBED_FORWARD) write_load(planner, step->micro_step);
    int newest = gatherer_before(&planner->gatherer, at, serial(planner, planner->last_compute));
    if (newest >= 0) planner->last_comm = newest;
    if (step->use < USE_HEAD_BACKWARD) write_forward(planner, at);
    else write_backward(planner, at);
    if (overlap) buckets_write(&planner->buckets); /* flushes of the use before: in flight while this one runs */

    const int micro_step = step->micro_step, unit = step->unit;
    bool reduced = planner->reduce_every_time || micro_step == planner->builder.schedule->micro_steps - 1;
    bool complete =
        step->use == USE_NORM_BACKWARD || step->use == USE_BLOCK_BACKWARD || step->use == USE_EMBED_BACKWARD;
    if (complete && reduced) {
        int source = planner->unit_gradient[unit], destination = planner->builder.layout[unit].gradient;
        buckets_add_unit(&planner->buckets, micro_step, unit, source, destination, planner->last_compute);
        if (step->use == USE_EMBED_BACKWARD) buckets_close(&planner->buckets);
    }
    if (!overlap) buckets_write(&planner->buckets);
    if (planner->buckets.last_op > planner->last_comm) planner->last_comm = planner->buckets.last_op;
}

/* ---- the tail: norm, agreement, update, refresh ---- */

/* Stages 1 and 2: updated parameters are gathered in pieces of allgather_bucket_size elements, cut anywhere. */
static void write_refresh_bucket(struct planner *planner, int *unit, int64_t *at, int updated_unit, int update_op)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    int64_t room = schedule->knobs.allgather_bucket_elems;
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    while (*unit <= updated_unit && room > 0) {
        int64_t padded = shard_elems(builder->model->units[*unit].elems, schedule->ranks) * schedule->ranks;
        int64_t elems = padded - *at < room ? padded - *at : room;
        builder_piece(builder, *unit, *at, elems, builder->layout[*unit].parameters, builder->layout[*unit].parameters);
        room -= elems;
        *at += elems;
        if (*at == padded) ++*unit, *at = 0;
    }
    builder_depend(builder, update_op, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

static void write_updates(struct planner *planner, bool refresh)
{
    struct builder *builder = &planner->builder;
    const struct model *model = builder->model;
    int64_t waiting = 0, at = 0; /* updated elements that no refresh has taken yet; place in the first of them */
    int unit = 0;
    for (int u = 0; u < model->unit_count && !builder->failed; u++) {
        const struct unit_layout *layout = &builder->layout[u];
        struct op *op = builder_begin(builder, OP_UPDATE, -1, u);
        op->in_tail = true;
        op->buffer[ROLE_PARAMETERS] = layout->parameters;
        op->buffer[ROLE_GRADIENT] = layout->gradient;
        op->buffer[ROLE_MASTER] = layout->master;
        op->buffer[ROLE_STATE1] = layout->state[0];
        op->buffer[ROLE_STATE2] = layout->state[1];
        op->extent = builder->schedule->stage >= 1 ? EXTENT_SHARD : EXTENT_WHOLE;
        builder_depend(builder, u == 0 || !builder->schedule->knobs.overlap_comm ? planner->last_comm : -1, WAIT_DATA);
        planner->last_compute = builder_end(builder);
        if (!refresh) continue;
        waiting += shard_elems(model->units[u].elems, builder->schedule->ranks) * builder->schedule->ranks;
        while (waiting >= builder->schedule->knobs.allgather_bucket_elems ||
               (waiting > 0 && u == model->unit_count - 1)) {
            int64_t bucket = builder->schedule->knobs.allgather_bucket_elems;
            write_refresh_bucket(planner, &unit, &at, u, planner->last_compute);
            waiting -= waiting < bucket ? waiting : bucket;
        }
    }
}

/* Stage 3: the small tensors that stay gathered, in one call. */
static void write_tail_refresh(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const struct schedule *schedule = builder->schedule;
    bool any = false;
    for (int u = 0; u < builder->model->unit_count; u++) any |= builder->layout[u].tail >= 0;
    if (!any) return;
    builder_begin(builder, OP_REFRESH, -1, -1)->in_tail = true;
    for (int u = 0; u < builder->model->unit_count && !builder->failed; u++) {
        if (builder->layout[u].tail < 0) continue;
        int64_t first, end;
        buffer_range(schedule, builder->model, &schedule->buffers[builder->layout[u].tail], 0, &first, &end);
        builder_piece(builder, u, first, end - first, builder->layout[u].parameters, builder->layout[u].tail);
    }
    builder_depend(builder, planner->last_compute, WAIT_DATA);
    planner->last_comm = builder_end(builder);
}

static void write_tail(struct planner *planner)
{
    struct builder *builder = &planner->builder;
    const int stage = builder->schedule->stage;
    builder_begin(builder, OP_GRAD_NORM, -1, -1);
    builder_depend(builder, planner->last_comm, WAIT_DATA);
    planner->last_compute = builder_end(builder);
    builder_begin(builder, OP_AGREE, -1, -1);
    builder_depend(builder, planner->last_compute, WAIT_DATA);
    planner->last_comm = builder_end(builder);
    write_updates(planner, stage == 1 || stage == 2);
    if (stage == 3) write_tail_refresh(planner);
}

/* Losses (or the fact that a rank could not go on) are exchanged at the end of every step of any purpose. */
static void write_agreement(struct planner *planner)
{
    builder_begin(&planner->builder, OP_AGREE, -1, -1);
    builder_depend(&planner->builder, planner->last_compute, WAIT_DATA);
    planner->last_comm = builder_end(&planner->builder);
}

/* ---- all together ---- */

static int planner_init(struct planner *planner, struct schedule *schedule, const struct schedule_input *input)
{
    const struct model *model = input->model;
    const int stage = schedule->stage, units = model->unit_count;
    *planner = (struct planner){
        .builder = {.schedule = schedule, .input = input, .model = model}, .last_comm = -1, .last_compute = -1};
    planner->training = input->purpose == PURPOSE_TRAIN;
    planner->own_gradients = stage >= 2;
    planner->reduce_every_time = stage >= 2;
    planner->builder.layout = calloc((size_t)units, sizeof *planner->builder.layout);
    planner->walk = calloc((size_t)(2 * units + 4) * (size_t)schedule->micro_steps, sizeof *planner->walk);
    planner->activation = calloc((size_t)units + 1, sizeof *planner->activation);
    planner->unit_gradient = calloc((size_t)units, sizeof *planner->unit_gradient);
    if (!planner->builder.layout || !planner->walk || !planner->activation || !planner->unit_gradient)
        planner->builder.failed = true;
    if (planner->builder.failed) return STATUS_RUN;
    for (int m = 0; m < schedule->micro_steps; m++) walk_micro_step(planner, m);
    buckets_init(&planner->buckets, &planner->builder, stage == 0 ? OP_ALL_REDUCE : OP_REDUCE_SCATTER);
    layout_build(&planner->builder);
    for (int u = 0; u < units; u++) planner->unit_gradient[u] = planner->builder.layout[u].gradient;
    return gatherer_init(&planner->gatherer, &planner->builder, planner->walk, planner->walk_length, stage == 3);
}

int schedule_build(struct schedule *schedule, const struct schedule_input *input, struct error *err)
{
    struct planner planner;
    *schedule = (struct schedule){.purpose = input->purpose,
                                  .stage = input->knobs->stage,
                                  .ranks = input->ranks,
                                  .B = input->B,
                                  .T = input->T,
                                  .micro_steps = input->purpose == PURPOSE_TRAIN ? input->micro_steps : 1,
                                  .knobs = *input->knobs};
    if (planner_init(&planner, schedule, input) == STATUS_OK) {
        for (int at = 0; at < planner.walk_length && !planner.builder.failed; at++) write_use(&planner, at);
        buckets_write(&planner.buckets);
        if (planner.buckets.last_op > planner.last_comm) planner.last_comm = planner.buckets.last_op;
        if (planner.training) write_tail(&planner);
        else write_agreement(&planner);
    }
    gatherer_release(&planner.gatherer);
    buckets_release(&planner.buckets);
    free(planner.walk);
    free(planner.activation);
    free(planner.unit_gradient);
    return builder_finish(&planner.builder, err);
}
