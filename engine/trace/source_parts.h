/* Inside of a source. source.c walks the records of one chunk after the other; where chunks come from is a row of
 * functions (source_file.c, source_socket.c). */
#ifndef ENGINE_TRACE_SOURCE_PARTS_H
#define ENGINE_TRACE_SOURCE_PARTS_H

#include "engine/trace/chunk.h"
#include "engine/trace/source.h"

struct source_origin {
    /* SOURCE_RECORD: the next chunk is in source->records; else what source_next() is to answer. */
    enum source_result (*next_chunk)(struct source *source);
    bool is_file;
};

struct source {
    const struct source_origin *origin;
    int fd;
    const uint8_t *records; /* of the present chunk: whole records, checked by CRC */
    size_t record_bytes, at;
    struct bytes stored, unpacked;
    bool torn, drives;
    char problem[256];
    /* File: */
    uint64_t offset;        /* where the next chunk starts */
    uint64_t standing_until; /* after a seek: of the chunks before this offset only standing records are handed out */
    bool only_standing;      /* the present chunk is one of these */
    /* Socket: received and not yet taken */
    struct bytes received;
    bool greeted;
};

/* Says why the source is not usable any more; returns SOURCE_BAD. */
enum source_result source_fail(struct source *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

int source_new(struct source **out, const struct source_origin *origin, int fd, struct error *err); /* takes fd, also on error */

#endif
