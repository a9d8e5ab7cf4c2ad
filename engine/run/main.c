/* zerolab: finds out what is asked for and hands over. */
#include "engine/run/cli.h"

int main(int argc, char **argv)
{
    struct cli cli;
    struct error err;
    if (cli_parse(&cli, argc, argv, &err)) {
        fprintf(stderr, "zerolab: %s\n", err.text);
        return STATUS_USAGE;
    }
    if (cli.version) return puts("zerolab " ZEROLAB_VERSION), STATUS_OK;
    cli_print_help(stdout, cli.verb);
    return cli.help ? STATUS_OK : STATUS_USAGE;
}
