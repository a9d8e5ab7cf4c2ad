/* `zerolab plan`: prints the cost of a setup before anything runs. One option chooses the question, and engine/plan
 * answers it. */
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/explain.h"
#include "engine/advise/fit.h"
#include "engine/advise/print.h"
#include "engine/cli/front.h"
#include "engine/device/gpu.h"
#include "engine/launch/capacity.h"

static int check_options(const struct cli *cli, struct error *err)
{
    const bool needs_model = !cli->explain && !cli->fit && !cli->accounting;
    if (cli->model && cli->operand) return error_set(err, STATUS_USAGE, "give a CONFIG or --model, not both");
    if ((cli->accounting != NULL) + cli->explain + cli->fit + cli->schedule > 1)
        return error_set(err, STATUS_USAGE, "give --accounting, --explain, --fit or --schedule, not two of them");
    if (!cli->model && !cli->operand && needs_model)
        return error_set(err, STATUS_USAGE, "give a CONFIG or --model NAME");
    return STATUS_OK;
}

/* A named model without a configuration: its own context; micro-batch, buckets and gathers as in zerolab's own
 * configurations. */
static int load_model(struct config *config, const char *const *sets, int count, struct error *err)
{
    const int status = config_load_text(config, "{\"train_micro_batch_size_per_gpu\": 4}", sets, count, err);
    if (status) return status;
    config_forget_file(config);
    sizes_default(config);
    return STATUS_OK;
}

static int load(struct config *config, const struct cli *cli, struct error *err)
{
    char ranks[48], name[80];
    const char *sets[TEXT_LIST_MAX + FIT_FAMILY_SETS + 2];
    int count = 0;
    for (int i = 0; cli->fit && !cli->model && !cli->operand && i < FIT_FAMILY_SETS; i++)
        sets[count++] = fit_family_sets[i];
    snprintf(name, sizeof name, "model.name=%s", cli->model);
    snprintf(ranks, sizeof ranks, "topology.ranks=%lld", (long long)cli->ranks);
    if (cli->model) sets[count++] = name;
    if (cli->ranks > 0) sets[count++] = ranks;
    for (int i = 0; i < cli->sets.count; i++) sets[count++] = cli->sets.at[i];
    const int status =
        cli->model ? load_model(config, sets, count, err) : config_load(config, cli->operand, sets, count, err);
    if (!status) gpu_settle(config);
    return status;
}

/* *fits: whether the setup in question can be trained. */
static int print_fit(FILE *out, const struct config *config, const struct cli *cli, bool *fits, struct error *err)
{
    const struct capacity room = capacity_now(config);
    const struct fit_question question = capacity_question(config, &room, !cli->operand && !cli->model);
    struct fit_answer *answer = fit_answer(&question, err);
    if (!answer) return err->status;
    int status = STATUS_OK;
    *fits = answer->fits;
    if (cli->json) status = fit_print_json(out, &question, answer, err);
    else fit_print(out, &question, answer);
    free(answer);
    return status;
}

static int print_accounting(FILE *out, const struct config *config, const struct cli *cli, struct error *err)
{
    const struct accounting *accounting;
    int status = accounting_find(&accounting, cli->accounting, err);
    return status ? status : (cli->json ? accounting_print_json : accounting_print)(out, accounting, config, err);
}

static int print(FILE *out, const struct config *config, const struct cli *cli, bool *fits, struct error *err)
{
    const char *what = cli->operand ? cli->operand : cli->model ? cli->model : "the built-in default";
    if (cli->fit) return print_fit(out, config, cli, fits, err);
    if (cli->accounting) return print_accounting(out, config, cli, err);
    if (cli->explain) return (cli->json ? explain_print_json : explain_print)(out, config, what, err);
    return (cli->json ? plan_print_json : plan_print)(out, config, cli->schedule, err);
}

static int plan(const struct cli *cli, bool *fits, struct error *err)
{
    struct config config;
    int status = check_options(cli, err);
    if (!status) status = load(&config, cli, err);
    if (status) return status;
    if (!cli->json && !cli->explain && config.notes) fputs(config.notes, stderr);
    FILE *out = front_open(cli->output, err);
    status = out ? print(out, &config, cli, fits, err) : err->status;
    config_release(&config);
    if (!out) return status;
    int closed = front_close(out, cli->output, status ? NULL : err);
    return status ? status : closed;
}

/* Needs no configuration. */
static int list_accountings(const struct cli *cli, struct error *err)
{
    if (cli->json) return error_set(err, STATUS_USAGE, "--json goes with the name of an accounting");
    FILE *out = front_open(cli->output, err);
    if (!out) return err->status;
    accounting_print_list(out);
    return front_close(out, cli->output, err);
}

int front_plan(const struct cli *cli, struct error *err)
{
    bool fits = true, lists = cli->accounting && strcmp(cli->accounting, "list") == 0;
    const int status = lists ? list_accountings(cli, err) : plan(cli, &fits, err);
    return status || fits ? status : STATUS_CHECK;
}
