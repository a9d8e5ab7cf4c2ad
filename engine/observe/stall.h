/* Why an operation waited (from its record and the schedule): for which operation, and the reason. Pure functions. */
#pragma once

#include <stdint.h>

/* stalls.def: STALL(ID, letter, "name", "what it means") */
enum stall {
#define STALL(ID, letter, name, help) STALL_##ID,
#include "engine/observe/stalls.def"
#undef STALL
    STALLS
};

struct span;
struct run_schedule;

struct stall_reason {
    enum stall why;
    uint64_t ns;     /* ready - issued; of STALL_PEERS: inside the operation, waiting for the slowest rank */
    int op;          /* the operation waited for; -1: none */
};

/* Why the lane waited before this operation. STALL_NONE, 0 ns: it did not wait. */
struct stall_reason stall_before(const struct run_schedule *plan, const struct span *span);
/* Inside a collective: the wait for the slowest rank (STALL_PEERS). */
struct stall_reason stall_inside(const struct span *span);

const char *stall_name(enum stall why);
char stall_letter(enum stall why);
const char *stall_help(enum stall why);
