/* Other people's counts of the bytes of a parameter: the table is what was published, and our side is what is allocated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/advise/accounting.h"

static struct setup setup_of(const char *const *sets, int count)
{
    struct config config;
    struct setup setup = {0};
    struct error err;
    if (config_load(&config, "configs/nano.json", sets, count, &err) || setup_init(&setup, &config, &err))
        fail_msg("%s", err.text);
    config_release(&config);
    return setup;
}

static const struct accounting *named(const char *name)
{
    const struct accounting *accounting;
    struct error err;
    if (accounting_find(&accounting, name, &err)) fail_msg("%s", err.text);
    return accounting;
}

/* What is whole and what is cut, as their authors have it. {-1}: nothing is said of this stage. */
static void sums_are_as_published(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct accounting_sum at[4];
    } published[] = {
        {"paper16", {{16, 0}, {4, 12}, {2, 14}, {0, 16}}},
        {"fp32-16", {{16, 0}, {8, 8}, {4, 12}, {0, 16}}},
        {"fp32grad20", {{20, 0}, {8, 12}, {2, 18}, {0, 20}}},
        {"inf20", {{20, 0}, {-1, 0}, {-1, 0}, {-1, 0}}},
        {"ds18", {{-1, 0}, {-1, 0}, {2, 18}, {0, 18}}},
        {"megatron18", {{18, 0}, {6, 12}, {-1, 0}, {-1, 0}}},
        {"nomaster12", {{12, 0}, {4, 8}, {2, 10}, {0, 12}}},
        {"replicated-master", {{16, 0}, {8, 8}, {6, 10}, {0, 16}}},
        {"optimizer32", {{36, 0}, {4, 32}, {2, 34}, {0, 36}}},
    };
    assert_int_equal(sizeof published / sizeof *published, ACCOUNTINGS);
    for (int p = 0; p < ACCOUNTINGS; p++)
        for (int stage = 0; stage < 4; stage++) {
            const struct accounting *accounting = named(published[p].name);
            const struct accounting_sum sum = accounting_sum_of(accounting, stage);
            bool speaks = published[p].at[stage].whole >= 0;
            assert_int_equal(accounting_speaks_of(accounting, stage), speaks);
            if (!speaks) continue;
            assert_int_equal(sum.whole, published[p].at[stage].whole);
            assert_int_equal(sum.cut, published[p].at[stage].cut);
        }
}

static void published_examples_come_out(void **state)
{
    (void)state;
    const double gib = 1 << 30, psi = 13e9; /* 13 billion parameters on 8 ranks */
    assert_float_equal(psi * accounting_bytes(named("paper16"), 1, 8) / gib, 66.59, 0.005);
    assert_float_equal(psi * accounting_bytes(named("paper16"), 2, 8) / gib, 45.40, 0.005);
    assert_float_equal(psi * accounting_bytes(named("paper16"), 3, 8) / gib, 24.21, 0.005);
    assert_float_equal(psi * accounting_bytes(named("replicated-master"), 1, 8) / gib, 108.96, 0.005);
    assert_float_equal(psi * accounting_bytes(named("replicated-master"), 2, 8) / gib, 87.78, 0.005);
}

/* Our side adds up to what the schedule keeps between steps, in all tiers, whatever lies where. */
static void our_side_is_what_is_allocated(void **state)
{
    (void)state;
    static const char *const types[] = {"bf16.enabled=false", "bf16.enabled=true", "data_types.grad_accum_dtype=fp32"};
    static const char *const places[] = {"zero_optimization.offload_optimizer.device=none",
                                         "zero_optimization.offload_optimizer.device=cpu",
                                         "zero_optimization.offload_optimizer.device=nvme"};
    static const char *const stages[] = {"zero_optimization.stage=0", "zero_optimization.stage=1",
                                         "zero_optimization.stage=2", "zero_optimization.stage=3"};
    int held_setups = 0;
    for (int stage = 0; stage < 4; stage++)
        for (int type = 0; type < 3; type++)
            for (int place = 0; place < (stage < 1 ? 1 : stage < 3 ? 2 : 3); place++) {
                const char *sets[] = {stages[stage],
                                      types[type],
                                      places[place],
                                      "topology.ranks=3",
                                      "zero_optimization.offload_optimizer.nvme_path=.",
                                      "bf16.enabled=true"};
                struct setup setup = setup_of(sets, type == 2 ? 6 : 5);
                struct accounting_held held;
                double resting = 0, lines = 0;
                accounting_hold(&held, named("paper16"), &setup);
                for (int tier = 0; tier < TIERS; tier++) resting += (double)setup.footprint.resting_bytes[tier];
                for (int l = 0; l < held.count; l++) lines += held.line[l].ours.held;
                assert_float_equal(held.ours, resting / (double)setup.model.elems, 1e-6);
                assert_float_equal(held.ours, lines + held.padding, 1e-6);
                setup_release(&setup);
                held_setups++;
            }
    assert_int_equal(held_setups, 3 * (1 + 2 + 2 + 3));
}

static const struct accounting_line *line_of(const struct accounting_held *held, const char *array, int bytes)
{
    for (int l = 0; l < held->count; l++) {
        const struct accounting_line *line = &held->line[l];
        if (strcmp(line->array, array) == 0 && (line->theirs.bytes == bytes || line->ours.bytes == bytes)) return line;
    }
    fail_msg("no line %s", array);
    return NULL;
}

static void which_four_bytes(void **state)
{
    (void)state;
    static const char *const sets[] = {"bf16.enabled=true", "zero_optimization.stage=2", "topology.ranks=8"};
    struct setup setup = setup_of(sets, 3);
    struct accounting_held held;
    accounting_hold(&held, named("paper16"), &setup);
    assert_float_equal(held.theirs, held.ours - held.padding, 1e-6); /* but for padding, the paper's count is ours */
    accounting_hold(&held, named("ds18"), &setup);
    assert_int_equal(line_of(&held, "gradient", 4)->ours.bytes, 0);
    assert_true(line_of(&held, "gradient", 2)->ours.cut);
    accounting_hold(&held, named("nomaster12"), &setup);
    assert_int_equal(line_of(&held, "master", 4)->theirs.bytes, 0);
    accounting_hold(&held, named("replicated-master"), &setup);
    assert_false(line_of(&held, "master", 4)->theirs.cut);
    assert_true(line_of(&held, "master", 4)->ours.cut);
    setup_release(&setup);
}

static void unknown_names_are_refused(void **state)
{
    (void)state;
    const struct accounting *accounting;
    struct error err;
    assert_int_equal(accounting_find(&accounting, "ds1", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "did you mean ds18?"));
    assert_int_equal(accounting_find(&accounting, "xyzzy", &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "--accounting list"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_as_published),         cmocka_unit_test(published_examples_come_out),
        cmocka_unit_test(our_side_is_what_is_allocated), cmocka_unit_test(which_four_bytes),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
