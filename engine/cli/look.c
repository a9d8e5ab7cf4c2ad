/* `zerolab replay` and `check`: the subcommands that only look. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/cli/front.h"
#include "engine/import/import.h"
#include "engine/trace/check.h"

/* ---- replay ---- */

static int frame_options(struct app_frame_options *options, const struct cli *cli, struct error *err)
{
    static const char *const as[] = {[APP_AS_TEXT] = "text",
                                     [APP_AS_ANSI] = "ansi",
                                     [APP_AS_SVG] = "svg",
                                     [APP_AS_HTML] = "html",
                                     [APP_AS_CAST] = "cast"};
    char end;
    *options = (struct app_frame_options){
        .columns = 100, .rows = 30, .view = cli->view, .at = cli->where, .steps = cli->stretch};
    if (cli->frame && (sscanf(cli->frame, "%dx%d%c", &options->columns, &options->rows, &end) != 2 ||
                       options->columns < 1 || options->rows < 1 || options->columns > 1000 || options->rows > 1000))
        return error_set(err, STATUS_USAGE, "--frame %s: give a size like 100x30", cli->frame);
    for (int a = 0; cli->as && a < 5; a++)
        if (strcmp(cli->as, as[a]) == 0)
            return options->as = (enum app_frame_as)a, front_look(&options->look, cli, err);
    if (cli->as) return error_set(err, STATUS_USAGE, "--as %s: give text, ansi, svg, html or cast", cli->as);
    return front_look(&options->look, cli, err);
}

int front_frame(const struct cli *cli, const char *file, const struct app_compare *compare, struct error *err)
{
    struct app_frame_options options;
    char *text = NULL;
    int status = frame_options(&options, cli, err);
    options.file = file;
    options.compare = compare;
    if (!status && (options.steps || options.as >= APP_AS_HTML) && !cli->output && isatty(STDOUT_FILENO))
        status = error_set(err, STATUS_USAGE, "--as %s is for a file, not for a terminal; add -o FILE", cli->as);
    if (!status) status = app_frame(&options, &text, err);
    if (!status) status = front_write_frame(cli->output, text, err);
    free(text);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static int is_trace(const struct dirent *entry)
{
    return file_ends_in(entry->d_name, ".zlt");
}

/* Replays the runs of a lesson on one screen, one after the other, as the user turns the pages. */
static int replay_parts(struct app_options *options, const char *folder, struct dirent **parts, int count,
                        struct error *err)
{
    struct app *stage = NULL;
    int status = STATUS_OK, at = 0, turned = 0;
    options->stage = &stage;
    options->turned = &turned;
    do {
        char path[4500];
        options->from_end = turned < 0;
        at = at + turned < 0 ? 0 : at + turned < count ? at + turned : count - 1;
        turned = 0;
        snprintf(path, sizeof path, "%.4000s/%s", folder, parts[at]->d_name);
        options->replay_file = path;
        options->part = at;
        options->parts = count;
        status = app_run(options, err);
    } while (!status && turned);
    app_close(stage);
    return status;
}

static int replay_lesson(const struct cli *cli, struct app_options *options, struct error *err)
{
    struct dirent **parts;
    const char *folder = cli->operand;
    int count = scandir(folder, &parts, is_trace, alphasort), status;
    if (count < 0) return error_set(err, STATUS_INPUT, "%s: %s", folder, strerror(errno));
    if (!count)
        status = error_set(err, STATUS_INPUT,
                           "%s: a folder without a recorded lesson; give a trace (train --trace), or the folder of a "
                           "lesson (lab --record)",
                           folder);
    else if (cli->frame || cli->as)
        status = error_set(err, STATUS_USAGE, "%s is a lesson; --%s prints one of its parts, %s/%s", folder,
                           cli->frame ? "frame" : "as", folder, parts[0]->d_name);
    else status = app_terminal_fits(err) ? replay_parts(options, folder, parts, count, err) : STATUS_USAGE;
    for (int p = 0; p < count; p++) free(parts[p]);
    free(parts);
    return status;
}

int front_replay(const struct cli *cli, struct error *err)
{
    const bool folder = is_folder(cli->operand);
    const bool prints = cli->frame || cli->as;
    if (prints && !folder) return front_frame(cli, cli->operand, NULL, err);
    if (!prints && (cli->view || cli->where || cli->stretch || cli->output))
        return error_set(err, STATUS_USAGE,
                         "--view, --at, --steps and --output belong to --frame COLSxROWS or --as FORM");
    struct app_options options = {.replay_file = cli->operand, .readonly = cli->readonly};
    int status = front_look(&options.look, cli, err);
    if (status) return status;
    if (folder) return replay_lesson(cli, &options, err);
    return app_terminal_fits(err) ? app_run(&options, err) : STATUS_USAGE;
}

/* ---- check ---- */

int front_check(const struct cli *cli, struct error *err)
{
    struct trace_check check;
    if (import_is_foreign(cli->operand)) return front_tell_foreign(cli, NULL, err);
    int status = trace_check(&check, cli->operand, err);
    if (status) return status;
    if (cli->json) {
        status = front_give(cli->output, trace_check_json(&check), err);
    } else {
        FILE *out = front_open(cli->output, err);
        if (!out) return err->status;
        trace_check_print(&check, out);
        status = front_close(out, cli->output, STATUS_OK, err);
    }
    return status ? status : trace_check_status(&check);
}
