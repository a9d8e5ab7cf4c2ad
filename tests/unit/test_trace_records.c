/* Records: every kind goes through unchanged, and each has its line in the dump and its row in the documents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "tests/support/trace_dump.h"
#include "tests/support/trace_fixture.h"

static const unsigned kinds[] = {
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) number,
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
#define FILL_time     FILL_u8
#define FILL_f32      FILL_u8
#define FILL_f64      FILL_u8
#define FILL_text(at) fill_text(&at, pattern)

static struct trace_record sample(unsigned kind, int pattern)
{
    struct trace_record record = {
        .kind = kind, .rank = pattern == 1 ? TRACE_RANK_ALL : 3, .time_ns = pattern == 1 ? UINT64_MAX : 77};
    switch (kind) {
#define F(type, field, help) FILL_##type(of->field);
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
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

/* To accept a change of the table: ACCEPT=1 build/release/tests/test_trace_records. */
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
    if (getenv("ACCEPT")) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_survives_encoding),
        cmocka_unit_test(a_record_with_too_few_bytes_for_its_fields_is_malformed),
        cmocka_unit_test(later_versions_are_skipped_over),
        cmocka_unit_test(a_dump_is_one_harmless_line),
        cmocka_unit_test(the_documentation_has_the_table_of_kinds),
    };
    return cmocka_run_group_tests_name("trace records", tests, NULL, NULL);
}
