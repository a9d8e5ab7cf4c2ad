/* Records of other machines: their clocks are measured and taken out, their records merged, and what comes too late is a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/clock.h"
#include "engine/trace/check.h"
#include "engine/trace/clocks.h"
#include "engine/trace/file.h"
#include "engine/trace/relay.h"
#include "tests/support/trace_fixture.h"

/* ---- measuring ---- */

static const uint64_t ms = 1000000, second = 1000000000u;

/* A ping at the time `at` here of a clock that is ahead by `offset`, with these delays of the two ways. */
static struct clock_ping ping_of(uint64_t at, int64_t offset, uint64_t to, uint64_t back)
{
    const uint64_t there = at + to + (uint64_t)offset;
    return (struct clock_ping){at, there, there + 3000, at + to + 3000 + back};
}

static uint64_t off_by(const struct clock_offset *offset, int64_t truth)
{
    return (uint64_t)llabs(offset->ns - truth);
}

static void the_least_round_trip_bounds_the_offset(void **state)
{
    (void)state;
    static const int64_t truths[] = {0, 5000000000, -86400000000000};
    for (int t = 0; t < 3; t++) {
        struct clock_ping pings[16];
        struct clock_offset offset = {0};
        srand((unsigned)t);
        for (unsigned i = 0; i < 16; i++)
            pings[i] = ping_of((100 + i) * second, truths[t], 20000 + (unsigned)rand() % 5000000,
                               20000 + (unsigned)rand() % 5000000);
        pings[7] = ping_of(200 * second, truths[t], 30000, 50000);
        clock_offset_measure(&offset, pings, 16);
        assert_true(offset.known && offset.within_ns <= 40000);
        assert_true(off_by(&offset, truths[t]) <= offset.within_ns);
    }
}

/* However unequal the ways are, the bound holds; one slow way and one fast way of two pings make a good one. */
static void unequal_ways_are_within_the_bound(void **state)
{
    (void)state;
    for (uint64_t to = 1000; to < 20 * ms; to *= 3) {
        struct clock_offset offset = {0};
        const struct clock_ping one = ping_of(second, 7 * (int64_t)second, to, 1000);
        clock_offset_measure(&offset, &one, 1);
        assert_true(off_by(&offset, 7 * (int64_t)second) <= offset.within_ns);
        assert_true(offset.within_ns <= to);
    }
    struct clock_offset offset = {0};
    const struct clock_ping both[] = {ping_of(second, -5, 10 * ms, 1000), ping_of(2 * second, -5, 1000, 10 * ms)};
    clock_offset_measure(&offset, both, 2);
    assert_true(offset.within_ns <= 1001 && off_by(&offset, -5) <= offset.within_ns);
}

/* A clock that runs 80 parts in a million fast: measured every two seconds, some of them badly. */
static void drift_is_followed_and_time_never_runs_backwards(void **state)
{
    (void)state;
    struct clock_offset offset = {0};
    struct clock_map map = {0};
    uint64_t before = 0, worst = 0;
    for (unsigned i = 0; i < 3000; i++) {
        const uint64_t now = second + i * 20 * ms, there = now + 5 * second + now / 12500;
        if (i % 100 == 0) {
            const uint64_t slow = i % 700 == 300 ? 9 * ms : 30000;
            const struct clock_ping ping = ping_of(now, (int64_t)(there - now), slow, 50000);
            clock_offset_measure(&offset, &ping, 1);
            assert_true(off_by(&offset, (int64_t)(there - now)) <= offset.within_ns + 1000);
            assert_true(offset.within_ns < 2 * ms);
            clock_map_aim(&map, offset.ns);
        }
        for (uint64_t late = 3; late-- > 0;) {
            const uint64_t here = clock_map_here(&map, there - late * ms);
            assert_true(here >= before);
            before = here;
        }
        const uint64_t wrong = before > now ? before - now : now - before;
        if (i > 100 && wrong > worst) worst = wrong;
    }
    assert_true(worst > 0 && worst < 3 * ms); /* 0.16 ms of drift between measurements, more after a bad one */
}

static void a_clock_that_was_set_is_measured_anew(void **state)
{
    (void)state;
    struct clock_offset offset = {0};
    struct clock_map map = {0};
    struct clock_ping ping = ping_of(second, 0, 30000, 30000);
    clock_offset_measure(&offset, &ping, 1);
    assert_int_equal(clock_map_aim(&map, offset.ns), 0);
    const uint64_t before = clock_map_here(&map, second);
    ping = ping_of(3 * second, 2 * (int64_t)second, 30000, 30000);
    clock_offset_measure(&offset, &ping, 1);
    assert_true(off_by(&offset, 2 * (int64_t)second) <= offset.within_ns);
    assert_int_equal(clock_map_aim(&map, offset.ns), 2 * second);
    assert_true(clock_map_here(&map, second + 1) > before);
    assert_int_equal(clock_map_here(&map, 60 * second), 58 * second - (uint64_t)(offset.ns - 2 * (int64_t)second));
}

/* ---- streams of the merge ---- */

static void put(struct merge *merge, int stream, uint32_t op, uint64_t time_ns)
{
    const struct trace_record record = op_end(1, op, time_ns);
    struct bytes bytes = {0};
    assert_true(trace_append(&bytes, &record));
    merge_put(merge, stream, bytes.at, bytes.count);
    bytes_release(&bytes);
}

/* Kinds and times of a batch, as text. */
static const char *batch_of(struct merge *merge, uint64_t now_ns, bool everything)
{
    static char text[512];
    struct bytes batch = {0};
    struct trace_record record;
    size_t used = 0;
    merge_pass(merge, now_ns, everything, &batch);
    text[0] = '\0';
    for (size_t at = 0; at < batch.count; at += trace_decode(batch.at + at, batch.count - at, &record)) {
        assert_true(trace_decode(batch.at + at, batch.count - at, &record) > 0);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %llu", used ? ", " : "",
                                 trace_kind_name(record.kind), (unsigned long long)record.time_ns);
        if (record.kind == TRACE_GAP)
            used += (size_t)snprintf(text + used, sizeof text - used, " (%llu since %llu)",
                                     (unsigned long long)record.gap.records, (unsigned long long)record.gap.since_ns);
    }
    bytes_release(&batch);
    return text;
}

static void records_wait_for_those_of_other_machines(void **state)
{
    (void)state;
    static _Alignas(64) char memory[4096];
    struct merge *merge = merge_new();
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    const uint64_t s = second;
    assert_true(merge_add(merge, ring));
    const int stream = merge_add_stream(merge, 10 * s);
    struct trace_record own = op_end(0, 1, 10 * s + 5);
    trace_emit(ring, &own);
    assert_string_equal(batch_of(merge, 11 * s, false), "");
    assert_string_equal(batch_of(merge, 12 * s, false), ""); /* the stream is whole until 10 s only */
    put(merge, stream, 1, 10 * s + 4);
    merge_whole_until(merge, stream, 10 * s + 5);
    assert_string_equal(batch_of(merge, 12 * s, false), "op_end 10000000004");
    put(merge, stream, 2, 10 * s + 6);
    merge_whole_until(merge, stream, 10 * s + 7);
    assert_string_equal(batch_of(merge, 12 * s, false), "op_end 10000000005, op_end 10000000006");
    own = op_end(0, 2, 13 * s);
    trace_emit(ring, &own);
    assert_string_equal(batch_of(merge, 13 * s + 1, false), "");
    /* Three seconds behind: the others go on without it. */
    assert_string_equal(batch_of(merge, 14 * s, false), "op_end 13000000000");
    assert_string_equal(batch_of(merge, 14 * s + 1, false), "gap 13000000001 (0 since 13000000001)");
    put(merge, stream, 3, 12 * s); /* too late */
    put(merge, stream, 4, 14 * s + 2);
    merge_whole_until(merge, stream, 14 * s + 3);
    assert_string_equal(batch_of(merge, 14 * s + 4, false), "");
    assert_string_equal(batch_of(merge, 14 * s + 6, false),
                        "op_end 14000000002, gap 14000000001 (1 since 10000000007)");
    assert_non_null(strstr(batch_of(merge, 15 * s, true), "gap")); /* it never ended */
    merge_free(merge);
}

/* ---- a relay and an inlet, joined by two queues ---- */

enum { QUEUE = 64 };
struct comm {
    pthread_mutex_t lock;
    struct {
        size_t bytes;
        unsigned char at[PORT_BYTES];
    } queue[2][QUEUE]; /* by receiver */
    unsigned head[2], tail[2];
    bool cut;
};

static bool send(struct comm *wire, int receiver, const void *message, size_t bytes)
{
    pthread_mutex_lock(&wire->lock);
    const bool room = wire->head[receiver] - wire->tail[receiver] < QUEUE;
    if (room && !wire->cut) {
        memcpy(wire->queue[receiver][wire->head[receiver] % QUEUE].at, message, bytes);
        wire->queue[receiver][wire->head[receiver]++ % QUEUE].bytes = bytes;
    }
    pthread_mutex_unlock(&wire->lock);
    return room;
}

static size_t receive(struct comm *wire, int sender, void *out)
{
    const int receiver = !sender;
    size_t bytes = 0;
    pthread_mutex_lock(&wire->lock);
    if (wire->head[receiver] != wire->tail[receiver]) {
        bytes = wire->queue[receiver][wire->tail[receiver] % QUEUE].bytes;
        memcpy(out, wire->queue[receiver][wire->tail[receiver]++ % QUEUE].at, bytes);
    }
    pthread_mutex_unlock(&wire->lock);
    return bytes;
}

static bool sent(struct comm *wire)
{
    (void)wire;
    return true;
}
static bool failed(const struct comm *wire)
{
    return wire->cut;
}
static int leader(const struct comm *wire, int machine)
{
    (void)wire;
    return 2 * machine;
}
static const char *host(const struct comm *wire, int rank)
{
    (void)wire;
    return rank ? "b" : "a";
}

static void every_record_of_another_machine_arrives_once(void **state)
{
    (void)state;
    enum { RECORDS = 20000 };
    struct comm *wire = calloc(1, sizeof *wire);
    const struct trace_port port = {wire, 2, send, receive, sent, failed, leader, host};
    pthread_mutex_init(&wire->lock, NULL);
    struct merge *merge = merge_new();
    struct inlet *inlet = inlet_new(&port, merge);
    struct relay *relay;
    struct error err;
    static _Alignas(64) char memory[1 << 20];
    struct trace_ring *ring = trace_ring_init(memory, sizeof memory);
    assert_int_equal(relay_start(&relay, &port, &err), 0);
    relay_add_ring(relay, ring);
    for (uint32_t i = 0; i < RECORDS; i++) {
        const struct trace_record record = op_end(3, i, clock_ns());
        while (sizeof memory - trace_ring_waiting(ring) < 4096) inlet_pump(inlet);
        trace_emit(ring, &record);
        if (i % 64 == 0) inlet_pump(inlet);
    }
    pthread_t stopper; /* it returns only when the inlet has taken all */
    assert_int_equal(pthread_create(&stopper, NULL, (void *(*)(void *))(void (*)(void))relay_stop, relay), 0);
    inlet_finish(inlet);
    pthread_join(stopper, NULL);
    struct bytes batch = {0};
    struct trace_record record;
    uint32_t next = 0, clocks = 0;
    merge_pass(merge, clock_ns(), true, &batch);
    for (size_t at = 0; at < batch.count; at += trace_peek(batch.at + at).bytes) {
        assert_true(trace_decode(batch.at + at, batch.count - at, &record) > 0);
        assert_true(record.kind != TRACE_GAP);
        if (record.kind == TRACE_OP_END) assert_int_equal(record.op_end.op, next++);
        if (record.kind != TRACE_CLOCK) continue;
        clocks++;
        assert_int_equal(record.rank, 2);
        assert_true((uint64_t)llabs(record.clock.offset_ns) <= record.clock.within_ns);
    }
    assert_int_equal(next, RECORDS);
    assert_true(clocks >= 1);
    bytes_release(&batch);
    inlet_free(inlet);
    merge_free(merge);
    free(wire);
}

static void a_machine_that_is_gone_holds_up_nobody_long(void **state)
{
    (void)state;
    struct comm *wire = calloc(1, sizeof *wire);
    const struct trace_port port = {wire, 2, send, receive, sent, failed, leader, host};
    pthread_mutex_init(&wire->lock, NULL);
    struct merge *merge = merge_new();
    struct inlet *inlet = inlet_new(&port, merge);
    wire->cut = true;
    const uint64_t since_ns = clock_ns();
    inlet_finish(inlet);
    assert_true(clock_ns() - since_ns >= 900 * ms && clock_ns() - since_ns < 10 * second);
    assert_non_null(strstr(batch_of(merge, clock_ns(), true), "gap"));
    inlet_free(inlet);
    merge_free(merge);
    free(wire);
}

/* ---- what `check` says ---- */

static void check_of(struct trace_check *check, int ranks)
{
    static const char header[] = "{\"ranks\": 4}";
    char path[] = "/tmp/zerolab-relay-XXXXXX";
    struct trace_file *file;
    struct error err;
    struct trace_record record = {
        .kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = 1, .run.json = {header, sizeof header - 1}};
    close(mkstemp(path));
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    trace_file_put(file, &record, &err);
    for (int rank = 0; rank < ranks; rank++) {
        record = (struct trace_record){
            .kind = TRACE_STEP_BEGIN, .rank = (uint16_t)(3 - rank), .time_ns = 2, .step_begin = {1, 0, 0}};
        trace_file_put(file, &record, &err);
        record = (struct trace_record){
            .kind = TRACE_STEP_END, .rank = (uint16_t)(3 - rank), .time_ns = 3, .step_end = {.step = 1}};
        trace_file_put(file, &record, &err);
    }
    record = (struct trace_record){.kind = TRACE_END, .rank = TRACE_RANK_ALL, .time_ns = 4};
    trace_file_put(file, &record, &err);
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_int_equal(trace_check(check, path, &err), 0);
    unlink(path);
}

static void a_trace_without_some_ranks_is_not_whole(void **state)
{
    (void)state;
    struct trace_check check;
    check_of(&check, 4);
    assert_int_equal(trace_check_status(&check), STATUS_OK);
    assert_int_equal(check.ranks_missing, 0);
    assert_true(check.usable[TRACE_USE_LEARNING] && check.usable[TRACE_USE_REPLAY]);
    check_of(&check, 2);
    assert_int_equal(trace_check_status(&check), STATUS_CHECK);
    assert_int_equal(check.ranks_missing, 2);
    assert_int_equal(check.ranks_told, 4);
    assert_int_equal(check.first_missing, 0);
    assert_true(!check.usable[TRACE_USE_LEARNING] && check.usable[TRACE_USE_REPLAY]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_round_trip_bounds_the_offset),
        cmocka_unit_test(unequal_ways_are_within_the_bound),
        cmocka_unit_test(drift_is_followed_and_time_never_runs_backwards),
        cmocka_unit_test(a_clock_that_was_set_is_measured_anew),
        cmocka_unit_test(records_wait_for_those_of_other_machines),
        cmocka_unit_test(every_record_of_another_machine_arrives_once),
        cmocka_unit_test(a_machine_that_is_gone_holds_up_nobody_long),
        cmocka_unit_test(a_trace_without_some_ranks_is_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
