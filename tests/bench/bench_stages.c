/* What a stage costs in time: one run of four ranks switches its stage every few steps, several times around, so that a slower machine
 * or a busy moment weighs on all alike; of each stage the median of forward + backward + exposed communication, as a ratio to
 * stage 0 (1: no slower). (What watching costs says `zerolab bench`: bench_telemetry.sh.)
 *
 *     bench_stages [-z ZEROLAB] [-c CONFIG] [-r ROUNDS] [-k STEPS_A_STAGE] */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    bench_stages(zerolab, config, rounds, steps_a_stage);
    return 0;
}
