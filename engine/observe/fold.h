/* Internals of the run model: model.c passes each record to the function for its kind; each file owns one part of the
 * state. Only the files of engine/observe include this. */
#ifndef ENGINE_OBSERVE_FOLD_H
#define ENGINE_OBSERVE_FOLD_H

#include "engine/observe/questions.h"

struct cJSON;

/* header.c */
void fold_run(struct run_model *model, const struct trace_record *record);
void header_release(struct run_header *header);
bool header_share(struct run_header *copy, struct run_header *from); /* *copy already equals *from; false: no memory */
void pace_set(struct run_pace *pace, const struct cJSON *detail);   /* of a "set" event */

/* plans.c */
void fold_schedule(struct run_model *model, const struct trace_record *record);
void fold_predicted(struct run_model *model, const struct trace_record *record);
void fold_theory(struct run_model *model, const struct trace_record *record);
void plans_release(struct run_model *model);
struct run_schedule *plans_share(struct run_schedule *from, int count); /* a copy of an array; NULL: no memory */

/* holdings.c */
void fold_memory(struct run_model *model, const struct trace_record *record);
void fold_budget(struct run_model *model, const struct trace_record *record);
void fold_tier_peak(struct run_model *model, const struct trace_record *record);
void fold_tenant(struct run_model *model, const struct trace_record *record);
void holdings_begin_step(struct run_rank *rank);
void holdings_end_step(struct run_rank *rank, uint32_t step);

/* timing.c */
void fold_op_begin(struct run_model *model, const struct trace_record *record);
void fold_op_end(struct run_model *model, const struct trace_record *record);
void timing_begin_step(struct run_rank *rank, uint32_t step, uint64_t time_ns);
/* Closes the open step: true, with its split, if every record of it was there. */
bool timing_end_step(struct run_rank *rank, uint32_t step, struct run_split *split);
void split_add(struct run_split *sum, const struct run_split *split);

/* flows.c */
void fold_io(struct run_model *model, const struct trace_record *record);
void flows_begin_step(struct run_rank *rank, const struct run_pace *pace);
void flows_end_step(struct run_rank *rank, const struct run_split *split); /* NULL: not every record of it was there */
void flows_add(struct run_rank *rank, const struct op *op, const struct trace_record *op_end);

/* steps.c */
void fold_step_begin(struct run_model *model, const struct trace_record *record);
void fold_step_end(struct run_model *model, const struct trace_record *record);
void fold_traffic(struct run_model *model, const struct trace_record *record);
void steps_release(struct run_model *model);
void steps_of_more_ranks(struct run_model *model); /* a record named a rank for the first time */
void steps_lose(struct run_model *model);          /* records of the newest steps are missing */

/* notices.c */
void fold_event(struct run_model *model, const struct trace_record *record);
void fold_command(struct run_model *model, const struct trace_record *record);
void fold_log(struct run_model *model, const struct trace_record *record);
void fold_validation(struct run_model *model, const struct trace_record *record);
void fold_state(struct run_model *model, const struct trace_record *record);
void fold_gap(struct run_model *model, const struct trace_record *record);
void fold_end(struct run_model *model, const struct trace_record *record);
void notices_release(struct run_model *model);

/* event_details.c: parse the details of a "checkpoint" and of an "oom" event. */
void save_read(struct run_save *save, const struct cJSON *detail, uint32_t step, uint64_t time_ns);
void shortage_read(struct run_shortage *shortage, const struct cJSON *detail);
int64_t json_count(const struct cJSON *object, const char *key); /* RUN_UNKNOWN: missing, or no count */

/* model.c: the rank that a record is about, added if new; NULL: TRACE_RANK_ALL, or no rank of this run. */
struct run_rank *model_rank(struct run_model *model, unsigned rank);

/* Stores a message in model->problem about a record that could not be parsed or kept. */
void model_problem(struct run_model *model, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A NUL-terminated copy; NULL: no memory. */
char *text_copy(struct trace_text text);

/* Copies into a fixed array, cut to fit. */
void text_into(char *out, size_t room, struct trace_text text);

#endif
