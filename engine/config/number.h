/* Parses numbers from their text. cJSON keeps doubles, which lose integers past 2^53. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the JSON number at the head of text, 0 if there is none. */
size_t number_length(const char *text);

/* The integer value of a JSON number ("5e8", "-3", "1.5e1"); false if it has a fraction or its magnitude exceeds 2^64 - 1. */
bool number_integer(const char *text, bool *negative, uint64_t *magnitude);

/* A JSON number with an optional unit: bytes ("256MiB", "1.5GB"), and seconds ("20us"). False if it is neither. */
bool number_bytes(const char *text, uint64_t *bytes);
bool number_seconds(const char *text, double *seconds);

/* Writes a number of bytes, or of seconds, in the largest unit that makes it a whole number. False: none does. */
bool number_show(char *text, size_t room, double value, bool seconds);
