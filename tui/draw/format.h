/* Numbers as text: always with a unit, of fixed width so that columns do not jitter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/grouped.h"

enum units { UNITS_GB, UNITS_GIB, UNITS_BYTES, UNITS }; /* 10^9, 2^30, plain */

/* A text that a function returns. The pointer f().text is valid until the end of its statement; a caller that needs it for longer keeps the
 * struct. */
struct text { char text[160]; };
#define NO_TEXT ((struct text){""})
struct text text_of(const char *format, ...) __attribute__((format(printf, 1, 2))); /* cut to fit */
void text_add(struct text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *units_name(enum units units);
int bytes_columns(enum units units); /* width of what format_bytes() writes */

/* "123.4 MB", right-aligned in bytes_columns(); "n/a" where !known. */
struct text format_bytes(enum units units, bool known, uint64_t bytes);
/* The same without the padding. */
struct text format_bytes_bare(enum units units, uint64_t bytes);
/* "123 MB/s", "1.23 GB/s", at most 10 columns; UNITS_BYTES: as UNITS_GB. */
struct text format_rate(enum units units, double bytes_per_s);
bytes_writer *format_writer(enum units units); /* format_bytes_bare() in these units */
struct text format_time(uint64_t ns);          /* "123.4 ms", 8 columns */
struct text format_time_bare(uint64_t ns);     /* ... without the padding */
struct text format_count(uint64_t count);      /* "1,234,567" */
struct text format_short(uint64_t count);      /* "834.3 k", "1.234 M" */
