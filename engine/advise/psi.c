/* `zerolab plan --psi N`. */
#include "engine/advise/print.h"

#include <ctype.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/theory.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"
#include "engine/config/number.h"

enum { STAGES = 4 };
static const int64_t most = INT64_C(1) << 56; /* 64 bytes each fit 62 bits */

/* Copies a number without the commas between its groups of three digits. False: it has others. */
static bool without_commas(char out[64], const char *text)
{
    size_t length = 0;
    for (const char *at = text; *at && length < 63; at++) {
        const size_t digits = strspn(at + 1, "0123456789");
        if (*at != ',') out[length++] = *at;
        else if (at == text || !isdigit((unsigned char)at[-1]) || digits != 3) return false;
    }
    out[length] = '\0';
    return length < 63;
}

int psi_read(int64_t *psi, const char *text, struct error *err)
{
    static const char units[] = "KMBT";
    char number[72];
    bool negative = false;
    uint64_t value = 0;
    bool good = without_commas(number, text) && *number;
    const size_t length = good ? strlen(number) : 0;
    const char *unit = length ? strchr(units, toupper((unsigned char)number[length - 1])) : NULL;
    if (good && unit)
        good = !strpbrk(number, "eE") && snprintf(number + length - 1, 8, "e%d", 3 * (int)(unit - units + 1)) > 0;
    good = good && number_length(number) == strlen(number) && number_integer(number, &negative, &value);
    if (good && !negative && value > 0 && value <= (uint64_t)most) return *psi = (int64_t)value, STATUS_OK;
    return error_set(err, STATUS_USAGE, "--psi %.60s: give a number of parameters, such as 7e9, 7B or 7,241,732,096",
                     text);
}

/* The paper's volume at a stage, by a step without operations, and its formula. False: this configuration cannot be had there. */
static bool volume_at(double *bytes, char formula[192], const struct config *config, int stage, int64_t psi)
{
    struct config at = *config;
    char text[2] = {(char)('0' + stage), '\0'};
    if (config_set(&at, "zero_optimization.stage", text, NULL)) return false;
    struct model model = {.elems = psi, .dtype = at.dtype, .gradient = at.dtype, .wire = at.dtype};
    if (at.gradient_type != TYPE_OF_MODEL) model.gradient = config_dtype(at.gradient_type);
    if (at.wire_type != TYPE_OF_MODEL) model.wire = config_dtype(at.wire_type);
    struct schedule schedule = {
        .stage = stage, .ranks = at.topology.ranks, .micro_steps = at.accumulation_steps, .knobs = at.zero};
    if (at.topology.ranks_per_node < schedule.ranks) schedule.node_ranks = at.topology.ranks_per_node;
    theory_formula(formula, 192, &schedule, "Psi", dtype_bytes(model.dtype));
    *bytes = traffic_theory_bytes(&model, &schedule);
    return true;
}

/* What each accounting counts at each stage; as text also where it says nothing. */
static void add_states(cJSON *states, cJSON *cells, const struct accounting *accounting, int64_t psi, int ranks)
{
    char formula[32], bytes[32];
    for (int stage = 0; stage < STAGES; stage++) {
        const struct accounting_sum sum = accounting_sum_of(accounting, stage);
        const int64_t of_rank = sum.whole * psi + (sum.cut * psi + ranks - 1) / ranks; /* its shard is rounded up */
        cJSON *cell = json_put(json_item(cells), TRUTH("gap", stage > 0));
        if (!accounting_speaks_of(accounting, stage)) continue;
        accounting_sum_text(formula, sum, " Psi");
        json_put(cell, TEXT("formula", formula), TEXT("bytes", grouped(bytes, of_rank)));
        json_put(json_item(states), TEXT("accounting", accounting->name), NUMBER("stage", stage), TEXT("formula", formula),
                 NUMBER("bytes", of_rank));
    }
}

static void add_volume(cJSON *traffic, const struct config *config, int stage, int64_t psi)
{
    char formula[192];
    double bytes;
    const bool known = volume_at(&bytes, formula, config, stage, psi);
    cJSON *object = json_put(json_item(traffic), NUMBER("stage", stage));
    if (known) json_put(object, TEXT("formula", formula), NUMBER("sent_bytes", bytes));
    else json_put(object, TRUTH(".", true));
}

static const char page[] =
    "Psi = {parameters:,} parameters, N = {ranks} rank{ranks:s}\n\nModel states of a rank, bytes\n"
    "            stage 0             stage 1             stage 2             stage 3\n"
    "{#.accountings}{name}: {who}\n{#cells}{?gap} {/}{formula:19|-}{/}\n{#cells}{?gap} {/}{bytes:19|-}{/}\n{/}"
    "\nWhat a rank sends in a step, {.dtype}, {.micro_steps} micro-step{.micro_steps:s}, bytes\n"
    "{#traffic}  stage {stage}  {?formula}{formula} = {sent_bytes:,}{/}{!formula}these settings are of another stage{/}\n{/}"
    "\nActivations, buffers and gathered units follow from sizes: give --model, or\n"
    "--set model.KEY=VALUE, in place of --psi\n";

int psi_print(FILE *out, bool as_json, const struct config *config, int64_t psi, struct error *err)
{
    const int ranks = config->topology.ranks;
    cJSON *facts = json_object(NUMBER("parameters", psi), NUMBER("ranks", ranks), TEXT(".dtype", dtype_name(config->dtype)),
                               NUMBER(".micro_steps", config->accumulation_steps));
    cJSON *states = cJSON_AddArrayToObject(facts, "states"), *traffic = cJSON_AddArrayToObject(facts, "traffic"),
          *accountings = cJSON_AddArrayToObject(facts, ".accountings");
    for (int i = 0; i < ACCOUNTINGS; i++) {
        const struct accounting *accounting = &accounting_table[i];
        cJSON *row = json_put(json_item(accountings), TEXT("name", accounting->name), TEXT("who", accounting->who));
        add_states(states, cJSON_AddArrayToObject(row, "cells"), accounting, psi, ranks);
    }
    for (int stage = 0; stage < STAGES; stage++) add_volume(traffic, config, stage, psi);
    return template_answer(out, as_json, page, facts, err);
}
