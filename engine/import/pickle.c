#include "engine/import/pickle.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/wire.h"

enum { CHUNK_BYTES = 1 << 20 };

struct chunk {
    struct chunk *next;
    size_t used, room;
};

struct pickle {
    char *bytes;
    size_t count;
    struct chunk *chunks;
    const struct pickle_value *root;
};

typedef struct pickle_value value; /* short, for the table of opcodes */

struct machine {
    struct pickle *pickle;
    const char *at, *end, *opcode;
    struct bytes stack, marks, memo; /* value *, size_t, value * */
    size_t next_memo;                /* of MEMOIZE */
    struct error *err;
};

/* All that follows fails with a line in `err`; NULL and false say so to the caller. */
static bool fail(struct machine *m, int status, const char *what)
{
    error_set(m->err, status, "byte %zu: %s", (size_t)(m->opcode - m->pickle->bytes), what);
    return false;
}

static bool cut(struct machine *m)
{
    return fail(m, STATUS_INPUT, "the pickle is cut off or damaged");
}

/* ---- memory ---- */

static void *allocate(struct machine *m, size_t bytes)
{
    struct chunk *chunk = m->pickle->chunks;
    bytes = (bytes + 7) & ~(size_t)7;
    if (!chunk || bytes > chunk->room - chunk->used) {
        const size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        if (!(chunk = malloc(sizeof *chunk + room))) return fail(m, STATUS_RUN, "no memory for its values"), NULL;
        *chunk = (struct chunk){m->pickle->chunks, 0, room};
        m->pickle->chunks = chunk;
    }
    chunk->used += bytes;
    return (char *)(chunk + 1) + chunk->used - bytes;
}

/* ---- the stack ---- */

static bool push(struct machine *m, value *item)
{
    if (!item) return false;
    return bytes_append(&m->stack, &item, sizeof item) || fail(m, STATUS_RUN, "no memory for its stack");
}

static bool push_new(struct machine *m, value content)
{
    value *item = allocate(m, sizeof *item);
    if (item) *item = content;
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

/* The number of values below the last mark; SIZE_MAX without one. */
static size_t last_mark(const struct machine *m)
{
    size_t mark = SIZE_MAX;
    if (m->marks.count) memcpy(&mark, m->marks.at + m->marks.count - sizeof mark, sizeof mark);
    return mark;
}

/* Drops all values from `from` on; nothing below the last mark. */
static bool drop(struct machine *m, size_t from)
{
    if (from > depth(m) || (m->marks.count && from < last_mark(m))) return cut(m);
    m->stack.count = from * sizeof(value *);
    return true;
}

/* Moves the values from `from` on into a container. */
static bool add_items(struct machine *m, value *container, size_t from)
{
    const size_t more = depth(m) - from, count = container->count + more;
    if (container->kind == PICKLE_DICT && more % 2) return cut(m);
    if (count > container->room) {
        const size_t room = count > 2 * container->count ? count : 2 * container->count;
        if (room > UINT32_MAX) return fail(m, STATUS_INPUT, "a container has more than 2 billion items");
        value **items = allocate(m, room * sizeof *items);
        if (!items) return false;
        if (container->count) memcpy(items, container->items, container->count * sizeof *items);
        container->items = items;
        container->room = (uint32_t)room;
    }
    if (more) memcpy(container->items + container->count, slot(m, from), more * sizeof(value *));
    container->count = count;
    return drop(m, from);
}

static bool add_to(struct machine *m, size_t from, enum pickle_kind kind)
{
    if (!from || from > depth(m) || (*slot(m, from - 1))->kind != kind) return cut(m);
    return add_items(m, *slot(m, from - 1), from);
}

/* Replaces the values from `from` on by a container of them. */
static bool wrap(struct machine *m, size_t from, enum pickle_kind kind)
{
    value *container = from > depth(m) ? NULL : allocate(m, sizeof *container);
    if (!container) return from > depth(m) ? cut(m) : false;
    *container = (value){.kind = (uint8_t)kind, .items = NULL};
    return add_items(m, container, from) && push(m, container);
}

static bool take_mark(struct machine *m, size_t *from)
{
    if (!m->marks.count) return cut(m);
    *from = last_mark(m);
    m->marks.count -= sizeof *from;
    return true;
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

static bool push_text(struct machine *m, enum pickle_kind kind, int width)
{
    struct foreign_text text;
    return take_bytes(m, width, &text) && push_new(m, (value){.kind = (uint8_t)kind, .text = text});
}

static bool push_int(struct machine *m, int64_t integer)
{
    return push_new(m, (value){.kind = PICKLE_INT, .integer = integer});
}

/* LONG1 and LONG4: two's complement of any length. */
static bool push_long(struct machine *m, int width)
{
    struct foreign_text text;
    if (!take_bytes(m, width, &text)) return false;
    const char sign = text.bytes && text.at[text.bytes - 1] < 0 ? -1 : 0;
    uint64_t number = (uint64_t)(int64_t)sign;
    for (size_t i = 0; i < text.bytes; i++) {
        if (i >= 8 && text.at[i] != sign) return push_new(m, (value){.kind = PICKLE_LARGE, .text = text});
        if (i < 8) number = (number & ~((uint64_t)0xff << 8 * i)) | (uint64_t)(uint8_t)text.at[i] << 8 * i;
    }
    if (((int64_t)number < 0) != (sign < 0)) return push_new(m, (value){.kind = PICKLE_LARGE, .text = text});
    return push_int(m, (int64_t)number);
}

/* INT and LONG of protocol 0: decimal digits, perhaps an L; 00 and 01 are False and True. */
static bool push_digits(struct machine *m)
{
    struct foreign_text line;
    int64_t integer;
    if (!take_line(m, &line)) return false;
    if (*m->opcode == 'I' && (foreign_is(line, "00") || foreign_is(line, "01")))
        return push_new(m, (value){.kind = PICKLE_BOOL, .integer = line.at[1] == '1'});
    if (*m->opcode == 'L' && line.bytes && line.at[line.bytes - 1] == 'L') line.bytes--;
    if (foreign_integer(line, &integer)) return push_int(m, integer);
    return foreign_is_number(line) ? push_new(m, (value){.kind = PICKLE_LARGE, .text = line}) : cut(m);
}

static bool push_double(struct machine *m)
{
    struct foreign_text line;
    double number;
    uint64_t bits;
    if (*m->opcode == 'F') {
        if (!take_line(m, &line)) return false;
        if (!foreign_double(line, &number)) return cut(m);
    } else {
        if (!take_number(m, 8, &bits)) return false;
        bits = __builtin_bswap64(bits); /* the only number of a pickle that is big-endian */
        memcpy(&number, &bits, sizeof number);
    }
    return push_new(m, (value){.kind = PICKLE_DOUBLE, .number = number});
}

/* STRING and UNICODE of protocol 0: a line in quotes with Python's escapes; a line of Latin-1 with \u and \U. */
static bool push_escaped(struct machine *m)
{
    struct foreign_text line;
    const bool quoted = *m->opcode == 'S';
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
        static const char letters[] = "nrtabfv\\'\"", meanings[] = "\n\r\t\a\b\f\v\\'\"";
        const char letter = *at == '\\' && end - at > 1 ? at[1] : 0;
        const char *found = quoted && letter ? strchr(letters, letter) : NULL;
        const int digits = quoted ? letter == 'x' ? 2 : 0 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
        const int64_t code = digits ? foreign_hex(at + 2, end, digits) : -1;
        if (found) out[count++] = meanings[found - letters], at += 2;
        else if (code > 0x10ffff) return cut(m);
        else if (code >= 0 && quoted) out[count++] = (char)code, at += 2 + digits;
        else if (code >= 0) count += (size_t)foreign_put(out + count, (uint32_t)code), at += 2 + digits;
        else if (quoted) out[count++] = *at++;
        else count += (size_t)foreign_put(out + count, (uint8_t)*at++);
    }
    return push_new(m, (value){.kind = PICKLE_TEXT, .text = {out, count}});
}

/* ---- memo ---- */

static bool put_memo(struct machine *m, uint64_t index)
{
    if (!depth(m) || index > m->pickle->count) return cut(m); /* a pickle has no more values than bytes */
    const size_t bytes = sizeof(value *), had = m->memo.count, needs = ((size_t)index + 1) * bytes;
    if (needs > had) {
        if (!bytes_reserve(&m->memo, needs - had)) return fail(m, STATUS_RUN, "no memory for its memo");
        memset(m->memo.at + had, 0, needs - had);
        m->memo.count = needs;
    }
    memcpy(m->memo.at + index * bytes, slot(m, depth(m) - 1), bytes);
    return true;
}

static bool get_memo(struct machine *m, uint64_t index)
{
    value *item = NULL;
    if (index < m->memo.count / sizeof item) memcpy(&item, m->memo.at + index * sizeof item, sizeof item);
    return item ? push(m, item) : cut(m);
}

/* The operand of opcodes of the memo: a line of digits, or a number of `width` bytes. */
static bool memo_index(struct machine *m, int width, uint64_t *index)
{
    struct foreign_text line;
    int64_t integer;
    if (width) return take_number(m, width, index);
    if (!take_line(m, &line)) return false;
    if (!foreign_integer(line, &integer) || integer < 0) return cut(m);
    *index = (uint64_t)integer;
    return true;
}

/* ---- what would run code ---- */

static bool refuse(struct machine *m, const char *opcode)
{
    char asks[200] = "", name[80], module[80];
    struct foreign_text first = {0}, second = {0};
    const char code = *m->opcode;
    if (code == 'c' || code == 'i') {
        if (!take_line(m, &first) || !take_line(m, &second)) return false;
    } else if (code == 'P') {
        if (!take_line(m, &first)) return false;
    } else if (code == '\x93' && depth(m) >= 2 && (*slot(m, depth(m) - 1))->kind == PICKLE_TEXT &&
               (*slot(m, depth(m) - 2))->kind == PICKLE_TEXT)
        first = (*slot(m, depth(m) - 2))->text, second = (*slot(m, depth(m) - 1))->text;
    if (first.at) foreign_copy(first, false, module, sizeof module);
    if (second.at) foreign_copy(second, false, name, sizeof name);
    if (second.at) snprintf(asks, sizeof asks, " asks for %s.%s", module, name);
    else if (first.at) snprintf(asks, sizeof asks, " asks for the object %s", module);
    char what[300];
    snprintf(what, sizeof what, "%s%s; refused, because only plain data are read", opcode, asks);
    return fail(m, STATUS_INPUT, what);
}

/* ---- opcodes ---- */

/* Carries out one opcode; STOP is the caller's. */
static bool run_opcode(struct machine *m)
{
    uint64_t number = 0;
    size_t from = 0;
    const size_t top = depth(m);
    switch (*(const uint8_t *)m->opcode) {
    case 0x80: /* PROTO */
        return take_number(m, 1, &number) &&
               (number <= 5 || fail(m, STATUS_INPUT, "a pickle's protocol above 5 is not known"));
    case 0x95: return take_number(m, 8, &number); /* FRAME */
    case '(': return bytes_append(&m->marks, &top, sizeof top) || fail(m, STATUS_RUN, "no memory for its marks");
    case '0': /* POP */
        if (top && last_mark(m) == top) return take_mark(m, &from);
        return top ? drop(m, top - 1) : cut(m);
    case '1': return take_mark(m, &from) && drop(m, from);      /* POP_MARK */
    case '2': return top ? push(m, *slot(m, top - 1)) : cut(m); /* DUP */
    case 'N': return push_new(m, (value){.kind = PICKLE_NONE});
    case 0x88: return push_new(m, (value){.kind = PICKLE_BOOL, .integer = 1});
    case 0x89: return push_new(m, (value){.kind = PICKLE_BOOL, .integer = 0});
    case 'I':
    case 'L': return push_digits(m);
    case 'J': return take_number(m, 4, &number) && push_int(m, (int32_t)(uint32_t)number);
    case 'K': return take_number(m, 1, &number) && push_int(m, (int64_t)number);
    case 'M': return take_number(m, 2, &number) && push_int(m, (int64_t)number);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'F':
    case 'G': return push_double(m);
    case 'S':
    case 'V': return push_escaped(m);
    case 'T':
    case 'X': return push_text(m, PICKLE_TEXT, 4);
    case 'U':
    case 0x8c: return push_text(m, PICKLE_TEXT, 1);
    case 0x8d: return push_text(m, PICKLE_TEXT, 8);
    case 'B': return push_text(m, PICKLE_BYTES, 4);
    case 'C': return push_text(m, PICKLE_BYTES, 1);
    case 0x8e:
    case 0x96: return push_text(m, PICKLE_BYTES, 8);
    case ']': return wrap(m, top, PICKLE_LIST);
    case ')': return wrap(m, top, PICKLE_TUPLE);
    case '}': return wrap(m, top, PICKLE_DICT);
    case 'l': return take_mark(m, &from) && wrap(m, from, PICKLE_LIST);
    case 't': return take_mark(m, &from) && wrap(m, from, PICKLE_TUPLE);
    case 'd': return take_mark(m, &from) && wrap(m, from, PICKLE_DICT);
    case 0x85:
    case 0x86:
    case 0x87: /* TUPLE1 to TUPLE3 */
        number = *(const uint8_t *)m->opcode - 0x84u;
        return top >= number ? wrap(m, top - number, PICKLE_TUPLE) : cut(m);
    case 'a': return top ? add_to(m, top - 1, PICKLE_LIST) : cut(m);
    case 's': return top >= 2 ? add_to(m, top - 2, PICKLE_DICT) : cut(m);
    case 'e': return take_mark(m, &from) && add_to(m, from, PICKLE_LIST);
    case 'u': return take_mark(m, &from) && add_to(m, from, PICKLE_DICT);
    case 'p': return memo_index(m, 0, &number) && put_memo(m, number);
    case 'q': return memo_index(m, 1, &number) && put_memo(m, number);
    case 'r': return memo_index(m, 4, &number) && put_memo(m, number);
    case 0x94: return put_memo(m, m->next_memo++);
    case 'g': return memo_index(m, 0, &number) && get_memo(m, number);
    case 'h': return memo_index(m, 1, &number) && get_memo(m, number);
    case 'j': return memo_index(m, 4, &number) && get_memo(m, number);
    case 'c': return refuse(m, "GLOBAL");
    case 0x93: return refuse(m, "STACK_GLOBAL");
    case 'R': return refuse(m, "REDUCE");
    case 'b': return refuse(m, "BUILD");
    case 0x81: return refuse(m, "NEWOBJ");
    case 0x92: return refuse(m, "NEWOBJ_EX");
    case 'i': return refuse(m, "INST");
    case 'o': return refuse(m, "OBJ");
    case 'P': return refuse(m, "PERSID");
    case 'Q': return refuse(m, "BINPERSID");
    case 0x82:
    case 0x83:
    case 0x84: return refuse(m, "EXT");
    case 0x8f:
    case 0x90:
    case 0x91: return refuse(m, "a set");
    case 0x97:
    case 0x98: return refuse(m, "a buffer outside the file");
    }
    return fail(m, STATUS_INPUT, "no opcode of a pickle");
}

enum { NOT_VISITED, OPEN, VISITED };

/* Refuses a value that contains itself, or that is nested too deeply. Sets its height. */
static bool check_heights(struct machine *m, value *item, int level)
{
    if (item->visited == OPEN) return fail(m, STATUS_INPUT, "a value contains itself; refused");
    if (item->visited == VISITED || item->kind < PICKLE_LIST) return true;
    if (level == PICKLE_DEPTH_MAX) return fail(m, STATUS_INPUT, "its values nest deeper than 200; refused");
    item->visited = OPEN;
    for (size_t i = 0; i < item->count; i++) {
        if (!check_heights(m, item->items[i], level + 1)) return false;
        if (item->items[i]->height >= item->height) item->height = (uint16_t)(item->items[i]->height + 1);
    }
    item->visited = VISITED;
    return item->height < PICKLE_DEPTH_MAX || fail(m, STATUS_INPUT, "its values nest deeper than 200; refused");
}

static bool run(struct machine *m)
{
    for (;;) {
        m->opcode = m->at;
        if (m->at == m->end) return cut(m);
        if (*m->at++ == '.') break;
        if (!run_opcode(m)) return false;
    }
    if (!depth(m)) return cut(m);
    value *root = *slot(m, depth(m) - 1);
    m->pickle->root = root;
    return check_heights(m, root, 0);
}

int pickle_read(struct pickle **out, const char *path, struct error *err)
{
    struct error own;
    struct pickle *pickle = calloc(1, sizeof *pickle);
    struct machine m = {.pickle = pickle, .err = err ? err : &own};
    *out = NULL;
    int status = pickle ? file_read(&pickle->bytes, &pickle->count, path, PICKLE_LARGEST_BYTES, true, m.err)
                        : error_set(m.err, STATUS_RUN, "no memory to read it");
    if (!status) {
        m.at = pickle->bytes;
        m.end = m.at + pickle->count;
        if (!run(&m)) status = m.err->status;
    }
    bytes_release(&m.stack);
    bytes_release(&m.marks);
    bytes_release(&m.memo);
    if (!status) return *out = pickle, STATUS_OK;
    pickle_free(pickle);
    return error_prefix(m.err, "%.200s", path);
}

void pickle_free(struct pickle *pickle)
{
    if (!pickle) return;
    for (struct chunk *chunk = pickle->chunks, *next; chunk; chunk = next) next = chunk->next, free(chunk);
    free(pickle->bytes);
    free(pickle);
}

const struct pickle_value *pickle_root(const struct pickle *pickle)
{
    return pickle->root;
}

uint64_t pickle_bytes(const struct pickle *pickle)
{
    return pickle->count;
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    if (!dict || dict->kind != PICKLE_DICT) return NULL;
    for (size_t i = dict->count; i; i -= 2)
        if (dict->items[i - 2]->kind == PICKLE_TEXT && foreign_is(dict->items[i - 2]->text, key))
            return dict->items[i - 1];
    return NULL;
}

bool pickle_integer(const struct pickle_value *item, int64_t *integer)
{
    if (!item || item->kind != PICKLE_INT) return false;
    *integer = item->integer;
    return true;
}
