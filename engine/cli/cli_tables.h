/* The tables of verbs.def and options.def as data; for cli.c and cli_help.c only. */
#pragma once

#include <stddef.h>

#include "engine/cli/cli.h"
#include "engine/cli/files.h"

struct verb_info { const char *name, *operands; int least, most; enum file_use_kind operand; const char *help, *note; };
enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_COUNT, OPTION_LIST, OPTION_READS, OPTION_WRITES };
struct option_info {
    enum option_type type;
    size_t offset; /* of the option's field in struct cli */
    char letter;
    const char *name, *argument;
    unsigned verbs;
    const char *help;
};

extern const struct verb_info cli_verbs[VERBS];
extern const struct option_info cli_options[];
extern const int cli_option_count;
extern const char cli_exit_codes[]; /* one line */

/* Whether a verb's name has two words and the first is `family`. */
bool cli_is_of_family(enum verb verb, const char *family);
