/* Keeps escape sequences of foreign strings off the terminal. A string from a file, a folder or the command line may hold
 * anything; a terminal obeys control characters in it.
 *
 * The filter stands in the streams, so no caller can forget it: printable_standard() puts it under stdout and stderr, and
 * printable_over() under a file. Text through such a stream keeps newlines, tabs and what can be seen. One '?' replaces each
 * other control character (C0, DEL, C1), each character that reorders a line, and each byte that is not UTF-8. Text is
 * taken as UTF-8; on a terminal of another locale a character beyond ASCII becomes '?', because its bytes may be controls.
 *
 * The program's own sequences (a frame, the return to a line's begin) go to printable_below(). */
#ifndef ENGINE_BASE_PRINTABLE_H
#define ENGINE_BASE_PRINTABLE_H

#include <stdio.h>

/* At the start of main(), before anything is printed. */
void printable_standard(void);

/* A stream over `below`, which closes it; NULL: no memory, and below is closed. */
FILE *printable_over(FILE *below);

/* The stream without the filter under stdout or stderr, after what was printed so far. Another stream: itself. */
FILE *printable_below(FILE *out);

/* Takes text from malloc(), which is valid JSON, or NULL. Returns the same JSON from malloc(), with \u escapes for what the
 * filter would replace (U+FFFD for a byte that is not UTF-8), so that it passes unchanged; NULL: no memory. */
char *printable_json(char *text);

#endif
