/* Writing the weights of a source by a layout: a tensor at a time, of one that is transposed a strip of the file's rows at a
 * time. The file has its name when it is whole; until then ".partial" stands behind it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/weights_parts.h"
#include "kernels/kernels.h"

struct output {
    const struct state_source *source;
    struct weights_layout layout;
    struct kernels *kernels; /* casts */
    char *partial;
    int fd;
    float *whole; /* a tensor that is to be transposed */
    int64_t whole_room;
    float *strip; /* WEIGHTS_BUFFER_BYTES of fp32 */
    uint8_t *raw; /* as they go into the file */
    uint64_t done_bytes;
    weights_progress *progress;
    void *user;
};

/* What is more than fp16's largest number would become infinite. */
static int check_range(const float *values, int64_t elems, struct error *err)
{
    for (int64_t i = 0; i < elems; i++)
        if (values[i] >= 65520.0f || values[i] <= -65520.0f)
            return error_set(err, STATUS_RUN, "a weight is %g, which fp16 cannot hold; use --dtype bf16 or fp32",
                             (double)values[i]);
    return STATUS_OK;
}

static int put(struct output *output, const struct weights_place *place, int64_t first, const float *values,
               int64_t elems, struct error *err)
{
    const int64_t width = dtype_bytes(place->dtype);
    if (place->dtype == DTYPE_F16 && check_range(values, elems, err)) return err ? err->status : STATUS_RUN;
    kernels_cast(output->kernels, place->dtype, output->raw, DTYPE_F32, values, elems);
    if (!weights_pwrite(output->fd, output->raw, (size_t)(elems * width), place->offset + (uint64_t)(first * width)))
        return error_set(err, STATUS_RUN, "cannot write %.300s: %s", output->partial, strerror(errno));
    output->done_bytes += (uint64_t)(elems * width);
    if (output->progress) output->progress(output->user, output->done_bytes, output->layout.bytes);
    return STATUS_OK;
}

static int take(const struct output *output, int unit, const struct tensor *tensor, int64_t first, int64_t elems,
                float *values, struct error *err)
{
    const struct state_source *source = output->source;
    return source->read(source->user, unit, STATE_WEIGHTS, tensor->offset + first, elems, values, err);
}

static int write_plain(struct output *output, int unit, const struct tensor *tensor, const struct weights_place *place,
                       struct error *err)
{
    const int64_t most = WEIGHTS_BUFFER_BYTES / 4;
    int status = STATUS_OK;
    for (int64_t first = 0, part; first < tensor->elems && !status; first += part) {
        part = tensor->elems - first < most ? tensor->elems - first : most;
        status = take(output, unit, tensor, first, part, output->strip, err);
        if (!status) status = put(output, place, first, output->strip, part, err);
    }
    return status;
}

static int write_transposed(struct output *output, int unit, const struct tensor *tensor,
                            const struct weights_place *place, struct error *err)
{
    const int64_t rows = tensor->rows, columns = tensor->columns, most = WEIGHTS_BUFFER_BYTES / 4 / rows;
    if (output->whole_room < tensor->elems) {
        free(output->whole);
        output->whole = malloc((size_t)tensor->elems * sizeof *output->whole);
        output->whole_room = output->whole ? tensor->elems : 0;
        if (!output->whole)
            return error_set(err, STATUS_RUN, "no memory for a tensor of %lld elements", (long long)tensor->elems);
    }
    int status = take(output, unit, tensor, 0, tensor->elems, output->whole, err);
    for (int64_t c = 0, part; c < columns && !status; c += part) {
        part = columns - c < most ? columns - c : most;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < part; i++) output->strip[i * rows + r] = output->whole[r * columns + c + i];
        status = put(output, place, c * rows, output->strip, part * rows, err);
    }
    return status;
}

static int write_tensors(struct output *output, struct error *err)
{
    const struct model *model = &output->layout.model;
    int status = STATUS_OK;
    for (int u = 0; u < model->unit_count && !status; u++)
        for (int t = 0; t < model->units[u].tensor_count && !status; t++) {
            const struct tensor *tensor = &model->units[u].tensors[t];
            const struct weights_place *place = weights_place(&output->layout, u, tensor->id);
            status = (place->transposed ? write_transposed : write_plain)(output, u, tensor, place, err);
        }
    return status;
}

static int prepare(struct output *output, const struct weights_format_info *format, struct bytes *head,
                   struct error *err)
{
    int status = format->compose(&output->layout, head, err);
    if (!status) status = kernels_create(&output->kernels, 1, NULL, err);
    if (status) return status;
    output->strip = malloc(WEIGHTS_BUFFER_BYTES);
    output->raw = malloc(WEIGHTS_BUFFER_BYTES);
    if (!output->strip || !output->raw) return error_set(err, STATUS_RUN, "no memory to write weights");
    output->fd = open(output->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (output->fd < 0 || ftruncate(output->fd, (off_t)output->layout.bytes) != 0 ||
        !weights_pwrite(output->fd, head->at, head->count, 0))
        return error_set(err, STATUS_RUN, "cannot write %.300s: %s", output->partial, strerror(errno));
    return STATUS_OK;
}

static int conclude(struct output *output, const char *path, struct error *err)
{
    bool good = fsync(output->fd) == 0;
    good = close(output->fd) == 0 && good;
    output->fd = -1;
    good = good && rename(output->partial, path) == 0;
    return good ? STATUS_OK : error_set(err, STATUS_RUN, "cannot write %.300s: %s", path, strerror(errno));
}

static void release(struct output *output, bool failed)
{
    if (output->fd >= 0) close(output->fd);
    if (failed && output->partial) unlink(output->partial);
    if (output->kernels) kernels_free(output->kernels);
    weights_layout_release(&output->layout);
    free(output->partial);
    free(output->whole);
    free(output->strip);
    free(output->raw);
}

int weights_write(const char *path, enum weights_format format, enum dtype dtype, const struct model *model,
                  const struct state_source *source, weights_progress *progress, void *user, struct error *err)
{
    struct output output = {.source = source, .fd = -1, .progress = progress, .user = user};
    struct bytes head = {0};
    if (!(weights_formats[format].dtypes & 1u << dtype))
        return error_set(err, STATUS_USAGE, "%s files have no %s; use fp32 or bf16", weights_formats[format].name,
                         dtype_name(dtype));
    if (asprintf(&output.partial, "%s.partial", path) < 0) output.partial = NULL;
    int status = output.partial ? weights_layout_init(&output.layout, &model->shape, dtype, err)
                                : error_set(err, STATUS_RUN, "no memory to write weights");
    if (!status) status = prepare(&output, &weights_formats[format], &head, err);
    if (!status) status = write_tensors(&output, err);
    if (!status) status = conclude(&output, path, err);
    release(&output, status != STATUS_OK);
    bytes_release(&head);
    return status;
}
