/* The interface of a kind of source. A new kind, such as the stream of a running job (engine/import/stream.c), is a struct source_kind
 * and a function that opens it with source_open(). The trace file, the socket and the record buffer are the three kinds of this folder.
 * source.c adds what all kinds share: it splits blocks into records, checks them, and drops records that from_step or after_ns exclude. */
#pragma once

#include "engine/trace/source.h"

/* State shared by a source and its kind. All-zero at the start, and kept from call to call. */
struct source_block {
    /* next() sets these fields. `records`: whole encoded records (trace_append() makes them) in time order. The kind
     * owns them; they are valid until its next call. */
    const uint8_t *records;
    size_t bytes;
    uint32_t from_step; /* drop the records before the STEP_BEGIN of this step; 0: drop none */
    uint64_t after_ns;  /* drop the records with this time or an earlier one; 0: drop none */
    bool torn;          /* the records end in the middle of one */
    bool drives;        /* lines that this viewer sends are commands */
    char problem[256];  /* source_fail() writes it */
    /* next() may read these: newest time among the records returned so far. */
    uint64_t newest_ns;
    bool ended; /* the run's END was among them */
};

struct source_kind {
    /* Sets the next block. SOURCE_RECORD: the block holds at least one record. SOURCE_WAIT: no record now; fd() becomes readable when
     * there is one. SOURCE_END: no more records, unless a file or a buffer grows. SOURCE_BAD: source_fail() was called. */
    enum source_result (*next)(void *self, struct source_block *block);
    /* Goes to the first STEP_BEGIN of `step`, or of the last step. STATUS_INPUT: the step is not there. NULL: the kind cannot seek. */
    int (*seek)(void *self, uint32_t step, struct error *err);
    int (*fd)(const void *self); /* for poll(); NULL: the kind never returns SOURCE_WAIT */
    /* Sends a line and its newline, `count` bytes, to the run; STATUS_RUN: the run is gone. NULL: the kind takes no commands. */
    int (*send)(void *self, const char *line, size_t count, struct error *err);
    void (*close)(void *self); /* frees self */
};

/* Makes a source, which owns `self` from here on; an error closes `self`. STATUS_RUN: no memory for the source, or self is NULL. */
int source_open(struct source **out, const struct source_kind *kind, void *self, struct error *err);

/* The `self` of a source of this kind; NULL: the source is of another kind. */
void *source_self(const struct source *source, const struct source_kind *kind);

/* Says why the source is not usable any more; returns SOURCE_BAD. */
enum source_result source_fail(struct source_block *block, const char *format, ...) __attribute__((format(printf, 2, 3)));
