#include <stdlib.h>

#include "engine/base/words.h"
#include "engine/trace/source_kind.h"

enum { COMMAND_BYTES_MAX = 1023 };

struct source {
    const struct source_kind *kind;
    void *self;
    struct source_block block;
    size_t at, last; /* in the block: of the next record, and of the one handed out */
};

int source_open(struct source **out, const struct source_kind *kind, void *self, struct error *err)
{
    struct source *source = *out = self ? calloc(1, sizeof *source) : NULL;
    if (!source) {
        if (self) kind->close(self);
        return error_set(err, STATUS_RUN, "no memory to read a trace");
    }
    *source = (struct source){.kind = kind, .self = self};
    return STATUS_OK;
}

void *source_self(const struct source *source, const struct source_kind *kind)
{
    return source->kind == kind ? source->self : NULL;
}

enum source_result source_fail(struct source_block *block, const char *format, ...)
{
    FORMAT_ARGUMENTS(block->problem, sizeof block->problem, format);
    return SOURCE_BAD;
}

/* The next record of the present block. A checksum was right, so a malformed record is a fault of the program that wrote it. */
static enum source_result next_of_block(struct source *source, struct trace_record *record)
{
    struct source_block *block = &source->block;
    size_t size = trace_decode(block->records + source->at, block->bytes - source->at, record);
    if (!size) return source_fail(block, "a chunk holds a malformed record; nothing behind it can be read");
    source->last = source->at;
    source->at += size;
    return SOURCE_RECORD;
}

static bool is_wanted(struct source_block *block, const struct trace_record *record)
{
    if (record->kind == TRACE_STEP_BEGIN && record->step_begin.step == block->from_step) block->from_step = 0;
    if (block->from_step || (block->after_ns && record->time_ns <= block->after_ns)) return false;
    if (record->time_ns > block->newest_ns) block->newest_ns = record->time_ns;
    block->ended |= record->kind == TRACE_END;
    return true;
}

enum source_result source_next(struct source *source, struct trace_record *record)
{
    struct source_block *block = &source->block;
    if (block->problem[0]) return SOURCE_BAD;
    for (;;) {
        enum source_result result;
        if (source->at == block->bytes) {
            source->at = block->bytes = 0;
            result = source->kind->next(source->self, block);
            if (result != SOURCE_RECORD) return result;
            continue;
        }
        result = next_of_block(source, record);
        if (result != SOURCE_RECORD || is_wanted(block, record)) return result;
    }
}

const void *source_encoded(const struct source *source)
{
    return source->block.records + source->last;
}

int source_resume_step(struct source *source, uint32_t step, struct error *err)
{
    if (!source->kind->seek) return error_set(err, STATUS_USAGE, "a live run has no past to seek in; replay its trace");
    int status = source->kind->seek(source->self, step, err);
    if (status) return status;
    source->at = source->block.bytes = 0;
    source->block.from_step = 0;
    source->block.problem[0] = '\0';
    return STATUS_OK;
}

bool source_torn(const struct source *source)
{
    return source->block.torn;
}

const char *source_error(const struct source *source)
{
    return source->block.problem;
}

bool source_drives(const struct source *source)
{
    return source->block.drives;
}

int source_fd(const struct source *source)
{
    return source->kind->fd ? source->kind->fd(source->self) : -1;
}

int source_send(struct source *source, const char *command_line, struct error *err)
{
    char line[COMMAND_BYTES_MAX + 1];
    const size_t length = strlen(command_line);
    if (!source->kind->send) return error_set(err, STATUS_USAGE, "a replay takes no commands");
    if (length > COMMAND_BYTES_MAX || strchr(command_line, '\n'))
        return error_set(err, STATUS_USAGE, "a command is one line of at most %d bytes", COMMAND_BYTES_MAX);
    memcpy(line, command_line, length);
    line[length] = '\n';
    return source->kind->send(source->self, line, length + 1, err);
}

void source_close(struct source *source)
{
    if (!source) return;
    source->kind->close(source->self);
    free(source);
}
