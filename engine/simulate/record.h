/* Writes simulated steps as a trace, which every reader of traces opens. Its header says that the run is simulated, on what
 * hardware and with how many ranks; the trace has the records of the first ranks. Losses and norms are NaN, and there are no
 * records of processes and I/O requests, because a simulation does not know them.
 *
 *     recorder_open(&recorder, path, &config, &setup, simulation, err)
 *     recorder_step(recorder, step, begin_ns, err) ...     after each simulation_step()
 *     recorder_close(recorder, err) */
#pragma once

#include "engine/config/config.h"
#include "engine/plan/setup.h"
#include "engine/simulate/simulate.h"

enum { RECORDED_RANKS_MAX = 4096, RECORDED_FROM_NS = 1 /* when the first step begins: 0 is an unknown time */ };

struct recorder;

/* config, setup and simulation must live until recorder_close(). */
int recorder_open(struct recorder **out, const char *path, const struct config *config, const struct setup *setup,
                  const struct simulation *simulation, struct error *err);
int recorder_step(struct recorder *recorder, uint32_t step, uint64_t begin_ns, struct error *err);
/* Ends the trace and frees. */
int recorder_close(struct recorder *recorder, struct error *err);
