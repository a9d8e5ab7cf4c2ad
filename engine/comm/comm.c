/* Communicators: the barrier at the start of each call, control messages, failure and closing. */
#include "engine/comm/internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/futex.h"
#include "engine/memory/pages.h"

static const uint64_t STRANDED_NS = 10000000000u; /* far longer than device operations take */

static const char *call_name(uint32_t call)
{
    static const char *const names[] = {"all-gather", "reduce-scatter", "all-reduce", "exchange",
                                        "broadcast",  "attach",         "share",      "close"};
    return call < sizeof names / sizeof *names ? names[call] : "nothing known";
}

void comm_scale(struct comm *comm, float before, float after)
{
    comm->factors = (struct reduce_factors){before, after};
}

/* ---- the watcher ---- */

static void *watcher_main(void *user)
{
    struct comm *comm = user;
    const struct comm_device_ops *device_ops = comm->device_ops;
    while (!atomic_load(&comm->watcher.ends) && !node_has_failed(comm->node)) {
        struct error lost;
        const struct watched *dead = watch_dead(&comm->watch);
        if (dead) node_fail(comm->node, DEATH_FORMAT, dead->rank, dead->pid);
        else if (device_ops->look(device_ops->user, &lost)) comm_abort(comm, &lost);
        else futex_wait(&comm->watcher.ends, 0, WATCH_NS);
    }
    if (node_has_failed(comm->node)) device_ops->give_up(device_ops->user);
    return NULL;
}

static void watcher_stop(struct comm *comm)
{
    if (!comm->watcher.runs) return;
    atomic_store(&comm->watcher.ends, 1);
    futex_wake_all(&comm->watcher.ends);
    pthread_join(comm->watcher.thread, NULL);
    comm->watcher.runs = false;
}

void comm_use(struct comm *comm, const struct comm_device_ops *device_ops)
{
    if (comm->device_ops == device_ops) return;
    watcher_stop(comm);
    comm->device_ops = device_ops;
    if (!device_ops || !device_ops->look) return;
    atomic_store(&comm->watcher.ends, 0);
    comm->watcher.runs = pthread_create(&comm->watcher.thread, NULL, watcher_main, comm) == 0;
    if (!comm->watcher.runs) node_fail(comm->node, "rank %d: cannot start a thread", comm->layout.rank);
}

void comm_room(struct comm *comm, void *room, uint64_t bytes)
{
    comm->room = room;
    comm->room_bytes = bytes;
}

int comm_new(struct comm **out, const struct comm_layout *layout, struct error *err)
{
    *out = NULL;
    struct comm *comm = calloc(1, sizeof *comm);
    size_t ranks = (size_t)layout->ranks;
    if (comm) {
        comm->layout = *layout;
        comm_scale(comm, 1, 1 / (float)layout->ranks);
        comm->peer = calloc(ranks, sizeof *comm->peer);
        comm->base = calloc(ranks, sizeof *comm->base);
        comm->shared = calloc(ranks, sizeof *comm->shared);
    }
    if (comm && comm->peer && comm->base && comm->shared) {
        comm_set_group(comm, NULL);
        *out = comm;
        return 0;
    }
    comm_close(comm);
    return error_set(err, STATUS_RUN, "no memory for the communicator");
}

const struct comm_layout *comm_layout(const struct comm *comm)
{
    return &comm->layout;
}

const char *comm_host(const struct comm *comm, int rank)
{
    return comm->peer[comm->layout.ranks - 1].machine ? comm->peer[rank].host : "";
}

int comm_machines(const struct comm *comm)
{
    return comm->peer[comm->layout.ranks - 1].machine + 1;
}

int comm_machine_of(const struct comm *comm, int rank)
{
    return comm->peer[rank].machine;
}

int comm_leader_of(const struct comm *comm, int machine)
{
    int rank = 0;
    while (comm->peer[rank].machine != machine) rank++;
    return rank;
}

void comm_bind_cores(const struct comm *comm, int threads)
{
    const int rank = comm->layout.rank;
    int before = 0, here = 0;
    for (int r = 0; r < comm->layout.ranks; r++) {
        if (comm->peer[r].machine != comm->peer[rank].machine) continue;
        before += r < rank;
        here++;
    }
    cpu_set_t all, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof all, &all)) return;
    const int cores = CPU_COUNT(&all), on_each = here * threads / cores;
    if (cores != sysconf(_SC_NPROCESSORS_ONLN) || here * threads % cores) return;
    for (int cpu = 0, core = 0; core < cores; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        if (core >= before * threads / on_each && core <= ((before + 1) * threads - 1) / on_each) CPU_SET(cpu, &own);
        core++;
    }
    sched_setaffinity(0, sizeof own, &own);
}

void comm_abort(struct comm *comm, const struct error *reason)
{
    const char *host = comm_host(comm, comm->layout.rank);
    node_fail_as(comm->node, reason->status, "rank %d%s%s: %s", comm->layout.rank, *host ? " on host " : "", host, reason->text);
    if (comm->device_ops && comm->device_ops->give_up) comm->device_ops->give_up(comm->device_ops->user);
}

int comm_failed(struct comm *comm, const struct error *failure)
{
    struct error reason = *failure;
    reason.status = STATUS_RUN;
    comm_abort(comm, &reason);
    return STATUS_RUN;
}

int comm_result(struct comm *comm, int status, struct error *err)
{
    if (!status) return 0;
    if (comm->wire) comm->wire->announce(comm);
    return node_error(comm->node, err);
}

static int message_slot(const struct comm *comm)
{
    return (int)(comm->exchanges[comm->members.kind] & 1);
}

const struct node_message *comm_message(const struct comm *comm, int rank)
{
    return &comm->node->seat[rank].message[message_slot(comm)];
}

struct node_sign *comm_sign(const struct comm *comm, int rank)
{
    const enum group kind = comm->members.kind;
    struct node_seat *seat = &comm->node->seat[rank];
    return kind == GROUP_WORLD ? &seat->message[message_slot(comm)].sign : &seat->sign[kind][message_slot(comm)];
}

void comm_set_group(struct comm *comm, const struct process_group *group)
{
    comm->members = group ? *group : (struct process_group){GROUP_WORLD, 0, 1, comm->layout.ranks};
    comm->near_first = comm->near_count = 0;
    for (int m = comm->members.count - 1; m >= 0; m--) {
        const int rank = member_rank(&comm->members, m);
        if (comm->wire && comm->peer[rank].node != comm->layout.node) continue;
        comm->near_first = rank;
        comm->near_count++;
    }
}

/* All ranks must be in the same call with the same arguments. Otherwise there is a bug that would corrupt data silently. */
static int check_agreement(struct comm *comm, bool *healthy)
{
    const struct node_sign *own = comm_sign(comm, comm->layout.rank);
    *healthy = true;
    for (int m = 0; m < comm->members.count; m++) {
        const int r = member_rank(&comm->members, m);
        const struct node_sign *sign = comm_sign(comm, r);
        *healthy = *healthy && sign->healthy;
        if (sign->call == own->call && sign->digest == own->digest) continue;
        int low = r < comm->layout.rank ? r : comm->layout.rank, high = r < comm->layout.rank ? comm->layout.rank : r;
        node_fail(comm->node, "ranks %d and %d disagree on a collective (%s and %s); this is a bug", low, high,
                  call_name(comm_sign(comm, low)->call), call_name(comm_sign(comm, high)->call));
        return STATUS_RUN;
    }
    return 0;
}

/* One barrier per arrival is enough: the two slots are used in turn, so a rank writes a slot again only after a later
 * arrival, which the slot's slowest reader has entered too. The first rank of each node fetches the other nodes' messages. */
int comm_arrive(struct comm *comm, enum comm_call call, uint64_t digest, bool healthy, const void *mine, size_t bytes,
                size_t payload_bytes, struct comm_stat *stat, struct error *err)
{
    *stat = (struct comm_stat){0};
    /* After a failure there are no barriers that wait for slow readers, so the slots must not be written. */
    if (node_has_failed(comm->node)) return comm_result(comm, STATUS_RUN, err);
    comm->exchanges[comm->members.kind]++;
    *comm_sign(comm, comm->layout.rank) = (struct node_sign){call, healthy, digest};
    if (bytes) memcpy(comm->node->seat[comm->layout.rank].message[message_slot(comm)].payload, mine, bytes);
    int status = comm_barrier_of_call(comm, &stat->peers_ns);
    if (!status && comm_goes_far(comm)) {
        if (comm->layout.rank == comm->near_first) status = comm->wire->exchange(comm, payload_bytes);
        if (!status) status = comm_barrier_of_call(comm, &stat->peers_ns);
    }
    stat->arrival_ns = stat->peers_ns;
    if (!status) status = check_agreement(comm, &stat->healthy);
    return comm_result(comm, status, err);
}

int comm_check(struct comm *comm, struct error *err)
{
    const struct watched *dead = comm->wire ? NULL : watch_dead(&comm->watch);
    if (comm->wire) comm->wire->look(comm);
    if (dead) node_fail(comm->node, DEATH_FORMAT, dead->rank, dead->pid);
    return comm_result(comm, node_has_failed(comm->node) ? STATUS_RUN : 0, err);
}

bool comm_has_failed(const struct comm *comm)
{
    return node_has_failed(comm->node);
}

int comm_exchange(struct comm *comm, const void *mine, void *all, size_t bytes, struct comm_stat *stat,
                  struct error *err)
{
    struct comm_stat unused;
    if (!stat) stat = &unused;
    if (bytes > NODE_PAYLOAD_BYTES)
        return error_set(err, STATUS_RUN, "an exchange of %zu bytes is too large; this is a bug", bytes);
    int status = comm_arrive(comm, CALL_EXCHANGE, bytes, true, mine, bytes, bytes, stat, err);
    if (status) return status;
    for (int r = 0; bytes && r < comm->layout.ranks; r++) {
        memcpy((char *)all + (size_t)r * bytes, comm_message(comm, r)->payload, bytes);
        if (r != comm->layout.rank) stat->sent_bytes[comm_link(comm, r)] += bytes;
    }
    return 0;
}

int comm_partitions(const struct comm *comm, int partition, struct error *err)
{
    for (int r = 0; partition > 1 && r < comm->layout.ranks; r++)
        if (comm->peer[r].node != comm->peer[r - r % partition].node)
            return error_set(err, STATUS_USAGE,
                             "zero_optimization.zero_hpz_partition_size = %d: ranks %d and %d are on two nodes; a "
                             "partition lies on one",
                             partition, r - r % partition, r);
    return STATUS_OK;
}

int comm_barrier(struct comm *comm, struct error *err)
{
    char mine = 0, all[4096];
    return comm_exchange(comm, &mine, all, sizeof mine, NULL, err);
}

int comm_broadcast_control(struct comm *comm, void *data, size_t bytes, struct error *err)
{
    struct comm_stat stat;
    bool root = comm->layout.rank == 0;
    for (size_t at = 0; at < bytes; at += NODE_PAYLOAD_BYTES) {
        size_t size = bytes - at < NODE_PAYLOAD_BYTES ? bytes - at : NODE_PAYLOAD_BYTES;
        int status =
            comm_arrive(comm, CALL_BROADCAST, bytes, true, (char *)data + at, root ? size : 0, size, &stat, err);
        if (status) return status;
        if (!root) memcpy((char *)data + at, comm_message(comm, 0)->payload, size);
    }
    return 0;
}

/* Ranks that are threads read each other's memory, so after a failure a rank waits here until no other rank reads. The
 * wait is short: all waits of a failed node end at once, and comm_close() has ended the passes (give_up). Only device
 * operations that wait for those of the failed rank may never end. */
static void wait_until_nobody_reads(const struct comm *comm)
{
    const struct comm_device_ops *device_ops = comm->device_ops;
    const uint64_t since_ns = clock_ns();
    struct error why;
    while (atomic_load(&comm->node->inside)) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        if (!device_ops || !device_ops->stranded || clock_ns() - since_ns < STRANDED_NS) continue;
        node_error(comm->node, &why);
        device_ops->stranded(device_ops->user, &why);
    }
}

static void unmap_peers(struct comm *comm)
{
    for (int r = 0; r < comm->layout.ranks; r++) {
        bool own = r == comm->layout.rank;
        if (comm->group) {
            if (own && comm->shared && comm->shared[r])
                comm_group_keep(comm->group, r, comm->shared[r], comm->shared_bytes);
            continue;
        }
        if (comm->base && comm->base[r] && !own && !comm->device_ops) pages_unreserve(comm->base[r], comm->segment_bytes);
        if (comm->shared && comm->shared[r]) pages_unreserve(comm->shared[r], comm->shared_bytes);
    }
}

void comm_close(struct comm *comm)
{
    if (!comm) return;
    bool healthy = false;
    if (comm->node) {
        struct comm_stat stat;
        if (node_has_failed(comm->node) && comm->device_ops && comm->device_ops->give_up)
            comm->device_ops->give_up(comm->device_ops->user);
        comm_end_reading(comm, true);
        watcher_stop(comm); /* from now on no thread waits for a device, and ranks end */
        healthy = comm_arrive(comm, CALL_CLOSE, 0, true, NULL, 0, 0, &stat, NULL) == 0;
        if (comm->group && !healthy) wait_until_nobody_reads(comm);
    }
    if (comm->close_backend) comm->close_backend(comm, healthy);
    unmap_peers(comm);
    if (!comm->group) pages_unreserve(comm->node, comm->node_bytes);
    watch_release(&comm->watch);
    free(comm->transfers);
    free(comm->peer);
    free(comm->base);
    free(comm->shared);
    free(comm);
}
