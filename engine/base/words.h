/* Text put together in an array, and broken between words for pages of 80 columns. */
#ifndef ENGINE_BASE_WORDS_H
#define ENGINE_BASE_WORDS_H

#include <stdio.h>

/* Writes behind the text that stands in `text`; what `room` bytes do not hold is cut. */
void text_append(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

enum { PAGE_COLUMNS = 80 };

/* Over as many lines as it needs, and a newline: the first goes on at `column`, where the line stands; the others begin at `hang`.
 * A column is a byte. */
void words_print(FILE *out, int column, int hang, const char *text);

#endif
