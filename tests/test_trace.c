/* Records, rings, trace files and sources: every kind goes through unchanged, losses are counted, a file cut or damaged
 * anywhere yields exactly what is whole, and order holds over rings. The socket side is in test_trace_live.c. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/base/clock.h"
#include "engine/trace/check.h"
#include "engine/trace/chunk.h"
#include "engine/trace/dump.h"
#include "engine/trace/file.h"
#include "engine/trace/merge.h"
#include "engine/trace/source.h"
#include "engine/trace/writer.h"

static char folder[] = "/tmp/zerolab-test-trace.XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static struct bytes load(const char *path)
{
    struct bytes bytes = {0};
    char part[4096];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (size_t count; (count = fread(part, 1, sizeof part, file)) > 0;) bytes_append(&bytes, part, count);
    fclose(file);
    return bytes;
}

/* Never cuts a file to nothing: ext4 would write it through to the disk each time, and this is called thousands of times. */
static void save(const char *path, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, 0), count);
    assert_int_equal(ftruncate(fd, (off_t)count), 0);
    close(fd);
}

/* --- records -------------------------------------------------------------------------------------------------------- */

static const unsigned kinds[] = {
#define TRACE_KIND(number, ID, name, FIELDS, help) number,
#include "engine/trace/kinds.def"
#undef TRACE_KIND
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Extreme values by pattern: all zero, all ones, and bytes that are all different. */
enum { PATTERNS = 3 };

static void fill_number(void *out, size_t count, int pattern)
{
    static const unsigned char different[8] = {0x81, 0x02, 0x7f, 0xc0, 0x05, 0xfe, 0x40, 0x9d};
    memset(out, pattern == 1 ? 0xff : 0, count);
    if (pattern == 2) memcpy(out, different, count);
}

static void fill_text(struct trace_text *text, int pattern)
{
    static const char *const texts[PATTERNS] = {"", "one line", "bytes: \x1b[2J \n \xff"};
    *text = (struct trace_text){texts[pattern], strlen(texts[pattern])};
}

#define FILL_u8(at)   fill_number(&at, sizeof at, pattern)
#define FILL_u16      FILL_u8
#define FILL_u32      FILL_u8
#define FILL_u64      FILL_u8
#define FILL_i64      FILL_u8
#define FILL_f32      FILL_u8
#define FILL_f64      FILL_u8
#define FILL_text(at) fill_text(&at, pattern)

static struct trace_record sample(unsigned kind, int pattern)
{
    struct trace_record record = {
        .kind = kind, .rank = pattern == 1 ? TRACE_RANK_ALL : 3, .time_ns = pattern == 1 ? UINT64_MAX : 77};
    switch (kind) {
#define F(type, field, help) FILL_##type(of->field);
#define TRACE_KIND(number, ID, name, FIELDS, help)                                                                     \
    case number: {                                                                                                     \
        struct trace_of_##name *of = &record.name;                                                                     \
        FIELDS(F)                                                                                                      \
        break;                                                                                                         \
    }
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
    return record;
}

static bool same_text(struct trace_text a, struct trace_text b)
{
    return a.bytes == b.bytes && (!a.bytes || !memcmp(a.at, b.at, a.bytes));
}

#define SAME_u8(field)   !memcmp(&one->field, &two->field, sizeof one->field)
#define SAME_u16         SAME_u8
#define SAME_u32         SAME_u8
#define SAME_u64         SAME_u8
#define SAME_i64         SAME_u8
#define SAME_f32         SAME_u8
#define SAME_f64         SAME_u8
#define SAME_text(field) same_text(one->field, two->field)

static bool same(const struct trace_record *a, const struct trace_record *b)
{
    if (a->kind != b->kind || a->rank != b->rank || a->time_ns != b->time_ns) return false;
    switch ((unsigned)a->kind) {
#define F(type, field, help) &&SAME_##type(field)
#define TRACE_KIND(number, ID, name, FIELDS, help)                                                                     \
    case number: {                                                                                                     \
        const struct trace_of_##name *one = &a->name, *two = &b->name;                                                 \
        return true FIELDS(F);                                                                                         \
    }
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
    return true;
}

static void every_kind_survives_encoding(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            struct trace_record record = sample(kinds[i], pattern), decoded;
            size_t bytes = trace_encoded_bytes(&record);
            unsigned char *encoded = malloc(bytes); /* exact, so that a sanitizer sees any byte too many */
            assert_int_equal(trace_encode(&record, encoded), bytes);
            assert_int_equal(trace_peek(encoded).bytes, bytes);
            assert_int_equal(trace_decode(encoded, bytes, &decoded), bytes);
            assert_true(same(&record, &decoded));
            assert_non_null(trace_kind_name(record.kind));
            for (size_t cut = 0; cut < bytes; cut++) assert_int_equal(trace_decode(encoded, cut, &decoded), 0);
            free(encoded);
        }
}

static void a_record_with_too_few_bytes_for_its_fields_is_malformed(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++) {
        struct trace_record record = sample(kinds[i], 0), decoded; /* pattern 0: no text */
        uint8_t encoded[TRACE_FIXED_MAX];
        uint32_t bytes = (uint32_t)trace_encode(&record, encoded);
        for (uint32_t less = 0; less < bytes; less++) {
            memcpy(encoded, &less, sizeof less);
            assert_int_equal(trace_decode(encoded, sizeof encoded, &decoded), 0);
        }
    }
}

static void later_versions_are_skipped_over(void **state)
{
    (void)state;
    struct trace_record record = sample(TRACE_BUDGET, 2), decoded;
    uint8_t encoded[TRACE_FIXED_MAX] = {0};
    uint32_t longer = (uint32_t)trace_encode(&record, encoded) + 5;
    memcpy(encoded, &longer, sizeof longer);
    assert_int_equal(trace_decode(encoded, sizeof encoded, &decoded), longer);
    assert_true(same(&record, &decoded));
    uint16_t unknown = 9999;
    memcpy(encoded + 4, &unknown, sizeof unknown);
    assert_int_equal(trace_decode(encoded, sizeof encoded, &decoded), longer);
    assert_int_equal(decoded.kind, unknown);
    assert_null(trace_kind_name(decoded.kind));
}

/* What `print` writes, as a string; the caller frees. */
static char *printed(void (*print)(FILE *out, const void *what), const void *what)
{
    char *text;
    size_t count;
    FILE *out = open_memstream(&text, &count);
    print(out, what);
    fclose(out);
    return text;
}

static void print_record(FILE *out, const void *record)
{
    trace_dump(out, record);
}

static void print_document(FILE *out, const void *nothing)
{
    (void)nothing;
    trace_document(out);
}

static void a_dump_is_one_harmless_line(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            struct trace_record record = sample(kinds[i], pattern);
            char *line = printed(print_record, &record);
            assert_non_null(strstr(line, trace_kind_name(record.kind)));
            size_t count = strlen(line);
            for (size_t at = 0; at < count; at++) assert_true((line[at] >= ' ' && line[at] <= '~') || at == count - 1);
            assert_int_equal(line[count - 1], '\n');
            free(line);
        }
    struct trace_record log = {
        .kind = TRACE_LOG, .rank = 2, .time_ns = 1500000000, .log = {.level = 1, .text = {"a \"b\" \x1b\n", 8}}};
    char *line = printed(print_record, &log);
    assert_string_equal(line, "1.500000000 r2 log level=1 text=\"a \\\"b\\\" \\x1b\\n\"\n");
    free(line);
}

/* To accept a change of the table: build/release/tests/test_trace > /dev/null with UPDATE=1 in the environment. */
static void the_documentation_has_the_table_of_kinds(void **state)
{
    (void)state;
    static const char path[] = "docs/trace-records.md";
    static const char heading[] = "# Records of a trace\n\n"
                                  "Made from `engine/trace/kinds.def`; `engine/trace/format.h` draws the file around "
                                  "them. A record is its size (u32), its\n"
                                  "kind (u16), the rank (u16; 65535: the run as a whole), its time in ns (u64), then "
                                  "these fields, packed, little-endian.\n\n";
    char *table = printed(print_document, NULL);
    if (getenv("UPDATE")) {
        FILE *out = fopen(path, "w");
        fprintf(out, "%s%s", heading, table);
        fclose(out);
    }
    struct bytes page = load(path);
    bytes_append(&page, "", 1);
    assert_memory_equal(page.at, heading, strlen(heading));
    assert_string_equal((char *)page.at + strlen(heading), table);
    bytes_release(&page);
    free(table);
}

/* --- ring ----------------------------------------------------------------------------------------------------------- */

static struct trace_record op_end(uint16_t rank, uint32_t number, uint64_t time_ns)
{
    return (struct trace_record){
        .kind = TRACE_OP_END, .rank = rank, .time_ns = time_ns, .op_end = {.op = number, .step = 1, .waited_on = -1}};
}

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
        uint64_t start = clock_ns();
        for (uint32_t i = 0; i < RECORDS; i++) {
            struct trace_record record = op_end(0, i, i);
            trace_emit(ring, &record);
        }
        double each = (double)(clock_ns() - start) / RECORDS;
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

/* --- files ---------------------------------------------------------------------------------------------------------- */

/* A small trace of `steps` steps: run header, then per step a begin, operations and an end. Returns the records. */
static int write_small_trace(const char *path, uint32_t steps)
{
    struct trace_file *file;
    struct error err;
    int records = 0;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    struct trace_record run = {
        .kind = TRACE_RUN, .rank = TRACE_RANK_ALL, .time_ns = 1, .run.json = {"{\"ranks\": 1}", 12}};
    records += !trace_file_put(file, &run, &err);
    for (uint32_t step = 1; step <= steps; step++) {
        struct trace_record begin = {
            .kind = TRACE_STEP_BEGIN, .time_ns = step * 100, .step_begin = {.step = step, .schedule = 1}};
        struct trace_record end = {
            .kind = TRACE_STEP_END, .time_ns = step * 100 + 50, .step_end = {.step = step, .loss = 2.5f}};
        records += !trace_file_put(file, &begin, &err);
        for (uint32_t i = 0; i < 5; i++) {
            struct trace_record op = op_end(0, i, step * 100 + i);
            records += !trace_file_put(file, &op, &err);
        }
        records += !trace_file_put(file, &end, &err);
    }
    assert_int_equal(trace_file_close(file, &err), 0);
    return records;
}

/* Reads to the end; returns the records read, the last answer in *result. */
static int read_trace(const char *path, enum source_result *result, bool *torn)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    int records = 0;
    *torn = false;
    if (source_open_file(&source, path, &err)) {
        assert_int_equal(err.status, STATUS_INPUT);
        *result = SOURCE_BAD;
        return -1;
    }
    while ((*result = source_next(source, &record)) == SOURCE_RECORD) records++;
    *torn = source_torn(source);
    if (*result == SOURCE_BAD) assert_non_null(strstr(source_error(source), "damaged"));
    source_close(source);
    return records;
}

static void a_file_cut_anywhere_yields_its_whole_chunks(void **state)
{
    (void)state;
    const char *path = in_folder("cut");
    int all = write_small_trace(path, 4);
    struct bytes whole = load(path);
    assert_int_equal(all, 1 + 4 * 7);
    int before = -1;
    for (size_t cut = 0; cut <= whole.count; cut++) {
        enum source_result result;
        bool torn;
        save(path, whole.at, cut);
        int records = read_trace(path, &result, &torn);
        if (cut < STREAM_HEAD_BYTES) {
            assert_int_equal(records, -1);
            continue;
        }
        assert_int_equal(result, SOURCE_END);
        assert_true(records >= before &&
                    (records == 0 || records % 7 == 1)); /* a chunk: the run header, then seven for a step */
        if (cut == whole.count) assert_false(torn);
        before = records;
    }
    assert_int_equal(before, all);
    bytes_release(&whole);
    unlink(path);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    const char *path = in_folder("flip");
    int all = write_small_trace(path, 2);
    struct bytes whole = load(path);
    size_t index_at = 0; /* the index is not needed to read, so a flip in it may pass unseen */
    memcpy(&index_at, whole.at + whole.count - INDEX_LAST_BYTES, 8);
    for (size_t bit = 0; bit < index_at * 8; bit++) {
        if (bit / 8 >= 12 && bit / 8 < 16) continue; /* flags of the stream: nothing depends on them in a file */
        enum source_result result;
        bool torn;
        whole.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        save(path, whole.at, whole.count);
        whole.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        int records = read_trace(path, &result, &torn);
        assert_int_equal(result, SOURCE_BAD);
        assert_true(records < all);
    }
    bytes_release(&whole);
    unlink(path);
}

static void a_foreign_file_is_refused_in_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        size_t bytes;
        const char *says;
    } cases[] = {
        {"", 0, "empty"},
        {"GIF89a, certainly not a trace", 29, "not a zerolab trace"},
        {"zer", 3, "cut off"},
        {"zerolab\n\x07\0\0\0\0\0\0\0", 16, "version 7"},
    };
    const char *path = in_folder("foreign");
    struct source *source;
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        save(path, cases[i].content, cases[i].bytes);
        assert_int_equal(source_open_file(&source, path, &err), STATUS_INPUT);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_non_null(strstr(err.text, path));
        assert_null(strchr(err.text, '\n'));
    }
    unlink(path);
    assert_int_equal(source_open_file(&source, path, &err), STATUS_INPUT);
    assert_int_equal(source_open_file(&source, folder, &err), STATUS_INPUT);
    assert_null(source);
}

static void a_growing_file_is_followed(void **state)
{
    (void)state;
    const char *path = in_folder("growing");
    struct trace_file *file;
    struct source *source;
    struct trace_record record = op_end(2, 0, 0), got;
    struct error err;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    assert_int_equal(source_open_file(&source, path, &err), 0);
    assert_int_equal(source_fd(source), -1);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(source_next(source, &got), SOURCE_END);
        record.op_end.op = i;
        trace_file_put(file, &record, &err);
        trace_file_tick(file, clock_ns() + 1000000000, &err); /* as if a second had passed */
        assert_int_equal(source_next(source, &got), SOURCE_RECORD);
        assert_int_equal(got.op_end.op, i);
    }
    trace_file_close(file, &err);
    assert_int_equal(source_next(source, &got), SOURCE_END);
    assert_false(source_torn(source));
    source_close(source);
    unlink(path);
}

static void seek_to(const char *path, uint32_t step)
{
    struct source *source;
    struct trace_record record;
    struct error err;
    assert_int_equal(source_open_file(&source, path, &err), 0);
    for (int i = 0; i < 20; i++) source_next(source, &record);
    assert_int_equal(source_seek_step(source, step, &err), 0);
    assert_int_equal(source_next(source, &record), SOURCE_RECORD);
    assert_int_equal(record.kind, TRACE_RUN);
    assert_int_equal(source_next(source, &record), SOURCE_RECORD);
    assert_int_equal(record.kind, TRACE_STEP_BEGIN);
    assert_int_equal(record.step_begin.step, step ? step < 30 ? step : 30 : 1);
    source_close(source);
}

static void seeking_lands_on_a_step_with_and_without_an_index(void **state)
{
    (void)state;
    static const uint32_t steps[] = {0, 1, 2, 17, 30, 99};
    const char *path = in_folder("seek");
    write_small_trace(path, 30);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) seek_to(path, steps[i]);
    struct stat what;
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(truncate(path, what.st_size - 1), 0);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) seek_to(path, steps[i]);
    unlink(path);
}

static void a_chunk_that_compresses_well_is_compressed(void **state)
{
    (void)state;
    const char *path = in_folder("compressed");
    struct trace_file *file;
    struct error err;
    enum { RECORDS = 5000 };
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct trace_record record = op_end(0, i, 1000 + i);
        assert_int_equal(trace_file_put(file, &record, &err), 0);
    }
    assert_int_equal(trace_file_close(file, &err), 0);
    struct bytes whole = load(path);
    print_message("           %d records in %zu bytes\n", RECORDS, whole.count);
    assert_true(whole.count < (size_t)RECORDS * 84 / 2);
    enum source_result result;
    bool torn;
    assert_int_equal(read_trace(path, &result, &torn), RECORDS);
    bytes_release(&whole);
    unlink(path);
}

/* --- check ---------------------------------------------------------------------------------------------------------- */

static void put_for_check(struct trace_file *file, struct trace_record record)
{
    static uint64_t time_ns;
    struct error err;
    record.time_ns = record.time_ns ? record.time_ns : ++time_ns;
    assert_int_equal(trace_file_put(file, &record, &err), 0);
}

static void a_check_names_what_is_missing(void **state)
{
    (void)state;
    const char *path = in_folder("check");
    struct trace_file *file;
    struct trace_check check;
    struct error err;
    assert_int_equal(trace_file_create(&file, path, &err), 0);
    put_for_check(file, (struct trace_record){.kind = TRACE_RUN, .rank = TRACE_RANK_ALL});
    put_for_check(file, (struct trace_record){.kind = TRACE_SCHEDULE, .schedule = {.schedule = 4}});
    for (uint16_t rank = 0; rank < 2; rank++) {
        put_for_check(file, (struct trace_record){.kind = TRACE_STEP_BEGIN, .rank = rank, .step_begin = {.step = 1}});
        put_for_check(file, (struct trace_record){.kind = TRACE_OP_BEGIN, .rank = rank, .op_begin = {.schedule = 4}});
        put_for_check(file, (struct trace_record){.kind = TRACE_OP_END, .rank = rank, .op_end = {.schedule = 4}});
        put_for_check(file, (struct trace_record){.kind = TRACE_STEP_END, .rank = rank, .step_end = {.step = 1}});
    }
    put_for_check(
        file, (struct trace_record){.kind = TRACE_END, .rank = TRACE_RANK_ALL, .end = {.outcome = OUTCOME_FINISHED}});
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_int_equal(trace_check_status(&check), STATUS_OK);
    assert_int_equal(check.records, 11);
    assert_int_equal(check.by_kind[TRACE_OP_END], 2);
    assert_int_equal(check.ranks, 2);
    assert_int_equal(check.last_step, 1);
    assert_true(check.usable[TRACE_USE_TIMELINE] && check.usable[TRACE_USE_REPLAY] && check.usable[TRACE_USE_LEARNING]);
    assert_false(check.usable[TRACE_USE_MEMORY] || check.usable[TRACE_USE_TRAFFIC]);
    assert_int_equal(check.steps_unfinished + check.ops_open + check.ops_homeless + check.out_of_order, 0);

    assert_int_equal(trace_file_create(&file, path, &err), 0); /* all that can be wrong with a whole file */
    put_for_check(file, (struct trace_record){.kind = TRACE_OP_BEGIN, .rank = 5});
    put_for_check(file, (struct trace_record){.kind = TRACE_OP_END, .rank = 4, .time_ns = 1});
    put_for_check(file, (struct trace_record){.kind = TRACE_STEP_BEGIN, .rank = 1, .step_begin = {.step = 9}});
    put_for_check(file, (struct trace_record){.kind = TRACE_GAP, .gap = {.records = 12}});
    assert_int_equal(trace_file_close(file, &err), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_int_equal(trace_check_status(&check), STATUS_CHECK);
    assert_false(check.header_first || check.ended || check.torn || check.usable[TRACE_USE_TIMELINE] ||
                 check.usable[TRACE_USE_REPLAY]);
    assert_int_equal(check.ops_open, 1);
    assert_int_equal(check.ops_homeless, 1);
    assert_int_equal(check.out_of_order, 1);
    assert_int_equal(check.steps_unfinished, 1);
    assert_int_equal(check.lost, 12);

    struct stat what;
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(truncate(path, what.st_size - 1), 0);
    assert_int_equal(trace_check(&check, path, &err), 0);
    assert_true(check.torn);
    unlink(path);
    assert_int_equal(trace_check(&check, path, &err), STATUS_INPUT);
}

/* --- writer --------------------------------------------------------------------------------------------------------- */

enum { PRODUCERS = 12, EACH = 3000 };

struct producer {
    pthread_t thread;
    struct trace_ring *ring;
    uint16_t rank;
};

static void *produce(void *argument)
{
    struct producer *producer = argument;
    for (uint32_t i = 0; i < EACH; i++) {
        struct trace_record record = op_end(producer->rank, i, clock_ns());
        trace_emit(producer->ring, &record);
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
    emit_at(a, 0, 390);
    check_pass(merge, 500, true, (uint64_t[]){390, 0});
    check_pass(merge, 600, true, (uint64_t[]){0});
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
    uint64_t last_ns = 0, back = 0;
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
        free(producers[i].ring);
    }
    assert_true(back <=
                2); /* a producer that is put to sleep for 20 ms between taking the time and emitting comes late */
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
        cmocka_unit_test(every_kind_survives_encoding),
        cmocka_unit_test(a_record_with_too_few_bytes_for_its_fields_is_malformed),
        cmocka_unit_test(later_versions_are_skipped_over),
        cmocka_unit_test(a_dump_is_one_harmless_line),
        cmocka_unit_test(the_documentation_has_the_table_of_kinds),
        cmocka_unit_test(a_ring_wraps_at_any_offset),
        cmocka_unit_test(a_full_ring_counts_what_it_loses),
        cmocka_unit_test(draining_into_little_room_takes_whole_records),
        cmocka_unit_test(a_ring_without_room_loses_everything),
        cmocka_unit_test(a_producer_killed_in_the_middle_leaves_whole_records),
        cmocka_unit_test(emitting_takes_well_under_a_microsecond),
        cmocka_unit_test(a_file_cut_anywhere_yields_its_whole_chunks),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(a_foreign_file_is_refused_in_one_line),
        cmocka_unit_test(a_growing_file_is_followed),
        cmocka_unit_test(seeking_lands_on_a_step_with_and_without_an_index),
        cmocka_unit_test(a_chunk_that_compresses_well_is_compressed),
        cmocka_unit_test(a_check_names_what_is_missing),
        cmocka_unit_test(what_could_be_overtaken_is_held_back),
        cmocka_unit_test(order_holds_over_rings),
        cmocka_unit_test(what_a_ring_lost_becomes_a_gap),
        cmocka_unit_test(a_file_that_cannot_be_made_fails_at_once),
    };
    return cmocka_run_group_tests_name("trace", tests, make_folder, remove_folder);
}
