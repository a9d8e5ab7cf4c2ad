/* Labs without an engine: expressions, the reader and what it refuses, progress as a state machine. Damaged files are thrown
 * at the readers by test_fuzz_lab.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/config/keys.h"
#include "engine/lab/catalog.h"
#include "engine/lab/progress.h"
#include "engine/lab/read_parts.h"

static const struct text_list sets = {1, {"train_micro_batch_size_per_gpu=1"}};
static const struct lab_scene planned = {.sets = &sets};

/* ---- expressions --------------------------------------------------------------------------------------------------- */

static struct lab_value value_of(const char *text)
{
    const struct expression *expression;
    struct lab_pool pool = {0};
    struct error err;
    const char *at = text;
    if (expression_parse(&expression, &at, NULL, &pool, &err)) fail_msg("%s: %s", text, err.text);
    assert_string_equal(at, "");
    struct lab_value value = expression_evaluate(expression, &planned);
    pool_free(&pool);
    return value;
}

static void is(const char *text, double expected, const char *dimension)
{
    struct lab_value value = value_of(text);
    if (!value.known) fail_msg("%s: %s", text, value.why_not);
    if (value.quantity.value != expected) fail_msg("%s: %.17g, not %.17g", text, value.quantity.value, expected);
    assert_string_equal(dimension_name(value.quantity.dimension), dimension);
}

static void arithmetic_and_units(void **state)
{
    (void)state;
    is("1 + 2 * 3", 7, "a plain number");
    is("(1 + 2) * 3 - -4", 13, "a plain number");
    is("8 / 2 / 2", 2, "a plain number");
    is("1,234,567", 1234567, "a plain number");
    is("5e8 * 2 bytes", 1e9, "bytes");
    is("2 MiB - 1 KB", 2097152 - 1000, "bytes");
    is("3 MB / 1.5 MB", 2, "a plain number");
    is("50%", 0.5, "a plain number");
    is("max(1 MB, 2 MB) - min(1 KB, 2 KB)", 1999000, "bytes");
    is("ceil(7 / 2) + floor(7 / 2) + round(2.6) + abs(-1)", 11, "a plain number");
    is("6 GB / 2 s", 3e9, "bytes per second");
}

/* The plan is the engine's own, so the paper's formulas come out of it. */
static void plans_are_asked(void **state)
{
    (void)state;
    is("plan().psi", 834304, "a plain number");
    is("plan(\"stage=3 ranks=8\").ranks", 8, "a plain number");
    is("plan(\"stage=2\").stage", 2, "a plain number");
    is("plan(\"stage=0\").resting(parameters) - plan().psi * 4 bytes", 0, "bytes");
    is("plan(\"stage=3\").sent / plan(\"stage=2\").sent", 1.5, "a plain number");
    is("plan(\"bucket=5e8 stage=2\").count(reduce)", 1, "a plain number");
    is("plan(\"stage=2 zero_optimization.offload_optimizer.device=cpu\").count(gradout)", 5, "a plain number"); /* read as grad_d2h */
    is("plan(\"stage=2 ranks=8\").accounting(\"ds18\") - 4.25 bytes * plan().psi", 0, "bytes");
    is("plan(\"bucket=12345\").knob(\"bucket\")", 12345, "a plain number");
    is("plan(\"layers=4 ranks=4\").cut", 4 * 3 + 1, "a plain number"); /* wte, and of each block all but attn.proj.w */
    is("plan(\"ranks=1\").cut", 0, "a plain number");
}

static void what_was_not_measured_is_unknown(void **state)
{
    (void)state;
    static const char *const unknown[] = {"peak",
                                          "psi",
                                          "loss(step 3) + 1",
                                          "min(peak, 1 MB)",
                                          "1 / 0",
                                          "plan(\"stage=7\").peak",
                                          "count(gather, prefetch, rank 2, step -1)"};
    for (size_t u = 0; u < sizeof unknown / sizeof *unknown; u++) {
        struct lab_value value = value_of(unknown[u]);
        assert_false(value.known);
        assert_true(value.why_not[0]);
    }
}

static void faulty_expressions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } faults[] = {
        {"", "a value is missing"},
        {"1 +", "a value is missing"},
        {"(1", "a ) is missing"},
        {"peek", "did you mean peak"},
        {"1 MB + 1", "cannot be added; write 4 bytes, not 4"},
        {"1 s + 1 B", "cannot be added"},
        {"peak(3)", "a word is missing"},
        {"peak(gathers)", "does not take"},
        {"sent(reducescatter)", "did you mean reduce_scatter?"},
        {"busy(comms)", "did you mean comm?"},
        {"exposed(comm)", "does not take"},
        {"exposed(compute)", "does not take"},
        {"exposed(nvread)", "did you mean nvme_read?"},
        {"loss(optimizer)", "does not take"},
        {"plan(\"stage=1\")", "stands a metric"},
        {"plan().loss", "does not say"},
        {"theory", "said by a plan"},
        {"knob", "in quotes"},
        {"plan().accounting(\"ds1\")", "did you mean ds18"},
        {"busy(optimizer)", "does not take"},
        {"min(1 MB, 1)", "min of"},
        {"peak(rank x)", "after rank"},
        {"peak(step 1 MB)", "plain number"},
        {"1 MB * 1 MB * 1 MB * 1 MB", "no sensible unit"},
        {"plan(\"stage=1\").peak(step 2)", "no steps"},
    };
    const struct expression *expression;
    struct lab_pool pool = {0};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        struct error err = {0};
        const char *at = faults[f].text;
        assert_int_equal(expression_parse(&expression, &at, NULL, &pool, &err), STATUS_USAGE);
        assert_null(expression);
        if (!strstr(err.text, faults[f].why)) fail_msg("%s: %s", faults[f].text, err.text);
    }
    char deep[4096];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    const char *at = deep;
    assert_int_equal(expression_parse(&expression, &at, NULL, &pool, NULL), STATUS_USAGE);
    pool_free(&pool);
}

static void quantities_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        double value;
        struct dimension of;
        const char *text;
    } cases[] = {
        {13348864, {1, 0}, "13.35 MB"}, {999, {1, 0}, "999 bytes"}, {0, {1, 0}, "0 bytes"},
        {834304, {0, 0}, "834,304"},    {0.25, {0, 0}, "0.250"},    {2.9e12, {1, 0}, "2.90 TB"},
        {0.0123, {0, 1}, "12.30 ms"},
    };
    struct quantity read;
    char text[QUANTITY_ROOM];
    size_t length;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_string_equal(quantity_format(text, (struct quantity){cases[c].value, cases[c].of}, NULL, -1),
                            cases[c].text);
    assert_true(quantity_read(&read, " 13.4 ", unit_at("MB", &length)) && read.value == 13.4e6 &&
                read.dimension.bytes == 1);
    assert_true(quantity_read(&read, "1,024 KiB", unit_at("MB", &length)) && read.value == 1048576);
    assert_true(quantity_read(&read, "5e8", NULL) && read.value == 5e8);
    assert_false(quantity_read(&read, "", NULL) || quantity_read(&read, "about 3", NULL) ||
                 quantity_read(&read, "3 apples", NULL) || quantity_read(&read, "1-2", NULL));
    assert_true(quantity_read(&read, "1.5x", NULL) && read.value == 1.5);
    assert_true(quantity_read(&read, "3 x", unit_at("%", &length)) && read.value == 3);
    assert_false(quantity_read(&read, "3/2", NULL) || quantity_read(&read, "1.5xy", NULL));
}

/* Half of the world writes 1,5: what is no group of thousands is a decimal point, and never lost. */
static void commas_are_decimal_points_or_group_thousands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        {"1,5", 1.5},           {"5,0", 5},          {"0,125", 0.125},  {",5", 0.5},         {"12,3456", 12.3456},
        {"1,500", 1500},        {"1,234.5", 1234.5}, {"-1,500", -1500}, {"834,304", 834304}, {"1,234,567", 1234567},
        {"1234,567", 1234.567}, {"1,5e3", 1500}};
    static const char *const neither[] = {"1,2,3", "1.234,5", "1,5.0", "1,234,56", "1,,5", ","};
    struct quantity read;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        if (!quantity_read(&read, cases[c].text, NULL) || read.value != cases[c].value)
            fail_msg("%s is read as %g", cases[c].text, read.value);
    for (size_t n = 0; n < sizeof neither / sizeof *neither; n++)
        if (quantity_read(&read, neither[n], NULL)) fail_msg("%s is read as %g", neither[n], read.value);
    assert_true(quantity_is_grouped("1,500 MB") && !quantity_is_grouped("1,5") && !quantity_is_grouped("1500"));
}

/* ---- progress ------------------------------------------------------------------------------------------------------ */

static void fold(struct lab_progress *progress, enum lab_input_kind kind, bool right)
{
    lab_progress_fold(progress, &(struct lab_input){.kind = kind, .right = right, .said = "4 MB", .seconds = 30});
}

static void progress_is_folded_kept_and_read(void **state)
{
    (void)state;
    struct lab_progress progress = {.count = 3}, again = {.count = 3}, shorter = {.count = 1};
    for (int hints = 0; hints < 5; hints++) fold(&progress, LAB_INPUT_HINT, false);
    fold(&progress, LAB_INPUT_ANSWERED, false);
    assert_int_equal(progress.at[0].mark, LAB_WRONG);
    fold(&progress, LAB_INPUT_ANSWERED, true);
    fold(&progress, LAB_INPUT_ANSWERED, false);
    assert_int_equal(progress.at[0].mark, LAB_RIGHT); /* what was right stays so */
    assert_int_equal(progress.at[0].attempts, 3);
    assert_int_equal(progress.at[0].hints, LAB_HINTS_MAX);
    fold(&progress, LAB_INPUT_NEXT, false);
    fold(&progress, LAB_INPUT_SPENT, false);
    fold(&progress, LAB_INPUT_NEXT, false);
    assert_int_equal(progress.at[1].mark, LAB_SKIPPED);
    fold(&progress, LAB_INPUT_READ, false);
    fold(&progress, LAB_INPUT_NEXT, false);
    assert_true(progress.finished && progress.step == 2);
    char result[LAB_RESULT_ROOM];
    assert_string_equal(lab_progress_result(result, &progress), "2 of 2 parts that you played are right");

    char *json = lab_progress_json(&progress, "zero-1");
    assert_int_equal(lab_progress_read(&again, json, NULL), STATUS_OK);
    assert_memory_equal(&again.at, &progress.at, sizeof again.at);
    assert_true(again.finished && again.step == 2);
    assert_int_equal(lab_progress_read(&shorter, json, NULL), STATUS_OK); /* the lab has changed since */
    assert_true(!shorter.finished && shorter.step == 0);
    free(json);
    assert_int_equal(lab_progress_read(&again, "{\"steps\": 3}", NULL), STATUS_INPUT);
    assert_int_equal(lab_progress_read(&again, "nothing", NULL), STATUS_INPUT);
    fold(&progress, LAB_INPUT_RESET_STEP, false);
    assert_true(!progress.finished && progress.at[2].mark == LAB_OPEN && progress.at[0].mark == LAB_RIGHT);
    fold(&progress, LAB_INPUT_RESET, false);
    assert_true(progress.step == 0 && progress.at[0].attempts == 0);
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

enum { ROOM = 8192 };
static const char whole[] =
    "# T\nabout: a\nminutes: 3\nset: batch=1 stage=1\n\n## one\nText with {psi} and {peak | MB .2} and\nmore: of "
    "it.\n\n"
    "predict: how many?\nanswer: kept - 1 MB in MB within 5%\nwrong: psi * 4 bytes | no {kept}\nhint: a\nhint: "
    "b\nhint: c\n"
    "before: run 1 step\nkeep: first = steps\ndo: stage=2\nkeep: kept = resting(optimizer)\ncheck: kept <= peak within "
    "1%\nlook: memory\n\nexplain:\nBecause.\n- it is\n"
    "## two\nsetup: stage=3 prefetch=0\nquiz: which?\n+ a | yes\n- b | no\n\nexplain:\nso\n## three\ntask: do\ncheck: "
    "steps > first\nsolution: run 2 steps\nhint: a\nhint: b\n  goes on\nhint: c\n\nexplain:\nend\n";

static void a_whole_file_is_read(void **state)
{
    (void)state;
    struct lab *lab;
    struct error err;
    if (lab_read(&lab, "labs/mine/lab.md", whole, strlen(whole), &err)) fail_msg("%s", err.text);
    assert_string_equal(lab->name, "mine");
    assert_int_equal(lab->step_count, 3);
    assert_int_equal(lab->steps[0].before.count, 2);
    assert_int_equal(lab->steps[0].actions.count, 2);
    assert_string_equal(lab->steps[2].hint[1].pieces[0].text, "b goes on");
    assert_int_equal(lab_sets_at(lab, 0)->count, 2);
    const struct text_list *in_force = lab_sets_at(lab, 2); /* of the last setup before it */
    assert_int_equal(in_force->count, 4);
    assert_string_equal(in_force->at[2], "zero_optimization.stage=3");
    lab_free(lab);
}

/* NULL: it is read. */
static const char *refusal(const char *format, const char *key, const char *value)
{
    static struct error err;
    char text[ROOM];
    struct lab *lab;
    snprintf(text, sizeof text, format, key, value);
    if (lab_read(&lab, "labs/mine/lab.md", text, strlen(text), &err)) return err.text;
    lab_free(lab);
    return NULL;
}

/* A lab may come from anywhere. Of keys that hold text, those are named here by which a run leaves no file: another one is refused,
 * or this test fails. */
static void a_lab_does_not_choose_where_files_are_written(void **state)
{
    (void)state;
    static const char set[] = "# T\nabout: a\nminutes: 3\nset: %s=%s\n\n## one\nText.\n";
    static const char setup[] = "# T\nabout: a\nminutes: 3\n\n## one\nText.\nsetup: %s=%s\n";
    static const char action[] = "# T\nabout: a\nminutes: 3\n\n## one\nText.\ndo: set %s=%s\n";
    static const char spaced[] = "# T\nabout: a\nminutes: 3\n\n## one\nText.\nbefore: set= \t%s=%s\n";
    static const char *const harmless[] = {"optimizer.type",
                                           "scheduler.type",
                                           "model.name",
                                           "data.path",
                                           "data.vocabulary_file",
                                           "data.merges_file",
                                           "csv_monitor.job_name", /* as long as csv_monitor.enabled is refused, too */
                                           "zero_optimization.offload_optimizer.nvme_path",
                                           "zero_optimization.offload_param.nvme_path"};
    static const char *const forms[] = {set, setup, action, spaced};
    int places = 0;
    for (int k = 0; k < config_key_count; k++) {
        bool is_harmless = config_keys[k].class != CLASS_HONOURED || config_keys[k].type != KEY_TEXT;
        for (size_t h = 0; h < sizeof harmless / sizeof *harmless; h++)
            is_harmless |= strcmp(config_keys[k].path, harmless[h]) == 0;
        places += !is_harmless;
        for (int f = 0; !is_harmless && f < 4; f++) {
            const char *why = refusal(forms[f], config_keys[k].path, "/elsewhere");
            if (!why || !strstr(why, "a lab does not choose where files are written"))
                fail_msg("%s: %s", config_keys[k].path, why);
        }
    }
    assert_int_equal(places, 3);
    assert_non_null(refusal(set, "checkpoint", "{\"path\":\"/elsewhere\"}"));
    assert_non_null(refusal(action, "checkpoint.path", "/elsewhere{psi}"));
    assert_non_null(refusal(action, "checkpoint{psi}", "/elsewhere"));
    assert_null(refusal(set, "checkpoint.every", "2"));
    assert_null(refusal(action, "gradient_clipping", "{2}"));
}

static void labs_of_the_program_are_read(void **state)
{
    (void)state;
    for (int l = 0; l < lab_catalog_count(); l++) {
        struct lab *lab;
        struct error err;
        if (lab_open(&lab, lab_catalog_name(l), &err)) fail_msg("%s", err.text);
        assert_string_equal(lab->name, lab_catalog_name(l));
        lab_free(lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_and_units),
        cmocka_unit_test(plans_are_asked),
        cmocka_unit_test(what_was_not_measured_is_unknown),
        cmocka_unit_test(faulty_expressions_are_refused),
        cmocka_unit_test(quantities_are_read_and_written),
        cmocka_unit_test(commas_are_decimal_points_or_group_thousands),
        cmocka_unit_test(progress_is_folded_kept_and_read),
        cmocka_unit_test(a_whole_file_is_read),
        cmocka_unit_test(a_lab_does_not_choose_where_files_are_written),
        cmocka_unit_test(labs_of_the_program_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
