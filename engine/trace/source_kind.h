/* The interface of a kind of source. A new kind, such as the stream of a running job (engine/import/stream.c), is a struct source_kind
 * and a function that opens it with source_open(). The trace file, the socket and the record buffer are the three kinds of this folder. source.c adds what all
 * kinds share: it takes blocks of records apart, checks them, and drops records that from_step or after_ns exclude. */
#pragma once

#include "engine/trace/source.h"

/* State shared by a source and its kind. All-zero at the start, and kept from call to call. */
struct source_block {
    /* next() sets these fields. `records`: whole encoded records (trace_append() makes them) in time order. The kind
     * owns them; they are valid until its next call. */
    const uint8_t *records;
    size_t bytes;
    uint32_t from_step; /* the place sought is where this step begins in the block; 0: it is the block's start */
    uint64_t after_ns;  /* leave out records with this time or an earlier one; 0: none */
    bool torn;          /* the records end in the middle of one */
    bool drives;        /* lines that this viewer sends are commands */
    char problem[256];  /* source_fail() writes it */
    /* next() may read these: newest time among the records returned so far. */
    uint64_t newest_ns;
    bool ended; /* the run's END was among them */
};

struct source_kind {
    /* The next block. SOURCE_RECORD: it holds a record at least. SOURCE_WAIT: nothing now, fd() says when. SOURCE_END: nothing more,
     * unless a file or a buffer grows. SOURCE_BAD: what source_fail() returns. */
    enum source_result (*next)(void *self, struct source_block *block);
    /* Goes to the first STEP_BEGIN of `step`, or of the last step. STATUS_INPUT: it is not there. NULL: the kind cannot go back. */
    int (*seek)(void *self, uint32_t step, struct error *err);
    int (*fd)(const void *self); /* for poll(); NULL: it is never waited for */
    /* Sends a line and its newline, `count` bytes, to the run; STATUS_RUN: the run is gone. NULL: it takes no commands. */
    int (*send)(void *self, const char *line, size_t count, struct error *err);
    void (*close)(void *self); /* frees self */
};

/* Opens `self`, which is taken (closed also on an error; NULL: there was no memory for it). */
int source_open(struct source **out, const struct source_kind *kind, void *self, struct error *err);

/* The self of a source of this kind; NULL: it is of another. */
void *source_self(const struct source *source, const struct source_kind *kind);

/* Says why the source is not usable any more; returns SOURCE_BAD. */
enum source_result source_fail(struct source_block *block, const char *format, ...) __attribute__((format(printf, 2, 3)));
