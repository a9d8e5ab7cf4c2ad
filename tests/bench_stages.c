/* What a stage costs in time, and what watching costs. Both in one run, so that a slower machine or a busy moment weighs on
 * all alike:
 *
 *   stages     one run of four ranks switches its stage every few steps, several times around; of each stage the median of
 *              forward + backward + exposed communication, as a ratio to stage 0 (1: no slower)
 *   telemetry  the engine alone, ranks as threads, with rings, writer and file against without, in turn; median of the pairs
 *   viewers    the same with telemetry on both sides, and viewers that never read what they are sent on one
 *
 *     bench_stages [-z ZEROLAB] [-c CONFIG] [-r ROUNDS] [-k STEPS_A_STAGE] */
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/trace/source.h"
#include "engine/trace/writer.h"
#include "engine/zero/zero.h"

static void stop(const char *what)
{
    fprintf(stderr, "bench_stages: %s\n", what);
    exit(1);
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* ---- stages ---- */

enum { SAMPLES_MAX = 512 };

struct samples {
    int count;
    double seconds[SAMPLES_MAX], total[SAMPLES_MAX];
};

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) stop("no report was written");
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    char *text = calloc((size_t)bytes + 1, 1);
    if (!text || fread(text, 1, (size_t)bytes, file) != (size_t)bytes) stop("cannot read the report");
    fclose(file);
    return text;
}

static double number(const cJSON *object, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

/* The first step after a switch pays for fresh pages; it does not count. */
static void collect(const char *report, int steps_a_stage, struct samples samples[4])
{
    char *text = read_file(report);
    cJSON *json = cJSON_Parse(text), *step;
    cJSON_ArrayForEach(step, cJSON_GetObjectItem(json, "steps"))
    {
        int index = (int)number(step, "step") - 1, stage = (int)number(step, "stage");
        const cJSON *seconds = cJSON_GetObjectItem(step, "seconds");
        struct samples *s = &samples[stage];
        if (index % steps_a_stage == 0 || s->count == SAMPLES_MAX) continue;
        s->seconds[s->count] =
            number(seconds, "forward") + number(seconds, "backward") + number(seconds, "communication_exposed");
        s->total[s->count++] = number(seconds, "total");
    }
    cJSON_Delete(json);
    free(text);
}

static void bench_stages(const char *zerolab, const char *config, int rounds, int steps_a_stage)
{
    static struct samples samples[4];
    char command[8192], report[] = "/tmp/bench_stages.XXXXXX";
    int room = sizeof command, at = 0, fd = mkstemp(report);
    if (fd < 0) stop("cannot make a temporary file");
    close(fd);
    at +=
        snprintf(command, (size_t)room, "%s train %s --headless --steps %d --report %s --set zero_optimization.stage=0",
                 zerolab, config, rounds * 4 * steps_a_stage, report);
    for (int block = 1; block < rounds * 4 && at < room; block++)
        at += snprintf(command + at, (size_t)(room - at), " --at %d:stage=%d", block * steps_a_stage + 1, block % 4);
    snprintf(command + at, (size_t)(room - at), " >/dev/null");
    if (system(command)) stop("the run failed");
    collect(report, steps_a_stage, samples);
    unlink(report);
    double base = median(samples[0].seconds, samples[0].count);
    printf("%s: median of %d steps at each stage\n", config, samples[0].count);
    for (int stage = 0; stage < 4; stage++) {
        double seconds = median(samples[stage].seconds, samples[stage].count);
        printf("  stage %d: forward + backward + exposed communication %7.1f ms, whole step %7.1f ms; stage 0 / this = "
               "%.3f (goal 0.85)\n",
               stage, 1e3 * seconds, 1e3 * median(samples[stage].total, samples[stage].count), base / seconds);
    }
}

/* ---- telemetry, and viewers ---- */

/* Two engines in one process that differ in one thing: rings and a writer to a file or none; or viewers that stand still or
 * none. Every rank is a thread that takes a step of one, then a step of the other, so both meet the same machine. A pair is
 * the sum of BLOCK such steps each. */
enum { RANKS = 4, BLOCK = 10, PAIRS = 101, STEPS = BLOCK * PAIRS, WARM_UP = 20, RING_BYTES = 512 << 10 };

enum side { WITH, WITHOUT, SIDES };
enum difference { TELEMETRY, VIEWERS };

struct rank {
    struct config *config;
    struct comm_group *group[SIDES];
    struct data *data;
    struct trace_ring *rings[SIDES][ZERO_RINGS]; /* NULL: no telemetry */
    int rank;
    double seconds[SIDES][STEPS];
};

static void *rank_main(void *argument)
{
    struct rank *rank = argument;
    struct error err = {0};
    struct zero_result result;
    struct comm *comm[SIDES];
    struct zero *zero[SIDES];
    for (int side = 0; side < SIDES; side++) {
        if (comm_open_thread(&comm[side], rank->group[side], rank->rank, &err)) stop(err.text);
        struct zero_options options = {.config = rank->config, .comm = comm[side], .data = rank->data};
        memcpy(options.rings, rank->rings[side], sizeof options.rings);
        if (zero_open(&zero[side], &options, &result.shortage, &err)) stop(err.text);
    }
    for (int i = -WARM_UP; i < STEPS; i++)
        for (int half = 0; half < SIDES; half++) {
            int side = (i + half) & 1;
            if (zero_step(zero[side], &result, &err)) stop(err.text);
            if (i >= 0) rank->seconds[side][i] = 1e-9 * (double)result.total_ns;
        }
    for (int side = 0; side < SIDES; side++) {
        comm_close(comm[side]);
        zero_close(zero[side]);
    }
    return NULL;
}

/* The writer of one side, and what it writes to. */
struct telemetry {
    struct trace_writer *writer;
    char file[32], socket[48];
    char *memory; /* of the rings */
    struct source *stalled[3], *killed;
};

/* Viewers that never read; and one more, which has gone by now. */
static void attach_viewers(struct telemetry *telemetry)
{
    struct error err;
    for (int v = 0; v < 3; v++)
        if (source_open_socket(&telemetry->stalled[v], telemetry->socket, &err)) stop(err.text);
    if (source_open_socket(&telemetry->killed, telemetry->socket, &err)) stop(err.text);
    source_close(telemetry->killed);
}

static void start_telemetry(struct telemetry *telemetry, struct rank *ranks, enum side side)
{
    struct error err;
    strcpy(telemetry->file, "/tmp/bench_stages.XXXXXX");
    close(mkstemp(telemetry->file));
    snprintf(telemetry->socket, sizeof telemetry->socket, "%s.socket", telemetry->file);
    struct trace_writer_options options = {.file = telemetry->file, .socket = telemetry->socket, .adopted_fd = -1};
    telemetry->memory = aligned_alloc(64, (size_t)RANKS * ZERO_RINGS * RING_BYTES);
    if (trace_writer_start(&telemetry->writer, &options, &err)) stop(err.text);
    for (int r = 0; r < RANKS; r++)
        for (int ring = 0; ring < ZERO_RINGS; ring++) {
            char *memory = telemetry->memory + (size_t)(r * ZERO_RINGS + ring) * RING_BYTES;
            ranks[r].rings[side][ring] = trace_ring_init(memory, RING_BYTES);
            trace_writer_add_ring(telemetry->writer, ranks[r].rings[side][ring]);
        }
}

static void stop_telemetry(struct telemetry *telemetry)
{
    if (!telemetry->writer) return;
    for (int v = 0; v < 3; v++)
        if (telemetry->stalled[v]) source_close(telemetry->stalled[v]);
    trace_writer_stop(telemetry->writer);
    free(telemetry->memory);
    unlink(telemetry->file);
}

static void bench_pairs(const char *stage, enum difference difference)
{
    static struct rank ranks[RANKS];
    static double ratio[PAIRS];
    struct telemetry telemetry[SIDES] = {0};
    pthread_t threads[RANKS];
    struct config config;
    struct data *data;
    struct error err = {0};
    const char *sets[] = {stage};
    memset(ranks, 0, sizeof ranks);
    if (config_load(&config, NULL, sets, 1, &err) || data_open(&data, &config, &err)) stop(err.text);
    start_telemetry(&telemetry[WITH], ranks, WITH);
    if (difference == VIEWERS) start_telemetry(&telemetry[WITHOUT], ranks, WITHOUT);
    if (difference == VIEWERS) attach_viewers(&telemetry[WITH]);
    for (int side = 0; side < SIDES; side++)
        if (comm_group_create(&ranks[0].group[side], RANKS, 0, &err)) stop(err.text);
    for (int r = 0; r < RANKS; r++) {
        ranks[r].config = &config;
        ranks[r].data = data;
        ranks[r].rank = r;
        for (int side = 0; side < SIDES; side++) ranks[r].group[side] = ranks[0].group[side];
        pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    for (int side = 0; side < SIDES; side++) stop_telemetry(&telemetry[side]);
    for (int p = 0; p < PAIRS; p++) {
        double sum[SIDES] = {0};
        for (int side = 0; side < SIDES; side++)
            for (int i = 0; i < BLOCK; i++) sum[side] += ranks[0].seconds[side][p * BLOCK + i];
        ratio[p] = sum[WITH] / sum[WITHOUT];
    }
    double with = median(ranks[0].seconds[WITH], STEPS), without = median(ranks[0].seconds[WITHOUT], STEPS),
           paired = median(ratio, PAIRS);
    printf("nano, %s: step %.3f ms with %s, %.3f ms without; median of %d pairs %.4f (goal: below 1.01), half "
           "of them from %.4f to %.4f\n",
           stage, 1e3 * with, difference == TELEMETRY ? "telemetry" : "three viewers that stand still", 1e3 * without,
           PAIRS, paired, ratio[PAIRS / 4], ratio[PAIRS * 3 / 4]);
    for (int side = 0; side < SIDES; side++) comm_group_free(ranks[0].group[side]);
    data_close(data);
    config_release(&config);
}

int main(int argc, char **argv)
{
    const char *zerolab = "build/release/zerolab", *config = "configs/gpt2-bf16.json";
    int rounds = 3, steps_a_stage = 4;
    for (int option; (option = getopt(argc, argv, "z:c:r:k:")) != -1;) {
        switch (option) {
        case 'z': zerolab = optarg; break;
        case 'c': config = optarg; break;
        case 'r': rounds = atoi(optarg); break;
        case 'k': steps_a_stage = atoi(optarg); break;
        default: return 2;
        }
    }
    setenv("OMP_WAIT_POLICY", "passive", 0);
    for (int difference = TELEMETRY; difference <= VIEWERS; difference++) {
        bench_pairs("zero_optimization.stage=0", difference);
        bench_pairs("zero_optimization.stage=3", difference);
    }
    fflush(stdout);
    bench_stages(zerolab, config, rounds, steps_a_stage);
    return 0;
}
