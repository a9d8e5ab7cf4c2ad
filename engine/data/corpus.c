#include "engine/data/corpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/wire.h"
#include "engine/data/default_text.h"
#include "engine/data/shard.h"

static int add(struct corpus *corpus, const struct corpus_file *file, struct error *err)
{
    struct corpus_file *files = realloc(corpus->files, (corpus->count + 1) * sizeof *files);
    if (!files) return error_set(err, STATUS_RUN, "no memory for a list of %zu files", corpus->count + 1);
    corpus->files = files;
    corpus->files[corpus->count] = *file;
    corpus->files[corpus->count++].first = corpus->length;
    corpus->length += file->length;
    return STATUS_OK;
}

static int add_default(struct corpus *corpus, struct error *err)
{
    uint64_t length = (uint64_t)(default_text_end - default_text);
    if (length != DEFAULT_TEXT_BYTES || crc32(0, default_text, (uInt)length) != DEFAULT_TEXT_CRC32)
        return error_set(err, STATUS_INPUT,
                         "the built-in default text is not the frozen one; restore data/default.txt and build again");
    return add(corpus, &(struct corpus_file){.tokens = default_text, .length = length}, err);
}

static int add_mapped(struct corpus *corpus, int file, uint64_t length, struct error *err)
{
    void *map = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    if (map == MAP_FAILED) return error_set(err, STATUS_INPUT, "cannot be mapped: %m");
    struct corpus_file mapped = {.tokens = map, .length = length, .map = map, .map_bytes = length};
    int status =
        corpus->format == DATA_TOKENS ? shard_read(map, length, &mapped.tokens, &mapped.length, err) : STATUS_OK;
    if (!status) status = add(corpus, &mapped, err);
    if (status) munmap(map, length);
    return status;
}

/* O_NONBLOCK so that a pipe that lies in the folder cannot hold us up. */
static int add_file(struct corpus *corpus, int folder, const char *name, int flags, struct error *err)
{
    struct stat about;
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (file < 0) return error_set(err, STATUS_INPUT, "cannot be opened: %m");
    int status = STATUS_OK;
    if (fstat(file, &about) != 0) status = error_set(err, STATUS_INPUT, "cannot be examined: %m");
    else if (!S_ISREG(about.st_mode)) status = error_set(err, STATUS_INPUT, "neither a file nor a folder");
    else if (about.st_size > 0) status = add_mapped(corpus, file, (uint64_t)about.st_size, err);
    close(file);
    return status;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name); /* not by the locale's order, which differs between machines */
}

/* Beside shards there may be other things, a README or the vocabulary. */
static bool belongs(const struct corpus *corpus, const char *name)
{
    size_t length = strlen(name);
    return corpus->format != DATA_TOKENS || (length > 4 && strcmp(name + length - 4, ".bin") == 0);
}

static int add_folder(struct corpus *corpus, int parent, const char *name, struct error *err);

static int add_entry(struct corpus *corpus, int folder, const char *name, struct error *err)
{
    struct stat about;
    int status = STATUS_OK;
    if (fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0)
        status = error_set(err, STATUS_INPUT, "cannot be examined: %m");
    else if (S_ISDIR(about.st_mode)) status = add_folder(corpus, folder, name, err);
    else if (S_ISREG(about.st_mode) && belongs(corpus, name)) status = add_file(corpus, folder, name, O_NOFOLLOW, err);
    return status ? error_prefix(err, "%s", name) : STATUS_OK;
}

static int add_folder(struct corpus *corpus, int parent, const char *name, struct error *err)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **entries;
    int count = folder < 0 ? -1 : scandirat(folder, ".", &entries, visible, by_bytes);
    int status = count < 0 ? error_set(err, STATUS_INPUT, "cannot be listed: %m") : STATUS_OK;
    for (int e = 0; e < count; e++) {
        if (!status) status = add_entry(corpus, folder, entries[e]->d_name, err);
        free(entries[e]);
    }
    if (count >= 0) free(entries);
    if (folder >= 0) close(folder);
    return status;
}

int corpus_open(struct corpus *corpus, const char *path, enum data_format format, struct error *err)
{
    struct stat about;
    int status;
    *corpus = (struct corpus){.format = format, .width = format == DATA_TOKENS ? 2 : 1};
    if (path[0] == '\0') status = add_default(corpus, err);
    else if (stat(path, &about) != 0) status = error_set(err, STATUS_INPUT, "cannot be opened: %m");
    else if (S_ISDIR(about.st_mode)) status = add_folder(corpus, AT_FDCWD, path, err);
    else status = add_file(corpus, AT_FDCWD, path, 0, err);
    if (!status && corpus->length == 0)
        status = error_set(err, STATUS_INPUT, format == DATA_TOKENS ? "no tokens in it" : "no text in it");
    if (status) corpus_close(corpus);
    return status;
}

void corpus_close(struct corpus *corpus)
{
    for (size_t f = 0; f < corpus->count; f++)
        if (corpus->files[f].map) munmap(corpus->files[f].map, corpus->files[f].map_bytes);
    free(corpus->files);
    *corpus = (struct corpus){0};
}

/* The last file that begins at or before `at`. */
static size_t file_of(const struct corpus *corpus, uint64_t at)
{
    size_t low = 0, high = corpus->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (corpus->files[middle].first <= at) low = middle;
        else high = middle;
    }
    return low;
}

static int32_t token_at(const struct corpus *corpus, const struct corpus_file *file, uint64_t place)
{
    uint16_t token;
    if (corpus->width == 1) return file->tokens[place];
    get_u16(file->tokens + 2 * place, &token);
    return token;
}

void corpus_read(const struct corpus *corpus, uint64_t first, size_t count, int32_t *out)
{
    for (size_t f = file_of(corpus, first); count > 0; f++) {
        const struct corpus_file *file = &corpus->files[f];
        uint64_t skip = first - file->first, left = file->length - skip;
        size_t part = left < count ? (size_t)left : count;
        for (size_t i = 0; i < part; i++) out[i] = token_at(corpus, file, skip + i);
        first += part, out += part, count -= part;
    }
}

void corpus_count(const struct corpus *corpus, uint64_t end, uint64_t *counts)
{
    for (size_t f = 0; f < corpus->count && corpus->files[f].first < end; f++) {
        const struct corpus_file *file = &corpus->files[f];
        uint64_t length = file->length < end - file->first ? file->length : end - file->first;
        for (uint64_t i = 0; i < length; i++) counts[token_at(corpus, file, i)]++;
    }
}
