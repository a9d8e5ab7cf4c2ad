/* The loss scaler, event by event, as DeepSpeed's DynamicLossScaler went (runtime/fp16/loss_scaler.py of 0.19.8, given the
 * same overflows): three settings of hysteresis, a smallest scale that is no power of two, and the end of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/optim/loss_scale.h"

/* For each step: x where gradients overflowed; the scale afterwards, a for 2^0, b for 2^1 ..., 6 for 6, ! where DeepSpeed
 * raises its exception. */
static const struct {
    struct config_fp16 options;
    const char *overflows, *scales;
} runs[] = {
    {{true, 0, 16, 6, 1, false, 1},
     "xxxxxx.x........xx.xxx.......xxx....xxxx",
     "ponmlkkjjjjjjjkkjiihgfffffffgfedddddcba!"},
    {{true, 0, 16, 6, 2, false, 1},
     "xxxx......x.......xx................xxx.....xxx......xx................xx......xxx......xxxxx.....x",
     "qponnnnnnnmmmmmmmnnmmmmmmmnnnnnnooooonmmmmmmlkjjjjjjjihhhhhhhiiiiiijjjjjiiiiiiihgfffffffedcbaaaaaa!"},
    {{true, 0, 16, 6, 3, true, 1},
     "xxxx.xxx........xx.......................................xx.......x.......xxx.xxxxx......x....................."
     "xxxxx....",
     "qqpoooonnnnnnnooooooooooppppppqqqqqqrrrrrrssssssttttttuuuuuuuuuuuvvvvvvvvwwwvvvvutssssssssssssssttttttuuuuuuvvvvv"
     "utsssss"},
    {{true, 0, 5, 7, 2, false, 6}, "xxxx...x", "fed6666!"},
};

static double scale_of(char letter)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return letter == '6' ? 6 : ldexp(1, (int)(strchr(letters, letter) - letters));
}

static void events_are_deepspeeds(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        struct loss_scaler scaler;
        loss_scaler_init(&scaler, &runs[r].options);
        assert_int_equal(strlen(runs[r].overflows), strlen(runs[r].scales));
        for (int i = 0; runs[r].overflows[i]; i++) {
            const double before = scaler.scale;
            const bool overflow = runs[r].overflows[i] == 'x';
            const enum loss_scale_event event = loss_scaler_update(&scaler, overflow);
            if (runs[r].scales[i] == '!') {
                assert_int_equal(event, LOSS_SCALE_AT_END);
                continue;
            }
            if (scaler.scale != scale_of(runs[r].scales[i]))
                fail_msg("run %zu, step %d: scale %g, not %g", r, i, scaler.scale, scale_of(runs[r].scales[i]));
            assert_int_equal(event, scaler.scale > before   ? LOSS_SCALE_RAISED
                                    : scaler.scale < before ? LOSS_SCALE_LOWERED
                                    : overflow              ? LOSS_SCALE_HELD
                                                            : LOSS_SCALE_KEPT);
        }
    }
}

/* 5,000 steps of DeepSpeed's class for each setting, as tests/reference/make_loss_scale.py printed them: how many overflowed,
 * raised and lowered the scale, and FNV-1a over "%d %.0f\n" of overflow and the scale afterwards, step by step. */
enum { LONG_STEPS = 5000 };
static const struct {
    struct config_fp16 options;
    int skipped, raised, lowered;
    uint64_t checksum;
} long_runs[] = {
    {{true, 0, 16, 1000, 2, false, 1}, 20, 4, 15, 0xd174119bde1269ef},
    {{true, 0, 16, 50, 1, false, 1}, 85, 75, 85, 0x083e967876a4e839},
    {{true, 0, 24, 100, 2, false, 1}, 83, 33, 52, 0x8c445ec381ec7174},
    {{true, 0, 16, 20, 3, true, 1}, 674, 80, 81, 0x84f838f690528e86},
    {{true, 0, 10, 7, 4, false, 1}, 851, 330, 322, 0xffbde6d5258cfde7},
    {{true, 0, 16, 100, 2, true, 1}, 92, 33, 44, 0x0f7284f158d17767},
};

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* The larger the scale the more often, and now and then several in a row. */
static bool overflows(uint64_t run, uint64_t step, double scale)
{
    const int power = ilogb(scale);
    for (uint64_t back = 0; back < (power >= 6 ? 4 : 0); back++) { /* a burst of up to four began not long ago */
        const uint64_t x = step >= back ? mix(run * 1000003 + step - back) : 1;
        if (x % 53 == 0 && (x >> 32) % 4 >= back) return true;
    }
    return power + (int)(mix(run * 1000003 + step) % 12) >= 27;
}

static void thousands_of_steps_are_deepspeeds(void **state)
{
    (void)state;
    for (size_t run = 0; run < sizeof long_runs / sizeof *long_runs; run++) {
        struct loss_scaler scaler;
        int skipped = 0, raised = 0, lowered = 0;
        uint64_t checksum = 14695981039346656037u;
        loss_scaler_init(&scaler, &long_runs[run].options);
        for (uint64_t step = 0; step < LONG_STEPS; step++) {
            char line[64];
            const bool overflow = overflows(run, step, scaler.scale);
            const enum loss_scale_event event = loss_scaler_update(&scaler, overflow);
            skipped += overflow;
            raised += event == LOSS_SCALE_RAISED;
            lowered += event == LOSS_SCALE_LOWERED;
            snprintf(line, sizeof line, "%d %.0f\n", overflow, scaler.scale);
            for (const char *at = line; *at; at++) checksum = (checksum ^ (unsigned char)*at) * 1099511628211u;
        }
        assert_int_equal(skipped, long_runs[run].skipped);
        assert_int_equal(raised, long_runs[run].raised);
        assert_int_equal(lowered, long_runs[run].lowered);
        assert_true(checksum == long_runs[run].checksum);
    }
}

static void a_static_scale_stays(void **state)
{
    (void)state;
    const struct config_fp16 options = {true, 128, 16, 1, 1, false, 1}, off = {.initial_scale_power = 16};
    struct loss_scaler scaler;
    loss_scaler_init(&scaler, &options);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(loss_scaler_update(&scaler, i % 3 == 0), i % 3 == 0 ? LOSS_SCALE_HELD : LOSS_SCALE_KEPT);
        assert_true(scaler.scale == 128);
    }
    loss_scaler_init(&scaler, &off);
    assert_int_equal(loss_scaler_update(&scaler, false), LOSS_SCALE_KEPT);
    assert_true(scaler.scale == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_deepspeeds),
        cmocka_unit_test(thousands_of_steps_are_deepspeeds),
        cmocka_unit_test(a_static_scale_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
