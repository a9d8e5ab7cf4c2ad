#include "engine/import/scan.h"

#include <endian.h>
#include <strings.h>

static bool wrong(struct scan *scan, const char *what)
{
    scan->what = what;
    return false;
}

/* Bytes that end a number or a word: 1 for blanks, 2 for others. */
static const uint8_t stops[256] = {[' '] = 1, ['\n'] = 1, ['\t'] = 1, ['\r'] = 1, [','] = 2, [']'] = 2, ['}'] = 2};

static inline uint8_t stop(char c)
{
    return stops[(uint8_t)c];
}

bool scan_blank(struct scan *scan)
{
    const char *at = scan->at, *const end = scan->end;
    while (at < end && stop(*at) == 1) at++;
    scan->at = at;
    return at < end;
}

bool scan_sign(struct scan *scan, char c, const char *what)
{
    if (!scan_blank(scan)) return false;
    if (*scan->at != c) return wrong(scan, what);
    scan->at++;
    return true;
}

/* A bit of each byte of `word` that is zero, and perhaps of bytes above the lowest such (Hacker's Delight, section 6-1). */
static uint64_t zero_bytes(uint64_t word)
{
    return (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
}

/* Takes the rest of a string after its first quote: eight bytes at a time until a quote or a backslash is among them. */
static bool take_string(struct scan *scan, struct foreign_text *inside)
{
    const char *at = scan->at, *end = scan->end;
    for (;;) {
        uint64_t word, found = 0;
        for (; end - at >= 8; at += 8) {
            memcpy(&word, at, 8);
            word = htole64(word);
            if ((found = zero_bytes(word ^ 0x2222222222222222u) | zero_bytes(word ^ 0x5c5c5c5c5c5c5c5cu))) break;
        }
        if (found) at += __builtin_ctzll(found) / 8;
        else
            while (at < end && *at != '"' && *at != '\\') at++;
        if (at < end && *at == '"') break;
        if (end - at < 2) return false;
        at += 2;
    }
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
    const char *at = scan->at, *const end = scan->end;
    while (at < end && !stop(*at)) at++;
    if (at == end) return false;
    *value = (struct foreign_text){scan->at, (size_t)(at - scan->at)};
    scan->at = at;
    if (foreign_is_number(*value)) return true;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
        if (value->bytes == strlen(words[w]) && strncasecmp(value->at, words[w], value->bytes) == 0) return true;
    return wrong(scan, "a value is no JSON");
}

/* The next quote or bracket at or after `at`; `end`: none. Of eight bytes at a time: brackets, and a few letters, are 59 (hexadecimal) but
 * for the bits 02, 04 and 20. */
static const char *next_mark(const char *at, const char *end)
{
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        word = htole64(word);
        const uint64_t found =
            zero_bytes(word ^ 0x2222222222222222u) | zero_bytes((word & 0xd9d9d9d9d9d9d9d9u) ^ 0x5959595959595959u);
        if (found) return at + __builtin_ctzll(found) / 8;
    }
    return at;
}

/* Takes an object or an array as one text: its strings and brackets are looked at, what is between them when somebody reads it. */
static bool take_brackets(struct scan *scan, struct foreign_text *value)
{
    const char *const first = scan->at;
    bool is_object[SCAN_DEPTH_MAX];
    struct foreign_text inside;
    int depth = 0;
    do {
        const char *at = next_mark(scan->at, scan->end);
        if (at == scan->end) return false;
        const char c = *at;
        scan->at = at + 1;
        if (c == '"' && !take_string(scan, &inside)) return false;
        if (c == '{' || c == '[') {
            if (depth == SCAN_DEPTH_MAX) return wrong(scan, "brackets nest deeper than 256");
            is_object[depth++] = c == '{';
        } else if ((c == '}' || c == ']') && is_object[--depth] != (c == '}')) {
            return wrong(scan, "a bracket closes one of the other kind");
        }
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
