/* Makes the records of the plan: the run's header, and each schedule with its planned memory and traffic. The engine writes the header
 * when a run begins, the others when a schedule comes into force; a simulation writes all when it begins. */
#pragma once

#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/plan/schedule.h"
#include "engine/trace/record.h"

/* Takes a record whose kind and fields are set; `user` is the caller's. It sets rank and time. */
struct record_output { void (*take)(void *user, struct trace_record *record); void *user; };

/* A schedule's number is unique in a run. per_node: ranks of a node; 0: there is one node. */
struct planned_step { const struct schedule *schedule; const struct model *model; uint32_t number; };

void records_of_schedule(const struct planned_step *step, const struct record_output *taker);
void records_of_memory(const struct planned_step *step, const struct record_output *taker);
void records_of_traffic(const struct planned_step *step, int rank, int per_node, const struct record_output *taker);

/* Where in the run this engine begins, and on which machine. resumed: the checkpoint folder from which the run
 * continues, or NULL. simulated_ranks: 0, or the run is simulated with so many ranks, of which the first `ranks` are recorded; isa is then
 * the name of the hardware. */
struct run_place { int part, ranks, ranks_per_node, gpus; int64_t steps_done; const char *isa, *resumed; int simulated_ranks; };

/* The JSON text of the first record, which describes the run. data NULL: there is none. The caller frees; NULL: no memory. */
char *run_header_json(const struct config *config, const struct model *model, const struct data *data, const struct run_place *place);
