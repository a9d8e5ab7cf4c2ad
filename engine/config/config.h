/* The resolved configuration of a run. The file is a DeepSpeed JSON file, unchanged, plus zerolab's own sections
 * (model, data, schedule, memory, topology). config_keys.def is the one table of keys. struct config has the values after
 * defaults, "auto" and the batch triad are resolved. Sizes called *_elems are in elements, as in DeepSpeed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/tier.h"
#include "engine/base/optimizers.h"

enum model_kind { KIND_GPT2, KIND_LLAMA, KIND_QWEN2, KIND_OPT, KIND_BLOOM, MODEL_KINDS };

struct config_model {
    char name[32]; /* "nano", "micro", "gpt2" ...; "custom" when sizes are given */
    int layers, hidden, heads, context, vocabulary;
    enum model_kind kind;
    int kv_heads, ffn; /* heads of keys and values, width of the MLP; 0: see config_kv_heads(), config_ffn() */
    bool untied;       /* the output layer has weights of its own */
};

/* What a kind of model is made of. */
struct model_traits {
    const char *name;
    bool tied; /* default of model.tied */
    bool rms_norm, embedding_norm; /* norms scale and do not shift; a norm follows the embedding */
    bool gated;                    /* the MLP multiplies two products */
    bool biases, qkv_biases;       /* in all linear layers; in that of q, k, v */
    bool positions;                /* positions are learned: context + more_positions rows */
    int more_positions;
};
extern const struct model_traits model_traits[MODEL_KINDS];

int config_kv_heads(const struct config_model *model); /* kv_heads; `heads` if it is 0 */
int64_t config_key_width(const struct config_model *model); /* kv heads x head size; `hidden` if heads is 0 */
/* ffn; if it is 0, 4 x hidden, or for a gated MLP 2/3 of that, rounded up to a multiple of 256 (Touvron et al. 2023). */
int config_ffn(const struct config_model *model);

/* The meaning of a token of the data: a byte of text, or an id in a token shard. */
enum data_format { DATA_BYTES, DATA_TOKENS };

enum recompute { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_ATTENTION };
enum offload { OFFLOAD_NONE, OFFLOAD_CPU, OFFLOAD_NVME };

/* The names in configuration files. */
static inline const char *recompute_name(enum recompute recompute)
{
    static const char *const names[] = {"none", "full", "attention"};
    return names[recompute];
}

static inline const char *offload_name(enum offload offload)
{
    static const char *const names[] = {"none", "cpu", "nvme"};
    return names[offload];
}

/* Defaults of keys under schedule and offload_param; they also hold for traces without these keys. */
enum { UPDATE_TILE_ELEMS = 4194304, DELAYED_UPDATE_AFTER = 40 };
enum { PARAM_BUFFERS = 5, PARAM_BUFFER_ELEMS = 100000000, MAX_IN_CPU_ELEMS = 1000000000 };

/* The settings of a step's schedule, most of them from zero_optimization. All of them can change between two steps. */
struct config_zero {
    int stage;
    int64_t reduce_bucket_elems, allgather_bucket_elems;
    bool overlap_comm;
    int64_t prefetch_bucket_elems, max_live_parameters, max_reuse_distance, param_persistence_threshold;
    int64_t model_persistence_threshold, sub_group_elems;
    bool prescale_gradients;         /* divide before the sum, not after */
    float gradient_predivide_factor; /* divide by it before the sum, by ranks / it after */
    int hpz_partition; /* stage 3: number of ranks that share a secondary copy of the parameters (ZeRO++ hpZ); 0, 1: no copy */
    int shard_ranks;  /* stages 1 to 3: number of ranks that share the shards of a unit; other ranks are replicas; below 1: all ranks */
    bool hierarchical; /* stages 1 to 3: where shards are spread over several nodes, collectives have two hops */
    bool quantized_weights, quantized_gradients; /* stage 3: gathers move blocks of int8, reductions blocks of int4 (ZeRO++) */
    float loco_beta;        /* weight of older errors in the error feedback of quantized gradients; 0: no feedback */
    int64_t loco_reset;     /* number of steps after which the feedback begins anew */
    bool rank_order;  /* gradients are summed over all ranks in rank order, at any shard_ranks */
    int keep_last_units;             /* number of last units that stay gathered from forward to backward */
    bool no_sync;                    /* reduce once, after the last micro-step, at stages 2 and 3 too */
    enum recompute recompute; /* the part of a block that backward recomputes */
    int checkpoint_every;     /* blocks of a segment, under full recomputation */
    bool cpu_checkpointing;   /* the inputs of segments are kept in the host tier */
    enum offload offload_optimizer, offload_param; /* the tier of a rank's states and master weights; of its parameters */
    double offload_ratio;                          /* stage 3: the share of sub-groups whose states are offloaded */
    bool delayed_update;                           /* the host updates with a step's gradients during the next step */
    int64_t delayed_update_after;                  /* number of first steps whose update is not delayed */
    bool pin_optimizer, pin_param;                 /* lock the offloaded arrays in host memory */
    int64_t update_tile_elems;                     /* elements of a tile of an update on the host, and of its copy to the device */
    bool pipeline_read, pipeline_write;            /* states on NVMe: read the next tile, write the previous one during an update */
    int64_t param_buffers, param_buffer_elems, max_in_cpu_elems; /* parameters on NVMe: staging, and elements kept in host memory */
};

struct config_link { double bandwidth_bytes_per_s, latency_s; }; /* 0: not paced */

enum decay_on { DECAY_ON_MATRICES, DECAY_ON_ALL };

struct config_optimizer {
    char type[32];          /* a name of optimizers.def */
    enum optimizer rule;    /* follows from type and parameters */
    double learning_rate, beta1, beta2, epsilon, weight_decay, momentum, dampening;
    bool adam_w_mode, torch_adam, bias_correction, nesterov;
    enum decay_on decay_on; /* which tensors decay */
};

enum scheduler {
    SCHEDULER_NONE, SCHEDULER_WARMUP, SCHEDULER_WARMUP_DECAY, SCHEDULER_WARMUP_COSINE, SCHEDULER_ONE_CYCLE,
    SCHEDULER_LR_RANGE_TEST, SCHEDULERS
};
enum warmup { WARMUP_LOG, WARMUP_LINEAR };

/* Parameters of all schedules; `kind` decides which of them are used. */
struct config_scheduler {
    char type[32];          /* "": the learning rate is constant */
    enum scheduler kind;
    double warmup_min_lr, warmup_max_lr, warmup_min_ratio, cos_min_ratio;
    int64_t warmup_steps, total_steps;
    bool steps_unknown;     /* total_num_steps is "auto" and needed: scheduler_settle() before training */
    enum warmup warmup_type;
    double cycle_min_lr, cycle_max_lr, decay_lr_rate, cycle_min_mom, cycle_max_mom, decay_mom_rate;
    int64_t cycle_first_steps, cycle_second_steps, cycle_first_stairs, cycle_second_stairs, decay_steps;
    bool cycle_momentum;
    double range_min_lr, range_step_rate;
    int64_t range_steps;
    bool range_staircase;
};

enum type_of { TYPE_OF_MODEL, TYPE_FP32, TYPE_FP16, TYPE_BF16 };

struct config_fp16 {
    bool enabled;
    double loss_scale;       /* 0: dynamic, by the rest */
    int initial_scale_power; /* of 2 */
    int64_t loss_scale_window;
    int hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
};

/* Reports that runs without a screen print besides their progress (engine/advise/logs.h). */
struct config_logs {
    int64_t steps_per_print; /* 0: not given */
    bool wall_clock_breakdown, memory_breakdown;
    struct {
        bool enabled, verbose, prof_all, debug;
        char prof_ops[256]; /* names, one on each line */
    } comms;
    struct {
        bool enabled, detailed;
        int profile_step, module_depth, top_modules;
        double peak_flops; /* of one rank; 0: not stated */
        char output_file[4096];
    } flops;
};

/* DeepSpeed's files of losses and learning rates (engine/train/csv_monitor.c). */
struct config_csv_monitor { bool enabled; char output_path[4096], job_name[256]; };

enum { RUN_RANKS_MOST = 64 }; /* most ranks of a run; a plan may have as many as topology.ranks permits */

enum background { BACKGROUND_AUTO, BACKGROUND_ON, BACKGROUND_OFF };

enum backend_kind { BACKEND_CPU, BACKEND_CUDA };
enum collectives { COLLECTIVES_AUTO, COLLECTIVES_NCCL, COLLECTIVES_DIRECT, COLLECTIVES_NCCL_SUM };
enum ranks_as { RANKS_AS_AUTO, RANKS_AS_PROCESSES, RANKS_AS_THREADS, RANKS_AS_MPIRUN };

/* From a slow motion of SLOW_MOTION_EYE on, each operation that moves or uses parameters or gradients counts as at least
 * SLOW_MOTION_EYE_SECONDS before it is stretched, so that a small model can be watched too. With a factor of 20 that is 0.2 s. */
#define SLOW_MOTION_EYE         10.0
#define SLOW_MOTION_EYE_SECONDS 0.01
#define SLOW_RANK_FACTOR        2.0 /* how much slower topology.slow_rank is than the other ranks */

struct config {
    struct config_model model;
    bool tied;     /* model.tied, from which model.untied follows */
    int mlp_tiles; /* number of units of a block's MLP; 1: the MLP is part of the block's unit */
    enum dtype dtype; /* of parameters, activations and gradients; follows from bf16 and fp16 */
    struct config_fp16 fp16;
    enum type_of gradient_type, wire_type; /* types in which gradients accumulate, and are communicated */
    bool bf16, check_grad_overflow; /* check_grad_overflow: skip a bf16 step with inf or NaN in its gradients */
    int max_skips;                  /* number of skipped steps in a row that ends the run; 0: no limit */
    struct {
        char path[4096];      /* "": the default text */
        enum data_format format;
        char vocabulary_file[4096], merges_file[4096]; /* of a byte-pair encoding; "": tokens are bytes, or bare numbers */
        bool synthetic;
        int sequence_length;  /* T; default: the model's context */
        uint64_t seed;
        double validation_fraction;
    } data;
    struct {
        char path[4096];      /* "": no checkpoints */
        int64_t every;        /* steps; 0: on command */
        int keep;             /* 0: all */
        enum background background;
        bool at_end;
        bool weights_too;     /* also save the weights as safetensors beside each checkpoint, in the model's type */
    } checkpoint;
    int train_batch_size, micro_batch_size, accumulation_steps; /* micro_batch_size: sequences of a rank in a micro-step (B) */
    struct config_optimizer optimizer;
    struct config_scheduler scheduler;
    float gradient_clipping; /* 0: off */
    struct config_zero zero;
    int number_checkpoints;     /* zero.recompute and zero.checkpoint_every follow from it. 0: not given */
    bool overlap_follows_stage; /* overlap_comm was not given: config_set() of the stage sets it to stage == 3 */
    uint64_t budget_bytes[TIERS]; /* 0: no limit */
    struct { char optimizer_path[4096], param_path[4096]; } nvme; /* "": not given */
    struct {
        int64_t block_bytes;
        int queue_depth, threads;
        bool single_submit, overlap_events;
    } aio;
    struct {
        int ranks, ranks_per_node, threads_per_rank;
        bool bind_cores;
        enum backend_kind backend;
        int gpus; /* number of GPUs to use on a machine, at most one for each of its ranks; 0: as many as it has */
        enum collectives collectives; /* once a run has begun, auto means direct (gpu_settle()) */
        bool fused_gelu; /* products of GPUs may compute GELU */
        enum ranks_as ranks_as;
        struct config_link links[LINKS];
        double slow_motion; /* 1: real time */
        int slow_rank;      /* -1: none */
        double device_flops; /* limit of a rank's floating-point operations per second; 0: not paced */
    } topology;
    struct config_logs logs;
    struct config_csv_monitor csv_monitor;
    char *notes; /* lines "key: accepted, no effect here: reason", printed once; owned */
    char *given; /* all keys that were given, with or without effect, for config_given_next(); owned */
};

/* Reads the file (Hjson comments and trailing commas allowed), applies `sets` ("bf16.enabled=true", in order), resolves and
 * checks. path NULL: the built-in default, configs/teach.json. Unknown keys are refused with the nearest valid one named.
 * Errors: STATUS_USAGE (wrong content), STATUS_INPUT (file missing or not JSON). On success *config is whole and
 * config_release() frees what it owns. */
int config_load(struct config *config, const char *path, const char *const *sets, int set_count, struct error *err);
void config_release(struct config *config);

/* Reads the text of a configuration file for config_load_text(); the caller frees. The path may be a pipe, which gives
 * its text only once. Errors as with config_load(); their text lacks the path. */
int config_read(char **text, const char *path, struct error *err);

/* The folder for parameters (`parameters`) or optimizer states on NVMe: their own section's, else the other's; "" if none is given. */
const char *config_nvme_path(const struct config *config, bool parameters);

/* STATUS_USAGE: the configuration can be planned, but this engine cannot run it. Every command that starts ranks calls it. */
int config_check_run(const struct config *config, struct error *err);

/* Like config_load(), from a text: of a file, of config_to_json(), or of a trace. */
int config_load_text(struct config *config, const char *text, const char *const *sets, int set_count, struct error *err);
extern const char config_default[]; /* the text of configs/teach.json */
extern const char config_nano[];    /* the text of configs/nano.json, from which the runs of labs start */

/* The resolved configuration as one JSON object (caller frees). */
char *config_to_json(const struct config *config);

/* Sets one live key ("zero_optimization.stage", "3") and checks the configuration; used by commands. */
int config_set(struct config *config, const char *key, const char *value, struct error *err);

/* Whether a key is honoured but not live, so that changing it needs a relaunch. */
bool config_restarts(const char *key);
bool config_is_live(const char *key); /* honoured, and can change between two steps */

/* Checks a value's type and range by the key's row and stores it; does not check it against other keys. */
int config_try(struct config *config, const char *key, const char *value, struct error *err);

/* config_is_place(): whether a key is a path where a run leaves files: checkpoint.path, flops_profiler.output_file. (Files below
 * nvme_path are unlinked as soon as they are open.) config_place(): the first such key with a value; NULL if none has one. */
bool config_is_place(const char *key);
const char *config_place(const struct config *config);

/* Whether setting a key would have an effect. False, with STATUS_USAGE and the reason: it belongs to another optimizer
 * or scheduler than the current one, or the scheduler overrides it. */
int config_matters(const struct config *config, const char *key, struct error *err);

/* One key that was given: its path, its source ("file", "set" or "auto"), its spelling there, and its value, shortened. */
enum { CONFIG_PATH_MAX = 128 };
struct config_given { char path[CONFIG_PATH_MAX], from[8], spelling[CONFIG_PATH_MAX], value[80]; };

/* Iterates: reads the entry at *at, which is config->given at first, and advances *at; false at the end. */
bool config_given_next(const char **at, struct config_given *given);
/* Whether the user gave a key. config_forget_file() makes keys of the file count as defaults, for a file that the user did not name. */
bool config_is_given(const struct config *config, const char *path);
void config_forget_file(struct config *config);

/* The keys, other than the typed one, that config_set() changed because their defaults depend on it: "overlap_comm true (default)"; "": none. */
void config_followed(const struct config *before, const struct config *after, const char *key, char *text, size_t room);

/* Formats the value of a key as a user would type it ("50MB", "100us", "true"); it reads back the same. "": no such key. */
void config_show(const struct config *config, const char *key, char *text, size_t room);

/* Sets `path` to the full path of a typed key, which may be an older spelling. */
void config_path(char path[CONFIG_PATH_MAX], const char *typed);
/* Sets total_num_steps to `steps`, the steps of the run, if it is "auto". STATUS_USAGE: it is, and `steps` is 0 (unknown). */
int scheduler_settle(struct config *config, int64_t steps, struct error *err);

/* Ranks of a node: topology.ranks_per_node; all ranks, if it is not given. */
static inline int config_per_node(const struct config *config)
{
    return config->topology.ranks_per_node ? config->topology.ranks_per_node : config->topology.ranks;
}

/* Whether NCCL joins the ranks. */
static inline bool config_has_nccl(const struct config *config)
{
    return config->topology.collectives == COLLECTIVES_NCCL || config->topology.collectives == COLLECTIVES_NCCL_SUM;
}

bool config_is_set(const char *const *sets, int count, const char *path); /* whether one of the "KEY=VALUE" texts sets `path` */

/* Parses a number of bytes: "256MiB", "1.5GB", "5e8". */
int config_parse_bytes(const char *text, uint64_t *bytes, struct error *err);

/* The dtype of a type other than TYPE_OF_MODEL. */
enum dtype config_dtype(enum type_of type);

/* Built-in model shapes: by name, NULL if unknown; by number, NULL past the last. */
const struct config_model *config_model_named(const char *name);
const struct config_model *config_model_at(int number);

/* The sizes in a Hugging Face config.json of model_type gpt2, llama, mistral, qwen2, opt or bloom. *window: the tokens of a sliding window,
 * 0: none. Sizes are 1 to INT_MAX; the keys of a configuration bound them further. STATUS_USAGE: another type, a size that is
 * missing or wrong, a switch that changes which tensors the model has; STATUS_INPUT: unreadable. The text names file and key. */
int config_model_file(struct config_model *model, const char *path, int *window, struct error *err);
