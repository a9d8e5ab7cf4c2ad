/* Maps the memory of other ranks. Each rank publishes a file descriptor and an address. Threads of its process use the
 * address; other processes of the machine open /proc/PID/fd/N, so no name is left to clean up. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/comm/internal.h"
#include "engine/memory/memory.h"
#include "engine/memory/pages.h"

struct offer {
    int fd;
    void *address;
};

void *comm_map_of_process(int pid, int fd, uint64_t bytes, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int own_fd = open(path, O_RDWR | O_CLOEXEC);
    if (own_fd < 0) {
        error_set(err, STATUS_RUN, "cannot open %s to share memory: %s; ranks must run as one user in one container",
                  path, strerror(errno));
        return NULL;
    }
    void *mapped = pages_reserve(bytes, own_fd, err);
    close(own_fd);
    return mapped;
}

/* Maps the offer of each near rank. If one rank cannot map an offer, the call fails on all ranks. Memory of a GPU has no descriptor:
 * only threads read it in place, and other processes pass its bytes. */
static int map_offers(struct comm *comm, enum comm_call call, struct offer mine, uint64_t bytes, bool whole_machine,
                      void **mapped, struct error *err)
{
    struct comm_stat stat;
    struct error own = {0};
    int ranks = comm->layout.ranks,
        status = comm_arrive(comm, call, bytes, true, &mine, sizeof mine, sizeof mine, &stat, err);
    if (status) return status;
    const struct comm_peer *self = &comm->peer[comm->layout.rank];
    for (int r = 0; r < ranks && !own.status; r++) {
        const struct comm_peer *peer = &comm->peer[r];
        struct offer offer;
        memcpy(&offer, comm_message(comm, r)->payload, sizeof offer);
        if (peer->pid == self->pid && peer->machine == self->machine) mapped[r] = offer.address;
        else if (offer.fd < 0) continue;
        else if (whole_machine || !comm->wire ? peer->machine == self->machine : peer->node == self->node)
            mapped[r] = comm_map_of_process(peer->pid, offer.fd, bytes, &own);
    }
    if (own.status) node_fail(comm->node, "rank %d: %s", comm->layout.rank, own.text);
    return comm_arrive(comm, call, bytes, true, NULL, 0, 0, &stat, err);
}

int comm_attach(struct comm *comm, struct memory *memory, struct error *err)
{
    struct offer mine = {memory_symmetric(memory)->fd, memory_symmetric(memory)->base};
    comm->segment_bytes = memory_symmetric(memory)->bytes;
    const struct comm_device_ops *device_ops = comm->device_ops;
    if (device_ops && device_ops->attach &&
        device_ops->attach(device_ops->user, comm, mine.address, comm->segment_bytes, comm->base, err))
        return comm_failed(comm, err);
    return map_offers(comm, CALL_ATTACH, mine, comm->segment_bytes, false, (void **)comm->base, err);
}

/* Also maps segments across virtual nodes of the machine, so that one process can watch all its ranks. */
int comm_share(struct comm *comm, size_t bytes, struct error *err)
{
    struct error own = {0};
    struct offer mine = {.fd = pages_file("zerolab-shared", bytes, &own)};
    if (mine.fd >= 0) mine.address = pages_reserve(bytes, mine.fd, &own);
    if (own.status) node_fail(comm->node, "rank %d: %s", comm->layout.rank, own.text);
    comm->shared_bytes = bytes;
    int status = map_offers(comm, CALL_SHARE, mine, bytes, true, comm->shared, err);
    comm->shared[comm->layout.rank] = mine.address;
    if (mine.fd >= 0) close(mine.fd);
    return status;
}

void *comm_segment_of(struct comm *comm, int rank)
{
    return comm->shared[rank];
}
