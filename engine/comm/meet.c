/* Barriers inside a collective: after the first, every rank has arrived; after the last, every rank has read what will be overwritten.
 * The threads of all ranks always meet. Device operations have three cases. There are none (threads did the work). Or each thread waits
 * for its device before it meets the others. Or the devices keep the barrier themselves (comm.h), and no thread waits for a device.
 *
 * No deadlock: a stream waits only for points that other streams recorded before the threads met, and all ranks send a
 * pass after they met, without a wait in between. So the order in which all ranks' operations were sent is an order in
 * which all can run, even if streams share a hardware queue. Therefore a thread may wait for its device, and for other
 * threads, which enter collectives in the same order. */
#include "engine/comm/internal.h"
#include "engine/memory/mover.h"

static bool device_ops_meet(const struct comm *comm)
{
    return comm->device_ops && comm->device_ops->come;
}

static bool is_alone(const struct comm *comm)
{
    return comm->layout.ranks == 1;
}

static int number(uint64_t meeting)
{
    return (int)(meeting % COMM_MEETINGS);
}

int comm_device_barrier_begin(struct comm *comm)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    int status = STATUS_OK;
    if (!device_ops || (device_ops_meet(comm) && is_alone(comm))) return STATUS_OK;
    if (device_ops_meet(comm)) status = device_ops->come(device_ops->user, number(comm->meetings++), &own);
    else status = mover_finish(device_ops->mover, &own);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}

int comm_device_barrier_end(struct comm *comm, struct comm_stat *stat)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    struct error own;
    if (!device_ops_meet(comm) || is_alone(comm)) return STATUS_OK;
    if (stat->meetings++ == 0) stat->meeting = comm->meetings - 1;
    return device_ops->meet(device_ops->user, number(comm->meetings - 1), &own) ? comm_failed(comm, &own) : STATUS_OK;
}

int comm_device_barrier(struct comm *comm, struct comm_stat *stat)
{
    int status = comm_device_barrier_begin(comm);
    if (!status) status = comm_barrier_of_call(comm, &stat->peers_ns);
    return status ? status : comm_device_barrier_end(comm, stat);
}

int comm_waited(const struct comm *comm, struct comm_stat *stat, struct error *err)
{
    int status = STATUS_OK;
    for (int m = 0; m < stat->meetings && !status; m++) {
        uint64_t ns = 0;
        status = comm->device_ops->waited(comm->device_ops->user, number(stat->meeting + (uint64_t)m), &ns, err);
        stat->peers_ns = m ? stat->peers_ns + ns : ns;
        if (m == 0) stat->arrival_ns = ns;
    }
    return status;
}

/* ---- counting the ranks that may read ---- */

void comm_begin_reading(struct comm *comm)
{
    if (comm->inside) return;
    comm->inside = true;
    atomic_fetch_add(&comm->node->inside, 1);
}

/* With device meetings the end of the device operations is not known here, so the rank counts as reading until the last call. */
int comm_end_reading(struct comm *comm, bool at_last)
{
    struct error own;
    if (!comm->inside || (device_ops_meet(comm) && !at_last)) return STATUS_OK;
    const int status = comm->device_ops ? mover_finish(comm->device_ops->mover, &own) : STATUS_OK;
    comm->inside = false;
    atomic_fetch_sub(&comm->node->inside, 1);
    return status ? comm_failed(comm, &own) : STATUS_OK;
}
