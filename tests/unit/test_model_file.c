/* Reading a Hugging Face config.json: sizes and parameters of published files, what is refused, and damaged files, each of which
 * gives a model or one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/config/config.h"
#include "engine/plan/setup.h"

/* The members that matter, as published. */
static const struct published {
    const char *text;
    int64_t parameters;
    int window;
} files[] = {
    {"{\"model_type\": \"gpt2\", \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_ctx\": 1024, \"n_positions\": "
     "1024, \"n_inner\": null, "
     "\"vocab_size\": 50257, \"scale_attn_weights\": true, \"architectures\": [\"GPT2LMHeadModel\"]}",
     124439808, 0},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 11008, \"max_position_embeddings\": "
     "2048, "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"vocab_size\": 32000, \"tie_word_embeddings\": false, "
     "\"rms_norm_eps\": 1e-06}",
     6738415616, 0},
    {"{\"model_type\": \"llama\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"max_position_embeddings\": "
     "8192, "
     "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_hidden_layers\": 32, \"vocab_size\": 128256, "
     "\"attention_bias\": false}",
     8030261248, 0},
    {"{\"model_type\": \"mistral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, \"max_position_embeddings\": "
     "32768, "
     "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"num_hidden_layers\": 32, \"vocab_size\": 32000, "
     "\"sliding_window\": 4096}",
     7241732096, 4096},
    {"{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, \"max_position_embeddings\": "
     "131072, "
     "\"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"num_hidden_layers\": 24, \"vocab_size\": 151936, "
     "\"tie_word_embeddings\": true, \"sliding_window\": 131072, \"use_sliding_window\": false}",
     494032768, 0},
    {"{\"model_type\": \"opt\", \"hidden_size\": 768, \"word_embed_proj_dim\": 768, \"ffn_dim\": 3072, "
     "\"max_position_embeddings\": 2048, "
     "\"num_attention_heads\": 12, \"num_hidden_layers\": 12, \"vocab_size\": 50272, \"do_layer_norm_before\": true, "
     "\"_remove_final_layer_norm\": false}",
     125239296, 0},
    {"{\"model_type\": \"bloom\", \"n_embed\": 14336, \"n_layer\": 70, \"num_attention_heads\": 112, \"seq_length\": "
     "2048, "
     "\"vocab_size\": 250880, \"offset_alibi\": 100, \"slow_but_exact\": false}",
     176247271424, 0},
};
enum { FILES = sizeof files / sizeof *files };

static char path[] = "/tmp/zerolab-test-model-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int read_text(struct config_model *model, int *window, const char *text, size_t length, struct error *err)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    *err = (struct error){.text = ""};
    return config_model_file(model, path, window, err);
}

static void test_published_files(void **state)
{
    (void)state;
    for (int f = 0; f < FILES; f++) {
        struct config_model shape;
        struct model model;
        struct error err;
        int window;
        if (read_text(&shape, &window, files[f].text, strlen(files[f].text), &err)) fail_msg("%s", err.text);
        assert_int_equal(model_init(&model, &shape, DTYPE_BF16, &err), STATUS_OK);
        assert_int_equal(model.elems, files[f].parameters);
        assert_int_equal(window, files[f].window);
        model_release(&model);
    }
}

/* A published file with one member before the others. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        int file;
        const char *member, *says;
    } cases[] = {
        {1, "\"head_dim\": 256", "head_dim = 256"},
        {1, "\"attention_bias\": true", "attention_bias = true"},
        {1, "\"mlp_bias\": true", "mlp_bias = true"},
        {1, "\"num_key_value_heads\": 0", "num_key_value_heads = 0: must be an integer from 1"},
        {1, "\"num_key_value_heads\": -8", "num_key_value_heads = -8"},
        {1, "\"num_key_value_heads\": 1e30", "num_key_value_heads = 1e30"},
        {1, "\"num_key_value_heads\": NaN", "NaN is neither a number"},
        {0, "\"add_cross_attention\": true", "add_cross_attention = true"},
    };
    static const struct {
        const char *text, *says;
    } whole[] = {
        {"{\"model_type\": \"mamba\"}", "model_type = \"mamba\": cannot be planned; there are gpt2, llama"},
        {"{\"model_type\": 3}", "model_type: not given"},
        {"{}", "model_type: not given"},
        {"[]", "not a JSON object"},
        {"{\"model_type\": \"gpt2\"}", "n_layer: not given"},
        {"{\"model_type\": \"mistral\", \"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4, "
         "\"max_position_embeddings\": 64, \"vocab_size\": 99, \"intermediate_size\": 96}",
         "num_key_value_heads: not given"},
        {"{\"model_type\": \"opt\", \"num_hidden_layers\": 2, \"hidden_size\": 1024, \"word_embed_proj_dim\": 512, "
         "\"num_attention_heads\": 4, "
         "\"max_position_embeddings\": 64, \"vocab_size\": 99, \"ffn_dim\": 96}",
         "word_embed_proj_dim = 512"},
        {"{\"model_type\": \"opt\", \"num_hidden_layers\": 2, \"hidden_size\": 1024, \"do_layer_norm_before\": false, "
         "\"num_attention_heads\": 4, "
         "\"max_position_embeddings\": 64, \"vocab_size\": 99, \"ffn_dim\": 96}",
         "do_layer_norm_before = false"},
    };
    struct config_model shape;
    struct error err;
    char text[2048];
    int window;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *of = files[cases[c].file].text;
        snprintf(text, sizeof text, "{%s, %s", cases[c].member, of + 1);
        assert_int_not_equal(read_text(&shape, &window, text, strlen(text), &err), STATUS_OK);
        if (!strstr(err.text, cases[c].says) || strchr(err.text, '\n'))
            fail_msg("%s: \"%s\"", cases[c].member, err.text);
    }
    for (size_t c = 0; c < sizeof whole / sizeof *whole; c++) {
        assert_int_not_equal(read_text(&shape, &window, whole[c].text, strlen(whole[c].text), &err), STATUS_OK);
        if (!strstr(err.text, whole[c].says) || strchr(err.text, '\n')) fail_msg("%s: \"%s\"", whole[c].text, err.text);
    }
    assert_int_equal(config_model_file(&shape, "absent/config.json", &window, &err), STATUS_INPUT);
}

/* ---- damaged files ---- */

static uint64_t counter;

static size_t below(size_t limit)
{
    return rng_u64(1, 7, counter++) % limit;
}

/* Damages a text in one place: a byte, a cut, a part twice, or another value after a colon. */
static size_t damage(char *text, size_t length, size_t room)
{
    static const char *const values[] = {"0",     "-1", "1e30", "2147483648", "1e-3", "null", "true",
                                         "\"8\"", "[]", "{}",   "NaN",        "\"\"", "1",    "7"};
    const size_t at = below(length), count = below(length - at) % 40;
    const char *value = values[below(sizeof values / sizeof *values)], *colon = memchr(text + at, ':', length - at);
    switch (below(4)) {
    case 0: text[at] = (char)below(256); return length;
    case 1: memmove(text + at, text + at + count, length - at - count); return length - count;
    case 2:
        if (length + count > room) return length;
        memmove(text + at + count, text + at, length - at);
        return length + count;
    default:
        if (!colon) return length;
        const size_t from = (size_t)(colon + 1 - text), past = from + strcspn(colon + 1, ",}"), more = strlen(value);
        if (past > length || length + more > room) return length;
        memmove(text + from + more, text + past, length - past);
        memcpy(text + from, value, more);
        return length - (past - from) + more;
    }
}

static void assert_one_line(int status, const struct error *err, const char *text, size_t length)
{
    if ((status != STATUS_USAGE && status != STATUS_INPUT) || !err->text[0] || strchr(err->text, '\n'))
        fail_msg("status %d, \"%s\" of %.*s", status, err->text, (int)length, text);
}

/* As zerolab plan --model does. */
static void plan_or_one_line(const char *text, size_t length, int *planned)
{
    enum { SETS = 9 };
    struct config_model shape;
    struct config config;
    struct setup setup;
    struct error err;
    int window;
    char sets[SETS][64];
    const char *at[SETS];
    int status = read_text(&shape, &window, text, length, &err);
    if (status) return assert_one_line(status, &err, text, length);
    assert_true(window >= 0);
    snprintf(sets[0], sizeof *sets, "model.name=custom");
    snprintf(sets[1], sizeof *sets, "model.architecture=%s", model_traits[shape.kind].name);
    snprintf(sets[2], sizeof *sets, "model.layers=%d", shape.layers);
    snprintf(sets[3], sizeof *sets, "model.hidden=%d", shape.hidden);
    snprintf(sets[4], sizeof *sets, "model.heads=%d", shape.heads);
    snprintf(sets[5], sizeof *sets, "model.context=%d", shape.context);
    snprintf(sets[6], sizeof *sets, "model.vocabulary=%d", shape.vocabulary);
    snprintf(sets[7], sizeof *sets, "model.kv_heads=%d", shape.kv_heads);
    snprintf(sets[8], sizeof *sets, "model.ffn=%d", shape.ffn);
    for (int s = 0; s < SETS; s++) at[s] = sets[s];
    err.text[0] = '\0';
    status = config_load_text(&config, "{\"train_micro_batch_size_per_gpu\": 1}", at, SETS, &err);
    if (status) return assert_one_line(status, &err, text, length);
    assert_int_equal(setup_init(&setup, &config, &err), STATUS_OK);
    setup_release(&setup);
    config_release(&config);
    ++*planned;
}

static void test_damaged_files(void **state)
{
    (void)state;
    enum { ROUNDS = 2000, ROOM = 2048 };
    int planned = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char text[ROOM + 1] = "";
        const char *of = files[below(FILES)].text;
        size_t length = strlen(of);
        memcpy(text, of, length);
        for (size_t times = 1 + below(4); times > 0 && length > 1; times--) {
            length = damage(text, length, ROOM);
            text[length] = '\0';
        }
        plan_or_one_line(text, length, &planned);
    }
    assert_true(planned > ROUNDS / 100 && planned < ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_files),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
