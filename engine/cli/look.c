/* `zerolab replay`, `check`, `export` and `import`: the subcommands that read traces and keep them as they are; and traces of other
 * programs wherever a trace is read. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"
#include "engine/export/export.h"
#include "engine/import/import.h"
#include "engine/observe/states.h"
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
    if (!status) status = front_write(cli->output, text, true, err);
    free(text);
    return status;
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
    struct stat found;
    const bool folder = stat(cli->operand, &found) == 0 && S_ISDIR(found.st_mode);
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

/* Prints what files of another program hold, and makes a trace of it; path NULL: none. STATUS_CHECK: a file is damaged; its
 * beginning was read. */
static int tell_foreign(const struct cli *cli, const char *path, struct error *err)
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

int front_check(const struct cli *cli, struct error *err)
{
    struct trace_check check;
    if (import_is_foreign(cli->operand)) return tell_foreign(cli, NULL, err);
    int status = trace_check(&check, cli->operand, err);
    if (status) return status;
    if (cli->json) {
        status = front_give(cli->output, trace_check_json(&check), err);
    } else {
        FILE *out = front_open(cli->output, false, err);
        if (!out) return err->status;
        trace_check_print(&check, out);
        status = front_close(out, cli->output, STATUS_OK, err);
    }
    return status ? status : trace_check_status(&check);
}

/* ---- export ---- */

static bool say_or_stop(void *user, uint64_t records)
{
    if (progress_due(user)) fprintf(printable_below(stderr), "\r%llu records ", (unsigned long long)records);
    return interrupt_asked();
}

static int write_one(const struct export_options *options, struct export_told *told, struct error *err)
{
    struct export_options with = *options;
    with.out = front_open(options->path, true, err);
    if (!with.out) return err->status;
    const int status = export_trace(&with, told, err);
    if (!status) return front_close(with.out, options->path, status, err);
    front_drop(with.out);
    return status;
}

int front_export(const struct cli *cli, struct error *err)
{
    const struct export_format *format = cli->export_to ? export_format_named(cli->export_to) : NULL;
    struct progress progress = progress_of("exporting");
    struct export_told told;
    if (!cli->export_to) return error_set(err, STATUS_USAGE, "--to is missing: give one of %s", export_format_names());
    if (!format) return error_set(err, STATUS_USAGE, "--to %s: give one of %s", cli->export_to, export_format_names());
    if (!cli->into) return error_set(err, STATUS_USAGE, "-o is missing: give the file or folder to write");
    const struct export_options options = {
        .trace = cli->operand, .format = format, .path = cli->into, .stops = say_or_stop, .user = &progress};
    interrupt_watch();
    int status = export_is_folder(format) ? export_trace(&options, &told, err) : write_one(&options, &told, err);
    progress_end(&progress);
    if (status) return status;
    if (*told.defect) fprintf(stderr, "zerolab: the trace is not whole: %s\n", told.defect);
    if (told.lost) fprintf(stderr, "zerolab: the trace lacks %llu records\n", (unsigned long long)told.lost);
    if (told.unplaced)
        fprintf(stderr, "zerolab: left out %llu operations without a known schedule or begin\n",
                (unsigned long long)told.unplaced);
    return STATUS_OK;
}

/* ---- import ---- */

int front_import(const struct cli *cli, struct error *err)
{
    if (!import_is_foreign(cli->operand))
        return error_set(err, STATUS_INPUT,
                         "%s is not of a format that can be imported: Chrome JSON of PyTorch's profiler, plain or gzip",
                         cli->operand);
    const int status = tell_foreign(cli, cli->imported, err);
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
