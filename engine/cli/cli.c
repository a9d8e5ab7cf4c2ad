/* Parsing of the command line from the tables: see cli.h. */
#include "engine/cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/words.h"
#include "engine/cli/cli_tables.h"
#include "engine/cli/files.h"
#include "engine/config/keys.h"

#define V(verb)  (1u << VERB_##verb)
#define RUNS     (V(VIEW) | V(TRAIN))
#define SCREENS  (RUNS | V(ATTACH) | V(REPLAY) | V(COMPARE) | V(LAB))
#define CONVERTS (V(CHECKPOINT_CONVERT) | V(CHECKPOINT_EXPORT))
#define ALL      (~0u)

const struct verb_info cli_verbs[VERBS] = {
#define VERB(ID, name, operands, least, most, front, operand, help, note)                                              \
    {name, operands, least, most, FILE_##operand, help, note},
#include "engine/cli/verbs.def"
#undef VERB
};

const struct option_info cli_options[] = {
#define OPTION(type, field, short, long, argument, verbs, help)                                                        \
    {OPTION_##type, offsetof(struct cli, field), short, long, argument, verbs, help},
#include "engine/cli/options.def"
#undef OPTION
};
const int cli_option_count = sizeof cli_options / sizeof *cli_options;

/* A name may be two words, "data info": the first is a family. Returns how many words of argv name the verb, 0: none. */
static int words_of(const char *name, char *const argv[])
{
    size_t first = strcspn(name, " ");
    if (strlen(argv[0]) != first || strncmp(argv[0], name, first) != 0) return 0;
    if (name[first] == '\0') return 1;
    return argv[1] && strcmp(argv[1], name + first + 1) == 0 ? 2 : 0;
}

static int no_member(const char *family, const char *typed, struct error *err)
{
    const char *names[VERBS];
    char list[128] = "";
    int known = 0;
    for (int v = 0; v < VERBS; v++)
        if (cli_is_of_family(v, family)) names[known++] = cli_verbs[v].name + strlen(family) + 1;
    for (int n = 0; n < known; n++)
        text_append(list, sizeof list, "%s%s", n == 0 ? "" : n < known - 1 ? ", " : " or ", names[n]);
    if (!typed || *typed == '-')
        return error_set(err, STATUS_USAGE, "zerolab %s needs %s; see zerolab %s --help", family, list, family);
    const char *nearest = nearest_name(typed, names, known);
    if (nearest) return error_set(err, STATUS_USAGE, "no command %s %s; did you mean %s?", family, typed, nearest);
    return error_set(err, STATUS_USAGE, "no command %s %s; there is %s", family, typed, list);
}

static int no_verb(char *const argv[], struct error *err)
{
    const char *names[VERBS];
    int known = 0;
    for (int v = 0; v < VERBS; v++) {
        if (cli_is_of_family(v, argv[0])) return no_member(argv[0], argv[1], err);
        if (cli_verbs[v].name[0] != '\0' && cli_verbs[v].name[0] != '-') names[known++] = cli_verbs[v].name;
    }
    const char *nearest = nearest_name(argv[0], names, known);
    if (nearest) return error_set(err, STATUS_USAGE, "no command %s; did you mean %s?", argv[0], nearest);
    return error_set(err, STATUS_USAGE, "no command %s; see zerolab --help", argv[0]);
}

static int find_verb(struct cli *cli, int *words, char *const argv[], struct error *err)
{
    for (int v = 0; v < VERBS; v++) {
        *words = v == VERB_VIEW ? 0 : words_of(cli_verbs[v].name, argv);
        if (*words) return cli->verb = v, STATUS_OK;
        bool help = argv[1] && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        if (help && cli_is_of_family(v, argv[0])) return *words = 2, cli->family = argv[0], cli->help = true, STATUS_OK;
    }
    return no_verb(argv, err);
}

bool cli_is_of_family(enum verb verb, const char *family)
{
    size_t length = strlen(family);
    return length > 0 && strncmp(cli_verbs[verb].name, family, length) == 0 && cli_verbs[verb].name[length] == ' ';
}

static bool option_applies(const struct option_info *option, enum verb verb)
{
    return option->verbs & (1u << verb);
}

/* The first listed subcommand that knows the option `name`, or NULL. */
static const char *owner_of(const char *name)
{
    for (int o = 0; o < cli_option_count; o++)
        for (enum verb verb = VERB_TRAIN; verb < VERB_WORKER; verb++)
            if (option_applies(&cli_options[o], verb) && strcmp(cli_options[o].name, name) == 0)
                return cli_verbs[verb].name;
    return NULL;
}

static int unknown_option(enum verb verb, const char *text, struct error *err)
{
    const char *names[64];
    int known = 0;
    const char *body = text + strspn(text, "-");
    for (int o = 0; o < cli_option_count; o++)
        if (option_applies(&cli_options[o], verb)) names[known++] = cli_options[o].name;
    if (owner_of(body)) return error_set(err, STATUS_USAGE, "--%s is an option of zerolab %s", body, owner_of(body));
    const char *nearest = nearest_name(body, names, known);
    const char *space = verb == VERB_VIEW ? "" : " ";
    if (nearest)
        return error_set(err, STATUS_USAGE, "no option %s%s%s; did you mean --%s?", text, *space ? " of " : "",
                         cli_verbs[verb].name, nearest);
    return error_set(err, STATUS_USAGE, "no option %s; see zerolab%s%s --help", text, space, cli_verbs[verb].name);
}

/* The option that `arg` names ("-n", "-n4", "--ranks", "--ranks=4"); *value: the text attached to it, or NULL. */
static const struct option_info *find_option(enum verb verb, const char *arg, const char **value)
{
    *value = NULL;
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        if (!option_applies(option, verb)) continue;
        if (arg[1] != '-') {
            if (option->letter != arg[1] || (arg[2] && option->type == OPTION_FLAG)) continue;
            if (arg[2]) *value = arg + 2;
            return option;
        }
        size_t length = strlen(option->name);
        if (strncmp(arg + 2, option->name, length) != 0) continue;
        if (arg[2 + length] == '\0') return option;
        if (arg[2 + length] == '=' && option->argument) return *value = arg + 3 + length, option;
    }
    return NULL;
}

/* Ranks are a key of the configuration, which has a range. */
static long long most_of(const struct option_info *option)
{
    long long most = 1000000000;
    if (option->offset == offsetof(struct cli, ranks))
        sscanf(config_keys[key_index("topology.ranks")].range, "1..%lld", &most);
    return most;
}

static int store(struct cli *cli, const struct option_info *option, const char *value, struct error *err)
{
    void *field = (char *)cli + option->offset;
    if (option->type == OPTION_FLAG) return *(bool *)field = true, STATUS_OK;
    if (option->type == OPTION_LIST) {
        struct text_list *list = field;
        if (list->count == TEXT_LIST_MAX)
            return error_set(err, STATUS_USAGE, "--%s is given more than %d times", option->name, TEXT_LIST_MAX);
        list->at[list->count++] = value;
        return STATUS_OK;
    }
    if (option->type != OPTION_COUNT) return *(const char **)field = value, STATUS_OK;
    char *end;
    errno = 0;
    const long long number = strtoll(value, &end, 10), most = most_of(option);
    if (errno || end == value || *end || number < 1 || number > most)
        return error_set(err, STATUS_USAGE, "--%s %s: give a whole number from 1 to %lld", option->name, value, most);
    *(int64_t *)field = number;
    return STATUS_OK;
}

/* Whether an option with "[NAME]" has no argument: no attached text, and no or another option follows. argv ends with
 * NULL. */
static bool may_lack_argument(const struct option_info *option, const char *value, const char *next)
{
    return option->argument && option->argument[0] == '[' && !value && (!next || next[0] == '-');
}

static void set_defaults(struct cli *cli)
{
    memset(cli, 0, sizeof *cli);
    for (int o = 0; o < cli_option_count; o++)
        if (cli_options[o].type == OPTION_COUNT) *(int64_t *)((char *)cli + cli_options[o].offset) = -1;
}

static int check_operands(const struct cli *cli, int operands, const char *extra, struct error *err)
{
    const struct verb_info *verb = &cli_verbs[cli->verb];
    if (cli->help || cli->version) return STATUS_OK;
    if (operands > verb->most) return error_set(err, STATUS_USAGE, "one operand too many: %s", extra);
    if (operands < verb->least)
        return error_set(err, STATUS_USAGE, "zerolab %s needs %s; see zerolab %s --help", verb->name, verb->operands,
                         verb->name);
    if ((cli->operand && !*cli->operand) || (cli->second && !*cli->second))
        return error_set(err, STATUS_USAGE, "operand of zerolab %s is empty; it takes %s", verb->name, verb->operands);
    return STATUS_OK;
}

int cli_parse(struct cli *cli, int argc, char *const argv[], struct error *err)
{
    set_defaults(cli);
    cli->argv = argv;
    cli->bare = argc <= 1;
    int i = 1, operands = 0, words = 0, status;
    const char *extra = NULL; /* the first operand too many */
    bool options_ended = false;
    bool named = argc > 1 && (argv[1][0] != '-' || strncmp(argv[1], "--worker", 8) == 0);
    if (named && (status = find_verb(cli, &words, argv + 1, err))) return status;
    i += words;
    for (; i < argc; i++) {
        const char *arg = argv[i], *value;
        if (!options_ended && strcmp(arg, "--") == 0) {
            options_ended = true;
        } else if (options_ended || arg[0] != '-' || arg[1] == '\0') {
            if (operands == cli_verbs[cli->verb].most) extra = arg;
            if (operands < TEXT_LIST_MAX) cli->operands.at[cli->operands.count++] = arg;
            if (operands++ == 0) cli->operand = arg;
            else if (operands == 2) cli->second = arg;
        } else {
            const struct option_info *option = find_option(cli->verb, arg, &value);
            if (!option) return unknown_option(cli->verb, arg, err);
            if (may_lack_argument(option, value, argv[i + 1])) value = "list";
            if (option->argument && !value && !(value = i + 1 < argc ? argv[++i] : NULL))
                return error_set(err, STATUS_USAGE, "--%s needs %s", option->name, option->argument);
            if ((status = store(cli, option, value, err))) return status;
        }
    }
    return check_operands(cli, operands, extra, err);
}

/* ---- files: options and operands say of themselves what they are ---- */

enum { USES_MOST = TEXT_LIST_MAX + 32, NAME_BYTES = 32 };

struct uses {
    struct file_use at[USES_MOST];
    char name[USES_MOST][NAME_BYTES];
    int count;
};

static void add(struct uses *uses, enum file_use_kind kind, const char *path, const char *before, const char *name)
{
    if (!path || uses->count == USES_MOST) return;
    snprintf(uses->name[uses->count], NAME_BYTES, "%s%.*s", before, (int)strcspn(name, "]."), name);
    uses->at[uses->count] = (struct file_use){kind, uses->name[uses->count], path};
    uses->count++;
}

int cli_check_files(const struct cli *cli, struct error *err)
{
    const struct verb_info *verb = &cli_verbs[cli->verb];
    struct uses uses = {.count = 0};
    for (int i = 0; verb->operand && i < cli->operands.count; i++)
        add(&uses, verb->operand, cli->operands.at[i], "", i && verb->most == 2 ? "B" : verb->operands + (*verb->operands == '['));
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        const bool written = option->type == OPTION_WRITES;
        if (!written && option->type != OPTION_READS) continue;
        const char *path = *(const char *const *)((const char *)cli + option->offset);
        add(&uses, written ? FILE_WRITTEN : FILE_READ, path, "--", option->name);
    }
    return files_check(uses.at, uses.count, err);
}
