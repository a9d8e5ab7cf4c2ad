/* What --help prints and docs/REFERENCE.md shows, the man page, and what Tab offers in a shell: all from verbs.def, options.def and
 * the table of keys, as the parser is, so a new option is in them at once. */
#include <string.h>

#include "engine/base/version.h"
#include "engine/cli/cli_tables.h"
#include "engine/config/keys.h"
#include "engine/lab/catalog.h"

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
        if (!(cli_options[o].verbs & (1u << verb))) continue;
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

static void offer_labs(FILE *out, const char *typed)
{
    for (int l = 0; l < lab_catalog_count(); l++)
        offer(out, typed, lab_catalog_name(l), strlen(lab_catalog_name(l)), "");
}

/* "text|ansi|svg": its alternatives; a name in capitals stands for something, and has none. */
static void offer_values(FILE *out, const char *argument, const char *typed)
{
    if (!strchr(argument, '|')) return;
    for (const char *value = argument; *value; value += strcspn(value, "|"), value += *value == '|')
        offer(out, typed, value, strcspn(value, "|"), "");
}

/* The option whose argument is typed next, or NULL. */
static const struct option_info *option_before(enum verb verb, const char *word)
{
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        const bool named = strncmp(word, "--", 2) == 0 ? strcmp(word + 2, option->name) == 0
                                                       : word[0] == '-' && word[1] == option->letter && !word[2];
        if (named && option->argument && option->verbs & (1u << verb)) return option;
    }
    return NULL;
}

/* The longest name that the first words are; VERB_VIEW where they are none. */
static enum verb verb_of(int count, char *const words[])
{
    char both[64];
    snprintf(both, sizeof both, "%s %s", count > 0 ? words[0] : "", count > 1 ? words[1] : "");
    enum verb found = VERB_VIEW;
    for (int v = 0; v < VERBS; v++)
        if (count > 0 && (strcmp(cli_verbs[v].name, both) == 0 || (!found && strcmp(cli_verbs[v].name, words[0]) == 0)))
            found = v;
    return found;
}

static bool is_family(const char *word)
{
    for (int v = 0; v < VERBS; v++)
        if (cli_is_of_family(v, word)) return true;
    return false;
}

void cli_complete(FILE *out, int count, char *const words[])
{
    if (count == 0) return;
    const char *typed = words[count - 1];
    const enum verb verb = verb_of(count - 1, words);
    const struct option_info *option = count > 1 ? option_before(verb, words[count - 2]) : NULL;
    if (option && strcmp(option->argument, "KEY=VALUE") == 0) offer_keys(out, typed);
    else if (option) offer_values(out, option->argument, typed);
    else if (*typed == '-') offer_options(out, verb, typed);
    else if (count == 1) offer_verbs(out, "", typed);
    else if (count == 2 && is_family(words[0])) offer_verbs(out, words[0], typed);
    if (verb >= VERB_LAB_LIST && verb <= VERB_LAB && !option && *typed != '-') offer_labs(out, typed);
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

static void print_roff_option(FILE *out, const struct option_info *option)
{
    fputs(".TP\n\\fB", out);
    if (option->letter) fprintf(out, "\\-%c\\fR, \\fB", option->letter);
    fputs("\\-\\-", out), print_roff(out, option->name), fputs("\\fR", out);
    if (option->argument) fputs(" \\fI", out), print_roff(out, option->argument), fputs("\\fR", out);
    fputc('\n', out), print_roff(out, option->help), fputc('\n', out);
}

static void print_roff_verb(FILE *out, enum verb verb)
{
    const struct verb_info *info = &cli_verbs[verb];
    fputs(".SS zerolab ", out), print_roff(out, info->name), fputs(" [options] ", out), print_roff(out, info->operands);
    fprintf(out, "\n%c", info->help[0] - 'a' + 'A'), print_roff(out, info->help + 1), fputs(".\n", out);
    print_roff(out, info->note), fputs(*info->note ? "\n" : "", out);
    for (int o = 0; o < cli_option_count; o++)
        if (cli_options[o].verbs & (1u << verb)) print_roff_option(out, &cli_options[o]);
}

void cli_print_manual(FILE *out)
{
    fputs(".TH ZEROLAB 1 \"\" \"zerolab " ZEROLAB_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nzerolab \\- train GPT models with ZeRO and see what happens inside\n"
          ".SH SYNOPSIS\n.B zerolab\n[\\fIcommand\\fR] [\\fIoptions\\fR] [\\fIoperands\\fR]\n"
          ".SH COMMANDS\n", out);
    for (int v = 0; v < VERBS; v++)
        if (cli_verbs[v].name[0] != '-') print_roff_verb(out, v);
    fputs(".SH EXIT STATUS\n", out), print_roff(out, cli_exit_codes);
}
