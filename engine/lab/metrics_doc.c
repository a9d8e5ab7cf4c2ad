/* What expressions of labs can ask for, as Markdown: the tables of docs/LABS.md. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/lab/expression_parts.h"
#include "engine/plan/schedule.h"

static const char *const words[] = {"rank",     "tier",  "category", "step", "operation", "traffic",
                                    "prefetch", "phase", "lane",     "host", "\"name\""};

static const char *where_of(const struct metric_row *row)
{
    return !(row->where & METRIC_PLAN) ? "run" : row->where & METRIC_RUN ? "run, plan" : "plan";
}

static void print_metrics(FILE *out)
{
    fputs("| metric | unit | of | in parentheses | what |\n|---|---|---|---|---|\n", out);
    for (int m = 0; m < METRICS; m++) {
        const struct metric_row *row = &metric_table[m];
        bool plain = dimension_equal(row->dimension, (struct dimension){0, 0});
        fprintf(out, "| `%s` | %s | %s |", row->name, plain ? "" : dimension_name(row->dimension), where_of(row));
        const char *comma = " ";
        for (int t = TAKES_RANK; t <= TAKES_TEXT; t++)
            if (row->takes & 1u << t) fprintf(out, "%s%s", comma, words[t]), comma = ", ";
        fprintf(out, " | %s |\n", row->help);
    }
}

static const char *category_of(int number)
{
    return category_name((enum category)number);
}

static const char *tier_of(int number)
{
    return tier_name((enum tier)number);
}

static const char *traffic_of_number(int number)
{
    return traffic_name((enum traffic)number);
}

static const char *phase_of(int number)
{
    return phase_name((enum phase)number);
}

static const char *lane_of(int number)
{
    return lane_name((enum lane)number);
}

static const char *operation_of(int number)
{
    return op_name((enum op_kind)number);
}

/* The words that stand in parentheses. */
static void print_words(FILE *out)
{
    static const struct {
        enum takes takes;
        int count;
        const char *(*name_of)(int);
    } lists[] = {
        {TAKES_TIER, TIERS, tier_of},
        {TAKES_CATEGORY, CATEGORIES, category_of},
        {TAKES_KIND, TRAFFIC_KINDS, traffic_of_number},
        {TAKES_OP, OP_KINDS, operation_of},
        {TAKES_PHASE, PHASES, phase_of},
        {TAKES_LANE, LANES, lane_of},
    };
    fputs("\n| in parentheses | one of |\n|---|---|\n| rank | `rank 0`, `rank 1` ...; `rank any`: the one with most |\n"
          "| step | `step 3`; `step 0` is the last whole one, `step -1` the one before it |\n",
          out);
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        fprintf(out, "| %s |", words[lists[l].takes]);
        for (int n = 0; n < lists[l].count; n++) fprintf(out, " `%s`", lists[l].name_of(n));
        fputs(" |\n", out);
    }
}

char *lab_metrics_markdown(void)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    print_metrics(out);
    print_words(out);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
