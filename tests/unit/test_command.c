/* Commands and live changes: read, written back, refused in one clear line; values shown as one types them. */
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
#include "engine/config/keys.h"

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
    assert_int_equal(config_load(&config, "configs/nano.json", sets, 4, NULL), STATUS_OK);
    assert_int_equal(config_load(&again, "configs/nano.json", NULL, 0, NULL), STATUS_OK);
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
    assert_int_equal(config_load(&config, "configs/nano.json", NULL, 0, NULL), STATUS_OK);
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

static void commands_are_read_and_written_back(void **state)
{
    (void)state;
    static const char *const lines[] = {"stage=3",      "pause",      "resume",
                                        "toggle",       "step",       "sample=200",
                                        "validate",     "stop",       "budget=256MiB",
                                        "fault=held 1", "fault=none", "set zero_optimization.reduce_bucket_size=5e5"};
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
        {"set topology.threads_per_rank=0", "1..256"},
        {"ranks=65", "at most 64 ranks"},
        {"ranks=65537", "1..65536"},
        {"ranks", "needs an argument"},
        {"budget=lots", "not a size"},
        {"sample=12x", "number from 1"},
        {"fault", "needs an argument"},
        {"fault=held", "the number of a rank"},
        {"fault=held -1", "the number of a rank"},
        {"fault=held 1 2", "the number of a rank"},
        {"fault=none 1", "must be held, nan or short"},
        {"fault=late 1", "must be held, nan or short"},
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

static void only_a_switch_of_stage_has_a_stage(void **state)
{
    (void)state;
    assert_int_equal(command_stage("stage=0"), 0);
    assert_int_equal(command_stage("stage=3"), 3);
    static const char *const others[] = {"stage=", "stage=4", "stage=1; pause", "stage", "budget=3", ""};
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) assert_int_equal(command_stage(others[o]), -1);
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
        cmocka_unit_test(values_are_shown_as_one_types_them), cmocka_unit_test(live_keys_change_and_others_do_not),
        cmocka_unit_test(commands_are_read_and_written_back), cmocka_unit_test(bad_commands_are_one_clear_line),
        cmocka_unit_test(only_a_switch_of_stage_has_a_stage), cmocka_unit_test(at_takes_a_step_or_oom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
