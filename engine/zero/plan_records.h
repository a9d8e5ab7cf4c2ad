/* The records that say what a step is planned to do: its schedule, memory and traffic. The engine writes them when a schedule
 * comes into force, a simulation when it begins. */
#pragma once

#include "engine/plan/schedule.h"
#include "engine/trace/record.h"

/* Takes a record whose kind and fields are set; `user` is the teller's. It sets rank and time. */
struct record_taker { void (*take)(void *user, struct trace_record *record); void *user; };

/* A schedule's number is unique in a run. per_node: ranks of a node; 0: there is one node. */
struct planned_step { const struct schedule *schedule; const struct model *model; uint32_t number; };

void records_of_schedule(const struct planned_step *step, const struct record_taker *taker);
void records_of_memory(const struct planned_step *step, const struct record_taker *taker);
void records_of_traffic(const struct planned_step *step, int rank, int per_node, const struct record_taker *taker);
