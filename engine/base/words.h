/* Appends formatted text in an array, compares the ends of texts, and prints text broken between words at 80 columns. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Appends formatted text to the string in `text`, cut to `room` bytes in all. */
void text_append(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Whether a text ends with `ending`, or equals it. */
bool text_ends_in(const char *text, const char *ending);

/* Formats the variable arguments that follow the parameter `format` of the surrounding function into `out`. */
#define FORMAT_ARGUMENTS(out, room, format)                                                                            \
    do {                                                                                                               \
        va_list arguments_;                                                                                            \
        va_start(arguments_, format);                                                                                  \
        vsnprintf(out, room, format, arguments_);                                                                      \
        va_end(arguments_);                                                                                            \
    } while (0)

enum { PAGE_COLUMNS = 80 };

/* Prints text on as many lines as it needs, then a newline. The first line continues at `column`, where the caller's
 * output ended; the other lines begin at `hang`. One byte counts as one column. */
void words_print(FILE *out, int column, int hang, const char *text);
