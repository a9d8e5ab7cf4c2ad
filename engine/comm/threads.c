/* Ranks as threads of one process: the node block is ordinary memory of the group. */
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
    struct kept *kept; /* by rank */
};

int comm_group_create(struct comm_group **out, int ranks, int ranks_per_node, struct error *err)
{
    *out = NULL;
    if (ranks < 1) return error_set(err, STATUS_USAGE, "%d ranks make no run; at least 1 is needed", ranks);
    struct comm_group *group = calloc(1, sizeof *group);
    size_t bytes = round_up(node_bytes(ranks), 64);
    if (group) {
        group->ranks = ranks;
        group->ranks_per_node = ranks_per_node > 0 && ranks_per_node < ranks ? ranks_per_node : ranks;
        group->kept = calloc((size_t)ranks, sizeof *group->kept);
        group->node = aligned_alloc(64, bytes);
    }
    if (!group || !group->kept || !group->node) {
        comm_group_free(group);
        return error_set(err, STATUS_RUN, "no memory for %d ranks", ranks);
    }
    memset(group->node, 0, bytes);
    group->node->members = ranks;
    *out = group;
    return 0;
}

void comm_group_free(struct comm_group *group)
{
    if (!group) return;
    for (int r = 0; group->kept && r < group->ranks; r++) pages_unreserve(group->kept[r].memory, group->kept[r].bytes);
    free(group->kept);
    free(group->node);
    free(group);
}

void comm_group_keep(struct comm_group *group, int rank, void *memory, size_t bytes)
{
    group->kept[rank] = (struct kept){memory, bytes};
}

int comm_open_thread(struct comm **out, struct comm_group *group, int rank, struct error *err)
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
    (*out)->group = group;
    (*out)->node = group->node;
    return 0;
}
