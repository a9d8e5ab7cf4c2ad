/* What the tests of traces share: a folder, whole files in and out, a record, and whether two are equal. */
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/bytes.h"
#include "engine/trace/record.h"

static char folder[] = "/tmp/zerolab-test-trace.XXXXXX";

static inline const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static inline struct bytes load(const char *path)
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
static inline void save(const char *path, const void *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, 0), count);
    assert_int_equal(ftruncate(fd, (off_t)count), 0);
    close(fd);
}

static inline struct trace_record op_end(uint16_t rank, uint32_t number, uint64_t time_ns)
{
    return (struct trace_record){
        .kind = TRACE_OP_END, .rank = rank, .time_ns = time_ns, .op_end = {.op = number, .step = 1, .waited_on = -1}};
}

static inline bool same_text(struct trace_text a, struct trace_text b)
{
    return a.bytes == b.bytes && (!a.bytes || !memcmp(a.at, b.at, a.bytes));
}

#define SAME_u8(field)   !memcmp(&one->field, &two->field, sizeof one->field)
#define SAME_u16         SAME_u8
#define SAME_u32         SAME_u8
#define SAME_u64         SAME_u8
#define SAME_i64         SAME_u8
#define SAME_time        SAME_u8
#define SAME_f32         SAME_u8
#define SAME_f64         SAME_u8
#define SAME_text(field) same_text(one->field, two->field)

static inline bool same(const struct trace_record *a, const struct trace_record *b)
{
    if (a->kind != b->kind || a->rank != b->rank || a->time_ns != b->time_ns) return false;
    switch ((unsigned)a->kind) {
#define F(type, field, help) &&SAME_##type(field)
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
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
