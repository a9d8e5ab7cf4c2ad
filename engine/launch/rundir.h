/* The private folder of a run: zerolab-PID under $XDG_RUNTIME_DIR, or under /tmp/zerolab-UID. It holds the sockets, the
 * run file, and whatever Open MPI leaves behind, so one removal cleans up after any crash.
 *
 *     zerolab-PID/lock     shared lock, held by the front end and every process of the engine
 *                 run.json what the engine is to do (spec.h)
 *                 home     where rank 0 reports to the front end (home_listen())
 *                 socket   where viewers attach (trace/writer.h)
 *                 saves    folders that the run keeps its checkpoints in (save_claims.h)
 *
 * A folder is stale when nobody holds its lock: that needs no process number, which the system may have given to another
 * program since. Every start removes stale folders. */
#ifndef ENGINE_LAUNCH_RUNDIR_H
#define ENGINE_LAUNCH_RUNDIR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

struct rundir {
    char path[80];
    int lock_fd; /* close-on-exec; -1: not held */
};

/* Makes this process's own folder, mode 0700, after removing stale ones. STATUS_RUN. */
int rundir_create(struct rundir *dir, struct error *err);

/* Another one of this process, for what outlives the runs of a lab: zerolab-PID-lab. It holds no run, and is swept likewise. */
int rundir_create_lab(struct rundir *dir, struct error *err);

/* An engine process joins the folder of its front end: keeps it from being taken for stale. */
int rundir_join(struct rundir *dir, const char *path, struct error *err);

/* Gives up the lock and, if `remove`, deletes the folder. */
void rundir_close(struct rundir *dir, bool remove);

/* path of a file in the folder; room is what it was given. */
void rundir_path(const struct rundir *dir, const char *name, char *out, int room);

/* Removes something in it, a file or a whole folder. */
void rundir_remove(const struct rundir *dir, const char *name);

/* Moves something out of it that is to stay when the run is gone; out: where it is then. STATUS_RUN. */
int rundir_keep(const struct rundir *dir, const char *name, char *out, int room, struct error *err);

struct rundir_found { int64_t pid, age_s; char path[80]; }; /* age_s: since its process began */

/* Runs of this user that go on and can be attached to, newest first; at most `room`. Returns how many. */
int rundir_list(struct rundir_found *found, int room);

/* Calls `look` for each run of this user that is alive, if only to end or to begin, but for that of `but` (NULL: for all). */
void rundir_others(const struct rundir *but, void (*look)(void *user, const char *path, int64_t pid), void *user);

/* Removes the stale folders of this user; returns how many. */
int rundir_sweep(void);

/* How rank 0 finds its front end, whatever started it in between (mpirun closes inherited descriptors): the front end
 * listens in the run's folder (a socket of mode 0600), rank 0 calls. A call that fails means that the front end is gone: the engine ends. */
int home_listen(const struct rundir *dir, int *listen_fd, struct error *err);
int home_call(const struct rundir *dir, int *connected_fd, struct error *err);

#endif
