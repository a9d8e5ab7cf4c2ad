/* How rank 0 finds its front end, whatever started it in between (mpirun closes inherited descriptors): the front end
 * listens in the run's folder (a socket of mode 0600), rank 0 calls. A call that fails means that the front end is gone: the engine ends. */
#ifndef ENGINE_LAUNCH_HOME_H
#define ENGINE_LAUNCH_HOME_H

#include "engine/launch/rundir.h"

int home_listen(const struct rundir *dir, int *listen_fd, struct error *err);
int home_call(const struct rundir *dir, int *connected_fd, struct error *err);

#endif
