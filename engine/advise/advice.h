/* Which setup to take on given hardware. Every setup of `plan --fit` that fits is simulated (engine/simulate), and the fastest is taken; then each
 * change that is offered against waits (rows WAIT of engine/advise/knobs.def) is simulated on top of it. What --set gave stays. So bytes are planned, times
 * simulated, and nothing else decides. Where overlap_comm is not given it is on, at every stage.
 *
 *     advice_find(&advice, &config, &hardware, &err)  ->  advice_print(...)  ->  advice_release(&advice) */
#pragma once

#include <stdio.h>

#include "engine/advise/fit.h"
#include "engine/advise/why.h"
#include "engine/simulate/simulate.h"

/* Of a device, the part that setups may fill, in thousandths, without a budget: the rest is for the CUDA context, libraries and
 * fragments (assumed; memory.device_budget says another). */
enum { ADVICE_ROOM = 900, ADVICE_TUNINGS_MAX = 16 };

struct advised { struct fit_candidate candidate; double step_s; struct rates rates; }; /* simulated */

/* A change to the setup that is taken. */
struct tuned { struct why_change change; double step_s; int64_t peak_bytes; bool fits; };

struct advice {
    const struct hardware *hardware;
    struct fit_limits limits;
    int fitting;                  /* setups that were simulated; 0: none fits, the rest is not known */
    struct advised best, next;    /* the fastest two; next.step_s 0: only one fits */
    bool has_lacking;             /* a setup that moves less than all that fit does not: */
    struct fit_candidate cheaper, nearest; /* the one that moves least; the one that lacks least */
    struct config *config;        /* of the setup that is taken */
    int tuned_count;
    struct tuned tuned[ADVICE_TUNINGS_MAX]; /* the fastest first */
};

/* STATUS_USAGE: the configuration or the hardware cannot be simulated; STATUS_RUN: no memory. */
int advice_find(struct advice *advice, const struct config *config, const struct hardware *hardware, struct error *err);
void advice_release(struct advice *advice);

/* Text, with a DeepSpeed file and FSDP2's calls for the setup that is taken; and JSON. */
int advice_print(FILE *out, bool as_json, const struct advice *advice, struct error *err);
