/* Decides which records a slow viewer gets. A slow viewer is never cut off, and the engine waits only for viewers that asked for
 * every record (sink.h). While too many bytes wait for the viewer, whole classes of records are left out: details of operations
 * first, then steps, then the rest.
 *
 *     thin_takes(&thin, record)                          false: left out, and counted
 *     thin_settle(&thin, waiting, latest, now, add, me)  after each batch: decides for the next one
 *
 * When a class is sent again, thin_settle() first adds its latest records that changed meanwhile (latest_records.h; not TRAFFIC),
 * and then a GAP record. A reader that folds them has the present state of the run, and the GAP tells it which time is missing.
 * An empty GAP (0 records) marks where that time begins. */
#pragma once

#include <stdbool.h>

#include "engine/trace/latest_records.h"

enum thin_class {
    THIN_DETAILS, /* operations, memory, traffic, processes */
    THIN_STEPS,   /* begin and end of steps, validations, samples */
    THIN_REST,    /* all others: state, log, answers to commands, schedules */
    THIN_CLASSES
};

/* Bytes that wait for a viewer. A class is left out once more than its bound wait, and sent again once THIN_DRAINED_BYTES or less wait. */
enum { THIN_DRAINED_BYTES = 1 << 20, THIN_DETAILS_BYTES = 4 << 20, THIN_STEPS_BYTES = 12 << 20, THIN_REST_BYTES = 16 << 20 };

/* All-zero: nothing is left out. */
struct thin {
    struct { bool out; uint64_t since; } class[THIN_CLASSES]; /* since: latest_records_now() when the class was left out */
    uint64_t records, since_ns; /* records left out since the last GAP; time of the first */
};

bool thin_is_on(const struct thin *thin); /* something is left out now */
bool thin_takes(struct thin *thin, const void *record);

/* now_ns: time of the newest record. add is called with each encoded record that the viewer is to get next. */
void thin_settle(struct thin *thin, size_t waiting_bytes, const struct latest_records *latest, uint64_t now_ns, latest_records_visit *add, void *user);
