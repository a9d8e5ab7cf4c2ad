/* `zerolab attach`: finds the runs of this user that go on, and watches one. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/run/front.h"
#include "engine/run/rundir.h"

enum { RUNS_MAX = 64 };

static void print_runs(FILE *out, const struct rundir_found *found, int count, bool json)
{
    if (json) fputc('[', out);
    for (int i = 0; i < count; i++) {
        long long ago_s = (long long)time(NULL) - found[i].started_s;
        if (json)
            fprintf(out, "%s\n  {\"run\": %lld, \"seconds\": %lld}", i ? "," : "", (long long)found[i].pid, ago_s);
        else
            fprintf(out, "%lld   for %lld:%02lld:%02lld\n", (long long)found[i].pid, ago_s / 3600, ago_s / 60 % 60,
                    ago_s % 60);
    }
    if (json) fputs(count ? "\n]\n" : "]\n", out);
}

static int choose(const struct rundir_found **chosen, const struct rundir_found *found, int count, const char *name,
                  struct error *err)
{
    char *end;
    long long pid = name ? strtoll(name, &end, 10) : 0;
    if (name && (*end || pid <= 0))
        return error_set(err, STATUS_USAGE, "%s is not the number of a run; see zerolab attach --json", name);
    for (int i = 0; i < count && name; i++)
        if (found[i].pid == pid) return *chosen = &found[i], STATUS_OK;
    if (name) return error_set(err, STATUS_INPUT, "no run %s goes on", name);
    if (count == 0) return error_set(err, STATUS_INPUT, "no run goes on; start one with zerolab train --detach");
    if (count == 1) return *chosen = &found[0], STATUS_OK;
    print_runs(stdout, found, count, false);
    return error_set(err, STATUS_USAGE, "%d runs go on; say which: zerolab attach %lld", count,
                     (long long)found[0].pid);
}

static int watch(const struct cli *cli, const struct rundir_found *run, struct error *err)
{
    char path[96];
    struct app_options options = {.readonly = cli->readonly};
    int status = front_look(&options.look, cli, err);
    if (!status && !app_terminal_fits(err)) status = err->status ? err->status : STATUS_USAGE;
    snprintf(path, sizeof path, "%s/socket", run->path);
    if (!status) status = source_open_socket(&options.source, path, err);
    if (status) return status;
    status = app_run(&options, err);
    source_close(options.source);
    return status;
}

int front_attach(const struct cli *cli)
{
    struct rundir_found found[RUNS_MAX];
    const struct rundir_found *chosen = NULL;
    struct error err = {0};
    int count = rundir_list(found, RUNS_MAX);
    if (cli->json) return print_runs(stdout, found, count, true), STATUS_OK;
    int status = choose(&chosen, found, count, cli->operand, &err);
    if (!status) status = watch(cli, chosen, &err);
    return status ? front_fail(&err) : STATUS_OK;
}
