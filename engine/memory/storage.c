/* The files of a rank's NVMe tier: makes them, reserves their blocks, and moves spans. */
#include "engine/memory/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct file {
    char *folder;                          /* as configured */
    int fd;                                /* -1: not opened yet */
    bool cannot_reserve;                   /* the file system has no fallocate */
    uint64_t bytes;                        /* of the ranges in it */
    char buffered_because[PATH_MAX + 160]; /* "": it is read and written directly */
};

struct storage {
    struct file files[CATEGORIES];
    int file_count;
    struct file *file[CATEGORIES]; /* by category; its range begins at `start` */
    uint64_t start[CATEGORIES];
    struct aio *aio[AIO_DIRECTIONS];
    int last_errno[AIO_DIRECTIONS];
};

/* ---- files ---- */

static int refuse_folder(const char *folder, int error_number, struct error *err)
{
    const char *remedy = "set nvme_path to a folder on another disk";
    const bool misnamed = error_number == ENOENT || error_number == EACCES || error_number == EPERM ||
                          error_number == EROFS || error_number == ENOTDIR;
    switch (error_number) {
    case ENOENT: remedy = "make it (mkdir -p), or set nvme_path to one that is there"; break;
    case EACCES:
    case EPERM:
    case EROFS: remedy = "set nvme_path to a folder that you may write to"; break;
    case ENOTDIR: remedy = "set nvme_path to a folder"; break;
    case EDQUOT:
    case ENOSPC: remedy = "free some space, or set nvme_path to a folder on another disk"; break;
    default: break;
    }
    return error_set(err, misnamed ? STATUS_USAGE : STATUS_RUN, "no file for the NVMe tier in %s: %s; %s", folder,
                     strerror(error_number), remedy);
}

/* For file systems without O_TMPFILE: makes a file with a name and removes the name at once. */
static int open_named(const char *folder)
{
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%s/zerolab-nvme-XXXXXX", folder) >= (int)sizeof name)
        return errno = ENAMETOOLONG, -1;
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fd;
}

static int open_nameless(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) ? open_named(folder) : fd;
}

/* A file system may accept O_DIRECT and refuse the transfers, so this writes and reads one page. */
static bool moves_directly(int fd)
{
    void *page = aligned_alloc(AIO_ALIGN_BYTES, AIO_ALIGN_BYTES);
    if (!page) return false;
    memset(page, 0, AIO_ALIGN_BYTES);
    bool works = pwrite(fd, page, AIO_ALIGN_BYTES, 0) == AIO_ALIGN_BYTES &&
                 pread(fd, page, AIO_ALIGN_BYTES, 0) == AIO_ALIGN_BYTES;
    free(page);
    return works;
}

static void go_direct(struct file *file)
{
    const int flags = fcntl(file->fd, F_GETFL);
    if (fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0 && moves_directly(file->fd)) return;
    fcntl(file->fd, F_SETFL, flags);
    snprintf(file->buffered_because, sizeof file->buffered_because,
             "the file system of %s has no direct I/O (O_DIRECT): what lies there goes through the page cache, "
             "and its speed is not the disk's",
             file->folder);
}

static struct file *file_in(struct storage *storage, const char *folder)
{
    for (int f = 0; f < storage->file_count; f++)
        if (strcmp(storage->files[f].folder, folder) == 0) return &storage->files[f];
    struct file *file = &storage->files[storage->file_count];
    *file = (struct file){.folder = strdup(folder), .fd = -1};
    if (!file->folder) return NULL;
    storage->file_count++;
    return file;
}

/* Places the category's range after the others in the file of its folder. */
static int place_category(struct storage *storage, enum category category, const struct storage_range *range,
                          struct error *err)
{
    if (!range->folder) return STATUS_OK;
    struct file *file = file_in(storage, range->folder);
    if (!file) return error_set(err, STATUS_RUN, "no memory for the NVMe tier");
    storage->file[category] = file;
    storage->start[category] = file->bytes;
    file->bytes += (range->bytes + AIO_ALIGN_BYTES - 1) / AIO_ALIGN_BYTES * AIO_ALIGN_BYTES;
    return STATUS_OK;
}

int storage_open(struct storage **out, const struct storage_range ranges[CATEGORIES], const struct aio_options *options,
                 struct error *err)
{
    struct storage *storage = *out = calloc(1, sizeof *storage);
    if (!storage) return error_set(err, STATUS_RUN, "no memory for the NVMe tier");
    int status = STATUS_OK;
    for (int c = 0; !status && c < CATEGORIES; c++) status = place_category(storage, c, &ranges[c], err);
    for (int d = 0; !status && d < AIO_DIRECTIONS; d++) status = aio_open(&storage->aio[d], options, err);
    if (!status) return STATUS_OK;
    storage_close(storage);
    *out = NULL;
    return status;
}

void storage_close(struct storage *storage)
{
    if (!storage) return;
    for (int d = 0; d < AIO_DIRECTIONS; d++) aio_close(storage->aio[d]);
    for (int f = 0; f < storage->file_count; f++) {
        if (storage->files[f].fd >= 0) close(storage->files[f].fd);
        free(storage->files[f].folder);
    }
    free(storage);
}

int storage_use(struct storage *storage, enum category category, const char **buffered_because, struct error *err)
{
    struct file *file = storage->file[category];
    if (buffered_because) *buffered_because = NULL;
    if (file->fd >= 0) return STATUS_OK;
    file->fd = open_nameless(file->folder);
    if (file->fd < 0) return refuse_folder(file->folder, errno, err);
    go_direct(file);
    if (buffered_because && *file->buffered_because) *buffered_because = file->buffered_because;
    return STATUS_OK;
}

/* ---- blocks on the disk ---- */

static int refuse_space(const struct file *file, uint64_t wanted_bytes, int error_number, struct error *err)
{
    struct statvfs disk;
    uint64_t free_bytes = fstatvfs(file->fd, &disk) ? 0 : (uint64_t)disk.f_bavail * disk.f_frsize;
    if (error_number == EFBIG)
        return error_set(err, STATUS_RUN,
                         "the NVMe tier's file in %s cannot grow by %llu bytes: %s; raise ulimit -f, or set "
                         "nvme_path to a folder on another file system",
                         file->folder, (unsigned long long)wanted_bytes, strerror(error_number));
    return error_set(err, STATUS_RUN,
                     "the disk of %s has no %llu bytes more for the NVMe tier (%llu are free): %s; free some, or "
                     "set nvme_path to a folder on another disk",
                     file->folder, (unsigned long long)wanted_bytes, (unsigned long long)free_bytes,
                     strerror(error_number));
}

int storage_reserve(struct storage *storage, enum category category, uint64_t first, uint64_t end, struct error *err)
{
    struct file *file = storage->file[category];
    if (first == end || file->cannot_reserve) return STATUS_OK;
    int failed;
    do failed = fallocate(file->fd, 0, (off_t)(storage->start[category] + first), (off_t)(end - first));
    while (failed && errno == EINTR);
    if (!failed) return STATUS_OK;
    file->cannot_reserve = errno == EOPNOTSUPP || errno == ENOSYS;
    if (file->cannot_reserve) return STATUS_OK;
    const int error_number = errno;
    storage_discard(storage, category, first, end); /* a part may have been reserved */
    return refuse_space(file, end - first, error_number, err);
}

/* Where the file system cannot punch holes, the blocks stay until the file is closed. */
void storage_discard(struct storage *storage, enum category category, uint64_t first, uint64_t end)
{
    if (first == end) return;
    fallocate(storage->file[category]->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)(storage->start[category] + first), (off_t)(end - first));
}

/* ---- transfers ---- */

static const char *remedy_of(int error_number)
{
    switch (error_number) {
    case EDQUOT:
    case ENOSPC: return "; free some space there, or set nvme_path to a folder on another disk";
    case EIO: return "; the disk may be failing: set nvme_path to a folder on another one";
    case EINVAL: return "; the disk's blocks may be larger than 4096 bytes: set nvme_path to a folder on another one";
    default: return "";
    }
}

struct aio_span storage_span(const struct storage *storage, enum category category, uint64_t offset, void *memory,
                             uint64_t bytes)
{
    return (struct aio_span){storage->file[category]->fd, memory, storage->start[category] + offset, bytes};
}

static const struct file *file_of(const struct storage *storage, int fd)
{
    int f = 0;
    while (storage->files[f].fd != fd) f++;
    return &storage->files[f];
}

bool storage_is_direct(const struct storage *storage, const struct aio_span *spans, int count)
{
    for (int i = 0; i < count; i++)
        if (*file_of(storage, spans[i].fd)->buffered_because) return false;
    return true;
}

int storage_move(struct storage *storage, enum aio_direction direction, const struct aio_span *spans, int count,
                 struct error *err)
{
    struct error moved = {0};
    struct aio_failure failure;
    for (int i = 0; i < count; i++)
        if (((uintptr_t)spans[i].memory | spans[i].offset | spans[i].bytes) % AIO_ALIGN_BYTES)
            abort(); /* a plan's bug */
    int status = aio_move(storage->aio[direction], direction, spans, count, &failure, &moved);
    storage->last_errno[direction] = failure.error_number;
    if (!status) return STATUS_OK;
    return error_set(err, status, "the NVMe tier in %.200s: %s%s", file_of(storage, failure.fd)->folder, moved.text,
                     remedy_of(failure.error_number));
}

bool storage_was_full(const struct storage *storage, enum aio_direction direction)
{
    return storage->last_errno[direction] == ENOSPC || storage->last_errno[direction] == EDQUOT;
}

struct aio *storage_aio(const struct storage *storage, enum aio_direction direction)
{
    return storage->aio[direction];
}
