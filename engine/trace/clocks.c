#include "engine/trace/clocks.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/words.h"

/* NTP may slow or speed up each of two clocks by this much: in parts per million. */
enum { DRIFT_PPM = 500 };

struct bounds {
    int64_t low, high;
};

static uint64_t round_trip(const struct clock_ping *ping)
{
    return (ping->returned_ns - ping->sent_ns) - (ping->back_ns - ping->there_ns);
}

static struct bounds bounds_of(const struct clock_ping *ping)
{
    return (struct bounds){(int64_t)(ping->back_ns - ping->returned_ns), (int64_t)(ping->there_ns - ping->sent_ns)};
}

static void narrow(struct bounds *bounds, struct bounds by)
{
    const struct bounds both = {by.low > bounds->low ? by.low : bounds->low,
                                by.high < bounds->high ? by.high : bounds->high};
    if (both.low <= both.high) *bounds = both;
}

void clock_offset_measure(struct clock_offset *offset, const struct clock_ping *pings, int count)
{
    const struct clock_ping *best = &pings[0];
    for (int i = 1; i < count; i++)
        if (round_trip(&pings[i]) < round_trip(best)) best = &pings[i];
    struct bounds bounds = bounds_of(best);
    for (int i = 0; i < count; i++) narrow(&bounds, bounds_of(&pings[i]));
    if (offset->known) {
        const int64_t wide = (int64_t)(offset->within_ns + (best->returned_ns - offset->at_ns) * DRIFT_PPM / 1000000);
        narrow(&bounds, (struct bounds){offset->ns - wide, offset->ns + wide});
    }
    const int64_t width = bounds.high - bounds.low;
    *offset = (struct clock_offset){true, bounds.low + width / 2, (uint64_t)(width + 1) / 2, best->returned_ns};
}

static int64_t offset_at(const struct clock_map *map, uint64_t there_ns)
{
    if (there_ns <= map->since_ns) return map->from_ns;
    const uint64_t past_ns = there_ns - map->since_ns;
    if (past_ns >= map->over_ns) return map->to_ns;
    return map->from_ns + (int64_t)((double)(map->to_ns - map->from_ns) * ((double)past_ns / (double)map->over_ns));
}

uint64_t clock_map_here(struct clock_map *map, uint64_t there_ns)
{
    if (there_ns > map->newest_ns) map->newest_ns = there_ns;
    return there_ns - (uint64_t)offset_at(map, there_ns);
}

int64_t clock_map_aim(struct clock_map *map, int64_t offset_ns)
{
    enum { OVER_NS = 500000000, GENTLY = 4 }; /* the converted clock runs slower or faster by a quarter at most */
    const int64_t now_ns = offset_at(map, map->newest_ns), change = map->known ? offset_ns - now_ns : 0;
    const uint64_t over_ns = (uint64_t)llabs(change) * GENTLY;
    *map = (struct clock_map){.known = true,
                              .from_ns = map->known ? now_ns : offset_ns,
                              .to_ns = offset_ns,
                              .since_ns = map->newest_ns,
                              .over_ns = over_ns > OVER_NS ? over_ns : OVER_NS,
                              .newest_ns = map->newest_ns};
    return change;
}

/* ---- machines ---- */

static void note_host(struct trace_machine *machine, int rank, struct trace_text name)
{
    if (!machine->host[0] || rank < machine->first_rank) machine->first_rank = rank;
    if (rank > machine->last_rank) machine->last_rank = rank;
    snprintf(machine->host, sizeof machine->host, "%.*s", (int)name.bytes, name.at);
}

static void note_clock(struct trace_machine *machine, const struct trace_of_clock *clock)
{
    const uint64_t adjusted_ns = (uint64_t)clock->adjusted_ns;
    const uint64_t off_ns = clock->within_ns + (clock->adjusted_ns < 0 ? -adjusted_ns : adjusted_ns);
    machine->measured = true;
    machine->offset_ns = clock->offset_ns;
    if (off_ns > machine->off_ns) machine->off_ns = off_ns;
}

void trace_machines_note(struct trace_machines *machines, const struct trace_record *record)
{
    const bool host = record->kind == TRACE_HOST;
    const uint32_t number = host ? record->host.machine : record->clock.machine;
    if (number >= TRACE_MACHINES_MAX) return;
    for (; machines->count <= (int)number; machines->count++)
        machines->at[machines->count] = (struct trace_machine){.host = ""};
    if (host) note_host(&machines->at[number], record->rank, record->host.name);
    else note_clock(&machines->at[number], &record->clock);
}

const struct trace_machine *trace_machine(const struct trace_machines *machines, int number)
{
    return number < machines->count && machines->at[number].host[0] ? &machines->at[number] : NULL;
}

const char *trace_host_of(const struct trace_machines *machines, int rank)
{
    const struct trace_machine *machine;
    for (int m = 0; (machine = trace_machine(machines, m)); m++)
        if (rank >= machine->first_rank && rank <= machine->last_rank) return machine->host;
    return "";
}

const char *trace_machine_text(char text[TRACE_MACHINE_TEXT_BYTES], const struct trace_machine *machine)
{
    enum { ROOM = TRACE_MACHINE_TEXT_BYTES };
    const int first = machine->first_rank, last = machine->last_rank;
    snprintf(text, ROOM, last > first ? "host %s: ranks %d-%d" : "host %s: rank %d", machine->host, first, last);
    if (machine->measured)
        text_append(text, ROOM, ", clock %+.3f s, within %.2f ms", (double)machine->offset_ns / 1e9,
                    (double)machine->off_ns / 1e6);
    return text;
}
