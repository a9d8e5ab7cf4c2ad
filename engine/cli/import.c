/* `zerolab import`, and traces of other programs wherever a trace is read. */
#include "engine/import/import.h"
#include "engine/cli/front.h"
#include "engine/observe/states.h"

int front_tell_foreign(const struct cli *cli, const char *path, struct error *err)
{
    struct import import;
    int status = import_files(&import, cli->operands.at, cli->operands.count, err);
    if (status) return status;
    status = import_write(&import, path, err);
    if (path && !status) run_states_write(path, 0, NULL);
    if (!status) status = front_answer(cli, import_page, import_facts(&import), err);
    if (!status && import.cut[0]) status = STATUS_CHECK;
    import_release(&import);
    return status;
}

int front_import(const struct cli *cli, struct error *err)
{
    if (!import_is_foreign(cli->operand))
        return error_set(err, STATUS_INPUT,
                         "%s is not of a format that can be imported: Chrome JSON of PyTorch's profiler, plain or gzip",
                         cli->operand);
    const int status = front_tell_foreign(cli, cli->imported, err);
    return status == STATUS_CHECK ? STATUS_OK : status; /* what came before the damage is a trace */
}

/* A configuration that compare trains is JSON, too. The unnamed files are open until the process ends. */
int front_take_foreign(struct cli *cli, struct error *err)
{
    int fd;
    const char **const paths[3] = {&cli->operand, &cli->second, &cli->diff};
    const bool several = cli->verb == VERB_REPLAY || cli->verb == VERB_ANALYZE || cli->verb == VERB_EXPORT;
    const bool compares = cli->verb == VERB_COMPARE && cli->second;
    int status = STATUS_OK;
    for (int p = 0; p < 3; p++) cli->given[p] = *paths[p];
    for (int p = 0; p < 3 && (several || compares) && !status; p++) {
        const bool all = several && p == 0, foreign = *paths[p] && import_is_foreign(*paths[p]);
        if (several && p == 1) continue; /* a rank of the first */
        if (all && cli->operands.count > 1 && !foreign)
            return error_set(err, STATUS_USAGE,
                             "%s is one run; several files are the ranks of a job that another program recorded",
                             cli->operand);
        if (!foreign) continue;
        status = import_to_unnamed(all ? cli->operands.at : &cli->given[p], all ? cli->operands.count : 1,
                                   cli->unnamed[p], &fd, err);
        if (!status) *paths[p] = cli->unnamed[p];
    }
    return status;
}
