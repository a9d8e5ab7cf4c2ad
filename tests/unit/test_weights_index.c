/* Models of several safetensors files with an index, as transformers' save_pretrained(max_shard_size=...) writes them: the same
 * weights come out as of one file, and what is missing, twice or elsewhere than the index says is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "tests/support/lent.h"
#include "tests/support/weights_fixture.h"

#define REFERENCE "tests/reference/weights/"
#define SHARDED   REFERENCE "sharded"
#define INDEX     "model.safetensors.index.json"

static char folder[64];

static void put_file(const char *name, const void *bytes, size_t count)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static const char *shard(int number) /* from 1 */
{
    static char name[64];
    snprintf(name, sizeof name, "model-%05d-of-00004.safetensors", number);
    return name;
}

/* A copy of what transformers wrote, to be spoilt. */
static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zerolab-test-index-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    for (int f = 0; f <= 5; f++) {
        const char *name = f == 0 ? INDEX : f == 5 ? "config.json" : shard(f);
        char path[200];
        size_t count;
        snprintf(path, sizeof path, SHARDED "/%s", name);
        unsigned char *bytes = file_bytes(path, &count);
        put_file(name, bytes, count);
        free(bytes);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct weights_file *opened(const char *path)
{
    struct weights_file *file;
    struct error err;
    if (weights_open(&file, path, &err)) fail_msg("%s", err.text);
    weights_lend(file, lent(0));
    return file;
}

static void refused(const char *words)
{
    struct weights_file *file;
    struct error err;
    assert_int_equal(weights_open(&file, folder, &err), STATUS_INPUT);
    assert_null(file);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_non_null(strstr(err.text, INDEX));
    assert_null(strchr(err.text, '\n'));
}

/* The file with the first `from` in it made `to`, of any length (in a header of the same). */
static void changed(const char *name, const char *from, const char *to)
{
    char path[200];
    size_t count;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unsigned char *bytes = file_bytes(path, &count), *more = malloc(count + strlen(to));
    unsigned char *at = memmem(bytes, count, from, strlen(from));
    assert_non_null(at);
    const size_t before = (size_t)(at - bytes), after = count - before - strlen(from);
    memcpy(more, bytes, before);
    memcpy(more + before, to, strlen(to));
    memcpy(more + before + strlen(to), at + strlen(from), after);
    put_file(name, more, before + strlen(to) + after);
    free(bytes);
    free(more);
}

/* ---- what is good ---- */

static void several_files_are_the_same_model_as_one(void **state)
{
    (void)state;
    struct model model;
    struct state_source source;
    struct error err;
    char path[200];
    size_t ours, theirs;
    struct weights_file *file = opened(folder);
    assert_int_equal(weights_info(file)->files, 4);
    assert_int_equal(weights_info(file)->tensors, 28);
    assert_int_equal(weights_info(file)->shape.heads, 3); /* config.json beside it says so */
    assert_int_equal(model_init(&model, &made_up_shape, DTYPE_F32, &err), STATUS_OK);
    assert_int_equal(weights_source(&source, file, &model, &err), STATUS_OK);
    snprintf(path, sizeof path, "%s/one", folder);
    const struct weights_target target = {path, WEIGHTS_SAFETENSORS, DTYPE_F32, lent(1)};
    assert_int_equal(weights_write(&target, &model, &source, NULL, NULL, &err), STATUS_OK);
    unsigned char *one = file_bytes(path, &ours), *reference = file_bytes(REFERENCE "model.safetensors", &theirs);
    assert_int_equal(ours, theirs);
    assert_memory_equal(one, reference, ours);
    free(one);
    free(reference);
    weights_close(file);
    model_release(&model);
}

/* Another file each time, other rows of a transposed tensor each time. */
static void any_range_can_be_asked_for_in_any_order(void **state)
{
    (void)state;
    struct model model;
    struct error err;
    float got[4096], want[4096];
    char path[200];
    snprintf(path, sizeof path, "%s/" INDEX, folder);
    struct weights_file *file = opened(path);
    assert_int_equal(model_init(&model, &made_up_shape, DTYPE_F32, &err), STATUS_OK);
    struct made_up made_up = {&model, 0};
    for (uint64_t i = 0; i < 300; i++) {
        const int u = (int)(rng_mix(i) % (uint64_t)model.unit_count);
        const int64_t elems = model.units[u].elems, first = (int64_t)(rng_mix(i + 1000) % (uint64_t)elems);
        const int64_t left = elems - first < 4096 ? elems - first : 4096,
                      count = (int64_t)(rng_mix(i + 2000) % (uint64_t)left) + 1;
        made_up_read(&made_up, u, STATE_WEIGHTS, first, count, want, NULL);
        if (weights_read(file, u, first, count, got, &err)) fail_msg("%s", err.text);
        assert_memory_equal(got, want, (size_t)count * sizeof *got);
    }
    weights_close(file);
    model_release(&model);
}

/* ---- what is not ---- */

static void a_missing_file_is_named(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, shard(3));
    unlink(path);
    refused("model-00003-of-00004.safetensors: cannot be opened: No such file");
}

static void a_file_cut_short_is_named(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, shard(2));
    assert_int_equal(truncate(path, 20000), 0);
    refused("model-00002-of-00004.safetensors: its tensors have");
    assert_int_equal(truncate(path, 7), 0);
    refused("model-00002-of-00004.safetensors: is too short");
}

static void a_tensor_in_two_files_is_named(void **state)
{
    (void)state;
    changed(shard(3), "transformer.h.1.mlp.c_proj.bias", "transformer.h.0.mlp.c_proj.bias");
    refused("\"transformer.h.0.mlp.c_proj.bias\" is in model-00001-of-00004.safetensors and in model-00003");
}

static void a_tensor_in_another_file_is_named(void **state)
{
    (void)state;
    changed(INDEX, "\"transformer.ln_f.weight\": \"model-00003", "\"transformer.ln_f.weight\": \"model-00001");
    refused(
        "\"transformer.ln_f.weight\" is in model-00003-of-00004.safetensors, the index says in model-00001-of-00004");
}

static void a_tensor_without_a_file_is_named(void **state)
{
    (void)state;
    changed(INDEX, "transformer.ln_f.weight", "transformer.ln_g.weight");
    refused("model-00003-of-00004.safetensors lacks the tensor \"transformer.ln_g.weight\"");
}

static void a_tensor_that_the_index_forgot_is_named(void **state)
{
    (void)state;
    changed(INDEX, "    \"transformer.ln_f.bias\": \"model-00003-of-00004.safetensors\",\n", "");
    refused("\"transformer.ln_f.bias\" is in model-00003-of-00004.safetensors, but not in the index");
}

static void an_index_that_says_a_tensor_twice_is_refused(void **state)
{
    (void)state;
    changed(INDEX, "\"transformer.ln_f.weight\"",
            "\"transformer.ln_f.weight\": \"model-00003-of-00004.safetensors\", \"transformer.ln_f.weight\"");
    refused("names the tensor \"transformer.ln_f.weight\" twice");
}

static void an_index_leads_nowhere_else(void **state)
{
    (void)state;
    changed(INDEX, "\"model-00001-of-00004.safetensors\"", "\"../model-00001-of-00004.safetensors\"");
    refused("names no file beside it for the tensor");
    put_file(INDEX, "{\"weight_map\": {\"a\": 1}}", 24);
    refused("names no file beside it for the tensor \"a\"");
    put_file(INDEX, "{\"weight_map\": {}}          ", 28);
    refused("no GPT-2");
    put_file(INDEX, "{\"weight_map\": [}          ", 27);
    refused("is no index of tensors");
    char path[200];
    snprintf(path, sizeof path, "%s/" INDEX, folder);
    assert_int_equal(truncate(path, 1 << 30), 0);
    refused("of an index at most");
}

/* Files are opened when they are needed, and may have gone since the index was read. */
static void a_pipe_in_the_place_of_a_file_holds_nobody_up(void **state)
{
    (void)state;
    struct weights_file *file = opened(folder);
    struct error err;
    float out[8];
    char path[200];
    for (int f = 1; f <= 4; f++) {
        snprintf(path, sizeof path, "%s/%s", folder, shard(f));
        assert_int_equal(unlink(path) | mkfifo(path, 0600), 0);
    }
    assert_int_equal(weights_read(file, 1, 0, 8, out, &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "safetensors: is not a file"));
    weights_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_files_are_the_same_model_as_one, setup, teardown),
        cmocka_unit_test_setup_teardown(any_range_can_be_asked_for_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_file_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_cut_short_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tensor_in_two_files_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tensor_in_another_file_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tensor_without_a_file_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tensor_that_the_index_forgot_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_that_says_a_tensor_twice_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_leads_nowhere_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_in_the_place_of_a_file_holds_nobody_up, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
