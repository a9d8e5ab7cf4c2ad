/* Prints the answers of conventions.h, and the list of all, as text and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/advise/conventions.h"
#include "engine/base/grouped.h"
#include "engine/base/template.h"

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

/* ---- one against a setup ---- */

/* Two figures and their difference as text. A long label has a line of its own. */
static void add_figures(cJSON *object, const char *label, double theirs, double ours)
{
    enum { LABEL = 31 };
    char a[VALUE_ROOM], b[VALUE_ROOM], c[VALUE_ROOM];
    json_put(object, TEXT(".label", label), TRUTH(".long", strlen(label) > LABEL), TEXT(".theirs", value_text(a, theirs)),
             TEXT(".ours", value_text(b, ours)), TEXT(".difference", difference_text(c, theirs, ours)));
}

static void add_line(cJSON *object, const struct convention_line *line)
{
    const struct convention_row *row = line->row;
    const bool constant = strcmp(row->formula, line->numbers) == 0;
    const bool differs = !isnan(line->ours) && !is_same(line->theirs, line->ours) && *row->why;
    json_put(object, TEXT("label", row->label), TEXT("formula", row->formula), TEXT("numbers", line->numbers),
             NUMBER("accounting", line->theirs), NUMBER("engine", line->ours), TEXT_IF("why", row->why),
             TRUTH(".calculated", !constant), TRUTH(".differs", differs));
    add_figures(object, row->label, line->theirs, line->ours);
}

/* ".with_ours": the section has figures of ours. */
static void add_section(cJSON *object, const struct convention_answer *answer, int section)
{
    const struct convention_row *row = answer->section[section];
    bool with_ours = false;
    json_put(object, TEXT("title", row->label));
    cJSON *lines = cJSON_AddArrayToObject(object, "lines");
    for (int l = 0; l < answer->lines; l++) {
        const struct convention_line *line = &answer->line[l];
        if (line->section != section) continue;
        add_line(json_item(lines), line);
        with_ours |= *line->row->ours;
    }
    json_put(object, TEXT_IF("sum", row->formula), NUMBER("accounting", answer->theirs[section]),
             NUMBER("engine", answer->ours[section]), TRUTH(".with_ours", with_ours));
    cJSON *sum = *row->formula ? cJSON_AddObjectToObject(object, ".sum") : NULL;
    add_figures(sum, row->formula, answer->theirs[section], answer->ours[section]);
}

static void add_case(cJSON *object, const struct convention_answer *answer, int number)
{
    char text[VALUE_ROOM];
    json_put(object, TEXT("label", answer->of_case[number]->label), TEXT("quantities", answer->of_case[number]->formula),
             TRUTH("this", answer->is_this[number]));
    cJSON *sums = cJSON_AddArrayToObject(object, "sums");
    for (int s = 0; s < answer->sections; s++)
        if (*answer->section[s]->formula)
            json_put(json_item(sums), TEXT("sum", answer->section[s]->formula), NUMBER("accounting", answer->sum[number][s]),
                     TEXT(".text", value_text(text, answer->sum[number][s])));
}

/* What formulas name; as text also what was given and is part of other quantities only. */
static void add_quantity(cJSON *list, struct quantities *quantities, int q)
{
    const struct quantity_row *row = &quantity_table[q];
    const bool given = quantities->given[q], used = quantities->used[q] == USED;
    const bool follows = !given && *row->formula && isnan(quantities->value[q]);
    char number[VALUE_ROOM];
    bool ignored;
    if (!*row->meaning || (!used && !given)) return;
    const double value = quantities_value(quantities, row->name, &ignored);
    cJSON *object = json_put(json_item(list), TEXT("name", row->name), NUMBER("value", value), TRUTH("given", given),
                             TEXT("meaning", row->meaning), TEXT(".value", value_text(number, value)),
                             TEXT(".follows", follows ? row->formula : ""));
    if (!used) json_put(object, TRUTH(".", true));
}

#define FIGURES                                                                                                        \
    "{?.long}  {.label}\n                                 {/}{!.long}  {.label:-31}{/}{.theirs:16}"                    \
    "{?.with_ours}{.ours:16}{.difference:15}{/}\n"
static const char page[] =
    "{~:2}{accounting}: {who}{/}{setup}\n"
    "{#sections}\n{title}\n{?.with_ours}{.name:49}     this engine     difference\n{/}"
    "{#lines}" FIGURES "{?.calculated}    {~:6}{formula} = {numbers}{/}{/}{?.differs}    differs: {~:6}{why}{/}{/}{/}{#.sum}" FIGURES "{/}{/}"
    "{?cases}\nCase by case (*: this one)                    {#sections}{?sum} {sum:16}{/}{/}"
    "{#cases}\n{?this}*{/}{!this} {/} {label:-44}{#sums} {.text:16}{/}{/}\n{/}"
    "\nQuantities (=: given with --with)\n"
    "{#quantities}{?given}={/}{!given} {/} {name:-13} {.value:17}  {~:37}{meaning}{?.follows}: {.follows}{/}{/}{/}\n{~:2}{why}{/}";

int convention_print(FILE *out, bool as_json, const struct convention_row *convention, const struct config *config,
                     const struct text_list *with, struct error *err)
{
    struct convention_answer *answer = convention_open(convention, config, with, err);
    if (!answer) return err->status;
    cJSON *facts = json_object(TEXT("accounting", convention->label), TEXT("who", convention->formula),
                               TEXT("why", convention->why), TEXT("group", convention->when), TEXT("setup", answer->setup),
                               TEXT(".name", convention->label));
    cJSON *sections = cJSON_AddArrayToObject(facts, "sections"), *cases = cJSON_AddArrayToObject(facts, "cases"),
          *quantities = cJSON_AddArrayToObject(facts, "quantities");
    for (int s = 0; s < answer->sections; s++) add_section(json_item(sections), answer, s);
    for (int c = 0; c < answer->cases; c++) add_case(json_item(cases), answer, c);
    for (int q = 0; q < QUANTITY_COUNT; q++) add_quantity(quantities, &answer->quantities, q);
    free(answer);
    return template_answer(out, as_json, page, facts, err);
}

/* ---- the list of all ---- */

static const char list_page[] =
    "zerolab plan CONFIG --accounting NAME holds one of these against what this engine plans\n\n"
    "Bytes of a parameter on each of N ranks, array by array\n\n"
    "                      stage 0    stage 1    stage 2    stage 3\n"
    "{#accountings}{?.stages}{name:-18}{#.stages} {sum:10|-}{/}\n    {who}\n{/}"
    "{!.stages}{?.first}\n{group}\n\n{/}{name}\n    {~}{who}{/}{/}{/}"
    "\nQuantities for --with, e.g. --with tp=8,pp=4; a CONFIG or --model gives the rest\n\n"
    "{#.quantities}{name:-15}{~:17}{meaning}{/}{/}";

static void add_accounting(cJSON *object, const struct accounting *accounting)
{
    char text[32];
    json_put(object, TEXT("name", accounting->name), TEXT("group", "bytes of a parameter"), TEXT("who", accounting->who));
    cJSON *stages = cJSON_AddArrayToObject(object, ".stages");
    for (int stage = 0; stage < 4; stage++) {
        const bool speaks = accounting_speaks_of(accounting, stage);
        json_put(json_item(stages),
                 TEXT("sum", speaks ? accounting_sum_text(text, accounting_sum_of(accounting, stage), "") : ""));
    }
}

int accountings_print(FILE *out, bool as_json, struct error *err)
{
    cJSON *facts = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(facts, "accountings"),
          *quantities = cJSON_AddArrayToObject(facts, ".quantities");
    const char *group = "";
    for (int a = 0; a < ACCOUNTINGS; a++) add_accounting(json_item(list), &accounting_table[a]);
    for (const struct convention_row *row = convention_rows; row < convention_rows + convention_row_count; row++) {
        if (row->kind != CONVENTION) continue;
        json_put(json_item(list), TEXT("name", row->label), TEXT("group", row->when), TEXT("who", row->formula),
                 TRUTH(".first", strcmp(group, row->when) != 0));
        group = row->when;
    }
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (*quantity_table[q].meaning)
            json_put(json_item(quantities), TEXT("name", quantity_table[q].name), TEXT("meaning", quantity_table[q].meaning));
    return template_answer(out, as_json, list_page, facts, err);
}
