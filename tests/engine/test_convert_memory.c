/* What converting, exporting, importing, reshaping and checking have in memory: the buffers that they are lent, whatever the
 * model. The allocator says how much that is; that nothing is beside it, the process's own peak says, with a model that has a
 * unit of 15 MB and 23 MB in all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/checkpoint/convert.h"
#include "engine/checkpoint/folder.h"

enum {
    LARGEST_UNIT_BYTES = 20000 * 192 * 4,
    LENT_BYTES = 2 * STATE_BUFFERS_BYTES,
    BESIDE_BYTES = 2 << 20, /* tables, and what the C library keeps */
};

static char folder[] = "/tmp/zerolab-test-memory-XXXXXX";
static struct io_buffers buffers;
static char *config_json;
static struct model model;

static const char *path_of(const char *name)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int read_numbers(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                        struct error *err)
{
    (void)user, (void)array, (void)err;
    for (int64_t i = 0; i < elems; i++) out[i] = (float)((first + i) % 1000 + unit) / 1024;
    return STATUS_OK;
}

static int setup(void **state)
{
    (void)state;
    const char *sets[] = {"model.layers=4",         "model.hidden=192",        "model.heads=4",      "model.context=64",
                          "model.vocabulary=20000", "data.sequence_length=64", "data.synthetic=true"};
    struct config config;
    struct error err;
    const struct state_source numbers = {.read = read_numbers};
    if (!mkdtemp(folder) || config_load(&config, "configs/nano.json", sets, 7, &err) || model_of(&model, &config, &err))
        return -1;
    config_json = config_to_json(&config);
    config_release(&config);
    if (io_buffers_open(&buffers, 2, &err)) return -1;
    const struct weights_target first = {path_of("first.safetensors"), WEIGHTS_SAFETENSORS, DTYPE_F32, buffers.lot[1]};
    return weights_write(&first, &model, &numbers, NULL, NULL, &err);
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    io_buffers_close(&buffers);
    model_release(&model);
    free(config_json);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* ---- the process's peak: resident pages that are its own ---- */

static long status_kib(const char *name)
{
    char line[200];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0) kib = atol(line + strlen(name) + 1);
    if (status) fclose(status);
    return kib;
}

/* Makes VmHWM begin again at what is resident now. false: this kernel does not do that. */
static bool forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    bool good = file && fputs("5", file) >= 0;
    return file && fclose(file) == 0 && good;
}

/* Sanitizers keep what was freed, and shadows of it. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { OWN_MEMORY = 0 };
#else
enum { OWN_MEMORY = 1 };
#endif

static void stays_small(const char *what, void (*convert)(void))
{
    convert(); /* touches the buffers and loads what is loaded once */
    bool watched = OWN_MEMORY && forget_peak();
    const long before = status_kib("VmRSS");
    convert();
    const long grown = status_kib("VmHWM") - before;
    assert_int_equal(io_buffers_peak_bytes(&buffers), LENT_BYTES);
    if (watched && grown * 1024 > BESIDE_BYTES)
        fail_msg("%s: %ld KiB beside the %d KiB that were lent", what, grown, LENT_BYTES / 1024);
}

/* ---- what is done ---- */

static void to_checkpoint(const char *from, const char *into, int shards)
{
    struct origin origin;
    struct error err;
    const struct checkpoint_target target = {
        .dir = path_of(into), .tag = "t", .shards = shards, .buffers = buffers.lot[1]};
    char before[192];
    snprintf(before, sizeof before, "%s/t", target.dir);
    folder_remove(before); /* a conversion keeps out of a folder with checkpoints */
    if (origin_open(&origin, path_of(from), NULL, 0, buffers.lot[0], &err)) fail_msg("%s", err.text);
    origin.config_json = config_json ? strdup(config_json) : NULL;
    if (convert_to_checkpoint(&origin, &target, NULL, NULL, &err)) fail_msg("%s", err.text);
    origin_release(&origin);
}

static void to_weights(const char *from, const char *into, enum weights_format format, enum dtype dtype)
{
    struct origin origin;
    struct error err;
    const struct weights_target target = {path_of(into), format, dtype, buffers.lot[1]};
    if (origin_open(&origin, path_of(from), NULL, 0, buffers.lot[0], &err)) fail_msg("%s", err.text);
    if (weights_write(&target, &origin.model, &origin.source, NULL, NULL, &err)) fail_msg("%s", err.text);
    origin_release(&origin);
}

static void import(void)
{
    to_checkpoint("first.safetensors", "imported", 3);
}

static void reshape(void)
{
    to_checkpoint("imported", "reshaped", 5);
}

static void export(void)
{
    to_weights("reshaped", "exported.safetensors", WEIGHTS_SAFETENSORS, DTYPE_F32);
}

static void export_16_bits(void)
{
    to_weights("reshaped", "exported.bin", WEIGHTS_LLMC, DTYPE_BF16);
}

static void translate(void)
{
    to_weights("exported.bin", "again.safetensors", WEIGHTS_SAFETENSORS, DTYPE_F16);
}

static void verify(void)
{
    struct checkpoint *checkpoint;
    struct error err;
    if (checkpoint_open(&checkpoint, path_of("reshaped"), NULL, &err)) fail_msg("%s", err.text);
    checkpoint_lend(checkpoint, buffers.lot[0]);
    if (checkpoint_verify(checkpoint, NULL, NULL, &err)) fail_msg("%s", err.text);
    checkpoint_close(checkpoint);
}

static void only_what_was_lent_is_used(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        void (*convert)(void);
    } cases[] = {{"import", import},       {"reshape", reshape},
                 {"export", export},       {"export in 16 bits", export_16_bits},
                 {"translate", translate}, {"verify", verify}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) stays_small(cases[c].what, cases[c].convert);
}

/* The measure itself: one unit too much must be seen. */
static void keep_a_unit(void)
{
    volatile char *unit = malloc(LARGEST_UNIT_BYTES);
    assert_non_null((void *)(uintptr_t)unit);
    for (size_t i = 0; i < LARGEST_UNIT_BYTES; i += 4096) unit[i] = 1;
    free((void *)(uintptr_t)unit);
}

static void a_unit_would_be_noticed(void **state)
{
    (void)state;
    if (!OWN_MEMORY || !forget_peak()) skip();
    const long before = status_kib("VmRSS");
    keep_a_unit();
    assert_true((status_kib("VmHWM") - before) * 1024 > BESIDE_BYTES);
}

static void nobody_reads_or_writes_through_memory_of_its_own(void **state)
{
    (void)state;
    struct checkpoint *checkpoint;
    struct weights_file *file;
    struct error err;
    float value;
    assert_int_equal(checkpoint_open(&checkpoint, path_of("reshaped"), NULL, &err), STATUS_OK);
    assert_int_equal(checkpoint_read(checkpoint, 0, STATE_WEIGHTS, 0, 1, &value, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "nobody lent memory"));
    checkpoint_close(checkpoint);
    assert_int_equal(weights_open(&file, path_of("first.safetensors"), &err), STATUS_OK);
    assert_int_equal(weights_read(file, 0, 0, 1, &value, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "nobody lent memory"));
    weights_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_was_lent_is_used),
        cmocka_unit_test(a_unit_would_be_noticed),
        cmocka_unit_test(nobody_reads_or_writes_through_memory_of_its_own),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
