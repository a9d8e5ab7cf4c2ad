/* Keeps escape sequences of foreign strings off the terminal. A string from a file, a folder or the command line may hold
 * anything; a terminal obeys control characters in it.
 *
 * The filter is part of the stream, so no caller can forget it: printable_standard() puts it between stdout, stderr and their files,
 * printable_over() before any other stream. The filter keeps newlines, tabs and visible characters. One '?' replaces each other control
 * character (C0, DEL, C1), each character that reorders a line, and each byte that is not UTF-8. Text is read as UTF-8. On a terminal of
 * another locale the multiplication sign becomes 'x', and '?' replaces every other non-ASCII character, whose bytes may be controls.
 *
 * The program's own control sequences (a frame, a carriage return) go to printable_below(). */
#pragma once

#include <stdio.h>

/* Call it at the start of main(), before anything is printed. */
void printable_standard(void);

/* Returns a filtering stream that writes to `below`; closing it closes `below`. NULL: no memory, and `below` is closed. */
FILE *printable_over(FILE *below);

/* Flushes stdout or stderr and returns the stream below its filter. For any other stream, returns the stream itself. */
FILE *printable_below(FILE *out);

/* Takes valid JSON from malloc(), or NULL, and returns the same JSON from malloc(). \u escapes replace what the filter
 * would replace (U+FFFD for a byte that is not UTF-8), so on a terminal in UTF-8 the filter changes nothing. NULL: no memory. */
char *printable_json(char *text);
