/* Any bytes at all, given to the readers of engine/import: Chrome traces plain and gzip, numbers and texts, pickles and the
 * snapshots in them; and whole imports of profiler's traces and of streams, to the trace that is written of them. Nothing may
 * crash, read out of bounds, run without end or allocate without bound, and a refusal is one line.
 *
 * Runs a number of mutations of each seed (argument 1), always the same; with FUZZ_SECONDS=N in the environment each goes on for
 * so long, FUZZ_SEED=N takes another sequence, and FUZZ_READER=NAME names the only one. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "engine/import/events.h"
#include "engine/import/import.h"
#include "engine/import/pickle.h"
#include "engine/observe/model.h"
#include "engine/trace/source.h"
#include "tests/support/effort.h"
#include "tests/support/kineto_text.h"
#include "tests/support/pickle_writer.h"

static uint64_t accepted, counter,
    sequence = 7; /* accepted: for the last line; a fuzzer whose inputs are all refused tests nothing */

static size_t below(size_t limit)
{
    return rng_u64(1, sequence, counter++) % limit;
}

static int file_of(const struct bytes *bytes, char path[64])
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, bytes->at, bytes->count) == (ssize_t)bytes->count);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_line(const char *line)
{
    assert(*line && !strchr(line, '\n') && strlen(line) < 512);
}

/* ---- traces ---- */

static void use_text(struct foreign_text text)
{
    char out[64];
    if (!text.at) return;
    for (int escaped = 0; escaped < 2; escaped++) {
        const size_t room = 1 + below(sizeof out), bytes = foreign_copy(text, escaped, out, room);
        assert(bytes < room && strlen(out) == bytes);
        for (size_t i = 0; i < bytes; i++) assert((unsigned char)out[i] >= ' ' && out[i] != 0x7f);
    }
}

static void read_events(struct bytes *bytes)
{
    static const char *const keys[] = {"n", "grid", "External id", "", "Input Dims"};
    char path[64];
    struct event_reader reader;
    struct event event;
    enum event_result result;
    int fd = file_of(bytes, path);
    event_reader_open(&reader, path);
    while ((result = event_reader_next(&reader, &event)) >= EVENT) {
        struct foreign_text text;
        int64_t integer;
        use_text(event.name), use_text(event.category), use_text(event.args), use_text(event.tid);
        for (size_t k = 0; k < sizeof keys / sizeof *keys && result == EVENT; k++) {
            if (event_arg(&event, keys[k], &text)) use_text(text);
            event_arg_int64(&event, keys[k], &integer);
        }
    }
    if (result == EVENT_BAD) check_line(reader.err.text);
    else accepted++;
    event_reader_close(&reader);
    close(fd);
}

static void pack(struct bytes *bytes)
{
    z_stream z = {.next_in = bytes->at, .avail_in = (uInt)bytes->count};
    struct bytes out = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        !bytes_reserve(&out, deflateBound(&z, bytes->count)))
        abort();
    z.next_out = out.at;
    z.avail_out = (uInt)out.room;
    assert(deflate(&z, Z_FINISH) == Z_STREAM_END);
    out.count = z.total_out;
    deflateEnd(&z);
    bytes_release(bytes);
    *bytes = out;
}

/* ---- pickles ---- */

static void read_pickle(struct bytes *bytes)
{
    char path[64];
    struct pickle pickle;
    struct error err;
    int fd = file_of(bytes, path);
    if (pickle_read(&pickle, path, &err)) check_line(err.text);
    else accepted++, pickle_release(&pickle);
    close(fd);
}

/* ---- whole imports ---- */

/* The trace is read again: its records are whole, in order of time, and the state of the run can be made of them. */
static void read_trace(const char *path)
{
    struct source *source;
    struct trace_record record;
    enum source_result result;
    struct run_model *model = run_model_new(&(struct run_model_options){0});
    uint64_t last_ns = 0;
    assert(model && source_open_file(&source, path, NULL) == STATUS_OK);
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        assert(record.time_ns >= last_ns);
        last_ns = record.time_ns;
        run_model_fold(model, &record);
    }
    assert(result == SOURCE_END && model->ended);
    source_close(source);
    run_model_free(model);
}

static void import_all(struct bytes *bytes)
{
    char path[64], out[64];
    const char *const paths[] = {path};
    struct import import;
    struct error err;
    int fd = file_of(bytes, path), trace;
    if (import_files(&import, paths, 1, &err)) check_line(err.text);
    else {
        cJSON *facts = import_facts(&import);
        assert(facts);
        cJSON_Delete(facts);
        import_release(&import);
        if (import_to_unnamed(paths, 1, out, &trace, &err)) check_line(err.text);
        else read_trace(out), close(trace), accepted++;
    }
    close(fd);
}

/* ---- seeds and mutations ---- */

static struct bytes read_file(const char *path)
{
    struct bytes all = {0};
    gzFile file = gzopen(path, "rb");
    int got = 1;
    while (file && got > 0 && bytes_reserve(&all, 1 << 16))
        if ((got = gzread(file, all.at + all.count, 1 << 16)) > 0) all.count += (size_t)got;
    if (!file || got) abort();
    gzclose(file);
    return all;
}

static struct bytes seed_gpu(void)
{
    struct bytes seed = {0};
    if (!bytes_append(&seed, kineto_gpu, sizeof kineto_gpu - 1)) abort();
    return seed;
}

/* Of a real job, each 40th event: they lie on lines between "  {" and "  },". */
static struct bytes seed_job(void)
{
    struct bytes all = read_file("tests/foreign/traces/fsdp2-2/rank0.json.gz"), seed = {0};
    bool made = bytes_append(&all, "", 1);
    char *event = strstr((char *)all.at, "\n  {");
    made = made && event && bytes_append(&seed, all.at, (size_t)(event - (char *)all.at));
    for (int i = 0; event; i++) {
        char *next = strstr(event + 1, "\n  {");
        if (next && i % 40 == 0) made = made && bytes_append(&seed, event, (size_t)(next - event));
        event = next;
    }
    if (!made || !bytes_append(&seed, "\n  {}]}", 7)) abort();
    bytes_release(&all);
    return seed;
}

static struct bytes seed_trace(void)
{
    static const char head
        [] = "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 0, \"pg\": [\"[0, 1]\"]},\n\"traceEvents\": [\n",
    event[] =
        "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"a\\u00e9\\ud83d\\ude00\\n\xc3\xa9\", \"pid\": 0, \"tid\": "
        "\"s 7\", "
        "\"id\": null, \"ts\": 1716000000000000.125, \"dur\": -1e-3, \"args\": {\"n\": \"12\", \"grid\": [1, {}, nan], "
        "\"External id\": 5.0, \"\": true, \"Input Dims\": [[768], []]}},\n",
    end[] = "{}], \"traceName\": \"t\"}\n";
    struct bytes seed = {0};
    bool made = bytes_append(&seed, head, sizeof head - 1);
    for (int i = 0; i < 4; i++) made = made && bytes_append(&seed, event, sizeof event - 1);
    if (!made || !bytes_append(&seed, end, sizeof end - 1)) abort();
    return seed;
}

static struct bytes seed_snapshot(void)
{
    struct written written = {.count = 0};
    struct bytes seed = {0};
    put_head(&written);
    put_key(&written, "segments"), put_list(&written), put_segment(&written, 4096, 1024, 0);
    put_block(&written, 512, 500, "active_allocated"), put_block(&written, 512, 0, "inactive");
    end_segment(&written), end_list(&written);
    put_key(&written, "device_traces"), put_list(&written), put_list(&written);
    put_action(&written, "segment_alloc", 4096, 1024, 1, "f"), put_action(&written, "alloc", 4096, 500, 2, "g");
    put_action(&written, "alloc", 4608, 100, 3, "f"), put_action(&written, "free_requested", 4608, 100, 4, NULL);
    put_action(&written, "oom", 5, 100, 5, NULL);
    end_list(&written), end_list(&written), end_all(&written);
    if (!bytes_append(&seed, written.at, written.count)) abort();
    return seed;
}

static struct bytes seed_opcodes(void)
{
    static const char all[] = "\x80\4\x95\0\0\0\0\0\0\0\0("
                              "N\x88J\1\0\0\0K\1M\1\0\x8a\1\1\x8b\2\0\0\0\1\1G\0\0\0\0\0\0\0\0T\1\0\0\0aU\1bX\1\0\0\0c"
                              "\x8c\1d\x8d\1\0\0\0\0\0\0\0eB\1\0\0\0fC\1g]q\0}r\1\0\0\0\x94h\0j\1\0\0\0("
                              "K\1K\2\x86\x85K\1K\1\x87t]Na](NNe}NNs}(NNut.";
    struct bytes seed = {0};
    if (!bytes_append(&seed, all, sizeof all - 1)) abort();
    return seed;
}

/* Of a real job, the header, a step and the last line. */
static struct bytes seed_stream(void)
{
    enum { BYTES = 8192 };
    struct bytes all = read_file("tests/foreign/streams/fsdp2-2/rank0.jsonl"), seed = {0};
    const uint8_t *from = memchr(all.at + BYTES, '\n', all.count - BYTES), *last = all.at + all.count - 1;
    while (from && last > from && last[-1] != '\n') last--;
    if (!from || !bytes_append(&seed, all.at, (size_t)(from + 1 - all.at)) ||
        !bytes_append(&seed, last, (size_t)(all.at + all.count - last)))
        abort();
    bytes_release(&all);
    return seed;
}

static void change(struct bytes *bytes)
{
    static const uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff};
    static const char signs[] = "0123456789-+.eE,:[]{}\"\\ \nu",
                      opcodes[] = "(.NJKMTUXBCG]})taesuqrhjcR\x80\x85\x86\x87\x88\x8a\x8c\x94";
    if (!bytes->count) return;
    const size_t at = below(bytes->count), to = below(bytes->count), most = bytes->count - (at > to ? at : to);
    size_t length = below(64);
    if (length > most) length = most;
    switch (below(8)) {
    case 0: bytes->at[at] ^= (uint8_t)(1 << below(8)); break;
    case 1: bytes->at[at] = extremes[below(sizeof extremes)]; break;
    case 2: bytes->at[at] = (uint8_t)below(256); break;
    case 3: bytes->at[at] = (uint8_t)signs[below(sizeof signs - 1)]; break;
    case 4: bytes->at[at] = (uint8_t)opcodes[below(sizeof opcodes - 1)]; break;
    case 5: memmove(bytes->at + to, bytes->at + at, length); break;
    case 6: /* a piece is inserted again */
        if (!bytes_reserve(bytes, length)) abort();
        memmove(bytes->at + at + length, bytes->at + at, bytes->count - at);
        bytes->count += length;
        break;
    case 7: /* bytes are gone, or all from here on */
        if (below(8))
            memmove(bytes->at + at, bytes->at + at + length, bytes->count - at - length), bytes->count -= length;
        else bytes->count = at;
    }
}

struct reader {
    const char *name;
    struct bytes seed;
    bool packs; /* before some of the mutations */
    void (*read)(struct bytes *bytes);
};

static int fuzz(const struct reader *reader, int number, int rounds, uint64_t nanoseconds)
{
    const uint64_t until_ns = clock_ns() + nanoseconds;
    int round = 0;
    accepted = 0;
    for (; round < rounds || (nanoseconds && clock_ns() < until_ns); round++) {
        struct bytes input = {0};
        if (!bytes_append(&input, reader->seed.at, reader->seed.count)) abort();
        const bool packs_first = reader->packs && below(2);
        if (packs_first) pack(&input);
        for (size_t changes = below(6); changes--;) change(&input);
        if (reader->packs && !packs_first) pack(&input);
        reader->read(&input);
        bytes_release(&input);
    }
    printf("%sok %d - %s: %d mutations of %zu bytes, %llu were read to the end\n", accepted ? "" : "not ", number,
           reader->name, round, reader->seed.count, (unsigned long long)accepted);
    fflush(stdout);
    return accepted ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : effort(1000, 1500, 20000);
    const char *seconds = getenv("FUZZ_SECONDS"), *only = getenv("FUZZ_READER"), *seed = getenv("FUZZ_SEED");
    if (seed) sequence = strtoull(seed, NULL, 10);
    struct reader readers[] = {
        {"trace", seed_trace(), false, read_events},      {"gzip", seed_trace(), true, read_events},
        {"snapshot", seed_snapshot(), false, import_all}, {"opcodes", seed_opcodes(), false, read_pickle},
        {"gpu", seed_gpu(), false, import_all},           {"job", seed_job(), false, import_all},
        {"stream", seed_stream(), false, import_all},
    };
    int failed = 0, number = 0;
    printf("1..%d\n", only ? 1 : (int)(sizeof readers / sizeof *readers));
    for (size_t r = 0; r < sizeof readers / sizeof *readers; r++) {
        if (!only || strcmp(only, readers[r].name) == 0)
            failed |= fuzz(&readers[r], ++number, rounds, (uint64_t)(seconds ? atoi(seconds) : 0) * 1000000000u);
        bytes_release(&readers[r].seed);
    }
    return failed;
}
