/* Where it runs: budgets of the tiers, ranks and their nodes, links. */
#include <stdio.h>

#include "engine/advise/effect_parts.h"
#include "engine/base/grouped.h"

typedef const struct effect_text *out_t;
typedef const struct effect_run *run_t;

static void budget(out_t out, run_t run, enum tier tier)
{
    char bytes[32];
    effect_say(out, "a rank's plan needs %s bytes of the %s tier at its fullest",
               grouped(bytes, run->setup->footprint.peak_bytes[tier]), tier_name(tier));
}

static void device_budget(out_t out, run_t run)
{
    budget(out, run, TIER_DEVICE);
}

static void host_budget(out_t out, run_t run)
{
    budget(out, run, TIER_HOST);
}

static void nvme_budget(out_t out, run_t run)
{
    budget(out, run, TIER_NVME);
}

static void ranks(out_t out, run_t run)
{
    char bytes[32];
    if (run->config->topology.ranks == 1) effect_say(out, "one rank owns everything and sends nothing");
    else effect_say(out, "each sends %s bytes in a step", grouped(bytes, run->sent_bytes));
}

static void ranks_per_node(out_t out, run_t run)
{
    int all = run->config->topology.ranks, each = run->config->topology.ranks_per_node;
    if (each == 0) effect_say(out, "0: as the machines are");
    else effect_say(out, "%d virtual node%s of %d rank%s", all / each, plural(all / each), each, plural(each));
}

static void gpus(out_t out, run_t run)
{
    const int given = run->config->topology.gpus, all = run->config->topology.ranks;
    if (run->config->topology.backend != BACKEND_CUDA) effect_say(out, "the processor computes, so none is used");
    else if (given == 0) effect_say(out, "0: one each where there are %d or more; one for all where there is one", all);
    else effect_say(out, given == 1 ? "GPU 0 is all ranks'" : "rank r has GPU r to itself");
}

/* The largest of what arrives for a reduction. */
static void collectives(out_t out, run_t run)
{
    const struct schedule *schedule = &run->setup->schedule;
    char text[32];
    int64_t most = 0;
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        const int room = op->lane == LANE_COMM ? op->buffer[ROLE_SCRATCH] : -1;
        if (room >= 0 && schedule->buffers[room].bytes > most) most = schedule->buffers[room].bytes;
    }
    if (run->config->topology.backend != BACKEND_CUDA) effect_say(out, "ranks read each other's memory");
    else if (most) effect_say(out, "what others send for a sum takes %s bytes of buckets at most", grouped(text, most));
    else effect_say(out, "sums take no buffer: sources are read where they are");
}

static void intra_bandwidth(out_t out, run_t run)
{
    double rate = run->config->topology.links[LINK_INTRA].bandwidth_bytes_per_s;
    int per_node = run->config->topology.ranks_per_node;
    bool one_node = per_node == 0 || per_node == run->config->topology.ranks;
    char bytes[32];
    if (rate > 0 && one_node)
        effect_say(out, "a rank's %s bytes of a step take at least %.3g ms", grouped(bytes, run->sent_bytes),
                   1e3 * (double)run->sent_bytes / rate);
}

/* Both ways between two tiers; each way has a lane of its own. */
static void tier_link(out_t out, run_t run, enum link link, enum traffic first, const char *const ways[2])
{
    const struct traffic_sum *there = &run->traffic[first], *back = &run->traffic[first + 1];
    const struct config_link *pace = &run->config->topology.links[link];
    char a[32], b[32];
    if (there->count + back->count == 0 || pace->bandwidth_bytes_per_s + pace->latency_s == 0) return;
    effect_say(out, "in a step a rank %s %s bytes in %d transfers, %.3g ms at this pace, and %s %s in %d, %.3g ms",
               ways[0], grouped(a, there->sent_bytes), there->count, 1e3 * traffic_seconds(there, pace), ways[1],
               grouped(b, back->sent_bytes), back->count, 1e3 * traffic_seconds(back, pace));
}

static void pcie_link(out_t out, run_t run)
{
    static const char *const ways[] = {"sends down", "brings up"};
    tier_link(out, run, LINK_PCIE, TRAFFIC_D2H, ways);
}

static void nvme_link(out_t out, run_t run)
{
    static const char *const ways[] = {"reads", "writes"};
    tier_link(out, run, LINK_NVME, TRAFFIC_NVME_READ, ways);
}

const struct effect_row effect_machine_rows[] = {
    {"memory.device_budget", device_budget},
    {"memory.host_budget", host_budget},
    {"memory.nvme_budget", nvme_budget},
    {"topology.ranks", ranks},
    {"topology.ranks_per_node", ranks_per_node},
    {"topology.gpus", gpus},
    {"topology.collectives", collectives},
    {"topology.links.intra.bandwidth", intra_bandwidth},
    {"topology.links.pcie.bandwidth", pcie_link},
    {"topology.links.pcie.latency", pcie_link},
    {"topology.links.nvme.bandwidth", nvme_link},
    {"topology.links.nvme.latency", nvme_link},
    {0},
};
