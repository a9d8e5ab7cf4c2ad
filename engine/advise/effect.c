/* The sentences of knobs.def, and what they share: counts and sizes of a plan, and sentences that several keys share. A guard, such as
 * gathers_none(), says why a key has nothing to act on, and then returns true. */
#include "engine/advise/binding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/words.h"
#include "engine/plan/footprint.h"

struct effect_text {
    char *text;
    size_t room;
    char number[4][32]; /* of figures within one sentence */
    int numbers;
};

typedef struct effect_text *out_t;
typedef const struct effect_run *run_t;

__attribute__((format(printf, 2, 3))) static void say(out_t out, const char *format, ...)
{
    FORMAT_ARGUMENTS(out->text, out->room, format);
}

static const char *figure(out_t out, int64_t value)
{
    return grouped(out->number[out->numbers++ % 4], value);
}

#define SAY(...)      say(out, __VA_ARGS__)
#define FIGURE(value) figure(out, value)
#define IDLE          "nothing to act on: "

/* ---- sizes ---- */

/* Bytes of a category over all tiers: at rest, and at its fullest. */
static int64_t resting_bytes(run_t run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].resting_bytes;
    return bytes;
}

static int64_t peak_bytes(run_t run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].peak_bytes;
    return bytes;
}

/* At rest, in tiers other than the device. */
static int64_t away_bytes(run_t run, enum category category)
{
    return resting_bytes(run, category) - run->setup->footprint.category[TIER_DEVICE][category].resting_bytes;
}

/* ---- operations ---- */

static int ops(run_t run, enum op_kind kind)
{
    int count = 0;
    for (int i = 0; i < run->setup->schedule.op_count; i++) count += run->setup->schedule.ops[i].kind == kind;
    return count;
}

static int updates(run_t run)
{
    return ops(run, OP_UPDATE) + ops(run, OP_HOST_UPDATE);
}

static int reductions(run_t run)
{
    return ops(run, OP_REDUCE_SCATTER) + ops(run, OP_ALL_REDUCE);
}

static bool is_reduction(const struct op *op)
{
    return op->kind == OP_REDUCE_SCATTER || op->kind == OP_ALL_REDUCE;
}

/* Guard: gradients are not quantized, and why. */
static bool sends_gradients_whole(out_t out, run_t run)
{
    const struct config_zero *zero = &run->config->zero;
    if (schedule_quantizes_gradients(&run->setup->schedule)) return false;
    if (!zero->quantized_gradients) SAY(IDLE "zero_quantized_gradients is off");
    else if (zero->stage != 3) SAY(IDLE "below stage 3 gradients are not quantized");
    else SAY(IDLE "all ranks are on one node (topology.ranks_per_node)");
    return true;
}

static bool is_refresh(const struct op *op)
{
    return op->kind == OP_REFRESH;
}

static int gathers_within(run_t run)
{
    const struct schedule *schedule = &run->setup->schedule;
    int count = 0;
    for (int i = 0; i < schedule->op_count; i++) count += schedule->ops[i].group == GROUP_PARTITION;
    return count;
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

static int64_t largest_elems(run_t run, bool (*is_meant)(const struct op *op))
{
    const struct schedule *schedule = &run->setup->schedule;
    int64_t largest = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        int64_t elems = 0;
        for (int p = 0; is_meant(op) && p < op->piece_count; p++) elems += schedule->pieces[op->first_piece + p].elems;
        if (elems > largest) largest = elems;
    }
    return largest;
}

/* The largest of what arrives for a reduction. */
static int64_t most_arriving_bytes(run_t run)
{
    const struct schedule *schedule = &run->setup->schedule;
    int64_t most = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int room = op->lane == LANE_COMM ? op->buffer[ROLE_SCRATCH] : -1;
        if (room >= 0 && schedule->buffers[room].bytes > most) most = schedule->buffers[room].bytes;
    }
    return most;
}

/* ---- guards ---- */

/* Parameters are not sharded, or every unit stays gathered. */
static bool never_gathers(out_t out, run_t run)
{
    if (run->config->zero.stage == 3) return false;
    SAY(IDLE "parameters are gathered for use at stage 3 only, and this is stage %d", run->config->zero.stage);
    return true;
}

static bool gathers_none(out_t out, run_t run)
{
    if (never_gathers(out, run)) return true;
    if (run->step.gathers > 0) return false;
    SAY(IDLE "all units stay gathered from step to step");
    return true;
}

static bool updates_on_device(out_t out, run_t run)
{
    if (run->config->zero.offload_optimizer) return false;
    SAY(IDLE "the update runs on the device");
    return true;
}

static bool never_checkpoints(out_t out, run_t run)
{
    if (run->config->zero.recompute == RECOMPUTE_FULL) return false;
    SAY(IDLE "model.recompute is not full");
    return true;
}

static bool never_scales(out_t out, run_t run)
{
    if (run->config->fp16.loss_scale == 0) return false;
    SAY(IDLE "the loss scale is static");
    return true;
}

/* Of keys that only the disk, or only checkpoints, look at; what they do there says their help. */
static void nvme_only(out_t out, run_t run)
{
    const struct config_zero *zero = &run->config->zero;
    if (zero->offload_optimizer != OFFLOAD_NVME && zero->offload_param != OFFLOAD_NVME)
        SAY(IDLE "nothing is offloaded to NVMe");
}

static void checkpoints_only(out_t out, run_t run)
{
    if (!run->config->checkpoint.path[0]) SAY(IDLE "checkpoint.path is not given");
}

/* ---- sentences of several keys, and longer ones ---- */

static void precision(out_t out, run_t run, bool on)
{
    if (!on) SAY("off: the model is in %s", dtype_name(run->config->dtype));
    else
        SAY("2 bytes an element: P is %s bytes a rank; O, with fp32 master weights, %s",
            FIGURE(resting_bytes(run, CATEGORY_PARAMETERS)), FIGURE(resting_bytes(run, CATEGORY_OPTIMIZER)));
}

static void weight_decay(out_t out, run_t run)
{
    const struct model *model = &run->setup->model;
    const double decay = run->config->optimizer.weight_decay;
    int64_t elems = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int t = 0; t < model->units[u].tensor_count; t++)
            if (model->units[u].tensors[t].decay || run->config->optimizer.decay_on == DECAY_ON_ALL)
                elems += model->units[u].tensors[t].elems;
    if (decay == 0) SAY("weight_decay is 0: nothing decays");
    else
        SAY("%s of %s parameters decay by %g x the learning rate at each update", FIGURE(elems), FIGURE(model->elems),
            decay);
}

static void gathers(out_t out, run_t run)
{
    if (!gathers_none(out, run)) SAY("%d gathers of %d units a step", run->step.gathers, run->setup->model.unit_count);
}

static void persistence(out_t out, run_t run)
{
    const struct model *model = &run->setup->model;
    int64_t elems = 0; /* of small tensors */
    for (int u = 0; u < model->unit_count; u++)
        elems += model->units[u].elems - persistent_from(model, &run->config->zero, u);
    if (!never_gathers(out, run))
        SAY("%s of %s elements stay gathered from step to step", FIGURE(elems), FIGURE(model->elems));
}

static void delayed_update(out_t out, run_t run)
{
    if (updates_on_device(out, run)) return;
    if (!run->config->zero.delayed_update) SAY("each step waits for its own update");
    else
        SAY("the host updates while the next step computes, from step %lld on",
            (long long)run->config->zero.delayed_update_after + 1);
}

static void kept_inputs(out_t out, run_t run)
{
    const int every = run->config->zero.checkpoint_every, layers = run->config->model.layers;
    if (!never_checkpoints(out, run))
        SAY("the inputs of %d of %d blocks are kept", (layers + every - 1) / every, layers);
}

static void budget(out_t out, run_t run, enum tier tier)
{
    SAY("a rank's plan needs %s bytes of the %s tier at its fullest", FIGURE(run->setup->footprint.peak_bytes[tier]),
        tier_name(tier));
}

/* Both ways between two tiers; each way has a lane of its own. */
static void tier_link(out_t out, run_t run, enum link link, enum traffic first, const char *there, const char *back)
{
    const struct traffic_sum *sum = &run->traffic[first];
    const struct config_link *pace = &run->config->topology.links[link];
    if (sum[0].count + sum[1].count == 0 || pace->bandwidth_bytes_per_s + pace->latency_s == 0) return;
    SAY("in a step a rank %s %s bytes in %d transfers, %.3g ms at this pace, and %s %s in %d, %.3g ms", there,
        FIGURE(sum[0].sent_bytes), sum[0].count, 1e3 * traffic_seconds(&sum[0], pace), back, FIGURE(sum[1].sent_bytes),
        sum[1].count, 1e3 * traffic_seconds(&sum[1], pace));
}

/* ---- the table ---- */

/* The statement of the key's row, if it has one. */
static void say_row(out_t out, run_t run, const char *key)
{
    const struct config *config = run->config;
    const struct config_zero *zero = &config->zero;
    const struct model *model = &run->setup->model;
    const int ranks = config->topology.ranks;
#define KNOB(path, neutral, ...)                                                                                       \
    if (!strcmp(key, path)) {                                                                                          \
        __VA_ARGS__;                                                                                                   \
        return;                                                                                                        \
    }
#include "engine/advise/knobs.def"
}

/* ---- a key's sentence ---- */

struct effect_run effect_run_of(const struct config *config, const struct setup *setup)
{
    struct effect_run run = {.config = config, .setup = setup, .step = step_counts_of(setup)};
    traffic_of(run.traffic, &setup->schedule, &setup->model, 0, setup->schedule.node_ranks);
    run.sent_bytes = traffic_between_ranks(run.traffic).sent_bytes;
    return run;
}

/* True, and said, where the key's section has an `enabled` that is false. */
static bool is_switched_off(out_t out, run_t run, const char *path)
{
    char enabled[CONFIG_PATH_MAX + 16];
    const char *dot = strrchr(path, '.');
    if (!dot) return false;
    snprintf(enabled, sizeof enabled, "%.*s.enabled", (int)(dot - path), path);
    int row = key_index(enabled);
    if (row < 0 || config_keys[row].class != CLASS_HONOURED || !strcmp(enabled, path)) return false;
    if (!key_is_zero(&config_keys[row], run->config)) return false;
    SAY(IDLE "%.*s is off", (int)(dot - path), path);
    return true;
}

void effect_of(char *text, size_t room, const struct config_key *key, const struct effect_run *run)
{
    struct effect_text out = {.text = text, .room = room};
    *text = '\0';
    if (!binding_in_force(run->config, key->path)) return; /* the verdict says it */
    if (!is_switched_off(&out, run, key->path)) say_row(&out, run, key->path);
}
