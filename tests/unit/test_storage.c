/* The NVMe tier beneath the schedule: blocks in flight, what becomes of transfers that fail or are cut short, and that the
 * file leaves nothing behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/memory/disk.h"
#include "engine/memory/memory.h"

enum { PAGE = AIO_ALIGN_BYTES, FILE_PAGES = 64, FILE_BYTES = FILE_PAGES * PAGE };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zerolab-test-storage-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails when a file was left in it */
}

static struct aio_options options(int block_pages, int depth, int threads)
{
    return (struct aio_options){
        .block_bytes = block_pages * PAGE, .queue_depth = depth, .threads = threads, .overlap_events = true};
}

static struct storage *open_storage(const struct aio_options *how)
{
    struct storage *storage;
    struct error err = {0};
    const struct storage_range ranges[CATEGORIES] = {
        [CATEGORY_PARAMETERS] = {folder, FILE_BYTES}, [CATEGORY_OPTIMIZER] = {folder, FILE_BYTES}};
    if (storage_open(&storage, ranges, how, &err) || storage_use(storage, CATEGORY_PARAMETERS, NULL, &err) ||
        storage_use(storage, CATEGORY_OPTIMIZER, NULL, &err))
        fail_msg("%s", err.text);
    return storage;
}

static unsigned char *pages(int count)
{
    unsigned char *memory = aligned_alloc(PAGE, (size_t)count * PAGE);
    assert_non_null(memory);
    return memory;
}

static void fill_with(unsigned char *memory, int count, uint64_t seed)
{
    for (int i = 0; i < count * PAGE; i += 8) {
        uint64_t value = rng_u64(seed, 1, (uint64_t)i);
        memcpy(memory + i, &value, sizeof value);
    }
}

static int move(struct storage *storage, enum aio_direction direction, void *memory, int first, int count,
                struct error *err)
{
    struct aio_span span =
        storage_span(storage, CATEGORY_OPTIMIZER, (uint64_t)first * PAGE, memory, (uint64_t)count * PAGE);
    return storage_move(storage, direction, &span, 1, err);
}

/* ---- transfers ---- */

/* Random lists of spans into both categories, against an array in memory. */
static void hold_against_model(const struct aio_options *how)
{
    struct storage *storage = open_storage(how);
    unsigned char *model[2] = {pages(FILE_PAGES), pages(FILE_PAGES)}, *memory = pages(FILE_PAGES);
    const enum category category[2] = {CATEGORY_PARAMETERS, CATEGORY_OPTIMIZER};
    uint64_t moved[AIO_DIRECTIONS] = {0};
    for (int c = 0; c < 2; c++) memset(model[c], 0, FILE_BYTES); /* what nobody has written reads as zero */
    for (uint64_t round = 0; round < 40; round++) {
        struct aio_span spans[3];
        unsigned char *there[3];
        const enum aio_direction direction = rng_u64(2, 1, round) % 2 ? AIO_READ : AIO_WRITE;
        fill_with(memory, FILE_PAGES, round);
        for (uint64_t s = 0; s < 3; s++) { /* each in a third of the file, some of them empty */
            uint64_t third = FILE_PAGES / 3, first = rng_u64(3, s, round) % third,
                     count = rng_u64(4, s, round) % (third - first + 1);
            first += s * third;
            uint64_t c = rng_u64(5, s, round) % 2;
            there[s] = model[c] + first * PAGE;
            spans[s] = storage_span(storage, category[c], first * PAGE, memory + first * PAGE, count * PAGE);
            moved[direction] += count * PAGE;
        }
        struct error err = {0};
        if (storage_move(storage, direction, spans, 3, &err)) fail_msg("%s", err.text);
        for (int s = 0; s < 3; s++) {
            if (direction == AIO_WRITE) memcpy(there[s], spans[s].memory, spans[s].bytes);
            else assert_memory_equal(there[s], spans[s].memory, spans[s].bytes);
        }
    }
    for (int d = 0; d < AIO_DIRECTIONS; d++) {
        struct aio_flow flow = aio_flow(storage_aio(storage, d));
        assert_int_equal(flow.bytes, moved[d]);
        assert_int_equal(flow.in_flight, 0);
        assert_true(flow.blocks >= moved[d] / (uint64_t)how->block_bytes);
        assert_true(flow.latency_ns >= flow.longest_ns && flow.longest_ns > 0 && flow.busy_ns > 0);
    }
    for (int c = 0; c < 2; c++) free(model[c]);
    free(memory);
    storage_close(storage);
}

static void test_every_way_of_moving(void **state)
{
    (void)state;
    for (int way = 0; way < 16; way++) {
        struct aio_options how = options(way & 1 ? 3 : 1, way & 2 ? 5 : 1, way & 4 ? 3 : 1);
        how.single_submit = how.overlap_events = way & 8;
        hold_against_model(&how);
    }
}

static void test_block_size_is_rounded_up(void **state)
{
    (void)state;
    struct aio_options how = options(1, 4, 1);
    how.block_bytes = PAGE + 1;
    struct storage *storage = open_storage(&how);
    unsigned char *memory = pages(4);
    fill_with(memory, 4, 1);
    assert_int_equal(move(storage, AIO_WRITE, memory, 0, 4, NULL), 0);
    assert_int_equal(aio_flow(storage_aio(storage, AIO_WRITE)).blocks, 2);
    free(memory);
    storage_close(storage);
}

struct lane {
    struct storage *storage;
    enum aio_direction direction;
    int first;
    bool equal;
};

static void *run_lane(void *argument)
{
    struct lane *lane = argument;
    unsigned char *memory = pages(16), *expected = pages(16);
    for (uint64_t round = 0; round < 20; round++) {
        fill_with(expected, 16, lane->direction == AIO_READ ? 99 : round);
        memcpy(memory, expected, 16 * PAGE);
        if (lane->direction == AIO_READ) memset(memory, 0, 16 * PAGE);
        if (move(lane->storage, lane->direction, memory, lane->first, 16, NULL)) lane->equal = false;
        if (memcmp(memory, expected, 16 * PAGE) != 0) lane->equal = false;
    }
    free(memory);
    free(expected);
    return NULL;
}

/* A lane reads while another one writes elsewhere, and a third thread looks at the counts. */
static void test_two_directions_at_once(void **state)
{
    (void)state;
    struct aio_options how = options(1, 4, 2);
    struct storage *storage = open_storage(&how);
    unsigned char *memory = pages(16);
    fill_with(memory, 16, 99);
    assert_int_equal(move(storage, AIO_WRITE, memory, 0, 16, NULL), 0);
    struct lane lanes[2] = {{storage, AIO_READ, 0, true}, {storage, AIO_WRITE, 32, true}};
    pthread_t threads[2];
    for (int t = 0; t < 2; t++) assert_int_equal(pthread_create(&threads[t], NULL, run_lane, &lanes[t]), 0);
    for (int i = 0; i < 100; i++) assert_true(aio_flow(storage_aio(storage, AIO_READ)).in_flight <= 8);
    for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
    assert_true(lanes[0].equal && lanes[1].equal);
    assert_int_equal(aio_flow(storage_aio(storage, AIO_READ)).bytes, 20 * 16 * PAGE);
    free(memory);
    storage_close(storage);
}

/* A transfer of more blocks than may be in flight fills the queue; the next one is told of by itself. */
static void test_a_transfer_tells_how_it_went(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        struct aio_options how = options(1, 4, threads);
        struct storage *storage = open_storage(&how);
        unsigned char *memory = pages(40);
        fill_with(memory, 40, 5);
        assert_int_equal(move(storage, AIO_WRITE, memory, 0, 40, NULL), 0);
        const struct aio_flow many = aio_last_flow(storage_aio(storage, AIO_WRITE));
        assert_int_equal(many.blocks, 40);
        assert_int_equal(many.bytes, 40 * PAGE);
        assert_in_range(many.deepest, 4, 4 * (uint64_t)threads);
        assert_true(many.longest_ns > 0 && many.longest_ns <= many.busy_ns);
        assert_true(many.latency_ns >= many.longest_ns && many.latency_ns <= many.deepest * many.busy_ns);
        assert_int_equal(move(storage, AIO_WRITE, memory, 0, 1, NULL), 0);
        const struct aio_flow one = aio_last_flow(storage_aio(storage, AIO_WRITE)), all = aio_flow(storage_aio(storage, AIO_WRITE));
        assert_int_equal(one.blocks, 1);
        assert_int_equal(one.deepest, 1);
        assert_int_equal(one.latency_ns, one.longest_ns);
        assert_int_equal(all.deepest, many.deepest);
        assert_int_equal(all.latency_ns, many.latency_ns + one.latency_ns);
        assert_int_equal(all.busy_ns, many.busy_ns + one.busy_ns);
        assert_int_equal(all.longest_ns, many.longest_ns > one.longest_ns ? many.longest_ns : one.longest_ns);
        assert_int_equal(aio_last_flow(storage_aio(storage, AIO_READ)).blocks, 0);
        free(memory);
        storage_close(storage);
    }
}

/* ---- faults ---- */

static void test_short_transfers_are_finished(void **state)
{
    (void)state;
    struct aio_options how = options(8, 2, 1);
    struct storage *storage = open_storage(&how);
    unsigned char *out = pages(32), *in = pages(32);
    fill_with(out, 32, 7);
    memset(in, 0, 32 * PAGE);
    for (int d = 0; d < AIO_DIRECTIONS; d++)
        aio_inject(storage_aio(storage, d), (struct aio_fault){.block = 1, .more = UINT64_MAX});
    assert_int_equal(move(storage, AIO_WRITE, out, 0, 32, NULL), 0);
    assert_int_equal(move(storage, AIO_READ, in, 0, 32, NULL), 0);
    assert_memory_equal(in, out, 32 * PAGE);
    assert_int_equal(aio_flow(storage_aio(storage, AIO_WRITE)).blocks, 4 * 4); /* 8 pages arrive as 4, 2, 1 and 1 */
    free(out);
    free(in);
    storage_close(storage);
}

/* Whichever block fails: the call says so, nothing is in flight any more, and the next call works. */
static void test_any_block_may_fail(void **state)
{
    (void)state;
    struct aio_options how = options(1, 3, 2);
    struct storage *storage = open_storage(&how);
    unsigned char *memory = pages(10);
    fill_with(memory, 10, 3);
    for (uint64_t block = 1; block <= 10; block++) {
        struct error err = {0};
        aio_inject(storage_aio(storage, AIO_READ), (struct aio_fault){.block = block, .error_number = EIO});
        assert_int_equal(move(storage, AIO_WRITE, memory, 0, 10, NULL), 0);
        assert_int_equal(move(storage, AIO_READ, memory, 0, 10, &err), STATUS_RUN);
        assert_non_null(strstr(err.text, "reading 4096 bytes at"));
        assert_non_null(strstr(err.text, "Input/output error; the disk may be failing"));
        assert_non_null(strstr(err.text, folder));
        assert_int_equal(aio_flow(storage_aio(storage, AIO_READ)).in_flight, 0);
        aio_inject(storage_aio(storage, AIO_READ), (struct aio_fault){0});
        assert_int_equal(move(storage, AIO_READ, memory, 0, 10, NULL), 0);
    }
    struct error err = {0};
    aio_inject(storage_aio(storage, AIO_WRITE), (struct aio_fault){.block = 2, .error_number = ENOSPC, .more = UINT64_MAX});
    assert_int_equal(move(storage, AIO_WRITE, memory, 0, 10, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "No space left on device; free some space"));
    free(memory);
    storage_close(storage);
}

static void expect_refusal(const char *where, const char *text)
{
    struct storage *storage;
    struct error err = {0};
    struct aio_options how = options(1, 1, 1);
    const struct storage_range ranges[CATEGORIES] = {
        [CATEGORY_PARAMETERS] = {folder, FILE_BYTES}, [CATEGORY_OPTIMIZER] = {where, 0}};
    assert_int_equal(storage_open(&storage, ranges, &how, &err), STATUS_OK);
    assert_int_equal(storage_use(storage, CATEGORY_PARAMETERS, NULL, NULL),
                     STATUS_OK); /* the other is none of its business */
    assert_int_equal(storage_use(storage, CATEGORY_OPTIMIZER, NULL, &err), STATUS_USAGE);
    storage_close(storage);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void test_folders_that_will_not_do(void **state)
{
    (void)state;
    expect_refusal("/tmp/zerolab-there-is-no-such-folder", "make it (mkdir -p)");
    expect_refusal("/dev/null", "set nvme_path to a folder");
    if (getuid() != 0) expect_refusal("/", "that you may write to");
}

/* ---- the file ---- */

/* The file, found as a descriptor of this process that lies in the folder and has no name. */
static void find_file(struct stat *file)
{
    DIR *descriptors = opendir("/proc/self/fd");
    int found = 0;
    for (struct dirent *entry; (entry = readdir(descriptors));) {
        char path[300], target[300] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) < 0 || strncmp(target, folder, strlen(folder)) != 0) continue;
        assert_non_null(strstr(target, "(deleted)"));
        assert_int_equal(stat(path, file), 0);
        found++;
    }
    closedir(descriptors);
    assert_int_equal(found, 1);
}

static int names_in_folder(void)
{
    DIR *listing = opendir(folder);
    int count = -2; /* "." and ".." */
    while (readdir(listing)) count++;
    closedir(listing);
    return count;
}

static void test_kill_leaves_nothing(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct aio_options how = options(1, 4, 2);
        struct storage *storage = open_storage(&how);
        unsigned char *memory = pages(16);
        fill_with(memory, 16, 1);
        char done = move(storage, AIO_WRITE, memory, 0, 16, NULL) == 0;
        if (write(ready[1], &done, 1) == 1)
            for (;;) move(storage, AIO_READ, memory, 0, 16, NULL);
        _exit(1);
    }
    char done = 0;
    int status;
    assert_int_equal(read(ready[0], &done, 1), 1);
    assert_true(done);
    assert_int_equal(names_in_folder(), 0); /* nor is there one while it goes on */
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(names_in_folder(), 0);
    close(ready[0]);
    close(ready[1]);
}

/* Each category in the file of its folder, one that is not given in none; one span list may move to both. */
static void test_two_folders(void **state)
{
    (void)state;
    char other[] = "/tmp/zerolab-test-other-XXXXXX";
    assert_non_null(mkdtemp(other));
    const struct storage_range ranges[CATEGORIES] = {
        [CATEGORY_PARAMETERS] = {other, FILE_BYTES}, [CATEGORY_OPTIMIZER] = {folder, FILE_BYTES}};
    const struct aio_options how = options(1, 4, 1);
    struct storage *storage;
    struct stat parameters, optimizer;
    assert_int_equal(storage_open(&storage, ranges, &how, NULL), STATUS_OK);
    assert_int_equal(storage_use(storage, CATEGORY_PARAMETERS, NULL, NULL), STATUS_OK);
    assert_int_equal(storage_use(storage, CATEGORY_OPTIMIZER, NULL, NULL), STATUS_OK);
    unsigned char *memory = pages(2), *back = pages(2);
    fill_with(memory, 2, 1);
    assert_int_equal(storage_reserve(storage, CATEGORY_PARAMETERS, 0, 8 * PAGE, NULL), STATUS_OK);
    assert_int_equal(storage_reserve(storage, CATEGORY_OPTIMIZER, 0, 2 * PAGE, NULL), STATUS_OK);
    for (int d = AIO_DIRECTIONS - 1; d >= 0; d--) {
        unsigned char *at = d == AIO_WRITE ? memory : back;
        struct aio_span spans[] = {storage_span(storage, CATEGORY_PARAMETERS, PAGE, at, PAGE),
                                   storage_span(storage, CATEGORY_OPTIMIZER, PAGE, at + PAGE, PAGE)};
        assert_int_equal(fstat(spans[0].fd, &parameters) | fstat(spans[1].fd, &optimizer), 0);
        assert_int_equal(storage_move(storage, d, spans, 2, NULL), STATUS_OK);
    }
    assert_memory_equal(memory, back, 2 * PAGE);
    assert_int_not_equal(parameters.st_ino, optimizer.st_ino);
    assert_int_equal(parameters.st_blocks * 512, 8 * PAGE);
    assert_int_equal(optimizer.st_blocks * 512, 2 * PAGE);
    assert_int_equal(optimizer.st_nlink, 0);
    storage_close(storage);
    free(memory);
    free(back);
    assert_int_equal(rmdir(other), 0);
}

static void test_taken_bytes_have_blocks(void **state)
{
    (void)state;
    struct aio_options how = options(1, 1, 1);
    struct storage *storage = open_storage(&how);
    struct memory_ranges ranges = {0};
    struct memory_snapshot now;
    struct memory *memory;
    struct stat file, before;
    find_file(&before);
    ranges.bytes[TIER_NVME][CATEGORY_OPTIMIZER] = FILE_BYTES;
    assert_int_equal(memory_create(&memory, &ranges, (uint64_t[TIERS]){[TIER_NVME] = 40 * PAGE}, NULL, NULL), 0);
    memory_set_storage(memory, storage);
    assert_int_equal(memory_take(memory, TIER_NVME, CATEGORY_OPTIMIZER, 8 * PAGE, 32 * PAGE, NULL), 0);
    find_file(&file);
    assert_true(file.st_blocks - before.st_blocks >= 32 * PAGE / 512);
    memory_snapshot(memory, &now);
    assert_int_equal(now.tier[TIER_NVME].reserved_bytes, 32 * PAGE);
    struct error err = {0};
    assert_int_equal(memory_take(memory, TIER_NVME, CATEGORY_OPTIMIZER, 48 * PAGE, 9 * PAGE, &err), STATUS_RUN);
    assert_non_null(strstr(err.text, "out of nvme memory"));
    memory_give(memory, TIER_NVME, CATEGORY_OPTIMIZER, 8 * PAGE, 32 * PAGE);
    memory_trim(memory);
    find_file(&file);
    assert_true(file.st_blocks <= before.st_blocks + 8);
    memory_destroy(memory);
    storage_close(storage);
}

/* ---- measuring a disk ---- */

static void test_measuring(void **state)
{
    (void)state;
    static const struct disk_job jobs[] = {{"write", {[AIO_WRITE] = true}, false, 1 << 20},
                                           {"both", {true, true}, true, PAGE}};
    const struct aio_options how = options(256, 4, 1);
    struct error err = {0};
    struct disk disk;
    if (disk_open(&disk, folder, &how, 150 << 20, 60, &err)) fail_msg("%s", err.text);
    assert_int_equal(disk.file_bytes, 128 << 20); /* whole batches */
    for (int j = 0; j < 2; j++) {
        struct disk_rate rate;
        if (disk_measure(&disk, &jobs[j], 0.02, &rate, &err)) fail_msg("%s", err.text);
        assert_true(rate.seconds >= 0.02);
        for (int d = 0; d < AIO_DIRECTIONS; d++) {
            assert_int_equal(rate.flow[d].blocks > 0, jobs[j].direction[d]);
            assert_int_equal(rate.flow[d].bytes, rate.flow[d].blocks * (uint64_t)jobs[j].block_bytes);
        }
    }
    struct disk_rate once; /* the time is over before a thread starts */
    if (disk_measure(&disk, &jobs[1], 0, &once, &err)) fail_msg("%s", err.text);
    for (int d = 0; d < AIO_DIRECTIONS; d++) assert_true(once.flow[d].blocks > 0);
    aio_inject(storage_aio(disk.storage, AIO_READ), (struct aio_fault){.block = 3, .error_number = EIO});
    assert_int_equal(disk_measure(&disk, &jobs[1], 0.02, &(struct disk_rate){0}, &err), STATUS_RUN);
    disk_close(&disk);
}

/* ---- file systems of our own; need root, or namespaces of an ordinary user ---- */

enum { SKIPPED = 77 };

static void run_apart(int (*run)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS)) _exit(SKIPPED);
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) _exit(SKIPPED);
        _exit(run());
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int expect(bool holds, int line)
{
    if (!holds) fprintf(stderr, "line %d does not hold\n", line);
    return !holds;
}

static int fill_a_disk(void)
{
    if (mount("none", folder, "tmpfs", 0, "size=128k")) return SKIPPED;
    struct aio_options how = options(1, 1, 1);
    struct storage *storage = open_storage(&how);
    struct memory_ranges ranges = {0};
    struct memory_snapshot now;
    struct memory *memory;
    struct error err = {0};
    ranges.bytes[TIER_NVME][CATEGORY_OPTIMIZER] = FILE_BYTES;
    int wrong = expect(memory_create(&memory, &ranges, (uint64_t[TIERS]){0}, NULL, NULL) == 0, __LINE__);
    memory_set_storage(memory, storage);
    wrong |= expect(memory_take(memory, TIER_NVME, CATEGORY_OPTIMIZER, 0, FILE_BYTES, &err) == STATUS_RUN, __LINE__);
    wrong |= expect(strstr(err.text, "No space left on device; free some") != NULL, __LINE__);
    memory_snapshot(memory, &now);
    wrong |= expect(now.tier[TIER_NVME].live_bytes == 0 && now.tier[TIER_NVME].reserved_bytes == 0, __LINE__);
    wrong |= expect(memory_take(memory, TIER_NVME, CATEGORY_OPTIMIZER, 0, 16 * PAGE, &err) == 0, __LINE__);
    memory_destroy(memory);
    storage_close(storage);
    return wrong;
}

static void test_full_disk(void **state)
{
    (void)state;
    run_apart(fill_a_disk);
}

static int go_buffered(void)
{
    if (mount("none", folder, "ramfs", 0, NULL)) return SKIPPED;
    const struct aio_options how = options(1, 2, 1);
    hold_against_model(&how);
    return 0;
}

/* One folder's file system has no direct I/O, another's has: what is said of one, once, is not said of the other. */
static int go_buffered_in_one(void)
{
    char other[] = "/tmp/zerolab-test-other-XXXXXX";
    const char *because[2], *again;
    const struct aio_options how = options(1, 2, 1);
    struct storage *storage;
    if (mount("none", folder, "ramfs", 0, NULL) || !mkdtemp(other)) return SKIPPED;
    const struct storage_range ranges[CATEGORIES] = {
        [CATEGORY_PARAMETERS] = {folder, FILE_BYTES}, [CATEGORY_OPTIMIZER] = {other, FILE_BYTES}};
    if (storage_open(&storage, ranges, &how, NULL) || storage_use(storage, CATEGORY_PARAMETERS, &because[0], NULL) ||
        storage_use(storage, CATEGORY_OPTIMIZER, &because[1], NULL))
        return 1;
    if (because[1]) return rmdir(other), SKIPPED; /* /tmp has none either */
    int wrong = expect(because[0] && strstr(because[0], "no direct I/O") && strstr(because[0], folder), __LINE__);
    wrong |= expect(!storage_use(storage, CATEGORY_PARAMETERS, &again, NULL) && !again, __LINE__);
    const struct aio_span spans[] = {storage_span(storage, CATEGORY_PARAMETERS, 0, NULL, PAGE),
                                     storage_span(storage, CATEGORY_OPTIMIZER, 0, NULL, PAGE)};
    wrong |= expect(!storage_is_direct(storage, spans, 1) && storage_is_direct(storage, spans + 1, 1), __LINE__);
    wrong |= expect(!storage_is_direct(storage, spans, 2), __LINE__);
    storage_close(storage);
    return wrong | expect(rmdir(other) == 0, __LINE__);
}

static void test_no_direct_io(void **state)
{
    (void)state;
    run_apart(go_buffered);
    run_apart(go_buffered_in_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_of_moving),
        cmocka_unit_test(test_block_size_is_rounded_up),
        cmocka_unit_test(test_two_directions_at_once),
        cmocka_unit_test(test_a_transfer_tells_how_it_went),
        cmocka_unit_test(test_short_transfers_are_finished),
        cmocka_unit_test(test_any_block_may_fail),
        cmocka_unit_test(test_folders_that_will_not_do),
        cmocka_unit_test(test_kill_leaves_nothing),
        cmocka_unit_test(test_two_folders),
        cmocka_unit_test(test_taken_bytes_have_blocks),
        cmocka_unit_test(test_measuring),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_no_direct_io),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
