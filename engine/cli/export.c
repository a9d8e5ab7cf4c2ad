/* `zerolab export`: a trace in a form that other programs read. */
#include "engine/export/export.h"
#include "engine/cli/front.h"
#include "engine/cli/progress.h"

static bool say_or_stop(void *user, uint64_t records)
{
    if (progress_due(user)) fprintf(printable_below(stderr), "\r%llu records ", (unsigned long long)records);
    return interrupt_asked();
}

/* What the files lack. */
static void warn(const struct export_told *told)
{
    if (*told->defect) fprintf(stderr, "zerolab: the trace is not whole: %s\n", told->defect);
    if (told->lost) fprintf(stderr, "zerolab: the trace lacks %llu records\n", (unsigned long long)told->lost);
    if (told->unplaced)
        fprintf(stderr, "zerolab: left out %llu operations without a known schedule or begin\n",
                (unsigned long long)told->unplaced);
}

static int write_one(const struct export_options *options, struct export_told *told, struct error *err)
{
    struct export_options with = *options;
    with.out = front_open_bytes(options->path, err);
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
    if (!status) warn(&told);
    return status;
}
