#include "engine/config/number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { EXPONENT_MAX = 100000 }; /* far past any number here; keeps the sum of digits and exponent in an int */

static size_t digits(const char *text)
{
    size_t count = 0;
    while (isdigit((unsigned char)text[count])) count++;
    return count;
}

size_t number_length(const char *text)
{
    size_t at = text[0] == '-';
    size_t whole = digits(text + at);
    if (whole == 0 || (whole > 1 && text[at] == '0')) return 0;
    at += whole;
    if (text[at] == '.') {
        size_t fraction = digits(text + at + 1);
        if (fraction == 0) return 0;
        at += 1 + fraction;
    }
    if (text[at] == 'e' || text[at] == 'E') {
        size_t sign = text[at + 1] == '+' || text[at + 1] == '-';
        size_t exponent = digits(text + at + 1 + sign);
        if (exponent > 0) at += 1 + sign + exponent;
    }
    return at;
}

static int exponent_of(const char *text)
{
    if (*text != 'e' && *text != 'E') return 0;
    long exponent = strtol(text + 1, NULL, 10);
    return (int)(exponent > EXPONENT_MAX ? EXPONENT_MAX : exponent < -EXPONENT_MAX ? -EXPONENT_MAX : exponent);
}

/* Digits are taken one by one, the point set aside, up to where the exponent puts it; the rest must be zeros. */
bool number_integer(const char *text, bool *negative, uint64_t *magnitude)
{
    *negative = text[0] == '-';
    const char *mantissa = text + *negative;
    size_t length = strspn(mantissa, "0123456789.");
    long left = (long)digits(mantissa) + exponent_of(mantissa + length);
    *magnitude = 0;
    for (size_t i = 0; i < length; i++) {
        if (mantissa[i] == '.') continue;
        unsigned digit = (unsigned)(mantissa[i] - '0');
        if (left-- <= 0) {
            if (digit != 0) return false;
            continue;
        }
        if (__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude)) return false;
        if (__builtin_add_overflow(*magnitude, (uint64_t)digit, magnitude)) return false;
    }
    for (; left > 0 && *magnitude != 0; left--)
        if (__builtin_mul_overflow(*magnitude, (uint64_t)10, magnitude)) return false;
    return true;
}

struct unit {
    const char *name;
    double factor;
};

/* Those after "" are for reading only. */
static const struct unit byte_units[] = {
    {"TB", 1e12},    {"GiB", 0x1p30}, {"GB", 1e9}, {"MiB", 0x1p20}, {"MB", 1e6},
    {"KiB", 0x1p10}, {"KB", 1e3},     {"", 1},     {"B", 1},        {"TiB", 0x1p40},
    {NULL, 0},
};
static const struct unit second_units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"", 1}, {NULL, 0}};

/* Splits "1.5 GB" into its number and its unit's factor. */
static bool split(const char *text, const struct unit *units, double *factor)
{
    size_t length = number_length(text);
    if (length == 0) return false;
    const char *name = text + length + strspn(text + length, " ");
    for (; units->name; units++)
        if (strcasecmp(name, units->name) == 0) {
            *factor = units->factor;
            return true;
        }
    return false;
}

bool number_bytes(const char *text, uint64_t *bytes)
{
    double factor;
    bool negative;
    if (!split(text, byte_units, &factor)) return false;
    if (number_integer(text, &negative, bytes)) {
        if (negative) return *bytes == 0;
        return !__builtin_mul_overflow(*bytes, (uint64_t)factor, bytes);
    }
    double value = strtod(text, NULL) * factor;
    if (!(value >= 0 && value < 0x1p64)) return false;
    *bytes = (uint64_t)value;
    return true;
}

bool number_seconds(const char *text, double *seconds)
{
    double factor;
    if (!split(text, second_units, &factor)) return false;
    *seconds = strtod(text, NULL) * factor;
    return *seconds >= 0 && *seconds <= 1e9;
}

bool number_show(char *text, size_t room, double value, bool seconds)
{
    for (const struct unit *unit = seconds ? second_units : byte_units; *unit->name && value > 0; unit++) {
        const double whole = round(value / unit->factor);
        if (whole < 1 || fabs(whole * unit->factor - value) > 1e-12 * value) continue;
        return snprintf(text, room, "%.0f%s", whole, unit->name), true;
    }
    return false;
}
