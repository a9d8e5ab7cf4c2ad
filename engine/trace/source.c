#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/trace/source_parts.h"
#include "engine/trace/latest_records.h"

int source_new(struct source **out, const struct source_origin *origin, int fd, struct error *err)
{
    struct source *source = *out = calloc(1, sizeof *source);
    if (!source) {
        if (fd >= 0) close(fd);
        return error_set(err, STATUS_RUN, "no memory to read a trace");
    }
    source->origin = origin;
    source->fd = fd;
    return 0;
}

enum source_result source_fail(struct source *source, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(source->problem, sizeof source->problem, format, args);
    va_end(args);
    return SOURCE_BAD;
}

/* The next record of the present chunk. Its CRC was right, so a malformed one is a fault of whoever wrote it. */
static enum source_result next_of_chunk(struct source *source, struct trace_record *record)
{
    size_t size = trace_decode(source->records + source->at, source->record_bytes - source->at, record);
    if (!size) return source_fail(source, "a chunk holds a malformed record; nothing behind it can be read");
    source->last = source->at;
    source->at += size;
    return SOURCE_RECORD;
}

static bool is_wanted(struct source *source, const struct trace_record *record)
{
    if (source->only_standing && !latest_records_is_standing((uint16_t)record->kind)) return false;
    if (source->had_until_ns && record->time_ns <= source->had_until_ns) return false;
    if (record->time_ns > source->newest_ns) source->newest_ns = record->time_ns;
    source->ended |= record->kind == TRACE_END;
    return true;
}

enum source_result source_next(struct source *source, struct trace_record *record)
{
    if (source->problem[0]) return SOURCE_BAD;
    for (;;) {
        enum source_result result;
        if (source->at == source->record_bytes) {
            source->at = source->record_bytes = 0;
            result = source->origin->next_chunk(source);
            if (result != SOURCE_RECORD) return result;
            continue;
        }
        result = next_of_chunk(source, record);
        if (result != SOURCE_RECORD || is_wanted(source, record)) return result;
    }
}

const void *source_encoded(const struct source *source)
{
    return source->records + source->last;
}

static int seek(struct source *source, uint32_t step, bool standing, struct error *err)
{
    if (!source->origin->seek)
        return error_set(err, STATUS_USAGE, "a live run has no past to seek in; replay its trace");
    int status = source->origin->seek(source, step, standing, err);
    if (status) return status;
    source->at = source->record_bytes = 0;
    source->problem[0] = '\0';
    return STATUS_OK;
}

int source_seek_step(struct source *source, uint32_t step, struct error *err)
{
    return seek(source, step, true, err);
}

int source_resume_step(struct source *source, uint32_t step, struct error *err)
{
    return seek(source, step, false, err);
}

bool source_torn(const struct source *source)
{
    return source->torn;
}

const char *source_error(const struct source *source)
{
    return source->problem;
}

bool source_drives(const struct source *source)
{
    return source->drives;
}

int source_fd(const struct source *source)
{
    return source->origin->live ? source->fd : -1;
}

void source_close(struct source *source)
{
    if (!source) return;
    if (source->fd >= 0) close(source->fd);
    bytes_release(&source->stored);
    bytes_release(&source->unpacked);
    bytes_release(&source->received);
    free(source);
}
