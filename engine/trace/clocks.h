/* The clock of another machine. CLOCK_MONOTONIC counts from the boot of each machine, and runs a little faster or slower there.
 * Messages back and forth measure the offset of that clock, and a map takes it out of the times of records; readers collect what the
 * records say of machines. No input or output. */
#pragma once

#include "engine/trace/record.h"

/* One message there and back. sent_ns and returned_ns are times of the clock here; there_ns (it arrived) and back_ns (the answer
 * left) of the clock there. */
struct clock_ping { uint64_t sent_ns, there_ns, back_ns, returned_ns; };

/* What is known of that clock: it is ahead by ns, and no further from that than within_ns, at the time at_ns of the clock here. */
struct clock_offset { bool known; int64_t ns; uint64_t within_ns, at_ns; };

/* Each ping bounds the offset from both sides, since no message takes less than no time: so however unequal the two ways are, the
 * bound holds. The result has the bounds of the ping with the least round trip, narrowed by those of the other pings, and by those
 * of the earlier measurement in *offset, which widen as far as two clocks may drift apart. Bounds that contradict (a clock was set,
 * a machine slept) are left out. count at least 1. */
void clock_offset_measure(struct clock_offset *offset, const struct clock_ping *pings, int count);

/* Converts times of that clock to the clock here. A new offset is taken on little by little, so a later time stays later. */
struct clock_map {
    bool known;
    int64_t from_ns, to_ns;     /* offset at since_ns, and from since_ns + over_ns on */
    uint64_t since_ns, over_ns; /* times there */
    uint64_t newest_ns;         /* the latest that was converted */
};

uint64_t clock_map_here(struct clock_map *map, uint64_t there_ns);

/* Begins to move to another offset; returns by how much it differs from the present one. The first is taken at once, and 0. */
int64_t clock_map_aim(struct clock_map *map, int64_t offset_ns);

/* ---- for readers of a trace: the machines of a run on several, from its HOST and CLOCK records ---- */

enum { TRACE_MACHINES_MAX = 128, TRACE_HOST_BYTES = 64, TRACE_MACHINE_TEXT_BYTES = 192 };

/* measured: it has another clock than the first machine, which is ahead by offset_ns; the times of its
 * records may be off by off_ns, at most: the bound of a measurement and what it found to be wrong before. */
struct trace_machine { char host[TRACE_HOST_BYTES]; int first_rank, last_rank; bool measured; int64_t offset_ns; uint64_t off_ns; };
struct trace_machines { int count; struct trace_machine at[TRACE_MACHINES_MAX]; }; /* further ones are left out */

/* Notes a record of one of the two kinds. */
void trace_machines_note(struct trace_machines *machines, const struct trace_record *record);

/* NULL: the run has not so many machines, is on one, or no record has named that one. */
const struct trace_machine *trace_machine(const struct trace_machines *machines, int number);

/* The host of a rank; "": not known, or the run is on one machine. */
const char *trace_host_of(const struct trace_machines *machines, int rank);

/* "host b: ranks 2-3, clock +5.000 s, within 0.04 ms". */
const char *trace_machine_text(char text[TRACE_MACHINE_TEXT_BYTES], const struct trace_machine *machine);
