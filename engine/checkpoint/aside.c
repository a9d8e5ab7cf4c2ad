#include "engine/checkpoint/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int aside_open(struct aside *file, const char *path, bool writes, struct error *err)
{
    const int how = O_CLOEXEC | (writes ? O_WRONLY | O_CREAT | O_EXCL : O_RDONLY);
    file->writes = writes;
    file->fd = open(path, how | O_DIRECT, 0666);
    if (file->fd < 0 && errno == EINVAL) {
        if (writes) unlink(path); /* some file systems make the file before they say no */
        file->fd = open(path, how, 0666);
    }
    if (file->fd < 0) return error_set(err, STATUS_RUN, "%s", strerror(errno));
    return STATUS_OK;
}

void aside_close(struct aside *file)
{
    if (file->fd < 0) return;
    for (int s = 0; s < ASIDE_SLOTS; s++) aside_wait(file, s, NULL);
    close(file->fd);
    file->fd = -1;
}

void aside_release(struct aside *file)
{
    aside_close(file);
    if (file->by_kernel) io_destroy(file->context);
    file->by_kernel = false;
}

static ssize_t move_now(const struct aside *file, unsigned char *at, size_t bytes, off_t offset)
{
    ssize_t moved = file->writes ? pwrite(file->fd, at, bytes, offset) : pread(file->fd, at, bytes, offset);
    return moved < 0 ? -errno : moved;
}

/* The kernel takes some 30 ms to give a context back, so there is one only from the first large piece on. */
static bool goes_by_kernel(struct aside *file, size_t bytes)
{
    enum { WORTH_BYTES = 512 << 10 };
    if (bytes < WORTH_BYTES) return false;
    if (!file->by_kernel) file->by_kernel = io_setup(ASIDE_SLOTS, &file->context) == 0;
    return file->by_kernel;
}

void aside_start(struct aside *file, int s, void *at, size_t bytes, off_t offset)
{
    struct iocb *request = &file->slot[s].request;
    file->slot[s].at = at;
    file->slot[s].bytes = bytes;
    file->slot[s].offset = offset;
    file->slot[s].pending = true;
    if (file->writes) io_prep_pwrite(request, file->fd, at, bytes, offset);
    else io_prep_pread(request, file->fd, at, bytes, offset);
    request->data = &file->slot[s];
    file->slot[s].result = -EINPROGRESS;
    if (goes_by_kernel(file, bytes) && io_submit(file->context, 1, &request) == 1) return;
    file->slot[s].result = move_now(file, at, bytes, offset);
}

bool aside_is_pending(const struct aside *file, int s)
{
    return file->slot[s].pending;
}

static void collect(struct aside *file)
{
    struct io_event event;
    if (io_getevents(file->context, 1, 1, &event, NULL) != 1) return;
    for (int s = 0; s < ASIDE_SLOTS; s++)
        if (event.data == &file->slot[s]) file->slot[s].result = (ssize_t)(long)event.res;
}

/* A piece that was moved in part goes on here: so a full disk says that it is full. */
int aside_wait(struct aside *file, int s, struct error *err)
{
    if (!file->slot[s].pending) return STATUS_OK;
    while (file->slot[s].result == -EINPROGRESS) collect(file);
    file->slot[s].pending = false;
    size_t done = 0;
    for (ssize_t moved = file->slot[s].result;;
         moved =
             move_now(file, file->slot[s].at + done, file->slot[s].bytes - done, file->slot[s].offset + (off_t)done)) {
        if (moved == -EINTR || moved == -EAGAIN) continue;
        if (moved < 0) return error_set(err, STATUS_RUN, "%s", strerror((int)-moved));
        done += (size_t)moved;
        if (done == file->slot[s].bytes) return STATUS_OK;
        if (moved == 0)
            return error_set(err, STATUS_RUN, file->writes ? "nothing more can be written" : "the file ends early");
    }
}
