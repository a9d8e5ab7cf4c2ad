/* Ranks that are threads or children of one process. They share one node block: heap memory of the group for threads, a
 * shared mapping that child processes inherit.
 *
 * All ranks are near to each other, so virtual nodes need no messages. Virtual nodes only decide under which link bytes
 * are counted and paced. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/comm/internal.h"
#include "engine/memory/pages.h"

struct kept {
    void *memory;
    size_t bytes;
};

struct comm_group {
    int ranks, ranks_per_node;
    struct node *node;
    size_t shared_bytes; /* of the node's mapping; 0: ranks are threads */
    struct kept *kept;   /* by rank, for threads: see comm_group_keep() */
};

static struct node *shared_node(size_t bytes, struct error *err)
{
    int fd = pages_file("zerolab-node", bytes, err);
    struct node *node = fd >= 0 ? pages_reserve(bytes, fd, err) : NULL;
    if (fd >= 0) close(fd);
    return node;
}

static struct node *private_node(size_t bytes, struct error *err)
{
    struct node *node = aligned_alloc(64, bytes);
    if (node) memset(node, 0, bytes);
    else error_set(err, STATUS_RUN, "no memory for a node of %zu bytes", bytes);
    return node;
}

static int create(struct comm_group **out, int ranks, int ranks_per_node, bool shared, struct error *err)
{
    *out = NULL;
    if (ranks < 1) return error_set(err, STATUS_USAGE, "%d ranks make no run; at least 1 is needed", ranks);
    struct comm_group *group = calloc(1, sizeof *group);
    if (!group) return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    const size_t bytes = round_up(node_bytes(ranks), 64);
    group->ranks = ranks;
    group->ranks_per_node = ranks_per_node > 0 && ranks_per_node < ranks ? ranks_per_node : ranks;
    group->shared_bytes = shared ? bytes : 0;
    group->kept = calloc((size_t)ranks, sizeof *group->kept);
    group->node = shared ? shared_node(bytes, err) : private_node(bytes, err);
    if (!group->kept || !group->node) {
        comm_group_free(group);
        return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    }
    group->node->members = group->node->seats = ranks;
    *out = group;
    return 0;
}

int comm_group_create(struct comm_group **out, int ranks, int ranks_per_node, struct error *err)
{
    return create(out, ranks, ranks_per_node, false, err);
}

int comm_group_create_shared(struct comm_group **out, int ranks, int ranks_per_node, struct error *err)
{
    return create(out, ranks, ranks_per_node, true, err);
}

void comm_group_free(struct comm_group *group)
{
    if (!group) return;
    for (int r = 0; group->kept && r < group->ranks; r++) pages_unreserve(group->kept[r].memory, group->kept[r].bytes);
    free(group->kept);
    if (group->shared_bytes) pages_unreserve(group->node, group->shared_bytes);
    else free(group->node);
    free(group);
}

void comm_group_keep(struct comm_group *group, int rank, void *memory, size_t bytes)
{
    group->kept[rank] = (struct kept){memory, bytes};
}

void comm_group_fail(struct comm_group *group, const struct error *reason)
{
    node_fail_as(group->node, reason->status, "%s", reason->text);
}

static int open_rank(struct comm **out, struct comm_group *group, int rank, struct error *err)
{
    int per_node = group->ranks_per_node;
    struct comm_layout layout = {
        .rank = rank,
        .ranks = group->ranks,
        .node = rank / per_node,
        .nodes = (group->ranks + per_node - 1) / per_node,
        .ranks_per_node = per_node,
    };
    int status = comm_new(out, &layout, err);
    if (status) return status;
    for (int r = 0; r < group->ranks; r++) (*out)->peer[r] = (struct comm_peer){.node = r / per_node, .pid = getpid()};
    (*out)->node = group->node;
    return 0;
}

int comm_open_thread(struct comm **out, struct comm_group *group, int rank, struct error *err)
{
    int status = open_rank(out, group, rank, err);
    if (!status) (*out)->group = group;
    return status;
}

/* Ranks do not watch each other: the process that started them sees a death first and calls comm_group_fail(). */
int comm_open_process(struct comm **out, struct comm_group *group, int rank, struct error *err)
{
    int status = open_rank(out, group, rank, err);
    if (status) return status;
    struct comm *comm = *out;
    const int ranks = group->ranks, own_pid = getpid();
    int pid[ranks];
    comm->node_bytes = group->shared_bytes;
    group->node = NULL; /* this process unmaps it with the rank */
    status = comm_exchange(comm, &own_pid, pid, sizeof own_pid, NULL, err);
    for (int r = 0; !status && r < ranks; r++) comm->peer[r].pid = pid[r];
    if (!status) return STATUS_OK;
    comm_close(comm);
    *out = NULL;
    return status;
}
