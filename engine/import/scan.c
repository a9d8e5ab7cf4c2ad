#include "engine/import/scan.h"

#include <strings.h>

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

bool scan_blank(struct scan *scan)
{
    while (scan->at < scan->end && signs[(uint8_t)*scan->at] & BLANK) scan->at++;
    return scan->at < scan->end;
}

bool scan_sign(struct scan *scan, char c, const char *what)
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

bool scan_next(struct scan *scan, char close, bool first, bool *more)
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

bool scan_key(struct scan *scan, struct foreign_text *key, bool first, bool *more)
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
    if (at == scan->end) return false;
    *value = (struct foreign_text){scan->at, (size_t)(at - scan->at)};
    scan->at = at;
    if (strspn(value->at, "0123456789+-.eE") == value->bytes && value->at[value->bytes - 1] <= '9' &&
        value->at[value->bytes - 1] >= '0')
        return true; /* it is looked at when somebody reads it */
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (value->bytes == strlen(words[w]) && strncasecmp(value->at, words[w], value->bytes) == 0) return true;
    return wrong(scan, "a value is no JSON");
}

/* Takes an object or an array as one text: its strings and brackets are looked at, what is between them when somebody reads it. */
static bool take_brackets(struct scan *scan, struct foreign_text *value)
{
    const char *const first = scan->at;
    struct foreign_text inside;
    int depth = 0;
    do {
        const char *at = next_of(scan->at, scan->end, MARK);
        if (at == scan->end) return false;
        scan->at = at + 1;
        if (*at == '"' && !take_string(scan, &inside)) return false;
        if (*at != '"') depth += *at == '{' || *at == '[' ? 1 : -1;
    } while (depth);
    *value = (struct foreign_text){first, (size_t)(scan->at - first)};
    return true;
}

bool scan_value(struct scan *scan, struct foreign_text *value, bool *is_string)
{
    if (!scan_blank(scan)) return false;
    *is_string = *scan->at == '"';
    if (*is_string) return scan->at++, take_string(scan, value);
    return *scan->at == '{' || *scan->at == '[' ? take_brackets(scan, value) : take_word(scan, value);
}
