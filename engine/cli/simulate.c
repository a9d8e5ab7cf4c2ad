/* `zerolab simulate`: simulates steps on the hardware of a profile, and says what they take and cost. Times that are recorded
 * come from engine/simulate; the figures printed here are derived from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/sweep.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"
#include "engine/cli/front.h"
#include "engine/observe/states.h"
#include "engine/simulate/record.h"

enum { SLOW_MOST = 64, RECORDED_RANKS = 16 };

/* What the command line asks for. */
struct question {
    int recorded, steps, slow_count;
    struct slow_rank slow[SLOW_MOST];
    double tokens, price, iteration_s; /* NAN: not given */
};

/* What is simulated, and what came of it. */
struct trial {
    const struct cli *cli;
    struct question question;
    struct config config;
    struct setup setup;
    struct hardware hardware;
    int classes;
    double step_s;        /* mean of the steps; NAN: not known yet */
    double busy_s[LANES]; /* of rank 0, in the last step */
    double exposed_s;     /* of it: no operation on the compute lane */
};

/* ---- the command line ---- */

/* "300B", "1.5T", "2000000". What is derived from numbers in these bounds stays finite. */
static int read_number(double *number, const char *text, const char *option, struct error *err)
{
    static const char units[] = "KMBT";
    static const double least = 1e-9, most = 1e30;
    char *end;
    *number = NAN;
    if (!text) return STATUS_OK;
    *number = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) *number *= pow(1000, (double)(unit - units + 1)), end++;
    if (end != text && !*end && *number >= least && *number <= most) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "--%s %s: give a number from %g to %g, such as 2.5 or 300B", option, text, least,
                     most);
}

static int read_slow(struct question *question, const struct text_list *list, struct error *err)
{
    for (int i = 0; i < list->count; i++) {
        int rank;
        double factor;
        char end;
        if (sscanf(list->at[i], "%d:%lf%c", &rank, &factor, &end) != 2 || rank < 0 || !(factor >= 1 && factor <= 1e6))
            return error_set(err, STATUS_USAGE, "--slow %s: give RANK:FACTOR, such as 3:1.5, a factor from 1 on",
                             list->at[i]);
        if (question->slow_count == SLOW_MOST)
            return error_set(err, STATUS_USAGE, "--slow: at most %d ranks can be slow", SLOW_MOST);
        question->slow[question->slow_count++] = (struct slow_rank){rank, (uint32_t)(factor * 1000 + 0.5)};
    }
    return STATUS_OK;
}

static int read_question(struct question *question, const struct cli *cli, struct error *err)
{
    int last = RECORDED_RANKS - 1;
    char end;
    *question = (struct question){.steps = cli->simulated_steps ? (int)cli->simulated_steps : 1};
    if (cli->simulated_steps > 1000000)
        return error_set(err, STATUS_USAGE, "--steps %lld: give 1 to 1,000,000", (long long)cli->simulated_steps);
    if (cli->record_ranks &&
        (sscanf(cli->record_ranks, "0-%d%c", &last, &end) != 1 || last < 0 || last >= RECORDED_RANKS_MAX))
        return error_set(err, STATUS_USAGE, "--record-ranks %s: give 0-N, from rank 0 on, at most 0-%d",
                         cli->record_ranks, RECORDED_RANKS_MAX - 1);
    question->recorded = last + 1;
    int status = read_slow(question, &cli->slow, err);
    if (!status) status = read_number(&question->tokens, cli->tokens, "tokens", err);
    if (!status) status = read_number(&question->price, cli->price, "price", err);
    if (!status) status = read_number(&question->iteration_s, cli->iteration_seconds, "iteration-seconds", err);
    return status;
}

static int check_options(const struct cli *cli, struct error *err)
{
    if (cli->price && !cli->tokens) return error_set(err, STATUS_USAGE, "--price belongs to --tokens");
    if (cli->disk) return error_set(err, STATUS_USAGE, "--disk belongs to --calibrate");
    if (cli->iteration_seconds && cli->simulated)
        return error_set(err, STATUS_USAGE, "--iteration-seconds is measured: it gives no trace; leave out -o");
    return front_check_model(cli, true, err);
}

/* Links and devices are as fast as the hardware has them. */
static void drop_pace(struct config *config)
{
    struct hardware paces;
    if (hardware_of_paces(&paces, config) || paces.slow_motion > 1 || paces.straggler > 1)
        fputs("zerolab: note: topology.links, slow_motion, slow_rank and device_flops have no effect in a simulation\n",
              stderr);
    memset(config->topology.links, 0, sizeof config->topology.links);
    config->topology.slow_motion = 1;
    config->topology.slow_rank = -1;
    config->topology.device_flops = 0;
}

/* ---- simulating ---- */

static int run_steps(struct trial *trial, struct simulation *simulation, struct recorder *recorder, struct error *err)
{
    static const uint64_t start_ns = RECORDED_FROM_NS;
    uint64_t now_ns = start_ns, begin_ns = now_ns;
    int status = STATUS_OK;
    for (int step = 1; step <= trial->question.steps && !status; step++) {
        begin_ns = now_ns;
        now_ns = simulation_step(simulation, (uint32_t)step, begin_ns);
        if (recorder) status = recorder_step(recorder, (uint32_t)step, begin_ns, err);
    }
    trial->step_s = 1e-9 * (double)(now_ns - start_ns) / trial->question.steps;
    simulation_busy(simulation, trial->busy_s);
    /* Compute operations follow each other, so the step has as much time without them as they leave. */
    trial->exposed_s = 1e-9 * (double)(now_ns - begin_ns) - trial->busy_s[LANE_COMPUTE];
    return status;
}

static int simulate(struct trial *trial, struct error *err)
{
    const struct question *question = &trial->question;
    const struct simulation_input input = {
        .cost = cost_of(&trial->setup, &trial->config, &trial->hardware),
        .recorded = question->recorded,
        .jitters = trial->cli->seed > 0,
        .seed = (uint64_t)trial->cli->seed,
        .slow = question->slow,
        .slow_count = question->slow_count,
    };
    struct simulation *simulation;
    struct recorder *recorder = NULL;
    int status = simulation_open(&simulation, &input, err);
    if (status) return status;
    trial->classes = simulation_classes(simulation);
    if (trial->cli->simulated) status = recorder_open(&recorder, trial->cli->simulated, &trial->config, &trial->setup, simulation, err);
    if (!status) status = run_steps(trial, simulation, recorder, err);
    if (recorder) {
        const int closed = recorder_close(recorder, status ? NULL : err);
        if (!status) status = closed;
        if (!status) run_states_write(trial->cli->simulated, 0, NULL);
    }
    simulation_free(simulation);
    return status;
}

/* ---- what it means ---- */

/* Rounded; with an exponent where it has too many digits to be read. */
static const char *whole(char text[32], double value)
{
    if (value < 1e15) return grouped(text, (int64_t)(value + 0.5));
    snprintf(text, 32, "%.4g", value);
    return text;
}

static void add_lanes(cJSON *facts, const double busy_s[LANES])
{
    cJSON *busy = cJSON_AddObjectToObject(facts, "busy_seconds"), *lanes = cJSON_AddArrayToObject(facts, ".lanes");
    for (int lane = 0; lane < LANES; lane++) {
        const char *name = lane_name((enum lane)lane);
        if (busy_s[lane] > 0) json_put(busy, NUMBER(name, busy_s[lane]));
        if (busy_s[lane] > 0 && lane != LANE_COMPUTE) json_put(json_item(lanes), TEXT("lane", name), NUMBER("seconds", busy_s[lane]));
    }
}

static cJSON *facts_of(const struct trial *trial)
{
    const struct question *question = &trial->question;
    const struct schedule *schedule = &trial->setup.schedule;
    const struct hardware *hardware = &trial->hardware;
    const struct cost_input of = cost_of(&trial->setup, &trial->config, hardware);
    const struct rates rates = rates_of(&of, trial->step_s);
    const bool simulated = isnan(question->iteration_s);
    const uint64_t peak_bytes = (uint64_t)trial->setup.footprint.peak_bytes[TIER_DEVICE];
    const double days = question->tokens / rates.tokens_per_s / 86400, hours = days * 24 * schedule->ranks,
                 cost = hours * question->price;
    char a[32], b[32], c[32];
    cJSON *facts = json_object(
        TRUTH("simulated", simulated), TEXT("model", trial->config.model.name), TEXT("hardware", hardware->name),
        NUMBER("ranks", schedule->ranks), NUMBER("ranks_per_node", of.per_node), NUMBER("stage", schedule->stage),
        NUMBER("operations", schedule->op_count), NUMBER_IF("classes", simulated, trial->classes),
        NUMBER("seconds_per_step", trial->step_s), NUMBER("flops", rates.flops),
        NUMBER("recomputed_flops", rates.recomputed), NUMBER("mfu", rates.mfu), NUMBER("hfu", rates.hfu),
        NUMBER("tokens_per_step", rates.tokens), NUMBER("tokens_per_second", rates.tokens_per_s), NUMBER("days", days),
        NUMBER("device_hours", hours), NUMBER("cost", cost), NUMBER("peak_bytes", peak_bytes),
        NUMBER("memory_bytes", hardware->memory_bytes), TRUTH("fits", peak_bytes <= hardware->memory_bytes),
        NUMBER_IF("exposed_seconds", simulated, trial->exposed_s));
    add_lanes(facts, trial->busy_s);
    return json_put(facts, NUMBER(".parameters", trial->setup.model.elems), TEXT(".dtype", dtype_name(trial->setup.model.dtype)),
                    NUMBER(".teraflops", rates.flops / trial->step_s / 1e12),
                    NUMBER(".peak", (double)hardware_flops(hardware, trial->setup.model.dtype) / 1e12),
                    TEXT(".tokens_per_second", whole(a, rates.tokens_per_s)), TEXT(".hours", whole(b, hours)),
                    TEXT(".cost", whole(c, cost)), NUMBER(".tokens", question->tokens), NUMBER(".price", question->price));
}

static const char page[] =
    "{model}: {.parameters:,} parameters, {.dtype}, ZeRO stage {stage}, {ranks} rank{ranks:s}, {ranks_per_node} a node\n"
    "hardware: {hardware}\ndevice memory: {peak_bytes:,} of {memory_bytes:,} bytes{!fits}; DOES NOT FIT{/}\n"
    "\ntime of a step: {seconds_per_step:.6g} s ({?simulated}SIMULATED{/}{!simulated}measured, as given{/})\n"
    "{?simulated}  of rank 0: computing {busy_seconds.compute:.6g|0} s, nothing to compute {exposed_seconds:.6g} s\n"
    "{#.lanes}    lane {lane:-10} busy {seconds:.6g} s\n{/}{/}"
    "  {.teraflops:.4g} TFLOP/s a device; MFU {mfu:.2%}, HFU {hfu:.2%} of {.peak:.4g} TFLOP/s\n"
    "  {tokens_per_step:,} tokens a step, {.tokens_per_second} tokens/s\n"
    "{?days}{.tokens:.6g} tokens: {days:.4g} days, {.hours} device-hours{?cost}, {.cost} at {.price:.6g} an hour{/}\n{/}";

static int run_trial(struct trial *trial, struct error *err)
{
    const int ranks = trial->config.topology.ranks;
    int status = hardware_place(&trial->config, &trial->hardware, err);
    if (trial->question.recorded > ranks) trial->question.recorded = ranks;
    drop_pace(&trial->config);
    if (!status) status = setup_init_checked(&trial->setup, &trial->config, err);
    if (status) return status;
    trial->step_s = trial->question.iteration_s;
    if (!status && isnan(trial->step_s)) status = simulate(trial, err);
    if (!status) front_print_defaults(stdout, trial->cli, &trial->config);
    if (!status) status = template_answer(stdout, trial->cli->json, page, facts_of(trial), err);
    setup_release(&trial->setup);
    return status;
}

static int calibrate(const struct cli *cli, struct error *err)
{
    struct hardware hardware;
    if (cli->operand || cli->model || cli->hardware || !cli->simulated)
        return error_set(err, STATUS_USAGE, "--calibrate needs -o FILE, and neither CONFIG, --model nor --hardware");
    const int status = calibrate_machine(&hardware, cli->disk, err);
    return status
               ? status
               : front_give(cli->simulated, hardware_text(&hardware, "measured by zerolab simulate --calibrate"), err);
}

int front_simulate(const struct cli *cli, struct error *err)
{
    struct trial trial = {.cli = cli};
    if (cli->calibrate) return calibrate(cli, err);
    int status = check_options(cli, err);
    if (!status) status = read_question(&trial.question, cli, err);
    if (!status) status = hardware_load(&trial.hardware, cli->hardware, err);
    if (!status) status = front_load(&trial.config, cli, err);
    if (status) return status;
    status = run_trial(&trial, err);
    config_release(&trial.config);
    return status;
}
