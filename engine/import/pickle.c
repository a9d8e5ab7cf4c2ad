#include "engine/import/pickle.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/file.h"

enum { MARK = UINT32_MAX }; /* on the stack, in place of a value's number */

struct machine {
    struct pickle *pickle;
    const char *at, *end, *opcode; /* opcode: where it lies */
    struct bytes stack, memo;      /* numbers of values */
    struct error *err;
};

/* All that follows fails with a line in `err`; false says so to the caller. */
static bool fail(struct machine *m, int status, const char *what)
{
    error_set(m->err, status, "byte %zu: %s", (size_t)(m->opcode - m->pickle->text), what);
    return false;
}

static bool cut(struct machine *m)
{
    return fail(m, STATUS_INPUT, "the pickle is cut off or damaged");
}

/* ---- the stack ---- */

static size_t depth(const struct bytes *numbers)
{
    return numbers->count / sizeof(uint32_t);
}

static uint32_t *slot(const struct bytes *numbers, size_t i)
{
    return (uint32_t *)(void *)numbers->at + i;
}

static bool push(struct machine *m, uint32_t number)
{
    return bytes_append(&m->stack, &number, sizeof number) || fail(m, STATUS_RUN, "no memory for its stack");
}

static bool push_new(struct machine *m, struct pickle_value value)
{
    struct pickle *pickle = m->pickle;
    if (pickle->count == PICKLE_VALUES_MAX) return fail(m, STATUS_INPUT, "it has more than 500 million values");
    if (!array_grow((void **)&pickle->values, pickle->count, &pickle->room, sizeof *pickle->values))
        return fail(m, STATUS_RUN, "no memory for its values");
    pickle->values[pickle->count] = value;
    return push(m, (uint32_t)pickle->count++);
}

static bool push_kind(struct machine *m, enum pickle_kind kind)
{
    return push_new(m, (struct pickle_value){.kind = kind, .members = {0}});
}

/* The place of the first of the `count` uppermost values, if there are so many above the last mark. */
static bool top_values(struct machine *m, size_t count, size_t *from)
{
    if (depth(&m->stack) < count) return cut(m);
    *from = depth(&m->stack) - count;
    for (size_t i = *from; i < depth(&m->stack); i++)
        if (*slot(&m->stack, i) == MARK) return cut(m);
    return true;
}

/* The place above the last mark. */
static bool above_mark(struct machine *m, size_t *from)
{
    for (*from = depth(&m->stack); *from && *slot(&m->stack, *from - 1) != MARK; --*from)
        ;
    return *from || cut(m);
}

/* Moves the values from `from` on into the container below them, and below their mark if there is one. */
static bool add_members(struct machine *m, enum pickle_kind kind, size_t from, bool marked)
{
    const size_t below = from - 1 - marked, bytes = m->stack.count - from * sizeof(uint32_t);
    if (from < 1u + marked || *slot(&m->stack, below) == MARK) return cut(m);
    struct pickle_value *to = &m->pickle->values[*slot(&m->stack, below)];
    if (to->kind != kind || (kind == PICKLE_DICT && bytes / sizeof(uint32_t) % 2)) return cut(m);
    if (!bytes_append(&to->members, slot(&m->stack, from), bytes))
        return fail(m, STATUS_RUN, "no memory for its values");
    m->stack.count = (below + 1) * sizeof(uint32_t);
    return true;
}

/* Replaces the values from `from` on, and their mark, by a list of them. */
static bool wrap(struct machine *m, size_t from, bool marked)
{
    struct bytes members = {0};
    if (!bytes_append(&members, slot(&m->stack, from), m->stack.count - from * sizeof(uint32_t)))
        return fail(m, STATUS_RUN, "no memory for its values");
    m->stack.count = (from - marked) * sizeof(uint32_t);
    if (push_new(m, (struct pickle_value){.kind = PICKLE_LIST, .members = members})) return true;
    bytes_release(&members);
    return false;
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

/* An integer of `bytes` bytes, in two's complement if it is signed. Beyond int64_t it is one that nobody needs. */
static bool push_integer(struct machine *m, uint64_t bytes, bool is_signed)
{
    uint64_t number = 0;
    if (bytes > (uint64_t)(m->end - m->at)) return cut(m);
    if (bytes > 8) return m->at += bytes, push_kind(m, PICKLE_OTHER);
    if (!take_number(m, (int)bytes, &number)) return false;
    if (is_signed && bytes && bytes < 8 && number >> (8 * bytes - 1)) number |= UINT64_MAX << 8 * bytes;
    return push_new(m, (struct pickle_value){.kind = PICKLE_INT, .integer = (int64_t)number});
}

/* Bytes after their count, which is a number of `width` bytes. */
static bool push_bytes(struct machine *m, enum pickle_kind kind, int width)
{
    uint64_t count;
    if (!take_number(m, width, &count)) return false;
    if (count > (uint64_t)(m->end - m->at)) return cut(m);
    m->at += count;
    return push_new(m, (struct pickle_value){.kind = kind, .text = {m->at - count, (size_t)count}});
}

/* ---- the memo ---- */

/* Writers number what they keep from 0 on. */
static bool put_memo(struct machine *m, uint64_t index)
{
    size_t top;
    if (!top_values(m, 1, &top)) return false;
    if (index > depth(&m->memo)) return cut(m);
    if (index == depth(&m->memo))
        return bytes_append(&m->memo, slot(&m->stack, top), sizeof(uint32_t)) ||
               fail(m, STATUS_RUN, "no memory for its memo");
    *slot(&m->memo, index) = *slot(&m->stack, top);
    return true;
}

static bool get_memo(struct machine *m, uint64_t index)
{
    return index < depth(&m->memo) ? push(m, *slot(&m->memo, index)) : cut(m);
}

/* ---- opcodes ---- */

/* An opcode that would run code, or makes no plain data. Of a class or a function the line says which. */
static bool refuse(struct machine *m)
{
    struct foreign_text text[2] = {{0}, {0}};
    char asked[2][80], what[300];
    size_t from;
    const uint8_t opcode = (uint8_t)*m->opcode;
    if (opcode == 0x93 && top_values(m, 2, &from)) /* STACK_GLOBAL */
        for (size_t n = 0; n < 2; n++) {
            const struct pickle_value *value = &m->pickle->values[*slot(&m->stack, from + n)];
            if (value->kind == PICKLE_TEXT) text[n] = value->text;
        }
    for (int n = 0; n < 2 && opcode == 'c'; n++) { /* GLOBAL: two lines */
        const char *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
        if (!end) return cut(m);
        text[n] = (struct foreign_text){m->at, (size_t)(end - m->at)};
        m->at = end + 1;
    }
    for (int n = 0; n < 2; n++) foreign_copy(text[n], false, asked[n], sizeof asked[n]);
    if (text[1].at)
        snprintf(what, sizeof what, "it asks for %s.%s; refused, because only plain data are read", asked[0], asked[1]);
    else snprintf(what, sizeof what, "opcode 0x%02x; refused, because only plain data are read", opcode);
    return fail(m, STATUS_INPUT, what);
}

/* Carries out the opcode that was just taken, of those that write plain data by CPython's Lib/pickletools.py. */
static bool run_opcode(struct machine *m)
{
    uint64_t n;
    size_t from;
    switch ((uint8_t)*m->opcode) {
    case 0x80: /* PROTO */
        return take_number(m, 1, &n) && (n <= 5 || fail(m, STATUS_INPUT, "a pickle's protocol above 5 is not known"));
    case 0x95: return take_number(m, 8, &n); /* FRAME */
    case '(': return push(m, MARK);
    case 'N':
    case 0x88:
    case 0x89: return push_kind(m, PICKLE_OTHER);                         /* NONE, NEWTRUE, NEWFALSE */
    case 'G': return take_number(m, 8, &n) && push_kind(m, PICKLE_OTHER); /* BINFLOAT */
    case 'K': return push_integer(m, 1, false);                           /* BININT1 */
    case 'M': return push_integer(m, 2, false);                           /* BININT2 */
    case 'J': return push_integer(m, 4, true);                            /* BININT */
    case 0x8a: return take_number(m, 1, &n) && push_integer(m, n, true);  /* LONG1 */
    case 0x8b: return take_number(m, 4, &n) && push_integer(m, n, true);  /* LONG4 */
    case 'U':
    case 0x8c: return push_bytes(m, PICKLE_TEXT, 1); /* SHORT_BINSTRING, SHORT_BINUNICODE */
    case 'T':
    case 'X': return push_bytes(m, PICKLE_TEXT, 4);  /* BINSTRING, BINUNICODE */
    case 0x8d: return push_bytes(m, PICKLE_TEXT, 8); /* BINUNICODE8 */
    case 'C': return push_bytes(m, PICKLE_OTHER, 1); /* SHORT_BINBYTES */
    case 'B': return push_bytes(m, PICKLE_OTHER, 4); /* BINBYTES */
    case 0x8e:
    case 0x96: return push_bytes(m, PICKLE_OTHER, 8); /* BINBYTES8, BYTEARRAY8 */
    case ']':
    case ')': return push_kind(m, PICKLE_LIST);                   /* EMPTY_LIST, EMPTY_TUPLE */
    case '}': return push_kind(m, PICKLE_DICT);                   /* EMPTY_DICT */
    case 't': return above_mark(m, &from) && wrap(m, from, true); /* TUPLE */
    case 0x85:
    case 0x86:
    case 0x87: /* TUPLE1 to TUPLE3 */
        return top_values(m, (size_t)(uint8_t)*m->opcode - 0x84, &from) && wrap(m, from, false);
    case 'a': return top_values(m, 1, &from) && add_members(m, PICKLE_LIST, from, false); /* APPEND */
    case 'e': return above_mark(m, &from) && add_members(m, PICKLE_LIST, from, true);     /* APPENDS */
    case 's': return top_values(m, 2, &from) && add_members(m, PICKLE_DICT, from, false); /* SETITEM */
    case 'u': return above_mark(m, &from) && add_members(m, PICKLE_DICT, from, true);     /* SETITEMS */
    case 'q': return take_number(m, 1, &n) && put_memo(m, n);                             /* BINPUT */
    case 'r': return take_number(m, 4, &n) && put_memo(m, n);                             /* LONG_BINPUT */
    case 0x94: return put_memo(m, depth(&m->memo));                                       /* MEMOIZE */
    case 'h': return take_number(m, 1, &n) && get_memo(m, n);                             /* BINGET */
    case 'j': return take_number(m, 4, &n) && get_memo(m, n);                             /* LONG_BINGET */
    }
    return refuse(m);
}

static bool run(struct machine *m)
{
    size_t top;
    do {
        m->opcode = m->at;
        if (m->at == m->end) return cut(m);
    } while (*m->at++ != '.' && run_opcode(m));
    if (*m->opcode != '.' || !top_values(m, 1, &top)) return false;
    m->pickle->root = &m->pickle->values[*slot(&m->stack, top)];
    return true;
}

int pickle_read(struct pickle *out, const char *path, struct error *err)
{
    struct error own;
    struct machine m = {.pickle = out, .err = err ? err : &own};
    *out = (struct pickle){0};
    int status = file_read(&out->text, &out->bytes, path, PICKLE_LARGEST_BYTES, true, m.err);
    if (!status) {
        m.at = out->text;
        m.end = m.at + out->bytes;
        if (!run(&m)) status = m.err->status;
    }
    bytes_release(&m.stack);
    bytes_release(&m.memo);
    if (!status) return STATUS_OK;
    pickle_release(out);
    return error_prefix(m.err, "%.200s", path);
}

void pickle_release(struct pickle *pickle)
{
    for (int v = 0; v < pickle->count; v++)
        if (pickle->values[v].kind >= PICKLE_LIST) bytes_release(&pickle->values[v].members);
    free(pickle->values);
    free(pickle->text);
    *pickle = (struct pickle){0};
}

size_t pickle_count(const struct pickle_value *value)
{
    return value && value->kind >= PICKLE_LIST ? depth(&value->members) : 0;
}

const struct pickle_value *pickle_member(const struct pickle *pickle, const struct pickle_value *value, size_t i)
{
    return &pickle->values[*slot(&value->members, i)];
}

const struct pickle_value *pickle_get(const struct pickle *pickle, const struct pickle_value *dict, const char *key)
{
    if (!dict || dict->kind != PICKLE_DICT) return NULL;
    for (size_t i = pickle_count(dict); i; i -= 2) {
        const struct pickle_value *name = pickle_member(pickle, dict, i - 2);
        if (name->kind == PICKLE_TEXT && foreign_is(name->text, key)) return pickle_member(pickle, dict, i - 1);
    }
    return NULL;
}
