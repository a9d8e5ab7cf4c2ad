/* One step, from the first token to the last refreshed parameter. Read schedule_build() first, then follow one use of a
 * unit through write_walk_step(). What a stage of ZeRO does differently comes from stage_rules.h, most of it in planner_init(). */
#include "engine/plan/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/planner.h"
#include "engine/plan/stage_rules.h"

/* A unit's gradient, once its last use in this micro-step has added to it, goes into buckets if it is reduced now. */
static void write_reduction(struct planner *planner, const struct walk_step *step)
{
    const bool reduced =
        planner->gradients.every_time || step->micro_step == planner->builder.schedule->micro_steps - 1;
    if (!walk_completes_gradient(step)) return;
    gradient_convert(planner, step, reduced);
    if (!reduced) return;
    buckets_add_unit(&planner->buckets, step->micro_step, step->unit, planner->gradients.of_unit[step->unit],
                     reduction_into(planner, step->unit), planner->last_compute);
    if (step->place == 0) buckets_close(&planner->buckets);
}

static void write_walk_step(struct planner *planner, int at)
{
    const struct walk_step *step = &planner->walk.steps[at];
    const bool overlap = planner->builder.schedule->knobs.overlap_comm;
    if (step->kind == OP_FORWARD && step->place == 0) use_load(planner, step->micro_step);
    int newest = gatherer_before(&planner->gatherer, at, planner_serial(planner, planner->last_compute));
    if (newest >= 0) planner->last_comm = newest;
    activations_fetch(planner, step);
    updates_pending(planner, at);
    newest = gatherer_unpack(&planner->gatherer, at);
    if (newest >= 0) planner->last_compute = newest;
    use_write(planner, at);
    activations_offload(planner, step);
    gradients_leave(planner, planner->offload.reduced); /* one use later: the copy overlaps the next unit's compute */
    if (overlap) buckets_write(&planner->buckets, -1); /* flushes of the use before: in flight while this one runs */
    write_reduction(planner, step);
    if (!overlap) buckets_write(&planner->buckets, planner->last_compute);
    planner->offload.reduced = planner->builder.schedule->op_count;
    if (planner->buckets.last_op > planner->last_comm) planner->last_comm = planner->buckets.last_op;
}

/* The arrays by unit or by place stand in one piece of memory, at planner->activations.output. */
static bool planner_alloc(struct planner *planner, int units)
{
    int **const arrays[] = {&planner->activations.output,    &planner->activations.last_use,
                            &planner->activations.moved,     &planner->gradients.of_unit,
                            &planner->gradients.accumulator, &planner->updates.pending_last};
    const size_t count = sizeof arrays / sizeof *arrays, each = (size_t)units + 1;
    int *all = calloc((count + SAVED_MAX) * each, sizeof *all);
    planner->builder.layout = calloc((size_t)units, sizeof *planner->builder.layout);
    if (!all || !planner->builder.layout) return free(all), false;
    for (size_t a = 0; a < count; a++) *arrays[a] = all + a * each;
    for (size_t s = 0; s < SAVED_MAX; s++) planner->activations.saved[s] = all + (count + s) * each;
    return true;
}

/* The layout stays: it is the schedule's. */
static void planner_release(struct planner *planner)
{
    free(planner->gatherer.of);
    buckets_release(&planner->buckets);
    free(planner->walk.steps);
    free(planner->activations.output);
    free(planner->offload.arrivals);
}

static int planner_init(struct planner *planner, struct schedule *schedule, const struct schedule_input *input)
{
    const struct model *model = input->model;
    const struct stage_rules *rules = stage_rules(schedule->stage);
    const int units = model->unit_count;
    *planner = (struct planner){.builder = {.schedule = schedule, .input = input, .model = model},
                                .last_comm = -1,
                                .last_compute = -1,
                                .to_keep = -1,
                                .host_norm = -1,
                                .offload.last_copy = -1,
                                .updates = {.pending_written = -1, .travel_from = -1}};
    for (int lane = 0; lane < LANES; lane++) planner->updates.in_place[lane] = -1;
    planner->training = input->purpose == PURPOSE_TRAIN;
    planner->updates.delayed = planner->training && schedule->knobs.delayed_update;
    planner->gradients.cast = model->gradient != model->dtype;
    planner->gradients.own = rules->gradients == EXTENT_SHARD || planner->gradients.cast;
    planner->gradients.every_time = stage_reduces_each(rules, &schedule->knobs);
    planner->builder.too_long = (int64_t)units * schedule->micro_steps > SCHEDULE_OPS_MAX; /* each is used */
    planner->builder.failed = planner->builder.too_long || !planner_alloc(planner, units) ||
                              !walk_init(&planner->walk, model, input->knobs, planner->training, schedule->micro_steps);
    schedule->layout = planner->builder.layout;
    if (planner->builder.failed) return STATUS_RUN;
    buckets_init(&planner->buckets, &planner->builder, stage_reduction(rules, schedule), planner->gradients.every_time);
    layout_build(&planner->builder);
    for (int u = 0; u < units; u++) {
        planner->gradients.of_unit[u] = planner->builder.layout[u].whole;
        planner->updates.pending_last[u] = -1;
    }
    return gatherer_init(&planner->gatherer, &planner->builder, &planner->walk, stage_gathers(rules));
}

struct schedule_input schedule_input_of(const struct config *config, const struct model *model, enum purpose purpose)
{
    return (struct schedule_input){.model = model,
                                   .knobs = &config->zero,
                                   .purpose = purpose,
                                   .ranks = config->topology.ranks,
                                   .node_ranks = config->topology.ranks_per_node,
                                   .micro_steps = config->accumulation_steps,
                                   .B = purpose == PURPOSE_SAMPLE ? 1 : config->micro_batch_size,
                                   .T = config->data.sequence_length,
                                   .threads = config->topology.threads_per_rank};
}

/* A shard that comes from NVMe has to fit into the buffers it is read into. */
static int check_buffers(const struct schedule *schedule, const struct schedule_input *input, struct error *err)
{
    const struct config_zero *knobs = input->knobs;
    for (int u = 0; knobs->offload_param == OFFLOAD_NVME && u < input->model->unit_count; u++) {
        const int64_t fills = staging_buffers_of(schedule, input->model, u);
        if (fills > knobs->param_buffers)
            return error_set(
                err, STATUS_USAGE,
                "zero_optimization.offload_param: a rank's shard of %s has %lld elements and fills %lld buffers "
                "of buffer_size; raise buffer_count (%lld) or buffer_size (%lld)",
                input->model->units[u].name, (long long)schedule_shard_elems(schedule, input->model, u),
                (long long)fills, (long long)knobs->param_buffers, (long long)knobs->param_buffer_elems);
    }
    return STATUS_OK;
}

/* The hop across nodes needs ranks at the same place in each node of a shard group. */
static int check_hops(const struct schedule *schedule, struct error *err)
{
    const int shards = schedule_shard_ranks(schedule), node = schedule->node_ranks;
    if (!schedule->knobs.hierarchical || !node || shards % node == 0 || node % shards == 0) return STATUS_OK;
    return error_set(err, STATUS_USAGE,
                     "zero_optimization.mics_hierarchical_params_gather = true: shard groups of %d ranks are not whole "
                     "nodes of %d ranks; choose a mics_shard_size that is, or false",
                     shards, node);
}

int schedule_build(struct schedule *schedule, const struct schedule_input *input, struct error *err)
{
    struct planner planner;
    *schedule = (struct schedule){.purpose = input->purpose,
                                  .stage = input->knobs->stage,
                                  .ranks = input->ranks,
                                  .node_ranks = input->node_ranks < input->ranks ? input->node_ranks : 0,
                                  .B = input->B,
                                  .T = input->T,
                                  .micro_steps = input->purpose == PURPOSE_TRAIN ? input->micro_steps : 1,
                                  .knobs = *input->knobs,
                                  .nothing_pending = input->nothing_pending};
    if (check_hops(schedule, err) || check_buffers(schedule, input, err)) return STATUS_USAGE;
    if (planner_init(&planner, schedule, input) == STATUS_OK) {
        for (int at = 0; at < planner.walk.length && !planner.builder.failed; at++) write_walk_step(&planner, at);
        buckets_write(&planner.buckets, planner_serial(&planner, planner.last_compute));
        gradients_leave(&planner, schedule->op_count);
        gradients_arrive(&planner);
        if (planner.buckets.last_op > planner.last_comm) planner.last_comm = planner.buckets.last_op;
        step_end_write(&planner);
    }
    planner_release(&planner);
    return builder_finish(&planner.builder, err);
}

/* ---- comparing ---- */

static bool same_op(const struct op *a, const struct op *b)
{
    bool same = a->kind == b->kind && a->use == b->use && a->group == b->group && a->micro_step == b->micro_step && a->unit == b->unit &&
                a->bucket == b->bucket && a->accumulate == b->accumulate && a->flush == b->flush &&
                a->prefetch == b->prefetch && a->piece_count == b->piece_count && a->take_count == b->take_count &&
                a->give_count == b->give_count && a->dependency_count == b->dependency_count;
    for (int role = 0; same && role < ROLES; role++) same = a->buffer[role] == b->buffer[role];
    for (int d = 0; same && d < a->dependency_count; d++)
        same = a->dependency[d].op == b->dependency[d].op && a->dependency[d].why == b->dependency[d].why;
    return same;
}

static bool same_buffer(const struct buffer *a, const struct buffer *b)
{
    return a->tier == b->tier && a->category == b->category && a->extent == b->extent && a->dtype == b->dtype &&
           a->unit == b->unit && a->lasting == b->lasting && a->bytes == b->bytes;
}

static bool same_piece(const struct piece *a, const struct piece *b)
{
    return a->unit == b->unit && a->first == b->first && a->elems == b->elems && a->source == b->source &&
           a->destination == b->destination;
}

bool schedule_same(const struct schedule *a, const struct schedule *b)
{
    bool same = a->purpose == b->purpose && a->ranks == b->ranks && a->micro_steps == b->micro_steps && a->B == b->B &&
                a->T == b->T && a->buffer_count == b->buffer_count && a->op_count == b->op_count &&
                a->piece_count == b->piece_count && a->effect_count == b->effect_count;
    for (int i = 0; same && i < a->op_count; i++) same = same_op(&a->ops[i], &b->ops[i]);
    for (int i = 0; same && i < a->buffer_count; i++) same = same_buffer(&a->buffers[i], &b->buffers[i]);
    for (int i = 0; same && i < a->piece_count; i++) same = same_piece(&a->pieces[i], &b->pieces[i]);
    return same && memcmp(a->effects, b->effects, (size_t)a->effect_count * sizeof *a->effects) == 0;
}
