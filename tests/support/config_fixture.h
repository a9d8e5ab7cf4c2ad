/* For the tests of configurations: text is written to a file and read, which succeeds, or is refused in so many words. */
#pragma once

#include "engine/config/config.h"

#define BATCH "\"train_micro_batch_size_per_gpu\": 4,"

static char file_path[] = "/tmp/zerolab-test-config-XXXXXX";

static int setup(void **state)
{
    (void)state;
    int file = mkstemp(file_path);
    return file < 0 ? -1 : close(file);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(file_path);
}

static void write_file(const char *text, size_t length)
{
    FILE *file = fopen(file_path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static inline int load(struct config *config, const char *text, const char *set, struct error *err)
{
    write_file(text, strlen(text));
    return config_load(config, file_path, &set, set != NULL, err);
}

/* Loads, or fails with the reader's own words. */
static inline struct config loaded(const char *text, const char *set)
{
    struct config config;
    struct error err;
    if (load(&config, text, set, &err)) fail_msg("%s", err.text);
    return config;
}

/* The text is refused with this status, by a line that has these words in it. */
static inline void refused(const char *text, const char *set, int status, const char *words)
{
    struct config config;
    struct error err = {.text = ""};
    int got = load(&config, text, set, &err);
    if (got == STATUS_OK) fail_msg("accepted: %s %s", text, set ? set : "");
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strchr(err.text, '\n'));
    assert_non_null(strstr(err.text, file_path));
    assert_int_equal(got, status);
    assert_int_equal(err.status, status);
}
