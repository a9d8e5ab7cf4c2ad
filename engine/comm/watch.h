/* Are the other processes still alive? A rank that waits for others looks about twice a second. */
#ifndef ENGINE_COMM_WATCH_H
#define ENGINE_COMM_WATCH_H

#include <stdint.h>

enum { WATCH_NS = 200000000 };
#define DEATH_FORMAT "rank %d (process %d) died"

struct watched { int rank, pid, pidfd; }; /* pidfd -1: the kernel has none, signal 0 is asked instead */
struct watch {
    struct watched *peer; /* none when ranks are threads */
    int count;
    uint64_t next_ns;
};

void watch_add(struct watch *watch, int rank, int pid);
void watch_release(struct watch *watch);

/* The first peer found dead, or NULL; also NULL when it was asked less than WATCH_NS ago. */
const struct watched *watch_dead(struct watch *watch);

#endif
