/* What recomputation costs in time, against two predictions. One rank goes from one way of recomputing to the next, two steps
 * each, so that all of them meet the same machine; the first of the two meets fresh pages and does not count. Processor
 * time, so that a busy machine weighs little; medians.
 *
 *   added: the operations that the schedule makes again, each at the time that it takes here as part of forward, measured
 *          between the same steps, against the step's time less that of the step without recomputation. This is held to 15 %
 *   plan:  the ratio of products that `zerolab plan` prints, against the ratio of steps. It knows no machine: that the output
 *          layer, the optimizer and the norms run at other speeds than a block's products is what it is off by
 *
 *     bench_recompute [-r ROUNDS] [KEY=VALUE]... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/plan/flops.h"
#include "engine/zero/zero.h"
#include "tests/gpt_fixture.h"

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

/* What can be made again. */
enum part { PART_OF_BLOCK_ALL, PART_OF_BLOCK_BUT_LAST, PART_OF_BLOCK_ATTENTION, PARTS };

struct measured {
    double seconds[WAYS][ROUNDS_MAX];
    double part[PARTS][ROUNDS_MAX]; /* of one block */
    int again[WAYS][PARTS];         /* how many of them a step makes again */
    struct flops flops[WAYS];
    struct footprint planned[WAYS];
};

/* A block's forward, whole or in part, on buffers like the engine's. */
static int forward_part(struct fixture *f, int block, enum part part)
{
    const struct gpt_saved saved = fixture_saved(f, block);
    void *scratch = f->scratch[USE_BLOCK_FORWARD].at, *output = part == PART_OF_BLOCK_ALL ? f->outputs[block].at : NULL;
    const void *input = f->outputs[block - 1].at;
    if (part == PART_OF_BLOCK_ATTENTION)
        return gpt_attention_forward(&f->gpt, &f->weights[block], input, &saved, scratch, NULL);
    return gpt_block_forward(&f->gpt, &f->weights[block], input, &saved, output, scratch, NULL);
}

/* Once over all blocks, as backward comes to them: weights and buffers are not in the cache any more. */
static void measure_parts(struct measured *m, struct fixture *f, int round)
{
    const int layers = f->model.shape.layers;
    for (int part = 0; part < PARTS; part++) {
        const double begin = processor_seconds();
        for (int block = layers; block >= 1; block--)
            if (forward_part(f, block, (enum part)part)) stop("a block's forward failed");
        m->part[part][round] = (processor_seconds() - begin) / layers;
    }
}

static void count_again(int again[PARTS], const struct schedule *schedule)
{
    memset(again, 0, PARTS * sizeof *again);
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *op = &schedule->ops[i];
        if (op->kind == OP_ATTENTION_RECOMPUTE) again[PART_OF_BLOCK_ATTENTION]++;
        if (op->kind == OP_BLOCK_RECOMPUTE)
            again[op->buffer[ROLE_OUTPUT] < 0 ? PART_OF_BLOCK_BUT_LAST : PART_OF_BLOCK_ALL]++;
    }
}

static void open_fixture(struct fixture *f, const struct config *config)
{
    fixture_open(f, &config->model, config->dtype, config->micro_batch_size, config->data.sequence_length,
                 config->topology.threads_per_rank, NULL);
    for (int u = 0; u < f->model.unit_count; u++) {
        const int64_t elems = f->model.units[u].elems;
        float *values = malloc((size_t)elems * sizeof *values);
        if (!values) stop("no memory");
        gpt_initial_values(&f->model, u, 1, 0, elems, values);
        for (int64_t i = 0; i < elems; i++) element_put(config->dtype, f->parameters[u].at, i, values[i]);
        free(values);
    }
    int32_t *tokens = calloc((size_t)config->micro_batch_size * (size_t)config->data.sequence_length, sizeof *tokens);
    if (!tokens) stop("no memory");
    for (int i = 0; i < config->micro_batch_size * config->data.sequence_length; i++)
        tokens[i] = i % config->model.vocabulary;
    fixture_forward(f, tokens, tokens, 1);
    free(tokens);
}

static void measure(struct measured *m, const struct config *config, int rounds)
{
    static struct fixture fixture;
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
    open_fixture(&fixture, config);
    for (int round = 0; round < rounds; round++) {
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
            count_again(m->again[w], zero_schedule(zero));
            m->seconds[w][round] = seconds;
        }
        measure_parts(m, &fixture, round);
    }
    fixture_close(&fixture);
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

/* Medians of what was added to a step in each round, and of what was predicted from the parts of the same round. */
static void added(const struct measured *m, int w, int rounds, double *predicted, double *found)
{
    double predictions[ROUNDS_MAX] = {0}, differences[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) {
        for (int part = 0; part < PARTS; part++) predictions[r] += m->again[w][part] * m->part[part][r];
        differences[r] = m->seconds[w][r] - m->seconds[0][r];
    }
    *predicted = median(predictions, rounds);
    *found = median(differences, rounds);
}

static double ratio(const struct measured *m, int w, int rounds)
{
    double ratios[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) ratios[r] = m->seconds[w][r] / m->seconds[0][r]; /* of the same round */
    return median(ratios, rounds);
}

static void report(const struct measured *m, int rounds)
{
    printf("  %-18s %11s %9s | %9s %9s %7s | %7s %7s %7s\n", "", "activations", "step", "added: by", "measured", "off",
           "plan", "measured", "off");
    for (int w = 0; w < WAYS; w++) {
        double predicted, found;
        added(m, w, rounds, &predicted, &found);
        printf("  %-18s %8.1f MB %6.1f ms |", ways[w].name,
               1e-6 * (double)m->planned[w].category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes,
               1e3 * median(m->seconds[w], rounds));
        if (w) printf(" %6.1f ms %6.1f ms %+6.1f%% |", 1e3 * predicted, 1e3 * found, 100 * (found / predicted - 1));
        else printf(" %9s %9s %7s |", "", "", "");
        const double plan = total(&m->flops[w]) / total(&m->flops[0]), steps = ratio(m, w, rounds);
        printf(" %7.3f %8.3f %+6.1f%%\n", plan, steps, 100 * (steps / plan - 1));
    }
    printf("  (none: %.1f GFLOP/s)\n", 1e-9 * total(&m->flops[0]) / median(m->seconds[0], rounds));
}

int main(int argc, char **argv)
{
    static struct measured m;
    const char *sets[32] = {
        "model.name=gpt2",          "model.layers=6",   "model.vocabulary=8192",    "train_micro_batch_size_per_gpu=2",
        "data.sequence_length=256", "topology.ranks=1", "zero_optimization.stage=0"};
    int count = 7, rounds = 9;
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
