/* A learner who presses keys of the run between a lab's steps: what they changed is put back before the lab goes on, and what
 * stands already is no fault. Played with the engine of lab_engine.h, on labs that come with the program. */
#include "tests/support/lab_engine.h"

#include "engine/lab/catalog.h"
#include "engine/lab/play.h"

struct hand {
    struct lab *lab;
    struct lab_engine engine;
    struct lab_play play;
};

static void start(struct hand *hand)
{
    le_start(&hand->engine, lab_sets_at(hand->lab, hand->play.at), lab_resume_at(hand->lab, hand->play.at));
    lab_play_started(&hand->play);
}

/* Until the lab waits for the learner. */
static void settle(struct hand *hand)
{
    for (int turn = 0; turn < 1000; turn++) {
        enum lab_wish wish = lab_play_tick(&hand->play, hand->engine.model, hand->engine.history);
        if (wish == WISH_COMMAND) le_hear(&hand->engine, hand->play.driver.line);
        if (wish == WISH_RESTART) start(hand);
        if (wish == WISH_NOTHING && hand->play.phase != PLAY_RESTART) break;
    }
    if (hand->play.phase == PLAY_STUCK) fail_msg("stuck: %s", hand->play.driver.why_stuck);
}

static struct hand *begin(const char *name, int step)
{
    struct hand *hand = calloc(1, sizeof *hand);
    struct lab_progress progress;
    struct error err;
    assert_non_null(hand);
    if (lab_open(&hand->lab, name, &err)) fail_msg("%s", err.text);
    lab_progress_init(&progress, hand->lab);
    lab_progress_fold(&progress, &(struct lab_input){.kind = LAB_INPUT_GO, .step = step - 1});
    lab_play_init(&hand->play, hand->lab, &progress);
    start(hand);
    settle(hand);
    assert_int_equal(hand->play.phase, PLAY_ASKING);
    return hand;
}

static void end(struct hand *hand)
{
    lab_play_release(&hand->play);
    le_stop(&hand->engine);
    lab_free(hand->lab);
    free(hand);
}

static void press(struct hand *hand, const char *line)
{
    le_hear(&hand->engine, line);
    settle(hand);
}

static void choose(struct hand *hand, char letter)
{
    lab_play_choose(&hand->play, letter - 'a');
    settle(hand);
    assert_int_equal(hand->play.phase, PLAY_TOLD);
}

static void go_on(struct hand *hand)
{
    lab_play_next(&hand->play);
    settle(hand);
    assert_int_equal(hand->play.phase, PLAY_ASKING);
}

static void say(struct hand *hand, const char *text)
{
    lab_play_say(&hand->play, text);
    settle(hand);
    assert_int_equal(hand->play.phase, PLAY_TOLD);
}

static int stage_of(const struct hand *hand)
{
    return run_training(hand->engine.model)->stage;
}

static void a_stage_key_between_steps_makes_no_right_answer_wrong(void **state)
{
    (void)state;
    struct hand *hand = begin("zero-1", 2);
    choose(hand, 'b');
    press(hand, "stage=3");
    go_on(hand);
    assert_int_equal(stage_of(hand), 1);
    assert_non_null(strstr(hand->play.notice, "stage=1"));
    say(hand, "5.01");
    assert_true(hand->play.right);
    end(hand);
}

/* A step without actions of its own still looks at the last step: that must be one of the lab's. */
static void what_was_trained_in_between_is_not_looked_at(void **state)
{
    (void)state;
    struct hand *hand = begin("zero-3", 3);
    say(hand, "12");
    press(hand, "stage=2");
    press(hand, "step");
    go_on(hand);
    const struct run_step *last = run_last_step(hand->engine.model);
    assert_int_equal(stage_of(hand), 3);
    assert_int_equal(last->stage, 3);
    say(hand, "6.67");
    assert_true(hand->play.right);
    end(hand);
}

/* Pressed after the question was put: it goes back before the answer is carried out. */
static void a_key_while_a_choice_is_asked_for_goes_back_too(void **state)
{
    (void)state;
    struct hand *hand = begin("zero-3", 2);
    press(hand, "stage=0");
    choose(hand, 'c');
    assert_int_equal(stage_of(hand), 3);
    assert_true(hand->play.right);
    end(hand);
}

static void knobs_go_back_and_the_labs_own_changes_stay(void **state)
{
    (void)state;
    struct hand *hand = begin("zero-1", 2);
    choose(hand, 'b');
    press(hand, "set topology.slow_motion=5");
    go_on(hand);
    assert_int_equal(stage_of(hand), 1);
    assert_float_equal(hand->engine.config.topology.slow_motion, 1, 0);
    const uint32_t steps = hand->engine.steps_done;
    say(hand, "5.01");
    go_on(hand); /* nothing was changed: nothing goes back, and no step is trained for it */
    assert_string_equal(hand->play.notice, "");
    assert_int_equal(steps, 4);
    end(hand);
}

static void a_long_value_goes_back_whole(void **state)
{
    (void)state;
    struct hand *hand = begin("zero-1", 2);
    char *path = hand->engine.config.checkpoint.path, before[128] = "";
    memset(before, 'a', sizeof before - 1);
    strcpy(path, before);
    press(hand, "set checkpoint.path=elsewhere");
    assert_string_equal(path, "elsewhere");
    choose(hand, 'b');
    assert_string_equal(path, before);
    end(hand);
}

static void what_a_task_asks_for_stays(void **state)
{
    (void)state;
    struct hand *hand = begin("tour", 4);
    press(hand, "stage=3");
    press(hand, "step");
    lab_play_check(&hand->play, hand->engine.model, hand->engine.history);
    assert_true(hand->play.right);
    assert_int_equal(stage_of(hand), 3);
    end(hand);
}

/* Its own `do: stage=3` then has nothing to do. */
static void a_stage_that_stands_already_is_no_fault(void **state)
{
    (void)state;
    struct hand *hand = begin("sixteen-bytes", 5);
    press(hand, "stage=3");
    hand->play.baseline.known = false; /* as if the lab had left it so */
    say(hand, "10");
    assert_true(hand->play.right);
    end(hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_key_between_steps_makes_no_right_answer_wrong),
        cmocka_unit_test(what_was_trained_in_between_is_not_looked_at),
        cmocka_unit_test(a_key_while_a_choice_is_asked_for_goes_back_too),
        cmocka_unit_test(knobs_go_back_and_the_labs_own_changes_stay),
        cmocka_unit_test(a_long_value_goes_back_whole),
        cmocka_unit_test(what_a_task_asks_for_stays),
        cmocka_unit_test(a_stage_that_stands_already_is_no_fault),
    };
    return cmocka_run_group_tests_name("a learner's own keys", tests, NULL, NULL);
}
