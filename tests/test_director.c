/* Rank 0's decisions, without an engine: what is ordered, in which order, and what the trace is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/run/director.h"

struct notebook {
    char text[4096];
};

static void note_state(void *user, enum run_state state, const char *reason)
{
    static const char *const names[] = {"starting", "running", "paused", "oom", "ended"};
    struct notebook *notebook = user;
    (void)reason;
    strcat(strcat(notebook->text, names[state]), ";");
}

static void note_command(void *user, const char *line, const char *refusal)
{
    struct notebook *notebook = user;
    strcat(strcat(strcat(notebook->text, refusal ? "no " : "yes "), line), ";");
}

static struct notebook notebook;
static struct order order;

static struct director *make(struct director_options options)
{
    struct director *director;
    struct error err;
    notebook.text[0] = '\0';
    options.on_state = note_state;
    options.on_command = note_command;
    options.user = &notebook;
    options.signal_fd = options.signal_fd ? options.signal_fd : -1;
    assert_int_equal(director_new(&director, &options, &err), STATUS_OK);
    return director;
}

static enum order_kind next(struct director *director, int64_t steps_done)
{
    director_next(director, steps_done, &order);
    return order.kind;
}

static void test_trains_its_steps_and_ends(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.steps = 2});
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_int_equal(next(director, 1), ORDER_STEP);
    assert_int_equal(next(director, 2), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_FINISHED);
    assert_string_equal(notebook.text, "running;");
    director_free(director);
}

static void test_planned_commands_come_before_their_step(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.steps = 3, .at = {2, {"2:stage=3", "2:sample=8"}}});
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_int_equal(order.command.id, COMMAND_STAGE);
    director_applied(director, &order.command, NULL);
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_int_equal(order.command.id, COMMAND_SAMPLE);
    director_applied(director, &order.command, "no model");
    assert_int_equal(next(director, 1), ORDER_STEP);
    assert_string_equal(notebook.text, "running;yes stage=3;no sample=8;");
    director_free(director);
}

static void test_a_wrong_plan_is_refused(void **state)
{
    (void)state;
    struct director *director;
    struct error err;
    assert_int_equal(director_new(&director, &(struct director_options){.at = {1, {"5:stgae=1"}}}, &err), STATUS_USAGE);
}

static void test_pauses_steps_and_resumes(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.interactive = true});
    director_push(director, "pause");
    director_push(director, "step");
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_push(director, "resume");
    assert_int_equal(next(director, 1), ORDER_STEP);
    director_push(director, "toggle");
    director_push(director, "toggle");
    director_push(director, "resume");
    director_push(director, "no such thing");
    assert_int_equal(next(director, 2), ORDER_STEP);
    assert_string_equal(notebook.text,
                        "paused;yes pause;running;yes step;paused;running;yes resume;paused;yes toggle;running;"
                        "yes toggle;no resume;no no such thing;");
    director_push(director, "stop");
    assert_int_equal(next(director, 3), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_STOPPED);
    director_free(director);
}

static void test_out_of_memory_waits_for_a_change(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.interactive = true});
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_short_of_memory(director, "no room");
    director_push(director, "stage=3");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    director_applied(director, &order.command, "would not fit");
    director_push(director, "budget=1GiB");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    director_applied(director, &order.command, NULL);
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_string_equal(notebook.text, "running;oom;no stage=3;yes budget=1GiB;running;");
    director_free(director);
}

static void test_out_of_memory_without_anybody(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.steps = 5, .at = {2, {"oom:stage=3", "3:stage=1"}}});
    director_short_of_memory(director, "no room at the start");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    assert_string_equal(order.command.value, "3");
    director_applied(director, &order.command, NULL);
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_short_of_memory(director, "no room again");
    assert_int_equal(next(director, 0), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_OUT_OF_MEMORY);
    director_free(director);
}

static void test_ends_when_its_owner_is_gone(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.steps = 5});
    director_owner_gone(director);
    assert_int_equal(next(director, 0), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_STOPPED);
    director_owner_here(director);
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_free(director);

    director = make((struct director_options){.interactive = true, .grace_ns = 50000000});
    director_push(director, "pause");
    director_owner_gone(director); /* found out while it waits */
    assert_int_equal(next(director, 0), ORDER_END);
    director_free(director);

    director = make((struct director_options){.interactive = true, .detached = true});
    director_owner_gone(director);
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_free(director);
}

static void test_a_signal_stops_it(void **state)
{
    (void)state;
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    struct director *director = make((struct director_options){.interactive = true, .signal_fd = pipe_fd[0]});
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_int_equal(write(pipe_fd[1], "x", 1), 1);
    assert_int_equal(next(director, 1), ORDER_END);
    director_free(director);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains_its_steps_and_ends),
        cmocka_unit_test(test_planned_commands_come_before_their_step),
        cmocka_unit_test(test_a_wrong_plan_is_refused),
        cmocka_unit_test(test_pauses_steps_and_resumes),
        cmocka_unit_test(test_out_of_memory_waits_for_a_change),
        cmocka_unit_test(test_out_of_memory_without_anybody),
        cmocka_unit_test(test_ends_when_its_owner_is_gone),
        cmocka_unit_test(test_a_signal_stops_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
