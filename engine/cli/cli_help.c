/* What --help prints and docs/REFERENCE.md shows, the man page, and what Tab offers in a shell: all from verbs.def, options.def and
 * the table of keys, as the parser is, so a new option is in them at once. */
#include <string.h>

#include "engine/base/version.h"
#include "engine/cli/cli_tables.h"
#include "engine/config/keys.h"
#include "engine/lab/catalog.h"

static void print_options(FILE *out, enum verb verb)
{
    char name[48];
    for (const struct option_info *option = cli_options; option < cli_options + cli_option_count; option++) {
        if (!option_applies(option, verb)) continue;
        const char letter[] = {'-', option->letter, ',', '\0'};
        snprintf(name, sizeof name, "%3s --%s%s%s", option->letter ? letter : "", option->name,
                 option->argument ? " " : "", option->argument ? option->argument : "");
        fprintf(out, "  %-26s %s\n", name, option->help);
    }
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
        if (verb_is_listed(v) && print_usage(usage, sizeof usage, &cli_verbs[v]) > width) width = (int)strlen(usage);
    for (int v = 0; v < VERBS; v++) {
        if (!verb_is_listed(v)) continue;
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

void cli_print_help(FILE *out, const struct cli *cli)
{
    const char *family = cli->family, *between = "";
    if (family) {
        for (int v = 0; v < VERBS; v++)
            if (cli_is_of_family(v, family) || strcmp(cli_verbs[v].name, family) == 0)
                fputs(between, out), print_verb(out, v), between = "\n\n";
    } else if (cli->verb != VERB_VIEW) {
        print_verb(out, cli->verb);
    } else {
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
        if (!verb_is_listed(v) || v == VERB_VIEW) continue; /* whose options are those of train */
        fprintf(out, "\nzerolab %s\n", cli_verbs[v].name);
        print_options(out, v);
    }
    fprintf(out, "\n%s```\n", cli_exit_codes);
}

/* ---- completion ---------------------------------------------------------------------------------------------------- */

/* One line for each candidate that begins with `typed`: the word, a tab, what it means. */
static void offer(FILE *out, const char *typed, const char *word, size_t length, const char *help)
{
    if (strncmp(word, typed, strlen(typed)) == 0 && length >= strlen(typed))
        fprintf(out, "%.*s\t%s\n", (int)length, word, help);
}

/* The first word of a command, or the second one of a family ("data" -> "info"). */
static void offer_verbs(FILE *out, const char *family, const char *typed)
{
    const char *last = "";
    for (int v = 0; v < VERBS; v++) {
        const char *name = cli_verbs[v].name;
        if (*family && !cli_is_of_family(v, family)) continue;
        if (*family) name += strlen(family) + 1;
        const size_t length = strcspn(name, " ");
        if (!length || *name == '-' || strncmp(last, name, length) == 0) continue;
        offer(out, typed, name, length, name[length] ? "" : cli_verbs[v].help);
        last = name;
    }
}

static void offer_options(FILE *out, enum verb verb, const char *typed)
{
    char name[64];
    for (int o = 0; o < cli_option_count; o++) {
        if (!option_applies(&cli_options[o], verb)) continue;
        snprintf(name, sizeof name, "--%s", cli_options[o].name);
        offer(out, typed, name, strlen(name), cli_options[o].help);
    }
}

static void offer_keys(FILE *out, const char *typed)
{
    for (int k = 0; k < config_key_count; k++)
        if (config_keys[k].class == CLASS_HONOURED)
            offer(out, typed, config_keys[k].path, strlen(config_keys[k].path), config_keys[k].range);
}

/* "text|ansi|svg": its alternatives; a name in capitals stands for something, and has none. */
static void offer_values(FILE *out, const char *argument, const char *typed)
{
    if (!strchr(argument, '|')) return;
    for (const char *value = argument; *value; value += strcspn(value, "|"), value += *value == '|')
        offer(out, typed, value, strcspn(value, "|"), "");
}

void cli_complete(FILE *out, int count, char *const words[])
{
    if (count == 0) return;
    int named;
    const char *typed = words[count - 1], *before = count > 1 ? words[count - 2] : "", *value = NULL;
    const enum verb verb = count > 1 ? cli_verb_named(words, &named) : VERB_VIEW;
    const struct option_info *option = before[0] == '-' && before[1] ? cli_option_named(verb, before, &value) : NULL;
    if (option && (value || !option->argument)) option = NULL; /* its argument is not what is typed */
    if (option && strcmp(option->argument, "KEY=VALUE") == 0) offer_keys(out, typed);
    else if (option) offer_values(out, option->argument, typed);
    else if (*typed == '-') offer_options(out, verb, typed);
    else if (count == 1) offer_verbs(out, "", typed);
    else if (count == 2 && cli_is_family(words[0])) offer_verbs(out, words[0], typed);
    const bool is_lab = verb >= VERB_LAB_LIST && verb <= VERB_LAB && !option && *typed != '-';
    for (int l = 0; is_lab && l < lab_catalog_count(); l++)
        offer(out, typed, lab_catalog_name(l), strlen(lab_catalog_name(l)), "");
}

/* ---- man page ------------------------------------------------------------------------------------------------------ */

/* Hyphens that are typed and backslashes need an escape, and no line of text may begin with a dot. */
static void print_roff(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_roff_verb(FILE *out, enum verb verb)
{
    const struct verb_info *info = &cli_verbs[verb];
    fputs(".SS zerolab ", out), print_roff(out, info->name), fputs(" [options] ", out), print_roff(out, info->operands);
    fprintf(out, "\n%c", info->help[0] - 'a' + 'A'), print_roff(out, info->help + 1), fputs(".\n", out);
    print_roff(out, info->note), fputs(*info->note ? "\n" : "", out);
    for (const struct option_info *option = cli_options; option < cli_options + cli_option_count; option++) {
        if (!option_applies(option, verb)) continue;
        fputs(".TP\n\\fB", out);
        if (option->letter) fprintf(out, "\\-%c\\fR, \\fB", option->letter);
        fputs("\\-\\-", out), print_roff(out, option->name), fputs("\\fR", out);
        if (option->argument) fputs(" \\fI", out), print_roff(out, option->argument), fputs("\\fR", out);
        fputc('\n', out), print_roff(out, option->help), fputc('\n', out);
    }
}

void cli_print_manual(FILE *out)
{
    fputs(".TH ZEROLAB 1 \"\" \"zerolab " ZEROLAB_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nzerolab \\- train GPT models with ZeRO and see what happens inside\n"
          ".SH SYNOPSIS\n.B zerolab\n[\\fIcommand\\fR] [\\fIoptions\\fR] [\\fIoperands\\fR]\n"
          ".SH COMMANDS\n", out);
    for (int v = 0; v < VERBS; v++)
        if (verb_is_listed(v)) print_roff_verb(out, v);
    fputs(".SH EXIT STATUS\n", out), print_roff(out, cli_exit_codes);
}
