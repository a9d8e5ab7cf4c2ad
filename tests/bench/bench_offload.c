/* What offloading the optimizer costs in time, against the bound of ZeRO-Offload: with copies and updates beside compute a step
 * takes
 *
 *     forward + max(backward, gradients down) + norm + max(update, parameters up) + last tile
 *
 * One rank, a paced PCIe link of several speeds; each figure is made of the times of its own step's operations, so a slower
 * machine weighs on both sides. In slow motion, which stretches what operations work and not what they wait for a processor:
 * so other programs weigh little. Then the same with delayed updates: the host's update runs beside the next
 * step's compute, and leaves the step. Medians over steps. Exit 1: a step took over 15 % more than its bound.
 *
 *     bench_offload [-k STEPS] [KEY=VALUE]... */
#include <string.h>
#include <unistd.h>

#include "tests/support/bench_rank.h"

enum { STEPS_MAX = 64, SPANS_MAX = 1 << 14 };

/* Of one step, in seconds. */
struct times {
    double total, forward, backward, down, norm, update, up, last, bound;
};

/* ---- the times of a step's operations ---- */

static void add(struct times *times, const struct op *op, double seconds)
{
    if (op->lane == LANE_COMPUTE) {
        if (op->phase == PHASE_FORWARD) times->forward += seconds;
        if (op->phase == PHASE_BACKWARD) times->backward += seconds;
        return;
    }
    switch (op->kind) {
    case OP_GRAD_D2H: times->down += seconds; break;
    case OP_HOST_NORM: times->norm += seconds; break;
    case OP_HOST_UPDATE:
    case OP_HOST_CAST: times->update += seconds; break;
    case OP_UPLOAD:
        times->up += seconds;
        times->last = seconds;
        break;
    default: break;
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static struct times step(struct bench_rank *rank, bool delayed)
{
    static struct bench_span spans[SPANS_MAX];
    int count;
    struct times t = {.total = bench_step(rank, spans, SPANS_MAX, &count)};
    for (int i = 0; i < count; i++) add(&t, spans[i].op, 1e-9 * (double)(spans[i].end_ns - spans[i].begin_ns));
    t.bound = t.forward + larger(t.backward, t.down) + t.norm + larger(t.update, t.up) + t.last;
    if (delayed) t.bound = larger(t.forward + larger(t.backward, t.down), t.update) + t.norm + t.up;
    return t;
}

static int by_ratio(const void *left, const void *right)
{
    const struct times *a = left, *b = right;
    const double x = a->total / a->bound, y = b->total / b->bound;
    return (x > y) - (x < y);
}

/* ---- one speed of the link ---- */

static double bench(const char *const *given, int given_count, int steps, const char *bandwidth, bool delayed)
{
    struct bench_rank rank;
    struct times times[STEPS_MAX];
    char link[80];
    const char *sets[40] = {"topology.ranks=1",
                            "zero_optimization.stage=2",
                            "bf16.enabled=true",
                            "topology.slow_motion=9.9",
                            "model.layers=12",
                            "zero_optimization.overlap_comm=true",
                            "zero_optimization.offload_optimizer.device=cpu",
                            "zero_optimization.reduce_bucket_size=100000",
                            "schedule.update_tile=50000"};
    int count = 9;
    for (int i = 0; i < given_count && count < 36; i++) sets[count++] = given[i];
    snprintf(link, sizeof link, "topology.links.pcie.bandwidth=%s", bandwidth);
    sets[count++] = link;
    sets[count++] = "schedule.delayed_update_after=0";
    if (delayed) sets[count++] = "schedule.delayed_update=true";
    bench_open(&rank, sets, count);
    for (int s = 0; s < 3; s++) step(&rank, delayed); /* fresh pages; nothing pending */
    for (int s = 0; s < steps; s++) times[s] = step(&rank, delayed);
    bench_close(&rank);
    qsort(times, (size_t)steps, sizeof *times, by_ratio);
    const struct times t = times[steps / 2];
    printf("%-8s %-6s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %9.2f %9.2f  %.3f\n", delayed ? "delayed" : "",
           strcmp(bandwidth, "0") ? bandwidth : "-", 1e3 * t.forward, 1e3 * t.backward, 1e3 * t.down, 1e3 * t.norm,
           1e3 * t.update, 1e3 * t.up, 1e3 * t.last, 1e3 * t.bound, 1e3 * t.total, t.total / t.bound);
    return t.total / t.bound;
}

int main(int argc, char **argv)
{
    static const char *const bandwidths[] = {"0", "4GB", "1GB", "400MB", "100MB"};
    int steps = 7, option;
    double worst = 0;
    while ((option = getopt(argc, argv, "k:")) > 0) {
        if (option != 'k' || (steps = atoi(optarg)) < 1 || steps > STEPS_MAX) return 2;
    }
    printf("%-8s %-6s %8s %8s %8s %8s %8s %8s %8s %9s %9s  %s\n", "ms", "pcie/s", "forward", "backward", "down", "norm",
           "update", "up", "last", "bound", "step", "ratio");
    for (int delayed = 0; delayed < 2; delayed++)
        for (size_t b = 0; b < sizeof bandwidths / sizeof *bandwidths; b++)
            worst =
                larger(worst, bench((const char *const *)argv + optind, argc - optind, steps, bandwidths[b], delayed));
    return worst > 1.15;
}
