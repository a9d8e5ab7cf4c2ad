/* The front end's side of a relaunch. The relauncher owns the run's engine. When the engine asks for a relaunch (relaunch.h), the
 * relauncher keeps socket and viewers, waits for the engine's end, starts the next engine and passes them on. Viewers keep reading
 * the same descriptor. No call blocks, so the relauncher runs in the loop of the screen, or of the process that stays with a
 * detached run.
 *
 *     relauncher_begin(&relauncher, &dir, &spec, &config, log, &err)
 *     loop: poll(relauncher_fd(&relauncher), ... at most relauncher_advance(&relauncher) ms)
 *     relauncher_end(&relauncher, grace_ms, &err)
 *
 * If the next engine cannot start, the one before it is started again, as it was. If that fails too, the run ends with a line that
 * says how to resume it. */
#pragma once

#include "engine/launch/launch.h"
#include "engine/launch/spec.h"
#include "engine/trace/handover.h"

enum relauncher_state {
    RELAUNCHER_WATCHES,     /* the engine runs */
    RELAUNCHER_AWAITS_END,  /* socket and viewers are taken over; the engine is ending */
    RELAUNCHER_AWAITS_CALL, /* the next engine is started; its rank 0 has not called yet */
    RELAUNCHER_FAILED,      /* no engine is left, and the trace says why */
};

struct relauncher {
    const struct rundir *dir;
    struct capture_log log;
    struct engine *engine; /* NULL: none */
    enum relauncher_state state;
    struct handover held;
    uint64_t since_ns; /* when the state was entered */
};

int relauncher_begin(struct relauncher *relauncher, const struct rundir *dir, const struct run_spec *spec, const struct config *config, const char *log, struct error *err);

int relauncher_fd(const struct relauncher *relauncher); /* -1: nothing to poll for */

/* Does all that is possible without blocking. Returns in how many ms to call again; -1: when relauncher_fd() is
 * readable. */
int relauncher_advance(struct relauncher *relauncher);

/* True if the engine has ended, or ends within timeout_ms, and no other engine follows. */
bool relauncher_is_over(struct relauncher *relauncher, int timeout_ms);

void relauncher_kill(struct relauncher *relauncher); /* as engine_kill(); no other engine follows */

/* As engine_end(); STATUS_OK after RELAUNCHER_FAILED, because the trace says why. */
int relauncher_end(struct relauncher *relauncher, int grace_ms, struct error *err);
