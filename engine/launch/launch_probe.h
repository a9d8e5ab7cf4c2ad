/* Two ranks that are started as a run's are, meet, and end: whether launching works here, and how long it takes. */
#ifndef ENGINE_LAUNCH_LAUNCH_PROBE_H
#define ENGINE_LAUNCH_LAUNCH_PROBE_H

#include "engine/base/error.h"

struct launcher;

/* launcher: the local one or mpirun's. STATUS_RUN: they could not be started, or did not meet within timeout_ms; the text
 * says why. */
int launch_probe(const struct launcher *launcher, int timeout_ms, double *seconds, struct error *err);

/* What `zerolab --worker-hello LAUNCHER` does, LAUNCHER being its name: one rank of mpirun's, or the supervisor with all ranks. */
int launch_probe_process(const char *launcher);

#endif
