/* What recomputation costs in time, against what was predicted. One rank goes from one way of recomputing to the next, two
 * steps each, so that all of them meet the same machine; the first of the two meets fresh pages and does not count. The gate
 * stops the second before each operation, so that every operation has a time of its own: processor time, so that a busy
 * machine weighs little; medians.
 *
 *   made again: each operation that makes a block again is predicted to take that block's time in the forward pass of the same
 *               round's step without recomputation, by the share of its products that it does. This is held to 15 %
 *   first pass and back: what the other operations of the blocks take more or less than there: nothing, but for a smaller
 *               working set and the machine's moods. They are four times as long as what is made again, so these moods
 *               are as large as a good part of it, and the difference of two steps says less than the operations do
 *   step:       what that prediction is of a step; the share of products that `zerolab plan` prints, which knows no machine and
 *               so not that the optimizer, norms and backward run at other speeds than forward; and what steps were longer
 *
 *     bench_recompute [-r ROUNDS] [KEY=VALUE]... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/gate.h"
#include "engine/plan/footprint.h"
#include "engine/zero/zero.h"
#include "tests/support/op_uses.h"

enum { ROUNDS_MAX = 256, OPS_MAX = 1024 };

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

/* Processor seconds of a step, and of what in it. */
struct took {
    double step, forward, again, backward;
};

struct measured {
    struct took took[WAYS][ROUNDS_MAX];
    double
        predicted[WAYS]
                 [ROUNDS_MAX]; /* what is made again, by the operations of the round's step that makes nothing again */
    struct flops flops[WAYS];
    struct footprint planned[WAYS];
};

/* A step is stopped by the gate before each of its operations, so the time between two stops is that of one operation. */
struct watch {
    struct gate gate;
    double last, op[OPS_MAX];
};

static void at_gate(void *user, const struct schedule *schedule, uint32_t next)
{
    struct watch *watch = user;
    (void)schedule;
    const double now = processor_seconds();
    if (next > OPS_MAX) stop("a longer step than expected");
    watch->op[next - 1] = now - watch->last;
    gate_raise(&watch->gate, next + 1);
    watch->last = processor_seconds();
}

static void timed_step(struct watch *watch, struct zero *zero)
{
    struct error err = {0};
    struct zero_result result;
    gate_close(&watch->gate, 1);
    watch->last = processor_seconds();
    if (zero_step(zero, &result, &err)) stop(err.text);
    gate_raise(&watch->gate, GATE_OPEN);
}

static bool is_made_again(const struct op *op)
{
    return op->kind == OP_RECOMPUTE;
}

static struct took sums(const struct schedule *schedule, const double op[])
{
    struct took took = {0};
    for (int i = 0; i < schedule->op_count; i++) {
        const struct op *at = &schedule->ops[i];
        took.step += op[i];
        if (is_made_again(at)) took.again += op[i];
        else if (op_is(at, OP_FORWARD, USE_BLOCK)) took.forward += op[i];
        else if (op_is(at, OP_BACKWARD, USE_BLOCK)) took.backward += op[i];
    }
    return took;
}

/* Each operation that makes something again: the time of the block's forward without recomputation, by the share of its products. */
static double predict(const struct schedule *schedule, const struct model *model, double block_seconds)
{
    struct op block = {.kind = OP_FORWARD, .use = &gpt2_uses[USE_BLOCK]};
    double seconds = 0;
    for (int i = 0; i < schedule->op_count; i++)
        if (is_made_again(&schedule->ops[i]))
            seconds += block_seconds * (double)op_flops(schedule, model, &schedule->ops[i]) /
                       (double)op_flops(schedule, model, &block);
    return seconds;
}

static void measure_way(struct measured *m, struct watch *watch, struct zero *zero, const struct config *config,
                        const struct model *model, int w, int round)
{
    struct error err = {0};
    struct zero_result result;
    struct config_zero knobs = config->zero;
    knobs.recompute = ways[w].recompute;
    knobs.checkpoint_every = ways[w].every;
    if (zero_switch(zero, &knobs, &result, &err) || zero_step(zero, &result, &err)) stop(err.text);
    timed_step(watch, zero);
    const struct schedule *schedule = zero_schedule(zero);
    m->took[w][round] = sums(schedule, watch->op);
    m->predicted[w][round] = predict(schedule, model, m->took[0][round].forward / model->shape.layers);
    footprint_of(&m->planned[w], schedule);
    flops_of(&m->flops[w], schedule, model);
}

static void measure(struct measured *m, const struct config *config, int rounds)
{
    static struct watch watch = {.gate.limit = GATE_OPEN};
    struct error err = {0};
    struct comm_group *group;
    struct comm *comm;
    struct zero *zero;
    struct data *data;
    struct model model;
    struct zero_shortage shortage;
    if (data_open(&data, config, &err) || comm_group_create(&group, 1, 0, &err) ||
        comm_open_thread(&comm, group, 0, &err))
        stop(err.text);
    struct zero_options options = {
        .config = config, .comm = comm, .data = data, .gate = &watch.gate, .at_gate = at_gate, .gate_user = &watch};
    if (zero_open(&zero, &options, &shortage, &err) || model_of(&model, config, &err)) stop(err.text);
    for (int round = 0; round < rounds; round++)
        for (int w = 0; w < WAYS; w++) measure_way(m, &watch, zero, config, &model, w, round);
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

/* Medians over rounds; what is compared was measured in the same round. */
static void report_way(const struct measured *m, int w, int rounds)
{
    double step[ROUNDS_MAX], predicted[ROUNDS_MAX], again[ROUNDS_MAX], rest[ROUNDS_MAX], share[ROUNDS_MAX],
        more[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) {
        const struct took *with = &m->took[w][r], *without = &m->took[0][r];
        step[r] = with->step;
        predicted[r] = m->predicted[w][r];
        again[r] = with->again;
        rest[r] = (with->forward + with->backward) / (without->forward + without->backward) - 1;
        share[r] = predicted[r] / without->step;
        more[r] = with->step / without->step - 1;
    }
    const double expected = median(predicted, rounds), found = median(again, rounds);
    printf("  %-18s %8.1f MB %7.1f ms", ways[w].name,
           1e-6 * (double)m->planned[w].category[TIER_DEVICE][CATEGORY_ACTIVATIONS].peak_bytes,
           1e3 * median(step, rounds));
    if (w)
        printf(" | %7.1f ms %7.1f ms %+6.1f %% | %+8.1f %% | %+7.1f %% %+7.1f %% %+7.1f %%", 1e3 * expected,
               1e3 * found, 100 * (found / expected - 1), 100 * median(rest, rounds), 100 * median(share, rounds),
               100 * (total(&m->flops[w]) / total(&m->flops[0]) - 1), 100 * median(more, rounds));
    putchar('\n');
}

static void report(const struct measured *m, int rounds)
{
    printf("  %-18s %11s %10s | %30s | %10s | %29s\n", "", "", "", "made again", "first pass", "step");
    printf("  %-18s %11s %10s | %10s %10s %8s | %10s | %9s %9s %9s\n", "", "activations", "step", "predicted", "took",
           "off", "and back", "predicted", "products", "found");
    for (int w = 0; w < WAYS; w++) report_way(m, w, rounds);
    double steps[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) steps[r] = m->took[0][r].step;
    printf("  (none: %.1f GFLOP/s)\n", 1e-9 * total(&m->flops[0]) / median(steps, rounds));
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
    if (config_load(&config, "configs/nano.json", sets, count, &err)) stop(err.text);
    measure(&m, &config, rounds);
    printf("%s, %d layers, B=%d T=%d, %s, %d thread(s), median of %d rounds\n", config.model.name, config.model.layers,
           config.micro_batch_size, config.data.sequence_length, dtype_name(config.dtype),
           config.topology.threads_per_rank, rounds);
    report(&m, rounds);
    config_release(&config);
    return 0;
}
