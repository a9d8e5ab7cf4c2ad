#include "engine/base/error.h"
#include "engine/base/words.h"

#include <stdio.h>

/* A text may quote any bytes of a file or of the command line. It is kept to one line, without codes
 * that a terminal would obey. */
static void keep_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
}

int error_set(struct error *err, int status, const char *format, ...)
{
    if (err) {
        FORMAT_ARGUMENTS(err->text, sizeof err->text, format);
        keep_printable(err->text);
        err->status = status;
    }
    return status;
}

int error_prefix(struct error *err, const char *format, ...)
{
    if (!err) return STATUS_RUN;
    char prefix[256], joined[sizeof err->text + sizeof prefix + 2];
    FORMAT_ARGUMENTS(prefix, sizeof prefix, format);
    keep_printable(prefix);
    snprintf(joined, sizeof joined, "%s: %s", prefix, err->text);
    snprintf(err->text, sizeof err->text, "%.*s", (int)sizeof err->text - 1, joined);
    return err->status;
}
