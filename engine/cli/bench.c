/* `zerolab bench`: the cost of recording and watching a step, as ratios to steps without a listener. Each row shows
 * the median over rounds, each compared with the steps without a listener of the same round, and the range of the
 * middle half of the rounds. Processor time stays meaningful on a machine that runs other programs too. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/order.h"
#include "engine/base/template.h"
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

/* The spread of one figure of a block, given by its offset; ratio: divided by the figure of AUDIENCE_NOBODY in the
 * same round. */
static struct spread figure(const struct bench_found *found, enum audience audience, size_t place, bool ratio)
{
    double values[BENCH_ROUNDS_MAX];
    const int count = found->rounds;
    for (int r = 0; r < count; r++) {
        const struct bench_block *block = &found->blocks[audience][r], *base = &found->blocks[AUDIENCE_NOBODY][r];
        values[r] = *(const double *)((const char *)block + place);
        if (ratio) values[r] /= *(const double *)((const char *)base + place);
    }
    qsort(values, (size_t)count, sizeof *values, ascending_double);
    return (struct spread){values[count / 4], (values[(count - 1) / 2] + values[count / 2]) / 2,
                           values[count - 1 - count / 4]};
}

#define FIGURE(found, audience, member) figure(found, audience, offsetof(struct bench_block, member), false)
#define RATIO(found, audience, member)  figure(found, audience, offsetof(struct bench_block, member), true)

/* ---- telling ---- */

static void add_spread(cJSON *to, const char *name, struct spread spread)
{
    json_put(cJSON_AddObjectToObject(to, name), NUMBER("low", spread.low), NUMBER("median", spread.median),
             NUMBER("high", spread.high));
}

static void add_audience(cJSON *row, const struct bench_found *found, enum audience audience)
{
    json_put(row, TEXT("audience", audience_names[audience]), TRUTH(".listens", audience != AUDIENCE_NOBODY));
    if (audience >= AUDIENCE_VIEW && !found->has_view) { /* it was not measured */
        json_put(row, TRUTH(".", true));
        return;
    }
    add_spread(row, "seconds", FIGURE(found, audience, seconds));
    add_spread(row, "processor_seconds", FIGURE(found, audience, processor_s));
    add_spread(row, "ratio", RATIO(found, audience, seconds));
    add_spread(row, "processor_ratio", RATIO(found, audience, processor_s));
    if (audience >= AUDIENCE_FILE) add_spread(row, "writer_seconds", FIGURE(found, audience, writer_s));
    if (audience < AUDIENCE_VIEW) return;
    add_spread(row, "view_seconds", FIGURE(found, audience, view_s));
    add_spread(row, "view_share", FIGURE(found, audience, view_share));
    add_spread(row, "screen_bytes_per_second", FIGURE(found, audience, screen_bytes_per_s));
    json_put(row, TEXT(".view", audience_names[audience] + strlen("and ")));
}

/* For text only: the cost again, as processor time of each part: steady even if the rows of audiences are not. */
static void add_parts(cJSON *facts, const struct config *config, const struct bench_found *found)
{
    const double writer_s = FIGURE(found, AUDIENCE_FILE, writer_s).median,
                 telling = fmin(1, 1e3 * FIGURE(found, AUDIENCE_FILE, seconds).median / PROCESS_EVERY_MS);
    json_put(facts, NUMBER(".step", FIGURE(found, AUDIENCE_NOBODY, processor_s).median),
             NUMBER(".lanes", found->emit_s * found->records),
             NUMBER(".ranks", found->process_s * config->topology.ranks * telling), NUMBER(".writer", writer_s),
             NUMBER(".emit_ns", 1e9 * found->emit_s), NUMBER(".writer_ns", 1e9 * writer_s / (found->records + found->lost)));
}

static cJSON *facts_of(const struct config *config, const struct bench_found *found)
{
    cJSON *facts = json_object(TEXT("model", config->model.name), NUMBER("stage", config->zero.stage),
                               TEXT("backend", config->topology.backend == BACKEND_CUDA ? "cuda" : "cpu"),
                               NUMBER("ranks", config->topology.ranks), NUMBER("rounds", found->rounds),
                               NUMBER("steps", found->steps), NUMBER("records", found->records),
                               NUMBER("bytes", found->bytes), NUMBER("lost", found->lost),
                               NUMBER("emit_seconds", found->emit_s), NUMBER("process_seconds", found->process_s),
                               NUMBER(".threads", config->topology.threads_per_rank));
    if (found->has_view) json_put(facts, NUMBER("idle_share", found->idle_share));
    else json_put(facts, TEXT("view_said", *found->view_said ? found->view_said : "it did not come up, or did not stay"));
    cJSON *rows = cJSON_AddArrayToObject(facts, "measured");
    for (enum audience audience = 0; audience < AUDIENCES; audience++) add_audience(json_item(rows), found, audience);
    add_parts(facts, config, found);
    return facts;
}

#define PART(figure) "{" figure ":10.3m} ms  {" figure "/.step:8.2%}\n"
static const char page[] =
    "{model}, stage {stage}, {ranks} rank{ranks:s} × {.threads} thread{.threads:s}, {backend}: "
    "{rounds} rounds of {steps} steps before each audience, in turns\n"
    "a step is {records:,} records of {bytes:,} bytes in all"
    "{+lost}; {lost:.1} more a step had no room: figures by records are too low{/}\n\n"
    "  who listens                  a step      time  (half of the rounds)  processor time\n"
    "{#measured}  {audience:-22}{!seconds}          n/a{/}{?seconds}{seconds.median:10.3m} ms{?.listens}"
    "{ratio.median:10.4}  ({ratio.low:.4} to {ratio.high:.4})"
    "{processor_ratio.median:10.4}  ({processor_ratio.low:.4} to {processor_ratio.high:.4}){/}{/}\n{/}"
    "\n  a step without telemetry      {.step:10.3m} ms  of processor time; what telemetry adds, by parts:\n"
    "  lanes write records           " PART(".lanes")
    "  ranks ask for their memory    " PART(".ranks")
    "  the trace is written          " PART(".writer")
    "{#measured}{?.view}  {.view:-30}" PART("view_seconds.median") "{/}{/}"
    "  a record takes {.emit_ns} ns of its lane and {.writer_ns} ns of the writer\n"
    "{?view_said}  no view could be measured: {view_said}\n{/}"
    "{#measured}{?.view}  {.view} takes {view_share.median:.2%} of a core and draws with "
    "{screen_bytes_per_second.median} bytes/s\n{/}{/}"
    "{?idle_share}  ... while nothing happens, {idle_share:.2%} of a core\n{/}";

static int write_found(FILE *out, const struct cli *cli, const struct config *config, const struct bench_found *found,
                       struct error *err)
{
    cJSON *facts = facts_of(config, found);
    char *text = cli->json ? json_lines(template_strip(facts)) : NULL;
    if (cli->json && !text) return error_set(err, STATUS_RUN, "no memory for the answer");
    if (cli->json) fprintf(out, "%s\n", text);
    else template_print(out, page, facts), cJSON_Delete(facts);
    free(text);
    return STATUS_OK;
}

static int load(struct config *config, const struct cli *cli, struct error *err)
{
    char ranks[48];
    const char *sets[TEXT_LIST_MAX + 2] = {"topology.ranks_as=threads"};
    int count = 1;
    snprintf(ranks, sizeof ranks, "topology.ranks=%lld", (long long)cli->ranks);
    if (cli->ranks) sets[count++] = ranks;
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    if (cli->rounds > BENCH_ROUNDS_MAX)
        return error_set(err, STATUS_USAGE, "--rounds %lld: give 1 to %d", (long long)cli->rounds, BENCH_ROUNDS_MAX);
    int status = config_load(config, cli->operand, sets, count, err);
    if (!status) status = scheduler_settle(config, cli->rounds ? cli->rounds : ROUNDS, err);
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

static int measure(const struct cli *cli, const struct config *config, struct error *err)
{
    FILE *out = front_open(cli->output, false, err);
    if (!out) return err->status;
    struct bench_found *found = calloc(1, sizeof *found);
    int status = found ? bench_measure(found, config, cli->rounds ? (int)cli->rounds : ROUNDS, err)
                       : error_set(err, STATUS_RUN, "no memory for what is found");
    if (!status) status = write_found(out, cli, config, found, err);
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
    if (!status) status = gpu_check(&config, err);
    const struct capacity room = status ? (struct capacity){0} : capacity_now(&config, false);
    if (!status) status = capacity_check(&config, &room, err);
    if (!status) status = measure(cli, &config, err);
    config_release(&config);
    return status;
}
