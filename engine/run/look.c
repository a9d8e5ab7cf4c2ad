/* `zerolab replay`, `check` and `plan`: the subcommands that only look. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/accounting.h"
#include "engine/plan/explain.h"
#include "engine/plan/print.h"
#include "engine/run/front.h"
#include "engine/trace/check.h"

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
        if (strcmp(cli->as, as[a]) == 0)
            return options->as = (enum app_frame_as)a, front_look(&options->look, cli, err);
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
    struct app_options options = {.replay_file = cli->operand, .readonly = cli->readonly};
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

static FILE *open_output(const char *path, struct error *err)
{
    FILE *out = path && strcmp(path, "-") != 0 ? fopen(path, "we") : stdout;
    if (!out) error_set(err, STATUS_RUN, "cannot write %s: %s", path, strerror(errno));
    return out;
}

static int close_output(FILE *out, const char *path, struct error *err)
{
    int failed = out == stdout ? fflush(out) : fclose(out);
    return failed ? error_set(err, STATUS_RUN, "cannot write %s: %s", path ? path : "standard output", strerror(errno))
                  : STATUS_OK;
}

int front_check(const struct cli *cli)
{
    struct error err;
    struct trace_check check;
    int status = trace_check(&check, cli->operand, &err);
    FILE *out = status ? NULL : open_output(cli->output, &err);
    if (!out) return front_fail(&err);
    (cli->json ? trace_check_print_json : trace_check_print)(&check, out);
    status = close_output(out, cli->output, &err);
    return status ? front_fail(&err) : trace_check_status(&check);
}

/* ---- plan ---- */

static bool lists_accountings(const struct cli *cli)
{
    return cli->accounting && strcmp(cli->accounting, "list") == 0;
}

static int list_accountings(const struct cli *cli, struct error *err)
{
    if (cli->json) return error_set(err, STATUS_USAGE, "--json goes with the name of an accounting");
    FILE *out = open_output(cli->output, err);
    if (!out) return err->status;
    accounting_print_list(out);
    return close_output(out, cli->output, err);
}

static int print_plan(FILE *out, const struct cli *cli, const struct config *config, struct error *err)
{
    const char *what = cli->operand ? cli->operand : cli->model ? cli->model : "the built-in default";
    const struct accounting *accounting;
    if (cli->explain) return (cli->json ? explain_print_json : explain_print)(out, config, what, err);
    if (!cli->accounting) return (cli->json ? plan_print_json : plan_print)(out, config, cli->schedule, err);
    int status = accounting_find(&accounting, cli->accounting, err);
    return status ? status : (cli->json ? accounting_print_json : accounting_print)(out, accounting, config, err);
}

static int plan(const struct cli *cli, struct error *err)
{
    char ranks[48], name[80];
    const char *sets[CLI_LIST_MAX + 2];
    int count = 0;
    struct config config;
    if (cli->model && cli->operand) return error_set(err, STATUS_USAGE, "give a CONFIG or --model, not both");
    if (lists_accountings(cli)) return list_accountings(cli, err);
    if (cli->accounting && (cli->explain || cli->schedule))
        return error_set(err, STATUS_USAGE, "give --accounting, --explain or --schedule, not two of them");
    if (!cli->model && !cli->operand && !cli->explain && !cli->accounting)
        return error_set(err, STATUS_USAGE, "give a CONFIG or --model NAME");
    if (cli->explain && cli->schedule) return error_set(err, STATUS_USAGE, "give --explain or --schedule, not both");
    snprintf(name, sizeof name, "model.name=%s", cli->model);
    snprintf(ranks, sizeof ranks, "topology.ranks=%lld", (long long)cli->ranks);
    if (cli->model) sets[count++] = name;
    if (cli->ranks > 0) sets[count++] = ranks;
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    int status = config_load(&config, cli->operand, sets, count, err);
    if (status) return status;
    FILE *out = open_output(cli->output, err);
    if (!out) status = err->status;
    else status = print_plan(out, cli, &config, err);
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
