/* Prints the answers of conventions.h: as text, as JSON, and the list of all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/conventions.h"
#include "engine/base/grouped.h"
#include "engine/base/json.h"
#include "engine/base/words.h"

enum { VALUE_ROOM = 40 };

/* Whole from 1,000 on, rounded down as DeepSpeed does; wide ones with an exponent. */
static const char *value_text(char text[VALUE_ROOM], double value)
{
    char whole[32];
    if (isnan(value) || isinf(value)) snprintf(text, VALUE_ROOM, "-");
    else if (fabs(value) >= 1e12 || fabs(value) < 1000) snprintf(text, VALUE_ROOM, "%.8g", value);
    else snprintf(text, VALUE_ROOM, "%s", grouped(whole, (int64_t)value));
    return text;
}

/* Equal but for what summing in another order leaves. */
static bool is_same(double theirs, double ours)
{
    return fabs(theirs - ours) <= 1e-9 * fabs(theirs);
}

static const char *difference_text(char text[VALUE_ROOM], double theirs, double ours)
{
    char value[VALUE_ROOM];
    if (isnan(ours) || isnan(theirs)) snprintf(text, VALUE_ROOM, "-");
    else if (is_same(theirs, ours)) snprintf(text, VALUE_ROOM, "same");
    else snprintf(text, VALUE_ROOM, "%s%s", theirs > ours ? "+" : "", value_text(value, theirs - ours));
    return text;
}

/* A long label has a line of its own. `with_ours`: this section has figures of ours. */
static void print_figures(FILE *out, const char *label, double theirs, double ours, bool with_ours)
{
    enum { LABEL = 31 };
    char a[VALUE_ROOM], b[VALUE_ROOM], c[VALUE_ROOM];
    const bool fits = strlen(label) <= LABEL;
    if (!fits) fprintf(out, "  %s\n", label);
    fprintf(out, "  %-*s%16s", LABEL, fits ? label : "", value_text(a, theirs));
    if (with_ours) fprintf(out, "%16s%15s", value_text(b, ours), difference_text(c, theirs, ours));
    fputc('\n', out);
}

static void print_text(FILE *out, int column, int hang, const char *text)
{
    fprintf(out, "%*s", column, "");
    words_print(out, column, hang, text);
}

static void print_line(FILE *out, const struct convention_line *line, bool with_ours)
{
    char text[400];
    const bool constant = strcmp(line->row->formula, line->numbers) == 0;
    print_figures(out, line->row->label, line->theirs, line->ours, with_ours);
    snprintf(text, sizeof text, "%s = %s", line->row->formula, line->numbers);
    if (!constant) print_text(out, 4, 6, text);
    if (isnan(line->ours) || is_same(line->theirs, line->ours) || !*line->row->why) return;
    snprintf(text, sizeof text, "differs: %s", line->row->why);
    print_text(out, 4, 6, text);
}

static bool has_ours(const struct convention_answer *answer, int section)
{
    for (int l = 0; l < answer->lines; l++)
        if (answer->line[l].section == section && *answer->line[l].row->ours) return true;
    return false;
}

static void print_section(FILE *out, const struct convention_answer *answer, int section)
{
    const struct convention_row *row = answer->section[section];
    const bool with_ours = has_ours(answer, section);
    fprintf(out, "\n%s\n", row->label);
    if (with_ours) fprintf(out, "%49s%16s%15s\n", answer->convention->label, "this engine", "difference");
    for (int l = 0; l < answer->lines; l++)
        if (answer->line[l].section == section) print_line(out, &answer->line[l], with_ours);
    if (*row->formula) print_figures(out, row->formula, answer->theirs[section], answer->ours[section], with_ours);
}

static void print_cases(FILE *out, const struct convention_answer *answer)
{
    char text[VALUE_ROOM];
    if (!answer->cases) return;
    fprintf(out, "\n%-46s", "Case by case (*: this one)");
    for (int s = 0; s < answer->sections; s++)
        if (*answer->section[s]->formula) fprintf(out, " %16s", answer->section[s]->formula);
    for (int c = 0; c < answer->cases; c++) {
        fprintf(out, "\n%c %-44s", answer->is_this[c] ? '*' : ' ', answer->of_case[c]->label);
        for (int s = 0; s < answer->sections; s++)
            if (*answer->section[s]->formula) fprintf(out, " %16s", value_text(text, answer->sum[c][s]));
    }
    fputc('\n', out);
}

/* What the formulas name, with the values; those that were given are marked. */
static void print_quantities(FILE *out, struct convention_answer *answer)
{
    struct quantities *quantities = &answer->quantities;
    fputs("\nQuantities (=: given with --with)\n", out);
    for (int q = 0; q < QUANTITY_COUNT; q++) {
        const struct quantity_row *row = &quantity_table[q];
        const bool given = quantities->given[q], follows = !given && *row->formula && isnan(quantities->value[q]);
        char text[200], value[VALUE_ROOM];
        bool ignored;
        if (!*row->meaning || (quantities->used[q] != USED && !given)) continue;
        fprintf(out, "%c %-13s %17s  ", given ? '=' : ' ', row->name,
                value_text(value, quantities_value(quantities, row->name, &ignored)));
        snprintf(text, sizeof text, "%s%s%s", row->meaning, follows ? ": " : "", follows ? row->formula : "");
        words_print(out, 35, 37, text);
    }
}

int convention_print(FILE *out, const struct convention_row *convention, const struct config *config,
                     const struct text_list *with, struct error *err)
{
    struct convention_answer *answer = convention_open(convention, config, with, err);
    char text[600];
    if (!answer) return err->status;
    snprintf(text, sizeof text, "%s: %s", convention->label, convention->formula);
    words_print(out, 0, 2, text);
    fprintf(out, "%s\n", answer->setup);
    for (int section = 0; section < answer->sections; section++) print_section(out, answer, section);
    print_cases(out, answer);
    print_quantities(out, answer);
    fputc('\n', out);
    words_print(out, 0, 2, convention->why);
    free(answer);
    return STATUS_OK;
}

/* ---- as JSON ---- */

static void add_lines(cJSON *root, struct convention_answer *answer)
{
    cJSON *sections = cJSON_AddArrayToObject(root, "sections");
    for (int s = 0; s < answer->sections; s++) {
        cJSON *section = json_put(json_item(sections), TEXT("title", answer->section[s]->label));
        cJSON *lines = cJSON_AddArrayToObject(section, "lines");
        for (int l = 0; l < answer->lines; l++) {
            const struct convention_line *line = &answer->line[l];
            if (line->section != s) continue;
            json_put(json_item(lines), TEXT("label", line->row->label), TEXT("formula", line->row->formula),
                     TEXT("numbers", line->numbers), NUMBER("accounting", line->theirs), NUMBER("engine", line->ours),
                     TEXT_IF("why", line->row->why));
        }
        json_put(section, TEXT_IF("sum", answer->section[s]->formula), NUMBER("accounting", answer->theirs[s]),
                 NUMBER("engine", answer->ours[s]));
    }
}

static void add_cases(cJSON *root, const struct convention_answer *answer)
{
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    for (int c = 0; c < answer->cases; c++) {
        cJSON *object = json_put(json_item(cases), TEXT("label", answer->of_case[c]->label),
                                 TEXT("quantities", answer->of_case[c]->formula), TRUTH("this", answer->is_this[c]));
        cJSON *sums = cJSON_AddArrayToObject(object, "sums");
        for (int s = 0; s < answer->sections; s++)
            if (*answer->section[s]->formula)
                json_put(json_item(sums), TEXT("sum", answer->section[s]->formula),
                         NUMBER("accounting", answer->sum[c][s]));
    }
}

static void add_quantities(cJSON *root, struct convention_answer *answer)
{
    cJSON *quantities = cJSON_AddArrayToObject(root, "quantities");
    for (int q = 0; q < QUANTITY_COUNT; q++) {
        bool ignored;
        if (answer->quantities.used[q] != USED || !*quantity_table[q].meaning) continue;
        json_put(json_item(quantities), TEXT("name", quantity_table[q].name),
                 NUMBER("value", quantities_value(&answer->quantities, quantity_table[q].name, &ignored)),
                 TRUTH("given", answer->quantities.given[q]), TEXT("meaning", quantity_table[q].meaning));
    }
}

int convention_print_json(FILE *out, const struct convention_row *convention, const struct config *config,
                          const struct text_list *with, struct error *err)
{
    struct convention_answer *answer = convention_open(convention, config, with, err);
    if (!answer) return err->status;
    cJSON *root =
        json_object(TEXT("accounting", convention->label), TEXT("who", convention->formula),
                    TEXT("why", convention->why), TEXT("group", convention->when), TEXT("setup", answer->setup));
    add_lines(root, answer);
    add_cases(root, answer);
    add_quantities(root, answer);
    free(answer);
    return json_print(out, root, err);
}

/* ---- the list of all ---- */

void conventions_print_list(FILE *out)
{
    const char *group = "";
    for (const struct convention_row *row = convention_rows; row < convention_rows + convention_row_count; row++) {
        if (row->kind != CONVENTION) continue;
        if (strcmp(group, row->when) != 0) fprintf(out, "\n%s\n\n", group = row->when);
        fprintf(out, "%s\n    ", row->label);
        words_print(out, 4, 4, row->formula);
    }
    fputs("\nQuantities for --with, e.g. --with tp=8,pp=4; a CONFIG or --model gives the rest\n\n", out);
    for (int q = 0; q < QUANTITY_COUNT; q++) {
        if (!*quantity_table[q].meaning) continue;
        fprintf(out, "%-15s", quantity_table[q].name);
        words_print(out, 15, 17, quantity_table[q].meaning);
    }
}

int conventions_print_list_json(FILE *out, struct error *err)
{
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "accountings");
    for (int a = 0; a < ACCOUNTINGS; a++)
        json_put(json_item(list), TEXT("name", accounting_table[a].name), TEXT("group", "bytes of a parameter"),
                 TEXT("who", accounting_table[a].who));
    for (const struct convention_row *row = convention_rows; row < convention_rows + convention_row_count; row++)
        if (row->kind == CONVENTION)
            json_put(json_item(list), TEXT("name", row->label), TEXT("group", row->when), TEXT("who", row->formula));
    return json_print(out, root, err);
}
