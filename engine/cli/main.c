/* zerolab: parses the command line and calls the subcommand. */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/printable.h"
#include "engine/base/version.h"
#include "engine/cli/front.h"
#include "engine/doctor/doctor.h"
#include "engine/launch/launch_probe.h"
#include "engine/launch/launcher.h"
#include "engine/train/worker.h"
#include "kernels/cuda/device.h"
#include "tui/input/keys.h"

/* For docs/REFERENCE.md, which tests/program/test_readme.sh compares with it, and for tests/program/test_keys.sh. */
static int print_keys(char *text)
{
    int printed = text && fputs(text, stdout) >= 0 ? STATUS_OK : STATUS_RUN;
    free(text);
    return printed;
}

int front_worker(const struct cli *cli, struct error *err)
{
    (void)err;
    if (cli->verb == VERB_WORKER_RANKS) return worker_ranks(cli->operand);
    return cli->verb == VERB_WORKER ? worker_process(cli->operand) : worker_threads(cli->operand);
}

int front_hello(const struct cli *cli, struct error *err)
{
    (void)err;
    const size_t link = strlen(DOCTOR_LINK);
    if (strncmp(cli->operand, DOCTOR_LINK, link) == 0) return doctor_link_process(cli->operand + link);
    return launch_probe_process(cli->operand);
}

static int (*const handlers[VERBS])(const struct cli *cli, struct error *err) = {
#define VERB(ID, name, operands, least, most, front, operand, help, note) front_##front,
#include "engine/cli/verbs.def"
#undef VERB
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
    struct error err = {0};
    if (argc == 2 && strcmp(argv[1], "--help-reference") == 0) return cli_print_reference(stdout), STATUS_OK;
    if (argc == 2 && strcmp(argv[1], "--help-manual") == 0) return cli_print_manual(stdout), STATUS_OK;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0) return cli_complete(stdout, argc - 2, argv + 2), STATUS_OK;
    if (argc > 3 && strcmp(argv[1], LAUNCH_ON) == 0) return launch_on(argv + 2);
    if (argc == 2 && strcmp(argv[1], "--help-keys") == 0) return print_keys(keys_as_markdown());
    if (argc == 2 && strcmp(argv[1], "--list-keys") == 0) return print_keys(keys_as_list());
    if (cli_parse(&cli, argc, argv, &err)) return front_fail(&err);
    if (cli.version) return print_version(), STATUS_OK;
    if (cli.help) return cli_print_help(stdout, &cli), STATUS_OK;
    if (cli_check_files(&cli, &err)) return front_fail(&err);
    if (front_take_foreign(&cli, &err)) return front_fail(&err);
    const int status = handlers[cli.verb](&cli, &err);
    if (status && err.text[0]) front_fail(&err);
    if (status) interrupt_end();
    return status;
}

/* Fills closed standard descriptors, because the next opened file would get their number, and output would be written
 * into it. The filler reads as empty, and writing to it fails as before. */
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
