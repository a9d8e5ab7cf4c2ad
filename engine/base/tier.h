/* Memory tiers, memory categories, traffic and links, as the plan, allocator, trace and views name them (docs/design/memory.md). */
#pragma once

enum tier { TIER_DEVICE, TIER_HOST, TIER_NVME, TIERS };

/* X(id, letter, name in reports, description) */
#define CATEGORY_TABLE(X)                                                                                              \
    X(PARAMETERS, 'P', "parameters", "the rank's own lasting parameters: whole at stages 0-2, a shard at 3")           \
    X(GRADIENTS, 'G', "gradients", "reduced or whole gradients kept until the update")                                 \
    X(OPTIMIZER, 'O', "optimizer", "master weights and moments")                                                       \
    X(ACTIVATIONS, 'A', "activations", "saved for backward")                                                           \
    X(BUCKETS, 'B', "buckets", "reduce and all-gather buffers, unreduced gradients in flight")                         \
    X(GATHERED, 'L', "gathered", "parameters gathered from other ranks for use now, or kept gathered")                 \
    X(STAGING, 'S', "staging", "pinned and NVMe buffers")                                                              \
    X(WORKSPACE, 'W', "workspace", "kernel scratch, activation gradients")                                             \
    X(SECONDARY, 'H', "secondary", "the second copy of parameters within a node, for backward (ZeRO++ hpZ)")

enum category {
#define X(id, letter, name, help) CATEGORY_##id,
    CATEGORY_TABLE(X)
#undef X
        CATEGORIES
};

static inline const char *tier_name(enum tier tier)
{
    static const char *const names[] = {"device", "host", "nvme"};
    return names[tier];
}

static inline const char *category_name(enum category category)
{
    static const char *const names[] = {
#define X(id, letter, name, help) name,
        CATEGORY_TABLE(X)
#undef X
    };
    return names[category];
}

static inline char category_letter(enum category category)
{
    static const char letters[] = {
#define X(id, letter, name, help) letter,
        CATEGORY_TABLE(X)
#undef X
    };
    return letters[category];
}

/* Kinds of collectives and transfers, and classes of links. */
enum traffic {
    TRAFFIC_ALL_GATHER, TRAFFIC_REDUCE_SCATTER, TRAFFIC_ALL_REDUCE, TRAFFIC_BROADCAST, TRAFFIC_ALL_TO_ALL,
    TRAFFIC_D2H, TRAFFIC_H2D, TRAFFIC_NVME_READ, TRAFFIC_NVME_WRITE,
    TRAFFIC_CONTROL, /* norms, losses, flags: counted apart from tensors */
    TRAFFIC_KINDS
};
enum link { LINK_INTRA, LINK_INTER, LINK_PCIE, LINK_NVME, LINKS };

/* Whether a transfer is between tiers of one rank. It uses one link, and its bytes count for that link, not as sent to ranks. */
static inline int traffic_is_copy(enum traffic kind)
{
    return kind >= TRAFFIC_D2H && kind <= TRAFFIC_NVME_WRITE;
}

static inline enum link traffic_link(enum traffic kind)
{
    return kind < TRAFFIC_D2H || kind > TRAFFIC_NVME_WRITE ? LINK_INTRA : kind <= TRAFFIC_H2D ? LINK_PCIE : LINK_NVME;
}

static inline const char *traffic_name(enum traffic kind)
{
    static const char *const names[] = {"all_gather", "reduce_scatter", "all_reduce", "broadcast", "all_to_all",
                                        "d2h", "h2d", "nvme_read", "nvme_write", "control"};
    return names[kind];
}

static inline const char *link_name(enum link link)
{
    static const char *const names[] = {"intra", "inter", "pcie", "nvme"};
    return names[link];
}
