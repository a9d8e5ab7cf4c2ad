/* Reads elements of a unit from files of weights by their layout. Tensors that are not transposed are read piece by
 * piece. Of a transposed tensor a strip of rows is kept in memory, because callers ask for pieces in ascending order;
 * each row of the file gives the strip one column. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/checkpoint/retile.h"
#include "engine/checkpoint/weights_parts.h"
#include "kernels/kernels.h"

struct weights_file {
    struct weights_info info;
    struct weights_layout layout;
    struct kernels *kernels; /* casts */
    int fd, current;         /* the one of its files that is open */
    struct weights_buffers lent;
    struct {
        const struct tensor *tensor;
        int64_t row;      /* the first */
    } strip;              /* tensor NULL: holds nothing */
    struct retile retile; /* of its source */
};

/* ---- opening ---- */

/* A folder of ours may have weights too, beside a checkpoint or where somebody exported them to. */
static bool has_checkpoints(const char *folder)
{
    char path[4200];
    snprintf(path, sizeof path, "%.4000s/manifest.json", folder);
    if (access(path, F_OK) == 0) return true;
    snprintf(path, sizeof path, "%.4000s/latest", folder);
    return access(path, F_OK) == 0;
}

/* The file that is meant by a path, which may be that of a folder: one file, or else an index. */
static void find(const char *path, char found[4096])
{
    struct stat about;
    char index[4096];
    snprintf(found, 4096, "%s", path);
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode) || has_checkpoints(path)) return;
    snprintf(found, 4096, "%.4000s/model.safetensors", path);
    snprintf(index, sizeof index, "%.4000s/model.safetensors.index.json", path);
    if (access(found, F_OK) != 0 && access(index, F_OK) == 0) strcpy(found, index);
}

/* WEIGHTS_FORMATS: none. */
static enum weights_format format_of(const char *path, int fd, uint64_t bytes)
{
    uint8_t first[16] = {0};
    if (bytes < sizeof first || file_get(fd, first, sizeof first, 0) < sizeof first) return WEIGHTS_FORMATS;
    for (int f = 0; f < WEIGHTS_FORMATS; f++)
        if (weights_formats[f].is(path, first, bytes)) return (enum weights_format)f;
    return WEIGHTS_FORMATS;
}

static int read_layout(struct weights_file *file, uint64_t bytes, struct error *err)
{
    const enum weights_format format = format_of(file->info.path, file->fd, bytes);
    if (format == WEIGHTS_FORMATS) return error_set(err, STATUS_INPUT, "neither safetensors nor a model file of llm.c");
    int status = weights_formats[format].read(&file->layout, file->fd, bytes, file->info.path, err);
    const struct model *model = &file->layout.model;
    file->info.format = format;
    file->info.shape = model->shape;
    file->info.dtype = model->dtype;
    file->info.elems = model->elems;
    file->info.files = file->layout.files ? file->layout.file_count : 1;
    file->info.bytes = file->layout.bytes;
    file->current = file->layout.files ? -1 : 0;
    for (int u = 0; u < model->unit_count; u++) file->info.tensors += model->units[u].tensor_count;
    return status;
}

static int open_all(struct weights_file *file, const char *path, struct error *err)
{
    uint64_t bytes;
    find(path, file->info.path);
    file->fd = weights_open_file(file->info.path, &bytes, err);
    if (file->fd < 0) return STATUS_INPUT;
    int status = read_layout(file, bytes, err);
    return status ? status : kernels_create(&file->kernels, 1, NULL, err);
}

int weights_open(struct weights_file **out, const char *path, struct error *err)
{
    struct weights_file *file = calloc(1, sizeof *file);
    *out = NULL;
    if (!file) return error_set(err, STATUS_RUN, "no memory to read weights");
    int status = open_all(file, path, err);
    if (status) error_prefix(err, "%.300s", file->info.path), weights_close(file);
    else *out = file;
    return status;
}

void weights_close(struct weights_file *file)
{
    if (!file) return;
    weights_layout_release(&file->layout);
    if (file->kernels) kernels_free(file->kernels);
    if (file->fd >= 0) close(file->fd);
    free(file);
}

const struct weights_info *weights_info(const struct weights_file *file)
{
    return &file->info;
}

bool weights_is(const char *path)
{
    char found[4096];
    uint64_t bytes;
    find(path, found);
    int fd = weights_open_file(found, &bytes, NULL);
    bool is = fd >= 0 && format_of(found, fd, bytes) != WEIGHTS_FORMATS;
    if (fd >= 0) close(fd);
    return is;
}

/* ---- reading ---- */

void weights_lend(struct weights_file *file, void *buffers)
{
    weights_divide(&file->lent, buffers);
    file->strip.tensor = NULL;
}

const char *weights_part(const struct weights_file *file, int number)
{
    return file->layout.files ? file->layout.files[number] : file->info.path;
}

/* Opens the file that a tensor is in; units follow each other in it, so this is seldom another than before. */
static int turn_to(struct weights_file *file, int number, struct error *err)
{
    if (file->current == number) return STATUS_OK;
    uint64_t bytes;
    close(file->fd);
    file->fd = weights_open_file(weights_part(file, number), &bytes, err);
    file->current = file->fd < 0 ? -1 : number;
    return file->fd < 0 ? error_prefix(err, "%.300s", weights_part(file, number)) : STATUS_OK;
}

/* `elems` elements as they stand in the file, from number `first` of a tensor on. */
static int read_stored(struct weights_file *file, const struct weights_place *place, int64_t first, int64_t elems,
                       float *out, struct error *err)
{
    const int64_t width = dtype_bytes(place->dtype), most = place->dtype == DTYPE_F32 ? elems : LINE_ELEMS;
    int status = turn_to(file, place->file, err);
    for (int64_t done = 0, part; done < elems && !status; done += part) {
        part = elems - done < most ? elems - done : most;
        void *raw = place->dtype == DTYPE_F32 ? out : file->lent.raw;
        const size_t bytes = (size_t)(part * width);
        if (file_get(file->fd, raw, bytes, place->offset + (uint64_t)((first + done) * width)) < bytes)
            return error_set(err, STATUS_INPUT, "%.300s: cannot be read: %s", weights_part(file, place->file),
                             strerror(errno));
        if (raw != out) kernels_cast(file->kernels, DTYPE_F32, out + done, place->dtype, raw, part);
    }
    return status;
}

/* Rows of ours from `row` on, as many as there is room for. The rows of the file are apart: the system is told before that
 * all of the tensor will be wanted. */
static int load_strip(struct weights_file *file, int unit, const struct tensor *tensor, int64_t row, struct error *err)
{
    const struct weights_place *place = weights_place(&file->layout, unit, tensor->id);
    const int64_t columns = tensor->columns, rows = weights_strip_rows(tensor, row);
    int status = turn_to(file, place->file, err);
    if (!status && file->strip.tensor != tensor)
        posix_fadvise(file->fd, (off_t)place->offset, (off_t)(tensor->elems * dtype_bytes(place->dtype)),
                      POSIX_FADV_WILLNEED);
    file->strip.tensor = NULL;
    for (int64_t c = 0; c < columns && !status; c++) {
        status = read_stored(file, place, c * tensor->rows + row, rows, file->lent.line, err);
        for (int64_t r = 0; r < rows && !status; r++) file->lent.strip[r * columns + c] = file->lent.line[r];
    }
    if (status) return status;
    file->strip.tensor = tensor;
    file->strip.row = row;
    return STATUS_OK;
}

static int read_transposed(struct weights_file *file, int unit, const struct tensor *tensor, int64_t first,
                           int64_t elems, float *out, struct error *err)
{
    for (int64_t part; elems; first += part, elems -= part, out += part) {
        const int64_t row = first / tensor->columns;
        bool there = file->strip.tensor == tensor && row >= file->strip.row &&
                     row < file->strip.row + weights_strip_rows(tensor, file->strip.row);
        int status = there ? STATUS_OK : load_strip(file, unit, tensor, row, err);
        if (status) return status;
        const int64_t begin = file->strip.row * tensor->columns,
                      end = begin + weights_strip_rows(tensor, file->strip.row) * tensor->columns;
        part = end - first < elems ? end - first : elems;
        memcpy(out, file->lent.strip + (first - begin), (size_t)part * sizeof *out);
    }
    return STATUS_OK;
}

int weights_read(struct weights_file *file, int unit, int64_t first, int64_t elems, float *out, struct error *err)
{
    const struct unit *of = &file->layout.model.units[unit];
    const int64_t end = first + elems;
    if (!file->lent.raw) return error_set(err, STATUS_RUN, "nobody lent memory to read %.300s", file->info.path);
    for (int t = 0; t < of->tensor_count; t++) {
        const struct tensor *tensor = &of->tensors[t];
        const struct weights_place *place = weights_place(&file->layout, unit, tensor->id);
        const int64_t from = first > tensor->offset ? first : tensor->offset,
                      to = end < tensor->offset + tensor->elems ? end : tensor->offset + tensor->elems;
        if (from >= to) continue;
        float *at = out + (from - first);
        int status = place->transposed ? read_transposed(file, unit, tensor, from - tensor->offset, to - from, at, err)
                                       : read_stored(file, place, from - tensor->offset, to - from, at, err);
        if (status) return status;
    }
    return STATUS_OK;
}

static int read_source(void *user, int unit, enum state_array array, int64_t first, int64_t elems, float *out,
                       struct error *err)
{
    if (array == STATE_WEIGHTS) return weights_read(user, unit, first, elems, out, err);
    memset(out, 0, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

static void lend(void *user, void *buffers)
{
    weights_lend(user, buffers);
}

int weights_source(struct state_source *source, struct weights_file *file, const struct model *model, struct error *err)
{
    int sizes[2];
    const char *key = model_difference(&file->info.shape, &model->shape, sizes);
    *source = (struct state_source){.user = file, .read = read_source, .lend = lend};
    retile_source(&file->retile, source, &file->layout.model, model);
    if (!key) return STATUS_OK;
    return error_set(err, STATUS_USAGE, "%.300s holds another model: its %s is %d, that of this run is %d",
                     file->info.path, key, sizes[0], sizes[1]);
}
