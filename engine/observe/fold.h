/* Internals of the run model: model.c passes each record to the function for its kind, fold_NAME() by its row of kinds.def; each file
 * owns one part of the state. Only the files of engine/observe include this. */
#pragma once

#include "engine/observe/questions.h"

struct cJSON;

#define TRACE_KIND(number, ID, name, FIELDS, traits, help) void fold_##name(struct run_model *model, const struct trace_record *record);
#include "engine/trace/kinds.def"
#undef TRACE_KIND

/* header.c */
void header_release(struct run_header *header);
bool header_share(struct run_header *copy, struct run_header *from); /* *copy already equals *from; false: no memory */
void pace_set(struct run_pace *pace, const struct cJSON *detail);   /* of a "set" event */

/* plans.c */
void plans_release(struct run_model *model);
struct run_schedule *plans_share(struct run_schedule *from, int count); /* a copy of an array; NULL: no memory */

/* model.c: memory */
void holdings_begin_step(struct run_rank *rank);
void holdings_end_step(struct run_rank *rank, uint32_t step);

/* timing.c */
void timing_begin_step(struct run_rank *rank, uint32_t step, uint64_t time_ns);
/* Closes the open step. True: every record of it was there, and *split is set. */
bool timing_end_step(struct run_rank *rank, uint32_t step, struct run_split *split);

/* flows.c */
void flows_begin_step(struct run_rank *rank, const struct run_pace *pace);
void flows_end_step(struct run_rank *rank, const struct run_split *split); /* split NULL: records of the step are missing */
void flows_add(struct run_rank *rank, const struct op *op, const struct trace_record *op_end);

/* steps.c */
void steps_release(struct run_model *model);
void steps_of_more_ranks(struct run_model *model); /* a record named a rank for the first time */
void steps_lose(struct run_model *model);          /* records of the newest steps are missing */

/* notices.c */
void notices_release(struct run_model *model);
int64_t json_count(const struct cJSON *object, const char *key); /* RUN_UNKNOWN: missing, or no count */

/* model.c: the rank that a record is about, added if new; NULL: TRACE_RANK_ALL, or no rank of this run. */
struct run_rank *model_rank(struct run_model *model, unsigned rank);

/* Stores a message in model->problem about a record that could not be parsed or kept. */
void model_problem(struct run_model *model, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A NUL-terminated copy; NULL: no memory. */
char *text_copy(struct trace_text text);

/* Copies into a fixed array, cut to fit. */
void text_into(char *out, size_t room, struct trace_text text);
