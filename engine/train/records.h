/* Writes the records of a rank's control thread between two steps. (The engine writes the records within a step.) */
#pragma once

#include <stdbool.h>

#include "engine/config/config.h"
#include "engine/memory/memory.h"
#include "engine/plan/model.h"
#include "engine/trace/ring.h"

struct cJSON;

/* Writes a record of this rank, or of TRACE_RANK_ALL, with the present time; the functions below use it. */
void record_now(struct trace_ring *ring, int rank, struct trace_record record);

void record_run(struct trace_ring *ring, const char *json);
void record_state(struct trace_ring *ring, int64_t steps_done, enum run_state state, const char *reason);
/* The command applies before step steps_done + 1. refusal NULL: accepted. */
void record_command(struct trace_ring *ring, int64_t steps_done, const char *line, const char *refusal);
void record_event(struct trace_ring *ring, int64_t step, const char *kind, struct cJSON *detail); /* frees detail */
void record_log(struct trace_ring *ring, int level, const char *text);
/* Records once (*told) that the system, or a GPU's driver, refused to lock memory that pin_memory asks for. */
void record_pinning(struct trace_ring *ring, const struct memory *memory, bool *told);
void record_lines(struct trace_ring *ring, char *text); /* one note for each line; modifies text */
void record_plan_notes(struct trace_ring *ring, const struct model *model, const struct config_zero *zero);
void record_end(struct trace_ring *ring, enum outcome outcome, const char *error);

/* record_gpu() records a rank's GPU. record_outside() records the GPU's memory outside of all tiers, if this rank
 * measures it and it changed by a page since *told_bytes (UINT64_MAX: not recorded yet). */
struct gpu_rank;
/* Records once (*told) that the library of matrix products refused to compute GELU. */
void record_gelu(struct trace_ring *ring, const struct gpu_rank *gpu, bool *told);
void record_gpu(struct trace_ring *ring, int rank, const struct gpu_rank *gpu);
void record_outside(struct trace_ring *ring, int rank, const struct gpu_rank *gpu, uint64_t *told_bytes);
/* Records the GPU's sensors, if this rank reads them and did not within the last second; *told_ns: when it did, 0: never. */
void record_sensors(struct trace_ring *ring, int rank, const struct gpu_rank *gpu, uint64_t *told_ns);

/* Records the kernel's figures for this process after a step. Its files are slow to read, so nothing is recorded
 * within PROCESS_EVERY_MS of the last record. Reading pss visits all pages: every 50 steps, at most once a second.
 * at_once: now, with pss. */
enum { PROCESS_EVERY_MS = 20 };
struct process_told {
    uint64_t at_ns, pss_ns; /* of the last record, and of the last with pss; 0: none yet */
};
void record_process(struct trace_ring *ring, int rank, int64_t step, const struct memory *memory,
                    struct process_told *told, bool at_once);
