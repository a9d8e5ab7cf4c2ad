/* Which records a slow viewer does not get. It takes the number of bytes that wait for the viewer and one record after the
 * other; it says of each whether the viewer gets it. A slow viewer is never cut off, and the engine does not wait for it
 * (but for one that asked for every record, sink.h): while too much waits, whole kinds of records are left out. Details of
 * operations go first, then steps, then the rest.
 *
 *     thin_takes(&thin, record)                          false: left out, and counted
 *     thin_settle(&thin, waiting, latest, now, add, me)  after each batch: decides for the next one
 *
 * When a kind is sent again, thin_settle() first adds the latest record of each thing that changed meanwhile (latest_records.h), each
 * once, and then a GAP record over the time that is missing. A reader that folds them has the present state of the run, and
 * the GAP tells it which time is missing. An empty GAP (0 records) stands where that time begins. */
#pragma once

#include <stdbool.h>

#include "engine/trace/latest_records.h"

enum thin_class {
    THIN_DETAILS, /* operations, memory, traffic, processes */
    THIN_STEPS,   /* begin and end of steps, validations, samples */
    THIN_REST,    /* all others: state, log, answers to commands, schedules */
    THIN_CLASSES
};

/* A class is left out from when more bytes wait than this until at most THIN_DRAINED_BYTES do. */
enum { THIN_DRAINED_BYTES = 1 << 20, THIN_DETAILS_BYTES = 4 << 20, THIN_STEPS_BYTES = 12 << 20, THIN_REST_BYTES = 16 << 20 };

/* All-zero: nothing is left out. */
struct thin {
    struct { bool out; uint64_t since; } class[THIN_CLASSES]; /* since: the moment of the latest records */
    uint64_t records, since_ns; /* left out and not yet said; the time of the first */
};

bool thin_is_on(const struct thin *thin); /* something is left out now */
bool thin_takes(struct thin *thin, const void *record);

/* now_ns: time of the newest record. add is called with each encoded record that the viewer is to get next. */
void thin_settle(struct thin *thin, size_t waiting_bytes, const struct latest_records *latest, uint64_t now_ns, latest_records_visit *add, void *user);
