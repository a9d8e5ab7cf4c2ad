/* Reads the events of a Chrome trace, one at a time, as PyTorch's profiler (Kineto) and many others write it: "Trace Event
 * Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. The text may be plain or gzip
 * (told by its first bytes), an object with "traceEvents" or a bare array; the bracket at a bare array's end may be missing.
 *
 *     if (event_reader_open(&reader, path, &err)) return err.status;
 *     while ((result = event_reader_next(reader, &event)) == EVENT) use(&event);
 *     if (result == EVENT_BAD) say(event_reader_error(reader));
 *     event_reader_close(reader);
 *
 * Memory: a window of 1 MiB, which grows for one large event or member up to 64 MiB; and the kept top-level members. */
#pragma once

#include "engine/base/error.h"
#include "engine/import/text.h"

enum { EVENT_WINDOW_BYTES = 1 << 20, EVENT_LARGEST_BYTES = 64 << 20 };
enum { EVENT_TOP_BYTES = 1 << 20, EVENT_TOP_ALL_BYTES = 8 << 20 };

/* A pid or tid: "tid": 7, or "tid": "stream 7". */
struct event_number { bool known; int64_t value; struct foreign_text text; };

/* Texts of strings are the inside of the quotes, still escaped (foreign_copy()); args is an object's whole text. Missing and
 * null members are texts with `at` NULL. Unknown members are left out. */
struct event {
    char phase; /* 'X', 'B', 'E', 'i', 'M', 's', ...; 0: missing, or not one character */
    struct foreign_text name, category, args, id;
    struct event_number pid, tid;
    int64_t ts_ns, dur_ns; /* from microseconds; see foreign_scaled() for digits below a nanosecond; may be negative */
    bool has_ts, has_dur;
    uint64_t at_bytes; /* where it begins in the uncompressed text */
};

enum event_result { EVENT, EVENT_END, EVENT_BAD };
struct event_reader;

/* Reads up to the first event. STATUS_INPUT: the file cannot be read, is empty or is no such JSON; STATUS_RUN: no memory. */
int event_reader_open(struct event_reader **out, const char *path, struct error *err);
void event_reader_close(struct event_reader *reader);

/* The next event in the order of the file; its texts are valid until the next call. After EVENT_BAD no event follows. */
enum event_result event_reader_next(struct event_reader *reader, struct event *event);

/* After EVENT_BAD, one line: file, offset in the uncompressed text, what is wrong. The reader owns it. */
const char *event_reader_error(const struct event_reader *reader);

/* Raw JSON of another member of the top-level object ("schemaVersion", "distributedInfo", ...), as far as the file was read;
 * NULL: none, or longer than EVENT_TOP_BYTES, or after EVENT_TOP_ALL_BYTES of them. The last of equal keys counts. */
const char *event_reader_top(const struct event_reader *reader, const char *key);

/* Uncompressed bytes that were read so far. */
uint64_t event_reader_bytes(const struct event_reader *reader);

/* A member of args, as the texts above; false: none, or null. Numbers are also read from strings ("7"). */
bool event_arg(const struct event *event, const char *key, struct foreign_text *value);
bool event_arg_int64(const struct event *event, const char *key, int64_t *value);
bool event_arg_double(const struct event *event, const char *key, double *value);
