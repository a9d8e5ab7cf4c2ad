/* What NVMe costs in time, against the bound of ZeRO-Infinity: reads of parameters hide behind forward and backward, and what an
 * update moves behind the update, so of a step's time only
 *
 *     max(0, parameter I/O - forward and backward) + max(0, optimizer I/O - host update)
 *
 * is I/O that nothing hides. One rank with all on NVMe, a paced link of several speeds; then the disk itself. Exposed is the time
 * in which an NVMe lane works and neither the compute nor the host lane does. Each figure is made of the times of its own step's
 * operations, so a slower machine weighs on both sides; in slow motion, as in bench_offload, so other programs weigh little. Both
 * directions go at once: of an update, I/O is the longer one's (of a disk, the time in which either works). What comes first and
 * last in a step has nothing to hide behind: the first read of parameters, of a tile, and the last write. It is a column of its own.
 * Medians over steps. Exit 1: over 15 % more than the bound and the ends.
 *
 *     bench_nvme [-k STEPS] [-d FOLDER] [KEY=VALUE]...     the folder is on the disk to be used */
#include <string.h>
#include <unistd.h>

#include "tests/support/bench_rank.h"

enum { STEPS_MAX = 64, SPANS_MAX = 1 << 14 };
static const double tolerance = 1.15, noise_of_step = 0.01; /* beside the bound: of a whole step */

/* Of one step, in seconds. */
struct times {
    double total, compute, parameters, update, reads, writes, either, exposed, ends, bound;
};

static double seconds(const struct bench_span *span)
{
    return 1e-9 * (double)(span->end_ns - span->begin_ns);
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* ---- what is exposed ---- */

enum side { SIDE_IO, SIDE_WORK, SIDES };
struct edge {
    uint64_t at_ns;
    enum side side;
    int change;
};

static int by_time(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;
    return (a->at_ns > b->at_ns) - (a->at_ns < b->at_ns);
}

static bool is_tile(const struct op *op)
{
    return op_swaps(op->kind) && op->buffer[ROLE_SOURCE] < 0;
}

/* Time in which an NVMe lane works; `hidden` leaves out that in which the compute or the host lane does too. */
static double io_time(const struct bench_span *spans, int count, bool tiles_only, bool hidden)
{
    static struct edge edges[2 * SPANS_MAX];
    int edge_count = 0, working[SIDES] = {0};
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const bool io = op_swaps(spans[i].op->kind), work = lane_computes(spans[i].op->lane);
        if (!(io && (!tiles_only || is_tile(spans[i].op))) && !(work && hidden)) continue;
        edges[edge_count++] = (struct edge){spans[i].begin_ns, io ? SIDE_IO : SIDE_WORK, 1};
        edges[edge_count++] = (struct edge){spans[i].end_ns, io ? SIDE_IO : SIDE_WORK, -1};
    }
    qsort(edges, (size_t)edge_count, sizeof *edges, by_time);
    for (int e = 0; e + 1 < edge_count; e++) {
        working[edges[e].side] += edges[e].change;
        if (working[SIDE_IO] && !working[SIDE_WORK]) sum += 1e-9 * (double)(edges[e + 1].at_ns - edges[e].at_ns);
    }
    return sum;
}

static struct times times_of(const struct bench_span *spans, int count, double total, bool paced)
{
    struct times t = {.total = total};
    bool read_parameters = false, read_tiles = false;
    double last_write = 0;
    for (int i = 0; i < count; i++) { /* lane by lane, in order */
        const struct op *op = spans[i].op;
        const double took = seconds(&spans[i]);
        if (op->lane == LANE_COMPUTE && op->phase != PHASE_OPTIMIZER) t.compute += took;
        if (op->kind == OP_HOST_UPDATE) t.update += took;
        if (op->kind == OP_SWAP_OUT) t.writes += took, last_write = took;
        if (op->kind != OP_SWAP_IN) continue;
        bool *begun = is_tile(op) ? &read_tiles : &read_parameters;
        if (!*begun) t.ends += took;
        *begun = true;
        *(is_tile(op) ? &t.reads : &t.parameters) += took;
    }
    t.ends += last_write;
    t.either = paced ? larger(t.reads, t.writes) : io_time(spans, count, true, false);
    t.exposed = io_time(spans, count, false, true);
    t.bound = larger(0, t.parameters - t.compute) + larger(0, t.either - t.update);
    return t;
}

static double excess(const struct times *t)
{
    return t->exposed / (t->bound + t->ends + noise_of_step * t->total);
}

static int by_excess(const void *left, const void *right)
{
    const double a = excess(left), b = excess(right);
    return (a > b) - (a < b);
}

/* ---- one speed ---- */

static double bench(const char *const *given, int given_count, int steps, const char *folder, const char *bandwidth)
{
    static struct bench_span spans[SPANS_MAX];
    struct bench_rank rank;
    struct times times[STEPS_MAX];
    char link[80], path[512];
    int span_count;
    const bool paced = strcmp(bandwidth, "0") != 0;
    const char *sets[40] = {"topology.ranks=1",
                            "zero_optimization.stage=3",
                            "bf16.enabled=true",
                            "model.layers=12",
                            "zero_optimization.overlap_comm=true",
                            "zero_optimization.offload_optimizer.device=nvme",
                            "zero_optimization.offload_optimizer.pipeline_read=true",
                            "zero_optimization.offload_optimizer.pipeline_write=true",
                            "zero_optimization.offload_param.device=nvme",
                            "zero_optimization.offload_param.max_in_cpu=0",
                            "schedule.update_tile=50000"};
    int count = 11;
    for (int i = 0; i < given_count && count < 36; i++) sets[count++] = given[i];
    snprintf(path, sizeof path, "zero_optimization.offload_optimizer.nvme_path=%s", folder);
    sets[count++] = path;
    snprintf(link, sizeof link, "topology.links.nvme.bandwidth=%s", bandwidth);
    if (paced) sets[count++] = link;
    sets[count++] = paced ? "topology.slow_motion=9.9" : "topology.slow_motion=1";
    bench_open(&rank, sets, count);
    for (int s = 0; s < 2; s++) bench_step(&rank, spans, SPANS_MAX, &span_count); /* fresh pages */
    for (int s = 0; s < steps; s++) {
        const double total = bench_step(&rank, spans, SPANS_MAX, &span_count);
        times[s] = times_of(spans, span_count, total, paced);
    }
    bench_close(&rank);
    qsort(times, (size_t)steps, sizeof *times, by_excess);
    const struct times t = times[steps / 2];
    printf("%-7s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %9.2f  %.3f\n", paced ? bandwidth : "disk",
           1e3 * t.compute, 1e3 * t.parameters, 1e3 * t.update, 1e3 * t.reads, 1e3 * t.writes, 1e3 * t.bound,
           1e3 * t.ends, 1e3 * t.exposed, 1e3 * t.total, excess(&t));
    return excess(&t);
}

int main(int argc, char **argv)
{
    static const char *const bandwidths[] = {"4GB", "1GB", "400MB", "200MB", "100MB", "0"};
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    int steps = 5, option;
    double worst = 0;
    while ((option = getopt(argc, argv, "k:d:")) > 0) {
        if (option == 'd') folder = optarg;
        else if (option != 'k' || (steps = atoi(optarg)) < 1 || steps > STEPS_MAX) return 2;
    }
    printf("%-7s %8s %8s %8s %8s %8s %8s %8s %8s %9s  %s\n", "ms", "fwd, bwd", "params", "update", "read", "write",
           "bound", "ends", "exposed", "step", "ratio");
    for (size_t b = 0; b < sizeof bandwidths / sizeof *bandwidths; b++)
        worst = larger(worst, bench((const char *const *)argv + optind, argc - optind, steps, folder, bandwidths[b]));
    return worst > tolerance;
}
