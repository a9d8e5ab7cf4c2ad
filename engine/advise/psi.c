/* `zerolab plan --psi N`. */
#include "engine/advise/print.h"

#include <ctype.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/theory.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/config/number.h"
#include "engine/config/resolve.h"

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

/* What a rank holds of what is cut, rounded up. */
static int64_t states_bytes(struct accounting_sum sum, int64_t psi, int ranks)
{
    return sum.whole * psi + (sum.cut * psi + ranks - 1) / ranks;
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

static void print_states(FILE *out, const struct accounting *accounting, int64_t psi, int ranks)
{
    char text[32];
    fprintf(out, "%s: %s\n", accounting->name, accounting->who);
    for (int line = 0; line < 2; line++, fputc('\n', out))
        for (int stage = 0; stage < STAGES; stage++) {
            const struct accounting_sum sum = accounting_sum_of(accounting, stage);
            fprintf(out, "%*s", stage ? 20 : 19,
                    !accounting_speaks_of(accounting, stage) ? "-"
                    : line ? grouped(text, states_bytes(sum, psi, ranks)) : accounting_sum_text(text, sum, " Psi"));
        }
}

void psi_print(FILE *out, const struct config *config, int64_t psi)
{
    const int ranks = config->topology.ranks;
    char a[32], formula[192];
    fprintf(out, "Psi = %s parameters, N = %d rank%s\n\nModel states of a rank, bytes\n%19s%20s%20s%20s\n",
            grouped(a, psi), ranks, plural(ranks), "stage 0", "stage 1", "stage 2", "stage 3");
    for (int i = 0; i < ACCOUNTINGS; i++) print_states(out, &accounting_table[i], psi, ranks);
    fprintf(out, "\nWhat a rank sends in a step, %s, %d micro-step%s, bytes\n", dtype_name(config->dtype),
            config->accumulation_steps, plural(config->accumulation_steps));
    for (int stage = 0; stage < STAGES; stage++) {
        double bytes;
        fprintf(out, "  stage %d  ", stage);
        if (!volume_at(&bytes, formula, config, stage, psi)) fputs("these settings are of another stage\n", out);
        else fprintf(out, "%s = %s\n", formula, grouped(a, (int64_t)(bytes + 0.5)));
    }
    fputs("\nActivations, buffers and gathered units follow from sizes: give --model, or\n--set model.KEY=VALUE, in "
          "place of --psi\n",
          out);
}

int psi_print_json(FILE *out, const struct config *config, int64_t psi, struct error *err)
{
    const int ranks = config->topology.ranks;
    cJSON *root = cJSON_CreateObject();
    json_put(root, NUMBER("parameters", psi), NUMBER("ranks", ranks));
    cJSON *states = cJSON_AddArrayToObject(root, "states"), *traffic = cJSON_AddArrayToObject(root, "traffic");
    char formula[192];
    for (int i = 0; i < ACCOUNTINGS; i++)
        for (int stage = 0; stage < STAGES; stage++) {
            const struct accounting *accounting = &accounting_table[i];
            const struct accounting_sum sum = accounting_sum_of(accounting, stage);
            if (!accounting_speaks_of(accounting, stage)) continue;
            json_put(json_item(states), TEXT("accounting", accounting->name), NUMBER("stage", stage),
                     TEXT("formula", accounting_sum_text(formula, sum, " Psi")),
                     NUMBER("bytes", states_bytes(sum, psi, ranks)));
        }
    for (int stage = 0; stage < STAGES; stage++) {
        double bytes;
        if (!volume_at(&bytes, formula, config, stage, psi)) continue;
        json_put(json_item(traffic), NUMBER("stage", stage), TEXT("formula", formula), NUMBER("sent_bytes", bytes));
    }
    return json_print(out, root, err);
}
