/* The table of a sweep: as text with the main figures, as CSV and as JSON with all. */
#include <math.h>
#include <string.h>

#include "engine/advise/sweep.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"

static const char *value_of(const struct sweep *sweep, int row, int key)
{
    return sweep->key[key].value[sweep_at(sweep, row, key)];
}

/* ---- text ---- */

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

/* ---- CSV ---- */

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

/* ---- JSON ---- */

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
