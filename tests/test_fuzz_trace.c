/* Any bytes at all, given to every reader of traces: nothing may crash, read out of bounds or run without end. Checksums
 * hide most of a reader from blind mutations, so each input is tried a second time with its checksums made right.
 *
 * As a libFuzzer harness:
 *     clang -std=c17 -D_GNU_SOURCE -DLIBFUZZER -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/test_fuzz_trace.c
 *         engine/trace/[a-z]*.c engine/base/error.c -lzstd -lz -lpthread -o fuzz_trace
 * Without -DLIBFUZZER it is a program that runs a number of random mutations of a small trace (argument 1), always the same. */
#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/trace/check.h"
#include "engine/trace/chunk.h"
#include "engine/trace/dump.h"
#include "engine/trace/file.h"
#include "engine/trace/source.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static FILE *nowhere;

static void read_records(const uint8_t *bytes, size_t count)
{
    struct trace_record record;
    for (size_t at = 0, size; at < count && (size = trace_decode(bytes + at, count - at, &record)) > 0; at += size)
        trace_dump(nowhere, &record);
}

/* To the end; every byte of every record is looked at. */
static void read_source(struct source *source, size_t count)
{
    struct trace_record record;
    size_t records = 0;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        trace_dump(nowhere, &record);
        assert(++records <= count * (CHUNK_RATIO_MAX / TRACE_HEAD_BYTES));
    }
    assert((result == SOURCE_BAD) == (source_error(source)[0] != '\0'));
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
        if (source_seek_step(source, 2, &err) == 0) read_source(source, count);
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
    }
    trace_file_close(file, &err);
    bytes_reserve(&seed, 1 << 16);
    ssize_t count = pread(fd, seed.at, 1 << 16, 0);
    seed.count = count > 0 ? (size_t)count : 0;
    close(fd);
    unlink(path);
    return seed;
}

static void mutate(struct bytes *bytes)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, 8, 48};
    for (uint32_t changes = 1 + next_random() % 4; changes--;) {
        size_t at = next_random() % bytes->count;
        switch (next_random() % 4) {
        case 0: bytes->at[at] ^= (uint8_t)(1 << next_random() % 8); break;
        case 1: bytes->at[at] = extremes[next_random() % sizeof extremes]; break;
        case 2: bytes->at[at] = (uint8_t)next_random(); break;
        case 3:
            if (next_random() % 4 == 0) bytes->count = at + 1;
            break;
        }
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : getenv("SHORT") ? 300 : 1500;
    struct bytes seed = seed_trace();
    if (seed.count < 500) return puts("not ok 1 - no seed trace"), 1;
    for (int round = 0; round < rounds; round++) {
        struct bytes input = {0};
        bytes_append(&input, seed.at, seed.count);
        mutate(&input);
        LLVMFuzzerTestOneInput(input.at, input.count);
        bytes_release(&input);
    }
    printf("ok 1 - no reader minds %d mutations of a trace of %zu bytes\n", rounds, seed.count);
    bytes_release(&seed);
    return fclose(nowhere);
}
#endif
