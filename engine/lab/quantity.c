#include "engine/lab/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"

#define BYTES   .dimension.bytes = 1
#define SECONDS .dimension.seconds = 1

static const struct dimension of_bytes = {1, 0}, of_seconds = {0, 1};

/* Longer names stand before those that they begin with. */
static const struct unit_name units[] = {
    {"bytes", 1, BYTES},
    {"KiB", 1024, BYTES},
    {"MiB", 1048576, BYTES},
    {"GiB", 1073741824, BYTES},
    {"TiB", 1099511627776, BYTES},
    {"KB", 1e3, BYTES},
    {"kB", 1e3, BYTES},
    {"MB", 1e6, BYTES},
    {"GB", 1e9, BYTES},
    {"TB", 1e12, BYTES},
    {"B", 1, BYTES},
    {"ns", 1e-9, SECONDS},
    {"us", 1e-6, SECONDS},
    {"ms", 1e-3, SECONDS},
    {"s", 1, SECONDS},
    {"%", 0.01, {0, 0}},
};
enum { UNITS_COUNT = sizeof units / sizeof *units };

bool dimension_equal(struct dimension a, struct dimension b)
{
    return a.bytes == b.bytes && a.seconds == b.seconds;
}

const char *dimension_name(struct dimension d)
{
    if (d.bytes == 0 && d.seconds == 0) return "a plain number";
    if (d.bytes == 1 && d.seconds == 0) return "bytes";
    if (d.bytes == 0 && d.seconds == 1) return "seconds";
    if (d.bytes == 1 && d.seconds == -1) return "bytes per second";
    return "of an unusual unit";
}

const char *dimension_advice(struct dimension a, struct dimension b)
{
    const struct dimension plain = {0, 0};
    if (!dimension_equal(a, plain) && !dimension_equal(b, plain)) return "";
    if (dimension_equal(a, of_bytes) || dimension_equal(b, of_bytes)) return "; write 4 bytes, not 4";
    return dimension_equal(a, of_seconds) || dimension_equal(b, of_seconds) ? "; write 5 ms, not 5" : "";
}

const struct unit_name *unit_at(const char *text, size_t *length)
{
    for (int u = 0; u < UNITS_COUNT; u++) {
        *length = strlen(units[u].name);
        if (strncmp(text, units[u].name, *length) == 0 && !isalnum((unsigned char)text[*length])) return &units[u];
    }
    return NULL;
}

/* Commas group thousands where each stands after one to three digits that are not 0 alone, and before exactly three. */
static bool commas_group(const char *text, size_t length)
{
    size_t digits = strspn(text, "+-") < length ? strspn(text, "+-") : length;
    const size_t first = strspn(text + digits, "0123456789");
    if (first < 1 || first > 3 || text[digits] == '0') return false;
    for (digits += first; digits < length && text[digits] == ','; digits += 4)
        if (strspn(text + digits + 1, "0123456789") != 3) return false;
    return !memchr(text + digits, ',', length - digits);
}

/* Digits as strtod() takes them: without the commas that group them; another single comma is a decimal point. False: neither. */
static bool plain_digits(char *out, size_t room, const char *text, size_t length)
{
    size_t used = 0;
    const char *comma = memchr(text, ',', length);
    const bool groups = comma && commas_group(text, length);
    const bool other =
        comma && (memchr(comma + 1, ',', length - (size_t)(comma + 1 - text)) || memchr(text, '.', length));
    if (length >= room || (!groups && other)) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ',' && groups) continue;
        out[used++] = text[i] == ',' ? '.' : text[i];
    }
    out[used] = '\0';
    return used > 0;
}

bool quantity_is_grouped(const char *text)
{
    const size_t length = strspn(text, "0123456789.,-+");
    return memchr(text, ',', length) && commas_group(text, length);
}

bool quantity_read(struct quantity *out, const char *text, const struct unit_name *unit)
{
    char digits[64], *end;
    size_t length;
    text += strspn(text, " \t");
    size_t number = strspn(text, "0123456789.,-+");
    if (tolower((unsigned char)text[number]) == 'e' && number) { /* an exponent, not a unit */
        size_t sign = strspn(text + number + 1, "+-"), power = strspn(text + number + 1 + sign, "0123456789");
        if (power) number += 1 + sign + power;
    }
    if (!plain_digits(digits, sizeof digits, text, number)) return false;
    double value = strtod(digits, &end);
    if (*end || !isfinite(value)) return false;
    text += number;
    text += strspn(text, " \t");
    static const struct unit_name times = {"x", 1, {0, 0}}; /* "1.5x" */
    const struct unit_name *own = unit_at(text, &length);
    if (!own && (*text == 'x' || *text == 'X')) own = &times, length = 1;
    if (own) text += length;
    text += strspn(text, " \t\r\n");
    if (*text) return false;
    if (!own) own = unit;
    *out = (struct quantity){own ? value * own->factor : value, own ? own->dimension : (struct dimension){0, 0}};
    return true;
}

static const struct unit_name *suiting(struct quantity q)
{
    static const char *const bytes[] = {"TB", "GB", "MB", "kB", "bytes", NULL};
    static const char *const times[] = {"s", "ms", "us", NULL};
    const struct unit_name *unit = NULL;
    const bool is_bytes = dimension_equal(q.dimension, of_bytes);
    size_t length;
    if (!is_bytes && !dimension_equal(q.dimension, of_seconds)) return NULL;
    for (const char *const *name = is_bytes ? bytes : times; *name && !(unit && fabs(q.value) >= unit->factor); name++)
        unit = unit_at(*name, &length);
    return unit;
}

static int telling_decimals(double shown)
{
    double size = fabs(shown);
    if (size == floor(size) || size >= 1000) return 0;
    return size >= 100 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
}

char *quantity_format(char out[QUANTITY_ROOM], struct quantity quantity, const struct unit_name *unit, int decimals)
{
    if (!unit) unit = suiting(quantity);
    double shown = unit ? quantity.value / unit->factor : quantity.value;
    if (unit && unit->factor < 1e-2 && fabs(shown - round(shown)) < 1e-9) shown = round(shown);
    if (!(fabs(shown) < 1e18)) {
        snprintf(out, QUANTITY_ROOM, "%g", shown);
        return out;
    }
    if (decimals < 0) decimals = telling_decimals(shown);
    char number[QUANTITY_ROOM * 2], whole[32];
    snprintf(number, sizeof number, "%.*f", decimals > 9 ? 9 : decimals, shown);
    const char *sign = *number == '-' ? "-" : "", *digits = number + strlen(sign);
    const char *gap = unit && *unit->name != '%' ? " " : "", *fraction = digits + strspn(digits, "0123456789");
    snprintf(out, QUANTITY_ROOM, "%s%.26s%.10s%s%s", sign, grouped(whole, strtoll(digits, NULL, 10)), fraction, gap,
             unit ? unit->name : "");
    return out;
}
