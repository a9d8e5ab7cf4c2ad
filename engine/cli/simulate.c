/* `zerolab simulate`: simulates steps on the hardware of a profile, and says what they take and cost. Times that are recorded
 * come from engine/simulate; the figures printed here are derived from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/sweep.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
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
    *question = (struct question){.steps = 1};
    if (cli->simulated_steps >= 0) question->steps = (int)cli->simulated_steps;
    if (cli->simulated_steps == 0 || cli->simulated_steps > 1000000)
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
        .jitters = trial->cli->seed >= 0,
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

struct answer {
    struct rates rates;
    double days, gpu_hours, cost; /* NAN: not asked for */
    bool fits;
};

static struct answer answer_of(const struct trial *trial)
{
    const struct cost_input cost = cost_of(&trial->setup, &trial->config, &trial->hardware);
    struct answer answer = {.rates = rates_of(&cost, trial->step_s)};
    answer.days = trial->question.tokens / answer.rates.tokens_per_s / 86400;
    answer.gpu_hours = answer.days * 24 * trial->setup.schedule.ranks;
    answer.cost = answer.gpu_hours * trial->question.price;
    answer.fits = (uint64_t)trial->setup.footprint.peak_bytes[TIER_DEVICE] <= trial->hardware.memory_bytes;
    return answer;
}

/* Rounded; with an exponent where it has too many digits to be read. */
static const char *whole(char text[32], double value)
{
    if (value < 1e15) return grouped(text, (int64_t)(value + 0.5));
    snprintf(text, 32, "%.4g", value);
    return text;
}

static void print_times(FILE *out, const struct trial *trial)
{
    const bool measured = !isnan(trial->question.iteration_s);
    fprintf(out, "\ntime of a step: %.6g s (%s)\n", trial->step_s, measured ? "measured, as given" : "SIMULATED");
    if (measured) return;
    fprintf(out, "  of rank 0: computing %.6g s, nothing to compute %.6g s\n", trial->busy_s[LANE_COMPUTE],
            trial->exposed_s);
    for (int lane = LANE_COMPUTE + 1; lane < LANES; lane++)
        if (trial->busy_s[lane] > 0)
            fprintf(out, "    lane %-10s busy %.6g s\n", lane_name((enum lane)lane), trial->busy_s[lane]);
}

static void print_answer(FILE *out, const struct trial *trial)
{
    const struct answer answer = answer_of(trial);
    const struct schedule *schedule = &trial->setup.schedule;
    const int64_t peak_bytes = trial->setup.footprint.peak_bytes[TIER_DEVICE];
    char a[32], b[32];
    front_print_defaults(out, trial->cli, &trial->config);
    fprintf(out, "%s: %s parameters, %s, ZeRO stage %d, %d rank%s, %d a node\n", trial->config.model.name,
            grouped(a, trial->setup.model.elems), dtype_name(trial->setup.model.dtype), schedule->stage,
            schedule->ranks, plural(schedule->ranks), config_per_node(&trial->config));
    fprintf(out, "hardware: %s\n", trial->hardware.name);
    fprintf(out, "device memory: %s of %s bytes%s\n", grouped(a, peak_bytes),
            grouped(b, (int64_t)trial->hardware.memory_bytes), answer.fits ? "" : "; DOES NOT FIT");
    print_times(out, trial);
    fprintf(out, "  %.4g TFLOP/s a device; MFU %.2f %%, HFU %.2f %% of %.4g TFLOP/s\n",
            answer.rates.flops / trial->step_s / 1e12, 100 * answer.rates.mfu, 100 * answer.rates.hfu,
            (double)hardware_flops(&trial->hardware, trial->setup.model.dtype) / 1e12);
    fprintf(out, "  %s tokens a step, %s tokens/s\n", grouped(a, (int64_t)answer.rates.tokens),
            whole(b, answer.rates.tokens_per_s));
    if (isnan(answer.days)) return;
    fprintf(out, "%.6g tokens: %.4g days, %s device-hours", trial->question.tokens, answer.days,
            whole(a, answer.gpu_hours));
    if (!isnan(answer.cost))
        fprintf(out, ", %s at %g an hour", whole(b, answer.cost), trial->question.price);
    fputc('\n', out);
}

static int print_answer_json(FILE *out, const struct trial *trial, struct error *err)
{
    const struct answer answer = answer_of(trial);
    const bool simulated = isnan(trial->question.iteration_s);
    cJSON *json = json_object(
        TRUTH("simulated", simulated), TEXT("model", trial->config.model.name), TEXT("hardware", trial->hardware.name),
        NUMBER("ranks", trial->setup.schedule.ranks), NUMBER("ranks_per_node", config_per_node(&trial->config)),
        NUMBER("stage", trial->setup.schedule.stage), NUMBER("operations", trial->setup.schedule.op_count),
        NUMBER_IF("classes", simulated, trial->classes), NUMBER("seconds_per_step", trial->step_s),
        NUMBER("flops", answer.rates.flops), NUMBER("recomputed_flops", answer.rates.recomputed), NUMBER("mfu", answer.rates.mfu),
        NUMBER("hfu", answer.rates.hfu), NUMBER("tokens_per_step", answer.rates.tokens),
        NUMBER("tokens_per_second", answer.rates.tokens_per_s), NUMBER("days", answer.days),
        NUMBER("device_hours", answer.gpu_hours), NUMBER("cost", answer.cost),
        NUMBER("peak_bytes", trial->setup.footprint.peak_bytes[TIER_DEVICE]),
        NUMBER("memory_bytes", trial->hardware.memory_bytes), TRUTH("fits", answer.fits),
        NUMBER_IF("exposed_seconds", simulated, trial->exposed_s));
    cJSON *busy = cJSON_AddObjectToObject(json, "busy_seconds");
    for (int lane = 0; lane < LANES; lane++)
        if (trial->busy_s[lane] > 0) json_put(busy, NUMBER(lane_name((enum lane)lane), trial->busy_s[lane]));
    return json_print(out, json, err);
}

/* ---- all ---- */

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
    if (!status && trial->cli->json) status = print_answer_json(stdout, trial, err);
    else if (!status) print_answer(stdout, trial);
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
