/* llm.c's model files: 256 int32 (magic, version, context, vocabulary, layers, heads, hidden, padded vocabulary), then every
 * tensor in the order of weights.def; each tensor of a block for all blocks one after the other. Rows of zeros pad the
 * vocabulary to a multiple of 128; no program reads them. */
#include <errno.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/wire.h"
#include "engine/checkpoint/weights_parts.h"

enum { LLMC_MAGIC = 20240326, HEAD_BYTES = 1024, PAD_VOCABULARY = 128 };
enum { VERSION_F32 = 3, VERSION_BF16 = 5 };
enum { MAGIC, VERSION, CONTEXT, VOCABULARY, LAYERS, HEADS, HIDDEN, PADDED, NUMBERS };

static uint32_t number_of(const uint8_t *head, int which)
{
    uint32_t number;
    get_u32(head + 4 * which, &number);
    return number;
}

bool llmc_is(const char *path, const uint8_t first[16], uint64_t bytes)
{
    (void)path;
    return bytes >= 16 && number_of(first, MAGIC) == LLMC_MAGIC;
}

/* Gives every tensor its place. */
static void place_all(struct weights_layout *layout, int64_t padded_vocabulary)
{
    const struct model *model = &layout->model;
    const uint64_t width = (uint64_t)dtype_bytes(model->dtype);
    uint64_t offset = HEAD_BYTES;
    for (int row = 0; row < WEIGHT_ROWS; row++)
        for (int u = 0; u < model->unit_count; u++)
            for (int t = 0; t < model->units[u].tensor_count; t++) {
                const struct tensor *tensor = &model->units[u].tensors[t];
                if (tensor->id != weight_rows[row].id) continue;
                *weights_place(layout, u, tensor->id) = (struct weights_place){.dtype = model->dtype, .offset = offset};
                int64_t rows = tensor->id == TENSOR_WTE ? padded_vocabulary : tensor->rows;
                offset += (uint64_t)(rows * tensor->columns) * width;
            }
    layout->bytes = offset;
}

int llmc_read(struct weights_layout *layout, int fd, uint64_t bytes, const char *path, struct error *err)
{
    (void)path;
    uint8_t head[HEAD_BYTES];
    uint32_t number[NUMBERS];
    if (bytes < HEAD_BYTES) return error_set(err, STATUS_INPUT, "an llm.c model file, cut short in its head");
    if (file_get(fd, head, sizeof head, 0) < sizeof head)
        return error_set(err, STATUS_INPUT, "cannot be read: %s", strerror(errno));
    for (int n = 0; n < NUMBERS; n++) number[n] = number_of(head, n);
    if (number[VERSION] != VERSION_F32 && number[VERSION] != VERSION_BF16)
        return error_set(err, STATUS_INPUT,
                         "an llm.c model file of version %u; versions %d (fp32) and %d (bf16) can be read",
                         number[VERSION], VERSION_F32, VERSION_BF16);
    for (int n = CONTEXT; n < NUMBERS; n++)
        if (number[n] < 1 || number[n] > INT32_MAX)
            return error_set(err, STATUS_INPUT, "an llm.c model file whose head has %u where a size should be",
                             number[n]);
    const struct config_model shape = {.layers = (int)number[LAYERS],
                                       .hidden = (int)number[HIDDEN],
                                       .heads = (int)number[HEADS],
                                       .context = (int)number[CONTEXT],
                                       .vocabulary = (int)number[VOCABULARY]};
    int status = weights_layout_init(layout, &shape, number[VERSION] == VERSION_F32 ? DTYPE_F32 : DTYPE_BF16, err);
    if (status) return status;
    if (number[PADDED] < number[VOCABULARY] || number[PADDED] > number[VOCABULARY] + 65536)
        return error_set(err, STATUS_INPUT, "an llm.c model file that pads a vocabulary of %u to %u",
                         number[VOCABULARY], number[PADDED]);
    place_all(layout, number[PADDED]);
    if (layout->bytes == bytes) return STATUS_OK;
    return error_set(err, STATUS_INPUT, "its head says %llu bytes, it has %llu; copy it again",
                     (unsigned long long)layout->bytes, (unsigned long long)bytes);
}

int llmc_compose(struct weights_layout *layout, struct bytes *head, struct error *err)
{
    const struct config_model *shape = &layout->model.shape;
    const int padded = (shape->vocabulary + PAD_VOCABULARY - 1) / PAD_VOCABULARY * PAD_VOCABULARY;
    const uint32_t number[NUMBERS] = {
        [MAGIC] = LLMC_MAGIC,
        [VERSION] = layout->model.dtype == DTYPE_F32 ? VERSION_F32 : VERSION_BF16,
        [CONTEXT] = (uint32_t)shape->context,
        [VOCABULARY] = (uint32_t)shape->vocabulary,
        [LAYERS] = (uint32_t)shape->layers,
        [HEADS] = (uint32_t)shape->heads,
        [HIDDEN] = (uint32_t)shape->hidden,
        [PADDED] = (uint32_t)padded,
    };
    if (!bytes_reserve(head, HEAD_BYTES)) return error_set(err, STATUS_RUN, "no memory for the head of a file");
    memset(head->at, 0, HEAD_BYTES);
    for (int n = 0; n < NUMBERS; n++) put_u32(head->at + 4 * n, number[n]);
    head->count = HEAD_BYTES;
    place_all(layout, padded);
    return STATUS_OK;
}
