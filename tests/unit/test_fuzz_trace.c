/* Any bytes at all, given to every reader of traces, and what they make of them to the model, the history and its totals:
 * nothing may crash, read out of bounds, run without end or allocate without bound. Checksums hide most of a reader from
 * blind mutations, so each input is tried a second time with its checksums made right; and a run's records are mutated as
 * records too, with no chunks around them, because then most of them still make sense.
 *
 * As a libFuzzer harness:
 *     clang -std=c17 -D_GNU_SOURCE -DLIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/unit/test_fuzz_trace.c
 *         engine/{base,trace,observe}/[a-z]*.c build/release/libzerolab.a
 *         -lcjson -lzstd -lz -ldnnl -lgomp -lpthread -lm -o fuzz_trace
 * Without -DLIBFUZZER it is a program that runs a number of random mutations of two small traces (argument 1), always the
 * same; with FUZZ_SECONDS=N in the environment it goes on for so long. */
#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/observe/flows.h"
#include "engine/observe/totals.h"
#include "engine/trace/check.h"
#include "engine/trace/chunk.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"
#include "tests/support/trace_dump.h"
#ifndef LIBFUZZER
#include "tests/support/effort.h"
#include "tests/support/synthetic.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static FILE *nowhere;

/* ---- what records are folded into ---- */

enum { HISTORY_LIMIT = 256 << 10, ASK_EVERY = 61, ALLOCATED_MAX = 256 << 20 };

struct record_buffer {
    struct run_model *model;
    struct history *history;
    int records;
};

static struct record_buffer record_buffer_new(void)
{
    return (struct record_buffer){run_model_new(&(struct run_model_options){.steps = 16, .notices = 16}), history_new(HISTORY_LIMIT),
                         0};
}

static void ask_lane(const struct history *history, int rank, enum lane lane, uint64_t from_ns, uint64_t to_ns)
{
    struct history_load load;
    struct trace_of_io io;
    int64_t first, end;
    history_load(history, rank, lane, from_ns, to_ns, &load);
    history_spans(history, rank, lane, from_ns, to_ns, &first, &end);
    assert(first <= end);
    for (int64_t number = first; number < end; number++) {
        const struct span *span = history_span(history, rank, lane, number);
        assert(span && span->issued_ns <= span->started_ns && (!span->ended_ns || span->started_ns <= span->ended_ns));
        assert(span->started_ns < to_ns && (!span->ended_ns || span->ended_ns > from_ns));
        if (history_io(history, rank, lane, span, &io)) assert(io.step == span->step && io.op == span->op);
    }
    history_span_of(history, rank, lane, 2, 3);
}

static void ask_flow(const struct run_model *model, int rank, enum flow flow)
{
    const struct flow_figures last = flow_figures_of(model, rank, flow, false), run = flow_figures_of(model, rank, flow, true);
    assert(last.known || (last.bytes == 0 && !last.has_io && last.limited_by == FLOW_LIMIT_UNKNOWN));
    assert(run.known || run.bytes == 0);
}

static void ask(const struct record_buffer *past, uint64_t from_ns, uint64_t to_ns)
{
    struct totals totals;
    const int ranks = history_ranks(past->history, from_ns, to_ns) < 4 ? history_ranks(past->history, from_ns, to_ns) : 4;
    for (int rank = 0; rank <= ranks; rank++) {
        for (int lane = 0; lane < LANES; lane++) ask_lane(past->history, rank, (enum lane)lane, from_ns, to_ns);
        for (int tier = 0; tier < TIERS; tier++) {
            history_held(past->history, rank, (enum tier)tier, from_ns);
            history_fullest(past->history, rank, (enum tier)tier, from_ns, to_ns, NULL);
        }
        totals_of(&totals, past->history, past->model, rank, from_ns, to_ns, 0);
        assert(totals.temporal.overlapped_ns <= totals.temporal.communication_ns);
        assert(totals.temporal.compute_ns + totals.temporal.non_compute_ns + totals.temporal.idle_ns ==
               totals.temporal.window_ns);
    }
    for (int rank = -1; rank <= ranks; rank++)
        for (enum flow flow = 0; flow < FLOWS; flow++) ask_flow(past->model, rank, flow);
    history_step_at(past->history, from_ns);
    history_has_gap(past->history, -1, from_ns, to_ns);
}

static void ask_all(const struct record_buffer *past)
{
    uint64_t first = history_first_ns(past->history), last = history_last_ns(past->history), whole = history_whole_from(past->history);
    ask(past, first, last);
    ask(past, first + (last - first) / 3, first + (last - first) / 2);
    ask(past, whole, last);
    ask(past, 0, UINT64_MAX);
}

static void past_fold(struct record_buffer *past, const struct trace_record *record)
{
    run_model_fold(past->model, record);
    history_fold(past->history, past->model, record);
    if (++past->records % ASK_EVERY == 0) ask_all(past);
}

static void past_end(struct record_buffer *past)
{
    struct mallinfo2 info = mallinfo2(); /* all 0 under a sanitizer, which has bounds of its own */
    assert(info.uordblks + info.hblkhd < ALLOCATED_MAX);
    ask_all(past);
    run_model_free(past->model);
    history_free(past->history);
}

/* ---- readers ---- */

static void read_records(const uint8_t *bytes, size_t count)
{
    struct trace_record record;
    struct record_buffer past = record_buffer_new();
    for (size_t at = 0, size; at < count && (size = trace_decode(bytes + at, count - at, &record)) > 0; at += size) {
        trace_dump(nowhere, &record);
        past_fold(&past, &record);
    }
    past_end(&past);
}

/* To the end; every byte of every record is looked at. */
static void read_source(struct source *source, size_t count)
{
    struct trace_record record;
    struct record_buffer past = record_buffer_new();
    size_t records = 0;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        trace_dump(nowhere, &record);
        past_fold(&past, &record);
        assert(++records <= count * (CHUNK_RATIO_MAX / TRACE_HEAD_BYTES));
    }
    assert((result == SOURCE_BAD) == (source_error(source)[0] != '\0'));
    past_end(&past);
}

static void read_file(const uint8_t *bytes, size_t count)
{
    struct source *source;
    struct error err;
    struct trace_check check;
    char path[64];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, bytes, count) == (ssize_t)count && source_open_file(&source, path, &err) == 0) {
        read_source(source, count);
        if (source_resume_step(source, 2, &err) == 0) read_source(source, count);
        source_close(source);
        if (trace_check(&check, path, &err) == 0) trace_check_print(&check, nowhere);
    }
    close(fd);
}

static void read_socket(const uint8_t *bytes, size_t count)
{
    struct source *source;
    struct error err;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
    ssize_t sent = send(pair[0], bytes, count, MSG_DONTWAIT);
    close(pair[0]);
    if (source_adopt_fd(&source, pair[1], &err)) return;
    read_source(source, sent > 0 ? (size_t)sent : 0);
    source_close(source);
}

/* Makes the checksums of a chain of chunks right, as far as it can be followed. */
static void repair(uint8_t *bytes, size_t count)
{
    if (count >= STREAM_HEAD_BYTES) stream_head_write(0, bytes);
    for (size_t at = STREAM_HEAD_BYTES; at + CHUNK_HEAD_BYTES <= count;) {
        struct chunk_head head;
        chunk_head_read(&head, bytes + at);
        size_t left = count - at - CHUNK_HEAD_BYTES;
        if (head.stored_bytes > left) head.stored_bytes = (uint32_t)left;
        if (!(head.flags & CHUNK_ZSTD)) head.raw_bytes = head.stored_bytes;
        head.crc = chunk_crc(bytes + at + CHUNK_HEAD_BYTES, head.stored_bytes);
        chunk_head_write(&head, bytes + at);
        at += CHUNK_HEAD_BYTES + head.stored_bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    read_records(bytes, count);
    read_file(bytes, count);
    read_socket(bytes, count);
    struct bytes repaired = {0};
    if (count && bytes_append(&repaired, bytes, count)) {
        repair(repaired.at, count);
        read_file(repaired.at, count);
        read_socket(repaired.at, count);
    }
    bytes_release(&repaired);
    return 0;
}

#ifndef LIBFUZZER

static uint32_t next_random(void)
{
    static uint64_t state = 2024; /* always the same mutations */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Three steps with all sorts of records, plain chunks and a compressed one. */
static struct bytes seed_trace(void)
{
    char path[] = "/tmp/zerolab-fuzz.XXXXXX";
    int fd = mkstemp(path);
    struct trace_file *file;
    struct error err;
    struct bytes seed = {0};
    if (fd < 0 || trace_file_create(&file, path, &err)) return seed;
    trace_file_put(file, &(struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .run.json = {"{}", 2}},
                   &err);
    trace_file_put(
        file, &(struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {.schedule = 1, .json = {"[1, 2]", 6}}}, &err);
    for (uint32_t step = 1; step <= 3; step++) {
        trace_file_put(file, &(struct trace_record){.kind = TRACE_STEP_BEGIN, .step_begin = {.step = step}}, &err);
        for (uint32_t op = 0; op < (step == 2 ? 20 : 2); op++)
            trace_file_put(file, &(struct trace_record){.kind = TRACE_OP_END, .op_end = {.step = step, .op = op}},
                           &err);
        trace_file_put(file, &(struct trace_record){.kind = TRACE_STEP_END, .step_end = {.step = step}}, &err);
        if (step < 3) trace_file_tick(file, clock_ns() + 1000000000, &err); /* a chunk ends */
    }
    trace_file_close(file, &err);
    bytes_reserve(&seed, 1 << 16);
    ssize_t count = pread(fd, seed.at, 1 << 16, 0);
    seed.count = count > 0 ? (size_t)count : 0;
    close(fd);
    unlink(path);
    return seed;
}

/* Two ranks through all stages and out of memory, or other ranks on the way, as bare records. */
static void put_record(void *user, const struct trace_record *record)
{
    struct bytes *out = user;
    if (bytes_reserve(out, trace_encoded_bytes(record))) out->count += trace_encode(record, out->at + out->count);
}

static struct bytes seed_records(enum synthetic_place until)
{
    struct bytes seed = {0};
    struct synthetic run;
    synthetic_story(&run, 2, until, put_record, &seed);
    return seed;
}

/* One step that sends states to NVMe, with what was said of it before. */
static struct bytes seed_of_tiers(void)
{
    enum { STEP = 6 };
    struct bytes seed = {0};
    struct source *source;
    struct trace_record record;
    struct error err;
    uint32_t step = 0;
    if (source_open_file(&source, "tests/reference/tiers.zlt", &err)) return seed;
    while (step <= STEP && source_next(source, &record) == SOURCE_RECORD) {
        if (record.kind == TRACE_STEP_BEGIN) step = record.step_begin.step;
        if (step == STEP || record.kind < TRACE_STEP_BEGIN) put_record(&seed, &record);
    }
    source_close(source);
    return seed;
}

static void mutate(struct bytes *bytes)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, 8, 48};
    for (uint32_t changes = 1 + next_random() % 4; changes--;) {
        size_t at = next_random() % bytes->count;
        switch (next_random() % 5) {
        case 0: bytes->at[at] ^= (uint8_t)(1 << next_random() % 8); break;
        case 1: bytes->at[at] = extremes[next_random() % sizeof extremes]; break;
        case 2: bytes->at[at] = (uint8_t)next_random(); break;
        case 3:
            if (next_random() % 4 == 0) bytes->count = at + 1;
            break;
        case 4: /* a whole number: the least, the most, or about its middle */
            for (size_t i = at; i < at + 8 && i < bytes->count; i++) bytes->at[i] = extremes[next_random() % 5];
            break;
        }
    }
}

static void try_mutation(const struct bytes *seed, void (*reader)(const uint8_t *, size_t))
{
    struct bytes input = {0};
    bytes_append(&input, seed->at, seed->count);
    mutate(&input);
    reader(input.at, input.count);
    bytes_release(&input);
}

static void read_input(const uint8_t *bytes, size_t count)
{
    LLVMFuzzerTestOneInput(bytes, count);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : effort(300, 300, 1500), round = 0;
    const char *seconds = getenv("FUZZ_SECONDS");
    const uint64_t until_ns = clock_ns() + (uint64_t)(seconds ? atoi(seconds) : 0) * 1000000000u;
    struct bytes seed = seed_trace(), records = seed_records(STORY_ENDED), parts = seed_records(STORY_RETURNS),
                 tiers = seed_of_tiers();
    if (seed.count < 500 || records.count < 10000 || parts.count < 10000 || tiers.count < 10000)
        return puts("not ok 1 - no seed trace"), 1;
    nowhere = fopen("/dev/null", "w");
    for (; round < rounds || (seconds && clock_ns() < until_ns); round++) {
        try_mutation(&seed, read_input);
        if (round % 4 == 0) try_mutation(round % 8 ? &parts : &records, read_records);
        if (round % 4 == 2) try_mutation(&tiers, read_records);
    }
    printf("ok 1 - no reader minds %d mutations of a trace of %zu bytes and of %zu bytes of records\n", round,
           seed.count, records.count);
    bytes_release(&seed);
    bytes_release(&records);
    bytes_release(&parts);
    bytes_release(&tiers);
    return fclose(nowhere);
}
#endif
