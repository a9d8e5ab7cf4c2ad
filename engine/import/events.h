/* Reads the events of a Chrome trace, one at a time, as PyTorch's profiler (Kineto) and many others write it: "Trace Event
 * Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. The text may be plain or gzip,
 * an object with "traceEvents" or a bare array; the bracket at a bare array's end may be missing.
 *
 *     event_reader_open(&reader, path);
 *     while ((result = event_reader_next(&reader, &event)) >= EVENT) use(result, &event);
 *     if (result == EVENT_BAD) say(reader.err.text);
 *     event_reader_close(&reader);
 *
 * Memory: a window of 1 MiB, which grows for one large event or member up to 64 MiB. Of damaged gzip data the 16 KiB before the damage
 * are lost too. */
#pragma once

#include <zlib.h>

#include "engine/base/bytes.h"
#include "engine/base/error.h"
#include "engine/import/text.h"

enum { EVENT_WINDOW_BYTES = 1 << 20, EVENT_LARGEST_BYTES = 64 << 20 };

/* Texts of strings are the inside of the quotes, still escaped (foreign_copy()); args is an object's whole text. Missing and
 * null members are texts with `at` NULL. Unknown members are left out. */
struct event {
    char phase; /* 'X', 'B', 'E', 'i', 'M', 's', ...; 0: missing, or not one character */
    struct foreign_text name, category, args, pid, tid; /* tid: 7, or "stream 7" */
    int64_t ts_ns, dur_ns; /* from microseconds; see foreign_scaled() for digits below a nanosecond; may be negative */
    bool has_ts;
};

struct event_reader {
    gzFile file;
    struct bytes window;
    size_t first;     /* offset in the window at which its unread text begins */
    uint64_t dropped; /* uncompressed bytes before the window */
    enum { AT_BEGIN, IN_OBJECT, IN_EVENTS, AT_END } place;
    bool bare, has_events, fed; /* fed: all input was read */
    bool begins;                /* an item may follow without a comma */
    bool may_end;               /* a bare array, after an item or its comma */
    struct error err;
    char path[400];
};

/* EVENT_MEMBER: another member of the top-level object; `name` is its key, `args` its value (of a string the inside of its quotes). */
enum event_result { EVENT_END, EVENT_BAD, EVENT, EVENT_MEMBER };

/* Cannot fail: if the file cannot be opened, the first event_reader_next() returns EVENT_BAD. */
void event_reader_open(struct event_reader *reader, const char *path);
void event_reader_close(struct event_reader *reader);

/* The next event or member in the order of the file; its texts are valid until the next call. After EVENT_BAD nothing follows, and
 * `err` has one line: file, offset in the uncompressed text, what is wrong. STATUS_INPUT: the file cannot be read, is empty, is no such
 * JSON; STATUS_RUN: no memory. */
enum event_result event_reader_next(struct event_reader *reader, struct event *event);

/* Uncompressed bytes that were read so far. */
uint64_t event_reader_bytes(const struct event_reader *reader);

/* A member of args, with its text as in struct event; false: no such member, or null. Numbers are also read from strings ("7"). */
bool event_arg(const struct event *event, const char *key, struct foreign_text *value);
bool event_arg_int64(const struct event *event, const char *key, int64_t *value);
