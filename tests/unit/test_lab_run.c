/* Labs on a run that is made by hand: what its records say of a step, also where some were lost, and what became of a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/lab/driver.h"
#include "engine/lab/read_parts.h"
#include "tests/support/past_fixture.h"

enum { US = 1000, RANKS = 2 };

static const struct past_op training[] = {{OP_FORWARD, 1, 0, false, -1, WAIT_DATA},
                                          {OP_REDUCE_SCATTER, 1, 100, false, 0, WAIT_DATA}};

static struct record_buffer run_of(uint32_t steps)
{
    struct record_buffer past;
    past_start(&past, 0, RANKS, US);
    past_plan(&past, 1, RANKS, PURPOSE_TRAIN, training, 2, US);
    for (uint32_t step = 1; step <= steps; step++) {
        const uint64_t at = 1000 * US * step;
        for (int rank = 0; rank < RANKS; rank++) past_step(&past, rank, step, at);
        for (int rank = 0; rank < RANKS; rank++) past_hold(&past, rank, CATEGORY_GRADIENTS, 500, at + 50 * US);
        for (int rank = 0; rank < RANKS; rank++) past_op(&past, rank, step, 0, at, at + 100 * US, at + 400 * US, -1);
        for (int rank = 0; rank < RANKS; rank++)
            past_op(&past, rank, step, 1, at, at + 300 * US, at + (500 + 100 * (uint64_t)rank) * US, 0);
        for (int rank = 0; rank < RANKS; rank++) past_step_end(&past, rank, step, at + 900 * US);
    }
    return past;
}

static struct lab_value value_in(const struct record_buffer *past, const char *text)
{
    const struct lab_scene scene = {.model = past->model, .history = past->history};
    const struct expression *expression;
    struct lab_pool pool = {0};
    struct error err;
    if (expression_parse(&expression, &text, NULL, &pool, &err)) fail_msg("%s", err.text);
    struct lab_value value = expression_evaluate(expression, &scene);
    pool_free(&pool);
    return value;
}

static void is(const struct record_buffer *past, const char *text, double expected)
{
    struct lab_value value = value_in(past, text);
    if (!value.known) fail_msg("%s: %s", text, value.why_not);
    assert_float_equal(value.quantity.value, expected, 1e-12);
}

static void a_step_is_read_off_its_records(void **state)
{
    (void)state;
    struct record_buffer past = run_of(2);
    is(&past, "busy", 300e-6);
    is(&past, "busy(comm)", 250e-6); /* the mean of 200 and 300 */
    is(&past, "busy(host)", 0);
    is(&past, "communicating", 250e-6);
    is(&past, "exposed", 150e-6);
    is(&past, "sent(rank 1)", 100);
    is(&past, "count(reduce)", 1);
    is(&past, "peak(gradients)", 500);
    past_end(&past);
}

static void what_was_lost_is_not_taken_for_nothing(void **state)
{
    (void)state;
    static const char *const asked[] = {"busy",          "busy(comm)",      "sent",    "count(reduce)",
                                        "communicating", "peak(gradients)", "resting", "at_peak(gradients)"};
    struct record_buffer past = run_of(2);
    past_step(&past, 0, 3, 3000 * US);
    past_step(&past, 1, 3, 3000 * US);
    past_op(&past, 0, 3, 0, 3000 * US, 3100 * US, 3400 * US, -1);
    past_op(&past, 1, 3, 0, 3000 * US, 3100 * US, 3200 * US, -1);
    past_fold(&past, 1, 3800 * US, (struct trace_record){.kind = TRACE_GAP, .gap = {7, 3300 * US}});
    past_step_end(&past, 0, 3, 3900 * US);
    past_step_end(&past, 1, 3, 3900 * US);
    for (size_t a = 0; a < sizeof asked / sizeof *asked; a++) {
        struct lab_value value = value_in(&past, asked[a]);
        if (value.known) fail_msg("%s is known to be %g", asked[a], value.quantity.value);
        assert_string_equal(value.why_not, "records of step 3 were lost");
    }
    is(&past, "busy(step 2)", 300e-6); /* of that one nothing was lost */
    past_end(&past);
}

/* ---- a checkpoint that a lab asks for ---- */

static const char saves[] =
    "# T\nabout: a\nminutes: 3\nset: batch=1\n\n## one\nText.\n\nquiz: which?\n+ a | yes\n- b | no\ndo: "
    "checkpoint=late\n\nexplain:\nso\n";

static void tell(struct record_buffer *past, uint64_t time_ns, const char *state)
{
    char json[128];
    snprintf(json, sizeof json, "{\"kind\": \"checkpoint\", \"detail\": {\"state\": \"%s\", \"tag\": \"late\"}}",
             state);
    past_fold(past, PAST_ALL, time_ns, (struct trace_record){.kind = TRACE_EVENT, .event = {3, {json, strlen(json)}}});
}

static void an_earlier_save_that_failed_is_not_this_one(void **state)
{
    (void)state;
    struct record_buffer past = run_of(2);
    struct lab *lab;
    struct error err;
    if (lab_read(&lab, "labs/mine/lab.md", saves, strlen(saves), &err)) fail_msg("%s", err.text);
    const struct lab_scene scene = {.model = past.model, .history = past.history};
    struct lab_driver driver;
    past_fold(&past, PAST_ALL, 3000 * US,
              (struct trace_record){.kind = TRACE_STATE, .state = {2, RUN_PAUSED, {"pause", 5}}});
    tell(&past, 3100 * US, "failed");
    driver_begin(&driver, &lab->steps[0].actions);
    assert_int_equal(driver_tick(&driver, &scene), DRIVER_SENDS);
    if (driver_tick(&driver, &scene) != DRIVER_WAITS) fail_msg("%s", driver.why_stuck);
    tell(&past, 3200 * US, "saving");
    assert_int_equal(driver_tick(&driver, &scene), DRIVER_WAITS);
    tell(&past, 3300 * US, "failed");
    assert_int_equal(driver_tick(&driver, &scene), DRIVER_STUCK);
    lab_free(lab);
    past_end(&past);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_read_off_its_records),
        cmocka_unit_test(what_was_lost_is_not_taken_for_nothing),
        cmocka_unit_test(an_earlier_save_that_failed_is_not_this_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
