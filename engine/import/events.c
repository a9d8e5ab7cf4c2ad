#include "engine/import/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 1 << 14
}; /* of a damaged piece zlib gives nothing; twice its own buffer, so that it does not copy */

/* ---- values ---- */

/* JSON values in memory, taken without copying or building a tree. A function returns false where a value is wrong (`what` says how)
 * or where the bytes end inside it (`what` is NULL); then the caller reads more and begins again at the value's start. More lenient than
 * JSON, as writers of traces need: the words nan, inf, infinity in any case, raw control characters in strings, a comma after an
 * opening or before a closing bracket. */
struct scan {
    const char *at, *end;
    const char *what; /* "a colon is missing after a key" */
};

static bool wrong(struct scan *scan, const char *what)
{
    scan->what = what;
    return false;
}

/* What a byte is: blank, the end of a number or a word, what ends or escapes in a string, a quote or a bracket. */
enum { BLANK = 1, STOP = 2, IN_STRING = 4, MARK = 8 };
static const uint8_t signs[256] = {
    [' '] = BLANK | STOP, ['\n'] = BLANK | STOP,    ['\t'] = BLANK | STOP, ['\r'] = BLANK | STOP,
    [','] = STOP,         [']'] = STOP | MARK,      ['}'] = STOP | MARK,   ['['] = MARK,
    ['{'] = MARK,         ['"'] = IN_STRING | MARK, ['\\'] = IN_STRING};

/* The next byte at or after `at` that is one of these; `end`: none. */
static inline const char *next_of(const char *at, const char *end, uint8_t these)
{
    while (at < end && !(signs[(uint8_t)*at] & these)) at++;
    return at;
}

/* Skips blanks; false at the end of the bytes. */
static bool scan_blank(struct scan *scan)
{
    while (scan->at < scan->end && signs[(uint8_t)*scan->at] & BLANK) scan->at++;
    return scan->at < scan->end;
}

/* The first byte that is not blank must be `c`; takes it. */
static bool scan_sign(struct scan *scan, char c, const char *what)
{
    if (!scan_blank(scan)) return false;
    if (*scan->at != c) return wrong(scan, what);
    scan->at++;
    return true;
}

/* Takes the rest of a string after its first quote. */
static bool take_string(struct scan *scan, struct foreign_text *inside)
{
    const char *at = scan->at;
    while ((at = next_of(at, scan->end, IN_STRING)) < scan->end && *at == '\\') {
        if (scan->end - at < 2) return false;
        at += 2;
    }
    if (at == scan->end) return false;
    *inside = (struct foreign_text){scan->at, (size_t)(at - scan->at)};
    scan->at = at + 1;
    return true;
}

/* After an opening bracket (`first`) or an item: takes the comma, and the closing bracket if it is next; then *more is false. */
static bool scan_next(struct scan *scan, char close, bool first, bool *more)
{
    if (!scan_blank(scan)) return false;
    if (*scan->at == ',') {
        scan->at++;
        if (!scan_blank(scan)) return false;
    } else if (!first && *scan->at != close) return wrong(scan, "a comma is missing");
    *more = *scan->at != close;
    scan->at += !*more;
    return true;
}

/* The same in an object, and takes the next member's key and its colon. */
static bool scan_key(struct scan *scan, struct foreign_text *key, bool first, bool *more)
{
    if (!scan_next(scan, '}', first, more)) return false;
    if (!*more) return true;
    return scan_sign(scan, '"', "a key has no quotes") && take_string(scan, key) &&
           scan_sign(scan, ':', "a colon is missing after a key");
}

/* A number, or a word such as true: all bytes up to a blank, a comma or a bracket. */
static bool take_word(struct scan *scan, struct foreign_text *value)
{
    static const char *const words[] = {"true", "false", "null", "nan", "-nan", "inf", "-inf", "infinity", "-infinity"};
    const char *at = next_of(scan->at, scan->end, STOP);
    int64_t number;
    if (at == scan->end) return false;
    *value = (struct foreign_text){scan->at, (size_t)(at - scan->at)};
    scan->at = at;
    if (foreign_scaled(*value, 0, &number) != FOREIGN_NO_NUMBER) return true;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (value->bytes == strlen(words[w]) && strncasecmp(value->at, words[w], value->bytes) == 0) return true;
    return wrong(scan, "a value is no JSON");
}

/* Takes an object or an array as one text: its strings and brackets are looked at, what is between them when somebody reads it. */
static bool take_brackets(struct scan *scan, struct foreign_text *value)
{
    enum { DEPTH_MAX = 256 };
    const char *const first = scan->at;
    struct foreign_text inside;
    char closes[DEPTH_MAX]; /* by level */
    int depth = 0;
    do {
        const char *at = scan->at = next_of(scan->at, scan->end, MARK);
        if (at == scan->end) return false;
        if (*at == '{' || *at == '[') {
            if (depth == DEPTH_MAX) return wrong(scan, "nests deeper than 256 brackets");
            closes[depth++] = *at == '{' ? '}' : ']';
        } else if (*at != '"' && closes[--depth] != *at) return wrong(scan, "closes a bracket of the other kind");
        scan->at++;
        if (*at == '"' && !take_string(scan, &inside)) return false;
    } while (depth);
    *value = (struct foreign_text){first, (size_t)(scan->at - first)};
    return true;
}

/* Takes a value: of a string the inside of its quotes, of all others the whole text. */
static bool scan_value(struct scan *scan, struct foreign_text *value, bool *is_string)
{
    if (!scan_blank(scan)) return false;
    *is_string = *scan->at == '"';
    if (*is_string) return scan->at++, take_string(scan, value);
    return *scan->at == '{' || *scan->at == '[' ? take_brackets(scan, value) : take_word(scan, value);
}

/* ---- the window ---- */

static bool fail(struct event_reader *reader, int status, uint64_t at, const char *what)
{
    error_set(&reader->err, status, "%s: byte %llu: %s", reader->path, (unsigned long long)at, what);
    return false;
}

/* Why zlib gives no more: the end, or an error, which comes after all that was good. */
static bool check_file(struct event_reader *reader)
{
    int code;
    const char *text = gzerror(reader->file, &code), *why = strstr(text, ": "); /* "<fd:7>: Is a directory" */
    const uint64_t at = reader->dropped + reader->window.count;
    if (code == Z_ERRNO)
        error_set(&reader->err, STATUS_INPUT, "%s: cannot be read: %s", reader->path, why ? why + 2 : text);
    if (code == Z_MEM_ERROR) return fail(reader, STATUS_RUN, at, "no memory to uncompress it");
    if (code == Z_BUF_ERROR) return fail(reader, STATUS_INPUT, at, "the compressed data are cut off");
    return code == Z_OK || code == Z_ERRNO ? false : fail(reader, STATUS_INPUT, at, "the compressed data are damaged");
}

/* Moves the unread text to the window's start, makes the window larger if it is full, and fills it. False: an error, or
 * (err.status is 0) nothing more to read. */
static bool fill(struct event_reader *reader)
{
    if (reader->fed) return check_file(reader);
    struct bytes *window = &reader->window;
    reader->dropped += reader->first;
    bytes_drop(window, reader->first);
    reader->first = 0;
    const size_t kept = window->count;
    if (kept == window->room) {
        if (kept >= EVENT_LARGEST_BYTES)
            return fail(reader, STATUS_INPUT, reader->dropped, "an event or a member is larger than 64 MiB");
        if (!bytes_reserve(window, kept ? kept : EVENT_WINDOW_BYTES))
            return fail(reader, STATUS_RUN, reader->dropped, "no memory to read it");
    }
    while (window->count < window->room && !reader->fed) {
        const size_t room = window->room - window->count,
                     piece = room < PIECE_BYTES || gzdirect(reader->file) ? room : PIECE_BYTES; /* direct: plain text */
        const int got = gzread(reader->file, window->at + window->count, (unsigned)piece);
        reader->fed = got <= 0;
        if (got > 0) window->count += (size_t)got;
    }
    return window->count > kept || check_file(reader);
}

/* After a scan that failed: reads more text, so that the caller tries again, or ends. */
static void read_more(struct event_reader *reader, const struct scan *scan)
{
    const uint64_t at = reader->dropped + (uint64_t)(scan->at - (const char *)reader->window.at),
                   end = reader->dropped + reader->window.count;
    if (scan->what) fail(reader, STATUS_INPUT, at, scan->what);
    else if (fill(reader) || reader->err.status) return;
    else if (reader->may_end) reader->place = AT_END;
    else fail(reader, STATUS_INPUT, end, reader->place == AT_BEGIN ? "the file is empty" : "the trace is cut off");
}

/* ---- an event ---- */

static bool take_time(struct scan *scan, struct foreign_text text, int64_t *value)
{
    const enum foreign_number result = foreign_scaled(text, 3, value);
    if (result == FOREIGN_NO_NUMBER) scan->what = "a time is no number";
    if (result == FOREIGN_OUT_OF_RANGE) scan->what = "a time is out of range";
    return result == FOREIGN_NUMBER;
}

static bool take_member(struct scan *scan, struct event *event, struct foreign_text key)
{
    struct foreign_text value;
    bool is_string;
    if (!scan_value(scan, &value, &is_string)) return false;
    if (!is_string && foreign_is(value, "null")) return true;
    if (foreign_is(key, "ts")) return event->has_ts = take_time(scan, value, &event->ts_ns);
    if (foreign_is(key, "dur")) return take_time(scan, value, &event->dur_ns);
    if (foreign_is(key, "ph")) event->phase = is_string && value.bytes == 1 ? *value.at : 0;
    if (foreign_is(key, "pid")) event->pid = value;
    if (foreign_is(key, "tid")) event->tid = value;
    if (foreign_is(key, "cat")) event->category = value;
    if (foreign_is(key, "name")) event->name = value;
    if (foreign_is(key, "args") && !is_string && *value.at == '{') event->args = value;
    return true;
}

static bool take_event(struct scan *scan, struct event *event)
{
    struct foreign_text key;
    bool more;
    if (!scan_sign(scan, '{', "an event is not an object")) return false;
    for (bool begins = true;; begins = false) {
        if (!scan_key(scan, &key, begins, &more)) return false;
        if (!more) return true;
        if (!take_member(scan, event, key)) return false;
    }
}

/* ---- the next item of each place; *result: EVENT_END if it is none that is given ---- */

static bool take_begin(struct event_reader *reader, struct scan *scan)
{
    if (scan->end - scan->at >= 3 && memcmp(scan->at, "\xef\xbb\xbf", 3) == 0) scan->at += 3; /* a byte order mark */
    if (!scan_blank(scan)) return false;
    reader->bare = reader->has_events = *scan->at == '[';
    if (!reader->bare && !scan_sign(scan, '{', "no trace: it begins with neither { nor [")) return false;
    scan->at += reader->bare;
    reader->place = reader->bare ? IN_EVENTS : IN_OBJECT;
    return reader->begins = true;
}

static bool take_top(struct event_reader *reader, struct scan *scan, struct event *member, enum event_result *result)
{
    bool more, is_string;
    if (!scan_key(scan, &member->name, reader->begins, &more)) return false;
    const bool events = more && foreign_is(member->name, "traceEvents");
    if (events && !scan_sign(scan, '[', "traceEvents is not an array")) return false;
    if (more && !events && !scan_value(scan, &member->args, &is_string)) return false;
    if (!more && !reader->has_events) return scan->what = "the trace has no traceEvents", false;
    *result = more && !events ? EVENT_MEMBER : EVENT_END;
    reader->place = !more ? AT_END : events ? IN_EVENTS : IN_OBJECT;
    reader->has_events |= events;
    reader->begins = events;
    return true;
}

static bool take_item(struct event_reader *reader, struct scan *scan, struct event *event, enum event_result *result)
{
    bool more;
    reader->may_end = reader->bare;
    if (!scan_next(scan, ']', reader->begins, &more)) return false;
    reader->may_end = false;
    if (more && !take_event(scan, event)) return false;
    *result = more ? EVENT : EVENT_END;
    if (!more) reader->place = reader->bare ? AT_END : IN_OBJECT;
    reader->begins = false;
    return true;
}

enum event_result event_reader_next(struct event_reader *reader, struct event *event)
{
    while (!reader->err.status && reader->place != AT_END) {
        const char *window = (const char *)reader->window.at;
        struct scan scan = {window + reader->first, window + reader->window.count, NULL};
        enum event_result result = EVENT_END;
        *event = (struct event){0};
        const bool taken = reader->place == AT_BEGIN    ? take_begin(reader, &scan)
                           : reader->place == IN_OBJECT ? take_top(reader, &scan, event, &result)
                                                        : take_item(reader, &scan, event, &result);
        if (taken) reader->first = (size_t)(scan.at - window);
        else read_more(reader, &scan);
        if (result) return result;
    }
    do reader->first = reader->window.count; /* up to the checksum */
    while (!reader->err.status && fill(reader));
    return reader->err.status ? EVENT_BAD : EVENT_END;
}

void event_reader_open(struct event_reader *reader, const char *path)
{
    *reader = (struct event_reader){0};
    snprintf(reader->path, sizeof reader->path, "%.300s", path);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        error_set(&reader->err, STATUS_INPUT, "%s: cannot be opened: %s", reader->path, strerror(errno));
        return;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* only opening a pipe must not wait */
    reader->file = gzdopen(fd, "rb");
    if (reader->file) fill(reader);
    else fail(reader, STATUS_RUN, 0, "no memory to read it"), close(fd);
}

void event_reader_close(struct event_reader *reader)
{
    if (reader->file) gzclose(reader->file);
    bytes_release(&reader->window);
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
