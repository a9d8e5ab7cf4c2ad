/* The command line: which subcommand, its options, its operands. Two tables, verbs.def and options.def, give parsing, help
 * and docs/REFERENCE.md, so adding an option is one row (and its use). */
#ifndef ENGINE_CLI_CLI_H
#define ENGINE_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/error.h"
#include "engine/base/text_list.h"

enum verb {
#define VERB(ID, name, operands, least, most, front, operand, help, note) VERB_##ID,
#include "engine/cli/verbs.def"
#undef VERB
    VERBS
};

typedef bool cli_FLAG;
typedef const char *cli_TEXT, *cli_READS, *cli_WRITES;
typedef int64_t cli_COUNT;
typedef struct text_list cli_LIST;

struct cli {
    enum verb verb;
    char *const *argv;   /* all of it, as main() got it; ends with NULL */
    bool bare;           /* nothing was given at all */
    const char *family;  /* "data": help of all verbs whose names begin with it; else NULL */
    const char *operand; /* NULL: none */
    const char *second;  /* the one after it; NULL: none */
#define OPTION(type, field, short, long, argument, verbs, help) cli_##type field;
#include "engine/cli/options.def"
#undef OPTION
};

/* Text fields point into argv. STATUS_USAGE names what is wrong and the nearest valid name. */
int cli_parse(struct cli *cli, int argc, char *const argv[], struct error *err);

/* No file that a command reads (operand, option of the type READS) may be one that it writes, and it writes none twice (files.h). */
int cli_check_files(const struct cli *cli, struct error *err);

/* Help of one subcommand, or of a family of them; of VERB_VIEW: of the whole program. */
void cli_print_help(FILE *out, const struct cli *cli);

/* For docs/REFERENCE.md: every subcommand with its options. */
void cli_print_reference(FILE *out);

/* The man page, in roff. */
void cli_print_manual(FILE *out);

/* What Tab offers for the last of `count` words, which stand behind the program's name: lines of "word TAB help". No line: a shell offers
 * files. */
void cli_complete(FILE *out, int count, char *const words[]);

#endif
