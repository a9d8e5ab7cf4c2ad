/* `zerolab analyze`: the figures of a trace, or of two and how they differ. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/advise/analysis.h"
#include "engine/base/clock.h"
#include "engine/base/printable.h"
#include "engine/cli/front.h"

/* ---- progress ---- */

struct progress {
    uint64_t said_ns;
    bool shown;
};

static void say_progress(void *user, uint64_t records, uint32_t step)
{
    struct progress *progress = user;
    uint64_t now_ns = clock_ns();
    if (now_ns - progress->said_ns < 250000000u) return;
    progress->said_ns = now_ns;
    progress->shown = true;
    fprintf(printable_below(stderr), "\r%llu records, step %u ", (unsigned long long)records, step);
}

static int read_trace(struct analysis *analysis, const char *path, const struct cli *cli, struct error *err)
{
    struct progress progress = {.said_ns = clock_ns()};
    struct analysis_options options = {.from_step = cli->from > 0 ? (uint32_t)cli->from : 0,
                                       .to_step = cli->to > 0 ? (uint32_t)cli->to : 0,
                                       .progress = isatty(STDERR_FILENO) ? say_progress : NULL,
                                       .user = &progress};
    int status = analysis_read(analysis, path, &options, err);
    if (progress.shown) fprintf(printable_below(stderr), "\r%*s\r", 40, "");
    return status;
}

/* ---- what is written ---- */

static char *text_of(const struct analysis *analysis, const struct cli *cli)
{
    char *text = NULL;
    size_t bytes;
    if (cli->json) return analysis_json(analysis);
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    analysis_print(analysis, out);
    return fclose(out) ? NULL : text;
}

static char *difference_of(const struct analysis *left, const struct analysis *right, const struct cli *cli,
                           bool *equal)
{
    char *text = NULL;
    size_t bytes;
    if (cli->json) return analysis_diff_json(left, right, equal);
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    *equal = analysis_diff_print(left, right, out);
    return fclose(out) ? NULL : text;
}

static int write_figures(const struct cli *cli, char *text, struct error *err)
{
    int status = text ? front_write(cli->output, text, err) : error_set(err, STATUS_RUN, "no memory for the figures");
    free(text);
    return status;
}

static int analyze_two(const struct cli *cli, const struct analysis *left, struct error *err)
{
    struct analysis right;
    bool equal = false;
    int status = read_trace(&right, cli->diff, cli, err);
    if (status) return status;
    status = write_figures(cli, difference_of(left, &right, cli, &equal), err);
    analysis_release(&right);
    return status || equal ? status : STATUS_CHECK; /* the last line of the figures says so */
}

static int analyze(const struct cli *cli, struct error *err)
{
    struct analysis analysis;
    if (cli->logs) return front_logs(cli, err);
    if (cli->sets.count) return error_set(err, STATUS_USAGE, "--set says which lines --logs prints; give --logs too");
    if (cli->from > 0 && cli->to > 0 && cli->from > cli->to)
        return error_set(err, STATUS_USAGE, "--from %lld comes after --to %lld", (long long)cli->from,
                         (long long)cli->to);
    int status = read_trace(&analysis, cli->operand, cli, err);
    if (status) return status;
    status = cli->diff ? analyze_two(cli, &analysis, err) : write_figures(cli, text_of(&analysis, cli), err);
    analysis_release(&analysis);
    return status;
}

int front_analyze(const struct cli *cli)
{
    struct error err = {0};
    int status = analyze(cli, &err);
    return err.text[0] ? front_fail(&err) : status;
}
