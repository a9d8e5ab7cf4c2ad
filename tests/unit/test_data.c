/* Samples are a pure function of (seed, number); files and folders read as one text; bad input is one line. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/data/corpus.h"
#include "engine/data/data.h"
#include "engine/data/shard.h"

enum { T = 16 };

static char folder[] = "/tmp/zerolab-test-data-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return chdir("/") == 0 ? system(command) : -1;
}

static void write_file(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static struct config config_for(const char *path, double validation_fraction)
{
    struct config config = {.data.sequence_length = T,
                            .data.seed = 7,
                            .data.validation_fraction = validation_fraction,
                            .model.vocabulary = 256};
    snprintf(config.data.path, sizeof config.data.path, "%s", path);
    return config;
}

static struct data *opened(const struct config *config)
{
    struct data *data;
    struct error err;
    if (data_open(&data, config, &err)) fail_msg("%s", err.text);
    return data;
}

/* 1000 bytes, byte i being i mod 251: a token tells where it came from. */
static void write_pattern(const char *path, size_t first, size_t length)
{
    uint8_t bytes[1000];
    for (size_t i = 0; i < length; i++) bytes[i] = (uint8_t)((first + i) % 251);
    write_file(path, bytes, length);
}

static void refused(const char *path, int vocabulary, double fraction, int status, const char *words)
{
    struct config config = config_for(path, fraction);
    struct data *data;
    struct error err;
    config.model.vocabulary = vocabulary;
    assert_int_equal(data_open(&data, &config, &err), status);
    assert_null(data);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strchr(err.text, '\n'));
}

static void samples_do_not_depend_on_how_they_are_asked_for(void **state)
{
    (void)state;
    write_pattern("pattern", 0, 1000);
    struct config config = config_for("pattern", 0.1);
    struct data *data = opened(&config);
    int32_t tokens[8][T], targets[8][T], one[T], next[T];
    data_batch(data, DATA_TRAIN, 100, 8, T, tokens[0], targets[0], NULL);
    int different = 0;
    for (int b = 0; b < 8; b++) {
        data_batch(data, DATA_TRAIN, 100 + b, 1, T, one, next, NULL);
        assert_memory_equal(one, tokens[b], sizeof one);
        assert_memory_equal(next, targets[b], sizeof next);
        for (int t = 0; t < T; t++) assert_int_equal(targets[b][t], (tokens[b][t] + 1) % 251);
        different += b > 0 && tokens[b][0] != tokens[0][0];
    }
    assert_true(different > 4);
    data_close(data);
    config.data.seed = 8;
    data = opened(&config);
    data_batch(data, DATA_TRAIN, 100, 1, T, one, next, NULL);
    assert_memory_not_equal(one, tokens[0], sizeof one);
    data_close(data);
}

static void training_never_sees_the_held_out_end(void **state)
{
    (void)state;
    uint8_t bytes[1000];
    memset(bytes, 'a', 900);
    memset(bytes + 900, 'b', 100);
    write_file("split", bytes, sizeof bytes);
    struct config config = config_for("split", 0.1);
    struct data *data = opened(&config);
    int32_t tokens[T], targets[T];
    for (int64_t sample = 0; sample < 3000; sample++) {
        data_batch(data, DATA_TRAIN, sample, 1, T, tokens, targets, NULL);
        for (int t = 0; t < T; t++) assert_true(tokens[t] == 'a' && targets[t] == 'a');
    }
    assert_int_equal(data_validation_samples(data, T), 6); /* (100 - 1) / 16 */
    for (int64_t sample = 0; sample < 20; sample++) {
        data_batch(data, DATA_VALIDATION, sample, 1, T, tokens, targets, NULL);
        for (int t = 0; t < T; t++) assert_true(tokens[t] == 'b' && targets[t] == 'b');
    }
    data_close(data);
}

static void held_out_samples_walk_and_wrap(void **state)
{
    (void)state;
    write_pattern("pattern", 0, 1000);
    struct config config = config_for("pattern", 0.1);
    struct data *data = opened(&config);
    int32_t tokens[T], targets[T];
    for (int64_t sample = 0; sample < 12; sample++) {
        data_batch(data, DATA_VALIDATION, sample, 1, T, tokens, targets, NULL);
        assert_int_equal(tokens[0], (900 + sample % 6 * T) % 251);
    }
    data_close(data);
    config.data.validation_fraction = 0;
    data = opened(&config);
    assert_int_equal(data_validation_samples(data, T), 0);
    data_close(data);
}

static void a_folder_is_one_text_in_path_order(void **state)
{
    (void)state;
    assert_int_equal(mkdir("many", 0700), 0);
    assert_int_equal(mkdir("many/b", 0700), 0);
    write_pattern("many/c", 600, 400);
    write_pattern("many/a", 0, 5);
    write_pattern("many/b/x", 5, 3);
    write_pattern("many/b/y", 8, 592);
    write_file("many/empty", "", 0);
    write_file("many/.hidden", "not read", 8);
    assert_int_equal(symlink("/dev/zero", "many/link"), 0);
    assert_int_equal(mkfifo("many/pipe", 0600), 0);
    write_pattern("pattern", 0, 1000);
    struct config whole_config = config_for("pattern", 0.1), parts_config = config_for("many", 0.1);
    struct data *whole = opened(&whole_config), *parts = opened(&parts_config);
    assert_int_equal(data_bytes(parts), 1000);
    for (int64_t sample = 0; sample < 500; sample++) {
        int32_t a[2][T], b[2][T];
        data_batch(whole, DATA_TRAIN, sample, 1, T, a[0], a[1], NULL);
        data_batch(parts, DATA_TRAIN, sample, 1, T, b[0], b[1], NULL);
        assert_memory_equal(a, b, sizeof a);
    }
    assert_true(data_unigram_entropy(whole) == data_unigram_entropy(parts));
    data_close(whole), data_close(parts);
}

static void samples_longer_than_the_copy_buffer(void **state)
{
    (void)state;
    enum { LONG = 900 };
    static int32_t tokens[LONG], targets[LONG];
    write_pattern("pattern", 0, 1000);
    struct config config = config_for("pattern", 0);
    config.data.sequence_length = LONG;
    struct data *data = opened(&config);
    for (int64_t sample = 0; sample < 50; sample++) {
        data_batch(data, DATA_TRAIN, sample, 1, LONG, tokens, targets, NULL);
        for (int t = 0; t < LONG; t++) assert_int_equal(tokens[t], (tokens[0] + t) % 251);
        for (int t = 0; t < LONG; t++) assert_int_equal(targets[t], (tokens[0] + t + 1) % 251);
    }
    data_close(data);
}

static void the_shortest_text_has_one_sample(void **state)
{
    (void)state;
    write_pattern("short", 0, T + 1);
    struct config config = config_for("short", 0);
    struct data *data = opened(&config);
    int32_t tokens[T], targets[T];
    for (int64_t sample = 0; sample < 100; sample++) {
        data_batch(data, DATA_TRAIN, sample, 1, T, tokens, targets, NULL);
        assert_int_equal(tokens[0], 0);
        assert_int_equal(targets[T - 1], T);
    }
    data_close(data);
}

static void bad_input_is_one_clear_line(void **state)
{
    (void)state;
    write_file("nothing", "", 0);
    write_pattern("short", 0, T);
    write_pattern("pattern", 0, 1000);
    assert_int_equal(mkdir("bare", 0700), 0);
    refused("absent", 256, 0.1, STATUS_INPUT, "data.path absent: cannot be opened: No such file");
    refused("nothing", 256, 0.1, STATUS_INPUT, "data.path nothing: no text in it");
    refused("bare", 256, 0.1, STATUS_INPUT, "data.path bare: no text in it");
    refused("short", 256, 0, STATUS_INPUT, "less than one sample of 16 tokens");
    refused("pattern", 256, 0.99, STATUS_INPUT, "less than one sample");
    refused("pattern", 255, 0.1, STATUS_USAGE, "at least 256");
    refused("/dev/null", 256, 0.1, STATUS_INPUT, "neither a file nor a folder");
}

/* ---- token shards ---- */

static void write_shard(const char *path, int first, int count)
{
    struct shard_writer *writer;
    struct error err;
    int32_t tokens[1000];
    for (int i = 0; i < count; i++) tokens[i] = (first + i) % 997;
    if (shard_writer_open(&writer, path, 0, &err) || shard_writer_put(writer, tokens, (size_t)count, &err) ||
        shard_writer_end(writer, &err))
        fail_msg("%s", err.text);
    shard_writer_close(writer);
}

static struct config shards_config(const char *path)
{
    struct config config = config_for(path, 0.1);
    config.data.format = DATA_TOKENS;
    config.model.vocabulary = 1000;
    return config;
}

/* The same bytes as llm.c writes, and a sample begins where it would in a text of as many bytes. */
static void shards_are_read_by_the_same_rule(void **state)
{
    (void)state;
    uint8_t head[12];
    int32_t a[2][T], b[2][T];
    write_shard("one.bin", 0, 600);
    FILE *file = fopen("one.bin", "rb");
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_memory_equal(head, "\x88\xd8\x34\x01\x01\0\0\0\x58\x02\0\0", sizeof head);
    assert_int_equal(mkdir("shards", 0700), 0);
    write_shard("shards/a.bin", 0, 600);
    write_shard("shards/b.bin", 600, 400);
    write_file("shards/README", "not a shard", 11);
    write_pattern("text", 0, 1000);
    struct config of_shards = shards_config("shards"), of_text = config_for("text", 0.1);
    struct data *shards = opened(&of_shards), *text = opened(&of_text);
    assert_int_equal(data_tokens(shards), 1000);
    assert_int_equal(data_bytes(shards), 2000);
    for (int sample = 0; sample < 200; sample++) {
        assert_int_equal(data_batch(shards, DATA_TRAIN, sample, 1, T, a[0], a[1], NULL), STATUS_OK);
        assert_int_equal(data_batch(text, DATA_TRAIN, sample, 1, T, b[0], b[1], NULL), STATUS_OK);
        assert_int_equal(a[0][0] % 251, b[0][0]); /* both begin at the same place, below 997 */
        for (int t = 0; t < T; t++) assert_int_equal(a[1][t], (a[0][0] + t + 1) % 997);
    }
    data_close(shards);
    data_close(text);
}

static void shards_refused(const char *path, int vocabulary, int status, const char *words)
{
    struct config config = shards_config(path);
    struct data *data;
    struct error err;
    config.model.vocabulary = vocabulary;
    assert_int_equal(data_open(&data, &config, &err), status);
    assert_null(data);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
}

static void bad_shards_are_one_clear_line(void **state)
{
    (void)state;
    uint8_t file[SHARD_HEAD_BYTES + 200];
    write_shard("good.bin", 0, 100);
    FILE *good = fopen("good.bin", "rb");
    assert_int_equal(fread(file, 1, sizeof file, good), sizeof file);
    fclose(good);
    shards_refused("good.bin", 99, STATUS_USAGE,
                   "data.path good.bin: token 99 is not in model.vocabulary, which is 99; set it to at least 100");
    write_file("short.bin", file, sizeof file - 2);
    shards_refused("short.bin", 1000, STATUS_INPUT, "says that it has 100 tokens, its 1222 bytes hold 99");
    write_file("head.bin", file, 500);
    shards_refused("head.bin", 1000, STATUS_INPUT, "cut short in its head");
    file[4] = 7;
    write_file("version.bin", file, sizeof file);
    shards_refused("version.bin", 1000, STATUS_INPUT, "of version 7; version 1 can be read");
    write_file("text.bin", "once upon a time", 16);
    shards_refused("text.bin", 1000, STATUS_INPUT, "not a token shard");
}

/* Far behind what is looked at before a run. */
static void a_token_outside_is_found_when_it_is_read(void **state)
{
    (void)state;
    enum { MANY = 34 << 20 };
    struct shard_writer *writer;
    struct error err;
    static int32_t tokens[1 << 20];
    int32_t a[2][T];
    assert_int_equal(shard_writer_open(&writer, "large.bin", 0, &err), STATUS_OK);
    for (int i = 0; i < MANY / (1 << 20); i++) {
        if (i == 33) tokens[5] = 900;
        assert_int_equal(shard_writer_put(writer, tokens, 1 << 20, &err), STATUS_OK);
    }
    assert_int_equal(shard_writer_end(writer, &err), STATUS_OK);
    shard_writer_close(writer);
    struct config config = shards_config("large.bin");
    config.model.vocabulary = 900;
    struct data *data = opened(&config);
    int64_t held_out = data_validation_samples(data, T), sample = 0;
    while (sample < held_out && !data_batch(data, DATA_VALIDATION, sample, 1, T, a[0], a[1], &err)) sample++;
    assert_true(sample < held_out);
    assert_non_null(strstr(err.text, "token 900 is not in model.vocabulary"));
    data_close(data);
    unlink("large.bin");
}

static void a_writer_cuts_shards_and_leaves_none_half(void **state)
{
    (void)state;
    struct shard_writer *writer;
    struct error err;
    struct corpus corpus;
    int32_t tokens[250] = {1, 2, 3}, large = 65536;
    assert_int_equal(shard_writer_open(&writer, "cut", 100, &err), STATUS_OK);
    assert_int_equal(shard_writer_put(writer, tokens, 250, &err), STATUS_OK);
    assert_int_equal(shard_writer_end(writer, &err), STATUS_OK);
    assert_int_equal(shard_writer_shards(writer), 3);
    shard_writer_close(writer);
    assert_int_equal(corpus_open(&corpus, "cut", DATA_TOKENS, &err), STATUS_OK);
    assert_int_equal(corpus.length, 250);
    assert_int_equal(corpus.files[2].length, 50);
    corpus_close(&corpus);
    assert_int_equal(shard_writer_open(&writer, "half.bin", 0, &err), STATUS_OK);
    assert_int_equal(shard_writer_put(writer, &large, 1, &err), STATUS_USAGE);
    shard_writer_close(writer);
    assert_int_equal(access("half.bin", F_OK), -1);
    assert_int_equal(access("half.bin.partial", F_OK), -1);
}

static void made_up_tokens_need_no_file(void **state)
{
    (void)state;
    struct config config = config_for("", 0.1);
    config.data.synthetic = true;
    config.model.vocabulary = 97; /* below 256 is fine: not text */
    struct data *data = opened(&config);
    int32_t tokens[4][T], targets[4][T], one[T], next[T], counts[97] = {0};
    data_batch(data, DATA_TRAIN, 40, 4, T, tokens[0], targets[0], NULL);
    data_batch(data, DATA_TRAIN, 42, 1, T, one, next, NULL);
    assert_memory_equal(one, tokens[2], sizeof one);
    assert_memory_equal(next, targets[2], sizeof next);
    assert_memory_equal(one + 1, next, sizeof one - sizeof *one);
    for (int64_t sample = 0; sample < 1000; sample++) {
        data_batch(data, DATA_TRAIN, sample, 1, T, one, next, NULL);
        for (int t = 0; t < T; t++) {
            assert_in_range(one[t], 0, 96);
            counts[one[t]]++;
        }
    }
    for (int token = 0; token < 97; token++) assert_in_range(counts[token], 100, 240); /* 165 expected */
    assert_true(fabs(data_unigram_entropy(data) - log(97)) < 1e-12);
    assert_int_equal(data_validation_samples(data, T), 0);
    data_close(data);
}

static void entropy_of_known_frequencies(void **state)
{
    (void)state;
    uint8_t bytes[1000];
    for (int i = 0; i < 1000; i++) bytes[i] = i % 4 == 0 ? 'a' : i % 4 == 1 ? 'b' : 'c';
    write_file("abcc", bytes, sizeof bytes);
    struct config config = config_for("abcc", 0);
    struct data *data = opened(&config);
    assert_true(fabs(data_unigram_entropy(data) - 1.5 * log(2)) < 1e-12);
    data_close(data);
}

static void the_default_text_is_the_frozen_one(void **state)
{
    (void)state;
    struct config config = config_for("", 0.1);
    struct data *data = opened(&config);
    assert_int_equal(data_bytes(data), DEFAULT_TEXT_BYTES);
    double entropy = data_unigram_entropy(data);
    assert_true(entropy > 2 && entropy < 4); /* text, in nats */
    data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_do_not_depend_on_how_they_are_asked_for),
        cmocka_unit_test(training_never_sees_the_held_out_end),
        cmocka_unit_test(held_out_samples_walk_and_wrap),
        cmocka_unit_test(a_folder_is_one_text_in_path_order),
        cmocka_unit_test(samples_longer_than_the_copy_buffer),
        cmocka_unit_test(the_shortest_text_has_one_sample),
        cmocka_unit_test(bad_input_is_one_clear_line),
        cmocka_unit_test(shards_are_read_by_the_same_rule),
        cmocka_unit_test(bad_shards_are_one_clear_line),
        cmocka_unit_test(a_token_outside_is_found_when_it_is_read),
        cmocka_unit_test(a_writer_cuts_shards_and_leaves_none_half),
        cmocka_unit_test(made_up_tokens_need_no_file),
        cmocka_unit_test(entropy_of_known_frequencies),
        cmocka_unit_test(the_default_text_is_the_frozen_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
