/* Two ranks that are started as a run's are, meet, and end: whether launching works here, and how long it takes. */
#ifndef ENGINE_RUN_HELLO_H
#define ENGINE_RUN_HELLO_H

#include "engine/base/error.h"

/* STATUS_RUN: they could not be started, or did not meet within timeout_ms; the text says why. */
int hello_launch(int ranks, int timeout_ms, double *seconds, struct error *err);

/* What `zerolab --worker-hello` does, one rank of them. */
int hello_process(void);

#endif
