/* Optimizers and schedules in a configuration: which parameters each has, and what follows from others. */
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
#include "tests/support/config_fixture.h"

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
    refused("{" BATCH "\"scheduler\": {\"type\": \"CosineAnnealingLR\", \"params\": {\"T_max\": 9}}}", NULL, STATUS_USAGE,
            "scheduler.type = \"CosineAnnealingLR\": no such schedule");
    refused("{" BATCH "\"optimizer\": {\"type\": \"Adafactor\", \"params\": {\"scale_parameter\": true}}}", NULL, STATUS_USAGE,
            "optimizer.type = \"Adafactor\": no such optimizer");
    refused("{" BATCH "}", "scheduler.type=WarmupLr", STATUS_USAGE, "did you mean WarmupLR?");
    refused("{" BATCH "}", "scheduler.type=WarmupDecayLR", STATUS_USAGE,
            "total_num_steps: not given; WarmupDecayLR needs it");
    refused("{" BATCH "}", "scheduler.params.cos_min_ratio=0.5", STATUS_USAGE, "scheduler.type is not given");
    refused("{" BATCH "}", "scheduler={\"type\": \"WarmupLR\", \"params\": {\"cos_min_ratio\": 1}}", STATUS_USAGE,
            "WarmupLR has no such parameter");
    config = loaded("{" BATCH "}", "scheduler={\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": \"auto\"}}");
    assert_null(strstr(config.notes ? config.notes : "", "total_num_steps"));
    struct error err;
    assert_int_equal(scheduler_settle(&config, 0, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "the trainer's number of steps"));
    assert_int_equal(scheduler_settle(&config, 500, &err), STATUS_OK);
    assert_int_equal(config.scheduler.total_steps, 500);
    assert_non_null(strstr(config.notes, "total_num_steps: 500 is less than warmup_num_steps, 1000\n"));
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_have_their_own_parameters),
        cmocka_unit_test(what_would_do_nothing_is_refused_while_training),
        cmocka_unit_test(schedules_have_their_own_parameters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
