/* The private folder of a run: zerolab-PID under $XDG_RUNTIME_DIR, or under /tmp/zerolab-UID. It holds the sockets,
 * run.json and the files that Open MPI leaves behind, so removing the folder cleans up after any crash.
 *
 *     zerolab-PID/lock     shared lock, held by the front end and every process of the engine
 *                 run.json the order to the engine (spec.h)
 *                 home     socket on which rank 0 calls the front end (home_listen())
 *                 socket   socket to which viewers connect (trace/writer.h)
 *                 saves    the checkpoint folders of the run (save_claims.h)
 *
 * A folder is stale when no process holds its lock. A process number would not do: the system may have given it to
 * another program since. Every start removes stale folders. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

struct rundir {
    char path[80];
    int lock_fd; /* close-on-exec; -1: not held */
};

/* Makes this process's own folder, mode 0700, after removing stale ones. STATUS_RUN. of_lab: a second one, zerolab-PID-lab, for
 * files that outlive the runs of a lab; it holds no run. */
int rundir_create(struct rundir *dir, bool of_lab, struct error *err);

/* Called by an engine process: takes a shared lock on the front end's folder, so that it is not stale. STATUS_RUN. */
int rundir_join(struct rundir *dir, const char *path, struct error *err);

/* Gives up the lock and, if `remove`, deletes the folder. */
void rundir_close(struct rundir *dir, bool remove);

/* Writes the path of a file in the folder to out, which has `room` bytes. */
void rundir_path(const struct rundir *dir, const char *name, char *out, int room);

/* Removes a file, or a folder with all it holds, from the folder. */
void rundir_remove(const struct rundir *dir, const char *name);

/* Moves a file or folder out, so that it outlives the run. out: its new path, `room` bytes. STATUS_RUN. */
int rundir_keep(const struct rundir *dir, const char *name, char *out, int room, struct error *err);

struct rundir_found { int64_t pid, age_s; char path[80]; }; /* age_s: since its process began */

/* Lists runs of this user to which a viewer can connect, newest first, at most `room`. Returns how many. */
int rundir_list(struct rundir_found *found, int room);

/* Calls `look` for each live run of this user, also one that is starting or ending, except the run of `but` (NULL:
 * none). */
void rundir_others(const struct rundir *but, void (*look)(void *user, const char *path, int64_t pid), void *user);

/* Removes the stale folders of this user; returns how many. */
int rundir_sweep(void);

/* Connects rank 0 with its front end, whatever the launcher (mpirun closes inherited descriptors): the front end
 * listens on a socket of mode 0600 in the run's folder, and rank 0 calls. STATUS_RUN; a call fails when the front end
 * is gone. */
int home_listen(const struct rundir *dir, int *listen_fd, struct error *err);
int home_call(const struct rundir *dir, int *connected_fd, struct error *err);
