/* Ranks that are threads or children of one process. They share one node block: a mapping that child processes inherit.
 *
 * All ranks are near to each other, so virtual nodes need no messages. Virtual nodes only decide under which link bytes
 * are counted and paced. */
#include <stdlib.h>
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
    size_t node_bytes;
    struct kept *kept;   /* by rank, for threads: see comm_group_keep() */
};

int comm_group_create(struct comm_group **out, int ranks, int ranks_per_node, struct error *err)
{
    *out = NULL;
    if (ranks < 1) return error_set(err, STATUS_USAGE, "%d ranks make no run; at least 1 is needed", ranks);
    struct comm_group *group = calloc(1, sizeof *group);
    if (!group) return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    group->ranks = ranks;
    group->ranks_per_node = ranks_per_node > 0 && ranks_per_node < ranks ? ranks_per_node : ranks;
    group->node_bytes = node_bytes(ranks);
    group->kept = calloc((size_t)ranks, sizeof *group->kept);
    const int fd = pages_file("zerolab-node", group->node_bytes, err);
    if (fd >= 0) group->node = pages_reserve(group->node_bytes, fd, err), close(fd);
    if (!group->kept || !group->node) {
        comm_group_free(group);
        return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    }
    group->node->members = group->node->seats = ranks;
    *out = group;
    return 0;
}

void comm_group_free(struct comm_group *group)
{
    if (!group) return;
    for (int r = 0; group->kept && r < group->ranks; r++) pages_unreserve(group->kept[r].memory, group->kept[r].bytes);
    free(group->kept);
    pages_unreserve(group->node, group->node_bytes);
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
    comm->node_bytes = group->node_bytes;
    group->node = NULL; /* this process unmaps it with the rank */
    status = comm_exchange(comm, &own_pid, pid, sizeof own_pid, NULL, err);
    for (int r = 0; !status && r < ranks; r++) comm->peer[r].pid = pid[r];
    if (!status) return STATUS_OK;
    comm_close(comm);
    *out = NULL;
    return status;
}
