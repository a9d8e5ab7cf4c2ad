/* The clock of another machine. CLOCK_MONOTONIC counts from the boot of each machine, and runs a little faster or slower there.
 * Messages back and forth measure the offset of that clock, and a map takes it out of the times of records; readers collect
 * each machine's host, ranks and clock from the records. No input or output. */
#pragma once

#include "engine/trace/record.h"

/* One message there and back. sent_ns and returned_ns are times of the clock here. there_ns (the message arrived) and back_ns (the
 * answer left) are times of the clock there. */
struct clock_ping { uint64_t sent_ns, there_ns, back_ns, returned_ns; };

/* What is known of that clock: at the time at_ns of the clock here it is ahead by ns, give or take within_ns. */
struct clock_offset { bool known; int64_t ns; uint64_t within_ns, at_ns; };

/* Each ping bounds the offset from both sides, because no message takes less than 0 ns. The bound holds however unequal the two ways
 * are. *offset gets the bounds of the ping with the least round trip, narrowed by those of the other pings and by the earlier
 * measurement in *offset. The earlier bounds are first widened by the drift of two clocks since then. Bounds that contradict (a clock
 * was set, a machine slept) are left out. count: 1 or more. */
void clock_offset_measure(struct clock_offset *offset, const struct clock_ping *pings, int count);

/* Converts times of that clock to the clock here. It moves to a new offset little by little, so a later time stays later. */
struct clock_map {
    bool known;
    int64_t from_ns, to_ns;     /* the offset at since_ns; the offset from since_ns + over_ns on */
    uint64_t since_ns, over_ns; /* times there */
    uint64_t newest_ns;         /* the latest time there that was converted */
};

uint64_t clock_map_here(struct clock_map *map, uint64_t there_ns);

/* Begins to move to another offset; returns that offset minus the present one. The first call jumps to the offset and returns 0. */
int64_t clock_map_aim(struct clock_map *map, int64_t offset_ns);

/* ---- for readers of a trace: the machines of a run on several, from its HOST and CLOCK records ---- */

enum { TRACE_MACHINES_MAX = 128, TRACE_HOST_BYTES = 64, TRACE_MACHINE_TEXT_BYTES = 192 };

/* measured: the machine's clock is offset_ns ahead of the first machine's. The times of its records may be wrong by
 * off_ns at most: a measurement's bound plus the change that it made to the offset before. */
struct trace_machine { char host[TRACE_HOST_BYTES]; int first_rank, last_rank; bool measured; int64_t offset_ns; uint64_t off_ns; };
struct trace_machines { int count; struct trace_machine at[TRACE_MACHINES_MAX]; }; /* machines from TRACE_MACHINES_MAX on are left out */

/* Adds what a HOST or CLOCK record says; the record must have one of these two kinds. */
void trace_machines_note(struct trace_machines *machines, const struct trace_record *record);

/* number: from 0 on. NULL: no HOST record has named that machine (there is none, or the run is on one machine). */
const struct trace_machine *trace_machine(const struct trace_machines *machines, int number);

/* The host of a rank; "": unknown, or the run is on one machine. */
const char *trace_host_of(const struct trace_machines *machines, int rank);

/* "host b: ranks 2-3, clock +5.000 s, within 0.04 ms". */
const char *trace_machine_text(char text[TRACE_MACHINE_TEXT_BYTES], const struct trace_machine *machine);
