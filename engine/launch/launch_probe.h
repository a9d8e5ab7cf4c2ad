/* Tests a launcher: starts two ranks as a run would, waits until each has heard from the other, and measures the
 * time. */
#pragma once

#include "engine/base/error.h"

struct comm;
struct launcher;

/* Starts `ranks` ranks that run `--worker-hello HELLO`, on `hosts` through `agent` (as in struct run_spec), and waits until they have
 * ended. *printed: what they printed; the caller frees it, also after an error. STATUS_RUN: they did not start, did not end in time, or
 * failed. */
struct launch_trial { const struct launcher *launcher; int ranks; const char *hello, *hosts, *agent; int timeout_ms; };
int launch_try(const struct launch_trial *trial, char **printed, struct error *err);

/* launcher: launcher_local or launcher_mpirun. STATUS_RUN: the ranks could not be started, or had not heard from each other
 * after timeout_ms; the text says why. */
int launch_probe(const struct launcher *launcher, int timeout_ms, double *seconds, struct error *err);

/* Collective. Finds which ranks see a file that rank 0 makes in folder `dir`, or, if there is no `dir` yet, in the nearest folder above
 * it. sees: by rank, 1 or 0; that of rank 0 is 0 if it cannot write there. */
int launch_probe_folder(struct comm *comm, const char *dir, char *sees, struct error *err);

/* `zerolab --worker-hello LAUNCHER`: one rank that mpirun started, or the supervisor with all ranks. launcher: its
 * name. */
int launch_probe_process(const char *launcher);
