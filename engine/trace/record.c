/* Encoder and decoder of every record kind, made from kinds.def: for each field of a kind the table yields one put_ or
 * get_ call, so a new kind or field needs nothing here. */
#include "engine/trace/record.h"

/* Bytes of each field type on disk; text comes after the fixed part. */
#define BYTES_u8   1
#define BYTES_u16  2
#define BYTES_u32  4
#define BYTES_u64  8
#define BYTES_i64  8
#define BYTES_f32  4
#define BYTES_f64  8
#define BYTES_time 8
#define BYTES_text 0

#define F(type, field, help) +BYTES_##type
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    _Static_assert(TRACE_HEAD_BYTES FIELDS(F) <= TRACE_FIXED_MAX, "raise TRACE_FIXED_MAX for " #name);
#include "engine/trace/kinds.def"
#undef TRACE_KIND

struct kind {
    const char *name;
    size_t fixed_bytes; /* head and fixed fields */
    unsigned traits;
};

/* Of an unknown kind all is zero. */
static const struct kind *kind_of(unsigned kind)
{
    static const struct kind none, all[] = {
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) [number] = {#name, TRACE_HEAD_BYTES FIELDS(F), traits},
#include "engine/trace/kinds.def"
#undef TRACE_KIND
    };
    return kind < sizeof all / sizeof *all ? &all[kind] : &none;
}
#undef F

/* A case for each kind, which does F to every field of `record`, by way of `of`. */
#define TRACE_KIND(number, ID, name, FIELDS, traits, help)                                                             \
    case number: {                                                                                                     \
        __typeof__(&record->name) of = &record->name;                                                                  \
        (void)of;                                                                                                      \
        FIELDS(F)                                                                                                      \
        break;                                                                                                         \
    }

/* The field of type text, which is outside the fixed part; NULL: the kind has none. */
static struct trace_text *text_of(const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) \
    if (BYTES_##type == 0) return (struct trace_text *)(void *)(uintptr_t)&of->field;
#include "engine/trace/kinds.def"
#undef F
    }
    return NULL;
}

#define put_time put_u64
#define get_time get_u64

static uint8_t *put_text(uint8_t *at, struct trace_text text)
{
    (void)text;
    return at;
}

static const uint8_t *get_text(const uint8_t *at, struct trace_text *text)
{
    (void)text;
    return at;
}

static uint8_t *put_fields(uint8_t *at, const struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) at = put_##type(at, of->field);
#include "engine/trace/kinds.def"
#undef F
    }
    return at;
}

size_t trace_encoded_bytes(const struct trace_record *record)
{
    const struct trace_text *text = text_of(record);
    return kind_of(record->kind)->fixed_bytes + (text ? text->bytes : 0);
}

size_t trace_encode_fixed(const struct trace_record *record, void *out, struct trace_text *text)
{
    const struct trace_text *after = text_of(record);
    *text = after ? *after : (struct trace_text){NULL, 0};
    size_t fixed = kind_of(record->kind)->fixed_bytes;
    uint8_t *at = out;
    at = put_u32(at, (uint32_t)(fixed + text->bytes));
    at = put_u16(at, (uint16_t)record->kind);
    at = put_u16(at, record->rank);
    at = put_u64(at, record->time_ns);
    put_fields(at, record);
    return fixed;
}

size_t trace_encode(const struct trace_record *record, void *out)
{
    struct trace_text text;
    size_t fixed = trace_encode_fixed(record, out, &text);
    if (text.bytes) memcpy((uint8_t *)out + fixed, text.at, text.bytes);
    return fixed + text.bytes;
}

/* The text takes what is left of the record. */
static void get_fields(const uint8_t *at, const uint8_t *end, struct trace_record *record)
{
    switch ((unsigned)record->kind) {
#define F(type, field, help) at = get_##type(at, &of->field);
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
    struct trace_text *text = text_of(record);
    if (text) *text = (struct trace_text){(const char *)at, (size_t)(end - at)};
}

size_t trace_decode(const void *bytes, size_t available, struct trace_record *record)
{
    if (available < TRACE_HEAD_BYTES) return 0;
    struct trace_head head = trace_peek(bytes);
    if (head.bytes < TRACE_HEAD_BYTES || head.bytes > available || head.bytes < kind_of(head.kind)->fixed_bytes)
        return 0;
    record->kind = (enum trace_kind)head.kind;
    record->rank = head.rank;
    record->time_ns = head.time_ns;
    const uint8_t *at = bytes;
    get_fields(at + TRACE_HEAD_BYTES, at + head.bytes, record);
    return head.bytes;
}

const char *trace_kind_name(enum trace_kind kind)
{
    return kind_of(kind)->name;
}

unsigned trace_kind_traits(unsigned kind)
{
    return kind_of(kind)->traits;
}

static void replace_time(uint8_t *at, uint64_t (*replace)(void *user, uint64_t time_ns), void *user)
{
    uint64_t time_ns;
    get_u64(at, &time_ns);
    if (time_ns) put_u64(at, replace(user, time_ns));
}

void trace_replace_times(void *bytes, uint64_t (*replace)(void *user, uint64_t time_ns), void *user)
{
    const struct trace_head head = trace_peek(bytes);
    uint8_t *at = (uint8_t *)bytes + TRACE_HEAD_BYTES;
    if (head.bytes < kind_of(head.kind)->fixed_bytes) return;
    replace_time((uint8_t *)bytes + 8, replace, user);
    switch ((unsigned)head.kind) {
#define F(type, field, help)                                        \
    if (strcmp(#type, "time") == 0) replace_time(at, replace, user); \
    at += BYTES_##type;
#define TRACE_KIND(number, ID, name, FIELDS, traits, help) case number: FIELDS(F) break;
#include "engine/trace/kinds.def"
#undef TRACE_KIND
#undef F
    }
}

bool trace_append(struct bytes *out, const struct trace_record *record)
{
    if (!bytes_reserve(out, trace_encoded_bytes(record))) return false;
    out->count += trace_encode(record, out->at + out->count);
    return true;
}

struct trace_record trace_log(int level, const char *text, uint64_t time_ns)
{
    return (struct trace_record){.kind = TRACE_LOG,
                                 .rank = TRACE_RANK_ALL,
                                 .time_ns = time_ns,
                                 .log = {.level = (uint8_t)level, .text = {text, strlen(text)}}};
}

struct trace_record trace_gap(uint16_t rank, uint64_t records, uint64_t since_ns, uint64_t time_ns)
{
    return (struct trace_record){.kind = TRACE_GAP, .rank = rank, .time_ns = time_ns, .gap = {records, since_ns}};
}
