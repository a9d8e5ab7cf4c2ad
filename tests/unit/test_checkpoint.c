/* Checkpoints on disk: what is put in comes out at any sharding, nothing that was changed is believed, and whatever is
 * interrupted, what stood before stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/rng.h"
#include "engine/checkpoint/crc32c.h"
#include "tests/support/checkpoint_fixture.h"

static char dir[64];
static int failing_syncs; /* of `dir` itself: so many fail from now on */

/* In the place of the C library's. */
int fsync(int fd)
{
    struct stat one, other;
    if (failing_syncs > 0 && fstat(fd, &one) == 0 && stat(dir, &other) == 0 && one.st_ino == other.st_ino) {
        failing_syncs--;
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/zerolab-checkpoint.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(dir);
    return 0;
}

/* Large enough for several buffers in a shard of one, small enough for a test. */
static struct config a_config(void)
{
    static const char *const sets[] = {"model.layers=2", "model.hidden=192", "model.heads=4", "topology.ranks=4"};
    struct config config;
    struct error err;
    if (config_load(&config, "configs/nano.json", sets, 4, &err)) fail_msg("%s", err.text);
    return config;
}

static void write_good(const char *tag, int shards, int keep)
{
    struct config config = a_config();
    struct error err;
    if (write_checkpoint(dir, tag, shards, keep, &config, 2, &err)) fail_msg("%s", err.text);
    config_release(&config);
}

static struct checkpoint *opened(const char *tag)
{
    struct checkpoint *checkpoint;
    struct error err;
    if (checkpoint_open(&checkpoint, dir, tag, &err)) fail_msg("%s", err.text);
    checkpoint_lend(checkpoint, lent(1));
    return checkpoint;
}

/* The checksums of iSCSI (RFC 3720, B.4), and both ways on any length at any alignment. */
static void both_ways_to_a_checksum_agree(void **state)
{
    (void)state;
    uint8_t bytes[3 * 4096 * 2 + 77];
    memset(bytes, 0, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(crc32c_plain(0, "123456789", 9), 0xe3069283);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rng_mix(i);
    for (size_t length = 0; length < 70; length++)
        assert_int_equal(crc32c(7, bytes + 3, length), crc32c_plain(7, bytes + 3, length));
    for (size_t from = 0; from < 9; from++) {
        size_t length = sizeof bytes - 9;
        assert_int_equal(crc32c(0, bytes + from, length), crc32c_plain(0, bytes + from, length));
        assert_int_equal(crc32c(crc32c(0, bytes, from), bytes + from, length), crc32c(0, bytes, from + length));
    }
}

static void expect_elems(struct checkpoint *checkpoint, int unit, enum state_array array, int64_t first, int64_t elems)
{
    struct error err;
    float *out = malloc((size_t)elems * sizeof *out + 1);
    if (checkpoint_read(checkpoint, unit, array, first, elems, out, &err)) fail_msg("%s", err.text);
    for (int64_t i = 0; i < elems; i++)
        if (out[i] != made_up(unit, array, first + i))
            fail_msg("unit %d array %d element %lld is %g", unit, (int)array, (long long)(first + i), (double)out[i]);
    free(out);
}

static void what_was_put_comes_out_at_any_sharding(void **state)
{
    (void)state;
    static const int writers[] = {1, 3, 4, 64};
    for (size_t w = 0; w < 4; w++) {
        write_good("step-5", writers[w], 0);
        struct checkpoint *checkpoint = opened(NULL);
        const struct checkpoint_info *info = checkpoint_info(checkpoint);
        assert_string_equal(info->tag, "step-5");
        assert_int_equal(info->shards, writers[w]);
        assert_int_equal(info->progress.steps_done, 5);
        assert_int_equal(info->progress.samples, 80);
        assert_true(info->progress.scaler.scale == 65536);
        assert_int_equal(info->progress.scaler.last_overflow, -1);
        for (int ranks = 1; ranks <= 5; ranks++)
            for (int u = 0; u < info->model.unit_count; u++) {
                const int64_t elems = info->model.units[u].elems, share = shard_elems(elems, ranks);
                for (int a = 0; a < STATE_PENDING; a++)
                    for (int64_t first = 0; first < elems; first += share)
                        expect_elems(checkpoint, u, (enum state_array)a, first,
                                     elems - first < share ? elems - first : share);
            }
        for (uint64_t i = 0; i < 200; i++) { /* anywhere, out of order */
            const int u = (int)(rng_mix(i) % (uint64_t)info->model.unit_count);
            const int64_t elems = info->model.units[u].elems, first = (int64_t)(rng_mix(i + 1000) % (uint64_t)elems);
            const int64_t count = (int64_t)(rng_mix(i + 2000) % (uint64_t)(elems - first)) + 1;
            expect_elems(checkpoint, u, (enum state_array)(i % 3), first, count);
        }
        assert_int_equal(checkpoint_verify(checkpoint, NULL, NULL, NULL), STATUS_OK);
        checkpoint_close(checkpoint);
    }
}

/* ---- damage ---- */

static void flip(const char *path, off_t at)
{
    uint8_t byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= (uint8_t)(1 << at % 8);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static int read_everything(struct error *err)
{
    struct checkpoint *checkpoint;
    int status = checkpoint_open(&checkpoint, dir, "t", err);
    if (status) return status;
    checkpoint_lend(checkpoint, lent(1));
    status = checkpoint_verify(checkpoint, NULL, NULL, err);
    checkpoint_close(checkpoint);
    return status;
}

static void a_flipped_byte_anywhere_is_found_and_named(void **state)
{
    (void)state;
    static const char *const names[] = {"manifest.json", "shard-0-of-3", "shard-1-of-3", "shard-2-of-3"};
    struct error err;
    write_good("t", 3, 0);
    for (int f = 0; f < 4; f++) {
        char path[128];
        struct stat found;
        snprintf(path, sizeof path, "%s/t/%s", dir, names[f]);
        assert_int_equal(stat(path, &found), 0);
        for (uint64_t i = 0; i < 25; i++) {
            const off_t edges[] = {0, found.st_size - 1, 4096, 4095, found.st_size - 4096};
            const off_t at = i < 5 && edges[i] >= 0 && edges[i] < found.st_size
                                 ? edges[i]
                                 : (off_t)(rng_mix(i * 7 + (uint64_t)f) % (uint64_t)found.st_size);
            flip(path, at);
            int status = read_everything(&err);
            if (status != STATUS_INPUT) fail_msg("a flip of byte %lld of %s goes unnoticed", (long long)at, names[f]);
            assert_non_null(strstr(err.text, names[f]));
            unsigned long long first, last;
            const char *bytes = strstr(err.text, "(bytes ");
            if (bytes && sscanf(bytes, "(bytes %llu to %llu", &first, &last) == 2)
                assert_true((off_t)first <= at && at <= (off_t)last);
            if (strstr(err.text, ": block ")) assert_non_null(strstr(err.text, " of ")); /* says what it held */
            flip(path, at);
        }
    }
    assert_int_equal(read_everything(&err), STATUS_OK);
}

static void expect_refusal(const char *of, const char *text)
{
    struct error err = {0};
    assert_int_equal(read_everything(&err), STATUS_INPUT);
    if (!strstr(err.text, of) || !strstr(err.text, text))
        fail_msg("\"%s\" names neither %s nor \"%s\"", err.text, of, text);
}

static void what_is_missing_cut_or_foreign_is_named(void **state)
{
    (void)state;
    char path[128], other[128];
    struct error err;
    write_good("t", 3, 0);
    write_good("u", 3, 0);
    snprintf(path, sizeof path, "%s/t/shard-1-of-3", dir);
    snprintf(other, sizeof other, "%s/away", dir);
    assert_int_equal(rename(path, other), 0);
    expect_refusal("shard-1-of-3", "No such file");
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    expect_refusal("shard-1-of-3", "bytes");
    unlink(path);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(truncate(path, 100000), 0);
    expect_refusal("shard-1-of-3", "it has 100000 bytes");
    assert_int_equal(checkpoint_open(&(struct checkpoint *){NULL}, dir, "none", &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "there are "));
    assert_int_equal(checkpoint_open(&(struct checkpoint *){NULL}, "/nowhere", NULL, &err), STATUS_INPUT);
    assert_int_equal(checkpoint_open(&(struct checkpoint *){NULL}, dir, "../t", &err), STATUS_USAGE);
}

/* ---- saves that do not come to their end ---- */

static bool it_is_over(void *user)
{
    (void)user;
    return true;
}

static void a_save_that_dies_leaves_what_stood(void **state)
{
    (void)state;
    char partial[128], tag[CHECKPOINT_TAG_BYTES];
    struct error err;
    struct config config = a_config();
    struct model model;
    struct checkpoint_save *save, *second;
    struct checkpoint_target target = {.dir = dir, .tag = "step-2", .shards = 2, .buffers = lent(0)};
    assert_int_equal(model_of(&model, &config, &err), 0);
    write_good("step-1", 2, 0);
    pid_t child = fork();
    if (child == 0) { /* dies with one shard of two written, and its lock held */
        if (checkpoint_begin(&save, &target, &err) || write_shard(&target, &model, 0, 2, &err)) _exit(1);
        kill(getpid(), SIGKILL);
    }
    int how;
    waitpid(child, &how, 0);
    assert_true(WIFSIGNALED(how));
    snprintf(partial, sizeof partial, "%s/.step-2.partial", dir);
    assert_int_equal(access(partial, F_OK), 0);
    assert_true(checkpoint_latest(dir, tag));
    assert_string_equal(tag, "step-1");
    checkpoint_close(opened(NULL));

    /* The next one sweeps it, and keeps a third out. A shard that fails says why, and nothing stays of that save. */
    assert_int_equal(checkpoint_begin(&save, &target, &err), STATUS_OK);
    assert_int_equal(checkpoint_begin(&second, &target, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "another run is saving"));
    assert_int_equal(checkpoint_gather(save, it_is_over, NULL, &err), STATUS_RUN);
    struct rlimit limit, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(write_shard(&target, &model, 0, 2, &err), STATUS_RUN);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(err.text, "File too large"));
    assert_int_equal(checkpoint_gather(save, NULL, NULL, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "shard-0-of-2"));
    assert_non_null(strstr(err.text, "File too large"));
    checkpoint_end(save);
    assert_int_not_equal(access(partial, F_OK), 0);
    checkpoint_close(opened("step-1"));
    write_good("step-2", 2, 0);
    model_release(&model);
    config_release(&config);
}

/* Somebody removes the folder under a save: it ends with a line, and what stood before stands. */
static void a_save_whose_folder_is_removed_ends(void **state)
{
    (void)state;
    struct error err;
    struct config config = a_config();
    struct model model;
    struct checkpoint_save *save;
    char partial[128];
    struct checkpoint_target target = {.dir = dir, .tag = "step-2", .shards = 2, .buffers = lent(0)};
    assert_int_equal(model_of(&model, &config, &err), 0);
    write_good("step-1", 2, 0);
    snprintf(partial, sizeof partial, "%s/.step-2.partial", dir);
    assert_int_equal(checkpoint_begin(&save, &target, &err), STATUS_OK);
    assert_int_equal(write_shard(&target, &model, 0, 2, &err), STATUS_OK);
    remove_tree(partial);
    assert_int_equal(checkpoint_gather(save, NULL, NULL, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, ".step-2.partial was removed while it was written"));
    assert_int_equal(write_shard(&target, &model, 1, 2, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "shard-1-of-2.writing: No such file"));
    checkpoint_end(save);
    checkpoint_close(opened(NULL));
    assert_int_equal(checkpoint_begin(&save, &target, &err), STATUS_OK);
    for (int s = 0; s < 2; s++) assert_int_equal(write_shard(&target, &model, s, 2, &err), STATUS_OK);
    assert_int_equal(checkpoint_gather(save, NULL, NULL, &err), STATUS_OK);
    remove_tree(dir); /* all of it, just before it gets its name */
    char *json = config_to_json(&config);
    const struct checkpoint_info info = info_of(&config, json, 2);
    assert_int_equal(checkpoint_commit(save, &info, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "No such file"));
    checkpoint_end(save);
    write_good("step-3", 2, 0); /* the next one makes everything anew */
    checkpoint_close(opened("step-3"));
    free(json);
    model_release(&model);
    config_release(&config);
}

/* A disk that has no room for the name of the newest has none for the newest: no checkpoint stands that nothing names. */
static void without_latest_nothing_stands(void **state)
{
    (void)state;
    struct config config = a_config();
    struct error err;
    struct model model;
    struct checkpoint_save *save;
    char path[128];
    struct checkpoint_target target = {.dir = dir, .tag = "step-2", .shards = 2, .buffers = lent(0)};
    assert_int_equal(model_of(&model, &config, &err), 0);
    write_good("step-1", 2, 0);
    snprintf(path, sizeof path, "%s/.latest", dir);
    assert_int_equal(mkdir(path, 0700), 0); /* it cannot be written */
    assert_int_equal(checkpoint_begin(&save, &target, &err), STATUS_OK);
    for (int s = 0; s < 2; s++) assert_int_equal(write_shard(&target, &model, s, 2, &err), STATUS_OK);
    assert_int_equal(checkpoint_gather(save, NULL, NULL, &err), STATUS_OK);
    char *json = config_to_json(&config);
    const struct checkpoint_info info = info_of(&config, json, 2);
    assert_int_equal(checkpoint_commit(save, &info, &err), STATUS_RUN);
    assert_false(checkpoint_stands(save));
    checkpoint_end(save);
    snprintf(path, sizeof path, "%s/step-2", dir);
    assert_int_not_equal(access(path, F_OK), 0);
    checkpoint_close(opened("step-1"));
    checkpoint_close(opened(NULL));
    snprintf(path, sizeof path, "%s/.latest", dir);
    assert_int_equal(rmdir(path), 0);
    free(json);
    model_release(&model);
    config_release(&config);
}

/* The folder cannot be synced once the checkpoint has got its name: the save says so, and `latest` names it all the same. */
static void a_checkpoint_that_stands_is_named(void **state)
{
    (void)state;
    struct config config = a_config();
    struct error err;
    char tag[CHECKPOINT_TAG_BYTES];
    write_good("step-1", 2, 1);
    failing_syncs = 1;
    assert_int_equal(write_checkpoint(dir, "step-2", 2, 1, &config, 2, &err), STATUS_RUN);
    assert_int_equal(failing_syncs, 0);
    assert_non_null(strstr(err.text, "onto the disk: Input/output error"));
    assert_true(checkpoint_latest(dir, tag));
    assert_string_equal(tag, "step-2");
    checkpoint_close(opened(NULL));
    checkpoint_close(opened("step-1")); /* nothing is removed after an error */
    config_release(&config);
}

/* Of steps so many stay; others always. What `latest` names is never removed. */
static void the_newest_are_kept(void **state)
{
    (void)state;
    static const char *const saved[] = {"step-10", "before", "step-20", "step-30", "step-15"};
    struct checkpoint_tag tags[8];
    char names[200] = "";
    for (size_t i = 0; i < 5; i++) write_good(saved[i], 2, 2);
    int count = checkpoint_tags(dir, tags, 8);
    for (int i = 0; i < count; i++) strcat(strcat(names, tags[i].tag), " ");
    assert_string_equal(names, "step-15 step-30 before ");
    write_good("step-30", 4, 2); /* again, over one that stands */
    struct checkpoint *checkpoint = opened(NULL);
    assert_string_equal(checkpoint_info(checkpoint)->tag, "step-30");
    assert_int_equal(checkpoint_info(checkpoint)->shards, 4);
    checkpoint_close(checkpoint);
}

/* ---- fitting ---- */

static void expect_source(struct checkpoint *checkpoint, const char *set, bool weights_only, const char *refusal)
{
    const char *sets[] = {"model.layers=2", "model.hidden=192", "model.heads=4", set};
    struct config config;
    struct model model;
    struct state_source source;
    struct error err;
    if (config_load(&config, "configs/nano.json", sets, 4, &err)) fail_msg("%s", err.text);
    assert_int_equal(model_of(&model, &config, &err), 0);
    int status = checkpoint_source(&source, checkpoint, &model, weights_only, &err);
    if (!refusal && status) fail_msg("%s: refused: %s", set, err.text);
    if (refusal && (status != STATUS_USAGE || !strstr(err.text, refusal)))
        fail_msg("%s: %d, %s", set, status, status ? err.text : "not refused");
    model_release(&model);
    config_release(&config);
}

static void another_model_or_optimizer_is_refused_by_name(void **state)
{
    (void)state;
    struct config config = a_config();
    struct error err;
    write_good("t", 2, 0);
    struct checkpoint *checkpoint = opened("t");
    expect_source(checkpoint, "topology.ranks=2", false, NULL);
    expect_source(checkpoint, "model.layers=3", false, "its model.layers is 2, that of this run is 3");
    expect_source(checkpoint, "model.vocabulary=300", true, "model.vocabulary");
    expect_source(checkpoint, "bf16.enabled=true", false, "trained in fp32, this run is in bf16");
    expect_source(checkpoint, "bf16.enabled=true", true, NULL);
    expect_source(checkpoint, "optimizer.type=Lion", false, "trained with AdamW, this run uses Lion");
    expect_source(checkpoint, "optimizer.type=Lion", true, NULL);
    checkpoint_close(checkpoint);
    assert_int_equal(write_checkpoint(dir, "weights", 1, 0, &config, 0, &err), STATUS_OK);
    checkpoint = opened("weights");
    expect_source(checkpoint, "topology.ranks=2", false, "no optimizer states");
    expect_source(checkpoint, "topology.ranks=2", true, NULL);
    checkpoint_close(checkpoint);
    assert_int_equal(write_checkpoint(dir, "half", 1, 0, &config, 1, &err), STATUS_OK);
    assert_int_equal(checkpoint_open(&checkpoint, dir, "half", &err), STATUS_INPUT);
    config_release(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_to_a_checksum_agree),
        cmocka_unit_test_setup_teardown(what_was_put_comes_out_at_any_sharding, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_byte_anywhere_is_found_and_named, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_missing_cut_or_foreign_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_save_that_dies_leaves_what_stood, setup, teardown),
        cmocka_unit_test_setup_teardown(a_save_whose_folder_is_removed_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(without_latest_nothing_stands, setup, teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_stands_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(the_newest_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(another_model_or_optimizer_is_refused_by_name, setup, teardown),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
