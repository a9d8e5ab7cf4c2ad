/* zerolab: finds out what is asked for and hands over. */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/printable.h"
#include "engine/base/version.h"
#include "engine/cli/front.h"
#include "engine/launch/launch_probe.h"
#include "engine/train/worker.h"
#include "kernels/cuda/device.h"
#include "tui/app/app.h"

/* For docs/REFERENCE.md, which tests/test_readme.sh compares with it, and for tests/test_keys.sh. */
static int print_keys(char *text)
{
    int printed = text && fputs(text, stdout) >= 0 ? STATUS_OK : STATUS_RUN;
    free(text);
    return printed;
}

static int work(const struct cli *cli)
{
    if (cli->verb == VERB_WORKER_RANKS) return worker_ranks(cli->operand);
    return cli->verb == VERB_WORKER ? worker_process(cli->operand) : worker_threads(cli->operand);
}

static int hello(const struct cli *cli)
{
    return launch_probe_process(cli->operand);
}

static int (*const handlers[VERBS])(const struct cli *cli) = {
    [VERB_VIEW] = front_train,
    [VERB_TRAIN] = front_train,
    [VERB_ATTACH] = front_attach,
    [VERB_REPLAY] = front_replay,
    [VERB_ANALYZE] = front_analyze,
    [VERB_CHECK] = front_check,
    [VERB_PLAN] = front_plan,
    [VERB_CHECKPOINT_INSPECT] = front_checkpoint_inspect,
    [VERB_CHECKPOINT_CONVERT] = front_checkpoint_convert,
    [VERB_CHECKPOINT_EXPORT] = front_checkpoint_convert,
    [VERB_DATA_ENCODE] = front_data_encode,
    [VERB_DATA_INFO] = front_data_info,
    [VERB_WORKER] = work,
    [VERB_WORKER_RANKS] = work,
    [VERB_WORKER_THREADS] = work,
    [VERB_DOCTOR] = front_doctor,
    [VERB_BENCH] = front_bench,
    [VERB_LAB_LIST] = front_lab,
    [VERB_LAB_CHECK] = front_lab,
    [VERB_LAB_PRINT] = front_lab,
    [VERB_LAB_NEW] = front_lab,
    [VERB_LAB_RESET] = front_lab,
    [VERB_LAB_METRICS] = front_lab,
    [VERB_LAB] = front_lab,
    [VERB_CLASS] = front_class,
    [VERB_HELLO] = hello,
};

static void print_version(void)
{
    char built[96];
    const int gpus = device_count();
    device_build_text(built, sizeof built);
    printf("zerolab %s\nGPU kernels: %s; ", ZEROLAB_VERSION, strcmp(built, "no CUDA") == 0 ? "not built" : built);
    if (gpus) printf("%d here, for topology.backend=cuda\n", gpus);
    else printf("no GPU here\n");
}

static int run(int argc, char **argv)
{
    struct cli cli;
    struct error err;
    if (argc == 2 && strcmp(argv[1], "--help-reference") == 0) return cli_print_reference(stdout), STATUS_OK;
    if (argc == 2 && strcmp(argv[1], "--help-manual") == 0) return cli_print_manual(stdout), STATUS_OK;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) return cli_complete(stdout, argc - 2, argv + 2), STATUS_OK;
    if (argc == 2 && strcmp(argv[1], "--help-keys") == 0) return print_keys(app_keys_markdown());
    if (argc == 2 && strcmp(argv[1], "--list-keys") == 0) return print_keys(app_keys_list());
    if (cli_parse(&cli, argc, argv, &err)) return front_fail(&err);
    if (cli.version) return print_version(), STATUS_OK;
    if (cli.help) return cli_print_help(stdout, &cli), STATUS_OK;
    if (cli_check_files(&cli, &err)) return front_fail(&err);
    return handlers[cli.verb](&cli);
}

/* One of the three that is closed would go to the next file that is opened, and lines would be written into that. From this
 * nothing is read, and writing to it fails as it would have. */
static void take_closed(void)
{
    int fd;
    do fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv)
{
    take_closed();
    setlocale(LC_CTYPE, "");
    printable_standard();
    return front_end(run(argc, argv));
}
