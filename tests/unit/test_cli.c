/* The command line: what is understood, and what is said about what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/nearest.h"
#include "engine/cli/cli_tables.h"

static struct cli cli;
static struct error err;

#define PARSE(...) parse((const char *const[]){"zerolab", __VA_ARGS__, NULL})

static int parse(const char *const *args)
{
    int count = 0;
    while (args[count]) count++;
    return cli_parse(&cli, count, (char *const *)args, &err);
}

static void test_reads_options_of_all_types(void **state)
{
    (void)state;
    assert_int_equal(
        PARSE("train", "a.json", "-n", "3", "--set", "a=1", "--set=b=2", "--headless", "--at", "5:stage=1"), STATUS_OK);
    assert_int_equal(cli.verb, VERB_TRAIN);
    assert_string_equal(cli.operand, "a.json");
    assert_int_equal(cli.ranks, 3);
    assert_int_equal(cli.steps, 0);
    assert_true(cli.headless);
    assert_int_equal(cli.sets.count, 2);
    assert_string_equal(cli.sets.at[1], "b=2");
    assert_string_equal(cli.at.at[0], "5:stage=1");
}

/* Who adds an option for a file says whether it is read or written, so that it is held against the others. */
static void test_files_say_what_is_done_with_them(void **state)
{
    (void)state;
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        if (option->argument && strstr(option->argument, "FILE") && option->type != OPTION_READS &&
            option->type != OPTION_WRITES)
            fail_msg("--%s", option->name);
    }
    assert_int_equal(PARSE("replay", "/proc/self/exe", "--frame", "80x24", "-o", "/proc/self/exe"), STATUS_OK);
    assert_int_equal(cli_check_files(&cli, &err), STATUS_USAGE);
    assert_string_equal(err.text, "/proc/self/exe cannot be both FILE and --output; give two files");
    assert_int_equal(PARSE("import", "a", "b", "/proc/self/exe", "-o", "/proc/self/exe"), STATUS_OK); /* any of several */
    assert_int_equal(cli_check_files(&cli, &err), STATUS_USAGE);
    assert_int_equal(PARSE("lab", "print", "/proc/self/exe", "-o", "/proc/self/exe"), STATUS_OK); /* a name may be a file's */
    assert_int_equal(cli_check_files(&cli, &err), STATUS_USAGE);
    assert_int_equal(PARSE("lab", "print", "tour", "-o", "/proc/self/exe"), STATUS_OK);
    assert_int_equal(cli_check_files(&cli, &err), STATUS_OK);
}

static void test_the_bare_program_takes_the_options_of_train(void **state)
{
    (void)state;
    assert_int_equal(PARSE("-n2", "-U"), STATUS_OK);
    assert_int_equal(cli.verb, VERB_VIEW);
    assert_int_equal(cli.ranks, 2);
    assert_true(cli.ascii);
    assert_int_equal(parse((const char *const[]){"zerolab", NULL}), STATUS_OK);
}

static void test_at_means_a_moment_in_replay(void **state)
{
    (void)state;
    assert_int_equal(PARSE("replay", "x.zlt", "--at", "step:12", "--frame", "80x24"), STATUS_OK);
    assert_string_equal(cli.where, "step:12");
    assert_int_equal(cli.at.count, 0);
}

static void test_a_name_may_have_two_words(void **state)
{
    (void)state;
    assert_int_equal(PARSE("data", "info", "x.bin", "--json"), STATUS_OK);
    assert_int_equal(cli.verb, VERB_DATA_INFO);
    assert_string_equal(cli.operand, "x.bin");
    assert_int_equal(PARSE("data", "encode", "x", "-o", "y", "--shard-tokens", "5"), STATUS_OK);
    assert_int_equal(cli.verb, VERB_DATA_ENCODE);
    assert_string_equal(cli.into, "y");
    assert_int_equal(PARSE("data", "--help"), STATUS_OK);
    assert_true(cli.help);
    assert_string_equal(cli.family, "data");
    assert_int_equal(PARSE("data", "info", "--help"), STATUS_OK);
    assert_null(cli.family);
    assert_int_equal(PARSE("data"), STATUS_USAGE);
    assert_string_equal(err.text, "zerolab data needs encode or info; see zerolab data --help");
    assert_int_equal(PARSE("data", "inof"), STATUS_USAGE);
    assert_string_equal(err.text, "no command data inof; did you mean info?");
    assert_int_equal(PARSE("data", "xyzzy"), STATUS_USAGE);
    assert_string_equal(err.text, "no command data xyzzy; there is encode or info");
    assert_int_equal(PARSE("dat", "info"), STATUS_USAGE);
    assert_int_equal(PARSE("datainfo"), STATUS_USAGE);
}

static void test_names_what_was_meant(void **state)
{
    (void)state;
    assert_int_equal(PARSE("trian"), STATUS_USAGE);
    assert_string_equal(err.text, "no command trian; did you mean train?");
    assert_int_equal(PARSE("train", "--headles"), STATUS_USAGE);
    assert_string_equal(err.text, "no option --headles of train; did you mean --headless?");
    assert_int_equal(PARSE("--frame", "80x24"), STATUS_USAGE);
    assert_string_equal(err.text, "--frame is an option of zerolab replay");
    assert_int_equal(PARSE("train", "a", "b"), STATUS_USAGE);
    assert_string_equal(err.text, "one operand too many: b");
    assert_int_equal(PARSE("train", "a", "b", "c", "--headless"), STATUS_USAGE);
    assert_string_equal(err.text, "one operand too many: b");
    assert_int_equal(PARSE("replay"), STATUS_USAGE);
    assert_int_equal(PARSE("train", "--ranks", "0"), STATUS_USAGE);
    assert_int_equal(PARSE("train", "--ranks", "4x"), STATUS_USAGE);
    assert_int_equal(PARSE("train", "--ranks"), STATUS_USAGE);
    assert_string_equal(err.text, "--ranks needs RANKS");
}

static void test_help_needs_no_operand(void **state)
{
    (void)state;
    assert_int_equal(PARSE("replay", "--help"), STATUS_OK);
    assert_true(cli.help);
}

static void test_nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"stage", "set", "budget", "pause"};
    assert_string_equal(nearest_name("satge", names, 4), "stage");
    assert_string_equal(nearest_name("bud", names, 4), "budget");
    assert_string_equal(nearest_name("pauze", names, 4), "pause");
    assert_null(nearest_name("explode", names, 4));
    assert_null(nearest_name("", names, 4));
}

static void test_an_argument_in_brackets_may_be_missing(void **state)
{
    (void)state;
    assert_int_equal(PARSE("plan", "--accounting"), STATUS_OK);
    assert_string_equal(cli.accounting, "list");
    assert_int_equal(PARSE("plan", "--accounting", "--json", "a.json"), STATUS_OK);
    assert_string_equal(cli.accounting, "list");
    assert_true(cli.json);
    assert_int_equal(PARSE("plan", "--accounting", "ds18", "a.json"), STATUS_OK);
    assert_string_equal(cli.accounting, "ds18");
    assert_string_equal(cli.operand, "a.json");
    assert_int_equal(PARSE("plan", "--accounting=ds18", "--with", "tp=8", "--with=pp=2"), STATUS_OK);
    assert_string_equal(cli.accounting, "ds18");
    assert_int_equal(cli.with.count, 2);
    assert_string_equal(cli.with.at[1], "pp=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_options_of_all_types),
        cmocka_unit_test(test_files_say_what_is_done_with_them),
        cmocka_unit_test(test_the_bare_program_takes_the_options_of_train),
        cmocka_unit_test(test_at_means_a_moment_in_replay),
        cmocka_unit_test(test_a_name_may_have_two_words),
        cmocka_unit_test(test_names_what_was_meant),
        cmocka_unit_test(test_help_needs_no_operand),
        cmocka_unit_test(test_nearest_name),
        cmocka_unit_test(test_an_argument_in_brackets_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
