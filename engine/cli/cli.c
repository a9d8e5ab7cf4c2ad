/* Parsing of the command line from the tables: see cli.h. */
#include "engine/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/nearest.h"
#include "engine/base/words.h"
#include "engine/cli/cli_tables.h"
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
    if (cli_is_family(argv[0])) return no_member(argv[0], argv[1], err);
    for (int v = VERB_TRAIN; v < VERBS; v++)
        if (verb_is_listed(v)) names[known++] = cli_verbs[v].name;
    const char *nearest = nearest_name(argv[0], names, known);
    if (nearest) return error_set(err, STATUS_USAGE, "no command %s; did you mean %s?", argv[0], nearest);
    return error_set(err, STATUS_USAGE, "no command %s; see zerolab --help", argv[0]);
}

enum verb cli_verb_named(char *const argv[], int *words)
{
    for (enum verb verb = VERB_TRAIN; verb < VERBS; verb++)
        if (argv[0] && (*words = words_of(cli_verbs[verb].name, argv))) return verb;
    return *words = 0, VERB_VIEW;
}

static int find_verb(struct cli *cli, int *words, char *const argv[], struct error *err)
{
    const bool help = argv[1] && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (help && cli_is_family(argv[0])) return *words = 2, cli->family = argv[0], cli->help = true, STATUS_OK;
    cli->verb = cli_verb_named(argv, words);
    return *words ? STATUS_OK : no_verb(argv, err);
}

bool cli_is_of_family(enum verb verb, const char *family)
{
    size_t length = strlen(family);
    return length > 0 && strncmp(cli_verbs[verb].name, family, length) == 0 && cli_verbs[verb].name[length] == ' ';
}

bool cli_is_family(const char *word)
{
    for (int v = 0; v < VERBS; v++)
        if (cli_is_of_family(v, word)) return true;
    return false;
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

const struct option_info *cli_option_named(enum verb verb, const char *arg, const char **value)
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
    long long most = 1000000000;
    if (option->offset == offsetof(struct cli, ranks)) /* a key of the configuration, which has a range */
        sscanf(config_keys[key_index("topology.ranks")].range, "1..%lld", &most);
    errno = 0;
    const long long number = strtoll(value, &end, 10);
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
    *cli = (struct cli){.argv = argv, .bare = argc <= 1};
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
            const struct option_info *option = cli_option_named(cli->verb, arg, &value);
            if (!option) return unknown_option(cli->verb, arg, err);
            if (may_lack_argument(option, value, argv[i + 1])) value = "list";
            if (option->argument && !value && !(value = i + 1 < argc ? argv[++i] : NULL))
                return error_set(err, STATUS_USAGE, "--%s needs %s", option->name, option->argument);
            if ((status = store(cli, option, value, err))) return status;
        }
    }
    return check_operands(cli, operands, extra, err);
}

/* ---- files: compared by device and inode, so links and other spellings of a path are recognized ---- */

/* A file that does not exist yet is known by its folder and its name. */
struct place {
    bool known;
    dev_t device;
    ino_t inode;
    char name[NAME_MAX + 1];
};

static struct place place_in_folder(const char *path)
{
    struct place place = {0};
    struct stat folder;
    char above[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    if (!*name || strlen(name) > NAME_MAX || length >= sizeof above) return place;
    memcpy(above, path, length);
    strcpy(above + length, length ? "" : ".");
    place.known = stat(above, &folder) == 0;
    if (place.known) place.device = folder.st_dev, place.inode = folder.st_ino;
    strcpy(place.name, name);
    return place;
}

static struct place place_of(const char *path)
{
    struct stat there;
    if (!path || !*path || strcmp(path, "-") == 0) return (struct place){0};
    if (stat(path, &there) != 0) return place_in_folder(path);
    return (struct place){.known = S_ISREG(there.st_mode), .device = there.st_dev, .inode = there.st_ino};
}

static bool is_same(const char *one, const char *other)
{
    const struct place first = place_of(one), second = place_of(other);
    return first.known && second.known && first.device == second.device && first.inode == second.inode &&
           strcmp(first.name, second.name) == 0;
}

/* Whether a file lies in a folder or one of its subfolders. */
static bool is_below(const char *path, const char *folder)
{
    struct stat above, there;
    char *real = path && *path ? realpath(path, NULL) : NULL;
    bool below = false;
    if (real && folder && stat(real, &there) == 0 && S_ISREG(there.st_mode) && stat(folder, &there) == 0)
        for (char *slash; !below && (slash = strrchr(real, '/')) && slash > real;) {
            *slash = '\0';
            below = stat(real, &above) == 0 && above.st_dev == there.st_dev && above.st_ino == there.st_ino;
        }
    free(real);
    return below;
}

int files_check(const struct file_use *uses, int count, struct error *err)
{
    for (int w = 0; w < count; w++)
        for (int u = 0; uses[w].kind == FILE_WRITTEN && u < count; u++) {
            const bool seen = uses[u].kind == FILE_WRITTEN && u >= w; /* two that are written meet once */
            const bool within = uses[u].kind == FILE_READ_ALL && is_below(uses[w].path, uses[u].path);
            if (!seen && (within || is_same(uses[u].path, uses[w].path)))
                return error_set(err, STATUS_USAGE, "%.300s cannot be both %s and %s; give two files", uses[w].path,
                                 uses[u].name, uses[w].name);
        }
    return STATUS_OK;
}

/* Options and operands say of themselves what they are. */
enum { USES_MOST = TEXT_LIST_MAX + 32 };

static void add(struct file_use *uses, int *count, enum file_use_kind kind, const char *path, const char *before,
                const char *name)
{
    if (!path || *count == USES_MOST) return;
    struct file_use *use = &uses[(*count)++];
    *use = (struct file_use){.kind = kind, .path = path};
    snprintf(use->name, sizeof use->name, "%s%.*s", before, (int)strcspn(name, "]."), name);
}

int cli_check_files(const struct cli *cli, struct error *err)
{
    const struct verb_info *verb = &cli_verbs[cli->verb];
    struct file_use uses[USES_MOST];
    int count = 0;
    for (int i = 0; verb->operand && i < cli->operands.count; i++)
        add(uses, &count, verb->operand, cli->operands.at[i], "", i && verb->most == 2 ? "B" : verb->operands + (*verb->operands == '['));
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        const bool written = option->type == OPTION_WRITES;
        if (!written && option->type != OPTION_READS) continue;
        const char *path = *(const char *const *)((const char *)cli + option->offset);
        add(uses, &count, written ? FILE_WRITTEN : FILE_READ, path, "--", option->name);
    }
    return files_check(uses, count, err);
}
