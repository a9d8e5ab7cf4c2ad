/* The director of rank 0 decides what all ranks do next. Commands arrive from the driver's connection (on the writer's
 * thread) at any time, and from --at. Between two steps the director turns them into orders, one at a time, which rank
 * 0 broadcasts. So every rank does the same in the same order. A pause is an order that rank 0 has not sent yet.
 *
 *     every rank                               director (rank 0)
 *     loop: order = broadcast(...)       <---  director_next()     waits while paused
 *           carry it out                 --->  director_applied() / director_short_of_memory()
 *
 * A step that is taken by operations waits at the gate (engine/base/gate.h) between them. There rank 0 takes commands
 * too, on the same thread, in director_at_gate(). Pause, step, op and the like apply at once; all others wait for the
 * end of the step.
 *
 * The director does not know the engine, only outcomes, so it can be tested alone. */
#pragma once

#include <stdbool.h>

#include "engine/base/gate.h"
#include "engine/base/text_list.h"
#include "engine/config/command.h"
#include "engine/trace/record.h"

enum order_kind { ORDER_STEP, ORDER_COMMAND, ORDER_END };

struct order {
    enum order_kind kind;
    enum outcome outcome;   /* of ORDER_END */
    struct command command; /* of ORDER_COMMAND: changes the run, or asks it for something */
    uint32_t operations;    /* of ORDER_STEP: how many operations may run before the gate closes; 0: all */
    uint64_t waited_ns;     /* how long rank 0 waited for the order; the caller of director_next() sets it */
};

struct director_options {
    int64_t steps;        /* 0: until stopped */
    struct text_list at, lines; /* at: --at arguments, borrowed; lines: commands that come before all received ones */
    bool paused;          /* paused from the start: after a relaunch of a paused run */
    bool interactive;     /* a viewer can send commands: when memory runs out, the run waits for one */
    bool detached;        /* the run needs no owner; out of memory, it waits for one no longer than grace_ns */
    int signal_fd;        /* readable (a signalfd): stop at the next boundary; -1: none */
    struct gate *gate;    /* shared by all ranks; NULL: some ranks cannot map it, so no step is taken by operations */
    uint64_t grace_ns;    /* how long an interactive run waits for another owner when its own is gone */
    /* Callbacks that write the trace; called on rank 0's control thread, within director_next() and the functions
     * below it. */
    void (*on_state)(void *user, enum run_state state, const char *reason, bool in_step);
    void (*on_answer)(void *user, const char *line, const char *refusal); /* refusal NULL: accepted */
    void (*on_note)(void *user, const char *text);
    bool (*reader_lags)(void *user); /* the next step waits while this returns true; NULL: never */
    void *user;
};

struct director;

/* options is copied; its texts must outlive the director. STATUS_USAGE: an --at argument is malformed; STATUS_RUN. */
int director_new(struct director **out, const struct director_options *options, struct error *err);
void director_free(struct director *director);

void director_push(struct director *director, const char *line); /* any thread */
void director_owner_gone(struct director *director);             /* any thread */
void director_owner_here(struct director *director);             /* any thread: a viewer drives again */

/* Waits for the next order, after `steps_done` steps. */
void director_next(struct director *director, int64_t steps_done, struct order *order);

/* Called within the step after `steps_done`, when it waits before operation `next_op` of `operations`; `what`
 * describes that one. Returns when the gate is open: by command, because the run is to end, or because a rank found a
 * peer dead and opened it. */
void director_at_gate(struct director *director, int64_t steps_done, uint32_t next_op, uint32_t operations,
                      const char *what);

enum run_state director_state(const struct director *director);

/* The --at arguments and received lines that are not applied yet. They point into the director and its options. */
void director_rest(const struct director *director, struct text_list *at, struct text_list *lines);

/* The result of the last order; refusal NULL: it was applied. After a change, a step that ran out of memory is tried
 * again. */
void director_applied(struct director *director, const struct command *command, const char *refusal);
void director_short_of_memory(struct director *director, const char *text);
