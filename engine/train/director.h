/* Rank 0's decisions: what all ranks do next. Commands come in from the driver's connection (the writer's thread) at any
 * time and from --at; between two steps the director turns them into orders, one at a time, which rank 0 broadcasts. So
 * every rank does the same in the same order, and pausing is nothing but an order that is late in coming.
 *
 *     worker (every rank)                      director (rank 0)
 *     loop: order = broadcast(...)       <---  director_next()     waits while paused
 *           carry it out                 --->  director_applied() / director_short_of_memory()
 *
 * A step that is taken by operations stands at the gate (engine/base/gate.h) in between. Rank 0 hears commands there too, on
 * the same thread, in director_at_gate(): those that let it go on are applied, all others wait for the end of the step.
 *
 * It knows nothing of the engine: it sees only outcomes, and can be tested alone. */
#ifndef ENGINE_TRAIN_DIRECTOR_H
#define ENGINE_TRAIN_DIRECTOR_H

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
    uint32_t operations;    /* of ORDER_STEP: how many may run before it stands at the gate; 0: all */
    uint64_t waited_ns;     /* how long rank 0 waited for it: set by its caller */
};

struct director_options {
    int64_t steps;        /* 0: until stopped */
    struct text_list at, lines; /* lines: heard before any that comes */
    bool paused;          /* from the start: a run that goes on as it was */
    bool interactive;     /* somebody can send commands: running out of memory waits for them */
    bool detached;        /* begins and goes on without an owner; out of memory waits for one no longer than grace_ns */
    int signal_fd;        /* readable (a signalfd): stop at the next boundary; -1: none */
    struct gate *gate;    /* of all ranks; NULL: some cannot see it, so no step is taken by operations */
    uint64_t grace_ns;    /* how long an interactive run waits for another owner when its own is gone */
    /* What the trace is to say; called on the thread of director_next() and its like. */
    void (*on_state)(void *user, enum run_state state, const char *reason, bool in_step);
    void (*on_command)(void *user, const char *line, const char *refusal); /* refusal NULL: accepted */
    void (*on_note)(void *user, const char *text);
    bool (*reader_lags)(void *user); /* the next step waits while it says so; NULL: never */
    void *user;
};

struct director;

/* STATUS_USAGE: an --at that cannot be understood. */
int director_new(struct director **out, const struct director_options *options, struct error *err);
void director_free(struct director *director);

void director_push(struct director *director, const char *line); /* any thread */
void director_owner_gone(struct director *director);             /* any thread */
void director_owner_here(struct director *director);             /* any thread: somebody drives again */

/* The next order, after `steps_done` steps. */
void director_next(struct director *director, int64_t steps_done, struct order *order);

/* Within the step after `steps_done`, which stands before its operation `next_op` of so many; `what` describes it. Returns when
 * the gate lets more happen: by command, because the run is to end, or because a rank that found a peer dead opened it. */
void director_at_gate(struct director *director, int64_t steps_done, uint32_t next_op, uint32_t operations,
                      const char *what);

enum run_state director_state(const struct director *director);

/* What it has not come to: --at arguments, and lines that were heard. They point into the director and its options. */
void director_rest(const struct director *director, struct text_list *at, struct text_list *lines);

/* What became of the last order. A change that was made ends a shortage of memory: the step is tried again. */
void director_applied(struct director *director, const struct command *command, const char *refusal);
void director_short_of_memory(struct director *director, const char *text);

#endif
