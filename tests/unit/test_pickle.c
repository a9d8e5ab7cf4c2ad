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

#include "engine/import/job.h"
#include "engine/import/pickle.h"
#include "tests/support/pickle_writer.h"

static int read_bytes(struct pickle *pickle, const void *bytes, size_t count, struct error *err)
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

/* Writes a value as Python's repr() does, nearly: tuples are lists, and what nobody reads is a question mark. */
static void show(FILE *out, const struct pickle *pickle, const struct pickle_value *value)
{
    char text[100];
    const bool dict = value->kind == PICKLE_DICT;
    switch (value->kind) {
    case PICKLE_OTHER: fputc('?', out); return;
    case PICKLE_INT: fprintf(out, "%lld", (long long)value->integer); return;
    case PICKLE_TEXT: foreign_copy(value->text, false, text, sizeof text), fprintf(out, "'%s'", text); return;
    case PICKLE_LIST:
    case PICKLE_DICT: break;
    }
    fputc(dict ? '{' : '[', out);
    for (size_t i = 0; i < pickle_count(value); i++) {
        if (i) fprintf(out, dict && i % 2 ? ": " : ", ");
        show(out, pickle, pickle_member(pickle, value, i));
    }
    fputc(dict ? '}' : ']', out);
}

static void assert_shows(const void *bytes, size_t count, const char *expected)
{
    struct pickle pickle;
    struct error err;
    char *text = NULL;
    size_t length;
    if (read_bytes(&pickle, bytes, count, &err)) fail_msg("%s: %s", expected, err.text);
    FILE *out = open_memstream(&text, &length);
    show(out, &pickle, pickle.root);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    pickle_release(&pickle);
}

static void assert_refused(const void *bytes, size_t count, const char *expected)
{
    struct pickle pickle;
    struct error err;
    assert_int_equal(read_bytes(&pickle, bytes, count, &err), STATUS_INPUT);
    assert_null(pickle.values);
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
        {BYTES("N."), "?"},
        {BYTES("\x80\x05\x88\x89\x86."), "[?, ?]"},
        {BYTES("(J\xff\xff\xff\xffK\xffM\xff\xfft."), "[-1, 255, 65535]"},
        {BYTES("(\x8a\0\x8a\1\xff\x8a\2\0\x80\x8a\10\xff\xff\xff\xff\xff\xff\xff\x7f\x8b\3\0\0\0\1\0\0t."),
         "[0, -1, -32768, 9223372036854775807, 1]"},
        {BYTES("(\x8a\10\0\0\0\0\0\0\0\x80\x8a\11\0\0\0\0\0\0\0\x80\0t."), "[-9223372036854775808, ?]"},
        {BYTES("(G\x3f\xf8\0\0\0\0\0\0t."), "[?]"},
        {BYTES("(T\2\0\0\0abU\1cX\1\0\0\0d\x8c\1e\x8d\1\0\0\0\0\0\0\0ft."), "['ab', 'c', 'd', 'e', 'f']"},
        {BYTES("(B\1\0\0\0aC\1b\x8e\1\0\0\0\0\0\0\0c\x96\1\0\0\0\0\0\0\0dt."), "[?, ?, ?, ?]"},
        {BYTES("\x80\x04\x95\0\0\0\0\0\0\0\0](K\1K\2e]K\3aa."), "[1, 2, [3]]"},
        {BYTES("}(\x8c\1aK\1\x8c\1b)u\x8c\1cK\2\x85s."), "{'a': 1, 'b': [], 'c': [2]}"},
        {BYTES("(K\1K\2K\3K\4\x87t."), "[1, [2, 3, 4]]"},
        {BYTES("(]\x94K\1ah\0h\0\x8c\1x\x94h\1t."), "[[1], [1], [1], 'x', 'x']"},
        {BYTES("(]q\0K\1ah\0j\0\0\0\0t."), "[[1], [1], [1]]"},
        {BYTES("(K\1r\0\0\0\0]q\1h\1j\0\0\0\0t."), "[1, [], [], 1]"},
        {BYTES("N.what follows is left out"), "?"},
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
        {BYTES("cos\nsystem\n(U\4truetR."), "byte 0: it asks for os.system" ONLY},
        {BYTES("\x80\4\x8c\5posix\x94\x8c\6system\x94\x93."), "byte 19: it asks for posix.system" ONLY},
        {BYTES("K\1K\2\x93."), "byte 4: opcode 0x93" ONLY},
        {BYTES("cos\x1b[31m\nsystem\n."), "byte 0: it asks for os\xef\xbf\xbd[31m.system" ONLY},
        {BYTES("(U\4trueios\nsystem\n."), "byte 7: opcode 0x69" ONLY}, /* INST */
        {BYTES("K\1)R."), "byte 3: opcode 0x52" ONLY},                 /* REDUCE */
        {BYTES("K\1}b."), "byte 3: opcode 0x62" ONLY},                 /* BUILD */
        {BYTES("K\1)\x81."), "byte 3: opcode 0x81" ONLY},              /* NEWOBJ */
        {BYTES("K\1)}\x92."), "byte 4: opcode 0x92" ONLY},             /* NEWOBJ_EX */
        {BYTES("(K\1o."), "byte 3: opcode 0x6f" ONLY},                 /* OBJ */
        {BYTES("\x82\1."), "byte 0: opcode 0x82" ONLY},                /* EXT1 */
        {BYTES("\x83\1\0."), "byte 0: opcode 0x83" ONLY},              /* EXT2 */
        {BYTES("\x84\1\0\0\0."), "byte 0: opcode 0x84" ONLY},          /* EXT4 */
        {BYTES("Pstorage 5\n."), "byte 0: opcode 0x50" ONLY},          /* PERSID */
        {BYTES("K\1Q."), "byte 2: opcode 0x51" ONLY},                  /* BINPERSID */
        {BYTES("\x8f."), "byte 0: opcode 0x8f" ONLY},                  /* EMPTY_SET */
        {BYTES("\x97."), "byte 0: opcode 0x97" ONLY},                  /* NEXT_BUFFER */
        {BYTES("I1\n."), "byte 0: opcode 0x49" ONLY},                  /* INT: protocol 0 is not read */
        {BYTES("\xfaN."), "byte 0: opcode 0xfa" ONLY},                 /* none */
        {BYTES("\x80\6N."), "byte 0: a pickle's protocol above 5 is not known"},
        {BYTES(""), "byte 0: the pickle is cut off or damaged"},
        {BYTES("."), "byte 0: the pickle is cut off or damaged"},
        {BYTES("N"), "byte 1: the pickle is cut off or damaged"},
        {BYTES("X\xff\xff\xff\xff"
               "a."),
         "byte 0: the pickle is cut off or damaged"},
        {BYTES("h\0."), "byte 0: the pickle is cut off or damaged"},
        {BYTES("Nr\xff\xff\xff\x7f."), "byte 1: the pickle is cut off or damaged"},
        {BYTES("}(K\1u."), "byte 4: the pickle is cut off or damaged"},
        {BYTES("K\1a."), "byte 2: the pickle is cut off or damaged"},
        {BYTES("](K\1\x86."), "byte 4: the pickle is cut off or damaged"}, /* below a mark */
        {BYTES("e."), "byte 0: the pickle is cut off or damaged"},
    };
    for (size_t p = 0; p < sizeof pickles / sizeof *pickles; p++)
        assert_refused(pickles[p].bytes, pickles[p].count, pickles[p].line);
}

/* Values may contain themselves and nest as deeply as they like: nothing here follows them. */
static void test_knots(void **state)
{
    (void)state;
    struct pickle pickle;
    struct error err;
    char deep[1000];
    if (read_bytes(&pickle, BYTES("]q\0h\0a."), &err)) fail_msg("%s", err.text);
    assert_int_equal(pickle_count(pickle.root), 1);
    assert_ptr_equal(pickle_member(&pickle, pickle.root, 0), pickle.root);
    pickle_release(&pickle);
    memset(deep, ']', 500);
    memset(deep + 500, 'a', 499);
    deep[999] = '.';
    assert_int_equal(read_bytes(&pickle, deep, 1000, NULL), STATUS_OK);
    pickle_release(&pickle);
}

/* ---- a snapshot ---- */

/* The snapshot as a job of the GPUs that acted; the caller releases it. */
static int job_of(struct job *job, const void *bytes, size_t count, uint64_t *changes, struct error *err)
{
    char path[64];
    int fd = memfd_create("snapshot", MFD_CLOEXEC);
    *job = (struct job){.parameters = -1};
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int status = snapshot_to_job(job, path, 0, changes, err);
    close(fd);
    return status;
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
    static const struct {
        uint64_t allocated, reserved;
    } expected[] = {{300, 6144},  {1300, 6144}, {1000, 6144}, {1000, 6144}, {1000, 6144},
                    {1000, 6144}, {1064, 6144}, {1000, 6144}, {1000, 6144}};
    struct written written = {.count = 0};
    struct job job;
    struct error err;
    uint64_t changes;
    put_snapshot(&written, 300, 0x9000);
    if (job_of(&job, written.at, written.count, &changes, &err)) fail_msg("%s", err.text);
    assert_int_equal(changes, 9);
    assert_int_equal(job.rank_count, 1); /* the second device did nothing */
    assert_string_equal(job.ranks[0].lane[LANE_COMPUTE].name, "GPU 0");
    assert_int_equal(job.ranks[0].lane[JOB_MEMORY].count, 9);
    for (int a = 0; a < 9; a++) {
        const struct job_span *memory = &job.ranks[0].lane[JOB_MEMORY].at[a];
        assert_int_equal(memory->live_bytes, expected[a].allocated);
        assert_int_equal(memory->reserved_bytes, expected[a].reserved);
        assert_int_equal(memory->started_ns, 1000001000 + 1000 * a);
    }
    job_release(&job);
}

/* Where actions do not lead to the segments, the beginning is unknown, and so is all that follows. */
static void test_snapshot_unknown(void **state)
{
    (void)state;
    struct job job;
    struct error err;
    uint64_t changes;
    struct written other = {.count = 0};
    put_snapshot(&other, 300, 0xa000); /* allocates a block that no segment has */
    assert_int_equal(job_of(&job, other.at, other.count, &changes, &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "no change of memory whose bytes are known"));
    job_release(&job);
    struct written short_trace = {.count = 0}; /* frees what is still allocated, and unmaps more than there is */
    put_head(&short_trace);
    put_key(&short_trace, "segments"), put_list(&short_trace), put_segment(&short_trace, 0, 64, 0);
    put_block(&short_trace, 64, 64, "active_allocated"), end_segment(&short_trace), end_list(&short_trace);
    put_key(&short_trace, "device_traces"), put_list(&short_trace), put_list(&short_trace);
    put_action(&short_trace, "free_requested", 256, 64, 1, NULL); /* what is unknown stays so */
    put_action(&short_trace, "segment_unmap", 256, 100, 1, NULL);
    put_action(&short_trace, "free_requested", 0, 64, 1, NULL), put_action(&short_trace, "segment_map", 0, 65, 2, NULL);
    end_list(&short_trace), end_list(&short_trace), end_all(&short_trace);
    assert_int_equal(job_of(&job, short_trace.at, short_trace.count, &changes, &err), STATUS_INPUT);
    assert_non_null(strstr(err.text, "no change of memory whose bytes are known"));
    job_release(&job);
    struct written unmapped = {.count = 0}; /* reserved bytes alone are unknown */
    put_head(&unmapped);
    put_key(&unmapped, "segments"), put_list(&unmapped), put_segment(&unmapped, 0, 64, 0);
    put_block(&unmapped, 64, 60, "active_allocated"), end_segment(&unmapped), end_list(&unmapped);
    put_key(&unmapped, "device_traces"), put_list(&unmapped), put_list(&unmapped);
    put_action(&unmapped, "segment_map", 0, 65, 1, NULL), put_action(&unmapped, "alloc", 0, 60, 2, NULL);
    end_list(&unmapped), end_list(&unmapped), end_all(&unmapped);
    if (job_of(&job, unmapped.at, unmapped.count, &changes, &err)) fail_msg("%s", err.text);
    assert_int_equal(job.ranks[0].lane[JOB_MEMORY].at[1].live_bytes, 60);
    assert_int_equal(job.ranks[0].lane[JOB_MEMORY].at[1].reserved_bytes, 0);
    job_release(&job);
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
        {BYTES("}(\x8c\10segments]\x8c\15device_traces](](}\x8c\6action\x8c\5allocsq\0h\0h\0h\0h\0h\0h\0h\0h\0h\0e"
               "q\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1eu."),
         NO "it refers to the same entries many times"},
    };
    for (size_t p = 0; p < sizeof pickles / sizeof *pickles; p++) {
        struct job job;
        struct error err;
        uint64_t changes;
        const int status = job_of(&job, pickles[p].bytes, pickles[p].count, &changes, &err);
        if (status != STATUS_INPUT || strcmp(err.text, pickles[p].line) != 0)
            fail_msg("%s, not %s", status ? err.text : "read", pickles[p].line);
        job_release(&job);
    }
}

/* A snapshot that ends anywhere is refused with one line; only the whole is read. */
static void test_cut_everywhere(void **state)
{
    (void)state;
    struct written written = {.count = 0};
    put_snapshot(&written, 300, 0x9000);
    for (size_t count = 0; count < written.count; count++) {
        struct pickle pickle;
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
        cmocka_unit_test(test_knots),
        cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_snapshot_unknown),
        cmocka_unit_test(test_no_snapshot),
        cmocka_unit_test(test_cut_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
