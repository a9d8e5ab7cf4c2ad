/* Files of weights: what is written comes back bit for bit, in any pieces; a file of Hugging Face's transformers is the same
 * function (tests/reference/make_weights.py); and a file that is not what it should be is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/wire.h"
#include "engine/checkpoint/convert.h"
#include "tests/support/gpt_fixture.h"
#include "tests/support/lent.h"
#include "tests/support/weights_fixture.h"

#define REFERENCE "tests/reference/weights/"

static struct model model;
static struct made_up made_up = {&model, 0};
static const struct state_source source = {.user = &made_up, .read = made_up_read};
static char folder[] = "/tmp/zerolab-test-weights-XXXXXX", top[4096];

static int setup(void **state)
{
    (void)state;
    struct error err;
    if (!getcwd(top, sizeof top) || !mkdtemp(folder)) return -1;
    return model_init(&model, &made_up_shape, DTYPE_F32, &err);
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    model_release(&model);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char paths[64][128];
    static int next;
    char *path = paths[next++ % 64];
    snprintf(path, sizeof paths[0], "%s/%.90s", folder, name);
    return path;
}

static void written(const char *path, enum weights_format format, enum dtype dtype, const struct state_source *from)
{
    struct error err;
    if (weights_write(&(struct weights_target){path, format, dtype, lent(0)}, &model, from, NULL, NULL, &err))
        fail_msg("%s", err.text);
}

static struct weights_file *opened(const char *path)
{
    struct weights_file *file;
    struct error err;
    if (weights_open(&file, path, &err)) fail_msg("%s", err.text);
    weights_lend(file, lent(1));
    return file;
}

static void same_files(const char *one, const char *other)
{
    size_t a, b;
    unsigned char *left = file_bytes(one, &a), *right = file_bytes(other, &b);
    assert_int_equal(a, b);
    assert_memory_equal(left, right, a);
    free(left);
    free(right);
}

/* ---- round trips ---- */

static const struct {
    const char *name;
    enum weights_format format;
    enum dtype dtype;
} kinds[] = {
    {"f32.safetensors", WEIGHTS_SAFETENSORS, DTYPE_F32},
    {"f16.safetensors", WEIGHTS_SAFETENSORS, DTYPE_F16},
    {"bf16.safetensors", WEIGHTS_SAFETENSORS, DTYPE_BF16},
    {"f32.bin", WEIGHTS_LLMC, DTYPE_F32},
    {"bf16.bin", WEIGHTS_LLMC, DTYPE_BF16},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void test_what_is_written_comes_back_bit_for_bit(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        const char *path = path_of(kinds[k].name), *again = path_of("again");
        struct state_source back;
        struct error err;
        written(path, kinds[k].format, kinds[k].dtype, &source);
        struct weights_file *file = opened(path);
        assert_int_equal(weights_info(file)->format, kinds[k].format);
        assert_int_equal(weights_info(file)->dtype, kinds[k].dtype);
        assert_int_equal(weights_info(file)->elems, model.elems);
        assert_int_equal(weights_source(&back, file, &model, &err), STATUS_OK);
        written(again, kinds[k].format, kinds[k].dtype, &back);
        same_files(path, again);
        written(again, WEIGHTS_SAFETENSORS, DTYPE_F32, &back); /* these weights are exact in 16 bits too */
        same_files(path_of("f32.safetensors"), again);
        weights_close(file);
    }
}

/* Ranks ask for shards, in pieces. */
static void test_any_range_can_be_asked_for(void **state)
{
    (void)state;
    static const int64_t pieces[] = {1, 7, 100, 1000, 1 << 20};
    for (int k = 0; k < KINDS; k++) {
        struct weights_file *file = opened(path_of(kinds[k].name));
        for (int u = 0; u < model.unit_count; u++)
            for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
                const int64_t elems = model.units[u].elems, first = elems / 3;
                float *got = malloc((size_t)elems * sizeof *got), *want = malloc((size_t)elems * sizeof *want);
                made_up_read(&made_up, u, STATE_WEIGHTS, first, elems - first, want, NULL);
                for (int64_t at = first; at < elems; at += pieces[p]) {
                    const int64_t part = elems - at < pieces[p] ? elems - at : pieces[p];
                    assert_int_equal(weights_read(file, u, at, part, got + (at - first), NULL), STATUS_OK);
                }
                assert_memory_equal(got, want, (size_t)(elems - first) * sizeof *got);
                free(got);
                free(want);
            }
        weights_close(file);
    }
}

/* Into a checkpoint of three shards and out of it again, both formats. */
static void test_a_checkpoint_holds_the_same_weights(void **state)
{
    (void)state;
    struct config config;
    struct error err;
    const char *sets[] = {"model.layers=2",   "model.hidden=24",     "model.heads=3",
                          "model.context=20", "model.vocabulary=61", "data.sequence_length=20"};
    if (config_load(&config, "configs/nano.json", sets, 6, &err)) fail_msg("%s", err.text);
    char *json = config_to_json(&config);
    char folders[KINDS][2][32];
    for (int k = 0; k < KINDS; k++) {
        struct origin origin;
        for (int f = 0; f < 2; f++) snprintf(folders[k][f], sizeof folders[k][f], "checkpoints-%d-%d", k, f);
        struct checkpoint_target target = {.dir = path_of(folders[k][0]), .shards = 3, .buffers = lent(2)};
        if (origin_open(&origin, path_of(kinds[k].name), NULL, 0, lent(1), &err)) fail_msg("%s", err.text);
        origin.config_json = strdup(json);
        if (convert_to_checkpoint(&origin, &target, NULL, NULL, &err)) fail_msg("%s", err.text);
        origin_release(&origin);
        if (origin_open(&origin, target.dir, NULL, 0, lent(1), &err)) fail_msg("%s", err.text);
        assert_int_equal(checkpoint_info(origin.checkpoint)->shards, 3);
        assert_false(checkpoint_info(origin.checkpoint)->has[STATE_1]);
        written(path_of("again"), kinds[k].format, kinds[k].dtype, &origin.source);
        same_files(path_of(kinds[k].name), path_of("again"));
        struct checkpoint_target fewer = {.dir = target.dir, .tag = "one", .shards = 1, .buffers = lent(2)};
        assert_int_equal(convert_to_checkpoint(&origin, &fewer, NULL, NULL, &err), STATUS_USAGE);
        assert_non_null(strstr(err.text, "holds step-0 of another run; give another folder"));
        fewer.dir = path_of(folders[k][1]);
        assert_int_equal(convert_to_checkpoint(&origin, &fewer, NULL, NULL, &err), STATUS_OK);
        origin_release(&origin);
        if (origin_open(&origin, fewer.dir, "one", 0, lent(1), &err)) fail_msg("%s", err.text);
        assert_int_equal(checkpoint_info(origin.checkpoint)->shards, 1);
        written(path_of("again"), kinds[k].format, kinds[k].dtype, &origin.source);
        same_files(path_of(kinds[k].name), path_of("again"));
        origin_release(&origin);
    }
    free(json);
    config_release(&config);
}

/* ---- other programs ---- */

static void load(struct fixture *f, struct weights_file *file)
{
    for (int u = 0; u < f->model.unit_count; u++)
        assert_int_equal(weights_read(file, u, 0, f->model.units[u].elems, (float *)(void *)f->parameters[u].at, NULL),
                         STATUS_OK);
}

/* logits.bin: tokens [20], then the logits of transformers' GPT2LMHeadModel [20, 61]. */
static void test_transformers_makes_the_same_logits_of_a_file_of_ours(void **state)
{
    (void)state;
    enum { T = 20, V = 61 };
    int32_t tokens[T];
    float theirs[T * V], worst = 0, largest = 0;
    FILE *file = fopen(REFERENCE "logits.bin", "rb");
    assert_non_null(file);
    assert_int_equal(fread(tokens, sizeof *tokens, T, file), T);
    assert_int_equal(fread(theirs, sizeof *theirs, T * V, file), T * V);
    fclose(file);
    written(path_of("ours.safetensors"), WEIGHTS_SAFETENSORS, DTYPE_F32, &source);
    same_files(path_of("ours.safetensors"), REFERENCE "model.safetensors");
    struct weights_file *weights = opened(REFERENCE); /* as a folder */
    assert_int_equal(weights_info(weights)->shape.heads, 3);
    struct fixture f;
    fixture_open(&f, &weights_info(weights)->shape, DTYPE_F32, 1, T, 1, NULL);
    load(&f, weights);
    fixture_forward(&f, tokens, NULL, 1);
    const float *ours = fixture_slot(&f, made_up_shape.layers + 2, SAVED_HEAD, HEAD_LOGITS);
    for (int i = 0; i < T * V; i++) {
        worst = fmaxf(worst, fabsf(ours[i] - theirs[i]));
        largest = fmaxf(largest, fabsf(theirs[i]));
    }
    fixture_close(&f);
    weights_close(weights);
    assert_true(largest > 1); /* they are no zeros */
    if (worst > 1e-4f) fail_msg("logits differ by %g of up to %g", (double)worst, (double)largest);
}

static void test_config_json_is_what_transformers_opened(void **state)
{
    (void)state;
    size_t count;
    unsigned char *bytes = file_bytes(REFERENCE "config.json", &count);
    char *json = weights_config_json(&made_up_shape, DTYPE_F32);
    assert_int_equal(strlen(json), count);
    assert_memory_equal(json, bytes, count);
    free(json);
    free(bytes);
}

/* ---- what is not what it should be ---- */

static void refused(const char *path, const char *words)
{
    struct weights_file *file;
    struct error err;
    assert_int_equal(weights_open(&file, path, &err), STATUS_INPUT);
    assert_null(file);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_null(strchr(err.text, '\n'));
}

static void write_bytes(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* A safetensors file of this header and so many bytes of data. */
static void with_header(const char *header, size_t data_bytes, const char *words)
{
    const size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + data_bytes);
    put_u64(bytes, length);
    memcpy(bytes + 8, header, length);
    write_bytes(path_of("bad"), bytes, 8 + length + data_bytes);
    free(bytes);
    refused(path_of("bad"), words);
}

static void test_damaged_safetensors_are_named(void **state)
{
    (void)state;
    size_t count;
    unsigned char *good = file_bytes(path_of("f32.safetensors"), &count);
    refused(path_of("absent"), "cannot be opened");
    write_bytes(path_of("bad"), good, 7);
    refused(path_of("bad"), "neither safetensors nor a model file of llm.c");
    write_bytes(path_of("bad"), good, count - 4);
    refused(path_of("bad"), "copy it again");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "lacks the tables");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "damaged at \"a\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1073741824,1073741824,1073741824,4],\"data_offsets\":[0,0]}}", 0,
                "damaged at \"a\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "damaged at \"a\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "damaged at \"a\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2]"
                ",\"data_offsets\":[4,12]}}",
                12, "overlap or leave a hole at \"b\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\",\"shape\":[2]"
                ",\"data_offsets\":[8,16]}}",
                16, "two tensors \"a\"");
    with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, "not JSON of tensors");
    with_header("[1,2]", 8, "neither safetensors");
    free(good);
}

/* The header with every `from` replaced by `to`, of the same length. */
static void changed(const char *from, const char *to, const char *words)
{
    size_t count;
    unsigned char *bytes = file_bytes(path_of("f32.safetensors"), &count);
    for (size_t i = 0; i + strlen(from) < 4096; i++)
        if (memcmp(bytes + i, from, strlen(from)) == 0) memcpy(bytes + i, to, strlen(from));
    write_bytes(path_of("bad"), bytes, count);
    free(bytes);
    refused(path_of("bad"), words);
}

static void test_another_architecture_is_named(void **state)
{
    (void)state;
    changed("h.1.attn.c_proj.bias", "h.1.attn.c_proj.bIAs", "lacks h.1.attn.c_proj.bias");
    changed("\"h.1.", "\"g.1.", "its tensor \"g.1.attn.c_attn.bias\" has no place in one");
    changed("\"h.0.", "\"h.2.", "0 layers, hidden 24"); /* a block is missing before another */
    changed("\"F32\"", "\"I32\"", "wte.weight is not in F32, F16 or BF16");
    changed("[24,96]", "[96,24]", "h.0.mlp.c_fc.weight has not the shape");
}

static void test_damaged_llmc_files_are_named(void **state)
{
    (void)state;
    size_t count;
    unsigned char *good = file_bytes(path_of("f32.bin"), &count), *bad = malloc(count);
    static const struct {
        int number;
        uint32_t value;
        const char *words;
    } cases[] = {
        {1, 4, "of version 4; versions 3 (fp32) and 5 (bf16)"},
        {2, 0, "has 0 where a size should be"},
        {3, 0x80000000u, "where a size should be"},
        {4, 2000, "no model has such sizes"},
        {5, 5, "no model has such sizes"},
        {6, 25, "no model has such sizes"},
        {4, 3, "copy it again"},
        {7, 60, "pads a vocabulary of 61 to 60"},
        {7, 2000000, "pads a vocabulary of 61 to 2000000"},
        {1, 5, "copy it again"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        memcpy(bad, good, count);
        put_u32(bad + 4 * cases[c].number, cases[c].value);
        write_bytes(path_of("bad"), bad, count);
        refused(path_of("bad"), cases[c].words);
    }
    write_bytes(path_of("bad"), good, 800);
    refused(path_of("bad"), "cut short in its head");
    write_bytes(path_of("bad"), good, count - 1);
    refused(path_of("bad"), "copy it again");
    free(good);
    free(bad);
}

static void test_another_model_is_refused_with_both_sizes(void **state)
{
    (void)state;
    struct model larger;
    struct config_model shape = made_up_shape;
    struct state_source from;
    struct error err;
    shape.layers = 3;
    assert_int_equal(model_init(&larger, &shape, DTYPE_F32, &err), STATUS_OK);
    struct weights_file *file = opened(path_of("f32.bin"));
    assert_int_equal(weights_source(&from, file, &larger, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "its model.layers is 2, that of this run is 3"));
    weights_close(file);
    model_release(&larger);
}

static int read_large(void *user, int u, enum state_array array, int64_t first, int64_t elems, float *out,
                      struct error *err)
{
    (void)user, (void)u, (void)array, (void)first, (void)err;
    for (int64_t i = 0; i < elems; i++) out[i] = 7e4f;
    return STATUS_OK;
}

static void test_nothing_half_is_left_and_no_infinity_made(void **state)
{
    (void)state;
    const struct state_source large = {.read = read_large};
    struct error err;
    assert_int_equal(weights_write(&(struct weights_target){path_of("large"), WEIGHTS_SAFETENSORS, DTYPE_F16, lent(0)},
                                   &model, &large, NULL, NULL, &err),
                     STATUS_RUN);
    assert_non_null(strstr(err.text, "which fp16 cannot hold"));
    assert_int_equal(access(path_of("large"), F_OK), -1);
    assert_int_equal(access(path_of("large.partial"), F_OK), -1);
    assert_int_equal(weights_write(&(struct weights_target){path_of("x"), WEIGHTS_LLMC, DTYPE_F16, lent(0)}, &model,
                                   &source, NULL, NULL, &err),
                     STATUS_USAGE);
    assert_int_equal(weights_write(&(struct weights_target){"/nonexistent/x", WEIGHTS_LLMC, DTYPE_F32, lent(0)}, &model,
                                   &source, NULL, NULL, &err),
                     STATUS_USAGE);
}

static bool stop_at_once(void *user, uint64_t done_bytes, uint64_t all_bytes)
{
    ++*(int *)user;
    return done_bytes < all_bytes;
}

static void test_a_stopped_file_leaves_no_part_of_it(void **state)
{
    (void)state;
    struct error err;
    int asked = 0;
    assert_int_equal(weights_write(&(struct weights_target){path_of("stopped"), WEIGHTS_LLMC, DTYPE_F32, lent(0)},
                                   &model, &source, stop_at_once, &asked, &err),
                     STATUS_RUN);
    assert_int_equal(asked, 1);
    assert_int_equal(access(path_of("stopped"), F_OK), -1);
    assert_int_equal(access(path_of("stopped.partial"), F_OK), -1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_comes_back_bit_for_bit),
        cmocka_unit_test(test_any_range_can_be_asked_for),
        cmocka_unit_test(test_a_checkpoint_holds_the_same_weights),
        cmocka_unit_test(test_transformers_makes_the_same_logits_of_a_file_of_ours),
        cmocka_unit_test(test_config_json_is_what_transformers_opened),
        cmocka_unit_test(test_damaged_safetensors_are_named),
        cmocka_unit_test(test_another_architecture_is_named),
        cmocka_unit_test(test_damaged_llmc_files_are_named),
        cmocka_unit_test(test_another_model_is_refused_with_both_sizes),
        cmocka_unit_test(test_nothing_half_is_left_and_no_infinity_made),
        cmocka_unit_test(test_a_stopped_file_leaves_no_part_of_it),
    };
    if (argc == 3 && strcmp(argv[1], "--write") == 0) { /* for make_weights.py */
        struct error err;
        return model_init(&model, &made_up_shape, DTYPE_F32, &err) ||
               weights_write(&(struct weights_target){argv[2], WEIGHTS_SAFETENSORS, DTYPE_F32, lent(0)}, &model,
                             &source, NULL, NULL, &err);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
