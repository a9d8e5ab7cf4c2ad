/* Numbers as text: always with a unit, of fixed width so that columns do not jitter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/grouped.h"

enum units { UNITS_GB, UNITS_GIB, UNITS_BYTES, UNITS }; /* 10^9, 2^30, plain */

enum { FORMAT_ROOM = 32 };

const char *units_name(enum units units);
int bytes_columns(enum units units); /* width of what format_bytes() writes */

/* "123.4 MB", right-aligned in bytes_columns(); "n/a" where !known. Returns out. */
char *format_bytes(char out[FORMAT_ROOM], enum units units, bool known, uint64_t bytes);
/* The same without the padding. */
char *format_bytes_bare(char out[FORMAT_ROOM], enum units units, uint64_t bytes);
/* "123 MB/s", "1.23 GB/s", at most 10 columns; plain bytes as 10^9. */
char *format_rate(char out[FORMAT_ROOM], enum units units, double bytes_per_s);
bytes_writer *format_writer(enum units units); /* format_bytes_bare() in these units */
char *format_time(char out[FORMAT_ROOM], uint64_t ns);     /* "123.4 ms", 8 columns */
char *format_time_bare(char out[FORMAT_ROOM], uint64_t ns); /* ... without the padding */
char *format_count(char out[FORMAT_ROOM], uint64_t count); /* "1,234,567" */
char *format_short(char out[FORMAT_ROOM], uint64_t count); /* "834.3 k", "1.234 M" */
