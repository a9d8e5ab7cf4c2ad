/* The front end's side of a relaunch. The keeper has the run's engine; when that one asks for it (relaunch.h), it holds socket and
 * viewers, sees it end, starts the next one and hands them on. Whoever watches the run goes on reading the same descriptor:
 * its other end has only moved. It never waits, so it lives in the loop of who shows the run, or of who stays with a detached
 * one.
 *
 *     keeper_begin(&keeper, &dir, &config, log, &err)
 *     loop: poll(keeper_fd(&keeper), ... at most keeper_tend(&keeper) ms)
 *     keeper_end(&keeper, grace_ms, &err)
 *
 * Where the next engine cannot start, the one before is started again, as it was; where that cannot either, the run ends
 * with a line that says how to resume it. */
#ifndef ENGINE_TRAIN_RELAUNCH_FRONT_H
#define ENGINE_TRAIN_RELAUNCH_FRONT_H

#include "engine/launch/launch.h"
#include "engine/launch/spec.h"
#include "engine/trace/handover.h"

enum keeper_state {
    KEEPER_WATCHES, /* the engine runs */
    KEEPER_AWAITS_END,
    KEEPER_AWAITS_CALL,
    KEEPER_FAILED, /* there is no engine any more, and the trace says why */
};

struct keeper {
    const struct rundir *dir;
    struct capture_log log;
    struct engine *engine; /* NULL: none */
    enum keeper_state state;
    struct handover held;
    uint64_t since_ns; /* in this state */
};

int keeper_begin(struct keeper *keeper, const struct rundir *dir, const struct config *config, const char *log, struct error *err);

int keeper_fd(const struct keeper *keeper); /* -1: nothing to poll for */

/* Does what can be done now. Returns in how many ms to call again; -1: when keeper_fd() is readable. */
int keeper_tend(struct keeper *keeper);

/* True if the engine has ended, or ends within timeout_ms, and none is to follow. */
bool keeper_is_over(struct keeper *keeper, int timeout_ms);

void keeper_kill(struct keeper *keeper); /* as engine_kill(); none will follow */

/* As engine_end(). */
int keeper_end(struct keeper *keeper, int grace_ms, struct error *err);

#endif
