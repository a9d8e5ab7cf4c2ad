#include "engine/import/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/bytes.h"
#include "engine/import/scan.h"

enum { PACKED_BYTES = 1 << 18 };
enum place { IN_OBJECT, IN_EVENTS, AFTER };

struct event_reader {
    int fd;
    bool packed, fed; /* gzip; all input was read */
    z_stream inflater;
    uint8_t *input;
    char *window; /* the unread text is [first, last) */
    size_t room, first, last;
    uint64_t dropped; /* uncompressed bytes before the window */
    enum place place;
    bool bare, has_events;
    bool begins;      /* an item may follow without a comma */
    struct bytes top; /* keys and values, each with its NUL */
    struct error err;
    struct error late; /* becomes err when what was read before it is taken */
    char path[400];
};

static bool fail(struct event_reader *reader, int status, size_t at, const char *what)
{
    const unsigned long long offset = reader->dropped + at;
    error_set(&reader->err, status, "%s: byte %llu: %s", reader->path, offset, what);
    return false;
}

/* ---- the window ---- */

/* Reads the file's own bytes; 0 at the end, -1 after an error. */
static ssize_t read_file(struct event_reader *reader, void *at, size_t room)
{
    ssize_t got;
    while ((got = read(reader->fd, at, room)) < 0 && errno == EINTR)
        ;
    if (got < 0) error_set(&reader->err, STATUS_INPUT, "%s: cannot be read: %s", reader->path, strerror(errno));
    return got;
}

/* Reads uncompressed bytes; 0 at the end. A gzip file may have several members; what follows them is no gzip and left out. */
static ssize_t read_packed(struct event_reader *reader, char *at, size_t room)
{
    z_stream *z = &reader->inflater;
    z->next_out = (Bytef *)at;
    z->avail_out = (uInt)room;
    while (z->avail_out == (uInt)room) {
        if (!z->avail_in) {
            const ssize_t got = read_file(reader, reader->input, PACKED_BYTES);
            if (got < 0) return -1;
            if (!got && !z->total_in) return 0; /* at the start of a member */
            if (!got) return fail(reader, STATUS_INPUT, reader->last, "the compressed data are cut off"), -1;
            z->next_in = reader->input;
            z->avail_in = (uInt)got;
        }
        if (!z->total_in && *z->next_in != 0x1f) return 0;
        const int result = inflate(z, Z_NO_FLUSH);
        if (result == Z_STREAM_END) inflateReset(z); /* total_in is 0 again */
        else if (z->avail_out < (uInt)room) break;   /* an error comes again */
        else if (result == Z_MEM_ERROR) return fail(reader, STATUS_RUN, reader->last, "no memory to uncompress it"), -1;
        else if (result != Z_OK && result != Z_BUF_ERROR)
            return fail(reader, STATUS_INPUT, reader->last, "the compressed data are damaged"), -1;
    }
    return (ssize_t)(room - z->avail_out);
}

/* Moves the unread text to the window's start, makes the window larger if it is full, and fills it. False: an error, or
 * (err.status is 0) nothing more to read. */
static bool fill(struct event_reader *reader)
{
    if (reader->fed) return reader->err = reader->late, false;
    const size_t kept = reader->last - reader->first;
    if (reader->first && kept) memmove(reader->window, reader->window + reader->first, kept);
    reader->dropped += reader->first;
    reader->first = 0;
    reader->last = kept;
    if (kept == reader->room) {
        if (kept >= EVENT_LARGEST_BYTES)
            return fail(reader, STATUS_INPUT, 0, "an event or a member is larger than 64 MiB");
        char *larger = realloc(reader->window, 2 * reader->room);
        if (!larger) return fail(reader, STATUS_RUN, 0, "no memory for a large event");
        reader->window = larger;
        reader->room *= 2;
    }
    while (reader->last < reader->room && !reader->fed) {
        char *at = reader->window + reader->last;
        const ssize_t got = reader->packed ? read_packed(reader, at, reader->room - reader->last)
                                           : read_file(reader, at, reader->room - reader->last);
        reader->fed = got <= 0;
        if (got > 0) reader->last += (size_t)got;
        if (got < 0) reader->late = reader->err, reader->err.status = STATUS_OK;
    }
    return reader->last > kept || (reader->err = reader->late, false);
}

static struct scan scan_of(const struct event_reader *reader)
{
    return (struct scan){reader->window + reader->first, reader->window + reader->last, NULL};
}

/* The bytes up to scan->at are taken. */
static void take(struct event_reader *reader, const struct scan *scan)
{
    reader->first = (size_t)(scan->at - reader->window);
}

/* After a scan that failed: true if there is more text, so that the caller tries again. */
static bool again(struct event_reader *reader, const struct scan *scan, const char *kind)
{
    char what[160];
    if (!scan->what && fill(reader)) return true;
    if (reader->err.status) return false;
    snprintf(what, sizeof what, "%s %s", kind, scan->what ? scan->what : "is cut off");
    return fail(reader, STATUS_INPUT, reader->first, what);
}

/* ---- an event ---- */

static void take_number(struct event_number *number, struct foreign_text text, bool is_string)
{
    number->text = text;
    number->known = !is_string && foreign_integer(text, &number->value);
}

static bool take_time(struct scan *scan, struct foreign_text text, int64_t *value, bool *has)
{
    const enum foreign_number result = foreign_scaled(text, 3, value);
    *has = result == FOREIGN_NUMBER;
    if (result == FOREIGN_NO_NUMBER) scan->what = "has a time that is no number";
    if (result == FOREIGN_OUT_OF_RANGE) scan->what = "has a time that is out of range";
    return *has;
}

static bool take_member(struct scan *scan, struct event *event, struct foreign_text key)
{
    struct foreign_text value;
    bool is_string;
    if (!scan_value(scan, &value, &is_string)) return false;
    if (!is_string && foreign_is(value, "null")) return true;
    switch (key.bytes) {
    case 2:
        if (foreign_is(key, "ts")) return take_time(scan, value, &event->ts_ns, &event->has_ts);
        if (foreign_is(key, "ph")) event->phase = is_string && value.bytes == 1 ? *value.at : 0;
        if (foreign_is(key, "id")) event->id = value;
        return true;
    case 3:
        if (foreign_is(key, "dur")) return take_time(scan, value, &event->dur_ns, &event->has_dur);
        if (foreign_is(key, "pid")) take_number(&event->pid, value, is_string);
        if (foreign_is(key, "tid")) take_number(&event->tid, value, is_string);
        if (foreign_is(key, "cat")) event->category = value;
        return true;
    case 4:
        if (foreign_is(key, "name")) event->name = value;
        if (foreign_is(key, "args") && !is_string && *value.at == '{') event->args = value;
    }
    return true;
}

static bool take_event(struct scan *scan, struct event *event)
{
    struct foreign_text key;
    bool more;
    if (!scan_sign(scan, '{', "is not an object")) return false;
    for (bool begins = true;; begins = false) {
        if (!scan_key(scan, &key, begins, &more)) return false;
        if (!more) return true;
        if (!take_member(scan, event, key)) return false;
    }
}

/* ---- the top level ---- */

static bool keep_top(struct event_reader *reader, struct foreign_text key, struct foreign_text value, bool is_string)
{
    const size_t bytes = value.bytes + 2 * is_string;
    if (bytes > EVENT_TOP_BYTES || reader->top.count + key.bytes + bytes + 2 > EVENT_TOP_ALL_BYTES ||
        memchr(key.at, 0, key.bytes) || memchr(value.at, 0, value.bytes))
        return true;
    if (bytes_append(&reader->top, key.at, key.bytes) && bytes_append(&reader->top, "", 1) &&
        bytes_append(&reader->top, value.at - is_string, bytes) && bytes_append(&reader->top, "", 1))
        return true;
    return fail(reader, STATUS_RUN, reader->first, "no memory for a member");
}

/* Takes members of the object until the events begin or the object ends. */
static bool read_members(struct event_reader *reader)
{
    while (reader->place == IN_OBJECT) {
        struct scan scan = scan_of(reader);
        struct foreign_text key, value;
        const char *kind = "the trace's object";
        bool more, is_string, is_events = false, taken = scan_key(&scan, &key, reader->begins, &more);
        if (taken && more) {
            is_events = foreign_is(key, "traceEvents");
            kind = is_events ? "the member traceEvents" : "a member of the trace's object";
            taken = is_events ? scan_sign(&scan, '[', "is not an array") : scan_value(&scan, &value, &is_string);
        }
        if (!taken) {
            if (again(reader, &scan, kind)) continue;
            return false;
        }
        if (more && !is_events && !keep_top(reader, key, value, is_string)) return false;
        reader->place = !more ? AFTER : is_events ? IN_EVENTS : IN_OBJECT;
        reader->has_events = reader->has_events || is_events;
        reader->begins = is_events;
        take(reader, &scan);
    }
    if (reader->place == IN_EVENTS || reader->has_events) return true;
    return fail(reader, STATUS_INPUT, reader->first, "the trace has no traceEvents");
}

/* Reads the first bytes, and tells what they are. */
static bool begin(struct event_reader *reader)
{
    const ssize_t got = read_file(reader, reader->window, 2); /* a pipe may give one byte: that is no gzip file then */
    if (got < 0) return false;
    reader->packed = got == 2 && (uint8_t)reader->window[0] == 0x1f && (uint8_t)reader->window[1] == 0x8b;
    reader->last = (size_t)got;
    if (reader->packed) {
        reader->input = malloc(PACKED_BYTES);
        if (!reader->input || inflateInit2(&reader->inflater, 15 + 16) != Z_OK)
            return fail(reader, STATUS_RUN, 0, "no memory to uncompress it");
        memcpy(reader->input, reader->window, 2);
        reader->inflater.next_in = reader->input;
        reader->inflater.avail_in = 2;
        reader->last = 0;
    }
    while (fill(reader) && reader->last < 4)
        ;
    struct scan scan = scan_of(reader);
    if (reader->last >= 3 && memcmp(reader->window, "\xef\xbb\xbf", 3) == 0) scan.at += 3; /* a byte order mark */
    while (!reader->err.status && !scan_blank(&scan)) {
        take(reader, &scan);
        if (!fill(reader)) break;
        scan = scan_of(reader);
    }
    if (reader->err.status) return false;
    if (scan.at == scan.end) return fail(reader, STATUS_INPUT, reader->last, "the file is empty");
    reader->bare = *scan.at == '[';
    if (!reader->bare && *scan.at != '{')
        return fail(reader, STATUS_INPUT, (size_t)(scan.at - reader->window),
                    "no trace: it begins with neither { nor [");
    scan.at++;
    take(reader, &scan);
    reader->place = reader->bare ? IN_EVENTS : IN_OBJECT;
    reader->begins = true;
    reader->has_events = reader->bare;
    return read_members(reader);
}

int event_reader_open(struct event_reader **out, const char *path, struct error *err)
{
    struct event_reader *reader = calloc(1, sizeof *reader);
    *out = NULL;
    if (!reader) return error_set(err, STATUS_RUN, "%.300s: no memory to read it", path);
    snprintf(reader->path, sizeof reader->path, "%.300s", path);
    reader->room = EVENT_WINDOW_BYTES;
    reader->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (reader->fd < 0)
        error_set(&reader->err, STATUS_INPUT, "%s: cannot be opened: %s", reader->path, strerror(errno));
    else if (!(reader->window = malloc(reader->room))) fail(reader, STATUS_RUN, 0, "no memory to read it");
    else {
        fcntl(reader->fd, F_SETFL, fcntl(reader->fd, F_GETFL) & ~O_NONBLOCK); /* only opening a pipe must not wait */
        if (begin(reader)) return *out = reader, STATUS_OK;
    }
    const int status = error_set(err, reader->err.status, "%s", reader->err.text);
    event_reader_close(reader);
    return status;
}

void event_reader_close(struct event_reader *reader)
{
    if (!reader) return;
    if (reader->input) inflateEnd(&reader->inflater);
    if (reader->fd >= 0) close(reader->fd);
    bytes_release(&reader->top);
    free(reader->input);
    free(reader->window);
    free(reader);
}

enum event_result event_reader_next(struct event_reader *reader, struct event *event)
{
    while (!reader->err.status && reader->place != AFTER) {
        struct scan scan = scan_of(reader);
        bool more;
        if (!scan_next(&scan, ']', reader->begins, &more)) {
            if (!scan.what && fill(reader)) continue;
            if (!scan.what && !reader->err.status && reader->bare) return EVENT_END;
            again(reader, &scan, "the array of events");
        } else if (!more) {
            reader->place = reader->bare ? AFTER : IN_OBJECT;
            reader->begins = false;
            take(reader, &scan);
            read_members(reader);
        } else {
            scan_blank(&scan);
            const char *first = scan.at;
            *event = (struct event){.at_bytes = reader->dropped + (uint64_t)(first - reader->window)};
            if (take_event(&scan, event)) {
                reader->begins = false;
                take(reader, &scan);
                return EVENT;
            }
            scan.at = first; /* an error names the event's first byte */
            take(reader, &scan);
            reader->begins = true; /* its comma is taken */
            if (!again(reader, &scan, "an event")) break;
        }
    }
    for (bool more = reader->packed; more && !reader->err.status; more = fill(reader)) /* up to the checksum */
        reader->first = reader->last;
    return reader->err.status ? EVENT_BAD : EVENT_END;
}

const char *event_reader_error(const struct event_reader *reader)
{
    return reader->err.text;
}

const char *event_reader_top(const struct event_reader *reader, const char *key)
{
    const char *found = NULL;
    for (size_t i = 0; i < reader->top.count;) {
        const char *name = (const char *)reader->top.at + i, *value = name + strlen(name) + 1;
        if (strcmp(name, key) == 0) found = value;
        i += strlen(name) + strlen(value) + 2;
    }
    return found;
}

uint64_t event_reader_bytes(const struct event_reader *reader)
{
    return reader->dropped + reader->first;
}

/* ---- arguments ---- */

bool event_arg(const struct event *event, const char *key, struct foreign_text *value)
{
    struct foreign_text name, found = {0};
    bool more, is_string, begins = true;
    if (!event->args.at) return false;
    struct scan scan = {event->args.at + 1, event->args.at + event->args.bytes, NULL};
    for (; scan_key(&scan, &name, begins, &more) && more; begins = false) {
        if (!scan_value(&scan, value, &is_string)) return false;
        if (foreign_is(name, key)) found = is_string || !foreign_is(*value, "null") ? *value : (struct foreign_text){0};
    }
    *value = found;
    return found.at;
}

bool event_arg_int64(const struct event *event, const char *key, int64_t *value)
{
    struct foreign_text text;
    return event_arg(event, key, &text) && foreign_integer(text, value);
}

bool event_arg_double(const struct event *event, const char *key, double *value)
{
    struct foreign_text text;
    return event_arg(event, key, &text) && foreign_double(text, value);
}
