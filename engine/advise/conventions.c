#include "engine/advise/conventions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/advise/accounting.h"
#include "engine/base/nearest.h"
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

/* ---- lines and sums ---- */

static bool applies(struct quantities *quantities, const struct convention_row *row)
{
    bool given;
    return !*row->when || quantities_value(quantities, row->when, &given) != 0;
}

static void add_line(struct convention_answer *answer, const struct convention_row *row, int section)
{
    struct quantities *quantities = &answer->quantities;
    struct convention_line *line = &answer->line[answer->lines];
    bool given, ignored;
    const double theirs = quantities_value(quantities, row->formula, &given); /* marks its quantities in any case */
    if (answer->lines == CONVENTION_LINES || !applies(quantities, row)) return;
    *line = (struct convention_line){row, section, theirs, NAN, ""};
    if (*row->ours && !given) line->ours = quantities_value(quantities, row->ours, &ignored);
    quantities_numbers(quantities, line->numbers, sizeof line->numbers, row->formula);
    answer->lines++;
}

/* The sum of a section's lines; our sum is of the lines for which we have a figure. */
static void add_up(struct convention_answer *answer, int section)
{
    double *theirs = &answer->theirs[section], *ours = &answer->ours[section];
    *theirs = *ours = *answer->section[section]->formula ? 0 : NAN;
    bool any = false;
    for (int l = 0; l < answer->lines; l++) {
        const struct convention_line *line = &answer->line[l];
        if (line->section != section) continue;
        *theirs += line->theirs;
        if (!isnan(line->ours)) *ours += line->ours, any = true;
    }
    if (!any) *ours = NAN;
}

static void add_lines(struct convention_answer *answer)
{
    for (const struct convention_row *row = answer->convention; (row = next_row(row));) {
        if (row->kind == CONVENTION_SECTION) answer->section[answer->sections++] = row;
        if (row->kind == CONVENTION_LINE) add_line(answer, row, answer->sections - 1);
    }
    for (int section = 0; section < answer->sections; section++) add_up(answer, section);
}

/* ---- cases ---- */

static void add_case(struct convention_answer *answer, const struct convention_row *row)
{
    struct quantities there = answer->quantities;
    const int at = answer->cases;
    struct error ignored;
    bool given;
    int section = -1;
    if (at == CONVENTION_CASES || quantities_give(&there, row->formula, &ignored)) return;
    for (const struct convention_row *line = answer->convention; (line = next_row(line));) {
        if (line->kind == CONVENTION_SECTION) answer->sum[at][++section] = *line->formula ? 0 : NAN;
        if (line->kind == CONVENTION_LINE && applies(&there, line))
            answer->sum[at][section] += quantities_value(&there, line->formula, &given);
    }
    answer->is_this[at] = memcmp(there.value, answer->quantities.value, sizeof there.value) == 0;
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (there.used[q] == USED) answer->quantities.used[q] = USED;
    answer->of_case[answer->cases++] = row;
}

/* ---- the whole ---- */

/* A quantity that was given and has no effect is refused, with those that have one. */
static int check_use(const struct convention_answer *answer, const char *given, struct error *err)
{
    char names[256] = "";
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (answer->quantities.used[q] && *quantity_table[q].meaning)
            text_append(names, sizeof names, "%s%s", *names ? ", " : "", quantity_table[q].name);
    return error_set(err, STATUS_USAGE, "--with %s: %s has no %s; it has %s", given, answer->convention->label, given,
                     names);
}

static int fill(struct convention_answer *answer, const struct text_list *with, struct error *err)
{
    int status = STATUS_OK;
    for (int w = 0; w < with->count && !status; w++) status = quantities_give(&answer->quantities, with->at[w], err);
    if (status) return status;
    add_lines(answer);
    for (const struct convention_row *row = answer->convention; (row = next_row(row));)
        if (row->kind == CONVENTION_CASE) add_case(answer, row);
    for (int q = 0; q < QUANTITY_COUNT; q++)
        if (answer->quantities.given[q] && !answer->quantities.used[q])
            return check_use(answer, quantity_table[q].name, err);
    return STATUS_OK;
}

struct convention_answer *convention_open(const struct convention_row *convention, const struct config *config,
                                          const struct text_list *with, struct error *err)
{
    struct setup setup;
    if (setup_init(&setup, config, err)) return NULL;
    struct convention_answer *answer = calloc(1, sizeof *answer);
    if (!answer) return setup_release(&setup), error_set(err, STATUS_RUN, "no memory for a table"), NULL;
    answer->convention = convention;
    snprintf(answer->setup, sizeof answer->setup, "%s, %s, %d ranks, stage %d", config->model.name,
             dtype_name(config->dtype), setup.schedule.ranks, setup.schedule.stage);
    quantities_of(&answer->quantities, &setup, config);
    setup_release(&setup);
    if (fill(answer, with, err)) return free(answer), NULL;
    return answer;
}
