/* Reading elements of a unit out of a file, by its layout. What stands there as it does with us is read piece by piece; a
 * transposed tensor is kept whole, since pieces of it are asked for in ascending order, and each is spread over the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/weights_parts.h"
#include "kernels/kernels.h"

struct weights_file {
    struct weights_info info;
    struct weights_layout layout;
    struct kernels *kernels; /* casts */
    int fd;
    uint8_t *raw; /* WEIGHTS_BUFFER_BYTES, as they are in the file */
    float *strip; /* as many elements, in fp32 */
    struct {
        const struct tensor *tensor;
        int unit;
        float *values;
        int64_t room;
    } kept;
};

/* ---- opening ---- */

/* A folder of ours may have weights too, beside a checkpoint or where somebody exported them to. */
static bool has_checkpoints(int folder)
{
    return faccessat(folder, "manifest.json", F_OK, 0) == 0 || faccessat(folder, "latest", F_OK, 0) == 0;
}

static int open_file(const char *path, char found[4096], struct error *err)
{
    struct stat about;
    snprintf(found, 4096, "%s", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISDIR(about.st_mode) && !has_checkpoints(fd)) {
        close(fd);
        snprintf(found, 4096, "%.4000s/model.safetensors", path);
        fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    if (fd < 0) return error_set(err, STATUS_INPUT, "cannot be opened: %s", strerror(errno)), -1;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) return fd;
    close(fd);
    return error_set(err, STATUS_INPUT, "is not a file"), -1;
}

/* WEIGHTS_FORMATS: none. */
static enum weights_format format_of(int fd, uint64_t bytes)
{
    uint8_t first[16] = {0};
    if (bytes < sizeof first || !weights_pread(fd, first, sizeof first, 0)) return WEIGHTS_FORMATS;
    for (int f = 0; f < WEIGHTS_FORMATS; f++)
        if (weights_formats[f].is(first, bytes)) return (enum weights_format)f;
    return WEIGHTS_FORMATS;
}

static int read_layout(struct weights_file *file, struct error *err)
{
    struct stat about;
    if (fstat(file->fd, &about) != 0) return error_set(err, STATUS_INPUT, "cannot be examined: %s", strerror(errno));
    const uint64_t bytes = (uint64_t)about.st_size;
    const enum weights_format format = format_of(file->fd, bytes);
    if (format == WEIGHTS_FORMATS) return error_set(err, STATUS_INPUT, "neither safetensors nor a model file of llm.c");
    int status = weights_formats[format].read(&file->layout, file->fd, bytes, file->info.path, err);
    const struct model *model = &file->layout.model;
    file->info.format = format;
    file->info.shape = model->shape;
    file->info.dtype = model->dtype;
    file->info.elems = model->elems;
    file->info.bytes = bytes;
    for (int u = 0; u < model->unit_count; u++) file->info.tensors += model->units[u].tensor_count;
    return status;
}

static int open_all(struct weights_file *file, const char *path, struct error *err)
{
    file->fd = open_file(path, file->info.path, err);
    if (file->fd < 0) return STATUS_INPUT;
    int status = read_layout(file, err);
    if (!status) status = kernels_create(&file->kernels, 1, NULL, err);
    if (status) return status;
    file->raw = malloc(WEIGHTS_BUFFER_BYTES);
    file->strip = malloc(WEIGHTS_BUFFER_BYTES);
    return file->raw && file->strip ? STATUS_OK : error_set(err, STATUS_RUN, "no memory to read weights");
}

int weights_open(struct weights_file **out, const char *path, struct error *err)
{
    struct weights_file *file = calloc(1, sizeof *file);
    *out = NULL;
    if (!file) return error_set(err, STATUS_RUN, "no memory to read weights");
    int status = open_all(file, path, err);
    if (status) error_prefix(err, "%.300s", *file->info.path ? file->info.path : path), weights_close(file);
    else *out = file;
    return status;
}

void weights_close(struct weights_file *file)
{
    if (!file) return;
    weights_layout_release(&file->layout);
    if (file->kernels) kernels_free(file->kernels);
    if (file->fd >= 0) close(file->fd);
    free(file->raw);
    free(file->strip);
    free(file->kept.values);
    free(file);
}

const struct weights_info *weights_info(const struct weights_file *file)
{
    return &file->info;
}

bool weights_is(const char *path)
{
    char found[4096];
    struct stat about;
    int fd = open_file(path, found, NULL);
    bool is = fd >= 0 && fstat(fd, &about) == 0 && format_of(fd, (uint64_t)about.st_size) != WEIGHTS_FORMATS;
    if (fd >= 0) close(fd);
    return is;
}

/* ---- reading ---- */

/* `elems` elements as they stand in the file, from number `first` of a tensor on. */
static int read_stored(struct weights_file *file, const struct weights_place *place, int64_t first, int64_t elems,
                       float *out, struct error *err)
{
    const int64_t width = dtype_bytes(place->dtype), most = WEIGHTS_BUFFER_BYTES / 4;
    for (int64_t done = 0, part; done < elems; done += part) {
        part = elems - done < most ? elems - done : most;
        if (!weights_pread(file->fd, file->raw, (size_t)(part * width),
                           place->offset + (uint64_t)((first + done) * width)))
            return error_set(err, STATUS_INPUT, "%.300s: cannot be read: %s", file->info.path, strerror(errno));
        kernels_cast(file->kernels, DTYPE_F32, out + done, place->dtype, file->raw, part);
    }
    return STATUS_OK;
}

/* The file has rows of `rows` elements, `columns` of them. Some file rows at a time become columns of ours. */
static int keep(struct weights_file *file, int unit, const struct tensor *tensor, struct error *err)
{
    const struct weights_place *place = weights_place(&file->layout, unit, tensor->id);
    const int64_t rows = tensor->rows, columns = tensor->columns, most = WEIGHTS_BUFFER_BYTES / 4 / rows;
    if (file->kept.room < tensor->elems) {
        free(file->kept.values);
        file->kept.values = malloc((size_t)tensor->elems * sizeof *file->kept.values);
        file->kept.room = file->kept.values ? tensor->elems : 0;
    }
    file->kept.tensor = NULL;
    if (!file->kept.values)
        return error_set(err, STATUS_RUN, "no memory for a tensor of %lld elements", (long long)tensor->elems);
    for (int64_t c = 0, part; c < columns; c += part) {
        part = columns - c < most ? columns - c : most;
        int status = read_stored(file, place, c * rows, part * rows, file->strip, err);
        if (status) return status;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < part; i++) file->kept.values[r * columns + c + i] = file->strip[i * rows + r];
    }
    file->kept.tensor = tensor;
    file->kept.unit = unit;
    return STATUS_OK;
}

static int read_tensor(struct weights_file *file, int unit, const struct tensor *tensor, int64_t first, int64_t elems,
                       float *out, struct error *err)
{
    const struct weights_place *place = weights_place(&file->layout, unit, tensor->id);
    if (!place->transposed) return read_stored(file, place, first, elems, out, err);
    if (file->kept.tensor != tensor || file->kept.unit != unit) {
        int status = keep(file, unit, tensor, err);
        if (status) return status;
    }
    memcpy(out, file->kept.values + first, (size_t)elems * sizeof *out);
    return STATUS_OK;
}

int weights_read(struct weights_file *file, int unit, int64_t first, int64_t elems, float *out, struct error *err)
{
    const struct unit *of = &file->layout.model.units[unit];
    const int64_t end = first + elems;
    for (int t = 0; t < of->tensor_count; t++) {
        const struct tensor *tensor = &of->tensors[t];
        const int64_t from = first > tensor->offset ? first : tensor->offset,
                      to = end < tensor->offset + tensor->elems ? end : tensor->offset + tensor->elems;
        if (from >= to) continue;
        int status = read_tensor(file, unit, tensor, from - tensor->offset, to - from, out + (from - first), err);
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

int weights_source(struct state_source *source, struct weights_file *file, const struct model *model, struct error *err)
{
    const struct config_model *has = &file->info.shape, *wanted = &model->shape;
    const struct {
        const char *name;
        int has, wanted;
    } sizes[] = {
        {"model.layers", has->layers, wanted->layers},
        {"model.hidden", has->hidden, wanted->hidden},
        {"model.heads", has->heads, wanted->heads},
        {"model.context", has->context, wanted->context},
        {"model.vocabulary", has->vocabulary, wanted->vocabulary},
    };
    *source = (struct state_source){.user = file, .read = read_source};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        if (sizes[s].has && sizes[s].has != sizes[s].wanted)
            return error_set(err, STATUS_USAGE, "%.300s holds another model: its %s is %d, that of this run is %d",
                             file->info.path, sizes[s].name, sizes[s].has, sizes[s].wanted);
    return STATUS_OK;
}
