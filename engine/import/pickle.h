/* Reads a Python pickle of plain data (protocols 0 to 5) into a tree, without running anything: what asks for a class, a
 * function or an object outside the file is refused by name. Opcodes: pickle_ops.def.
 *
 * The tree borrows the file's bytes and lives until pickle_free(). A value may be a member of several others, as in Python
 * (a DAG); one that contains itself is refused. So visit only members that you know: the paths of a DAG can be too many.
 * Memory: the file, and at most about 70 bytes for each of its bytes (a list of Nones); 4 in snapshots. */
#pragma once

#include "engine/base/error.h"
#include "engine/import/text.h"

enum { PICKLE_DEPTH_MAX = 200 };
#define PICKLE_LARGEST_BYTES ((size_t)4 << 30)

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,  /* integer is 0 or 1 */
    PICKLE_INT,   /* integer */
    PICKLE_LARGE, /* an integer beyond int64_t; text is its two's complement, or its digits in protocol 0 */
    PICKLE_DOUBLE,
    PICKLE_TEXT,  /* text, should be UTF-8 */
    PICKLE_BYTES, /* text */
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT, /* items are keys and values in turn */
};

struct pickle_value {
    uint8_t kind;    /* enum pickle_kind */
    uint8_t visited; /* the reader's own */
    uint16_t height; /* likewise */
    uint32_t room;   /* likewise */
    union {
        int64_t integer;
        double number;
        struct foreign_text text;
        struct { struct pickle_value **items; size_t count; };
    };
};

struct pickle {
    const struct pickle_value *root;
    size_t bytes; /* of the file */
    char *text;   /* the reader's own, and so is what follows */
    struct pickle_chunk *chunks;
};

/* STATUS_INPUT: the file cannot be read, is damaged, too long, or asks for code; STATUS_RUN: no memory. */
int pickle_read(struct pickle **out, const char *path, struct error *err);
void pickle_free(struct pickle *pickle);

/* The value of a key that is a text, the last of equal ones; NULL: no dict (or NULL), or no such key. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);
