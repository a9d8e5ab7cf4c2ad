/* `zerolab import`, and traces of other programs wherever a trace is read. */
#include <string.h>

#include "engine/cli/front.h"
#include "engine/import/import.h"

int front_import(const struct cli *cli, struct error *err)
{
    struct import import;
    if (!import_is_foreign(cli->operand))
        return error_set(err, STATUS_INPUT,
                         "%s is not of a format that can be imported: Chrome JSON of PyTorch's profiler, plain or gzip",
                         cli->operand);
    int status = import_files(&import, cli->operands.at, cli->operands.count, err);
    if (status) return status;
    if (cli->imported) status = import_write(&import, cli->imported, err);
    if (!status) import_print(&import, stdout);
    import_release(&import);
    return status;
}

static int take(struct cli *cli, const char **operand, const char **given, const char *const *paths, int count,
                struct error *err)
{
    static char path[2][64]; /* of the process: the subcommand keeps the names */
    struct import import;
    int fd; /* open until the process ends: the file has no other name */
    int status = import_files(&import, paths, count, err);
    if (status) return status;
    char *name = path[given - cli->given];
    status = import_to_unnamed(&import, name, &fd, err);
    import_release(&import);
    *given = *operand;
    if (!status) *operand = name;
    return status;
}

int front_take_foreign(struct cli *cli, struct error *err)
{
    const bool several = cli->verb == VERB_REPLAY || cli->verb == VERB_ANALYZE;
    if ((!several && cli->verb != VERB_COMPARE) || !cli->operand) return STATUS_OK;
    int status = STATUS_OK;
    const bool foreign = import_is_foreign(cli->operand);
    if (several && cli->operands.count > 1 && !foreign)
        return error_set(err, STATUS_USAGE,
                         "%s is one run; several files are the ranks of a job that another program recorded",
                         cli->operand);
    if (foreign && cli->verb == VERB_COMPARE && !cli->second) return STATUS_OK; /* a configuration */
    if (foreign)
        status = take(cli, &cli->operand, &cli->given[0], cli->operands.at, several ? cli->operands.count : 1, err);
    if (!status && cli->verb == VERB_COMPARE && cli->second && import_is_foreign(cli->second))
        status = take(cli, &cli->second, &cli->given[1], cli->operands.at + 1, 1, err);
    return status;
}
