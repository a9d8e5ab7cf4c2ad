/* Reading DeepSpeed files: what is honoured, what has no effect and what is refused, in which words; other spellings, "auto",
 * the batch triad, numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/config/config.h"
#include "engine/config/hjson.h"
#include "engine/config/keys.h"
#include "engine/config/number.h"
#include "engine/plan/setup.h"
#include "tests/support/config_fixture.h"

static void the_default_is_teach(void **state)
{
    (void)state;
    struct config config;
    assert_int_equal(config_load(&config, NULL, NULL, 0, NULL), STATUS_OK);
    assert_string_equal(config.model.name, "teach");
    assert_int_equal(config.model.hidden, 224);
    assert_int_equal(config.topology.ranks, 4);
    assert_int_equal(config.train_batch_size, 4);
    assert_int_equal(config.data.sequence_length, 32);
    assert_int_equal(config.dtype, DTYPE_BF16);
    assert_null(config.notes);
    config_release(&config);
}

/* What is built in is the text of the file, with its comments. */
static void built_in_is_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text;
    } files[] = {{"configs/teach.json", config_default}, {"configs/nano.json", config_nano}};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *text;
        assert_int_equal(config_read(&text, files[f].path, NULL), STATUS_OK);
        assert_string_equal(text, files[f].text);
        free(text);
    }
}

/* The default shows 16, 7, 5.5 and 4 bytes of model state a parameter, and a block in a bucket and in a prefetch. */
static void the_default_shards_16_bytes(void **state)
{
    (void)state;
    static const double bytes[] = {16, 7, 5.5, 4};
    for (int stage = 0; stage < 4; stage++) {
        struct config config;
        struct setup setup;
        char set[48];
        const char *const sets[] = {set};
        snprintf(set, sizeof set, "zero_optimization.stage=%d", stage);
        assert_int_equal(config_load(&config, NULL, sets, 1, NULL), STATUS_OK);
        assert_int_equal(setup_init(&setup, &config, NULL), STATUS_OK);
        const struct footprint *needs = &setup.footprint;
        const double resting = (double)needs->resting_bytes[TIER_DEVICE] / (double)setup.model.elems;
        assert_true(fabs(resting - bytes[stage]) < 0.005);
        assert_true((double)needs->peak_bytes[TIER_DEVICE] < (resting + 3) * (double)setup.model.elems);
        assert_int_equal(config.zero.prefetch_bucket_elems, model_block_elems(&setup.model));
        assert_int_equal(config.zero.reduce_bucket_elems, model_block_elems(&setup.model));
        setup_release(&setup);
        config_release(&config);
    }
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
    config =
        loaded("{ 'train_batch_size': 8\n zero_optimization: { stage: 2 // two\n reduce_bucket_size: 5e8\n }\n data: "
               "{path: 'a \"quoted\" name\\'s'}\n optimizer: {params: {betas: [0.5\n 0.75]\n lr: 1}}\n}",
               NULL);
    assert_int_equal(config.zero.stage, 2);
    assert_true(config.optimizer.beta2 == 0.75 && config.optimizer.learning_rate == 1);
    assert_string_equal(config.data.path, "a \"quoted\" name's");
    config_release(&config);
}

/* A live switch says which other keys it changed: those that nobody gave and whose default depends on the stage. */
static void a_default_that_follows_the_stage_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *stage, *also;
    } cases[] = {
        {"{" BATCH "\"bf16\": {}}", "3", "overlap_comm true (default)"},
        {"{" BATCH "\"bf16\": {}}", "2", ""},
        {"{" BATCH "\"zero_optimization\": {\"overlap_comm\": false}}", "3", ""},
        {"{" BATCH "\"zero_optimization\": {\"stage\": 3}}", "1", "overlap_comm false (default)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config = loaded(cases[i].text, NULL), changed = config;
        char also[128];
        assert_int_equal(config_set(&changed, "zero_optimization.stage", cases[i].stage, NULL), STATUS_OK);
        config_followed(&config, &changed, "zero_optimization.stage", also, sizeof also);
        assert_string_equal(also, cases[i].also);
        config_release(&config);
    }
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
    refused("{\"a\": 1 \"b\": 2}", NULL, STATUS_INPUT, "line 1: not JSON");
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
    assert_int_equal(config_load(&config, file_path, NULL, 0, &err), STATUS_INPUT);
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
    refused("{" BATCH "}", "topology.ranks=65537", STATUS_USAGE, "1..65536");
    refused("{" BATCH "}", "topology.ranks=0", STATUS_USAGE, "1..65536");
    refused("{" BATCH "}", "nothing", STATUS_USAGE, "KEY=VALUE");
}

static void sizes_must_fit_each_other(void **state)
{
    (void)state;
    refused("{" BATCH "}", "model.heads=3", STATUS_USAGE, "must divide model.hidden, which is 128");
    refused("{" BATCH "}", "data.sequence_length=65", STATUS_USAGE, "at most model.context, which is 64");
    refused("{" BATCH "}", "topology.ranks_per_node=3", STATUS_USAGE, "must divide topology.ranks");
    refused("{" BATCH "\"topology\": {\"backend\": \"cuda\"}}", "zero_optimization.mics_hierarchical_params_gather=true",
            STATUS_USAGE, "mics_hierarchical_params_gather = true: collectives of a part of the ranks are not implemented");
    refused("{" BATCH "}", "topology.slow_rank=4", STATUS_USAGE, "ranks 0 to 3");
    refused("{" BATCH "\"fp16\": {\"enabled\": true}}", "bf16.enabled=true", STATUS_USAGE, "give one of them");
    refused("{" BATCH "}", "communication_data_type=int8", STATUS_USAGE, "must be one of model|fp32|fp16|bf16");
    refused("{" BATCH "}", "data_types.grad_accum_dtype=bf16", STATUS_USAGE, "in the model's type, fp32, or in fp32");
    refused("{" BATCH "}", "fp16.loss_scale=true", STATUS_USAGE, "must be a number");
    refused("{" BATCH "}", "fp16.loss_scale_window=0", STATUS_USAGE, "must be an integer >=1");
    refused("{" BATCH "\"data\": {\"synthetic\": true}}", "data.path=x", STATUS_USAGE, "give one of them");
}

static void batches_that_do_not_go_together_say_which_would(void **state)
{
    (void)state;
    refused("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 8}", NULL, STATUS_USAGE,
            "train_batch_size 8 must be a multiple of 4 ranks x micro-batch 8: 32 would do, or -n 1");
    refused("{\"train_batch_size\": 10}", NULL, STATUS_USAGE,
            "train_batch_size 10 must be a multiple of 4 ranks: 8 or 12 would do, or -n 1");
    refused("{\"train_batch_size\": 9, \"gradient_accumulation_steps\": 2}", NULL, STATUS_USAGE,
            "train_batch_size 9 must be a multiple of 4 ranks x accumulation 2: 8 or 16 would do");
    refused("{\"train_batch_size\": 9, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2}",
            NULL, STATUS_USAGE,
            "train_batch_size 9 is not 4 ranks x micro-batch 2 x accumulation 2 = 16; give 16, or leave");
}

static void the_end_of_a_key_is_enough_where_it_means_one(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "}", "reduce_bucket_size=4096");
    assert_int_equal(config.zero.reduce_bucket_elems, 4096);
    config_release(&config);
    refused("{" BATCH "}", "device=cpu", STATUS_USAGE, "device: unknown key; did you mean ");
}

static void a_section_without_its_switch_is_said(void **state)
{
    (void)state;
    struct config config = loaded("{" BATCH "\"tensor_parallel\": {\"tp_size\": 2}}", NULL);
    assert_non_null(strstr(config.notes, "tensor_parallel: accepted, no effect here without its `enabled`: ranks are"));
    config_release(&config);
}

static void what_cannot_be_honoured_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "fp16.fp16_master_weights_and_grads=true",
        "zero_optimization.zero_quantized_nontrainable_weights=true",
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
            STATUS_USAGE, "needs nvme_path, a folder");
    refused("{" BATCH "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"nvme_path\": \"/tmp\"}}}",
            "zero_optimization.offload_optimizer.device=nvme", STATUS_USAGE, "needs stage 3; at stage 2 use \"cpu\"");
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
    refused("{" BATCH "\"zero_optimization\": {\"stage3_gather_fp16_weights_on_model_save\": true, "
            "\"gather_16bit_weights_on_model_save\": true}}",
            NULL, STATUS_USAGE, "means the same");
    refused("{" BATCH "\"bfloat16\": {}, \"bf16\": {}}", NULL, STATUS_USAGE, "bf16 means the same");
    config = loaded("{" BATCH "\"zero_optimization\": false, \"bf16\": {\"enabled\": 1}}", NULL);
    assert_int_equal(config.zero.stage, 0);
    assert_int_equal(config.dtype, DTYPE_BF16);
    config_release(&config);
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

static void auto_without_the_others(void **state)
{
    (void)state;
    struct config config = loaded("{\"train_batch_size\": \"auto\", \"bf16\": {\"loss_scale\": \"auto\"}}", NULL);
    assert_int_equal(config.train_batch_size, 32);
    assert_string_equal(config.notes, "train_batch_size: \"auto\" is 32 (micro-batch 8 x accumulation 1 x 4 ranks)\n");
    config_release(&config);
    config = loaded("{" BATCH "\"train_batch_size\": \"auto\", \"zero_optimization\": {\"sub_group_size\": \"auto\"}}",
                    NULL);
    assert_int_equal(config.train_batch_size, 16);
    assert_int_equal(config.zero.sub_group_elems, 1000000000);
    assert_non_null(strstr(config.notes, "zero_optimization.sub_group_size: \"auto\" leaves the default, 1e9\n"));
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
        {33, 0, 2, 4, 0, 0, 0},  {33, 0, 0, 4, 0, 0, 0},  {0, 0, 2, 4, 32, 4, 2},  {0, 0, 0, 4, 16, 4, 1},
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
        const bool said = config.notes && strstr(config.notes, "no batch size, which DeepSpeed refuses");
        assert_int_equal(said, !cases[c].T && !cases[c].m);
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
    refused("{" BATCH "}", "zero_optimization.reduce_bucket_size=9223372036854775808", STATUS_USAGE,
            "must be an integer >=1, at most 9223372036854775807");
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
    if (config_load(&first, "configs/nano.json", sets, sizeof sets / sizeof *sets, &err)) fail_msg("%s", err.text);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_teach),
        cmocka_unit_test(built_in_is_the_file),
        cmocka_unit_test(the_default_shards_16_bytes),
        cmocka_unit_test(an_empty_file_has_deepspeeds_defaults),
        cmocka_unit_test(hjson_is_read),
        cmocka_unit_test(a_default_that_follows_the_stage_is_named),
        cmocka_unit_test(what_is_not_hjson_names_its_line),
        cmocka_unit_test(a_missing_or_foreign_file_is_input),
        cmocka_unit_test(a_wrong_value_says_what_is_allowed),
        cmocka_unit_test(sizes_must_fit_each_other),
        cmocka_unit_test(batches_that_do_not_go_together_say_which_would),
        cmocka_unit_test(the_end_of_a_key_is_enough_where_it_means_one),
        cmocka_unit_test(a_section_without_its_switch_is_said),
        cmocka_unit_test(what_cannot_be_honoured_is_refused_by_name),
        cmocka_unit_test(offload_is_as_in_deepspeed),
        cmocka_unit_test(what_needs_offload_is_said_to_have_no_effect),
        cmocka_unit_test(the_same_features_switched_off_are_accepted_in_silence),
        cmocka_unit_test(what_has_no_effect_is_said_once),
        cmocka_unit_test(other_spellings_mean_the_same),
        cmocka_unit_test(overlap_follows_the_stage_unless_given),
        cmocka_unit_test(auto_is_what_hugging_face_puts_in),
        cmocka_unit_test(auto_without_the_others),
        cmocka_unit_test(the_batch_triad),
        cmocka_unit_test(integers_are_exact_past_2_to_53),
        cmocka_unit_test(numbers),
        cmocka_unit_test(every_honoured_key_survives_a_round_trip),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
