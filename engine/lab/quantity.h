/* Numbers with units, as labs and learners type them: "5.3 MB", "25%", "198,272", "40 ms". GB: 1e9 bytes, GiB: 2^30. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Powers of the two units, bytes and seconds; both 0: a plain number. So bytes divided by bytes is a number, and
 * comparing bytes with seconds is an error when a lab is read. */
struct dimension { signed char bytes, seconds; };

struct quantity { double value; struct dimension dimension; }; /* in bytes and seconds */

struct unit_name { const char *name; double factor; struct dimension dimension; };

bool dimension_equal(struct dimension a, struct dimension b);
const char *dimension_name(struct dimension dimension); /* "bytes", "seconds", "a plain number", "bytes per second" ... */
/* If one of the two is a plain number and the other has a unit: "; write 4 bytes, not 4"; else "". */
const char *dimension_advice(struct dimension a, struct dimension b);

/* The unit at the start of `text`; *length is set to its letters. NULL: none. */
const struct unit_name *unit_at(const char *text, size_t *length);

/* Parses a whole line: a number and a unit; without one it is in `unit` (NULL: plain). x means "times": 1.5x. Commas
 * that group thousands are skipped (1,234.5e6); a single other one is a decimal point (1,5). False: not a quantity. */
bool quantity_read(struct quantity *out, const char *text, const struct unit_name *unit);
bool quantity_is_grouped(const char *text); /* whether it begins with a number in which commas group thousands */

/* Formats as "5.34 MB", "198,272", "25.0%" in `unit`, or (NULL) in a suitable one; `decimals` -1: by size. */
enum { QUANTITY_ROOM = 48 };
char *quantity_format(char out[QUANTITY_ROOM], struct quantity quantity, const struct unit_name *unit, int decimals);
