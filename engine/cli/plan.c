/* `zerolab plan`: prints the cost of a setup before anything runs. One option chooses the question, and engine/plan
 * answers it. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/advise/accounting.h"
#include "engine/advise/advice.h"
#include "engine/advise/conventions.h"
#include "engine/advise/fit.h"
#include "engine/advise/knobs.h"
#include "engine/advise/print.h"
#include "engine/advise/sweep.h"
#include "engine/base/grouped.h"
#include "engine/base/words.h"
#include "engine/cli/front.h"
#include "engine/config/resolve.h"
#include "engine/device/gpu.h"
#include "engine/launch/capacity.h"

/* Sets of the command line and of what it names, in their order: later ones win. */
struct plan_sets {
    const char *at[TEXT_LIST_MAX + FIT_FAMILY_SETS + 12 + SWEEP_KEYS_MAX];
    char text[11][80];
    int count, texts;
};

__attribute__((format(printf, 2, 3))) static void add_set(struct plan_sets *sets, const char *format, ...)
{
    char *text = sets->text[sets->texts++];
    FORMAT_ARGUMENTS(text, sizeof *sets->text, format);
    sets->at[sets->count++] = text;
}

static const char *const model_keys[] = {"model.layers",     "model.hidden", "model.heads",        "model.context",
                                         "model.vocabulary", "model.name",   "model.architecture", "model.kv_heads",
                                         "model.ffn",        "model.tied"};
enum { MODEL_KEYS = sizeof model_keys / sizeof *model_keys, MODEL_SIZES = 5 };

/* Whether the options say the model, without a CONFIG. */
static bool has_model(const struct cli *cli)
{
    bool has = cli->model != NULL;
    for (int s = 0; s < MODEL_KEYS && !cli->operand; s++)
        has |= config_is_set(cli->sets.at, cli->sets.count, model_keys[s]);
    return has;
}

void front_print_defaults(FILE *out, const struct cli *cli, const struct config *config)
{
    char value[64];
    int said = 0;
    if (cli->json || cli->model || !has_model(cli) || config_is_given(config, "model.name")) return;
    for (int s = 0; s < MODEL_SIZES; s++) {
        if (config_is_given(config, model_keys[s])) continue;
        config_show(config, model_keys[s], value, sizeof value);
        fprintf(out, "%s%s %s", said++ ? ", " : "not given, so as nano has it: ", model_keys[s], value);
    }
    if (said) fputc('\n', out);
}

int front_check_model(const struct cli *cli, bool needed, struct error *err)
{
    if (cli->model && cli->operand) return error_set(err, STATUS_USAGE, "give a CONFIG or --model, not both");
    if (!needed || cli->operand || has_model(cli)) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "give a CONFIG, --model NAME or --set model.KEY=VALUE");
}

static int check_options(const struct cli *cli, struct error *err)
{
    const bool needs_model = !cli->explain && !cli->fit && !cli->accounting && !cli->psi && !cli->sweeps.count;
    if ((cli->accounting != NULL) + cli->advise + cli->explain + cli->fit + cli->schedule + (cli->psi != NULL) + (cli->sweeps.count > 0) > 1)
        return error_set(err, STATUS_USAGE,
                         "give --accounting, --advise, --explain, --fit, --psi, --schedule or --sweep, not two of them");
    if (!cli->sweeps.count && (cli->sweep_as || cli->sweep_frame || cli->ascii || cli->sweep_live))
        return error_set(err, STATUS_USAGE, "--as, --frame, --live and --ascii belong to --sweep");
    if (cli->sweep_live && (cli->sweep_as || cli->sweep_frame || cli->json || cli->output))
        return error_set(err, STATUS_USAGE, "--live shows charts on the terminal; leave out --as, --frame, --json and -o");
    if (cli->psi && has_model(cli))
        return error_set(err, STATUS_USAGE,
                         "--psi is a model without sizes; leave out --model and --set model.KEY=VALUE");
    if (cli->hardware && !cli->advise && !cli->sweeps.count)
        return error_set(err, STATUS_USAGE, "--hardware belongs to --advise and --sweep");
    if (cli->with.count && !cli->accounting)
        return error_set(err, STATUS_USAGE, "--with gives quantities of --accounting NAME");
    return front_check_model(cli, needs_model, err);
}

static int add_model_file(struct plan_sets *sets, const char *path, int *window, struct error *err)
{
    struct config_model model;
    const int status = config_model_file(&model, path, window, err);
    if (status) return status;
    add_set(sets, "model.name=custom");
    add_set(sets, "model.architecture=%s", model_traits[model.kind].name);
    add_set(sets, "model.layers=%d", model.layers);
    add_set(sets, "model.hidden=%d", model.hidden);
    add_set(sets, "model.heads=%d", model.heads);
    add_set(sets, "model.context=%d", model.context);
    add_set(sets, "model.vocabulary=%d", model.vocabulary);
    add_set(sets, "model.kv_heads=%d", model.kv_heads);
    add_set(sets, "model.ffn=%d", model.ffn);
    add_set(sets, "model.tied=%s", model.untied ? "false" : "true");
    return STATUS_OK;
}

static const char micro_batch[] = "{\"train_micro_batch_size_per_gpu\": 4}",
                  micro_batch_bf16[] = "{\"train_micro_batch_size_per_gpu\": 4, \"bf16\": {\"enabled\": true}}";

/* A model without a configuration: its own context; micro-batch, buckets and gathers as in zerolab's own
 * configurations. */
static int load_model(struct config *config, const struct plan_sets *sets, struct error *err)
{
    const int status = config_load_text(config, micro_batch, sets->at, sets->count, err);
    if (status) return status;
    config_forget_file(config);
    sizes_default(config);
    return STATUS_OK;
}

/* With more settings, and with CONFIG's text (NULL: the file is read). */
static int load_with(struct config *config, const struct cli *cli, const char *text, const char *const *more, int count,
                     struct error *err)
{
    struct plan_sets sets = {.count = 0};
    const char *ending = cli->model ? strrchr(cli->model, '.') : NULL;
    const bool own_model = has_model(cli), family = cli->fit && !own_model && !cli->operand,
               is_json = ending && ending > cli->model && strcmp(ending, ".json") == 0,
               file = is_json || (cli->model && strchr(cli->model, '/'));
    for (int i = 0; family && i < FIT_FAMILY_SETS; i++) sets.at[sets.count++] = fit_family_sets[i];
    int window = 0, status = file ? add_model_file(&sets, cli->model, &window, err) : STATUS_OK;
    if (status) return status;
    if (cli->model && !file) add_set(&sets, "model.name=%s", cli->model);
    if (cli->ranks > 0) add_set(&sets, "topology.ranks=%lld", (long long)cli->ranks);
    for (int i = 0; i < cli->sets.count; i++) sets.at[sets.count++] = cli->sets.at[i];
    for (int i = 0; i < count; i++) sets.at[sets.count++] = more[i];
    status = own_model || (count && !cli->operand) ? load_model(config, &sets, err)
             : text                      ? config_load_text(config, text, sets.at, sets.count, err)
             : cli->psi && !cli->operand ? config_load_text(config, micro_batch_bf16, sets.at, sets.count, err)
                                         : config_load(config, cli->operand, sets.at, sets.count, err);
    if (status && file) return error_prefix(err, "%.300s", cli->model);
    if (!status && window && window < config->data.sequence_length)
        status = config_add_line(&config->notes, err, "sliding_window = %d: operations are counted as if attention saw all tokens before", window);
    if (!status) gpu_settle(config);
    return status;
}

int front_load(struct config *config, const struct cli *cli, struct error *err)
{
    return load_with(config, cli, NULL, NULL, 0, err);
}

/* ---- --sweep: plans every combination of the values of some keys, as a table and charts ---- */

/* A sweep loads the same setup several times, from the text of the file, which may be a pipe. */
struct swept { const struct cli *cli; char *text; struct hardware hardware; };

static int load_combination(void *user, struct config *config, const char *const *sets, int count, struct error *err)
{
    const struct swept *swept = user;
    int status = load_with(config, swept->cli, swept->text, sets, count, err);
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
    FILE *out = front_open(cli->output, false, err);
    if (!out) return err->status;
    const int status = cli->json ? sweep_print_json(out, ask->sweep, err) : app_charts(out, ask, err);
    return front_close(out, cli->output, status, err);
}

static int plan_sweep(const struct cli *cli, struct error *err)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    struct swept swept = {.cli = cli};
    const struct sweep_loader loader = {load_combination, &swept, cli->hardware ? &swept.hardware : NULL};
    struct app_charts ask = {.sweep = sweep, .what = cli->operand ? cli->operand : cli->model ? cli->model : "models"};
    if (!sweep) return error_set(err, STATUS_RUN, "no memory for a sweep");
    int status = sweep_form(&ask, cli, err);
    if (!status && cli->hardware) status = hardware_load(&swept.hardware, cli->hardware, err);
    if (!status) status = read_sweep(sweep, cli, err);
    if (!status && cli->operand && (status = config_read(&swept.text, cli->operand, err)))
        error_prefix(err, "%s", cli->operand);
    struct app_live_charts live = {sweep, &loader, ask.what, cli->hardware, &swept.hardware, {0}};
    if (!status && cli->sweep_live) status = front_look(&live.look, cli, err);
    if (!status && cli->sweep_live) status = app_terminal_fits(err) ? app_live_charts(&live, err) : STATUS_USAGE;
    if (!status && !cli->sweep_live) status = sweep_plan(sweep, &loader, err);
    if (!status && !cli->json && sweep->notes) fputs(sweep->notes, stderr);
    if (!status && !cli->sweep_live) status = give_sweep(&ask, cli, err);
    sweep_release(sweep);
    free(sweep);
    free(swept.text);
    return status;
}

/* ---- the other questions ---- */

enum { NOTE_AFTER_S = 3 };

/* For a search over hundreds of setups whose steps have very many operations. */
static void note_long_search(int signal)
{
    static const char note[] = "zerolab: note: hundreds of setups are planned, of many operations each; this may take minutes\n";
    const int before = errno;
    (void)signal;
    if (write(STDERR_FILENO, note, sizeof note - 1) < 0) errno = before; /* nobody reads it */
}

static void begin_search(void)
{
    signal(SIGALRM, note_long_search);
    alarm(NOTE_AFTER_S);
}

/* *fits: whether the setup in question can be trained. */
static int print_fit(FILE *out, const struct config *config, const struct cli *cli, bool *fits, struct error *err)
{
    const struct capacity room = capacity_now(config, true);
    struct fit_question question = capacity_question(config, &room, !cli->operand && !has_model(cli));
    question.limits.keep_sets = true;
    begin_search();
    struct fit_answer *answer = fit_answer(&question, err);
    alarm(0);
    if (!answer) return err->status;
    *fits = answer->fits;
    const int status = fit_print(out, cli->json, &question, answer, err);
    free(answer);
    return status;
}

/* Ranks fill nodes of the hardware, unless topology.ranks_per_node says otherwise. */
static int print_advice(FILE *out, struct config *config, const struct cli *cli, bool *fits, struct error *err)
{
    struct hardware hardware;
    struct advice advice;
    int status = hardware_load(&hardware, cli->hardware, err);
    if (!status) status = hardware_place(config, &hardware, err);
    if (status) return status;
    begin_search();
    status = advice_find(&advice, config, &hardware, err);
    alarm(0);
    if (status) return status;
    *fits = advice.fitting > 0;
    if (!*fits) *advice.config = *config;
    status = advice_print(out, cli->json, &advice, err);
    advice_release(&advice);
    return status;
}

/* A count of bytes per parameter, or formulas. */
static int print_accounting(FILE *out, const struct config *config, const struct cli *cli, struct error *err)
{
    const struct accounting *accounting;
    const struct convention_row *convention;
    struct error ignored;
    if (accounting_find(&accounting, cli->accounting, &ignored)) {
        const int status = convention_find(&convention, cli->accounting, err);
        if (status) return status;
        return convention_print(out, cli->json, convention, config, &cli->with, err);
    }
    if (cli->with.count)
        return error_set(err, STATUS_USAGE, "%s has no formulas for --with; give ranks and sizes with -n and --set",
                         accounting->name);
    return accounting_print(out, cli->json, accounting, config, err);
}

static int print(FILE *out, struct config *config, const struct cli *cli, bool *fits, struct error *err)
{
    const char *what = cli->operand ? cli->operand : cli->model ? cli->model : "the built-in default";
    int64_t psi;
    front_print_defaults(out, cli, config);
    if (cli->psi) return psi_read(&psi, cli->psi, err) ? err->status : psi_print(out, cli->json, config, psi, err);
    if (cli->fit) return print_fit(out, config, cli, fits, err);
    if (cli->advise) return print_advice(out, config, cli, fits, err);
    if (cli->accounting) return print_accounting(out, config, cli, err);
    if (cli->explain) return explain_print(out, cli->json, config, what, err);
    return plan_print(out, cli->json, config, cli->schedule, err);
}

static int plan(const struct cli *cli, bool *fits, struct error *err)
{
    /* Hundreds of schedules are made and released: keep their pages, which the kernel would clear each time. */
    mallopt(M_MMAP_THRESHOLD, INT_MAX);
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    struct config config;
    int status = front_load(&config, cli, err);
    if (status) return status;
    if (!cli->json && !cli->explain && config.notes) fputs(config.notes, stderr);
    FILE *out = front_open(cli->output, false, err);
    status = out ? front_close(out, cli->output, print(out, &config, cli, fits, err), err) : err->status;
    config_release(&config);
    return status;
}

/* Needs no configuration. */
static void print_models(FILE *out)
{
    const struct config_model *shape;
    fprintf(out, "%-12s %-8s %6s %6s %5s %8s %6s %7s %10s %18s\n", "model", "", "layers", "hidden", "heads", "kv heads",
            "ffn", "context", "vocabulary", "parameters");
    for (int m = 0; (shape = config_model_at(m)); m++) {
        struct model model;
        char elems[32];
        if (model_init(&model, shape, DTYPE_F32, NULL)) return;
        fprintf(out, "%-12s %-8s %6d %6d %5d %8d %6d %7d %10d %18s\n", shape->name, model_traits[shape->kind].name,
                shape->layers, shape->hidden, shape->heads, config_kv_heads(shape), config_ffn(shape), shape->context,
                shape->vocabulary, grouped(elems, model.elems));
        model_release(&model);
    }
}

static int print_list(const struct cli *cli, bool of_models, struct error *err)
{
    if (of_models && cli->json)
        return error_set(err, STATUS_USAGE, "--json goes with the name of a model, not with a list of names");
    int status = STATUS_OK;
    FILE *out = front_open(cli->output, false, err);
    if (!out) return err->status;
    if (of_models) print_models(out);
    else status = accountings_print(out, cli->json, err);
    return front_close(out, cli->output, status, err);
}

int front_plan(const struct cli *cli, struct error *err)
{
    bool fits = true;
    if (cli->accounting && strcmp(cli->accounting, "list") == 0) return print_list(cli, false, err);
    if (cli->model && strcmp(cli->model, "list") == 0) return print_list(cli, true, err);
    int status = check_options(cli, err);
    if (!status) status = cli->sweeps.count ? plan_sweep(cli, err) : plan(cli, &fits, err);
    return status || fits ? status : STATUS_CHECK;
}
