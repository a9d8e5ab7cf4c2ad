/* Finds the fastest setup on given hardware: simulates every setup of `plan --fit` that fits (engine/simulate), and takes the fastest.
 * Then it simulates that setup with each change that is offered against waits (rows WAIT of engine/advise/knobs.def). Keys that --set
 * gave stay. So bytes are planned, times simulated, and nothing else decides. overlap_comm is on at every stage unless it is given.
 *
 *     advice_find(&advice, &config, &hardware, &err)  ->  advice_print(...)  ->  advice_release(&advice) */
#pragma once

#include <stdio.h>

#include "engine/advise/fit.h"
#include "engine/advise/why.h"
#include "engine/simulate/simulate.h"

/* Thousandths of a device's memory that setups may fill if memory.device_budget is not given. The rest is for the CUDA context,
 * libraries and fragments (assumed). */
enum { ADVICE_ROOM = 900, ADVICE_TUNINGS_MAX = 16 };

struct advised { struct fit_candidate candidate; double step_s; struct rates rates; }; /* simulated */

/* A change to the setup that is taken. */
struct tuned { struct why_change change; double step_s; int64_t peak_bytes; bool fits; };

struct advice {
    const struct hardware *hardware;
    struct fit_limits limits;
    int fitting;                  /* setups that were simulated; 0: none fits, the rest is not known */
    struct advised best, next;    /* the fastest two; next.step_s 0: only one fits */
    bool has_lacking;             /* a setup that is cheaper (fit_cheapest()) than all that fit does not fit */
    struct fit_candidate cheaper, nearest; /* of such setups the cheapest; the one that lacks least */
    struct config *config;        /* the configuration of the setup that is taken */
    int tuned_count;
    struct tuned tuned[ADVICE_TUNINGS_MAX]; /* the fastest first */
};

/* STATUS_USAGE: the configuration or the hardware cannot be simulated; STATUS_RUN: no memory. */
int advice_find(struct advice *advice, const struct config *config, const struct hardware *hardware, struct error *err);
void advice_release(struct advice *advice);

/* Text, with a DeepSpeed file and FSDP2's calls for the setup that is taken; and JSON. */
int advice_print(FILE *out, bool as_json, const struct advice *advice, struct error *err);
