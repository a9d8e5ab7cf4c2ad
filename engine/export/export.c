/* Reads a trace and passes its records to a format; opens and closes the files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/export/parts.h"
#include "engine/trace/source.h"

enum { CHECK_EVERY = 1 << 14, STEPS_KEPT = 64, NOTICES_KEPT = 64, BUFFER_BYTES = 1 << 16, PATH_ROOM = 4096 + 80 };

const struct export_format *export_format_named(const char *name)
{
#define X(word, id, help)                                                                                              \
    if (!strcmp(name, word)) return &export_##id;
    EXPORT_FORMATS(X)
#undef X
    return NULL;
}

bool export_is_folder(const struct export_format *format)
{
    return format->folder;
}

const char *export_format_names(void)
{
#define X(name, id, help) ", " name
    return &(EXPORT_FORMATS(X))[2];
#undef X
}

/* ---- files ---- */

static const char *path_of(char path[PATH_ROOM], const struct export *export, const char *name)
{
    snprintf(path, PATH_ROOM, "%s%s%s", export->options->path, *name ? "/" : "", name);
    return path;
}

/* Keeps the first failure. */
static void fail(struct export *export, int status, const char *name, const char *why)
{
    char path[PATH_ROOM];
    if (!export->status)
        export->status = error_set(export->err, status, "cannot write %.400s: %s", path_of(path, export, name), why);
}

/* zlib writes plain text too ("T"). Takes `fd`. */
static gzFile open_over(struct export *export, int fd, const char *name, bool gzip)
{
    const char *why = fd < 0 ? file_why(errno) : strerror(ENOMEM);
    struct export_file *file = fd < 0 ? NULL : array_add(export->files, export->file_count, export->file_room);
    if (file) {
        *file = (struct export_file){.gz = gzdopen(fd, gzip ? "wb" : "wbT")};
        snprintf(file->name, sizeof file->name, "%s", name);
    }
    if (file && file->gz) return gzbuffer(file->gz, BUFFER_BYTES), file->gz;
    fail(export, fd < 0 ? STATUS_USAGE : STATUS_RUN, name, why);
    if (fd >= 0) close(fd);
    return NULL;
}

gzFile export_open(struct export *export, const char *name)
{
    char path[PATH_ROOM];
    return export->status
               ? NULL
               : open_over(export, file_create(path_of(path, export, name), 0), name, file_ends_in(name, ".gz"));
}

/* The text of a failed write is "<fd:7>: No space left on device". */
static void check_files(struct export *export, bool closes)
{
    for (struct export_file *file = export->files; file < export->files + export->file_count; file++) {
        int code = Z_OK;
        const char *text = file->gz ? gzerror(file->gz, &code) : "", *why = strstr(text, ": ");
        if (code != Z_OK) fail(export, STATUS_RUN, file->name, why ? why + 2 : text);
        if (!closes || !file->gz) continue;
        if ((code = gzclose(file->gz)) != Z_OK)
            fail(export, STATUS_RUN, file->name, strerror(code == Z_ERRNO ? errno : EIO));
        file->gz = NULL;
    }
}

static void forget_files(struct export *export)
{
    char path[PATH_ROOM];
    for (int f = 0; f < export->file_count && export->status; f++)
        if (*export->files[f].name) unlink(path_of(path, export, export->files[f].name));
    free(export->files);
}

/* *made: it was missing. A reader takes every file of a folder, so files of others may not lie in it. */
static int open_folder(const char *path, bool *made, struct error *err)
{
    *made = mkdir(path, 0777) == 0;
    DIR *folder = *made || errno != EEXIST ? NULL : opendir(path);
    if (!*made && !folder) return error_set(err, STATUS_USAGE, "cannot write %.400s: %s", path, strerror(errno));
    int entries = 0;
    while (folder && readdir(folder)) entries++;
    if (folder) closedir(folder);
    return entries <= 2 ? STATUS_OK : error_set(err, STATUS_USAGE, "%.400s is not empty; give a new folder", path);
}

/* ---- ranks ---- */

void *export_rank(struct export *export, int rank)
{
    const struct export_format *format = export->options->format;
    const int end = format->per_rank ? export->first_rank + EXPORT_RANKS_AT_ONCE : TRACE_RANK_ALL;
    if (export->status || rank == TRACE_RANK_ALL) return NULL;
    if (rank >= end && (!export->next_rank || rank < export->next_rank)) export->next_rank = rank;
    if (rank < export->first_rank || rank >= end) return NULL;
    if (rank >= export->rank_count) export->rank_count = rank + 1;
    if (!export->ranks[rank] && !(export->ranks[rank] = calloc(1, format->rank_bytes)))
        fail(export, STATUS_RUN, "", strerror(ENOMEM));
    return export->ranks[rank];
}

static void forget_ranks(struct export *export)
{
    const struct export_format *format = export->options->format;
    for (; export->rank_count; export->rank_count--) {
        void **rank = &export->ranks[export->rank_count - 1];
        if (*rank && format->forget_rank) format->forget_rank(*rank);
        free(*rank);
        *rank = NULL;
    }
}

/* ---- reading ---- */

/* What came before the damage is good: each chunk was checked. */
static void note_defect(struct export *export, const struct source *source, enum source_result result)
{
    const char *defect = result == SOURCE_BAD   ? source_error(source)
                         : source_torn(source)  ? "cut off inside a chunk; all before it is whole"
                         : export->model->ended ? ""
                                                : "no end record: the run was killed, or still goes on";
    snprintf(export->told->defect, sizeof export->told->defect, "%s", defect);
    export->told->lost = export->model->lost_records;
    if (!export->told->records)
        export->status =
            error_set(export->err, STATUS_INPUT, "%.300s: %s", export->options->trace, *defect ? defect : "no records");
}

static void read_all(struct export *export, struct source *source)
{
    const struct export_options *options = export->options;
    struct trace_record record;
    enum source_result result = SOURCE_END;
    while (!export->status && (result = source_next(source, &record)) == SOURCE_RECORD) {
        if (!export->told->records++) export->base_ns = record.time_ns;
        run_model_fold(export->model, &record);
        options->format->put(export, &record);
        if (export->told->records % CHECK_EVERY) continue;
        check_files(export, false);
        if (!export->status && options->stops && options->stops(options->user, export->told->records))
            export->status = error_set(export->err, STATUS_RUN, "stopped while the trace was exported");
    }
    if (!export->status) note_defect(export, source, result);
    if (!export->status && options->format->end) options->format->end(export);
}

static void read_pass(struct export *export, struct source *source)
{
    const struct export_options *options = export->options;
    export->model = run_model_new(&(struct run_model_options){.steps = STEPS_KEPT, .notices = NOTICES_KEPT});
    *export->told = (struct export_told){0};
    export->next_rank = 0;
    if (!export->model) fail(export, STATUS_RUN, "", strerror(ENOMEM));
    else if (options->out)
        export->out =
            open_over(export, fcntl(fileno(options->out), F_DUPFD_CLOEXEC, 0), "", file_ends_in(options->path, ".gz"));
    if (!export->status && options->format->begin) options->format->begin(export);
    read_all(export, source);
    check_files(export, true);
    forget_ranks(export);
    run_model_free(export->model);
}

int export_trace(const struct export_options *options, struct export_told *told, struct error *err)
{
    struct export export = {.options = options, .told = told, .err = err};
    struct source *source;
    bool made = false;
    int status = source_open_file(&source, options->trace, err); /* before the folder is made */
    if (status) return status;
    if (!(export.ranks = calloc(TRACE_RANK_ALL, sizeof *export.ranks))) fail(&export, STATUS_RUN, "", strerror(ENOMEM));
    status = export.status;
    if (!status && options->format->folder) status = export.status = open_folder(options->path, &made, err);
    for (bool more = !status; more && !export.status; more = export.next_rank > 0) {
        export.first_rank = export.next_rank;
        if (!source) export.status = source_open_file(&source, options->trace, err);
        if (!export.status) read_pass(&export, source);
        source_close(source);
        source = NULL;
    }
    if (source) source_close(source);
    forget_files(&export);
    free(export.ranks);
    if (export.status && made) rmdir(options->path);
    return export.status;
}
