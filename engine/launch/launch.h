/* Starts the engine and waits for its end. The front end never trains: the engine is another process, started by a
 * launcher (launcher.h) in a session of its own, without input and with captured output (capture.h).
 *
 *     engine_start(&engine, &dir, &spec, &config, log, &err)
 *     engine_call(engine, &fd, &err)        waits for rank 0; what it writes to fd is the trace
 *     ... until the trace ends ...
 *     engine_end(engine, grace_ms, NULL, &err)    waits, kills the remaining processes, says in one line what went wrong
 *
 * No process outlives the run. The kernel ends a rank with SIGKILL when the process that started it is gone. Orphans
 * become children of the front end, which waits for them. Rank 0 ends the run when its owner is gone (director.h).
 * A launcher that does not end after its ranks is killed. */
#pragma once

#include <stdbool.h>

#include "engine/launch/capture.h"
#include "engine/launch/launcher.h"
#include "engine/launch/rundir.h"
#include "engine/base/error.h"

struct engine;

/* The path of this program's own file, which a launcher starts. STATUS_RUN. */
enum { LAUNCH_PROGRAM_ROOM = 4096 };
int launch_program(char program[LAUNCH_PROGRAM_ROOM], struct error *err);

/* Sets the environment of the engine's processes; called before exec. folder: where a launcher puts its own files. */
void launch_environment(const struct launcher *launcher, const struct config *config, const char *folder);

/* Starts the engine. spec: the order that is in dir; config: its configuration. */
int engine_start(struct engine **out, const struct rundir *dir, const struct run_spec *spec, const struct config *config, struct capture_log *log, struct error *err);

/* Like engine_start(), with another verb and operand than the launcher's own. It reads only hosts and agent of `spec`. */
struct launch_order {
    const struct launcher *launcher;
    const char *verb, *operand;
    const struct rundir *dir;
    const struct run_spec *spec;
    const struct config *config;
};
int engine_launch(struct engine **out, const struct launch_order *order, struct capture_log *log, struct error *err);

/* Waits until rank 0 calls; *connected_fd (the caller closes it) is -1 when a signal came on signal_fd first.
 * STATUS_RUN: the engine ended before it called, or did not call within two minutes. */
int engine_call(struct engine *engine, int signal_fd, int *connected_fd, struct error *err);

/* For the next engine of a relaunch (relauncher.h). engine_home(): a descriptor that is readable when rank 0 calls.
 * engine_answer(): accepts that call without waiting; the caller closes the descriptor; -1: rank 0 has not called. */
int engine_home(const struct engine *engine);
int engine_answer(struct engine *engine);

/* True if all of the engine's processes end within timeout_ms, or only a launcher is left that does not end. */
bool engine_wait(struct engine *engine, int timeout_ms);

/* Asks the engine's processes to end at once (SIGTERM to the launcher); does not wait. */
void engine_kill(struct engine *engine);

/* Waits at most grace_ms for all of the engine's processes, then ends them by force; frees the engine. Returns the
 * status of failure_explain(), with its line in err. *printed: what they printed (capture_finish()); NULL: not wanted. */
int engine_end(struct engine *engine, int grace_ms, char **printed, struct error *err);

/* Makes one clear line of what a dead engine left behind: its wait status and all that it printed. */

/* launcher: the process that was started, "mpirun" or "the engine"; NULL: processes were ended by force, and the wait status
 * says nothing. Sets err and returns its status; STATUS_OK and an untouched err when nothing indicates a failure. */
int failure_explain(int wait_status, const char *printed, const char *launcher, struct error *err);
