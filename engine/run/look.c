/* `zerolab replay`, `check` and `plan`: the subcommands that only look. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/print.h"
#include "engine/run/front.h"

/* ---- replay ---- */

static int frame_options(struct app_frame_options *options, const struct cli *cli, struct error *err)
{
    static const char *const as[] = {[APP_AS_TEXT] = "text", [APP_AS_ANSI] = "ansi", [APP_AS_SVG] = "svg"};
    char end;
    *options = (struct app_frame_options){.file = cli->operand, .view = cli->view, .at = cli->where};
    if (sscanf(cli->frame, "%dx%d%c", &options->columns, &options->rows, &end) != 2 || options->columns < 1 ||
        options->rows < 1 || options->columns > 1000 || options->rows > 1000)
        return error_set(err, STATUS_USAGE, "--frame %s: give a size like 100x30", cli->frame);
    for (int a = 0; cli->as && a < 3; a++)
        if (strcmp(cli->as, as[a]) == 0) return options->as = (enum app_frame_as)a, front_look(&options->look, cli, err);
    if (cli->as) return error_set(err, STATUS_USAGE, "--as %s: give text, ansi or svg", cli->as);
    return front_look(&options->look, cli, err);
}

static int print_frame(const struct cli *cli, struct error *err)
{
    struct app_frame_options options;
    char *text = NULL;
    int status = frame_options(&options, cli, err);
    if (!status) status = app_frame(&options, &text, err);
    if (!status) status = front_write(cli->output, text, err);
    free(text);
    return status;
}

static int replay(const struct cli *cli, struct error *err)
{
    if (cli->frame) return print_frame(cli, err);
    if (cli->view || cli->where || cli->as || cli->output)
        return error_set(err, STATUS_USAGE, "--view, --at, --as and --output belong to --frame COLSxROWS");
    struct app_options options = {.replay_file = cli->operand};
    int status = front_look(&options.look, cli, err);
    if (!status && !app_terminal_fits(err)) status = STATUS_USAGE;
    return status ? status : app_run(&options, err);
}

int front_replay(const struct cli *cli)
{
    struct error err = {0};
    int status = replay(cli, &err);
    if (status) err.status = status;
    return status ? front_fail(&err) : STATUS_OK;
}

/* ---- check ---- */

struct finding { bool torn, bad; uint64_t records; char why[256]; };

static int fold_file(const char *path, struct run_model *model, struct finding *finding, struct error *err)
{
    struct source *source;
    struct trace_record record;
    enum source_result result;
    int status = source_open_file(&source, path, err);
    if (status) return status;
    while ((result = source_next(source, &record)) == SOURCE_RECORD) run_model_fold(model, &record), finding->records++;
    finding->torn = source_torn(source);
    finding->bad = result == SOURCE_BAD;
    if (finding->bad) snprintf(finding->why, sizeof finding->why, "%s", source_error(source));
    source_close(source);
    if (finding->records == 0) return error_set(err, STATUS_INPUT, "%s holds no whole record", path);
    return STATUS_OK;
}

static bool is_whole(const struct run_model *model, const struct finding *finding)
{
    return !finding->torn && !finding->bad && model->ended && model->lost_records == 0;
}

static void print_check(FILE *out, const struct run_model *model, const struct finding *finding)
{
    const struct run_header *header = &model->header;
    if (header->known)
        fprintf(out, "run: %s, %lld parameters, %s, %d ranks, %s\n", header->model_name, (long long)header->parameters,
                header->precision, header->ranks, header->isa);
    fprintf(out, "holds: %llu records, %u whole steps, %d schedules\n", (unsigned long long)finding->records, model->steps_seen,
            model->schedule_count);
    if (finding->torn) fprintf(out, "cut: the file ends inside a chunk; what came before it is whole\n");
    if (finding->bad) fprintf(out, "damaged: %s; what came before it is whole\n", finding->why);
    if (!model->ended) fprintf(out, "cut: the run did not end in this file\n");
    else fprintf(out, "ended: %s%s%s\n", run_outcome_name(model->outcome), *model->error ? ": " : "", model->error);
    if (model->lost_records) fprintf(out, "gaps: %llu records were lost\n", (unsigned long long)model->lost_records);
    fprintf(out, "good for: %s%s\n", model->steps_seen ? "replay, loss, memory, traffic" : "replay of the start",
            model->steps_seen && !model->lost_records ? ", times" : "");
}

static void print_check_json(FILE *out, const struct run_model *model, const struct finding *finding)
{
    fprintf(out, "{\"whole\": %s, \"torn\": %s, \"damaged\": %s, \"ended\": %s, \"records\": %llu, \"steps\": %u, \"lost_records\": %llu}\n",
            is_whole(model, finding) ? "true" : "false", finding->torn ? "true" : "false", finding->bad ? "true" : "false",
            model->ended ? "true" : "false", (unsigned long long)finding->records, model->steps_seen,
            (unsigned long long)model->lost_records);
}

static FILE *open_output(const char *path, struct error *err)
{
    FILE *out = path && strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!out) error_set(err, STATUS_RUN, "cannot write %s: %s", path, strerror(errno));
    return out;
}

static int close_output(FILE *out, const char *path, struct error *err)
{
    int failed = out == stdout ? fflush(out) : fclose(out);
    return failed ? error_set(err, STATUS_RUN, "cannot write %s: %s", path ? path : "standard output", strerror(errno)) : STATUS_OK;
}

int front_check(const struct cli *cli)
{
    struct error err;
    struct finding finding = {0};
    struct run_model *model = run_model_new(&(struct run_model_options){.steps = 16, .notices = 16});
    FILE *out = NULL;
    int status = model ? fold_file(cli->operand, model, &finding, &err) : error_set(&err, STATUS_RUN, "no memory");
    if (!status && !(out = open_output(cli->output, &err))) status = err.status;
    if (!status) (cli->json ? print_check_json : print_check)(out, model, &finding);
    if (!status) status = close_output(out, cli->output, &err);
    bool whole = !status && is_whole(model, &finding);
    run_model_free(model);
    if (status) return front_fail(&err);
    return whole ? STATUS_OK : STATUS_CHECK;
}

/* ---- plan ---- */

static int plan(const struct cli *cli, struct error *err)
{
    char ranks[48], name[80];
    const char *sets[CLI_LIST_MAX + 2];
    int count = 0;
    struct config config;
    if (cli->model && cli->operand) return error_set(err, STATUS_USAGE, "give a CONFIG or --model, not both");
    if (!cli->model && !cli->operand) return error_set(err, STATUS_USAGE, "give a CONFIG or --model NAME");
    snprintf(name, sizeof name, "model.name=%s", cli->model);
    snprintf(ranks, sizeof ranks, "topology.ranks=%lld", (long long)cli->ranks);
    if (cli->model) sets[count++] = name;
    if (cli->ranks > 0) sets[count++] = ranks;
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    int status = config_load(&config, cli->operand, sets, count, err);
    if (status) return status;
    FILE *out = open_output(cli->output, err);
    status = out ? plan_print(out, &config, cli->schedule, err) : err->status;
    config_release(&config);
    if (!out) return status;
    int closed = close_output(out, cli->output, status ? NULL : err);
    return status ? status : closed;
}

int front_plan(const struct cli *cli)
{
    struct error err;
    return plan(cli, &err) ? front_fail(&err) : STATUS_OK;
}
