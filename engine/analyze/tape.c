/* The past of a run in bounded memory. */
#include "engine/analyze/tape.h"

#include <stdlib.h>

struct tape { uint64_t first_ns, last_ns; };

struct tape *tape_new(size_t bytes)
{
    (void)bytes;
    return calloc(1, sizeof(struct tape));
}

void tape_free(struct tape *tape)
{
    free(tape);
}

void tape_fold(struct tape *tape, const struct run_model *model, const struct trace_record *record)
{
    (void)model;
    if (!tape->first_ns) tape->first_ns = record->time_ns;
    tape->last_ns = record->time_ns;
}
