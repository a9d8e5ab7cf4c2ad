/* Pickles read as plain data: every opcode that makes data, every opcode that would run code, damaged files; and a snapshot of
 * PyTorch's memory, whose beginning is found from its end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/import/snapshot.h"
#include "tests/support/pickle_writer.h"

static int read_bytes(struct pickle **pickle, const void *bytes, size_t count, struct error *err)
{
    char path[64];
    int fd = memfd_create("pickle", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int status = pickle_read(pickle, path, err);
    close(fd);
    return status;
}

/* Writes a value as Python's repr() does, nearly. */
static void show(FILE *out, const struct pickle_value *value)
{
    static const char brackets[][2] = {"[]", "()", "{}"};
    char text[100];
    switch (value->kind) {
    case PICKLE_NONE: fprintf(out, "None"); break;
    case PICKLE_BOOL: fprintf(out, value->integer ? "True" : "False"); break;
    case PICKLE_INT: fprintf(out, "%lld", (long long)value->integer); break;
    case PICKLE_LARGE: fprintf(out, "large:%zu", value->text.bytes); break;
    case PICKLE_DOUBLE: fprintf(out, "%.17g", value->number); break;
    case PICKLE_TEXT: foreign_copy(value->text, false, text, sizeof text), fprintf(out, "'%s'", text); break;
    case PICKLE_BYTES: fprintf(out, "b'%.*s'", (int)value->text.bytes, value->text.at); break;
    default:
        fputc(brackets[value->kind - PICKLE_LIST][0], out);
        for (size_t i = 0; i < value->count; i++) {
            if (i) fprintf(out, value->kind == PICKLE_DICT && i % 2 ? ": " : ", ");
            show(out, value->items[i]);
        }
        fputc(brackets[value->kind - PICKLE_LIST][1], out);
    }
}

static void assert_shows(const void *bytes, size_t count, const char *expected)
{
    struct pickle *pickle;
    struct error err;
    char *text = NULL;
    size_t length;
    if (read_bytes(&pickle, bytes, count, &err)) fail_msg("%s: %s", expected, err.text);
    FILE *out = open_memstream(&text, &length);
    show(out, pickle->root);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    pickle_free(pickle);
}

static void assert_refused(const void *bytes, size_t count, const char *expected)
{
    struct pickle *pickle;
    struct error err;
    assert_int_equal(read_bytes(&pickle, bytes, count, &err), STATUS_INPUT);
    assert_null(pickle);
    const char *line = strstr(err.text, ": ");
    assert_non_null(line);
    assert_string_equal(line + 2, expected);
}

#define BYTES(text) text, sizeof text - 1

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *shown;
    } pickles[] = {
        {BYTES("N."), "None"},
        {BYTES("\x80\x05\x88\x89\x86."), "(True, False)"},
        {BYTES("(I01\nI00\nI-7\nL12345678901L\nL99999999999999999999L\nt."),
         "(True, False, -7, 12345678901, large:20)"},
        {BYTES("(J\xff\xff\xff\xffK\xffM\xff\xfft."), "(-1, 255, 65535)"},
        {BYTES("(\x8a\0\x8a\1\xff\x8a\2\0\x80\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f\x8b\3\0\0\0\1\0\0t."),
         "(0, -1, -32768, 9223372036854775807, 1)"},
        {BYTES("(\x8a\11\0\0\0\0\0\0\0\x80\xff\x8a\11\0\0\0\0\0\0\0\x80\0\x8a\11\1\0\0\0\0\0\0\0\0t."),
         "(-9223372036854775808, large:9, 1)"},
        {BYTES("(F-2.5\nG\x3f\xf8\0\0\0\0\0\0t."), "(-2.5, 1.5)"},
        {BYTES("(S'it\\'s \\x41\\n'\nV\\u00e9\\U0001f600\xe9\nS\"q\"\nt."),
         "('it's A\xef\xbf\xbd', '\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9', 'q')"},
        {BYTES("(T\2\0\0\0abU\1cX\1\0\0\0d\x8c\1e\x8d\1\0\0\0\0\0\0\0ft."), "('ab', 'c', 'd', 'e', 'f')"},
        {BYTES("(B\1\0\0\0aC\1b\x8e\1\0\0\0\0\0\0\0c\x96\1\0\0\0\0\0\0\0dt."), "(b'a', b'b', b'c', b'd')"},
        {BYTES("\x80\x04\x95\0\0\0\0\0\0\0\0](K\1K\2e]K\3aa."), "[1, 2, [3]]"},
        {BYTES("((lp0\nI1\na(dp1\nI2\nI3\nst."), "([1], {2: 3})"},
        {BYTES("}(\x8c\1aK\1\x8c\1b)u\x8c\1cK\2\x85s."), "{'a': 1, 'b': (), 'c': (2)}"},
        {BYTES("(K\1K\2d."), "{1: 2}"},
        {BYTES("(K\1K\2K\3K\4\x87l."), "[1, (2, 3, 4)]"},
        {BYTES("(]\x94K\1ah\0h\0\x8c\1x\x94h\1t."), "([1], [1], [1], 'x', 'x')"},
        {BYTES("(]q\7K\1ah\7j\7\0\0\0g7\nt."), "([1], [1], [1], [1])"},
        {BYTES("(K\1r\3\0\0\0]p5\ng5\nj\3\0\0\0t."), "(1, [], [], 1)"},
        {BYTES("K\1"
               "0K\2(K\3"
               "1K\4(0\x86."),
         "(2, 4)"},
        {BYTES("K\5"
               "2\x86."),
         "(5, 5)"},
        {BYTES("N.what follows is left out"), "None"},
    };
    for (size_t p = 0; p < sizeof pickles / sizeof *pickles; p++)
        assert_shows(pickles[p].bytes, pickles[p].count, pickles[p].shown);
}

static void test_refused(void **state)
{
    (void)state;
#define ONLY "; refused, because only plain data are read"
    static const struct {
        const char *bytes;
        size_t count;
        const char *line;
    } pickles[] = {
        {BYTES("cos\nsystem\n(S'true'\ntR."), "byte 0: GLOBAL asks for os.system" ONLY},
        {BYTES("\x80\4\x8c\5posix\x94\x8c\6system\x94\x93."), "byte 19: STACK_GLOBAL asks for posix.system" ONLY},
        {BYTES("K\1K\2\x93."), "byte 4: STACK_GLOBAL" ONLY},
        {BYTES("(S'true'\nios\nsystem\n."), "byte 9: INST asks for os.system" ONLY},
        {BYTES("cos\x1b[31m\nsystem\n."), "byte 0: GLOBAL asks for os\xef\xbf\xbd[31m.system" ONLY},
        {BYTES("K\1)R."), "byte 3: REDUCE" ONLY},
        {BYTES("K\1}b."), "byte 3: BUILD" ONLY},
        {BYTES("K\1)\x81."), "byte 3: NEWOBJ" ONLY},
        {BYTES("K\1)}\x92."), "byte 4: NEWOBJ_EX" ONLY},
        {BYTES("(K\1o."), "byte 3: OBJ" ONLY},
        {BYTES("\x82\1."), "byte 0: EXT1" ONLY},
        {BYTES("\x83\1\0."), "byte 0: EXT2" ONLY},
        {BYTES("\x84\1\0\0\0."), "byte 0: EXT4" ONLY},
        {BYTES("Pstorage 5\n."), "byte 0: PERSID asks for storage 5" ONLY},
        {BYTES("K\1Q."), "byte 2: BINPERSID" ONLY},
        {BYTES("\x8f."), "byte 0: EMPTY_SET" ONLY},
        {BYTES("\x97."), "byte 0: NEXT_BUFFER" ONLY},
        {BYTES("]q\0h\0a."), "byte 6: a value contains itself; refused"},
        {BYTES("}q\0K\1]q\1h\0as."), "byte 12: a value contains itself; refused"},
        {BYTES("\x80\6N."), "byte 0: a pickle's protocol above 5 is not known"},
        {BYTES("\xfaN."), "byte 0: no opcode of a pickle"},
        {BYTES(""), "byte 0: the pickle is cut off or damaged"},
        {BYTES("."), "byte 0: the pickle is cut off or damaged"},
        {BYTES("N"), "byte 1: the pickle is cut off or damaged"},
        {BYTES("X\xff\xff\xff\xff"
               "a."),
         "byte 0: the pickle is cut off or damaged"},
        {BYTES("h\0."), "byte 0: the pickle is cut off or damaged"},
        {BYTES("Nr\xff\xff\xff\x7f."), "byte 1: the pickle is cut off or damaged"},
        {BYTES("(K\1d."), "byte 3: the pickle is cut off or damaged"},
        {BYTES("K\1a."), "byte 2: the pickle is cut off or damaged"},
        {BYTES(")K\1a."), "byte 3: the pickle is cut off or damaged"},
        {BYTES("](K\1\x86."), "byte 4: the pickle is cut off or damaged"}, /* below a mark */
        {BYTES("I1x\n."), "byte 0: the pickle is cut off or damaged"},
        {BYTES("e."), "byte 0: the pickle is cut off or damaged"},
    };
    for (size_t p = 0; p < sizeof pickles / sizeof *pickles; p++)
        assert_refused(pickles[p].bytes, pickles[p].count, pickles[p].line);
    char deep[1000];
    memset(deep, ']', 500);
    memset(deep + 500, 'a', 499);
    deep[999] = '.';
    assert_refused(deep, 1000, "byte 999: its values nest deeper than 200; refused");
    memset(deep, ']', 200);
    memset(deep + 200, 'a', 199);
    deep[399] = '.';
    struct pickle *pickle;
    assert_int_equal(read_bytes(&pickle, deep, 400, NULL), STATUS_OK);
    pickle_free(pickle);
}

/* Each list has the one before twice: 150 of them are 2^150 paths. */
static void test_dag(void **state)
{
    (void)state;
    char bytes[1000] = "]";
    size_t count = 1;
    struct pickle *pickle;
    struct error err;
    for (int i = 0; i < 150; i++) count += (size_t)sprintf(bytes + count, "2%c", '\x86');
    bytes[count++] = '.';
    assert_int_equal(read_bytes(&pickle, bytes, count, &err), STATUS_OK);
    pickle_free(pickle);
    for (int i = 0; i < 60; i++) count += (size_t)sprintf(bytes + count - 1, "2%c.", '\x86') - 1;
    assert_refused(bytes, count, "byte 421: its values nest deeper than 200; refused");
}

/* ---- a snapshot ---- */

struct told {
    struct snapshot_device device;
    int devices, actions;
    struct snapshot_action all[128];
};

static int tell_device(void *user, const struct snapshot_device *device)
{
    struct told *told = user;
    if (!told->devices++) told->device = *device;
    return 0;
}

static int tell_action(void *user, int device, const struct snapshot_action *action)
{
    struct told *told = user;
    assert_in_range(device, 0, told->devices - 1);
    if (!device) told->all[told->actions] = *action;
    return ++told->actions == 128 ? STATUS_RUN : 0;
}

static struct pickle *snapshot_of(const struct written *written, struct told *told)
{
    struct pickle *pickle;
    struct error err;
    *told = (struct told){0};
    if (read_bytes(&pickle, written->at, written->count, &err)) fail_msg("%s", err.text);
    const struct snapshot_sink sink = {told, tell_device, tell_action};
    if (snapshot_read(pickle, &sink, &err)) fail_msg("%s", err.text);
    return pickle;
}

/* A block of 512 (300 requested) from before; 1000 more in a new segment; the first is freed. The file's ring starts after the
 * first allocation. */
static void put_snapshot(struct written *out, int64_t freed_bytes, int64_t last_address)
{
    put_head(out);
    put_key(out, "segments"), put_list(out);
    put_segment(out, 0x1000, 2048, 0), put_block(out, 512, 300, "inactive"),
        put_block(out, 1536, 1500, "active_pending_free");
    end_segment(out);
    put_segment(out, 0x9000, 4096, 0), put_block(out, 1024, 1000, "active_allocated"),
        put_block(out, 3072, 0, "inactive");
    end_segment(out);
    end_list(out);
    put_key(out, "device_traces"), put_list(out), put_list(out);
    put_action(out, "segment_alloc", 0x9000, 4096, 1000001, "malloc_here");
    put_action(out, "alloc", last_address, 1000, 1000002, "forward");
    put_action(out, "free_requested", 0x1000, freed_bytes, 1000003, NULL);
    put_action(out, "free_completed", 0x1000, freed_bytes, 1000004, NULL);
    put_action(out, "oom", 77, 1 << 20, 1000005, "forward");
    put_action(out, "annotate", 0x9000, 1000, 1000006, NULL);
    put_action(out, "alloc", 0x1000, 64, 1000007, NULL); /* an address again */
    put_action(out, "free_requested", 0x1000, 64, 1000008, NULL);
    put_action(out, "snapshot", 0, 0, 1000009, NULL);
    end_list(out), put_list(out), end_list(out), end_list(out);
    end_all(out);
}

static void test_snapshot(void **state)
{
    (void)state;
    struct written written = {.count = 0};
    struct told told;
    put_snapshot(&written, 300, 0x9000);
    struct pickle *pickle = snapshot_of(&written, &told);
    assert_true(told.devices == 2 && told.actions == 9 && told.device.actions == 9);
    assert_int_equal(told.device.allocated_begin_bytes, 300);
    assert_int_equal(told.device.allocated_end_bytes, 1000);
    assert_int_equal(told.device.reserved_begin_bytes, 2048);
    assert_int_equal(told.device.reserved_end_bytes, 6144);
    static const struct {
        enum snapshot_kind kind;
        int64_t allocated, reserved;
    } expected[] = {{SNAPSHOT_segment_alloc, 300, 6144},
                    {SNAPSHOT_alloc, 1300, 6144},
                    {SNAPSHOT_free_requested, 1000, 6144},
                    {SNAPSHOT_free_completed, 1000, 6144},
                    {SNAPSHOT_oom, 1000, 6144},
                    {SNAPSHOT_other, 1000, 6144},
                    {SNAPSHOT_alloc, 1064, 6144},
                    {SNAPSHOT_free_requested, 1000, 6144},
                    {SNAPSHOT_snapshot, 1000, 6144}};
    for (int a = 0; a < 9; a++) {
        assert_int_equal(told.all[a].kind, expected[a].kind);
        assert_int_equal(told.all[a].allocated_bytes, expected[a].allocated);
        assert_int_equal(told.all[a].reserved_bytes, expected[a].reserved);
        assert_true(told.all[a].has_time);
        assert_int_equal(told.all[a].time_ns, 1000001000 + 1000 * a);
        assert_int_equal(told.all[a].device_free_bytes, a == 4 ? 77 : SNAPSHOT_UNKNOWN);
    }
    assert_int_equal(told.all[1].address, 0x9000);
    assert_int_equal(told.all[1].size_bytes, 1000);
    assert_true(foreign_is(told.all[0].frame, "malloc_here") && foreign_is(told.all[1].frame, "forward") &&
                told.all[1].line == 12);
    assert_true(foreign_is(told.all[1].file, "train.py") && !told.all[2].frame.at &&
                foreign_is(told.all[5].word, "annotate"));
    pickle_free(pickle);
}

static void test_snapshot_unknown(void **state)
{
    (void)state;
    struct told told;
    struct written other = {.count = 0};
    put_snapshot(&other, 300, 0xa000); /* allocates a block that no segment has */
    pickle_free(snapshot_of(&other, &told));
    assert_int_equal(told.device.allocated_begin_bytes, SNAPSHOT_UNKNOWN);
    assert_int_equal(told.device.reserved_begin_bytes, 2048);
    assert_int_equal(told.device.allocated_end_bytes, 1000);
    assert_int_equal(told.all[1].allocated_bytes, SNAPSHOT_UNKNOWN);
    assert_int_equal(told.all[1].reserved_bytes, 6144);

    struct written short_trace = {.count = 0}; /* frees what is still allocated, and unmaps more than there is */
    put_head(&short_trace);
    put_key(&short_trace, "segments"), put_list(&short_trace), put_segment(&short_trace, 0, 64, 0);
    put_block(&short_trace, 64, 64, "active_allocated"), end_segment(&short_trace), end_list(&short_trace);
    put_key(&short_trace, "device_traces"), put_list(&short_trace), put_list(&short_trace);
    put_action(&short_trace, "free_requested", 256, 64, 1, NULL); /* what is unknown stays so */
    put_action(&short_trace, "segment_unmap", 256, 100, 1, NULL);
    put_action(&short_trace, "free_requested", 0, 64, 1, NULL), put_action(&short_trace, "segment_map", 0, 65, 2, NULL);
    end_list(&short_trace), end_list(&short_trace), end_all(&short_trace);
    pickle_free(snapshot_of(&short_trace, &told));
    assert_int_equal(told.device.allocated_begin_bytes, SNAPSHOT_UNKNOWN);
    assert_int_equal(told.device.reserved_begin_bytes, SNAPSHOT_UNKNOWN);
    assert_int_equal(told.device.reserved_end_bytes, 64);
}

static void test_no_snapshot(void **state)
{
    (void)state;
#define NO "no snapshot of PyTorch's memory: "
    static const struct {
        const char *bytes;
        size_t count;
        const char *line;
    } pickles[] = {
        {BYTES("N."), NO "it has no segments"},
        {BYTES("}."), NO "it has no segments"},
        {BYTES("}\x8c\10segmentsK\1s."), NO "it has no segments"},
        {BYTES("]}a."), NO "a segment lacks its total_size or its blocks"},
        {BYTES("]}\x8c\6deviceM\0\4sa."), NO "a segment's device is not from 0 to 1023"},
        {BYTES("]}\x8c\6deviceJ\xff\xff\xff\xffsa."), NO "a segment's device is not from 0 to 1023"},
        {BYTES("](}(\x8c\12total_sizeK\1\x8c\6blocks]}aue."), NO "a block has no size"},
        {BYTES("}(\x8c\10segments]\x8c\15device_traces]Nau."), NO "a trace is no list"},
        {BYTES("}(\x8c\10segments]\x8c\15device_traces]]}aau."), NO "an entry of a trace has no action"},
        {BYTES("}(\x8c\10segments]\x8c\15device_traces](](}\x8c\6action\x8c\5allocs222222222e2222222222222222222eu."),
         NO "it refers to the same entries many times"},
    };
    for (size_t p = 0; p < sizeof pickles / sizeof *pickles; p++) {
        struct pickle *pickle;
        struct error err;
        struct told told = {0};
        const struct snapshot_sink sink = {&told, tell_device, tell_action};
        if (read_bytes(&pickle, pickles[p].bytes, pickles[p].count, &err))
            fail_msg("%s: %s", pickles[p].line, err.text);
        int status = snapshot_read(pickle, &sink, &err);
        if (status != STATUS_INPUT || strcmp(err.text, pickles[p].line) != 0)
            fail_msg("%s, not %s", status ? err.text : "read", pickles[p].line);
        pickle_free(pickle);
    }
}

/* A snapshot that ends anywhere is refused with one line; only the whole is read. */
static void test_cut_everywhere(void **state)
{
    (void)state;
    struct written written = {.count = 0};
    put_snapshot(&written, 300, 0x9000);
    for (size_t count = 0; count < written.count; count++) {
        struct pickle *pickle;
        struct error err;
        assert_int_equal(read_bytes(&pickle, written.at, count, &err), STATUS_INPUT);
        assert_true(strstr(err.text, "cut off") && !strchr(err.text, '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dag),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_snapshot_unknown),
        cmocka_unit_test(test_no_snapshot),
        cmocka_unit_test(test_cut_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
