/* Rank 0's decisions, without an engine: what is ordered, in which order, and what the trace is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/train/director.h"

struct notebook {
    char text[4096];
};

static void note_state(void *user, enum run_state state, const char *reason, bool in_step)
{
    static const char *const names[] = {"starting", "running", "paused", "oom", "ended"};
    struct notebook *notebook = user;
    strcat(notebook->text, names[state]);
    if (in_step && state == RUN_PAUSED) strcat(strcat(notebook->text, " "), reason);
    strcat(notebook->text, ";");
}

static void note_text(void *user, const char *text)
{
    struct notebook *notebook = user;
    strcat(strcat(notebook->text, text), ";");
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
    options.on_answer = note_command;
    options.on_note = note_text;
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

static int lag_looks;

static bool lags_thrice(void *user)
{
    (void)user;
    return lag_looks++ < 3;
}

/* The next step waits for a reader that is to get everything; not for one that is gone. */
static void test_a_step_waits_for_its_reader(void **state)
{
    (void)state;
    lag_looks = 0;
    struct director *director = make((struct director_options){.steps = 2, .reader_lags = lags_thrice});
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_int_equal(lag_looks, 4);
    lag_looks = 0;
    director_owner_gone(director);
    assert_int_equal(next(director, 1), ORDER_END);
    assert_int_equal(lag_looks, 0);
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
                        "yes pause;paused;yes step;running;paused;yes resume;running;yes toggle;paused;yes toggle;"
                        "running;no resume;no no such thing;");
    director_push(director, "stop");
    assert_int_equal(next(director, 3), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_STOPPED);
    director_free(director);
}

static void push_full_and_stop(int lines, const char *note)
{
    struct director *director = make((struct director_options){.interactive = true});
    for (int i = 0; i < lines; i++) director_push(director, "x");
    director_push(director, "stop");
    assert_int_equal(next(director, 0), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_STOPPED);
    assert_non_null(strstr(notebook.text, note));
    director_free(director);
}

/* 65 or 66 lines at once, where 64 have room: the rest is reported, and `stop` is not among it. */
static void test_a_full_queue_is_reported_and_stops(void **state)
{
    (void)state;
    push_full_and_stop(65, "2 commands were left out: more than 64 waited at once;");
    push_full_and_stop(64, "1 command was left out: more than 64 waited at once;");
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

/* A pause sent after the change could come too late: the step may have been tried again. */
static void test_out_of_memory_pauses_before_a_change(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.interactive = true});
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_short_of_memory(director, "no room");
    director_push(director, "pause");
    director_push(director, "pause");
    director_push(director, "budget=1GiB");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    director_applied(director, &order.command, NULL);
    director_push(director, "step");
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_short_of_memory(director, "no room again");
    director_push(director, "budget=2GiB");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    director_applied(director, &order.command, NULL);
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_string_equal(notebook.text, "running;oom;yes pause;no pause;yes budget=1GiB;paused;yes step;running;oom;"
                                       "yes budget=2GiB;running;");
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

/* It trains without anybody, but who is to make room? */
static void test_detached_and_out_of_memory_ends(void **state)
{
    (void)state;
    const struct director_options alone = {.interactive = true, .detached = true, .grace_ns = 300000000};
    struct director *director = make(alone);
    director_short_of_memory(director, "no room");
    assert_int_equal(next(director, 0), ORDER_END);
    assert_int_equal(order.outcome, OUTCOME_OUT_OF_MEMORY);
    director_free(director);

    director = make(alone);
    director_short_of_memory(director, "no room");
    director_owner_here(director); /* a viewer stays, and makes room */
    usleep(400000);
    director_push(director, "budget=1GiB");
    assert_int_equal(next(director, 0), ORDER_COMMAND);
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

/* ---- by operations ---- */

static struct gate gate;

static struct director *make_with_gate(void)
{
    gate = (struct gate){.limit = GATE_OPEN};
    return make((struct director_options){.interactive = true, .gate = &gate});
}

/* As rank 0 does: the gate is closed to what the order says, and the step comes to it. */
static void begin_step(struct director *director, int64_t steps_done, uint32_t operations)
{
    assert_int_equal(next(director, steps_done), ORDER_STEP);
    assert_int_equal(order.operations, operations);
    assert_int_equal(gate_limit(&gate), GATE_OPEN);
    gate_close(&gate, operations);
}

static void test_a_step_by_operations(void **state)
{
    (void)state;
    struct director *director = make_with_gate();
    director_push(director, "op");
    director_push(director, "pause");
    director_push(director, "op");
    director_push(director, "op=3");
    begin_step(director, 4, 1);
    director_at_gate(director, 4, 1, 40, "gather block 1");
    assert_int_equal(gate_limit(&gate), 4);
    director_push(director, "op=1000000000000"); /* more than a step can have */
    director_at_gate(director, 4, 4, 40, "forward embed");
    assert_int_equal(gate_limit(&gate), GATE_OPEN);
    assert_string_equal(notebook.text, "no op=1;yes pause;paused;yes op=1;running;paused before op 1 gather block 1 of "
                                       "step 5;yes op=3;running;paused before op 4 forward embed of step 5;"
                                       "yes op=1000000000000;running;");
    notebook.text[0] = '\0';
    director_push(director, "op=40"); /* the step is over, and so it pauses */
    begin_step(director, 5, 40);
    director_at_gate(director, 5, 40, 40, ""); /* the last has run: nothing to wait for */
    assert_int_equal(gate_limit(&gate), GATE_OPEN);
    director_push(director, "resume");
    assert_int_equal(next(director, 6), ORDER_STEP);
    assert_int_equal(order.operations, 0);
    assert_string_equal(notebook.text, "paused;yes op=40;running;paused;yes resume;running;");
    director_free(director);
}

static void test_what_lets_a_standing_step_go_on(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        bool pauses_after;
    } cases[] = {{"step", true}, {"resume", false}, {"toggle", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct director *director = make_with_gate();
        director_push(director, "pause");
        director_push(director, "op=2");
        begin_step(director, 0, 2);
        director_push(director, "pause"); /* it waits already */
        director_push(director, cases[i].command);
        director_at_gate(director, 0, 2, 40, "agree");
        assert_int_equal(gate_limit(&gate), GATE_OPEN);
        notebook.text[0] = '\0';
        director_push(director, "step");
        assert_int_equal(next(director, 1), ORDER_STEP);
        assert_string_equal(notebook.text, cases[i].pauses_after ? "paused;yes step;running;" : "no step;");
        director_free(director);
    }
}

static void test_other_commands_wait_for_the_end_of_the_step(void **state)
{
    (void)state;
    struct director *director = make_with_gate();
    director_push(director, "pause");
    director_push(director, "op");
    begin_step(director, 0, 1);
    director_push(director, "stage=2");
    director_push(director, "nonsense");
    director_push(director, "resume");
    director_push(director, "stage=3"); /* not read any more at the gate */
    notebook.text[0] = '\0';
    director_at_gate(director, 0, 1, 40, "load");
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_string_equal(order.command.value, "2");
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_string_equal(order.command.value, "3");
    assert_string_equal(notebook.text, "paused before op 1 load of step 1;stage=2 waits for the end of step 1;"
                                       "no nonsense;yes resume;running;");
    director_free(director);
}

static void test_planned_operations(void **state)
{
    (void)state;
    struct text_list at = {5, {"3:pause", "3:op=2", "3:op", "3:stage=1", "3:resume"}};
    gate = (struct gate){.limit = GATE_OPEN};
    struct director *director = make((struct director_options){.steps = 9, .gate = &gate, .at = at});
    begin_step(director, 2, 2);
    director_at_gate(director, 2, 2, 40, "");
    assert_int_equal(gate_limit(&gate), 3);
    director_at_gate(director, 2, 3, 40, "");
    assert_int_equal(gate_limit(&gate), GATE_OPEN);
    assert_int_equal(next(director, 3), ORDER_COMMAND);
    assert_int_equal(next(director, 3), ORDER_STEP);
    director_free(director);
}

static void test_a_standing_step_lets_the_run_end(void **state)
{
    (void)state;
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    assert_int_equal(write(pipe_fd[1], "x", 1), 1);
    for (int way = 0; way < 3; way++) { /* a command, a signal, an owner who goes */
        gate = (struct gate){.limit = GATE_OPEN};
        struct director *director = make((struct director_options){.interactive = true, .gate = &gate});
        director_push(director, "pause");
        director_push(director, "op");
        begin_step(director, 0, 1);
        director_free(director);
        director = make((struct director_options){
            .interactive = true, .gate = &gate, .grace_ns = 50000000, .signal_fd = way == 1 ? pipe_fd[0] : -1});
        if (way == 0) director_push(director, "stop");
        if (way == 2) director_owner_gone(director);
        director_at_gate(director, 0, 1, 40, "load");
        assert_int_equal(gate_limit(&gate), GATE_OPEN);
        assert_int_equal(atomic_load(&gate.haste), 1); /* what is left of the step is not slowed */
        assert_int_equal(next(director, 1), ORDER_END);
        assert_int_equal(order.outcome, OUTCOME_STOPPED);
        director_free(director);
    }
    close(pipe_fd[0]);
    close(pipe_fd[1]);
}

static void test_a_rank_that_finds_a_peer_dead_opens_the_gate(void **state)
{
    (void)state;
    struct director *director = make_with_gate();
    gate_close(&gate, 7);
    gate_raise(&gate, GATE_OPEN); /* it cannot wake rank 0, which looks a few times a second */
    director_at_gate(director, 0, 7, 40, "load");
    gate_raise(&gate, 8); /* and is not undone by a command that comes at the same time */
    assert_int_equal(gate_limit(&gate), GATE_OPEN);
    director_free(director);
}

static void test_without_a_gate_no_step_is_taken_by_operations(void **state)
{
    (void)state;
    struct director *director = make((struct director_options){.interactive = true});
    director_push(director, "pause");
    director_push(director, "op");
    director_push(director, "step");
    assert_int_equal(next(director, 0), ORDER_STEP);
    assert_int_equal(order.operations, 0);
    assert_string_equal(notebook.text, "yes pause;paused;no op=1;yes step;running;");
    director_free(director);
}

/* Within a step a rank is held at once, between steps by the order; the release is at once. Both are ordered later, in order. */
static void test_a_rank_is_held_within_a_step(void **state)
{
    (void)state;
    struct director *director = make_with_gate();
    director_push(director, "fault=held 1");
    assert_false(gate_holds(&gate, 1));
    assert_int_equal(next(director, 0), ORDER_COMMAND);
    assert_int_equal(order.command.id, COMMAND_FAULT);
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_push(director, "fault=held 2");
    assert_true(gate_holds(&gate, 2));
    director_push(director, "fault=none");
    assert_false(gate_holds_any(&gate));
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_string_equal(order.command.value, "held 2");
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_string_equal(order.command.value, "none");
    assert_int_equal(next(director, 1), ORDER_STEP);
    director_push(director, "fault=held 2");
    director_push(director, "stop");
    assert_false(gate_holds(&gate, 2));
    director_free(director);
}

/* A rank that nobody could release is not held, and one that is held goes on when its viewer leaves. */
static void test_no_rank_is_held_without_a_viewer(void **state)
{
    (void)state;
    gate = (struct gate){.limit = GATE_OPEN};
    struct director *director =
        make((struct director_options){.interactive = true, .gate = &gate, .grace_ns = 1000000000000u});
    assert_int_equal(next(director, 0), ORDER_STEP);
    director_push(director, "fault=held 1");
    director_owner_gone(director);
    assert_false(gate_holds_any(&gate));
    assert_int_equal(next(director, 1), ORDER_COMMAND);
    assert_string_equal(order.command.value, "none");
    assert_non_null(strstr(notebook.text, "no fault=held 1;"));
    director_free(director);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trains_its_steps_and_ends),
        cmocka_unit_test(test_a_full_queue_is_reported_and_stops),
        cmocka_unit_test(test_a_step_waits_for_its_reader),
        cmocka_unit_test(test_planned_commands_come_before_their_step),
        cmocka_unit_test(test_a_wrong_plan_is_refused),
        cmocka_unit_test(test_pauses_steps_and_resumes),
        cmocka_unit_test(test_out_of_memory_waits_for_a_change),
        cmocka_unit_test(test_out_of_memory_pauses_before_a_change),
        cmocka_unit_test(test_out_of_memory_without_anybody),
        cmocka_unit_test(test_ends_when_its_owner_is_gone),
        cmocka_unit_test(test_detached_and_out_of_memory_ends),
        cmocka_unit_test(test_a_signal_stops_it),
        cmocka_unit_test(test_a_step_by_operations),
        cmocka_unit_test(test_what_lets_a_standing_step_go_on),
        cmocka_unit_test(test_other_commands_wait_for_the_end_of_the_step),
        cmocka_unit_test(test_planned_operations),
        cmocka_unit_test(test_a_standing_step_lets_the_run_end),
        cmocka_unit_test(test_a_rank_that_finds_a_peer_dead_opens_the_gate),
        cmocka_unit_test(test_without_a_gate_no_step_is_taken_by_operations),
        cmocka_unit_test(test_a_rank_is_held_within_a_step),
        cmocka_unit_test(test_no_rank_is_held_without_a_viewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
