/* ZeRO's knobs, recomputation, and what is moved and held under them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/advise/effect_parts.h"
#include "engine/base/grouped.h"
#include "engine/plan/flops.h"

typedef const struct effect_text *out_t;
typedef const struct effect_run *run_t;

/* ---- what the schedule says ---- */

static bool is_reduction(const struct op *op)
{
    return op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE;
}

static int reductions(run_t run)
{
    return effect_ops(run, OP_REDUCE_SCATTER) + effect_ops(run, OP_ALL_REDUCE);
}

/* Micro-steps at whose end gradients are reduced. */
static int reducing_micro_steps(run_t run)
{
    const struct schedule *schedule = &run->setup->schedule;
    int count = 0, last = -1;
    for (int i = 0; i < schedule->op_count; i++)
        if (is_reduction(&schedule->ops[i]) && schedule->ops[i].micro_step != last)
            last = schedule->ops[i].micro_step, count++;
    return count;
}

static int64_t op_elems(const struct schedule *schedule, const struct op *op)
{
    int64_t elems = 0;
    for (int p = 0; p < op->piece_count; p++) elems += schedule->pieces[op->first_piece + p].elems;
    return elems;
}

static int64_t largest_elems(run_t run, bool (*is_meant)(const struct op *op))
{
    const struct schedule *schedule = &run->setup->schedule;
    int64_t largest = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        int64_t elems = is_meant(&schedule->ops[i]) ? op_elems(schedule, &schedule->ops[i]) : 0;
        if (elems > largest) largest = elems;
    }
    return largest;
}

static int updates(run_t run)
{
    return effect_ops(run, OP_UPDATE) + effect_ops(run, OP_HOST_UPDATE);
}

static bool is_refresh(const struct op *op)
{
    return op->kind == OP_REFRESH;
}

/* Elements of small tensors that stay gathered at stage 3. */
static int64_t persistent_elems(run_t run)
{
    const struct model *model = &run->setup->model;
    int64_t elems = 0;
    for (int u = 0; u < model->unit_count; u++)
        elems += model->units[u].elems - persistent_from(model, &run->config->zero, u);
    return elems;
}

/* True, and said, where parameters are not sharded and so nothing is gathered for use. */
static bool never_gathers(out_t out, run_t run)
{
    if (run->config->zero.stage == 3) return false;
    effect_say(out, "nothing to act on: parameters are gathered for use at stage 3 only, and this is stage %d",
               run->config->zero.stage);
    return true;
}

/* The same where every unit stays gathered. */
static bool gathers_none(out_t out, run_t run)
{
    if (never_gathers(out, run)) return true;
    if (run->step.gathers > 0) return false;
    effect_say(out, "nothing to act on: all units stay gathered from step to step");
    return true;
}

/* ---- zero_optimization ---- */

static void stage(out_t out, run_t run)
{
    static const char *const sharded[] = {"nothing is sharded", "optimizer states are sharded",
                                          "optimizer states and gradients are sharded",
                                          "optimizer states, gradients and parameters are sharded"};
    char bytes[32];
    int64_t states = effect_resting_bytes(run, CATEGORY_PARAMETERS) + effect_resting_bytes(run, CATEGORY_GRADIENTS) +
                     effect_resting_bytes(run, CATEGORY_OPTIMIZER);
    effect_say(out, "%s over %d rank%s: P, G and O are %s bytes a rank between steps", sharded[run->config->zero.stage],
               run->config->topology.ranks, plural(run->config->topology.ranks), grouped(bytes, states));
}

static void reduce_bucket_size(out_t out, run_t run)
{
    char elems[32];
    int count = reductions(run);
    effect_say(out, "%d reduction%s a step, of at most %s elements", count, plural(count),
               grouped(elems, largest_elems(run, is_reduction)));
}

static void allgather_bucket_size(out_t out, run_t run)
{
    char elems[32];
    int count = effect_ops(run, OP_REFRESH), stage_now = run->config->zero.stage;
    if (stage_now == 0) effect_say(out, "nothing to act on: stage 0 updates every parameter on every rank");
    else if (stage_now == 3) effect_say(out, "nothing to act on: stage 3 gathers units where they are used");
    else
        effect_say(out, "%d gather%s after the update, of at most %s elements", count, plural(count),
                   grouped(elems, largest_elems(run, is_refresh)));
}

static void overlap_comm(out_t out, run_t run)
{
    effect_say(out, run->config->zero.overlap_comm ? "a full bucket is reduced while the next unit's backward runs"
                                                   : "backward waits for each reduction before it goes on");
}

static void prefetch(out_t out, run_t run)
{
    if (!gathers_none(out, run))
        effect_say(out, "%d of %d gathers of a step are issued ahead of their use", run->step.ahead, run->step.gathers);
}

static void max_live(out_t out, run_t run)
{
    char elems[32];
    if (!gathers_none(out, run))
        effect_say(out, "at most %s elements are gathered at one time",
                   grouped(elems, effect_peak_bytes(run, CATEGORY_GATHERED) / dtype_bytes(run->setup->model.dtype)));
}

static void gathers(out_t out, run_t run)
{
    if (!gathers_none(out, run))
        effect_say(out, "%d gathers of %d units a step", run->step.gathers, run->setup->model.unit_count);
}

static void persistence(out_t out, run_t run)
{
    char kept[32], all[32];
    if (!never_gathers(out, run))
        effect_say(out, "%s of %s elements stay gathered from step to step", grouped(kept, persistent_elems(run)),
                   grouped(all, run->setup->model.elems));
}

static void sub_group_size(out_t out, run_t run)
{
    if (run->config->zero.stage < 3)
        effect_say(out, "nothing to act on: stage %d updates what a rank owns of a unit at once",
                   run->config->zero.stage);
    else effect_say(out, "%d updates over %d units a step", updates(run), run->setup->model.unit_count);
}

static void prescale_gradients(out_t out, run_t run)
{
    int ranks = run->config->topology.ranks;
    effect_say(out,
               run->config->zero.prescale_gradients ? "each rank's part is divided by %d before the sum"
                                                    : "the sum over ranks is divided by %d",
               ranks);
}

static void gradient_predivide_factor(out_t out, run_t run)
{
    double factor = (double)run->config->zero.gradient_predivide_factor;
    if (run->config->zero.prescale_gradients)
        effect_say(out, "nothing to act on: prescale_gradients divides by all of it before the sum");
    else if (factor == 1) effect_say(out, "nothing is divided before the sum");
    else
        effect_say(out, "divided by %g before the sum, times %g/%d after it", factor, factor,
                   run->config->topology.ranks);
}

static void no_sync(out_t out, run_t run)
{
    int micro_steps = run->config->accumulation_steps, times = reducing_micro_steps(run);
    if (micro_steps == 1) effect_say(out, "nothing to act on: a step is one micro-step");
    else effect_say(out, "gradients are reduced after %d of %d micro-steps", times, micro_steps);
}

/* ---- offload ---- */

/* At rest, in tiers other than the device. */
static int64_t away_bytes(run_t run, enum category category)
{
    return effect_resting_bytes(run, category) - run->setup->footprint.category[TIER_DEVICE][category].resting_bytes;
}

static void offload_optimizer(out_t out, run_t run)
{
    char bytes[32];
    int64_t away = away_bytes(run, CATEGORY_OPTIMIZER) + away_bytes(run, CATEGORY_GRADIENTS);
    if (away == 0) effect_say(out, "the update runs on the device");
    else effect_say(out, "%s bytes of O and G lie off the device, and are updated there", grouped(bytes, away));
}

static void offload_param(out_t out, run_t run)
{
    char bytes[32];
    int64_t away = away_bytes(run, CATEGORY_PARAMETERS);
    if (away == 0) effect_say(out, "parameters stay on the device");
    else
        effect_say(out, "%s bytes of P lie off the device, and come up before they are gathered", grouped(bytes, away));
}

/* True, and said, where nothing of the update is offloaded. */
static bool updates_on_device(out_t out, run_t run)
{
    if (run->config->zero.offload_optimizer) return false;
    effect_say(out, "nothing to act on: the update runs on the device");
    return true;
}

static void offload_ratio(out_t out, run_t run)
{
    char some[32], all[32];
    if (!updates_on_device(out, run))
        effect_say(out, "%s of %s bytes of O lie off the device", grouped(some, away_bytes(run, CATEGORY_OPTIMIZER)),
                   grouped(all, effect_resting_bytes(run, CATEGORY_OPTIMIZER)));
}

/* Of keys that only the disk looks at; what they do there says their help. */
static void nvme_detail(out_t out, run_t run)
{
    const struct config_zero *zero = &run->config->zero;
    if (zero->offload_optimizer != OFFLOAD_NVME && zero->offload_param != OFFLOAD_NVME)
        effect_say(out, "nothing to act on: nothing is offloaded to NVMe");
}

static void delayed_update(out_t out, run_t run)
{
    if (!updates_on_device(out, run))
        effect_say(out,
                   run->config->zero.delayed_update ? "the host updates while the next step computes, from step %lld on"
                                                    : "each step waits for its own update",
                   (long long)run->config->zero.delayed_update_after + 1);
}

static void delayed_update_after(out_t out, run_t run)
{
    if (updates_on_device(out, run)) return;
    if (run->config->zero.delayed_update) delayed_update(out, run);
    else effect_say(out, "nothing to act on: schedule.delayed_update is off");
}

static void update_tile(out_t out, run_t run)
{
    if (!updates_on_device(out, run))
        effect_say(out, "%d updates over %d units a step", updates(run), run->setup->model.unit_count);
}

/* ---- recomputation ---- */

static void recompute(out_t out, run_t run)
{
    char bytes[32];
    struct flops flops;
    flops_of(&flops, &run->setup->schedule, &run->setup->model);
    grouped(bytes, effect_peak_bytes(run, CATEGORY_ACTIVATIONS));
    if (run->config->zero.recompute == RECOMPUTE_NONE)
        effect_say(out, "nothing is made again; A is %s bytes at its fullest", bytes);
    else
        effect_say(out, "%.0f %% of forward's products are made again; A is %s bytes at its fullest",
                   100.0 * flops.recomputed / flops.forward, bytes);
}

/* True, and said, where no inputs are kept in place of activations. */
static bool never_checkpoints(out_t out, run_t run)
{
    if (run->config->zero.recompute == RECOMPUTE_FULL) return false;
    effect_say(out, "nothing to act on: model.recompute is not full");
    return true;
}

static void checkpoint_every(out_t out, run_t run)
{
    int every = run->config->zero.checkpoint_every, layers = run->config->model.layers;
    if (!never_checkpoints(out, run))
        effect_say(out, "the inputs of %d of %d blocks are kept", (layers + every - 1) / every, layers);
}

static void cpu_checkpointing(out_t out, run_t run)
{
    char bytes[32];
    if (never_checkpoints(out, run)) return;
    if (run->config->zero.cpu_checkpointing)
        effect_say(out, "%d copies to the host tier a step, %s bytes, and as many back", effect_ops(run, OP_OFFLOAD),
                   grouped(bytes, run->traffic[TRAFFIC_D2H].sent_bytes));
    else effect_say(out, "kept inputs wait on the device");
}

static void number_checkpoints(out_t out, run_t run)
{
    if (run->config->number_checkpoints == 0) effect_say(out, "0: model.recompute and model.checkpoint_every decide");
    else checkpoint_every(out, run);
}

/* ---- accumulation ---- */

static void accumulation(out_t out, run_t run)
{
    int micro_steps = run->config->accumulation_steps, times = reducing_micro_steps(run);
    if (micro_steps == 1) effect_say(out, "a step is one micro-step");
    else
        effect_say(out, "gradients of %d micro-steps are added before an update, and reduced %s", micro_steps,
                   times == micro_steps ? "after each of them" : "once");
}

static void wire_type(out_t out, run_t run)
{
    char bytes[32];
    int64_t sent = run->traffic[TRAFFIC_REDUCE_SCATTER].sent_bytes + run->traffic[TRAFFIC_ALL_REDUCE].sent_bytes;
    effect_say(out, "gradients travel in %s: a rank sends %s bytes of them in a step",
               dtype_name(run->setup->model.wire), grouped(bytes, sent));
}

#define ZERO "zero_optimization."
const struct effect_row effect_zero_rows[] = {
    {ZERO "stage", stage},
    {ZERO "reduce_bucket_size", reduce_bucket_size},
    {ZERO "allgather_bucket_size", allgather_bucket_size},
    {ZERO "overlap_comm", overlap_comm},
    {ZERO "stage3_prefetch_bucket_size", prefetch},
    {ZERO "stage3_max_live_parameters", max_live},
    {ZERO "stage3_max_reuse_distance", gathers},
    {ZERO "stage3_param_persistence_threshold", persistence},
    {ZERO "stage3_model_persistence_threshold", persistence},
    {ZERO "sub_group_size", sub_group_size},
    {ZERO "offload_optimizer.device", offload_optimizer},
    {ZERO "offload_param.device", offload_param},
    {ZERO "offload_optimizer.ratio", offload_ratio},
    {ZERO "offload_optimizer.nvme_path", nvme_detail},
    {ZERO "offload_optimizer.pipeline_read", nvme_detail},
    {ZERO "offload_optimizer.pipeline_write", nvme_detail},
    {ZERO "offload_param.nvme_path", nvme_detail},
    {ZERO "offload_param.buffer_count", nvme_detail},
    {ZERO "offload_param.buffer_size", nvme_detail},
    {ZERO "offload_param.max_in_cpu", nvme_detail},
    {"aio.block_size", nvme_detail},
    {"aio.queue_depth", nvme_detail},
    {"aio.intra_op_parallelism", nvme_detail},
    {"aio.single_submit", nvme_detail},
    {"aio.overlap_events", nvme_detail},
    {"schedule.update_tile", update_tile},
    {"schedule.delayed_update", delayed_update},
    {"schedule.delayed_update_after", delayed_update_after},
    {"prescale_gradients", prescale_gradients},
    {"gradient_predivide_factor", gradient_predivide_factor},
    {"gradient_accumulation_steps", accumulation},
    {"communication_data_type", wire_type},
    {"schedule.keep_last_units", gathers},
    {"schedule.no_sync", no_sync},
    {"model.recompute", recompute},
    {"model.checkpoint_every", checkpoint_every},
    {"activation_checkpointing.cpu_checkpointing", cpu_checkpointing},
    {"activation_checkpointing.number_checkpoints", number_checkpoints},
    {0},
};
