/* `zerolab plan --sweep`: plans every combination of the values of some keys, as a table and charts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/advise/sweep.h"
#include "engine/cli/front.h"

/* A sweep loads the same setup several times, from the text of the file, which may be a pipe. */
struct swept { const struct cli *cli; char *text; struct hardware hardware; };

static int load_combination(void *user, struct config *config, const char *const *sets, int count, struct error *err)
{
    const struct swept *swept = user;
    int status = front_load_with(config, swept->cli, &(struct front_setting){swept->text, sets, count}, err);
    if (status || !swept->cli->hardware) return status;
    if (!config->budget_bytes[TIER_DEVICE]) config->budget_bytes[TIER_DEVICE] = swept->hardware.memory_bytes;
    status = hardware_place(config, &swept->hardware, err);
    if (status) config_release(config);
    return status;
}

static int read_sweep(struct sweep *sweep, const struct cli *cli, struct error *err)
{
    const char *twice = NULL;
    char key[CONFIG_PATH_MAX];
    int status = STATUS_OK;
    for (int i = 0; i < cli->sweeps.count && !status; i++) status = sweep_add(sweep, cli->sweeps.at[i], err);
    if (status) return status;
    if (cli->ranks > 0 && sweep_sets(sweep, "topology.ranks")) twice = "-n";
    if (cli->model && sweep_sets(sweep, "model.name")) twice = "--model";
    for (int i = 0; i < cli->sets.count; i++) {
        snprintf(key, sizeof key, "%.*s", (int)strcspn(cli->sets.at[i], "="), cli->sets.at[i]);
        if (sweep_sets(sweep, key)) twice = cli->sets.at[i];
    }
    if (twice) return error_set(err, STATUS_USAGE, "%.200s: --sweep sets this key, too; leave one out", twice);
    if (front_check_model(cli, !sweep_sets(sweep, "model.name"), err))
        return error_set(err, STATUS_USAGE, "give a CONFIG, --model NAME or --set model.KEY=VALUE, or sweep model.name");
    return STATUS_OK;
}

static int sweep_form(struct app_charts *ask, const struct cli *cli, struct error *err)
{
    static const char *const forms[] = {"text", "svg", "html", "csv"};
    const char *as = cli->sweep_as ? cli->sweep_as : forms[CHARTS_TEXT];
    char end;
    while (ask->as <= CHARTS_CSV && strcmp(forms[ask->as], as) != 0) ask->as++;
    if (cli->sweep_as && cli->json) return error_set(err, STATUS_USAGE, "give --json or --as, not both");
    if (ask->as > CHARTS_CSV) return error_set(err, STATUS_USAGE, "--as %s: give text, svg, html or csv", as);
    ask->columns = ask->as ? 100 : 80, ask->rows = ask->as ? 28 : 20, ask->ascii = cli->ascii;
    if (cli->sweep_frame && (sscanf(cli->sweep_frame, "%dx%d%c", &ask->columns, &ask->rows, &end) != 2 || ask->columns < 40 ||
                             ask->rows < 12 || ask->columns > 1000 || ask->rows > 1000))
        return error_set(err, STATUS_USAGE, "--frame %s: give a size from 40x12 to 1000x1000", cli->sweep_frame);
    if (ask->as == CHARTS_HTML && !cli->output && isatty(STDOUT_FILENO))
        return error_set(err, STATUS_USAGE, "--as html is for a file, not for a terminal; add -o FILE");
    return STATUS_OK;
}

static int give_sweep(const struct app_charts *ask, const struct cli *cli, struct error *err)
{
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    const int status = cli->json ? sweep_print_json(out, ask->sweep, err) : app_charts(out, ask, err);
    return front_close(out, cli->output, status, err);
}

static int live_sweep(struct app_live_charts *ask, const struct cli *cli, struct error *err)
{
    const int status = front_look(&ask->look, cli, err);
    return status ? status : app_terminal_fits(err) ? app_live_charts(ask, err) : STATUS_USAGE;
}

int front_sweep(const struct cli *cli, struct error *err)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    struct swept swept = {.cli = cli};
    const struct sweep_loader loader = {load_combination, &swept, cli->hardware ? &swept.hardware : NULL};
    struct app_charts ask = {.sweep = sweep, .what = cli->operand ? cli->operand : cli->model ? cli->model : "models"};
    if (!sweep) return error_set(err, STATUS_RUN, "no memory for a sweep");
    int status = front_check_plan(cli, err);
    if (!status) status = sweep_form(&ask, cli, err);
    if (!status && cli->hardware) status = hardware_load(&swept.hardware, cli->hardware, err);
    if (!status) status = read_sweep(sweep, cli, err);
    if (!status && cli->operand && (status = config_read(&swept.text, cli->operand, err)))
        error_prefix(err, "%s", cli->operand);
    const bool live = !status && cli->sweep_live;
    if (live) status = live_sweep(&(struct app_live_charts){sweep, &loader, ask.what, cli->hardware, &swept.hardware, {0}}, cli, err);
    else if (!status) status = sweep_plan(sweep, &loader, err);
    if (!status && !cli->json && sweep->notes) fputs(sweep->notes, stderr);
    if (!status && !live) status = give_sweep(&ask, cli, err);
    sweep_release(sweep);
    free(sweep);
    free(swept.text);
    return status;
}
