/* The tables of verbs.def and options.def as data; for cli.c and cli_help.c only. */
#pragma once

#include <stddef.h>

#include "engine/cli/cli.h"

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

/* cli_is_of_family(): whether a verb's name has two words, the first of which is `family`. cli_is_family(): whether any verb has `word`
 * as its family. */
bool cli_is_of_family(enum verb verb, const char *family);
bool cli_is_family(const char *word);

/* The verb that the first words name, and how many of them; VERB_VIEW and 0: none. argv ends with NULL. */
enum verb cli_verb_named(char *const argv[], int *words);

/* The option that `arg` names ("-n", "-n4", "--ranks", "--ranks=4"), or NULL; *value: the text attached to it, or NULL. */
const struct option_info *cli_option_named(enum verb verb, const char *arg, const char **value);

/* Whether help lists a verb. The program starts its own processes with the verbs that are not listed. */
static inline bool verb_is_listed(enum verb verb)
{
    return cli_verbs[verb].name[0] != '-';
}

static inline bool option_applies(const struct option_info *option, enum verb verb)
{
    return option->verbs & (1u << verb);
}
