#include "engine/import/pickle.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"

enum { CHUNK_BYTES = 1 << 20 };

struct pickle_chunk {
    struct pickle_chunk *next;
    size_t used, room;
};

typedef struct pickle_value value; /* short, because all here is about values */

struct machine {
    struct pickle *pickle;
    const char *at, *end, *opcode, *name; /* opcode: where it lies; name: of its row */
    struct bytes stack, memo;             /* value *; on the stack, NULL is a mark */
    size_t next_memo;
    struct error *err;
};

/* All that follows fails with a line in `err`; NULL and false say so to the caller. */
static bool fail(struct machine *m, int status, const char *what)
{
    error_set(m->err, status, "byte %zu: %s", (size_t)(m->opcode - m->pickle->text), what);
    return false;
}

static bool cut(struct machine *m)
{
    return fail(m, STATUS_INPUT, "the pickle is cut off or damaged");
}

static void *allocate(struct machine *m, size_t bytes)
{
    struct pickle_chunk *chunk = m->pickle->chunks;
    bytes = (bytes + 7) & ~(size_t)7;
    if (!chunk || bytes > chunk->room - chunk->used) {
        const size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        if (!(chunk = malloc(sizeof *chunk + room))) return fail(m, STATUS_RUN, "no memory for its values"), NULL;
        *chunk = (struct pickle_chunk){m->pickle->chunks, 0, room};
        m->pickle->chunks = chunk;
    }
    chunk->used += bytes;
    return (char *)(chunk + 1) + chunk->used - bytes;
}

/* ---- the stack ---- */

static bool push(struct machine *m, value *item)
{
    return bytes_append(&m->stack, &item, sizeof item) || fail(m, STATUS_RUN, "no memory for its stack");
}

static bool push_new(struct machine *m, value content)
{
    value *item = allocate(m, sizeof *item);
    if (!item) return false;
    *item = content;
    return push(m, item);
}

static size_t depth(const struct machine *m)
{
    return m->stack.count / sizeof(value *);
}

static value **slot(const struct machine *m, size_t i)
{
    return (value **)(void *)m->stack.at + i;
}

/* Drops all but the first `count`. */
static bool leave(struct machine *m, size_t count)
{
    m->stack.count = count * sizeof(value *);
    return true;
}

/* The place of the first of the `count` uppermost values, if there are so many above the last mark. */
static bool top_values(struct machine *m, size_t count, size_t *from)
{
    if (depth(m) < count) return cut(m);
    *from = depth(m) - count;
    for (size_t i = *from; i < depth(m); i++)
        if (!*slot(m, i)) return cut(m);
    return true;
}

static bool last_mark(struct machine *m, size_t *mark)
{
    for (*mark = depth(m); *mark && *slot(m, *mark - 1); --*mark)
        ;
    return (*mark)-- || cut(m);
}

/* Moves the values from `from` on into a container, and leaves `left` values on the stack. */
static bool move_items(struct machine *m, value *container, size_t from, size_t left)
{
    const size_t more = depth(m) - from, count = container->count + more;
    if (container->kind == PICKLE_DICT && more % 2) return cut(m);
    if (count > container->room) {
        const size_t room = count > 2 * container->count ? count : 2 * container->count;
        value **items = room > UINT32_MAX ? NULL : allocate(m, room * sizeof *items);
        if (!items)
            return room > UINT32_MAX ? fail(m, STATUS_INPUT, "a container has more than 4 billion items") : false;
        if (container->count) memcpy(items, container->items, container->count * sizeof *items);
        container->items = items;
        container->room = (uint32_t)room;
    }
    if (more) memcpy(container->items + container->count, slot(m, from), more * sizeof(value *));
    container->count = count;
    return leave(m, left);
}

static bool add_items(struct machine *m, enum pickle_kind kind, size_t container, size_t from)
{
    value *to = container < depth(m) ? *slot(m, container) : NULL;
    return to && to->kind == kind ? move_items(m, to, from, container + 1) : cut(m);
}

/* Replaces all from `left` on by a container of the values from `from` on. */
static bool wrap(struct machine *m, enum pickle_kind kind, size_t left, size_t from)
{
    value *container = allocate(m, sizeof *container);
    if (!container) return false;
    *container = (value){.kind = (uint8_t)kind, .items = NULL};
    return move_items(m, container, from, left) && push(m, container);
}

/* ---- operands ---- */

/* A little-endian number of 1 to 8 bytes. */
static bool take_number(struct machine *m, int bytes, uint64_t *number)
{
    if (m->end - m->at < bytes) return cut(m);
    *number = 0;
    for (int i = 0; i < bytes; i++) *number |= (uint64_t)(uint8_t)m->at[i] << 8 * i;
    m->at += bytes;
    return true;
}

/* Bytes after their count, which is a number of `width` bytes. */
static bool take_bytes(struct machine *m, int width, struct foreign_text *text)
{
    uint64_t count;
    if (!take_number(m, width, &count)) return false;
    if (count > (uint64_t)(m->end - m->at)) return cut(m);
    *text = (struct foreign_text){m->at, (size_t)count};
    m->at += count;
    return true;
}

static bool take_line(struct machine *m, struct foreign_text *line)
{
    const char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end) return cut(m);
    *line = (struct foreign_text){m->at, (size_t)(end - m->at)};
    m->at = end + 1;
    return true;
}

/* ---- values ---- */

static bool push_empty(struct machine *m, enum pickle_kind kind)
{
    return push_new(m, (value){.kind = (uint8_t)kind, .items = NULL});
}

static bool push_integer(struct machine *m, enum pickle_kind kind, int64_t integer)
{
    return push_new(m, (value){.kind = (uint8_t)kind, .integer = integer});
}

/* Two's complement of any length. */
static bool push_long(struct machine *m, int width)
{
    struct foreign_text text;
    if (!take_bytes(m, width, &text)) return false;
    const char sign = text.bytes && text.at[text.bytes - 1] < 0 ? -1 : 0;
    uint64_t number = (uint64_t)(int64_t)sign;
    bool fits = true;
    for (size_t i = 0; i < text.bytes; i++)
        if (i >= 8) fits = fits && text.at[i] == sign;
        else number = (number & ~((uint64_t)0xff << 8 * i)) | (uint64_t)(uint8_t)text.at[i] << 8 * i;
    if (fits && ((int64_t)number < 0) == (sign < 0)) return push_integer(m, PICKLE_INT, (int64_t)number);
    return push_new(m, (value){.kind = PICKLE_LARGE, .text = text});
}

/* Decimal digits, after LONG perhaps an L; as INT, 00 and 01 are False and True. */
static bool push_digits(struct machine *m)
{
    struct foreign_text line;
    int64_t integer;
    if (!take_line(m, &line)) return false;
    if (*m->opcode == 'I' && (foreign_is(line, "00") || foreign_is(line, "01")))
        return push_integer(m, PICKLE_BOOL, line.at[1] == '1');
    if (*m->opcode == 'L' && line.bytes && line.at[line.bytes - 1] == 'L') line.bytes--;
    if (foreign_integer(line, &integer)) return push_integer(m, PICKLE_INT, integer);
    return foreign_is_number(line) ? push_new(m, (value){.kind = PICKLE_LARGE, .text = line}) : cut(m);
}

static bool push_float(struct machine *m)
{
    struct foreign_text line;
    double number;
    if (!take_line(m, &line)) return false;
    return foreign_double(line, &number) ? push_new(m, (value){.kind = PICKLE_DOUBLE, .number = number}) : cut(m);
}

/* The bits of a double, which are the only number of a pickle that is big-endian. */
static bool push_bits(struct machine *m, uint64_t bits)
{
    value item = {.kind = PICKLE_DOUBLE, .number = 0};
    bits = __builtin_bswap64(bits);
    memcpy(&item.number, &bits, sizeof bits);
    return push_new(m, item);
}

static bool push_text(struct machine *m, enum pickle_kind kind, int width)
{
    struct foreign_text text;
    return take_bytes(m, width, &text) && push_new(m, (value){.kind = (uint8_t)kind, .text = text});
}

/* A line in quotes with Python's escapes; or without quotes, of Latin-1 with \u and \U. */
static bool push_escaped(struct machine *m, bool quoted)
{
    static const char letters[] = "nrtabfv\\'\"", meanings[] = "\n\r\t\a\b\f\v\\'\"";
    struct foreign_text line;
    if (!take_line(m, &line)) return false;
    if (quoted) {
        if (line.bytes < 2 || (*line.at != '\'' && *line.at != '"') || line.at[line.bytes - 1] != *line.at)
            return cut(m);
        line = (struct foreign_text){line.at + 1, line.bytes - 2};
    }
    char *out = allocate(m, 2 * line.bytes + 4);
    size_t count = 0;
    if (!out) return false;
    for (const char *at = line.at, *end = at + line.bytes; at < end;) {
        const char letter = *at == '\\' && end - at > 1 ? at[1] : 0;
        const char *found = quoted && letter ? strchr(letters, letter) : NULL;
        const int digits = quoted ? (letter == 'x' ? 2 : 0) : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
        const int64_t code = found ? meanings[found - letters] : digits ? foreign_hex(at + 2, end, digits) : -1;
        const uint32_t character = code >= 0 ? (uint32_t)code : (uint8_t)*at;
        if (character > 0x10ffff) return cut(m);
        if (quoted) out[count++] = (char)character;
        else count += (size_t)foreign_put(out + count, character);
        at += code >= 0 ? 2 + digits : 1;
    }
    return push_new(m, (value){.kind = PICKLE_TEXT, .text = {out, count}});
}

/* ---- memo ---- */

static bool put_memo(struct machine *m, uint64_t index)
{
    size_t top;
    if (!top_values(m, 1, &top)) return false;
    if (index > m->pickle->bytes) return cut(m); /* a pickle has no more values than bytes */
    const size_t size = sizeof(value *), had = m->memo.count, needs = ((size_t)index + 1) * size;
    if (needs > had) {
        if (!bytes_reserve(&m->memo, needs - had)) return fail(m, STATUS_RUN, "no memory for its memo");
        memset(m->memo.at + had, 0, needs - had);
        m->memo.count = needs;
    }
    memcpy(m->memo.at + index * size, slot(m, top), size);
    return true;
}

static bool take_index(struct machine *m, uint64_t *index)
{
    struct foreign_text line;
    int64_t integer;
    if (!take_line(m, &line)) return false;
    *index = foreign_integer(line, &integer) ? (uint64_t)integer : UINT64_MAX; /* too large; so is a negative one */
    return true;
}

static bool get_memo(struct machine *m, uint64_t index)
{
    value *item = NULL;
    if (index < m->memo.count / sizeof item) memcpy(&item, m->memo.at + index * sizeof item, sizeof item);
    return item ? push(m, item) : cut(m);
}

/* ---- what would run code, or is no plain data ---- */

static bool refuse(struct machine *m, int names)
{
    struct foreign_text text[2] = {{0}, {0}};
    char asked[2][80], what[300];
    size_t from;
    for (int n = 0; n < names; n++)
        if (!take_line(m, &text[n])) return false;
    if (names < 0 && top_values(m, 2, &from))
        for (int n = 0; n < 2; n++)
            if ((*slot(m, from + (size_t)n))->kind == PICKLE_TEXT) text[n] = (*slot(m, from + (size_t)n))->text;
    for (int n = 0; n < 2; n++) foreign_copy(text[n], false, asked[n], sizeof asked[n]);
    snprintf(what, sizeof what, "%s%s%s%s%s; refused, because only plain data are read", m->name,
             text[0].at ? " asks for " : "", asked[0], text[1].at ? "." : "", asked[1]);
    return fail(m, STATUS_INPUT, what);
}

/* Carries out the opcode that was just taken. */
static bool run_opcode(struct machine *m)
{
    uint64_t n;
    size_t from;
    switch (*(const uint8_t *)m->opcode) {
#define OP(byte, opcode_name, expression)                                                                              \
    case byte:                                                                                                         \
        m->name = #opcode_name;                                                                                        \
        return expression;
#include "engine/import/pickle_ops.def"
#undef OP
    }
    return fail(m, STATUS_INPUT, "no opcode of a pickle");
}

enum { NOT_VISITED, OPEN, VISITED };

/* Refuses a value that contains itself, or that is nested too deeply. Sets its height. */
static bool check_heights(struct machine *m, value *item, int level)
{
    if (item->visited == OPEN) return fail(m, STATUS_INPUT, "a value contains itself; refused");
    if (item->visited == VISITED || item->kind < PICKLE_LIST) return true;
    item->visited = OPEN;
    for (size_t i = 0; i < item->count && level < PICKLE_DEPTH_MAX; i++) {
        if (!check_heights(m, item->items[i], level + 1)) return false;
        if (item->items[i]->height >= item->height) item->height = (uint16_t)(item->items[i]->height + 1);
    }
    item->visited = VISITED;
    if (level < PICKLE_DEPTH_MAX && item->height < PICKLE_DEPTH_MAX) return true;
    return fail(m, STATUS_INPUT, "its values nest deeper than 200; refused");
}

static bool run(struct machine *m)
{
    size_t top;
    for (;;) {
        m->opcode = m->at;
        if (m->at == m->end) return cut(m);
        if (*m->at++ == '.') break;
        if (!run_opcode(m)) return false;
    }
    if (!top_values(m, 1, &top)) return false;
    m->pickle->root = *slot(m, top);
    return check_heights(m, *slot(m, top), 0);
}

int pickle_read(struct pickle **out, const char *path, struct error *err)
{
    struct error own;
    struct pickle *pickle = calloc(1, sizeof *pickle);
    struct machine m = {.pickle = pickle, .err = err ? err : &own};
    *out = NULL;
    int status = pickle ? file_read(&pickle->text, &pickle->bytes, path, PICKLE_LARGEST_BYTES, true, m.err)
                        : error_set(m.err, STATUS_RUN, "no memory to read it");
    if (!status) {
        m.at = pickle->text;
        m.end = m.at + pickle->bytes;
        if (!run(&m)) status = m.err->status;
    }
    bytes_release(&m.stack);
    bytes_release(&m.memo);
    if (!status) return *out = pickle, STATUS_OK;
    pickle_free(pickle);
    return error_prefix(m.err, "%.200s", path);
}

void pickle_free(struct pickle *pickle)
{
    if (!pickle) return;
    for (struct pickle_chunk *chunk = pickle->chunks, *next; chunk; chunk = next) next = chunk->next, free(chunk);
    free(pickle->text);
    free(pickle);
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    if (!dict || dict->kind != PICKLE_DICT) return NULL;
    for (size_t i = dict->count; i; i -= 2)
        if (dict->items[i - 2]->kind == PICKLE_TEXT && foreign_is(dict->items[i - 2]->text, key))
            return dict->items[i - 1];
    return NULL;
}
