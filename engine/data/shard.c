#include "engine/data/shard.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/wire.h"

bool shard_is(const uint8_t *bytes, size_t count)
{
    uint32_t magic = 0;
    if (count >= sizeof magic) get_u32(bytes, &magic);
    return magic == SHARD_MAGIC;
}

int shard_read(const uint8_t *head, uint64_t file_bytes, uint64_t *count, struct error *err)
{
    uint32_t version, said;
    if (!shard_is(head, (size_t)(file_bytes < 4 ? file_bytes : 4)))
        return error_set(err, STATUS_INPUT,
                         "not a token shard, which begins with %d; make shards with: zerolab data encode", SHARD_MAGIC);
    if (file_bytes < SHARD_HEAD_BYTES)
        return error_set(err, STATUS_INPUT, "a token shard cut short in its head of %d bytes", SHARD_HEAD_BYTES);
    get_u32(get_u32(head + 4, &version), &said);
    if (version != SHARD_VERSION)
        return error_set(err, STATUS_INPUT, "a token shard of version %u; version %d can be read", version,
                         SHARD_VERSION);
    uint64_t has = (file_bytes - SHARD_HEAD_BYTES) / 2;
    if (said != has || file_bytes % 2)
        return error_set(err, STATUS_INPUT, "says that it has %u tokens, its %llu bytes hold %llu; copy it again", said,
                         (unsigned long long)file_bytes, (unsigned long long)has);
    *count = said;
    return STATUS_OK;
}

struct shard_writer {
    char path[PATH_MAX], name[PATH_MAX + 32], partial[PATH_MAX + 48]; /* name: of the current shard */
    FILE *file;
    uint64_t most, written;
    int shards;
    bool folder, made_folder, ended;
};

static int failed(const struct shard_writer *writer, struct error *err)
{
    return error_set(err, STATUS_RUN, "cannot write %s: %s", writer->name, strerror(errno));
}

static int refused(const struct shard_writer *writer, const char *why, struct error *err)
{
    return error_set(err, STATUS_USAGE, "cannot write %s: %s", writer->name, why);
}

static bool put_head(FILE *file, uint64_t tokens)
{
    uint8_t head[SHARD_HEAD_BYTES] = {0};
    put_u32(put_u32(put_u32(head, SHARD_MAGIC), SHARD_VERSION), (uint32_t)tokens);
    return fseeko(file, 0, SEEK_SET) == 0 && fwrite(head, sizeof head, 1, file) == 1;
}

static void name_shard(struct shard_writer *writer, int shard)
{
    if (writer->folder) snprintf(writer->name, sizeof writer->name, "%s/tokens-%06d.bin", writer->path, shard);
    else strcpy(writer->name, writer->path);
}

static int begin_shard(struct shard_writer *writer, struct error *err)
{
    name_shard(writer, writer->shards);
    snprintf(writer->partial, sizeof writer->partial, "%s.partial", writer->name);
    writer->written = 0;
    writer->file = file_create_stream(writer->partial);
    if (!writer->file && !writer->shards) return refused(writer, strerror(errno), err);
    return writer->file && put_head(writer->file, 0) ? STATUS_OK : failed(writer, err);
}

static int end_shard(struct shard_writer *writer, struct error *err)
{
    bool good =
        put_head(writer->file, writer->written) && fflush(writer->file) == 0 && fsync(fileno(writer->file)) == 0;
    good = fclose(writer->file) == 0 && good;
    writer->file = NULL;
    if (good && rename(writer->partial, writer->name) == 0) return writer->shards++, STATUS_OK;
    int why = errno;
    unlink(writer->partial);
    errno = why;
    return failed(writer, err);
}

int shard_writer_open(struct shard_writer **out, const char *path, uint64_t most, struct error *err)
{
    struct shard_writer *writer = calloc(1, sizeof *writer);
    *out = NULL;
    if (!writer) return error_set(err, STATUS_RUN, "no memory to write tokens");
    writer->folder = most > 0;
    writer->most = most && most < SHARD_TOKENS_MAX ? most : SHARD_TOKENS_MAX;
    snprintf(writer->path, PATH_MAX, "%s", path);
    strcpy(writer->name, writer->path);
    struct stat there;
    int status = STATUS_OK;
    writer->made_folder = writer->folder && mkdir(path, 0777) == 0;
    if (writer->folder && !writer->made_folder && errno != EEXIST) status = refused(writer, strerror(errno), err);
    if (!writer->folder && stat(path, &there) == 0 && !S_ISREG(there.st_mode)) /* the file would take its place */
        status = refused(writer, S_ISDIR(there.st_mode) ? strerror(EISDIR) : "it is no file", err);
    if (!status) status = begin_shard(writer, err);
    if (status) shard_writer_close(writer);
    else *out = writer;
    return status;
}

static int put_some(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *err)
{
    uint8_t bytes[4096], *end = bytes;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= SHARD_VOCABULARY_MAX)
            return error_set(
                err, STATUS_USAGE,
                "token %d does not fit in the 16 bits that a token shard has; use a vocabulary of at most %d",
                tokens[i], SHARD_VOCABULARY_MAX);
        end = put_u16(end, (uint16_t)tokens[i]);
    }
    writer->written += count;
    return fwrite(bytes, 1, (size_t)(end - bytes), writer->file) == (size_t)(end - bytes) ? STATUS_OK
                                                                                          : failed(writer, err);
}

int shard_writer_put(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *err)
{
    while (count > 0) {
        int status = STATUS_OK;
        if (writer->written == writer->most) {
            if (!writer->folder)
                return error_set(err, STATUS_USAGE,
                                 "more than %d tokens do not fit in one shard; give --shard-tokens N and a folder",
                                 SHARD_TOKENS_MAX);
            if ((status = end_shard(writer, err)) || (status = begin_shard(writer, err))) return status;
        }
        uint64_t left = writer->most - writer->written;
        size_t part = count < 2048 ? count : 2048;
        if (part > left) part = (size_t)left;
        if ((status = put_some(writer, tokens, part, err))) return status;
        tokens += part, count -= part;
    }
    return STATUS_OK;
}

int shard_writer_end(struct shard_writer *writer, struct error *err)
{
    const int status = end_shard(writer, err);
    writer->ended = status == STATUS_OK;
    return status;
}

int shard_writer_shards(const struct shard_writer *writer)
{
    return writer->shards;
}

void shard_writer_close(struct shard_writer *writer)
{
    if (!writer) return;
    if (writer->file) {
        fclose(writer->file);
        unlink(writer->partial);
    }
    /* The shards before the one that failed would be taken for the whole text. */
    for (int shard = 0; !writer->ended && shard < writer->shards; shard++)
        name_shard(writer, shard), unlink(writer->name);
    if (!writer->ended && writer->made_folder) rmdir(writer->path);
    free(writer);
}
