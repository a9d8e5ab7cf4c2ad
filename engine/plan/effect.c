#include "engine/plan/effect_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grouped.h"

typedef const struct effect_text *out_t;
typedef const struct effect_run *run_t;

void effect_say(const struct effect_text *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->text, out->room, format, args);
    va_end(args);
}

int64_t effect_resting_bytes(const struct effect_run *run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].resting_bytes;
    return bytes;
}

int64_t effect_peak_bytes(const struct effect_run *run, enum category category)
{
    int64_t bytes = 0;
    for (int tier = 0; tier < TIERS; tier++) bytes += run->setup->footprint.category[tier][category].peak_bytes;
    return bytes;
}

int effect_ops(const struct effect_run *run, enum op_kind kind)
{
    int count = 0;
    for (int i = 0; i < run->setup->schedule.op_count; i++) count += run->setup->schedule.ops[i].kind == kind;
    return count;
}

static const char *plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/* ---- batch and gradients ---- */

static void train_batch_size(out_t out, run_t run)
{
    const struct config *config = run->config;
    char tokens[32];
    effect_say(out, "%d sample%s x %d micro-step%s x %d rank%s = %d, which is %s tokens a step",
               config->micro_batch_size, plural(config->micro_batch_size), config->accumulation_steps,
               plural(config->accumulation_steps), config->topology.ranks, plural(config->topology.ranks),
               config->train_batch_size,
               grouped(tokens, (int64_t)config->train_batch_size * config->data.sequence_length));
}

static void micro_batch_size(out_t out, run_t run)
{
    char bytes[32];
    effect_say(out, "%d x %d rows a micro-step: A is %s bytes at its fullest", run->config->micro_batch_size,
               run->config->data.sequence_length, grouped(bytes, effect_peak_bytes(run, CATEGORY_ACTIVATIONS)));
}

static void gradient_clipping(out_t out, run_t run)
{
    double limit = (double)run->config->gradient_clipping;
    if (limit == 0) effect_say(out, "0: gradients are never scaled down");
    else effect_say(out, "gradients are scaled down where their norm over all ranks is more than %g", limit);
}

static void grad_accum_dtype(out_t out, run_t run)
{
    char bytes[32];
    effect_say(out, "gradients wait for the update in %s: G is %s bytes a rank", dtype_name(run->setup->model.gradient),
               grouped(bytes, effect_resting_bytes(run, CATEGORY_GRADIENTS)));
}

/* ---- precision ---- */

static void precision(out_t out, run_t run, bool on)
{
    char parameters[32], optimizer[32];
    if (!on) {
        effect_say(out, "off: the model is in %s", dtype_name(run->config->dtype));
        return;
    }
    effect_say(out, "2 bytes an element: P is %s bytes a rank; O, with fp32 master weights, %s",
               grouped(parameters, effect_resting_bytes(run, CATEGORY_PARAMETERS)),
               grouped(optimizer, effect_resting_bytes(run, CATEGORY_OPTIMIZER)));
}

static void bf16(out_t out, run_t run)
{
    precision(out, run, run->config->bf16);
}

static void fp16(out_t out, run_t run)
{
    precision(out, run, run->config->fp16.enabled);
}

static void check_grad_overflow(out_t out, run_t run)
{
    effect_say(out, "a step with inf or NaN in its gradients is %s",
               run->config->check_grad_overflow ? "skipped" : "taken");
}

/* True, and said, where the loss scale is not dynamic. */
static bool never_scales(out_t out, run_t run)
{
    if (run->config->fp16.loss_scale == 0) return false;
    effect_say(out, "nothing to act on: the loss scale is static");
    return true;
}

static void loss_scale(out_t out, run_t run)
{
    if (run->config->fp16.loss_scale != 0)
        effect_say(out, "every loss is multiplied by %g", run->config->fp16.loss_scale);
    else effect_say(out, "0: dynamic, from 2^%d on", run->config->fp16.initial_scale_power);
}

static void initial_scale_power(out_t out, run_t run)
{
    if (!never_scales(out, run))
        effect_say(out, "the first loss scale is %.0f", ldexp(1, run->config->fp16.initial_scale_power));
}

static void dynamic_only(out_t out, run_t run)
{
    never_scales(out, run);
}

/* ---- optimizer and scheduler ---- */

static void optimizer_type(out_t out, run_t run)
{
    const struct optimizer_info *info = &optimizer_table[run->config->optimizer.rule];
    char bytes[32];
    effect_say(out, "%s keeps %d fp32 state%s%s: O is %s bytes a rank", info->name, info->states, plural(info->states),
               run->config->dtype == DTYPE_F32 ? "" : " and fp32 master weights",
               grouped(bytes, effect_resting_bytes(run, CATEGORY_OPTIMIZER)));
}

static int64_t decaying_elems(run_t run)
{
    const struct model *model = &run->setup->model;
    int64_t elems = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int t = 0; t < model->units[u].tensor_count; t++)
            if (model->units[u].tensors[t].decay || run->config->optimizer.decay_on == DECAY_ON_ALL)
                elems += model->units[u].tensors[t].elems;
    return elems;
}

static void weight_decay(out_t out, run_t run)
{
    char some[32], all[32];
    if (run->config->optimizer.weight_decay == 0) effect_say(out, "weight_decay is 0: nothing decays");
    else
        effect_say(out, "%s of %s parameters decay by %g x the learning rate at each update",
                   grouped(some, decaying_elems(run)), grouped(all, run->setup->model.elems),
                   run->config->optimizer.weight_decay);
}

static void learning_rate(out_t out, run_t run)
{
    const struct config *config = run->config;
    if (config->scheduler.kind == SCHEDULER_NONE) effect_say(out, "the learning rate of every step");
    else if (config->scheduler.kind == SCHEDULER_WARMUP_COSINE)
        effect_say(out, "the top of WarmupCosineLR, which scales it");
    else if (config->scheduler.kind == SCHEDULER_WARMUP &&
             config->scheduler.warmup_max_lr == config->optimizer.learning_rate)
        effect_say(out, "where WarmupLR ends");
    else effect_say(out, "nothing to act on: %s sets the learning rate", config->scheduler.type);
}

static void scheduler_type(out_t out, run_t run)
{
    if (run->config->scheduler.kind == SCHEDULER_NONE)
        effect_say(out, "none: the learning rate is %g at every step", run->config->optimizer.learning_rate);
    else effect_say(out, "%s sets the learning rate of each step", run->config->scheduler.type);
}

/* ---- model and data ---- */

static void model_name(out_t out, run_t run)
{
    char elems[32];
    effect_say(out, "%s parameters in %d units", grouped(elems, run->setup->model.elems), run->setup->model.unit_count);
}

static void layers(out_t out, run_t run)
{
    char elems[32];
    const struct model *model = &run->setup->model;
    effect_say(out, "%d block%s of %s parameters", run->config->model.layers, plural(run->config->model.layers),
               grouped(elems, model_block_elems(model)));
}

static void mlp_tiles(out_t out, run_t run)
{
    char block[32], tile[32];
    const struct model *model = &run->setup->model;
    const int64_t elems = model->units[model_block(model, 0)].elems;
    if (!model_tiled(model)) effect_say(out, "a block is one unit of %s parameters", grouped(block, elems));
    else
        effect_say(out, "a block is a unit of %s parameters and %d of about %s", grouped(block, elems),
                   model->mlp_tiles, grouped(tile, model->units[model_mlp(model, 0, 1)].elems));
}

static void hidden(out_t out, run_t run)
{
    char bytes[32];
    int64_t rows = (int64_t)run->config->micro_batch_size * run->config->data.sequence_length;
    effect_say(out, "%s bytes pass from block to block",
               grouped(bytes, rows * run->config->model.hidden * dtype_bytes(run->config->dtype)));
}

static void heads(out_t out, run_t run)
{
    const struct config_model *model = &run->config->model;
    effect_say(out, "%d head%s of %d channels", model->heads, plural(model->heads), model->hidden / model->heads);
}

static void context(out_t out, run_t run)
{
    const struct config_model *model = &run->config->model;
    char elems[32];
    effect_say(out, "%s parameters for positions", grouped(elems, (int64_t)model->context * model->hidden));
}

static void vocabulary(out_t out, run_t run)
{
    const struct config_model *model = &run->config->model;
    char elems[32];
    effect_say(out, "%s parameters, which embedding and output layer share",
               grouped(elems, (int64_t)model->vocabulary * model->hidden));
}

static void data_path(out_t out, run_t run)
{
    if (run->config->data.synthetic) effect_say(out, "nothing to act on: data.synthetic makes tokens up");
    else if (!run->config->data.path[0]) effect_say(out, "the default text, a frozen part of this program");
}

static void synthetic(out_t out, run_t run)
{
    effect_say(out, run->config->data.synthetic ? "tokens are made up: there is nothing to learn" : "tokens are text");
}

static void sequence_length(out_t out, run_t run)
{
    effect_say(out, "%d of %d positions are used", run->config->data.sequence_length, run->config->model.context);
}

static void validation_fraction(out_t out, run_t run)
{
    effect_say(out, "the last %g %% of the text is held out", 100 * run->config->data.validation_fraction);
}

/* ---- memory and topology ---- */

static void budget(out_t out, run_t run, enum tier tier)
{
    char bytes[32];
    effect_say(out, "a rank's plan needs %s bytes of the %s tier at its fullest",
               grouped(bytes, run->setup->footprint.peak_bytes[tier]), tier_name(tier));
}

static void device_budget(out_t out, run_t run)
{
    budget(out, run, TIER_DEVICE);
}

static void host_budget(out_t out, run_t run)
{
    budget(out, run, TIER_HOST);
}

static void nvme_budget(out_t out, run_t run)
{
    budget(out, run, TIER_NVME);
}

static void ranks(out_t out, run_t run)
{
    char bytes[32];
    if (run->config->topology.ranks == 1) effect_say(out, "one rank owns everything and sends nothing");
    else effect_say(out, "each sends %s bytes in a step", grouped(bytes, run->sent_bytes));
}

static void ranks_per_node(out_t out, run_t run)
{
    int all = run->config->topology.ranks, each = run->config->topology.ranks_per_node;
    if (each == 0) effect_say(out, "0: as the machines are");
    else effect_say(out, "%d virtual node%s of %d rank%s", all / each, plural(all / each), each, plural(each));
}

static void gpus(out_t out, run_t run)
{
    const int given = run->config->topology.gpus, all = run->config->topology.ranks;
    if (run->config->topology.backend != BACKEND_CUDA) effect_say(out, "the processor computes, so none is used");
    else if (given == 0) effect_say(out, "0: one each where there are %d or more; one for all where there is one", all);
    else effect_say(out, given == 1 ? "GPU 0 is all ranks'" : "rank r has GPU r to itself");
}

/* The largest of what arrives for a reduction. */
static void collectives(out_t out, run_t run)
{
    const struct schedule *schedule = &run->setup->schedule;
    char text[32];
    int64_t most = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int room = op->lane == LANE_COMM ? op->buffer[ROLE_SCRATCH] : -1;
        if (room >= 0 && schedule->buffers[room].bytes > most) most = schedule->buffers[room].bytes;
    }
    if (run->config->topology.backend != BACKEND_CUDA) effect_say(out, "ranks read each other's memory");
    else if (most) effect_say(out, "what others send for a sum takes %s bytes of buckets at most", grouped(text, most));
    else effect_say(out, "sums take no buffer: sources are read where they are");
}

static void intra_bandwidth(out_t out, run_t run)
{
    double rate = run->config->topology.links[LINK_INTRA].bandwidth_bytes_per_s;
    int per_node = run->config->topology.ranks_per_node;
    bool one_node = per_node == 0 || per_node == run->config->topology.ranks;
    char bytes[32];
    if (rate > 0 && one_node)
        effect_say(out, "a rank's %s bytes of a step take at least %.3g ms", grouped(bytes, run->sent_bytes),
                   1e3 * (double)run->sent_bytes / rate);
}

/* Both ways between two tiers; each way has a lane of its own. */
static void tier_link(out_t out, run_t run, enum link link, enum traffic first, const char *const ways[2])
{
    const struct traffic_sum *there = &run->traffic[first], *back = &run->traffic[first + 1];
    const struct config_link *pace = &run->config->topology.links[link];
    char a[32], b[32];
    if (there->count + back->count == 0 || pace->bandwidth_bytes_per_s + pace->latency_s == 0) return;
    effect_say(out, "in a step a rank %s %s bytes in %d transfers, %.3g ms at this pace, and %s %s in %d, %.3g ms",
               ways[0], grouped(a, there->sent_bytes), there->count, 1e3 * traffic_seconds(there, pace), ways[1],
               grouped(b, back->sent_bytes), back->count, 1e3 * traffic_seconds(back, pace));
}

static void pcie_link(out_t out, run_t run)
{
    static const char *const ways[] = {"sends down", "brings up"};
    tier_link(out, run, LINK_PCIE, TRAFFIC_D2H, ways);
}

static void nvme_link(out_t out, run_t run)
{
    static const char *const ways[] = {"reads", "writes"};
    tier_link(out, run, LINK_NVME, TRAFFIC_NVME_READ, ways);
}

static void checkpoint_path(out_t out, run_t run)
{
    if (!run->config->checkpoint.path[0]) effect_say(out, "none: no checkpoints are written");
}

static void checkpoint_detail(out_t out, run_t run)
{
    if (!run->config->checkpoint.path[0]) effect_say(out, "nothing to act on: checkpoint.path is not given");
}

#define PARAMS "optimizer.params."
const struct effect_row effect_rows[] = {
    {"train_batch_size", train_batch_size},
    {"train_micro_batch_size_per_gpu", micro_batch_size},
    {"gradient_clipping", gradient_clipping},
    {"data_types.grad_accum_dtype", grad_accum_dtype},
    {"bf16.enabled", bf16},
    {"bf16.check_grad_overflow", check_grad_overflow},
    {"fp16.enabled", fp16},
    {"fp16.loss_scale", loss_scale},
    {"fp16.initial_scale_power", initial_scale_power},
    {"fp16.loss_scale_window", dynamic_only},
    {"fp16.hysteresis", dynamic_only},
    {"fp16.consecutive_hysteresis", dynamic_only},
    {"fp16.min_loss_scale", dynamic_only},
    {"optimizer.type", optimizer_type},
    {"optimizer.weight_decay_on", weight_decay},
    {PARAMS "weight_decay", weight_decay},
    {PARAMS "lr", learning_rate},
    {"scheduler.type", scheduler_type},
    {"model.name", model_name},
    {"model.layers", layers},
    {"model.mlp_tiles", mlp_tiles},
    {"model.hidden", hidden},
    {"model.heads", heads},
    {"model.context", context},
    {"model.vocabulary", vocabulary},
    {"data.path", data_path},
    {"data.synthetic", synthetic},
    {"data.sequence_length", sequence_length},
    {"data.validation_fraction", validation_fraction},
    {"memory.device_budget", device_budget},
    {"memory.host_budget", host_budget},
    {"memory.nvme_budget", nvme_budget},
    {"checkpoint.path", checkpoint_path},
    {"checkpoint.every", checkpoint_detail},
    {"checkpoint.keep", checkpoint_detail},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", checkpoint_detail},
    {"checkpoint.background", checkpoint_detail},
    {"checkpoint.at_end", checkpoint_detail},
    {"topology.ranks", ranks},
    {"topology.ranks_per_node", ranks_per_node},
    {"topology.gpus", gpus},
    {"topology.collectives", collectives},
    {"topology.links.intra.bandwidth", intra_bandwidth},
    {"topology.links.pcie.bandwidth", pcie_link},
    {"topology.links.pcie.latency", pcie_link},
    {"topology.links.nvme.bandwidth", nvme_link},
    {"topology.links.nvme.latency", nvme_link},
};
const int effect_row_count = sizeof effect_rows / sizeof *effect_rows;

/* ---- any key ---- */

struct effect_run effect_run_of(const struct config *config, const struct setup *setup)
{
    struct effect_run run = {.config = config, .setup = setup, .step = step_counts_of(setup)};
    traffic_of(run.traffic, &setup->schedule, &setup->model, 0);
    run.sent_bytes = setup_sent_bytes(setup, 0);
    return run;
}

static bool say_row(const struct effect_row *list, int count, const char *path, out_t out, run_t run)
{
    for (int r = 0; r < count; r++) {
        if (strcmp(list[r].path, path) != 0) continue;
        list[r].say(out, run);
        return true;
    }
    return false;
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
    effect_say(out, "nothing to act on: %.*s is off", (int)(dot - path), path);
    return true;
}

void effect_of(char *text, size_t room, const struct config_key *key, const struct effect_run *run)
{
    const struct effect_text out = {text, room};
    *text = '\0';
    if (!binding_in_force(run->config, key->path)) return; /* the verdict says it */
    if (is_switched_off(&out, run, key->path)) return;
    if (!say_row(effect_zero_rows, effect_zero_count, key->path, &out, run))
        say_row(effect_rows, effect_row_count, key->path, &out, run);
}
