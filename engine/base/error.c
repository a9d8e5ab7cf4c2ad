#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>

int error_set(struct error *err, int status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

int error_prefix(struct error *err, const char *format, ...)
{
    if (!err) return STATUS_RUN;
    char prefix[256], joined[sizeof err->text + sizeof prefix + 2];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(joined, sizeof joined, "%s: %s", prefix, err->text);
    snprintf(err->text, sizeof err->text, "%.*s", (int)sizeof err->text - 1, joined);
    return err->status;
}
