/* `zerolab analyze`: the figures of a trace, or of two and how they differ. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/analysis.h"
#include "engine/advise/logs.h"
#include "engine/base/text_stream.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"

static void say_progress(void *user, uint64_t records, uint32_t step)
{
    if (progress_due(user))
        fprintf(printable_below(stderr), "\r%llu records, step %u ", (unsigned long long)records, step);
}

static int read_trace(struct analysis *analysis, const char *path, const struct cli *cli, struct error *err)
{
    struct progress progress = progress_of("reading");
    struct analysis_options options = {.from_step = (uint32_t)cli->from,
                                       .to_step = (uint32_t)cli->to,
                                       .progress = say_progress,
                                       .user = &progress};
    int status = analysis_read(analysis, path, &options, err);
    progress_end(&progress);
    return status;
}

static void rename_trace(struct analysis *analysis, const char *name)
{
    char *copy = strdup(name);
    if (!copy) return;
    free(analysis->path);
    analysis->path = copy;
}

int front_difference(const struct cli *cli, const char *const file[2], const char *const name[2], struct error *err)
{
    struct analysis side[2] = {0};
    bool equal = false;
    int status = STATUS_OK;
    for (int s = 0; s < 2 && !status; s++) {
        status = read_trace(&side[s], file[s], cli, err);
        if (!status) rename_trace(&side[s], name[s]);
    }
    if (!status) status = front_answer(cli, analysis_diff_page, analysis_diff_facts(&side[0], &side[1], &equal), err);
    for (int s = 0; s < 2; s++) analysis_release(&side[s]);
    return status || equal ? status : STATUS_CHECK; /* the last line of the figures says so */
}

/* ---- --logs: the lines that a headless run prints, of a run that was recorded. The configuration in the trace says which ones, and
 * --set what it did not ask for ---- */

/* Up to the header; records before it are none of a run's. */
static int read_header(struct run_model *model, struct source *source, struct error *err)
{
    struct trace_record record;
    while (!model->header.config_json) {
        enum source_result result = source_next(source, &record);
        if (result == SOURCE_BAD) return error_set(err, STATUS_INPUT, "%s", source_error(source));
        if (result != SOURCE_RECORD)
            return error_set(err, STATUS_INPUT, "the trace does not hold its configuration, so its logs are unknown");
        run_model_fold(model, &record);
    }
    return STATUS_OK;
}

static int read_config(struct config *config, const struct run_model *model, const struct cli *cli, struct error *err)
{
    int status = config_load_text(config, model->header.config_json, cli->sets.at, cli->sets.count, err);
    if (status) error_prefix(err, "the configuration in the trace%s", cli->sets.count ? " with --set" : "");
    else *config->logs.flops.output_file = '\0'; /* looking at a run writes nothing */
    return status;
}

static int write_logs(struct logs *logs, struct run_model *model, struct source *source, FILE *out, struct error *err)
{
    struct trace_record record;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        run_model_fold(model, &record);
        logs_fold(logs, model, &record);
        if (record.kind == TRACE_STEP_END) logs_print(logs, out);
    }
    logs_finish(logs, model);
    logs_print(logs, out);
    return result == SOURCE_BAD ? error_set(err, STATUS_INPUT, "%s", source_error(source)) : STATUS_OK;
}

static int show_all(struct run_model *model, struct source *source, const struct cli *cli, struct error *err)
{
    struct config config = {0};
    struct text_stream stream;
    int status = read_header(model, source, err);
    if (!status) status = read_config(&config, model, cli, err);
    struct logs *logs = status ? NULL : logs_new(&config);
    config_release(&config);
    if (!status && !logs)
        return error_set(err, STATUS_USAGE,
                         "this run's configuration asks for no logs; say which, as --set wall_clock_breakdown=true");
    FILE *out = status ? NULL : text_stream_open(&stream);
    if (out) status = write_logs(logs, model, source, out, err);
    char *text = out ? text_stream_close(&stream) : NULL;
    if (!status && !text) status = error_set(err, STATUS_RUN, "no memory for the logs");
    if (text && *text) { /* what came before the damage is good */
        int written = front_write(cli->output, text, false, status ? NULL : err);
        if (!status) status = written;
    }
    free(text);
    logs_free(logs);
    return status;
}

static int show_logs(const struct cli *cli, struct error *err)
{
    struct source *source;
    if (cli->diff || cli->json || cli->from || cli->to)
        return error_set(err, STATUS_USAGE,
                         "--logs prints lines of a whole run; leave out --diff, --json, --from, --to");
    int status = source_open_file(&source, cli->operand, err);
    if (status) return status;
    struct run_model *model = run_model_new(&(struct run_model_options){.steps = 256, .notices = 256});
    status = model ? show_all(model, source, cli, err) : error_set(err, STATUS_RUN, "no memory to read the trace");
    run_model_free(model);
    source_close(source);
    return status;
}

int front_analyze(const struct cli *cli, struct error *err)
{
    struct analysis analysis;
    if (cli->logs) return show_logs(cli, err);
    if (cli->sets.count) return error_set(err, STATUS_USAGE, "--set says which lines --logs prints; give --logs too");
    if (cli->to && cli->from > cli->to)
        return error_set(err, STATUS_USAGE, "--from %lld comes after --to %lld", (long long)cli->from,
                         (long long)cli->to);
    const char *const files[2] = {cli->operand, cli->diff};
    if (cli->diff) return front_difference(cli, files, (const char *const[]){cli->given[0], cli->given[2]}, err);
    int status = read_trace(&analysis, cli->operand, cli, err);
    if (status) return status;
    rename_trace(&analysis, cli->given[0]);
    status = front_answer(cli, analysis_page, analysis_facts(&analysis), err);
    analysis_release(&analysis);
    return status;
}
