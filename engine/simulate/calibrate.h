/* Measures a hardware profile of this machine with the engine's own kernels, on one thread: what a rank of one thread reaches. */
#ifndef ENGINE_SIMULATE_CALIBRATE_H
#define ENGINE_SIMULATE_CALIBRATE_H

#include "engine/simulate/hardware.h"

/* Takes some seconds. disk: a folder whose disk is measured, too; NULL: none. Each figure is the best of several rounds. */
int calibrate_machine(struct hardware *hardware, const char *disk, struct error *err);

#endif
