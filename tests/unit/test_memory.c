/* The tier allocator: counts, peaks, budgets, pages, and that a mistaken plan is caught. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/memory/memory.h"
#include "engine/memory/pages.h"
#include "engine/memory/runs.h"
#include "engine/train/records.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static const uint64_t KIB = 1024, MIB = 1024 * 1024, GIB = 1024 * 1024 * 1024;

static struct memory *create(uint64_t device_budget)
{
    struct memory_ranges ranges = {0};
    for (int c = 0; c < CATEGORIES; c++) ranges.bytes[TIER_DEVICE][c] = ranges.bytes[TIER_HOST][c] = 4 * GIB;
    ranges.bytes[TIER_NVME][CATEGORY_OPTIMIZER] = 4 * GIB;
    struct memory *memory;
    assert_int_equal(memory_create(&memory, &ranges, (uint64_t[TIERS]){device_budget, 0, 0}, NULL, NULL), 0);
    return memory;
}

static void take(struct memory *memory, enum category category, uint64_t offset, uint64_t bytes)
{
    struct error err = {0};
    if (memory_take(memory, TIER_DEVICE, category, offset, bytes, &err)) fail_msg("%s", err.text);
}

static void give(struct memory *memory, enum category category, uint64_t offset, uint64_t bytes)
{
    memory_give(memory, TIER_DEVICE, category, offset, bytes);
}

static struct memory_snapshot snapshot(const struct memory *memory)
{
    struct memory_snapshot now;
    memory_snapshot(memory, &now);
    return now;
}

/* Random adds and removes against an array of flags. */
static void test_runs(void **state)
{
    (void)state;
    enum { SPAN = 200 };
    struct runs runs = {0};
    bool flag[SPAN + 1] = {0};
    for (uint64_t round = 0; round < 20000; round++) {
        uint64_t first = rng_u64(1, 1, round) % SPAN, end = first + rng_u64(1, 2, round) % (SPAN + 1 - first);
        bool all = true, any = false;
        for (uint64_t i = first; i < end; i++) all = all && flag[i], any = any || flag[i];
        assert_int_equal(runs_cover(&runs, first, end), all);
        assert_int_equal(runs_touch(&runs, first, end), any);
        bool add = rng_u64(1, 3, round) % 2;
        (add ? runs_add : runs_remove)(&runs, first, end);
        for (uint64_t i = first; i < end; i++) flag[i] = add;
        int changes = 0;
        for (int i = 1; i <= SPAN; i++) changes += flag[i] != flag[i - 1];
        assert_int_equal(runs.count, (changes + flag[0]) / 2); /* flag[SPAN] stays false */
        uint64_t in = 0, out = 0, expected = 0;
        struct run run;
        for (uint64_t at = 3; runs_next(&runs, at, SPAN - 5, &run); at = run.end) in += run.end - run.first;
        for (uint64_t at = 3; runs_next_gap(&runs, at, SPAN - 5, &run); at = run.end) out += run.end - run.first;
        for (int i = 3; i < SPAN - 5; i++) expected += flag[i];
        assert_int_equal(in, expected);
        assert_int_equal(out, SPAN - 8 - expected);
    }
    runs_release(&runs);
}

static void test_counts_and_peaks(void **state)
{
    (void)state;
    struct memory *memory = create(0);
    take(memory, CATEGORY_PARAMETERS, 0, 1000);
    take(memory, CATEGORY_GRADIENTS, 64, 3000);
    give(memory, CATEGORY_PARAMETERS, 0, 1000);
    take(memory, CATEGORY_WORKSPACE, 0, 500);
    struct memory_snapshot now = snapshot(memory);
    assert_int_equal(now.category[TIER_DEVICE][CATEGORY_PARAMETERS].live_bytes, 0);
    assert_int_equal(now.category[TIER_DEVICE][CATEGORY_PARAMETERS].peak_bytes, 1000);
    assert_int_equal(now.category[TIER_DEVICE][CATEGORY_PARAMETERS].reserved_bytes, PAGE_BYTES);
    assert_int_equal(now.tier[TIER_DEVICE].live_bytes, 3500);
    assert_int_equal(now.tier[TIER_DEVICE].peak_bytes, 4000);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, 3 * PAGE_BYTES);
    assert_int_equal(now.at_peak_bytes[TIER_DEVICE][CATEGORY_PARAMETERS], 1000);
    assert_int_equal(now.at_peak_bytes[TIER_DEVICE][CATEGORY_GRADIENTS], 3000);
    assert_int_equal(now.at_peak_bytes[TIER_DEVICE][CATEGORY_WORKSPACE], 0);
    memory_reset_peaks(memory);
    now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].peak_bytes, 3500);
    assert_int_equal(now.category[TIER_DEVICE][CATEGORY_PARAMETERS].peak_bytes, 0);
    assert_int_equal(now.at_peak_bytes[TIER_DEVICE][CATEGORY_WORKSPACE], 500);
    give(memory, CATEGORY_GRADIENTS, 64, 1024); /* a part of what was taken */
    assert_int_equal(snapshot(memory).tier[TIER_DEVICE].live_bytes, 2476);
    memory_destroy(memory);
}

static void test_tiers_are_apart(void **state)
{
    (void)state;
    struct memory *memory = create(10 * PAGE_BYTES);
    assert_int_equal(memory_take(memory, TIER_HOST, CATEGORY_OPTIMIZER, 0, MIB, NULL), 0);
    assert_int_equal(memory_take(memory, TIER_NVME, CATEGORY_OPTIMIZER, 0, MIB, NULL), 0);
    struct memory_snapshot now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].live_bytes, 0);
    assert_int_equal(now.tier[TIER_HOST].live_bytes, MIB);
    assert_int_equal(now.tier[TIER_NVME].live_bytes, MIB);
    assert_null(memory_at(memory, TIER_NVME, CATEGORY_OPTIMIZER, 0));
    memory_destroy(memory);
}

static void test_addresses(void **state)
{
    (void)state;
    struct memory *memory = create(0);
    take(memory, CATEGORY_BUCKETS, 128, 256);
    unsigned char *at = memory_at(memory, TIER_DEVICE, CATEGORY_BUCKETS, 128);
    unsigned char *base = memory_symmetric(memory)->base;
    assert_ptr_equal(at, base + memory_symmetric(memory)->offset[CATEGORY_BUCKETS] + 128);
    for (int i = 0; i < 256; i++) assert_int_equal(at[i], 0);
    memset(at, 7, 256);
    unsigned char seen; /* the descriptor shows the same bytes as the mapping */
    assert_int_equal(pread(memory_symmetric(memory)->fd, &seen, 1, at - base), 1);
    assert_int_equal(seen, 7);
    assert_true(memory_symmetric(memory)->bytes >= 12 * GIB);
    memory_destroy(memory);
}

static void test_budget(void **state)
{
    (void)state;
    struct memory *memory = create(MIB);
    struct error err = {0};
    take(memory, CATEGORY_PARAMETERS, 0, MIB - 1000);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_GATHERED, 0, 1001, &err), STATUS_RUN);
    assert_string_equal(err.text,
                        "out of device memory: gathered asks for 1001 bytes, 1000 of the budget of 1048576 are left");
    take(memory, CATEGORY_GATHERED, 0, 1000);
    assert_int_equal(snapshot(memory).tier[TIER_DEVICE].live_bytes, MIB);
    assert_int_equal(memory_set_budget(memory, TIER_DEVICE, MIB - 1, &err), STATUS_RUN);
    assert_int_equal(snapshot(memory).budget_bytes[TIER_DEVICE], MIB);
    assert_int_equal(memory_set_budget(memory, TIER_DEVICE, 2 * MIB, &err), 0);
    take(memory, CATEGORY_WORKSPACE, 0, MIB);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_WORKSPACE, MIB, 1, NULL), STATUS_RUN);
    give(memory, CATEGORY_WORKSPACE, 0, MIB);
    memory_destroy(memory);
}

/* Under pressure, pages that nobody uses go back before a take fails, and what is live keeps its bytes. */
static void test_pressure_returns_pages(void **state)
{
    (void)state;
    struct memory *memory = create(16 * MIB);
    take(memory, CATEGORY_PARAMETERS, 0, MIB);
    take(memory, CATEGORY_PARAMETERS, MIB, 9 * MIB);
    unsigned char *kept = memory_at(memory, TIER_DEVICE, CATEGORY_PARAMETERS, 0);
    unsigned char *gone = memory_at(memory, TIER_DEVICE, CATEGORY_PARAMETERS, MIB);
    memset(kept, 1, 10 * MIB);
    give(memory, CATEGORY_PARAMETERS, MIB, 9 * MIB);
    take(memory, CATEGORY_ACTIVATIONS, 0, 5 * MIB); /* fits beside the idle pages: nothing is returned */
    assert_int_equal(snapshot(memory).tier[TIER_DEVICE].reserved_bytes, 15 * MIB);
    assert_true(memory_is_committed(memory, TIER_DEVICE, CATEGORY_PARAMETERS, MIB, 9 * MIB));
    take(memory, CATEGORY_OPTIMIZER, 0, 8 * MIB); /* does not */
    struct memory_snapshot now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].live_bytes, 14 * MIB);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, 16 * MIB);
    assert_int_equal(now.category[TIER_DEVICE][CATEGORY_PARAMETERS].reserved_bytes, 3 * MIB);
    assert_false(memory_is_committed(memory, TIER_DEVICE, CATEGORY_PARAMETERS, MIB, 9 * MIB));
    for (uint64_t i = 0; i < MIB; i++) assert_int_equal(kept[i], 1);
    give(memory, CATEGORY_OPTIMIZER, 0, 8 * MIB);
    take(memory, CATEGORY_PARAMETERS, MIB, 7 * MIB);
    assert_int_equal(gone[0], 0); /* committed anew: zero */
    assert_int_equal(gone[7 * MIB - 1], 0);
    memory_trim(memory);
    now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, now.tier[TIER_DEVICE].live_bytes);
    memory_destroy(memory);
}

/* A take over pages that are idle but committed must not lose them to its own pressure. */
static void test_pressure_spares_its_own_pages(void **state)
{
    (void)state;
    struct memory *memory = create(4 * MIB);
    take(memory, CATEGORY_BUCKETS, 0, 2 * MIB);
    memset(memory_at(memory, TIER_DEVICE, CATEGORY_BUCKETS, 0), 9, 2 * MIB);
    give(memory, CATEGORY_BUCKETS, 0, 2 * MIB);
    take(memory, CATEGORY_WORKSPACE, 0, MIB);
    take(memory, CATEGORY_BUCKETS, MIB, 3 * MIB);
    struct memory_snapshot now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].reserved_bytes, 4 * MIB);
    unsigned char *recycled = memory_at(memory, TIER_DEVICE, CATEGORY_BUCKETS, MIB);
    assert_int_equal(recycled[0], 9);
    assert_int_equal(recycled[MIB], 0);
    memory_destroy(memory);
}

/* Without the pages of files: those of libraries are shared with other programs, which come and go. */
static uint64_t pss_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    unsigned long long kib, sum = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss_Anon: %llu", &kib) == 1 || sscanf(line, "Pss_Shmem: %llu", &kib) == 1) sum += kib;
    if (file) fclose(file);
    return sum * KIB;
}

static void check_pss(const struct memory *memory, uint64_t before, const char *where)
{
    struct memory_snapshot now = snapshot(memory);
    int64_t counted = (int64_t)(now.tier[TIER_DEVICE].reserved_bytes + now.tier[TIER_HOST].reserved_bytes);
    int64_t seen = (int64_t)(pss_bytes() - before);
    if (llabs(seen - counted) > 256 * 1024)
        fail_msg("%s: counted %lld, Pss grew by %lld", where, (long long)counted, (long long)seen);
}

/* Reserved is what the system really gave, also after odd sizes, partial returns and writes. */
static void test_pss(void **state)
{
    (void)state;
    if (SANITIZED || pss_bytes() == 0) skip();
    struct memory *memory = create(0);
    snapshot(memory);
    uint64_t before = pss_bytes();
    take(memory, CATEGORY_PARAMETERS, 64, 100);
    take(memory, CATEGORY_OPTIMIZER, 4096 * 3 + 64, 100);
    check_pss(memory, before, "small");
    take(memory, CATEGORY_PARAMETERS, 5 * MIB + 64, 23 * MIB + 777);
    take(memory, CATEGORY_ACTIVATIONS, 5 * MIB + 64, 23 * MIB + 777);
    check_pss(memory, before, "large");
    memset(memory_at(memory, TIER_DEVICE, CATEGORY_PARAMETERS, 5 * MIB + 64), 1, 23 * MIB + 777);
    memset(memory_at(memory, TIER_DEVICE, CATEGORY_ACTIVATIONS, 5 * MIB + 64), 1, 23 * MIB + 777);
    check_pss(memory, before, "written");
    give(memory, CATEGORY_PARAMETERS, 9 * MIB + 128, 11 * MIB + 64);
    give(memory, CATEGORY_ACTIVATIONS, 9 * MIB + 128, 11 * MIB + 64);
    check_pss(memory, before, "given, still committed");
    memory_trim(memory);
    check_pss(memory, before, "trimmed");
    take(memory, CATEGORY_ACTIVATIONS, 10 * MIB + 128, 5 * MIB + 1);
    take(memory, CATEGORY_PARAMETERS, 10 * MIB + 128, 5 * MIB + 1);
    check_pss(memory, before, "taken again");
    memory_destroy(memory);
}

/* Page faults are paid by the take, not by whoever writes first. */
static void test_take_commits(void **state)
{
    (void)state;
    if (SANITIZED) skip();
    struct memory *memory = create(0);
    take(memory, CATEGORY_GRADIENTS, 0, 8 * MIB);
    take(memory, CATEGORY_WORKSPACE, 0, 8 * MIB);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    memset(memory_at(memory, TIER_DEVICE, CATEGORY_GRADIENTS, 0), 1, 8 * MIB);
    memset(memory_at(memory, TIER_DEVICE, CATEGORY_WORKSPACE, 0), 1, 8 * MIB);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 100);
    memory_destroy(memory);
}

static void overlap(void)
{
    struct memory *memory = create(0);
    take(memory, CATEGORY_BUCKETS, 0, 1000);
    take(memory, CATEGORY_BUCKETS, 960, 1000);
}

static void misaligned(void)
{
    take(create(0), CATEGORY_BUCKETS, 32, 8);
}

static void out_of_range(void)
{
    take(create(0), CATEGORY_BUCKETS, 4 * GIB - 64, 65);
}

static void given_twice(void)
{
    struct memory *memory = create(0);
    take(memory, CATEGORY_BUCKETS, 0, 1000);
    give(memory, CATEGORY_BUCKETS, 0, 1000);
    give(memory, CATEGORY_BUCKETS, 0, 1000);
}

/* Runs a mistake in a child; it must die by SIGABRT and name the category and what was wrong. */
static void expect_abort(void (*mistake)(void), const char *what)
{
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        dup2(pipe_fd[1], STDERR_FILENO);
        mistake();
        _exit(0);
    }
    close(pipe_fd[1]);
    char text[512] = "";
    ssize_t got = read(pipe_fd[0], text, sizeof text - 1);
    close(pipe_fd[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(got > 0 && strstr(text, what) && strstr(text, "device buckets"));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void test_plan_bugs_abort(void **state)
{
    (void)state;
    expect_abort(overlap, "overlaps live memory");
    expect_abort(misaligned, "not aligned");
    expect_abort(out_of_range, "beyond the category's range");
    expect_abort(given_twice, "not live");
}

static void test_fail_after(void **state)
{
    (void)state;
    struct memory *memory = create(0);
    memory_fail_after(memory, 3);
    take(memory, CATEGORY_PARAMETERS, 0, 64);
    take(memory, CATEGORY_PARAMETERS, 64, 64);
    struct memory_snapshot before = snapshot(memory);
    assert_int_equal(memory_take(memory, TIER_DEVICE, CATEGORY_PARAMETERS, 128, 64, NULL), STATUS_RUN);
    struct memory_snapshot after = snapshot(memory);
    assert_memory_equal(&before, &after, sizeof before);
    take(memory, CATEGORY_PARAMETERS, 128, 64);
    memory_destroy(memory);
}

static void add_change(void *user, uint64_t when_ns, enum tier tier, enum category category,
                       const struct memory_count *count)
{
    struct memory_snapshot *seen = user;
    assert_int_equal(when_ns, 0);
    seen->category[tier][category] = *count;
}

static void test_observer_sees_all(void **state)
{
    (void)state;
    struct memory *memory = create(3 * MIB);
    struct memory_snapshot seen = {0};
    memory_observe(memory, add_change, &seen);
    take(memory, CATEGORY_PARAMETERS, 0, MIB);
    take(memory, CATEGORY_OPTIMIZER, 0, MIB);
    give(memory, CATEGORY_PARAMETERS, 0, MIB);
    take(memory, CATEGORY_GRADIENTS, 0, 2 * MIB);
    struct memory_snapshot now = snapshot(memory);
    assert_memory_equal(seen.category, now.category, sizeof now.category);
    memory_destroy(memory);
}

struct churn {
    struct memory *memory;
    int thread;
};

static void *churn(void *user)
{
    struct churn *self = user;
    uint64_t base = (uint64_t)self->thread * 4 * MIB;
    for (uint64_t round = 0; round < 400; round++) {
        uint64_t bytes = 64 + rng_u64(5, (uint64_t)self->thread, round) % (64 * KIB);
        enum category category = (enum category)(rng_u64(6, (uint64_t)self->thread, round) % CATEGORIES);
        if (memory_take(self->memory, TIER_DEVICE, category, base, bytes, NULL)) continue;
        unsigned char *at = memory_at(self->memory, TIER_DEVICE, category, base);
        memset(at, self->thread, bytes);
        if (round % 16 == 0) memory_trim(self->memory);
        if (at[0] != self->thread || at[bytes - 1] != self->thread) abort();
        memory_give(self->memory, TIER_DEVICE, category, base, bytes);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    struct memory *memory = create(200 * KIB);
    pthread_t threads[4];
    struct churn args[4];
    for (int i = 0; i < 4; i++) {
        args[i] = (struct churn){memory, i};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &args[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    struct memory_snapshot now = snapshot(memory);
    assert_int_equal(now.tier[TIER_DEVICE].live_bytes, 0);
    assert_true(now.tier[TIER_DEVICE].peak_bytes <= 200 * KIB);
    memory_trim(memory);
    assert_int_equal(snapshot(memory).tier[TIER_DEVICE].reserved_bytes, 0);
    memory_destroy(memory);
}

/* The kernel's files of a process are slow to read: a step of a millisecond does not wait for them. */
static void a_process_is_told_of_at_most_every_20_ms(void **state)
{
    static _Alignas(64) char room[4096];
    struct trace_ring *ring = trace_ring_init(room, sizeof room);
    struct process_told told = {0};
    struct trace_record record;
    struct memory *memory = create(0);
    (void)state;
    char out[sizeof room];
    record_process(ring, 0, 1, memory, &told, true);
    assert_true(trace_decode(out, trace_ring_drain(ring, out, sizeof out), &record));
    assert_int_equal(record.kind, TRACE_PROCESS);
    assert_int_equal(record.process.pid, getpid());
    assert_true(record.process.pss_bytes > 0 && record.process.rss_bytes >= record.process.pss_bytes);
    assert_true(record.process.peak_rss_bytes >= record.process.rss_bytes);
    uint64_t now_ns; /* again, should this test have stood still between the two */
    do {
        now_ns = told.at_ns = clock_ns();
        trace_ring_drain(ring, out, sizeof out);
        record_process(ring, 0, 2, memory, &told, false);
    } while (clock_ns() - now_ns >= 20000000u);
    assert_int_equal(trace_ring_waiting(ring), 0);
    told.at_ns = clock_ns() - 21000000u;
    record_process(ring, 0, 3, memory, &told, false);
    assert_true(trace_decode(out, trace_ring_drain(ring, out, sizeof out), &record));
    assert_int_equal(record.process.step, 3);
    assert_int_equal(record.process.pss_bytes, 0);
    memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_counts_and_peaks),
        cmocka_unit_test(test_tiers_are_apart),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_pressure_returns_pages),
        cmocka_unit_test(test_pressure_spares_its_own_pages),
        cmocka_unit_test(test_pss),
        cmocka_unit_test(test_take_commits),
        cmocka_unit_test(test_plan_bugs_abort),
        cmocka_unit_test(test_fail_after),
        cmocka_unit_test(test_observer_sees_all),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(a_process_is_told_of_at_most_every_20_ms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
