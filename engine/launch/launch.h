/* Starts the engine and sees it end. The front end never trains: the engine is another process, started by a launcher
 * (launcher.h) in a session of its own, without input, its output captured.
 *
 *     engine_start(&engine, &dir, &config, log, &err)
 *     engine_call(engine, &fd, &err)        waits for rank 0; what it writes to fd is the trace
 *     ... until the trace ends ...
 *     engine_end(engine, grace_ms, &err)    waits, ends what is left by force, says in one line what went wrong
 *
 * No process outlives the run. The kernel ends a rank with SIGKILL when the process that started it is gone. Processes that
 * are left become children of the front end, which waits for them. Rank 0 ends the run when its owner is gone (director.h).
 * A launcher whose ranks are gone and that does not end is killed. */
#ifndef ENGINE_LAUNCH_LAUNCH_H
#define ENGINE_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "engine/launch/capture.h"
#include "engine/launch/launcher.h"
#include "engine/launch/rundir.h"

struct engine;

/* The file of this program, by which a launcher starts it. */
enum { LAUNCH_PROGRAM_ROOM = 4096 };
int launch_program(char program[LAUNCH_PROGRAM_ROOM], struct error *err);

/* What the engine's processes find in their environment; before exec. passes: gpu_passes(), which has to be asked before a
 * fork; files of a launcher go to `folder`. */
void launch_environment(const struct launcher *launcher, const struct config *config, bool passes, const char *folder);

int engine_start(struct engine **out, const struct rundir *dir, const struct config *config, struct capture_log *log, struct error *err);

/* Waits until rank 0 calls; *connected_fd is -1 when a signal came on signal_fd first. STATUS_RUN: the engine ended before. */
int engine_call(struct engine *engine, int signal_fd, int *connected_fd, struct error *err);

/* For one that goes on where another stopped (relauncher.h): readable when rank 0 calls; takes that call, or -1: there is none. */
int engine_home(const struct engine *engine);
int engine_answer(struct engine *engine);

/* True if all of the engine's processes have ended within timeout_ms, or have left only a launcher behind that does not end. */
bool engine_wait(struct engine *engine, int timeout_ms);

/* Asks the engine's processes to end at once. */
void engine_kill(struct engine *engine);

/* Waits at most grace_ms for all of the engine's processes, then ends them; frees. Returns the status and line of
 * failure_explain(). */
int engine_end(struct engine *engine, int grace_ms, struct error *err);

#endif
