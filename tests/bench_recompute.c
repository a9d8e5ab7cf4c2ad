/* What recomputation costs in time, against what the plan predicts: the ratio of matrix-product operations. One rank goes
 * from one way of recomputing to the next, two steps each, so that all of them meet the same machine; the first of the two
 * meets fresh pages and does not count. Processor time, so that a busy machine weighs little; medians.
 *
 *     bench_recompute [-r ROUNDS] [KEY=VALUE]... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/plan/flops.h"
#include "engine/zero/zero.h"

enum { ROUNDS_MAX = 256 };

static const struct {
    const char *name;
    enum recompute recompute;
    int every;
} ways[] = {{"none", RECOMPUTE_NONE, 1},
            {"attention", RECOMPUTE_ATTENTION, 1},
            {"full, every block", RECOMPUTE_FULL, 1},
            {"full, every 2nd", RECOMPUTE_FULL, 2},
            {"full, every 4th", RECOMPUTE_FULL, 4}};

enum { WAYS = sizeof ways / sizeof *ways };

static void stop(const char *what)
{
    fprintf(stderr, "bench_recompute: %s\n", what);
    exit(1);
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *values, int count)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct measured {
    double seconds[WAYS][ROUNDS_MAX];
    struct flops flops[WAYS];
    struct footprint planned[WAYS];
};

static void measure(struct measured *m, const struct config *config, int rounds)
{
    struct error err = {0};
    struct comm_group *group;
    struct comm *comm;
    struct zero *zero;
    struct data *data;
    struct model model;
    struct zero_result result;
    if (data_open(&data, config, &err) || comm_group_create(&group, 1, 0, &err) ||
        comm_open_thread(&comm, group, 0, &err))
        stop(err.text);
    struct zero_options options = {.config = config, .comm = comm, .data = data};
    if (zero_open(&zero, &options, &result.shortage, &err) || model_of(&model, config, &err)) stop(err.text);
    for (int round = 0; round < rounds; round++)
        for (int w = 0; w < WAYS; w++) {
            struct config_zero knobs = config->zero;
            knobs.recompute = ways[w].recompute;
            knobs.checkpoint_every = ways[w].every;
            if (zero_switch(zero, &knobs, &result, &err)) stop(err.text);
            if (zero_step(zero, &result, &err)) stop(err.text);
            const double begin = processor_seconds();
            if (zero_step(zero, &result, &err)) stop(err.text);
            const double seconds = processor_seconds() - begin;
            footprint_of(&m->planned[w], zero_schedule(zero));
            flops_of(&m->flops[w], zero_schedule(zero), &model);
            m->seconds[w][round] = seconds;
        }
    model_release(&model);
    comm_close(comm);
    zero_close(zero);
    comm_group_free(group);
    data_close(data);
}

static double total(const struct flops *flops)
{
    return (double)(flops->forward + flops->backward + flops->recomputed);
}

static void report(const struct measured *m, int rounds)
{
    const double base = median(m->seconds[0], rounds);
    printf("  %-18s %12s %10s %10s %10s %8s\n", "model.recompute", "activations", "step", "predicted", "measured",
           "off");
    for (int w = 0; w < WAYS; w++) {
        double ratio[ROUNDS_MAX];
        for (int r = 0; r < rounds; r++) ratio[r] = m->seconds[w][r] / m->seconds[0][r]; /* of the same round */
        const double predicted = total(&m->flops[w]) / total(&m->flops[0]), measured = median(ratio, rounds);
        printf("  %-18s %9.1f MB %7.1f ms %10.3f %10.3f %+7.1f%%\n", ways[w].name,
               1e-6 * (double)m->planned[w].category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes,
               1e3 * median(m->seconds[w], rounds), predicted, measured, 100 * (measured / predicted - 1));
    }
    printf("  (none: %.1f GFLOP/s)\n", 1e-9 * total(&m->flops[0]) / base);
}

int main(int argc, char **argv)
{
    static struct measured m;
    const char *sets[32] = {"model.name=gpt2",          "model.layers=4",   "train_micro_batch_size_per_gpu=2",
                            "data.sequence_length=256", "topology.ranks=1", "zero_optimization.stage=0"};
    int count = 6, rounds = 9;
    for (int option; (option = getopt(argc, argv, "r:")) != -1;) {
        if (option != 'r') return 2;
        rounds = atoi(optarg);
    }
    if (rounds < 1 || rounds > ROUNDS_MAX) return 2;
    while (optind < argc && count < 32) sets[count++] = argv[optind++];
    struct config config;
    struct error err = {0};
    setenv("OMP_WAIT_POLICY", "passive", 0);
    if (config_load(&config, NULL, sets, count, &err)) stop(err.text);
    measure(&m, &config, rounds);
    printf("%s, %d layers, B=%d T=%d, %s, %d thread(s), median of %d rounds\n", config.model.name, config.model.layers,
           config.micro_batch_size, config.data.sequence_length, dtype_name(config.dtype),
           config.topology.threads_per_rank, rounds);
    report(&m, rounds);
    config_release(&config);
    return 0;
}
