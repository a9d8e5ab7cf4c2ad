/* Makes records that the engine and a simulation both write: the run's header, each schedule with its planned memory and traffic, and the
 * traffic and peaks of each step. The engine writes the header when a run begins, and the records of a schedule when it comes into
 * force; a simulation writes them when it begins. */
#pragma once

#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/memory/memory.h"
#include "engine/plan/schedule.h"
#include "engine/trace/record.h"

/* Takes a record whose kind and fields are set; `user` is the caller's. It sets rank and time. */
struct record_output { void (*take)(void *user, struct trace_record *record); void *user; };

/* A schedule's number is unique in a run. */
struct planned_step { const struct schedule *schedule; const struct model *model; uint32_t number; };

void records_of_schedule(const struct planned_step *step, const struct record_output *taker);
void records_of_memory(const struct planned_step *step, const struct record_output *taker);
/* per_node: ranks of a node; 0: there is one node. */
void records_of_traffic(const struct planned_step *step, int rank, int per_node, const struct record_output *taker);

/* Bytes that a rank sent in a step, and the time, for one kind of traffic. sent_bytes[0]: within the node or between tiers; [1]: to other
 * nodes. */
struct step_traffic { uint32_t count; uint64_t sent_bytes[2], busy_ns, link_ns[LINKS]; };
void records_of_sent(const struct step_traffic traffic[TRAFFIC_KINDS], uint32_t step, const struct record_output *taker);
/* The peak of each tier; if it differs from told_bytes, also the bytes by category at that peak. Sets told_bytes to the peaks. */
void records_of_peaks(const struct memory_snapshot *memory, uint64_t told_bytes[TIERS], const struct record_output *taker);

/* Where in the run this engine begins, and on which machine. resumed: the checkpoint folder from which the run
 * continues, or NULL. simulated_ranks: how many ranks are simulated; 0: the run is not simulated. A simulation records
 * the first `ranks` ranks, and isa is the name of the hardware. */
struct run_place { int part, ranks, ranks_per_node, gpus; int64_t steps_done; const char *isa, *resumed; int simulated_ranks; };

/* The JSON text of the first record, which describes the run. data NULL: there is none. The caller frees; NULL: no memory. */
char *run_header_json(const struct config *config, const struct model *model, const struct data *data, const struct run_place *place);
