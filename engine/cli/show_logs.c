/* `zerolab analyze FILE --logs`: the lines that a headless run prints, of a run that was recorded. Which ones is said by the
 * configuration in the trace, and by --set for what it did not ask for. */
#include <stdlib.h>

#include "engine/advise/logs.h"
#include "engine/cli/front.h"
#include "engine/trace/source.h"

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
    char *text = NULL;
    size_t bytes;
    int status = read_header(model, source, err);
    if (!status) status = read_config(&config, model, cli, err);
    struct logs *logs = status ? NULL : logs_new(&config);
    config_release(&config);
    if (!status && !logs)
        return error_set(err, STATUS_USAGE,
                         "this run's configuration asks for no logs; say which, as --set wall_clock_breakdown=true");
    FILE *out = status ? NULL : open_memstream(&text, &bytes);
    if (!status && !out) status = error_set(err, STATUS_RUN, "no memory for the logs");
    if (!status) status = write_logs(logs, model, source, out, err);
    if (out && fclose(out)) status = error_set(err, STATUS_RUN, "no memory for the logs");
    if (text && *text) { /* what came before the damage is good */
        int written = front_write(cli->output, text, status ? NULL : err);
        if (!status) status = written;
    }
    free(text);
    logs_free(logs);
    return status;
}

int front_logs(const struct cli *cli, struct error *err)
{
    struct source *source;
    if (cli->diff || cli->json || cli->from > 0 || cli->to > 0)
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
