/* No string of a file, a folder or the command line reaches the terminal with its control characters. Each is planted where it
 * can stand: in every string of every format that is read, in file names and in arguments of every command. What the program then
 * prints is read byte by byte. Commands, options and record kinds come from the program's own tables: a new one is tried too, and
 * a new command fails the test until `commands` has a row for it. */
#include "tests/support/foreign.h"

#include <sys/socket.h>

/* ---- arguments, and names of files ---- */

/* Of each command: an operand, and what makes the run short. Where the operand is a file, a good run is tried too. */
static const struct {
    const char *operand;
    const char *rest[6];
    bool covered;
} commands[VERBS] = {
    [VERB_VIEW] = {NULL, {"--headless", "--steps", "1"}, true},
    [VERB_TRAIN] = {"config.json", {"--headless", "--steps", "1"}, true},
    [VERB_ATTACH] = {NULL, {NULL}, true},
    [VERB_REPLAY] = {"run.zlt", {"--frame", "80x24"}, true},
    [VERB_COMPARE] = {"run.zlt", {"run.zlt", "--frame", "80x24"}, true},
    [VERB_ANALYZE] = {"run.zlt", {NULL}, true},
    [VERB_CHECK] = {"run.zlt", {NULL}, true},
    [VERB_IMPORT] = {"trace.json", {NULL}, true},
    [VERB_EXPORT] = {"run.zlt", {"--to", "jsonl", "-o", "run.jsonl"}, true},
    [VERB_PLAN] = {"config.json", {NULL}, true},
    [VERB_SIMULATE] = {"config.json", {"--hardware", "a100"}, true},
    [VERB_CHECKPOINT_INSPECT] = {"saves", {NULL}, true},
    [VERB_CHECKPOINT_CONVERT] = {"saves", {"-o", "more.safetensors"}, true},
    [VERB_CHECKPOINT_EXPORT] = {"saves", {"-o", "more.safetensors"}, true},
    [VERB_DATA_ENCODE] = {"text.txt", {"-o", "more.bin"}, true},
    [VERB_DATA_INFO] = {"text.txt", {NULL}, true},
    [VERB_DOCTOR] = {NULL, {NULL}, true},
    [VERB_BENCH] = {NULL, {"--set", "no.key=1"}, true},
    [VERB_LAB_LIST] = {NULL, {NULL}, true},
    [VERB_LAB_CHECK] = {"nothing", {NULL}, true},
    [VERB_LAB_PRINT] = {"nothing", {NULL}, true},
    [VERB_LAB_NEW] = {NULL, {NULL}, true},
    [VERB_LAB_RESET] = {NULL, {NULL}, true},
    [VERB_LAB_METRICS] = {NULL, {NULL}, true},
    [VERB_LAB] = {NULL, {NULL}, true},
    [VERB_CLASS] = {"learners", {NULL}, true},
};

/* `zerolab VERB OPERAND REST... MORE...`; returns the exit status. */
static int try(enum verb verb, const char *operand, const char *more, const char *value, bool json)
{
    const char *args[ARGS];
    char words[64];
    int count = 0;
    snprintf(words, sizeof words, "%s", cli_verbs[verb].name);
    for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) args[count++] = word;
    if (operand) args[count++] = operand;
    for (int r = 0; r < 6 && commands[verb].rest[r]; r++) args[count++] = commands[verb].rest[r];
    if (more) args[count++] = more;
    if (value) args[count++] = value;
    args[count] = NULL;
    return json ? clean_json(args), 0 : clean(args);
}

/* What a run has made under the planted name goes out of the way. */
static void put_aside(void)
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "aside-%d", number++);
    rename(EVIL_NAME, name);
}

static void try_options(enum verb verb)
{
    for (int o = 0; o < cli_option_count; o++) {
        char option[64];
        if (!(cli_options[o].verbs & (1u << verb)) || !cli_options[o].argument) continue;
        snprintf(option, sizeof option, "--%s", cli_options[o].name);
        try(verb, commands[verb].operand, option, EVIL_NAME, false);
    }
    try(verb, commands[verb].operand, "--" EVIL_NAME, NULL, false);
}

static bool has_json(enum verb verb)
{
    for (int o = 0; o < cli_option_count; o++)
        if (strcmp(cli_options[o].name, "json") == 0 && cli_options[o].verbs & (1u << verb)) return true;
    return false;
}

/* A good file that has the name; of the answers as JSON those are JSON, and have it, that name the file at all. */
static void try_good_file(enum verb verb)
{
    static const unsigned names_file = 1u << VERB_ANALYZE | 1u << VERB_CHECKPOINT_INSPECT;
    assert_int_equal(symlink(commands[verb].operand, EVIL_NAME), 0);
    if (try(verb, EVIL_NAME, NULL, NULL, false)) fail_msg("%s: %s", cli_verbs[verb].name, (const char *)printed.at);
    if (has_json(verb)) try(verb, EVIL_NAME, "--json", NULL, names_file & 1u << verb);
    assert_int_equal(unlink(EVIL_NAME), 0);
}

static void every_command_prints_arguments_without_control_characters(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    for (enum verb verb = 0; verb < VERBS; verb++) {
        if (strncmp(cli_verbs[verb].name, "--", 2) == 0) continue; /* an engine's, which the program starts itself */
        if (!commands[verb].covered) fail_msg("zerolab %s is not in the table of this test", cli_verbs[verb].name);
        put_aside();
        if (*cli_verbs[verb].name) try(verb, EVIL_NAME, NULL, NULL, false);
        if (*cli_verbs[verb].name) try(verb, EVIL_NAME, EVIL_NAME, EVIL_NAME, false);
        put_aside();
        if (commands[verb].operand && access(commands[verb].operand, F_OK) == 0) try_good_file(verb);
        try_options(verb);
    }
    CLEAN(EVIL_NAME), CLEAN("lab", EVIL_NAME), CLEAN("--" EVIL_NAME);
    hold();
}

/* ---- configurations ---- */

static void look_at_config(const char *text)
{
    write_text("evil.json", text);
    CLEAN("plan", "evil.json");
}

static void configurations(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    plant_each(config, true, look_at_config);
    for (int k = 0; k < config_key_count; k++) {
        char *set;
        if (config_keys[k].type != KEY_TEXT && config_keys[k].type != KEY_CHOICE) continue;
        assert_true(asprintf(&set, "%s=" EVIL_NAME, config_keys[k].path) > 0);
        CLEAN("plan", "config.json", "--explain", "--set", set);
        if (config_keys[k].class == CLASS_HONOURED)
            CLEAN("train", "config.json", "--headless", "--steps", "1", "--set", set);
        free(set);
    }
    CLEAN_JSON("plan", "config.json", "--explain", "--json", "--set", "data.path=" EVIL_NAME);
    CLEAN("train", "config.json", "--headless", "--steps", "1", "--report", "report.json", "--set",
          "checkpoint.path=" EVIL_NAME "-1", "--set", "checkpoint.at_end=true");
    char *report = text_of("report.json");
    assert_non_null(strstr(report, "\\u001b]0;PWNED\\u0007"));
    assert_null(strchr(report, '\177'));
    free(report);
    CLEAN("train", "config.json", "--headless", "--steps", "2", "--at", "1:set checkpoint.path=" EVIL_NAME "-2", "--at",
          "2:checkpoint x");
    CLEAN("checkpoint", "inspect", EVIL_NAME "-1");
    hold();
}

/* ---- labs and their progress ---- */

/* The text, with what is planted at the end of each line that begins with `begin`; to be freed, as `text` is here. */
static char *with_evil_lines(char *text, const char *begin)
{
    char *out = NULL;
    size_t size, length, planted_in = 0;
    FILE *file = open_memstream(&out, &size);
    assert_non_null(file);
    for (const char *line = text; *line; line += length) {
        length = strcspn(line, "\n") + 1;
        const bool here = strncmp(line, begin, strlen(begin)) == 0;
        planted_in += here;
        fprintf(file, "%.*s%s\n", (int)length - 1, line, here ? " " EVIL : "");
    }
    fclose(file);
    free(text);
    if (!planted_in) fail_msg("no line of the new lab begins with %s", begin);
    return out;
}

static void files_of_labs(void **state)
{
    (void)state;
    static const char *const read[] = {"minutes:", "set:", "answer:", "do:", "look:", "keep:", "solution:", "## "};
    static const char *const shown[] = {
        "# ", "about:", "Prose", "predict:", "wrong:", "hint:", "+ ", "- ", "task:", "Each"};
    tried = bad_runs = 0;
    char *text = text_of("labs/first/lab.md");
    for (size_t l = 0; l < sizeof read / sizeof *read; l++) {
        char *evil = with_evil_lines(strdup(text), read[l]);
        write_text("labs/first/lab.md", evil);
        free(evil);
        CLEAN("lab", "list");
        CLEAN("lab", "reset", "first", "1");
    }
    for (size_t l = 0; l < sizeof shown / sizeof *shown; l++) text = with_evil_lines(text, shown[l]);
    write_text("labs/first/lab.md", text);
    free(text);
    CLEAN("lab", "list");
    CLEAN("lab", "check", "first");
    CLEAN("lab", "print", "first", "--solutions");
    if (!strstr((const char *)printed.at, "PWNED")) fail_msg("the hand-out has no word of what was planted");
    hold();
}

static void look_at_progress(const char *text)
{
    write_text("zerolab/labs/first.json", text);
    write_text("learners/" EVIL_NAME "/labs/first.json", text);
    write_text("learners/" EVIL_NAME "-first.json", text);
    CLEAN("lab", "list");
    CLEAN("class", "learners");
    CLEAN("class", "learners", EVIL_NAME);
}

static void progress_of_learners(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    CLEAN("lab", "reset", "first", "1");
    char *text = text_of("zerolab/labs/first.json");
    mkdir("learners/" EVIL_NAME, 0755), mkdir("learners/" EVIL_NAME "/labs", 0755);
    plant_each(text, true, look_at_progress);
    look_at_progress(text);
    CLEAN_JSON("class", "learners", "--json");
    free(text);
    hold();
}

/* ---- live screens ---- */

static void live_screens(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    CLEAN_SCREEN("hhh", "lab", "first");
    CLEAN_SCREEN("", "train", "config.json", "--headless", "--steps", "3", "--set",
                 "checkpoint.path=" EVIL_NAME "-saves", "--set", "checkpoint.at_end=true");
    CLEAN_SCREEN("\t", "train", "config.json", "--steps", "3", "--at", "1:set checkpoint.path=" EVIL_NAME "-live");
    hold();
}

/* U+00DB is c3 9b in UTF-8: a terminal of 8-bit characters would obey the second byte. */
static void a_terminal_of_another_locale_gets_ascii(void **state)
{
    (void)state;
    tried = bad_runs = 0;
    setenv("LC_ALL", "C", 1);
    CLEAN_SCREEN("", "plan", "PWNED \303\233\303\227");
    assert_non_null(memmem(printed.at, printed.count, "PWNED ?x", 8));
    CLEAN("plan", "PWNED \303\233");
    assert_non_null(memmem(printed.at, printed.count, "PWNED \303\233", 8)); /* into a file it goes as it is */
    setenv("LC_ALL", "C.UTF-8", 1);
    hold();
}

/* Ranks write their lines to one pipe. Each write to this socket is a message of its own. */
static void a_line_is_one_write(void **state)
{
    (void)state;
    char line[200] = "";
    int ends[2], status;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        execl(program, program, "replay", "absent", "--frame", "80x24", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(recv(ends[0], line, sizeof line - 1, MSG_DONTWAIT) > 0);
    assert_string_equal(line, "zerolab: cannot read absent: No such file or directory\n");
    close(ends[0]), close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_prints_arguments_without_control_characters),
        cmocka_unit_test(configurations),
        cmocka_unit_test(files_of_labs),
        cmocka_unit_test(progress_of_learners),
        cmocka_unit_test(live_screens),
        cmocka_unit_test(a_line_is_one_write),
        cmocka_unit_test(a_terminal_of_another_locale_gets_ascii),
    };
    return cmocka_run_group_tests(tests, set_up, remove_all);
}
