/* Reads a Python pickle of plain data (protocols 2 to 5) into values, without running anything. A pickle that asks for a class, a function
 * or an object outside the file is refused.
 *
 * Values borrow the file's bytes and live until pickle_release(). A value may be a member of several others, as in Python, and even of
 * itself. So visit only members that you know, and count the visits: the paths can be too many. Memory: the file, and at most about 100
 * bytes for each of its bytes (a list of Nones). */
#pragma once

#include "engine/base/bytes.h"
#include "engine/base/error.h"
#include "engine/import/text.h"

#define PICKLE_LARGEST_BYTES ((size_t)4 << 30)
enum { PICKLE_VALUES_MAX = 1 << 29 };

enum pickle_kind {
    PICKLE_OTHER, /* None, a bool, a double, bytes, an integer beyond int64_t: nobody needs its value */
    PICKLE_INT,
    PICKLE_TEXT, /* should be UTF-8 */
    PICKLE_LIST, /* or a tuple */
    PICKLE_DICT, /* its members are keys and values in turn */
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer;
        struct foreign_text text;
        struct bytes members; /* indices in pickle.values, uint32_t each */
    };
};

struct pickle {
    struct pickle_value *values;
    int count, room;
    const struct pickle_value *root;
    char *text; /* the file's bytes */
    size_t bytes;
};

/* STATUS_INPUT: the file cannot be read, is damaged, too long, or asks for code; STATUS_RUN: no memory. Then *out is empty. */
int pickle_read(struct pickle *out, const char *path, struct error *err);
void pickle_release(struct pickle *pickle);

/* Number of members of a list or dict (keys and values each count); 0 for any other value, or NULL. */
size_t pickle_count(const struct pickle_value *value);
const struct pickle_value *pickle_member(const struct pickle *pickle, const struct pickle_value *value, size_t i);
/* The value of a key that is a text, the last of equal ones; NULL: no dict (or NULL), or no such key. */
const struct pickle_value *pickle_get(const struct pickle *pickle, const struct pickle_value *dict, const char *key);
