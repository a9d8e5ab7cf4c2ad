/* Throws damaged and made-up files at the configuration reader: it must say yes or give one line, never crash, hang or leak
 * (AddressSanitizer builds watch), and what it accepts must survive being written and read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/config/builtin.h"
#include "engine/config/command.h"
#include "engine/config/config.h"
#include "engine/config/keys.h"

enum { ROOM = 4096 };

static const char *const words[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "#",
    "//",
    "/*",
    "*/",
    "\n",
    "null",
    "true",
    "false",
    "\"auto\"",
    "-1",
    "0",
    "1e400",
    "5e8",
    "9223372036854775808",
    "1e-999999999999",
    "0.5",
    "\"256MiB\"",
    "\"\\u0001\"",
    "\"\\u00015\"",
    "\xff",
    "{}",
    "[]",
    "\"none\"",
    "\"x\":",
};

static uint64_t counter;

static size_t below(size_t limit)
{
    return rng_u64(1, 2, counter++) % limit;
}

/* Deletes, repeats, overwrites or inserts something somewhere. */
static size_t damage(char *text, size_t length)
{
    size_t at = below(length + 1), count = below(20), kind = below(4);
    if (kind == 0 && at + count <= length) {
        memmove(text + at, text + at + count, length - at - count);
        return length - count;
    }
    if (kind == 1 && at < length) {
        text[at] = (char)below(256);
        return length;
    }
    const char *word =
        kind == 2 ? words[below(sizeof words / sizeof *words)] : config_keys[below((size_t)config_key_count)].path;
    size_t more = strlen(word);
    if (length + more >= ROOM) return length;
    memmove(text + at + more, text + at, length - at);
    memcpy(text + at, word, more);
    return length + more;
}

static char *path_of(int file)
{
    static char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}

static void put_text(int file, const char *text, size_t length)
{
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, length, 0), length);
}

static void survives_a_round_trip(int file, const struct config *config)
{
    struct config again;
    struct error err;
    char *first = config_to_json(config);
    assert_non_null(first);
    put_text(file, first, strlen(first));
    if (config_load(&again, path_of(file), NULL, 0, &err)) fail_msg("%s\n%s", err.text, first);
    char *second = config_to_json(&again);
    assert_string_equal(first, second);
    free(first), free(second);
    config_release(&again);
}

static void is_one_line(const struct error *err, int status)
{
    assert_int_equal(err->status, status);
    assert_true(status == STATUS_USAGE || status == STATUS_INPUT);
    assert_true(err->text[0] != '\0');
}

static void damaged_files_are_accepted_or_refused(void **state)
{
    (void)state;
    int file = memfd_create("config", MFD_CLOEXEC), accepted = 0, refused = 0, rounds = getenv("SHORT") ? 1000 : 10000;
    assert_true(file >= 0);
    for (int round = 0; round < rounds; round++) {
        char text[ROOM];
        size_t length = (size_t)(config_builtin_end - config_builtin);
        memcpy(text, config_builtin, length);
        for (size_t times = 1 + below(4); times > 0; times--) length = damage(text, length);
        put_text(file, text, length);
        struct config config;
        struct error err = {.text = ""};
        int status = config_load(&config, path_of(file), NULL, 0, &err);
        if (status) {
            is_one_line(&err, status);
            refused++;
        } else {
            survives_a_round_trip(file, &config);
            config_release(&config);
            accepted++;
        }
    }
    close(file);
    assert_true(accepted > rounds / 50 && refused > rounds / 50); /* both paths were walked */
}

/* Any value for any key, through --set and through the live command. */
static void any_value_for_any_key(void **state)
{
    (void)state;
    for (int k = 0; k < config_key_count; k++)
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            char set[256];
            const char *sets[] = {set};
            struct config config;
            struct error err = {.text = ""};
            snprintf(set, sizeof set, "%s=%s", config_keys[k].path, words[w]);
            int status = config_load(&config, NULL, sets, 1, &err);
            if (status) is_one_line(&err, status);
            else config_release(&config);
            assert_int_equal(config_load(&config, NULL, NULL, 0, NULL), STATUS_OK);
            config_set(&config, config_keys[k].path, words[w], NULL);
            config_release(&config);
        }
}

static void damaged_commands(void **state)
{
    (void)state;
    static const char line[] = "set zero_optimization.stage=3";
    for (int round = 0; round < 2000; round++) {
        char text[ROOM];
        struct command command;
        struct error err = {.text = ""};
        memcpy(text, line, sizeof line);
        size_t length = damage(text, sizeof line - 1);
        text[length] = '\0';
        int status = command_parse(&command, text, &err);
        if (status) is_one_line(&err, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_accepted_or_refused),
        cmocka_unit_test(any_value_for_any_key),
        cmocka_unit_test(damaged_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
