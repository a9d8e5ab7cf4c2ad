/* Strings of a foreign file: where they lie, what they say as clean UTF-8, and decimal numbers without rounding by a double.
 *
 * A foreign_text borrows bytes of a reader's memory; the reader says how long they stay valid. It may hold any bytes, NUL too. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct foreign_text { const char *at; size_t bytes; }; /* at is NULL: there is none */

static inline bool foreign_is(struct foreign_text text, const char *word)
{
    const size_t bytes = strlen(word);
    return text.bytes == bytes && text.at && memcmp(text.at, word, bytes) == 0;
}

/* Writes a text as UTF-8 that ends with a NUL, cut at a whole character to fit `room` (at least 1); returns the bytes before
 * the NUL. U+FFFD replaces each control character and each byte that is not UTF-8. `escaped`: the text is the inside of a
 * JSON string, with a byte before and after it (the quotes). If one escape is wrong or stands for NUL, all escapes of the text stay as
 * they are. */
size_t foreign_copy(struct foreign_text text, bool escaped, char *out, size_t room);

/* A JSON number times 10^scale as an integer. Digits beyond are rounded to the nearest integer, halves away from zero. A number with an
 * exponent goes through a double. */
enum foreign_number { FOREIGN_NUMBER, FOREIGN_NO_NUMBER, FOREIGN_OUT_OF_RANGE };
enum foreign_number foreign_scaled(struct foreign_text text, int scale, int64_t *value);
/* False: the text is no integer that an int64_t holds (7.5; but 7.0 is one, and 1e3, below 1e16). */
bool foreign_integer(struct foreign_text text, int64_t *value);
