#include "engine/checkpoint/reader.h"

#include <string.h>

#include "engine/checkpoint/crc32c.h"

static void close_shard(struct reader *reader)
{
    async_file_close(&reader->file);
    reader->shard = NULL;
    reader->buffer[0].number = reader->buffer[1].number = -1;
}

void reader_lend(struct reader *reader, void *buffers)
{
    close_shard(reader);
    reader->buffers = buffers;
}

static int turn_to(struct reader *reader, const struct shard_table *shard, struct error *err)
{
    struct error why;
    reader->damaged = -1;
    if (reader->shard == shard) return STATUS_OK;
    if (!reader->buffers) return error_set(err, STATUS_RUN, "nobody lent memory to read %.300s", shard->path);
    close_shard(reader);
    if (async_file_open(&reader->file, shard->path, false, &why))
        return error_set(err, STATUS_INPUT, "cannot read %.300s: %.100s", shard->path, why.text);
    reader->shard = shard;
    return STATUS_OK;
}

static size_t bytes_of(const struct shard_table *shard, int64_t number)
{
    uint64_t all = whole_pages(shard->head.value_bytes), from = (uint64_t)number * BUFFER_BYTES;
    return all - from < BUFFER_BYTES ? (size_t)(all - from) : BUFFER_BYTES;
}

static void start(struct reader *reader, int64_t number)
{
    const int b = (int)(number % 2);
    if (reader->buffer[b].number == number || (uint64_t)number * BUFFER_BYTES >= reader->shard->head.value_bytes)
        return;
    reader->buffer[b].number = number;
    reader->buffer[b].checked = false;
    async_file_start(&reader->file, b, reader->buffers + b * BUFFER_BYTES, bytes_of(reader->shard, number),
                (off_t)(SHARD_HEAD_BYTES + (uint64_t)number * BUFFER_BYTES));
}

static int check_blocks(struct reader *reader, int64_t number, struct error *err)
{
    const struct shard_table *shard = reader->shard;
    const unsigned char *at = reader->buffers + number % 2 * BUFFER_BYTES;
    const size_t bytes = bytes_of(shard, number);
    int64_t block = number * BUFFER_BLOCKS;
    for (size_t done = 0; done < bytes; done += BLOCK_BYTES, block++) {
        size_t part = bytes - done < BLOCK_BYTES ? bytes - done : BLOCK_BYTES;
        if (crc32c(0, at + done, part) == shard->crcs[block]) continue;
        reader->damaged = block;
        return error_set(err, STATUS_INPUT, "%.300s is damaged", shard->path);
    }
    return STATUS_OK;
}

/* The stretch is in its buffer, and checked; the one after it is on its way if this one was asked for in order. */
static int need(struct reader *reader, int64_t number, struct error *err)
{
    const int b = (int)(number % 2);
    struct error why;
    if (reader->buffer[b].number == number && reader->buffer[b].checked) return STATUS_OK;
    bool in_order = number == 0 || reader->buffer[b].number == number || reader->buffer[b ^ 1].number == number - 1;
    if (reader->buffer[b].number != number) async_file_wait(&reader->file, b, NULL); /* nobody wants that any more */
    start(reader, number);
    int status = async_file_wait(&reader->file, b, &why);
    if (status) {
        reader->buffer[b].number = -1;
        return error_set(err, STATUS_INPUT, "cannot read %.300s: %.100s", reader->shard->path, why.text);
    }
    if (in_order) {
        async_file_wait(&reader->file, b ^ 1, NULL);
        start(reader, number + 1);
    }
    status = check_blocks(reader, number, err);
    if (status) reader->buffer[b].number = -1;
    else reader->buffer[b].checked = true;
    return status;
}

int reader_get(struct reader *reader, const struct shard_table *shard, uint64_t offset, size_t bytes, void *out,
               struct error *err)
{
    int status = turn_to(reader, shard, err);
    for (size_t done = 0; done < bytes && !status;) {
        const int64_t number = (int64_t)((offset + done) / BUFFER_BYTES);
        const size_t within = (size_t)((offset + done) % BUFFER_BYTES), left = BUFFER_BYTES - within;
        const size_t part = bytes - done < left ? bytes - done : left;
        status = need(reader, number, err);
        if (!status && out) memcpy((char *)out + done, reader->buffers + number % 2 * BUFFER_BYTES + within, part);
        done += part;
    }
    return status;
}
