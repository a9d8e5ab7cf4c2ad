/* The loss scaler, event by event, as DeepSpeed's DynamicLossScaler went (runtime/fp16/loss_scaler.py of 0.19.8, given the
 * same overflows): three settings of hysteresis, a smallest scale that is no power of two, and the end of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
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
        cmocka_unit_test(a_static_scale_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
