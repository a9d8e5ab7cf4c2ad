/* What --help prints, and docs/REFERENCE.md shows, from the same tables as the parser. */
#include <string.h>

#include "engine/cli/cli_tables.h"

static bool is_listed(enum verb verb)
{
    return cli_verbs[verb].name[0] != '-';
}

static void print_option(FILE *out, const struct option_info *option)
{
    char name[48];
    snprintf(name, sizeof name, "%c%c%c --%s%s%s", option->letter ? '-' : ' ', option->letter ? option->letter : ' ',
             option->letter ? ',' : ' ', option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    fprintf(out, "  %-26s %s\n", name, option->help);
}

static void print_options(FILE *out, enum verb verb)
{
    for (int o = 0; o < cli_option_count; o++)
        if (cli_options[o].verbs & (1u << verb)) print_option(out, &cli_options[o]);
}

static int print_usage(char *usage, size_t room, const struct verb_info *verb)
{
    return snprintf(usage, room, "zerolab%s%s %s", *verb->name ? " " : "", verb->name, verb->operands);
}

static void print_verbs(FILE *out)
{
    char usage[64];
    int width = 0;
    for (int v = 0; v < VERBS; v++)
        if (is_listed(v) && print_usage(usage, sizeof usage, &cli_verbs[v]) > width) width = (int)strlen(usage);
    for (int v = 0; v < VERBS; v++) {
        if (!is_listed(v)) continue;
        print_usage(usage, sizeof usage, &cli_verbs[v]);
        fprintf(out, "  %-*s  %s\n", width, usage, cli_verbs[v].help);
    }
}

const char cli_exit_codes[] =
    "Exit status: 0 good, 1 a check failed, 2 usage or configuration, 3 unreadable input, 4 a run failed.\n";

static void print_verb(FILE *out, enum verb verb)
{
    const struct verb_info *info = &cli_verbs[verb];
    fprintf(out, "zerolab %s [OPTIONS] %s\n\n%c%s. %s\n\nOptions:\n", info->name, info->operands,
            info->help[0] - 'a' + 'A', info->help + 1, info->note);
    print_options(out, verb);
}

static void print_family(FILE *out, const char *family)
{
    const char *between = "";
    for (int v = 0; v < VERBS; v++)
        if (cli_is_of_family(v, family) || strcmp(cli_verbs[v].name, family) == 0) fputs(between, out), print_verb(out, v), between = "\n\n";
}

void cli_print_help(FILE *out, const struct cli *cli)
{
    if (cli->family) print_family(out, cli->family);
    else if (cli->verb != VERB_VIEW) print_verb(out, cli->verb);
    else {
        fputs("zerolab trains GPT models with a real ZeRO engine and shows what happens inside.\n\n", out);
        print_verbs(out);
        fputs("\nOptions, here and of train:\n", out);
        print_options(out, VERB_VIEW);
        fprintf(out, "\n%s", cli_exit_codes);
    }
}

void cli_print_reference(FILE *out)
{
    fputs("```\n", out);
    print_verbs(out);
    for (int v = 0; v < VERBS; v++) {
        if (!is_listed(v) || v == VERB_VIEW) continue; /* whose options are those of train */
        fprintf(out, "\nzerolab %s\n", cli_verbs[v].name);
        print_options(out, v);
    }
    fprintf(out, "\n%s```\n", cli_exit_codes);
}
