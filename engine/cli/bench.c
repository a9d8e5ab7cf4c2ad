/* `zerolab bench`: the cost of recording and watching a step, as ratios to steps without a listener. Each row shows
 * the median over rounds, each compared with the steps without a listener of the same round, and the range of the
 * middle half of the rounds. Processor time stays meaningful on a machine that runs other programs too. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "engine/cli/bench_rounds.h"
#include "engine/cli/front.h"
#include "engine/device/gpu.h"
#include "engine/launch/capacity.h"
#include "engine/launch/launch.h"
#include "engine/plan/model.h"
#include "engine/train/records.h"

enum { ROUNDS = 21 };
static const char loaded[] = "ZEROLAB_BENCH_LOADED";

/* ---- figures ---- */

struct spread {
    double low, median, high; /* half of the values lie from low to high */
};

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct spread spread_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (struct spread){values[count / 4], (values[(count - 1) / 2] + values[count / 2]) / 2,
                           values[count - 1 - count / 4]};
}

/* The spread of one figure of a block, given by its offset; ratio: divided by the figure of AUDIENCE_NOBODY in the
 * same round. */
static struct spread figure(const struct bench_found *found, enum audience audience, size_t place, bool ratio)
{
    double values[BENCH_ROUNDS_MAX];
    for (int r = 0; r < found->rounds; r++) {
        const struct bench_block *block = &found->blocks[audience][r], *base = &found->blocks[AUDIENCE_NOBODY][r];
        values[r] = *(const double *)((const char *)block + place);
        if (ratio) values[r] /= *(const double *)((const char *)base + place);
    }
    return spread_of(values, found->rounds);
}

#define FIGURE(found, audience, member) figure(found, audience, offsetof(struct bench_block, member), false)
#define RATIO(found, audience, member)  figure(found, audience, offsetof(struct bench_block, member), true)

static bool was_measured(const struct bench_found *found, enum audience audience)
{
    return audience < AUDIENCE_VIEW || found->has_view;
}

/* ---- telling ---- */

static const char *backend_name(const struct config *config)
{
    return config->topology.backend == BACKEND_CUDA ? "cuda" : "cpu";
}

static void print_head(FILE *out, const struct config *config, const struct bench_found *found)
{
    char records[32], bytes[32];
    const int ranks = config->topology.ranks;
    fprintf(out, "%s, stage %d, %d rank%s × %d thread%s, %s: %d rounds of %d steps before each audience, in turns\n",
            config->model.name, config->zero.stage, ranks, plural(ranks), config->topology.threads_per_rank,
            plural(config->topology.threads_per_rank), backend_name(config), found->rounds, found->steps);
    fprintf(out, "a step is %s records of %s bytes in all", grouped(records, (int64_t)(found->records + 0.5)),
            grouped(bytes, (int64_t)(found->bytes + 0.5)));
    if (found->lost > 0) fprintf(out, "; %.1f more a step had no room: figures by records are too low", found->lost);
    fputs("\n\n", out);
}

static void print_ratio(FILE *out, struct spread ratio)
{
    fprintf(out, "%10.4f  (%.4f to %.4f)", ratio.median, ratio.low, ratio.high);
}

static void print_row(FILE *out, const struct bench_found *found, enum audience audience)
{
    fprintf(out, "  %-22s", audience_names[audience]);
    if (was_measured(found, audience)) fprintf(out, "%10.3f ms", 1e3 * FIGURE(found, audience, seconds).median);
    else fprintf(out, "%13s", "n/a");
    if (audience != AUDIENCE_NOBODY && was_measured(found, audience)) {
        print_ratio(out, RATIO(found, audience, seconds));
        print_ratio(out, RATIO(found, audience, processor_s));
    }
    fputc('\n', out);
}

static void print_part(FILE *out, const char *name, double part_s, double step_s)
{
    fprintf(out, "  %-30s%10.3f ms  %6.2f %%\n", name, 1e3 * part_s, 100 * part_s / step_s);
}

/* The cost again, as processor time of each part: steady even if the rows above are not. */
static void print_parts(FILE *out, const struct config *config, const struct bench_found *found)
{
    const double step_s = FIGURE(found, AUDIENCE_NOBODY, processor_s).median,
                 writer_s = FIGURE(found, AUDIENCE_FILE, writer_s).median, lanes_s = found->emit_s * found->records,
                 telling = fmin(1, 1e3 * FIGURE(found, AUDIENCE_FILE, seconds).median / PROCESS_EVERY_MS),
                 ranks_s = found->process_s * config->topology.ranks * telling;
    fprintf(out, "\n  %-30s%10.3f ms  of processor time; what telemetry adds, by parts:\n",
            "a step without telemetry", 1e3 * step_s);
    print_part(out, "lanes write records", lanes_s, step_s);
    print_part(out, "ranks ask for their memory", ranks_s, step_s);
    print_part(out, "the trace is written", writer_s, step_s);
    for (enum audience audience = AUDIENCE_VIEW; audience < AUDIENCES && found->has_view; audience++)
        print_part(out, audience_names[audience] + strlen("and "), FIGURE(found, audience, view_s).median, step_s);
    fprintf(out, "  a record takes %.0f ns of its lane and %.0f ns of the writer\n", 1e9 * found->emit_s,
            1e9 * writer_s / (found->records + found->lost));
}

static const char *view_said(const struct bench_found *found)
{
    return *found->view_said ? found->view_said : "it did not come up, or did not stay";
}

static void print_view(FILE *out, const struct bench_found *found)
{
    if (!found->has_view) {
        fprintf(out, "  no view could be measured: %s\n", view_said(found));
        return;
    }
    for (enum audience audience = AUDIENCE_VIEW; audience < AUDIENCES; audience++)
        fprintf(out, "  %s takes %.2f %% of a core and draws with %.0f bytes/s\n",
                audience_names[audience] + strlen("and "), 100 * FIGURE(found, audience, view_share).median,
                FIGURE(found, audience, screen_bytes_per_s).median);
    fprintf(out, "  ... while nothing happens, %.2f %% of a core\n", 100 * found->idle_share);
}

static void print_text(FILE *out, const struct config *config, const struct bench_found *found)
{
    print_head(out, config, found);
    fprintf(out, "  %-22s%13s%10s  %-20s  %s\n", "who listens", "a step", "time", "(half of the rounds)",
            "processor time");
    for (enum audience audience = 0; audience < AUDIENCES; audience++) print_row(out, found, audience);
    print_parts(out, config, found);
    print_view(out, found);
}

static void add_spread(cJSON *to, const char *name, struct spread spread)
{
    cJSON *json = cJSON_AddObjectToObject(to, name);
    json_put(json, NUMBER("low", spread.low), NUMBER("median", spread.median), NUMBER("high", spread.high));
}

static cJSON *audience_json(const struct bench_found *found, enum audience audience)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "audience", audience_names[audience]);
    add_spread(json, "seconds", FIGURE(found, audience, seconds));
    add_spread(json, "processor_seconds", FIGURE(found, audience, processor_s));
    add_spread(json, "ratio", RATIO(found, audience, seconds));
    add_spread(json, "processor_ratio", RATIO(found, audience, processor_s));
    if (audience >= AUDIENCE_FILE) add_spread(json, "writer_seconds", FIGURE(found, audience, writer_s));
    if (audience < AUDIENCE_VIEW) return json;
    add_spread(json, "view_seconds", FIGURE(found, audience, view_s));
    add_spread(json, "view_share", FIGURE(found, audience, view_share));
    add_spread(json, "screen_bytes_per_second", FIGURE(found, audience, screen_bytes_per_s));
    return json;
}

static void print_json(FILE *out, const struct config *config, const struct bench_found *found)
{
    cJSON *json = cJSON_CreateObject();
    json_put(json, TEXT("model", config->model.name), NUMBER("stage", config->zero.stage),
             TEXT("backend", backend_name(config)), NUMBER("ranks", config->topology.ranks),
             NUMBER("rounds", found->rounds), NUMBER("steps", found->steps), NUMBER("records", found->records),
             NUMBER("bytes", found->bytes), NUMBER("lost", found->lost), NUMBER("emit_seconds", found->emit_s),
             NUMBER("process_seconds", found->process_s));
    if (found->has_view) cJSON_AddNumberToObject(json, "idle_share", found->idle_share);
    else cJSON_AddStringToObject(json, "view_said", view_said(found));
    cJSON *rows = cJSON_AddArrayToObject(json, "measured");
    for (enum audience audience = 0; audience < AUDIENCES; audience++)
        if (was_measured(found, audience)) cJSON_AddItemToArray(rows, audience_json(found, audience));
    char *text = json_lines(json);
    if (text) fprintf(out, "%s\n", text);
    free(text);
}

/* ---- all of it ---- */

static int load(struct config *config, const struct cli *cli, struct error *err)
{
    char ranks[48];
    const char *sets[TEXT_LIST_MAX + 2] = {"topology.ranks_as=threads"};
    int count = 1;
    snprintf(ranks, sizeof ranks, "topology.ranks=%lld", (long long)cli->ranks);
    if (cli->ranks > 0) sets[count++] = ranks;
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    if (cli->rounds == 0 || cli->rounds > BENCH_ROUNDS_MAX)
        return error_set(err, STATUS_USAGE, "--rounds %lld: give 1 to %d", (long long)cli->rounds, BENCH_ROUNDS_MAX);
    int status = config_load(config, cli->operand, sets, count, err);
    if (!status) status = scheduler_settle(config, cli->rounds > 0 ? cli->rounds : ROUNDS, err);
    if (status) return status;
    status = config_check_run(config, err);
    if (!status && config->topology.ranks_as == RANKS_AS_THREADS) return STATUS_OK;
    config_release(config);
    return status ? status
                  : error_set(err, STATUS_USAGE, "topology.ranks_as: the ranks of a bench are threads of one process");
}

/* OpenMP reads the number of threads, and whether they spin, when a program is loaded. So this program is loaded
 * again, with the environment of an engine. Returns only if that fails: STATUS_RUN. */
static int load_again(const struct config *config, const struct cli *cli, struct error *err)
{
    launch_environment(&launcher_threads, config, NULL);
    gpu_environment(config);
    setenv(loaded, "1", 1);
    execv("/proc/self/exe", cli->argv);
    return error_set(err, STATUS_RUN, "cannot load this program again, with the threads of an engine: %s",
                     strerror(errno));
}

static int check(const struct config *config, struct error *err)
{
    int status = gpu_check(config, err);
    if (status) return status;
    const struct capacity room = capacity_now(config, false);
    return capacity_check(config, &room, err);
}

static int measure(const struct cli *cli, const struct config *config, struct error *err)
{
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    struct bench_found *found = calloc(1, sizeof *found);
    int status = found ? bench_measure(found, config, cli->rounds > 0 ? (int)cli->rounds : ROUNDS, err)
                       : error_set(err, STATUS_RUN, "no memory for what is found");
    if (!status) (cli->json ? print_json : print_text)(out, config, found);
    free(found);
    return front_close(out, cli->output, status, err);
}

int front_bench(const struct cli *cli, struct error *err)
{
    struct config config;
    int status = load(&config, cli, err);
    if (status) return status;
    if (!getenv(loaded)) status = load_again(&config, cli, err);
    gpu_settle(&config);
    if (config.notes) fputs(config.notes, stderr);
    if (!status) status = check(&config, err);
    if (!status) status = measure(cli, &config, err);
    config_release(&config);
    return status;
}
