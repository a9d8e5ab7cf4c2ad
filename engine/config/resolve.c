#include "engine/config/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/nearest.h"
#include "engine/base/words.h"

int config_add_line(char **text, struct error *err, const char *format, ...)
{
    char line[512];
    FORMAT_ARGUMENTS(line, sizeof line, format);
    size_t before = *text ? strlen(*text) : 0;
    char *longer = realloc(*text, before + strlen(line) + 2);
    if (!longer) return error_set(err, STATUS_RUN, "no memory for the configuration's notes");
    *text = longer;
    sprintf(longer + before, "%s\n", line);
    return STATUS_OK;
}

static int unknown_model(const char *name, struct error *err)
{
    enum { NAMES = 64 };
    const char *names[NAMES];
    int count = 0;
    while (count < NAMES && config_model_at(count)) names[count] = config_model_at(count)->name, count++;
    const char *near = nearest_name(name, names, count);
    return error_set(err, STATUS_USAGE, "model.name = \"%s\": no such model; %s%s%szerolab plan --model list shows all",
                     name, near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

/* Given sizes replace those of the named model, whose name then becomes "custom". */
static int resolve_model(struct config_source *source, struct error *err)
{
    struct config_model *model = &source->config->model;
    int *sizes[] = {&model->layers,     &model->hidden,   &model->heads, &model->context,
                    &model->vocabulary, &model->kv_heads, &model->ffn};
    static const char *const paths[] = {"model.layers", "model.hidden", "model.heads", "model.context",
                                        "model.vocabulary"};
    enum { SIZES = sizeof sizes / sizeof *sizes, NEEDED = sizeof paths / sizeof *paths };
    const bool tied_given = given(source, "model.tied") == GIVEN_VALUE, custom = strcmp(model->name, "custom") == 0;
    const struct config_model *named = custom ? NULL : config_model_named(model->name);
    for (int s = 0; custom && s < NEEDED; s++)
        if (*sizes[s] == 0)
            return error_set(err, STATUS_USAGE, "%s: not given, and model.name \"custom\" has no sizes of its own",
                             paths[s]);
    if (!custom && !named) return unknown_model(model->name, err);
    if (named && given(source, "model.architecture") != GIVEN_VALUE) model->kind = named->kind;
    const bool same_kind = named && model->kind == named->kind;
    if (!tied_given) source->config->tied = same_kind ? !named->untied : model_traits[model->kind].tied;
    model->untied = !source->config->tied;
    if (custom) return STATUS_OK;
    const int known[] = {named->layers,     named->hidden,   named->heads, named->context,
                         named->vocabulary, named->kv_heads, named->ffn};
    bool same = same_kind && model->untied == named->untied;
    for (int s = 0; s < SIZES; s++) {
        if (*sizes[s] == 0) *sizes[s] = known[s];
        same = same && *sizes[s] == known[s];
    }
    if (!same) strcpy(model->name, "custom");
    return STATUS_OK;
}

/* "auto" is what the Hugging Face integration puts in: the trainer's arguments, here at their defaults, or a function
 * of the hidden size. It fills the last two at stage 3 only; here always, because the stage can change while training.
 */
static const struct {
    const char *path, *value, *why;
    int tenths, power; /* value NULL: so many tenths of a power of the hidden size */
} autos[] = {
    {"train_micro_batch_size_per_gpu", "8", "per_device_train_batch_size", 0, 0},
    {"gradient_accumulation_steps", "1", "gradient_accumulation_steps", 0, 0},
    {"gradient_clipping", "1.0", "max_grad_norm", 0, 0},
    {"optimizer.params.lr", "5e-5", "learning_rate", 0, 0},
    {"optimizer.params.betas", "[0.9, 0.999]", "adam_beta1, adam_beta2", 0, 0},
    {"optimizer.params.eps", "1e-8", "adam_epsilon", 0, 0},
    {"optimizer.params.weight_decay", "0", "weight_decay", 0, 0},
    {"scheduler.params.warmup_min_lr", "0", "0", 0, 0},
    {"scheduler.params.warmup_max_lr", "5e-5", "learning_rate", 0, 0},
    {"scheduler.params.warmup_num_steps", "2", "warmup_steps, of which DeepSpeed makes at least 2", 0, 0},
    {"bf16.enabled", "false", "bf16", 0, 0},
    {"fp16.enabled", "false", "fp16", 0, 0},
    {"zero_optimization.reduce_bucket_size", NULL, "h*h", 10, 2},
    {"zero_optimization.stage3_prefetch_bucket_size", NULL, "0.9*h*h", 9, 2},
    {"zero_optimization.stage3_param_persistence_threshold", NULL, "10*h", 100, 1},
};

enum { AUTO_MICRO_BATCH = 8, /* the first of them */ UNSAID_MICRO_BATCH = 4 };

static int resolve_auto(struct config_source *source, int row, struct error *err)
{
    const struct config_key *key = &config_keys[row];
    char value[32];
    size_t a = 0;
    if (strcmp(key->value, "auto") == 0) return STATUS_OK; /* a value of its own */
    if (strcmp(key->path, "scheduler.params.total_num_steps") == 0)
        return source->config->scheduler.steps_unknown = true, STATUS_OK;
    while (a < sizeof autos / sizeof *autos && strcmp(autos[a].path, key->path) != 0) a++;
    if (a == sizeof autos / sizeof *autos)
        return config_note(source->config, err, "%s: \"auto\" leaves the default, %s", key->path,
                           key->value[0] ? key->value : "none");
    const long long h = source->config->model.hidden;
    if (autos[a].value) snprintf(value, sizeof value, "%s", autos[a].value);
    else snprintf(value, sizeof value, "%lld", (autos[a].power == 2 ? h * h : h) * autos[a].tenths / 10);
    const int status = key_read_text(key, value, source->config, err);
    if (status) return status;
    return config_note(source->config, err, "%s: \"auto\" is %s (%s%s)", key->path, value, autos[a].why,
                       autos[a].value ? " of the Hugging Face trainer, at its default" : ", h = hidden");
}

/* train_batch_size alone may be "auto": then it follows from the other two. */
static int resolve_autos(struct config_source *source, struct error *err)
{
    for (int row = 0; row < config_key_count; row++) {
        if (source->given[row] != GIVEN_AUTO || config_keys[row].class != CLASS_HONOURED) continue;
        if (strcmp(config_keys[row].path, "train_batch_size") == 0) continue;
        int status = resolve_auto(source, row, err);
        if (status) return status;
    }
    return STATUS_OK;
}

/* Which batch sizes do not go together, in numbers that somebody wrote, and which would: T samples on W ranks, of which
 * micro-batch and accumulation want a multiple. */
static int refuse_batch(int64_t T, int64_t m, int64_t g, int64_t W, struct error *err)
{
    const int64_t unit = (m ? m : 1) * (g ? g : 1) * W, low = T / unit * unit, high = low + unit;
    char factors[96], lower[32] = "";
    int at = snprintf(factors, sizeof factors, "%lld rank%s", (long long)W, plural(W));
    if (m) at += snprintf(factors + at, sizeof factors - (size_t)at, " x micro-batch %lld", (long long)m);
    if (g) snprintf(factors + at, sizeof factors - (size_t)at, " x accumulation %lld", (long long)g);
    if (m && g)
        return error_set(err, STATUS_USAGE,
                         "train_batch_size %lld is not %s = %lld; give %lld, or leave one of the three out",
                         (long long)T, factors, (long long)unit, (long long)unit);
    if (low) snprintf(lower, sizeof lower, "%lld or ", (long long)low);
    return error_set(err, STATUS_USAGE, "train_batch_size %lld must be a multiple of %s: %s%lld would do%s",
                     (long long)T, factors, lower, (long long)high, W > 1 && T % (unit / W) == 0 ? ", or -n 1" : "");
}

/* DeepSpeed's rules for the three batch sizes, floor divisions included; what does not divide is caught by the last
 * check. */
static int resolve_batch(struct config_source *source, struct error *err)
{
    struct config *config = source->config;
    int64_t W = config->topology.ranks, T = config->train_batch_size, m = config->micro_batch_size,
            g = config->accumulation_steps;
    const int64_t said_m = m, said_g = g;
    const bool is_auto = given(source, "train_batch_size") == GIVEN_AUTO;
    if (is_auto && !m && !g) m = AUTO_MICRO_BATCH;
    const bool unsaid = !T && !m;
    if (unsaid) m = UNSAID_MICRO_BATCH;
    if (T && m && !g) g = T / m / W;
    else if (T && g && !m) m = T / W / g;
    else if (T && !m) g = 1, m = T / W;
    else if (m && !T) g = g ? g : 1, T = m * g * W;
    if (m <= 0 || g <= 0 || T != m * g * W) return refuse_batch(T, said_m, said_g, W, err);
    if (T > 1000000000 || m > 1000000 || g > 1000000) /* the table's ranges, for what is not given */
        return error_set(err, STATUS_USAGE,
                         "train_batch_size %lld = %lld x %lld x %lld ranks: must be at most 1000000000, a micro-batch "
                         "and accumulation at most 1000000",
                         (long long)T, (long long)m, (long long)g, (long long)W);
    config->train_batch_size = (int)T, config->micro_batch_size = (int)m, config->accumulation_steps = (int)g;
    if (unsaid)
        return config_note(config, err,
                           "no batch size, which DeepSpeed refuses: train_micro_batch_size_per_gpu is taken as %lld", (long long)m);
    if (!is_auto) return STATUS_OK;
    return config_note(config, err,
                       "train_batch_size: \"auto\" is %lld (micro-batch %lld x accumulation %lld x %lld ranks)",
                       (long long)T, (long long)m, (long long)g, (long long)W);
}

static bool uses_nvme(const struct config_zero *zero)
{
    return zero->offload_optimizer == OFFLOAD_NVME || zero->offload_param == OFFLOAD_NVME;
}

const char *config_nvme_path(const struct config *config, bool parameters)
{
    const char *own = parameters ? config->nvme.param_path : config->nvme.optimizer_path;
    return own[0] ? own : parameters ? config->nvme.optimizer_path : config->nvme.param_path;
}

static int check_nvme(const struct config *config, struct error *err)
{
    const struct config_zero *zero = &config->zero;
    const bool optimizer = zero->offload_optimizer == OFFLOAD_NVME;
    const char *section = optimizer ? "offload_optimizer" : "offload_param";
    if (!uses_nvme(zero)) return STATUS_OK;
    if (zero->stage < 3)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.%s: device \"nvme\" needs stage 3; at stage %d use \"%s\"", section,
                         zero->stage, optimizer ? "cpu" : "none");
    if (!config_nvme_path(config, !optimizer)[0])
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.%s: device \"nvme\" needs nvme_path, a folder on the disk to be used",
                         section);
    return STATUS_OK;
}

/* DeepSpeed's rules about which offload needs which stage and device. */
static int check_offload(const struct config *config, struct error *err)
{
    const struct config_zero *zero = &config->zero;
    if (zero->offload_param && zero->stage < 3)
        return error_set(
            err, STATUS_USAGE,
            "zero_optimization.offload_param: at stage %d every rank uses its parameters whole, on the device; "
            "use stage 3, or device \"none\"",
            zero->stage);
    if (zero->offload_optimizer && zero->stage < 1)
        return error_set(
            err, STATUS_USAGE,
            "zero_optimization.offload_optimizer: stage 0 does not shard what would be offloaded; use stage 1, 2 "
            "or 3, or device \"none\"");
    if (zero->offload_ratio < 1 && zero->offload_optimizer && zero->stage < 3)
        return error_set(
            err, STATUS_USAGE,
            "zero_optimization.offload_optimizer.ratio = %g: sub-groups are of stage 3; use ratio 1 at stage %d",
            zero->offload_ratio, zero->stage);
    if (zero->delayed_update && !zero->offload_optimizer)
        return error_set(err, STATUS_USAGE,
                         "schedule.delayed_update: only updates on the host can run beside the next step; use "
                         "zero_optimization.offload_optimizer.device \"cpu\"");
    if (zero->delayed_update && zero->offload_ratio < 1)
        return error_set(err, STATUS_USAGE,
                         "schedule.delayed_update: all units are updated with one delay or none; use "
                         "zero_optimization.offload_optimizer.ratio 1");
    return check_nvme(config, err);
}

static int check_data(const struct config *config, struct error *err)
{
    const bool vocabulary = config->data.vocabulary_file[0], merges = config->data.merges_file[0];
    const bool tokens = config->data.format == DATA_TOKENS;
    if (config->data.synthetic && config->data.path[0])
        return error_set(err, STATUS_USAGE, "data.path = \"%.200s\": data.synthetic is true as well; give one of them",
                         config->data.path);
    if (tokens && !config->data.synthetic && !config->data.path[0])
        return error_set(err, STATUS_USAGE,
                         "data.format = tokens needs data.path, a token shard or a folder of them; "
                         "make one with: zerolab data encode TEXT -o FILE.bin");
    if (vocabulary != merges)
        return error_set(err, STATUS_USAGE, "data.%s is given alone; give data.%s too",
                         vocabulary ? "vocabulary_file" : "merges_file",
                         vocabulary ? "merges_file" : "vocabulary_file");
    if (vocabulary && !tokens && !config->data.synthetic)
        return error_set(err, STATUS_USAGE,
                         "data.vocabulary_file is given, but text is read as bytes; make token shards with zerolab "
                         "data encode, and give data.format=tokens");
    return STATUS_OK;
}

/* The second copy of a unit lies within one node, or gathers from it would cross nodes again. */
static int check_hpz(const struct config *config, struct error *err)
{
    const int partition = config->zero.hpz_partition, per_node = config_per_node(config);
    if (partition > 1 && per_node % partition)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.zero_hpz_partition_size = %d: must divide the ranks of a node, which are "
                         "%d (topology.ranks%s)",
                         partition, per_node, config->topology.ranks_per_node ? "_per_node" : "");
    return STATUS_OK;
}

static int check_gpus(const struct config *config, struct error *err)
{
    const struct config_zero *zero = &config->zero;
    if (config->topology.backend != BACKEND_CUDA) return STATUS_OK;
    if (zero->hpz_partition > 1)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.zero_hpz_partition_size = %d: gathers within a node are not implemented on "
                         "GPUs; use 1",
                         zero->hpz_partition);
    if (zero->hierarchical)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.mics_hierarchical_params_gather = true: collectives of a part of the ranks "
                         "are not implemented on GPUs");
    if (zero->quantized_weights || zero->quantized_gradients)
        return error_set(err, STATUS_USAGE, "zero_optimization.zero_quantized_%s = true: not implemented on GPUs",
                         zero->quantized_weights ? "weights" : "gradients");
    return STATUS_OK;
}

/* Hybrid sharding (MiCS). DeepSpeed has it at stage 3. */
static int check_shard_groups(const struct config *config, struct error *err)
{
    const int shards = config->zero.shard_ranks, ranks = config->topology.ranks;
    if (shards < 1 || shards == ranks) return STATUS_OK;
    if (ranks % shards)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.mics_shard_size = %d: must divide topology.ranks, which is %d", shards,
                         ranks);
    if (config->zero.hpz_partition > 1)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.mics_shard_size = %d: a second copy (zero_hpz_partition_size = %d) is for "
                         "shards over all ranks; use one of the two",
                         shards, config->zero.hpz_partition);
    if (config->zero.quantized_gradients)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.mics_shard_size = %d: zero_quantized_gradients has two hops of its own; use "
                         "one of the two",
                         shards);
    if (config->zero.rank_order && config->zero.stage == 1 && config->zero.offload_optimizer != OFFLOAD_NONE)
        return error_set(err, STATUS_USAGE,
                         "topology.rank_order = true: not implemented for mics_shard_size at stage 1 with states in "
                         "another tier; use stage 2 or 3");
    if (config->topology.backend == BACKEND_CUDA)
        return error_set(err, STATUS_USAGE,
                         "zero_optimization.mics_shard_size = %d: collectives of a part of the ranks are not "
                         "implemented on GPUs; use -1",
                         shards);
    return STATUS_OK;
}

int config_check(const struct config *config, struct error *err)
{
    const struct config_model *model = &config->model;
    int ranks = config->topology.ranks, per_node = config->topology.ranks_per_node;
    if (model->hidden % model->heads)
        return error_set(err, STATUS_USAGE, "model.heads = %d: must divide model.hidden, which is %d", model->heads,
                         model->hidden);
    if (model->heads % config_kv_heads(model))
        return error_set(err, STATUS_USAGE, "model.kv_heads = %d: must divide model.heads, which is %d",
                         model->kv_heads, model->heads);
    if (config->mlp_tiles && config_ffn(model) % config->mlp_tiles)
        return error_set(err, STATUS_USAGE, "model.mlp_tiles = %d: must divide the width of the MLP, which is %s = %d",
                         config->mlp_tiles,
                         model->ffn                        ? "model.ffn"
                         : model_traits[model->kind].gated ? "8/3 x model.hidden, rounded up,"
                                                           : "4 x model.hidden",
                         config_ffn(model));
    if (config->data.sequence_length > model->context)
        return error_set(err, STATUS_USAGE, "data.sequence_length = %d: must be at most model.context, which is %d",
                         config->data.sequence_length, model->context);
    if (per_node && ranks % per_node)
        return error_set(err, STATUS_USAGE, "topology.ranks_per_node = %d: must divide topology.ranks, which is %d",
                         per_node, ranks);
    if (config->topology.gpus > ranks)
        return error_set(err, STATUS_USAGE, "topology.gpus = %d: at most one for each of topology.ranks, which is %d",
                         config->topology.gpus, ranks);
    if (config->topology.collectives == COLLECTIVES_NCCL_SUM && config->zero.prescale_gradients)
        return error_set(err, STATUS_USAGE,
                         "prescale_gradients = true: topology.collectives = nccl_sum scales sums, not what is added; use nccl");
    if (config->topology.slow_rank >= ranks)
        return error_set(err, STATUS_USAGE, "topology.slow_rank = %d: there are ranks 0 to %d",
                         config->topology.slow_rank, ranks - 1);
    if (check_hpz(config, err) || check_gpus(config, err) || check_shard_groups(config, err) ||
        check_offload(config, err) || config_check_bounds(config, err))
        return STATUS_USAGE;
    return check_data(config, err);
}

/* The arithmetic of the engine is that of GPT-2. */
static int check_trained(const struct config_model *model, struct error *err)
{
    static const char only[] = "runs train GPT-2 only; zerolab plan shows what this model needs";
    if (model->kind != KIND_GPT2)
        return error_set(err, STATUS_USAGE, "model.architecture = %s: %s", model_traits[model->kind].name, only);
    if (config_kv_heads(model) != model->heads)
        return error_set(err, STATUS_USAGE, "model.kv_heads = %d: %s", model->kv_heads, only);
    if (config_ffn(model) != 4 * model->hidden)
        return error_set(err, STATUS_USAGE, "model.ffn = %d: %s", model->ffn, only);
    return model->untied ? error_set(err, STATUS_USAGE, "model.tied = false: %s", only) : STATUS_OK;
}

int config_check_run(const struct config *config, struct error *err)
{
    const int64_t tokens = (int64_t)config->train_batch_size * config->data.sequence_length;
    char most[32];
    if (config->topology.ranks > RUN_RANKS_MOST)
        return error_set(err, STATUS_USAGE, "topology.ranks = %d: a run has at most %d ranks; zerolab plan takes more",
                         config->topology.ranks, RUN_RANKS_MOST);
    if (tokens > INT32_MAX)
        return error_set(err, STATUS_USAGE,
                         "train_batch_size x data.sequence_length = %d x %d: a run has at most %s tokens in a step",
                         config->train_batch_size, config->data.sequence_length, grouped(most, INT32_MAX));
    return check_trained(&config->model, err);
}

/* DeepSpeed's section only sets how a model's own calls behave; here the number says that checkpointing is wanted. */
static int resolve_checkpoints(struct config_source *source, struct error *err)
{
    struct config *config = source->config;
    const int layers = config->model.layers, wanted = config->number_checkpoints;
    if (wanted == 0) return STATUS_OK;
    if (given(source, "model.recompute") != GIVEN_VALUE) config->zero.recompute = RECOMPUTE_FULL;
    if (config->zero.recompute != RECOMPUTE_FULL)
        return config_note(config, err,
                           "activation_checkpointing.number_checkpoints: no effect, because model.recompute "
                           "is not \"full\"");
    if (given(source, "model.checkpoint_every") == GIVEN_VALUE)
        return config_note(config, err,
                           "activation_checkpointing.number_checkpoints: no effect, because "
                           "model.checkpoint_every is given");
    config->zero.checkpoint_every = (layers + wanted - 1) / wanted;
    return config_note(config, err, "activation_checkpointing.number_checkpoints: %d of %d blocks is one every %d",
                       wanted, layers, config->zero.checkpoint_every);
}

static int resolve_precision(struct config *config, struct error *err)
{
    if (config->fp16.enabled && config->bf16)
        return error_set(err, STATUS_USAGE, "fp16.enabled: bf16.enabled is true as well; give one of them");
    config->dtype = config->fp16.enabled ? DTYPE_F16 : config->bf16 ? DTYPE_BF16 : DTYPE_F32;
    if (config->gradient_type > TYPE_FP32 && config_dtype(config->gradient_type) != config->dtype)
        return error_set(err, STATUS_USAGE,
                         "data_types.grad_accum_dtype: gradients accumulate in the model's type, %s, or in fp32",
                         dtype_name(config->dtype));
    if (config->gradient_type == TYPE_FP32 && config->dtype != DTYPE_F32 && config->zero.stage == 0)
        return config_note(config, err,
                           "data_types.grad_accum_dtype: honoured at stage 0 too, where DeepSpeed refuses it");
    return STATUS_OK;
}

enum dtype config_dtype(enum type_of type)
{
    return type == TYPE_BF16 ? DTYPE_BF16 : type == TYPE_FP16 ? DTYPE_F16 : DTYPE_F32;
}

static int note_checkpoints(struct config_source *source, struct error *err)
{
    const struct config_zero *zero = &source->config->zero;
    if (!zero->cpu_checkpointing || zero->recompute == RECOMPUTE_FULL) return STATUS_OK;
    return config_note(
        source->config, err,
        "activation_checkpointing.cpu_checkpointing: no effect while model.recompute is not \"full\": there "
        "are no checkpoints");
}

/* Keys of tiers and links that nothing uses while nothing is offloaded. 0 is their default. */
static int note_unused(struct config_source *source, struct error *err)
{
    static const char *const prefixes[] = {"memory.host_budget", "memory.nvme_budget", "topology.links.pcie.",
                                           "topology.links.nvme."};
    const struct config_zero *zero = &source->config->zero;
    const bool to_host = zero->cpu_checkpointing || zero->offload_optimizer || zero->offload_param;
    const bool saves = source->config->checkpoint.path[0] != '\0'; /* from a copy of the state in host memory */
    int status = STATUS_OK;
    for (int row = 0; row < config_key_count; row++)
        for (size_t p = 0; !status && p < sizeof prefixes / sizeof *prefixes; p++)
            if (source->given[row] == GIVEN_VALUE &&
                strncmp(config_keys[row].path, prefixes[p], strlen(prefixes[p])) == 0 &&
                !(strstr(prefixes[p], "nvme") ? uses_nvme(zero) : to_host) && !(saves && p == 0) &&
                !key_is_zero(&config_keys[row], source->config))
                status = config_note(source->config, err, "%s: accepted, no effect here: nothing is offloaded",
                                     config_keys[row].path);
    return status;
}

/* As DeepSpeed does it (utils/groups.py:944). */
static int resolve_hpz(struct config *config, struct error *err)
{
    const int ranks = config->topology.ranks, given_ranks = config->zero.hpz_partition;
    if (given_ranks <= ranks) return STATUS_OK;
    config->zero.hpz_partition = ranks;
    return config_note(config, err, "zero_optimization.zero_hpz_partition_size = %d: %d rank%s make one partition",
                       given_ranks, ranks, ranks == 1 ? "" : "s");
}

/* What most public files have, and DeepSpeed ignores. */
static int note_threads(struct config_source *source, struct error *err)
{
    const int row = key_index("aio.intra_op_parallelism");
    if (!source->spelled[row] || !uses_nvme(&source->config->zero)) return STATUS_OK;
    return config_note(source->config, err, "%s: read as aio.intra_op_parallelism, which DeepSpeed has for it",
                       source->spelled[row]);
}

int config_resolve(struct config_source *source, struct error *err)
{
    struct config *config = source->config;
    int status = resolve_model(source, err);
    if (!status) status = resolve_autos(source, err);
    if (!status) status = resolve_batch(source, err);
    if (!status) status = resolve_precision(config, err);
    if (!status) status = types_resolve(source, err);
    if (!status) status = resolve_checkpoints(source, err);
    if (!status) status = note_checkpoints(source, err);
    if (!status) status = note_unused(source, err);
    if (!status) status = note_threads(source, err);
    if (!status) status = resolve_hpz(config, err);
    if (status) return status;
    if (config->data.sequence_length == 0) config->data.sequence_length = config->model.context;
    config->overlap_follows_stage = given(source, "zero_optimization.overlap_comm") != GIVEN_VALUE;
    if (config->overlap_follows_stage) config->zero.overlap_comm = config->zero.stage == 3;
    return config_check(config, err);
}
