/* Writes one shard: values fill one of two buffers while the other is written to the disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/bytes.h"
#include "engine/base/file.h"
#include "engine/base/wire.h"
#include "engine/checkpoint/async_file.h"
#include "engine/checkpoint/crc32c.h"
#include "engine/checkpoint/folder.h"

struct checkpoint_writer {
    struct async_file file;
    struct shard_head head;
    struct bytes ranges, crcs; /* of the table, as on disk */
    unsigned char *buffers;    /* lent */
    int current;               /* buffer that is being filled */
    size_t filled;
    uint64_t begun;          /* bytes of values that are on their way or on the disk */
    struct shard_range last; /* grows while what is put follows it */
    bool failed, ended;
    char why[400]; /* it failed */
    char folder[PATH_BYTES], writing[PATH_BYTES];
};

static unsigned char *buffer(const struct checkpoint_writer *writer)
{
    return writer->buffers + writer->current * BUFFER_BYTES;
}

/* The first failure is the one that counts, and is kept for the note. */
static int fail(struct checkpoint_writer *writer, int status, struct error *err, const char *why)
{
    writer->failed = true;
    if (!*writer->why) snprintf(writer->why, sizeof writer->why, "cannot write %.200s: %.150s", writer->writing, why);
    return error_set(err, status, "%s", writer->why);
}

/* A write that extends a file waits for the disk, also if it is asynchronous (ext4). So the file gets its length first.
 * If the file system cannot do that, writing is only slower. */
static int reserve(struct checkpoint_writer *writer, uint64_t value_bytes, struct error *err)
{
    const off_t bytes = (off_t)(SHARD_HEAD_BYTES + whole_pages(value_bytes));
    if (fallocate(writer->file.fd, 0, 0, bytes) == 0) return STATUS_OK;
    return errno == ENOSPC || errno == EFBIG || errno == EDQUOT ? fail(writer, STATUS_RUN, err, strerror(errno))
                                                                : STATUS_OK;
}

int checkpoint_writer_open(struct checkpoint_writer **out, const struct checkpoint_target *target, int shard,
                           uint64_t value_bytes, struct error *err)
{
    struct checkpoint_writer *writer = calloc(1, sizeof *writer);
    struct error why;
    *out = NULL;
    if (!writer) return error_set(err, STATUS_RUN, "no memory to write a checkpoint");
    writer->head = (struct shard_head){.shard = (uint32_t)shard, .shards = (uint32_t)target->shards};
    writer->buffers = target->buffers;
    folder_partial(writer->folder, target);
    folder_shard(writer->writing, writer->folder, shard, target->shards, ".writing");
    writer->file.fd = -1;
    int status = async_file_open(&writer->file, writer->writing, true, &why);
    status = status ? error_set(err, STATUS_RUN, "cannot write %.300s: %.150s", writer->writing, why.text)
                    : reserve(writer, value_bytes, err);
    if (status) checkpoint_writer_close(writer);
    else *out = writer;
    return status;
}

uint64_t checkpoint_writer_bytes(const struct checkpoint_writer *writer)
{
    return writer->begun + writer->filled;
}

/* ---- values ---- */

static bool put_crcs(struct checkpoint_writer *writer, const unsigned char *at, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += BLOCK_BYTES) {
        uint8_t word[4];
        size_t part = bytes - done < BLOCK_BYTES ? bytes - done : BLOCK_BYTES;
        put_u32(word, crc32c(0, at + done, part));
        if (!bytes_append(&writer->crcs, word, sizeof word)) return false;
    }
    return true;
}

/* Sends the current buffer, which is full or the last, on its way; the other one is free when this returns. */
static int send(struct checkpoint_writer *writer, struct error *err)
{
    struct error why;
    size_t bytes = whole_pages(writer->filled);
    memset(buffer(writer) + writer->filled, 0, bytes - writer->filled);
    if (!put_crcs(writer, buffer(writer), bytes)) return fail(writer, STATUS_RUN, err, "no memory for its table");
    async_file_start(&writer->file, writer->current, buffer(writer), bytes, (off_t)(SHARD_HEAD_BYTES + writer->begun));
    writer->begun += writer->filled;
    writer->filled = 0;
    writer->current ^= 1;
    return async_file_wait(&writer->file, writer->current, &why) ? fail(writer, STATUS_RUN, err, why.text) : STATUS_OK;
}

static bool end_range(struct checkpoint_writer *writer)
{
    uint8_t row[RANGE_BYTES];
    if (writer->last.elems == 0) return true;
    shard_range_write(&writer->last, row);
    return bytes_append(&writer->ranges, row, sizeof row);
}

static bool add_range(struct checkpoint_writer *writer, int unit, enum state_array array, int64_t first, int64_t elems)
{
    struct shard_range *last = &writer->last;
    if (last->elems && last->unit == (uint32_t)unit && last->array == array && first == last->first + last->elems) {
        last->elems += elems;
        return true;
    }
    if (!end_range(writer)) return false;
    *last = (struct shard_range){(uint32_t)unit, array, first, elems, checkpoint_writer_bytes(writer)};
    return true;
}

int checkpoint_writer_take(struct checkpoint_writer *writer, int unit, enum state_array array, int64_t first,
                           int64_t elems, const struct state_source *source, struct error *err)
{
    struct error why;
    if (writer->failed) return error_set(err, STATUS_RUN, "%s", writer->why);
    if (!add_range(writer, unit, array, first, elems)) return fail(writer, STATUS_RUN, err, "no memory for its table");
    while (elems) {
        int64_t part = (int64_t)((BUFFER_BYTES - writer->filled) / sizeof(float));
        if (part > elems) part = elems;
        float *out = (float *)(buffer(writer) + writer->filled);
        int status = source->read(source->user, unit, array, first, part, out, &why);
        if (status) return fail(writer, status, err, why.text);
        writer->filled += (size_t)part * sizeof(float);
        first += part, elems -= part;
        if (writer->filled == BUFFER_BYTES && (status = send(writer, err))) return status;
    }
    return STATUS_OK;
}

/* ---- the end ---- */

static int write_now(struct checkpoint_writer *writer, void *at, size_t bytes, uint64_t offset, struct error *why)
{
    async_file_start(&writer->file, 0, at, bytes, (off_t)offset);
    return async_file_wait(&writer->file, 0, why);
}

static int write_table(struct checkpoint_writer *writer, struct error *why)
{
    struct shard_head *head = &writer->head;
    head->ranges = (uint32_t)(writer->ranges.count / RANGE_BYTES);
    head->blocks = (uint32_t)(writer->crcs.count / 4);
    head->value_bytes = writer->begun;
    head->table_offset = SHARD_HEAD_BYTES + whole_pages(writer->begun);
    const uint64_t bytes = shard_table_bytes(head);
    uint8_t *table = bytes ? aligned_alloc(PAGE, bytes) : NULL;
    if (bytes && !table) return error_set(why, STATUS_RUN, "no memory for its table");
    if (bytes) {
        memset(table, 0, bytes);
        if (writer->ranges.count) memcpy(table, writer->ranges.at, writer->ranges.count);
        if (writer->crcs.count) memcpy(table + writer->ranges.count, writer->crcs.at, writer->crcs.count);
    }
    head->table_crc = crc32c(0, table, bytes);
    int status = bytes ? write_now(writer, table, bytes, head->table_offset, why) : STATUS_OK;
    free(table);
    return status;
}

static int finish(struct checkpoint_writer *writer, struct error *why)
{
    char whole[PATH_BYTES];
    int status = write_table(writer, why);
    if (status) return status;
    shard_head_write(&writer->head, buffer(writer));
    status = write_now(writer, buffer(writer), SHARD_HEAD_BYTES, 0, why);
    const off_t length = (off_t)(writer->head.table_offset + shard_table_bytes(&writer->head));
    if (!status && (ftruncate(writer->file.fd, length) != 0 || fsync(writer->file.fd) != 0))
        status = error_set(why, STATUS_RUN, "%s", strerror(errno));
    if (status) return status;
    async_file_close(&writer->file);
    folder_shard(whole, writer->folder, (int)writer->head.shard, (int)writer->head.shards, "");
    if (rename(writer->writing, whole) != 0) return error_set(why, STATUS_RUN, "%s", strerror(errno));
    return STATUS_OK;
}

int checkpoint_writer_end(struct checkpoint_writer *writer, struct error *err)
{
    struct error why;
    if (writer->failed) return error_set(err, STATUS_RUN, "%s", writer->why);
    if (!end_range(writer)) return fail(writer, STATUS_RUN, err, "no memory for its table");
    int status = writer->filled ? send(writer, err) : STATUS_OK;
    for (int s = 0; s < ASYNC_FILE_SLOTS && !status; s++)
        if (async_file_wait(&writer->file, s, &why)) status = fail(writer, STATUS_RUN, err, why.text);
    if (!status && finish(writer, &why)) status = fail(writer, STATUS_RUN, err, why.text);
    writer->ended = !status;
    return status;
}

/* After the shard is removed, a full disk usually has room for the note's text; if not, the note's name alone reports the failure. */
static void leave_note(struct checkpoint_writer *writer)
{
    char failed[PATH_BYTES];
    folder_shard(failed, writer->folder, (int)writer->head.shard, (int)writer->head.shards, ".failed");
    int fd = file_create(writer->writing, 0);
    if (fd >= 0) {
        ssize_t written = write(fd, writer->why, strlen(writer->why));
        (void)written;
        close(fd);
    }
    rename(writer->writing, failed);
}

void checkpoint_writer_close(struct checkpoint_writer *writer)
{
    if (!writer) return;
    bool opened = writer->file.fd >= 0;
    async_file_release(&writer->file);
    if (writer->failed) leave_note(writer);
    else if (opened && !writer->ended) unlink(writer->writing);
    bytes_release(&writer->ranges);
    bytes_release(&writer->crcs);
    free(writer);
}
