/* The configuration of a run, resolved: a DeepSpeed JSON file read as it is, plus our own sections (model, data, memory,
 * topology). config_keys.def is the one table of keys; this struct holds the values after defaults, "auto" and the
 * batch triad. Sizes called *_elems are in elements, as in DeepSpeed. */
#ifndef ENGINE_CONFIG_CONFIG_H
#define ENGINE_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/tier.h"
#include "engine/base/optimizers.h"

struct config_model {
    char name[32]; /* "nano", "micro", "gpt2" ...; "custom" when sizes are given */
    int layers, hidden, heads, context, vocabulary;
};

/* What a token of the data is: a byte of text, or a number of a token shard. */
enum data_format { DATA_BYTES, DATA_TOKENS };

enum recompute { RECOMPUTE_NONE, RECOMPUTE_FULL, RECOMPUTE_ATTENTION };
enum offload { OFFLOAD_NONE, OFFLOAD_CPU, OFFLOAD_NVME };

/* As files call them. */
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

/* Defaults of keys under schedule and offload_param: what traces mean that do not say. */
enum { UPDATE_TILE_ELEMS = 4194304, DELAYED_UPDATE_AFTER = 40 };
enum { PARAM_BUFFERS = 5, PARAM_BUFFER_ELEMS = 100000000, MAX_IN_CPU_ELEMS = 1000000000 };

/* The knobs of a step's schedule, most of them of zero_optimization: all of them can change between two steps. */
struct config_zero {
    int stage;
    int64_t reduce_bucket_elems, allgather_bucket_elems;
    bool overlap_comm;
    int64_t prefetch_bucket_elems, max_live_parameters, max_reuse_distance, param_persistence_threshold;
    int64_t model_persistence_threshold, sub_group_elems;
    bool prescale_gradients;         /* divide before the sum, not after */
    float gradient_predivide_factor; /* divide by it before the sum, by the rest after */
    int keep_last_units;             /* so many units stay gathered from forward to backward */
    bool no_sync;                    /* reduce once, after the last micro-step, at stages 2 and 3 too */
    enum recompute recompute; /* what of a block backward makes again */
    int checkpoint_every;     /* blocks of a segment, under full recomputation */
    bool cpu_checkpointing;   /* their inputs wait in the host tier */
    enum offload offload_optimizer, offload_param; /* where what a rank owns lies: states and master; parameters */
    double offload_ratio;                          /* stage 3: the share of sub-groups whose states are offloaded */
    bool delayed_update;                           /* the host updates with a step's gradients during the next step */
    int64_t delayed_update_after;                  /* so many steps are not delayed */
    bool pin_optimizer, pin_param;                 /* what of them lies in host memory is locked there */
    int64_t update_tile_elems;                     /* of an update on the host, and of what comes back from it */
    bool pipeline_read, pipeline_write;            /* states on NVMe: the next tile is read, the one before written meanwhile */
    int64_t param_buffers, param_buffer_elems, max_in_cpu_elems; /* parameters on NVMe: staging, and what stays in host memory */
};

struct config_link { double bandwidth_bytes_per_s, latency_s; }; /* 0: not paced */

enum decay_on { DECAY_ON_MATRICES, DECAY_ON_ALL };

struct config_optimizer {
    char type[32];          /* as optimizers.def names it */
    enum optimizer rule;    /* what type and parameters come to */
    double learning_rate, beta1, beta2, epsilon, weight_decay, momentum, dampening;
    bool adam_w_mode, torch_adam, bias_correction, nesterov;
    enum decay_on decay_on; /* which tensors decay */
};

enum scheduler {
    SCHEDULER_NONE, SCHEDULER_WARMUP, SCHEDULER_WARMUP_DECAY, SCHEDULER_WARMUP_COSINE, SCHEDULER_ONE_CYCLE,
    SCHEDULER_LR_RANGE_TEST, SCHEDULERS
};
enum warmup { WARMUP_LOG, WARMUP_LINEAR };

/* Parameters of all schedules; which of them count follows from the kind. */
struct config_scheduler {
    char type[32];          /* "": the learning rate is constant */
    enum scheduler kind;
    double warmup_min_lr, warmup_max_lr, warmup_min_ratio, cos_min_ratio;
    int64_t warmup_steps, total_steps;
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

/* What runs without a screen print beside their progress; engine/advise/logs.h. */
struct config_logs {
    int64_t steps_per_print; /* 0: not given */
    bool wall_clock_breakdown, memory_breakdown;
    struct {
        bool enabled, verbose, prof_all, debug;
        char prof_ops[256]; /* names, one a line */
    } comms;
    struct {
        bool enabled, detailed;
        int profile_step, module_depth, top_modules;
        double peak_flops; /* of one rank; 0: not stated */
        char output_file[4096];
    } flops;
};

enum background { BACKGROUND_AUTO, BACKGROUND_ON, BACKGROUND_OFF };

enum backend_kind { BACKEND_CPU, BACKEND_CUDA };
enum collectives { COLLECTIVES_AUTO, COLLECTIVES_NCCL, COLLECTIVES_DIRECT };
enum ranks_as { RANKS_AS_PROCESSES, RANKS_AS_THREADS, RANKS_AS_MPIRUN };

/* Slow motion from this factor on is for the eye: what moves or uses parameters and gradients is stretched as if it had
 * taken at least so long, however small the model is. At 20 that is 0.2 s. */
#define SLOW_MOTION_EYE         10.0
#define SLOW_MOTION_EYE_SECONDS 0.01
#define SLOW_RANK_FACTOR        2.0 /* of topology.slow_rank, by which it is slower than the others */

struct config {
    struct config_model model;
    int mlp_tiles; /* units that a block's MLP is cut into; 1: it is part of the block */
    enum dtype dtype; /* of parameters, activations, gradients: what bf16 and fp16 come to */
    struct config_fp16 fp16;
    enum type_of gradient_type, wire_type; /* in what gradients accumulate, and travel */
    bool bf16, check_grad_overflow; /* the latter: a bf16 step with inf or NaN in its gradients is skipped */
    int max_skips;                  /* so many skipped steps in a row end the run; 0: no limit */
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
        bool weights_too;     /* as safetensors beside each, in the model's type */
    } checkpoint;
    int train_batch_size, micro_batch_size, accumulation_steps; /* B of a rank and micro-step is micro_batch_size */
    struct config_optimizer optimizer;
    struct config_scheduler scheduler;
    float gradient_clipping; /* 0: off */
    struct config_zero zero;
    int number_checkpoints;     /* as given; zero.recompute and zero.checkpoint_every follow from it. 0: not given */
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
        enum backend_kind backend;
        int gpus; /* 1 or ranks; 0: as there are */
        enum collectives collectives; /* of a run that has begun: auto is direct */
        enum ranks_as ranks_as;
        struct config_link links[LINKS];
        double slow_motion; /* 1: real time */
        int slow_rank;      /* -1: none */
        double device_flops; /* a rank computes at most so many operations a second; 0: not paced */
    } topology;
    struct config_logs logs;
    char *notes; /* lines "key: accepted, no effect here: reason", printed once; owned */
    char *given; /* what was given, whether it has an effect or not, for config_given_next(); owned */
};

/* Reads the file (Hjson comments and trailing commas allowed), applies `sets` ("bf16.enabled=true", in order), resolves and
 * checks. path NULL: the built-in default, configs/nano.json. Unknown keys are refused with the nearest valid one named.
 * Errors: STATUS_USAGE (wrong content), STATUS_INPUT (file missing or not JSON). On success *config is whole and
 * config_release() frees what it owns. */
int config_load(struct config *config, const char *path, const char *const *sets, int set_count, struct error *err);
void config_release(struct config *config);

/* The text of a configuration file, for config_load_text(); the caller frees. A pipe will do, too, but gives its text only
 * once. Errors as of config_load(), without the path. */
int config_read(char **text, const char *path, struct error *err);

/* The folder that parameters on NVMe, or else states, go to: their section's, or the only one that is given; "" where none is. */
const char *config_nvme_path(const struct config *config, bool parameters);

/* The same from a text: of a file, or as config_to_json() writes it and traces hold it; sets as above. */
int config_load_text(struct config *config, const char *text, const char *const *sets, int set_count, struct error *err);

/* The resolved configuration as one JSON object (caller frees). */
char *config_to_json(const struct config *config);

/* Sets one live key of config_zero, budgets, links or slow motion ("zero_optimization.stage", "3"); used by commands. */
int config_set(struct config *config, const char *key, const char *value, struct error *err);

/* Whether a key is honoured and not live: only a new start can change it. */
bool config_restarts(const char *key);
bool config_is_live(const char *key); /* honoured, and can change between two steps */

/* Stores a value by the key's row alone, type and range: whether it is one, not whether it goes with the others. */
int config_try(struct config *config, const char *key, const char *value, struct error *err);

/* Whether a key names a place where a run leaves files: checkpoint.path, flops_profiler.output_file. (Files below nvme_path are
 * unlinked as soon as they are open.) And the first such key that has a value; NULL: none has. */
bool config_is_place(const char *key);
const char *config_place(const struct config *config);

/* Whether setting a key would do anything: not if it belongs to another optimizer or scheduler than the one in force, or if
 * the scheduler goes before it. STATUS_USAGE says why not. */
int config_matters(const struct config *config, const char *key, struct error *err);

/* One key that was given: by "file", "set" or "auto", how it is spelled there, and its value, shortened. */
enum { CONFIG_PATH_MAX = 128 };
struct config_given { char path[CONFIG_PATH_MAX], from[8], spelling[CONFIG_PATH_MAX], value[80]; };

/* Reads the one at *at, which begins as config->given, and goes on to the next; false: there is no more. */
bool config_given_next(const char **at, struct config_given *given);
/* Whether somebody gave it; and from now on what a file gave counts as a default: it stood in for one that nobody gave. */
bool config_is_given(const struct config *config, const char *path);
void config_forget_file(struct config *config);

/* The value of a key as one would type it ("50MB", "100us", "true"), so that it reads back the same. "": no such key. */
void config_show(const struct config *config, const char *key, char *text, size_t room);

/* A key's own path, also where an older spelling was typed. */
void config_path(char path[CONFIG_PATH_MAX], const char *typed);

/* "256MiB", "1.5GB", "5e8" or a number: bytes. */
int config_parse_bytes(const char *text, uint64_t *bytes, struct error *err);

/* TYPE_OF_MODEL has none of its own. */
enum dtype config_dtype(enum type_of type);

/* Built-in model shapes by name (nano, micro, gpt2, gpt2-medium, gpt2-large, gpt2-xl); NULL if unknown. */
const struct config_model *config_model_named(const char *name);

#endif
