/* zerolab: finds out what is asked for and hands over. */
#include <locale.h>
#include <string.h>

#include "engine/run/front.h"
#include "engine/run/worker.h"

static int work(const struct cli *cli)
{
    return cli->verb == VERB_WORKER ? worker_process(cli->operand) : worker_threads(cli->operand);
}

static int (*const handlers[VERBS])(const struct cli *cli) = {
    [VERB_VIEW] = front_train, [VERB_TRAIN] = front_train, [VERB_ATTACH] = front_attach, [VERB_REPLAY] = front_replay,
    [VERB_CHECK] = front_check, [VERB_PLAN] = front_plan, [VERB_WORKER] = work, [VERB_WORKER_THREADS] = work,
};

int main(int argc, char **argv)
{
    struct cli cli;
    struct error err;
    setlocale(LC_CTYPE, "");
    if (argc == 2 && strcmp(argv[1], "--help-reference") == 0) return cli_print_reference(stdout), STATUS_OK;
    if (cli_parse(&cli, argc, argv, &err)) return front_fail(&err);
    if (cli.version) return puts("zerolab " ZEROLAB_VERSION), STATUS_OK;
    if (cli.help) return cli_print_help(stdout, cli.verb), STATUS_OK;
    return handlers[cli.verb](&cli);
}
