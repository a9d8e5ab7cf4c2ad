#include "engine/advise/conventions.h"

#include <math.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/base/grouped.h"
#include "engine/base/nearest.h"
#include "engine/base/template.h"
#include "engine/base/words.h"

const struct convention_row convention_rows[] = {
#define CONVENTION(group, name, who, why)     {CONVENTION, name, group, who, "", why},
#define SECTION(label, sum)                   {CONVENTION_SECTION, label, "", sum, "", ""},
#define LINE(label, when, formula, ours, why) {CONVENTION_LINE, label, when, formula, ours, why},
#define CASE(label, with)                     {CONVENTION_CASE, label, "", with, "", ""},
#include "engine/advise/conventions.def"
#undef CONVENTION
#undef SECTION
#undef LINE
#undef CASE
};
const int convention_row_count = sizeof convention_rows / sizeof *convention_rows;

int convention_find(const struct convention_row **out, const char *name, struct error *err)
{
    const char *names[ACCOUNTINGS + sizeof convention_rows / sizeof *convention_rows];
    int count = 0;
    for (int a = 0; a < ACCOUNTINGS; a++) names[count++] = accounting_table[a].name;
    for (const struct convention_row *row = convention_rows; row < convention_rows + convention_row_count; row++) {
        if (row->kind != CONVENTION) continue;
        if (strcmp(row->label, name) == 0) return *out = row, STATUS_OK;
        names[count++] = row->label;
    }
    const char *nearest = nearest_name(name, names, count);
    if (nearest) return error_set(err, STATUS_USAGE, "no accounting %.40s; did you mean %s?", name, nearest);
    return error_set(err, STATUS_USAGE, "no accounting %.40s; zerolab plan --accounting list shows them", name);
}

/* The row behind `row` of the same convention; NULL: none. */
static const struct convention_row *next_row(const struct convention_row *row)
{
    row++;
    return row < convention_rows + convention_row_count && row->kind != CONVENTION ? row : NULL;
}

/* ---- figures ---- */

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

/* Two figures and their difference as text. A long label has a line of its own. */
static void add_figures(cJSON *object, const char *label, double theirs, double ours)
{
    enum { LABEL = 31 };
    char a[VALUE_ROOM], b[VALUE_ROOM], c[VALUE_ROOM];
    json_put(object, TEXT(".label", label), TRUTH(".long", strlen(label) > LABEL),
             TEXT(".theirs", value_text(a, theirs)), TEXT(".ours", value_text(b, ours)),
             TEXT(".difference", difference_text(c, theirs, ours)));
}

/* ---- lines and sums ---- */

static bool applies(struct quantities *quantities, const struct convention_row *row)
{
    return !*row->when || quantities_value(quantities, row->when, NULL) != 0;
}

/* Of a section's lines; ours: of those for which we have a figure. */
struct sums {
    double theirs, ours;
    bool any_ours, with_ours; /* one of them has a figure of ours; or would have */
};

/* Ours is left out where a quantity was given: the formula is not about this setup then. */
static void add_line(cJSON *lines, struct sums *sums, struct quantities *quantities, const struct convention_row *row)
{
    bool given;
    char numbers[160];
    double ours = NAN;
    const double theirs = quantities_value(quantities, row->formula, &given); /* marks its quantities in any case */
    if (!applies(quantities, row)) return;
    if (*row->ours && !given) ours = quantities_value(quantities, row->ours, NULL);
    quantities_numbers(quantities, numbers, sizeof numbers, row->formula);
    const bool calculated = strcmp(row->formula, numbers) != 0;
    const bool differs = !isnan(ours) && !is_same(theirs, ours) && *row->why;
    cJSON *object = json_put(json_item(lines), TEXT("label", row->label), TEXT("formula", row->formula),
                             TEXT("numbers", numbers), NUMBER("accounting", theirs), NUMBER("engine", ours),
                             TEXT_IF("why", row->why), TRUTH(".calculated", calculated), TRUTH(".differs", differs));
    add_figures(object, row->label, theirs, ours);
    sums->theirs += theirs;
    sums->with_ours |= *row->ours;
    if (!isnan(ours)) sums->ours += ours, sums->any_ours = true;
}

static void add_section(cJSON *object, struct quantities *quantities, const struct convention_row *section)
{
    struct sums sums = {0};
    const bool has_sum = *section->formula;
    json_put(object, TEXT("title", section->label));
    cJSON *lines = cJSON_AddArrayToObject(object, "lines");
    for (const struct convention_row *row = section; (row = next_row(row)) && row->kind == CONVENTION_LINE;)
        add_line(lines, &sums, quantities, row);
    const double ours = sums.any_ours ? sums.ours : NAN;
    json_put(object, TEXT_IF("sum", section->formula), NUMBER_IF("accounting", has_sum, sums.theirs),
             NUMBER_IF("engine", has_sum, ours), TRUTH(".with_ours", sums.with_ours));
    if (has_sum) add_figures(cJSON_AddObjectToObject(object, ".sum"), section->formula, sums.theirs, ours);
}

static void add_case(cJSON *list, struct quantities *quantities, const struct convention_row *convention,
                     const struct convention_row *row)
{
    struct quantities there = *quantities;
    struct error ignored;
    char text[VALUE_ROOM];
    if (quantities_give(&there, row->formula, &ignored)) return;
    const bool is_this = memcmp(there.value, quantities->value, sizeof there.value) == 0;
    cJSON *sums = cJSON_AddArrayToObject(
        json_put(json_item(list), TEXT("label", row->label), TEXT("quantities", row->formula), TRUTH("this", is_this)),
        "sums");
    for (const struct convention_row *section = convention; (section = next_row(section));) {
        double sum = 0;
        if (section->kind != CONVENTION_SECTION) continue;
        for (const struct convention_row *line = section; (line = next_row(line)) && line->kind == CONVENTION_LINE;)
            if (applies(&there, line)) sum += quantities_value(&there, line->formula, NULL);
        if (*section->formula)
            json_put(json_item(sums), TEXT("sum", section->formula), NUMBER("accounting", sum),
                     TEXT(".text", value_text(text, sum)));
    }
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (there.used[q] == USED) quantities->used[q] = USED;
}

/* ---- one against a setup ---- */

/* What formulas name; as text also what was given and is part of other quantities only. */
static void add_quantity(cJSON *list, struct quantities *quantities, int q)
{
    const struct quantity_row *row = &quantity_table[q];
    const bool given = quantities->given[q], used = quantities->used[q] == USED;
    const bool follows = !given && *row->formula && isnan(quantities->value[q]);
    char number[VALUE_ROOM];
    if (!*row->meaning || (!used && !given)) return;
    const double value = quantities_value(quantities, row->name, NULL);
    cJSON *object = json_put(json_item(list), TEXT("name", row->name), NUMBER("value", value), TRUTH("given", given),
                             TEXT("meaning", row->meaning), TEXT(".value", value_text(number, value)),
                             TEXT(".follows", follows ? row->formula : ""));
    if (!used) json_put(object, TRUTH(".", true));
}

/* A quantity that was given and has no effect is refused, with those that have one. */
static int check_use(const struct quantities *quantities, const char *convention, const char *given, struct error *err)
{
    char names[256] = "";
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (quantities->used[q] && *quantity_table[q].meaning)
            text_append(names, sizeof names, "%s%s", *names ? ", " : "", quantity_table[q].name);
    return error_set(err, STATUS_USAGE, "--with %s: %s has no %s; it has %s", given, convention, given, names);
}

cJSON *convention_facts(const struct convention_row *convention, const struct config *config,
                        const struct text_list *with, struct error *err)
{
    struct setup setup;
    struct quantities quantities;
    char text[120];
    if (setup_init(&setup, config, err)) return NULL;
    snprintf(text, sizeof text, "%s, %s, %d ranks, stage %d", config->model.name, dtype_name(config->dtype),
             setup.schedule.ranks, setup.schedule.stage);
    quantities_of(&quantities, &setup, config);
    setup_release(&setup);
    for (int w = 0; w < with->count; w++)
        if (quantities_give(&quantities, with->at[w], err)) return NULL;
    cJSON *facts = json_object(TEXT("accounting", convention->label), TEXT("who", convention->formula),
                               TEXT("why", convention->why), TEXT("group", convention->when), TEXT("setup", text),
                               TEXT(".name", convention->label));
    cJSON *sections = cJSON_AddArrayToObject(facts, "sections"), *cases = cJSON_AddArrayToObject(facts, "cases"),
          *list = cJSON_AddArrayToObject(facts, "quantities");
    if (!facts) return error_set(err, STATUS_RUN, "no memory for a table"), NULL;
    for (const struct convention_row *row = convention; (row = next_row(row));) {
        if (row->kind == CONVENTION_SECTION) add_section(json_item(sections), &quantities, row);
        if (row->kind == CONVENTION_CASE) add_case(cases, &quantities, convention, row);
    }
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (quantities.given[q] && !quantities.used[q])
            return cJSON_Delete(facts), check_use(&quantities, convention->label, quantity_table[q].name, err), NULL;
    for (int q = 0; q < QUANTITY_COUNT; q++) add_quantity(list, &quantities, q);
    return facts;
}

#define FIGURES                                                                                                        \
    "{?.long}  {.label}\n                                 {/}{!.long}  {.label:-31}{/}{.theirs:16}"                    \
    "{?.with_ours}{.ours:16}{.difference:15}{/}\n"
static const char page[] =
    "{~:2}{accounting}: {who}{/}{setup}\n"
    "{#sections}\n{title}\n{?.with_ours}{.name:49}     this engine     difference\n{/}"
    "{#lines}" FIGURES
    "{?.calculated}    {~:6}{formula} = {numbers}{/}{/}{?.differs}    differs: {~:6}{why}{/}{/}{/}{#.sum}" FIGURES
    "{/}{/}"
    "{?cases}\nCase by case (*: this one)                    {#sections}{?sum} {sum:16}{/}{/}"
    "{#cases}\n{?this}*{/}{!this} {/} {label:-44}{#sums} {.text:16}{/}{/}\n{/}"
    "\nQuantities (=: given with --with)\n"
    "{#quantities}{?given}={/}{!given} {/} {name:-13} {.value:17}  {~:37}{meaning}{?.follows}: "
    "{.follows}{/}{/}{/}\n{~:2}{why}{/}";

int convention_print(FILE *out, bool as_json, const struct convention_row *convention, const struct config *config,
                     const struct text_list *with, struct error *err)
{
    cJSON *facts = convention_facts(convention, config, with, err);
    return facts ? template_answer(out, as_json, page, facts, err) : err->status;
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
    json_put(object, TEXT("name", accounting->name), TEXT("group", "bytes of a parameter"),
             TEXT("who", accounting->who));
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
            json_put(json_item(quantities), TEXT("name", quantity_table[q].name),
                     TEXT("meaning", quantity_table[q].meaning));
    return template_answer(out, as_json, list_page, facts, err);
}
