/* Folds records and, after each complete step, updates every log. Lines are buffered; the caller prints them with
 * logs_print(). */
#include "engine/advise/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

#include "engine/advise/logs_parts.h"
#include "engine/base/file.h"

struct logs {
    struct config config; /* without what it owns */
    struct history *history;
    struct log_clock clock; /* since it was printed last */
    struct log_comms comms;
    uint64_t begun_ns;         /* of the step that was taken last */
    uint32_t since;            /* steps since lines were printed */
    uint64_t skipped;          /* steps without an update */
    uint64_t samples, time_ns; /* of all steps but the first, which warms up */
    uint32_t steps;
    char *text, *profile; /* what is due; what the profiler said */
    size_t bytes, profile_bytes;
    FILE *out, *profile_out;
};

/* ---- shared by the logs ---- */

struct log_lane log_lane_of(const struct history *history, const struct history_step *step, int rank, enum lane lane)
{
    struct log_lane of = {history, step, rank, lane, 0, 0, 0};
    history_spans(history, rank, lane, step->begun_ns, step->ended_ns, &of.first, &of.end);
    of.next = of.first;
    return of;
}

const struct span *log_span(const struct log_lane *lane, int64_t number)
{
    const struct span *span = history_span(lane->history, lane->rank, lane->lane, number);
    bool its_own = span && span->purpose == PURPOSE_TRAIN && span->step == lane->step->step && span->ended_ns;
    return its_own && span->started_ns >= lane->step->begun_ns ? span : NULL;
}

const struct span *log_next(struct log_lane *lane)
{
    const struct span *span = NULL;
    while (!span && lane->next < lane->end) span = log_span(lane, lane->next++);
    return span;
}

const char *log_bytes(char text[24], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1024 && u < 4; u++) value /= 1024;
    snprintf(text, 24, u ? "%.2f %s" : "%.0f %s", value, units[u]);
    return text;
}

/* ---- steps_per_print ---- */

static void print_momenta(const struct config *config, FILE *out)
{
    const struct config_optimizer *optimizer = &config->optimizer;
    bool cycles = config->scheduler.kind == SCHEDULER_ONE_CYCLE && config->scheduler.cycle_momentum;
    switch (optimizer->rule) {
    case OPTIMIZER_SGD: fprintf(out, "mom=[%g]", optimizer->momentum); break;
    case OPTIMIZER_ADAGRAD: fputs("mom=[]", out); break;
    default:
        if (cycles) fputs("mom=n/a", out); /* records do not hold it */
        else fprintf(out, "mom=[[%g, %g]]", optimizer->beta1, optimizer->beta2);
    }
}

static int64_t samples_of(const struct logs *logs, const struct run_step *step)
{
    return step->tokens / logs->config.data.sequence_length;
}

static void print_rate(FILE *out, const char *name, uint64_t samples, uint64_t ns)
{
    if (samples && ns) fprintf(out, ", %s=%.2f", name, (double)samples * 1e9 / (double)ns);
    else fprintf(out, ", %s=n/a", name);
}

static void print_progress(struct logs *logs, const struct run_model *model, const struct run_step *step)
{
    const struct run_tier *device = &model->rank[0].tier[TIER_DEVICE];
    char held[24], most[24];
    fprintf(logs->out, "step=%u, skipped=%llu, lr=[%g], ", step->step, (unsigned long long)logs->skipped,
            (double)step->learning_rate);
    print_momenta(&logs->config, logs->out);
    fprintf(logs->out, ", loss=%.6f", (double)step->loss);
    if (logs->config.fp16.enabled) fprintf(logs->out, ", loss_scale=%g", (double)step->loss_scale);
    fprintf(logs->out, "\nmicro_step=%u/global_step=%u", step->micro_steps, step->step);
    print_rate(logs->out, "RunningAvgSamplesPerSec", logs->samples, logs->time_ns);
    print_rate(logs->out, "CurrSamplesPerSec", (uint64_t)samples_of(logs, step), step->total_ns);
    if (device->has_total)
        fprintf(logs->out, ", MemAllocated=%s, MaxMemAllocated=%s", log_bytes(held, device->live_bytes),
                log_bytes(most, device->peak_bytes));
    fputc('\n', logs->out);
}

/* ---- a step is over ---- */

static void print_what_is_due(struct logs *logs, const struct run_model *model, const struct history_step *when,
                              const struct run_step *step)
{
    const struct config_logs *wanted = &logs->config.logs;
    if (wanted->steps_per_print) print_progress(logs, model, step);
    if (wanted->wall_clock_breakdown) log_clock_print(&logs->clock, logs->out);
    if (wanted->memory_breakdown && when) log_memory_print(logs->history, when, logs->out);
    logs->clock = (struct log_clock){0};
    logs->since = 0;
}

static void profile(struct logs *logs, const struct run_model *model, const struct history_step *when)
{
    struct log_profile profile;
    FILE *out = logs->profile_out ? logs->profile_out : logs->out;
    if (!log_profile_of(&profile, &logs->config, logs->history, model, when)) {
        fprintf(out, "flops_profiler: records of step %u were lost, so nothing is known of it\n", when->step);
        return;
    }
    log_profile_print(&profile, &logs->config.logs, out);
    log_profile_release(&profile);
}

static void take_step(struct logs *logs, const struct run_model *model, const struct history_step *when,
                      const struct run_step *step)
{
    const struct config_logs *wanted = &logs->config.logs;
    logs->skipped += step->skipped;
    logs->since++;
    if (logs->steps++) {
        logs->samples += (uint64_t)samples_of(logs, step);
        logs->time_ns += step->total_ns;
    }
    if (wanted->wall_clock_breakdown) log_clock_add(&logs->clock, logs->history, model, when);
    if (wanted->comms.enabled)
        log_comms_add(&logs->comms, logs->history, model, when, wanted->comms.verbose ? logs->out : NULL);
    if (wanted->flops.enabled && step->step == (uint32_t)wanted->flops.profile_step) profile(logs, model, when);
    const int64_t every = wanted->steps_per_print ? wanted->steps_per_print : 1;
    if (step->step % every == 0) print_what_is_due(logs, model, when, step);
}

void logs_fold(struct logs *logs, const struct run_model *model, const struct trace_record *record)
{
    history_fold(logs->history, model, record);
    if (record->kind != TRACE_STEP_END) return;
    const struct history_step *when = history_step_numbered(logs->history, record->step_end.step);
    const struct run_step *step = run_step_numbered(model, record->step_end.step);
    if (!when || !step || !when->ended_ns || when->begun_ns <= logs->begun_ns) return;
    logs->begun_ns = when->begun_ns;
    take_step(logs, model, when, step);
}

void logs_finish(struct logs *logs, const struct run_model *model)
{
    const struct run_step *last = run_last_step(model);
    if (logs->since && last) print_what_is_due(logs, model, history_step_numbered(logs->history, last->step), last);
    if (logs->config.logs.comms.enabled && logs->steps) log_comms_print(&logs->comms, logs->out);
}

/* ---- life, and handing out ---- */

static bool is_asked(const struct config_logs *wanted)
{
    return wanted->steps_per_print || wanted->wall_clock_breakdown || wanted->memory_breakdown ||
           wanted->comms.enabled || wanted->flops.enabled;
}

struct logs *logs_new(const struct config *config)
{
    struct logs *logs = is_asked(&config->logs) ? calloc(1, sizeof *logs) : NULL;
    if (!logs) return NULL;
    logs->config = *config;
    logs->config.notes = logs->config.given = NULL;
    logs->comms = (struct log_comms){.by_op = config->logs.comms.debug,
                                     .only = config->logs.comms.prof_all ? NULL : logs->config.logs.comms.prof_ops};
    logs->history = history_new(0);
    logs->out = open_memstream(&logs->text, &logs->bytes);
    bool apart = *config->logs.flops.output_file;
    if (apart) logs->profile_out = open_memstream(&logs->profile, &logs->profile_bytes);
    if (logs->history && logs->out && (logs->profile_out || !apart)) return logs;
    logs_free(logs);
    return NULL;
}

void logs_free(struct logs *logs)
{
    if (!logs) return;
    if (logs->out) fclose(logs->out);
    if (logs->profile_out) fclose(logs->profile_out);
    log_comms_release(&logs->comms);
    history_free(logs->history);
    free(logs->text);
    free(logs->profile);
    free(logs);
}

bool logs_due(const struct logs *logs)
{
    return fflush(logs->out) == 0 && logs->bytes > 0;
}

void logs_print(struct logs *logs, FILE *out)
{
    if (!logs_due(logs)) return;
    fwrite(logs->text, 1, logs->bytes, out);
    rewind(logs->out);
    fflush(logs->out);
    logs->bytes = 0;
}

int logs_write_profile(const struct logs *logs, const char *path, struct error *err)
{
    if (!logs->profile_out || fflush(logs->profile_out)) return STATUS_OK;
    FILE *file = file_open_named_stream(path, O_TRUNC);
    bool written = file && fwrite(logs->profile, 1, logs->profile_bytes, file) == logs->profile_bytes;
    if (file && fclose(file)) written = false;
    return written ? STATUS_OK : error_set(err, STATUS_RUN, "cannot write the profile %s: %s", path, file_why(errno));
}
