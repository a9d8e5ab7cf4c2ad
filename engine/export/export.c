/* Reads a trace and passes its records to a format; opens and closes the files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/file.h"
#include "engine/export/parts.h"
#include "engine/trace/source.h"

enum { CHECK_EVERY = 1 << 14, STEPS_KEPT = 64, NOTICES_KEPT = 64, BUFFER_BYTES = 1 << 16 };

static const struct {
    const char *name;
    const struct export_format *format;
} formats[] = {
#define X(name, id, help) {name, &export_##id},
    EXPORT_FORMATS(X)
#undef X
};

const struct export_format *export_format_named(const char *name)
{
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (strcmp(formats[f].name, name) == 0) return formats[f].format;
    return NULL;
}

bool export_is_folder(const struct export_format *format)
{
    return format->folder;
}

const char *export_format_names(void)
{
#define X(name, id, help) ", " name
    return 2 + EXPORT_FORMATS(X);
#undef X
}

/* ---- files ---- */

/* A stream over zlib, which writes plain text too. The cookie keeps the errno of the first write that failed: stdio does not. */
struct compressor {
    gzFile gz;
    struct export_file *file;
};

static int cause_now(gzFile gz)
{
    int code;
    gzerror(gz, &code);
    return code == Z_ERRNO && errno ? errno : code == Z_MEM_ERROR ? ENOMEM : EIO;
}

static ssize_t compressor_write(void *cookie, const char *bytes, size_t count)
{
    struct compressor *to = cookie;
    errno = 0;
    if (gzwrite(to->gz, bytes, (unsigned)count) == (int)count) return (ssize_t)count;
    if (!to->file->cause) to->file->cause = cause_now(to->gz);
    return 0;
}

static int compressor_close(void *cookie)
{
    struct compressor *to = cookie;
    errno = 0;
    const int code = gzclose(to->gz);
    if (code != Z_OK && !to->file->cause) to->file->cause = code == Z_ERRNO && errno ? errno : EIO;
    free(to);
    return code == Z_OK ? 0 : -1;
}

/* Takes `fd`, also on failure. */
static FILE *stream_over(struct export_file *file, int fd, bool gzip)
{
    struct compressor *to = malloc(sizeof *to);
    gzFile gz = fd < 0 || !to ? NULL : gzdopen(fd, gzip ? "wb" : "wbT");
    if (!gz && fd >= 0) close(fd);
    if (!gz) return free(to), NULL;
    *to = (struct compressor){gz, file};
    FILE *stream = fopencookie(to, "w", (cookie_io_functions_t){.write = compressor_write, .close = compressor_close});
    if (!stream) gzclose(gz), free(to);
    else setvbuf(stream, NULL, _IOFBF, BUFFER_BYTES);
    return stream;
}

static void path_of(char *path, size_t room, const struct export *export, const struct export_file *file)
{
    const bool folder = export->options->format->folder;
    snprintf(path, room, "%s%s%s", export->options->path, folder ? "/" : "", folder ? file->name : "");
}

/* Keeps the first failure. */
static void fail(struct export *export, int status, const struct export_file *file, int cause)
{
    char path[4096 + 80];
    if (export->status) return;
    if (file) path_of(path, sizeof path, export, file);
    export->status = file ? error_set(export->err, status, "cannot write %.400s: %s", path, file_why(cause))
                          : error_set(export->err, STATUS_RUN, "no memory to export the trace");
}

FILE *export_open(struct export *export, const char *name, bool gzip)
{
    struct export_file *file = calloc(1, sizeof *file);
    char path[4096 + 80];
    if (!file ||
        !array_grow((void **)&export->files, export->file_count, &export->file_room, sizeof(struct export_file *))) {
        free(file);
        fail(export, STATUS_RUN, NULL, 0);
        return fopen("/dev/null", "we");
    }
    export->files[export->file_count++] = file;
    snprintf(file->name, sizeof file->name, "%s", name ? name : "");
    path_of(path, sizeof path, export, file);
    const int fd = name ? file_create(path, 0) : fcntl(fileno(export->options->out), F_DUPFD_CLOEXEC, 0);
    const int cause = errno;
    if (fd >= 0) file->stream = stream_over(file, fd, gzip);
    if (!file->stream) fail(export, fd < 0 ? STATUS_USAGE : STATUS_RUN, file, fd < 0 ? cause : ENOMEM);
    return file->stream ? file->stream : (file->stream = fopen("/dev/null", "we"));
}

static void check_files(struct export *export)
{
    for (int f = 0; f < export->file_count; f++)
        if (export->files[f]->cause) fail(export, STATUS_RUN, export->files[f], export->files[f]->cause);
}

static void close_files(struct export *export)
{
    for (int f = 0; f < export->file_count; f++)
        if (export->files[f]->stream) fclose(export->files[f]->stream), export->files[f]->stream = NULL;
    check_files(export);
}

static void forget_files(struct export *export, bool remove_them)
{
    char path[4096 + 80];
    for (int f = 0; f < export->file_count; f++) {
        path_of(path, sizeof path, export, export->files[f]);
        if (remove_them) unlink(path);
        free(export->files[f]);
    }
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
    if (export->status || rank == TRACE_RANK_ALL) return NULL;
    if (format->per_rank && rank >= export->first_rank + EXPORT_RANKS_AT_ONCE) export->more_ranks = true;
    if (format->per_rank && (rank < export->first_rank || rank >= export->first_rank + EXPORT_RANKS_AT_ONCE))
        return NULL;
    while (rank >= export->rank_room) {
        const int room = export->rank_room ? 2 * export->rank_room : 16;
        void **larger = realloc(export->ranks, (size_t)room * sizeof *larger);
        if (!larger) return fail(export, STATUS_RUN, NULL, 0), NULL;
        memset(larger + export->rank_room, 0, (size_t)(room - export->rank_room) * sizeof *larger);
        export->ranks = larger;
        export->rank_room = room;
    }
    if (!export->ranks[rank] && !(export->ranks[rank] = calloc(1, format->rank_bytes)))
        fail(export, STATUS_RUN, NULL, 0);
    return export->ranks[rank];
}

static void forget_ranks(struct export *export)
{
    const struct export_format *format = export->options->format;
    for (int rank = 0; rank < export->rank_room; rank++) {
        if (export->ranks[rank] && format->forget_rank) format->forget_rank(export->ranks[rank]);
        free(export->ranks[rank]);
    }
    free(export->ranks);
    export->ranks = NULL;
    export->rank_room = 0;
}

/* ---- reading ---- */

/* What came before the damage is good: each chunk was checked. */
static void note_defect(struct export *export, const struct source *source, enum source_result result)
{
    const char *defect = "";
    if (result == SOURCE_BAD) defect = source_error(source);
    else if (source_torn(source)) defect = "cut off inside a chunk; all before it is whole";
    else if (!export->model->ended) defect = "no end record: the run was killed, or still goes on";
    snprintf(export->told->defect, sizeof export->told->defect, "%s", defect);
    export->told->lost = export->model->lost_records;
}

static bool is_stopped(struct export *export)
{
    const struct export_options *options = export->options;
    check_files(export);
    if (!export->status && options->stops && options->stops(options->user, export->told->records))
        export->status = error_set(export->err, STATUS_RUN, "stopped while the trace was exported");
    return export->status;
}

static void read_all(struct export *export, struct source *source)
{
    const struct export_format *format = export->options->format;
    struct trace_record record;
    enum source_result result;
    while ((result = source_next(source, &record)) == SOURCE_RECORD) {
        if (!export->told->records++) export->base_ns = record.time_ns;
        run_model_fold(export->model, &record);
        format->put(export, &record);
        if (export->status || (export->told->records % CHECK_EVERY == 0 && is_stopped(export))) return;
    }
    note_defect(export, source, result);
    if (!export->told->records)
        export->status = error_set(export->err, STATUS_INPUT, "%.300s: %s", export->options->trace,
                                   result == SOURCE_BAD ? source_error(source) : "it holds no records");
    else if (format->end) format->end(export);
}

static void read_pass(struct export *export)
{
    const struct export_format *format = export->options->format;
    struct source *source;
    if ((export->status = source_open_file(&source, export->options->trace, export->err))) return;
    export->model = run_model_new(&(struct run_model_options){.steps = STEPS_KEPT, .notices = NOTICES_KEPT});
    export->state = calloc(1, format->state_bytes + 1);
    *export->told = (struct export_told){.files = export->told->files};
    export->more_ranks = false;
    if (!export->model || !export->state) fail(export, STATUS_RUN, NULL, 0);
    if (!export->status && format->begin) format->begin(export);
    if (!export->status) read_all(export, source);
    close_files(export);
    forget_ranks(export);
    free(export->state);
    run_model_free(export->model);
    source_close(source);
}

int export_trace(const struct export_options *options, struct export_told *told, struct error *err)
{
    struct export export = {.options = options, .told = told, .err = err};
    struct source *source;
    *told = (struct export_told){0};
    int status = source_open_file(&source, options->trace, err); /* before the folder is made */
    if (status) return status;
    source_close(source);
    bool made = false;
    if (options->format->folder && (status = open_folder(options->path, &made, err))) return status;
    do {
        read_pass(&export);
        export.first_rank += EXPORT_RANKS_AT_ONCE;
    } while (!export.status && export.more_ranks);
    told->files = (uint64_t) export.file_count;
    forget_files(&export, export.status && options->format->folder);
    if (export.status && made) rmdir(options->path);
    return export.status;
}
