/* Chrome traces, read event by event: both forms, plain and gzip, exact times, texts of any bytes, files that end anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "engine/import/events.h"

/* A file without a name of these bytes. */
static int file_of(const void *bytes, size_t count, char path[64])
{
    int fd = memfd_create("trace", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static struct event_reader opened(const void *bytes, size_t count)
{
    char path[64];
    struct event_reader reader;
    int fd = file_of(bytes, count, path);
    event_reader_open(&reader, path);
    close(fd);
    return reader;
}

/* The only event of {"traceEvents": [TEXT]}, whose reader the caller closes. */
static struct event_reader only(struct event *event, const char *text)
{
    char file[8192];
    const int length = snprintf(file, sizeof file, "{\"traceEvents\": [%s]}", text);
    struct event_reader reader = opened(file, (size_t)length);
    if (event_reader_next(&reader, event) != EVENT) fail_msg("%s: %s", text, reader.err.text);
    return reader;
}

static void assert_text(struct foreign_text text, const char *expected)
{
    if (!foreign_is(text, expected)) fail_msg("\"%.*s\" is not \"%s\"", (int)text.bytes, text.at, expected);
}

static void test_members(void **state)
{
    (void)state;
    struct event event;
    struct event_reader reader = only(
        &event, "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"nccl\\n\", \"pid\": 0, \"tid\": \"stream 7\", "
                "\"ts\": 1700000000000000.123, \"dur\": 4, \"bp\": \"e\", \"args\": {\"a\": {\"b\": [1, {}, \"}\"]},"
                "\"n\": 1024, \"s\": \"12\", \"x\": null, \"f\": 1.5, \"inf\": inf, \"n\": 7}}");
    struct foreign_text text;
    int64_t number = 0;
    assert_int_equal(event.phase, 'X');
    assert_text(event.category, "kernel");
    assert_text(event.name, "nccl\\n");
    assert_text(event.pid, "0");
    assert_text(event.tid, "stream 7");
    assert_true(event.has_ts && event.ts_ns == 1700000000000000123 && event.dur_ns == 4000);
    assert_true(event_arg(&event, "a", &text));
    assert_text(text, "{\"b\": [1, {}, \"}\"]}");
    assert_true(event_arg_int64(&event, "n", &number) && number == 7); /* the last of equal keys */
    assert_true(event_arg_int64(&event, "s", &number) && number == 12);
    assert_false(event_arg(&event, "x", &text) || event_arg(&event, "b", &text) ||
                 event_arg_int64(&event, "f", &number));
    assert_int_equal(event_reader_next(&reader, &event), EVENT_END);
    assert_int_equal(event_reader_next(&reader, &event), EVENT_END);
    event_reader_close(&reader);
    reader = only(&event, "{\"ph\": \"long\", \"name\": null, \"tid\": 1e2, \"pid\": 1.5, \"args\": [1]}");
    assert_true(event.phase == 0 && !event.name.at && !event.args.at && !event.has_ts && event.dur_ns == 0);
    assert_text(event.tid, "1e2");
    assert_text(event.pid, "1.5");
    assert_false(event_arg(&event, "a", &text));
    event_reader_close(&reader);
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } times[] = {
        {"0", 0},
        {"-0", 0},
        {"-0.0004", 0},
        {"-0.0005", -1},
        {"1e3", 1000000},
        {"1E+3", 1000000},
        {"1.0000001", 1000},
        {"1.0005", 1001},
        {"1.0004999999999999999999999999", 1000},
        {"-12.345", -12345},
        {"12345e-3", 12345},
        {"0.000000000000000000001e24", 1000000},
        {"9223372036854775.807", INT64_MAX},
        {"-9223372036854775.807", -INT64_MAX},
        {"9007199254740993.001", 9007199254740993001},
        {"1e-999999999999999999999999", 0},
        {"0e999999999999999999999", 0},
        {"\"7.5\"", 7500},
        {"000012", 12000},
    };
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        char text[200];
        struct event event;
        snprintf(text, sizeof text, "{\"ts\": %s, \"dur\":%s}", times[t].text, times[t].text);
        struct event_reader reader = only(&event, text);
        if (!event.has_ts || event.ts_ns != times[t].ns || event.dur_ns != times[t].ns)
            fail_msg("%s is %lld ns", times[t].text, (long long)event.ts_ns);
        event_reader_close(&reader);
    }
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is;
        int64_t value;
    } rows[] = {{"7", true, 7}, {"-7.000", true, -7}, {"7.0004", false, 0}, {"1e3", true, 1000}, {"75e-1", false, 0},
                {"5e-1", false, 0}, {"9223372036854775.0", true, 9223372036854775}, {"9223372036854775.8", false, 0},
                {"9223372036854775807", true, INT64_MAX}, {"18446744073709551615.5", false, 0}, {"1.", false, 0}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        int64_t value = 0;
        const bool is = foreign_integer((struct foreign_text){rows[r].text, strlen(rows[r].text)}, &value);
        if (is != rows[r].is || (is && value != rows[r].value)) fail_msg("%s is %lld", rows[r].text, (long long)value);
    }
}

/* What comes of the whole text: the number of events, and the line of an error or "". */
static int read_all(const void *bytes, size_t count, char line[512])
{
    char path[64];
    struct event_reader reader;
    struct event event;
    enum event_result result;
    int events = 0, fd = file_of(bytes, count, path);
    *line = '\0';
    event_reader_open(&reader, path);
    while ((result = event_reader_next(&reader, &event)) >= EVENT) events += result == EVENT;
    assert_int_equal(event_reader_next(&reader, &event), result);
    if (result == EVENT_BAD) {
        assert_true(reader.err.status == STATUS_INPUT && *reader.err.text && !strchr(reader.err.text, '\n'));
        snprintf(line, 512, "%s", strstr(reader.err.text, ": ") + 2);
    }
    event_reader_close(&reader);
    close(fd);
    return events;
}

static void assert_wrong(const char *path, const char *line)
{
    struct event_reader reader;
    struct event event;
    event_reader_open(&reader, path);
    assert_int_equal(event_reader_next(&reader, &event), EVENT_BAD);
    assert_int_equal(reader.err.status, STATUS_INPUT);
    assert_string_equal(reader.err.text, line);
    event_reader_close(&reader);
}

static void test_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int events;
        const char *line;
    } files[] = {
        {"[]", 0, ""},
        {" \n[ {} , {\"a\":[]} ]", 2, ""},
        {"[{},{}", 2, ""}, /* chrome writes such files when it is stopped */
        {"[{},{},\n", 2, ""},
        {"[", 0, ""},
        {"[,{},]", 1, ""},
        {"[{},{\"ts\":", 1, "byte 10: the trace is cut off"},
        {"[{} {}]", 1, "byte 4: a comma is missing"},
        {"[1]", 0, "byte 1: an event is not an object"},
        {"\xef\xbb\xbf{\"traceEvents\":[{}]}", 1, ""},
        {"{\"a\":{\"traceEvents\":[{}]},\"traceEvents\":[{},{}],\"b\":1}", 2, ""},
        {"{\"traceEvents\":[{}],\"traceEvents\":[{}]}", 2, ""},
        {"{\"traceEvents\":[{}]", 1, "byte 19: the trace is cut off"},
        {"{\"traceEvents\":[{}", 1, "byte 18: the trace is cut off"},
        {"{\"traceEvents\":{}}", 0, "byte 15: traceEvents is not an array"},
        {"{\"a\":1}", 0, "byte 7: the trace has no traceEvents"},
        {"{}", 0, "byte 2: the trace has no traceEvents"},
        {"", 0, "byte 0: the file is empty"},
        {" \n ", 0, "byte 3: the file is empty"},
        {"hello", 0, "byte 0: no trace: it begins with neither { nor ["},
        {"[{},\n{\"ts\":1e99}]", 1, "byte 15: a time is out of range"},
        {"[{\"dur\":9223372036854775.808}]", 0, "byte 28: a time is out of range"},
        {"[{\"dur\":9223372036854775.8075}]", 0, "byte 29: a time is out of range"},
        {"[{\"ts\":\"soon\"}]", 0, "byte 13: a time is no number"},
        {"[{\"ts\":[1]}]", 0, "byte 10: a time is no number"},
        {"[{\"a\":tru}]", 0, "byte 9: a value is no JSON"},
        {"[{\"a\":1.}]", 0, "byte 8: a value is no JSON"},
        {"[{\"a\":[1}]}]", 0, "byte 8: closes a bracket of the other kind"},
        {"[{\"args\":{\"a\":1]}]", 0, "byte 15: closes a bracket of the other kind"},
        {"[{\"ts\":18446744073709551.6155}]", 0, "byte 29: a time is out of range"},
        {"[{\"a\":1-+2}]", 0, "byte 10: a value is no JSON"},
        {"[{\"a\":[1 2]}]", 1, ""}, /* what is inside is looked at when it is read */
        {"[{a:1}]", 0, "byte 2: a key has no quotes"},
        {"[{\"name\":\"{\"device\": 1}\"}]", 0,
         "byte 12: a comma is missing"}, /* Kineto forgets to escape: its issue 1459 */
        {"[{\"a\" 1}]", 0, "byte 6: a colon is missing after a key"},
    };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char line[512];
        const int events = read_all(files[f].text, strlen(files[f].text), line);
        if (events != files[f].events || strcmp(line, files[f].line) != 0)
            fail_msg("%s: %d events, \"%s\"", files[f].text, events, line);
    }
    char line[512], deep[1200] = "[{\"args\":";
    memset(deep + 9, '[', 1000);
    read_all(deep, 1009, line);
    assert_string_equal(line, "byte 265: nests deeper than 256 brackets");
    assert_wrong("/nowhere/trace.json", "/nowhere/trace.json: cannot be opened: No such file or directory");
    assert_wrong("/proc", "/proc: cannot be read: Is a directory");
}

static void test_top(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schemaVersion\": 1, \"distributedInfo\": {\"rank\": 3, \"pg\": [\"[0]\"]},\n\"deviceProperties\": [ ],"
        "\"schemaVersion\": 2, \"traceEvents\": [{}], \"traceName\": \"a\\\"b\", \"with_stack\": 0}";
    static const char *const members[][2] = {{"schemaVersion", "1"},
                                             {"distributedInfo", "{\"rank\": 3, \"pg\": [\"[0]\"]}"},
                                             {"deviceProperties", "[ ]"},
                                             {"schemaVersion", "2"},
                                             {NULL, NULL}, /* the event */
                                             {"traceName", "a\\\"b"},
                                             {"with_stack", "0"}};
    struct event event;
    struct event_reader reader = opened(text, sizeof text - 1);
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        assert_int_equal(event_reader_next(&reader, &event), members[m][0] ? EVENT_MEMBER : EVENT);
        if (!members[m][0]) continue;
        assert_text(event.name, members[m][0]);
        assert_text(event.args, members[m][1]);
    }
    assert_int_equal(event_reader_next(&reader, &event), EVENT_END);
    assert_int_equal(event_reader_bytes(&reader), sizeof text - 1);
    event_reader_close(&reader);
}

static void test_texts(void **state)
{
    (void)state;
#define FFFD "\xef\xbf\xbd"
    static const struct {
        const char *raw, *plain, *unescaped;
        size_t bytes;
    } texts[] = {
        {"a\\u00e9\\ud83d\\ude00z", "a\\u00e9\\ud83d\\ude00z", "a\xc3\xa9\xf0\x9f\x98\x80z", 0},
        {"\\\" \\\\ \\/", "\\\" \\\\ \\/", "\" \\ /", 0},
        {"\\n\\t\\u001b\\u009b", NULL, FFFD FFFD FFFD FFFD, 0},
        {"a\\u0000b", "a\\u0000b", "a\\u0000b", 0}, /* NUL would end the text */
        {"\\ud83d", "\\ud83d", "\\ud83d", 0},
        {"\\ude00\\ud83d", "\\ude00\\ud83d", "\\ude00\\ud83d", 0},
        {"\\ud83d\\u0041", "\\ud83d\\u0041", "\\ud83d\\u0041", 0},
        {"x\\u12g4", "x\\u12g4", "x\\u12g4", 0},
        {"\\u12", "\\u12", "\\u12", 0},
        {"x\\", "x\\", "x\\", 0},
        {"a\0b\x1b[31m\x7f", "a" FFFD "b" FFFD "[31m" FFFD, "a" FFFD "b" FFFD "[31m" FFFD, 9},
        {"\xff\xc3\xa9\xc3", FFFD "\xc3\xa9" FFFD, FFFD "\xc3\xa9" FFFD, 0},
        {"\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD, NULL, 0},
        {"\xe2\x82", FFFD FFFD, NULL, 0},
        {"\xc2\x9b", FFFD, FFFD, 0},
    };
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        char out[100], quoted[100] = "";
        const struct foreign_text text = {quoted + 1, texts[t].bytes ? texts[t].bytes : strlen(texts[t].raw)};
        memcpy(quoted + 1, texts[t].raw, text.bytes);
        quoted[0] = quoted[text.bytes + 1] = '"';
        for (int escaped = 0; escaped < 2; escaped++) {
            const char *expected = escaped ? texts[t].unescaped : texts[t].plain;
            if (!expected) continue;
            const size_t bytes = foreign_copy(text, escaped, out, sizeof out);
            assert_string_equal(out, expected);
            assert_int_equal(bytes, strlen(out));
        }
    }
    char out[6];
    assert_int_equal(foreign_copy((struct foreign_text){"abcd\xc3\xa9", 6}, false, out, sizeof out),
                     4); /* at a whole character */
    assert_string_equal(out, "abcd");
    assert_int_equal(foreign_copy((struct foreign_text){0}, true, out, sizeof out), 0);
    struct event event;
    struct event_reader reader = only(&event, "{\"name\": \"raw \x1b \xff \n\"}"); /* no JSON, and read all the same */
    assert_int_equal(event.name.bytes, 9);
    event_reader_close(&reader);
}

static char *repeated(const char *head, const char *part, int times, const char *end, size_t *count)
{
    const size_t a = strlen(head), b = strlen(part), c = strlen(end);
    char *text = malloc(a + b * (size_t)times + c);
    assert_non_null(text);
    memcpy(text, head, a);
    for (int i = 0; i < times; i++) memcpy(text + a + b * (size_t)i, part, b);
    memcpy(text + a + b * (size_t)times, end, c);
    *count = a + b * (size_t)times + c;
    return text;
}

/* Bytes from which uncompressing makes `count` bytes. */
static unsigned char *packed(const void *bytes, size_t count, size_t *packed_count)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)count};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    const size_t room = deflateBound(&z, count);
    unsigned char *out = malloc(room);
    z.next_out = out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *packed_count = z.total_out;
    deflateEnd(&z);
    return out;
}

static void test_large(void **state)
{
    (void)state;
    size_t count;
    char line[512];
    struct event event;
    char *text = repeated("[{},{\"name\":\"", "0123456789", 1 << 20, "\"},{\"ts\":5}]", &count); /* a name of 10 MiB */
    struct event_reader reader = opened(text, count);
    assert_int_equal(event_reader_next(&reader, &event), EVENT);
    assert_int_equal(event_reader_next(&reader, &event), EVENT);
    assert_int_equal(event.name.bytes, 10 << 20);
    assert_memory_equal(event.name.at + (10 << 20) - 10, "0123456789", 10);
    assert_int_equal(event_reader_next(&reader, &event), EVENT);
    assert_int_equal(event.ts_ns, 5000);
    event_reader_close(&reader);
    free(text);
    text = repeated("[{},{\"name\":\"", "0123456789abcdef", (64 << 20) / 16, "\"}]", &count);
    assert_int_equal(read_all(text, count, line), 1);
    assert_string_equal(line, "byte 3: an event or a member is larger than 64 MiB");
    free(text);
    text = repeated("{\"big\":\"", "0123456789abcdef", 1 << 17, "\",\"small\":1,\"traceEvents\":[{}]}", &count);
    reader = opened(text, count);
    assert_int_equal(event_reader_next(&reader, &event), EVENT_MEMBER);
    assert_int_equal(event.args.bytes, 2 << 20);
    assert_int_equal(event_reader_next(&reader, &event), EVENT_MEMBER);
    assert_text(event.args, "1");
    assert_int_equal(event_reader_next(&reader, &event), EVENT);
    event_reader_close(&reader);
    free(text);
    text = repeated("[", "{\"ts\": 1.25, \"name\": \"an event that some window's end cuts\"},\n", 100000, "]", &count);
    assert_int_equal(read_all(text, count, line), 100000);
    assert_string_equal(line, "");
    free(text);
}

static void test_gzip(void **state)
{
    (void)state;
    size_t count, one, two;
    char line[512];
    char *text = repeated("[", "{\"ts\": 1.25, \"name\": \"n\"},", 100000, "{}]", &count);
    unsigned char *first = packed(text, count / 2, &one), *second = packed(text + count / 2, count - count / 2, &two);
    unsigned char *both = malloc(one + two + 4);
    memcpy(both, first, one);
    memcpy(both + one, second, two);
    memcpy(both + one + two, "\0\0\0", 4);
    assert_int_equal(read_all(both, one + two, line), 100001);     /* two members, as of files that were joined */
    assert_int_equal(read_all(both, one + two + 4, line), 100001); /* and zeros, as of tapes */
    assert_string_equal(line, "");
    assert_in_range(read_all(both, one - 9, line), 49999, 50000); /* all that came before the cut */
    assert_non_null(strstr(line, ": the compressed data are cut off"));
    both[one - 8] ^= 0x55;                                                           /* of its checksum */
    assert_in_range(read_all(both, one + two, line), 50000 - (1 << 14) / 25, 50000); /* but for the last 16 KiB */
    assert_non_null(strstr(line, ": the compressed data are damaged"));
    free(first), free(second), free(both), free(text);
    first = packed("", 0, &one);
    assert_int_equal(read_all(first, one, line), 0);
    assert_string_equal(line, "byte 0: the file is empty");
    free(first);
}

static void test_cut_everywhere(void **state)
{
    (void)state;
    static const char bare[] = "[{\"ph\":\"X\",\"name\":\"a\\u00e9\\\"b\",\"ts\":-1.5e2,\"dur\":3},{\"args\":{\"k\":[1,"
                               "{\"n\":null}]},\"tid\":\"t\"}\n, "
                               "{\"cat\":\"c\",\"id\":7} ]";
    char object[300], line[512];
    snprintf(object, sizeof object, "{\"v\": 1, \"traceEvents\": %s, \"end\": true}", bare);
    for (int form = 0; form < 2; form++) {
        const char *text = form ? object : bare;
        int before = 0, braces = 0;
        bool quoted = false;
        for (size_t length = 0; length <= strlen(text); length++) {
            const int events = read_all(text, length, line);
            if (events < before || events > before + 1) fail_msg("%d events of %.*s", events, (int)length, text);
            const char last = length ? text[length - 1] : 0;
            if (last == '"' && text[length - 2] != '\\') quoted = !quoted;
            if (!quoted) braces += (last == '{') - (last == '}');
            const bool ends =
                form ? length == strlen(text) : length && !braces; /* a bare array may end after each event */
            if (ends != !*line) fail_msg("\"%s\" of %.*s", line, (int)length, text);
            before = events;
        }
        assert_int_equal(before, 3);
        size_t count;
        unsigned char *bytes = packed(text, strlen(text), &count);
        for (size_t length = 0; length < count; length++) {
            const int events = read_all(bytes, length, line);
            assert_true(events <= 3 && *line);
        }
        free(bytes);
    }
}

/* A file that becomes shorter or longer while it is read. */
static void test_changing(void **state)
{
    (void)state;
    char path[64];
    size_t count;
    struct event event;
    struct event_reader reader;
    enum event_result result;
    char *text = repeated("[", "{\"name\":\"0123456789\"},", 200000, "{}]", &count);
    int fd = file_of(text, count, path), events = 0;
    event_reader_open(&reader, path);
    assert_int_equal(ftruncate(fd, 3000010), 0);
    while ((result = event_reader_next(&reader, &event)) == EVENT) events++;
    assert_int_equal(events, 3000009 / 22);
    assert_int_equal(result, EVENT_BAD);
    assert_non_null(strstr(reader.err.text, ": the trace is cut off"));
    event_reader_close(&reader);
    close(fd);
    fd = file_of(text, count - 3, path);
    event_reader_open(&reader, path);
    assert_int_equal(write(fd, "{},{}", 5), 5);
    for (events = 0; (result = event_reader_next(&reader, &event)) == EVENT;) events++;
    assert_int_equal(events, 200002);
    assert_int_equal(result, EVENT_END);
    event_reader_close(&reader);
    close(fd);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_times), cmocka_unit_test(test_integers),          cmocka_unit_test(test_forms),
        cmocka_unit_test(test_top),     cmocka_unit_test(test_texts),          cmocka_unit_test(test_large),
        cmocka_unit_test(test_gzip),    cmocka_unit_test(test_cut_everywhere), cmocka_unit_test(test_changing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
