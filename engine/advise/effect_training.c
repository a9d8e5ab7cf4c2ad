/* What is learned and how: batch, precision, optimizer, model, data, checkpoints. */
#include <math.h>
#include <stdio.h>

#include "engine/advise/effect_parts.h"
#include "engine/base/grouped.h"

typedef const struct effect_text *out_t;
typedef const struct effect_run *run_t;

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
    effect_say(out, "a step with inf or NaN in its gradients %s",
               run->config->check_grad_overflow ? "is skipped" : "ends the run");
}

static void max_skips(out_t out, run_t run)
{
    const struct config *config = run->config;
    const bool skips = config->fp16.enabled || (config->bf16 && config->check_grad_overflow);
    if (!skips)
        effect_say(out, "nothing to act on: no step is skipped; one whose loss or gradients are not finite ends the run");
    else if (config->max_skips == 0) effect_say(out, "0: the run goes on, however many steps are skipped");
    else effect_say(out, "%d skipped step%s in a row end the run", config->max_skips, plural(config->max_skips));
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

/* ---- checkpoints ---- */

static void checkpoint_path(out_t out, run_t run)
{
    if (!run->config->checkpoint.path[0]) effect_say(out, "none: no checkpoints are written");
}

static void checkpoint_detail(out_t out, run_t run)
{
    if (!run->config->checkpoint.path[0]) effect_say(out, "nothing to act on: checkpoint.path is not given");
}

#define PARAMS "optimizer.params."
const struct effect_row effect_training_rows[] = {
    {"train_batch_size", train_batch_size},
    {"train_micro_batch_size_per_gpu", micro_batch_size},
    {"gradient_clipping", gradient_clipping},
    {"data_types.grad_accum_dtype", grad_accum_dtype},
    {"bf16.enabled", bf16},
    {"bf16.check_grad_overflow", check_grad_overflow},
    {"schedule.max_skips", max_skips},
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
    {"checkpoint.path", checkpoint_path},
    {"checkpoint.every", checkpoint_detail},
    {"checkpoint.keep", checkpoint_detail},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", checkpoint_detail},
    {"checkpoint.background", checkpoint_detail},
    {"checkpoint.at_end", checkpoint_detail},
    {0},
};
