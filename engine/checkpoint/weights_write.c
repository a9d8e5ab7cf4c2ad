/* Writes the weights of a source by a layout, a strip of rows of a tensor at a time. Of a transposed tensor, each column of the
 * strip is a piece of one of the file's rows. The file's name ends in ".partial" until the file is complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/checkpoint/retile.h"
#include "engine/checkpoint/weights_parts.h"
#include "kernels/kernels.h"

struct output {
    struct state_source source;
    struct retile retile; /* where the model is tiled, as no file is */
    struct weights_layout layout;
    struct kernels *kernels; /* casts */
    char *partial;
    int fd;
    struct weights_buffers lent;
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
    const int64_t width = dtype_bytes(place->dtype), most = place->dtype == DTYPE_F32 ? elems : LINE_ELEMS;
    for (int64_t done = 0, part; done < elems; done += part) {
        const void *raw = values + done;
        part = elems - done < most ? elems - done : most;
        if (place->dtype == DTYPE_F16 && check_range(values + done, part, err)) return err ? err->status : STATUS_RUN;
        if (place->dtype != DTYPE_F32)
            kernels_cast(output->kernels, place->dtype, output->lent.raw, DTYPE_F32, raw, part), raw = output->lent.raw;
        if (lseek(output->fd, (off_t)place->offset + (first + done) * width, SEEK_SET) < 0 ||
            !file_put(output->fd, raw, (size_t)(part * width)))
            return error_set(err, STATUS_RUN, "cannot write %.300s: %s", output->partial, strerror(errno));
    }
    return STATUS_OK;
}

static int put_columns(struct output *output, const struct tensor *tensor, const struct weights_place *place,
                       int64_t row, int64_t rows, struct error *err)
{
    int status = STATUS_OK;
    for (int64_t c = 0; c < tensor->columns && !status; c++) {
        for (int64_t r = 0; r < rows; r++) output->lent.line[r] = output->lent.strip[r * tensor->columns + c];
        status = put(output, place, c * tensor->rows + row, output->lent.line, rows, err);
    }
    return status;
}

static int write_tensor(struct output *output, int unit, const struct tensor *tensor, struct error *err)
{
    const struct state_source *source = &output->source;
    const struct weights_place *place = weights_place(&output->layout, unit, tensor->id);
    const int64_t columns = tensor->columns;
    float *strip = output->lent.strip;
    int status = STATUS_OK;
    for (int64_t row = 0, rows; row < tensor->rows && !status; row += rows) {
        const int64_t first = row * columns, elems = (rows = weights_strip_rows(tensor, row)) * columns;
        status = source->read(source->user, unit, STATE_WEIGHTS, tensor->offset + first, elems, strip, err);
        if (!status)
            status = place->transposed ? put_columns(output, tensor, place, row, rows, err)
                                       : put(output, place, first, strip, elems, err);
        output->done_bytes += (uint64_t)(elems * dtype_bytes(place->dtype));
        if (!status && output->progress && output->progress(output->user, output->done_bytes, output->layout.bytes))
            status = error_set(err, STATUS_RUN, "stopped while it was written");
    }
    return status;
}

static int write_tensors(struct output *output, struct error *err)
{
    const struct model *model = &output->layout.model;
    int status = STATUS_OK;
    for (int u = 0; u < model->unit_count && !status; u++)
        for (int t = 0; t < model->units[u].tensor_count && !status; t++)
            status = write_tensor(output, u, &model->units[u].tensors[t], err);
    return status;
}

static int prepare(struct output *output, const struct weights_format_info *format, struct bytes *head,
                   struct error *err)
{
    int status = format->compose(&output->layout, head, err);
    if (!status) status = kernels_create(&output->kernels, 1, NULL, err);
    if (status) return status;
    output->fd = file_create(output->partial, 0);
    if (output->fd < 0)
        return error_set(err, STATUS_USAGE, "cannot write %.300s: %s", output->partial, strerror(errno));
    if (ftruncate(output->fd, (off_t)output->layout.bytes) != 0 || !file_put(output->fd, head->at, head->count))
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
}

int weights_write(const struct weights_target *target, const struct model *model, const struct state_source *source,
                  weights_progress *progress, void *user, struct error *err)
{
    const struct weights_format_info *format = &weights_formats[target->format];
    struct output output = {.source = *source, .fd = -1, .progress = progress, .user = user};
    struct bytes head = {0};
    if (!(format->dtypes & 1u << target->dtype))
        return error_set(err, STATUS_USAGE, "%s files have no %s; use fp32 or bf16", format->name,
                         dtype_name(target->dtype));
    if (asprintf(&output.partial, "%s.partial", target->path) < 0) output.partial = NULL;
    weights_divide(&output.lent, target->buffers);
    int status = output.partial ? weights_layout_init(&output.layout, &model->shape, target->dtype, err)
                                : error_set(err, STATUS_RUN, "no memory to write weights");
    if (!status) retile_source(&output.retile, &output.source, model, &output.layout.model);
    if (!status) status = prepare(&output, format, &head, err);
    if (!status) status = write_tensors(&output, err);
    if (!status) status = conclude(&output, target->path, err);
    release(&output, status != STATUS_OK);
    bytes_release(&head);
    return status;
}
