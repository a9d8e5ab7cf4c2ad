#include "engine/import/text.h"

#include "engine/base/utf8.h"

enum { REPLACEMENT = 0xfffd };

/* ---- characters ---- */

/* Writes a code point as UTF-8; returns its bytes, 1 to 4. */
static int put(char out[4], uint32_t code)
{
    const int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = bytes - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(first[bytes] | code);
    return bytes;
}

/* The value of four hexadecimal digits; -1 if there are fewer. */
static int64_t hex(const char *at, const char *end)
{
    int64_t value = 0;
    for (int digits = 4; digits--; at++) {
        const char *found = at < end && *at ? strchr("0123456789abcdef0123456789ABCDEF", *at) : NULL;
        if (!found) return -1;
        value = value << 4 | (*found <= '9' ? *found - '0' : (*found | 0x20) - 'a' + 10);
    }
    return value;
}

/* Takes the escape whose backslash is before *at. */
static uint32_t take_escape(const char **at, const char *end)
{
    static const char letters[] = "bfnrt\"\\/", meanings[] = "\b\f\n\r\t\"\\/";
    if (*at == end) return REPLACEMENT;
    const char letter = *(*at)++, *found = letter ? strchr(letters, letter) : NULL;
    if (found) return (unsigned char)meanings[found - letters];
    const int64_t code = letter == 'u' ? hex(*at, end) : -1;
    if (code < 0) return REPLACEMENT;
    *at += 4;
    if (code < 0xd800 || code >= 0xe000) return (uint32_t)code;
    const bool pairs = code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u';
    const int64_t low = pairs ? hex(*at + 2, end) : -1;
    if (low < 0xdc00 || low >= 0xe000) return REPLACEMENT;
    *at += 6;
    return (uint32_t)(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
}

size_t foreign_copy(struct foreign_text text, bool escaped, char *out, size_t room)
{
    const char *at = text.at, *end = at ? at + text.bytes : at;
    size_t written = 0;
    while (at < end) {
        char character[4];
        const bool escape = escaped && *at == '\\';
        if (escape) at++;
        uint32_t code = escape ? take_escape(&at, end) : utf8_take(&at, end);
        if (code < ' ' || (code >= 0x7f && code < 0xa0)) code = REPLACEMENT;
        const int bytes = put(character, code);
        if (written + (size_t)bytes >= room) break;
        memcpy(out + written, character, (size_t)bytes);
        written += (size_t)bytes;
    }
    out[written] = '\0';
    return written;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The parts of a JSON number. Leading zeros, which JSON forbids, are permitted. */
struct decimal {
    bool negative;
    const char *whole, *fraction; /* their digits */
    int64_t wholes, fractions, exponent;
};

static bool split(struct foreign_text text, struct decimal *decimal)
{
    const char *at = text.at, *end = at + text.bytes;
    *decimal = (struct decimal){.negative = at < end && *at == '-'};
    at += decimal->negative;
    for (decimal->whole = at; at < end && is_digit(*at); at++) decimal->wholes++;
    if (!decimal->wholes) return false;
    if (at < end && *at == '.') {
        for (decimal->fraction = ++at; at < end && is_digit(*at); at++) decimal->fractions++;
        if (!decimal->fractions) return false;
    }
    if (at < end && (*at | 0x20) == 'e') {
        const bool down = ++at < end && *at == '-';
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (at == end) return false;
        for (; at < end && is_digit(*at); at++) /* more than 10^15 changes nothing: no text has as many digits */
            if (decimal->exponent < (int64_t)1e15) decimal->exponent = 10 * decimal->exponent + (*at - '0');
        if (down) decimal->exponent = -decimal->exponent;
    }
    return at == end;
}

bool foreign_is_number(struct foreign_text text)
{
    struct decimal decimal;
    return split(text, &decimal);
}

static char digit_of(const struct decimal *decimal, int64_t i)
{
    return (char)((i < decimal->wholes ? decimal->whole[i] : decimal->fraction[i - decimal->wholes]) - '0');
}

enum foreign_number foreign_scaled(struct foreign_text text, int scale, int64_t *value)
{
    struct decimal decimal;
    uint64_t sum = 0;
    if (!split(text, &decimal)) return FOREIGN_NO_NUMBER;
    const int64_t digits = decimal.wholes + decimal.fractions;
    const int64_t point = decimal.wholes + decimal.exponent + scale; /* so many digits stand before the point */
    for (int64_t i = 0; i < point && (i < digits || sum); i++)
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, i < digits ? (uint64_t)digit_of(&decimal, i) : 0, &sum) || sum > INT64_MAX)
            return FOREIGN_OUT_OF_RANGE;
    if (point >= 0 && point < digits && digit_of(&decimal, point) >= 5 && sum++ == INT64_MAX)
        return FOREIGN_OUT_OF_RANGE;
    *value = decimal.negative ? -(int64_t)sum : (int64_t)sum;
    return FOREIGN_NUMBER;
}

bool foreign_integer(struct foreign_text text, int64_t *value)
{
    struct decimal decimal;
    if (!text.at || !split(text, &decimal)) return false;
    const int64_t point = decimal.wholes + decimal.exponent;
    for (int64_t i = point < 0 ? 0 : point; i < decimal.wholes + decimal.fractions; i++)
        if (digit_of(&decimal, i)) return false;
    return foreign_scaled(text, 0, value) == FOREIGN_NUMBER;
}
