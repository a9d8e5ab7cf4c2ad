/* Is there room on this machine for what is planned? Found out before ranks are started: a run that outgrows the machine's
 * memory is ended by the kernel, and perhaps a neighbour with it. */
#ifndef ENGINE_RUN_ROOM_H
#define ENGINE_RUN_ROOM_H

#include "engine/plan/fit.h"

/* Bytes that the kernel says can still be had; UINT64_MAX: it does not say. */
uint64_t room_available_bytes(void);

/* Bytes free on the disk of a folder; 0: it cannot be looked at. */
uint64_t room_free_disk_bytes(const char *folder);

/* The question of `zerolab plan --fit`: the budgets of the configuration, and what is free on this machine where a tier has none. */
struct fit_question room_question(const struct config *config, bool any_model);

/* Refuses (STATUS_USAGE) a configuration whose ranks together are planned to hold more than available_bytes. A rank with a
 * budget stays below it, whatever its plan. */
int room_check(const struct config *config, uint64_t available_bytes, struct error *err);

/* The same for a change of a run that goes on: `ranks` of them on this machine, each of which holds held_bytes already. */
int room_check_change(const struct config *config, int ranks, uint64_t held_bytes, uint64_t available_bytes, struct error *err);

#endif
