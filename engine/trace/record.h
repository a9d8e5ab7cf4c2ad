/* Trace records as structs, made from kinds.def. A struct trace_record is the decoded form of any record; `text` fields
 * point into the bytes they were decoded from (or, when encoding, to the caller's text) and are not NUL-terminated. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/base/bytes.h"
#include "engine/base/wire.h"

struct trace_text { const char *at; size_t bytes; };
#define TEXT_OF(text) {text, strlen(text)} /* in a record */

typedef uint8_t trace_u8; typedef uint16_t trace_u16; typedef uint32_t trace_u32; typedef uint64_t trace_u64;
typedef int64_t trace_i64; typedef float trace_f32; typedef uint64_t trace_time; typedef double trace_f64; typedef struct trace_text trace_text;

enum trace_kind {
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) TRACE_##ID = number,
#include "engine/trace/kinds.def"
#undef TRACE_KIND
};

/* How the writer and readers treat a kind of record. */
enum trace_trait {
    TRACE_STANDING = 1, /* a reader needs it before it can understand a step's records */
    TRACE_LATEST = 2,   /* the latest is kept for viewers that attach in mid-run (latest_records.h) */
    TRACE_NEWS = 4,     /* about the whole run, small and rare: is still written to a file at its limit (file_sink.c) */
    TRACE_DETAIL = 8,   /* a slow viewer is sent fewer records (thin.h): these are left out first */
    TRACE_OF_STEP = 16, /* a slow viewer: these are left out next */
};

#define F(type, field, help) trace_##type field;
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) struct trace_of_##name { FIELDS(F) };
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F

struct trace_record {
    enum trace_kind kind;
    uint16_t rank;     /* 65535: the run as a whole */
    uint64_t time_ns;  /* clock_ns() */
    union {
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) struct trace_of_##name name;
#include "engine/trace/kinds.def"
#undef TRACE_KIND
    };
};

#define TRACE_RANK_ALL 65535
#define TRACE_NO_STAGE 255
#define TRACE_OBSERVED UINT32_MAX /* the schedule number of operations from OPERATION records */
#define TRACE_NO_UNIT UINT32_MAX
#define TRACE_UNATTRIBUTED 15     /* category of another program's memory whose purpose is unknown */

enum run_state { RUN_STARTING, RUN_RUNNING, RUN_PAUSED, RUN_OUT_OF_MEMORY, RUN_ENDED, RUN_RELAUNCHING, RUN_STATES };
enum outcome { OUTCOME_FINISHED, OUTCOME_OUT_OF_MEMORY, OUTCOME_FAILED, OUTCOME_STOPPED };

/* Bytes of the head that every record has on disk, and the most bytes that a kind's fixed fields take (all but its text). */
enum { TRACE_HEAD_BYTES = 16, TRACE_FIXED_MAX = 112 };

struct trace_head { uint32_t bytes; uint16_t kind, rank; uint64_t time_ns; };

/* Reads the head of an encoded record; `bytes` holds at least TRACE_HEAD_BYTES. Inline, because every function that
 * passes a record on calls it. */
static inline struct trace_head trace_peek(const void *bytes)
{
    struct trace_head head;
    const uint8_t *at = get_u32(bytes, &head.bytes);
    at = get_u16(at, &head.kind);
    at = get_u16(at, &head.rank);
    get_u64(at, &head.time_ns);
    return head;
}

/* Bytes that record takes on disk. */
size_t trace_encoded_bytes(const struct trace_record *record);

/* Writes record to out, which has room for trace_encoded_bytes(record); returns that number. */
size_t trace_encode(const struct trace_record *record, void *out);

/* The same in two parts, for a destination that is not contiguous. It writes head and fixed fields to out and points *text
 * to the text that follows them. Returns the bytes of the first part. */
size_t trace_encode_fixed(const struct trace_record *record, void *out, struct trace_text *text);

/* Appends an encoded record. False: no memory, and nothing was changed. */
bool trace_append(struct bytes *out, const struct trace_record *record);

/* A line of the log of the whole run; the record points to `text`. Level: 0 note, 1 warning, 2 error. */
struct trace_record trace_log(int level, const char *text, uint64_t time_ns);
/* `records` records of a rank are missing between since_ns and time_ns. */
struct trace_record trace_gap(uint16_t rank, uint64_t records, uint64_t since_ns, uint64_t time_ns);

/* Decodes the record at the head of `bytes`. Returns its size, or 0 if `bytes` holds no whole, well-formed record. Of an
 * unknown kind only kind, rank and time_ns are set; a longer version of a known kind loses its extra fields.
 * Never reads past `available` bytes. A caller that indexes by a field checks its range. */
size_t trace_decode(const void *bytes, size_t available, struct trace_record *record);

/* Replaces the time of an encoded, well-formed record, and its fields of type `time`. A time of 0 (unknown) stays. */
void trace_replace_times(void *bytes, uint64_t (*replace)(void *user, uint64_t time_ns), void *user);

/* "op_end", or NULL for a number that this version does not know. */
const char *trace_kind_name(enum trace_kind kind);
unsigned trace_kind_traits(unsigned kind); /* of enum trace_trait; 0 for a number that this version does not know */
