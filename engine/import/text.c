#include "engine/import/text.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/json.h"
#include "engine/base/utf8.h"

/* ---- characters ---- */

static size_t copy_clean(struct foreign_text text, char *out, size_t room)
{
    const char *at = text.at, *end = at ? at + text.bytes : at;
    size_t written = 0;
    while (at < end) {
        const char *from = at;
        const uint32_t code = utf8_take(&at, end);
        const bool clean = code != 0xfffd && code >= ' ' && !(code >= 0x7f && code < 0xa0);
        const size_t bytes = clean ? (size_t)(at - from) : 3;
        if (written + bytes >= room) break;
        memcpy(out + written, clean ? from : "\xef\xbf\xbd", bytes);
        written += bytes;
    }
    out[written] = '\0';
    return written;
}

/* False: one is damaged, or says NUL, which would end the text. The quote behind the text ends the last one's digits. */
static bool escapes_are_good(struct foreign_text text)
{
    for (size_t i = 0; i + 1 < text.bytes; i += 1 + (text.at[i] == '\\')) {
        const char *digits = text.at + i + 2;
        if (text.at[i] != '\\' || text.at[i + 1] != 'u') continue;
        if (strspn(digits, "0123456789abcdefABCDEF") < 4 || !memcmp(digits, "0000", 4)) return false;
    }
    return true;
}

size_t foreign_copy(struct foreign_text text, bool escaped, char *out, size_t room)
{
    const bool plain = !escaped || !text.bytes || !memchr(text.at, '\\', text.bytes) || !escapes_are_good(text);
    cJSON *json = plain ? NULL : cJSON_ParseWithLength(text.at - 1, text.bytes + 2);
    const char *said = cJSON_GetStringValue(json);
    const size_t bytes = copy_clean(said ? (struct foreign_text){said, strlen(said)} : text, out, room);
    cJSON_Delete(json);
    return bytes;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum foreign_number by_double(struct foreign_text text, int scale, int64_t *value)
{
    char copy[64], *end;
    if (text.bytes >= sizeof copy) return FOREIGN_NO_NUMBER;
    memcpy(copy, text.at, text.bytes);
    copy[text.bytes] = '\0';
    const double number = strtod(copy, &end) * pow(10, scale);
    if (*end) return FOREIGN_NO_NUMBER;
    if (!(fabs(number) < 9e18)) return FOREIGN_OUT_OF_RANGE;
    *value = llround(number);
    return FOREIGN_NUMBER;
}

enum foreign_number foreign_scaled(struct foreign_text text, int scale, int64_t *value)
{
    const char *at = text.at, *end = at + text.bytes;
    const bool negative = at < end && *at == '-';
    uint64_t sum = 0;
    int places = -1; /* digits behind the point; -1: there was none yet. The first beyond the scale rounds */
    at += negative;
    if (at == end || !is_digit(*at)) return FOREIGN_NO_NUMBER;
    for (; at < end && (is_digit(*at) || (*at == '.' && places < 0)); at++) {
        const bool counts = *at != '.' && places < scale;
        if (counts &&
            (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*at - '0'), &sum)))
            return FOREIGN_OUT_OF_RANGE;
        if (*at != '.' && places == scale && sum <= INT64_MAX) sum += *at >= '5';
        places += *at == '.' || places >= 0;
    }
    for (places += places < 0; places < scale; places++)
        if (__builtin_mul_overflow(sum, 10, &sum)) return FOREIGN_OUT_OF_RANGE;
    if (at < end) return (*at | 0x20) == 'e' ? by_double(text, scale, value) : FOREIGN_NO_NUMBER;
    if (end[-1] == '.') return FOREIGN_NO_NUMBER;
    if (sum > INT64_MAX) return FOREIGN_OUT_OF_RANGE;
    *value = negative ? -(int64_t)sum : (int64_t)sum;
    return FOREIGN_NUMBER;
}

bool foreign_integer(struct foreign_text text, int64_t *value)
{
    int64_t whole, thousandths;
    if (!text.at || foreign_scaled(text, 0, value) != FOREIGN_NUMBER) return false;
    if (memchr(text.at, 'e', text.bytes) || memchr(text.at, 'E', text.bytes))
        return foreign_scaled(text, 3, &thousandths) == FOREIGN_NUMBER &&
               !__builtin_mul_overflow(*value, INT64_C(1000), &whole) && whole == thousandths;
    const char *end = text.at + text.bytes, *at = memchr(text.at, '.', text.bytes);
    for (at = at ? at + 1 : end; at < end; at++)
        if (*at != '0') return false;
    return true;
}
