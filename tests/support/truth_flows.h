/* What moved between the tiers of a rank, counted for truth.c: every operation of a lane between tiers, and what was said
 * of its requests, is kept and asked.
 *
 *     flow.rankR.KIND.*   of the step: count, bytes, rate (bytes/s while it moved), own_rate (without pacing; of NVMe while requests
 *                         were under way), best (the most of any step so far), best_percent, exposed_ns, and of NVMe requests,
 *                         depth, deepest, latency_ns, longest_ns */
#pragma once

#include "tests/support/truth.h"

struct said { int rank; struct trace_of_io io; };

static struct said *said;
static size_t said_count, said_room;

static void read_io(int rank, const struct trace_of_io *from)
{
    if (said_count == said_room) {
        said_room = said_room ? 2 * said_room : 1024;
        said = realloc(said, said_room * sizeof *said);
        if (!said) abort();
    }
    said[said_count++] = (struct said){rank, *from};
}

static const struct { const char *name; int lane; } directions[] = {
    {"d2h", D2H}, {"h2d", H2D}, {"nvme_read", NVME_READ}, {"nvme_write", NVME_WRITE}};

struct flow_sum { double count, bytes, ns, paced_ns, requests, io_bytes, io_ns, latency_ns, longest_ns, deepest; };

static int said_lane(const struct said *of)
{
    const struct plan *plan = plan_numbered(of->io.schedule);
    return plan && plan->purpose == 0 && of->io.op < (uint32_t)plan->count ? kinds[plan->ops[of->io.op].kind].lane : STILL;
}

static struct flow_sum flow_of(uint32_t step, int rank, int lane)
{
    struct flow_sum sum = {0};
    for (size_t i = 0; i < done_count; i++) {
        if (done[i].step != step || done[i].rank != rank || kinds[done[i].plan->ops[done[i].op].kind].lane != lane) continue;
        sum.count++;
        sum.bytes += (double)done[i].end.sent_bytes;
        sum.ns += (double)(done[i].ended_ns - done[i].end.started_ns);
        sum.paced_ns += (double)done[i].end.paced_ns;
    }
    for (size_t i = 0; i < said_count; i++) {
        const struct trace_of_io *io = &said[i].io;
        if (io->step != step || said[i].rank != rank || said_lane(&said[i]) != lane) continue;
        sum.requests += io->requests;
        sum.io_bytes += (double)io->bytes;
        sum.io_ns += (double)io->busy_ns;
        sum.latency_ns += (double)io->latency_ns;
        if ((double)io->longest_ns > sum.longest_ns) sum.longest_ns = (double)io->longest_ns;
        if (io->deepest > sum.deepest) sum.deepest = io->deepest;
    }
    return sum;
}

static double own_rate_of(const struct flow_sum *sum)
{
    return sum->io_ns > 0 ? sum->io_bytes * 1e9 / sum->io_ns
           : sum->ns > sum->paced_ns ? sum->bytes * 1e9 / (sum->ns - sum->paced_ns)
                                     : 0;
}

/* exposed_ns: of one operation, what compute did not go on beside. */
static void print_flow(int rank, size_t d, double exposed_ns)
{
    const struct flow_sum sum = flow_of(wanted, rank, directions[d].lane);
    char name[48];
    double best = 0;
    for (uint32_t step = 1; step <= wanted; step++) {
        const struct flow_sum other = flow_of(step, rank, directions[d].lane);
        if (own_rate_of(&other) > best) best = own_rate_of(&other);
    }
    snprintf(name, sizeof name, "flow.rank%d.%s", rank, directions[d].name);
    printf("%s.count %.0f\n%s.bytes %.0f\n%s.exposed_ns %.0f\n", name, sum.count, name, sum.bytes, name, exposed_ns);
    if (sum.count == 0) return;
    printf("%s.rate %.0f\n%s.own_rate %.0f\n%s.best %.0f\n%s.best_percent %.3f\n", name, sum.bytes * 1e9 / sum.ns, name,
           own_rate_of(&sum), name, best, name, 100 * own_rate_of(&sum) / best);
    if (sum.requests == 0) return;
    printf("%s.requests %.0f\n%s.depth %.6f\n%s.deepest %.0f\n", name, sum.requests, name, sum.latency_ns / sum.io_ns, name,
           sum.deepest);
    printf("%s.latency_ns %.0f\n%s.longest_ns %.0f\n", name, sum.latency_ns / sum.requests, name, sum.longest_ns);
}
