/* Numbers as text. Four digits are kept: enough to see a shard's padding, few enough to read at a glance. */
#include "tui/draw/format.h"

#include <string.h>

#include "engine/base/words.h"

struct text text_of(const char *format, ...)
{
    struct text out;
    FORMAT_ARGUMENTS(out.text, sizeof out.text, format);
    return out;
}

void text_add(struct text *to, const char *format, ...)
{
    const size_t used = strlen(to->text);
    FORMAT_ARGUMENTS(to->text + used, sizeof to->text - used, format);
}

const char *units_name(enum units units)
{
    static const char *const names[] = {"GB = 10^9 bytes", "GiB = 2^30 bytes", "bytes"};
    return names[units];
}

int bytes_columns(enum units units)
{
    static const int columns[] = {8, 9, 17};
    return columns[units];
}

/* "1.234", "12.34", "123.4", or "1023" where four digits stand before the point. */
static int decimals(double value)
{
    return value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
}

static struct text scaled(double value, double base, const char *const names[], int count)
{
    int i = 0;
    double limit = base == 1000 ? 999.95 : 1023.5;
    while (i + 1 < count && value >= limit) value /= base, i++;
    return text_of("%.*f%s%s", i == 0 ? 0 : decimals(value), value, names[i][0] ? " " : "", names[i]);
}

struct text format_count(uint64_t count)
{
    struct text out;
    grouped(out.text, (int64_t)count);
    return out;
}

struct text format_bytes_bare(enum units units, uint64_t bytes)
{
    static const char *const decimal[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    if (units == UNITS_BYTES) return text_of("%s B", format_count(bytes).text);
    return scaled((double)bytes, units == UNITS_GB ? 1000 : 1024, units == UNITS_GB ? decimal : binary, 6);
}

static void in_gb(char out[32], uint64_t bytes)
{
    strcpy(out, format_bytes_bare(UNITS_GB, bytes).text);
}

static void in_gib(char out[32], uint64_t bytes)
{
    strcpy(out, format_bytes_bare(UNITS_GIB, bytes).text);
}

bytes_writer *format_writer(enum units units)
{
    static bytes_writer *const writers[UNITS] = {in_gb, in_gib, write_bytes};
    return writers[units];
}

struct text format_bytes(enum units units, bool known, uint64_t bytes)
{
    return text_of("%*s", bytes_columns(units), known ? format_bytes_bare(units, bytes).text : "n/a");
}

/* Three digits: a rate is not known better. */
struct text format_rate(enum units units, double bytes_per_s)
{
    static const char *const decimal[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    static const char *const binary[] = {"B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"};
    const double base = units == UNITS_GIB ? 1024 : 1000;
    int i = 0;
    while (i < 4 && bytes_per_s >= base - 0.5) bytes_per_s /= base, i++;
    const int decimals = i == 0 || bytes_per_s >= 99.95 ? 0 : bytes_per_s >= 9.995 ? 1 : 2;
    return text_of("%.*f %s", decimals, bytes_per_s, (units == UNITS_GIB ? binary : decimal)[i]);
}

struct text format_time_bare(uint64_t ns)
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    return scaled((double)ns, 1000, names, 4);
}

struct text format_time(uint64_t ns)
{
    return text_of("%8s", format_time_bare(ns).text);
}

struct text format_short(uint64_t count)
{
    static const char *const names[] = {"", "k", "M", "G", "T"};
    return scaled((double)count, 1000, names, 5);
}
