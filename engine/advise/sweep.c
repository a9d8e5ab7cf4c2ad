#include "engine/advise/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/simulate/simulate.h"

/* ---- the keys and their values ---- */

bool sweep_sets(const struct sweep *sweep, const char *typed)
{
    char path[CONFIG_PATH_MAX];
    bool sets = false;
    config_path(path, typed);
    for (int k = 0; k < sweep->key_count; k++) sets |= !strcmp(sweep->key[k].path, path);
    return sets;
}

/* The key must be able to have the value; equal values in two spellings ("50MB", "5e7") are one value. */
static int add_value(struct sweep_key *key, const char *value, int length, struct error *err)
{
    struct config one = {0}, other = {0};
    char text[SWEEP_VALUE_ROOM], shown[256], before[256];
    if (!length) return error_set(err, STATUS_USAGE, "%s: value %d is empty", key->path, key->count + 1);
    if (length >= (int)sizeof text || snprintf(text, sizeof text, "%.*s", length, value) < length)
        return error_set(err, STATUS_USAGE, "%s: value %d is longer than %d characters", key->path, key->count + 1,
                         SWEEP_VALUE_ROOM - 1);
    if (key->count == SWEEP_VALUES_MAX)
        return error_set(err, STATUS_USAGE, "%s: more than %d values; give fewer", key->path, SWEEP_VALUES_MAX);
    int status = config_try(&one, key->path, text, err);
    if (status) return status;
    config_show(&one, key->path, shown, sizeof shown);
    for (int v = 0; v < key->count; v++) {
        config_try(&other, key->path, key->value[v], NULL);
        config_show(&other, key->path, before, sizeof before);
        if (!strcmp(shown, before)) return error_set(err, STATUS_USAGE, "%s: value %s is there twice", key->path, text);
    }
    strcpy(key->value[key->count++], text);
    return STATUS_OK;
}

/* "1..8", "0..100+25", "1..64*2". False: the value is no range. */
static bool read_range(const char *value, int length, long long *from, long long *to, char *sign, long long *by)
{
    char text[SWEEP_VALUE_ROOM];
    int end = 0;
    snprintf(text, sizeof text, "%.*s", length, value);
    *sign = '+', *by = 1;
    if (sscanf(text, "%18lld..%18lld%n", from, to, &end) != 2 || !end) return false;
    if (text[end] == '\0') return true;
    const int step = end;
    return sscanf(text + step, "%c%18lld%n", sign, by, &end) == 2 && text[step + end] == '\0' && strchr("+*", *sign);
}

static int add_values(struct sweep_key *key, const char *value, int length, struct error *err)
{
    long long from, to, by;
    char sign, text[32];
    int status = STATUS_OK;
    if (!read_range(value, length, &from, &to, &sign, &by)) return add_value(key, value, length, err);
    if (from > to || by < 1 || (sign == '*' && (by < 2 || from < 1)))
        return error_set(err, STATUS_USAGE, "%s: range %.*s: give LOW..HIGH, LOW..HIGH+STEP or LOW..HIGH*FACTOR",
                         key->path, length, value);
    for (bool past = false; from <= to && !past && !status;) {
        status = add_value(key, text, snprintf(text, sizeof text, "%lld", from), err);
        past = sign == '*' ? __builtin_mul_overflow(from, by, &from) : __builtin_add_overflow(from, by, &from);
    }
    return status;
}

/* Up to the comma that ends the value; commas in brackets are part of it. */
static int value_length(const char *text)
{
    int depth = 0, length = 0;
    for (; text[length] && (text[length] != ',' || depth > 0); length++)
        depth += (text[length] == '[') - (text[length] == ']');
    return length;
}

int sweep_add(struct sweep *sweep, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    char typed[CONFIG_PATH_MAX];
    struct sweep_key *key = &sweep->key[sweep->key_count];
    if (!equals || equals == text || equals - text >= CONFIG_PATH_MAX)
        return error_set(err, STATUS_USAGE, "--sweep %.100s: give KEY=A,B,...", text);
    if (sweep->key_count == SWEEP_KEYS_MAX)
        return error_set(err, STATUS_USAGE, "--sweep is given more than %d times", SWEEP_KEYS_MAX);
    snprintf(typed, sizeof typed, "%.*s", (int)(equals - text), text);
    *key = (struct sweep_key){.count = 0};
    config_path(key->path, typed);
    if (sweep_sets(sweep, key->path)) return error_set(err, STATUS_USAGE, "--sweep %s: is given twice", key->path);
    for (const char *at = equals + 1;; at++) {
        const int length = value_length(at), status = add_values(key, at, length, err);
        if (status) return error_prefix(err, "--sweep");
        at += length;
        if (!*at) break;
    }
    sweep->key_count++;
    return STATUS_OK;
}

/* ---- the figures of a plan ---- */

const char *sweep_figure_name(char out[SWEEP_NAME_ROOM], int figure)
{
    static const char *const names[] = {
#define FIGURE(ID, name, value) name,
#include "engine/advise/sweep.def"
#undef FIGURE
    };
    static const char *const parts[] = {"peak", "resting", "budget"};
    if (figure < SWEEP_MEMORY) return names[figure];
    if (figure >= SWEEP_TRAFFIC) {
        snprintf(out, SWEEP_NAME_ROOM, "%s_bytes", traffic_name((enum traffic)(figure - SWEEP_TRAFFIC)));
        return out;
    }
    const int tier = (figure - SWEEP_MEMORY) / SWEEP_PARTS, part = (figure - SWEEP_MEMORY) % SWEEP_PARTS;
    snprintf(out, SWEEP_NAME_ROOM, "%s_%s_bytes", tier_name((enum tier)tier),
             part < CATEGORIES ? category_name((enum category)part) : parts[part - CATEGORIES]);
    return out;
}

static void note_memory(struct sweep_row *row, const struct footprint *footprint, const struct config *config)
{
    for (int tier = 0; tier < TIERS; tier++) {
        double *parts = &row->figure[sweep_memory(tier, 0)];
        for (int c = 0; c < CATEGORIES; c++) parts[c] = (double)footprint->category[tier][c].at_peak_bytes;
        parts[SWEEP_PEAK] = (double)footprint->peak_bytes[tier];
        parts[SWEEP_RESTING] = (double)footprint->resting_bytes[tier];
        parts[SWEEP_BUDGET] = config->budget_bytes[tier] ? (double)config->budget_bytes[tier] : NAN;
    }
}

static int note_plan(struct sweep_row *row, const struct setup *setup, const struct config *config,
                     const struct hardware *hardware, struct error *err)
{
    struct traffic_sum traffic[TRAFFIC_KINDS];
    struct flops flops;
    double step_s = NAN, busy_s[LANES] = {[LANE_COMPUTE] = NAN, [LANE_COMM] = NAN};
    struct rates rates = {.mfu = NAN, .tokens_per_s = NAN};
    const double paced = paced_seconds(setup, config);
    const struct cost_input cost = cost_of(setup, config, hardware);
    const int status = hardware ? simulate_once(&step_s, busy_s, &cost, err) : STATUS_OK;
    if (status) return status;
    if (hardware) rates = rates_of(&cost, step_s);
    traffic_of(traffic, &setup->schedule, &setup->model, 0, config->topology.ranks_per_node);
    const struct traffic_sum sent = traffic_between_ranks(traffic);
    flops_of(&flops, &setup->schedule, &setup->model);
    for (int kind = 0; kind < TRAFFIC_CONTROL; kind++)
        row->figure[SWEEP_TRAFFIC + kind] = (double)traffic[kind].sent_bytes;
#define FIGURE(ID, name, value) row->figure[SWEEP_##ID] = (double)(value);
#include "engine/advise/sweep.def"
#undef FIGURE
    note_memory(row, &setup->footprint, config);
    return STATUS_OK;
}

/* ---- the rows ---- */

int sweep_at(const struct sweep *sweep, int row, int key)
{
    for (int k = sweep->key_count - 1; k > key; k--) row /= sweep->key[k].count;
    return row % sweep->key[key].count;
}

int sweep_load(struct config *config, const struct sweep *sweep, int row, const struct sweep_loader *loader,
               struct error *err)
{
    char text[SWEEP_KEYS_MAX][CONFIG_PATH_MAX + SWEEP_VALUE_ROOM];
    const char *sets[SWEEP_SETS_MAX + SWEEP_KEYS_MAX];
    for (int s = 0; s < sweep->set_count; s++) sets[s] = sweep->sets[s];
    for (int k = 0; k < sweep->key_count; k++) {
        const struct sweep_key *key = &sweep->key[k];
        snprintf(text[k], sizeof text[k], "%s=%s", key->path, key->value[sweep_at(sweep, row, k)]);
        sets[sweep->set_count + k] = text[k];
    }
    return loader->load(loader->user, config, sets, sweep->set_count + sweep->key_count, err);
}

static int plan_row(struct sweep *sweep, int row, const struct sweep_loader *loader, struct error *err)
{
    struct config config;
    struct setup setup;
    int status = sweep_load(&config, sweep, row, loader, err);
    if (status) return status;
    if (!sweep->notes) sweep->notes = config.notes, config.notes = NULL;
    status = setup_init(&setup, &config, err);
    if (!status) {
        status = note_plan(&sweep->rows[row], &setup, &config, loader->hardware, err);
        setup_release(&setup);
    }
    config_release(&config);
    return status;
}

int sweep_plan(struct sweep *sweep, const struct sweep_loader *loader, struct error *err)
{
    struct error first = {0};
    int refused = 0, rows = 1;
    sweep_release(sweep);
    for (int k = 0; k < sweep->key_count; k++) rows *= sweep->key[k].count;
    if (rows > SWEEP_ROWS_MAX)
        return error_set(err, STATUS_USAGE, "--sweep: %d combinations, more than %d; give fewer values", rows,
                         SWEEP_ROWS_MAX);
    sweep->rows = calloc((size_t)rows, sizeof *sweep->rows);
    if (!sweep->rows) return error_set(err, STATUS_RUN, "no memory for a table of plans");
    sweep->row_count = rows;
    for (int row = 0; row < rows; row++) {
        struct error why = {0};
        const int status = plan_row(sweep, row, loader, &why);
        if (!status) continue;
        if (status != STATUS_USAGE) return *err = why, status;
        if (!refused++) first = why;
        for (int f = 0; f < SWEEP_FIGURES; f++) sweep->rows[row].figure[f] = NAN;
        if (!(sweep->rows[row].refusal = strdup(why.text)))
            return error_set(err, STATUS_RUN, "no memory for a table of plans");
    }
    return refused < rows ? STATUS_OK
                          : error_set(err, STATUS_USAGE, "every combination is refused: %.400s", first.text);
}

void sweep_release(struct sweep *sweep)
{
    for (int row = 0; row < sweep->row_count; row++) free(sweep->rows[row].refusal);
    free(sweep->rows);
    free(sweep->notes);
    sweep->rows = NULL, sweep->notes = NULL, sweep->row_count = 0;
}

static const char *value_of(const struct sweep *sweep, int row, int key)
{
    return sweep->key[key].value[sweep_at(sweep, row, key)];
}

/* ---- the table as text, with the main figures ---- */

static const struct {
    const char *head;
    int figure;
} columns[] = {
    {"device peak, bytes", SWEEP_MEMORY + TIER_DEVICE *SWEEP_PARTS + SWEEP_PEAK},
    {"host peak, bytes", SWEEP_MEMORY + TIER_HOST *SWEEP_PARTS + SWEEP_PEAK},
    {"NVMe peak, bytes", SWEEP_MEMORY + TIER_NVME *SWEEP_PARTS + SWEEP_PEAK},
    {"sent, bytes", SWEEP_SENT},
    {"across nodes", SWEEP_ACROSS},
    {"collectives", SWEEP_COLLECTIVES},
    {"tokens/s", SWEEP_TOKENS},
};
enum { COLUMNS = sizeof columns / sizeof *columns, CELL_ROOM = 64 };

/* How much of the budget the fullest tier takes; NAN: there is no budget. */
static double budget_share(const struct sweep_row *row)
{
    double most = NAN;
    for (int tier = 0; tier < TIERS; tier++)
        most = fmax(most, row->figure[sweep_memory(tier, SWEEP_PEAK)] / row->figure[sweep_memory(tier, SWEEP_BUDGET)]);
    return most;
}

/* Of the head (row -1) or a row; "": a figure that is 0 or not known. */
static const char *cell(char out[CELL_ROOM], const struct sweep *sweep, int row, int column)
{
    const int c = column - sweep->key_count;
    const char *path = c < 0 ? sweep->key[column].path : "", *dot = strrchr(path, '.');
    char digits[32];
    snprintf(out, CELL_ROOM, "%s",
             row >= 0       ? ""
             : c == COLUMNS ? "of budget"
             : c < 0        ? dot ? dot + 1 : path
                            : columns[c].head);
    if (row >= 0 && c < 0) snprintf(out, CELL_ROOM, "%s", value_of(sweep, row, column));
    if (row < 0 || c < 0 || sweep->rows[row].refusal) return out;
    const double share = budget_share(&sweep->rows[row]);
    if (c < COLUMNS && sweep->rows[row].figure[columns[c].figure] > 0)
        snprintf(out, CELL_ROOM, "%s", grouped(digits, (int64_t)sweep->rows[row].figure[columns[c].figure]));
    if (c == COLUMNS && !isnan(share)) snprintf(out, CELL_ROOM, "%.0f %%", 100 * share);
    return out;
}

/* Columns that are empty in all rows are left out. */
void sweep_print(FILE *out, const struct sweep *sweep)
{
    int width[SWEEP_KEYS_MAX + COLUMNS + 1] = {0};
    const int count = sweep->key_count + COLUMNS + 1;
    char text[CELL_ROOM];
    for (int row = sweep->row_count - 1; row >= -1; row--)
        for (int c = 0; c < count; c++) {
            const int length = (int)strlen(cell(text, sweep, row, c));
            if (length > width[c] && (row >= 0 || width[c])) width[c] = length;
        }
    for (int row = -1; row < sweep->row_count; row++) {
        const char *refusal = row < 0 ? NULL : sweep->rows[row].refusal;
        for (int c = 0; c < (refusal ? sweep->key_count : count); c++)
            if (width[c])
                fprintf(out, c < sweep->key_count ? "%s%-*s" : "%s%*s", c ? "  " : "", width[c],
                        cell(text, sweep, row, c));
        if (refusal) fprintf(out, "  refused: %s", refusal);
        fputc('\n', out);
    }
}

/* ---- as CSV, and as JSON, with all ---- */

static void put_csv(FILE *out, const char *text)
{
    const bool quoted = text[strcspn(text, ",\"\r\n")];
    if (quoted) fputc('"', out);
    for (; *text; text++) fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, out);
    if (quoted) fputc('"', out);
}

/* As cJSON prints it: the shortest of 15 and 17 digits that reads back the same. */
static void put_number(FILE *out, double value)
{
    char text[32];
    double back = NAN;
    snprintf(text, sizeof text, "%.15g", value);
    sscanf(text, "%lg", &back);
    if (!isnan(value)) fprintf(out, back == value ? "%.15g" : "%.17g", value);
}

void sweep_print_csv(FILE *out, const struct sweep *sweep)
{
    char name[SWEEP_NAME_ROOM];
    for (int k = 0; k < sweep->key_count; k++) put_csv(out, sweep->key[k].path), fputc(',', out);
    fputs("refused", out);
    for (int f = 0; f < SWEEP_FIGURES; f++) fprintf(out, ",%s", sweep_figure_name(name, f));
    fputs("\n", out);
    for (int row = 0; row < sweep->row_count; row++) {
        const struct sweep_row *at = &sweep->rows[row];
        for (int k = 0; k < sweep->key_count; k++) put_csv(out, value_of(sweep, row, k)), fputc(',', out);
        put_csv(out, at->refusal ? at->refusal : "");
        for (int f = 0; f < SWEEP_FIGURES; f++) fputc(',', out), put_number(out, at->figure[f]);
        fputs("\n", out);
    }
}

int sweep_print_json(FILE *out, const struct sweep *sweep, struct error *err)
{
    char name[SWEEP_NAME_ROOM];
    cJSON *json = cJSON_CreateObject(), *keys = cJSON_AddArrayToObject(json, "keys"),
          *rows = cJSON_AddArrayToObject(json, "rows");
    for (int k = 0; k < sweep->key_count; k++) cJSON_AddItemToArray(keys, cJSON_CreateString(sweep->key[k].path));
    for (int row = 0; row < sweep->row_count; row++) {
        const struct sweep_row *at = &sweep->rows[row];
        cJSON *object = json_item(rows), *set = cJSON_AddObjectToObject(object, "set");
        for (int k = 0; k < sweep->key_count; k++)
            cJSON_AddStringToObject(set, sweep->key[k].path, value_of(sweep, row, k));
        json_text(object, "refused", at->refusal);
        for (int f = 0; !at->refusal && f < SWEEP_FIGURES; f++)
            json_number(object, sweep_figure_name(name, f), true, at->figure[f]);
    }
    return json_print(out, json, err);
}
