/* Numbers as text. Four digits are kept: enough to see a shard's padding, few enough to read at a glance. */
#include "tui/draw/format.h"

#include <stdio.h>
#include <string.h>

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

static void scaled(char *out, double value, double base, const char *const names[], int count)
{
    int i = 0;
    double limit = base == 1000 ? 999.95 : 1023.5;
    while (i + 1 < count && value >= limit) value /= base, i++;
    snprintf(out, FORMAT_ROOM, "%.*f%s%s", i == 0 ? 0 : decimals(value), value, names[i][0] ? " " : "", names[i]);
}

char *format_count(char out[FORMAT_ROOM], uint64_t count)
{
    grouped(out, (int64_t)count);
    return out;
}

char *format_bytes_bare(char out[FORMAT_ROOM], enum units units, uint64_t bytes)
{
    static const char *const decimal[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    static const char *const binary[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    if (units == UNITS_BYTES) strcat(format_count(out, bytes), " B");
    else scaled(out, (double)bytes, units == UNITS_GB ? 1000 : 1024, units == UNITS_GB ? decimal : binary, 6);
    return out;
}

static void in_gb(char out[FORMAT_ROOM], uint64_t bytes)
{
    format_bytes_bare(out, UNITS_GB, bytes);
}

static void in_gib(char out[FORMAT_ROOM], uint64_t bytes)
{
    format_bytes_bare(out, UNITS_GIB, bytes);
}

static void in_bytes(char out[FORMAT_ROOM], uint64_t bytes)
{
    format_bytes_bare(out, UNITS_BYTES, bytes);
}

bytes_writer *format_writer(enum units units)
{
    static bytes_writer *const writers[UNITS] = {in_gb, in_gib, in_bytes};
    return writers[units];
}

static char *pad_left(char out[FORMAT_ROOM], int columns)
{
    int length = (int)strlen(out), blanks = columns - length;
    if (blanks <= 0) return out;
    memmove(out + blanks, out, (size_t)length + 1);
    return memset(out, ' ', (size_t)blanks);
}

char *format_bytes(char out[FORMAT_ROOM], enum units units, bool known, uint64_t bytes)
{
    if (known) format_bytes_bare(out, units, bytes);
    else strcpy(out, "n/a");
    return pad_left(out, bytes_columns(units));
}

/* Three digits: a rate is not known better. */
char *format_rate(char out[FORMAT_ROOM], enum units units, double bytes_per_s)
{
    static const char *const decimal[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    static const char *const binary[] = {"B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"};
    const double base = units == UNITS_GIB ? 1024 : 1000;
    int i = 0;
    while (i < 4 && bytes_per_s >= base - 0.5) bytes_per_s /= base, i++;
    const int decimals = i == 0 || bytes_per_s >= 99.95 ? 0 : bytes_per_s >= 9.995 ? 1 : 2;
    snprintf(out, FORMAT_ROOM, "%.*f %s", decimals, bytes_per_s, (units == UNITS_GIB ? binary : decimal)[i]);
    return out;
}

char *format_time_bare(char out[FORMAT_ROOM], uint64_t ns)
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    scaled(out, (double)ns, 1000, names, 4);
    return out;
}

char *format_time(char out[FORMAT_ROOM], uint64_t ns)
{
    return pad_left(format_time_bare(out, ns), 8);
}

char *format_short(char out[FORMAT_ROOM], uint64_t count)
{
    static const char *const names[] = {"", "k", "M", "G", "T"};
    scaled(out, (double)count, 1000, names, 5);
    return out;
}
