/* Reading DeepSpeed files: what is honoured, what is refused and in which words, "auto", the batch triad, live changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/config/command.h"
#include "engine/config/config.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/number.h"

#define BATCH "\"train_micro_batch_size_per_gpu\": 4,"

static char path[] = "/tmp/zerolab-test-config-XXXXXX";

static int setup(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static int load(struct config *config, const char *text, const char *set, struct error *err)
{
    write_file(text, strlen(text));
    return config_load(config, path, &set, set != NULL, err);
}

/* Loads, or fails with the reader's own words. */
static struct config loaded(const char *text, const char *set)
{
    struct config config;
    struct error err;
    if (load(&config, text, set, &err)) fail_msg("%s", err.text);
    return config;
}

/* The text is refused with this status, by a line that has these words in it. */
static void refused(const char *text, const char *set, int status, const char *words)
{
    struct config config;
    struct error err = {.text = ""};
    int got = load(&config, text, set, &err);
    if (got == STATUS_OK) fail_msg("accepted: %s %s", text, set ? set : "");
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strchr(err.text, '\n'));
    assert_non_null(strstr(err.text, path));
    assert_int_equal(got, status);
    assert_int_equal(err.status, status);
}

static void the_default_is_nano(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(config_load(&config, NULL, NULL, 0, NULL), STATUS_OK);
    assert_string_equal(config.model.name, "nano");
    assert_int_equal(config.model.hidden, 128);
    assert_int_equal(config.topology.ranks, 4);
    assert_int_equal(config.micro_batch_size, 4);
    assert_int_equal(config.train_batch_size, 16);
    assert_int_equal(config.data.sequence_length, 64);
    assert_int_equal(config.dtype, DTYPE_F32);
    assert_null(config.notes);
    config_release(&config);
}

static void an_empty_file_has_deepspeeds_defaults(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "}", NULL);
    assert_int_equal(config.zero.stage, 0);
    assert_int_equal(config.zero.reduce_bucket_elems, 500000000);
    assert_int_equal(config.zero.prefetch_bucket_elems, 50000000);
    assert_int_equal(config.zero.max_live_parameters, 1000000000);
    assert_int_equal(config.zero.param_persistence_threshold, 100000);
    assert_true(config.gradient_clipping == 1.0f);
    assert_true(config.optimizer.learning_rate == 1e-3 && config.optimizer.beta2 == 0.999 &&
                config.optimizer.weight_decay == 0);
    assert_int_equal(config.data.sequence_length, config.model.context);
    config_release(&config);
}

static void hjson_is_read(void **state)
{
    (void)state;
    struct config config = loaded("\xef\xbb\xbf{ # a comment\n train_micro_batch_size_per_gpu: 2, // another\n"
                                  " zero_optimization /* and\n one more */ : { \"stage\": 3, },\n optimizer: {params: "
                                  "{betas: [0.5, 0.75,],},},}\n",
                                  NULL);
    assert_int_equal(config.micro_batch_size, 2);
    assert_int_equal(config.zero.stage, 3);
    assert_true(config.optimizer.beta1 == 0.5 && config.optimizer.beta2 == 0.75);
    config_release(&config);
}

static void what_is_not_hjson_names_its_line(void **state)
{
    (void)state;
    refused("{\n" BATCH "\n \"zero_optimization\": {\"stage\" 1}}", NULL, STATUS_INPUT, "line 3");
    refused("{\n\n /* never closed", NULL, STATUS_INPUT, "line 3: comment without end");
    refused("{\n \"a\": \"never closed\n}", NULL, STATUS_INPUT, "line 2: string without end");
    refused("{" BATCH ", }", NULL, STATUS_INPUT, "a comma too many");
    refused("{ \"data\": { \"path\": text } }", NULL, STATUS_INPUT, "double quotes");
    refused("", NULL, STATUS_INPUT, "empty");
    refused("  // only a comment\n", NULL, STATUS_INPUT, "empty");
    refused("{" BATCH "\"bf16\": true}", NULL, STATUS_USAGE, "did you mean bf16.enabled?");
    refused("[1, 2]", NULL, STATUS_INPUT, "not a JSON object");
    refused("{} {}", NULL, STATUS_INPUT, "not JSON");
    refused("{ \"a\": 01 }", NULL, STATUS_INPUT, "01 is neither");
    refused("{ " BATCH " \"train_micro_batch_size_per_gpu\": 4 }", NULL, STATUS_INPUT, "given twice");
    refused("{ \"zero_optimization\": { stage: 1, \"stage\": 2 } }", NULL, STATUS_INPUT, "\"stage\" is given twice");
}

static void a_missing_or_foreign_file_is_input(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(config_load(&config, "/nonexistent/x.json", NULL, 0, &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "/nonexistent/x.json: cannot be opened: No such file"));
    assert_int_equal(config_load(&config, "/", NULL, 0, &err), STATUS_INPUT);
    write_file("{\0}", 3);
    assert_int_equal(config_load(&config, path, NULL, 0, &err), STATUS_INPUT);
}

static void a_typo_is_refused_with_the_nearest_key(void **state)
{
    (void)state;
    refused("{" BATCH "\"zero_optimisation\": {\"stage\": 1}}", NULL, STATUS_USAGE, "did you mean zero_optimization?");
    refused("{" BATCH "\"zero_optimization\": {\"stge\": 1}}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.stage?");
    refused("{" BATCH "\"optimizer\": {\"params\": {\"lrr\": 1}}}", NULL, STATUS_USAGE,
            "did you mean optimizer.params.lr?");
    refused("{" BATCH "\"reduce_bucket_size\": 5}", NULL, STATUS_USAGE,
            "did you mean zero_optimization.reduce_bucket_size?");
    refused("{" BATCH "\"zero_optimization\": {\"grad_hooks\": true}}", NULL, STATUS_USAGE,
            "zero_optimization.grad_hooks: unknown key");
    refused("{" BATCH "\"model\": {\"name\": \"gtp2\"}}", NULL, STATUS_USAGE, "did you mean gpt2?");
    refused("{" BATCH "}", "topology.rank=2", STATUS_USAGE, "did you mean topology.ranks?");
}

static void a_wrong_value_says_what_is_allowed(void **state)
{
    (void)state;
    refused("{" BATCH "\"zero_optimization\": {\"stage\": 4}}", NULL, STATUS_USAGE,
            "zero_optimization.stage = 4: must be an integer 0..3");
    refused("{" BATCH "\"zero_optimization\": {\"stage\": \"two\"}}", NULL, STATUS_USAGE,
            "stage = \"two\": must be an integer");
    refused("{" BATCH "\"zero_optimization\": {\"stage\": 1.5}}", NULL, STATUS_USAGE,
            "stage = 1.5: must be an integer");
    refused("{" BATCH "\"zero_optimization\": 3}", NULL, STATUS_USAGE, "zero_optimization = 3: must be a section");
    refused("{" BATCH "\"bf16\": {\"enabled\": 2}}", NULL, STATUS_USAGE, "bf16.enabled = 2: must be true or false");
    refused("{" BATCH "\"optimizer\": {\"params\": {\"betas\": [0.9, 1.0]}}}", NULL, STATUS_USAGE, "two numbers 0..<1");
    refused("{" BATCH "\"optimizer\": {\"params\": {\"betas\": [0.9]}}}", NULL, STATUS_USAGE, "two numbers");
    refused("{" BATCH "\"memory\": {\"device_budget\": \"256 apples\"}}", NULL, STATUS_USAGE, "256MiB");
    refused("{" BATCH "\"zero_optimization\": {\"reduce_bucket_size\": 1e19}}", NULL, STATUS_USAGE,
            "must be an integer");
    refused("{" BATCH "}", "topology.ranks=65", STATUS_USAGE, "1..64");
    refused("{" BATCH "}", "topology.ranks=0", STATUS_USAGE, "1..64");
    refused("{" BATCH "}", "nothing", STATUS_USAGE, "KEY=VALUE");
}

static void sizes_must_fit_each_other(void **state)
{
    (void)state;
    refused("{" BATCH "}", "model.heads=3", STATUS_USAGE, "must divide model.hidden, which is 128");
    refused("{" BATCH "}", "data.sequence_length=65", STATUS_USAGE, "at most model.context, which is 64");
    refused("{" BATCH "}", "topology.ranks_per_node=3", STATUS_USAGE, "must divide topology.ranks");
    refused("{" BATCH "}", "topology.slow_rank=4", STATUS_USAGE, "ranks 0 to 3");
    refused("{" BATCH "\"fp16\": {\"enabled\": true}}", "bf16.enabled=true", STATUS_USAGE, "give one of them");
    refused("{" BATCH "}", "communication_data_type=int8", STATUS_USAGE, "must be one of model|fp32|fp16|bf16");
    refused("{" BATCH "}", "data_types.grad_accum_dtype=bf16", STATUS_USAGE, "in the model's type, fp32, or in fp32");
    refused("{" BATCH "}", "fp16.loss_scale=true", STATUS_USAGE, "must be a number");
    refused("{" BATCH "}", "fp16.loss_scale_window=0", STATUS_USAGE, "must be an integer >=1");
    refused("{" BATCH "\"data\": {\"synthetic\": true}}", "data.path=x", STATUS_USAGE, "give one of them");
}

static void what_cannot_be_honoured_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "fp16.fp16_master_weights_and_grads=true",
        "zero_optimization.zero_quantized_weights=true",
        "zero_optimization.zero_hpz_partition_size=8",
        "zero_optimization.mics_shard_size=4",
        "optimizer.params.amsgrad=true",
        "scheduler.params.last_batch_iteration=5",
        "amp={\"enabled\": true, \"opt_level\": \"O1\"}",
        "data_types.param_dtype=fp16",
        "bf16.bf16_master_weights_and_grads=true",
        "optimizer.params.max_grad_norm=1.0",
    };
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++)
        refused("{" BATCH "}", sets[s], STATUS_USAGE, "cannot be honoured: ");
}

static void optimizers_have_their_own_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        enum optimizer rule;
        double rate, epsilon;
    } accepted[] = {
        {"optimizer={\"type\": \"Adam\"}", OPTIMIZER_ADAMW, 1e-3, 1e-8},
        {"optimizer={\"type\": \"adam\", \"params\": {\"adam_w_mode\": false}}", OPTIMIZER_ADAM, 1e-3, 1e-8},
        {"optimizer={\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}", OPTIMIZER_ADAMW, 1e-3, 1e-8},
        {"optimizer={\"type\": \"Lion\"}", OPTIMIZER_LION, 1e-3, 1e-8},
        {"optimizer={\"type\": \"Adagrad\"}", OPTIMIZER_ADAGRAD, 1e-2, 1e-10},
        {"optimizer={\"type\": \"Adagrad\", \"params\": {\"lr\": 0.5}}", OPTIMIZER_ADAGRAD, 0.5, 1e-10},
        {"optimizer={\"type\": \"SGD\"}", OPTIMIZER_SGD, 1e-3, 1e-8},
        {"optimizer={\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}}", OPTIMIZER_MOMENTUM, 1e-3, 1e-8},
    };
    for (size_t a = 0; a < sizeof accepted / sizeof *accepted; a++) {
        struct config config = loaded("{" BATCH "}", accepted[a].set);
        assert_int_equal(config.optimizer.rule, accepted[a].rule);
        assert_true(config.optimizer.learning_rate == accepted[a].rate);
        assert_true(config.optimizer.epsilon == accepted[a].epsilon);
        config_release(&config);
    }
    struct config config = loaded("{" BATCH "}", "optimizer={\"params\": {\"torch_adam\": true}}");
    assert_true(config.optimizer.weight_decay == 0.01);
    config_release(&config);
    refused("{" BATCH "}", "optimizer.type=AdamX", STATUS_USAGE, "did you mean Adam");
    refused("{" BATCH "}", "optimizer.type=Lamb", STATUS_USAGE, "the norm of each whole tensor");
    refused("{" BATCH "}", "optimizer.params.momentum=0.9", STATUS_USAGE, "AdamW has no such parameter");
    refused("{" BATCH "}", "optimizer={\"type\": \"SGD\", \"params\": {\"betas\": [0, 0]}}", STATUS_USAGE,
            "optimizer.params.betas: SGD has no such parameter");
    refused("{" BATCH "}", "optimizer={\"type\": \"SGD\", \"params\": {\"nesterov\": true}}", STATUS_USAGE,
            "needs a momentum");
}

static void what_would_do_nothing_is_refused_while_training(void **state)
{
    (void)state;
    struct error err;
    struct config config = loaded("{" BATCH "}", "optimizer.type=SGD"); /* built-in file: betas and eps go */
    assert_int_equal(config_matters(&config, "optimizer.params.lr", &err), STATUS_OK);
    assert_int_equal(config_matters(&config, "optimizer.params.betas", &err), STATUS_USAGE);
    assert_int_equal(config_matters(&config, "scheduler.params.warmup_min_lr", &err), STATUS_USAGE);
    config_release(&config);
    config = loaded("{" BATCH
                    "\"optimizer\": {\"params\": {\"eps\": 1, \"lr\": 5}}, \"scheduler\": {\"type\": \"WarmupLR\"}}",
                    "optimizer.type=Lion");
    assert_true(config.optimizer.learning_rate == 5);
    assert_non_null(strstr(config.notes, "optimizer.params.eps: left out, Lion has no such parameter\n"));
    assert_int_equal(config_matters(&config, "scheduler.params.warmup_min_lr", &err), STATUS_OK);
    assert_int_equal(config_matters(&config, "scheduler.params.cycle_min_lr", &err), STATUS_USAGE);
    assert_int_equal(config_matters(&config, "optimizer.params.lr", &err), STATUS_USAGE);
    config_release(&config);
}

static void schedules_have_their_own_parameters(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": "
                                  "\"auto\", \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": \"auto\"}}}",
                                  NULL);
    assert_int_equal(config.scheduler.kind, SCHEDULER_WARMUP);
    assert_true(config.scheduler.warmup_max_lr == 5e-5 && config.scheduler.warmup_steps == 2);
    config_release(&config);
    config =
        loaded("{" BATCH "\"optimizer\": {\"params\": {\"lr\": 0.25}}, \"scheduler\": {\"type\": \"WarmupLR\"}}", NULL);
    assert_true(config.scheduler.warmup_max_lr == 0.25);
    config_release(&config);
    config = loaded("{" BATCH
                    "\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1, \"cycle_max_lr\": 2, "
                    "\"cycle_first_step_size\": 7, \"cycle_first_stair_count\": 3}}}",
                    NULL);
    assert_int_equal(config.scheduler.cycle_second_steps, 7);
    assert_int_equal(config.scheduler.cycle_second_stairs, 3);
    config_release(&config);
    refused("{" BATCH "}", "scheduler.type=WarmupLr", STATUS_USAGE, "did you mean WarmupLR?");
    refused("{" BATCH "}", "scheduler.type=WarmupDecayLR", STATUS_USAGE,
            "total_num_steps: not given; WarmupDecayLR needs it");
    refused("{" BATCH "}", "scheduler.params.cos_min_ratio=0.5", STATUS_USAGE, "scheduler.type is not given");
    refused("{" BATCH "}", "scheduler={\"type\": \"WarmupLR\", \"params\": {\"cos_min_ratio\": 1}}", STATUS_USAGE,
            "WarmupLR has no such parameter");
    refused("{" BATCH "}", "scheduler={\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": \"auto\"}}",
            STATUS_USAGE, "the trainer's number of steps");
}

static void offload_is_as_in_deepspeed(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"zero_optimization\": {\"stage\": 3, \"cpu_offload\": true, "
                                  "\"cpu_offload_param\": true, \"cpu_offload_use_pin_memory\": true}}",
                                  NULL);
    assert_true(config.zero.offload_optimizer == OFFLOAD_CPU && config.zero.offload_param == OFFLOAD_CPU);
    if (config.notes) fail_msg("%s", config.notes);
    struct error err;
    assert_int_equal(config_set(&config, "zero_optimization.offload_param.device", "none", &err), 0);
    assert_int_equal(config_set(&config, "zero_optimization.stage", "2", &err), 0);
    assert_int_equal(config_set(&config, "zero_optimization.stage", "0", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "stage 0 does not shard"));
    assert_int_equal(config.zero.stage, 2);
    config_release(&config);
    refused("{" BATCH "\"zero_optimization\": {\"stage\": 2}}", "zero_optimization.offload_param.device=cpu",
            STATUS_USAGE, "use stage 3, or device \"none\"");
    refused("{" BATCH "}", "zero_optimization.offload_optimizer.device=cpu", STATUS_USAGE, "use stage 1, 2 or 3");
    refused("{" BATCH "\"zero_optimization\": {\"stage\": 3}}", "zero_optimization.offload_param.device=nvme",
            STATUS_USAGE, "device");
    refused("{" BATCH "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}}",
            "zero_optimization.cpu_offload=true", STATUS_USAGE, "give one of them");
}

static void what_needs_offload_is_said_to_have_no_effect(void **state)
{
    (void)state;
    struct config config = loaded(
        "{" BATCH "\"memory\": {\"nvme_budget\": 5}, \"topology\": {\"links\": {\"pcie\": {\"bandwidth\": \"2GB\"}}}}",
        NULL);
    assert_string_equal(config.notes,
                        "memory.nvme_budget: accepted, no effect here: nothing is offloaded\n"
                        "topology.links.pcie.bandwidth: accepted, no effect here: nothing is offloaded\n");
    config_release(&config);
}

static void the_same_features_switched_off_are_accepted_in_silence(void **state)
{
    (void)state;
    struct config config = loaded(
        "{" BATCH "\"fp16\": {\"enabled\": false, \"loss_scale\": 0, \"initial_scale_power\": 16}, \"scheduler\": null,"
        "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"none\", \"pin_memory\": true}, "
        "\"offload_param\": null, \"zero_hpz_partition_size\": 1,"
        "\"mics_shard_size\": -1, \"contiguous_gradients\": true, \"stage3_model_persistence_threshold\": "
        "9223372036854775807},"
        "\"optimizer\": {\"type\": \"Adam\"}, \"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}, "
        "\"gradient_predivide_factor\": 1.0,"
        "\"aio\": {\"block_size\": 1048576, \"thread_count\": 1}, \"tensorboard\": {\"enabled\": false, \"job_name\": "
        "\"x\"}}",
        NULL);
    if (config.notes) fail_msg("%s", config.notes);
    config_release(&config);
}

static void what_has_no_effect_is_said_once(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"log_level\": \"info\", \"zero_optimization\": "
                                  "{\"round_robin_gradients\": true}, \"wandb\": {\"team\": \"x\"}}",
                                  NULL);
    assert_string_equal(config.notes,
                        "log_level: accepted, no effect here: messages have no levels\n"
                        "zero_optimization.round_robin_gradients: accepted, no effect here: every unit is cut "
                        "into equal shards, so backward never leaves one rank to receive alone\n"
                        "wandb: accepted, no effect here: metrics go to --report and the trace\n");
    config_release(&config);
}

static void other_spellings_mean_the_same(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"zero_optimization\": {\"prefetch_bucket_size\": 7, "
                                  "\"max_live_parameters\": 8}, \"bfloat16\": {\"enabled\": true}}",
                                  NULL);
    assert_int_equal(config.zero.prefetch_bucket_elems, 7);
    assert_int_equal(config.zero.max_live_parameters, 8);
    assert_int_equal(config.dtype, DTYPE_BF16);
    config_release(&config);
    config = loaded("{" BATCH "\"zero_optimization\": {\"prefetch_bucket_size\": 7}}",
                    "zero_optimization.stage3_prefetch_bucket_size=9");
    assert_int_equal(config.zero.prefetch_bucket_elems, 9);
    config_release(&config);
    config = loaded("{" BATCH "}", "bfloat16.enabled=true");
    assert_int_equal(config.dtype, DTYPE_BF16);
    config_release(&config);
    config = loaded("{" BATCH "\"zero_optimization\": true}", NULL);
    assert_int_equal(config.zero.stage, 1);
    config_release(&config);
    refused("{" BATCH "\"zero_optimization\": {\"prefetch_bucket_size\": 7, \"stage3_prefetch_bucket_size\": 7}}", NULL,
            STATUS_USAGE, "means the same");
}

static void overlap_follows_the_stage_unless_given(void **state)
{
    (void)state;
    for (int stage = 0; stage <= 3; stage++) {
        char set[64];
        snprintf(set, sizeof set, "zero_optimization.stage=%d", stage);
        struct config config = loaded("{" BATCH "\"zero_optimization\": {\"overlap_comm\": null}}", set);
        assert_int_equal(config.zero.overlap_comm, stage == 3);
        assert_int_equal(config_set(&config, "zero_optimization.stage", stage == 3 ? "0" : "3", NULL), STATUS_OK);
        assert_int_equal(config.zero.overlap_comm, stage != 3);
        config_release(&config);
        config = loaded("{" BATCH "\"zero_optimization\": {\"overlap_comm\": false}}", set);
        assert_false(config.zero.overlap_comm);
        assert_int_equal(config_set(&config, "zero_optimization.stage", "3", NULL), STATUS_OK);
        assert_false(config.zero.overlap_comm);
        config_release(&config);
    }
}

static void auto_is_what_hugging_face_puts_in(void **state)
{
    (void)state;
    struct config config = loaded("{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
                                  "\"gradient_accumulation_steps\": \"auto\","
                                  "\"gradient_clipping\": \"auto\", \"fp16\": {\"enabled\": \"auto\"}, \"bf16\": "
                                  "{\"enabled\": \"auto\"}, \"optimizer\": {\"type\": \"AdamW\","
                                  "\"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": \"auto\", "
                                  "\"weight_decay\": \"auto\"}}, \"zero_optimization\": {\"stage\": 3,"
                                  "\"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\", "
                                  "\"stage3_param_persistence_threshold\": \"auto\"}}",
                                  "model.hidden=132");
    assert_int_equal(config.zero.reduce_bucket_elems, 132 * 132);
    assert_int_equal(config.zero.prefetch_bucket_elems, 15681); /* 0.9 * 17424 = 15681.6 */
    assert_int_equal(config.zero.param_persistence_threshold, 1320);
    assert_int_equal(config.train_batch_size, 32);
    assert_int_equal(config.micro_batch_size, 8);
    assert_int_equal(config.accumulation_steps, 1);
    assert_true(config.optimizer.learning_rate == 5e-5);
    assert_int_equal(config.dtype, DTYPE_F32);
    assert_non_null(strstr(config.notes,
                           "zero_optimization.stage3_prefetch_bucket_size: \"auto\" is 15681 (0.9*h*h, h = hidden)\n"));
    config_release(&config);
}

static void the_batch_triad(void **state)
{
    (void)state;
    static const struct {
        int T, m, g, ranks, want_T, want_m, want_g;
    } cases[] = {
        {32, 4, 2, 4, 32, 4, 2}, {32, 4, 0, 4, 32, 4, 2}, {32, 0, 2, 4, 32, 4, 2}, {0, 4, 2, 4, 32, 4, 2},
        {32, 0, 0, 4, 32, 8, 1}, {0, 4, 0, 4, 16, 4, 1},  {33, 4, 2, 4, 0, 0, 0},  {33, 4, 0, 4, 0, 0, 0},
        {33, 0, 2, 4, 0, 0, 0},  {33, 0, 0, 4, 0, 0, 0},  {0, 0, 2, 4, 0, 0, 0},   {0, 0, 0, 4, 0, 0, 0},
        {3, 0, 0, 4, 0, 0, 0},   {9, 0, 0, 3, 9, 3, 1},   {2, 4, 0, 1, 0, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[256] = "{", *end = text + 1;
        if (cases[c].T) end += sprintf(end, "\"train_batch_size\": %d,", cases[c].T);
        if (cases[c].m) end += sprintf(end, "\"train_micro_batch_size_per_gpu\": %d,", cases[c].m);
        if (cases[c].g) end += sprintf(end, "\"gradient_accumulation_steps\": %d,", cases[c].g);
        sprintf(end, "\"topology\": {\"ranks\": %d}}", cases[c].ranks);
        if (cases[c].want_T == 0) {
            refused(text, NULL, STATUS_USAGE, "batch");
            continue;
        }
        struct config config = loaded(text, NULL);
        assert_int_equal(config.train_batch_size, cases[c].want_T);
        assert_int_equal(config.micro_batch_size, cases[c].want_m);
        assert_int_equal(config.accumulation_steps, cases[c].want_g);
        config_release(&config);
    }
}

static void integers_are_exact_past_2_to_53(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"zero_optimization\": {\"stage3_max_live_parameters\": 9007199254740993, "
                                  "\"stage3_max_reuse_distance\": 9223372036854775807,"
                                  "\"reduce_bucket_size\": 5e8}, \"data\": {\"seed\": 18446744073709551615}}",
                                  "zero_optimization.allgather_bucket_size=1.5e3");
    assert_true(config.zero.max_live_parameters == 9007199254740993);
    assert_true(config.zero.max_reuse_distance == INT64_MAX);
    assert_true(config.zero.reduce_bucket_elems == 500000000);
    assert_true(config.zero.allgather_bucket_elems == 1500);
    assert_true(config.data.seed == UINT64_MAX);
    config_release(&config);
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t magnitude;
    } integers[] = {
        {"0", true, 0},
        {"-7", true, 7},
        {"5e8", true, 500000000},
        {"1.25e2", true, 125},
        {"1.25e1", false, 0},
        {"1200e-2", true, 12},
        {"0e999999999", true, 0},
        {"1e-1", false, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", false, 0},
        {"1e20", false, 0},
        {"0.000", true, 0},
        {"1e99999999999999999999", false, 0},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        bool negative;
        uint64_t magnitude;
        assert_int_equal(number_length(integers[i].text), strlen(integers[i].text));
        assert_int_equal(number_integer(integers[i].text, &negative, &magnitude), integers[i].good);
        if (integers[i].good) assert_true(magnitude == integers[i].magnitude);
    }
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {
        {"256MiB", 268435456},
        {"1.5GB", 1500000000},
        {"5e8", 500000000},
        {"1024", 1024},
        {"2 KiB", 2048},
        {"0", 0},
        {"7b", 7},
        {"18446744073709551615", UINT64_MAX},
        {"0.5KiB", 512},
    };
    uint64_t bytes;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(config_parse_bytes(sizes[i].text, &bytes, NULL), STATUS_OK);
        assert_true(bytes == sizes[i].bytes);
    }
    static const char *const bad[] = {"",    "MiB", "-1",  "1e30",     "0x10",
                                      "nan", "inf", "1 2", "3 apples", "18446744073709551615KB"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(config_parse_bytes(bad[i], &bytes, NULL), STATUS_USAGE);
    double seconds;
    assert_true(number_seconds("20us", &seconds) && seconds == 20 * 1e-6);
    assert_false(number_seconds("-1", &seconds));
}

static void every_honoured_key_survives_a_round_trip(void **state)
{
    (void)state;
    static const char *const sets[] = {"model.name=gpt2",
                                       "model.vocabulary=50304",
                                       "zero_optimization.stage=2",
                                       "memory.device_budget=256MiB",
                                       "topology.links.inter.bandwidth=2GB",
                                       "topology.links.inter.latency=20us",
                                       "topology.ranks_as=threads",
                                       "data.path=/some/\"odd\"\tpath",
                                       "bf16.enabled=true",
                                       "optimizer.params.lr=3e-4",
                                       "scheduler.type=WarmupDecayLR",
                                       "scheduler.params.total_num_steps=5000000000",
                                       "data.seed=18446744073709551615",
                                       "data.validation_fraction=0.05",
                                       "topology.slow_rank=2"};
    struct config first, second;
    struct error err;
    if (config_load(&first, NULL, sets, sizeof sets / sizeof *sets, &err)) fail_msg("%s", err.text);
    char *text = config_to_json(&first);
    assert_non_null(text);
    second = loaded(text, NULL);
    char *again = config_to_json(&second);
    assert_string_equal(text, again);
    assert_string_equal(second.model.name, "custom");
    assert_int_equal(second.budget_bytes[TIER_DEVICE], 268435456);
    assert_int_equal(second.topology.ranks_as, RANKS_AS_THREADS);
    assert_string_equal(second.data.path, "/some/\"odd\"\tpath");
    assert_non_null(strstr(text, "\"lr\":0.0003"));
    free(text), free(again);
    config_release(&first), config_release(&second);
}

static void shown(const struct config *config, const char *key, const char *expected)
{
    char text[64];
    config_show(config, key, text, sizeof text);
    assert_string_equal(text, expected);
}

static void values_are_shown_as_one_types_them(void **state)
{
    (void)state;
    struct config config, again;
    char text[64], own[CONFIG_PATH_MAX];
    const char *sets[] = {"topology.links.intra.bandwidth=50MB", "topology.links.intra.latency=1e-4",
                          "memory.device_budget=256MiB", "topology.slow_motion=2.5"};
    assert_int_equal(config_load(&config, NULL, sets, 4, NULL), STATUS_OK);
    assert_int_equal(config_load(&again, NULL, NULL, 0, NULL), STATUS_OK);
    shown(&config, "topology.links.intra.bandwidth", "50MB");
    shown(&config, "topology.links.intra.latency", "100us");
    shown(&config, "topology.links.inter.latency", "0");
    shown(&config, "memory.device_budget", "256MiB");
    shown(&config, "topology.slow_motion", "2.5");
    shown(&config, "zero_optimization.overlap_comm", "false");
    shown(&config, "optimizer.params.betas", "[0.9, 0.95]");
    shown(&config, "zero_optimization.prefetch_bucket_size", "198272"); /* an alias */
    shown(&config, "no.such_key", "");
    config_path(own, "zero_optimization.prefetch_bucket_size");
    assert_string_equal(own, "zero_optimization.stage3_prefetch_bucket_size");
    for (int k = 0; k < config_key_count; k++) { /* and every live one reads back as it is */
        if (config_keys[k].class != CLASS_HONOURED || !config_keys[k].live) continue;
        config_show(&config, config_keys[k].path, text, sizeof text);
        assert_int_equal(config_set(&again, config_keys[k].path, text, NULL), STATUS_OK);
        shown(&again, config_keys[k].path, text);
    }
    config_release(&config), config_release(&again);
}

static void live_keys_change_and_others_do_not(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    assert_int_equal(config_load(&config, NULL, NULL, 0, NULL), STATUS_OK);
    assert_int_equal(config_set(&config, "zero_optimization.reduce_bucket_size", "5e5", &err), STATUS_OK);
    assert_int_equal(config.zero.reduce_bucket_elems, 500000);
    assert_int_equal(config_set(&config, "memory.device_budget", "1GiB", &err), STATUS_OK);
    assert_int_equal(config.budget_bytes[TIER_DEVICE], 1 << 30);
    assert_int_equal(config_set(&config, "topology.ranks", "2", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "start again with --set topology.ranks=2"));
    assert_int_equal(config_set(&config, "zero_optimization.stage", "7", &err), STATUS_USAGE);
    assert_int_equal(config.zero.stage, 0);
    assert_int_equal(config_set(&config, "zero_optimization.stag", "1", &err), STATUS_USAGE);
    assert_int_equal(config_set(&config, "topology.slow_rank", "9", &err), STATUS_USAGE);
    assert_int_equal(config.topology.slow_rank, -1);
    config_release(&config);
}

static void the_table_is_sound(void **state)
{
    (void)state;
    for (int k = 0; k < config_key_count; k++) {
        assert_int_equal(key_index(config_keys[k].path), k); /* no path twice */
        assert_true(strlen(config_keys[k].path) < 64);
        if (config_keys[k].class == CLASS_ALIAS) {
            int target = key_index(config_keys[k].value);
            assert_true(target < 0 ? key_is_section(config_keys[k].value) : config_keys[target].class != CLASS_ALIAS);
        }
        if (config_keys[k].class == CLASS_HONOURED && config_keys[k].type == KEY_INT)
            assert_true(config_keys[k].range[0] != '\0');
    }
}

/* The tables of configs/README.md, made from config_keys.def. */
static void print_keys(FILE *out)
{
    fprintf(out, "| honoured | default | allowed | live | |\n|---|---|---|---|---|\n");
    for (int k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        if (key->class != CLASS_HONOURED) continue;
        bool from_others = strcmp(key->value, "0") == 0 && (key->range[0] == '1' || strcmp(key->range, ">=1") == 0);
        fprintf(out, "| `%s` | %s | ", key->path, from_others ? "" : key->value);
        for (const char *c = key->range; *c; c++) fprintf(out, *c == '|' ? ", " : "%c", *c);
        fprintf(out, " | %s | %s |\n", key->live ? "live" : "", key->text);
    }
    fprintf(out, "\n| refused, except as | | because |\n|---|---|---|\n");
    for (int k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        bool one_value = key->class == CLASS_FIXED && strcmp(key->value, "off") != 0;
        if (key->class == CLASS_FIXED || key->class == CLASS_SWITCH)
            fprintf(out, "| `%s` | %.*s | %s |\n", key->path, one_value ? (int)strcspn(key->value, "|") : 3,
                    one_value ? key->value : "off", key->text);
    }
    fprintf(out, "\n| accepted, no effect here | because |\n|---|---|\n");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_INERT || config_keys[k].class == CLASS_OPAQUE)
            fprintf(out, "| `%s` | %s |\n", config_keys[k].path, config_keys[k].text);
    fprintf(out, "\n| other spelling | of |\n|---|---|\n");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_ALIAS)
            fprintf(out, "| `%s` | `%s` |\n", config_keys[k].path, config_keys[k].value);
    fprintf(out, "\nDetails of features that are off are accepted in silence:");
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_QUIET) fprintf(out, " `%s`", config_keys[k].path);
    fprintf(out, ".\n");
}

static char *read_whole(const char *file_name)
{
    static char text[1 << 17];
    FILE *file = fopen(file_name, "rb");
    if (!file) fail_msg("%s: not found; tests run from the project's folder", file_name);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void the_readme_lists_every_key(void **state)
{
    (void)state;
    static const char begin[] = "ACCEPT=1 make test -->\n", end[] = "<!-- end -->";
    char *made = NULL, *text = read_whole("configs/README.md");
    size_t length;
    FILE *out = open_memstream(&made, &length);
    print_keys(out);
    fclose(out);
    char *first = strstr(text, begin), *last = strstr(text, end);
    assert_non_null(first);
    assert_non_null(last);
    first += sizeof begin - 1;
    bool same = (size_t)(last - first) == length && memcmp(first, made, length) == 0;
    if (!same && getenv("ACCEPT")) {
        FILE *file = fopen("configs/README.md", "wb");
        assert_non_null(file);
        fprintf(file, "%.*s%s%s", (int)(first - text), text, made, last);
        fclose(file);
        same = true;
    }
    free(made);
    if (!same) fail_msg("configs/README.md does not match config_keys.def; ACCEPT=1 make test writes it anew");
}

static void every_config_of_ours_loads(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int stage;
        const char *model;
    } files[] = {
        {"configs/nano.json", 0, "nano"},          {"configs/nano-stage1.json", 1, "nano"},
        {"configs/nano-stage2.json", 2, "nano"},   {"configs/nano-stage3.json", 3, "nano"},
        {"configs/nano-paced.json", 3, "nano"},    {"configs/nano-fp16.json", 2, "nano"},
        {"configs/nano-onecycle.json", 1, "nano"}, {"configs/micro.json", 1, "micro"},
        {"configs/gpt2.json", 3, "gpt2"},          {"configs/gpt2-bf16.json", 3, "gpt2"},
        {"configs/auto.json", 3, "nano"},
    };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct config config;
        struct error err;
        if (config_load(&config, files[f].file, NULL, 0, &err)) fail_msg("%s", err.text);
        assert_int_equal(config.zero.stage, files[f].stage);
        assert_string_equal(config.model.name, files[f].model);
        assert_int_equal(config.topology.ranks, 4);
        int64_t h = config.model.hidden, block = 12 * h * h + 13 * h;
        if (strcmp(files[f].file, "configs/auto.json") != 0)
            assert_true(config.zero.reduce_bucket_elems == block && config.zero.prefetch_bucket_elems == block);
        config_release(&config);
    }
}

static void commands_are_read_and_written_back(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "stage=3",    "pause",    "resume", "toggle",        "step",
        "sample=200", "validate", "stop",   "budget=256MiB", "set zero_optimization.reduce_bucket_size=5e5"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct command command;
        struct error err;
        char line[300];
        if (command_parse(&command, lines[i], &err)) fail_msg("%s", err.text);
        command_format(&command, line, sizeof line);
        assert_string_equal(line, lines[i]);
    }
}

static void bad_commands_are_one_clear_line(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"stag=3", "did you mean stage?"},
        {"stage=4", "must be 0, 1, 2 or 3"},
        {"stage", "needs an argument"},
        {"pause=1", "takes no argument"},
        {"", "empty"},
        {"xyzzy", "there are stage=N"},
        {"set", "needs an argument"},
        {"set a", "KEY=VALUE"},
        {"sample=0", "number from 1"},
        {"set zero_optimization.stge=1", "did you mean"},
        {"set model.name=micro", "cannot change while"},
        {"budget=lots", "not a size"},
        {"sample=12x", "number from 1"},
    };
    struct command command;
    struct error err;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_equal(command_parse(&command, cases[c].line, &err), STATUS_USAGE);
        if (!strstr(err.text, cases[c].words)) fail_msg("\"%s\" lacks \"%s\"", err.text, cases[c].words);
    }
    char long_line[1000];
    memset(long_line, 'x', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = '\0';
    assert_int_equal(command_parse(&command, long_line, &err), STATUS_USAGE);
}

static void at_takes_a_step_or_oom(void **state)
{
    (void)state;
    struct command command;
    int64_t step;
    struct error err;
    assert_int_equal(command_parse_at("5:stage=1", &step, &command, &err), STATUS_OK);
    assert_int_equal(step, 5);
    assert_string_equal(command.value, "1");
    assert_int_equal(command_parse_at("oom:set zero_optimization.stage=3", &step, &command, &err), STATUS_OK);
    assert_int_equal(step, -1);
    static const char *const bad[] = {"stage=1", "x:stage=1", "0:stage=1", "-1:pause", "5:stag=1", ":pause", "5:"};
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
        assert_int_equal(command_parse_at(bad[b], &step, &command, &err), STATUS_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_nano),
        cmocka_unit_test(an_empty_file_has_deepspeeds_defaults),
        cmocka_unit_test(hjson_is_read),
        cmocka_unit_test(what_is_not_hjson_names_its_line),
        cmocka_unit_test(a_missing_or_foreign_file_is_input),
        cmocka_unit_test(a_typo_is_refused_with_the_nearest_key),
        cmocka_unit_test(a_wrong_value_says_what_is_allowed),
        cmocka_unit_test(sizes_must_fit_each_other),
        cmocka_unit_test(what_cannot_be_honoured_is_refused_by_name),
        cmocka_unit_test(optimizers_have_their_own_parameters),
        cmocka_unit_test(what_would_do_nothing_is_refused_while_training),
        cmocka_unit_test(schedules_have_their_own_parameters),
        cmocka_unit_test(offload_is_as_in_deepspeed),
        cmocka_unit_test(what_needs_offload_is_said_to_have_no_effect),
        cmocka_unit_test(the_same_features_switched_off_are_accepted_in_silence),
        cmocka_unit_test(what_has_no_effect_is_said_once),
        cmocka_unit_test(other_spellings_mean_the_same),
        cmocka_unit_test(overlap_follows_the_stage_unless_given),
        cmocka_unit_test(auto_is_what_hugging_face_puts_in),
        cmocka_unit_test(the_batch_triad),
        cmocka_unit_test(integers_are_exact_past_2_to_53),
        cmocka_unit_test(numbers),
        cmocka_unit_test(every_honoured_key_survives_a_round_trip),
        cmocka_unit_test(values_are_shown_as_one_types_them),
        cmocka_unit_test(live_keys_change_and_others_do_not),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(the_readme_lists_every_key),
        cmocka_unit_test(every_config_of_ours_loads),
        cmocka_unit_test(commands_are_read_and_written_back),
        cmocka_unit_test(bad_commands_are_one_clear_line),
        cmocka_unit_test(at_takes_a_step_or_oom),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
