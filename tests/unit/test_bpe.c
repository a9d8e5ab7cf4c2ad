/* Byte-pair encoding: the tokens of Hugging Face's GPT2Tokenizer on texts that are hard on it (tests/reference/make_bpe.py),
 * every text comes back whole, texts may come in parts, and files that are not what they should be are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/data/bpe.h"
#include "engine/data/tokenizer.h"

#define FOLDER "tests/reference/bpe/"

static struct bpe *bpe;

static int setup(void **state)
{
    (void)state;
    struct error err;
    return bpe_open(&bpe, FOLDER "vocab.json", FOLDER "merges.txt", &err);
}

static int teardown(void **state)
{
    (void)state;
    bpe_close(bpe);
    return 0;
}

static struct bytes encoded(const char *text, size_t bytes)
{
    struct bytes tokens = {0};
    assert_int_equal(bpe_encode(bpe, text, bytes, true, &tokens), bytes);
    return tokens;
}

static int32_t token_at(const struct bytes *tokens, size_t i)
{
    int32_t token;
    memcpy(&token, tokens->at + i * sizeof token, sizeof token);
    return token;
}

static void returns(const char *text, size_t bytes)
{
    struct bytes tokens = encoded(text, bytes), back = {0};
    for (size_t i = 0; i < tokens.count / sizeof(int32_t); i++)
        assert_true(bpe_decode(bpe, token_at(&tokens, i), &back));
    assert_int_equal(back.count, bytes);
    if (bytes) assert_memory_equal(back.at, text, bytes);
    bytes_release(&tokens);
    bytes_release(&back);
}

static size_t text_of_case(const char *line, char *text, size_t room)
{
    size_t bytes = 0;
    for (unsigned byte; sscanf(line + 2 * bytes, "%2x", &byte) == 1; bytes++) {
        assert_true(bytes < room);
        text[bytes] = (char)byte;
    }
    return bytes;
}

static void test_encodes_as_transformers_does(void **state)
{
    (void)state;
    FILE *file = fopen(FOLDER "cases.txt", "re");
    char line[4096], numbers[4096], text[2048];
    int cases = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && fgets(numbers, sizeof numbers, file)) {
        size_t bytes = text_of_case(line, text, sizeof text), count = 0;
        struct bytes tokens = encoded(text, bytes);
        for (char *at = numbers, *end; strtol(at, &end, 10), end != at; at = end, count++)
            if (count >= tokens.count / 4 || token_at(&tokens, count) != strtol(at, NULL, 10))
                fail_msg("token %zu of %s is %d, not %ld", count, line,
                         count < tokens.count / 4 ? token_at(&tokens, count) : -1, strtol(at, NULL, 10));
        assert_int_equal(count, tokens.count / 4);
        bytes_release(&tokens);
        returns(text, bytes);
        cases++;
    }
    fclose(file);
    assert_true(cases >= 35);
}

static void test_bytes_that_are_no_text_come_back(void **state)
{
    (void)state;
    returns("caf\xc3", 4);
    returns("\xff\xfe hello \x80\x80 \xf0\x9f\x99", 16);
    returns("a\0b \0\0 c", 8);
    char noise[512];
    uint32_t random = 1;
    for (int round = 0; round < 300; round++) {
        size_t bytes = (size_t)(round * 7) % sizeof noise;
        for (size_t i = 0; i < bytes; i++)
            random = random * 1664525 + 1013904223, noise[i] = (char)(random >> (round % 2 ? 24 : 26));
        returns(noise, bytes);
    }
}

/* However a text is cut into parts, its tokens are those of the whole. */
static void test_a_text_may_come_in_parts(void **state)
{
    (void)state;
    static const char text[] = "We've  seen\n\n   spaces \xe2\x80\x83 and caf\xc3\xa9s; they'll   come 12345 "
                               "times,\n\tor\xf0\x9f\x99\x82not   ";
    const size_t bytes = sizeof text - 1;
    struct bytes whole = encoded(text, bytes);
    for (size_t window = 24; window < bytes; window++) {
        struct bytes tokens = {0};
        for (size_t at = 0; at < bytes;) {
            size_t part = bytes - at < window ? bytes - at : window;
            int64_t taken = bpe_encode(bpe, text + at, part, part == bytes - at, &tokens);
            assert_true(taken > 0);
            at += (size_t)taken;
        }
        assert_int_equal(tokens.count, whole.count);
        assert_memory_equal(tokens.at, whole.at, whole.count);
        bytes_release(&tokens);
    }
    bytes_release(&whole);
}

/* A word of a million letters takes about as long as a million letters in words. */
static void test_a_long_word_is_not_slow(void **state)
{
    (void)state;
    enum { LONG = 1 << 20 };
    char *text = malloc(LONG);
    memset(text, 'e', LONG);
    uint64_t began_ns = clock_worked_ns();
    struct bytes one = encoded(text, LONG);
    uint64_t one_ns = clock_worked_ns() - began_ns;
    for (int i = 0; i < LONG; i += 8) text[i] = ' ';
    began_ns = clock_worked_ns();
    struct bytes many = encoded(text, LONG);
    uint64_t many_ns = clock_worked_ns() - began_ns;
    assert_true(one_ns < 10 * many_ns + 1000000000u);
    bytes_release(&one);
    bytes_release(&many);
    free(text);
}

/* ---- files ---- */

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

static void refused(const char *vocabulary, const char *merges, const char *words)
{
    struct bpe *other;
    struct error err;
    assert_int_equal(bpe_open(&other, vocabulary, merges, &err), STATUS_INPUT);
    assert_null(other);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strchr(err.text, '\n'));
}

static void test_names_what_is_wrong_with_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/zerolab-test-bpe-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    refused("absent.json", FOLDER "merges.txt", "absent.json: cannot be opened");
    refused(FOLDER "vocab.json", "absent.txt", "absent.txt: cannot be opened");
    write_text(path, "");
    refused(path, FOLDER "merges.txt", "not a JSON object");
    write_text(path, "{\"a\": 1.5}");
    refused(path, FOLDER "merges.txt", "has no number");
    write_text(path, "{\"a\": 1, \"b\": 1}");
    refused(path, FOLDER "merges.txt", "given to two tokens");
    write_text(path, "{\"a\": 1, \"a\": 2}");
    refused(path, FOLDER "merges.txt", "is there twice");
    write_text(path, "{\"\xe4\xbd\xa0\": 1}");
    refused(path, FOLDER "merges.txt", "stands for no bytes");
    write_text(path, "{\"a\": 1}");
    refused(path, FOLDER "merges.txt", "no token for the byte 0x00");
    write_text(path, "#version: 0.2\ns t\nst\n");
    refused(FOLDER "vocab.json", path, "line 3: not two tokens");
    write_text(path, "#version: 0.2\ns t\n\ns t\n");
    refused(FOLDER "vocab.json", path, "line 4: the same pair as line 2");
    write_text(path, "qqqqq z\n");
    refused(FOLDER "vocab.json", path, "do the two files belong together?");
    write_text(path, "q q\n");
    refused(FOLDER "vocab.json", path, "becomes is not in the vocabulary");
    unlink(path);
}

/* ---- tokenizers ---- */

static struct tokenizer *opened(const struct config *config)
{
    struct tokenizer *tokenizer;
    struct error err;
    if (tokenizer_open(&tokenizer, config, &err)) fail_msg("%s", err.text);
    return tokenizer;
}

static void shows(const struct config *config, int32_t token, const char *text)
{
    struct tokenizer *tokenizer = opened(config);
    struct bytes shown = {0};
    assert_true(tokenizer_decode(tokenizer, token, &shown));
    assert_int_equal(shown.count, strlen(text));
    assert_memory_equal(shown.at, text, shown.count);
    bytes_release(&shown);
    tokenizer_close(tokenizer);
}

static void test_a_token_is_shown_as_what_is_known_of_it(void **state)
{
    (void)state;
    struct config bytes = {.model.vocabulary = 300}, numbers = {.model.vocabulary = 300, .data.format = DATA_TOKENS};
    struct config pieces = {
        .model.vocabulary = 700,
        .data = {.format = DATA_TOKENS, .vocabulary_file = FOLDER "vocab.json", .merges_file = FOLDER "merges.txt"}};
    shows(&bytes, 'x', "x");
    shows(&bytes, 299, "<299>");
    shows(&numbers, 'x', "<120>");
    shows(&pieces, 0, "<|endoftext|>");
    shows(&pieces, 221, " ");
    shows(&pieces, 699, "<699>");
    struct error err;
    struct tokenizer *tokenizer;
    pieces.model.vocabulary = 500;
    assert_int_equal(tokenizer_open(&tokenizer, &pieces, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "has 640 tokens, model.vocabulary is 500"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodes_as_transformers_does),
        cmocka_unit_test(test_bytes_that_are_no_text_come_back),
        cmocka_unit_test(test_a_text_may_come_in_parts),
        cmocka_unit_test(test_a_long_word_is_not_slow),
        cmocka_unit_test(test_names_what_is_wrong_with_a_file),
        cmocka_unit_test(test_a_token_is_shown_as_what_is_known_of_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
