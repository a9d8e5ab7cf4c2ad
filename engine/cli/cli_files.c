/* Which files a command line names, by the tables: options say of themselves what they are, and operands that are files have a row here. */
#include <string.h>

#include "engine/cli/cli_tables.h"
#include "engine/cli/files.h"

enum { USES_MOST = 32, NAME_BYTES = 32 };

struct uses {
    struct file_use at[USES_MOST];
    char name[USES_MOST][NAME_BYTES];
    int count;
};

static void add(struct uses *uses, enum file_use_kind kind, const char *path, const char *before, const char *name)
{
    if (!path || uses->count == USES_MOST) return;
    snprintf(uses->name[uses->count], NAME_BYTES, "%s%.*s", before, (int)strcspn(name, "]"), name);
    uses->at[uses->count] = (struct file_use){kind, uses->name[uses->count], path};
    uses->count++;
}

static void add_operand(struct uses *uses, const struct cli *cli)
{
    static const struct {
        enum verb verb;
        enum file_use_kind kind;
    } files[] = {
        {VERB_TRAIN, FILE_READ},
        {VERB_REPLAY, FILE_READ},
        {VERB_ANALYZE, FILE_READ},
        {VERB_CHECK, FILE_READ},
        {VERB_PLAN, FILE_READ},
        {VERB_BENCH, FILE_READ},
        {VERB_CHECKPOINT_INSPECT, FILE_READ},
        {VERB_CHECKPOINT_CONVERT, FILE_READ},
        {VERB_CHECKPOINT_EXPORT, FILE_READ},
        {VERB_DATA_ENCODE, FILE_READ_ALL},
        {VERB_DATA_INFO, FILE_READ_ALL},
        {VERB_LAB, FILE_READ},
        {VERB_LAB_CHECK, FILE_READ},
        {VERB_LAB_PRINT, FILE_READ},
    };
    const char *name = cli_verbs[cli->verb].operands;
    for (size_t f = 0; f < sizeof files / sizeof *files; f++)
        if (files[f].verb == cli->verb) add(uses, files[f].kind, cli->operand, "", name + (*name == '['));
}

int cli_check_files(const struct cli *cli, struct error *err)
{
    struct uses uses = {.count = 0};
    add_operand(&uses, cli);
    for (int o = 0; o < cli_option_count; o++) {
        const struct option_info *option = &cli_options[o];
        const bool written = option->type == OPTION_WRITES;
        if (!written && option->type != OPTION_READS) continue;
        const char *path = *(const char *const *)((const char *)cli + option->offset);
        add(&uses, written ? FILE_WRITTEN : FILE_READ, path, "--", option->name);
    }
    return files_check(uses.at, uses.count, err);
}
