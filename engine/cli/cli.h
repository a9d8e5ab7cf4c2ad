/* Parses the command line: subcommand, options, operands. Parser, help and docs/REFERENCE.md are made from two tables,
 * verbs.def and options.def, so a new option is one row (and its use). */
#pragma once

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
    char *const *argv;   /* the argv of main(); ends with NULL */
    bool bare;           /* no arguments at all */
    const char *family;  /* "data": help for all verbs whose names begin with this word; NULL: no family */
    const char *operand; /* NULL: none */
    const char *second;  /* the second operand; NULL: none */
    struct text_list operands; /* all of them */
    const char *given[3]; /* operand, second and --diff as they were typed */
    char unnamed[3][64];  /* paths of the traces that replace files of other programs (front_take_foreign()) */
#define OPTION(type, field, short, long, argument, verbs, help) cli_##type field;
#include "engine/cli/options.def"
#undef OPTION
};

/* Text fields point into argv. STATUS_USAGE: err names the wrong word and the nearest valid name. */
int cli_parse(struct cli *cli, int argc, char *const argv[], struct error *err);

/* A use of a file. path NULL, "" or "-": no file. A path that is not a plain file (a folder, a pipe, /dev/null) may be used any number
 * of times. */
enum file_use_kind { FILE_NONE, FILE_READ, FILE_READ_ALL, FILE_WRITTEN }; /* READ_ALL: every file in a folder */
struct file_use { enum file_use_kind kind; char name[32]; const char *path; };

/* STATUS_USAGE: two uses name one file, and at least one of them writes it, so that it would be lost; the text names both. */
int files_check(const struct file_use *uses, int count, struct error *err);

/* files_check() for all files on the command line: operands, and options of the types READS and WRITES. */
int cli_check_files(const struct cli *cli, struct error *err);

/* Prints the help of one subcommand or of a family of subcommands; for VERB_VIEW, of the whole program. */
void cli_print_help(FILE *out, const struct cli *cli);

/* For docs/REFERENCE.md: every subcommand with its options. */
void cli_print_reference(FILE *out);

/* The man page, in roff. */
void cli_print_manual(FILE *out);

/* Prints the completions of the last of `count` words, which follow the program's name: lines of "word TAB help". No
 * line: the shell offers files. */
void cli_complete(FILE *out, int count, char *const words[]);
