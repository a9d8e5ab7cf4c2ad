/* Takes JSON values off bytes in memory, without copying or building a tree.
 *
 * A function returns false where a value is wrong (`what` says how) or where the bytes end inside it (`what` is NULL); then
 * the caller reads more and begins again at the value's start. More lenient than JSON, as writers of traces need: the
 * words nan, inf, infinity in any case, raw control characters in strings, a comma after an
 * opening or before a closing bracket. */
#pragma once

#include "engine/import/text.h"

struct scan {
    const char *at, *end;
    const char *what; /* "a colon is missing after a key" */
};

/* Skips blanks; false at the end of the bytes. */
bool scan_blank(struct scan *scan);
/* The first byte that is not blank must be `c`; takes it. */
bool scan_sign(struct scan *scan, char c, const char *what);
/* Takes a value: of a string the inside of its quotes, of all others the whole text. */
bool scan_value(struct scan *scan, struct foreign_text *value, bool *is_string);
/* After an opening bracket (`first`) or an item: takes the comma, and the closing bracket if it is next; then *more is false. */
bool scan_next(struct scan *scan, char close, bool first, bool *more);
/* The same in an object, and takes the next member's key and its colon. */
bool scan_key(struct scan *scan, struct foreign_text *key, bool first, bool *more);
