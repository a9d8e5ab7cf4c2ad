#include "engine/checkpoint/retile.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What is asked for: elements [from, to) of a tensor of a wanted unit, and where the first goes. */
struct request {
    enum state_array array;
    const struct tensor *tensor;
    int64_t from, to;
    float *out;
};

static int read_kept(const struct retile *retile, const struct request *request, int unit, int64_t first, int64_t elems,
                     float *out, struct error *err)
{
    return retile->kept.read(retile->kept.user, unit, request->array, first, elems, out, err);
}

/* Rows of the same width follow each other on both sides. */
static int read_rows(struct retile *retile, const struct request *request, int unit, const struct tensor *kept,
                     struct error *err)
{
    const int64_t shift = (kept->row - request->tensor->row) * kept->columns;
    const int64_t from = most(request->from, shift), to = least(request->to, shift + kept->elems);
    if (from >= to) return STATUS_OK;
    return read_kept(retile, request, unit, kept->offset + from - shift, to - from,
                     request->out + (from - request->from), err);
}

/* Columns [column, end) of the whole tensor, of some rows that `rows` holds as they are kept, or (NULL) straight from the source. */
struct span {
    int64_t row, rows, column, end;
    const float *at;
};

static int take_row(const struct retile *retile, const struct request *request, int unit, const struct tensor *kept,
                    const struct span *span, int64_t row, struct error *err)
{
    const struct tensor *wanted = request->tensor;
    const int64_t first = row * wanted->columns + span->column - wanted->column; /* of the wanted tensor */
    const int64_t from = most(first, request->from), to = least(first + span->end - span->column, request->to);
    const int64_t skip = span->column - kept->column + (from - first);
    if (from >= to) return STATUS_OK;
    float *out = request->out + (from - request->from);
    if (!span->at)
        return read_kept(retile, request, unit, kept->offset + row * kept->columns + skip, to - from, out, err);
    memcpy(out, span->at + (row - span->row) * kept->columns + skip, (size_t)(to - from) * sizeof *out);
    return STATUS_OK;
}

/* Rows that are cut into columns on one side or both: as many at a time as the strip has room for. */
static int read_columns(struct retile *retile, const struct request *request, int unit, const struct tensor *kept,
                        struct error *err)
{
    const struct tensor *wanted = request->tensor;
    const int64_t room = most(1, RETILE_STRIP_ELEMS / kept->columns), last = (request->to - 1) / wanted->columns;
    struct span span = {.column = most(kept->column, wanted->column),
                        .end = least(kept->column + kept->columns, wanted->column + wanted->columns)};
    int status = STATUS_OK;
    for (span.row = request->from / wanted->columns; span.column < span.end && span.row <= last && !status;
         span.row += span.rows) {
        span.rows = least(room, last + 1 - span.row);
        span.at = span.rows > 1 ? retile->strip : NULL;
        if (span.at)
            status = read_kept(retile, request, unit, kept->offset + span.row * kept->columns,
                               span.rows * kept->columns, retile->strip, err);
        for (int64_t r = 0; r < span.rows && !status; r++)
            status = take_row(retile, request, unit, kept, &span, span.row + r, err);
    }
    return status;
}

static int read_tensor(struct retile *retile, const struct request *request, int block, struct error *err)
{
    const struct model *from = retile->from;
    int status = STATUS_OK;
    for (int u = block < 0 ? 0 : model_block(from, block); u < from->unit_count && !status; u++) {
        const struct unit *unit = &from->units[u];
        if (block >= 0 && unit->block != block) break;
        for (int t = 0; t < unit->tensor_count && !status; t++) {
            const struct tensor *kept = &unit->tensors[t];
            if (kept->global != request->tensor->global) continue;
            status =
                (kept->columns == request->tensor->columns ? read_rows : read_columns)(retile, request, u, kept, err);
        }
    }
    return status;
}

static int read_wanted(void *user, int u, enum state_array array, int64_t first, int64_t elems, float *out,
                       struct error *err)
{
    struct retile *retile = user;
    const struct unit *unit = &retile->wanted->units[u];
    int status = STATUS_OK;
    for (int t = 0; t < unit->tensor_count && !status; t++) {
        const struct tensor *tensor = &unit->tensors[t];
        const int64_t from = most(first, tensor->offset), to = least(first + elems, tensor->offset + tensor->elems);
        const struct request request = {array, tensor, from - tensor->offset, to - tensor->offset,
                                        out + (from - first)};
        if (from < to) status = read_tensor(retile, &request, unit->block, err);
    }
    return status;
}

static void lend(void *user, void *buffers)
{
    const struct retile *retile = user;
    retile->kept.lend(retile->kept.user, buffers);
}

void retile_source(struct retile *retile, struct state_source *source, const struct model *from,
                   const struct model *wanted)
{
    if (from->mlp_tiles == wanted->mlp_tiles) return;
    retile->kept = *source;
    retile->from = from;
    retile->wanted = wanted;
    source->user = retile;
    source->read = read_wanted;
    if (source->lend) source->lend = lend;
}
