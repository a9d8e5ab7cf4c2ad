/* Rings and what merges them: losses are counted, and order holds over rings. The socket side is in test_trace_live.c. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/trace/merge.h"
#include "engine/trace/source.h"
#include "engine/trace/writer.h"
#include "tests/support/trace_fixture.h"

static void a_ring_wraps_at_any_offset(void **state)
{
    (void)state;
    static _Alignas(64) char memory[256 + 301]; /* a capacity that no record size divides */
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    char out[512];
    for (uint32_t i = 0; i < 1000; i++) {
        struct trace_record record = op_end(1, i, i),
                            note = {.kind = TRACE_LOG, .time_ns = i, .log.text = {"abcdefghij", i % 11}}, decoded;
        trace_emit(ring, &record);
        trace_emit(ring, &note);
        size_t waiting = trace_ring_waiting(ring), bytes = trace_ring_drain(ring, out, sizeof out);
        assert_int_equal(bytes, waiting);
        size_t first = trace_decode(out, bytes, &decoded);
        assert_true(first && same(&record, &decoded));
        assert_int_equal(trace_decode(out + first, bytes - first, &decoded), bytes - first);
        assert_true(same(&note, &decoded));
    }
    uint64_t since;
    assert_int_equal(trace_ring_lost(ring, &since), 0);
}

static void a_full_ring_counts_what_it_loses(void **state)
{
    (void)state;
    static _Alignas(64) char memory[1024];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    uint64_t since;
    char out[1024];
    for (int round = 1; round <= 3; round++) {
        uint64_t base = 1000u * (unsigned)round;
        for (uint32_t i = 0; i < 50; i++) {
            struct trace_record record = op_end(0, i, base + i);
            trace_emit(ring, &record);
        }
        size_t bytes = trace_ring_drain(ring, out, sizeof out), kept = bytes / trace_peek(out).bytes;
        assert_true(kept > 2 && kept < 50);
        assert_int_equal(trace_ring_lost(ring, &since), 50 - kept);
        assert_int_equal(since, base + kept);
        assert_int_equal(trace_ring_lost(ring, &since), 0);
    }
    struct trace_record huge = {.kind = TRACE_LOG, .time_ns = 5, .log.text = {memory, sizeof memory}};
    trace_emit(ring, &huge);
    assert_int_equal(trace_ring_lost(ring, &since), 1);
    assert_int_equal(since, 5);
    assert_int_equal(trace_ring_drain(ring, out, sizeof out), 0);
    trace_emit(NULL, &huge);
}

static void draining_into_little_room_takes_whole_records(void **state)
{
    (void)state;
    static _Alignas(64) char memory[4096];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    for (uint32_t i = 0; i < 10; i++) {
        struct trace_record record = op_end(0, i, i);
        trace_emit(ring, &record);
    }
    char out[250];
    size_t size = trace_ring_waiting(ring) / 10, total = 0, bytes;
    assert_int_equal(trace_ring_drain(ring, out, size - 1), 0);
    while ((bytes = trace_ring_drain(ring, out, sizeof out)) > 0) {
        assert_int_equal(bytes % size, 0);
        total += bytes;
    }
    assert_int_equal(total, 10 * size);
}

static void a_ring_without_room_loses_everything(void **state)
{
    (void)state;
    static _Alignas(64) char memory[256];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    struct trace_record record = op_end(0, 0, 9);
    uint64_t since;
    trace_emit(ring, &record);
    assert_int_equal(trace_ring_lost(ring, &since), 1);
    assert_int_equal(trace_ring_waiting(ring), 0);
}

/* Drains and checks that the records are whole and their numbers go up by one, but for what was lost; returns the next number. */
static uint32_t drain_in_order(struct trace_ring *ring, uint32_t expected)
{
    static char out[1 << 16];
    struct trace_record record;
    size_t bytes = trace_ring_drain(ring, out, sizeof out);
    for (size_t at = 0, size; at < bytes; at += size) {
        size = trace_decode(out + at, bytes - at, &record);
        assert_true(size > 0);
        assert_true(record.op_end.op >= expected);
        expected = record.op_end.op + 1;
    }
    return expected;
}

static void a_producer_killed_in_the_middle_leaves_whole_records(void **state)
{
    (void)state;
    enum { BYTES = 1 << 16 };
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct trace_ring *ring = trace_ring_init(memory, BYTES);
    pid_t child = fork();
    if (child == 0)
        for (uint32_t i = 0;; i++) {
            struct trace_record record = op_end(0, i, i);
            trace_emit(ring, &record);
        }
    uint32_t expected = 0;
    while (expected < 5000) expected = drain_in_order(ring, expected);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while (trace_ring_waiting(ring)) expected = drain_in_order(ring, expected);
    munmap(memory, BYTES);
}

static void emitting_takes_well_under_a_microsecond(void **state)
{
    (void)state;
    enum { RECORDS = 20000, ROUNDS = 5 };
    size_t bytes = 4 << 20;
    void *memory = aligned_alloc(64, bytes), *out = malloc(bytes);
    struct trace_ring *ring = trace_ring_init(memory, bytes);
    double best_ns = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = clock_worked_ns();
        for (uint32_t i = 0; i < RECORDS; i++) {
            struct trace_record record = op_end(0, i, i);
            trace_emit(ring, &record);
        }
        double each = (double)(clock_worked_ns() - start) / RECORDS;
        if (each < best_ns) best_ns = each;
        trace_ring_drain(ring, out, bytes);
    }
    print_message("           an emit takes %.0f ns\n", best_ns);
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__
    assert_true(best_ns < 500);
#endif
    free(memory);
    free(out);
}

enum { PRODUCERS = 12, EACH = 3000, PUNCTUAL_NS = 15000000 /* passes are 20 ms apart, or more */ };

struct producer {
    pthread_t thread;
    struct trace_ring *ring;
    uint16_t rank;
    uint64_t late; /* records that it may have emitted too late after their time was taken: it had no processor */
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct trace_record record = op_end(producer->rank, i, clock_ns());
        trace_emit(producer->ring, &record);
        producer->late += clock_ns() - record.time_ns > PUNCTUAL_NS;
        if (i % 100 == 99) usleep(500);
    }
    return NULL;
}

static void emit_at(struct trace_ring *ring, uint16_t rank, uint64_t time_ns)
{
    struct trace_record record = op_end(rank, 0, time_ns);
    trace_emit(ring, &record);
}

static void check_pass(struct merge *merge, uint64_t now_ns, bool everything, const uint64_t *times_ns)
{
    struct bytes batch = {0};
    merge_pass(merge, now_ns, everything, &batch);
    for (size_t at = 0; at < batch.count; at += trace_peek(batch.at + at).bytes)
        assert_int_equal(trace_peek(batch.at + at).time_ns, *times_ns++);
    assert_int_equal(*times_ns, 0);
    bytes_release(&batch);
}

/* A record stamped before a pass and emitted after it still comes in its place. */
static void what_could_be_overtaken_is_held_back(void **state)
{
    (void)state;
    static _Alignas(64) char memory[2][2048];
    struct trace_ring *a = trace_ring_init(memory[0], sizeof memory[0]),
                      *b = trace_ring_init(memory[1], sizeof memory[1]);
    struct merge *merge = merge_new();
    assert_true(merge_add(merge, a) && merge_add(merge, b));
    emit_at(a, 0, 110);
    emit_at(a, 0, 130);
    check_pass(merge, 200, false, (uint64_t[]){0});
    emit_at(b, 1, 120);
    emit_at(b, 1, 250);
    check_pass(merge, 300, false, (uint64_t[]){110, 120, 130, 0});
    emit_at(a, 0, 240);
    emit_at(a, 0, 9000); /* of another clock: not held until that time has come */
    check_pass(merge, 400, false, (uint64_t[]){240, 250, 9000, 0});
    emit_at(a, 0, 505); /* stamped after the pass has begun, and before this ring is looked at */
    check_pass(merge, 500, false, (uint64_t[]){0});
    emit_at(b, 1, 502);
    check_pass(merge, 600, false, (uint64_t[]){0});
    check_pass(merge, 700, false, (uint64_t[]){502, 505, 0});
    emit_at(a, 0, 690);
    check_pass(merge, 800, true, (uint64_t[]){690, 0});
    check_pass(merge, 900, true, (uint64_t[]){0});
    merge_free(merge);
}

static void of_one_time_comes_first_what_was_added_first(void **state)
{
    (void)state;
    enum { RINGS = 4 };
    static _Alignas(64) char memory[RINGS][2048];
    struct merge *merge = merge_new();
    struct bytes batch = {0};
    for (uint16_t rank = 0; rank < RINGS; rank++) {
        struct trace_ring *ring = trace_ring_init(memory[rank], sizeof memory[rank]);
        assert_true(merge_add(merge, ring));
        for (int i = 0; i < rank; i++) emit_at(ring, rank, 100);
    }
    merge_pass(merge, 200, true, &batch);
    const uint16_t expected[] = {1, 2, 2, 3, 3, 3};
    size_t count = 0;
    for (size_t at = 0; at < batch.count; at += trace_peek(batch.at + at).bytes)
        assert_int_equal(trace_peek(batch.at + at).rank, expected[count++]);
    assert_int_equal(count, 6);
    bytes_release(&batch);
    merge_free(merge);
}

/* Twelve producers into one file: every record of each arrives, in its order, and times never go back. */
static void order_holds_over_rings(void **state)
{
    (void)state;
    enum { RING_BYTES = 1 << 20 };
    const char *path = in_folder("order");
    struct trace_writer *writer;
    struct error err;
    struct producer producers[PRODUCERS];
    assert_int_equal(trace_writer_start(&writer, &(struct trace_writer_options){.file = path, .adopted_fd = -1}, &err),
                     0);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] =
            (struct producer){.ring = trace_ring_init(aligned_alloc(64, RING_BYTES), RING_BYTES), .rank = (uint16_t)i};
        trace_writer_add_ring(writer, producers[i].ring);
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < PRODUCERS; i++) pthread_join(producers[i].thread, NULL);
    trace_writer_stop(writer);

    struct source *source;
    struct trace_record record;
    uint32_t next[PRODUCERS] = {0};
    uint64_t last_ns = 0, back = 0, late = 0;
    assert_int_equal(source_open_file(&source, path, &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD) {
        assert_int_equal(record.kind, TRACE_OP_END);
        assert_int_equal(record.op_end.op, next[record.rank]++);
        back += record.time_ns < last_ns;
        last_ns = record.time_ns;
    }
    source_close(source);
    for (int i = 0; i < PRODUCERS; i++) {
        assert_int_equal(next[i], EACH);
        late += producers[i].late;
        free(producers[i].ring);
    }
    assert_true(back <= late);
    unlink(path);
}

static void what_a_ring_lost_becomes_a_gap(void **state)
{
    (void)state;
    const char *path = in_folder("gap");
    static _Alignas(64) char memory[2048];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    struct trace_writer *writer;
    struct error err;
    uint64_t first_lost = 0, base = clock_ns();
    for (uint32_t i = 0; i < 100; i++) { /* before the writer sees the ring, so what fits is known */
        struct trace_record record = op_end(7, i, base + i);
        size_t before = trace_ring_waiting(ring);
        trace_emit(ring, &record);
        if (!first_lost && trace_ring_waiting(ring) == before) first_lost = base + i;
    }
    assert_int_equal(trace_writer_start(&writer, &(struct trace_writer_options){.file = path, .adopted_fd = -1}, &err),
                     0);
    trace_writer_add_ring(writer, ring);
    trace_writer_stop(writer);
    struct source *source;
    struct trace_record record;
    uint64_t seen = 0;
    assert_int_equal(source_open_file(&source, path, &err), 0);
    while (source_next(source, &record) == SOURCE_RECORD && record.kind == TRACE_OP_END) seen++;
    assert_int_equal(record.kind, TRACE_GAP);
    assert_int_equal(record.rank, 7);
    assert_int_equal(record.gap.records, 100 - seen);
    assert_int_equal(record.gap.since_ns, first_lost);
    assert_int_equal(seen, first_lost - base);
    source_close(source);
    unlink(path);
}

static void a_file_that_cannot_be_made_fails_at_once(void **state)
{
    (void)state;
    struct trace_writer *writer;
    struct error err;
    struct trace_writer_options options = {.file = "/nowhere/at/all", .adopted_fd = -1};
    assert_int_equal(trace_writer_start(&writer, &options, &err), STATUS_USAGE);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
    assert_null(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_wraps_at_any_offset),
        cmocka_unit_test(a_full_ring_counts_what_it_loses),
        cmocka_unit_test(draining_into_little_room_takes_whole_records),
        cmocka_unit_test(a_ring_without_room_loses_everything),
        cmocka_unit_test(a_producer_killed_in_the_middle_leaves_whole_records),
        cmocka_unit_test(emitting_takes_well_under_a_microsecond),
        cmocka_unit_test(what_could_be_overtaken_is_held_back),
        cmocka_unit_test(of_one_time_comes_first_what_was_added_first),
        cmocka_unit_test(order_holds_over_rings),
        cmocka_unit_test(what_a_ring_lost_becomes_a_gap),
        cmocka_unit_test(a_file_that_cannot_be_made_fails_at_once),
    };
    return cmocka_run_group_tests_name("trace rings", tests, make_folder, remove_folder);
}
