/* Layouts, the table of formats, and helpers that the formats share. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/words.h"
#include "engine/checkpoint/weights_parts.h"

const struct weight_row weight_rows[WEIGHT_ROWS] = {
#define WEIGHT(ID, name, transposed) {TENSOR_##ID, name, transposed},
#include "engine/checkpoint/weights.def"
#undef WEIGHT
};

const struct weights_format_info weights_formats[WEIGHTS_FORMATS] = {
    [WEIGHTS_SAFETENSORS] = {"safetensors", ".safetensors", 1 << DTYPE_F32 | 1 << DTYPE_F16 | 1 << DTYPE_BF16,
                             safetensors_is, safetensors_read, safetensors_compose},
    [WEIGHTS_LLMC] = {"llmc", ".bin", 1 << DTYPE_F32 | 1 << DTYPE_BF16, llmc_is, llmc_read, llmc_compose},
};

const char *weights_format_name(enum weights_format format)
{
    return weights_formats[format].name;
}

bool weights_format_named(const char *name, enum weights_format *format)
{
    for (int f = 0; f < WEIGHTS_FORMATS; f++)
        if (strcmp(weights_formats[f].name, name) == 0) return *format = (enum weights_format)f, true;
    return false;
}

bool weights_format_of_path(const char *path, enum weights_format *format)
{
    for (int f = 0; f < WEIGHTS_FORMATS; f++)
        if (*path && text_ends_in(path + 1, weights_formats[f].ending)) return *format = (enum weights_format)f, true;
    return false;
}

/* The ranges of config_keys.def: within them no size or offset below comes near 2^63. */
static bool possible(const struct config_model *shape)
{
    return shape->layers >= 1 && shape->layers <= 1000 && shape->hidden >= 1 && shape->hidden <= 65536 &&
           shape->heads >= 0 && shape->heads <= 1024 && (!shape->heads || shape->hidden % shape->heads == 0) &&
           shape->context >= 1 && shape->context <= 1 << 20 && shape->vocabulary >= 1 && shape->vocabulary <= 10000000;
}

static void name_shape(struct config_model *shape)
{
    static const char *const names[] = {"nano", "teach", "micro", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    int sizes[2];
    strcpy(shape->name, "custom");
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (!model_difference(config_model_named(names[n]), shape, sizes)) strcpy(shape->name, names[n]);
}

int weights_layout_init(struct weights_layout *layout, const struct config_model *shape, enum dtype dtype,
                        struct error *err)
{
    struct config_model named = *shape;
    if (!possible(shape))
        return error_set(err, STATUS_INPUT,
                         "%d layers, hidden %d, %d heads, context %d, vocabulary %d: no model has such sizes",
                         shape->layers, shape->hidden, shape->heads, shape->context, shape->vocabulary);
    name_shape(&named);
    int status = model_init(&layout->model, &named, dtype, err);
    if (status) return status;
    layout->places = calloc((size_t)layout->model.unit_count * TENSOR_IDS, sizeof *layout->places);
    if (layout->places) return STATUS_OK;
    return error_set(err, STATUS_RUN, "no memory for a table of tensors");
}

void weights_layout_release(struct weights_layout *layout)
{
    model_release(&layout->model);
    free(layout->places);
    for (int f = 0; f < layout->file_count; f++) free(layout->files[f]);
    free(layout->files);
    *layout = (struct weights_layout){0};
}

struct weights_place *weights_place(const struct weights_layout *layout, int unit, int id)
{
    return &layout->places[unit * TENSOR_IDS + id];
}

/* ---- what is lent ---- */

void weights_divide(struct weights_buffers *buffers, void *lent)
{
    float *at = lent;
    *buffers = lent ? (struct weights_buffers){at, at + LINE_ELEMS, at + 2 * LINE_ELEMS} : (struct weights_buffers){0};
}

int64_t weights_strip_rows(const struct tensor *tensor, int64_t first_row)
{
    const int64_t fit = STRIP_ELEMS / tensor->columns, most = fit < LINE_ELEMS ? fit : LINE_ELEMS;
    return tensor->rows - first_row < most ? tensor->rows - first_row : most;
}

/* ---- files ---- */

/* A pipe in its place must not hold us up. */
int weights_open_file(const char *path, uint64_t *bytes, struct error *err)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(err, STATUS_INPUT, "cannot be opened: %s", strerror(errno)), -1;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) return *bytes = (uint64_t)about.st_size, fd;
    close(fd);
    return error_set(err, STATUS_INPUT, "is not a file"), -1;
}
