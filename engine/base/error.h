/* Errors are values. A function that can fail returns 0 or a value of enum status, and writes one line of text into the
 * struct error of the caller (which may be NULL). A function fails with one statement:
 *
 *     if (ranks > units) return error_set(err, STATUS_USAGE, "...: %d", ranks);
 *
 * The text is a clause for the user, without the program's name and without a newline: what was wrong and, after a
 * semicolon, what to do. The values of enum status are the program's exit codes. */
#pragma once

enum status {
    STATUS_OK = 0,
    STATUS_CHECK = 1, /* a check or a comparison failed */
    STATUS_USAGE = 2, /* wrong command line or configuration */
    STATUS_INPUT = 3, /* an input file cannot be read */
    STATUS_RUN = 4,   /* a run failed: out of memory, a dead rank, a full disk */
};

struct error {
    int status;
    char text[512];
};

/* Stores status and the formatted text in err (which may be NULL); returns status. */
int error_set(struct error *err, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the text that err already holds; returns err's status. */
int error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
