/* Inside of a source. source.c walks the records of one chunk after the other; where chunks come from is a row of
 * functions (source_file.c, source_socket.c). */
#ifndef ENGINE_TRACE_SOURCE_PARTS_H
#define ENGINE_TRACE_SOURCE_PARTS_H

#include "engine/trace/chunk.h"
#include "engine/trace/source.h"

struct source_origin {
    /* SOURCE_RECORD: the next chunk is in source->records; else what source_next() is to answer. */
    enum source_result (*next_chunk)(struct source *source);
    /* To the chunk that the first STEP_BEGIN of `step` begins, or the last keyframe before it. `standing`: with the standing
     * records from before it; else only if that very step is there. NULL: cannot go back. */
    int (*seek)(struct source *source, uint32_t step, bool standing, struct error *err);
    bool live; /* its descriptor is for poll(), and takes commands */
};

struct source {
    const struct source_origin *origin;
    int fd;
    const uint8_t *records; /* of the present chunk: whole records, checked by CRC */
    size_t record_bytes, at, last; /* at: of the next record; last: of the one handed out */
    struct bytes stored, unpacked;
    bool torn, drives;
    char problem[256];
    /* File: */
    uint64_t offset;        /* where the next chunk starts */
    uint64_t standing_until; /* after a seek: of the chunks before this offset only standing records are handed out */
    bool only_standing;      /* the present chunk is one of these */
    /* Memory: `offset` is the number of the chunk */
    const struct record_buffer *past;
    size_t taken;           /* bytes of it that were handed out: it may still grow */
    bool standing_due;
    /* Socket: received and not yet taken */
    struct bytes received;
    bool greeted, ended;   /* ended: the run's END was handed out */
    bool only_watches, wants_all;
    char path[108];        /* to attach again; "": it cannot */
    uint64_t newest_ns;    /* of what was handed out */
    uint64_t had_until_ns; /* after attaching again: what is not younger was handed out before */
};

/* Says why the source is not usable any more; returns SOURCE_BAD. */
enum source_result source_fail(struct source *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

int source_new(struct source **out, const struct source_origin *origin, int fd, struct error *err); /* takes fd (-1: none), also on error */

#endif
