#include "engine/data/corpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/base/file.h"
#include "engine/data/shard.h"

__asm__(".pushsection .rodata\n"
        ".global default_text, default_text_end\n"
        "default_text: .incbin \"data/default.txt\"\n"
        "default_text_end: .byte 0\n"
        ".popsection");

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
    return add(corpus, &(struct corpus_file){.fd = -1, .length = length}, err);
}

/* The file keeps `fd`, unless this fails. */
static int add_open(struct corpus *corpus, int fd, uint64_t bytes, struct error *err)
{
    struct corpus_file file = {.fd = fd, .length = bytes};
    uint8_t head[SHARD_HEAD_BYTES];
    if (corpus->format == DATA_TOKENS) {
        if (pread(fd, head, sizeof head, 0) < 0) return error_set(err, STATUS_INPUT, "cannot be read: %m");
        int status = shard_read(head, bytes, &file.length, err);
        if (status) return status;
        file.head_bytes = SHARD_HEAD_BYTES;
    }
    return add(corpus, &file, err);
}

/* O_NONBLOCK so that a pipe that lies in the folder cannot hold us up. Of many files more are open than a process may have
 * at first. */
static int open_file(int folder, const char *name, int flags)
{
    struct rlimit limit;
    const int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags, fd = openat(folder, name, how);
    if (fd >= 0 || errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return fd;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? openat(folder, name, how) : (errno = EMFILE, -1);
}

static int add_file(struct corpus *corpus, int folder, const char *name, int flags, struct error *err)
{
    struct stat about;
    int file = open_file(folder, name, flags);
    if (file < 0) return error_set(err, STATUS_INPUT, "cannot be opened: %m");
    int status = STATUS_OK;
    if (fstat(file, &about) != 0) status = error_set(err, STATUS_INPUT, "cannot be examined: %m");
    else if (!S_ISREG(about.st_mode)) status = error_set(err, STATUS_INPUT, "neither a file nor a folder");
    else if (about.st_size > 0) status = add_open(corpus, file, (uint64_t)about.st_size, err);
    if (status || about.st_size == 0) close(file);
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

static int add_folder(struct corpus *corpus, int parent, const char *name, struct error *err)
{
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **entries;
    struct stat about;
    int count = folder < 0 ? -1 : scandirat(folder, ".", &entries, visible, by_bytes);
    int status = count < 0 ? error_set(err, STATUS_INPUT, "cannot be listed: %m") : STATUS_OK;
    for (int e = 0; e < count && !status; e++) {
        const char *entry = entries[e]->d_name;
        const bool belongs = corpus->format != DATA_TOKENS || file_ends_in(entry, ".bin"); /* or is a README */
        if (fstatat(folder, entry, &about, AT_SYMLINK_NOFOLLOW) != 0)
            status = error_set(err, STATUS_INPUT, "cannot be examined: %m");
        else if (S_ISDIR(about.st_mode)) status = add_folder(corpus, folder, entry, err);
        else if (S_ISREG(about.st_mode) && belongs) status = add_file(corpus, folder, entry, O_NOFOLLOW, err);
        if (status) error_prefix(err, "%s", entry);
    }
    for (int e = 0; e < count; e++) free(entries[e]);
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
        if (corpus->files[f].fd >= 0) close(corpus->files[f].fd);
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

/* Also where reading went wrong: a file that was cut short is the likeliest reason. `got`: what pread() said. */
static int unreadable(const struct corpus_file *file, ssize_t got, struct error *err)
{
    char link[40], path[256] = "";
    struct stat about;
    const int why = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->fd);
    if (readlink(link, path, sizeof path - 1) < 0) strcpy(path, "a file of it");
    if (got < 0) return error_set(err, STATUS_INPUT, "cannot be read: %s: %s", path, strerror(why));
    return error_set(err, STATUS_INPUT, "became shorter while it was in use: %s has %lld bytes now; restore it", path,
                     fstat(file->fd, &about) == 0 ? (long long)about.st_size : 0);
}

int corpus_bytes(const struct corpus *corpus, size_t number, uint64_t at, size_t bytes, uint8_t *out, struct error *err)
{
    const struct corpus_file *file = &corpus->files[number];
    if (file->fd < 0) return memcpy(out, default_text + at, bytes), STATUS_OK;
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(file->fd, out + done, bytes - done, (off_t)(file->head_bytes + at + done));
        if (got > 0) done += (size_t)got;
        else if (got == 0 || errno != EINTR) return unreadable(file, got, err);
    }
    return STATUS_OK;
}

enum { PIECE_TOKENS = 8192 };

int corpus_read(const struct corpus *corpus, uint64_t first, size_t count, int32_t *out, struct error *err)
{
    const size_t width = (size_t)corpus->width;
    uint8_t bytes[2 * PIECE_TOKENS];
    for (size_t f = file_of(corpus, first); count > 0;) {
        const struct corpus_file *file = &corpus->files[f];
        const uint64_t skip = first - file->first, left = file->length - skip;
        size_t part = count < PIECE_TOKENS ? count : PIECE_TOKENS;
        if (part > left) part = (size_t)left;
        int status = corpus_bytes(corpus, f, skip * width, part * width, bytes, err);
        if (status) return status;
        for (size_t i = 0; i < part; i++)
            out[i] = width == 1 ? bytes[i] : (int32_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        first += part, out += part, count -= part;
        f += part == left;
    }
    return STATUS_OK;
}

int corpus_count(const struct corpus *corpus, uint64_t end, uint64_t *counts, struct error *err)
{
    int32_t tokens[PIECE_TOKENS];
    if (end > corpus->length) end = corpus->length;
    for (uint64_t at = 0; at < end;) {
        const size_t part = end - at < PIECE_TOKENS ? (size_t)(end - at) : PIECE_TOKENS;
        int status = corpus_read(corpus, at, part, tokens, err);
        if (status) return status;
        for (size_t i = 0; i < part; i++) counts[tokens[i]]++;
        at += part;
    }
    return STATUS_OK;
}
